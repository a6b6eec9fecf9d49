# SPDX-License-Identifier: Apache-2.0

"""Which robot each entry of a fleet file is, and with which options its recordings are read."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from fleet_results import ROBOT
from ros2_dynid.errors import InputError
from ros2_dynid.fleet.fleet_file import MOST_ROBOTS, Member, load_fleet
from ros2_dynid.identification.options import Method
from ros2_dynid.model.load import find_robot_file

URDF = find_robot_file("demo6").with_suffix(".urdf")


def fleet(folder: Path, text: str) -> list[Member]:
    (folder / "fleet.yaml").write_text(text)
    return load_fleet(folder / "fleet.yaml")


def test_each_robot_has_its_own_sub_chain_joints_held_and_gravity(tmp_path):
    text = f"""
defaults: {{robot: '{URDF}', recordings: a}}
robots:
  - {{id: whole}}
  - {{id: tip, tip_link: forearm}}
  - {{id: base, base_link: upper_arm}}
  - {{id: both, base_link: upper_arm, tip_link: forearm}}
  - {{id: held, hold: {{wrist_3: 0.3}}}}
  - {{id: turned, hold: {{wrist_3: 0.4}}}}
  - {{id: wall, gravity: [0, 9.5, 0]}}
  - {{id: moon, gravity: [0, 0, -1.6]}}
  - {{id: again, hold: {{wrist_3: 0.3}}}}
"""
    found = {one.id: one.robot for one in fleet(tmp_path, text)}
    names = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
    active = {name: robot.active_names for name, robot in found.items()}
    assert active["whole"] == active["wall"] == names and active["held"] == active["turned"] == names[:5]
    assert active["tip"] == names[:3] and active["base"] == names[2:] and active["both"] == names[2:3]
    np.testing.assert_allclose(found["wall"].gravity, [0.0, 9.5, 0.0])
    np.testing.assert_allclose(found["moon"].gravity, [0.0, 0.0, -1.6])
    np.testing.assert_allclose(found["held"].gravity, found["whole"].gravity)
    assert found["again"] is found["held"] is not found["turned"], "the same robot is loaded once"
    held = [
        sum(robot.parameters[f"{one}5"] ** 2 for one in ("XX", "YY")) for robot in map(found.get, ("held", "whole"))
    ]
    assert held[0] > held[1], "what is held is carried by the last joint that moves"


def test_what_a_fleet_file_names_lies_beside_it(tmp_path, monkeypatch):
    (tmp_path / "arms").mkdir()
    (tmp_path / "bags/one").mkdir(parents=True)
    shutil.copy(URDF, tmp_path / "arms/mine.urdf")
    monkeypatch.chdir("/")
    (one,) = fleet(tmp_path, "{defaults: {robot: arms/mine.urdf}, folders: bags}")
    assert len(one.robot.active) == 6 and one.folder == tmp_path / "bags/one"
    with pytest.raises(InputError, match="nowhere"):
        fleet(tmp_path, "{defaults: {robot: arms/nowhere.urdf}, folders: bags}")


def test_gains_beside_the_options_count_before_those_inside(tmp_path):
    inside = "options: {preparation: {gains: {waist: 2.0, elbow: 5.0}, row_cutoff: 7.0}, method: ols}"
    text = f"robots: [{{id: a, robot: demo3, recordings: x, gains: {{waist: 3.0, shoulder: 4.0}}, {inside}}}]"
    (one,) = fleet(tmp_path, text)
    assert dict(one.options.preparation.gains) == {"waist": 3.0, "elbow": 5.0, "shoulder": 4.0}
    assert one.options.preparation.row_cutoff == 7.0 and one.options.method is Method.OLS


@pytest.mark.parametrize("method", list(Method))
def test_methods_that_need_no_more_than_r_factors(tmp_path, method):
    text = f"robots: [{{id: a, robot: demo3, recordings: x, options: {{method: {method}}}}}]"
    if method.value in ("wls", "ols", "sequential", "recursive"):
        assert fleet(tmp_path, text)[0].options.method is method
    else:
        with pytest.raises(InputError, match=f"{method} needs all rows at once; choose from wls, ols, seq"):
            fleet(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("robots: [{id: a, robot: demo3, recordings: [x], kind: 3}]", r"robots\[0\]\.kind is 3"),
        ("robots: [{id: a, robot: demo3, recordings: x}, {id: b, recordings: x}]", r"'robots\[1\]\.robot' is missing"),
        ("robots: [{id: a, robot: demo3, recordings: x, gravity: [0, .nan, 1]}]", "gravity"),
        ("{defaults: {gains: 3}, robots: [{id: a, robot: demo3, recordings: x, gains: {}}]}", "gains is '3'"),
        ("robots: [{id: -a, robot: demo3, recordings: x}]", "'-a' is not a valid folder name"),
        ("robots: [{id: a b, robot: demo3, recordings: x}]", "'a b' is not a valid folder name"),
    ],
)
def test_a_refusal_says_where_in_which_file(tmp_path, text, line):
    with pytest.raises(InputError, match=line) as caught:
        fleet(tmp_path, text)
    assert caught.value.source == str(tmp_path / "fleet.yaml")


def test_defaults_hold_for_all_robots_and_a_robot_has_the_last_word(tmp_path):
    for name in ("one", "two", ".hidden"):
        (tmp_path / "bags" / name).mkdir(parents=True)
    (tmp_path / "bags/file.txt").touch()
    text = """
defaults: {robot: demo3, kind: arm, gains: {waist: 2.0, upper: 3.0}, options: {friction: stribeck, standard: true},
           validate: check}
robots:
  - {id: cell1, recordings: a.mcap, gains: {upper: 4.0}, options: {friction: load}}
  - {id: cell2, recordings: [b, c], kind: other, gravity: [0, 0, 9.0], robot: demo3}
folders: [bags]
"""
    text = text.replace("waist", ROBOT.active_names[0]).replace("upper", ROBOT.active_names[1])
    cell1, cell2, one, two = fleet(tmp_path, text)
    assert [m.id for m in (cell1, cell2, one, two)] == ["cell1", "cell2", "one", "two"]
    assert cell1.recordings == ("a.mcap",) and cell1.validate == ("check",) and cell1.folder is None
    assert cell2.recordings == ("b", "c") and (cell1.kind, cell2.kind, one.kind) == ("arm", "other", "arm")
    assert cell1.options.friction == "load" and cell1.options.standard and cell2.options.friction == "stribeck"
    first, second = ROBOT.active_names[:2]
    assert dict(cell1.options.preparation.gains) == {first: 2.0, second: 4.0}
    assert dict(two.options.preparation.gains) == {first: 2.0, second: 3.0}
    assert one.folder == tmp_path / "bags/one" and two.folder == tmp_path / "bags/two" and one.recordings == ()
    assert one.robot is cell1.robot and cell2.robot is not cell1.robot
    np.testing.assert_allclose(np.abs(cell2.robot.gravity).max(), 9.0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{robot: demo3}", "unknown field 'robot'"),
        ("{defaults: {id: a}, robots: []}", "unknown field 'defaults.id'"),
        ("{defaults: [1], robots: []}", "defaults is"),
        ("{robots: none}", "robots is not a list"),
        ("{robots: [7]}", r"robots\[0\] is '7'"),
        ("{folders: 7}", "folders is not a list"),
        ("{folders: [[a]]}", "folders is not a list"),
        ("{folders: nowhere}", "no such folder"),
        ("{robots: [{id: '', robot: demo3, recordings: a}]}", "not a valid folder name"),
        ("{robots: [{id: .., robot: demo3, recordings: a}]}", "not a valid folder name"),
        ("{robots: [{id: a, robot: demo3, recordings: a, gravity: [1, 2]}]}", "gravity"),
        ("{robots: [{id: a, robot: demo3, recordings: a, options: 3}], defaults: {options: {}}}", "options is '3'"),
    ],
)
def test_other_wrong_fleet_files_are_refused(tmp_path, text, line):
    with pytest.raises(InputError, match=line):
        fleet(tmp_path, text)


def test_names_have_a_length_and_fleets_a_size(tmp_path, monkeypatch):
    fleet(tmp_path, f"robots: [{{id: {'a' * 80}, robot: demo3, recordings: a}}]")
    with pytest.raises(InputError, match="not a valid folder name"):
        fleet(tmp_path, f"robots: [{{id: {'a' * 81}, robot: demo3, recordings: a}}]")
    assert MOST_ROBOTS >= 100_000
    monkeypatch.setattr("ros2_dynid.fleet.fleet_file.MOST_ROBOTS", 1)
    fleet(tmp_path, "robots: [{id: a, robot: demo3, recordings: a}]")
    with pytest.raises(InputError, match="robots is not a list"):
        fleet(tmp_path, "robots: [{id: a, robot: demo3, recordings: a}, {id: b, robot: demo3, recordings: a}]")
