# SPDX-License-Identifier: Apache-2.0

"""Parts of plans, each by its definition: rest poses, times, spans, checks; every joint has its own limits."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from excitation_robots import uneven
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import friction_sweeps as sweeps
from ros2_dynid.excitation import plan as planning
from ros2_dynid.excitation import pose as poses
from ros2_dynid.excitation import static
from ros2_dynid.excitation.collision import make_shapes
from ros2_dynid.excitation.fourier import FourierSeries, rest_basis
from ros2_dynid.excitation.fourier_trajectory import STEP, FourierProblem, TorqueModel, linear_factor, shrink
from ros2_dynid.excitation.limits import Caps, bounds_of, peak_effort
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.plan import PlanOptions
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory, save_trajectory
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot

ROBOT = uneven()
NAMES, INDEX = ROBOT.active_names, [0, 1, 2]
BOUNDS = bounds_of(ROBOT, 0.0)
MIDDLE = np.array([0.5, -1.25, 0.7])
CHI = standard_vector(ROBOT)


GANTRY = Robot(
    "gantry",
    tuple(
        replace(joint, **axis, sigma=PRISMATIC, limits=one.limits)
        for joint, axis, one in zip(
            (Joint("up", 0), Joint("side", 1), Joint("ahead", 2)),
            ({}, {"alpha": np.pi / 2}, {"alpha": np.pi / 2, "gamma": np.pi / 2}),
            ROBOT.joints,
            strict=True,
        )
    ),
)
"""Three slides at right angles, with the limits of ROBOT: the hand's distance from a plane is a coordinate."""
AXES = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
"""Directions of its slides in the base frame."""
HAND = ("hand", 3, np.zeros(3), np.zeros(3), 0.01)


def wall(joint, at, side=1.0):
    """Return shapes of GANTRY, with a margin of 0.05 m: the hand is side (q_joint - at) [m] away from a plane."""
    return make_shapes(GANTRY, [HAND], planes=[(side * AXES[joint], side * at - HAND[4])], margin=0.05)


def post(q):
    """Return shapes of GANTRY with a ball where the hand is at q."""
    place = AXES.T @ np.asarray(q)
    return make_shapes(GANTRY, [HAND, ("post", 0, place, place, 0.01)], margin=0.05)


# --- where the robot can rest


def test_without_a_start_it_rests_in_the_middle_or_at_zero():
    np.testing.assert_allclose(poses.rest_pose(ROBOT, BOUNDS), MIDDLE)
    zero = poses.rest_pose(ROBOT, BOUNDS, zero_first=True)
    np.testing.assert_allclose(zero, [0.0, -1.25, 0.7]), "zero where that is within the limits"


def test_a_pose_that_is_not_safe_is_left_for_one_that_is():
    np.testing.assert_allclose(poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, 0.45, -1.0)), [0.0, -1.25, 0.7])
    found = poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, 1.0), seed=3)
    lower, upper = 0.7 * BOUNDS.lower + 0.3 * MIDDLE, 0.7 * BOUNDS.upper + 0.3 * MIDDLE
    assert found[0] >= 1.15 and np.all((found >= lower) & (found <= upper))
    np.testing.assert_array_equal(found, poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, 1.0), seed=3))
    for seed in range(3):  # nowhere as far as is enough: the farthest
        assert poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, 1.45), seed=seed)[0] > 1.52
    narrow = replace(BOUNDS, lower=np.array([0.5, -2.0, 0.2]), upper=np.array([0.51, -0.5, 1.2]))
    rests = poses.rest_pose(GANTRY, narrow, shapes=wall(0, 0.44))  # beyond the margin, but never by half of it
    assert 0.505 < rests[0] <= 0.51
    with pytest.raises(InputError, match=r"in the middle of its limits hand and plane 1 are 0\.035 m apart"):
        poses.rest_pose(GANTRY, narrow, shapes=wall(0, 0.47))


@pytest.mark.parametrize(("distance", "first"), [(0.16, True), (0.14, False)])
def test_the_first_pose_with_enough_room_is_taken(distance, first):
    found = poses.rest_pose(GANTRY, BOUNDS, shapes=wall(0, MIDDLE[0] - distance))
    assert np.allclose(found, MIDDLE) == first


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ([0.0, -1.0], "has 2 values"),
        ([0.0, np.nan, 0.5], "3 values"),
        ([2.1, -1.0, 0.5], f"joint '{NAMES[0]}' at 2.1, outside -1 to 2"),
        ([0.0, -2.1, 0.5], f"joint '{NAMES[1]}'"),
        ([0.0, -1.0, 0.1], f"joint '{NAMES[2]}' at 0.1, outside 0.2 to 1.2"),
    ],
)
def test_starts_that_cannot_be(start, words):
    with pytest.raises(InputError, match=words):
        poses.rest_pose(ROBOT, BOUNDS, start=start)


def test_a_start_is_taken_as_it_is_if_the_robot_can_stand_there():
    start = [2.0, -2.0, 1.2]
    for shapes in (None, wall(0, 1.9499)):
        np.testing.assert_array_equal(poses.rest_pose(GANTRY, BOUNDS, start=start, shapes=shapes), start)
    with pytest.raises(InputError, match="at the start pose hand and plane 1"):
        poses.rest_pose(GANTRY, BOUNDS, start=start, shapes=wall(0, 1.951))


def test_motors_must_hold_the_robot():
    pose = np.array([0.3, -0.9, 0.6])
    tau = np.abs(gravity_torque(ROBOT, CHI, pose[None])[0])
    k = int(np.argmax(tau))
    for share, spare, stands in ((0.99, 1.0, False), (1.01, 1.0, True), (1.4, 1.5, False), (1.6, 1.5, True)):
        effort = np.full(3, np.inf)
        effort[k] = share * tau[k]
        told = poses.fault_of(ROBOT, replace(BOUNDS, effort=effort), None, CHI, pose, spare)
        assert (told == "") == stands and (stands or f"joint '{NAMES[k]}' needs" in told)
    assert poses.fault_of(ROBOT, replace(BOUNDS, effort=np.zeros(3)), None, None, pose) == ""


@pytest.mark.parametrize(
    ("distance", "spare", "fine"), [(0.051, 1.0, True), (0.049, 1.0, False), (0.074, 1.5, False), (0.076, 1.5, True)]
)
def test_room_to_spare_is_asked_for_beyond_the_margin(distance, spare, fine):
    told = poses.fault_of(GANTRY, BOUNDS, wall(0, MIDDLE[0] - distance), None, MIDDLE, spare)
    words = f"hand and plane 1 are {distance:.4g} m apart, the margin is 0.05 m"
    assert (told == "") == fine and (fine or told == words)


# --- times and ways


@pytest.mark.parametrize("speed", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("way", [(1.0, 0.0, 0.0), (0.0, -1.2, 0.0), (0.3, 0.2, 0.9), (0.01, 0.0, 0.0)])
def test_the_time_of_a_move_is_the_shortest_within_the_share_of_the_limits(speed, way):
    a, b = MIDDLE, MIDDLE + np.array(way)
    u = static.time_between(BOUNDS, INDEX, a, b, speed)
    curve = through_points(np.array([0.0, u]), np.array([a, b]), np.zeros((2, 3)))
    _, dq, ddq = curve.evaluate(np.linspace(0.0, u, 4001))
    used = max(np.max(np.abs(dq) / BOUNDS.velocity) / speed, np.max(np.abs(ddq) / BOUNDS.acceleration) / speed, 0.2 / u)
    assert used == pytest.approx(1.0, rel=1e-4) and used <= 1.0
    for wrong in (0.0, -0.1, 1.01):
        with pytest.raises(InputError, match="speed"):
            static.time_between(BOUNDS, INDEX, a, b, wrong)


@pytest.mark.parametrize("joint", [0, 1, 2])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_an_approach_begins_and_ends_inside(joint, side):
    good, bad = MIDDLE.copy(), MIDDLE.copy()
    good[joint] = BOUNDS.upper[joint] if side > 0 else BOUNDS.lower[joint]
    bad[joint] = good[joint] + 1e-6 * side
    static.approach(ROBOT, MIDDLE, good)
    static.approach(ROBOT, good, MIDDLE)
    for pair in ((MIDDLE, bad), (bad, MIDDLE)):
        with pytest.raises(InputError, match=f"joint '{NAMES[joint]}' begins or ends outside"):
            static.approach(ROBOT, *pair)
    with pytest.raises(InputError, match="begins or ends outside"):
        static.approach(ROBOT, MIDDLE, good, margin=0.01)


def test_a_way_is_clear_if_all_of_it_is():
    a, b = MIDDLE, MIDDLE + np.array([1.0, 0.0, 0.0])
    assert static.way_is_clear(GANTRY, None, a, b)
    assert static.way_is_clear(GANTRY, wall(2, MIDDLE[2] - 0.0501), a, b)
    assert static.way_is_clear(GANTRY, post(a - np.array([0.08, 0.0, 0.0])), a, b)
    for near in (a[0], a[0] + 0.5, b[0]):
        assert not static.way_is_clear(GANTRY, post([near, *a[1:]]), a, b)
    long = MIDDLE + np.array([9.0, 0.0, 0.0])
    between = a[0] + 26.5 * 9.0 / 59.0  # of sixty places along the way none is near
    assert not static.way_is_clear(GANTRY, post([between, *a[1:]]), a, long), "a long way is looked at in more places"


@pytest.mark.parametrize(
    ("joint", "reach", "span"),
    [(0, 0.4, (0.1, 0.9)), (0, 9.0, (-1.0, 2.0)), (1, 9.0, (-2.0, -0.5)), (2, 0.4, (0.3, 1.1)), (2, 0.6, (0.2, 1.2))],
)
def test_how_far_a_joint_may_sweep(joint, reach, span):
    assert static.sweep_span(GANTRY, BOUNDS, None, MIDDLE, joint, reach) == pytest.approx(span)
    end = MIDDLE[joint] + 0.5 * (span[1] - MIDDLE[joint])
    low, high = static.sweep_span(GANTRY, BOUNDS, wall(joint, end + 0.05, -1.0), MIDDLE, joint, reach)
    way = end - MIDDLE[joint]
    assert low == pytest.approx(span[0]) and 0.8 * way <= high - MIDDLE[joint] <= way + 1e-9
    with pytest.raises(InputError, match=f"joint '{GANTRY.active_names[joint]}' cannot do a ramp"):
        static.sweep_span(GANTRY, BOUNDS, wall(joint, MIDDLE[joint]), MIDDLE, joint, reach)


@pytest.mark.parametrize("joint", [0, 1, 2])
def test_a_joint_needs_a_hundredth_to_sweep(joint):
    low, high = static.sweep_span(ROBOT, BOUNDS, None, MIDDLE, joint, 0.00501)
    assert (low, high) == pytest.approx((MIDDLE[joint] - 0.00501, MIDDLE[joint] + 0.00501), abs=1e-12)
    with pytest.raises(InputError, match=f"joint '{NAMES[joint]}' cannot do a ramp"):
        static.sweep_span(ROBOT, BOUNDS, None, MIDDLE, joint, 0.00499)


def test_ramps_of_joints_with_limits_of_their_own():
    found = static.ramps(ROBOT, speeds=(0.1, 0.5), reach=0.4, margin=0.0, start=MIDDLE)
    s = found.sample(400.0)
    for k in range(3):
        moves = np.abs(s.dq[:, k]) > 1e-9
        low, high = static.sweep_span(ROBOT, BOUNDS, None, MIDDLE, k, 0.4)
        assert (s.q[:, k].min(), s.q[:, k].max()) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))
        steady = moves & (np.abs(s.ddq[:, k]) < 1e-9)
        a_max = 0.5 * BOUNDS.acceleration[k]
        most = np.sqrt((high - low) * a_max / 3.0)
        wanted = sorted({min(f * BOUNDS.velocity[k], most) for f in (0.1, 0.5)})
        speeds = np.unique(np.round(s.dq[steady, k], 6))
        np.testing.assert_allclose(speeds, [*(-x for x in wanted[::-1]), *wanted], atol=1e-5)
        ramp = np.abs(s.ddq[moves, k])
        assert ramp.max() <= a_max * (1 + 1e-6)
        others = np.delete(s.q, k, axis=1)[moves]
        assert np.ptp(others, axis=0).max() < 1e-9
    np.testing.assert_allclose(s.q[[0, -1]], [MIDDLE, MIDDLE])
    for speeds, reach in (((), 1.0), ((0.0,), 1.0), ((0.5,), 0.0)):
        with pytest.raises(InputError, match="speeds of ramps"):
            static.ramps(ROBOT, speeds=speeds, reach=reach)


def test_static_poses_are_chosen_for_what_they_add():
    tour = static.static_poses(ROBOT, poses=3, hold_s=0.5, seed=1, margin=0.0, start=MIDDLE)
    knots = tour.curve.knots
    q = tour.at(knots).q
    np.testing.assert_allclose(q[[0, -1]], [MIDDLE, MIDDLE])
    assert len(knots) == 9 and np.allclose(np.diff(knots)[1::2], 0.5)
    held = q[1::2]
    np.testing.assert_allclose(held, q[2::2])
    steps = np.diff(knots)[::2]
    for k, (a, b) in enumerate(zip([MIDDLE, *held[:-1]], held, strict=True)):
        assert steps[k] == pytest.approx(static.time_between(BOUNDS, INDEX, a, b, static.SLOW))
    pool = np.random.default_rng(1).uniform(BOUNDS.lower, BOUNDS.upper, (400, 3))
    safe = [pose for pose in pool if not poses.fault_of(ROBOT, BOUNDS, None, CHI, pose)]
    Y = regressor(ROBOT, np.array(safe), np.zeros((len(safe), 3)), np.zeros((len(safe), 3)))
    Y = Y[:, :, np.abs(Y).max(axis=(0, 1)) > 0]
    Y = Y / np.linalg.norm(Y, axis=(0, 1))
    information, left = 1e-6 * np.eye(Y.shape[2]), list(range(len(safe)))
    for pose in held[:3]:  # each adds most to what is known by then
        best = max(left, key=lambda k: np.linalg.slogdet(information + Y[k].T @ Y[k])[1])
        np.testing.assert_allclose(pose, safe[best])
        information = information + Y[best].T @ Y[best]
        left.remove(best)
    for count, hold in ((0, 1.0), (1, 0.0)):
        with pytest.raises(InputError, match="at least one and a positive time"):
            static.static_poses(ROBOT, poses=count, hold_s=hold)


@pytest.mark.parametrize("loads", [1, 2, 4])
def test_poses_of_sweeps_from_little_to_much_gravity(loads):
    rng = np.random.default_rng(0)
    pool = [MIDDLE, *rng.uniform(BOUNDS.lower, BOUNDS.upper, (40, 3))]
    found = sweeps.choose_sweep_poses(ROBOT, BOUNDS, None, CHI, pool, 1, loads, 0.3)

    def load(pose):
        low, high = static.sweep_span(ROBOT, BOUNDS, None, pose, 1, 0.3)
        way = np.repeat(pose[None], 9, axis=0)
        way[:, 1] = np.linspace(low, high, 9)
        return np.mean(np.abs(gravity_torque(ROBOT, CHI, way)[:, 1]))

    every = np.array([load(pose) for pose in pool])
    wanted = np.linspace(every.min(), every.max(), loads) if loads > 1 else [every.max()]
    best = [int(np.argmin(np.abs(every - size))) for size in wanted]
    np.testing.assert_allclose([pose for pose, _, _ in found], [pool[k] for k in dict.fromkeys(best)])
    for pose, low, high in found:
        assert (low, high) == static.sweep_span(ROBOT, BOUNDS, None, pose, 1, 0.3)
    (alone,) = sweeps.choose_sweep_poses(ROBOT, BOUNDS, None, CHI, pool, 0, loads, 0.3)  # a vertical axis
    np.testing.assert_array_equal(alone[0], MIDDLE)
    (bare,) = sweeps.choose_sweep_poses(ROBOT, BOUNDS, None, None, pool, 1, loads, 0.3)
    np.testing.assert_array_equal(bare[0], MIDDLE)


# --- what a plan is asked for


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"method": "magic"}, "unknown method"),
        ({"criterion": "size"}, "unknown criterion"),
        ({"time_budget_s": 0.0}, "time budget"),
        ({"time_budget_s": np.inf}, "time budget"),
        ({"duration_s": 0.0}, "duration"),
        ({"duration_s": np.nan}, "duration"),
        ({"harmonics": 2}, "2 harmonics"),
        ({"harmonics": 41}, "41 harmonics"),
        ({"periods": 0}, "0 periods"),
        ({"periods": 1001}, "1001 periods"),
        ({"weights": (1.0, 1.0)}, "one for each"),
        ({"weights": (1.0, 0.0, 1.0)}, "positive"),
        ({"weights": (1.0, np.inf, 1.0)}, "positive"),
    ],
)
def test_wishes_that_no_plan_can_meet(wish, words):
    with pytest.raises(InputError, match=words):
        planning.check_options(PlanOptions(**wish), ROBOT)


def curve_of(a, b, u=2.0):
    return through_points(np.array([0.0, u]), np.array([a, b], dtype=float), np.zeros((2, 3)))


def test_what_is_wrong_with_a_curve():
    good = curve_of(MIDDLE, MIDDLE + np.array([0.5, 0.3, -0.2]), 5.0)
    penalty = SimpleNamespace(bounds=BOUNDS, chi=None)
    assert planning.problems_of(ROBOT, good, penalty, None) == []
    far = curve_of(MIDDLE, MIDDLE + np.array([0.0, 0.8, 0.0]), 5.0)
    (problem,) = planning.problems_of(ROBOT, far, penalty, None)
    assert NAMES[1] in problem
    weak = np.array([500.0, 400.0, 0.1])
    told = planning.problems_of(ROBOT, good, SimpleNamespace(bounds=replace(BOUNDS, effort=weak), chi=CHI), None)
    assert len(told) == 1 and told[0].startswith(f"torque of joint '{NAMES[2]}' reaches ")
    peak = peak_effort(ROBOT, good, CHI)
    for k in range(3):
        for share, count in ((1.001, 0), (0.999, 1)):
            effort = 2.0 * peak
            effort[k] = share * peak[k]
            tight = SimpleNamespace(bounds=replace(BOUNDS, effort=effort), chi=CHI)
            told = planning.problems_of(ROBOT, good, tight, None)
            assert len(told) == count and all(f"torque of joint '{NAMES[k]}'" in one for one in told)
    assert planning.problems_of(GANTRY, good, penalty, wall(0, MIDDLE[0] - 0.06)) == []
    end = wall(0, MIDDLE[0] + 0.53, -1.0)
    assert planning.problems_of(GANTRY, good, penalty, end) == ["hand and plane 1 come within 0.03 m"]


# --- files


def test_samples_in_another_order_and_at_their_ends():
    c = (rest_basis(5) @ np.random.default_rng(0).normal(size=(9, 3))).T
    move = Trajectory(("a", "b", "c"), FourierSeries(4.0, c[:, 0], c[:, 1:6], c[:, 6:], 2), "fourier", 25.0)
    turned = move.ordered(("c", "a", "b"))
    t = np.linspace(0.0, 8.0, 50)
    for x, y in zip(vars(turned.at(t)).values(), vars(move.at(t)).values(), strict=True):
        np.testing.assert_allclose(x, y if x.ndim == 1 else y[:, [2, 0, 1]], atol=1e-12)
    assert move.ordered(("a", "b", "c")) is move and turned.kind == "fourier" and turned.rate_hz == 25.0
    assert len(move.t) == 201 and move.t[-1] == 8.0 and not move.dq[[0, -1]].any()
    odd = move.sample(0.3)
    np.testing.assert_allclose(odd.t, [0.0, 1 / 0.3, 2 / 0.3, 8.0])
    with pytest.raises(InputError, match="too many samples"):
        move.sample(1.3e7)
    for rate in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="rate"):
            move.sample(rate)
        with pytest.raises(InputError, match="rate"):
            Trajectory(("a", "b", "c"), move.curve, rate_hz=rate)
    for names in (("a", "b"), ("a", "a", "b")):
        with pytest.raises(InputError, match="name every joint once"):
            Trajectory(names, move.curve)


@pytest.mark.parametrize("where", ["positions", "velocities"])
def test_a_point_changed_by_hand_rules(tmp_path, where):
    move = Trajectory(NAMES, curve_of(MIDDLE, MIDDLE + 0.3))
    save_trajectory(tmp_path / "m.yaml", move, 20.0)
    text = (tmp_path / "m.yaml").read_text()
    assert load_trajectory(tmp_path / "m.yaml").kind == "points"
    lines = text.splitlines()
    for change, kind in ((1e-7, "points"), (8e-6, "points"), (1.5e-5, "file")):
        point = json.loads(lines[20].removeprefix("- "))
        point[where][1] += change
        (tmp_path / "n.yaml").write_text("\n".join([*lines[:20], f"- {json.dumps(point)}", *lines[21:]]))
        found = load_trajectory(tmp_path / "n.yaml")
        assert found.kind == kind
    assert found.rate_hz == pytest.approx((len(move.sample(20.0).t) - 1) / move.duration)


def test_limits_of_a_request_beside_the_robots():
    bounds = bounds_of(ROBOT, 0.1, Caps(velocity=1.5))
    np.testing.assert_allclose(bounds.velocity, 0.9 * np.array([1.5, 1.0, 1.5]))


# --- the cost of a series


def problem_of(chi=None, penalty=Penalty, fixed=False, bounds=BOUNDS):
    base = base_parameters(ROBOT)
    model = TorqueModel(ROBOT, tuple(base.columns(ROBOT)), np.array([1.0, 2.0, 0.5]), "cond")
    scale = np.array([0.6, 0.4, 0.3])
    return FourierProblem(model, penalty(ROBOT, bounds, tight=0.9, chi=chi), 5.0, 4, MIDDLE, scale, fixed)


def test_a_penalty_counts_each_limit_of_each_joint():
    penalty = Penalty(ROBOT, BOUNDS, tight=0.8, chi=CHI)
    half = 0.5 * (BOUNDS.upper - BOUNDS.lower)
    for j in range(3):
        for k, size in enumerate((half, BOUNDS.velocity, BOUNDS.acceleration)):
            for side in (-1.0, 1.0):
                x = [MIDDLE[None].copy(), np.zeros((1, 3)), np.zeros((1, 3))]
                x[k][0, j] += side * 0.8 * size[j] * 1.25
                value, *gradients = penalty.limits(*x)
                assert value == pytest.approx(0.0625)
                wanted = np.zeros((3, 1, 3))
                wanted[k, 0, j] = side * 2 * 0.25 / (0.8 * size[j])
                np.testing.assert_allclose(gradients, wanted, atol=1e-12)
                x[k][0, j] -= side * 0.8 * size[j] * 0.26
                assert penalty.limits(*x)[0] == 0.0
    tau = np.array([[-600.0, 0.0, 100.0], [0.0, 330.0, 0.0]])
    value, slope = penalty.torques(tau)
    assert value == pytest.approx((600 / 400 - 1) ** 2 + (330 / 320 - 1) ** 2)
    np.testing.assert_allclose(slope[0], [-2 * 0.5 / 400.0, 0.0, 0.0])
    assert penalty.poses(MIDDLE[None])[0] == 0.0
    q = MIDDLE[None] + 0.1
    strong = replace(penalty, bounds=replace(BOUNDS, effort=np.array([1.0, 1.0, 1.0])))
    total, *gradients = strong(q, 0.3 + 0 * q, 0.5 + 0 * q)
    assert total == pytest.approx(
        strong.limits(q, 0.3 + 0 * q, 0.5 + 0 * q)[0] + strong.further(q, 0.3 + 0 * q, 0.5 + 0 * q)[0]
    )
    h = 1e-6
    for k in range(3):
        up = [q, 0.3 + 0 * q, 0.5 + 0 * q]
        down = list(up)
        step = h * np.array([[1.0, -2.0, 0.5]])
        up[k], down[k] = up[k] + step, down[k] - step
        assert (strong(*up)[0] - strong(*down)[0]) / 2 == pytest.approx(np.sum(gradients[k] * step), rel=1e-4)


def test_groups_of_samples_that_a_robot_is_able_to_do():
    penalty = Penalty(ROBOT, BOUNDS, tight=0.9, chi=CHI)
    still = np.zeros((3, 4, 3))
    q = np.tile(MIDDLE, (3, 4, 1))
    tau = np.abs(gravity_torque(ROBOT, CHI, MIDDLE[None])[0])
    assert penalty.able(q, still, still).all()
    k = int(np.argmax(tau))
    effort = np.full(3, np.inf)
    for share, able in ((1.0, False), (1.2, True)):
        effort[k] = share * tau[k] * 1.01
        found = replace(penalty, bounds=replace(BOUNDS, effort=effort)).able(q, still, still)
        assert found.tolist() == [able] * 3
    fast = still.copy()
    fast[1, 2] = 500.0
    effort[k] = 5.0 * tau[k]
    assert replace(penalty, bounds=replace(BOUNDS, effort=effort)).able(q, still, fast).tolist() == [True, False, True]


@pytest.mark.parametrize("seed", range(4))
def test_a_series_is_shrunk_as_little_as_its_limits_ask_for(seed):
    problem = problem_of()
    y = np.random.default_rng(seed).normal(size=problem.shape).ravel() * 3.0
    factor = linear_factor(problem, y)
    q, dq, ddq = problem.series(factor * y).evaluate(np.linspace(0.0, 5.0, 20_001))
    use = max(
        np.max((q - MIDDLE) / (BOUNDS.upper - MIDDLE)),
        np.max((MIDDLE - q) / (MIDDLE - BOUNDS.lower)),
        np.max(np.abs(dq) / BOUNDS.velocity),
        np.max(np.abs(ddq) / BOUNDS.acceleration),
    )
    assert use == pytest.approx(1.0, abs=1e-5) and factor < 1.0
    assert linear_factor(problem, 1e-3 * y) == 1.0
    size = np.linalg.norm(factor * y)
    assert np.linalg.norm(shrink(problem, y, lambda series: True)) == pytest.approx(size)

    def largest(series):
        return np.abs(np.column_stack((series.A, series.B))).max()

    whole = largest(problem.series(factor * y))
    for share in (0.9, 0.3, 0.02):
        found = shrink(problem, y, lambda series, share=share: largest(series) <= share * whole)
        kept = np.linalg.norm(found) / size
        assert share * STEP <= kept <= share * (1 + 1e-9)
    assert not shrink(problem, y, lambda series: False).any()
