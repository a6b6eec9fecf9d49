# SPDX-License-Identifier: Apache-2.0

"""The online mode of the identification node: joint states in, estimates with confidence and drift out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from geometry_msgs.msg import InertiaStamped
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.control.joint_trust import JointStateArrived, JointTrust
from ros2_dynid.control.motion_limits import known_limits
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.loads.payload_fit import load_link
from ros2_dynid.identification.loads.quick_load import quick_load
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.online.drift import Drift
from ros2_dynid.identification.online.estimator import OnlineEstimator
from ros2_dynid.identification.torque_std import torque_scatter, torque_std
from ros2_dynid.model.efforts import effort_gains
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.msg import BaseParameters
from ros2_dynid.nodes.common.fast import Stream
from ros2_dynid.nodes.common.messages import inertia_message
from ros2_dynid.nodes.common.predicted import Predicted
from ros2_dynid.nodes.common.qos import JOINT_STATES, LATCHED
from ros2_dynid.recording.live import LiveStates, LiveStatistics

WORK_SECONDS = 0.2
SMOOTHING = 0.02
"""Speed [rad/s or m/s] over which Coulomb friction changes sign in a plot."""
STALE_SECONDS = 0.1
"""Between joint states further apart than this [s] a step of the positions tells nothing."""
MEASURING = 500
"""Joint states that the rate is measured from before the estimator starts."""


@dataclass(frozen=True)
class OnlineSettings:
    """Rows per second and joint [Hz], cutoff of the filter [Hz], time constant of forgetting [s], plots [Hz].

    payload: publish the load that the stream shows.
    """

    row_rate: float
    cutoff: float
    memory: float
    predicted_rate: float
    payload: bool = False


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
        self._estimator: OnlineEstimator | None = None
        self._states = LiveStates(())
        self._trust = JointTrust(STALE_SECONDS)
        self._statistics = LiveStatistics()
        self.drift: Drift | None = None
        self._estimates = node.create_publisher(BaseParameters, "online_parameters", LATCHED)
        self._verdict = node.create_publisher(Bool, "drift", LATCHED)
        self._told: bool | None = None
        self._predicted = Predicted(node, settings.predicted_rate, band=True)
        self._payload = node.create_publisher(InertiaStamped, "~/payload", LATCHED) if settings.payload else None
        self._payload_std = (
            node.create_publisher(InertiaStamped, "~/payload_std", LATCHED) if settings.payload else None
        )
        self._since = -np.inf
        self._first_stamp: int | None = None
        self._plotted: tuple[IdentifiedModel, FeedforwardModel] | None = None
        self._stream = Stream(node, JointState, "joint_states", self._on_state, JOINT_STATES, rest=0.004)
        self._timer = node.create_timer(WORK_SECONDS, self._work)

    def close(self) -> None:
        """Stop listening."""
        self._stream.close()
        self._node.destroy_timer(self._timer)
        for publisher in (
            self._estimates,
            self._verdict,
            self._predicted.publisher,
            *self._predicted.edges,
            self._payload,
            self._payload_std,
        ):
            if publisher is not None:
                self._node.destroy_publisher(publisher)

    def _on_state(self, message: bytes) -> None:
        """Take a joint state; only the thread of the stream does."""
        robot = self._robot()
        if robot is None:
            return
        if self._estimator is None:
            self._statistics.take(message)
            if self._statistics.count >= MEASURING:
                settings = self._settings
                self._states = LiveStates(robot.active_names, effort_gains(robot))
                self._trust = JointTrust(STALE_SECONDS, known_limits(robot).velocity)
                self._estimator = OnlineEstimator(
                    robot,
                    1 / self._statistics.period,
                    row_rate=settings.row_rate,
                    cutoff=settings.cutoff,
                    memory=settings.memory,
                )
        elif (state := self._states.take(message)) is not None:
            now = time.monotonic()
            self._trust.take_anywhere(JointStateArrived(now, state, now))
            if not self._trust.doubt:  # an encoder that jumps is no motion
                self._estimator.take(state.q, state.tau, self._seconds(state.stamp))
            plotting = self._plotted is not None
            self._predicted.take(
                message, self._states, self._torque if plotting else None, self._band if plotting else None
            )

    def _seconds(self, stamp: int) -> float | None:
        """Return the time of a stamp [ns] since the first one [s]; None for a driver that does not stamp."""
        if stamp == 0:
            return None
        if self._first_stamp is None:
            self._first_stamp = stamp
        return 1e-9 * (stamp - self._first_stamp)

    def _work(self) -> None:
        estimator, reference = self._estimator, self._model()
        if estimator is None:
            return
        self._plot(reference)
        rows = estimator.work(reference)
        if reference is not None and reference.fit:
            self.drift = estimator.drift(reference, self._drift_ratio())
        if self.drift is not None and self.drift.drifting != self._told:
            self._told = self.drift.drifting
            self._since = estimator.newest
            self._verdict.publish(Bool(data=self._told))
            if self._told:
                self._node.get_logger().warning(f"drift at joint {self.drift.joint}: payload or friction has changed")
        if rows:
            found = estimator.estimate()
            if found is not None:
                self._plot(reference or found)
                self._estimates.publish(self._message_of(found))
            if reference is not None:
                self._weigh(estimator, reference)

    def _weigh(self, estimator: OnlineEstimator, reference: IdentifiedModel) -> None:
        """Publish the load that the rows since the last change of drift show."""
        if estimator.newest < self._since:  # the clock was set back
            self._since = -np.inf
        information = estimator.information(self._since)
        if self._payload is None or self._payload_std is None or information is None:
            return
        try:
            link = load_link(reference.robot, None)
            load = quick_load(reference, estimator.base, information, link=link)
        except DynidError as error:
            self._node.get_logger().warning(f"payload: {error}", throttle_duration_sec=10.0)
            return
        if load is None:
            return
        message = InertiaStamped(inertia=inertia_message(load.mass, load.com.tolist(), load.inertia.tolist()))
        message.header.frame_id, message.header.stamp = load.frame, self._node.get_clock().now().to_msg()
        self._payload.publish(message)
        message.inertia = inertia_message(load.mass_std, load.com_std.tolist(), load.inertia_std.tolist())
        self._payload_std.publish(message)

    def _plot(self, model: IdentifiedModel | None) -> None:
        """Predict with this model from now on: the one served, or the estimate as long as there is none."""
        if model is not None and (self._plotted is None or self._plotted[0] is not model):
            self._plotted = model, FeedforwardModel(model.robot, model.chi)

    def _band(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the half width of the band that 95 % of the measured torques are in."""
        assert self._plotted is not None
        model = self._plotted[0]
        std = torque_std(model, q[None], dq[None], ddq[None], measured=True)[0]
        return np.asarray(torque_scatter(model).width * std)

    def _torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        assert self._plotted is not None
        model = self._plotted[1]
        rigid = model.rigid(q, dq, ddq)
        return rigid + model.friction(q, dq, SMOOTHING, rigid)
