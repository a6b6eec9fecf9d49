# SPDX-License-Identifier: Apache-2.0

"""What the feedforward node is asked: a stop, efforts of a whole trajectory, a payload, new base parameters."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from std_srvs.srv import Trigger

from ros2_dynid.control.feedforward import FeedforwardModel, refuse_pushing_friction
from ros2_dynid.control.feedforward_events import (
    AskFiller,
    FeedforwardOutcome,
    NewModel,
    NewPayload,
    StopFeedforward,
)
from ros2_dynid.control.held_load import Load
from ros2_dynid.errors import DynidError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.msg import BaseParameters
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.messages import inertia_of, reference_of, trajectory_message
from ros2_dynid.nodes.common.model_messages import bars_of_message, model_of_message
from ros2_dynid.nodes.common.qos import LATCHED
from ros2_dynid.nodes.common.rclpy_private import Logger
from ros2_dynid.nodes.feedforward.owner import MakeEvent
from ros2_dynid.srv import FillEfforts, SetPayload

Ask = Callable[[MakeEvent], FeedforwardOutcome]


def use_model(ask: Ask, robot: Robot, chi: Array, source: str, bars: ErrorBars | None = None) -> None:
    """Give the feedforward a model; its code is built here, so that the thread that sends does not wait for it."""
    refuse_pushing_friction(robot, chi, source)
    FeedforwardModel(robot, chi)
    ask(lambda now: NewModel(now, robot, chi, source, bars))


class FeedforwardServices:
    """Answers ~/stop, ~/fill_efforts and ~/set_payload, and listens to base_parameters."""

    def __init__(self, node: Node, ask: Ask, described: Callable[[], Robot | None]) -> None:
        """Offer the services of `node`; `ask` the owner of the feedforward; `described` is the robot, if known."""
        self._ask, self._described = ask, described
        self._logger: Logger = node.get_logger()
        stopping = MutuallyExclusiveCallbackGroup()  # waits for nobody
        node.create_service(Trigger, "~/stop", self._on_stop, callback_group=stopping)
        node.create_service(FillEfforts, "~/fill_efforts", self._on_fill)
        node.create_service(SetPayload, "~/set_payload", self._on_payload)
        node.create_subscription(BaseParameters, "base_parameters", self._on_parameters, LATCHED)

    def _on_parameters(self, message: BaseParameters) -> None:
        try:
            robot, chi = model_of_message(message)
            use_model(self._ask, robot, chi, "base_parameters", bars_of_message(message, robot))
        except DynidError as error:
            self._logger.error(f"base_parameters refused: {error}")

    def _on_stop(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with answering(response, self._logger):
            response.message = self._ask(StopFeedforward).answer
        return response

    def _on_fill(self, request: FillEfforts.Request, response: FillEfforts.Response) -> FillEfforts.Response:
        try:
            filler = self._ask(AskFiller).filler
            assert filler is not None
            points = filler.filled(reference_of(request.trajectory, filler.model.robot))
            response.trajectory = trajectory_message(points, request.trajectory.header.stamp)
            response.success = True
        except DynidError as error:
            response.message = str(error)
        return response

    def _on_payload(self, request: SetPayload.Request, response: SetPayload.Response) -> SetPayload.Response:
        try:
            filler = self._ask(AskFiller).filler
            assert filler is not None
            robot = self._described() or filler.model.robot
            load = Load(*inertia_of(request.payload, robot, request.link))
            self._ask(lambda now: NewPayload(now, load))
            response.success = True
        except DynidError as error:
            response.message = str(error)
        return response
