# SPDX-License-Identifier: Apache-2.0

"""Plays a recording into the running nodes: joint states as recorded, and /clock for use_sim_time.

Started by `dynid replay` with the recording, so it has neither parameters nor services. Publishes joint_states and, if
asked, /clock. Nodes that move a robot would take what is played for the robot: on a topic on which another node
publishes, nothing is played.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from ros2_dynid.errors import InputError
from ros2_dynid.recording.playback import Message, timed

DEPTH = 1000
DISCOVERY_SECONDS = 0.7
"""Time [s] in which others on the graph are found."""
NAME_SECONDS = 5.0
"""Time [s] for the name of a node whose publisher is found already."""
UNKNOWN_NAME = "_NODE_NAME_UNKNOWN_"
"""Name of a node that the middleware has not yet told."""


class ReplayNode(Node):
    """Publishes serialized JointStates when their time has come."""

    def __init__(self, *, clock: bool, topic: str | None) -> None:
        """Publish on `topic` instead of the recorded ones if it is given; /clock too if `clock`."""
        super().__init__("replay")
        self._topic = topic
        self._qos = QoSProfile(depth=DEPTH, reliability=ReliabilityPolicy.RELIABLE)
        self._states: dict[str, Any] = {}
        self._clock_publisher = self.create_publisher(Clock, "/clock", self._qos) if clock else None
        self.published = 0

    def wait_for_listeners(self, topic: str, seconds: float) -> bool:
        """Wait until somebody subscribes, for at most some seconds; return whether somebody does."""
        publisher = self._publisher(topic)
        end = time.monotonic() + seconds
        while publisher.get_subscription_count() == 0 and time.monotonic() < end and rclpy.ok():
            time.sleep(0.02)
        return bool(publisher.get_subscription_count())

    def refuse_beside_robot(self, topic: str) -> None:
        """Refuse to play on a topic on which a robot speaks: whoever listens would hear both."""
        name = self._publisher(topic).topic_name
        end, publisher = time.monotonic() + DISCOVERY_SECONDS, ""
        while time.monotonic() < end and publisher in ("", "a node"):  # a publisher is found before its node's name
            for info in self.get_publishers_info_by_topic(name):
                if info.node_name == UNKNOWN_NAME and not publisher:
                    publisher, end = "a node", time.monotonic() + NAME_SECONDS
                elif info.node_name not in (self.get_name(), UNKNOWN_NAME):
                    publisher = f"{info.node_namespace.rstrip('/')}/{info.node_name}"
                    break
            time.sleep(0.05)
        if publisher:
            raise InputError(
                f"{publisher} publishes on {name}: a robot is there",
                "play on another topic (--to), or in another ROS_DOMAIN_ID",
            )

    def play(self, messages: Iterator[Message], rate: float, stop: threading.Event) -> None:
        """Publish all messages at `rate` times their own speed, until the end or a stop."""
        for now, message in timed(messages, rate, stopped=stop.is_set):
            if self._clock_publisher is not None:
                tick = Clock()
                tick.clock.sec, tick.clock.nanosec = divmod(now, 10**9)
                self._clock_publisher.publish(tick)
            if message is not None:
                self._publisher(message.topic).publish(message.payload)
                self.published += 1

    def _publisher(self, topic: str) -> Any:
        name = self._topic or topic
        if name not in self._states:
            self._states[name] = self.create_publisher(JointState, name, self._qos)
        return self._states[name]


def replay(messages: Iterator[Message], *, rate: float, clock: bool, topic: str | None, wait: float) -> dict[str, Any]:
    """Play messages until their end or an interrupt; return how many were published and in which time [s]."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = ReplayNode(clock=clock, topic=topic)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    stop = threading.Event()
    spinner = threading.Thread(target=_spin, args=(executor, stop), daemon=True)
    spinner.start()
    begin = time.monotonic()
    interrupted = heard = False
    try:
        first = next(messages, None)
        if first is not None:
            heard = node.wait_for_listeners(first.topic, wait)
            node.refuse_beside_robot(first.topic)
            begin = time.monotonic()
            node.play(_again(first, messages), rate, stop)
        seconds = time.monotonic() - begin
        time.sleep(0.2)  # the last messages leave the middleware
    except KeyboardInterrupt:
        seconds, interrupted = time.monotonic() - begin, True
    finally:
        stop.set()
        spinner.join(1.0)
        node.destroy_node()
        rclpy.try_shutdown()
    return {"published": node.published, "seconds": seconds, "listeners": heard, "interrupted": interrupted}


def _spin(executor: SingleThreadedExecutor, stop: threading.Event) -> None:
    while not stop.is_set() and rclpy.ok():
        executor.spin_once(timeout_sec=0.1)


def _again(first: Message, rest: Iterator[Message]) -> Iterator[Message]:
    yield first
    yield from rest
