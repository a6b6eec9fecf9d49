# SPDX-License-Identifier: Apache-2.0

"""The panel over real nodes, in a real browser: it shows the robot, starts and stops a real motion of sim_robot."""

from __future__ import annotations

import http.client
import json
import re
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import PlanExcitation
from trajectory_msgs.msg import JointTrajectory

from browser import browser, need_browser, opened, sideways, until
from motions import saved_motion
from ros_graph import graph

ASK = "dynid.ask('start', {anyway: true}).then(() => document.getElementById('log').textContent)"
CLICKED = """document.getElementById('stop').addEventListener(
  'click', () => { window.clicked = performance.timeOrigin + performance.now(); }, true)"""
STOPS = 3
STATE = "document.getElementById('state').textContent"


def starts(page, seconds=20.0):
    """Start, and again as long as the excitation has not yet seen the robot at rest for long enough."""
    end = time.monotonic() + seconds
    until(page, "!document.getElementById('start').disabled")
    while True:
        page.evaluate("dynid.ask('start', {anyway: true})")
        page.wait_for_timeout(200)
        if not page.evaluate(f"/^aborted/.test({STATE})"):
            return
        said = page.evaluate("document.getElementById('log').textContent")
        assert "not at rest" in said and time.monotonic() < end, said


def stops(made, page):
    """Start and stop again and again; return the time from each click to the stop that the excitation sends [ms]."""
    sent = []
    made.client.create_subscription(
        JointTrajectory, "joint_trajectory", lambda _, info: sent.append(info["source_timestamp"] * 1e-6), 10
    )
    page.evaluate(CLICKED)
    took = []
    for _ in range(STOPS):
        made.client.wait_for_rest(0.005, 20.0)
        assert page.locator("#start").is_disabled(), "the stop is set"
        page.click("#release")
        until(page, "dynid.state.refused.start === ''")
        starts(page)
        until(page, f"{STATE} === 'exciting'")
        made.client.wait(lambda: made.client.speed() > 0.02, 20.0, "the motion")
        page.click("#stop")
        clicked = page.evaluate("window.clicked")
        made.client.wait(lambda clicked=clicked: sent and sent[-1] > clicked, 10.0, "the stop")
        took.append(next(t for t in sent if t > clicked) - clicked)
        until(page, f"/^aborted/.test({STATE})")
    return took


@pytest.mark.alone
@pytest.mark.timeout(400)
def test_a_person_plans_starts_and_stops(tmp_path):
    need_browser()
    with graph(tmp_path) as made, browser() as chromium:
        saved_motion(tmp_path / "trajectories", made.robot, seconds=10.0)
        made.start("sim_robot", start=[0.0, -1.0, 0.0])
        made.start("excitation", approach_speed=0.6, settle_seconds=0.1)
        made.start("panel")
        made.ready("sim_robot", "excitation", "panel")
        made.client.wait(lambda: "http://" in made.log("panel"), 20.0, "the panel's address")
        address = re.search(r"http://127\.0\.0\.1:\d+/", made.log("panel"))[0]
        token = (tmp_path / "token").read_text().strip()
        made.client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        with opened(chromium, address, ("403",)) as watching, opened(chromium, f"{address}#token={token}") as page:
            for one in (watching, page):
                until(one, "dynid.state && dynid.state.q && dynid.viewer && dynid.state.plan === 1")
                until(one, f"{STATE} === 'idle'")
            assert watching.locator("#start").is_disabled(), "no token, no command"
            for action in ("rehearse", "start"):
                assert page.locator(f"#{action}").is_enabled()
            for action in ("record", "identify", "cancel", "payload", "load_model"):
                assert page.locator(f"#{action}").is_disabled(), "its node is not there"
            before = np.array(page.evaluate("dynid.state.q"))
            page.click("#start")
            assert page.locator("#unrehearsed").is_visible(), "a rehearsal is asked for first"
            page.click("#anyway")
            until(page, f"{STATE} === 'exciting'")
            until(page, "dynid.state.ghost !== null")
            assert page.locator("#plan").is_disabled() and page.locator("#start").is_disabled()
            made.client.wait(lambda: np.abs(made.client.position() - before).max() > 0.05, 40.0, "the motion")
            until(page, "dynid.state.error !== null && Math.max(...dynid.state.error.map(Math.abs)) < 0.2")
            until(page, f"Math.abs(dynid.state.q[0] - {before[0]}) > 0.03")
            watching.keyboard.press(" ")  # anyone may stop, by the space bar
            until(page, f"/^aborted/.test({STATE})")
            made.client.wait_for_rest(0.02, 20.0)
            page.click("#stop")
            until(page, "document.getElementById('log').textContent.includes('stop: ')")
            line = watching.evaluate(ASK)
            assert "wrong token" in line, "a refused request shows its one line"
            assert made.client.excitation_state.state == ExcitationState.ABORTED
            took = stops(made, page)
            assert min(took) < 50.0, f"from the click to the stop on the wire [ms]: {took}"
            for one, width in ((page, 1280), (page, 400)):
                one.set_viewport_size({"width": width, "height": 800})
                assert sideways(one) <= 0, "nothing may stick out sideways"
                assert one.locator("#stop").is_visible()


class FrozenPage:
    """A page that starts a motion and whose signs of life end, while its connection stays open."""

    def __init__(self, port, token):
        self._headers = {"X-Dynid-Token": token, "X-Dynid-Client": "frozen"}
        self._stream, self._other = (http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(2))
        self._stream.request("GET", "/events?client=frozen", headers=self._headers)
        self.answer = self._stream.getresponse()

    def ask(self, action, **fields):
        body = json.dumps({"action": action, **fields})
        self._other.request("POST", "/do", body, self._headers)
        answer = self._other.getresponse()
        return answer.status, json.loads(answer.read())["line"]


@pytest.mark.timeout(300)
def test_a_frozen_page_stops_the_motion_if_that_is_wanted(tmp_path):
    with graph(tmp_path) as made:
        saved_motion(tmp_path / "trajectories", made.robot, seconds=20.0)
        made.start("sim_robot", start=[0.0, -1.0, 0.0])
        made.start("excitation")
        made.start("panel", stop_on_disconnect="true")
        made.ready("sim_robot", "excitation", "panel")
        made.client.wait(lambda: "http://" in made.log("panel"), 20.0, "the panel's address")
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", made.log("panel"))[1])
        page = FrozenPage(port, (tmp_path / "token").read_text().strip())
        made.client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        made.client.wait(lambda: page.ask("start")[1].startswith("this plan has not"), 20.0, "the plan in the panel")
        made.client.wait(lambda: page.ask("start", anyway=True)[0] == 200, 20.0, "a robot at rest")
        made.client.wait_for_excitation(ExcitationState.EXCITING, timeout=40.0)
        for _ in range(8):
            assert page.ask("alive")[0] == 200
            time.sleep(0.4)
        assert made.client.excitation_state.state == ExcitationState.EXCITING, (
            "a page that gives signs of life keeps its motion"
        )
        made.client.wait_for_excitation(ExcitationState.ABORTED, timeout=20.0)
        assert "the browser that commanded is gone" in made.log("panel")
