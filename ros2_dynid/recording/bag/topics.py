# SPDX-License-Identifier: Apache-2.0

"""Which topics of a bag carry the robot's joints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.recording.bag.decode import JOINT_STATE, TYPES, Decoder, can_decode
from ros2_dynid.recording.bag.folder import Bag

_PEEKED_BLOCKS = 200
_PEEKED_MESSAGES = 50


def choose_topics(bag: Bag, joint_names: Sequence[str] | None, topic: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the topics to read: those named, or found by type and by the joints they carry."""
    source = str(bag.path)
    if topic:
        topic_names = tuple(topic.split(",")) if isinstance(topic, str) else tuple(topic)
        return tuple(_find_topic(bag, name.strip(), source) for name in topic_names)
    readable = [channel for channel in bag.channels if can_decode(channel) and channel.count != 0]
    for kind in TYPES:
        topics = tuple(dict.fromkeys(channel.topic for channel in readable if channel.type == kind))
        if topics:
            return topics if len(topics) == 1 else _by_joints(bag, topics, joint_names)
    silent = [channel for channel in bag.channels if can_decode(channel)]
    if silent:
        damage = bag.file_warnings()
        what = f"topic {silent[0].topic[:80]} has no message that can be read" + (f" ({damage[0]})" if damage else "")
        raise InputError(what, "record the robot's joint states again", source)
    others = [channel for channel in bag.channels if channel.type in TYPES]
    if others and others[0].type != JOINT_STATE:
        what = f"topic {others[0].topic} has type {others[0].type}, which this bag does not describe"
        raise InputError(what, "record sensor_msgs/msg/JointState, or record to MCAP, which keeps descriptions", source)
    available = "; ".join(dict.fromkeys(f"{channel.topic[:80]} ({channel.type[:80]})" for channel in bag.channels[:8]))
    what = f"the bag has no joint states, only {available}" if available else "the bag holds no messages"
    raise InputError(what, "record a topic of type sensor_msgs/msg/JointState", source)


def _find_topic(bag: Bag, name: str, source: str) -> str:
    channels = [channel for channel in bag.channels if channel.topic in (name, "/" + name)]
    if not channels:
        topics = (
            ", ".join(dict.fromkeys(c.topic[:80] for c in bag.channels if c.type in TYPES)) or "none of joint states"
        )
        raise InputError(f"the bag has no topic {name!r}", f"choose from its topics: {topics}", source)
    if not any(map(can_decode, channels)):
        what = f"topic {channels[0].topic} has type {channels[0].type[:80]} ({channels[0].encoding[:20]})"
        raise InputError(what, f"choose a topic of a type that carries joints: {', '.join(TYPES)}", source)
    return channels[0].topic


def _by_joints(bag: Bag, topics: Sequence[str], joint_names: Sequence[str] | None) -> tuple[str, ...]:
    """Choose among several topics of one type: the one with all joints, or those that together have them."""
    names = _peek(bag, topics)
    carrying = tuple(topic for topic in topics if names[topic] & set(joint_names or names[topic]))
    whole = tuple(topic for topic in carrying if names[topic] >= set(joint_names or ()))
    usual = tuple(topic for topic in whole if topic.rpartition("/")[2] == "joint_states")
    for choice in (whole, usual):
        if len(choice) == 1:
            return choice
    if whole:
        hint = Text("choose one (", Option("topic"), f"): {', '.join(whole[:10])}")
        raise InputError(f"{len(whole)} topics carry joint states", hint, str(bag.path))
    return carrying or tuple(topics)


def _peek(bag: Bag, topics: Sequence[str]) -> dict[str, set[str]]:
    """Return the joints that the first messages of each topic name."""
    names: dict[str, set[str]] = {topic: set() for topic in topics}
    remaining = dict.fromkeys(topics, _PEEKED_MESSAGES)
    for number, (block, channels) in enumerate(bag.blocks(topics)):
        for channel in channels:
            if remaining[channel.topic] > 0:
                first_messages = block.take(np.flatnonzero(block.channel == channel.id)[:_PEEKED_MESSAGES])
                for decoded in Decoder(channel).decode(first_messages):
                    names[channel.topic] |= set(decoded.names)
                remaining[channel.topic] -= len(first_messages)
        if number > _PEEKED_BLOCKS or all(count <= 0 for count in remaining.values()):
            break
    return names
