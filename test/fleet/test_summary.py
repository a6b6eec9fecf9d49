# SPDX-License-Identifier: Apache-2.0

"""The summary of a fleet: verdicts, outliers, kinds."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from fleet_results import page_data, reduced
from ros2_dynid.fleet.page import fleet_page
from ros2_dynid.fleet.summary import FailedRecording, summarise
from ros2_dynid.fleet.trends import Trend


def test_the_most_serious_verdict_comes_first(monkeypatch):
    results = {f"cell{k}": reduced(f"cell{k}", 1.0 + 0.01 * k) for k in range(6)}
    results["far"] = reduced("far", 9.0, problem="the gains differ", level="bad")
    results["bad"] = reduced("bad", 1.02, problem="the recordings contradict each other", level="bad")
    worn = Trend("elbow", (1.7e9, 1.8e9), (1.0, 2.0), (0.1, 0.1), 0.9, 1.1, 0.01, 0.001, 1.7e9)
    plain = [Trend("elbow", (1.7e9, 1.8e9), (1.0, 1.0), (0.1, 0.1))]

    def over_time(joints, times, points):
        return [worn] if next(names) in ("cell3", "bad", "far") else plain

    names = iter(results)
    monkeypatch.setattr("ros2_dynid.fleet.summary.trends", over_time)
    lost = [FailedRecording("gone", "a.mcap", "torn"), FailedRecording("cell1", "b.mcap", "torn")]
    kinds = {"arm": [*results, "gone", "idle"]}
    folders = {"cell1": ("robots/cell1/model.yaml", "robots/cell1/report.html")}
    found = summarise(kinds, results, lost, folders)
    verdicts = {robot: one.verdict for robot, one in found.robots.items()}
    assert verdicts == {
        **{f"cell{k}": "good" for k in range(6)}, "cell3": "changed", "far": "stands out", "bad": "refused",
        "gone": "no data", "idle": "no data",
    }  # fmt: skip
    assert found.robots["gone"].reason == "none of its recordings can be used (1 failed)"
    assert found.robots["idle"].reason == "it has no recordings"
    assert found.robots["cell3"].reason == "the friction of elbow left its band on 2023-11-14"
    assert [(one.joint, one.date, one.change_per_day) for one in found.robots["cell3"].left] == [
        ("elbow", "2023-11-14", 0.01)
    ]
    assert (
        found.robots["far"].reason.startswith("stands out in Fv1 (+") and "gains differ" in found.robots["far"].reason
    )
    assert found.robots["far"].left and not found.robots["cell1"].left
    assert found.robots["cell1"].model == "robots/cell1/model.yaml" and not found.robots["cell2"].model
    assert found.robots["cell1"].report == "robots/cell1/report.html"
    assert (found.robots["cell1"].recordings, found.robots["cell1"].seconds) == (2, 120.0)
    (outlier,) = found.outliers
    assert (outlier.robot, outlier.parameter, outlier.value, outlier.unit) == ("far", "Fv1", 9.0, "N.m.s/rad")
    assert outlier.sigmas > 10.0 and outlier.mean == pytest.approx(1.02, abs=0.03)
    (kind,) = found.kinds
    assert kind.robots == tuple(results) and [row.robots for row in kind.parameters] == [8, 8]
    assert kind.parameters[1].mean == pytest.approx(3.0) and kind.parameters[1].spread == 0.0
    assert set(found.robots["cell1"].shrunk) == {"Fv1", "Fc1"}
    names = iter(results)
    data = page_data(fleet_page(found))
    assert [row["id"] for row in data["robots"]][:5] == ["bad", "cell3", "far", "gone", "idle"], "those in doubt first"
    rows = {row["id"]: row for row in data["robots"]}
    assert rows["far"]["sigmas"] > 10 and rows["far"]["seconds"] == pytest.approx(120, rel=1e-3)
    assert rows["gone"]["sigmas"] is None and rows["cell1"]["report"] == "robots/cell1/report.html"
    assert [one["id"] for one in data["trends"]][:3] == ["bad", "cell3", "far"] and data["trends"][0]["changed"]
    assert not data["trends"][3]["changed"] and len(data["trends"]) == len(results)
    assert [row["robot"] for row in data["failed"]] == ["gone", "cell1"]
    worst = data["worst"]
    assert len(worst) == 2 * len(results) and worst[0]["together"] == 2.0 and worst[-1]["together"] == 1.0
    assert worst[0]["recording"].endswith("1.mcap") and worst[0]["alone"] == 2.0
    assert len(data["kinds"][0]["z"]) == len(results) and data["kinds"][0]["names"] == ["Fv1", "Fc1"]


def test_a_long_verdict_names_the_worst_and_counts_the_rest():
    names = tuple(f"p{k}" for k in range(7))
    rng = np.random.default_rng(3)

    def own(robot, x, **changes):
        found = reduced(robot, **changes)
        return replace(
            found,
            names=names,
            units=("N.m",) * 7,
            value=x,
            covariance=1e-4 * np.eye(7),
            identified=np.ones(7, dtype=bool),
        )

    results = {f"cell{k}": own(f"cell{k}", 1.0 + 0.01 * rng.standard_normal(7)) for k in range(12)}
    far = np.ones(7)
    far[:6] += np.array([1.0, -3.0, 2.0, 5.0, -4.0, 6.0])
    results["far"] = own("far", far)
    results["odd"] = own("odd", 1.0 - 4.0 * (np.arange(7) == 6))
    found = summarise({"arm": list(results)}, results, [], {})
    sizes = [abs(one.sigmas) for one in found.outliers]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == 7
    reason_ = found.robots["far"].reason
    assert re.fullmatch(r"stands out in p5 \(\+.*p3 \(\+.*p4 \(-.*p1 \(-[^,]* and 2 more", reason_), reason_
    assert re.fullmatch(r"stands out in p6 \(-[0-9.]+ sigma\)", found.robots["odd"].reason)
    assert found.robots["cell1"].reason == "good: fine" and found.robots["cell1"].remarks == ("good: fine",)
    none = summarise({"arm": ["a"], "leg": ["b"]}, {"b": own("b", far, verdict=())}, [], {})
    assert none.robots["b"].shrunk == {}, "of one robot nobody knows what the others would be"
    assert none.robots["b"].reason == "" and [kind.name for kind in none.kinds] == ["leg"]
    assert none.kinds[0].parameters[0].spread is None and none.kinds[0].parameters[0].mean == 2.0
    blind = summarise({"leg": ["b"]}, {"b": replace(own("b", far), identified=np.zeros(7, dtype=bool))}, [], {})
    assert blind.kinds == () and blind.robots["b"].shrunk == {}
