# SPDX-License-Identifier: Apache-2.0

"""Efforts of the motor and of the link: declared, found by comparison, and what the model's torques are then."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.cli import main
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.loads.from_recordings import identify_payload
from ros2_dynid.identification.model_file import load_model, save_model
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.efforts import DRIVE, declared_sensors, parse_sensor, sensor_name
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import by_joint, standard_names, unmeasured_parameters
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples, cut
from ros2_dynid.sim.truth import true_parameters

PANDA = Path(__file__).parents[3] / "shared" / "data" / "panda30"
OPTIONS = IdentifyOptions(checks=False, prior="none")


@cache
def plant():
    """Return the robot and its true parameters with rotor inertia and friction."""
    robot = load_robot("demo6")
    return robot, true_parameters(robot, 3)


def at_link(chi, measured_drive=()):
    """Return true parameters without those of the drives that a sensor at the link does not feel."""
    robot = plant()[0]
    out = chi.copy()
    for part in DRIVE:
        if part not in measured_drive:
            by_joint(robot, out)[:, 10 + DRIVE.index(part)] = 0.0
    return out


@cache
def motion(seed, seconds=15.0):
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1.0 / 200.0)
    w = 2.0 * np.pi * np.array([0.1, 0.17, 0.29, 0.41, 0.53])
    a, phase = rng.normal(0.0, 0.5, (5, 6)) / np.arange(1, 6)[:, None], rng.uniform(0.0, 2 * np.pi, (5, 6))
    angle = w[:, None] * t[:, None, None] + phase
    q, dq, ddq = (
        np.sum(a * f, axis=1) for f in (np.sin(angle), w[:, None] * np.cos(angle), -(w[:, None] ** 2) * np.sin(angle))
    )
    return t, q, dq, ddq


def recorded(chi, seed, noise=0.01):
    robot = plant()[0]
    t, q, dq, ddq = motion(seed)
    rng = np.random.default_rng(seed)
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    tau = tau + noise * tau.std(axis=0) * rng.standard_normal(tau.shape)
    return Samples(t, robot.active_names, q + 5e-6 * rng.standard_normal(q.shape), tau=tau)


@pytest.mark.parametrize(
    ("text", "measured_drive"), [("motor", DRIVE), ("link", ()), ("link+Fc", ("Fc",)), ("link+Fc+Ia", ("Ia", "Fc"))]
)
def test_names_of_sensors(text, measured_drive):
    assert parse_sensor(text).drive == measured_drive
    assert parse_sensor(sensor_name(measured_drive)).drive == measured_drive


@pytest.mark.parametrize("text", ["", "gear", "motor+Fc", "link+Fx", "link+Fc+Fc", "joint1=", "nose=link"])
def test_unknown_sensors_are_refused(text):
    with pytest.raises(InputError):
        identify(plant()[0], [recorded(plant()[1], 1)], options=replace(OPTIONS, sensor=text))


def test_base_parameters_at_the_link_are_those_without_drives():
    robot, chi = plant()
    linked = declared_sensors(robot, "link")
    found = base_parameters(linked, method="closed-form")
    expected = base_parameters(robot, method="qr", groups=("inertial", "offset"))
    assert found.leaders == expected.leaders and np.allclose(
        found.M @ np.ones(found.M.shape[1]), expected.M @ np.ones(found.M.shape[1])
    )
    assert not {name[:2] for name in found.leaders} & {"Ia", "Fv", "Fc"}
    # identity: their torque is that of the links alone
    _, q, dq, ddq = motion(1)
    value = np.zeros(len(standard_names(robot)))
    value[found.columns(linked)] = found.values(linked, chi)
    assert np.allclose(inverse_dynamics(linked, value, q, dq, ddq), inverse_dynamics(robot, at_link(chi), q, dq, ddq))


def test_a_robot_file_keeps_its_sensors():
    robot = declared_sensors(
        load_robot("demo6"),
        "elbow=link+Fc" if "elbow" in plant()[0].active_names else f"{plant()[0].active_names[2]}=link+Fc",
    )
    again = robot_from_dict(robot_to_dict(robot), "file")
    assert [joint.measured_drive for joint in again.joints] == [joint.measured_drive for joint in robot.joints]
    assert unmeasured_parameters(again) == {"Ia3", "Fv3"}
    data = robot_to_dict(robot)
    data["joints"][0]["sensor"] = "gear"
    with pytest.raises(InputError, match="sensor is 'gear'"):
        robot_from_dict(data, "file")


def test_sensors_of_coupled_motors_are_refused():
    robot = load_robot("tx40")
    with pytest.raises(InputError, match="coupled motor"):
        declared_sensors(robot, "link")


def test_efforts_at_the_link_are_noticed_and_used_if_asked_for(tmp_path):
    robot, chi = plant()
    samples = recorded(at_link(chi), 1)
    told = identify(robot, [samples], options=OPTIONS).outcome
    assert {row.found for row in told.sensors.values()} == {"link"} and {row.used for row in told.sensors.values()} == {
        "motor"
    }
    assert any("torque sensors at the links" in str(remark.text) for remark in told.verdict)
    found = identify(robot, [samples], options=replace(OPTIONS, sensor="found"), validate=[recorded(at_link(chi), 2)])
    assert {row.used for row in found.outcome.sensors.values()} == {"link"}
    assert found.outcome.validation["all"].relative < 0.02
    assert not any("torque sensors" in str(remark.text) for remark in found.outcome.verdict)
    # the model keeps what its torques are, also in its file
    save_model(found.model, tmp_path / "model.yaml")
    again = load_model(tmp_path / "model.yaml")
    assert unmeasured_parameters(again.robot) == unmeasured_parameters(found.model.robot) != frozenset()
    _, q, dq, ddq = motion(2)
    link = inverse_dynamics(robot, at_link(chi), q, dq, ddq)
    assert np.linalg.norm(again.torque(q, dq, ddq) - link) < 0.01 * np.linalg.norm(link)


def test_efforts_of_motors_are_not_taken_for_others():
    robot, chi = plant()
    told = identify(robot, [recorded(chi, 1)], options=OPTIONS).outcome
    assert {row.found for row in told.sensors.values()} == {"motor"} and all(row.clear for row in told.sensors.values())
    assert not any("torque sensors" in str(remark.text) for remark in told.verdict)


def test_a_part_beyond_the_sensor_is_found():
    robot, chi = plant()
    found = identify(
        robot, [recorded(at_link(chi, ("Fc",)), 1)], options=replace(OPTIONS, sensor="found", friction=PLAIN)
    )
    assert {row.used for row in found.outcome.sensors.values()} == {"link+Fc"}


def test_friction_terms_beyond_a_sensor_are_refused():
    robot, chi = plant()
    name = robot.active_names[1]
    options = replace(OPTIONS, sensor=f"{name}=link", friction=f"{name}=load")
    with pytest.raises(InputError, match="measured at the link"):
        identify(robot, [recorded(at_link(chi), 1)], options=options)


def test_sensors_are_not_looked_for_beside_a_load():
    robot, chi = plant()
    samples = recorded(chi, 1)
    with pytest.raises(InputError, match="not looked for"):
        identify_payload(robot, [samples], [samples], options=replace(OPTIONS, sensor="found"))


@pytest.mark.skipif(not PANDA.is_dir(), reason="no recordings of real robots")
def test_a_real_robot_with_torque_sensors(tmp_path, capsys):
    robot = load_robot(PANDA / "robot.urdf")
    samples = load_samples(PANDA / "run.db3", robot)
    split = float(samples.t[0] + 2.0 / 3.0 * np.ptp(samples.t))
    parts = cut(samples, None, split), cut(samples, split, None)
    told = {}
    for sensor in ("motor", "link", "found"):
        options = replace(OPTIONS, sensor=sensor)
        told[sensor] = identify(robot, parts[:1], options=options, validate=parts[1:]).outcome
    assert {row.used for row in told["found"].sensors.values()} == {"link+Fc"}
    held_out = {sensor: outcome.validation["all"].relative for sensor, outcome in told.items()}
    assert held_out["found"] < held_out["motor"] < held_out["link"]
    # and on the command line
    command = [
        "identify",
        str(PANDA / "robot.urdf"),
        str(PANDA / "run.db3"),
        "--sensor",
        "found",
        "--prior",
        "none",
        "--json",
    ]
    assert main(command) == 0
    said = json.loads(capsys.readouterr().out)
    assert {row["used"] for row in said["sensors"].values()} == {"link+Fc"}
