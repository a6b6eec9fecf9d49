# SPDX-License-Identifier: Apache-2.0

"""What the panel hears: joint states, predicted torques, the plan, references sent, diagnostics; the newest of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.codec import Plain
from ros2_dynid.control.reference import Reference
from ros2_dynid.errors import DynidError, one_line
from ros2_dynid.excitation.obstacles import ObstacleEntry, parse_entries
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.msg import BaseParameters, ExcitationState
from ros2_dynid.nodes.common.fast import Stream
from ros2_dynid.nodes.common.lifecycle_node import ManagedNode
from ros2_dynid.nodes.common.messages import reference_of, seconds
from ros2_dynid.nodes.common.qos import COMMANDS, LATCHED
from ros2_dynid.recording.live import LiveStates

NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Only the last message is kept for us: 1 kHz of joint states cost no more than the panel's own rate."""
FRESH_S = 1.0
"""What is older [s] is not shown."""
MOST_NAMES = 64
"""Diagnostics of this many names are kept."""
MOST_TEXT = 1_000_000
"""Characters of obstacles that are read."""


class Heard:
    """Efforts that came under a topic, in the order of the robot's joints."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.states = LiveStates(())
        self.when = -np.inf

    def take(self, names: Sequence[str], message: bytes) -> None:
        """Take a serialized JointState."""
        if self.states.names != tuple(names):
            self.states = LiveStates(names)
        if self.states.take(message) is not None:
            self.when = time.monotonic()

    @property
    def fresh(self) -> bool:
        """Whether something came lately."""
        return time.monotonic() - self.when < FRESH_S


class Listening:
    """Subscriptions of the panel; `on_plan` hears of a new plan."""

    def __init__(self, node: ManagedNode, period: float, on_plan: Callable[[Reference], None]) -> None:
        """Listen on `node`, taking joint states once in `period` [s]."""
        self._node, self._on_plan = node, on_plan
        self._lock = threading.Lock()
        self.measured, self.external = Heard(), Heard()
        self._predicted = (Heard(), Heard())
        self.excitation = ExcitationState()
        self.recorded, self.model = "", ""
        self.drift: bool | None = None
        self._sent: tuple[Reference, float] | None = None
        self._diagnostics: dict[str, tuple[int, str, float]] = {}
        self.recording = False
        self.obstacles: tuple[ObstacleEntry, ...] | None = None
        self.obstacles_number = 0
        topics = {
            "joint_states": self.measured,
            "feedforward/predicted": self._predicted[0],
            "identification/predicted": self._predicted[1],
            "feedforward/external_effort": self.external,
        }
        self._streams = [
            Stream(node, JointState, topic, self._taker(heard), NEWEST, rest=period) for topic, heard in topics.items()
        ]
        for kind, topic, callback, qos in (
            (ExcitationState, "excitation_state", self._on_excitation, LATCHED),
            (String, "recording", self._on_recording, LATCHED),
            (Bool, "drift", self._on_drift, LATCHED),
            (BaseParameters, "base_parameters", self._on_model, LATCHED),
            (JointTrajectory, "excitation/planned", self._on_planned, LATCHED),
            (JointTrajectory, "joint_trajectory", self._on_sent, COMMANDS),
            (String, "excitation/obstacles", self._on_obstacles, LATCHED),
            (DiagnosticArray, "/diagnostics", self._on_diagnostics, 10),
        ):
            node.create_subscription(kind, topic, callback, qos)

    def close(self) -> None:
        """Listen no more to streams."""
        for stream in self._streams:
            stream.close()

    def predicted(self) -> Array | None:
        """Return the predicted torques now, shape (n,), None if nobody sends any."""
        return next((heard.states.tau for heard in self._predicted if heard.fresh), None)

    def reference(self) -> Array | None:
        """Return where the robot should be by the trajectory that was sent, shape (n,), None after its end.

        The time is that of the joint state shown: beside one that is late, the reference of now would be ahead.
        """
        with self._lock:
            sent = self._sent
        if sent is None:
            return None
        points, start = sent
        now = 1e-9 * self._node.now_ns()
        stamp = 1e-9 * self.measured.states.state.stamp
        t = (stamp if abs(now - stamp) < FRESH_S else now) - start  # some drivers stamp with zero, or by another clock
        return None if t > points.duration + FRESH_S else np.asarray(points.at(t)[0])

    def diagnostics(self) -> list[Plain]:
        """Return what the nodes say of themselves, those that have gone silent left out."""
        now = time.monotonic()
        with self._lock:
            rows = sorted(self._diagnostics.items())
        return [{"name": name, "level": level, "text": text} for name, (level, text, when) in rows if now - when < 5.0]

    def _taker(self, heard: Heard) -> Callable[[bytes], None]:
        def take(message: bytes) -> None:
            robot = self._node.robot
            if robot is not None:
                heard.take(robot.active_names, message)

        return take

    def _on_excitation(self, message: ExcitationState) -> None:
        message.text, message.rehearsal = one_line(message.text), one_line(message.rehearsal)
        self.excitation = message

    def _on_recording(self, message: String) -> None:
        self.recorded = one_line(message.data)

    def _on_obstacles(self, message: String) -> None:
        try:
            self.obstacles = parse_entries(message.data[:MOST_TEXT], "obstacles")
        except DynidError:  # nothing to show
            return
        self.obstacles_number += 1

    def _on_drift(self, message: Bool) -> None:
        self.drift = bool(message.data)

    def _on_model(self, message: BaseParameters) -> None:
        errors = list(message.validation) or list(message.fit)
        overall = next((error for error in errors if error.joint == "all"), None)
        what = "on held-out data" if message.validation else "on its own data"
        text = "" if overall is None else f", torque error {100 * overall.relative:.1f} % {what}"
        self.model = one_line(f"{message.robot}: {len(message.parameters)} base parameters{text}")

    def _reference_of(self, message: JointTrajectory) -> Reference | None:
        robot: Robot | None = self._node.robot
        try:
            return None if robot is None else reference_of(message, robot)
        except DynidError:  # of other joints, or none that a controller would take: nothing to show
            return None

    def _on_planned(self, message: JointTrajectory) -> None:
        reference = self._reference_of(message)
        if reference is not None:
            self._on_plan(reference)

    def _on_sent(self, message: JointTrajectory) -> None:
        reference = self._reference_of(message)
        if reference is None:
            return
        stamp = seconds(message.header.stamp)
        with self._lock:
            self._sent = (reference, stamp or 1e-9 * self._node.now_ns())

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        now = time.monotonic()
        with self._lock:
            for status in message.status:
                if len(self._diagnostics) < MOST_NAMES or status.name in self._diagnostics:
                    self._diagnostics[one_line(status.name)] = (_level(status.level), one_line(status.message), now)
                if status.name.partition(":")[0].endswith("recorder"):
                    self.recording = any(pair.key == "path" and pair.value for pair in status.values)


def _level(level: Any) -> int:
    """Return a level as a number; the message carries it as a byte."""
    return level[0] if isinstance(level, bytes) else int(level)
