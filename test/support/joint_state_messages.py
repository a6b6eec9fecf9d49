# SPDX-License-Identifier: Apache-2.0

"""Serialized joint states, written by rosbags."""

from __future__ import annotations

import numpy as np
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_JAZZY)


JointState = STORE.types["sensor_msgs/msg/JointState"]


Header, Time = STORE.types["std_msgs/msg/Header"], STORE.types["builtin_interfaces/msg/Time"]


def serialized(names, q, dq=(), tau=(), stamp=1_000_000_000):
    arrays = [np.array(x, dtype=float) for x in (q, dq, tau)]
    header = Header(stamp=Time(sec=stamp // 10**9, nanosec=stamp % 10**9), frame_id="")
    return bytes(STORE.serialize_cdr(JointState(header, list(names), *arrays), JointState.__msgtype__))
