# SPDX-License-Identifier: Apache-2.0

"""Rest on a path and go on: a pause slows down along the trajectory that was checked, and leaves it nowhere.

The trajectory q(s) is run with s(t): ds/dt falls from 1 to 0, or rises from 0 to 1, as 3 x^2 - 2 x^3 with x = t / T, on
T / 2 of the trajectory's own time. T is the first one for which the limits are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.motion_gate import ApprovedStop, ApprovedTrajectory
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.control.stop import DENSE, GRID, speed_up, start_time
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array

TIMES = (0.2, 0.3, 0.45, 0.7, 1.0, 1.4, 2.0)
"""Times T [s] that are tried. Who pauses does not wait for longer: then the robot is stopped instead."""


@dataclass(frozen=True, eq=False)
class PathStop:
    """A stop on a trajectory, and the trajectory's time [s] at which it rests."""

    stop: ApprovedStop
    rest_at: float


@dataclass(frozen=True, eq=False)
class Paused:
    """A motion that rests at a time [s] of its trajectory; `part` is a name for the owner."""

    points: Reference
    rest_at: float
    part: object

    @property
    def remaining(self) -> float:
        """Time [s] of the trajectory that is still to come."""
        return max(self.points.duration - self.rest_at, 0.0)


@dataclass(frozen=True, eq=False)
class ResumedMotion:
    """The rest of a paused motion, checked; stops: how many there had been when it was prepared."""

    paused: Paused
    run: ApprovedTrajectory
    stops: int


def stop_on_path(
    path: Reference, s: float, limits: MotionLimits, settings: MotionSettings, error: Array
) -> PathStop | None:
    """Return the stop from time s [s] of the path, which holds now; None if none of TIMES keeps the limits.

    error, shape (n,): how far the robot is from the path. No point comes before a controller that is off by it, or that
    takes the stop up to a lead too early or late, can be back on the path slowly.
    """
    lead = max(settings.lead, GRID)
    dq = path.at(s)[1]
    back = start_time(limits, float(np.max(error + np.abs(dq) * lead)), settings.approach_speed)
    for T in TIMES:
        if back > T:
            continue
        first = max(back, DENSE)
        t = np.append(np.arange(first, T - 0.5 * DENSE, DENSE), T)
        q, dq, ddq = slowed(path, s + lead, t, T)
        now, begun = path.at(s), path.at(s + lead)
        expected = reference(
            path.joint_names,
            np.concatenate(([0.0, lead], lead + t)),
            np.vstack((now[0], begun[0], q)),
            np.vstack((now[1], begun[1], dq)),
            np.vstack((now[2], begun[2], ddq)),
        )
        try:
            stop = ApprovedStop(reference(path.joint_names, t, q, dq, ddq), expected, limits)
        except InputError:
            continue
        return PathStop(stop, min(s + lead + 0.5 * T, path.duration))
    return None


def resumed_motion(paused: Paused, limits: MotionLimits, settings: MotionSettings, stops: int = 0) -> ResumedMotion:
    """Return the way from rest at the pause along the rest of the path, checked and ready to be sent."""
    path, s, names = paused.points, paused.rest_at, paused.points.joint_names
    ahead = start_time(limits, settings.tracking, settings.approach_speed)
    problem: InputError | None = None
    for T in TIMES:
        ramp = np.linspace(0.0, T, max(int(np.ceil(T / DENSE)), 2) + 1)
        later = path.t[path.t > s + 0.5 * T + GRID]
        t = np.concatenate((ramp, later - (s + 0.5 * T) + T))
        rows = [hastened(path, s, ramp, T), path.sampled(later) if len(later) else None]
        q, dq, ddq = (np.vstack(parts) for parts in zip(*(row for row in rows if row is not None), strict=True))
        dq[-1] = 0.0
        try:
            run = ApprovedTrajectory(reference(names, t, q, dq, ddq).shifted(ahead), limits)
        except InputError as error:
            problem = error
            continue
        return ResumedMotion(paused, run, stops)
    assert problem is not None
    raise problem


def slowed(path: Reference, s: float, t: Array, T: float) -> tuple[Array, Array, Array]:
    """Return q, dq, ddq, shape (N, n), at t, shape (N,) [s], of a run of the path that slows to rest from time s on."""
    way, rise, steep = speed_up(t / T)
    return _run(path, s + t - T * way, 1 - rise, -steep / T)


def hastened(path: Reference, s: float, t: Array, T: float) -> tuple[Array, Array, Array]:
    """Return q, dq, ddq, shape (N, n), at t, shape (N,) [s], of a run that begins at rest at time s of the path."""
    way, rise, steep = speed_up(t / T)
    return _run(path, s + T * way, rise, steep / T)


def _run(path: Reference, s: Array, ds: Array, dds: Array) -> tuple[Array, Array, Array]:
    """Return q(s), q'(s) ds/dt and q''(s) (ds/dt)^2 + q'(s) d2s/dt2."""
    q, first, second = path.sampled(s)
    return q, first * ds[:, None], second * ds[:, None] ** 2 + first * dds[:, None]
