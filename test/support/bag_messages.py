# SPDX-License-Identifier: Apache-2.0

"""The messages of a bag as another program reads them, also of one that was cut off."""

from __future__ import annotations

from pathlib import Path

from mcap.exceptions import McapError
from mcap.records import Message
from mcap.stream_reader import StreamReader


def bag_messages(folder: Path) -> list[bytes]:
    """Return the serialized messages of a rosbag2 folder in their order, as far as its files go."""
    found: list[bytes] = []
    for file in sorted(folder.glob("*.mcap")):
        with file.open("rb") as stream:
            try:
                for record in StreamReader(stream, skip_magic=False).records:
                    if isinstance(record, Message):
                        found.append(record.data)
            except (McapError, EOFError):  # cut off
                continue
    return found
