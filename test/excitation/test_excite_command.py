# SPDX-License-Identifier: Apache-2.0

"""dynid excite: JSON, files, refusals in one line, never an unsafe file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from excitation_robots import TABLE_6, example_urdf
from ros2_dynid.cli import main
from ros2_dynid.excitation.limits import Caps, check_trajectory
from ros2_dynid.excitation.trajectory import load_trajectory
from ros2_dynid.model.load import load_robot

LIMITS = "limits: {lower: -3.14159, upper: 3.14159, velocity: 3.0, acceleration: 10.0, effort: 200.0}"
ROBOT = f"""
name: three
joints:
  - {{name: j1, parent: 0, {LIMITS}}}
  - {{name: j2, parent: 1, alpha: -1.5707963267948966, {LIMITS}}}
  - {{name: j3, parent: 2, d: 0.5, r: 0.2, {LIMITS}}}
parameters: {json.dumps(TABLE_6)}
"""


@pytest.fixture
def robot(tmp_path):
    path = tmp_path / "three.yaml"
    path.write_text(ROBOT)
    return path


def run(capsys, *arguments):
    code = main(["excite", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("method", ["points", "fourier", "static", "ramps", "friction", "servo", "validation"])
def test_json_and_files(capsys, tmp_path, robot, method):
    out = tmp_path / "out.yaml"
    options = ["--method", method, "--time-budget", 0.3, "--poses", "3", "--seed", "3", "-o", out, "--json"]
    options += ["--only", "inertial"] if method == "points" else []
    code, text, _ = run(capsys, robot, *options, "--rehearsal", tmp_path / "slow.yaml", "--csv", tmp_path / "t.csv")
    assert code == 0
    result = json.loads(text)
    assert {"cond", "S", "duration", "rows", "use", "seconds"} <= set(result)
    assert set(result["use"]) == {"position", "velocity", "acceleration", "effort"}
    assert max(result["use"].values()) <= 0.95 + 1e-9
    trajectory, slow = load_trajectory(out), load_trajectory(tmp_path / "slow.yaml")
    assert trajectory.duration == pytest.approx(result["duration"])
    assert slow.duration == pytest.approx(5 * trajectory.duration)
    assert check_trajectory(load_robot(robot), trajectory, margin=0.05) == []
    assert (tmp_path / "t.csv").read_text().startswith("time,j1.position")


def test_pictures_and_a_table_for_people(capsys, tmp_path, robot):
    words = ["--time-budget", 0.3, "-o", tmp_path / "o.yaml", "--figures", tmp_path / "f.png"]
    code, text, _ = run(capsys, robot, *words)
    assert code == 0 and "condition number" in text
    assert all((tmp_path / f"f_{n}.png").stat().st_size > 5000 for n in ("motion", "singular_values", "parameters"))


def test_urdf_with_meshes_floor_and_caps(capsys, tmp_path):
    urdf = example_urdf("ur_description/urdf/ur5_robot.urdf")
    out = tmp_path / "o.yaml"
    arguments = [urdf, "--time-budget", 1, "--floor", "-0.2", "--max-position", "3", "--max-acceleration", "6"]
    code, text, _ = run(capsys, *arguments, "-o", out, "--json")
    result = json.loads(text)
    assert code == 0 and result["clearance"] >= 0.02 and result["exact_clearance"] > 0.0
    caps = Caps(position=3.0, acceleration=6.0)
    assert check_trajectory(load_robot(urdf), load_trajectory(out), margin=0.05, caps=caps) == []
    assert np.abs(load_trajectory(out).curve.extrema()[0]).max() <= 3.0


@pytest.mark.parametrize(
    ("change", "options", "word"),
    [
        (None, ["--start", "0,9,0"], "start pose"),
        (None, ["--start", "0,1"], "start pose"),
        (None, ["--margin", "1"], "margin"),
        (None, ["--max-effort", "1"], "stand"),
        (None, ["--max-velocity", "0"], "velocity"),
        (None, ["--time-budget", "0"], "budget"),
        (None, ["--rows", "3", "--method", "points", "--only", "inertial"], "rows"),
        (None, ["--seed", "-1"], "seed"),
        (None, ["--floor", "0"], "--collision"),
        (None, ["--rate", "0"], "rate"),
        (None, ["--max-position", "1e-9", "--time-budget", "0.5"], "does not excite"),
        (LIMITS, [], "no position limit"),
        ("velocity: 3.0", ["--method", "points"], "no velocity limit"),
    ],
)
def test_one_line_and_no_file(capsys, tmp_path, robot, change, options, word):
    if change:
        robot.write_text(ROBOT.replace(f", {change}", "").replace(f"{change},", ""))
    out = tmp_path / "o.yaml"
    code, text, err = run(capsys, robot, *options, "-o", out, "--json")
    assert code == 2 and json.loads(text) == {"error": err.strip()} and not out.exists()
    assert err.strip().count("\n") == 0 and word in err
