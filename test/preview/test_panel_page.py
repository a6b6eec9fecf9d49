# SPDX-License-Identifier: Apache-2.0

"""The panel's page in a real browser, before a server whose nodes are played by the test: nothing may cost the stop."""

from __future__ import annotations

import threading
import time

import pytest

from browser import browser, opened, sideways, until
from ros2_dynid.errors import DynidError
from ros2_dynid.model.load import load_robot
from ros2_dynid.preview.packing import packed_appearance
from ros2_dynid.preview.page import as_json
from ros2_dynid.preview.panel_rules import PanelAccess, Situation, refusals
from ros2_dynid.preview.panel_server import Address, PanelCallbacks, PanelServer
from ros2_dynid.preview.scene import appearance

ALL = frozenset({"excitation", "recorder", "identification", "feedforward"})
HOSTILE = "<img src=x onerror=alert(1)></script><b>"
TABS = 6
"""Connections that a browser opens to one server."""


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


class Played:
    """A server, and a thread that sends states as the node does; `done`: actions that came, with their times."""

    def __init__(self):
        look = packed_appearance(appearance(load_robot("demo3")))
        robot = as_json({"number": 1, **look, "name": HOSTILE, "notes": [], "warning": f"not checked: {HOSTILE}"})
        self.access, self.done, self.gone, self.excitation = PanelAccess("secret"), [], [], "idle"
        self.server = PanelServer(
            Address("127.0.0.1"), self.access, PanelCallbacks(lambda: robot, str, self.act, self.gone.append)
        )
        self.address = f"http://127.0.0.1:{self.server.port}/"
        self._running = True
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def act(self, action, request):
        self.done.append((action, time.monotonic()))
        if action == "payload":
            raise DynidError(f"refused by {HOSTILE}")
        if action == "stop":
            self.excitation = "aborted: stop was called"
        return f"{action} is done"

    def _send(self):
        while self._running:
            now = Situation(ALL, self.excitation == "exciting", plan=0, recorded="bag")
            self.server.publish(
                {
                    "t": time.time(), "robot": 1, "plan": 0, "rehearsal": "", "q": [0.0, 0.1, 0.2],
                    "effort": [1.0, 2.0, 3.0], "predicted": None, "external": None, "ghost": None, "error": None,
                    "excitation": self.excitation, "stopped": "aborted" in self.excitation,
                    "moving": now.moving, "recording": False, "recorded": "bag",
                    "progress": None, "planning": False, "model": HOSTILE, "drift": None, "verdict": [],
                    "refused": dict(refusals(now)), "commander": self.access.commander, "stop_on_disconnect": False,
                    "diagnostics": [{"name": HOSTILE, "level": 2, "text": HOSTILE}],
                    "lines": [{"level": "bad", "text": HOSTILE}],
                }
            )  # fmt: skip
            time.sleep(0.05)

    def stops(self):
        return sum(action == "stop" for action, _ in self.done)

    def close(self):
        self._running = False
        self._thread.join(30.0)
        self.server.close()


@pytest.fixture
def panel():
    played = Played()
    yield played
    played.close()


def waited(done, seconds=20.0):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def ready(page):
    until(page, "dynid.state && dynid.viewer")


def test_the_space_bar_stops_wherever_the_focus_is(panel, chromium):
    with opened(chromium, f"{panel.address}#token=secret") as page:
        ready(page)
        for k, place in enumerate(("#mass", "#joint", "#path", "#stop", "#plan", "canvas.view")):
            panel.excitation = "exciting"
            until(page, "dynid.state.moving")
            page.locator(place).focus()
            page.keyboard.press(" ")
            waited(lambda k=k: panel.stops() == k + 1)
            until(page, "!dynid.state.moving")  # else what it shows next time may be the motion before
        page.wait_for_timeout(200)
        assert panel.stops() == 6, "one stop for one press"
        assert page.input_value("#path") == ""
        until(page, "!dynid.state.moving")
        page.locator("#path").press_sequentially("a b")
        assert page.input_value("#path") == "a b", "a path may have a space while the robot rests"
        page.evaluate("document.getElementById('unrehearsed').hidden = false")
        page.locator("#anyway").focus()
        page.keyboard.press(" ")
        waited(lambda: panel.stops() == 7)
        assert {action for action, _ in panel.done} == {"stop"}, "a space starts nothing"


def test_a_joint_is_held_until_the_button_is_let_go_or_the_page_is_left(panel, chromium):
    with opened(chromium, f"{panel.address}#token=secret") as page:
        ready(page)
        until(page, "!document.getElementById('jog_up').disabled")

        def jogs():
            return sum(action == "jog" for action, _ in panel.done)

        def let_go_after(end):
            before = jogs()
            end()
            waited(lambda: panel.done and panel.done[-1][0] == "let_go")
            told = jogs()
            time.sleep(0.4)
            assert jogs() - told <= 1 and panel.done[-1][0] in ("let_go", "jog") and told >= before, "one on its way"

        page.hover("#jog_up")
        page.mouse.down()
        waited(lambda: jogs() >= 5)
        times = [moment for action, moment in panel.done if action == "jog"]
        assert 0.05 < (times[-1] - times[0]) / (len(times) - 1) < 0.3, "often enough for the node, and no more"
        let_go_after(lambda: (page.mouse.move(5, 300), page.mouse.up()))
        page.focus("#jog_down")
        page.keyboard.down("Enter")
        waited(lambda: panel.done[-1][0] == "jog")
        let_go_after(lambda: page.evaluate("dispatchEvent(new Event('blur'))"))
        page.keyboard.up("Enter")
        assert {action for action, _ in panel.done} == {"jog", "let_go"}, "no click starts anything"


def test_other_tabs_do_not_hold_up_a_stop(panel, chromium):
    context = chromium.new_context()
    try:
        pages = [context.new_page() for _ in range(TABS)]
        for page in pages:
            page.goto(f"{panel.address}#token=secret")
            until(page, "dynid.state")
        assert panel.server.watched == TABS, "every connection of this browser is taken"
        begin = time.monotonic()
        pages[-1].click("#stop")
        waited(lambda: panel.stops() == 1)
        assert panel.done[0][1] - begin < 2.0
        until(pages[-1], "document.getElementById('log').textContent.includes('stop: stop is done')")
        waited(lambda: panel.server.watched == TABS)
    finally:
        context.close()


def test_the_commander_gives_signs_of_life_and_is_missed(panel, chromium):
    with (
        opened(chromium, f"{panel.address}#token=secret") as page,
        opened(chromium, panel.address, ("ERR_INTERNET_DISCONNECTED",)) as other,
    ):
        ready(page)
        ready(other)
        page.click("#record")
        until(page, "document.getElementById('who').textContent === 'you command'")
        until(other, "document.getElementById('who').textContent === 'another browser commands'")
        page.wait_for_timeout(2600)
        assert panel.access.silent() == "" and panel.access.commander, "it is heard though nothing is clicked"
        other.fill("#token", "secret")
        other.click("#take_over")
        until(other, "document.getElementById('who').textContent === 'you command'")
        until(page, "document.getElementById('who').textContent === 'another browser commands'")
        assert page.locator("#record").is_disabled() and page.locator("#stop").is_enabled()
        other.context.set_offline(True)  # no FIN comes: the server still writes into the connection
        waited(lambda: panel.access.silent() != "", 10.0)
        other.context.set_offline(False)


def test_a_lost_connection_is_said(panel, chromium):
    with opened(chromium, panel.address, ("ERR_",)) as page:
        ready(page)
        assert not page.locator("#lost").is_visible()
        panel.server.close()
        until(page, "!document.getElementById('lost').hidden")
        assert "own supervision" in page.inner_text("#lost")
        page.context.set_offline(True)
        page.click("#stop")
        until(page, "document.getElementById('log').textContent.includes('does not answer')")
        page.locator("#path").press(" ")
        assert page.input_value("#path") == "", "nobody knows whether the robot rests: a space is no text"


def test_what_nodes_say_stays_text_and_refusals_are_shown(panel, chromium):
    with opened(chromium, f"{panel.address}#token=secret", ("409",)) as page:
        ready(page)
        until(page, "document.querySelector('h1').textContent.includes('img')")
        assert page.inner_text("h1") == HOSTILE
        page.click("#payload")
        until(page, "document.getElementById('log').textContent.includes('payload: refused by')")
        for place in ("#log", "#diagnostics", "#model", "#alarm"):
            assert HOSTILE in page.inner_text(place)
        assert page.locator("img").count() == 0 and page.locator("li b").count() == 0
        for width in (1280, 400):
            page.set_viewport_size({"width": width, "height": 800})
            assert sideways(page) <= 0
            assert page.locator("#stop").is_visible()
