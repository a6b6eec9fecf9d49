# SPDX-License-Identifier: Apache-2.0

"""Node identification: base parameters from recordings or while the robot works, served to whoever needs them.

Action: ~/identify. Services: ~/identify_recording, ~/identify_payload, ~/get_base_parameters and ~/convert_urdf.
Subscribes to robot_description, recording and, online, joint_states. Publishes base_parameters and, online,
online_parameters, drift, ~/predicted with its band ~/predicted_lower and ~/predicted_upper, ~/payload and
~/payload_std. It moves nothing, reads and writes only inside its folders, and works in a process of its own, so that it
answers meanwhile.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from std_msgs.msg import String

from ros2_dynid.action import Identify
from ros2_dynid.confined import Folder
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import IdentifiedModel, load_model
from ros2_dynid.identification.options import PRIORS, IdentifyOptions
from ros2_dynid.jobs import IDENTIFY
from ros2_dynid.model.robot import Robot
from ros2_dynid.model.same_robot import check_same_robot
from ros2_dynid.msg import BaseParameters
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.background import THREADS, OneJob
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN, ManagedNode, NodeStatus
from ros2_dynid.nodes.common.model_messages import model_message
from ros2_dynid.nodes.common.optional import optional
from ros2_dynid.nodes.common.qos import LATCHED
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.identification.online_mode import Online, OnlineSettings
from ros2_dynid.nodes.identification.parameters import PARAMETERS
from ros2_dynid.nodes.identification.requests import identify_request
from ros2_dynid.nodes.identification.services import IdentifyAction, ModelServices, PayloadService
from ros2_dynid.progress import Progress
from ros2_dynid.srv import IdentifyRecording
from ros2_dynid.usecases.robot_source import RobotSource


class Identification(ManagedNode):
    """The jobs run in a process of their own; this one answers, publishes and keeps the model served."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("identification", PARAMETERS)
        self._model: IdentifiedModel | None = None
        self._last_recording = ""
        self._online: Online | None = None
        self._job = OneJob("an identification")
        self._action: IdentifyAction | None = None
        self.autostart()

    def configure(self) -> None:
        """Make topics, services and the action."""
        self._recordings, self._models = Folder(self.value("recordings_folder")), Folder(self.value("models_folder"))
        self._out = self.create_publisher(BaseParameters, "base_parameters", LATCHED)
        self.create_subscription(String, "recording", self._on_recording, LATCHED)
        self.create_service(
            IdentifyRecording, "~/identify_recording", self._on_identify, callback_group=self._job.group
        )
        self._model_services = ModelServices(self, self._served, lambda: self.description_text)
        self._payload = PayloadService(
            self, self._job, self._recordings, self.working_robot, lambda: str(self.value("sensor"))
        )
        self._action = self._action or IdentifyAction(self, self._job, self.identify)

    def on_robot(self, robot: Robot) -> None:
        """Serve the model file, or the model served before if it is this robot's."""
        if self.value("model"):
            model = load_model(self.value("model"))
            check_same_robot(robot, model.robot, self.value("model"))
            self._serve(model)
        elif self._model is not None:
            try:
                check_same_robot(robot, self._model.robot, "the model served so far")
                self._serve(self._model)
            except InputError as error:
                self._model = None
                self.get_logger().warning(str(error))

    def activate(self) -> None:
        """Listen, if online."""
        if self.value("online"):
            self._online = Online(
                self,
                OnlineSettings(
                    *map(self.value, ("online_rate", "online_cutoff", "online_memory", "predicted_rate", "payload"))
                ),
                robot=lambda: self.robot,
                model=lambda: self._model,
                drift_ratio=lambda: self.value("drift_ratio"),
                message_of=self.message_of,
            )

    def deactivate(self) -> None:
        """Stop what goes on."""
        self._job.cancel()
        if self._online is not None:
            self._online.close()
            self._online = None

    def status(self) -> NodeStatus:
        """Tell what is served, and drift."""
        values = {} if self._model is None else {"model": self._model.robot.name, **_errors(self._model)}
        if self._online is not None and self._online.drift is not None and self._online.drift.drifting:
            return WARN, f"drift at joint {self._online.drift.joint}", values
        return (OK, "serving", values) if self._model else (WARN, "no base parameters yet", values)

    def working_robot(self) -> RobotSource:
        """Return how a job finds the robot, or refuse to start one."""
        if not self.active:
            raise InputError("the node is not active", "activate identification")
        return self.robot_source()

    def _served(self) -> BaseParameters | None:
        return None if self._model is None else self.message_of(self._model)

    def _serve(self, model: IdentifiedModel) -> BaseParameters:
        self._model = model
        message = self.message_of(model)
        self._out.publish(message)
        return message

    def message_of(self, model: IdentifiedModel) -> BaseParameters:
        """Return the message of a model of this robot."""
        return model_message(model, self.get_clock().now().to_msg(), self.base_link)

    def _on_recording(self, message: String) -> None:
        self._last_recording = message.data

    def _confined(self, options: IdentifyOptions) -> IdentifyOptions:
        """Return the options with the files of prior and controller inside the node's folder of models."""
        if options.controller is not None:
            options = replace(options, controller=str(self._models.existing(options.controller)))
        if options.prior in PRIORS:
            return options
        return replace(options, prior=str(self._models.existing(options.prior)))

    def identify(
        self,
        request: Identify.Goal | IdentifyRecording.Request,
        progress: Progress | None = None,
        cancelled: threading.Event | None = None,
    ) -> tuple[str, BaseParameters]:
        """Run the job of a request, serve its model; return the model file's path and the message."""
        robot = self.working_robot()
        bags = list(request.bags) or ([self._last_recording] if self._last_recording else [])
        if not bags:
            raise InputError("there is no recording yet", "record one, or name bags in the request")
        folder = optional(request.output_directory) or time.strftime("model_%Y%m%d_%H%M%S")
        wanted = identify_request(
            request,
            robot,
            [str(self._recordings.existing(bag)) for bag in bags],
            [str(self._recordings.existing(bag)) for bag in request.validation_bags],
            self.value("method"),
            self.value("sensor"),
        )
        options, output = self._confined(wanted.options), str(self._models.new(folder, unique=True))
        path = self._job.work(IDENTIFY, replace(wanted, options=options, output=output), progress, cancelled).model
        assert path is not None, "an output folder was given"
        return path, self._serve(load_model(path))

    def _on_identify(
        self, request: IdentifyRecording.Request, response: IdentifyRecording.Response
    ) -> IdentifyRecording.Response:
        with answering(response, self.get_logger()):
            response.model_path, response.parameters = self.identify(request)
        return response


def _errors(model: IdentifiedModel) -> dict[str, float]:
    """Return the torque error of a model on its own data."""
    overall = model.fit.get("all")
    return {} if overall is None else {"rms": overall.rms, "relative": overall.relative}


def main() -> int:
    """Run the node."""
    return run(Identification, THREADS)
