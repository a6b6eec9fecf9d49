# SPDX-License-Identifier: Apache-2.0

"""Bags: storage formats, message codecs, and the merging of topics.

Storage, one file each, behind the protocol in `storage`: `mcap_file` (with `mcap_records`), `sqlite_file`,
`rosbag1_file`; `compression` unpacks with a size limit. Messages: `cdr` is the cursor, `message_layout` takes many
JointStates at once, `decode` any message that carries joints, `encode` writes JointStates, `definitions` describes
types and metadata.yaml. `folder` opens a bag, `topics` chooses, `merge` joins topics, `read_bag` yields samples;
`writer` writes bags that survive a crash.
"""

from ros2_dynid.recording.bag.read_bag import Bag, is_bag, open_bag
from ros2_dynid.recording.bag.storage import Channel, MessageBlock, Storage
from ros2_dynid.recording.bag.writer import BagWriter, WriteError

__all__ = ["Bag", "BagWriter", "Channel", "MessageBlock", "Storage", "WriteError", "is_bag", "open_bag"]
