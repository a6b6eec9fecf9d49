# SPDX-License-Identifier: Apache-2.0

"""What the panel asks of the other nodes: clients made once, so that a stop waits for nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from action_msgs.srv import CancelGoal
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import SetParameters
from rclpy.action.client import ActionClient
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from ros2_dynid.action import Identify
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.nodes.common.qos import LATCHED
from ros2_dynid.nodes.common.stop_topic import TOPIC as STOP
from ros2_dynid.srv import Jog, PlanExcitation, SetObstacles, SetPayload, StartRecording, StopRecording

SHORT, LONG = 10.0, 300.0
"""Patience [s] with a service that answers at once, and with a plan."""
STOP_SECONDS = 2.0
"""Patience [s] with a node that is asked to stop, which it answers in milliseconds."""
MOVING = ("excitation", "feedforward")
"""Nodes that move the robot."""
KINDS: Mapping[str, Any] = {
    "excitation/plan": PlanExcitation,
    "excitation/set_obstacles": SetObstacles,
    "excitation/rehearse": Trigger,
    "excitation/start": Trigger,
    "excitation/pause": Trigger,
    "excitation/resume": Trigger,
    "excitation/jog": Jog,
    "excitation/stop": Trigger,
    "recorder/start": StartRecording,
    "recorder/stop": StopRecording,
    "identification/change_state": ChangeState,
    "identification/set_parameters": SetParameters,
    "feedforward/set_payload": SetPayload,
    "feedforward/stop": Trigger,
}
LIFECYCLE = {"configure": 1, "cleanup": 2, "activate": 3, "deactivate": 4}
"""Numbers of lifecycle_msgs/msg/Transition."""


class Services:
    """Calls of services and of the action Identify; every method blocks its caller and raises DynidError."""

    def __init__(self, node: Node) -> None:
        """Make the clients on `node`."""
        group = ReentrantCallbackGroup()
        self._clients: dict[str, Any] = {
            name: node.create_client(kind, name, callback_group=group) for name, kind in KINDS.items()
        }
        self._identify: Any = ActionClient(node, Identify, "identification/identify", callback_group=group)
        self._goal: Any = None
        self._stop = node.create_publisher(Bool, STOP, LATCHED)

    def nodes(self) -> frozenset[str]:
        """Return the nodes that answer."""
        return frozenset(name.partition("/")[0] for name, client in self._clients.items() if client.service_is_ready())

    def call(self, name: str, patience: float = SHORT, **fields: Any) -> Any:
        """Return the response of a service; one without success raises its message."""
        client = self._clients[name]
        if not client.service_is_ready():
            raise InputError(f"the node {name.partition('/')[0]} does not answer", "start it")
        response = _result(client.call_async(KINDS[name].Request(**fields)), patience, name)
        if not getattr(response, "success", True):
            raise DynidError(getattr(response, "message", "") or "refused")
        return response

    def stop(self) -> str:
        """Set the stop of the suite, and ask every node that moves the robot what it did; one that hangs is told."""
        self._stop.publish(Bool(data=True))
        answers = {
            name: self._clients[f"{name}/stop"].call_async(Trigger.Request())
            for name in MOVING
            if self._clients[f"{name}/stop"].service_is_ready()
        }
        if not answers:
            raise InputError(f"neither {' nor '.join(MOVING)} answers", "stop the robot at its own emergency stop")
        lines = []
        for name, answer in answers.items():
            try:
                lines.append(f"{name}: {_result(answer, STOP_SECONDS, f'{name}/stop').message}")
            except DynidError as error:
                lines.append(f"{name}: {error}")
        return "; ".join(lines)

    def release(self) -> str:
        """Release the stop of the suite."""
        self._stop.publish(Bool(data=False))
        return "the stop is released"

    def load_model(self, path: str) -> None:
        """Let the identification node serve a model file: its parameter `model` is read when it is configured."""
        for transition in ("deactivate", "cleanup"):
            self._change(transition)
        try:
            parameters = [Parameter("model", value=path).to_parameter_msg()]
            for result in self.call("identification/set_parameters", parameters=parameters).results:
                if not result.successful:
                    raise DynidError(result.reason)
            self._change("configure")
        except DynidError:
            self._set_back()
            raise
        self._change("activate")

    def _set_back(self) -> None:
        """Leave the node active without a model, rather than inactive."""
        self.call("identification/set_parameters", parameters=[Parameter("model", value="").to_parameter_msg()])
        self._change("configure")
        self._change("activate")

    def _change(self, transition: str) -> None:
        request = ChangeState.Request()
        request.transition.id = LIFECYCLE[transition]
        client = self._clients["identification/change_state"]
        if not client.service_is_ready():
            raise InputError("the node identification does not answer", "start it")
        if not _result(client.call_async(request), SHORT, transition).success:
            raise DynidError(f"identification refused to {transition}; its log says why")

    def identify(self, feedback: Callable[[str, float], None]) -> Any:
        """Identify from the last recording; return the result of the action."""
        if not self._identify.server_is_ready():
            raise InputError("the node identification does not answer", "start it")
        goal = Identify.Goal()

        def on_feedback(message: Any) -> None:
            feedback(message.feedback.stage, float(message.feedback.progress))

        handle = _result(self._identify.send_goal_async(goal, on_feedback), SHORT, "identify")
        if not handle.accepted:
            raise DynidError("identification refused the goal; its log says why")
        self._goal = handle
        try:
            result = _result(handle.get_result_async(), 3600.0, "identify").result
        finally:
            self._goal = None
        if not result.success:
            raise DynidError(result.message)
        return result

    def cancel(self) -> None:
        """Cancel the identification."""
        goal = self._goal
        if goal is None:
            raise InputError("no identification is under way", "start one")
        answer: CancelGoal.Response = _result(goal.cancel_goal_async(), SHORT, "cancel")
        if not answer.goals_canceling:
            raise DynidError("the identification could not be cancelled any more")


def _result(future: Any, patience: float, name: str) -> Any:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    if not done.wait(patience):
        raise DynidError(f"{name} has not answered for {patience:g} s; look at the log of its node")
    return future.result()
