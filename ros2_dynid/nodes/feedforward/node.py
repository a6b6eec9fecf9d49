# SPDX-License-Identifier: Apache-2.0

"""Node feedforward: the torque of the identified model along a reference, to a controller that adds it.

Services: ~/stop, ~/fill_efforts and ~/set_payload. Subscribes to robot_description, joint_states, joint_temperatures,
reference, base_parameters, stop and commander. Publishes joint_trajectory or feedforward_effort and effort_commands,
and beside them commander, dynamic_coefficients, ~/predicted, ~/external_effort, ~/external_wrench and ~/contact.

By default `effort` is filled into the reference and passed on as joint_trajectory, to a controller that keeps control
when this node dies. Streamed torques (output: effort) go out as JointState and as Float64MultiArray: a forward command
controller applies the last one for ever if this node is killed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.feedforward_events import (
    ActivateFeedforward,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    MeasuredTemperature,
    NewDescription,
    OptionsChanged,
    OutputChanged,
)
from ros2_dynid.control.feedforward_machine import FeedforwardMachine
from ros2_dynid.control.stop_switch import Reason
from ros2_dynid.control.torque_ramp import LONGEST_ENDING
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.identification.torque_std import error_bars
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.commander_topic import CommanderTopic
from ros2_dynid.nodes.common.fast import NotForExecutors
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN, ManagedNode, NodeStatus
from ros2_dynid.nodes.common.parameters import Value
from ros2_dynid.nodes.common.predicted import Predicted
from ros2_dynid.nodes.common.qos import JOINT_STATES, STREAMED
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.common.stop_topic import StopListener
from ros2_dynid.nodes.common.temperatures import Temperatures
from ros2_dynid.nodes.feedforward.external_effort import ExternalEffort, Feeling
from ros2_dynid.nodes.feedforward.owner import FeedforwardOwner
from ros2_dynid.nodes.feedforward.parameters import EFFORT, PARAMETERS, feedforward_settings, feeling
from ros2_dynid.nodes.feedforward.services import FeedforwardServices, use_model
from ros2_dynid.nodes.feedforward.torque_output import TorqueOutput

STOPPED = frozenset({FeedforwardState.STOPPED})
UNREADY = (FeedforwardState.NO_MODEL, FeedforwardState.NO_LIMITS, FeedforwardState.UNDECLARED)
THREADS = 2
"""Of the executor: a stop is answered while a model is built."""
NOT_ENDING = frozenset(FeedforwardState) - {FeedforwardState.ENDING}


class FeedforwardNode(ManagedNode):
    """Passes on what it is told as events; control.feedforward_machine decides what torque goes out."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("feedforward", PARAMETERS)
        self.machine = FeedforwardMachine()
        self.owner: FeedforwardOwner | None = None
        self.external: ExternalEffort | None = None
        self._heard: tuple[Any, Any] | None = None
        self._stop_switch = StopListener(
            self, self._on_stop_switch, self.value("enabling_topic"), self.value("enabling_timeout")
        )
        self._commander = CommanderTopic(self)
        self.autostart()

    def configure(self) -> None:
        """Make topics and services; load the model file."""
        self._end_owner()  # of a configure that failed
        self.machine = FeedforwardMachine(self._settings({}), self.value("output") == EFFORT)
        self.output = TorqueOutput(self, self.now_ns if self.value("use_sim_time") else time.time_ns)
        self._predicted = Predicted(self, self.value("predicted_rate"))
        self.external = ExternalEffort(self, lambda: self.machine.carried, lambda: self.robot)
        self.external.use(self._feeling({}))
        owner = FeedforwardOwner(
            self.machine,
            self.context,
            self.output,
            self._predicted,
            self.external,
            self.now_ns,
            self.get_logger(),
            self._commander,
        )
        owner.background_period = 1 / self.value("background_rate")
        self.owner = owner
        self._on_stop_switch(self._stop_switch.reason)
        FeedforwardServices(self, owner.ask, lambda: self.robot)
        self._temperatures = Temperatures(
            self, lambda names, T: owner.ask(lambda now: MeasuredTemperature(now, names, T))
        )
        path = self.value("model")
        if path:
            model = load_model(path)
            use_model(owner.ask, model.robot, model.chi, path, error_bars(model))

    def _on_stop_switch(self, reason: Reason | None) -> None:
        """End every motion, and follow nothing while the stop of the suite is set."""
        if self.owner is not None:
            self.owner.set_stop(reason)

    def on_robot(self, robot: Robot) -> None:
        """Take its limits; a description of another robot than the model's is refused, or ends in gravity."""
        if self.owner is not None:
            self.owner.ask(lambda now: NewDescription(now, robot))

    def activate(self) -> None:
        """Listen, and begin."""
        assert self.owner is not None
        group = NotForExecutors()

        def heard(kind: Any, topic: str, qos: QoSProfile) -> Any:
            return self.create_subscription(kind, topic, _unused, qos, callback_group=group, raw=True)

        self._heard = (
            heard(JointTrajectory, "reference", STREAMED),
            heard(JointState, "joint_states", JOINT_STATES),
        )
        self.owner.ask(ActivateFeedforward)
        self.owner.listen(self._heard)

    def deactivate(self) -> None:
        """Send no more; streamed torques go over to gravity first."""
        if self.owner is None or self._heard is None:
            return
        self.owner.ask(DeactivateFeedforward)
        if not self.owner.wait_until(STOPPED, LONGEST_ENDING + 0.5):
            self.get_logger().error("the torque did not reach gravity in time")
        self.owner.listen(None)
        for subscription in self._heard:
            self.destroy_subscription(subscription)
        self._heard = None

    def close(self) -> None:
        """End in gravity; the process ends."""
        super().close()
        self._end_owner()

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take down what configure() made."""
        self._end_owner()
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End in gravity, also when it is shut down while active."""
        result = super().on_shutdown(state)
        self._end_owner()
        return result

    def status(self) -> NodeStatus:
        """Tell what it does."""
        status = self.machine.status
        remark = status.remark or (self._stop_switch.reason or ("",))[0]
        doubtful = status.state in UNREADY or remark or status.held_back
        values = {
            "robot": status.robot,
            "output": self.value("output"),
            "sent": status.sent,
            "limited": status.held_back,
            "joint states": "fresh" if status.fresh else "none or stale",
            "temperature": status.temperature,
            "external effort": "" if self.external is None else self.external.status,
        }
        return WARN if doubtful else OK, remark or status.state.value, values

    def check_parameters(self, changes: Mapping[str, Value]) -> None:
        """Refuse limits, rates and an order that do not fit the robot."""
        if self.external is not None:
            self.external.use(self._feeling(changes), try_only=True)
        if self.owner is not None:
            settings = self._settings(changes)
            self.owner.ask(lambda now: OptionsChanged(now, settings, try_only=True))

    def parameters_changed(self, changes: Mapping[str, Value]) -> None:
        """Let new values take effect; an output that changes ends in gravity before this returns."""
        if self.owner is None:
            return
        self.owner.background_period = 1 / self.value("background_rate")
        self._predicted.rate = self.value("predicted_rate")
        if self.external is not None:
            self.external.use(self._feeling({}))
        settings = self._settings({})
        self.owner.ask(lambda now: OptionsChanged(now, settings))
        if "output" in changes:
            stream = self.value("output") == EFFORT
            self.owner.ask(lambda now: OutputChanged(now, stream))
            self.owner.wait_until(NOT_ENDING, LONGEST_ENDING + 0.5)
        self.raise_priority()

    def _settings(self, changes: Mapping[str, Value]) -> FeedforwardSettings:
        return feedforward_settings(lambda name: changes.get(name, self.value(name)))

    def _feeling(self, changes: Mapping[str, Value]) -> Feeling:
        return feeling(lambda name: changes.get(name, self.value(name)))

    def _end_owner(self) -> None:
        if self.owner is not None:
            self.owner.close()
            self.owner = None
        if self.external is not None:
            self.external.close()
            self.external = None


def _unused(message: bytes) -> None:
    """Stand for a callback: the owner takes the messages itself."""


def main() -> int:
    """Run the node."""
    return run(FeedforwardNode, THREADS)
