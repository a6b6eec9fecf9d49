# SPDX-License-Identifier: Apache-2.0

"""Random and written trees against Pinocchio: skew and near-parallel axes, branches on branches, every joint type."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.parameters import standard_vector
from urdf_oracle import PinUrdf, axis_errors, exact_urdf, inertial_only
from urdf_text import joint, link, urdf

ANGLES = st.one_of(
    st.sampled_from([0.0, 1.5708, -1.5707963, np.pi / 2, np.pi, 3.14159, 1e-6, -1e-4, 3e-5, 0.02, np.pi / 4]),
    st.floats(-3.2, 3.2).map(lambda x: round(x, 4)),
)
LENGTHS = st.one_of(st.sampled_from([0.0, 0.0, 0.1, -0.35, 1e-6]), st.floats(-1, 1).map(lambda x: round(x, 4)))
AXES = st.one_of(
    st.sampled_from(["1 0 0", "0 -1 0", "0 0 1", "0 0 -1", "0 0 12.5", "1 1 0", "0 1e-6 1", "1e-3 0 1", None]),
    st.tuples(*[st.floats(-1, 1).map(lambda x: round(x, 3))] * 3)
    .filter(lambda v: np.linalg.norm(v) > 0.1)
    .map(lambda v: " ".join(map(str, v))),
)
TYPES = st.sampled_from(["revolute", "revolute", "continuous", "prismatic", "fixed"])


@st.composite
def trees(draw):
    """Return the text of a URDF with random joints in random order, some of them mimicking others."""
    n = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    kinds = ["revolute", *(draw(TYPES) for _ in range(n - 1))]
    elements = [link("l0", rng)]
    for i, kind in enumerate(kinds, start=1):
        inside = ""
        leaders = [k for k, other in enumerate(kinds[: i - 1], start=1) if other != "fixed"]
        if leaders and kind != "fixed" and draw(st.integers(0, 5)) == 0:
            leader = draw(st.sampled_from(leaders))
            inside = f'<mimic joint="j{leader}" multiplier="{draw(st.sampled_from([1, -0.5, 2]))}" offset="0.1"/>'
        elements.append(link(f"l{i}", rng if draw(st.booleans()) else None))
        parent = draw(st.integers(max(0, i - 3), i - 1))
        xyz, rpy = ([draw(s) for _ in range(3)] for s in (LENGTHS, ANGLES))
        elements.append(
            joint(f"j{i}", f"l{parent}", f"l{i}", type=kind, xyz=xyz, rpy=rpy, axis=draw(AXES), inside=inside)
        )
    return urdf(*draw(st.permutations(elements)))


def assert_agrees(text, seed=0, tolerance=1e-9):
    robot = robot_from_urdf_string(text)
    theirs = PinUrdf(exact_urdf(text.encode()), robot)
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-1.5, 1.5, size=(3, 3, len(robot.active)))
    chi = standard_vector(robot, inertial_only(robot))
    for sample, T in zip(q, frames(robot, q), strict=True):
        assert max(axis_errors(robot, T, theirs.axes(sample))) < tolerance
        for name, (number, tool) in robot.tools.items():
            assert np.abs(T[number - 1] @ tool - theirs.link(name, sample)).max() < tolerance
    torques = np.array([theirs.torque(*sample) for sample in zip(q, dq, ddq, strict=True)])
    error = np.abs(inverse_dynamics(robot, chi, q, dq, ddq) - torques).max()
    assert error <= 1e-8 * max(np.abs(torques).max(), 1e-3)
    return robot


@given(trees())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_random_trees_agree_with_pinocchio(text):
    robot = assert_agrees(text)
    assert all(joint.parent < number for number, joint in enumerate(robot.joints, start=1))
    first = robot.joints[0]
    assert (first.gamma, first.b, first.alpha, first.d, first.theta, first.r) == (0, 0, 0, 0, 0, 0)


def box(*names):
    rng = np.random.default_rng(5)
    return [link(name, rng) for name in names]


WRITTEN = {
    "a tiny robot off its base": [
        *box("a", "b", "c"),
        joint("j1", "a", "b", xyz="0 1 0", axis="1 1 0"),
        joint("j2", "b", "c", xyz="0 1e-6 0", rpy="0 0 0.02", axis="1 0 0"),
    ],
    "skew prismatic axes": [
        *box("a", "b", "c", "d"),
        joint("p1", "a", "b", type="prismatic", xyz="0.1 0.2 0.3", rpy="0.3 -0.2 0.9", axis="1 2 -1"),
        joint("p2", "b", "c", type="prismatic", xyz="-0.4 0.1 0.2", rpy="1.1 0.4 -0.3", axis="0 1 3"),
        joint("r3", "c", "d", xyz="0.2 0.5 -0.1", rpy="-0.7 0.2 0.1", axis="2 -1 1"),
    ],
    "branches on branches": [
        *box("a", "b", "c", "d", "e", "f", "g"),
        joint("j1", "a", "b", xyz="0 0 0.3"),
        joint("j2", "b", "c", xyz="0.1 0.2 0.1", rpy="0.5 0 0"),
        joint("j3", "b", "d", xyz="-0.1 0.2 0.3", axis="0 1 0"),
        joint("j4", "d", "e", type="prismatic", xyz="0.1 0 0.2", axis="1 0 1"),
        joint("j5", "d", "f", xyz="0.3 0.1 0", rpy="0.2 0.4 0.6", axis="1 0 0"),
        joint("j6", "a", "g", xyz="0.5 0.1 0", axis="0 1 1"),
    ],
    "fixed links with offset inertia": [
        *box("a", "b", "c", "d", "e"),
        joint("j1", "a", "b"),
        joint("f1", "b", "c", type="fixed", xyz="0.3 -0.1 0.2", rpy="0.4 1.2 -0.6"),
        joint("f2", "c", "d", type="fixed", xyz="0.1 0.2 0.5", rpy="-1.4 0.2 0.6"),
        joint("j2", "d", "e", xyz="0 0.4 0", axis="0 1 0"),
    ],
    "antiparallel, base turned and moved": [
        *box("world", "a", "b", "c", "d"),
        joint("mount", "world", "a", type="fixed", xyz="1 2 3", rpy="0.3 0.7 -0.2"),
        joint("j1", "a", "b", xyz="0.1 0 0.4", axis="0 0 1"),
        joint("j2", "b", "c", xyz="0.5 0.1 0", axis="0 0 -1"),
        joint("j3", "c", "d", xyz="0.4 0.1 0.2", rpy="3.14159 0 0", axis="0 0 2"),
    ],
    "coincident axes": [
        *box("a", "b", "c", "d"),
        joint("j1", "a", "b", xyz="0.1 0 0.2"),
        joint("j2", "b", "c", xyz="0 0 0.3", type="prismatic"),
        joint("j3", "c", "d", xyz="0 0 0.1", rpy="0 0 0.4", axis="0 0 -1"),
    ],
    "nearly parallel axes": [
        *box("a", "b", "c", "d"),
        joint("j1", "a", "b"),
        joint("j2", "b", "c", xyz="0.5 0 0", rpy="3e-5 0 0"),
        joint("j3", "c", "d", xyz="0.5 0 0", rpy="0 2e-4 0.1"),
    ],
}


@pytest.mark.parametrize("case", WRITTEN)
def test_written_trees_agree_with_pinocchio(case):
    assert_agrees(urdf(*WRITTEN[case]))


def test_frames_of_nearly_parallel_axes_stay_near_the_robot():
    robot = assert_agrees(urdf(*WRITTEN["nearly parallel axes"]))
    T = frames(robot, np.zeros((1, robot.n)))[0]
    assert np.abs(T[:, :3, 3]).max() < 2.0
