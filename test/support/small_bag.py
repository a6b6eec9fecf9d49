# SPDX-License-Identifier: Apache-2.0

"""A small bag of a few chunks, frame by frame."""

from __future__ import annotations

import struct

from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag.mcap_file import McapFile
from ros2_dynid.recording.bag.writer import BagWriter, joint_state

NAMES = ("a",)


def small_bag(path, chunks=4, each=3, compression=""):
    """Write a bag of a few chunks, the second and fourth with another topic too; return its bytes and the frames."""
    with BagWriter(path, compression=compression) as writer:
        first = writer.add_topic("/joint_states")
        other = writer.add_topic("/other")
        for k in range(chunks):
            for m in range(k * each, (k + 1) * each):
                writer.write(first, joint_state(NAMES, m, [[m], None, None]), 1000 + m)
            if k % 2:
                writer.write(other, joint_state(NAMES, k, [[k], None, None]), 2000 + k)
            writer.flush()
        writer.write(other, joint_state(NAMES, 9, [[9], None, None]), 3000)
    file = path / f"{path.name}_0.mcap"
    data = file.read_bytes()
    frames, at = [], len(mcap.MAGIC)
    while at < len(data) - len(mcap.MAGIC):
        opcode, length = struct.unpack_from("<BQ", data, at)
        frames.append((opcode, at, at + 9 + length))
        at += 9 + length
    return file, data, frames


def stamps(file, wanted=None):
    """Return the log times read of a file, and what it warned of."""
    found = McapFile(file)
    keys = [c.id for c in found.channels if wanted is None or c.topic == wanted]
    return [int(s) for block in found.blocks(keys) for s in block.stamp], found
