"""The panel over real nodes, in a real browser: it shows the robot, starts and stops a real motion of sim_robot."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.srv import PlanExcitation

from browser import browser, need_browser, opened, sideways, until
from motions import saved_motion
from ros_graph import graph

ASK = "dynid.ask('start', {anyway: true}).then(() => document.getElementById('log').textContent)"
STATE = "document.getElementById('state').textContent"


@pytest.mark.timeout(240)
def test_a_person_plans_starts_and_stops(tmp_path):
    need_browser()
    with graph(tmp_path) as made, browser() as chromium:
        saved_motion(tmp_path / "trajectories", made.robot, seconds=20.0)
        made.start("sim_robot", start=[0.0, -1.0, 0.0])
        made.start("excitation")
        made.start("panel", port=0, token="secret")
        made.ready("sim_robot", "excitation", "panel")
        made.client.wait(lambda: "http://" in made.log("panel"), 20.0, "the panel's address")
        address = re.search(r"http://127\.0\.0\.1:\d+/", made.log("panel"))[0]
        made.client.call(PlanExcitation, "excitation/plan", file="slow.yaml")
        with opened(chromium, address, ("403",)) as watching, opened(chromium, f"{address}#token=secret") as page:
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
            until(page, f"Math.abs(dynid.state.q[0] - {before[0]}) > 0.03")
            watching.keyboard.press(" ")  # anyone may stop, by the space bar
            until(page, f"/^aborted/.test({STATE})")
            made.client.wait(lambda: np.abs(made.client._live.dq).max() < 0.02, 20.0, "rest")
            page.click("#stop")
            until(page, "document.getElementById('log').textContent.includes('stop: ')")
            line = watching.evaluate(ASK)
            assert "wrong token" in line, "a refused request shows its one line"
            assert made.client.excitation_state.startswith("aborted")
            for one, width in ((page, 1280), (page, 400)):
                one.set_viewport_size({"width": width, "height": 800})
                assert sideways(one) <= 0, "nothing may stick out sideways"
                assert one.locator("#stop").is_visible()
