# SPDX-License-Identifier: Apache-2.0

"""The table itself: known robots, exact zeros, rounded angles, and small changes for small changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.mdh import Axis, mdh_table, mdh_transform
from ros2_dynid.model.robot import Joint
from urdf_text import joint, link, urdf

RIGHT = np.pi / 2


def table(robot):
    """Return gamma, b, alpha, d, theta, r of every joint, shape (n, 6)."""
    return np.array([(j.gamma, j.b, j.alpha, j.d, j.theta, j.r) for j in robot.joints])


def arm(*joints):
    """Return a serial arm from (xyz, rpy, axis)."""
    parts = [link("l0")]
    for i, (xyz, rpy, axis) in enumerate(joints, start=1):
        parts += [link(f"l{i}"), joint(f"j{i}", f"l{i - 1}", f"l{i}", xyz=xyz, rpy=rpy, axis=axis)]
    return robot_from_urdf_string(urdf(*parts))


def rounding_notes(robot):
    return [note for note in robot.notes if "round" in note]


PUMA = (
    ("0 0 0.6", "0 0 0", "0 0 1"),
    ("0 0 0", "-1.5708 0 0", "0 0 1"),
    ("0.5 0 0.2", "0 0 0", "0 0 1"),
    ("0.02 0.6 0", "-1.5708 0 0", "0 0 1"),
    ("0 0 0", "1.5708 0 0", "0 0 1"),
    ("0 0 0", "-1.5708 0 0", "0 0 1"),
)


def test_a_puma_written_as_urdf_gives_the_table_of_the_paper():
    robot = arm(*PUMA)
    expected = np.zeros((6, 6))
    expected[:, 2] = [0, -RIGHT, 0, -RIGHT, RIGHT, -RIGHT]
    expected[:, 3] = [0, 0, 0.5, 0.02, 0, 0]
    expected[:, 5] = [0, 0, 0.2, 0.6, 0, 0]
    np.testing.assert_allclose(table(robot), expected, rtol=0, atol=1e-15)
    assert np.array_equal(table(robot) == 0, expected == 0)
    assert np.array_equal(table(robot)[:, 2], expected[:, 2])
    assert robot.base[2, 3] == 0.6
    assert any("'j2'" in note for note in rounding_notes(robot))


def test_rounded_angles_are_snapped_within_1e_5_only():
    inside, outside = arm(PUMA[0], ("0 0 0", "1.570805 0 0", "0 0 1")), arm(PUMA[0], ("0 0 0", "1.57082 0 0", "0 0 1"))
    assert inside.joints[1].alpha == RIGHT
    assert outside.joints[1].alpha == pytest.approx(1.57082, abs=1e-12)
    assert not rounding_notes(outside)


def test_rounding_that_adds_up_over_joints_is_snapped_at_the_axes():
    robot = arm(PUMA[0], ("0 0 0.1", "0.785398 0 0", "0 0.7071068 0.7071068"))
    assert robot.joints[1].alpha in (RIGHT, 0.0)
    tilted = arm(("0 0 0", "0 0 0", "3e-6 0 1"), ("0.3 0 0", "0 0 0", "0 0 1"))
    assert tilted.joints[1].alpha == 0.0
    assert np.array_equal(tilted.base[:3, 2], [0, 0, 1])
    assert any("parallel or perpendicular" in note for note in tilted.notes)


def test_the_largest_change_is_told_with_the_joints_that_changed():
    def told(axes, angles):
        joints = [
            joint(f"j{k}", f"l{k - 1}", f"l{k}", axis=axis, rpy=rpy, xyz="0.1 0.2 0.3")
            for k, (axis, rpy) in enumerate(zip(axes, angles, strict=True), start=1)
        ]
        return robot_from_urdf_string(urdf(*(link(f"l{k}") for k in range(4)), *joints)).notes

    notes = told(("0 0 1", "2e-6 0 1", "0 8e-6 1"), ("0 0 0",) * 3)
    assert sum("(largest change 8.0e-06 rad): joints 'j2', 'j3'" in note for note in notes) == 1
    notes = told(("0 0 1",) * 3, ("0 0 0", "9e-6 0 -4e-6", "0 3e-6 0"))
    assert sum("(largest change 9.0e-06 rad) in the origin of joints 'j2', 'j3'" in note for note in notes) == 1


def test_long_decimals_are_snapped_without_a_note():
    robot = arm(PUMA[0], ("0 0 0", "1.57079632679 0 0", "0 0 1"))
    assert robot.joints[1].alpha == RIGHT
    assert not rounding_notes(robot)


def test_parallel_axes_keep_one_offset():
    """A chain of parallel axes: every r but the last can be zero, as in the arms of Universal Robots."""
    robot = arm(
        ("0 0 0.1", "0 0 0", "0 0 1"),
        ("0 0.2 0", "0 0 0", "0 1 0"),
        ("0 -0.12 0.6", "0 0 0", "0 1 0"),
        ("0 0.03 0.5", "0 0 0", "0 1 0"),
        ("0 0.1 0", "0 0 0", "0 0 1"),
    )
    lengths = table(robot)[:, 5]
    assert np.count_nonzero(lengths) == 1
    assert lengths[3] == pytest.approx(0.2 - 0.12 + 0.03 + 0.1)


def test_parallel_axes_from_the_base_need_no_offset():
    robot = arm(("0 0 0.1", "0 0 0", "0 0 1"), ("0.3 0 0.2", "0 0 0", "0 0 1"), ("0.2 0 -0.4", "0 0 0", "1 0 0"))
    assert np.array_equal(table(robot)[:, [0, 1, 5]][:2], np.zeros((2, 3)))
    assert robot.base[2, 3] == pytest.approx(-0.1)


def test_antiparallel_axes_have_alpha_pi_exactly():
    robot = arm(("0 0 0", "0 0 0", "0 0 1"), ("0.4 0 0.1", "3.14159265 0 0", "0 0 1"))
    assert robot.joints[1].alpha == np.pi
    assert np.count_nonzero(table(robot)[1]) == 2


def test_first_joint_and_last_joint_carry_no_constants():
    robot = arm(("0.1 0.2 0.3", "0.4 0.5 0.6", "1 2 3"), ("0.3 0.1 0.2", "1 2 0.5", "0 1 1"))
    assert not table(robot)[0].any()
    assert not table(robot)[1, [0, 1, 4, 5]].any()


def test_sign_and_zero_of_q_are_those_of_the_urdf():
    robot = arm(("0 0 0", "0 0 0", "0 0 -1"))
    turned = robot.base @ mdh_transform(robot.joints[0], 0.3) @ robot.tools["l1"][1]
    c, s = np.cos(0.3), np.sin(0.3)
    np.testing.assert_allclose(turned[:3, :3], [[c, s, 0], [-s, c, 0], [0, 0, 1]], atol=1e-15)


ORIENTATIONS = st.sampled_from(["0 0 0", "1.5707963267948966 0 0", "0 1.5707963267948966 0", "0.3 0.5 -1.1"])
POSITIONS = st.sampled_from(["0 0 0.2", "0.3 0 0", "0 0.25 0.1", "0 0 0"])


@given(st.lists(st.tuples(POSITIONS, ORIENTATIONS), min_size=2, max_size=6), st.integers(0, 1000))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_small_change_of_lengths_gives_a_small_change_of_the_table(joints, seed):
    """Axes keep their directions and move by 1e-7 m: intersecting ones become skew, and nothing may jump.

    Parallel axes that coincide are left out: their normal has no direction until they part.
    """
    rng = np.random.default_rng(seed)
    before = arm(*((xyz, rpy, "0 0 1") for xyz, rpy in joints))
    alpha, d = table(before)[1:, 2], table(before)[1:, 3]
    if np.any(np.isin(alpha, (0.0, np.pi)) & (np.abs(d) < 1e-3)):
        return
    moved = [np.array(xyz.split(), dtype=float) + rng.uniform(-1e-7, 1e-7, 3) for xyz, _ in joints]
    after = arm(*((xyz, rpy, "0 0 1") for xyz, (_, rpy) in zip(moved, joints, strict=True)))
    assert np.abs(table(after) - table(before)).max() < 1e-5


@given(st.integers(0, 10_000), st.integers(2, 8))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_rows_reproduce_the_frames(seed, n):
    rng = np.random.default_rng(seed)
    axes = []
    for number in range(n):
        direction = rng.normal(size=3)
        axes.append(Axis(int(rng.integers(0, number + 1)), direction / np.linalg.norm(direction), rng.normal(size=3)))
    reference = np.eye(3)[np.argmin(np.abs(axes[0].direction))]
    rows, frames = mdh_table(axes, reference)
    for number, (axis, row) in enumerate(zip(axes, rows, strict=True), start=1):
        fields = {key: getattr(row, key) for key in ("gamma", "b", "alpha", "d", "theta", "r")}
        step = mdh_transform(Joint("j", 0, **fields))
        np.testing.assert_allclose(frames[axis.parent] @ step, frames[number], atol=1e-10)
        np.testing.assert_allclose(frames[number][:3, 2], axis.direction, atol=1e-15)
