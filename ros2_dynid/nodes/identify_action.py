"""The action of the identification node: progress while it works, cancel in the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.action import ActionServer, CancelResponse

from ros2_dynid.action import Identify
from ros2_dynid.errors import DynidError
from ros2_dynid.nodes.background import OneJob
from ros2_dynid.nodes.model_messages import model_message


class IdentifyAction:
    """Answers ~/identify; the work is `identify`'s, which waits for the node's one job."""

    def __init__(self, node: Any, job: OneJob, identify: Callable[..., str]) -> None:
        """Offer the action of `node`."""
        self._node, self._job, self._identify = node, job, identify
        self._server = ActionServer(
            node, Identify, "~/identify", self._execute, cancel_callback=self._on_cancel, callback_group=job.group
        )

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
            result.parameters = model_message(self._node.model, self._node.get_clock().now().to_msg())
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
