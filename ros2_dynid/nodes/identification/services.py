# SPDX-License-Identifier: Apache-2.0

"""What the identification node is asked: ~/identify, the model served, URDF to modified DH, payloads of recordings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.action.server import ActionServer, CancelResponse
from rclpy.node import Node

from ros2_dynid.action import Identify
from ros2_dynid.confined import Folder
from ros2_dynid.errors import InputError
from ros2_dynid.jobs import PAYLOAD
from ros2_dynid.msg import BaseParameters
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.background import OneJob
from ros2_dynid.nodes.common.messages import inertia_message, transform_message
from ros2_dynid.nodes.common.model_messages import mdh_messages
from ros2_dynid.nodes.identification.requests import payload_request, robot_to_convert
from ros2_dynid.progress import Progress
from ros2_dynid.srv import ConvertUrdf, GetBaseParameters, IdentifyPayload
from ros2_dynid.usecases.robot_source import RobotSource

Identifies = Callable[[Identify.Goal, Progress, threading.Event], tuple[str, BaseParameters]]
"""Identifies, with progress and cancel, and returns the model file and its message."""


class IdentifyAction:
    """Answers ~/identify; the work is `identify`'s, which waits for the node's one job.

    Every goal is accepted: a rejection cannot carry a reason, the result of an aborted goal can.
    """

    def __init__(self, node: Node, job: OneJob, identify: Identifies) -> None:
        """Offer the action of `node`; identify(request, progress, cancelled) returns model path and message."""
        self._logger, self._job, self._identify = node.get_logger(), job, identify
        self._cancelled: dict[bytes, threading.Event] = {}
        self._server = ActionServer(
            node,
            Identify,
            "~/identify",
            self._execute,
            handle_accepted_callback=self._on_accepted,
            cancel_callback=self._on_cancel,
            callback_group=job.group,
        )

    def _on_accepted(self, goal: Any) -> None:
        self._cancelled[_number(goal)] = threading.Event()
        goal.execute()

    def _execute(self, goal: Any) -> Identify.Result:
        result, request, cancelled = Identify.Result(), goal.request, self._cancelled[_number(goal)]
        with answering(result, self._logger):
            result.model_path, result.parameters = self._identify(
                request,
                lambda stage, done: goal.publish_feedback(Identify.Feedback(stage=stage, progress=done)),
                cancelled,
            )
        del self._cancelled[_number(goal)]
        if result.success:
            goal.succeed()
        elif cancelled.is_set() and _canceling(goal):
            goal.canceled()
        else:
            self._logger.error(f"identify: {result.message}")
            goal.abort()
        return result

    def _on_cancel(self, goal: Any) -> CancelResponse:
        cancelled = self._cancelled.get(_number(goal))
        if cancelled is None:  # it has just ended
            return CancelResponse.REJECT
        self._job.cancel(cancelled)
        return CancelResponse.ACCEPT


def _canceling(goal: Any, patience: float = 2.0) -> bool:
    """Wait until the goal knows that it is being cancelled: rclpy tells it after our callback, from another thread."""
    until = time.monotonic() + patience
    while not goal.is_cancel_requested and time.monotonic() < until:
        time.sleep(0.001)
    return bool(goal.is_cancel_requested)


def _number(goal: Any) -> bytes:
    return bytes(goal.goal_id.uuid)


class ModelServices:
    """Answers ~/get_base_parameters and ~/convert_urdf."""

    def __init__(self, node: Node, served: Callable[[], BaseParameters | None], description: Callable[[], str]) -> None:
        """Offer the services of `node`; served() is the model now, description() the URDF's text or nothing ("")."""
        self._served, self._description, self._logger = served, description, node.get_logger()
        node.create_service(ConvertUrdf, "~/convert_urdf", self._on_convert)
        node.create_service(GetBaseParameters, "~/get_base_parameters", self._on_get)

    def _on_get(self, _: GetBaseParameters.Request, response: GetBaseParameters.Response) -> GetBaseParameters.Response:
        with answering(response, self._logger):
            message = self._served()
            if message is None:
                raise InputError("no base parameters yet", "identify a recording or set the parameter model")
            response.parameters = message
        return response

    def _on_convert(self, request: ConvertUrdf.Request, response: ConvertUrdf.Response) -> ConvertUrdf.Response:
        with answering(response, self._logger):
            robot = robot_to_convert(request, self._description()).load()
            response.joints, response.base = mdh_messages(robot), transform_message(robot.base)
            response.tool_links = list(robot.tools)
            response.tools = [transform_message(T) for _, T in robot.tools.values()]
        return response


class PayloadService:
    """Answers ~/identify_payload from recordings without and with the load."""

    def __init__(
        self,
        node: Node,
        job: OneJob,
        recordings: Folder,
        robot_source: Callable[[], RobotSource],
        sensor: Callable[[], str],
    ) -> None:
        """Offer the service of `node`.

        job: shared with the identification, so that one waits for the other; robot_source: how the job finds the robot,
        or raises why it cannot work now; sensor: which torque the efforts are, where a request does not say.
        """
        self._job, self._recordings, self._robot_source, self._sensor = job, recordings, robot_source, sensor
        self._logger = node.get_logger()
        node.create_service(IdentifyPayload, "~/identify_payload", self._on_payload, callback_group=job.group)

    def _on_payload(
        self, request: IdentifyPayload.Request, response: IdentifyPayload.Response
    ) -> IdentifyPayload.Response:
        with answering(response, self._logger):
            for field in ("empty_bags", "loaded_bags"):
                if not getattr(request, field):
                    raise InputError(f"{field} is empty", "name at least one recording")
            empty, loaded = (
                [str(self._recordings.existing(bag)) for bag in bags]
                for bags in (request.empty_bags, request.loaded_bags)
            )
            job_request = payload_request(request, self._robot_source(), empty, loaded, self._sensor())
            payload = self._job.work(PAYLOAD, job_request)
            response.payload = inertia_message(payload.mass, payload.com, payload.inertia)
            response.mass_std = payload.std.mass
            response.com_std.x, response.com_std.y, response.com_std.z = payload.std.com
            response.frame, response.significant = payload.frame, payload.significant
        return response
