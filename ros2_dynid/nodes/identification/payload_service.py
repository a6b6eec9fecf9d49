"""The service of the identification node that weighs a payload."""

from __future__ import annotations

from typing import Any

from ros2_dynid.confined import Folder
from ros2_dynid.errors import DynidError
from ros2_dynid.nodes.common.background import OneJob
from ros2_dynid.nodes.common.messages import inertia_message
from ros2_dynid.srv import IdentifyPayload


class PayloadService:
    """Answers ~/identify_payload from recordings without and with the load."""

    def __init__(self, node: Any, job: OneJob, recordings: Folder) -> None:
        """Offer the service of `node`; `job` is shared with the identification, so that one waits for the other."""
        self._node, self._job, self._recordings = node, job, recordings
        node.create_service(IdentifyPayload, "~/identify_payload", self._on_payload, callback_group=job.group)

    def _on_payload(self, request: Any, response: IdentifyPayload.Response) -> IdentifyPayload.Response:
        try:
            self._node.known_robot()
            bags = {
                "empty": [str(self._recordings.existing(bag)) for bag in request.empty_bags],
                "loaded": [str(self._recordings.existing(bag)) for bag in request.loaded_bags],
            }
            found = self._job.run("payload", robot=self._node.robot_request(), **bags)
            response.payload = inertia_message(found["mass"], found["com"], found["inertia"])
            response.mass_std = found["mass_std"]
            response.com_std.x, response.com_std.y, response.com_std.z = found["com_std"]
            response.success = True
        except (DynidError, OSError) as error:
            response.message = str(error)
        return response
