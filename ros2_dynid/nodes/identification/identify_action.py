"""The action of the identification node: progress while it works, cancel in the middle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.action import ActionServer, CancelResponse

from ros2_dynid.action import Identify
from ros2_dynid.errors import DynidError
from ros2_dynid.nodes.common.background import OneJob
from ros2_dynid.nodes.common.model_messages import model_message


class IdentifyAction:
    """Answers ~/identify; the work is `identify`'s, which waits for the node's one job."""

    def __init__(self, node: Any, job: OneJob, identify: Callable[..., str]) -> None:
        """Offer the action of `node`."""
        self._node, self._job, self._identify = node, job, identify
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
        result, wanted, cancelled = Identify.Result(), goal.request, self._cancelled[_number(goal)]
        try:
            result.model_path = self._identify(
                wanted,
                lambda stage, done: goal.publish_feedback(Identify.Feedback(stage=stage, progress=float(done))),
                cancelled,
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
            if cancelled.is_set() and _canceling(goal):
                goal.canceled()
            else:
                goal.abort()
        finally:
            del self._cancelled[_number(goal)]
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
