"""A client of the suite: calls its services and actions in order, sends trajectories and sees what the robot does."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import rclpy
from rcl_interfaces.srv import SetParameters
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop import approach
from ros2_dynid.errors import DynidError
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.nodes.fast import Stream
from ros2_dynid.nodes.messages import COMMANDS, JOINT_STATES, LATCHED, trajectory_message
from ros2_dynid.recording.live import LiveStates

LEAD = 1.0
"""Time [s] that a trajectory starts after it is sent, so that its start is the same for everybody."""


class ClientError(DynidError):
    """A node said no, or nothing."""


class Client(Node):
    """Spins in a thread of its own; its methods block the caller."""

    def __init__(self, robot: Robot, name: str = "client") -> None:
        """Listen to joint states of `robot`, the excitation's state and finished recordings."""
        super().__init__(name)
        self.robot = robot
        self._lock = threading.Lock()
        self._live = LiveStates(robot.active_names)
        self._log: list[tuple[int, Array]] | None = None
        self.recording, self.excitation_state = "", ""
        self.create_subscription(String, "recording", lambda m: setattr(self, "recording", m.data), LATCHED)
        self.create_subscription(
            String, "excitation_state", lambda m: setattr(self, "excitation_state", m.data), LATCHED
        )
        self._direct = self.create_publisher(JointTrajectory, "joint_trajectory", COMMANDS)
        self._reference = self.create_publisher(JointTrajectory, "reference", COMMANDS)
        Stream(self, JointState, "joint_states", self._on_state, JOINT_STATES, rest=0.004)
        executor = SingleThreadedExecutor()
        executor.add_node(self)
        threading.Thread(target=executor.spin, daemon=True).start()

    def call(self, kind: Any, name: str, timeout: float = 60.0, **fields: Any) -> Any:
        """Call a service and return its response; a response without success raises."""
        client = self.create_client(kind, name)
        if not client.wait_for_service(20.0):
            raise ClientError(f"service {name} does not answer; is its node running?")
        response = _result(client.call_async(kind.Request(**fields)), timeout, name)
        if not getattr(response, "success", True):
            raise ClientError(f"{name}: {response.message}")
        return response

    def act(self, kind: Any, name: str, goal: Any, feedback: Any = None, timeout: float = 300.0) -> Any:
        """Send a goal and return its result; one without success raises."""
        client = ActionClient(self, kind, name)
        if not client.wait_for_server(20.0):
            raise ClientError(f"action {name} does not answer; is its node running?")
        handle = _result(client.send_goal_async(goal, feedback), timeout, name)
        result = _result(handle.get_result_async(), timeout, name).result
        if not result.success:
            raise ClientError(f"{name}: {result.message}")
        return result

    def set(self, node: str, **values: Any) -> None:
        """Set parameters of a node."""
        wanted = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        response = self.call(SetParameters, f"{node}/set_parameters", parameters=wanted)
        for result in response.results:
            if not result.successful:
                raise ClientError(f"{node}: {result.reason}")

    def wait(self, done: Any, timeout: float, what: str) -> None:
        """Wait until done() is true."""
        until = time.monotonic() + timeout
        while not done():
            if time.monotonic() > until:
                raise ClientError(f"{what} took longer than {timeout:g} s")
            time.sleep(0.02)

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
        way = approach(self.position(), q, velocity, acceleration).shifted(0.01)
        self._direct.publish(trajectory_message(way, self.robot.active_names))
        end = self._live.stamp + int((way.duration + 0.3) * 1e9)
        self.wait(lambda: self._live.stamp >= end, way.duration + 20.0, "a move")

    def follow(self, points: Reference, *, feedforward: bool) -> tuple[Array, Array]:
        """Send a trajectory, directly or by way of the feedforward; return times (N,) [s] and positions (N, n)."""
        start = time.time_ns() + int(LEAD * 1e9)
        message = trajectory_message(points, self.robot.active_names)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(start, 1_000_000_000)
        with self._lock:
            self._log = []
        (self._reference if feedforward else self._direct).publish(message)
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


def _result(future: Any, timeout: float, name: str) -> Any:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    if not done.wait(timeout):
        raise ClientError(f"{name} has not answered for {timeout:g} s")
    return future.result()


def start_ros() -> None:
    """Initialise rclpy for a client that handles signals itself."""
    rclpy.init(signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
