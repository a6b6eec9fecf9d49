# SPDX-License-Identifier: Apache-2.0

"""What the page of a fleet says, figure by figure: every robot, kind, outlier, trend and recording with its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from fleet_results import page_data, reduced
from ros2_dynid.fleet.page import fleet_page
from ros2_dynid.fleet.reduce_robot import (
    RecordingRow,
    RobotResult,
)
from ros2_dynid.fleet.summary import FailedRecording, Fleet, Outlier, summarise
from ros2_dynid.fleet.trends import FrictionPoint, Trend
from ros2_dynid.identification.model_file import TorqueError

UNITS = ("kg.m^2", "N.m.s/rad", "N.m")


def robot(name: str, value: list[float], identified=(True, True, True), **changes) -> RobotResult:
    rows = (
        RecordingRow(f"{name}/1.mcap", 0.05, 0.03, 600.0, 1.7e9, FrictionPoint(np.array([2.0]), np.array([0.1]))),
        RecordingRow(f"{name}/2.mcap", 0.07, 0.04, 1200.0, 1.8e9, FrictionPoint(np.array([3.0]), np.array([0.2]))),
    )
    found = RobotResult(
        name, ("elbow",), ("ZZ1", "Fv1", "Fc1"), UNITS, np.array(value), np.diag([1e-4, 4e-4, 9e-4]),
        np.array(identified), rows, "good", ("good: fine", "note: so it is"), {"all": TorqueError(1.5, 0.0123456)},
        {"all": TorqueError(2.5, 0.0456)},
    )  # fmt: skip
    return replace(found, **changes)


def six() -> dict[str, RobotResult]:
    rng = np.random.default_rng(2)
    values = np.array([2.0, 5.0, 8.0]) + 0.01 * np.array([1.0, 2.0, 3.0]) * rng.standard_normal((6, 3))
    return {f"cell{k}": robot(f"cell{k}", list(x), (True, True, k > 1)) for k, x in enumerate(values)}


def moved(one: RobotResult, *change: float, **more) -> RobotResult:
    return replace(one, value=one.value + np.array(change), **more)


def data_of(fleet: Fleet) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', fleet_page(fleet), re.DOTALL)[1])


def four(value: float) -> float:
    return float(f"{value:.4g}")


def test_a_robots_row_has_its_own_errors_and_its_furthest_parameter_with_its_sign():
    results = six()
    results["cell2"] = moved(results["cell2"], 0.0, -3.0, -1.0, level="note")
    results["cell3"] = replace(results["cell3"], level="warning")
    results["cell0"] = replace(results["cell0"], level="note")
    found = summarise({"arm": list(results)}, results, [], {"cell1": ("m", "r")})
    assert found.robots["cell1"].fit["all"].relative == 0.0123456
    assert found.robots["cell1"].validation["all"].relative == 0.0456
    assert found.robots["cell1"].remarks == ("good: fine", "note: so it is")
    data = data_of(found)
    rows = {row["id"]: row for row in data["robots"]}
    assert [row["id"] for row in data["robots"]] == ["cell2", "cell3", "cell0", "cell1", "cell4", "cell5"]
    assert (rows["cell1"]["fit"], rows["cell1"]["validation"]) == (1.235, 4.56)
    assert (rows["cell1"]["seconds"], rows["cell1"]["recordings"]) == (1800.0, 2)
    z = found.compared["arm"].z
    for k, name in enumerate(results):
        known = z[k][np.isfinite(z[k])]
        assert rows[name]["sigmas"] == four(max(known, key=abs)), name
    assert rows["cell2"]["sigmas"] < -10.0
    few = summarise({"arm": ["a"]}, {"a": robot("a", [1.0, 2.0, 3.0], fit={}, validation={})}, [], {})
    (row,) = data_of(few)["robots"]
    assert row["fit"] is row["validation"] is row["sigmas"] is None, "of one robot nobody knows what is usual"


def test_kinds_and_who_stands_out_in_figures():
    results = six()
    results["cell4"] = moved(results["cell4"], 1.0, 0.0, -2.0)
    found = summarise({"arm": list(results)}, results, [], {})
    together = found.compared["arm"]
    data = data_of(found)
    (kind,) = data["kinds"]
    assert kind["name"] == "arm" and kind["robots"] == list(results) and kind["names"] == ["ZZ1", "Fv1", "Fc1"]
    for k, row in enumerate(kind["table"]):
        assert (row["parameter"], row["unit"], row["robots"]) == (kind["names"][k], UNITS[k], (6, 6, 4)[k])
        figures = (together.mean[k], together.mean_std[k], together.spread[k])
        assert (row["mean"], row["std"], row["spread"]) == tuple(map(four, figures))
        assert found.kinds[0].parameters[k].std == together.mean_std[k] != found.kinds[0].parameters[k].spread
    for mine, row in zip(kind["z"], together.z, strict=True):
        assert mine == [None if np.isnan(x) else round(x, 1) for x in row]
    assert kind["z"][0][2] is None and kind["z"][4][2] < 0.0 < kind["z"][4][0]
    assert [(row["robot"], row["parameter"], row["unit"]) for row in data["outliers"]] == [
        ("cell4", "ZZ1", "kg.m^2"), ("cell4", "Fc1", "N.m"),
    ]  # fmt: skip
    for row, k in zip(data["outliers"], (0, 2), strict=True):
        wanted = (results["cell4"].value[k], together.mean[k], together.spread[k], together.z[4, k])
        assert (row["value"], row["mean"], row["spread"], row["sigmas"]) == tuple(map(four, wanted))
    assert data["outliers"][1]["sigmas"] < 0.0


def test_outliers_are_in_order_of_their_distance_and_not_too_many():
    results = six()
    plain = summarise({"arm": list(results)}, results, [], {})
    each = tuple(Outlier(f"r{k:04d}", "Fc1", 1.0, 2.0, 0.1, 5.0, "N.m") for k in range(3001))
    assert len(data_of(replace(plain, outliers=each))["outliers"]) == 3000
    results["cell5"] = moved(results["cell5"], 3.0, -9.0, 0.0)
    results["cell3"] = moved(results["cell3"], -6.0, 0.0, 0.0)
    found = summarise({"arm": list(results)}, results, [], {})
    assert [(one.robot, one.parameter) for one in found.outliers] == [
        ("cell3", "ZZ1"), ("cell5", "Fv1"), ("cell5", "ZZ1"),
    ]  # fmt: skip
    sizes = [abs(one.sigmas) for one in found.outliers]
    assert sizes == sorted(sizes, reverse=True) and found.outliers[1].sigmas < 0.0
    assert re.match(r"stands out in Fv1 \(-.* sigma\), ZZ1 \(\+", found.robots["cell5"].reason)


def test_a_trend_is_drawn_with_its_band_and_one_point_is_none():
    results = six()
    plain = summarise({"arm": list(results)}, results, [], {})
    assert [row["id"] for row in data_of(plain)["trends"]] == sorted(results)
    worn = Trend("elbow", (1.7e9, 1.8e9), (2.0, 3.12345), (0.1, 0.2), 1.5, 2.5, 0.01, 0.002, 1.8e9)
    calm = Trend("wrist", (1.7e9, 1.8e9), (2.0, 2.0), (0.1, 0.2))
    lonely = Trend("wrist", (1.7e9,), (2.0,), (0.1,))
    over_time = {"cell4": [calm, worn], "cell0": [lonely], "cell1": [calm], "cell2": [lonely, calm], "cell3": []}
    first, *rest = data_of(replace(plain, trends=over_time))["trends"]
    assert first["id"] == "cell4" and first["changed"] and [row["id"] for row in rest] == ["cell1", "cell2"]
    assert not any(row["changed"] for row in rest)
    assert first["joints"][1] == {
        "name": "elbow", "unit": "N.m or N", "t": [1_700_000_000, 1_800_000_000], "y": [2.0, 3.123], "low": 1.5,
        "high": 2.5, "slope": 0.01, "left": 1.8e9,
    }  # fmt: skip
    assert first["joints"][0]["low"] is first["joints"][0]["left"] is None


def test_the_worst_recordings_are_those_that_fit_their_robot_worst():
    results = {name: robot(name, [1.0, 2.0, 3.0]) for name in ("b", "a")}
    long = replace(results["a"].rows[0], place="x" * 300 + "/end.mcap", together=0.0712345, alone=0.0512345)
    results["a"] = replace(results["a"], rows=(*results["a"].rows, long))
    data = data_of(summarise({"arm": list(results)}, results, [], {}))
    assert [(row["robot"], row["recording"][-8:], row["together"], row["alone"]) for row in data["worst"]] == [
        ("a", "end.mcap", 7.123, 5.123), ("a", "a/2.mcap", 7.0, 4.0), ("b", "b/2.mcap", 7.0, 4.0),
        ("a", "a/1.mcap", 5.0, 3.0), ("b", "b/1.mcap", 5.0, 3.0),
    ]  # fmt: skip
    assert len(data["worst"][0]["recording"]) == 240
    far = "stands out, and more than fits"
    told = data_of(replace(summarise({"arm": ["a"]}, {"a": replace(results["a"], problem=far * 20)}, [], {})))
    assert told["robots"][0]["reason"] == (far * 20)[:240] and told["robots"][0]["verdict"] == "refused"


def test_friction_of_several_joints_that_changed_is_named_joint_by_joint():
    names = tuple(f"j{k}" for k in range(6))
    share = np.array([1.0, 1.0, 1.0, 1.0, 1.5, 1.5, 1.5, 1.5])
    torque = np.column_stack((share[:, None] * np.arange(1.0, 6.0), np.full(8, 6.0)))  # the last one as ever
    rows = tuple(
        RecordingRow("x", 0.1, 0.1, 60.0, 1.7e9 + 86400.0 * k, FrictionPoint(one, np.full(6, 0.001)))
        for k, one in enumerate(torque)
    )
    found = summarise({"arm": ["a"]}, {"a": robot("a", [1.0, 2.0, 3.0], joints=names, rows=rows)}, [], {}).robots["a"]
    assert [one.joint for one in found.left] == ["j0", "j1", "j2", "j3", "j4"] and found.verdict == "changed"
    assert {one.date for one in found.left} == {"2023-11-18"}, "of the first point outside, not of the first of all"
    assert [one.change_per_day for one in found.left] == pytest.approx([np.polyfit(range(8), share, 1)[0]] * 5)
    told = found.reason.split("; ")
    assert told == [f"the friction of j{k} left its band on 2023-11-18" for k in range(4)]
    assert found.recordings == 8 and found.seconds == 480.0


def test_the_head_of_the_page_says_who_stands_out():
    few = {f"cell{k}": reduced(f"cell{k}", 1.0 + 0.01 * k) for k in range(5)}
    calm = summarise({"arm": list(few)}, few, [], {})
    page = fleet_page(calm)
    assert "No robot stands out" in page and "could not be used" not in page.split("<script")[0]
    assert "5 robots, 10 recordings, 10 min in all" in page and "Verdicts: 5 good." in page
    few["cell1"] = replace(few["cell1"], level="note")
    few["cell3"] = replace(few["cell3"], level="note")
    assert "Verdicts: 3 good, 2 note." in fleet_page(summarise({"arm": list(few)}, few, [], {}))
    many = replace(calm, robots={
        f"r{k:02d}": replace(calm.robots["cell0"], verdict="stands out", reason=f"reason {k}") for k in range(23)
    }, failed=(FailedRecording("a", "b", "c"),))  # fmt: skip
    page = fleet_page(many)
    assert "r19: reason 19" in page and "3 more robots stand out." in page
    assert "1 recordings could not be used." in page and "No robot stands out" not in page


def test_long_tables_and_texts_are_cut():
    many = {f"cell{k}": reduced(f"cell{k}", 1.0 + 0.01 * (k % 7)) for k in range(101)}
    lost = [FailedRecording("a", f"{'p' * 300}/{k}", "r" * 300) for k in range(3001)]
    data = page_data(fleet_page(summarise({"arm": list(many)}, many, lost, {})))
    assert len(data["failed"]) == 3000 and len(data["worst"]) == 200
    assert data["failed"][7]["reason"] == "r" * 240
    assert data["failed"][7]["recording"] == "p" * 238 + "/7", "the end of a path says most"
    order = [row["together"] for row in data["worst"]]
    assert order == sorted(order, reverse=True)
    assert data["robots"][0]["kind"] == "arm" and data["robots"][3]["recordings"] == 2


def test_long_trends_are_thinned_and_numbers_are_rounded():
    trend = Trend("elbow", tuple(1e9 + k for k in range(100)), tuple(np.arange(100.0) + 0.123456), (0.1,) * 100,
                  -1.23456, 200.0, None, None, 1e9 + 50)  # fmt: skip
    robots = {f"cell{k}": reduced(f"cell{k}") for k in range(4)}
    found = replace(summarise({"arm": list(robots)}, robots, [], {}), trends={name: [trend] for name in robots})

    def shown(**limits):
        return [one["joints"][0] for one in page_data(fleet_page(found, **limits))["trends"]]

    assert {len(one["t"]) for one in shown()} == {100}
    assert {len(one["t"]) for one in shown(most_points=1)} == {6}
    thin = shown(most_points=40)[0]
    assert len(thin["t"]) == len(thin["y"]) == 10 and thin["t"][0] == 10**9 and thin["t"][-1] == 10**9 + 99
    assert thin["y"][-1] == 99.12 and thin["low"] == -1.235 and thin["slope"] is None and thin["left"] == 1e9 + 50
