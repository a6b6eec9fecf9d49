# SPDX-License-Identifier: Apache-2.0

"""dynid mdh: JSON as promised, a table for people, one-line errors with exit code 2."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ros2_dynid.cli import main
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.mdh import mdh_transform
from ros2_dynid.model.robot import Joint
from urdf_text import joint, link, urdf


def run(capsys, *words):
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_json_holds_the_whole_chain(capsys):
    code, out, _ = run(capsys, "mdh", "demo6", "--json")
    data = json.loads(out)
    assert code == 0
    assert len(data["joints"]) == 6
    T = np.array(data["base"])
    for entry in data["joints"]:
        assert set(entry) >= {"name", "parent", "sigma", "gamma", "b", "alpha", "d", "theta", "r"}
        fields = {key: entry[key] for key in ("sigma", "gamma", "b", "alpha", "d", "theta", "r")}
        T = T @ mdh_transform(Joint(entry["name"], 0, **fields))
    tool = T @ np.array(data["tools"]["tool0"])
    np.testing.assert_allclose(tool[:3, 3], [0.03, 0.07, 0.12 + 0.2 + 0.42 + 0.38 + 0.09 + 0.035], atol=1e-12)
    np.testing.assert_allclose(tool[:3, :3], np.eye(3), atol=1e-12)
    assert data["joints"][0]["limits"]["acceleration"] == 8.0


def test_unknown_limits_are_null_and_notes_are_there(capsys, tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(urdf(link("base"), link("a"), joint("j", "base", "a", type="continuous", rpy="1.5708 0 0")))
    _, out, _ = run(capsys, "mdh", str(path), "--json")
    data = json.loads(out)
    assert data["joints"][0]["limits"]["upper"] is None
    assert any("rounded" in note for note in data["notes"])


def test_sub_chain_options(capsys, tmp_path):
    path = tmp_path / "arm.urdf"
    names = ["base", "a", "b", "c"]
    joints = [joint(f"j{i}", names[i - 1], names[i], xyz="0.1 0 0.2", axis="0 1 0") for i in (1, 2, 3)]
    path.write_text(urdf(*map(link, names), *joints))
    limits = tmp_path / "limits.yaml"
    limits.write_text("joint_limits: {j2: {max_acceleration: 5}}")
    options = ("--base-link", "a", "--tip-link", "c", "--hold", "j3=0.5", "--joint-limits", str(limits))
    _, out, _ = run(capsys, "mdh", str(path), *options, "--json")
    data = json.loads(out)
    assert [j["name"] for j in data["joints"]] == ["j2"]
    assert data["joints"][0]["limits"]["acceleration"] == 5
    assert data["tool_joints"] == {"c": 1}


@pytest.mark.parametrize("name", ["stanford", "hitachi_hpr", "tx40"])
def test_table_for_people(capsys, name):
    code, out, _ = run(capsys, "mdh", name)
    assert code == 0
    for number, entry in enumerate(load_robot(name).joints, start=1):
        assert entry.name in out
        assert str(number) in out


@pytest.mark.parametrize("hold", ["elbow", "=1", "elbow=", "elbow=fast", "elbow=nan"])
def test_hold_that_cannot_be_read(capsys, hold):
    code, out, err = run(capsys, "mdh", "demo6", "--hold", hold, "--json")
    assert code == 2 and json.loads(out) == {"error": err.strip()}
    assert err.count("\n") == 1
    assert "--hold" in err


def test_errors_are_one_line(capsys, tmp_path):
    path = tmp_path / "bad.urdf"
    path.write_text("no robot\n")
    code, out, err = run(capsys, "mdh", str(path), "--json")
    assert code == 2 and json.loads(out) == {"error": err.strip()}
    assert err.count("\n") == 1
    assert "bad.urdf" in err
