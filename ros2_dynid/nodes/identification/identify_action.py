# SPDX-License-Identifier: Apache-2.0

"""The action of the identification node: progress while it works, cancel in the middle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.action.server import ActionServer, CancelResponse
from rclpy.node import Node

from ros2_dynid.action import Identify
from ros2_dynid.msg import BaseParameters
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.background import OneJob
from ros2_dynid.progress import Progress

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
        result, wanted, cancelled = Identify.Result(), goal.request, self._cancelled[_number(goal)]
        with answering(result, self._logger):
            result.model_path, result.parameters = self._identify(
                wanted,
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
