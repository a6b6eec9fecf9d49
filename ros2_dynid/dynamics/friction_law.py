# SPDX-License-Identifier: Apache-2.0

"""A joint's whole friction law: where it pushes, what it is at a temperature, and the nearest plain one.

Friction that pushes: F(v) sign(v) < 0 somewhere from standstill to a joint's speed limit. No real friction does. A
model that was fitted without that condition may have such a law, and a torque that is fed forward by it drives the
robot faster and faster.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.dynamics.friction import (
    active_terms,
    frictionless,
    term_column,
)
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import JOINT, OFF, Fc, Fv, by_joint
from ros2_dynid.model.robot import Array, Robot

UNLIMITED = 2.0 * np.pi
"""Speed up to which a joint without a speed limit is looked at [rad/s or m/s]: a turn a second."""
SPEEDS = np.concatenate((np.geomspace(1e-4, 0.1, 20), np.linspace(0.1, 1.0, 41)[1:]))
"""Speeds looked at, as shares of the limit: sticking joints are slow, and laws are smooth beyond."""
POSES = 8
"""Poses looked at where friction changes with them."""
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
    n = len(robot.active)
    # friction of passive joints in closed loops changes with the pose
    poses = np.zeros((1, n)) if robot.loops is None else random_positions(robot, np.random.default_rng(0), POSES, np.pi)
    for k, joint in enumerate(robot.active):
        limit = robot.joints[joint - 1].limits.velocity
        v = SPEEDS * (limit if np.isfinite(limit) and limit > 0.0 else UNLIMITED)
        dq = np.zeros((2 * len(v), len(robot.active)))
        dq[:, k] = np.concatenate((v, -v))
        dq = np.tile(dq, (len(poses), 1))
        q, still = np.repeat(poses, 2 * len(v), axis=0), np.zeros_like(dq)
        torque = inverse_dynamics(robot, centred, q, dq, still)[:, k]
        friction = torque - inverse_dynamics(*frictionless(robot, centred), q, dq, still)[:, k]
        braking = friction * np.sign(dq[:, k])
        worst = int(np.argmin(braking))
        if braking[worst] < -ROUNDING * max(np.abs(braking).max(), np.abs(torque).max()):
            pushing[robot.joints[joint - 1].name] = abs(float(dq[worst, k]))
    return pushing


def pushing_text(pushing: dict[str, float]) -> str:
    """Return in words which joints friction pushes."""
    joints = ", ".join(f"{name} (at {speed:.2g} rad/s or m/s)" for name, speed in pushing.items())
    return f"the friction of {joints} drives the motion instead of braking it"


def references(robot: Robot) -> dict[int, float]:
    """Return T0 [deg C] of the active joints whose friction changes with the temperature, by their place."""
    return {place: term.reference for place, term in active_terms(robot, robot.friction) if term.kind.thermal}


def at_temperature(robot: Robot, chi: Array, temperature: Array) -> tuple[Robot, Array]:
    """Return the robot without terms of the temperature, and chi, shape (n_standard,), with Fc + Ft (T - T0), Fv alike.

    temperature: of the drives, shape (n_active,) [deg C]; NaN: not known, and taken as T0. Neither Fc nor Fv falls
    below zero, where the line would lead far from the temperatures recorded: friction does not push.
    """
    if temperature.shape != (len(robot.active),):
        what = f"{temperature.size} temperatures for {len(robot.active)} joints"
        raise InputError(what, "give one for each joint", robot.name)
    chi = chi.copy()
    drives = by_joint(robot, chi)
    for place, term in active_terms(robot, [term for term in robot.friction if term.kind.thermal]):
        if np.isfinite(temperature[place]):
            column = Fv if term.kind.viscous else Fc
            cold = drives[term.joint - 1, column]
            warm = cold + term.coefficient * (temperature[place] - term.reference)
            drives[term.joint - 1, column] = max(warm, min(cold, 0.0))
    return replace(robot, friction=tuple(term for term in robot.friction if not term.kind.thermal)), chi


SLOWEST = 0.05
"""Slowest speed that is fitted, as a share of the top speed: the sign is not known below."""


def nearest_plain(robot: Robot, chi: Array, speed: Array, load: Array) -> Array:
    """Return chi with the Fv and Fc that come closest to the laws of joints with further terms, both not negative.

    speed, shape (n_active,): the law is fitted, by least squares, at even steps up to this speed in both directions;
    load, shape (n_active,): torque that the gear carries [N.m or N].
    """
    plain_chi = chi.copy()
    terms = active_terms(robot, robot.friction)
    for k in sorted({k for k, _ in terms}):
        j = robot.active[k] - 1
        half = np.linspace(SLOWEST, 1.0, 40) * speed[k]
        v = np.concatenate((-half[::-1], half))
        sign, gear_torque = np.sign(v), np.full_like(v, load[k])
        law = chi[JOINT * j + Fv] * v + chi[JOINT * j + Fc] * sign
        for column, term in terms:
            if column == k:
                law = law + term.coefficient * term_column(term, v, sign, gear_torque)
        best: tuple[float, Array] | None = None
        for columns in ((0, 1), (0,), (1,), ()):
            A = np.column_stack((v, sign))[:, columns]
            value = np.zeros(2)
            value[list(columns)] = np.linalg.lstsq(A, law, rcond=None)[0] if columns else 0.0
            error = float(np.linalg.norm(law - value[0] * v - value[1] * sign))
            if np.all(value >= 0.0) and (best is None or error < best[0]):
                best = error, value
        assert best is not None
        plain_chi[JOINT * j + Fv], plain_chi[JOINT * j + Fc] = best[1]
    return plain_chi
