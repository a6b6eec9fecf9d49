# SPDX-License-Identifier: Apache-2.0

"""A motion that was checked before it is sent: the way to a trajectory and the trajectory, or a jog of one joint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.motion_gate import ApprovedTrajectory
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.control.stop import GRID, approach_reference, motion_extent, speed_up, start_time
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array, Robot

JOG_SPEED = 0.1
"""Share of its velocity limit at which a joint is jogged: slow enough to let go in time."""
JOG_SECONDS = 5.0
"""Longest motion [s] of one joint that is sent at once: if this node dies and no guard runs, it ends by itself."""
JOG_STEP = 0.01
"""Distance [rad or m] of the places at which the way is looked at."""
LEAST_JOG = 1e-3
"""Shortest way [rad or m] that is worth a motion."""


@dataclass(frozen=True, eq=False)
class CheckedMotion:
    """A motion that was checked: the way to the start from q, shape (n,), and the trajectory, called `name`.

    stops: how many there had been when it was prepared: one that came meanwhile holds. extent: its least and largest
    positions, shape (n,) each.
    """

    name: str
    robot: Robot
    q: Array
    way: ApprovedTrajectory
    run: ApprovedTrajectory
    stops: int
    extent: tuple[Array, Array]


def checked_motion(
    name: str,
    robot: Robot,
    run: Reference,
    q: Array,
    settings: MotionSettings,
    limits: MotionLimits,
    stops: int = 0,
    check: Callable[[Array], None] | None = None,
) -> CheckedMotion:
    """Return the motion from q, shape (n,), to the start of `run` and along it, checked and ready to be sent.

    check: gets the positions on the way to the start, shape (N, n), and raises to refuse it. Both parts begin at rest
    with a first point so far ahead that a controller which is off by the tracking tolerance gets there slowly.
    """
    run = run.ordered(robot.active_names)
    if not np.all(np.isfinite(q)):
        raise InputError("there are no joint states of all joints", "check the topic joint_states")
    outside = np.maximum(limits.lower - q, q - limits.upper)
    if np.any(outside > settings.overshoot):
        j = int(np.argmax(outside))
        raise InputError(f"joint {robot.active_names[j]!r} is {outside[j]:.3g} outside of its limits", "move it inside")
    share = settings.approach_speed
    way = approach_reference(robot.active_names, q, run.q[0], share * limits.velocity, share * limits.acceleration)
    if check is not None:
        check(way.q)
    ahead = start_time(limits, settings.tracking, share)
    ends = [0, len(way.t) - 1]  # a quintic between its ends is the way itself
    assert way.dq is not None and way.ddq is not None
    whole = reference(way.joint_names, way.t[ends] + ahead, way.q[ends], way.dq[ends], way.ddq[ends])
    way_there, along = ApprovedTrajectory(whole, limits, q), ApprovedTrajectory(run.shifted(ahead), limits)
    return CheckedMotion(name, robot, q, way_there, along, stops, motion_extent(whole, run))


@dataclass(frozen=True, eq=False)
class JogMotion:
    """A slow motion of one joint from q, shape (n,), that was checked; direction: 1 or -1; see CheckedMotion."""

    joint: str
    direction: int
    robot: Robot
    q: Array
    way: ApprovedTrajectory
    stops: int
    extent: tuple[Array, Array]

    @property
    def name(self) -> str:
        """What is announced."""
        return "jogging"


def jog_motion(
    robot: Robot,
    joint: str,
    direction: int,
    q: Array,
    settings: MotionSettings,
    limits: MotionLimits,
    stops: int = 0,
    free: Callable[[Array], int] | None = None,
) -> JogMotion:
    """Return the motion of one joint from q, shape (n,), as far as it may go and as JOG_SECONDS lead it.

    free: gets the positions on the way, shape (N, n), and returns how many of them, from the first on, keep clear.
    """
    if joint not in limits.joint_names:
        raise InputError(f"there is no joint {joint!r}", f"the robot's joints are {', '.join(limits.joint_names)}")
    if direction not in (-1, 1):
        raise InputError(f"a jog in the direction {direction}", "give 1 or -1")
    j = limits.joint_names.index(joint)
    speed, acceleration = JOG_SPEED * limits.velocity[j], settings.approach_speed * limits.acceleration[j]
    room = direction * ((limits.upper if direction > 0 else limits.lower)[j] - q[j])
    length = min(room, speed * JOG_SECONDS)
    if length < LEAST_JOG:
        raise InputError(f"joint {joint!r} is at its limit", "jog it the other way")
    steps = np.linspace(0.0, length, int(np.ceil(length / JOG_STEP)) + 1)
    ends = q + direction * steps[:, None] * np.eye(len(q))[j]
    clear = len(ends) if free is None else free(ends)
    if clear < 2 or steps[clear - 1] < LEAST_JOG:
        raise InputError(f"joint {joint!r} would come too close to something", "jog it the other way")
    way = jog_reference(limits.joint_names, j, q, ends[clear - 1], speed, acceleration)
    ahead = start_time(limits, settings.tracking, 1.0)  # soon: somebody holds a button
    approved = ApprovedTrajectory(way.shifted(ahead), limits, q)
    return JogMotion(joint, direction, robot, q, approved, stops, motion_extent(way, way))


def jog_reference(
    names: tuple[str, ...], j: int, q_from: Array, q_to: Array, speed: float, acceleration: float
) -> Reference:
    """Return the move of joint j from rest to rest, at a constant speed in between; positions of shape (n,).

    It speeds up and slows down as 3 x^2 - 2 x^3, whose steepest acceleration is 1.5 speed / T, on speed T / 2.
    """
    way = float(abs(q_to[j] - q_from[j]))
    T = 1.5 * speed / acceleration
    if speed * T > way:
        T = float(np.sqrt(1.5 * way / acceleration))
        speed = way / T
    cruise = (way - speed * T) / speed
    x, after = np.linspace(0.0, 1.0, 5), slice(0 if cruise > GRID else 1, None)
    t = np.concatenate((T * x, T + cruise + T * x[after]))
    way_up, rise, steep = speed_up(x)
    up, down = speed * T * way_up, speed * T * (x - way_up)
    rise, fall, steep = speed * rise, speed * (1 - rise), speed * steep / T
    s = np.concatenate((up, up[-1] + speed * cruise + down[after]))
    columns = (s, np.concatenate((rise, fall[after])), np.concatenate((steep, -steep[after])))
    side = np.sign(q_to[j] - q_from[j]) * np.eye(len(q_from))[j]
    q, dq, ddq = (column[:, None] * side for column in columns)
    return reference(names, t, q_from + q, dq, ddq)
