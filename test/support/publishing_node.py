# SPDX-License-Identifier: Apache-2.0

"""A node with publishers alone, which keep what is sent: for tests of what leaves a node."""

from __future__ import annotations

from types import SimpleNamespace

from rclpy.qos import ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.time import Time as Moment


class Publisher:
    """A publisher that keeps what it sends, with so many who listen."""

    def __init__(self, topic, listeners=1):
        self.topic_name, self.sent, self.listeners = topic, [], listeners

    def get_subscription_count(self):
        return self.listeners

    def publish(self, message):
        kept = message if isinstance(message, bytes) else deserialize_message(serialize_message(message), type(message))
        self.sent.append(kept)


class OneNode:
    """A node with publishers alone, whose clock stands at 9.5 s."""

    def __init__(self, reliability=ReliabilityPolicy.RELIABLE):
        self.made = {}
        self._info = SimpleNamespace(qos_profile=SimpleNamespace(reliability=reliability))

    def create_publisher(self, kind, topic, qos):
        self.made[topic] = Publisher(topic)
        return self.made[topic]

    def get_clock(self):
        return SimpleNamespace(now=lambda: Moment(nanoseconds=9_500_000_000))

    def get_subscriptions_info_by_topic(self, topic):
        return [self._info] if topic == "joint_trajectory" else []
