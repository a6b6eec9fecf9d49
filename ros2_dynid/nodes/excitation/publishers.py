# SPDX-License-Identifier: Apache-2.0

"""What the excitation node publishes about itself: excitation_state, latched, and missed soon if the node is killed."""

from __future__ import annotations

from rclpy.node import Node

from ros2_dynid.msg import ExcitationState
from ros2_dynid.nodes.common.qos import ANNOUNCED


class StatePublisher:
    """Publishes each state of the excitation with its reason, its progress and how long it will take."""

    def __init__(self, node: Node) -> None:
        """Announce an excitation that is idle."""
        self._clock = node.get_clock()
        self._publisher = node.create_publisher(ExcitationState, "excitation_state", ANNOUNCED)
        self._progress = 0.0
        self._times: dict[str, tuple[float, float]] = {}
        self._part = ""
        self._message, self._rehearsal = ExcitationState(), ""
        self.publish("idle")

    def expect(self, motion: str, way: float, settle: float, run: float) -> None:
        """Take the times [s] that the way to the start, the rest there and the run of the next motion will need."""
        before, total = way + settle, max(way + settle + run, 1e-9)
        self._times = {
            "approach": (0.0, way),
            "settle": (way / total, settle),
            motion: (before / total, run),
            "done": (1.0, 0.0),
        }

    def expect_rest(self, share: float, seconds: float) -> None:
        """Take the share of the part under way that is over at a pause, and the time [s] that its rest will need."""
        progress, _ = self._times.get(self._part, (0.0, 0.0))
        following = self._times.get("settle", (1.0, 0.0)) if self._part == "approach" else (1.0, 0.0)
        self._times[self._part] = (progress + share * (following[0] - progress), seconds)

    def publish(self, name: str, reason: str = "") -> None:
        """Publish a state by its name, such as "exciting"; a motion that is stopped keeps its progress."""
        if name in self._times:
            self._part = name
        self._progress, duration = self._times.get(name, (self._progress, 0.0))
        message = ExcitationState(
            state=getattr(ExcitationState, name.upper().replace(" ", "_")),
            reason=reason,
            text=f"{name}: {reason}" if reason else name,
            progress=self._progress,
            duration=duration,
        )
        message.header.stamp = self._clock.now().to_msg()
        self._message = message
        self._send()

    def rehearsed(self, verdict: str) -> None:
        """Publish the same state with the verdict on the rehearsal of the plan, "" where there is none."""
        if verdict != self._rehearsal:
            self._rehearsal = verdict
            self._send()

    def _send(self) -> None:
        self._message.rehearsal = self._rehearsal
        self._publisher.publish(self._message)
