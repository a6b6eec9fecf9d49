# SPDX-License-Identifier: Apache-2.0

"""The preview in a real browser: it draws, plays, scrubs, fits narrow screens, and shows hostile names as text."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from browser import browser, need_browser, opened, sideways, until
from excitation_robots import example_urdf
from motions import recorded_motion
from ros2_dynid.cli import main
from ros2_dynid.excitation.obstacles import parse_entries, read_entries
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.model.load import load_robot
from ros2_dynid.preview.page import preview_page
from ros2_dynid.usecases.plan import Surroundings
from ros2_dynid.usecases.preview import scene_of
from ros2_dynid.usecases.robot_source import RobotSource
from urdf_oracle import PinUrdf, axis_errors, exact_urdf
from urdf_text import joint, link, urdf

UR5 = "ur_description/urdf/ur5_robot.urdf"
HOSTILE = "&lt;img src=x onerror=alert(1)&gt;&lt;/script&gt;"
SCRUB = "const s = document.getElementById('scrub'); s.value = 1; s.dispatchEvent(new Event('input'))"
PIXELS = """() => {
  const gl = dynid.viewer.gl, n = 4 * gl.drawingBufferWidth * gl.drawingBufferHeight, out = new Uint8Array(n);
  dynid.viewer.draw();
  gl.readPixels(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight, gl.RGBA, gl.UNSIGNED_BYTE, out);
  let sum = 0, solid = 0;
  for (let k = 0; k < n; k += 4) {
    sum = (31 * sum + out[k] + 7 * out[k + 1] + 3 * out[k + 2]) % 1000003;
    solid += out[k + 3] === 255;
  }
  return [sum, solid / (n / 4)];
}"""


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


def motion(robot, seconds=4.0):
    t = np.linspace(0, seconds, 21)
    way = 0.6 * np.linspace(1.0, -1.0, len(robot.active))
    dq = np.pi / seconds * np.sin(2 * np.pi * t / seconds)[:, None] * way
    dq[[0, -1]] = 0.0
    return Trajectory(
        robot.active_names, through_points(t, ((1 - np.cos(2 * np.pi * t / seconds)) / 2)[:, None] * way, dq)
    )


def test_the_page_plays_a_ur5(tmp_path, chromium):
    file = example_urdf(UR5)
    robot = load_robot(file)
    around = Surroundings(floor=-1.2, box=(-1.5, 1.5, -1.5, 1.5, -1.2, 1.5))
    page_file = tmp_path / "ur5.html"
    page_file.write_text(preview_page(scene_of(motion(robot), RobotSource(str(file)), around)), encoding="utf-8")
    assert page_file.stat().st_size < 3e6
    with opened(chromium, page_file.as_uri()) as page:
        before, solid = page.evaluate(PIXELS)
        assert 0.005 < solid < 0.5, "the robot covers a part of the picture"
        theirs = PinUrdf(exact_urdf(file.read_bytes()), robot)
        for t in (0.0, 1.3, 2.0):
            T = np.array(page.evaluate("(t) => dynid.frames(t)", t))[1:].reshape(-1, 4, 4)
            turned, moved = axis_errors(robot, T, theirs.axes(motion(robot).at(np.array([t])).q[0]))
            assert max(turned, moved) < 1e-4, "32-bit samples, linear in between"
        page.click("#play")
        until(page, "dynid.time() > 0.3")
        page.click("#play")
        assert page.evaluate("dynid.playing()") is False
        assert page.evaluate(PIXELS)[0] != before, "play moves the robot"
        page.click("#to-least")
        assert page.inner_text("#distance") == page.inner_text("#least")
        page.evaluate(SCRUB)
        assert page.evaluate("dynid.time()") == pytest.approx(1.0, abs=0.01)
        with_shapes = page.evaluate(PIXELS)[0]
        page.check("#show-collision")
        assert page.evaluate(PIXELS)[0] != with_shapes
        assert page.locator("canvas.chart").count() == 5
        assert page.locator(".bar").count() == 4 * 6
        assert sideways(page) <= 0
        page.set_viewport_size({"width": 400, "height": 800})
        assert sideways(page) <= 0, "nothing may stick out sideways"
        assert page.locator("#play").is_visible()


PLACE = """() => {
  const [x, y, z] = dynid.editor.entries[0].at, { view } = dynid.viewer.camera();
  const frame = dynid.viewer.canvas.getBoundingClientRect();
  const [X, Y, Z] = [0, 1, 2].map((i) => view[4 * i] * x + view[4 * i + 1] * y + view[4 * i + 2] * z + view[4 * i + 3]);
  const f = 1.9 * Math.min(1, frame.width / frame.height);
  const right = f * frame.height / frame.width * X / -Z, up = f * Y / -Z;
  return [frame.left + frame.width * (1 + right) / 2, frame.top + frame.height * (1 - up) / 2];
}"""
"""Where the first obstacle is in the window [pixels]."""


def test_obstacles_are_chosen_moved_added_and_saved_as_the_planner_reads_them(tmp_path, chromium):
    file, source = tmp_path / "around.yaml", RobotSource(path="demo3")
    file.write_text(
        "obstacles: [{name: post, cylinder: [0.1, 0.4], at: [0.5, 0.5, 0.3]}, {name: rail, capsules: "
        "[[0, 0, 0, 0, 0.4, 0, 0.03]], at: [-1, 0, 0.2], rpy: [0, 0, 0.5]}]"
    )
    page_file = tmp_path / "demo3.html"
    look = scene_of(motion(source.load()), source, Surroundings(collisions=False))
    look = replace(look, appearance=replace(look.appearance, obstacles=read_entries(file)))
    page_file.write_text(preview_page(look), encoding="utf-8")
    with opened(chromium, page_file.as_uri()) as page:

        def saved():
            with page.expect_download() as download:
                page.click("#save-obstacles")
            return parse_entries(download.value.path().read_bytes(), "saved")

        def dragged(*keys):
            x, y = page.evaluate(PLACE)
            for key in keys:
                page.keyboard.down(key)
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x + 30, y - 20, steps=4)
            page.mouse.up()
            for key in keys:
                page.keyboard.up(key)
            return saved()[0].at

        assert saved() == read_entries(file), "what was not changed stays as it was"
        camera = page.evaluate("[dynid.viewer.azimuth, dynid.viewer.height]")
        before = page.evaluate(PIXELS)[0]
        along = dragged()
        assert along[:2] != (0.5, 0.5) and along[2] == 0.3, "in the plane of the floor"
        assert page.evaluate("[dynid.viewer.azimuth, dynid.viewer.height]") == camera, "the view stays"
        assert page.evaluate(PIXELS)[0] != before and "distances are those of before" in page.inner_text(
            "#obstacles-said"
        )
        up = dragged("Shift")
        assert up[2] > 0.3 and up[:2] == pytest.approx(along[:2], abs=2e-3), "up and down"
        page.click("#add-box")
        page.fill("#figure-0", "0.25")
        page.press("#figure-0", "Tab")
        page.fill("#figure-8", "90")
        page.press("#figure-8", "Tab")
        box = saved()[2]
        assert (box.name, box.kind, box.size) == ("box 1", "box", (0.25, 0.4, 0.4))
        assert box.rpy == pytest.approx((0.0, 0.0, np.pi / 2))
        page.fill("#figure-0", "-1")
        page.press("#figure-0", "Tab")
        assert saved()[2].size[0] == 0.25, "no negative lengths"
        page.select_option("#obstacle", "1")
        page.click("#delete-obstacle")
        assert [one.name for one in saved()] == ["post", "box 1"]


def test_hostile_names_are_shown_as_text(tmp_path, chromium):
    body = link("arm", np.random.default_rng(0)).replace("arm", HOSTILE)
    body = body.replace("</link>", '<visual><geometry><box size="1 1 1"/></geometry></visual></link>')
    text = urdf(link("base"), body, joint(HOSTILE, "base", HOSTILE), name=HOSTILE)
    source = RobotSource(urdf=text)
    file = tmp_path / "hostile.html"
    file.write_text(preview_page(scene_of(motion(source.load()), source, Surroundings())), encoding="utf-8")
    with opened(chromium, file.as_uri()) as page:
        assert page.inner_text("h1") == "<img src=x onerror=alert(1)></script>"
        assert page.locator("img").count() == 0
        assert page.evaluate(PIXELS)[1] > 0.01


def test_the_command_saves_a_page_and_a_picture(tmp_path):
    need_browser()
    robot = load_robot("demo6")
    save_trajectory(tmp_path / "plan.yaml", motion(robot))
    command = [sys.executable, "-m", "ros2_dynid.cli", "preview", "plan.yaml", "demo6", "--save", "p.html"]
    done = subprocess.run(
        [*command, "--screenshot", "p.png", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert '"clearance"' in done.stdout
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"
    assert "http" not in (tmp_path / "p.html").read_text().replace("http-equiv", ""), "it asks nobody for anything"


def test_a_plan_saves_its_preview_and_the_report_links_it(tmp_path, capsys):
    plan, page, result = (str(tmp_path / name) for name in ("plan.yaml", "plan.html", "result"))
    excite = ["excite", "demo3", "--method", "fourier", "--duration", "4", "--time-budget", "1", "--seed", "1"]
    assert main([*excite, "-o", plan, "--save-preview", page, "--json"]) == 0
    recording = tmp_path / recorded_motion(tmp_path, load_robot("demo3"))
    assert main(["identify", "demo3", str(recording), "-o", result, "--preview", page, "--json"]) == 0
    assert (tmp_path / "result/preview.html").read_bytes() == (tmp_path / "plan.html").read_bytes()
    assert 'href="preview.html"' in (tmp_path / "result/report.html").read_text()
    capsys.readouterr()
    assert main(["identify", "demo3", str(recording), "-o", f"{result}2", "--preview", "none.html", "--json"]) == 2
    assert "none.html" in capsys.readouterr().out
