"""What a motion may do, joint by joint, and the settings of who moves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array, Robot

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

    def not_beyond(self, q: Array, start: Array) -> Array:
        """Return positions q, shape (n,), reached from `start`, held at a limit unless that lies beyond it already."""
        inside: Array = np.clip(q, np.minimum(self.lower, start), np.maximum(self.upper, start))
        return inside


def motion_limits(robot: Robot, settings: MotionSettings) -> MotionLimits:
    """Return the limits of the robot's active joints; a joint without a position or velocity limit is refused."""
    own = [robot.joints[j - 1].limits for j in robot.active]
    lower, upper, velocity, acceleration = (
        np.array([getattr(limit, kind) for limit in own], dtype=float)
        for kind in ("lower", "upper", "velocity", "acceleration")
    )
    for kind, known in (
        ("position", np.isfinite(lower) & np.isfinite(upper)),
        ("velocity", np.isfinite(velocity) & (velocity > 0)),
    ):
        if not known.all():
            raise InputError(
                f"joint {robot.active_names[int(np.argmin(known))]!r} has no {kind} limit",
                "add it to the URDF or the robot file: nothing is moved without limits",
                robot.name,
            )
    known = np.isfinite(acceleration) & (acceleration > 0)
    deceleration = np.where(known, acceleration, settings.deceleration)
    acceleration = np.where(known, acceleration, np.maximum(velocity / SPEED_UP_TIME_S, settings.deceleration))
    return MotionLimits(robot.active_names, lower, upper, velocity, acceleration, deceleration)
