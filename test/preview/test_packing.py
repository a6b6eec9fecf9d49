# SPDX-License-Identifier: Apache-2.0

"""What the page's script reads, unpacked again; meshes joined by a plain loop; a page served, a picture drawn."""

from __future__ import annotations

import base64
import subprocess
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.excitation.collision import Nearest, Shapes
from ros2_dynid.excitation.static import approach
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.mesh_file import Mesh
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot
from ros2_dynid.preview import chromium, page
from ros2_dynid.preview.bodies import Body, limit_triangles, stick_between, sticks, urdf_bodies
from ros2_dynid.preview.meshes import GREY, indexed
from ros2_dynid.preview.packing import packed_appearance, packed_motion, packed_scene
from ros2_dynid.preview.page import as_json, document, part, preview_page
from ros2_dynid.preview.scene import Tip, appearance, moment_of_least, motion_data, sampled_path, scene
from ros2_dynid.usecases.robot_source import RobotSource
from urdf_text import joint, link, urdf

ROBOT = load_robot("demo3")
MOVE = approach(ROBOT, [0.0, -0.5, 0.0], [0.6, 0.3, -0.4])
SHAPES = Shapes(
    joint=np.array([0, 2]),
    a=np.array([[0.0, 0.1, 0.2], [1.0, -0.5, 0.25]]),
    b=np.array([[0.3, 0.1, 0.2], [1.0, -0.5, 0.75]]),
    radius=np.array([0.1, 0.2]),
    links=("base", "arm"),
    pairs=np.array([[0, 1]]),
    planes=np.zeros((0, 4)),
    plane_shapes=np.zeros(0, dtype=int),
    margin=0.03,
)


def unpacked(text, kind="<f4"):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


# --- packing


def test_a_robot_comes_out_as_it_went_in():
    rng = np.random.default_rng(0)
    mesh = Mesh(rng.uniform(-3.0, 5.0, (40, 3)) * [1.0, 0.1, 7.0], rng.integers(0, 40, (60, 3)))
    flat = Mesh(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 2.0, 1.0]]), np.array([[0, 1, 2]]))
    pose = np.arange(16.0).reshape(4, 4) / 7.0
    bodies = [
        Body("base", 0, np.eye(4), "box", (0.1, 0.2, 0.3)),
        Body("arm", 2, pose, "mesh", (), (0.1, 0.2, 0.3, 0.4), mesh),
        Body("hand", 3, pose, "mesh", (), GREY, flat),
    ]
    look = appearance(ROBOT, bodies, SHAPES, floor=-0.5, box=(-1.0, 1.0, -np.inf, 2.0, 0.0, np.inf))
    look = replace(look, tips=(Tip("hand", 3, np.array([0.1, 1.0 / 3.0, -2e-7])),))
    packed = packed_appearance(look)
    assert packed["name"] == ROBOT.name and packed["active"] == list(ROBOT.active_names)
    for found, own in zip(packed["joints"], look.skeleton.links, strict=True):
        assert (found["name"], found["parent"], found["prismatic"]) == (own.name, own.parent, own.prismatic)
        np.testing.assert_allclose(np.reshape(found["zero"], (4, 4)), own.zero, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(np.reshape(packed["base"], (4, 4)), ROBOT.base)
    assert packed["G"] == look.skeleton.G.tolist() and packed["offset"] == look.skeleton.offset.tolist()
    assert [(b["link"], b["joint"], b["kind"], b["mesh"]) for b in packed["bodies"]] == [
        ("base", 0, "box", None), ("arm", 2, "mesh", 0), ("hand", 3, "mesh", 1),
        ("waist", 1, "cylinder", None),  # a joint without a body is drawn as a stick
    ]  # fmt: skip
    assert packed["bodies"][0]["size"] == [0.1, 0.2, 0.3] and packed["bodies"][1]["colour"] == [0.1, 0.2, 0.3, 0.4]
    assert packed["bodies"][1]["pose"] == [float(f"{x:.9g}") for x in pose.ravel()]
    for found, own in zip(packed["meshes"], (mesh, flat), strict=True):
        places = unpacked(found["vertices"], "<u2").reshape(-1, 3)
        assert places.max() == 65535 and places.min() == 0
        again = np.array(found["low"]) + places * np.array(found["step"])
        assert np.all(np.abs(again - own.vertices) <= np.ptp(own.vertices, axis=0) / 65535 * 0.51 + 1e-7)
        np.testing.assert_array_equal(unpacked(found["triangles"], "<u4").reshape(-1, 3), own.triangles)
        assert found["low"] == [float(f"{x:.8g}") for x in own.vertices.min(axis=0)]
    assert packed["tips"] == [{"link": "hand", "joint": 3, "point": [0.1, 0.333333, -2e-7]}]
    assert packed["capsules"] == [
        {"joint": 0, "a": [0.0, 0.1, 0.2], "b": [0.3, 0.1, 0.2], "radius": 0.1},
        {"joint": 2, "a": [1.0, -0.5, 0.25], "b": [1.0, -0.5, 0.75], "radius": 0.2},
    ]
    assert packed["floor"] == -0.5 and packed["box"] == [-1.0, 1.0, None, 2.0, 0.0, None]
    assert packed["up"] == [0.0, 0.0, 1.0]
    bare = packed_appearance(appearance(ROBOT))
    assert bare["capsules"] == [] and bare["box"] is None and bare["floor"] is None and bare["meshes"] == []


def test_a_motion_comes_out_as_it_went_in():
    look = appearance(ROBOT, notes=("a note",))
    motion = motion_data(ROBOT, MOVE, look)
    N = len(motion.q)
    rng = np.random.default_rng(1)
    near = Nearest(
        rng.normal(size=N), np.arange(N) % 2, -1 - np.arange(N) % 3, rng.normal(size=(N, 3)), rng.normal(size=(N, 3))
    )
    motion = replace(motion, nearest=near, velocity=np.array([1.0, np.inf, 3.0]))
    packed = packed_motion(motion, SHAPES)
    assert (packed["kind"], packed["duration"], packed["count"]) == (motion.kind, MOVE.duration, N)
    for name in ("q", "dq", "ddq", "tau", "path"):
        np.testing.assert_allclose(unpacked(packed[name]), getattr(motion, name).ravel(), rtol=1e-6, atol=1e-9)
    for name in ("lower", "upper", "acceleration", "effort"):
        assert packed["limits"][name] == getattr(motion, name).tolist()
    assert packed["limits"]["velocity"] == [1.0, None, 3.0]
    assert packed["use"] == {kind: used.tolist() for kind, used in motion.use.items()}
    found = packed["nearest"]
    for name in ("distance", "p", "r"):
        np.testing.assert_allclose(unpacked(found[name]), getattr(near, name).ravel(), rtol=1e-6)
    for name in ("first", "second"):
        np.testing.assert_array_equal(unpacked(found[name], "<i4"), getattr(near, name))
    assert found["margin"] == 0.03 and found["links"] == ["base", "arm"]
    assert packed_motion(motion, None)["nearest"] is None
    nothing = replace(near, distance=np.full(N, np.inf))
    assert packed_motion(replace(motion, nearest=nothing), SHAPES)["nearest"] is None
    assert moment_of_least(replace(motion, nearest=nothing)) is None
    k = int(np.argmin(near.distance))
    assert moment_of_least(motion) == (near.distance[k], motion.t[k])
    shown = scene(ROBOT, MOVE, look)
    assert packed_scene(shown)["notes"] == [str(note) for note in shown.notes] and shown.notes[0] == "a note"


def test_a_page_has_its_title_and_policy_and_parts():
    shown = scene(ROBOT, MOVE, appearance(ROBOT))
    text = preview_page(shown)
    assert f"<title>{ROBOT.name}: {MOVE.kind} motion of {MOVE.duration:.4g} s</title>" in text
    assert part("viewer.js") in text and part("preview.css") in text and "connect-src" not in text
    assert "connect-src 'self'" in document("<x>", (), (), {"a": 1}, connect=True)
    assert "<title>&lt;x&gt;</title>" in document("<x>", (), (), {})
    assert as_json({"a": [1, 2.5]}) == '{"a":[1,2.5]}'
    with pytest.raises(ValueError, match="JSON"):
        as_json({"a": float("nan")})


# --- samples and ends


@pytest.mark.parametrize(("duration", "count"), [(0.001, 2), (1.0, 51), (1.011, 52), (40.0, 2001), (4000.0, 2001)])
def test_a_motion_is_sampled_at_even_times_and_not_too_often(duration, count):
    asked = []

    def q_of(t):
        asked.append(t)
        return np.outer(t, np.ones(3)) / duration

    q, path = sampled_path(appearance(ROBOT), q_of, duration, lambda q: frames(ROBOT, q))
    np.testing.assert_allclose(asked[0], np.linspace(0.0, duration, count))
    assert q.shape == (count, 3) and path.shape == (count, 1, 3)


def test_ends_are_the_tools_of_the_branches_and_not_more_than_four():
    """One for each end, the last of several; a tool on a link that carries others is none."""
    tool = np.eye(4)
    tool[:3, 3] = (0.1, 0.2, 0.3)
    arms = tuple(Joint(f"a{k}", 0 if k == 1 else 1, d=0.1 * k) for k in range(1, 8))
    robot = Robot("r", arms, tools={"inner": (1, tool), "first": (2, np.eye(4)), "t2": (2, tool)})
    (tip,) = appearance(robot).tips
    assert (tip.link, tip.joint) == ("t2", 2) and tip.point.tolist() == [0.1, 0.2, 0.3]
    many = replace(robot, tools={f"t{k}": (k, tool) for k in range(1, 8)})
    assert [tip.joint for tip in appearance(many).tips] == [2, 3, 4, 5]
    (plain,) = appearance(replace(robot, tools={})).tips
    assert (plain.link, plain.joint, plain.point.tolist()) == ("a7", 7, [0.0, 0.0, 0.0])


def test_sticks_of_any_direction_and_of_a_robot_without_extent():
    for way in np.concatenate((np.eye(3), -np.eye(3), [[0.1, 0.1, 2.0], [1.0, -1.0, 0.5], [0.3, 0.0, 0.91]])):
        to = np.eye(4)
        to[:3, 3] = 0.7 * way
        (body,) = stick_between("x", 3, to, 0.02)
        R = body.pose[:3, :3]
        np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(R[:, 2], way / np.linalg.norm(way), atol=1e-12)
        assert np.linalg.det(R) == pytest.approx(1.0) and body.size == pytest.approx((0.02, 0.7 * np.linalg.norm(way)))
        np.testing.assert_allclose(body.pose[:3, 3], 0.35 * way)
        assert (body.link, body.joint, body.kind) == ("x", 3, "capsule")
    near = np.eye(4)
    near[0, 3] = 0.9e-6
    assert stick_between("x", 1, near, 0.02) == []
    near[0, 3] = 1.1e-6
    assert len(stick_between("x", 1, near, 0.02)) == 1
    point = Robot("p", (Joint("turn", 0), Joint("slide", 1, sigma=PRISMATIC)))
    turn, slide = sticks(point)
    assert turn.size == pytest.approx((1.6 * 0.025, 5.0 * 0.025)) and slide.size == pytest.approx((0.0275, 0.175))
    assert turn.colour == (0.92, 0.55, 0.2, 1.0) and slide.colour == (0.25, 0.55, 0.9, 1.0)
    first = sticks(Robot("q", (Joint("turn", 0, d=0.4),)))
    assert [(b.link, b.joint, b.kind) for b in first] == [("turn", 1, "cylinder"), ("base", 0, "capsule")]


# --- meshes


def random_mesh(count=300, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.0, 2.0, (count, 3)) * [1.0, 0.5, 0.2] - 4.0, rng.integers(0, count, (2 * count, 3))


def test_meshes_joined_by_rounding_keep_every_triangle_and_their_winding():
    vertices, triangles = random_mesh(50)
    soup = vertices[triangles]
    found = indexed(soup)
    keep = [t for t in triangles if len(set(t)) == 3]
    np.testing.assert_allclose(found.vertices[found.triangles], vertices[keep], atol=1e-9)
    one = indexed(np.zeros((2, 3, 3)))
    assert one.triangles.shape == (0, 3), "all in one point"


def test_what_is_affordable_is_shared_from_the_smallest_up(monkeypatch):
    asked = []
    monkeypatch.setattr("ros2_dynid.preview.bodies.decimated", lambda mesh, most: asked.append(most) or mesh)
    monkeypatch.setattr("ros2_dynid.preview.bodies.TRIANGLES", 3000)

    def bodies(*counts):
        return [
            Body("x", 0, np.eye(4), "mesh", (), GREY, Mesh(np.zeros((3, 3)), np.zeros((n, 3), int))) for n in counts
        ]

    for counts, most in (
        ((300, 5000, 900, 4000), 900), ((500, 5000, 4000), 1250), ((1000, 900), 1000), ((5000,) * 30, 200),
    ):  # fmt: skip
        asked.clear()
        limit_triangles(bodies(*counts))
        assert set(asked) == {most}, counts
    assert [body.kind for body in limit_triangles([Body("b", 0, np.eye(4), "box", (1.0, 1.0, 1.0))])] == ["box"]


def test_shapes_of_a_urdf_lie_where_their_origin_says(tmp_path):
    """Several on a link, each with its pose, size and colour; a mesh scaled; the base's on joint 0."""
    (tmp_path / "m.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 1\nf 1 2 3\n")
    shapes = """<visual><origin xyz="0.1 0.2 0.3" rpy="0 0 1.5707963267948966"/><geometry><box size="1 2 3"/></geometry>
<material name="red"/></visual>
<visual><geometry><cylinder radius="0.5" length="2"/></geometry></visual>
<visual><geometry><mesh filename="m.obj" scale="2 3 -4"/></geometry><material name="q">
<color rgba="0 0 1 1"/></material></visual><visual><geometry><unheard_of/></geometry></visual><visual/>"""
    ball = '<visual><geometry><sphere radius="0.7"/></geometry></visual>'
    text = urdf(
        link("base").replace("/>", "></link>").replace("</link>", ball + "</link>"),
        link("arm", np.random.default_rng(0)).replace("</link>", shapes + "</link>"),
        joint("turn", "base", "arm"), '<material name="red"><color rgba="1 0 0 1"/></material>',
    )  # fmt: skip
    file = tmp_path / "robot.urdf"
    file.write_text(text)
    robot = RobotSource(str(file)).load()
    bodies, notes = urdf_bodies(robot, file)
    assert notes == () and [body.kind for body in bodies] == ["sphere", "box", "cylinder", "mesh"]
    ball, box, cylinder, mesh = bodies
    assert (ball.joint, ball.link, ball.size, ball.colour) == (0, "base", (0.7,), GREY)
    assert box.size == (1.0, 2.0, 3.0) and box.colour == (1.0, 0.0, 0.0, 1.0) and cylinder.colour == GREY
    assert {b.joint for b in bodies[1:]} == {1} and cylinder.size == (0.5, 2.0)
    local = np.linalg.inv(cylinder.pose) @ box.pose
    np.testing.assert_allclose(local[:3, 3], [0.1, 0.2, 0.3], atol=1e-12)
    np.testing.assert_allclose(local[:3, :3], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-9)
    assert mesh.colour == (0.0, 0.0, 1.0, 1.0)
    np.testing.assert_allclose(np.sort(mesh.mesh.vertices, axis=0), np.sort([[0, 0, 0], [2, 0, 0], [0, 3, -4]], axis=0))


# --- a page served, a picture drawn


def test_a_page_is_served_under_its_secret_address_alone(monkeypatch):
    opened, answers = [], {}
    monkeypatch.setattr("ros2_dynid.preview.page.webbrowser.open", opened.append)
    true = page.http.server.ThreadingHTTPServer.serve_forever

    def ask(server, address):
        for path in (address, address + "x", address.rpartition("/")[0] + "/"):
            try:
                with urllib.request.urlopen(path, timeout=10) as got:
                    answers[path] = (got.status, got.read().decode(), got.headers["Content-Type"])
            except urllib.error.HTTPError as error:
                answers[path] = (error.code,)
        server.shutdown()

    def interrupted(server, poll):
        asking = threading.Thread(target=ask, args=(server, addresses[-1]))
        asking.start()
        true(server, 0.01)
        asking.join(30.0)
        assert poll == 0.1
        raise KeyboardInterrupt

    monkeypatch.setattr(page.http.server.ThreadingHTTPServer, "serve_forever", interrupted)
    addresses = []
    for browser in (True, False):
        page.serve_page("<p>\u00e9</p>", addresses.append, browser=browser)
    address, other = addresses
    assert opened == [address] and address.startswith("http://127.0.0.1:") and len(address.rpartition("/")[2]) == 16
    assert address.rpartition("/")[2] != other.rpartition("/")[2]
    assert answers[address] == (200, "<p>\u00e9</p>", "text/html; charset=utf-8")
    assert [code for code, *_ in answers.values()].count(404) == 4


def test_a_picture_is_what_chromium_draws_of_the_page(tmp_path, monkeypatch):
    calls = []

    def run(command, **options):
        calls.append((command, options))
        address = command[-1]
        assert Path(address.removeprefix("file://").partition("#")[0]).read_text() == "<p>x</p>"
        picture = next(word for word in command if word.startswith("--screenshot="))
        if draws:
            Path(picture.partition("=")[2]).write_bytes(b"PNG")
        return subprocess.CompletedProcess(command, 0, b"", stderr)

    monkeypatch.setattr("ros2_dynid.preview.chromium.subprocess.run", run)
    monkeypatch.setattr("ros2_dynid.preview.chromium.shutil.which", lambda name: {"google-chrome": "/g"}.get(name))
    target, draws, stderr = tmp_path / "x.png", True, b""
    assert chromium.find_chromium() == "/g"
    for user, flag in ((0, True), (1000, False)):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        chromium.screenshot("<p>x</p>", target, size=(640, 480), fragment="t=1")
        command, options = calls[-1]
        assert target.read_bytes() == b"PNG" and command[0] == "/g" and ("--no-sandbox" in command) == flag
        assert "--window-size=640,480" in command and command[-1].endswith("page.html#t=1")
        assert options["timeout"] == 120.0 and "--virtual-time-budget=4000" in command
    chromium.screenshot("<p>x</p>", target)
    assert "--window-size=1280,800" in calls[-1][0] and calls[-1][0][-1].endswith("#")
    draws = False
    for stderr, words in ((b"", "no message"), (b"one\ntwo\n", r"nothing \(two\)")):  # noqa: B007 (read by run)
        with pytest.raises(DynidError, match=words):
            chromium.screenshot("<p>x</p>", target)

    def late(command, **_):
        raise subprocess.TimeoutExpired(command, 1.0)

    monkeypatch.setattr("ros2_dynid.preview.chromium.subprocess.run", late)
    with pytest.raises(DynidError, match="has not drawn the page in 120 s"):
        chromium.screenshot("<p>x</p>", target)
    monkeypatch.setattr("ros2_dynid.preview.chromium.shutil.which", lambda name: None)
    with pytest.raises(InputError, match="no Chromium was found"):
        chromium.screenshot("<p>x</p>", target)
