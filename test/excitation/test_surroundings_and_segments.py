# SPDX-License-Identifier: Apache-2.0

"""What a motion must keep away from, and what becomes of segments that are not safe at once."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import surroundings as around
from ros2_dynid.excitation.law_columns import law_columns, softened
from ros2_dynid.excitation.limits import bounds_of
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.point_trajectory import MIN_SEGMENT_S, SegmentProblem, interpolate_points, shortest_curve
from ros2_dynid.excitation.points import EnergyModel, Substitution
from ros2_dynid.excitation.quintic import shortest_times, through_points
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import find_robot_file, load_robot
from ros2_dynid.model.robot import Limits

LIMITS = (Limits(-2.0, 2.0, 2.0, 3.0), Limits(-2.0, 2.0, 1.0, 4.0), Limits(-2.0, 2.0, 3.0, 5.0))
URDF = find_robot_file("demo6").with_suffix(".urdf")
ROBOT = load_robot("demo3")
ROBOT = replace(ROBOT, joints=tuple(replace(j, limits=x) for j, x in zip(ROBOT.joints, LIMITS, strict=True)))
BOUNDS = bounds_of(ROBOT, 0.0)
START = np.array([-1.0, 0.0, 0.3])


# --- surroundings


def test_without_a_description_there_is_nothing_to_keep_away_from():
    assert around.known_shapes(ROBOT, None) == (ROBOT, None)
    for walls in ({"floor": 0.0}, {"box": (-1, 1, -1, 1, -1, 1)}):
        with pytest.raises(InputError, match="a floor, a box or an obstacle needs collision shapes"):
            around.known_shapes(ROBOT, None, **walls)


def test_shapes_of_a_description_keep_their_places_and_the_margin():
    robot = load_robot("demo6")
    given, shapes = around.known_shapes(robot, URDF, floor=-0.5, margin=0.03)
    assert given is robot and shapes.margin == 0.03 and shapes.notes == ()
    np.testing.assert_array_equal(shapes.planes, [[0.0, 0.0, 1.0, -0.5]])
    near = {link for pair in shapes.close for link in pair}
    assert {s.link for s in shapes.solids} == near
    _, part = around.known_shapes(load_robot(URDF, tip_link="forearm"), URDF, tip_link="forearm")
    assert max(part.joint) == 3 and set(part.links) <= set(shapes.links)


def test_a_description_without_shapes(tmp_path):
    bare = re.sub(r"<collision>.*?</collision>", "", URDF.read_text(), flags=re.DOTALL)
    (tmp_path / "r.urdf").write_text(bare)
    robot = load_robot("demo6")
    assert around.known_shapes(robot, tmp_path / "r.urdf") == (robot, None)
    with pytest.raises(InputError, match="no collision shape was found"):
        around.known_shapes(robot, tmp_path / "r.urdf", floor=0.0)
    lost = '<collision><geometry><mesh filename="none.stl"/></geometry></collision></link>'
    (tmp_path / "r.urdf").write_text(bare.replace("</link>", lost, 3))
    told, shapes = around.known_shapes(robot, tmp_path / "r.urdf")
    notes = told.notes[len(robot.notes) :]
    assert shapes is None and told.notes[: len(robot.notes)] == robot.notes
    assert notes[0].startswith("no collision shape could be read") and len(notes) == 2


@pytest.mark.parametrize("name", ["s.yaml", "s.YML"])
def test_shapes_by_hand(tmp_path, name):
    joint = ROBOT.joints[2].name
    (tmp_path / name).write_text(f"shapes: [{{joint: {joint}, at: [0.1, 0, 0], radius: 0.2}}]")
    _, shapes = around.known_shapes(ROBOT, tmp_path / name, box=(-1, 1, -2, 2, -3, 3))
    assert shapes.links == (joint,) and shapes.joint.tolist() == [3] and len(shapes.planes) == 6
    assert shapes.notes == () and shapes.solids == ()


# --- segments


def problem_of(penalty, r, start=START):
    base = base_parameters(ROBOT, source="energy", groups=["inertial"])
    free = np.ones(3, dtype=bool)
    s = Substitution(BOUNDS.lower, BOUNDS.upper, BOUNDS.velocity, free, np.zeros((r, 3)))
    model = EnergyModel(ROBOT, tuple(base.columns(ROBOT)))
    return SegmentProblem(model, s, penalty(ROBOT, BOUNDS, chi=np.ones(42)), start, start)


def joined(penalty, q, dq=None, u=3.0):
    q = np.array(q, dtype=float)
    problem = problem_of(penalty, len(q))
    x = problem.substitution.variables(q, np.zeros_like(q) if dq is None else np.array(dq, dtype=float))
    return shortest_curve(problem, np.concatenate((x, np.full(len(q) + 1, np.log(u - MIN_SEGMENT_S)))))


class Strong(Penalty):
    """Everything is fine."""

    def able(self, q, dq, ddq):
        return np.ones(len(q), dtype=bool)


class Weak(Penalty):
    """Accelerations of the first joint are fine up to 2."""

    def able(self, q, dq, ddq):
        return np.abs(ddq[:, :, 0]).max(axis=1) <= 2.0


class Blocked(Penalty):
    """There is a ball around (1, 0) in the space of the first two joints."""

    def able(self, q, dq, ddq):
        return np.linalg.norm(q[:, :, :2] - [1.0, 0.0], axis=2).min(axis=1) >= 0.4


class Walled(Penalty):
    """The first joint may not pass 0.9."""

    def able(self, q, dq, ddq):
        return q[:, :, 0].max(axis=1) <= 0.9


class Never(Penalty):
    """Nothing is fine."""

    def able(self, q, dq, ddq):
        return np.zeros(len(q), dtype=bool)


POINTS = [[0.5, 0.5, -0.5], [0.7, -0.5, 0.2], [-0.8, 0.3, 0.9]]


def fastest(q, dq):
    u = shortest_times(q[:-1], q[1:], dq[:-1], dq[1:], BOUNDS.velocity, BOUNDS.acceleration)
    return np.maximum(u, MIN_SEGMENT_S)


def test_safe_segments_take_their_shortest_times():
    curve, q, dq, slowed = joined(Strong, POINTS)
    np.testing.assert_allclose(q, POINTS, atol=1e-9)
    assert not slowed and not np.abs(dq).max() > 1e-12
    Q = np.vstack((START, POINTS, START))
    np.testing.assert_allclose(np.diff(curve.knots), fastest(Q, 0 * Q), rtol=1e-6)
    close = joined(Strong, [START + 1e-6])[0]
    np.testing.assert_allclose(np.diff(close.knots), MIN_SEGMENT_S)


def test_segments_that_are_too_fast_take_the_time_that_was_found():
    curve, q, _, slowed = joined(Weak, POINTS, u=6.0)
    Q = np.vstack((START, POINTS, START))
    shortest = fastest(Q, 0 * Q)
    peak = 10.0 / np.sqrt(3.0) * np.abs(np.diff(Q[:, 0])) / shortest**2
    np.testing.assert_allclose(np.diff(curve.knots), np.where(peak > 2.0, 6.0, shortest), rtol=1e-6)
    assert not slowed and {True, False} == set((peak > 2.0).tolist())
    np.testing.assert_allclose(q, POINTS, atol=1e-9)


def test_segments_that_are_too_fast_still_take_more_time():
    curve, q, _, slowed = joined(Weak, POINTS, u=0.3)
    np.testing.assert_allclose(q, POINTS, atol=1e-9)
    Q = np.vstack((START, POINTS, START))
    shortest, steps = fastest(Q, 0 * Q), np.diff(curve.knots)
    peak = 10.0 / np.sqrt(3.0) * np.abs(np.diff(Q[:, 0])) / shortest**2
    powers = np.log(steps / shortest) / np.log(1.2)
    np.testing.assert_allclose(powers, np.round(powers), atol=1e-6)
    wanted = np.ceil(np.maximum(np.log(peak / 2.0) / np.log(1.2) / 2.0, 0.0) - 1e-3)
    np.testing.assert_allclose(powers, wanted, atol=1e-6)
    assert slowed


def test_points_are_slowed_down_where_a_segment_leaves_its_limits():
    ends = [[1.9, 0.0, 0.0], [1.9, 0.5, 0.0]]
    curve, q, dq, slowed = joined(Strong, ends, [[1.5, 0.0, 0.0], [0.0, 0.4, 0.0]])
    assert curve is not None and slowed
    np.testing.assert_allclose(q, ends, atol=1e-9)
    share = np.log(dq[0, 0] / 1.5) / np.log(0.85)
    assert share == pytest.approx(round(share), abs=1e-6) and share >= 1
    low, high = curve.extrema()[0]
    assert np.all(high <= BOUNDS.upper + 1e-9) and np.all(low >= BOUNDS.lower - 1e-9)
    faster = dq.copy()
    faster[0] /= 0.85
    Q, D = np.vstack((START, q, START)), np.vstack((np.zeros(3), faster, np.zeros(3)))
    u = fastest(Q, D)
    s = np.linspace(0.0, 1.0, 400)
    again = through_points(np.concatenate(([0.0], np.cumsum(u))), Q, D)
    assert again.evaluate(s * again.duration)[0].max() > 2.0, "no more than needed"


def test_a_way_into_a_collision_takes_a_detour_by_the_rest_pose():
    ends = [[1.0, -0.8, 0.0], [1.0, 0.8, 0.0], [0.0, 0.9, 0.1]]
    curve, q, dq, slowed = joined(Blocked, ends)
    np.testing.assert_allclose(q, ends, atol=1e-9)
    assert slowed and len(curve.knots) == 6
    state = curve.evaluate(curve.knots)
    np.testing.assert_allclose(state[0], [START, ends[0], START, ends[1], ends[2], START], atol=1e-9)
    np.testing.assert_allclose(state[1], 0.0, atol=1e-9)
    way = curve.evaluate(np.linspace(0.0, curve.duration, 3000))[0]
    assert np.linalg.norm(way[:, :2] - [1.0, 0.0], axis=1).min() > 0.39
    again = interpolate_points(problem_of(Blocked, 3), q, dq)
    np.testing.assert_allclose(again[1], ends, atol=1e-9)
    assert again[0] is not None and again[3]


def test_a_point_that_cannot_be_reached_comes_nearer():
    ends = np.array([[1.5, 0.5, 0.2], [0.2, -0.5, 0.4]])
    curve, q, _, slowed = joined(Walled, ends)
    assert curve is not None and slowed
    np.testing.assert_allclose(q[1], ends[1], atol=1e-9)
    share = np.log((q[0] - START) / (ends[0] - START)) / np.log(0.8)
    np.testing.assert_allclose(share, round(share[0]), atol=1e-6)
    assert q[0, 0] <= 0.9 and share[0] >= 1.0
    assert START[0] + (q[0, 0] - START[0]) / 0.8 > 0.9, "no nearer than needed"


def test_what_cannot_be_joined_is_not():
    curve, q, dq, slowed = joined(Never, POINTS[:2], np.full((2, 3), 0.1))
    assert curve is None and slowed and q.shape == dq.shape == (2, 3)
    assert not dq.any(), "at last at rest"


# --- laws of friction while searching


def test_signs_are_soft_enough_to_tell_a_stribeck_term_from_them():
    soft = np.array([0.2, 0.3, 0.4])
    terms = (
        FrictionTerm(1, FrictionKind.STRIBECK, 1.0, speed=0.1),
        FrictionTerm(2, FrictionKind.STRIBECK, 1.0, speed=9.0),
        FrictionTerm(3, FrictionKind.CUBIC, 1.0),
    )
    np.testing.assert_allclose(softened(soft, terms), [0.03, 0.3, 0.4])
    np.testing.assert_array_equal(soft, [0.2, 0.3, 0.4])


@pytest.mark.parametrize("kind", list(FrictionKind), ids=str)
def test_columns_of_laws_and_their_slopes(kind):
    more = {"speed": 0.4} if kind is FrictionKind.STRIBECK else {"exponent": 1.6} if kind is FrictionKind.POWER else {}
    terms = (FrictionTerm(2, kind, 1.0, **more),)
    rng = np.random.default_rng(1)
    dq = rng.uniform(-1.0, 1.0, (40, 3))
    Y, C = rng.normal(size=(40, 3, 42)), rng.normal(size=(40, 3, 1))
    soft = np.array([0.2, 0.3, 0.4])
    columns, back = law_columns(ROBOT, terms, Y, dq, soft)
    assert not columns[:, [0, 2]].any()
    by_Y, by_speed = back(C)
    h = 1e-6
    for k in range(3):
        step = np.zeros(3)
        step[k] = h
        ahead, behind = (law_columns(ROBOT, terms, Y, dq + side * step, soft)[0] for side in (1, -1))
        np.testing.assert_allclose(by_speed[:, k], np.sum(C * (ahead - behind), axis=(1, 2)) / (2 * h), atol=1e-5)
    D = rng.normal(size=Y.shape)
    ahead, behind = (law_columns(ROBOT, terms, Y + side * h * D, dq, soft)[0] for side in (1, -1))
    np.testing.assert_allclose(
        np.sum(by_Y * D, axis=(1, 2)), np.sum(C * (ahead - behind), axis=(1, 2)) / (2 * h), atol=1e-4
    )
    hard, back = law_columns(ROBOT, terms, Y, dq)
    fast = np.abs(dq[:, 1]) > 0.9
    if kind is not FrictionKind.STRIBECK:
        np.testing.assert_allclose(columns[fast, 1], hard[fast, 1], rtol=0.02)
