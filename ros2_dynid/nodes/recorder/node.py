# SPDX-License-Identifier: Apache-2.0

"""Node recorder: joint states into rosbag2 bags, by service or while the excitation runs, and into a ring buffer.

Subscribes to joint_states and excitation_state. Publishes recording, the path of the last bag finished. Services:
~/start, ~/stop and ~/save_buffer. It moves nothing, writes only inside its folder, and overwrites nothing; killed, it
loses about half a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ros2_dynid.confined import Folder
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.msg import ExcitationState
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.fast import Stream
from ros2_dynid.nodes.common.lifecycle_node import ERROR, OK, WARN, ManagedNode, NodeStatus
from ros2_dynid.nodes.common.optional import optional
from ros2_dynid.nodes.common.qos import ANNOUNCED, JOINT_STATES, LATCHED
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.recorder.parameters import PARAMETERS
from ros2_dynid.recording.bag.writer import WriteError
from ros2_dynid.recording.session import Session, Summary
from ros2_dynid.srv import StartRecording, StopRecording

TOPIC = "excitation_state"
REST = 0.004
"""Time [s] in which joint states gather before they are taken together."""
POLL = 0.25
"""How often [s] what waits is brought to the disk, and the excitation is looked for."""


class Following:
    """Calls on_change(exciting) when that changes, and with False when nobody is left to end it.

    A publisher that offers a lease of liveliness, as ours does, is missed as soon as that has run out; another one when
    the middleware gives it up. One that was only silent for a while and comes back is followed again (`returned`).

    Leases are watched by a subscription of their own, from the start to the end of the node: one that is destroyed and
    made again hears of no lease that runs out any more, and Fast DDS gives a killed publisher up after 20 s only.
    """

    def __init__(self, node: Node, on_change: Callable[[bool], None]) -> None:
        """Listen; poll() is to be called twice a second or so."""
        self._node, self._on_change, self._logger = node, on_change, node.get_logger()
        self._announced = self._lost = self.returned = False
        self._alive = 0
        node.create_subscription(ExcitationState, TOPIC, self._on_state, LATCHED)
        events = SubscriptionEventCallbacks(liveliness=self._on_liveliness, use_default_callbacks=False)
        node.create_subscription(ExcitationState, TOPIC, lambda _: None, ANNOUNCED, event_callbacks=events)

    def poll(self) -> None:
        """Look whether the publisher is alive."""
        if not self._announced:
            return
        publishers = self._node.count_publishers(TOPIC)
        if self._lost and self._alive and publishers:
            self._lost, self.returned = False, True
            self._on_change(True)
        elif not publishers:
            self._lose()

    def _on_liveliness(self, event: Any) -> None:
        self._alive = event.alive_count
        if not self._alive:
            self._lose()

    def _on_state(self, message: ExcitationState) -> None:
        if message.state in (ExcitationState.SLOWING, ExcitationState.PAUSED):
            return  # a motion that is paused goes on in the same bag
        exciting = message.state == ExcitationState.EXCITING
        self._announced, self._lost, self.returned = exciting, False, False
        self._on_change(exciting)

    def _lose(self) -> None:
        if self._announced and not self._lost:
            self._lost = True
            self._logger.warning("the excitation is gone")
            self._on_change(False)


class Recorder(ManagedNode):
    """Writes the serialized messages as they come."""

    needs_robot = False

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("recorder", PARAMETERS)
        self._stream: Stream | None = None
        self._session = Session("", 0)  # of configure()
        self._following = False
        self._ended_ns = self._pauses = 0
        self._excitation = Following(self, self._on_exciting)
        self.autostart()

    def configure(self) -> None:
        """Make services and the announcement of finished bags."""
        self._folder = Folder(self.value("folder"))
        topic = self.resolve_topic_name("joint_states")
        self._session = Session(topic, int(self.value("buffer_seconds") * self.value("expected_rate")))
        self._finished = self.create_publisher(String, "recording", LATCHED)
        self.create_service(StartRecording, "~/start", self._on_start)
        self.create_service(StopRecording, "~/stop", self._on_stop)
        self.create_service(Trigger, "~/save_buffer", self._on_save_buffer)
        self.create_timer(POLL, self._poll)

    def activate(self) -> None:
        """Listen."""
        take = self._session.take
        self._stream = Stream(
            self, JointState, "joint_states", lambda data: take(data, time.time_ns()), JOINT_STATES, rest=REST
        )

    def deactivate(self) -> None:
        """Stop listening; a bag being written is closed and complete."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._session.path is not None:
            try:
                self._end()
            except DynidError as error:
                self.get_logger().error(str(error))

    def status(self) -> NodeStatus:
        """Tell rate, gaps and what is wrong."""
        session = self._session
        problems = [*session.statistics.problems(), *([str(session.failure)] if session.failure else [])]
        values = {"count": session.statistics.count, "rate": f"{1 / session.statistics.period:.1f}"}
        values |= {"buffered": session.buffered, "path": session.path or ""}
        message = "; ".join(problems) or ("recording" if session.path else "listening")
        return ERROR if session.failure else WARN if problems else OK, message, values

    def _begin(self, name: str, since_ns: int = 0) -> Path:
        """Begin a bag, with what the buffer received since a time [ns]; 0: since the parameter's lead."""
        if not self.active:
            raise InputError("the recorder is not active", "activate it")
        path = self._folder.new(name or time.strftime("recording_%Y%m%d_%H%M%S"), unique=not name)
        self._pauses = 0
        self._session.begin(path, since_ns or time.time_ns() - int(1e9 * self.value("lead_seconds")))
        self.get_logger().info(f"recording into {path}")
        return path

    def _end(self) -> Summary:
        self._following = False
        self._ended_ns = time.time_ns()
        try:
            summary = self._session.end()
        except WriteError as error:
            self._announce(error.path, error.kept)
            raise
        for problem in summary.problems:
            self.get_logger().warning(problem)
        self._announce(summary.path, summary.samples)
        return summary

    def _announce(self, path: Path, samples: int) -> None:
        """Tell of a finished bag, unless there is nothing in it."""
        self.get_logger().info(f"{samples} joint states in {path}")
        if samples:
            self._finished.publish(String(data=str(path)))

    def _on_start(self, request: StartRecording.Request, response: StartRecording.Response) -> StartRecording.Response:
        with answering(response, self.get_logger()):
            response.path = str(self._begin(optional(request.path) or ""))
        return response

    def _on_stop(self, _: StopRecording.Request, response: StopRecording.Response) -> StopRecording.Response:
        with answering(response, self.get_logger()):
            summary = self._end()
            for field in ("samples", "duration", "rate", "gaps", "longest_gap"):
                setattr(response, field, getattr(summary, field))
            response.path, response.problems = str(summary.path), list(summary.problems)
            if not summary.samples:
                raise InputError("no joint state came", "check the topic joint_states")
        return response

    def _on_save_buffer(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with answering(response, self.get_logger()):
            path = self._folder.new(time.strftime("buffer_%Y%m%d_%H%M%S"), unique=True)
            self._announce(path, self._session.save(path))
            response.message = str(path)
        return response

    def _on_exciting(self, exciting: bool) -> None:
        """Follow the excitation; what a service began is left alone."""
        try:
            if exciting and self.active and self.value("follow_excitation") and self._session.path is None:
                self._begin("", self._ended_ns if self._excitation.returned else 0)
                self._following = True
            elif not exciting and self._following:
                self._end()
        except (DynidError, OSError) as error:
            self.get_logger().error(str(error))

    def _poll(self) -> None:
        failed = self._session.poll()
        if failed is not None:
            self.get_logger().error(str(failed))
            self._announce(failed.path, failed.kept)
        statistics = self._session.statistics
        if statistics.pauses > self._pauses:
            self._pauses = statistics.pauses
            self.get_logger().warning(
                f"no joint states for {statistics.longest_pause:.3g} s: they are missing in the bag"
            )
        self._excitation.poll()


def main() -> int:
    """Run the node."""
    return run(Recorder)
