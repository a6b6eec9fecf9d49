# SPDX-License-Identifier: Apache-2.0

"""Trajectory files: exact after reading back, a JointTrajectory for every reader, damaged ones refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import yaml
from rosbags.typesys import Stores, get_typestore

from ros2_dynid.errors import InputError
from ros2_dynid.excitation.fourier import FourierSeries, rest_basis
from ros2_dynid.excitation.quintic import accelerations_of, through_points
from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory, rehearsal, save_trajectory, to_message

NAMES = ("shoulder.pan", "elbow")


def fourier() -> Trajectory:
    c = (rest_basis(5) @ np.random.default_rng(0).normal(size=(9, 2))).T
    return Trajectory(NAMES, FourierSeries(4.0, c[:, 0], c[:, 1:6], c[:, 6:], 2), "fourier")


def quintic() -> Trajectory:
    rng = np.random.default_rng(1)
    q, dq = rng.normal(size=(2, 5, 2))
    dq[[0, -1]] = 0.0
    return Trajectory(NAMES, through_points(np.array([0.0, 0.7, 1.9, 2.5, 4.001]), q, dq), "points")


@pytest.mark.parametrize("make", [fourier, quintic])
@pytest.mark.parametrize("rate", [10.0, 125.0, 33.3])
def test_read_back_exactly_at_any_rate(tmp_path, make, rate):
    trajectory = make()
    save_trajectory(tmp_path / "t.yaml", trajectory, rate)
    again = load_trajectory(tmp_path / "t.yaml")
    assert again.joint_names == NAMES and again.kind == trajectory.kind and again.duration == trajectory.duration
    for a, b in zip(vars(again.sample(997.0)).values(), vars(trajectory.sample(997.0)).values(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [p.name for p in tmp_path.iterdir()] == ["t.yaml"]


def test_samples_start_at_zero_and_end_at_the_end():
    s = quintic().sample(10.0)
    assert s.t[0] == 0.0 and s.t[-1] == 4.001 and np.all(np.diff(s.t) > 0)
    np.testing.assert_allclose(s.dq[[0, -1]], 0.0, atol=1e-12)
    assert len(fourier().sample(50.0).t) == 401
    for rate in (0.1, 0.7, 3.0, 7.0, 24.9, 25.1, 400.0, 1000.0):  # as even as can be, whatever is left for the last one
        for made in (quintic(), fourier()):
            t = made.sample(rate).t
            count = math.ceil(made.duration * rate - 1e-9)
            np.testing.assert_allclose(t, [*(np.arange(count) / rate), made.duration], rtol=0.0, atol=1e-12)


def test_file_has_the_fields_of_the_message_and_no_other(tmp_path):
    save_trajectory(tmp_path / "t.yaml", fourier(), 20.0)
    message = yaml.safe_load((tmp_path / "t.yaml").read_text())
    store = get_typestore(Stores.ROS2_JAZZY)
    definition = {
        name: [field[0] for field in store.fielddefs[name][1]]
        for name in ("trajectory_msgs/msg/JointTrajectory", "trajectory_msgs/msg/JointTrajectoryPoint")
    }
    assert set(message) <= set(definition["trajectory_msgs/msg/JointTrajectory"])
    assert all(set(p) <= set(definition["trajectory_msgs/msg/JointTrajectoryPoint"]) for p in message["points"])
    assert all(set(p["time_from_start"]) == {"sec", "nanosec"} for p in message["points"])
    times = [p["time_from_start"]["sec"] + 1e-9 * p["time_from_start"]["nanosec"] for p in message["points"]]
    assert np.all(np.diff(times) > 0) and message["points"][-1]["velocities"] == [0.0, 0.0]


def test_points_rule_over_the_comment(tmp_path):
    file = tmp_path / "t.yaml"
    save_trajectory(file, quintic(), 50.0)
    lines = file.read_text().splitlines()
    point = json.loads(lines[20].removeprefix("- "))
    point["positions"][0] += 0.01
    lines[20] = f"- {json.dumps(point)}"
    file.write_text("\n".join(lines))
    again = load_trajectory(file)
    t = np.array([point["time_from_start"]["sec"] + 1e-9 * point["time_from_start"]["nanosec"]])
    assert again.kind == "file"
    assert again.at(t).q[0, 0] == pytest.approx(point["positions"][0], abs=1e-12)


def test_foreign_trajectory_without_accelerations(tmp_path):
    message = to_message(quintic(), 50.0)
    for p in message["points"]:
        del p["accelerations"]
    (tmp_path / "t.json").write_text(json.dumps(message))
    again = load_trajectory(tmp_path / "t.json")
    between = np.arange(0.05, quintic().duration - 0.05, 0.013)
    found, true = again.at(between), quintic().at(between)
    np.testing.assert_allclose(found.q, true.q, atol=1e-5)
    np.testing.assert_allclose(found.ddq, true.ddq, atol=0.02 * np.abs(true.ddq).max())


def test_accelerations_of_a_parabola_are_exact_and_points_of_rest_have_none():
    t = np.array([0.0, 0.3, 1.0, 1.2, 2.0])
    q, dq = np.stack((t**2, -3 * t**2), axis=1), np.stack((2 * t, -6 * t), axis=1)
    ddq = accelerations_of(t, q, dq)
    np.testing.assert_allclose(ddq[1:-1], np.tile([2.0, -6.0], (3, 1)), atol=1e-12)
    assert np.all(ddq[[0, -1]] == 0)
    dq[2] = 0.0
    assert np.all(accelerations_of(t, q, dq)[2] == 0) and np.any(accelerations_of(t, q, dq)[1] != 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2",
        "joint_names: [a]",
        "joint_names: [a]\npoints: []",
        "joint_names: [a]\npoints: [{positions: [1]}, {positions: [2]}]",
        "joint_names: 3\npoints: [1, 2]",
        "\x00\x01",
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, text):
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        load_trajectory(tmp_path / "t.yaml")
    assert "\n" not in str(error.value) and "t.yaml" in str(error.value)


def test_not_finite_or_backwards_points_are_refused(tmp_path):
    message = to_message(quintic(), 50.0)
    message["points"][3]["positions"][1] = float("nan")
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(message))
    message = to_message(quintic(), 50.0)
    message["points"][3]["time_from_start"] = {"sec": 0, "nanosec": 0}
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(message))
    for name in ("a.yaml", "b.yaml"):
        with pytest.raises(InputError):
            load_trajectory(tmp_path / name)


def test_csv_has_the_columns_of_a_log(tmp_path):
    save_trajectory(tmp_path / "t.csv", quintic(), 100.0)
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0].startswith("time,shoulder.pan.position,shoulder.pan.velocity,shoulder.pan.acceleration,elbow.pos")
    data = np.loadtxt(tmp_path / "t.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(data[:, [1, 4]], quintic().sample(100.0).q)


def test_rehearsal_is_the_same_path_slower():
    fast, slow = fourier(), rehearsal(fourier(), 0.25)
    assert slow.duration == pytest.approx(4 * fast.duration) and slow.kind == "rehearsal"
    t = np.linspace(0, fast.duration, 50)
    np.testing.assert_allclose(slow.at(4 * t).q, fast.at(t).q, atol=1e-12)
    np.testing.assert_allclose(slow.at(4 * t).dq, 0.25 * fast.at(t).dq, atol=1e-12)
    with pytest.raises(InputError):
        rehearsal(fast, 0.0)


def test_an_unwritable_place_leaves_nothing_behind(tmp_path):
    with pytest.raises(OSError):
        save_trajectory(tmp_path / "no" / "t.yaml", fourier())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["t.yaml", "t.csv"])
def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path, monkeypatch, name):
    file = tmp_path / name
    save_trajectory(file, fourier(), 10.0)
    before = file.read_text()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ros2_dynid.atomic.sync", full)
    with pytest.raises(OSError, match="No space"):
        save_trajectory(file, quintic(), 10.0)
    assert file.read_text() == before and [path.name for path in tmp_path.iterdir()] == [name]
    monkeypatch.undo()
    save_trajectory(file, quintic(), 10.0)
    assert file.read_text() != before
