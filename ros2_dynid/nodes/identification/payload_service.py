"""The service of the identification node that weighs a payload."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node

from ros2_dynid.confined import Folder
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.background import OneJob
from ros2_dynid.nodes.common.messages import inertia_message
from ros2_dynid.srv import IdentifyPayload


class PayloadService:
    """Answers ~/identify_payload from recordings without and with the load."""

    def __init__(
        self, node: Node, job: OneJob, recordings: Folder, robot_request: Callable[[], dict[str, str]]
    ) -> None:
        """Offer the service of `node`.

        job: shared with the identification, so that one waits for the other; robot_request: how the job finds the
        robot, or raises why it cannot work now.
        """
        self._job, self._recordings, self._robot_request = job, recordings, robot_request
        self._logger = node.get_logger()
        node.create_service(IdentifyPayload, "~/identify_payload", self._on_payload, callback_group=job.group)

    def _on_payload(
        self, request: IdentifyPayload.Request, response: IdentifyPayload.Response
    ) -> IdentifyPayload.Response:
        with answering(response, self._logger):
            bags = {
                "empty": [str(self._recordings.existing(bag)) for bag in request.empty_bags],
                "loaded": [str(self._recordings.existing(bag)) for bag in request.loaded_bags],
            }
            found = self._job.run("payload", robot=self._robot_request(), **bags)
            response.payload = inertia_message(found["mass"], found["com"], found["inertia"])
            response.mass_std = found["mass_std"]
            response.com_std.x, response.com_std.y, response.com_std.z = found["com_std"]
        return response
