# SPDX-License-Identifier: Apache-2.0

"""Bags written by the rosbags library, a tool that is not ours, and what they should read as."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

JOINT_STATE = "sensor_msgs/msg/JointState"
ROS2 = get_typestore(Stores.ROS2_HUMBLE)
ROS1 = get_typestore(Stores.ROS1_NOETIC)
EPOCH = 1_700_000_000_123_456_789
CONTROL_MSGS = {
    "control_msgs/msg/InterfaceValue": "string[] interface_names\nfloat64[] values\n",
    "control_msgs/msg/DynamicJointState": (
        "std_msgs/Header header\nstring[] joint_names\ncontrol_msgs/InterfaceValue[] interface_values\n"
    ),
    "control_msgs/msg/JointTrajectoryControllerState": (
        "std_msgs/Header header\nstring[] joint_names\ntrajectory_msgs/JointTrajectoryPoint reference\n"
        "trajectory_msgs/JointTrajectoryPoint feedback\ntrajectory_msgs/JointTrajectoryPoint error\n"
        "trajectory_msgs/JointTrajectoryPoint output\n"
    ),
}


def control_store():
    """Return a type store that also knows messages of control_msgs."""
    store = get_typestore(Stores.ROS2_HUMBLE)
    found = {}
    for name, text in CONTROL_MSGS.items():
        found |= get_types_from_msg(text, name)
    store.register(found)
    return store


def header(stamp, frame="base", store=ROS2, seq=None):
    """Return a std_msgs/Header with a stamp [ns]."""
    time = store.types["builtin_interfaces/msg/Time"](sec=stamp // 10**9, nanosec=stamp % 10**9)
    kind = store.types["std_msgs/msg/Header"]
    return kind(stamp=time, frame_id=frame) if seq is None else kind(seq=seq, stamp=time, frame_id=frame)


def joint_state(stamp, names, position=(), velocity=(), effort=(), frame="base", store=ROS2, seq=None):
    """Return a JointState message."""
    return store.types[JOINT_STATE](
        header=header(stamp, frame, store, seq),
        name=list(names),
        position=np.array(position, float),
        velocity=np.array(velocity, float),
        effort=np.array(effort, float),
    )


def write_bag(path: Path, messages, *, plugin="mcap", compression="none", store=ROS2):
    """Write (topic, log stamp [ns], message) as a rosbag2 bag; compression none, storage, message or file."""
    writer = Writer(path, version=9, storage_plugin=StoragePlugin[plugin.upper()])
    writer.set_compression(CompressionMode[compression.upper()], CompressionFormat.ZSTD)
    with writer:
        connections = {}
        for topic, stamp, message in messages:
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(connections[topic], stamp, store.serialize_cdr(message, kind))
    return path


def write_bag1(path: Path, messages, compression="NONE"):
    """Write (topic, log stamp [ns], message) as a ROS 1 bag."""
    writer = Writer1(path)
    if compression != "NONE":
        writer.set_compression(Writer1.CompressionFormat[compression])
    with writer:
        connections = {}
        for topic, stamp, message in messages:
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=ROS1)
            writer.write(connections[topic], stamp, ROS1.serialize_ros1(message, kind))
    return path


def signals(count=200, joints=3, seed=0):
    """Return position, velocity, effort, each (count, joints), and stamps [ns] at about 1 kHz."""
    rng = np.random.default_rng(seed)
    stamps = EPOCH + (np.arange(count) * 1_000_000 + rng.integers(0, 1000, count)).astype(np.int64)
    return stamps, *(rng.normal(size=(count, joints)) for _ in range(3))


def plain_messages(count=200, joints=3, seed=0, topic="/joint_states", store=ROS2):
    """Return messages of a well-behaved publisher, with their signals."""
    stamps, q, dq, tau = signals(count, joints, seed)
    names = [f"joint{j}" for j in range(1, joints + 1)]
    seq = (lambda k: k) if store is ROS1 else (lambda k: None)
    messages = [
        (topic, int(s) + 250_000, joint_state(int(s), names, q[k], dq[k], tau[k], store=store, seq=seq(k)))
        for k, s in enumerate(stamps)
    ]
    return messages, names, stamps, q, dq, tau
