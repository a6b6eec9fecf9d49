"""Stopping within the limits: every joint slows down with constant deceleration and then holds its position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.model.robot import Array, Robot

SHORTEST = 0.02
"""Shortest stop [s]: a joint trajectory controller needs a point in the future even for a robot at rest."""
GRID = 1e-3
"""Times of the points are multiples of this [s]."""


def stopping(
    joint_names: Sequence[str], q: Array, dq: Array, deceleration: Array, lead: float = 0.0, step: float = 0.01
) -> Reference:
    """Return the trajectory that brings joints at q, dq, shape (n,), to rest with |ddq| = deceleration, shape (n,).

    lead: time [s] that the joints still move on at dq before the stop can take effect (transport). Each joint stops on
    its own, dq^2 / (2 deceleration) further on, so none is made to move longer than it needs; in whole milliseconds,
    since points that nearly coincide have no exact cubic between them. Points every `step` [s] and where a joint stops,
    positions and velocities only: the cubic through them is the parabola itself.
    """
    braking = np.ceil(np.abs(dq) / deceleration / GRID - 1e-9) * GRID
    deceleration = np.divide(np.abs(dq), braking, out=np.array(deceleration, dtype=float), where=braking > 0)
    end = max(float(braking.max()), SHORTEST)
    t = np.unique(np.round(np.concatenate((np.arange(0.0, end, step), braking, [end])) / GRID)) * GRID
    s = np.minimum(t[:, None], braking)
    positions = q + lead * dq + s * dq - 0.5 * np.sign(dq) * deceleration * s**2
    velocities = dq - np.sign(dq) * deceleration * s
    velocities[-1] = 0.0
    return reference(joint_names, t + max(lead, 1e-3), positions, velocities)


def deceleration_limits(robot: Robot, fallback: float) -> Array:
    """Return the deceleration to stop with, shape (n_active,): the joint's acceleration limit, or `fallback`."""
    limits = np.array([robot.joints[j - 1].limits.acceleration for j in robot.active])
    return np.where(np.isfinite(limits) & (limits > 0), limits, fallback)


def approach(joint_names: Sequence[str], q_from: Array, q_to: Array, velocity: Array, acceleration: Array) -> Reference:
    """Return a move from rest at q_from to rest at q_to, shape (n,), as quick as velocity and acceleration allow.

    The quintic's peak velocity is 15/8 of the mean one, its peak acceleration 10 / sqrt(3) of distance / T^2.
    """
    distance = np.abs(q_to - q_from)
    T = max(float(np.max(1.875 * distance / velocity)), float(np.max(np.sqrt(5.7735 * distance / acceleration))), 0.1)
    return quintic(joint_names, q_from, q_to, T)


def quintic(joint_names: Sequence[str], q_from: Array, q_to: Array, T: float, points: int = 50) -> Reference:
    """Return the move from rest at q_from to rest at q_to, shape (n,), in T [s]: 10 x^3 - 15 x^4 + 6 x^5, x = t / T."""
    x = np.linspace(0.0, 1.0, points)[:, None]
    D = q_to - q_from
    q = q_from + D * (10 * x**3 - 15 * x**4 + 6 * x**5)
    dq = D * (30 * x**2 - 60 * x**3 + 30 * x**4) / T
    ddq = D * (60 * x - 180 * x**2 + 120 * x**3) / T**2
    return reference(joint_names, x[:, 0] * T, q, dq, ddq)
