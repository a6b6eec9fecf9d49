# SPDX-License-Identifier: Apache-2.0

"""A motion that was checked before it is sent: the way to the start of a trajectory, and the trajectory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.motion_gate import ApprovedTrajectory
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.control.stop import approach_reference, motion_extent, start_time
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array, Robot


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
