# SPDX-License-Identifier: Apache-2.0

"""Message types as a bag describes them, and rosbag2's metadata.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.recording.bag.decode import JOINT_STATE

JOINT_STATE_DEFINITION = f"""\
std_msgs/Header header
string[] name
float64[] position
float64[] velocity
float64[] effort
{"=" * 80}
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
{"=" * 80}
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
JOINT_STATE_HASH = "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e"
METADATA_VERSION = 8
"""Of metadata.yaml: all of Humble to Kilted read it; version 9 changes how QoS is written, which Humble cannot read."""


@dataclass(frozen=True)
class TopicInfo:
    """A topic as metadata.yaml lists it."""

    topic: str
    type: str
    definition: str
    hash: str
    latched: bool
    count: int = 0


def describe(kind: str) -> tuple[str, str]:
    """Return the definition text and the RIHS01 hash of a message type of ROS 2's common interfaces."""
    if kind == JOINT_STATE:
        return JOINT_STATE_DEFINITION, JOINT_STATE_HASH
    try:
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise MissingPackageError("rosbags", f"writing {kind} into a bag") from None
    store = get_typestore(Stores.LATEST)
    if kind not in store.types:
        raise InputError(f"message type {kind!r} is not known", "give its definition text")
    return store.generate_msgdef(kind, ros_version=2)[0], store.hash_rihs01(kind)


def qos_text(latched: bool) -> str:
    """Return the QoS of the recorded publisher as rosbag2 keeps it: reliable, volatile or transient local."""
    infinite = "{sec: 9223372036, nsec: 854775807}"
    return (
        f"- history: 1\n  depth: {1 if latched else 10}\n  reliability: 1\n  durability: {1 if latched else 2}\n"
        f"  deadline: {infinite}\n  lifespan: {infinite}\n  liveliness: 1\n"
        f"  liveliness_lease_duration: {infinite}\n  avoid_ros_namespace_conventions: false"
    )


def bag_information(
    file: str, topics: Sequence[TopicInfo], start_ns: int, duration_ns: int, custom: Mapping[str, str]
) -> dict[str, object]:
    """Return what metadata.yaml says about a bag of one MCAP file; times in ns."""
    count = sum(topic.count for topic in topics)
    begin, duration = {"nanoseconds_since_epoch": start_ns}, {"nanoseconds": duration_ns}
    return {
        "version": METADATA_VERSION,
        "storage_identifier": "mcap",
        "duration": duration,
        "starting_time": begin,
        "message_count": count,
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic.topic,
                    "type": topic.type,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": qos_text(topic.latched),
                    "type_description_hash": topic.hash,
                },
                "message_count": topic.count,
            }
            for topic in topics
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file],
        "files": [{"path": file, "starting_time": dict(begin), "duration": dict(duration), "message_count": count}],
        "custom_data": dict(custom),
        "ros_distro": "kilted",
    }


def metadata_yaml(information: Mapping[str, object]) -> str:
    """Return the text of the file metadata.yaml."""
    return embedded_yaml({"rosbag2_bagfile_information": dict(information)})


def embedded_yaml(information: Mapping[str, object]) -> str:
    """Return the text that an MCAP file holds in its metadata record: the same information without the key above it."""
    import yaml

    text: str = yaml.safe_dump(dict(information), sort_keys=False)
    return text
