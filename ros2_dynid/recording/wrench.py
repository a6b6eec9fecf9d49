# SPDX-License-Identifier: Apache-2.0

"""Wrenches of a force-torque sensor beside the joint states: geometry_msgs/WrenchStamped of a bag, columns of a table.

A table names them PREFIX.force.x ... PREFIX.torque.z (or PREFIX.fx ... PREFIX.tz); an npz file has an array of shape
(N, 6) by that name, beside `t`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import Reading
from ros2_dynid.recording.vectors import MessageKind, Vectors, is_file_of_columns, read_columns, read_messages

WRENCH = MessageKind("geometry_msgs/msg/WrenchStamped", 6)
AXES = ("force.x", "force.y", "force.z", "torque.x", "torque.y", "torque.z")
SHORT = ("fx", "fy", "fz", "tx", "ty", "tz")
LEAST = 16
"""Wrenches that a recording has at least."""


@dataclass(frozen=True, eq=False)
class Wrenches:
    """Force [N] and torque [N.m] in the sensor's frame, w of shape (N, 6), at increasing times t (N,) [s].

    t counts as the joint states' time of the same recording does; frame: what the messages call the sensor's frame.
    """

    t: Array
    w: Array
    frame: str = ""


def read_wrenches(path: str | Path, topic: str, start_ns: int, reading: Reading | None = None) -> Wrenches:
    """Return the wrenches on `topic` of a bag, or in the columns `topic` of a table.

    start_ns: stamp of the joint states' time 0; reading: stamps, columns, rate and cut in time, unit of a table's time.
    """
    reading, path = reading or Reading(), Path(path)
    found: Vectors | None
    if is_file_of_columns(path):
        found = read_columns(path, topic, (AXES, SHORT), reading, start_ns)
        if found is None:
            expected = f"time, {topic}.{AXES[0]} ... {topic}.{AXES[-1]}"
            if path.suffix.lower() == ".npz":
                expected = f"an array {topic!r} of shape (N, 6), and t"
            raise InputError(f"wrench columns are missing: {expected}", "name their prefix", str(path))
    else:
        found = read_messages(path, topic, (WRENCH,), reading, start_ns)
    if len(found.t) < LEAST:
        raise InputError(f"only {len(found.t)} wrenches can be used", "record the sensor for some seconds", str(path))
    return Wrenches(found.t, found.values, found.frame)
