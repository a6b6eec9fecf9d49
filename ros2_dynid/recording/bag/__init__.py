# SPDX-License-Identifier: Apache-2.0

"""Bags: storage formats, message codecs, and the merging of topics.

Storage, one file each, behind the protocol in `storage`: `mcap_file`, `sqlite_file`, `rosbag1_file`. Messages: `cdr` is
the cursor, `decode` reads any message that carries joints (many JointStates at once), `definitions` describes types and
metadata.yaml. `read_bag` opens a bag, chooses topics and yields samples, which `merge` joins; `writer` writes bags that
survive a crash.
"""
