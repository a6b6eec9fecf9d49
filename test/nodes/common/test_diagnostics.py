# SPDX-License-Identifier: Apache-2.0

"""What a node says of itself, and its answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus

from publishing_node import OneNode
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.nodes.common.answers import answering, reason
from ros2_dynid.nodes.common.diagnostics import _array


def test_diagnostics_name_level_and_values():
    made = _array(OneNode(), "arm/recorder: state", (DiagnosticStatus.WARN, "gaps", {"count": 3, "rate": "99.5"}))
    (status,) = made.status
    assert (status.name, status.level, status.message) == ("arm/recorder: state", DiagnosticStatus.WARN, "gaps")
    assert {pair.key: pair.value for pair in status.values} == {"count": "3", "rate": "99.5"}
    assert made.header.stamp == Time(sec=9, nanosec=500_000_000)


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
