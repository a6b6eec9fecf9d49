# SPDX-License-Identifier: Apache-2.0

"""Curves, sweeps and trajectory files: what is refused, what is held at the ends, and every number written."""

from __future__ import annotations

import json

import numpy as np
import pytest

from excitation_robots import uneven
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import friction_sweeps as sweeps
from ros2_dynid.excitation import trajectory as files
from ros2_dynid.excitation.criteria import condition_by, smooth_condition, smooth_equilibrium
from ros2_dynid.excitation.fourier import FourierSeries, rest_basis, series_extrema
from ros2_dynid.excitation.gripper import gripper_joints, gripper_notes
from ros2_dynid.excitation.limits import bounds_of, check_trajectory
from ros2_dynid.excitation.quintic import (
    PiecewiseQuintic,
    accelerations_of,
    critical_points,
    quadratic_roots,
    shortest_times,
    through_points,
)
from ros2_dynid.excitation.static import approach, time_between
from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory, rehearsal, save_trajectory, to_message
from ros2_dynid.model.robot import Joint, Limits, Robot

ROBOT = uneven()
BOUNDS = bounds_of(ROBOT, 0.0)
MIDDLE = np.array([0.5, -1.25, 0.7])
INDEX = [0, 1, 2]


# --- curves


@pytest.mark.parametrize(
    ("period", "c", "A", "B", "periods"),
    [
        (0.0, (2,), (2, 3), (2, 3), 1),
        (-1.0, (2,), (2, 3), (2, 3), 1),
        (np.inf, (2,), (2, 3), (2, 3), 1),
        (np.nan, (2,), (2, 3), (2, 3), 1),
        (1.0, (2,), (2, 3), (2, 3), 0),
        (1.0, (2, 1), (2, 3), (2, 3), 1),
        (1.0, (2,), (2,), (2,), 1),
        (1.0, (2,), (3, 3), (3, 3), 1),
        (1.0, (2,), (2, 3), (2, 4), 1),
        (1.0, (2,), (2, 0), (2, 0), 1),
    ],
)
def test_series_that_are_none(period, c, A, B, periods):
    FourierSeries(1.0, np.zeros(2), np.zeros((2, 1)), np.zeros((2, 1)), 1)
    with pytest.raises(InputError):
        FourierSeries(period, np.zeros(c), np.zeros(A), np.zeros(B), periods)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("which", range(3))
def test_coefficients_must_be_numbers(bad, which):
    parts = [np.zeros(2), np.zeros((2, 3)), np.zeros((2, 3))]
    parts[which].flat[1] = bad
    with pytest.raises(InputError, match="not finite"):
        FourierSeries(1.0, *parts)
    knots, a = np.array([0.0, 1.0, 2.0]), np.zeros((2, 6, 1))
    (knots if which == 0 else a).flat[which] = bad
    with pytest.raises(InputError, match="positive duration"):
        PiecewiseQuintic(knots, a)


@pytest.mark.parametrize(
    ("knots", "shape"),
    [
        ([0.0], (0, 6, 1)),
        ([0.0, 1.0], (2, 6, 1)),
        ([0.0, 1.0], (1, 5, 1)),
        ([0.0, 1.0], (1, 6)),
        ([[0.0], [1.0]], (1, 6, 1)),
        ([0.0, 1.0, 0.5], (2, 6, 1)),
        ([0.0, 0.0], (1, 6, 1)),
    ],
)
def test_pieces_that_are_none(knots, shape):
    with pytest.raises(InputError):
        PiecewiseQuintic(np.array(knots), np.zeros(shape))


def curves():
    rng = np.random.default_rng(6)
    c = (rest_basis(4) @ rng.normal(size=(7, 2))).T
    yield FourierSeries(5.0, c[:, 0], c[:, 1:5], c[:, 5:], 2)
    q, dq = rng.normal(size=(2, 4, 2))
    yield through_points(np.array([0.0, 1.0, 3.0, 3.5]), q, dq, rng.normal(size=(4, 2)))


@pytest.mark.parametrize("curve", list(curves()), ids=["series", "quintics"])
def test_curves_are_held_at_their_ends_and_their_derivatives_are_derivatives(curve):
    ends = curve.evaluate(np.array([0.0, curve.duration]))
    beyond = curve.evaluate(np.array([-1.0, curve.duration + 1.0]))
    np.testing.assert_allclose(beyond, ends)
    h, t = 1e-5, np.linspace(0.01, curve.duration - 0.01, 41)
    ahead, here, behind = (curve.evaluate(t + side) for side in (h, 0.0, -h))
    for k in (0, 1):
        np.testing.assert_allclose(here[k + 1], (ahead[k] - behind[k]) / (2 * h), atol=2e-4)
    assert curve.n == 2
    slow, scale = curve.slowed(0.4), 0.4 ** np.arange(3)
    assert slow.duration == pytest.approx(curve.duration / 0.4)
    for k, (mine, theirs) in enumerate(zip(slow.extrema(), curve.extrema(), strict=True)):
        np.testing.assert_allclose(mine, theirs * scale[k], rtol=1e-9, atol=1e-9)
    G, offset = np.array([[1.0, 2.0], [0.0, -3.0], [0.5, 0.0]]), np.array([0.1, 0.2, 0.3])
    for mine, theirs, shift in zip(curve.mapped(G, offset).evaluate(t), here, (offset, 0.0, 0.0), strict=True):
        np.testing.assert_allclose(mine, theirs @ G.T + shift, atol=1e-10)
    assert curve.mapped(G, offset).duration == curve.duration
    before = curve.evaluate(t)
    np.testing.assert_array_equal(before, here, "mapping leaves the curve as it was")


def test_quintics_that_begin_later_have_their_own_length():
    curve = through_points(np.array([2.0, 3.0, 5.0]), np.arange(6.0).reshape(3, 2), np.zeros((3, 2)))
    assert curve.duration == 3.0
    np.testing.assert_allclose(curve.evaluate(np.array([0.0, 2.0, 3.0, 5.0, 9.0]))[0][:, 0], [0, 0, 2, 4, 4])


def test_a_constant_series_has_its_value_and_one_harmonic_its_amplitude():
    np.testing.assert_array_equal(series_extrema(np.zeros((1, 3)), np.zeros((1, 3))), [[0.0], [0.0]])
    low, high = series_extrema(np.array([[3.0], [0.0]]), np.array([[4.0], [-2.0]]))
    np.testing.assert_allclose((low, high), ([-5.0, -2.0], [5.0, 2.0]), rtol=1e-14)
    sharp = series_extrema(np.array([[1.0, 0.0, 1e-3]]), np.array([[0.0, -1.0, 0.0]]))
    x = np.linspace(0, 2 * np.pi, 2_000_001)
    values = np.cos(x) - np.sin(2 * x) + 1e-3 * np.cos(3 * x)
    np.testing.assert_allclose(sharp[:, 0], (values.min(), values.max()), atol=1e-11)


@pytest.mark.parametrize("roots", [(0.2, 0.5, 0.9), (0.1, 0.1001, 0.7), (-1.0, 0.3, 2.0)])
def test_every_change_of_sign_is_found(roots):
    a = np.polynomial.polynomial.polyfromroots(roots)
    for scale in (1.0, -3.0):
        found = critical_points(scale * a[None, :, None])[0, :, 0]
        assert found[0] == 0.0 and found[-1] == 1.0 and np.all(np.diff(found) >= 0) and len(found) == 5
        for root in roots:
            assert not 0 < root < 1 or np.abs(found - root).min() < 1e-12
    np.testing.assert_array_equal(critical_points(np.ones((1, 1, 1)))[0, :, 0], [0.0, 1.0])


@pytest.mark.parametrize(
    ("a", "roots"),
    [
        ((0.06, -0.5, 1.0), (0.2, 0.3)),
        ((-0.06, 0.5, -1.0), (0.2, 0.3)),
        ((-0.5, 1.0, 0.0), (0.5, 0.5)),
        ((0.0, -0.4, 1.0), (0.0, 0.4)),
        ((-0.25, 0.0, 1.0), (0.0, 0.5)),
        ((-6.0, 1.0, 1.0), (0.0, 1.0)),
    ],
)
def test_roots_of_parabolas_within_their_interval(a, roots):
    found = quadratic_roots(np.array(a)[None, :, None])[0, :, 0]
    assert found.min() >= 0.0 and found.max() <= 1.0
    for root in roots:
        assert np.abs(found - root).min() < 1e-12 or root in (0.0, 1.0)


def test_shortest_times_at_both_kinds_of_limit_and_both_ends():
    one = np.ones((1, 1))
    at_rest = shortest_times(0 * one, one, 0 * one, 0 * one, np.array([1e9]), np.array([2.0]))
    np.testing.assert_allclose(at_rest, np.sqrt(10.0 / np.sqrt(3.0) / 2.0))
    np.testing.assert_allclose(
        shortest_times(one, 0 * one, 0 * one, 0 * one, np.array([1e9]), np.array([2.0])), at_rest
    )
    for va, vb in ((2.1, 0.0), (0.0, 2.1), (-2.1, 0.0), (0.0, -2.1)):
        assert shortest_times(0 * one, one, va * one, vb * one, np.array([2.0]), np.array([9.0]))[0] == np.inf
    for w in (0.0, -1.0):
        assert shortest_times(0 * one, one, 0 * one, 0 * one, np.array([2.0]), np.array([w]))[0] == np.inf
    still = shortest_times(one, one, 0 * one, 0 * one, np.array([2.0]), np.array([9.0]))[0]
    assert 1e-3 / 1.5 <= still <= 1e-3
    steady = shortest_times(0 * one, one, 2 * one, 2 * one, np.array([2.0]), np.array([9.0]))
    np.testing.assert_allclose(steady, 0.5)


def test_accelerations_between_points_of_a_cubic():
    t = np.array([0.0, 0.2, 0.5, 0.7])
    q, dq = t[:, None] ** 3, 3 * t[:, None] ** 2
    np.testing.assert_allclose(accelerations_of(t, q, dq)[1:-1], 6 * t[1:-1, None], atol=1e-12)
    both = np.column_stack((dq, 0 * dq))
    assert accelerations_of(t, np.column_stack((q, 0 * q)), both)[1, 0] != 0.0, "one joint still moves"


def test_criteria_of_matrices_without_rank():
    assert condition_by(np.zeros((3, 2)), "qr") == np.inf == condition_by(np.zeros((3, 2)), "frobenius")
    W = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0], [1.0, 2.0], [0.5, 1.0]])
    value, slope = smooth_condition(W, 8.0)
    assert value > 20.0 and np.all(np.isfinite(slope))
    value, slope = smooth_equilibrium(np.array([[1.0, 0.0], [-2.0, 4.0]]), 8.0)
    assert value > np.log(4e12) - 1.0 and np.all(np.isfinite(slope))


# --- sweeps


@pytest.mark.parametrize(
    "wish", [{"speeds": ()}, {"speeds": (0.0,)}, {"speeds": (0.5, 1.01)}, {"loads": 0}, {"reach": 0.0}, {"reach": -1.0}]
)
def test_sweeps_that_are_none(wish):
    with pytest.raises(InputError, match="speeds or loads of friction sweeps"):
        sweeps.friction_sweeps(ROBOT, **wish)


@pytest.mark.parametrize("push", [0.5, 0.08])
def test_sweeps_one_after_the_other(push):
    a, b = MIDDLE + np.array([0.2, 0.1, 0.1]), MIDDLE - np.array([0.3, 0.2, 0.1])
    chosen = [(0, a, 0.1, 1.3), (1, b, -1.9, -0.9)]
    fractions = (0.02, 0.5)
    found = sweeps.join_sweeps(ROBOT, BOUNDS, None, MIDDLE, chosen, np.array(fractions), push)
    knots = found.curve.knots
    at = found.at(knots)
    q, dq, seconds = at.q, at.dq, np.diff(knots)
    np.testing.assert_allclose(q[[0, -1]], [MIDDLE, MIDDLE])
    assert not dq[[0, -1]].any() and found.kind == "friction" and found.joint_names == ROBOT.active_names
    seen = 0
    for k, pose, low, high in chosen:
        others = [j for j in INDEX if j != k]
        for fraction in fractions:
            top = push * BOUNDS.acceleration[k]
            v = min(fraction * BOUNDS.velocity[k], np.sqrt((high - low) * top / 3.0))
            u = 1.5 * v / top
            half = 0.5 * min(high - low, v * (4.0 + u))
            for side in (1.0, -1.0):
                rows = [
                    i for i in range(len(knots) - 1)
                    if dq[i, k] * side > 0 and np.allclose(dq[i], dq[i + 1]) and abs(abs(dq[i, k]) - v) < 1e-9
                ]  # fmt: skip
                (i,) = rows
                seen += 1
                middle = 0.5 * (low + high)
                np.testing.assert_allclose(q[i : i + 2][:, others], [pose[others]] * 2)
                assert q[i, k] == pytest.approx(middle - side * (half - v * u / 2))
                assert q[i + 1, k] == pytest.approx(middle + side * (half - v * u / 2))
                assert seconds[i] == pytest.approx((2 * half - v * u) / v) and seconds[i] <= 4.0 + 1e-9
                assert seconds[i - 1] == pytest.approx(u) == seconds[i + 1]
                assert q[i - 1, k] == pytest.approx(middle - side * half)
                assert q[i + 2, k] == pytest.approx(middle + side * half)
    assert seen == 8
    moves = [i for i in range(len(knots) - 1) if not dq[i].any() and not dq[i + 1].any()]
    for i in moves:
        assert seconds[i] == pytest.approx(time_between(BOUNDS, INDEX, q[i], q[i + 1], 0.3))


def test_sweeps_of_joints_with_limits_of_their_own():
    found = sweeps.friction_sweeps(ROBOT, speeds=(0.1, 0.4), loads=2, reach=0.3, margin=0.1, seed=2, candidates=20)
    assert check_trajectory(ROBOT, found, margin=0.1) == []
    s = found.sample(100.0)
    for k in range(3):
        alone = np.abs(np.delete(s.dq, k, axis=1)).max(axis=1) < 1e-9
        steady = alone & (np.abs(s.ddq[:, k]) < 1e-9) & (np.abs(s.dq[:, k]) > 1e-6)
        assert steady.any() and np.abs(s.dq[steady, k]).max() <= 0.9 * 0.4 * ROBOT.joints[k].limits.velocity + 1e-9
    again = sweeps.friction_sweeps(ROBOT, speeds=(0.1, 0.4), loads=2, reach=0.3, margin=0.1, seed=2, candidates=20)
    np.testing.assert_array_equal(again.curve.a, found.curve.a)


@pytest.mark.parametrize(
    "pair", [([0.5, -1.0], [0.5, -1.0]), ([0.5, np.nan, 0.7], MIDDLE), (MIDDLE, [0.5, np.inf, 0.7])]
)
def test_approaches_that_are_none(pair):
    with pytest.raises(InputError, match="positions each"):
        approach(ROBOT, *pair)


# --- files


def moved() -> Trajectory:
    q = np.array([MIDDLE, MIDDLE + np.array([0.5, 0.3, -0.2]), MIDDLE - 0.2])
    dq = np.array([[0.0, 0.0, 0.0], [0.3, -0.2, 0.1], [0.0, 0.0, 0.0]])
    return Trajectory(("a", "b", "c"), through_points(np.array([0.0, 1.7, 3.3]), q, dq), "points", 40.0)


def test_every_number_of_a_message():
    move = moved()
    for rate in (None, 13.0):
        message = to_message(move, rate)
        s = move.sample(rate or 40.0)
        assert message["joint_names"] == ["a", "b", "c"] and len(message["points"]) == len(s.t)
        for k, point in enumerate(message["points"]):
            for field, values in (("positions", s.q), ("velocities", s.dq), ("accelerations", s.ddq)):
                np.testing.assert_allclose(point[field], values[k], atol=6e-13)
            assert all(value == round(value, 12) for value in point["positions"])
            time = point["time_from_start"]
            assert 0 <= time["nanosec"] < 10**9 and time["sec"] * 10**9 + time["nanosec"] == round(s.t[k] * 1e9)


def test_every_number_of_a_table(tmp_path):
    move = moved()
    for rate in (None, 13.0):
        save_trajectory(tmp_path / "t.CSV", move, rate)
        head, *lines = (tmp_path / "t.CSV").read_text().splitlines()
        s = move.sample(rate or 40.0)
        names = head.split(",")
        found = dict(zip(names, np.array([[float(x) for x in line.split(",")] for line in lines]).T, strict=True))
        np.testing.assert_array_equal(found["time"], s.t)
        for k, joint in enumerate("abc"):
            for word, values in (("position", s.q), ("velocity", s.dq), ("acceleration", s.ddq)):
                np.testing.assert_array_equal(found[f"{joint}.{word}"], values[:, k])


@pytest.mark.parametrize("rate", [None, 13.0])
def test_the_rate_is_kept_in_the_file(tmp_path, rate):
    save_trajectory(tmp_path / "t.yaml", moved(), rate)
    again = load_trajectory(tmp_path / "t.yaml")
    assert again.rate_hz == (rate or 40.0) and again.kind == "points" and again.joint_names == ("a", "b", "c")
    np.testing.assert_array_equal(again.curve.a, moved().curve.a)
    np.testing.assert_allclose(again.start, MIDDLE)


def test_a_line_of_the_curve_that_is_damaged_or_moved_in_yaml(tmp_path):
    file = tmp_path / "t.yaml"
    save_trajectory(file, moved())
    lines = file.read_text().splitlines()
    for head in ("{", "{}", json.dumps({"curve": "fourier"}), json.dumps({"curve": "quintic", "knots": [0], "a": []})):
        file.write_text("\n".join([files.MARK + head, *lines[1:]]))
        with pytest.raises(InputError, match="describes the curve is damaged"):
            load_trajectory(file)
    for first, rest in ((lines[:1], ["# by hand", *lines[1:]]), ([], lines[1:])):  # as YAML, not line by line
        file.write_text("\n".join([*first, *rest]) + "\n")
        again = load_trajectory(file)
        assert again.kind == ("points" if first else "file") and again.duration == pytest.approx(3.3)
        np.testing.assert_allclose(again.at(np.array([0.9])).q, moved().at(np.array([0.9])).q, atol=1e-5)
    file.write_text("\n".join([*lines[:3], *lines[3:6], "- {not json"]))
    with pytest.raises(InputError, match="not YAML"):
        load_trajectory(file)


def test_files_that_are_too_large(tmp_path, monkeypatch):
    save_trajectory(tmp_path / "t.yaml", moved())
    size = (tmp_path / "t.yaml").stat().st_size
    monkeypatch.setattr(files, "MAX_FILE_BYTES", size)
    load_trajectory(tmp_path / "t.yaml")
    monkeypatch.setattr(files, "MAX_FILE_BYTES", size - 1)
    with pytest.raises(InputError, match="sample it at a lower rate"):
        load_trajectory(tmp_path / "t.yaml")


def point(t=0.0, **more):
    return {
        "positions": [1.0, 2.0], "velocities": [0.0, 0.0], "accelerations": [0.0, 0.0],
        "time_from_start": {"sec": int(t), "nanosec": round((t % 1) * 1e9)},
    } | more  # fmt: skip


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ([], "no trajectory points"),
        ({"joint_names": ["a", "b"], "points": 3}, "no trajectory points"),
        ({"points": [point(), point(1)]}, "no joint names"),
        ({"joint_names": [], "points": [point(), point(1)]}, "no joint names"),
        ({"joint_names": ["a", 3], "points": [point(), point(1)]}, "no joint names"),
        ({"joint_names": ["a", "b"], "points": [point()]}, "1 points are not a trajectory"),
        ({"joint_names": ["a", "b"], "points": [point(), 3]}, "lacks a field"),
        ({"joint_names": ["a", "b"], "points": [point(), point(1, positions=["x", "y"])]}, "lacks a field"),
        ({"joint_names": ["a", "b"], "points": [point(), point(1, velocities=[1.0])]}, "lacks a field"),
        ({"joint_names": ["a", "b", "c"], "points": [point(), point(1)]}, "a number too few"),
        ({"joint_names": ["a", "b"], "points": [point(), point(1, velocities=[np.nan, 0.0])]}, "not finite"),
        ({"joint_names": ["a", "b"], "points": [point(), point(1, accelerations=[np.inf, 0.0])]}, "not finite"),
        ({"joint_names": ["a", "b"], "points": [point(0.1), point(1)]}, "do not start at 0"),
        ({"joint_names": ["a", "b"], "points": [point(), point(1), point(1)]}, "do not start at 0 and increase"),
        ({"joint_names": ["a", "a"], "points": [point(), point(1)]}, "name every joint once"),
    ],
)
def test_messages_that_are_no_trajectory(tmp_path, message, words):
    (tmp_path / "t.json").write_text(json.dumps(message))
    with pytest.raises(InputError, match=words):
        load_trajectory(tmp_path / "t.json")


def test_accelerations_of_a_file_count_where_every_point_has_them(tmp_path):
    rows = [point(), point(0.5, positions=[2.0, 1.0], accelerations=[7.0, -8.0]), point(2)]
    (tmp_path / "t.json").write_text(json.dumps({"joint_names": ["a", "b"], "points": rows}))
    found = load_trajectory(tmp_path / "t.json")
    np.testing.assert_allclose(found.at(np.array([0.5])).ddq, [[7.0, -8.0]], atol=1e-9)
    assert found.rate_hz == pytest.approx(1.0) and found.kind == "file" and found.duration == 2.0
    rows[0]["accelerations"] = []
    (tmp_path / "t.json").write_text(json.dumps({"joint_names": ["a", "b"], "points": rows}))
    np.testing.assert_allclose(load_trajectory(tmp_path / "t.json").at(np.array([0.5])).ddq, [[0.0, 0.0]], atol=1e-9)


def test_rehearsals_at_most_at_full_speed():
    assert rehearsal(moved()).duration == pytest.approx(5 * 3.3) and rehearsal(moved(), 1.0).duration == 3.3
    for speed in (0.0, -0.2, 1.01, np.nan):
        with pytest.raises(InputError, match="of a rehearsal"):
            rehearsal(moved(), speed)


# --- grippers


def tree(*parents, lower=-1.0, upper=1.0):
    joints = tuple(
        Joint(f"j{k}", parent, limits=Limits(lower, upper, 1.0)) for k, parent in enumerate(parents, start=1)
    )
    return Robot("tree", joints)


@pytest.mark.parametrize(
    ("parents", "found"),
    [
        ((0, 1, 2, 3), ()),
        ((0, 1, 2, 2), ("j3", "j4")),
        ((0, 0), ()),  # two arms of a base
        ((0, 1, 1, 3, 4, 5), ("j2", "j3", "j4", "j5", "j6")),  # a finger of four joints
        ((0, 1, 1, 3, 4, 5, 6), ()),  # an arm of five
        ((0, 1, 1, 2, 3), ("j2", "j3", "j4", "j5")),
    ],
)
def test_short_branches_of_a_moving_link_are_a_gripper(parents, found):
    assert gripper_joints(tree(*parents)) == found


@pytest.mark.parametrize(("lower", "upper", "held"), [(-1.0, 1.0, 0.0), (0.25, 1.0, 0.25), (-1.0, -0.5, -0.5)])
def test_a_gripper_is_held_where_it_can_be(lower, upper, held):
    (note,) = gripper_notes(tree(0, 1, 1, lower=lower, upper=upper))
    text = note.render(lambda option: f"{option.value}")
    assert f"{{'j2': {held}, 'j3': {held}}}" in text and "2 joints of a gripper move" in text
