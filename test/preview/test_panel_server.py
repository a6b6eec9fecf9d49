# SPDX-License-Identifier: Apache-2.0

"""The panel without ROS: who may command, what is refused, and what a stranger's request gets."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import subprocess
import threading
import time
from dataclasses import replace

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.preview.panel_rules import PanelAccess, Situation, check_rehearsed, refusals
from ros2_dynid.preview.panel_server import (
    MAX_BROWSER_TABS,
    MAX_CONNECTIONS,
    MAX_REQUEST_BYTES,
    MAX_VIEWERS,
    Address,
    PanelCallbacks,
    PanelServer,
)

DELAY_S = 0.3
ALL = frozenset({"excitation", "recorder", "identification", "feedforward"})


@pytest.fixture
def panel():
    done, warned, gone = [], [], threading.Event()

    def act(action, request):
        if action == "refuse":
            raise InputError("it is refused", "do something else")
        done.append(action)
        return f"{action} is done"

    server = PanelServer(
        Address("127.0.0.1"),
        PanelAccess("secret"),
        PanelCallbacks(lambda: "", lambda: "", act, lambda _: gone.set(), warned.append),
        DELAY_S,
    )
    server.done, server.warned, server.left = done, warned, gone
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


@pytest.mark.parametrize("token", ["", "wrong", "secret x", "s\xe9cret"])
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
    assert post(panel, b" " * (MAX_REQUEST_BYTES + 1))[0] == 413
    assert panel.done == []


def get(panel, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read(), dict(answer.getheaders())


def test_what_a_strangers_page_asks_for_is_refused_and_our_own_names_are_not(panel):
    own = f"127.0.0.1:{panel.port}"
    for path in ("/", "/robot", "/plan"):
        assert get(panel, path, Host="evil.example")[0] == 403
        assert get(panel, path, Host=own, Origin="http://evil.example")[0] == 403
    for host in (own, f"localhost:{panel.port}", f"LOCALHOST:{panel.port}", f"localhost:{panel.port + 1}"):
        assert get(panel, "/", Host=host)[0] == 200, "also through a tunnel, whose port is its own"
    assert get(panel, "/", Host=own, Origin=f"http://{own}")[0] == 200
    assert get(panel, "/", Host=own, Origin=f"http://localhost:{panel.port}")[0] == 403, "not the name it came under"
    assert post(panel, {"action": "start"}, Origin=f"http://{own}")[0] == 200


def test_no_page_of_ours_is_framed_guessed_at_or_kept(panel):
    for path, status in (("/", 200), ("/robot", 404), ("/nowhere", 404)):
        got, data, headers = get(panel, path)
        assert got == status and int(headers["Content-Length"]) == len(data)
        assert headers["X-Frame-Options"] == "DENY" and headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"


def test_robot_and_plan_are_their_own():
    callbacks = PanelCallbacks(lambda: '{"robot": 1}', lambda: '{"plan": 2}', lambda *_: "", lambda _: None)
    server = PanelServer(Address("127.0.0.1"), PanelAccess("secret"), callbacks)
    try:
        assert get(server, "/robot")[:2] == (200, b'{"robot": 1}') and get(server, "/plan")[:2] == (200, b'{"plan": 2}')
    finally:
        server.close()


def test_a_server_for_all_addresses_answers_under_its_own_names_alone():
    address = Address("0.0.0.0", names=("robot.lan", "Cell7.lan:9000"))
    server = PanelServer(address, PanelAccess("secret"), PanelCallbacks(str, str, lambda *_: "", lambda _: None))
    try:
        for host in ("robot.lan:1", "robot.lan", "cell7.lan:9000", socket.gethostname(), f"127.0.0.1:{server.port}"):
            assert get(server, "/", Host=host)[0] == 200
        for host in ("evil.example", "cell7.lan:9001", "10.0.0.1", "[", ":", ""):
            assert get(server, "/", Host=host)[0] == 403, "a name that was made to point here"
        assert get(server, "/", Host="robot.lan:1", Origin="http://evil.example")[0] == 403
        assert get(server, "/", Host="robot.lan:1", Origin="http://[")[0] == 403
    finally:
        server.close()


def test_strangers_use_up_neither_streams_nor_connections_of_those_with_the_token(panel):
    viewers = [http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20) for _ in range(MAX_VIEWERS)]
    for viewer in viewers:
        viewer.request("GET", "/events?client=one")
        assert viewer.getresponse().status == 200
    assert get(panel, "/events")[0] == 503
    operator = http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20)
    operator.request("GET", "/events?client=one", headers={"X-Dynid-Token": "secret"})
    stream = operator.getresponse()
    assert stream.status == 200 and panel.watched == MAX_VIEWERS + 1
    silent = [socket.create_connection(("127.0.0.1", panel.port), timeout=20) for _ in range(MAX_CONNECTIONS + 8)]
    assert post(panel, {"action": "start"})[0] == 200, "with all connections taken"
    assert silent[0].recv(1) == b"", "the oldest was closed"
    panel.publish({"k": 1})
    assert stream.readline() in (b'data: {"k":1}\n', b": still here\n"), "the operator's stream goes on"
    for line in (*silent, *viewers):
        line.close()


def test_wrong_tokens_are_answered_late_and_told_once_and_nobody_else_waits(panel):
    begin = time.monotonic()
    guesses = [threading.Thread(target=post, args=(panel, {"action": "start"}, f"guess{k}")) for k in range(20)]
    for guess in guesses:
        guess.start()
    assert post(panel, {"action": "start"})[0] == 200 and time.monotonic() - begin < DELAY_S
    for guess in guesses:
        guess.join(20.0)
    assert time.monotonic() - begin >= DELAY_S
    assert get(panel, "/events", **{"X-Dynid-Token": "guess"})[0] == 403, "a stream is no way to try tokens"
    assert panel.warned == ["a wrong token was given to the panel, the last from 127.0.0.1"]
    assert panel.done == ["start"]


@pytest.mark.parametrize(
    "head", [f"Content-Length: {'9' * 5000}", "Content-Length: \xb2", "Content-Length: 10\r\nOrigin: http://["]
)
def test_hostile_requests_are_refused_without_a_traceback(panel, head, capfd):
    with socket.create_connection(("127.0.0.1", panel.port), timeout=20) as line:
        lines = [
            "POST //[/do HTTP/1.1",
            f"Host: 127.0.0.1:{panel.port}",
            "X-Dynid-Token: secret",
            head,
            "",
            "0123456789",
        ]
        line.sendall("\r\n".join(lines).encode("latin-1"))
        assert re.match(rb"HTTP/1\.[01] 4", line.recv(100))
    for token in ("secret", "guess", None):
        assert post(panel, b'{"action":' + b"[" * 19_000, token=token)[0] in (400, 403)
        assert post(panel, b'{"action":"start","seed":' + b"9" * 5000 + b"}", token=token)[0] in (400, 403)
    assert capfd.readouterr().err == "" and panel.done == []


def test_tls_is_served_by_files(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    callbacks = PanelCallbacks(str, str, lambda action, _: action, lambda _: None)
    address = Address("127.0.0.1", certificate=str(certificate), key=str(key))
    server = PanelServer(address, PanelAccess("secret"), callbacks)
    try:
        assert server.url == f"https://127.0.0.1:{server.port}/"
        with socket.create_connection(("127.0.0.1", server.port)):  # says nothing: others do not wait for it
            trusted = ssl.create_default_context(cafile=str(certificate))
            connection = http.client.HTTPSConnection("localhost", server.port, timeout=20, context=trusted)
            headers = {"X-Dynid-Token": "secret", "Origin": f"https://localhost:{server.port}"}
            connection.request("POST", "/do", json.dumps({"action": "start"}), headers)
            assert connection.getresponse().status == 200
        with pytest.raises((OSError, http.client.HTTPException)):
            get(server, "/")
    finally:
        server.close()
    with pytest.raises(InputError, match="cannot be used"):
        Address("127.0.0.1", certificate=str(tmp_path / "none.pem")).tls()


def test_commands_go_to_one_place_and_say_how_long_they_are(panel):
    connection = http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20)
    headers = {"X-Dynid-Token": "secret", "X-Dynid-Client": "one"}
    connection.request("POST", "/other", b'{"action": "start"}', headers)
    assert connection.getresponse().status == 404
    for length in (None, "-5", "1e3", str(MAX_REQUEST_BYTES + 1)):
        with socket.create_connection(("127.0.0.1", panel.port), timeout=20) as line:
            lines = ["POST /do HTTP/1.1", f"Host: 127.0.0.1:{panel.port}", "X-Dynid-Token: secret"]
            lines += [] if length is None else [f"Content-Length: {length}"]
            line.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            assert re.match(rb"HTTP/1\.[01] 4", line.recv(100))
            while line.recv(1000):  # until the server hangs up: what follows is no request
                pass
    assert panel.done == []
    exact = json.dumps({"action": "start"}).encode()
    assert post(panel, exact + b" " * (MAX_REQUEST_BYTES - len(exact)))[0] == 200 and panel.done == ["start"]
    for body in (b'{"action": 3}', b'{"do": "start"}', b'"start"', b"null"):
        assert post(panel, body)[0] == 400


def test_only_so_many_tabs_look_on_and_each_is_counted_out():
    gone = []
    access = PanelAccess("secret")
    server = PanelServer(
        Address("127.0.0.1"), access, PanelCallbacks(lambda: "", lambda: "", lambda *_: "", gone.append)
    )
    try:
        assert all(server.join("a") for _ in range(MAX_BROWSER_TABS - 1)) and server.join("b") and not server.join("c")
        assert server.watched == MAX_BROWSER_TABS == 16
        assert get(server, "/events", **{"X-Dynid-Token": "secret"})[0] == 503
        access.check("start", "a", "secret")
        for _ in range(MAX_BROWSER_TABS - 2):
            server.part("a")
        assert gone == [] and server.watched == 2, "another tab of that name is still there"
        server.part("b")
        assert gone == [] and access.commander == "a"
        server.part("a")
        assert gone == ["a"] and access.commander == "" and server.watched == 0
    finally:
        server.close()


def listen(panel):
    """Return a stream of states."""
    connection = http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20)
    connection.request("GET", "/events")
    return connection.getresponse()


def state_of(stream):
    """Return the next state of a stream."""
    while not (line := stream.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line[6:])


def test_the_newest_state_goes_out_to_all_who_wait(panel):
    for k in range(3):
        panel.publish({"k": k})
    streams = [listen(panel) for _ in range(2)]
    assert [state_of(stream) for stream in streams] == [{"k": 2}] * 2
    panel.publish({"k": 3})
    assert [state_of(stream) for stream in streams] == [{"k": 3}] * 2
    with pytest.raises(ValueError, match="JSON"):
        panel.publish({"q": float("nan")})
    panel.close()
    ends = [stream.read().replace(b": still here\n\n", b"") for stream in streams]
    assert ends == [b"\n"] * 2, "closed: nobody waits"


def test_a_stop_waits_for_no_other_action():
    """Neither for those under way, however many, nor for connections that say nothing."""
    release, begun, done = threading.Event(), threading.Semaphore(0), []

    def act(action, request):
        begun.release()
        if action == "plan":
            release.wait(60.0)
        done.append(action)
        return action

    server = PanelServer(
        Address("127.0.0.1"), PanelAccess("secret"), PanelCallbacks(str, str, act, lambda _: None), DELAY_S
    )
    plans = [threading.Thread(target=post, args=(server, {"action": "plan"})) for _ in range(50)]
    try:
        for plan in plans:
            plan.start()
        assert all(begun.acquire(timeout=20.0) for _ in plans)
        silent = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(MAX_CONNECTIONS)]
        assert post(server, {"action": "stop"}, token="")[0] == 200 and done == ["stop"]
    finally:
        release.set()
        for plan in plans:
            plan.join(20.0)
        for line in silent:
            line.close()
        server.close()
    assert sorted(done) == ["plan"] * 50 + ["stop"]


def test_the_desk_knows_who_commands_and_for_how_long(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("ros2_dynid.preview.panel_rules.time.monotonic", lambda: now[0])
    access = PanelAccess("secret")
    access.check("stop", "anybody", "")
    assert access.commander == "" and access.silent() == ""
    access.check("alive", "one", "secret")
    assert access.commander == "", "a sign of life commands nothing"
    access.check("start", "one", "secret")
    now[0] += 1.9
    assert access.silent() == ""
    access.check("alive", "two", "secret")
    now[0] += 0.2
    assert access.silent() == "one", "only its own signs count"
    access.check("alive", "one", "secret")
    assert access.silent() == ""
    now[0] += 1.9
    access.check("plan", "one", "secret")
    now[0] += 1.9
    assert access.silent() == "", "a command is a sign, too"
    with pytest.raises(InputError, match="another browser commands"):
        access.check("start", "two", "secret")
    assert not access.leave("two") and access.commander == "one"
    access.check("take_over", "two", "secret")
    assert access.commander == "two" and access.leave("two") and access.commander == ""


def test_the_page_is_served_and_states_stream(panel):
    connection = http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.status == 200 and b"connect-src 'self'" in answer.read()
    connection.request("GET", "/../etc/passwd")
    assert connection.getresponse().status == 404
    stream = http.client.HTTPConnection("127.0.0.1", panel.port, timeout=20)
    stream.request("GET", "/events?client=one", headers={"X-Dynid-Token": "secret"})
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
    assert panel.access.commander == "", "the one that commanded has gone"


IDLE = {"plan", "set_obstacles", "rehearse", "start", "load_model"}
"""Actions that are for a robot at rest."""


def test_buttons_are_refused_with_a_reason():
    nothing = refusals(Situation())
    assert {action for action, text in nothing.items() if not text} == {"stop", "let_go"}
    for node, needing in (
        ("excitation", {"plan", "set_obstacles", "rehearse", "start", "pause", "resume", "jog"}),
        ("recorder", {"record", "end_recording"}),
        ("identification", {"identify", "load_model"}),
        ("feedforward", {"payload"}),
    ):
        silent = refusals(Situation(ALL - {node}, plan=1, recorded="bag", recording=True))
        assert {action for action, text in silent.items() if text == f"the node {node} does not answer"} == needing
    for busy, words, refused in (
        ({"planning": True}, "a plan is being made", {"plan", "set_obstacles", "rehearse", "start"}),
        ({"plan": 0}, "there is no plan yet", {"rehearse", "start"}),
        ({"recording": True}, "a recording is under way", {"record"}),
        ({"recording": False}, "nothing is being recorded", {"end_recording"}),
        ({"identifying": True}, "an identification is under way", {"identify", "load_model"}),
        ({"loading": True}, "an identification is under way", {"identify", "load_model"}),
        ({"recorded": ""}, "there is no recording yet", {"identify"}),
        ({"identifying": False}, "no identification is under way", {"cancel"}),
        ({"moving": True}, "the robot moves", {*IDLE, "jog"}),
        ({"moving": True, "jogging": True}, "the robot moves", IDLE),
        ({"moving": True, "paused": True}, "no motion is under way that could be paused", {"pause"}),
        ({"moving": True, "pausable": True}, "no motion is paused", {"resume"}),
        ({"moving": False}, "the robot moves", set()),
        ({"stop_set": True}, "the stop is set: release it", {"rehearse", "start", "jog", "resume"}),
        ({"stop_set": False}, "the stop is not set", {"release"}),
    ):  # fmt: skip
        found = refusals(replace(Situation(ALL, plan=1, recorded="bag"), **busy))
        assert {action for action, text in found.items() if text == words} == refused
    ready = Situation(ALL, plan=1, recorded="bag")
    assert {action for action, text in refusals(ready).items() if text} == {
        "end_recording", "cancel", "release", "pause", "resume",
    }  # fmt: skip


def test_a_plan_is_rehearsed_first():
    check_rehearsed(Situation(plan=3, rehearsal="passed: well"), False)
    for verdict, said in (("", "not been rehearsed"), ("failed: the elbow lags", "not passed: failed: the elbow lags")):
        check_rehearsed(Situation(plan=3, rehearsal=verdict), True)
        with pytest.raises(InputError, match=said):
            check_rehearsed(Situation(plan=3, rehearsal=verdict), False)


def test_a_stream_without_news_says_each_second_that_it_is_there(panel):
    begin, stream = time.monotonic(), listen(panel)
    assert [stream.readline() for _ in range(3)] == [b": still here\n", b"\n", b": still here\n"]
    assert time.monotonic() - begin > 1.9
    assert stream.getheader("Content-Type") == "text/event-stream" and stream.getheader("Cache-Control") == "no-store"


def test_nobody_is_told_of_tabs_that_go_because_the_server_closes():
    gone = []
    access = PanelAccess("secret")
    server = PanelServer(
        Address("127.0.0.1"), access, PanelCallbacks(lambda: "", lambda: "", lambda *_: "", gone.append)
    )
    assert server.join("one")
    access.check("start", "one", "secret")
    server.close()
    server.part("one")
    assert gone == [] and access.commander == "one" and server.watched == 0


def test_names_of_tabs_are_cut_and_faults_of_an_action_are_its_answer(panel):
    assert post(panel, {"action": "start"}, client="x" * 100)[0] == 200 and panel.access.commander == "x" * 64
    joined = []
    panel.join = lambda client: joined.append(client)  # and so not let in
    for path in (f"/events?client={'y' * 100}", "/events"):
        assert get(panel, path, **{"X-Dynid-Token": "secret"})[0] == 503
    assert get(panel, "/events?client=y")[0] == 503
    assert joined[0] == "y" * 64 and len(joined[1]) == 16 and joined[1] != "y" * 16
    assert joined[2] == "", "without the token a name means nothing"

    def full(action, request):
        raise OSError("the disk is full")

    panel.callbacks = replace(panel.callbacks, act=full)
    status, text = post(panel, {"action": "record"}, client="x" * 64)
    assert status == 409 and json.loads(text) == {"ok": False, "line": "the disk is full"}
