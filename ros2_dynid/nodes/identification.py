"""Node identification: base parameters from recordings or while the robot works, served to whoever needs them."""

from __future__ import annotations

import time
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from std_msgs.msg import String

from ros2_dynid.action import Identify
from ros2_dynid.confined import Folder
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.identification.model_file import IdentifiedModel, load_model
from ros2_dynid.model.load import robot_from_urdf_string
from ros2_dynid.model.robot import Robot
from ros2_dynid.msg import BaseParameters
from ros2_dynid.nodes.background import THREADS, OneJob
from ros2_dynid.nodes.lifecycle_node import OK, WARN, ManagedNode
from ros2_dynid.nodes.messages import LATCHED, inertia_message, transform_message
from ros2_dynid.nodes.model_messages import check_same_robot, mdh_messages, model_message
from ros2_dynid.nodes.online import Online
from ros2_dynid.nodes.parameters import IDENTIFICATION
from ros2_dynid.nodes.spin import run
from ros2_dynid.srv import ConvertUrdf, GetBaseParameters, IdentifyPayload, IdentifyRecording


class Identification(ManagedNode):
    """The jobs run in a process of their own; this one answers, publishes and keeps the model served."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("identification", IDENTIFICATION)
        self._model: IdentifiedModel | None = None
        self._last_recording = ""
        self._online: Online | None = None
        self.autostart()

    def configure(self) -> None:
        """Make topics, services and the action."""
        self._recordings, self._models = Folder(self.value("recordings_folder")), Folder(self.value("models_folder"))
        self._job = OneJob("an identification")
        self._out = self.create_publisher(BaseParameters, "base_parameters", LATCHED)
        self.create_subscription(String, "recording", self._on_recording, LATCHED)
        self.create_service(ConvertUrdf, "~/convert_urdf", self._on_convert)
        self.create_service(GetBaseParameters, "~/get_base_parameters", self._on_get)
        self.create_service(
            IdentifyRecording, "~/identify_recording", self._on_identify, callback_group=self._job.group
        )
        self.create_service(IdentifyPayload, "~/identify_payload", self._on_payload, callback_group=self._job.group)
        self._action = ActionServer(
            self,
            Identify,
            "~/identify",
            self._execute,
            goal_callback=lambda _: GoalResponse.ACCEPT,
            cancel_callback=self._on_cancel,
            callback_group=self._job.group,
        )

    def on_robot(self, robot: Robot) -> None:
        """Serve the model file for this robot."""
        self.robot = robot
        if self.value("model"):
            model = load_model(self.value("model"))
            check_same_robot(robot, model.robot, self.value("model"))
            self._serve(model)

    def activate(self) -> None:
        """Listen, if online."""
        if self.value("online"):
            self._online = Online(self)

    def deactivate(self) -> None:
        """Stop what goes on."""
        self._job.cancel()
        if self._online is not None:
            self._online.close()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        """Tell what is served, and drift."""
        values = {} if self._model is None else {"model": self._model.robot.name, **self._model.fit.get("all", {})}
        if self._online is not None and self._online.drift is not None and self._online.drift.drifting:
            return WARN, f"drift at joint {self._online.drift.joint}", values
        return (OK, "serving", values) if self._model else (WARN, "no base parameters yet", values)

    @property
    def model(self) -> IdentifiedModel | None:
        """The model served."""
        return self._model

    def _serve(self, model: IdentifiedModel) -> None:
        self._model = model
        self._out.publish(model_message(model, self.get_clock().now().to_msg()))

    def _on_recording(self, message: String) -> None:
        self._last_recording = message.data

    def _identify(self, request: Any, progress: Any = None, **more: Any) -> str:
        """Run the job of a request, serve its model and return the model file's path."""
        self.known_robot()
        bags = list(request.bags) or ([self._last_recording] if self._last_recording else [])
        if not bags:
            raise InputError("there is no recording yet", "record one, or name bags in the request")
        result = self._job.run(
            "identify",
            progress,
            robot=self.robot_request(),
            bags=[str(self._recordings.existing(bag)) for bag in bags],
            validate=[str(self._recordings.existing(bag)) for bag in request.validation_bags],
            method=request.method or self.value("method"),
            output=str(self._models.new(more.pop("output", "") or time.strftime("model_%Y%m%d_%H%M%S"), unique=True)),
            **more,
        )
        self._serve(load_model(result["model"]))
        return str(result["model"])

    def _execute(self, goal: Any) -> Identify.Result:
        result, wanted = Identify.Result(), goal.request
        try:
            result.model_path = self._identify(
                wanted,
                lambda stage, done: goal.publish_feedback(Identify.Feedback(stage=stage, progress=float(done))),
                output=wanted.output_directory,
                cross_validate=wanted.cross_validate,
                essential=wanted.essential,
                standard=wanted.standard,
                consistent=wanted.consistent,
            )
            result.parameters = model_message(self._model, self.get_clock().now().to_msg())
            result.success = True
            goal.succeed()
        except (DynidError, OSError) as error:
            result.message = str(error)
            if goal.is_cancel_requested:
                goal.canceled()
            else:
                goal.abort()
        return result

    def _on_cancel(self, _: Any) -> CancelResponse:
        self._job.cancel()
        return CancelResponse.ACCEPT

    def _on_identify(self, request: Any, response: IdentifyRecording.Response) -> IdentifyRecording.Response:
        try:
            self._identify(request)
            response.parameters = model_message(self._model, self.get_clock().now().to_msg())
            response.success = True
        except (DynidError, OSError) as error:
            response.message = str(error)
        return response

    def _on_payload(self, request: Any, response: IdentifyPayload.Response) -> IdentifyPayload.Response:
        try:
            self.known_robot()
            bags = {
                "empty": [str(self._recordings.existing(bag)) for bag in request.empty_bags],
                "loaded": [str(self._recordings.existing(bag)) for bag in request.loaded_bags],
            }
            found = self._job.run("payload", robot=self.robot_request(), **bags)
            response.payload = inertia_message(found["mass"], found["com"], found["inertia"])
            response.mass_std = found["mass_std"]
            response.com_std.x, response.com_std.y, response.com_std.z = found["com_std"]
            response.success = True
        except (DynidError, OSError) as error:
            response.message = str(error)
        return response

    def _on_get(self, _: Any, response: GetBaseParameters.Response) -> GetBaseParameters.Response:
        response.success = self._model is not None
        if self._model is None:
            response.message = "no base parameters yet; identify a recording or set the parameter model"
        else:
            response.parameters = model_message(self._model, self.get_clock().now().to_msg())
        return response

    def _on_convert(self, request: ConvertUrdf.Request, response: ConvertUrdf.Response) -> ConvertUrdf.Response:
        try:
            if len(request.hold_joints) != len(request.hold_positions):
                raise InputError("hold_joints and hold_positions differ in number", "give one position for each joint")
            robot = robot_from_urdf_string(
                request.urdf or self.description_text,
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


def main() -> int:
    """Run the node."""
    return run(Identification, THREADS)


if __name__ == "__main__":
    main()
