# SPDX-License-Identifier: Apache-2.0

"""Friction that pushes: F(v) sign(v) < 0 somewhere from standstill to a joint's speed limit.

No real friction does. A model that was fitted without that condition may have such a law, and a torque that is fed
forward by it drives the robot faster and faster.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.parameters import OFF, by_joint
from ros2_dynid.model.robot import Array, Robot

UNLIMITED = 2.0 * np.pi
"""Speed up to which a joint without a speed limit is looked at [rad/s or m/s]: a turn a second."""
SPEEDS = np.concatenate((np.geomspace(1e-4, 0.1, 20), np.linspace(0.1, 1.0, 41)[1:]))
"""Speeds looked at, as shares of the limit: sticking joints are slow, and laws are smooth beyond."""
ROUNDING = 1e-6
"""Friction that pushes by less, as a share of the joint's largest torque, is a solver's zero."""


def pushing_speeds(robot: Robot, chi: Array) -> dict[str, float]:
    """Return, by name, the joints that friction pushes, each with the speed [rad/s or m/s] at which it does most.

    chi: standard parameters (n_standard,). Each joint moves alone, in both directions, drives as warm as T0; gears that
    carry more only brake more.
    """
    centred = chi.copy()
    by_joint(robot, centred)[:, OFF] = 0.0
    pushing = {}
    for k, joint in enumerate(robot.active):
        limit = robot.joints[joint - 1].limits.velocity
        v = SPEEDS * (limit if np.isfinite(limit) and limit > 0.0 else UNLIMITED)
        dq = np.zeros((2 * len(v), len(robot.active)))
        dq[:, k] = np.concatenate((v, -v))
        still = np.zeros_like(dq)
        torque = inverse_dynamics(robot, centred, still, dq, still)[:, k]
        friction = torque - inverse_dynamics(*frictionless(robot, centred), still, dq, still)[:, k]
        braking = friction * np.sign(dq[:, k])
        worst = int(np.argmin(braking))
        if braking[worst] < -ROUNDING * max(np.abs(braking).max(), np.abs(torque).max()):
            pushing[robot.joints[joint - 1].name] = abs(float(dq[worst, k]))
    return pushing


def pushing_text(pushing: dict[str, float]) -> str:
    """Return in words which joints friction pushes."""
    joints = ", ".join(f"{name} (at {speed:.2g} rad/s or m/s)" for name, speed in pushing.items())
    return f"the friction of {joints} pushes instead of braking"
