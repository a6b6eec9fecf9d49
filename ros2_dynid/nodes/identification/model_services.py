"""Services of the identification node that need no long computation: the model served, and URDF to modified DH."""

from __future__ import annotations

from typing import Any

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.load import robot_from_urdf_string
from ros2_dynid.nodes.common.messages import transform_message
from ros2_dynid.nodes.common.model_messages import mdh_messages, model_message
from ros2_dynid.srv import ConvertUrdf, GetBaseParameters


class ModelServices:
    """Answers ~/get_base_parameters and ~/convert_urdf."""

    def __init__(self, node: Any) -> None:
        """Offer the services of `node`."""
        self._node = node
        node.create_service(ConvertUrdf, "~/convert_urdf", self._on_convert)
        node.create_service(GetBaseParameters, "~/get_base_parameters", self._on_get)

    def _on_get(self, _: Any, response: GetBaseParameters.Response) -> GetBaseParameters.Response:
        model = self._node.model
        response.success = model is not None
        if model is None:
            response.message = "no base parameters yet; identify a recording or set the parameter model"
        else:
            response.parameters = model_message(model, self._node.get_clock().now().to_msg())
        return response

    def _on_convert(self, request: ConvertUrdf.Request, response: ConvertUrdf.Response) -> ConvertUrdf.Response:
        try:
            if len(request.hold_joints) != len(request.hold_positions):
                raise InputError("hold_joints and hold_positions differ in number", "give one position for each joint")
            text = request.urdf or self._node.description_text
            if not text:
                raise InputError("there is no URDF", "give one in the request, or publish robot_description")
            robot = robot_from_urdf_string(
                text,
                base_link=request.base_link or None,
                tip_link=request.tip_link or None,
                hold=dict(zip(request.hold_joints, request.hold_positions, strict=True)),
                source="urdf",
            )
            response.joints, response.base = mdh_messages(robot), transform_message(robot.base)
            response.tool_links = list(robot.tools)
            response.tools = [transform_message(T) for _, T in robot.tools.values()]
            response.success = True
        except DynidError as error:
            response.message = str(error)
        return response
