"""The online mode of the identification node: joint states in, estimates with confidence and drift out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.online import Drift, OnlineEstimator
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.msg import BaseParameters
from ros2_dynid.nodes.common.fast import Stream
from ros2_dynid.nodes.common.messages import JOINT_STATES, LATCHED
from ros2_dynid.nodes.common.predicted import Predicted
from ros2_dynid.recording.live import LiveStates, LiveStatistics

WORK_SECONDS = 0.2
SMOOTHING = 0.02
"""Speed [rad/s or m/s] over which Coulomb friction changes sign in a plot."""
MEASURING = 500
"""Joint states that the rate is measured from before the estimator starts."""


@dataclass(frozen=True)
class OnlineSettings:
    """Rows per second and joint [Hz], cutoff of the filter [Hz], time constant of forgetting [s], plots [Hz]."""

    row_rate: float
    cutoff: float
    memory: float
    predicted_rate: float


class Online:
    """Runs beside the node that owns it, until closed."""

    def __init__(
        self,
        node: Node,
        settings: OnlineSettings,
        *,
        robot: Callable[[], Robot | None],
        model: Callable[[], IdentifiedModel | None],
        drift_ratio: Callable[[], float],
        message_of: Callable[[IdentifiedModel], BaseParameters],
    ) -> None:
        """Listen; estimates go to online_parameters, the verdict to drift. What may change is asked for as needed."""
        self._node, self._settings = node, settings
        self._robot, self._model, self._drift_ratio, self._message_of = robot, model, drift_ratio, message_of
        self._lock = threading.Lock()
        self._estimator: OnlineEstimator | None = None
        self._states = LiveStates(())
        self._statistics = LiveStatistics()
        self.drift: Drift | None = None
        self._estimates = node.create_publisher(BaseParameters, "online_parameters", LATCHED)
        self._verdict = node.create_publisher(Bool, "drift", LATCHED)
        self._told: bool | None = None
        self._predicted = Predicted(node, settings.predicted_rate)
        self._plotted: tuple[IdentifiedModel, FeedforwardModel] | None = None
        self._stream = Stream(node, JointState, "joint_states", self._on_state, JOINT_STATES, rest=0.004)
        self._timer = node.create_timer(WORK_SECONDS, self._work)

    def close(self) -> None:
        """Stop listening."""
        self._stream.close()
        self._node.destroy_timer(self._timer)
        for publisher in (self._estimates, self._verdict, self._predicted.publisher):
            self._node.destroy_publisher(publisher)

    def _on_state(self, message: bytes) -> None:
        robot = self._robot()
        if robot is None:
            return
        with self._lock:
            if self._estimator is None:
                self._statistics.take(message)
                if self._statistics.count >= MEASURING:
                    settings = self._settings
                    self._states = LiveStates(robot.active_names)
                    self._estimator = OnlineEstimator(
                        robot,
                        1 / self._statistics.period,
                        row_rate=settings.row_rate,
                        cutoff=settings.cutoff,
                        memory=settings.memory,
                    )
            elif self._states.take(message):
                self._estimator.take(self._states.q, self._states.tau)
                self._predicted.take(message, self._states, None if self._plotted is None else self._torque)

    def _work(self) -> None:
        if self._estimator is None:
            return
        self._plot(self._model())
        with self._lock:
            reference = self._model()
            if not self._estimator.work(reference):
                return
            found = self._estimator.estimate()
            if reference is not None and reference.fit:
                self.drift = self._estimator.drift(reference, self._drift_ratio())
        if found is not None:
            self._plot(self._model() or found)
            self._estimates.publish(self._message_of(found))
        if self.drift is not None and self.drift.drifting != self._told:
            self._told = self.drift.drifting
            self._verdict.publish(Bool(data=self._told))
            if self._told:
                self._node.get_logger().warning(f"drift at joint {self.drift.joint}: payload or friction has changed")

    def _plot(self, model: IdentifiedModel | None) -> None:
        """Predict with this model from now on: the one served, or the estimate as long as there is none."""
        if model is not None and (self._plotted is None or self._plotted[0] is not model):
            self._plotted = model, FeedforwardModel(model.robot, model.chi)

    def _torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        assert self._plotted is not None
        model = self._plotted[1]
        rigid = model.rigid(q, dq, ddq)
        return rigid + model.friction(dq, SMOOTHING, rigid)
