# SPDX-License-Identifier: Apache-2.0

"""Shapes as they are read and covered, ranges that links leave joints, and points joined: each by its definition."""

from __future__ import annotations

import struct
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from excitation_robots import with_follower
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import descent, exact, shapes
from ros2_dynid.excitation.limits import bounds_of
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.point_trajectory import (
    MIN_SEGMENT_S,
    TIME_WEIGHT,
    SegmentProblem,
    draw_variables,
    interpolate_points,
    shortest_curve,
)
from ros2_dynid.excitation.points import EnergyModel, Substitution
from ros2_dynid.excitation.quintic import shortest_times, through_points
from ros2_dynid.excitation.shapes import Solid
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Joint, Limits, Robot

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]], dtype=float)
FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])


# --- files of meshes


def binary(triangles):
    data = bytes(80) + struct.pack("<I", len(triangles))
    for one in triangles:
        data += struct.pack("<12fH", 9.0, 9.0, 9.0, *one.ravel(), 7)
    return data


def test_where_meshes_are_looked_for(tmp_path, monkeypatch):
    urdf = tmp_path / "pkg" / "urdf" / "r.urdf"
    for file in (
        urdf.parent / "m.stl",
        tmp_path / "pkg" / "meshes" / "n.stl",
        tmp_path / "ros" / "share" / "other" / "o.stl",
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{tmp_path / 'ros'}")
    assert shapes.find_mesh("m.stl", urdf) == urdf.parent / "m.stl"
    assert shapes.find_mesh(f"file://{urdf.parent / 'm.stl'}", urdf) == urdf.parent / "m.stl"
    assert shapes.find_mesh("package://pkg/meshes/n.stl", urdf) == tmp_path / "pkg" / "meshes" / "n.stl"
    assert shapes.find_mesh("package://renamed/meshes/n.stl", urdf) == tmp_path / "pkg" / "meshes" / "n.stl"
    assert shapes.find_mesh("package://other/o.stl", urdf) == tmp_path / "ros" / "share" / "other" / "o.stl"
    assert shapes.find_mesh("package://pkg/gone.stl", urdf) is None and shapes.find_mesh("gone.stl", urdf) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<box size="1 2 3"/>', ("box", (1.0, 2.0, 3.0))),
        ('<sphere radius="0.4"/>', ("sphere", (0.4,))),
        ('<cylinder radius="0.4" length="2"/>', ("cylinder", (0.4, 2.0))),
        ('<capsule length="2" radius="0.4"/>', ("capsule", (0.4, 2.0))),
        ("", ("", ())),
        ('<mesh filename="gone.stl"/>', None),
        ('<box size="1 2"/>', InputError),
        ('<box size="1 2 3 4"/>', InputError),
        ('<box size="1 x 3"/>', InputError),
        ('<sphere radius="1 2"/>', InputError),
        ('<box size="1 2 0"/>', InputError),
        ('<sphere radius="-1"/>', InputError),
        ('<sphere radius="inf"/>', InputError),
        ('<cylinder radius="1"/>', InputError),
    ],
)
def test_shapes_of_a_description(tmp_path, text, found):
    element = ElementTree.fromstring(f"<collision><geometry>{text}</geometry></collision>")
    if found is InputError:
        with pytest.raises(InputError):
            shapes.geometry_of(element, tmp_path / "r.urdf", "r")
        return
    told = shapes.geometry_of(element, tmp_path / "r.urdf", "r")
    assert told is None if found is None else told[:2] == found
    (tmp_path / "m.stl").write_bytes(binary(CORNERS[FACES]))
    origin, mesh = '<origin xyz="1 2 3" rpy="0 0 1.5707963"/>', '<mesh filename="m.stl" scale="1 -2 3"/>'
    mesh = f"<collision>{origin}<geometry>{mesh}</geometry></collision>"
    element = ElementTree.fromstring(mesh)
    kind, size, triangles = shapes.geometry_of(element, tmp_path / "r.urdf", "r")
    assert (kind, size) == ("mesh", ())
    np.testing.assert_allclose(triangles, CORNERS[FACES] * [1.0, -2.0, 3.0])
    pose = shapes.origin_of(element, "r")
    np.testing.assert_allclose(pose @ [1.0, 0.0, 0.0, 1.0], [1.0, 3.0, 3.0, 1.0], atol=1e-6)
    np.testing.assert_array_equal(shapes.origin_of(ElementTree.fromstring("<collision/>"), "r"), np.eye(4))


def test_shapes_of_a_file(tmp_path):
    robot = load_robot("demo3")
    names = [joint.name for joint in robot.joints]
    file = tmp_path / "s.yaml"
    file.write_text(
        f"shapes:\n- {{joint: {names[1]}, from: [0, 0, 0.1], to: [0.3, 0, 0], radius: 0.05, name: arm}}\n"
        "- {joint: base, at: [0, 0, 0.2], radius: 0.1}\n"
    )
    one, two = shapes.file_capsules(robot, file)
    assert (one[0], one[1], one[4]) == ("arm", 2, 0.05) and (two[0], two[1], two[4]) == ("base", 0, 0.1)
    assert one[2].tolist() == [0.0, 0.0, 0.1] and one[3].tolist() == [0.3, 0.0, 0.0]
    assert two[2].tolist() == two[3].tolist() == [0.0, 0.0, 0.2]
    for text in (
        "shapes: []",
        "other: 1",
        "shapes: [{joint: nose, at: [0, 0, 0], radius: 0.1}]",
        "shapes: [{joint: base, at: [0, 0], radius: 0.1}]",
        "shapes: [{joint: base, at: [0, 0, .nan], radius: 0.1}]",
        "shapes: [{joint: base, at: [0, 0, 0], radius: 0}]",
        "shapes: [{joint: base, at: [0, 0, 0], radius: .inf}]",
        "shapes: [{joint: base, from: [0, 0, 0], radius: 0.1}]",
        "shapes: [{at: [0, 0, 0], radius: 0.1}]",
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=r"shape 1 is not complete|no list `shapes`"):
            shapes.file_capsules(robot, file)


def test_shapes_of_a_file_are_on_the_joints_of_the_tree_followers_included(tmp_path):
    file = tmp_path / "s.yaml"
    names = ("turn", "follower", "lift", "tilt")
    file.write_text("shapes:\n" + "".join(f"- {{joint: {name}, at: [0, 0, 0], radius: 0.1}}\n" for name in names))
    assert [capsule[:2] for capsule in shapes.file_capsules(with_follower(), file)] == list(
        zip(names, (1, 2, 3, 4), strict=True)
    )


# --- capsules


def outside(point, capsule):
    a, b, r = capsule
    way = b - a
    s = np.clip((point - a) @ way / max(way @ way, 1e-30), 0.0, 1.0)
    return np.linalg.norm(point - a - s * way) - r


@pytest.mark.parametrize("seed", range(6))
def test_a_capsule_holds_its_points_tightly(seed):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    size = rng.uniform(0.2, 3.0, 3)
    points = rng.uniform(-1.0, 1.0, (200, 3)) * size @ Q + 5.0
    capsule = shapes.bounding_capsule(points)
    gaps = np.array([outside(p, capsule) for p in points])
    assert gaps.max() <= 1e-9 and np.sort(gaps)[-1] > -1e-3 * size.max(), "some lie on it"
    volume = np.pi * capsule[2] ** 2 * (np.linalg.norm(capsule[1] - capsule[0]) + 4 / 3 * capsule[2])
    assert shapes.capsule_volume(capsule) == pytest.approx(volume)
    a, b, r = capsule
    step = 1e-3 * (b - a)
    for smaller in ((a + step, b, r), (a, b - step, r), (a, b, 0.999 * r)):
        assert max(outside(p, smaller) for p in points) > 1e-9, "no shorter at either end, no thinner"


def test_shapes_are_inside_their_capsules():
    rng = np.random.default_rng(0)
    pose = np.eye(4)
    pose[:3, 3] = [1.0, 2.0, 3.0]
    pose[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    for kind, size in (("sphere", (0.4,)), ("cylinder", (0.3, 2.0)), ("capsule", (0.3, 2.0)), ("box", (0.2, 0.6, 1.5))):
        ((link, joint, a, b, r),) = shapes.capsules_of([Solid("l", 2, pose, kind, size)])
        assert (link, joint) == ("l", 2)
        if kind == "box":
            corners = (np.array(size) / 2) * rng.choice([-1.0, 1.0], (50, 3))
            assert r == pytest.approx(np.hypot(0.1, 0.3), abs=1e-6) and np.linalg.norm(b - a) == pytest.approx(
                1.5, abs=1e-3
            )
            np.testing.assert_allclose(0.5 * (a + b), pose[:3, 3], atol=1e-6)
        else:
            half = 0.0 if kind == "sphere" else size[1] / 2
            assert r == size[0] and np.linalg.norm(b - a) == pytest.approx(2 * half)
            corners = np.array([[0.0, 0.0, half], [0.0, 0.0, -half], [size[0], 0.0, half * 0.9]])
        for corner in corners:
            assert outside((pose @ np.append(corner, 1.0))[:3], (a, b, r)) <= 1e-9


def test_a_bent_mesh_is_covered_by_more_than_one_capsule():
    rng = np.random.default_rng(1)
    arm = rng.uniform(-0.05, 0.05, (60, 3, 3)) + np.linspace(0, 1, 60)[:, None, None] * [1.0, 0.0, 0.0]
    leg = rng.uniform(-0.05, 0.05, (60, 3, 3)) + np.linspace(0, 1, 60)[:, None, None] * [0.0, 1.0, 0.0]
    triangles = np.concatenate((arm, leg))
    found = shapes.cover(triangles)
    assert 2 <= len(found) <= 4
    assert sum(map(shapes.capsule_volume, found)) < 0.75 * shapes.capsule_volume(
        shapes.bounding_capsule(triangles.reshape(-1, 3))
    )
    for corner in triangles.reshape(-1, 3):
        assert min(outside(corner, capsule) for capsule in found) <= 1e-9
    assert len(shapes.cover(triangles, 1)) == len(shapes.cover(triangles[:7])) == len(shapes.cover(arm)) == 1
    crowd, few = rng.uniform(-0.05, 0.05, (40, 3, 3)), rng.uniform(-0.02, 0.02, (5, 3, 3)) + np.array([3.0, 0.0, 0.0])
    for count, alone in ((4, True), (3, False)):  # fewer are too few for a capsule of their own
        for side in (1.0, -1.0):
            mesh = np.concatenate((crowd[: 4 * count], few[:count])) * [side, 1.0, 1.0]
            assert any(min(side * a[0], side * b[0]) > 1.0 for a, b, _ in shapes.cover(mesh)) == alone
    assert "a, b" in shapes.missing_note(["a", "b"])[0] and shapes.missing_note([]) == ()


# --- ranges


def chain(*limits, sigma=0, passive=()):
    joints = tuple(Joint(f"j{k + 1}", k, d=0.3, limits=x, sigma=sigma) for k, x in enumerate(limits))
    return Robot("r", joints, passive=passive)


@pytest.mark.parametrize(
    ("blocked", "start", "found"),
    [
        ((), None, (-2.0, 3.0)),
        ((1.0,), None, (-2.0, 1.0)),
        ((-1.0,), None, (-1.0, 3.0)),
        ((-1.0, 1.6), None, (-1.0, 1.6)),
        ((-1.0, 2.5), 2.7, (2.5, 3.0)),
        ((-1.0, 2.5), -1.5, (-2.0, -1.0)),
        ((1.0,), 1.0, None),
    ],
)
def test_the_longest_free_range_or_the_one_around_the_start(blocked, start, found):
    robot = chain(Limits(-2.0, 3.0))
    values, places = exact.grid_positions(robot, 1)
    step = 2 * np.pi / 72
    table = np.zeros(72, dtype=bool)
    for angle in blocked:
        table[places[np.abs(values - angle) < 0.6 * step]] = True
    told = exact.find_free_range(robot, 1, table, start)
    if found is None:
        assert told is None
        return
    for mine, wanted in zip(told, found, strict=True):
        assert mine == wanted if wanted in (-2.0, 3.0) else abs(mine - wanted) < 2 * step
    inside = (values >= told[0] - 1e-9) & (values <= told[1] + 1e-9)
    assert not table[places[inside]].any()
    assert exact.find_free_range(robot, 1, np.ones(72, dtype=bool), None) is None


def test_ranges_are_narrowed_where_one_or_two_joints_are_between(monkeypatch):
    robot = chain(Limits(-2.0, 3.0), Limits(-1.0, 2.0), Limits(-1.5, 1.0), Limits(-1.0, 1.0))
    solids = [Solid(f"l{k}", k, np.eye(4), "sphere", (0.1,)) for k in range(5)]
    monkeypatch.setattr(exact, "import_coal", lambda: None)
    asked = []

    def touching(coal, robot, solids, between):
        asked.append(tuple(between))
        table = np.zeros((72, 72 if len(between) > 1 else 1), dtype=bool)
        values, places = exact.grid_positions(robot, between[-1])
        where = places[values > 0.5]
        if len(between) > 1:
            table[:, where] = True
        else:
            table[where] = True
        return table

    monkeypatch.setattr(exact, "find_touching", touching)
    same, notes = exact.narrowed(robot, solids, [("l4", "l1"), ("l0", "l3"), ("l2", "l2")])
    assert same is robot and asked == [] and all("too close to be checked" in note for note in notes)
    one, (note,) = exact.narrowed(robot, solids, [("l1", "l0")])
    assert asked[-1] == (1,) and one.joints[0].limits.lower == -2.0 and 0.35 < one.joints[0].limits.upper <= 0.5
    assert note.startswith("joint j1 is limited to -2 .. ") and one.joints[1:] == robot.joints[1:]
    two, (note,) = exact.narrowed(robot, solids, [("l3", "l1")])
    assert asked[-1] == (2, 3) and note.startswith("joint j3 is limited to -1.5 .. ")
    assert two.joints[2].limits.upper <= 0.5 and two.joints[1] == robot.joints[1]
    around, (note,) = exact.narrowed(robot, solids, [("l1", "l0")], start=[1.0, 0.0, 0.0, 0.0])
    assert around is robot and "in a rehearsal" in note, "the start itself is where they touch"
    monkeypatch.setattr(exact, "find_touching", lambda *_: np.zeros((72, 1), dtype=bool))
    assert exact.narrowed(robot, solids, [("l1", "l0")]) == (robot, ())


def test_true_distances_of_simple_shapes():
    pytest.importorskip("coal")
    robot = Robot("r", (Joint("a", 0), Joint("b", 1, d=1.0), Joint("c", 2, d=1.0)))
    ball = Solid("ball", 3, np.eye(4), "sphere", (0.2,))
    far = np.eye(4)
    far[:3, 3] = [0.0, 2.0, 0.0]
    foot = Solid("foot", 0, far, "box", (0.4, 0.6, 0.8))
    near = Solid("neighbour", 2, np.eye(4), "sphere", (0.2,))
    q = np.array([[0.0, 0.0, 0.0], [np.pi / 2, 0.0, 0.0]])
    distance, what = exact.exact_clearance(robot, [ball, foot, near], q[:1])
    assert distance == pytest.approx(np.hypot(2.0 - 0.2, 2.0 - 0.3) - 0.2, abs=1e-6) or "neighbour" in what
    alone, _ = exact.exact_clearance(robot, [ball, foot, near], q, only=[("foot", "ball")])
    assert alone < 0.0, "at the second pose it is in the box"
    first, told = exact.exact_clearance(robot, [ball, foot], q[:1])
    assert first == pytest.approx(np.hypot(1.8, 1.7) - 0.2, abs=1e-6) and set(told.split(" and ")) == {"ball", "foot"}
    assert exact.exact_clearance(robot, [ball, near], q)[0] == np.inf, "neighbours are not looked at"


# --- points joined


LIMITS = [
    Limits(-2.0, 2.5, 3.0, effort=900.0),
    Limits(-1.5, 1.0, 2.0, effort=900.0),
    Limits(-2.5, 2.0, 4.0, effort=900.0),
]
ARM = load_robot("demo3")
ARM = replace(
    ARM,
    joints=tuple(
        replace(j, limits=replace(x, acceleration=a))
        for j, x, a in zip(ARM.joints, LIMITS, (9.0, 6.0, 12.0), strict=True)
    ),
)
BOUNDS = bounds_of(ARM, 0.0)


def joined(r=6):
    base = base_parameters(ARM, source="energy", groups=["inertial"])
    free = np.ones(3, dtype=bool)
    s = Substitution(BOUNDS.lower, BOUNDS.upper, BOUNDS.velocity, free, np.zeros((r + 1, 3)))
    model = EnergyModel(ARM, tuple(base.columns(ARM)))
    return SegmentProblem(model, s, Penalty(ARM, BOUNDS, tight=0.9), np.array([0.1, 0.2, 0.3]), np.zeros(3))


def test_states_and_cost_of_points_and_times():
    problem = joined(30)
    x = draw_variables(problem, np.random.default_rng(0))
    Q, D, u = problem.states(x)
    assert len(Q) == 33 and Q[0].tolist() == [0.1, 0.2, 0.3] and not Q[-1].any() and not D[[0, -1]].any()
    typical = 0.7 * np.max((BOUNDS.upper - BOUNDS.lower) / BOUNDS.velocity)
    np.testing.assert_allclose(u, MIN_SEGMENT_S + typical)
    value, _ = problem.cost(x, 8.0, 0.4)
    bare = problem.model.log_cost(Q[1:-1], D[1:-1], 8.0)[0]
    curve = through_points(np.concatenate(([0.0], np.cumsum(u))), Q, D)
    s = np.linspace(0.0, 1.0, 14)[1:-1]
    t = (np.cumsum(u) - u)[:, None] + s * u[:, None]
    excess = problem.penalty(*curve.evaluate(t.ravel()))[0]
    assert value == pytest.approx(bare + 0.4 * excess + TIME_WEIGHT * u.sum(), rel=1e-9) and excess > 0.0


@pytest.mark.parametrize("seed", range(3))
def test_points_are_joined_within_all_limits_as_fast_as_they_allow(seed):
    problem = joined()
    x = draw_variables(problem, np.random.default_rng(seed))
    curve, q, dq, slowed = shortest_curve(problem, x)
    assert curve is not None and q.shape == (7, 3)
    (low, high), v, a = (np.array(part) for part in curve.extrema())
    assert np.all(low >= BOUNDS.lower - 1e-9) and np.all(high <= BOUNDS.upper + 1e-9)
    assert np.all(np.abs(v) <= BOUNDS.velocity * (1 + 1e-9)) and np.all(np.abs(a) <= BOUNDS.acceleration * (1 + 1e-9))
    state = curve.evaluate(curve.knots)
    np.testing.assert_allclose(state[0][1:-1], q, atol=1e-9)
    np.testing.assert_allclose(state[1][1:-1], dq, atol=1e-9)
    Q, D = state[0], state[1]
    fastest = shortest_times(Q[:-1], Q[1:], D[:-1], D[1:], BOUNDS.velocity, BOUNDS.acceleration)
    steps = np.diff(curve.knots)
    assert np.all(steps >= np.maximum(fastest, MIN_SEGMENT_S) * (1 - 1e-9))
    assert np.count_nonzero(np.isclose(steps, np.maximum(fastest, MIN_SEGMENT_S))) >= len(steps) // 2
    assert (
        slowed == bool(np.any(np.abs(dq - problem.substitution.points(x[: problem.substitution.size])[1]) > 1e-9))
        or slowed
    )
    again, q2, _, _ = interpolate_points(problem, q, 0.0 * dq)
    assert again is not None
    np.testing.assert_allclose(q2, q, atol=1e-6)


# --- descent


def test_a_descent_ends_in_time_and_keeps_the_best():
    clock = descent.TimeBudget(1e9)

    def cost(x):
        return float(np.sum((x - 3.0) ** 4)), 4.0 * (x - 3.0) ** 3

    np.testing.assert_allclose(descent.descend(cost, np.zeros(2), clock, 200), 3.0, atol=0.05)
    once = descent.descend(cost, np.zeros(2), clock, 1)
    assert 0.0 < np.abs(once).max() < 100.0 and cost(once)[0] < cost(np.zeros(2))[0]
    over = descent.TimeBudget(1.0, start=clock.start - 100.0)
    assert over.over() and not descent.TimeBudget(1000.0, start=clock.start - 100.0).over(0.5)
    start = np.array([7.0, 8.0])
    assert descent.descend(cost, start, over, 100) is start, "nothing was tried"

    def cliff(x):
        return (np.nan, np.full(2, np.nan)) if x[0] > 2.0 else cost(x)

    found = descent.descend(cliff, np.zeros(2), clock, 100)
    assert found[0] <= 2.0 and cliff(found)[0] < cost(np.zeros(2))[0]
    seen = []
    told = descent.TimeBudget(10.0, lambda text, share: seen.append((text, share)), clock.start - 5.0)
    told.report("half")
    descent.TimeBudget(1.0, lambda text, share: seen.append((text, share)), clock.start - 5.0).report("over")
    assert seen[0][0] == "half" and seen[0][1] == pytest.approx(0.5, abs=0.2) and seen[1] == ("over", 1.0)


def cluster(at, count, seed=0, size=0.05):
    """Return triangles around a place."""
    return np.random.default_rng(seed).uniform(-size, size, (count, 3, 3)) + np.array(at)


def test_pieces_are_left_for_the_part_that_needs_them():
    """A mesh of four lumps in a row, of which the first cut takes off one: the others get a capsule each."""
    lumps = [cluster([x, 0.0, 0.0], count, k) for k, (x, count) in enumerate(((0, 35), (6, 23), (9, 21), (12, 21)))]
    found = shapes.cover(np.concatenate(lumps))
    assert len(found) == 4 and all(np.linalg.norm(b - a) + 2 * r < 0.4 for a, b, r in found)
    for pieces in (1, 2, 3, 4):
        many = np.concatenate([cluster(10.0 * np.random.default_rng(k).normal(size=3), 20, k) for k in range(9)])
        covers = shapes.cover(many, pieces)
        assert len(covers) <= pieces
        for corner in many.reshape(-1, 3):
            assert min(outside(corner, capsule) for capsule in covers) <= 1e-9


@pytest.mark.parametrize("axis", range(3))
def test_a_capsule_is_no_thicker_where_a_mesh_is_finer_on_one_side(axis):
    """A rod of radius 0.2 and length 2 with a hundred corners on one side and few on the other."""
    angle = np.concatenate((np.linspace(-0.4, 0.4, 100), [np.pi / 2, np.pi, -np.pi / 2]))
    round_ = np.stack((0.2 * np.cos(angle), 0.2 * np.sin(angle)), axis=1)
    rod = np.concatenate([np.column_stack((np.full(len(angle), x), round_)) for x in (-1.0, 1.0)])
    a, b, r = shapes.bounding_capsule(np.roll(rod, axis, axis=1) + 3.0)
    assert r == pytest.approx(0.2, abs=0.003)
    np.testing.assert_allclose(np.sort([a[axis], b[axis]]), [2.0, 4.0], atol=0.05)
    np.testing.assert_allclose(np.delete([a, b], axis, axis=1), 3.0, atol=0.01)


def test_a_ball_is_covered_by_a_ball():
    corners = np.concatenate((np.eye(3), -np.eye(3)))
    a, b, r = shapes.bounding_capsule(0.3 * corners + [1.0, 2.0, 3.0])
    np.testing.assert_allclose((a, b), [[1.0, 2.0, 3.0]] * 2, atol=1e-9)
    assert r == pytest.approx(0.3, abs=1e-8)


def test_a_mesh_without_triangles_is_missing_and_each_link_is_named_once(tmp_path):
    (tmp_path / "empty.stl").write_bytes(binary(np.zeros((0, 3, 3))))
    element = ElementTree.fromstring('<collision><geometry><mesh filename="empty.stl"/></geometry></collision>')
    assert shapes.geometry_of(element, tmp_path / "r.urdf", "r") is None
    mesh = '<collision><geometry><mesh filename="gone.stl"/></geometry></collision>'
    links = "".join(f'<link name="l{k}">{mesh}{mesh}</link>' for k in range(8))
    limit = '<limit lower="-1" upper="1" velocity="1" effort="1"/><axis xyz="0 0 1"/>'
    joints = "".join(
        f'<joint name="j{k}" type="revolute"><parent link="l{k}"/><child link="l{k + 1}"/>{limit}</joint>'
        for k in range(7)
    )
    file = tmp_path / "r.urdf"
    file.write_text(f'<robot name="r">{links}{joints}</robot>')
    solids, missing = shapes.urdf_solids(load_robot(file), file)
    assert solids == [] and missing == tuple(f"l{k}" for k in range(8))
    assert "for l0, l1, l2, l3, l4, l5:" in shapes.missing_note(shapes.urdf_solids(load_robot(file), file)[1])[0]


def test_the_capsule_lies_along_the_axis_that_makes_it_smallest():
    """A thin rod through a ring of many corners, across which most of them lie: the capsule lies along the rod."""
    angle = np.linspace(0.0, 2 * np.pi, 200, endpoint=False)
    ring = np.stack((0 * angle, 0.3 * np.cos(angle), 0.28 * np.sin(angle)), axis=1)
    rod = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-0.05, 0.05) for z in (-0.05, 0.05)])
    points = np.concatenate((ring, rod))
    assert points[:, 1].std() > points[:, 0].std(), "most of them lie across"
    a, b, r = shapes.bounding_capsule(points)
    assert r == pytest.approx(0.3, abs=1e-3)
    np.testing.assert_allclose(np.abs([a, b])[:, 1:], 0.0, atol=1e-6)
    assert max(outside(p, (a, b, r)) for p in points) <= 1e-9 and np.linalg.norm(b - a) < 2.0


def test_a_mesh_is_cut_where_that_leaves_less_than_three_quarters_of_its_volume():
    one, two = cluster([0.0, 0.0, 0.0], 20, 1), cluster([0.0, 0.0, 0.0], 20, 2)
    seen = set()
    for distance in np.arange(0.06, 0.4, 0.02):
        far = two + np.array([distance, 0.0, 0.0])
        mesh = np.concatenate((one, far))
        parts, whole = [shapes.bounding_capsule(x.reshape(-1, 3)) for x in (one, far)], mesh.reshape(-1, 3)
        share = sum(map(shapes.capsule_volume, parts)) / shapes.capsule_volume(shapes.bounding_capsule(whole))
        if abs(share - 0.75) > 0.02 and share < 1.0:
            seen.add(share > 0.75)
            assert (len(shapes.cover(mesh)) == 1) == (share > 0.75), share
    assert seen == {True, False}
