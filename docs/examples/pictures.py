# SPDX-License-Identifier: Apache-2.0

"""Makes the pictures of docs/preview.md and docs/panel.md from the real pages: python docs/examples/pictures.py.

Needs Chromium, for the UR5 the test extra (example-robot-data), and for the panel ROS and Playwright. `pictures.py
panel` makes those of the panel alone: a person's walk through the page before real nodes, from plan to verdict.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image

from ros2_dynid.demo import NODES
from ros2_dynid.preview.chromium import find_chromium, sandbox
from ros2_dynid.processes import Processes, own_domain
from ros2_dynid.usecases.plan import PlanRequest, Surroundings, plan
from ros2_dynid.usecases.preview import PreviewRequest, preview
from ros2_dynid.usecases.robot_source import RobotSource

IMAGES = Path(__file__).parents[1] / "images"
MOST_BYTES = 200_000


def small(picture: bytes, target: Path) -> None:
    """Write a PNG with as many colours as MOST_BYTES allow."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    for colours in (256, 128, 64, 32):
        out = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() < MOST_BYTES:
            break
    target.write_bytes(out.getvalue())
    print(f"{target.name}: {out.tell() // 1000} kB")


def ur5() -> str:
    """Return the URDF of the UR5 of example-robot-data."""
    import pinocchio

    share = Path(pinocchio.__file__).parents[4] / "share"
    return str(share / "example-robot-data/robots/ur_description/urdf/ur5_robot.urdf")


def previews() -> None:
    """Plan a motion of a UR5 above a floor, and take pictures of its preview in a wide and a narrow window."""
    robot, around = RobotSource(ur5()), Surroundings(floor=-0.08)
    with tempfile.TemporaryDirectory() as folder:
        file, picture = f"{folder}/plan.yaml", f"{folder}/picture.png"
        start = (0.0, -1.4, 1.2, -1.2, 0.0, 0.0)
        plan(PlanRequest(robot, file, max_position=3.0, start=start, surroundings=around, time_budget=15.0, seed=2))
        for name, width, height in (("preview", 1280, 800), ("preview_narrow", 500, 900)):
            preview(PreviewRequest(file, robot, around, screenshot=picture, width=width, height=height))
            small(Path(picture).read_bytes(), IMAGES / f"{name}.png")


STATE = "document.getElementById('state').textContent"


def until(page: Any, script: str, seconds: float = 120.0) -> None:
    """Wait until a script is true in the page."""
    end = time.monotonic() + seconds
    while not page.evaluate(script):
        if time.monotonic() > end:
            raise TimeoutError(f"{script}: {page.inner_text('#log')}")
        page.wait_for_timeout(50)


def panel() -> None:
    """Plan, rehearse, run, record and identify by clicks on the panel, and take pictures in between."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, own_domain() as environment:
        folder = Path(name)
        own: dict[str, dict[str, object]] = {
            "excitation": {
                "folder": folder / "plans", "duration": 10.0, "planning_seconds": 4.0, "rehearsal_speed": 0.6,
                "stale_seconds": 2.0, "tracking_tolerance": 0.6, "start_delay": 1.0, "priority": 0,
            },
            "recorder": {"folder": folder / "bags"},
            "identification": {"recordings_folder": folder / "bags", "models_folder": folder / "models"},
            "feedforward": {"priority": 0},
            "panel": {"port": 0, "token_file": folder / "token"},
        }  # fmt: skip
        with Processes(folder, environment) as nodes:
            for node in (*NODES, "panel"):
                options = {"robot": "demo6", **own.get(node, {})}
                arguments = [text for key, value in options.items() for text in ("-p", f"{key}:={value}")]
                nodes.start(node, [f"ros2_dynid.nodes.{node}", "--ros-args", *arguments])
            log = folder / "panel.log"
            while not (address := re.search(r"http\S+", log.read_text(encoding="utf-8"))):
                nodes.check()
                time.sleep(0.2)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=find_chromium(),
                    args=["--use-angle=swiftshader", "--enable-unsafe-swiftshader", *sandbox()],
                )
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                page.goto(f"{address[0]}#token={(folder / 'token').read_text(encoding='utf-8').strip()}")
                _walk(page)
                browser.close()


def _walk(page: Any) -> None:
    def picture(name: str) -> None:
        small(page.screenshot(timeout=120_000), IMAGES / f"{name}.png")

    until(page, f"dynid.state && dynid.state.q && {STATE} === 'idle' && !document.getElementById('plan').disabled")
    page.click("#plan")
    until(page, "dynid.state.plan > 0 && !document.getElementById('rehearse').disabled")
    page.click("#start")
    page.wait_for_timeout(300)
    page.click("#unrehearsed .primary")
    until(page, f"{STATE} === 'rehearsing'")
    until(page, f"{STATE} === 'done'")
    until(page, "dynid.state.rehearsal.startsWith('passed')")
    page.click("#start")
    until(page, f"{STATE} === 'exciting'")
    page.wait_for_timeout(7000)
    picture("panel")
    until(page, f"{STATE} === 'done'")
    until(page, "!document.getElementById('identify').disabled")
    page.click("#identify")
    until(page, "dynid.state.progress !== null")
    until(page, "dynid.state.progress === null")
    until(page, "document.getElementById('verdict').children.length > 0")
    page.wait_for_timeout(500)
    page.locator("#verdict").scroll_into_view_if_needed()
    picture("panel_verdict")
    page.set_viewport_size({"width": 400, "height": 800})
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(500)
    picture("panel_narrow")


if __name__ == "__main__":
    if sys.argv[1:] != ["panel"]:
        previews()
    if sys.argv[1:] != ["preview"]:
        panel()
    sys.exit(0)
