# SPDX-License-Identifier: Apache-2.0

"""A node that keeps what is sent, and callbacks by their name: for tests of what leaves a node and what it answers."""

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


class Log:
    """Keeps what is logged: level and text."""

    def __init__(self):
        self.said = []

    def __getattr__(self, level):
        return lambda text, **options: self.said.append((level, text))


class OneNode:
    """A node whose clock stands at 9.5 s; `made` has its publishers and callbacks by name, `log` what it says."""

    def resolve_topic_name(self, name):
        return f"/{name.strip('/')}"

    def __init__(self, reliability=ReliabilityPolicy.RELIABLE):
        self.made, self.log = {}, Log()
        self._info = SimpleNamespace(qos_profile=SimpleNamespace(reliability=reliability))

    def create_publisher(self, kind, topic, qos):
        self.made[topic] = Publisher(topic)
        return self.made[topic]

    def create_service(self, kind, name, callback, callback_group=None):
        self.made[name] = callback

    def create_subscription(self, kind, topic, callback, qos, **options):
        self.made[topic] = callback
        return topic

    def create_timer(self, period, callback):
        self.made["timer"] = (period, callback)

    def get_logger(self):
        return self.log

    def get_clock(self):
        return SimpleNamespace(now=lambda: Moment(nanoseconds=9_500_000_000))

    def get_subscriptions_info_by_topic(self, topic):
        return [self._info] if topic == "joint_trajectory" else []
