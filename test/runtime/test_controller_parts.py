# SPDX-License-Identifier: Apache-2.0

"""What the controllers decide beside their laws: order of parameters, lost interfaces, models that are not taken."""

import ctypes
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.friction_law import pushing_speeds
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics
from ros2_dynid.dynamics.sensor_wrench import sensor_regressor
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import Fc, Fv, by_joint, standard_names
from ros2_dynid.sim.truth import true_parameters
from runtime_robots import INCLUDE, STRICT, coupled_loop, with_terms

HERE = Path(__file__).parent
MISSES = 3  # longest_miss of interface_values.hpp
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def doubles(values):
    return np.ascontiguousarray(values, dtype=float).ctypes.data_as(ctypes.POINTER(ctypes.c_double))


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    path = tmp_path_factory.mktemp("parts") / "parts.so"
    command = ["g++", *STRICT, "-shared", "-fPIC", f"-I{INCLUDE}", str(HERE / "controller_parts_library.cpp")]
    done = subprocess.run([*command, "-o", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(path))
    library.why.restype = ctypes.c_char_p
    library.shell_new.restype = library.wrist_new.restype = ctypes.c_void_p
    for name in ("shell_write", "shell_write_last", "shell_read_references", "options_of", "taken", "torque_parts",
                 "wrist_tool", "wrist_rest", "wrist_loop"):  # fmt: skip
        getattr(library, name).restype = ctypes.c_bool
    library.same_as_described.restype = ctypes.c_bool
    return library


@cache
def arm():
    robot = load_robot("demo6")
    return robot, true_parameters(robot, 3)


def written(folder, robot, chi, name="robot.dynid"):
    (folder / name).write_bytes(runtime_bytes(robot, chi))
    return str(folder / name).encode()


# --- interfaces that another thread holds


class Shell:
    """Three interfaces and what reads and writes them."""

    def __init__(self, parts):
        self.parts, self.pointer, self.out = parts, ctypes.c_void_p(parts.shell_new(3)), np.zeros(3)

    def call(self, name, *values):
        return getattr(self.parts, f"shell_{name}")(self.pointer, *(doubles(x) for x in values), doubles(self.out))

    def hold(self, joint, times):
        self.parts.shell_hold(self.pointer, joint, times)

    def put(self, values):
        self.parts.shell_put(self.pointer, doubles(values))

    @property
    def values(self):
        self.parts.shell_get(self.pointer, doubles(self.out))
        return self.out.copy()

    def read(self):
        self.call("read")
        return self.out.copy()


@pytest.mark.parametrize("joint", range(3))
def test_a_state_that_cannot_be_read_stands_for_a_moment_and_is_then_unknown(parts, joint):
    shell = Shell(parts)
    shell.put((1.0, 2.0, 3.0))
    assert np.array_equal(shell.read(), (1, 2, 3))
    shell.put((4.0, 5.0, 6.0))
    shell.hold(joint, MISSES + 2)
    last = np.array((4.0, 5.0, 6.0))
    last[joint] = 1.0 + joint
    for _ in range(MISSES):
        assert np.array_equal(shell.read(), last)
    last[joint] = np.nan
    for _ in range(2):
        assert np.array_equal(shell.read(), last, equal_nan=True)
    assert np.array_equal(shell.read(), (4, 5, 6))  # it can be read again
    shell.call("forget")
    assert np.all(np.isnan(shell.out))  # of the activation before
    shell.hold(joint, 1)
    assert np.isnan(shell.read()[joint]) and np.isfinite(shell.out).sum() == 2


@pytest.mark.parametrize("joint", range(3))
def test_a_command_that_is_not_taken_is_an_error_after_a_moment(parts, joint):
    shell = Shell(parts)
    assert shell.parts.shell_write(shell.pointer, doubles((1, 2, 3))) and np.array_equal(shell.values, (1, 2, 3))
    shell.hold(joint, MISSES + 1)
    results = [shell.parts.shell_write(shell.pointer, doubles((4, 5, 6))) for _ in range(MISSES + 2)]
    assert results == [True] * MISSES + [False, True]
    assert np.array_equal(shell.values, (4, 5, 6))
    for times, taken in ((1, True), (99, True), (100, False)):  # the last command is tried again at once
        shell.put((0, 0, 0))
        shell.hold(joint, times)
        assert shell.parts.shell_write_last(shell.pointer, doubles((7, 8, 9))) == taken
        assert np.array_equal(np.delete(shell.values, joint), np.delete((7, 8, 9), joint))
        assert shell.values[joint] == (7 + joint if taken else 0)
        shell.hold(joint, 0)


def test_a_controller_that_stops_writing_references_is_noticed_at_once(parts):
    shell = Shell(parts)
    shell.put((np.nan,) * 3)
    assert not shell.call("read_references")
    for values in ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)):  # the same again counts: it was written
        shell.put(values)
        assert shell.call("read_references") and np.array_equal(shell.out, values)
        assert not shell.call("read_references") and np.all(np.isnan(shell.out))
    shell.put((1.0, np.nan, 3.0))  # some of them: the law refuses what is not finite
    assert shell.call("read_references") and np.array_equal(np.isnan(shell.out), (False, True, False))
    shell.put((1.0, 2.0, 3.0))
    shell.parts.shell_forget_references(shell.pointer)
    assert not shell.call("read_references")


# --- parameters in the order of `joints`


def test_parameters_are_put_into_the_models_order(parts, tmp_path):
    robot, chi = arm()
    path = written(tmp_path, robot, chi)
    names = list(robot.active_names)
    order = np.random.default_rng(2).permutation(6)
    lists = 1.0 + np.arange(42.0).reshape(7, 6)  # in the order of `joints`
    back = np.argsort(order)
    out = np.zeros((13 * 6 + 7,))
    limits = [joint.limits for joint in robot.joints]

    def ask(joints, values):
        values = np.asarray(values, dtype=float)
        return parts.options_of(path, " ".join(joints).encode(), doubles(values), values.shape[1], doubles(out))

    for joints, place in (([names[k] for k in order], back), ([], np.arange(6))):
        assert ask(joints, lists), parts.why()
        found = out[:78].reshape(13, 6)
        effort, rates, kp, kd, damping, speed, margins = lists[:, place]
        wanted = (effort, rates, kp, kd, damping, kp, kd, damping, speed)
        assert np.array_equal(found[:9], wanted)
        assert np.array_equal(found[9:11], ([x.lower for x in limits], [x.upper for x in limits]))
        assert np.array_equal(found[11:], (margins, damping))
        assert np.allclose(out[78:], (0.3, 0.004, 0.4, 0.06, 0.2, 0.07, 0.08))
    usual = np.array([[0.0], [0.0], [2.0], [3.0], [-1.0], [0.0], [0.1]])  # one for all; 0 and below: the default
    assert ask([], usual), parts.why()
    found = out[:78].reshape(13, 6)
    effort, speed = np.array([x.effort for x in limits]), np.array([x.velocity for x in limits])
    assert np.array_equal(found[0], effort) and np.allclose(found[1], 20 * effort)
    assert np.all(found[2] == 2) and np.all(found[3:5] == 3) and np.all(found[7] == 3)
    assert np.allclose(found[8], 0.5 * speed)
    for wrong, text in (
        (names[:5], f"`joints` lacks {names[5]}"),
        ([*names, "more"], "`joints` names joints that the model has not"),
        ([*names[:5], "other"], f"`joints` lacks {names[5]}"),
    ):
        assert not ask(wrong, lists) and text in parts.why().decode()
    assert not ask([], lists[:, :5]) and b"`effort_limits` needs 6 values, or one for all joints" in parts.why()
    for row, name in ((2, b"`kp`"), (3, b"`kd`"), (4, b"`damping`")):
        for bad in (np.nan, np.inf):
            worse = lists.copy()
            worse[row, 3] = bad
            assert not ask(names, worse) and name in parts.why()


def test_limits_that_nobody_knows_are_asked_for(parts, tmp_path):
    robot, chi = arm()
    lists = np.array([[0.0], [0.0], [2.0], [3.0], [-1.0], [0.0], [0.1]])
    for field, name in (("effort", "effort_limits"), ("velocity", "speed_limits")):
        joints = list(robot.joints)
        joints[4] = replace(joints[4], limits=replace(joints[4].limits, **{field: np.inf}))
        path = written(tmp_path, replace(robot, joints=tuple(joints)), chi)
        assert not parts.options_of(path, b"", doubles(lists), 1, doubles(np.zeros(90)))
        assert parts.why().decode() == f"the model has no limit for {joints[4].name}; set `{name}`"


# --- models and loads that are not taken


def pushing_robots():
    rng = np.random.default_rng(4)
    return {"demo6": load_robot("demo6"), "terms": with_terms(load_robot("demo6"), rng), "loop": coupled_loop(rng)}


@pytest.mark.parametrize("name", list(pushing_robots()))
def test_friction_that_pushes_is_refused_where_python_refuses_it(parts, tmp_path, name):
    robot = pushing_robots()[name]
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(30):
        chi = rng.uniform(0.1, 1.0, len(standard_names(robot)))
        drives = by_joint(robot, chi)
        drives[:, Fc] = rng.uniform(-0.3, 0.8, robot.n)
        drives[:, Fv] = rng.uniform(-0.3, 0.8, robot.n)
        path = written(tmp_path, robot, chi)
        pushing = pushing_speeds(robot, chi)
        for limits in (None, doubles(np.full(robot.n, 1e9))):  # of an observer, and of a law
            assert parts.taken(path, path, 1, ctypes.c_double(0.0), limits, None) == (not pushing), pushing
        refused += bool(pushing)
        if pushing:
            told = re.findall(r"(\w+) \(at ([0-9.e-]+) rad/s or m/s\)", parts.why().decode())
            assert [name for name, _ in told] == list(pushing)
            assert np.allclose([float(speed) for _, speed in told], list(pushing.values()), rtol=0.06)
    assert 3 < refused < 30


def test_what_the_robot_cannot_hold_is_refused(parts, tmp_path):
    robot, chi = arm()
    path = written(tmp_path, robot, chi)
    effort = np.array([joint.limits.effort for joint in robot.joints])

    def taken(mass=0.0, limits=effort, q=None, joint=6):
        given = (None if x is None else doubles(x) for x in (limits, q))
        return parts.taken(path, path, joint, ctypes.c_double(mass), *given)

    assert taken() and taken(1.0) and taken(1.0, q=np.zeros(6))
    assert not taken(500.0) and b"most of the robot's positions" in parts.why()
    assert taken(500.0, limits=None)  # an observer commands nothing
    assert not taken(-1.0) and not taken(1.0, joint=9) and b"does not fit" in parts.why()
    heaviest = 1.0
    while taken(heaviest):
        heaviest *= 1.1
    middle = 0.9 * heaviest  # can be held in most positions, but not everywhere
    places = np.random.default_rng(0).uniform(-np.pi, np.pi, (200, 6))
    reachable = [taken(middle, q=q) for q in places]
    assert taken(middle) and any(reachable) and not all(reachable)
    assert not taken(middle, q=places[reachable.index(False)]) and b"where the robot is" in parts.why()


# --- parts of the torque


@pytest.mark.parametrize("name", list(pushing_robots()))
@pytest.mark.parametrize("out", ["", "gravity", "friction", "gravity friction"])
def test_parts_of_the_torque_are_left_out(parts, tmp_path, name, out):
    robot = pushing_robots()[name]
    n, rng = len(robot.active), np.random.default_rng(3)
    chi = rng.uniform(0.1, 1.0, len(standard_names(robot)))
    path = written(tmp_path, robot, chi)
    q, dq, ddq = rng.uniform(-1, 1, (3, n))
    found = np.zeros(n * n + 4 * n)
    assert parts.torque_parts(path, out.encode(), *(doubles(x) for x in (q, dq, ddq, found))), parts.why()
    M, (C, Q, friction, torque) = found[: n * n].reshape(n, n), found[n * n :].reshape(4, n)
    still, bare = np.zeros((1, n)), frictionless(robot, chi)
    weight = gravity_torque(robot, chi, q[None])[0]
    rigid = inverse_dynamics(*bare, q[None], dq[None], ddq[None])[0]
    assert np.allclose(M, inertia_matrix(robot, chi, q[None])[0], rtol=1e-12, atol=1e-12)
    assert np.allclose(C, inverse_dynamics(*bare, q[None], dq[None], still)[0] - weight, rtol=1e-11, atol=1e-11)
    assert np.allclose(Q, 0.0 if "gravity" in out else weight, rtol=1e-12, atol=1e-12)
    whole = inverse_dynamics(robot, chi, q[None], dq[None], ddq[None])[0]
    without = (whole - rigid) * ("friction" in out) + weight * ("gravity" in out)
    assert np.allclose(torque, whole - without, rtol=1e-11, atol=1e-11)
    unloaded = smooth_friction(robot, chi).torque(dq, 1e-290, np.zeros(n))  # sign(v)
    assert np.allclose(friction, 0.0 if "friction" in out else unloaded, rtol=1e-12, atol=1e-12)
    assert not parts.torque_parts(path, b"inertia", *(doubles(x) for x in (q, dq, ddq, found)))
    assert b"choose from gravity and friction" in parts.why()


# --- a wrist sensor


def tools_of(rng):
    """Return random tools: mass, centre, inertia about it, bias, sign; and the ten parameters about the sensor."""
    shapes = []
    for sign in (1.0, -1.0):
        mass, c = rng.uniform(0.5, 3.0), rng.uniform(-0.2, 0.2, 3)
        spread = rng.uniform(-0.1, 0.1, (3, 5))
        second = mass * spread @ spread.T
        I = np.trace(second) * np.eye(3) - second
        J = I + mass * (c @ c * np.eye(3) - np.outer(c, c))
        bias = rng.uniform(-5, 5, 6)
        upper = np.triu_indices(3)
        shapes.append((np.array((mass, *c, *I[upper], *bias, sign)), np.array((*J[upper], *(mass * c), mass))))
    return shapes


def hand_robots():
    """Return robots with two links at one joint and one at another."""
    rng = np.random.default_rng(8)
    for robot in (load_robot("demo6"), coupled_loop(rng)):
        poses = frames(robot, rng.uniform(-1, 1, (3, len(robot.active))))[:, 0]  # any poses
        places = {"hand": robot.n, "grip": robot.n, "elbow": robot.active[1]}
        tools = {name: (joint, pose) for (name, joint), pose in zip(places.items(), poses, strict=True)}
        yield replace(robot, tools=tools)


def test_a_wrist_sensor_shows_what_is_left_without_bias_and_tool(parts, tmp_path):
    rng = np.random.default_rng(4)
    for robot in hand_robots():
        path, n = written(tmp_path, robot, np.ones(len(standard_names(robot)))), len(robot.active)
        for tool, phi in tools_of(rng):
            sensor = ctypes.c_void_p(parts.wrist_new(path, b"hand", doubles(tool), ctypes.c_double(0.01)))
            assert sensor, parts.why()
            for _ in range(5):
                q, dq, ddq = rng.uniform(-2, 2, (3, n))
                push, rest = rng.uniform(-9, 9, 6), np.zeros(6)
                moved = sensor_regressor(robot, "hand", q[None], dq[None], ddq[None])[0] @ phi
                measured = push + tool[10:16] + tool[16] * moved
                state = np.concatenate((q, dq, ddq))
                assert parts.wrist_rest(sensor, doubles(state), doubles(measured), ctypes.c_double(0.0), doubles(rest))
                assert np.allclose(rest, push, rtol=1e-11, atol=1e-11)
                for link in ("grip", "elbow", "hand"):
                    seen = np.zeros(6)
                    parts.wrist_seen_from(sensor, path, link.encode(), doubles(q), doubles(push), doubles(seen))
                    here, there = (frames(robot, q[None])[0, robot.tools[x][0] - 1] @ robot.tools[x][1]
                                   for x in ("hand", link))  # fmt: skip
                    T = np.linalg.inv(there) @ here
                    force = T[:3, :3] @ push[:3]
                    assert np.allclose(seen[:3], force, atol=1e-11)
                    assert np.allclose(seen[3:], T[:3, :3] @ push[3:] + np.cross(T[:3, 3], force), atol=1e-11)
            for place in range(17):
                wrong = tool.copy()
                wrong[place] = np.nan
                assert not parts.wrist_tool(sensor, doubles(wrong))
            assert not parts.wrist_tool(sensor, doubles(np.where(np.arange(17) == 16, 0.0, tool)))
            assert not parts.wrist_tool(sensor, doubles(np.where(np.arange(17) == 0, -1.0, tool)))
            parts.wrist_delete(sensor)
    assert not parts.wrist_new(path, b"hand", doubles(tool), ctypes.c_double(-1.0))


@pytest.mark.parametrize("filter_", [0.0, 0.01])
def test_accelerations_of_a_wrist_sensor_are_filtered_differences(parts, tmp_path, filter_):
    rng = np.random.default_rng(6)
    robot = next(iter(hand_robots()))
    path = written(tmp_path, robot, np.ones(len(standard_names(robot))))
    tool, phi = tools_of(rng)[0]
    sensor = ctypes.c_void_p(parts.wrist_new(path, b"hand", doubles(tool), ctypes.c_double(filter_)))
    q, speeds, rest = rng.uniform(-1, 1, 6), 0.3 * rng.uniform(-1, 1, (12, 6)), np.zeros(6)
    times = np.array((1, 1, 2, 1, 1, np.nan, 1, 1, 1, 1, 1, 1)) * 1e-3
    ddq, last, known = np.zeros(6), np.zeros(6), False
    for k, (dq, dt) in enumerate(zip(speeds, times, strict=True)):
        if k == 9:
            parts.wrist_restart(sensor)
            known = False
        follows = known and filter_ > 0 and dt > 0
        keep = np.exp(-dt / filter_) if follows else 0.0
        ddq = keep * ddq + (1 - keep) * ((dq - last) / dt) if follows else np.zeros(6)
        last, known = dq, True
        measured = tool[10:16] + sensor_regressor(robot, "hand", q[None], dq[None], ddq[None])[0] @ phi
        state = np.concatenate((q, dq))
        assert parts.wrist_rest(sensor, doubles(state), doubles(measured), ctypes.c_double(dt), doubles(rest))
        assert np.allclose(rest, 0.0, atol=1e-9), k
    for place in range(12):
        lost = np.where(np.arange(12) == place, np.nan, state)
        assert not parts.wrist_rest(sensor, doubles(lost), doubles(measured), ctypes.c_double(1e-3), doubles(rest))
        assert parts.wrist_rest(sensor, doubles(state), doubles(measured), ctypes.c_double(1e-3), doubles(rest))
    for place in range(6):
        lost = np.where(np.arange(6) == place, np.nan, measured)
        assert not parts.wrist_rest(sensor, doubles(state), doubles(lost), ctypes.c_double(1e-3), doubles(rest))


def test_other_controllers_get_what_is_left_or_no_number(parts, tmp_path):
    rng = np.random.default_rng(7)
    robot = next(iter(hand_robots()))
    path = written(tmp_path, robot, np.ones(len(standard_names(robot))))
    tool, phi = tools_of(rng)[1]
    q, dq, out = rng.uniform(-1, 1, 6), rng.uniform(-1, 1, 6), np.zeros(6)
    push = rng.uniform(-9, 9, 6)
    moved = sensor_regressor(robot, "hand", q[None], dq[None], np.zeros((1, 6)))[0] @ phi
    states = np.concatenate((q, dq, push + tool[10:16] - moved))

    def left(count, place=0, busy=0, values=states):
        return parts.wrist_loop(path, b"hand", doubles(tool), doubles(values), count, place, busy, doubles(out))

    assert left(5) and np.allclose(out, push, rtol=1e-10, atol=1e-10)
    assert not left(0) and np.all(np.isnan(out))
    for place in range(18):
        assert left(20, place, MISSES) and np.allclose(out, push, rtol=1e-10, atol=1e-10)
        assert not left(20, place, MISSES + 1) and np.all(np.isnan(out))
        assert not left(20, place, -1) and np.all(np.isnan(out))  # what was read before the start is not taken
        assert not left(3, values=np.where(np.arange(18) == place, np.inf, states)) and np.all(np.isnan(out))


# --- the model against the robot description


def description(urdf):
    """Return the joints of a URDF as lines of the library."""
    lines = []
    for joint in ET.fromstring(urdf).iter("joint"):
        numbers = {"xyz": "0 0 0", "rpy": "0 0 0"} | dict(getattr(joint.find("origin"), "attrib", {}))
        xyz, rpy = (np.array(numbers[key].split(), dtype=float) for key in ("xyz", "rpy"))
        R = np.eye(3)
        for unit, angle in zip(np.eye(3), rpy, strict=True):  # fixed axes: the later ones from the left
            x = np.cross(unit, np.eye(3))
            R = (np.eye(3) - np.sin(angle) * x + (1 - np.cos(angle)) * x @ x) @ R
        axis = dict(getattr(joint.find("axis"), "attrib", {"xyz": "1 0 0"}))
        direction = np.array(axis["xyz"].split(), dtype=float)
        motion = {"fixed": 0, "revolute": 1, "continuous": 1, "prismatic": 2}[joint.get("type")]
        numbers = (*(direction / np.linalg.norm(direction)), *R.ravel(), *xyz)
        links = (joint.find("parent").get("link"), joint.find("child").get("link"))
        mimic = {"joint": "-", "multiplier": "1", "offset": "0"} | dict(getattr(joint.find("mimic"), "attrib", {}))
        lines.append(
            " ".join((joint.get("name"), *links, str(motion), *map(repr, map(float, numbers)), *mimic.values()))
        )
    return "\n".join(lines).encode()


LOOP = """<robot name="loop">
<link name="base"/><link name="arm"/><link name="fore"/><link name="hand"/>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="arm"/><origin xyz="0 0 0.3" rpy="0.1 0.2 0.3"/>
<axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="2" effort="50"/></joint>
<joint name="elbow" type="revolute"><parent link="arm"/><child link="fore"/><origin xyz="0.4 0 0" rpy="0 0.4 0"/>
<axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="2" effort="50"/>
<mimic joint="shoulder" multiplier="-1" offset="0.25"/></joint>
<joint name="wrist" type="prismatic"><parent link="fore"/><child link="hand"/><origin xyz="0.3 0 0"/>
<axis xyz="1 0 1"/><limit lower="0" upper="0.5" velocity="1" effort="50"/></joint>
</robot>"""


def test_a_model_is_compared_with_the_robot_description(parts, tmp_path):
    for urdf in (Path(HERE.parents[1] / "config" / "robots" / "demo6.urdf").read_text(), LOOP):
        robot = robot_from_urdf_string(urdf.encode())
        chi = np.ones(len(standard_names(robot)))
        path = written(tmp_path, robot, chi)
        assert parts.same_as_described(path, description(urdf)), parts.why()
        for k in range(1, robot.n):
            turned = replace(robot.joints[k], alpha=robot.joints[k].alpha + 0.01)
            joints = (*robot.joints[:k], turned, *robot.joints[k + 1 :])
            other = written(tmp_path, replace(robot, joints=joints), chi, "other.dynid")
            assert not parts.same_as_described(other, description(urdf)), k
    passive = robot.passive[0]  # of the loop
    assert passive.offset == 0.25
    for change in ({"offset": 0.0}, {"terms": {1: 1.0}}):
        other = written(tmp_path, replace(robot, passive=(replace(passive, **change),)), chi, "other.dynid")
        assert not parts.same_as_described(other, description(LOOP))
        assert b"hand does not move as in the robot description" in parts.why()
    plain = re.sub("<mimic.*?>", "", LOOP)  # the model alone says how the joint follows
    assert parts.same_as_described(path, description(plain)), parts.why()
    renamed = re.sub("elbow", "knee", LOOP)
    assert not parts.same_as_described(path, description(renamed)) and b"has no joint elbow" in parts.why()
    turned = LOOP.replace('"wrist" type="prismatic"', '"wrist" type="revolute"')
    assert not parts.same_as_described(path, description(turned)) and b"wrist is of another kind" in parts.why()
    handless = LOOP.replace('"hand"', '"tool"')
    assert not parts.same_as_described(path, description(handless)) and b"has no link hand" in parts.why()
