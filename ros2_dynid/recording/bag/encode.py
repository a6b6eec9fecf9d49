# SPDX-License-Identifier: Apache-2.0

"""Samples as JointState messages in CDR, all at once: a template message, copied and filled by its layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.bag import message_layout as by_layout
from ros2_dynid.recording.bag.cdr import CdrWriter
from ros2_dynid.recording.bag.storage import Bytes, Ints


def joint_state(
    names: Sequence[str], stamp_ns: int, arrays: Sequence[Sequence[float] | Array | None], frame_id: str = ""
) -> bytes:
    """Return one JointState in CDR: names, stamp [ns], and position, velocity, effort (None: left empty)."""
    writer = CdrWriter()
    writer.stamp(stamp_ns)
    writer.string(frame_id)
    writer.u32(len(names))
    for name in names:
        writer.string(name)
    for values in arrays:
        writer.doubles(np.asarray([] if values is None else values, float))
    return writer.message()


def joint_states(names: Sequence[str], stamps_ns: Ints, arrays: Sequence[Array | None], head: int = 0) -> Bytes:
    """Return K JointStates as rows of bytes, each with `head` free bytes before it."""
    seconds = stamps_ns // 10**9
    if len(seconds) and not (seconds.min() >= -(2**31) and seconds.max() < 2**31):
        raise InputError("a time lies beyond the years 1901 to 2038 that a ROS stamp can hold", "give times in seconds")
    blank = [None if values is None else np.zeros(len(names)) for values in arrays]
    template = joint_state(names, 0, blank)
    layout = by_layout.parse(template, "cdr")
    rows = np.zeros((len(stamps_ns), head + len(template)), np.uint8)
    rows[:, head:] = np.frombuffer(template, np.uint8)
    view = by_layout.MessageRows(rows, head, rows.shape[1], len(rows), len(template))
    view.column(by_layout.STAMP, 1, "<i4")[:, 0] = seconds
    view.column(by_layout.STAMP + 4, 1, "<u4")[:, 0] = stamps_ns - seconds * 10**9
    for index, values in enumerate(arrays):
        if values is not None and len(names):
            column = by_layout.array(layout, view, index)
            assert column is not None
            column[...] = values
    return rows
