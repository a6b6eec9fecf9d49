# SPDX-License-Identifier: Apache-2.0

"""The topic stop, as every moving node hears it: from publishers of every kind, and from an enabling switch."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("rclpy")
import rclpy
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import Bool

from in_process import ros, soon
from ros2_dynid.control.stop_switch import NOT_ENABLED, STOP_SET
from ros2_dynid.nodes.common.fast import Ticker
from ros2_dynid.nodes.common.qos import LATCHED
from ros2_dynid.nodes.common.stop_topic import StopListener

pytestmark = pytest.mark.in_process
KINDS = [
    QoSProfile(depth=1, durability=durability, reliability=reliability)
    for durability in (DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL)
    for reliability in (ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE)
]


def test_a_stop_is_heard_from_every_kind_of_publisher_and_by_who_comes_later():
    with ros():
        node, said = rclpy.create_node("listening"), []
        listener = StopListener(node, said.append, "", 0.2)
        for qos in KINDS:
            publisher = node.create_publisher(Bool, "stop", qos)
            soon(lambda p=publisher: p.get_subscription_count(), "no subscription matches")
            time.sleep(0.05)
            publisher.publish(Bool(data=True))
            soon(lambda: listener.reason == STOP_SET, f"{qos} is not heard")
            publisher.publish(Bool(data=False))
            soon(lambda: listener.reason is None, f"{qos} does not release")
            node.destroy_publisher(publisher)
        assert said == [STOP_SET, None] * len(KINDS)
        older, newer = (node.create_publisher(Bool, "stop", LATCHED) for _ in range(2))
        older.publish(Bool(data=False))
        time.sleep(0.01)
        newer.publish(Bool(data=True))
        late = StopListener(node, said.append, "", 0.2)
        soon(lambda: late.reason == STOP_SET, "who comes later does not hear it")
        time.sleep(0.1)
        assert late.reason == STOP_SET, "the older word comes as well, and changes nothing"
        for made in (listener, late):
            made.close()
        node.destroy_node()


def test_an_enabling_switch_that_falls_silent_stops():
    with ros():
        node, said = rclpy.create_node("listening"), []
        listener = StopListener(node, said.append, "enabled", 0.1)
        assert said == [NOT_ENABLED], "it is not pressed until it says so"
        publisher = node.create_publisher(Bool, "enabled", 10)
        ticker = Ticker(0.02, lambda: publisher.publish(Bool(data=True)))
        soon(lambda: listener.reason is None, "the switch is not heard")
        ticker.close()
        silent = time.monotonic()
        soon(lambda: listener.reason == NOT_ENABLED, "its silence is not noticed")
        assert time.monotonic() - silent < 1.0
        publisher.publish(Bool(data=True))
        soon(lambda: listener.reason is None, "it is pressed again")
        publisher.publish(Bool(data=False))
        soon(lambda: listener.reason == NOT_ENABLED, "it is let go")
        listener.close()
        node.destroy_node()
