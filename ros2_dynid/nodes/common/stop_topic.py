# SPDX-License-Identifier: Apache-2.0

"""The stop of the whole suite: the topic `stop`, and an enabling switch where the parameter enabling_topic names one.

Every node that moves a robot listens by itself, in threads of its own, so that it stops whatever else hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rclpy.node import Node
from std_msgs.msg import Bool

from ros2_dynid.control.stop_switch import Reason, StopSwitch
from ros2_dynid.errors import DynidError
from ros2_dynid.nodes.common.fast import Stream, Ticker, unpacked
from ros2_dynid.nodes.common.parameters import Described
from ros2_dynid.nodes.common.qos import ANY_PUBLISHER, LATCHED

TOPIC = "stop"
LOOK_SECONDS = 0.01
"""How often [s] the silence of the enabling switch is looked for."""
PARAMETERS = (
    Described(
        "enabling_topic",
        "",
        "std_msgs/Bool of an enabling switch: the robot stops when it says false or falls silent; empty: none",
        read_only=True,
    ),
    Described("enabling_timeout", 0.2, "longest silence of the enabling switch [s]", 0.02, 2.0, read_only=True),
)


class StopListener:
    """Tells `changed` why nothing may move, None if it may, whenever that changes; from its own threads.

    A latched publisher's word is heard by who comes later, too; one that does not latch is heard all the same.
    """

    def __init__(
        self, node: Node, changed: Callable[[Reason | None], None], enabling_topic: str, enabling_timeout: float
    ) -> None:
        """Listen as `node`."""
        self._changed, self._lock = changed, threading.Lock()
        self._switch = StopSwitch(enabling_timeout if enabling_topic else 0.0, time.monotonic())
        self._logger = node.get_logger()
        self.reason: Reason | None = None
        self._streams = [Stream(node, Bool, TOPIC, self._on_stop, qos, timed=True) for qos in (LATCHED, ANY_PUBLISHER)]
        self._ticker: Ticker | None = None
        if enabling_topic:
            self._streams.append(Stream(node, Bool, enabling_topic, self._on_enabling, ANY_PUBLISHER))
            self._ticker = Ticker(LOOK_SECONDS, self._look)
            self._look()

    def close(self) -> None:
        """Listen no more."""
        if self._ticker is not None:
            self._ticker.close()
        for stream in self._streams:
            stream.close()

    def _on_stop(self, data: bytes, said_at: float) -> None:
        with self._lock:
            believed = self._switch.take_stop(_pressed(data, broken=True), said_at, time.monotonic())
        self._look()
        if not believed:
            self._logger.warning(
                "a release is older than the stop, by its sender's clock, and is not believed: release it again, from "
                "where it was set, or set the clocks",
                throttle_duration_sec=1.0,
            )

    def _on_enabling(self, data: bytes) -> None:
        with self._lock:
            self._switch.take_enabling(_pressed(data, broken=False), time.monotonic())
        self._look()

    def _look(self) -> None:
        with self._lock:
            before, self.reason = self.reason, self._switch.reason(time.monotonic())
            if self.reason != before:
                self._changed(self.reason)


def _pressed(data: bytes, *, broken: bool) -> bool:
    """Return the value of a serialized Bool; `broken` for one that cannot be read."""
    try:
        return bool(unpacked(data, Bool).data)
    except DynidError:
        return broken
