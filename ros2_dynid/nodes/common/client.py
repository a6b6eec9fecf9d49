# SPDX-License-Identifier: Apache-2.0

"""A client of the suite: calls its services and actions in order, sends trajectories and sees what the robot does."""

from __future__ import annotations

import contextlib
import threading
import time

import numpy as np
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop import approach_reference
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.msg import ExcitationState
from ros2_dynid.nodes.common.caller import Caller, ClientError
from ros2_dynid.nodes.common.fast import Stream
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import COMMANDS, JOINT_STATES, LATCHED
from ros2_dynid.recording.live import LiveStates

REST_SECONDS = 0.2
"""Time [s] over which a robot is seen at rest."""
LEAD = 1.0
"""Time [s] that a trajectory starts after it is sent, so that its start is the same for everybody."""


class Client(Caller):
    """Spins in a thread of its own; its methods block the caller."""

    def __init__(self, robot: Robot, name: str = "client") -> None:
        """Listen to joint states of `robot`, the excitation's state and finished recordings."""
        super().__init__(name)
        self.robot = robot
        self._lock = threading.Lock()
        self._live = LiveStates(robot.active_names)
        self._log: list[tuple[int, Array]] | None = None
        self.recording, self.excitation_state = "", ExcitationState()
        self.create_subscription(String, "recording", lambda m: setattr(self, "recording", m.data), LATCHED)
        self.create_subscription(
            ExcitationState, "excitation_state", lambda m: setattr(self, "excitation_state", m), LATCHED
        )
        self._direct = self.create_publisher(JointTrajectory, "joint_trajectory", COMMANDS)
        self._reference = self.create_publisher(JointTrajectory, "reference", COMMANDS)
        self._stream = Stream(self, JointState, "joint_states", self._on_state, JOINT_STATES, rest=0.004)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self)
        self._spinning = threading.Thread(target=self._spin, daemon=True)
        self._spinning.start()

    def close(self) -> None:
        """Listen no more."""
        self._stream.close()
        self._executor.shutdown(timeout_sec=1.0)
        self._spinning.join(2.0)
        self.destroy_node()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def wait_for_excitation(self, *states: int, timeout: float) -> ExcitationState:
        """Wait until the excitation is in one of these states (ExcitationState.DONE, ...) and return what it says."""
        self.wait(lambda: self.excitation_state.state in states, timeout, "the excitation")
        return self.excitation_state

    @property
    def measured(self) -> State:
        """The last joint state, in the robot's order; NaN before the first one."""
        return self._live.state

    def speed(self) -> float:
        """Return the speed of the fastest joint in the last joint state [rad/s or m/s]; NaN before the first one."""
        return float(np.abs(self.measured.dq).max())

    def wait_for_rest(self, speed: float, timeout: float) -> None:
        """Wait until no joint has moved faster than `speed` [rad/s or m/s] for REST_SECONDS, by its positions.

        The velocities of a resting joint are no measure: one count of its encoder within a control period is much.
        """
        before = self._live.state

        def rests() -> bool:
            nonlocal before
            now = self._live.state
            span = 1e-9 * (now.stamp - before.stamp)
            if span < REST_SECONDS:
                return False
            way, before = np.abs(now.q - before.q).max(), now
            return bool(way < speed * span)

        try:
            self.wait(rests, timeout, "rest")
        except ClientError as error:
            state = self._live.state
            age = 1e-9 * (time.time_ns() - state.stamp)
            seen = f"the last joint state is {age:.3f} s old: q {state.q.tolist()}, dq {state.dq.tolist()}"
            raise ClientError(f"{error}; excitation {self.excitation_state.text}; {seen}") from None

    def position(self) -> Array:
        """Return the measured positions, shape (n,), waiting for the first ones."""
        self.wait(lambda: bool(np.all(np.isfinite(self._live.q))), 20.0, "the first joint state")
        with self._lock:
            return self._live.q.copy()

    def go(self, q: Array, speed: float = 0.5) -> None:
        """Move to q, shape (n,), and wait until it is there."""
        limits = [self.robot.joints[j - 1].limits for j in self.robot.active]
        velocity = speed * np.array([min(limit.velocity, 3.0) for limit in limits])
        acceleration = speed * np.array([min(limit.acceleration, 5.0) for limit in limits])
        way = approach_reference(self.robot.active_names, self.position(), q, velocity, acceleration).shifted(0.01)
        self.send(trajectory_message(way), feedforward=False)
        end = self._live.stamp + int((way.duration + 0.3) * 1e9)
        self.wait(lambda: self._live.stamp >= end, way.duration + 20.0, "a move")

    def send(self, message: JointTrajectory, *, feedforward: bool) -> None:
        """Send a trajectory as it is, to the controller or to the feedforward."""
        (self._reference if feedforward else self._direct).publish(message)

    def follow(self, points: Reference, *, feedforward: bool) -> tuple[Array, Array]:
        """Send a trajectory, directly or by way of the feedforward; return times (N,) [s] and positions (N, n)."""
        start = time.time_ns() + int(LEAD * 1e9)
        message = trajectory_message(points)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(start, 1_000_000_000)
        with self._lock:
            self._log = []
        self.send(message, feedforward=feedforward)
        end = start + int(points.duration * 1e9)
        self.wait(lambda: self._live.stamp >= end, LEAD + points.duration + 20.0, "a trajectory")
        with self._lock:
            log, self._log = self._log, None
        t = 1e-9 * np.array([stamp - start for stamp, _ in log])
        inside = (t >= 0) & (t <= points.duration)
        return t[inside], np.array([q for _, q in log])[inside]

    def _on_state(self, data: bytes) -> None:
        with self._lock:
            if self._live.take(data) and self._log is not None:
                self._log.append((self._live.stamp, self._live.q.copy()))
