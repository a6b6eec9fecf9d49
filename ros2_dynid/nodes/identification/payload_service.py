"""The service of the identification node that weighs a payload."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node

from ros2_dynid.confined import Folder
from ros2_dynid.errors import InputError
from ros2_dynid.jobs import PAYLOAD
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.background import OneJob
from ros2_dynid.nodes.common.messages import inertia_message
from ros2_dynid.nodes.identification.requests import payload_request
from ros2_dynid.srv import IdentifyPayload
from ros2_dynid.usecases.robot_source import RobotSource


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
            wanted = payload_request(request, self._robot_source(), empty, loaded, self._sensor())
            found = self._job.work(PAYLOAD, wanted)
            response.payload = inertia_message(found.mass, found.com, found.inertia)
            response.mass_std = found.std.mass
            response.com_std.x, response.com_std.y, response.com_std.z = found.std.com
            response.frame, response.significant = found.frame, found.significant
        return response
