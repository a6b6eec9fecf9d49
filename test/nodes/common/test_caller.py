# SPDX-License-Identifier: Apache-2.0

"""Calls of services and of parameters of other nodes."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from std_srvs.srv import SetBool

from in_process import ros, spun
from ros2_dynid.nodes.common.caller import Caller, ClientError

pytestmark = [pytest.mark.in_process, pytest.mark.timeout(60)]


class Server(Node):
    """Answers `stop` as `answer` says, and refuses a speed above 1."""

    def __init__(self):
        super().__init__("node", namespace="arm")
        self.answer, self.asked = SetBool.Response(success=True), []
        self.create_service(SetBool, "/stop", self._on_stop)
        self.declare_parameter("speed", 0.1)
        self.declare_parameter("name", "")
        self.add_on_set_parameters_callback(self._on_set)

    def _on_stop(self, request, _):
        self.asked.append(request.data)
        return self.answer

    def _on_set(self, changes):
        fast = any(change.name == "speed" and change.value > 1.0 for change in changes)
        return SetParametersResult(successful=not fast, reason="out of range" if fast else "")


@pytest.fixture
def calls():
    """Return a caller and the node that it calls."""
    with ros():
        caller, server = Caller("caller"), Server()
        with spun(caller, server):
            yield caller, server


def test_a_service_is_called_with_its_fields_and_its_refusal_is_an_error(calls):
    caller, server = calls
    for data in (True, False):
        caller.call(SetBool, "stop", data=data)
    assert server.asked == [True, False] and len(list(caller.clients)) == 1, "one client for a service"
    for message, words in (("brakes", "stop: brakes"), ("", "stop: refused")):
        server.answer = SetBool.Response(success=False, message=message)
        with pytest.raises(ClientError, match=words):
            caller.call(SetBool, "stop")


def test_a_service_that_is_not_there_or_silent_is_an_error(calls):
    caller, _ = calls
    dumb = Node("dumb")  # nobody spins it
    dumb.create_service(SetBool, "dumb", lambda request, response: response)
    try:
        with pytest.raises(ClientError, match=r"dumb has not answered for 0\.1 s"):
            caller.call(SetBool, "dumb", timeout=0.1)
    finally:
        dumb.destroy_node()
    caller.patience = 0.1
    with pytest.raises(ClientError, match="service nowhere does not answer; is its node running"):
        caller.call(SetBool, "nowhere")


def test_parameters_are_set_by_name_and_every_refusal_counts(calls):
    caller, server = calls
    caller.set("arm/node", speed=0.5, name="a")
    assert server.get_parameter("speed").value == 0.5 and server.get_parameter("name").value == "a"
    for wanted in ({"speed": 2.0}, {"speed": 2.0, "name": "b"}, {"name": "b", "speed": 2.0}):
        with pytest.raises(ClientError, match="arm/node: out of range"):
            caller.set("arm/node", **wanted)


def test_a_wait_has_an_end(calls):
    caller, _ = calls
    with pytest.raises(ClientError, match=r"rest took longer than 0\.01 s"):
        caller.wait(lambda: False, 0.01, "rest")
    caller.wait(lambda: True, 0.0, "nothing")
