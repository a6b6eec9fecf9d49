# SPDX-License-Identifier: Apache-2.0

"""What robots share and who stands out, friction over time, and the page: on figures, without recordings."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy.stats import linregress
from scipy.stats import t as student

from ros2_dynid.fleet.kinds import (
    Own,
    compare_kind,
    compare_with_others,
    estimate_mean_and_spread,
    guess_usual,
    select_usual,
)
from ros2_dynid.fleet.page import fleet_page
from ros2_dynid.fleet.reduce_robot import RecordingRow, RobotResult
from ros2_dynid.fleet.summary import FailedRecording, summarise
from ros2_dynid.fleet.trends import FrictionPoint, trends

SPREAD = np.array([0.1, 0.02, 0.3, 0.0])
MEAN = np.array([2.0, -1.0, 0.0, 5.0])


def robots(count: int, seed: int, std: float = 0.05) -> list[Own]:
    rng = np.random.default_rng(seed)
    true = MEAN + SPREAD * rng.standard_normal((count, 4))
    C = std**2 * np.array([[1.0, 0.6, 0, 0], [0.6, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]])
    errors = rng.multivariate_normal(np.zeros(4), C, count)
    return [Own(x + e, C, np.ones(4, dtype=bool)) for x, e in zip(true, errors, strict=True)]


def moved(robot: Own, k: int, change: float) -> Own:
    value = robot.value.copy()
    value[k] += change
    return Own(value, robot.covariance, robot.identified)


def test_mean_and_spread_are_found_beside_robots_that_are_far_off():
    fleet = robots(200, 1)
    for k in range(5):
        fleet[k] = moved(fleet[k], 0, 3.0)
    found = compare_kind(fleet)
    np.testing.assert_allclose(found.mean, MEAN, atol=0.08)
    np.testing.assert_allclose(found.spread, SPREAD, atol=0.04)
    assert {int(i) for i, _ in zip(*np.nonzero(found.stands_out), strict=True)} == {0, 1, 2, 3, 4}


def test_no_robot_of_a_usual_fleet_stands_out():
    # at 1 % a fleet, more than 3 of 60 fleets by chance would come up once in 4000 tries
    named = [bool(compare_kind(robots(count, seed)).stands_out.any()) for count in (3, 8, 50) for seed in range(20)]
    assert sum(named) <= 3


def test_a_robot_is_drawn_to_the_mean_by_what_its_recordings_leave_open():
    fleet = [*robots(30, 3), moved(Own(MEAN, 100.0 * np.eye(4), np.ones(4, dtype=bool)), 0, 5.0)]
    fleet.append(Own(MEAN, np.eye(4), np.array([True, True, True, False])))
    found = compare_kind(fleet)
    assert abs(found.shrunk[30, 0] - found.mean[0]) < 0.01  # knows nothing by itself
    assert found.shrunk[31, 3] == found.mean[3]  # has not seen it
    exact = np.sqrt(np.mean((found.shrunk[:30] - MEAN) ** 2 / (SPREAD**2 + 0.05**2), axis=0))
    assert np.all(exact < 1.1) and exact[3] < 0.4  # no spread: all share the mean
    C = fleet[0].covariance
    T = np.diag(np.maximum(found.spread, 1e-9) ** 2)
    oracle = np.linalg.solve(
        np.linalg.inv(C) + np.linalg.inv(T), np.linalg.solve(C, fleet[0].value) + np.linalg.solve(T, found.mean)
    )
    np.testing.assert_allclose(found.shrunk[0], oracle, rtol=1e-6, atol=1e-6)


def by_hand(x: np.ndarray, s: np.ndarray) -> tuple[float, float, float]:
    """Return mean, its std and spread: the spread by a scan, as Paule and Mandel define it."""
    squares = np.linspace(0.0, np.ptp(x) ** 2, 200_001)
    w = 1.0 / (s**2 + squares[:, None])
    mean = np.sum(w * x, axis=1) / np.sum(w, axis=1)
    enough = np.flatnonzero(np.sum(w * (x - mean[:, None]) ** 2, axis=1) <= len(x) - 1)
    k = int(enough[0])
    return float(mean[k]), float(1 / np.sqrt(np.sum(w[k]))), float(np.sqrt(squares[k]))


@pytest.mark.parametrize("seed", range(6))
def test_mean_and_spread_of_robots_with_unlike_errors(seed):
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.05, 0.4, 6)
    x = 3.0 + (0.5 if seed % 2 else 0.0) * rng.standard_normal(6) + s * rng.standard_normal(6)
    found = estimate_mean_and_spread(x, s)
    np.testing.assert_allclose(found, by_hand(x, s), rtol=1e-3, atol=2e-3)
    assert estimate_mean_and_spread(x[:1], s[:1])[:2] == (x[0], s[0]) and np.isnan(
        estimate_mean_and_spread(x[:1], s[:1])[2]
    )
    same = np.full(6, 2.5)
    assert estimate_mean_and_spread(same, s) == (pytest.approx(2.5), pytest.approx(1 / np.sqrt(np.sum(s**-2))), 0.0)


def test_each_robot_is_compared_with_the_others_and_the_limit_is_students():
    rng = np.random.default_rng(2)
    x, s = 1.0 + 0.3 * rng.standard_normal(5), np.array([0.1, 0.2, 0.1, 0.3, 0.1])
    inside = np.array([True, True, True, False, True])
    z, limit = compare_with_others(x, s, inside, 1e-3)
    for i in range(5):
        others = [k for k in range(5) if inside[k] and k != i]
        mean, mean_std, spread = by_hand(x[others], s[others])
        wanted = (x[i] - mean) / np.sqrt(mean_std**2 + spread**2 + s[i] ** 2)
        assert z[i] == pytest.approx(wanted, rel=5e-3)
        assert limit[i] == pytest.approx(student.isf(1e-3, len(others) - 1))
    three = compare_with_others(x[:3], s[:3], np.ones(3, dtype=bool), 1e-3)
    for i in range(3):
        others = [k for k in range(3) if k != i]
        mean, mean_std, spread = by_hand(x[others], s[others])
        assert three[0][i] == pytest.approx((x[i] - mean) / np.sqrt(mean_std**2 + spread**2 + s[i] ** 2), rel=5e-3)
        assert three[1][i] == pytest.approx(student.isf(1e-3, 1))
    few, never = compare_with_others(x[:2], s[:2], np.array([True, True]), 1e-3)
    assert np.isnan(few).all() and np.isinf(never).all(), "two robots cannot tell which of them is different"
    many = 1.0 + 0.3 * rng.standard_normal(60)
    z, limit = compare_with_others(many, np.full(60, 0.1), np.ones(60, dtype=bool), 1e-3)
    mean, mean_std, spread = by_hand(many, np.full(60, 0.1))
    np.testing.assert_allclose(z, (many - mean) / np.sqrt(mean_std**2 + spread**2 + 0.01), rtol=5e-3, atol=1e-3)
    np.testing.assert_allclose(limit, student.isf(1e-3, 59))


@pytest.mark.parametrize("count", [40, 41])
def test_up_to_forty_robots_each_is_compared_with_the_others_and_of_more_with_all(count):
    rng = np.random.default_rng(count)
    x, s = 1.0 + 0.3 * rng.standard_normal(count), rng.uniform(0.05, 0.2, count)
    z, _ = compare_with_others(x, s, np.ones(count, dtype=bool), 1e-3)
    for i in range(count):
        who = np.arange(count) != i if count == 40 else np.ones(count, dtype=bool)
        mean, mean_std, spread = estimate_mean_and_spread(x[who], s[who])
        assert z[i] == pytest.approx((x[i] - mean) / np.sqrt(mean_std**2 + spread**2 + s[i] ** 2), rel=1e-9)


def test_the_first_guess_of_who_is_usual_is_by_medians():
    """|x - median| within Student's quantile of the spread that the median deviation leaves beside the errors."""
    s = np.array([0.2, 0.1, 0.2, 0.3, 0.2, 0.2, 0.5])
    for chance in (1e-2, 1e-3):
        x = np.array([0.0, -0.5, 0.5, -0.8, 0.9, 0.3, -0.2])
        deviation = np.median(np.abs(x)) * 1.4826
        spread2 = deviation**2 - np.median(s) ** 2
        for k in (3, 4):  # the outermost: just inside, then just outside
            for share in (0.97, 1.03):
                y = x.copy()
                y[k] = np.sign(x[k]) * share * student.isf(chance, 5) * np.sqrt(spread2 + s[k] ** 2)
                wanted = np.abs(y) <= student.isf(chance, 5) * np.sqrt(spread2 + s**2)
                assert wanted[k] == (share < 1.0)
                np.testing.assert_array_equal(guess_usual(y, s, chance), wanted)
    s3, deviation = np.full(3, 0.05), 1.4826 * 0.1
    bound = student.isf(1e-2, 1) * np.sqrt(deviation**2 - 0.05**2 + 0.05**2)  # of three: one degree of freedom
    for share in (0.97, 1.03):
        three = guess_usual(np.array([0.0, 0.1, 0.1 + share * bound]), s3, 1e-2)
        assert three.tolist() == [True, True, share < 1.0]
    calm = guess_usual(np.array([0.0, 0.0, 0.0, 0.0, 1.0]), np.full(5, 0.2), 1e-3)
    assert calm.all(), "their errors explain it, although the others agree"
    alike = guess_usual(np.array([1.0, 1.0, 1.0, 1.0, 9.0]), np.full(5, 0.2), 1e-3)
    np.testing.assert_array_equal(alike, [True] * 4 + [student.isf(1e-3, 3) * 0.2 >= 8.0])


def test_two_that_agree_are_usual_beside_one_that_is_far_off_and_all_are_if_nobody_is():
    two = select_usual(np.array([0.0, 0.01, 1e6]), np.full(3, 0.1), 1e-3)
    assert two.tolist() == [True, True, False]
    by_turns = select_usual(np.array([0.0, 0.1, -0.1, 0.05, 40.0, 1e4]), np.full(6, 0.1), 1e-3)
    assert by_turns.tolist() == [True, True, True, True, False, False]
    divided = np.array([0.0, 0.0, 10.0, 10.0])  # none is near the middle, by a limit that leaves few inside
    assert select_usual(divided, np.full(4, 0.01), 0.4).all()
    assert select_usual(np.array([0.0, 99.0]), np.array([0.1, 0.1]), 1e-3).all(), "of two, nobody is usual"


def test_the_chance_of_naming_anybody_is_shared_by_all_robots_and_parameters():
    for count in (3, 8, 40, 41):
        found = compare_kind(robots(count, 2))
        freedom = count - 2 if count <= 40 else count - 1
        np.testing.assert_allclose(found.limit[:, 0], student.isf(0.01 / (2 * 4 * count), freedom))
    few = compare_kind(robots(2, 2))
    assert np.isinf(few.limit).all() and not few.stands_out.any()


def test_a_robot_that_stands_out_either_way_is_named_in_its_parameter_only():
    for change in (4.0, -4.0):
        for k in range(4):
            fleet = robots(12, 9)
            fleet[3] = moved(fleet[3], k, change)
            found = compare_kind(fleet)
            assert [tuple(pair) for pair in np.argwhere(found.stands_out)] == [(3, k)]
            assert np.sign(found.z[3, k]) == np.sign(change)
    blind = [Own(r.value, r.covariance, np.array([True, False, True, True])) for r in robots(6, 4)]
    found = compare_kind(blind)
    assert np.isnan(found.mean[1]) and np.isnan(found.z[:, 1]).all() and not found.stands_out.any()


def points(torque: np.ndarray, std: float = 0.02) -> list[FrictionPoint | None]:
    return [FrictionPoint(np.array([value]), np.array([std])) for value in torque]


def test_friction_that_grows_leaves_its_band_and_the_date_is_right():
    rng = np.random.default_rng(0)
    days = 1.7e9 + 86400.0 * np.arange(60)
    steady = 3.0 + 0.02 * rng.standard_normal(60)
    worn = steady + np.where(np.arange(60) >= 40, 1.0, 0.0)
    order = rng.permutation(60)
    (found,) = trends(["elbow"], list(days[order]), [points(worn)[k] for k in order])
    assert found.left == days[40] and found.slope > 5 * found.slope_std
    (calm,) = trends(["elbow"], list(days), points(steady))
    assert calm.left is None and calm.low < 3.0 < calm.high
    lonely = steady.copy()
    lonely[30] = 6.0  # one warm day
    assert trends(["elbow"], list(days), points(lonely))[0].left is None
    assert trends(["elbow"], [0.0] * 60, points(worn)) == []  # no dates


def test_a_trend_in_figures():
    """Band, slope and its std by formulas of their own, with points of unlike errors, half a day apart."""
    rng = np.random.default_rng(4)
    time = 1.7e9 + 43200.0 * np.arange(12)
    torque, std = 2.0 + 0.01 * np.arange(12) + 0.05 * rng.standard_normal(12), rng.uniform(0.02, 0.3, 12)
    each = [FrictionPoint(np.array([x]), np.array([e])) for x, e in zip(torque, std, strict=True)]
    (found,) = trends(["elbow"], list(time), each)
    assert (found.joint, found.time, found.torque, found.std) == ("elbow", tuple(time), tuple(torque), tuple(std))
    first = torque[:4]  # a third of 12
    spread = np.sqrt(np.var(first, ddof=1) * (1 + 1 / 4) + np.maximum(std**2 - np.mean(std[:4] ** 2), 0.0))
    width = np.maximum(student.isf(0.01 / 24, 3) * spread, 0.1 * first.mean())
    assert found.high == pytest.approx(first.mean() + np.median(width))
    assert found.low == pytest.approx(first.mean() - np.median(width))
    fit = linregress(np.arange(12) / 2, torque)
    assert found.slope == pytest.approx(fit.slope / first.mean())
    assert found.slope_std == pytest.approx(fit.stderr / first.mean())


def test_a_friction_of_the_other_sign_has_the_same_trend_turned_round():
    time = list(1.7e9 + 86400.0 * np.arange(12))
    torque = 2.0 + 0.5 * (np.arange(12) >= 6) + 0.001 * np.random.default_rng(4).standard_normal(12)
    (up,), (down,) = (trends(["elbow"], time, points(sign * torque, 1e-3)) for sign in (1.0, -1.0))
    assert (down.low, down.high) == pytest.approx((-up.high, -up.low)) and down.left == up.left == time[6]
    assert down.slope == pytest.approx(-up.slope) and up.slope > 0.0
    assert down.slope_std == pytest.approx(up.slope_std) and up.slope_std > 0.0
    assert up.high == pytest.approx(1.1 * torque[:4].mean(), rel=0.02), "a tenth of it, which is more than chance"


def test_when_a_band_is_left():
    day, high = 86400.0, 5.0
    base = np.array([3.0, 3.01, 2.99, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0])

    def left(*outside, value=high):
        torque = base.copy()
        torque[list(outside)] = value
        found = trends(["a"], [1e9 + day * k for k in range(9)], points(torque, 1e-3))[0].left
        return None if found is None else round((found - 1e9) / day)

    assert left() is None and left(6, 7) is None and left(4, 5, 7, 8) is None
    assert left(6, 7, 8) == 6 and left(4, 5, 6) == 4 and left(4, 6, 7, 8) == 6
    assert left(6, 7, 8, value=1.0) == 6, "less friction is a change, too"
    assert left(6, 7, 8, value=3.25) is None, "by less than a tenth nobody has to act"
    assert left(6, 7, 8, value=3.35) == 6
    few = trends(["a"], [1e9, 2e9, 3e9], points(base[:3]))[0]
    assert few.low is None and few.slope is None and len(few.time) == 3
    enough = trends(["a"], [1e9, 2e9, 3e9, 4e9], points(base[:4]))[0]
    assert enough.low is not None and enough.slope is not None
    same = trends(["a"], [1e9] * 6, points(base[:6]))[0]
    assert same.slope is None and same.low is not None


def test_points_that_are_missing_are_left_out_joint_by_joint():
    one = FrictionPoint(np.array([1.0, np.nan]), np.array([0.1, 0.1]))
    two = FrictionPoint(np.array([1.1, 4.0]), np.array([0.1, np.nan]))
    three = FrictionPoint(np.array([1.2, 4.2]), np.array([0.1, 0.2]))
    found = trends(["a", "b"], [3e9, 2e9, 1e9, 4e9], [one, two, three, None])
    assert [(t.joint, t.time, t.torque) for t in found] == [
        ("a", (1e9, 2e9, 3e9), (1.2, 1.1, 1.0)), ("b", (1e9,), (4.2,)),
    ]  # fmt: skip


def test_a_robot_that_stands_out_in_one_parameter_does_not_count_for_the_usual_value_of_another():
    several = robots(12, 5)
    several[3] = Own(several[3].value + np.array([50.0, 0.03, 0.0, 0.0]), several[3].covariance, several[3].identified)
    found = compare_kind(several)
    assert found.stands_out[3].tolist() == [True, False, False, False] and found.stands_out.sum() == 1
    without = compare_kind([own for k, own in enumerate(several) if k != 3])
    np.testing.assert_allclose(found.mean, without.mean, rtol=1e-12)
    np.testing.assert_allclose(found.spread, without.spread, rtol=1e-12)


@pytest.mark.parametrize("change", [30.0, -30.0])
def test_two_that_are_far_off_together_do_not_hide_each_other(change):
    several = robots(9, 5)
    for k in (2, 7):
        several[k] = moved(several[k], 1, change)
    found = compare_kind(several)
    assert np.argwhere(found.stands_out).tolist() == [[2, 1], [7, 1]]
    assert found.mean[1] == pytest.approx(MEAN[1], abs=0.1)


@pytest.mark.parametrize("count", [4, 5, 9])
def test_three_usual_robots_are_enough_for_what_is_usual(count):
    """One stands out by far in the first parameter: of the second, the others alone say what is usual."""
    several = robots(count, 6, std=0.001)
    several[1] = Own(several[1].value + np.array([1e4, 0.04, 0.0, 0.0]), several[1].covariance, several[1].identified)
    found = compare_kind(several)
    assert np.argwhere(found.stands_out).tolist() == [[1, 0]]
    rest = np.array([own.value for k, own in enumerate(several) if k != 1])
    std = np.sqrt(np.diag(several[0].covariance))
    for k in range(4):
        wanted = by_hand(rest[:, k], np.full(count - 1, std[k]))
        assert (found.mean[k], found.spread[k]) == pytest.approx((wanted[0], wanted[2]), rel=1e-3, abs=1e-4)
        mean, mean_std, spread = wanted
        others = (several[1].value[k] - mean) / np.sqrt(mean_std**2 + spread**2 + std[k] ** 2)
        assert found.z[1, k] == pytest.approx(others, rel=1e-2, abs=1e-2)


def test_a_parameter_whose_error_is_not_known_says_nothing():
    several = robots(6, 8)
    for strange in (np.inf, np.nan):
        C = several[2].covariance.copy()
        C[1, 1] = strange
        C[0, 1] = C[1, 0] = 0.0
        far = several[2].value + np.array([0.0, 50.0, 0.0, 0.0])
        found = compare_kind([*several[:2], Own(far, C, np.ones(4, dtype=bool)), *several[3:]])
        without = compare_kind([*several[:2], *several[3:]])
        assert found.mean[1] == pytest.approx(without.mean[1]) and np.isnan(found.z[2, 1])
        assert found.shrunk[2, 1] == found.mean[1] and found.shrunk_std[2, 1] == found.spread[1]
        assert np.isfinite(np.delete(found.z, 2, axis=0)).all()


def test_two_robots_share_their_mean_and_one_keeps_its_own():
    pair = [
        Own(np.array([x, 5.0]), np.diag([s**2, 0.01]), np.array([True, k == 0]))
        for k, (x, s) in enumerate(((1.0, 0.1), (2.0, 0.3)))
    ]
    found = compare_kind(pair)
    wanted = by_hand(np.array([1.0, 2.0]), np.array([0.1, 0.3]))
    assert (found.mean[0], found.mean_std[0], found.spread[0]) == pytest.approx(wanted, rel=1e-3)
    assert found.mean[1] == 5.0 and found.mean_std[1] == pytest.approx(0.1) and np.isnan(found.spread[1])
    C, T = np.array([0.01, 0.09]), found.spread[0] ** 2
    np.testing.assert_allclose(found.shrunk[:, 0], (np.array([1.0, 2.0]) / C + found.mean[0] / T) / (1 / C + 1 / T))
    assert np.isnan(found.shrunk[0, 1]), "its spread is not known: nothing draws it anywhere"
    assert found.shrunk[1, 1] == 5.0 and np.isnan(found.shrunk_std[1, 1])
    assert np.isnan(found.z).all() and np.isinf(found.limit).all() and not found.stands_out.any()


def result(robot: str, own: Own, rows: int) -> RobotResult:
    names = tuple(f"p{k}" for k in range(len(own.value)))
    each = tuple(
        RecordingRow(f"bags/{robot}/<script>alert({k})</script>.mcap", 0.01, 0.01, 60.0, 1.7e9 + 86400.0 * k,
                     FrictionPoint(np.full(6, 2.0), np.full(6, 0.1)))
        for k in range(rows)
    )  # fmt: skip
    joints = tuple(f"joint_{k}" for k in range(6))
    units = ("N.m",) * len(names)
    return RobotResult(
        robot, joints, names, units, own.value, own.covariance, own.identified, each, "good",
        ("good: all is well",), {}, {},
    )  # fmt: skip


def wide(count: int) -> list[Own]:
    rng = np.random.default_rng(5)
    true = 1.0 + 0.1 * rng.standard_normal((count, 60))
    return [Own(x, 1e-4 * np.eye(60), np.ones(60, dtype=bool)) for x in true]


def test_the_page_is_small_for_a_thousand_robots_and_shows_hostile_names_as_text():
    robots_ = {f"cell{i}": result(f"cell{i}", own, 12) for i, own in enumerate(wide(1000))}
    robots_["cell7"] = result("cell7", moved(wide(8)[7], 3, 5.0), 30)
    failed = [FailedRecording("cell1", "</script><img src=x onerror=alert(1)>.mcap", "the file is empty")] * 1000
    fleet = summarise({"arm": list(robots_)}, robots_, failed, {})
    assert [one.robot for one in fleet.outliers] == ["cell7"] and fleet.outliers[0].parameter == "p3"
    assert fleet.robots["cell7"].verdict == "stands out" and fleet.robots["cell8"].verdict == "good"
    page = fleet_page(fleet)
    assert len(page.encode()) < 5_000_000
    assert "<img" not in page and page.count("</script>") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert len(data["robots"]) == 1000 and data["robots"][0]["id"] == "cell7"
    assert len(data["kinds"][0]["z"]) == 1000 and len(data["trends"]) == 1000


def test_robots_are_shrunk_by_what_their_recordings_leave_open():
    """One parameter, in closed form: (x / C + mean / T) / (1 / C + 1 / T)."""
    rng = np.random.default_rng(1)
    std = np.array([0.01, 0.2, 0.5, 0.1, 0.3])
    x = 2.0 + 0.3 * rng.standard_normal(5)
    found = compare_kind(
        [Own(np.array([a]), np.array([[s**2]]), np.array([True])) for a, s in zip(x, std, strict=True)]
    )
    C, T, mean = std**2, found.spread[0] ** 2, found.mean[0]
    np.testing.assert_allclose(found.shrunk[:, 0], (x / C + mean / T) / (1 / C + 1 / T), rtol=1e-6)
    np.testing.assert_allclose(found.shrunk_std[:, 0], 1 / np.sqrt(1 / C + 1 / T), rtol=1e-6)
    blind = [Own(np.array([a]), np.array([[0.01]]), np.array([k > 0])) for k, a in enumerate(x)]
    seen = compare_kind(blind)
    assert seen.shrunk[0, 0] == seen.mean[0] and seen.shrunk_std[0, 0] == seen.spread[0]
