# SPDX-License-Identifier: Apache-2.0

"""A bag becomes samples: its joint states are decoded, merged over topics and yielded in pieces."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag.read_bag import TYPES, Bag, choose_topics
from ros2_dynid.recording.bag.storage import Channel, block_of
from ros2_dynid.recording.bag.writer import joint_state


class Listed:
    """A bag of single joint states on two topics, a block each, that counts what is read of it."""

    path, read = "bag", 0

    def __init__(self, names, blocks):
        kind = "sensor_msgs/msg/JointState"
        self.channels = [Channel(k, topic, kind, "cdr", count=9) for k, topic in enumerate(names)]
        self._names, self._blocks = list(names.values()), blocks

    def file_warnings(self):
        return []

    def blocks(self, topics):
        for k in range(self._blocks):
            self.read += 1
            channel = k % len(self.channels)
            names = self._names[channel]
            payload = joint_state(names, k, [np.zeros(len(names)), None, None])
            yield block_of([payload], [channel], [k]), [self.channels[channel]]


def test_topics_are_known_by_the_joints_of_their_first_messages():
    bag = Listed({"/left": ("a", "b"), "/right": ("c", "d")}, 1000)
    assert choose_topics(bag, ("c", "d"), None) == ("/right",)
    assert bag.read == 100, "fifty messages of each are enough"
    assert choose_topics(Listed({"/left": ("a", "b"), "/right": ("c",)}, 40), ("a", "c"), None) == ("/left", "/right")
    three = {"/left": ("a", "b"), "/gripper": ("g",), "/right": ("c",)}
    assert choose_topics(Listed(three, 40), ("a", "c"), None) == ("/left", "/right"), (
        "what has none of them is not read"
    )
    assert choose_topics(Listed(three, 40), ("x", "y"), None) == tuple(three), "who reads them says what is missing"
    one_sided = Listed({"/left": ("a", "b"), "/right": ("c", "d")}, 1000)
    one_sided.blocks = lambda topics, inner=one_sided.blocks: (x for x in inner(topics) if x[1][0].topic == "/left")
    assert choose_topics(one_sided, ("a", "b"), None) == ("/left",) and one_sided.read < 500, (
        "it does not read all of it"
    )
    both = {"/joint_states": ("a",), "/copy/joint_states": ("a",), "/other": ("a",)}
    with pytest.raises(InputError, match="3 topics carry joint states"):
        choose_topics(Listed(both, 30), ("a",), None)
    assert choose_topics(Listed({"/joint_states": ("a",), "/other": ("a",)}, 30), ("a",), None) == ("/joint_states",)
    assert choose_topics(Listed({"/x": ("a",), "/y": ("b",)}, 30), None, " y , /x") == ("/y", "/x")
    more = {"/part": ("a",), "/whole": ("c", "b", "a"), "/foreign": ("d",)}
    assert choose_topics(Listed(more, 30), ("a", "b"), None) == ("/whole",), "it may have further joints"
    with pytest.raises(InputError, match="no topic 'z'; choose from its topics: /x, /y"):
        choose_topics(Listed({"/x": ("a",), "/y": ("b",)}, 30), None, "z")


def test_topics_of_nobody_in_particular():
    """Without a robot a single topic of the usual name is taken, and else one must be named."""
    assert choose_topics(Listed({"/joint_states": ("a",), "/other": ("b",)}, 30), None, None) == ("/joint_states",)
    with pytest.raises(InputError, match="2 topics carry joint states"):
        choose_topics(Listed({"/x": ("a",), "/y": ("b",)}, 30), None, None)
    with pytest.raises(InputError, match="2 topics carry joint states"):
        choose_topics(Listed({"/x/joint_states": ("a",), "/y/joint_states": ("b",)}, 30), None, None)
    assert choose_topics(Listed({"/x": ("a",), "/y": ("b",)}, 30), ("z",), None) == ("/x", "/y"), "nobody has it"
    assert choose_topics(Listed({"/x": ("a", "b"), "/y": ("b", "c")}, 30), ("b", "z"), None) == ("/x", "/y")


def test_messages_of_a_block_are_counted_one_by_one():
    bag = Listed({"/left": ("a",), "/right": ("b",)}, 1000)

    def tens(topics, inner=bag.blocks):
        for block, channels in inner(topics):
            yield block.take(np.zeros(10, int)), channels

    bag.blocks = tens
    assert choose_topics(bag, ("b",), None) == ("/right",) and bag.read == 10, "five blocks of ten for each"


@pytest.mark.parametrize(
    ("topics", "chosen"),
    [
        ({"/dynamic": TYPES[1], "/joints": TYPES[0]}, ("/joints",)),
        ({"/controller": TYPES[2], "/dynamic": TYPES[1]}, ("/dynamic",)),
        ({"/tf": "tf2_msgs/msg/TFMessage", "/controller": TYPES[2]}, ("/controller",)),
    ],
)
def test_joint_states_come_before_other_types(monkeypatch, topics, chosen):
    monkeypatch.setattr("ros2_dynid.recording.bag.read_bag.can_decode", lambda channel: channel.type in TYPES)
    bag = Listed({}, 0)
    bag.channels = [Channel(k, topic, kind, "cdr", count=9) for k, (topic, kind) in enumerate(topics.items())]
    assert choose_topics(bag, ("a",), None) == chosen
    silent = Channel(9, "/joint_states", TYPES[0], "cdr", count=0)
    bag.channels = [silent, *bag.channels]
    assert choose_topics(bag, ("a",), None) == chosen, "a topic without messages is passed over"


class ListedFile:
    """A file of a bag with channels and no messages."""

    def __init__(self, *channels, warnings=()):
        self.channels, self.warnings = list(channels), list(warnings)

    def blocks(self, wanted):
        return iter(())


def test_bags_without_joint_states_say_what_they_have(tmp_path):
    joint, control = "sensor_msgs/msg/JointState", "control_msgs/msg/JointTrajectoryControllerState"
    for channels, words in (
        ((), "the bag holds no messages; record a topic of type"),
        ((Channel(1, "/tf", "tf2_msgs/msg/TFMessage", "cdr"),), r"only /tf \(tf2_msgs/msg/TFMessage\)"),
        ((Channel(1, "/c", control, "cdr"),), f"topic /c has type {control}, which this bag does not describe"),
        ((Channel(1, "/j", joint, "json"),), r"only /j \(sensor_msgs/msg/JointState\)"),
        ((Channel(1, "/j", joint, "cdr", count=0),), "topic /j has no message that can be read"),
    ):
        with pytest.raises(InputError, match=words):
            choose_topics(Bag(tmp_path, (ListedFile(*channels),)), None, None)
    many = Bag(tmp_path, (ListedFile(*(Channel(k, f"/t{k}", "x/msg/X", "cdr") for k in range(9))),))
    with pytest.raises(InputError, match=r"/t6 \(x/msg/X\); /t7 \(x/msg/X\); record"):
        choose_topics(many, None, None)
    odd = Bag(tmp_path, (ListedFile(Channel(1, "/j", joint, "cdr", count=0), warnings=["it is cut"]),))
    with pytest.raises(InputError, match=r"can be read \(it is cut\)"):
        choose_topics(odd, None, None)
    bag = Bag(
        tmp_path,
        (ListedFile(Channel(1, "/j", joint, "cdr"), Channel(2, "/k", joint, "json"), Channel(3, "/t", "x", "cdr")),),
    )
    assert choose_topics(bag, None, None) == ("/j",) == choose_topics(bag, None, "j")
    assert choose_topics(bag, None, "j, /j") == ("/j", "/j") == choose_topics(bag, None, ["/j", "j"])
    with pytest.raises(InputError, match="no topic 'q'; choose from its topics: /j, /k"):
        choose_topics(bag, None, "q")
    for name in ("/k", "t"):
        with pytest.raises(InputError, match="choose a topic of a type that carries joints"):
            choose_topics(bag, None, name)
