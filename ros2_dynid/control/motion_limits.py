# SPDX-License-Identifier: Apache-2.0

"""What a motion may do, joint by joint, and the settings of who moves it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

SPEED_UP_TIME_S = 0.5
"""Where no acceleration limit is known, full speed is reached in this time [s], as planning assumes."""


@dataclass(frozen=True)
class MotionSettings:
    """How to move and what is still right; times [s].

    tracking: largest tracking error [rad or m]; stale: longest silence of joint states; overshoot: how far a position
    [rad or m] may leave its limits, and a velocity exceed its limit as a share, since sensors are noisy and a
    trajectory may lead right up to a limit; approach_speed: share of the limits; settle: rest before the trajectory;
    deceleration [rad/s^2 or m/s^2]: of joints without an acceleration limit; lead: expected time from sending to the
    controller's first step along what was sent; delay: trajectories but for stops are stamped this far ahead, 0: they
    start on arrival.
    """

    tracking: float = 0.2
    stale: float = 0.1
    overshoot: float = 0.05
    approach_speed: float = 0.3
    settle: float = 0.5
    deceleration: float = 5.0
    lead: float = 0.01
    delay: float = 0.0


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Limits of the joints named, each of shape (n,): position, velocity, acceleration; deceleration of a stop."""

    joint_names: tuple[str, ...]
    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    deceleration: Array

    def reaching(self, q: Array, dq: Array | None = None) -> MotionLimits:
        """Return limits that reach to a state q, dq, shape (n,), beyond them, so that the robot may come back."""
        velocity = self.velocity if dq is None else np.maximum(self.velocity, np.abs(dq))
        return replace(self, lower=np.minimum(self.lower, q), upper=np.maximum(self.upper, q), velocity=velocity)

    def not_beyond(self, q: Array, start: Array) -> Array:
        """Return positions q, shape (n,), reached from `start`, held at a limit unless that lies beyond it already."""
        inside: Array = np.clip(q, np.minimum(self.lower, start), np.maximum(self.upper, start))
        return inside


def known_limits(*robots: Robot, deceleration: float = 5.0) -> MotionLimits:
    """Return the limits of the active joints, each of the first of these robots that has one; infinite where none has.

    The robots have the same joints. deceleration: of a stop [rad/s^2 or m/s^2] where no acceleration limit is known.
    """
    own = [[robot.joints[j - 1].limits for j in robot.active] for robot in robots]

    def known(kind: str, missing: float) -> Array:
        limit_values = np.full(len(own[0]), missing)
        for limits in reversed(own):
            values = np.array([getattr(limit, kind) for limit in limits], dtype=float)
            usable = np.isfinite(values) & ((values > 0) | (kind in ("lower", "upper")))
            limit_values = np.where(usable, values, limit_values)
        return limit_values

    acceleration = known("acceleration", np.inf)
    return MotionLimits(
        robots[0].active_names,
        known("lower", -np.inf),
        known("upper", np.inf),
        known("velocity", np.inf),
        acceleration,
        np.where(np.isfinite(acceleration), acceleration, deceleration),
    )


def motion_limits(robot: Robot, settings: MotionSettings) -> MotionLimits:
    """Return the limits of the robot's active joints; a joint without a position or velocity limit is refused."""
    limits = known_limits(robot, deceleration=settings.deceleration)
    for kind, known in (
        ("position", np.isfinite(limits.lower) & np.isfinite(limits.upper)),
        ("velocity", np.isfinite(limits.velocity)),
    ):
        if not known.all():
            raise InputError(
                f"joint {robot.active_names[int(np.argmin(known))]!r} has no {kind} limit",
                "add it to the URDF or the robot file: nothing is moved without limits",
                robot.name,
            )
    assumed = np.maximum(limits.velocity / SPEED_UP_TIME_S, settings.deceleration)
    return replace(limits, acceleration=np.where(np.isfinite(limits.acceleration), limits.acceleration, assumed))


def fastest_joint(robot: Robot, dq: Array) -> str:
    """Return in words which joint is the fastest, and how fast: dq, shape (n,); those that are no number are slow."""
    speeds = np.nan_to_num(np.abs(dq))
    k = int(np.argmax(speeds))
    unit = "m/s" if robot.joints[robot.active[k] - 1].sigma == PRISMATIC else "rad/s"
    return f"joint {robot.active_names[k]!r} moves at {speeds[k]:.2g} {unit}"
