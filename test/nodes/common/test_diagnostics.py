# SPDX-License-Identifier: Apache-2.0

"""What a node says of itself, and its answers."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node

from in_process import ros, soon, spun
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.nodes.common.answers import answering, reason
from ros2_dynid.nodes.common.lifecycle_node import WARN, publish_diagnostics


@pytest.mark.in_process
def test_diagnostics_name_level_and_values():
    with ros():
        node, heard = Node("recorder", namespace="arm"), []
        node.create_subscription(DiagnosticArray, "/diagnostics", heard.append, 10)
        publish_diagnostics(node, lambda: (WARN, "gaps", {"count": 3, "rate": "99.5"}))
        with spun(node):
            soon(lambda: heard, "diagnostics within 30 s")
    (status,) = heard[0].status
    assert (status.name, status.level, status.message) == ("arm/recorder: state", WARN, "gaps")
    assert {pair.key: pair.value for pair in status.values} == {"count": "3", "rate": "99.5"}
    assert abs(heard[0].header.stamp.sec - time.time()) < 60.0


class Log:
    """Keeps errors."""

    def __init__(self):
        self.errors = []

    def error(self, text):
        self.errors.append(text)


def answered(error=None):
    log, response = Log(), SimpleNamespace(success=None, message="")
    with answering(response, log):
        if error is not None:
            raise error
    return response, log


def test_answers_say_whether_and_why_not():
    response, log = answered()
    assert response.success is True and response.message == "" and not log.errors
    response, log = answered(InputError("no robot", "set it"))
    assert response.success is False and response.message == "no robot; set it" and not log.errors
    response, log = answered(OSError(28, "No space left\non device"))
    assert response.success is False and "\n" not in response.message and not log.errors
    response, log = answered(ValueError("a\nb"))
    assert response.success is False and response.message == "ValueError: a b; the log has the details"
    assert "Traceback" in log.errors[0], "what nobody foresaw is in the log"
    assert reason(DynidError("known"), log) == "known"
