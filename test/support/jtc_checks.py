# SPDX-License-Identifier: Apache-2.0

"""What joint_trajectory_controller asks of a trajectory before it takes it (its validate_trajectory_msg, in words)."""

from __future__ import annotations

import itertools


def refusal(message, joints, now, *, effort_interface=False):
    """Return why a controller of `joints` would refuse the message at time `now` [s], or nothing ("")."""
    names, points = list(message.joint_names), message.points
    if len(names) != len(joints) or set(names) != set(joints):
        return f"joints {names}"
    if not points:
        return "no points"
    times = [point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in points]
    start = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
    if start and start + times[-1] < now:
        return "it ends in the past"
    if any(later <= earlier for earlier, later in itertools.pairwise(times)):
        return "times do not increase"
    for point in points:
        if len(point.positions) != len(names):
            return "positions"
        if any(len(values) not in (0, len(names)) for values in (point.velocities, point.accelerations)):
            return "velocities or accelerations"
        if len(point.effort) and not effort_interface:
            return "effort without an effort command interface"
    if len(points[-1].velocities) and any(abs(speed) > 1e-9 for speed in points[-1].velocities):
        return "it does not end at rest"
    return ""
