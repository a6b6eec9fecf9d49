"""Node excitation: plans an exciting trajectory, moves to its start, runs it, stops the robot if anything goes wrong.

What it sends passes joint_trajectory_controller's checks. A stop is a new trajectory that brakes from the reference
within the acceleration limits, sent by the thread that noticed.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from ros2_dynid.control.motion import Manner, Motion
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.supervisor import Tolerances
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.excitation.trajectory import rehearsal
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.background import THREADS
from ros2_dynid.nodes.common.fast import Stream, Ticker, newest
from ros2_dynid.nodes.common.lifecycle_node import ERROR, OK, WARN, ManagedNode
from ros2_dynid.nodes.common.messages import ANNOUNCED, JOINT_STATES, LATCHED
from ros2_dynid.nodes.common.parameters import EXCITATION
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.excitation.planning import Planner
from ros2_dynid.nodes.excitation.sender import Sender
from ros2_dynid.recording.live import LiveStates, StampClock


class Excitation(ManagedNode):
    """Services plan, rehearse, start and stop; the motion itself is control.motion's."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("excitation", EXCITATION)
        self._lock = threading.RLock()
        self._motion: Motion | None = None
        self._announced = False
        self._parts: list[Any] = []
        self.autostart()

    def configure(self) -> None:
        """Make topics and services."""
        self._planner = Planner(self)
        self._exciting = self.create_publisher(Bool, "exciting", ANNOUNCED)
        self._state_out = self.create_publisher(String, "excitation_state", LATCHED)
        self._announce("idle", "")
        self._sender = Sender(self, "joint_trajectory", self.value("action"))
        for name, act in (("start", self._start), ("rehearse", self._rehearse), ("stop", self._stop)):
            self.create_service(Trigger, f"~/{name}", lambda _, response, act=act: self._answer(act, response))

    def on_robot(self, robot: Robot) -> None:
        """Watch this robot from now on."""
        tolerances = Tolerances(*map(self.value, ("tracking_tolerance", "stale_seconds", "limit_overshoot")))
        manner = Manner(
            self.value("approach_speed"),
            self.value("settle_seconds"),
            deceleration=self.value("stop_deceleration"),
            delay=self.value("start_delay"),
        )
        with self._lock:
            self._states, self._clock_of_states = LiveStates(robot.active_names), StampClock()
            self._planner.trajectory = None
            self._motion = Motion(robot, tolerances, manner, self._send, self._announce)

    def activate(self) -> None:
        """Listen to joint states and watch."""
        period = self.value("control_period")
        listen = Stream(self, JointState, "joint_states", self._on_state, JOINT_STATES, rest=period, chosen=newest)
        self._parts = [listen, Ticker(period, self._watch)]

    def deactivate(self) -> None:
        """Stop the robot and listen no more."""
        if self._motion is not None:
            self._motion.abort("the node was deactivated", time.monotonic())
        self._planner.close()
        for part in self._parts:
            part.close()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        """Tell the phase."""
        if self._motion is None:
            return WARN, "no robot yet", {}
        phase = self._motion.phase
        return ERROR if phase == "aborted" else OK, phase, {"planned": self._planner.trajectory is not None}

    def _answer(self, act: Any, response: Trigger.Response) -> Trigger.Response:
        try:
            with self._lock:
                response.message, response.success = act(), True
        except DynidError as error:
            response.message = str(error)
        return response

    def _start(self) -> str:
        return self._run(lambda plan: plan, "exciting")

    def _rehearse(self) -> str:
        return self._run(lambda plan: rehearsal(plan, self.value("rehearsal_speed")), "rehearsing")

    def _stop(self) -> str:
        stopped = self._motion is not None and self._motion.abort("stop was called", time.monotonic())
        return "stopping" if stopped else "nothing was moving"

    def _run(self, chosen: Any, phase: str) -> str:
        self.known_robot()
        if self._planner.trajectory is None or not self.active:
            raise InputError("there is no plan, or the node is inactive", "call ~/plan, or activate it")
        if problem := self._sender.problem():
            raise InputError(problem, "start the controller, or remap its topic")
        points = self._planner.points(chosen(self._planner.trajectory))
        begins = self._motion.start(phase, points, time.monotonic(), self._planner.check_way)
        return f"{phase} begins in {begins:.1f} s"

    def _send(self, points: Reference, begin: float | None) -> None:
        self._sender.send(points, begin)

    def _announce(self, phase: str, reason: str) -> None:
        if phase == "idle" or (phase == "exciting") != self._announced:
            self._announced = phase == "exciting"
            self._exciting.publish(Bool(data=self._announced))
        self._state_out.publish(String(data=f"{phase}: {reason}" if reason else phase))
        if reason:
            self.get_logger().error(f"stopped: {reason}")

    def _on_state(self, message: bytes) -> None:
        with self._lock:
            if self._motion is not None and (state := self._states.take(message)) is not None:
                now = time.monotonic()
                measured_at = self._clock_of_states.time_of(state.stamp, now)
                self._motion.observe(state.q, state.dq, now, measured_at)

    def _watch(self) -> None:
        with self._lock:
            if self._motion is not None and self._motion.moving:
                self._motion.watch(self._sender.problem(), time.monotonic())


def main() -> int:
    """Run the node."""
    return run(Excitation, THREADS)
