# SPDX-License-Identifier: Apache-2.0

"""Calls of services and of parameters of other nodes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from std_srvs.srv import SetBool

from in_process import Future
from ros2_dynid.nodes.common.caller import Caller, ClientError

pytestmark = pytest.mark.in_process


def caller(answer, ready=True):
    """Return a caller of whom every service answers so, and what it asks."""
    asked, removed = [], []

    def call_async(request):
        asked.append(request)
        return Future(answer)

    made = []

    def create_client(kind, name):
        made.append(name)
        return SimpleNamespace(
            wait_for_service=lambda patience: ready, call_async=call_async, remove_pending_request=removed.append
        )

    found = object.__new__(Caller)
    found._servers, found.patience, found.create_client = {}, 0.01, create_client
    return found, asked, made, removed


def test_a_service_is_called_with_its_fields_and_its_refusal_is_an_error():
    calls, asked, made, _ = caller(SimpleNamespace(success=True))
    calls.call(SetBool, "stop", data=True)
    calls.call(SetBool, "stop", data=False)
    assert [request.data for request in asked] == [True, False] and made == ["stop"], "one client for a service"
    calls.call(SetBool, "other")
    assert made == ["stop", "other"]
    for message, words in (("brakes", "stop: brakes"), ("", "stop: refused")):
        with pytest.raises(ClientError, match=words):
            caller(SimpleNamespace(success=False, message=message))[0].call(SetBool, "stop")
    with pytest.raises(ClientError, match="service stop does not answer"):
        caller(None, ready=False)[0].call(SetBool, "stop")
    silent, _, _, removed = caller(None)
    with pytest.raises(ClientError, match=r"stop has not answered for 0\.01 s"):
        silent.call(SetBool, "stop", timeout=0.01)
    assert len(removed) == 1


def test_parameters_are_set_by_name_and_every_refusal_counts():
    good, bad = SimpleNamespace(successful=True, reason=""), SimpleNamespace(successful=False, reason="out of range")
    calls, asked, made, _ = caller(SimpleNamespace(results=[good, good]))
    calls.set("arm/node", speed=0.5, name="a")
    assert made == ["arm/node/set_parameters"]
    found = {parameter.name: parameter.value for parameter in asked[0].parameters}
    assert found["speed"].double_value == 0.5 and found["name"].string_value == "a"
    for results in ([bad], [bad, good], [good, bad]):
        with pytest.raises(ClientError, match="arm/node: out of range"):
            caller(SimpleNamespace(results=results))[0].set("arm/node", speed=0.5)
    with pytest.raises(ClientError, match=r"rest took longer than 0\.01 s"):
        calls.wait(lambda: False, 0.01, "rest")
    calls.wait(lambda: True, 0.0, "nothing")
