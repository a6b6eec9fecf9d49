"""What robots share and who stands out, friction over time, and the page: on figures, without recordings."""

from __future__ import annotations

import json
import re

import numpy as np

from ros2_dynid.fleet.kinds import Own, compare_kind
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
