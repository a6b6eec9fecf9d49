"""The panel without ROS: who may command, what is refused, and what a stranger's request gets."""

from __future__ import annotations

import http.client
import json
import threading

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.preview.desk import Desk, Situation, check_rehearsed, refusals
from ros2_dynid.preview.panel_server import MOST_BYTES, Doors, PanelServer

ALL = frozenset({"excitation", "recorder", "identification", "feedforward"})


@pytest.fixture
def panel():
    done, gone = [], threading.Event()

    def act(action, request):
        if action == "refuse":
            raise InputError("it is refused", "do something else")
        done.append(action)
        return f"{action} is done"

    server = PanelServer("127.0.0.1", 0, Desk("secret"), Doors(lambda: "", lambda: "", act, lambda _: gone.set()))
    server.done, server.left = done, gone
    yield server
    server.close()


def post(panel, body, token="secret", client="one", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20)
    headers = {"X-Dynid-Client": client, **({} if token is None else {"X-Dynid-Token": token}), **headers}
    connection.request("POST", "/do", body if isinstance(body, bytes) else json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_one_with_the_token_commands(panel):
    assert post(panel, {"action": "start"}) == (200, '{"ok": true, "line": "start is done"}')
    status, text = post(panel, {"action": "refuse"})
    assert status == 409 and json.loads(text)["line"] == "it is refused; do something else"
    assert panel.done == ["start"]


@pytest.mark.parametrize("token", ["", "wrong", "secret ", "s\xe9cret"])
def test_a_wrong_token_is_refused(panel, token):
    status, text = post(panel, {"action": "start"}, token=token)
    assert status == 403 and "token" in text
    assert panel.done == []


def test_a_second_browser_must_take_over_but_may_always_stop(panel):
    assert post(panel, {"action": "start"}, client="one")[0] == 200
    status, text = post(panel, {"action": "start"}, client="two")
    assert status == 403 and "take over" in text
    assert post(panel, {"action": "stop"}, client="two", token="")[0] == 200
    assert post(panel, {"action": "take_over"}, client="two", token="")[0] == 403
    assert post(panel, {"action": "take_over"}, client="two")[0] == 200
    assert post(panel, {"action": "start"}, client="one")[0] == 403
    assert panel.done == ["start", "stop"]


def test_other_sites_and_nonsense_are_refused(panel):
    assert post(panel, {"action": "stop"}, token=None)[0] == 403, "a form of another site cannot set the header"
    assert post(panel, {"action": "stop"}, Origin="http://evil.example")[0] == 403
    assert post(panel, {"action": "stop"}, Host="evil.example:80")[0] == 403, "a name that was made to point here"
    assert post(panel, b"[1]")[0] == 400
    assert post(panel, b"\xff{")[0] == 400
    assert post(panel, b" " * (MOST_BYTES + 1))[0] == 413
    assert panel.done == []


def test_the_page_is_served_and_states_stream(panel):
    connection = http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.status == 200 and b"connect-src 'self'" in answer.read()
    connection.request("GET", "/../etc/passwd")
    assert connection.getresponse().status == 404
    stream = http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20)
    stream.request("GET", "/events?client=one")
    answer = stream.getresponse()
    assert post(panel, {"action": "start"}, client="one")[0] == 200
    panel.publish({"q": [1.0]})
    while not (line := answer.readline()).startswith(b"data: "):
        pass
    assert json.loads(line[6:]) == {"q": [1.0]}
    assert panel.watched == 1
    answer.close()
    stream.close()
    while not panel.left.wait(0.2):  # the next state finds nobody
        panel.publish({})
    assert panel.desk.commander == "", "the one that commanded has gone"


def test_buttons_are_refused_with_a_reason():
    nothing = refusals(Situation())
    assert nothing["stop"] == ""
    assert all(text for action, text in nothing.items() if action != "stop")
    ready = Situation(ALL, "idle", plan=1, recorded="bag")
    assert {action for action, text in refusals(ready).items() if text} == {"end_recording", "cancel"}
    moving = Situation(ALL, "exciting", plan=1, recorded="bag")
    assert {action for action, text in refusals(moving).items() if "moves" in text} == {
        "plan", "rehearse", "start", "load_model",
    }  # fmt: skip
    assert refusals(Situation(ALL, "aborted: tracking error", plan=1))["start"] == ""


def test_a_plan_is_rehearsed_first():
    check_rehearsed(Situation(plan=3, rehearsed=3), False)
    check_rehearsed(Situation(plan=3, rehearsed=2), True)
    with pytest.raises(InputError, match="not been rehearsed"):
        check_rehearsed(Situation(plan=3, rehearsed=2), False)
