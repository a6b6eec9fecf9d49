"""Services of the identification node that need no long computation: the model served, and URDF to modified DH."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node

from ros2_dynid.errors import InputError
from ros2_dynid.msg import BaseParameters
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.messages import transform_message
from ros2_dynid.nodes.common.model_messages import mdh_messages
from ros2_dynid.nodes.identification.requests import robot_to_convert
from ros2_dynid.srv import ConvertUrdf, GetBaseParameters


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
