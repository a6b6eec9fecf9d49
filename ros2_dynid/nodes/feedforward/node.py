"""Node feedforward: the torque of the identified model along a reference, to a controller that adds it.

By default `effort` is filled into the reference and passed on as joint_trajectory, to a controller that keeps control
when this node dies. Streamed torques (output: effort) go out as JointState and as Float64MultiArray: a forward command
controller applies the last one for ever if this node is killed.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.driver import Driver
from ros2_dynid.control.feedforward import Options
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.fast import Stream, Ticker, newest
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN, ManagedNode
from ros2_dynid.nodes.common.messages import JOINT_STATES, STREAMED
from ros2_dynid.nodes.common.model_messages import check_same_robot
from ros2_dynid.nodes.common.parameters import FEEDFORWARD
from ros2_dynid.nodes.common.predicted import Predicted
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.feedforward.services import FeedforwardServices
from ros2_dynid.nodes.feedforward.torque_output import TorqueOutput
from ros2_dynid.recording.live import LiveStates
from ros2_dynid.recording.live_points import LivePoints


class FeedforwardNode(ManagedNode):
    """Takes references and models at any time; control.driver decides what torque goes out."""

    needs_robot = False

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("feedforward", FEEDFORWARD)
        self._lock = threading.RLock()
        self.driver: Driver | None = None
        self.states, self.points = LiveStates(()), LivePoints(())
        self.streaming = False
        self._parts: list[Any] = []
        self._ticker: list[Ticker] = []
        self.autostart()

    def configure(self) -> None:
        """Make topics and services; load the model file."""
        self.output = TorqueOutput(self)
        self._asked, self._predicted = FeedforwardServices(self, self._lock), Predicted(self)
        self.add_post_set_parameters_callback(lambda _: self.choose())
        self.needs_robot = bool(self.value("robot"))
        if self.value("model"):
            model = load_model(self.value("model"))
            self._asked.use(model.robot, model.chi, self.value("model"))

    def on_robot(self, robot: Robot) -> None:
        """Refuse a model of another robot that is already there."""
        if self.driver is not None:
            check_same_robot(robot, self.driver.robot, self.value("model") or "base_parameters")

    def activate(self) -> None:
        """Listen, and tick."""
        self._parts = [
            Stream(self, JointTrajectory, "reference", self._on_reference, STREAMED, chosen=self._current),
            Stream(self, JointState, "joint_states", self._on_state, JOINT_STATES, rest=0.002, chosen=newest),
            Ticker(1 / self.value("background_rate"), self._background),
        ]
        self.choose()

    def deactivate(self) -> None:
        """Send no more; in effort mode the last torque is gravity's."""
        for part in [*self._parts, *self._ticker]:
            part.close()
        self._ticker = []
        with self._lock:
            if self.driver is not None and self.driver.used:
                self.output.send(self.driver.final(time.monotonic()), self.driver)

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        """Tell what it does."""
        driver = self.driver
        if driver is None:
            return WARN, "no model yet", {}
        return OK, driver.state, {"robot": driver.robot.name, "output": self.value("output"), "sent": driver.sent}

    def choose(self) -> None:
        """Take the parameters as they are now; torques are streamed by a thread that runs only while they are."""
        self.streaming = stream = self.active and self.value("output") == "effort"
        if stream and not self._ticker:
            self._ticker = [Ticker(1 / self.value("rate"), self._tick)]
            self.prefer()
        elif not stream and self._ticker:
            self._ticker.pop().close()
        with self._lock:
            if self.driver is not None:
                names = ("gravity_only", "friction", "smoothing", "measured_gravity", "split")
                options = Options(ramp=self.value("ramp_seconds"), **{name: self.value(name) for name in names})
                self.driver.choose(options, self.value("timeout"), self.value("output") == "effort")

    def _on_state(self, data: bytes) -> None:
        with self._lock:
            if self.driver is not None and self.states.take(data):
                self.driver.measured(self.states.q, self.states.dq)
                self._predicted.take(data, self.states, self.driver.predicted)

    def _current(self, waited: list[bytes]) -> list[bytes]:
        """Choose, of streamed points that came together, the last: torques of those before would only come late."""
        if not self.streaming or len(waited) < 2 or self.points.read(waited[-1]) is None:
            return waited
        return [data for data in waited[:-1] if len(data) != len(waited[-1])] + waited[-1:]

    def _on_reference(self, data: bytes) -> None:
        now = time.monotonic()
        point = self.points.read(data) if self.streaming else None
        if point is None:
            self._asked.follow(data, now)
            return
        with self._lock:
            self.output.send(self.driver.streamed(*point, now), self.driver)

    def _tick(self) -> None:
        now = time.monotonic()
        if self.driver is None or self.driver.quiet(now):
            return
        with self._lock:
            if self.driver is not None:
                self.output.send(self.driver.tick(now), self.driver)
                for text in self.driver.news():
                    self.get_logger().info(text)

    def _background(self) -> None:
        with self._lock:
            if self.driver is not None:
                self.output.send_coefficients(self.driver.background(), self.driver)


def main() -> int:
    """Run the node."""
    return run(FeedforwardNode)
