# SPDX-License-Identifier: Apache-2.0

"""Efforts at the motors and torques at the links in one fit."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.cli import main
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction import PLAIN
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.model.efforts import declared_sensors
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import by_joint
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples
from ros2_dynid.recording.torque_topic import with_torques
from ros2_dynid.sim.truth import true_parameters

OPTIONS = IdentifyOptions(checks=False, prior="none", friction=PLAIN)
BIAS = 0.4


@cache
def plant():
    robot = load_robot("demo6")
    return robot, true_parameters(robot, 3)


@cache
def recorded(seed, noise=0.02, link_noise=0.004, seconds=12.0):
    """Return efforts of motors and of sensors at the links, which are finer, a bias beside them."""
    robot, chi = plant()
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1.0 / 200.0)
    w = 2.0 * np.pi * np.array([0.13, 0.19, 0.29, 0.41, 0.53])
    a, phase = rng.normal(0.0, 0.5, (5, 6)) / np.arange(1, 6)[:, None], rng.uniform(0.0, 2 * np.pi, (5, 6))
    angle = w[:, None] * t[:, None, None] + phase
    shapes = (np.sin(angle), w[:, None] * np.cos(angle), -(w[:, None] ** 2) * np.sin(angle))
    q, dq, ddq = (np.sum(a * shape, axis=1) for shape in shapes)
    links = chi.copy()
    by_joint(robot, links)[:, 10:] = 0.0
    tau, tau_l = (inverse_dynamics(robot, x, q, dq, ddq) for x in (chi, links))
    tau = tau + noise * tau.std(axis=0) * rng.standard_normal(tau.shape)
    tau_l = tau_l + BIAS + link_noise * tau_l.std(axis=0) * rng.standard_normal(tau.shape)
    noisy = q + 5e-6 * rng.standard_normal(q.shape)
    return Samples(t, robot.active_names, noisy, tau=tau, tau_l=tau_l)


def test_both_together_are_better_than_either_and_tell_rotors_apart():
    robot, chi = plant()
    truth = base_parameters(robot, method="closed-form").values(robot, chi)
    samples = recorded(1)
    both = identify(robot, [samples], options=OPTIONS)
    alone = identify(robot, [replace(samples, tau_l=None)], options=OPTIONS)
    assert both.model.leaders == alone.model.leaders
    errors = [(found.model.value - truth) / alone.model.std for found in (both, alone)]
    assert np.sqrt(np.mean(errors[0] ** 2)) < 0.7 * np.sqrt(np.mean(errors[1] ** 2))
    assert np.mean(np.abs(both.model.value - truth) < 3.0 * both.model.std) > 0.95
    assert np.median(both.model.std / alone.model.std) < 0.7
    # the rotor of the first joint, which no effort alone tells from ZZ1
    assert "Ia1" not in both.model.leaders
    for j, (name, row) in enumerate(both.outcome.second.items()):
        assert row.sensor == "link" and abs(row.bias - BIAS) < 4.0 * row.bias_std
        for part, place in (("Ia", 10), ("Fv", 11), ("Fc", 12)):
            true = by_joint(robot, chi)[j, place]
            assert abs(row.drive[part] - true) < 5.0 * row.drive_std[part] and row.drive_std[part] < 0.1 * true, name


def test_rows_of_both_are_the_two_models():
    """Without noise the stacked regressor reproduces both streams: an identity for any motion."""
    robot, _ = plant()
    problem = build_problem(robot, [recorded(2, 0.0, 0.0)], OPTIONS, lambda *_: None)
    assert problem.second is not None
    found = problem.second.estimate()
    for j in range(problem.second.information.n):
        R, columns = problem.second.information.triangle(j), problem.second.information.columns[j]
        assert np.linalg.norm(R[:, -1] - R[:, :-1] @ found.value[columns]) < 2e-3 * np.linalg.norm(R[:, -1])
    inertial = base_parameters(robot, method="closed-form", groups=("inertial",))
    drives = {f"{part}{j}" for part in ("Ia", "Fv", "Fc", "off") for j in range(1, 7)}
    assert set(problem.second.base.leaders) == set(inertial.leaders) | drives


def test_the_torque_at_the_link_is_served_if_that_is_wanted():
    robot, chi = plant()
    found = identify(robot, [recorded(1)], options=replace(OPTIONS, sensor="link"))
    links = chi.copy()
    by_joint(robot, links)[:, 10:] = 0.0
    rng = np.random.default_rng(5)
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 50, 6))
    expected = inverse_dynamics(robot, links, q, dq, ddq) + BIAS
    assert np.linalg.norm(found.model.torque(q, dq, ddq) - expected) < 0.02 * np.linalg.norm(expected)
    assert {row.sensor for row in found.outcome.second.values()} == {"motor"}


def test_consistent_parameters_use_both():
    robot, chi = plant()
    found = identify(robot, [recorded(1)], options=replace(OPTIONS, consistent=True, cross_validate=0))
    assert found.model.serve == "consistent"
    row = found.outcome.second[robot.active_names[0]]
    assert abs(found.model.consistent["Ia1"] - chi[10]) < 4.0 * row.drive_std["Ia"] < 0.2 * chi[10]


def test_some_joints_may_have_a_sensor():
    robot, _ = plant()
    samples = recorded(1)
    partly = samples.tau_l.copy()
    partly[:, 3:] = np.nan
    found = identify(robot, [replace(samples, tau_l=partly)], options=OPTIONS)
    assert list(found.outcome.second) == list(robot.active_names[:3])


@pytest.mark.parametrize(
    "change",
    [{"method": Method.IRLS}, {"essential": True}, {"prior": "urdf"}],
)
def test_what_is_not_right_for_both_is_refused(change):
    robot, _ = plant()
    with pytest.raises(InputError, match="fitted together"):
        identify(robot, [recorded(1)], options=replace(OPTIONS, **change))


def test_torques_at_the_links_alone_must_be_declared():
    robot, _ = plant()
    samples = replace(recorded(1), tau=None)
    with pytest.raises(InputError, match="no efforts of motors"):
        identify(robot, [samples], options=OPTIONS)
    found = identify(declared_sensors(robot, "link"), [samples], options=OPTIONS)
    assert found.outcome.fit["all"].relative < 0.01 and not found.outcome.second


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_a_table_has_columns_of_both(tmp_path, capsys, ending):
    samples = recorded(1)
    path = tmp_path / f"run.{ending}"
    save_samples(samples, path)
    again = load_samples(path, plant()[0])
    assert np.allclose(again.tau_l, samples.tau_l)
    if ending == "csv":
        assert f"{samples.joint_names[0]}.torque" in path.read_text().splitlines()[0]
        assert main(["identify", "demo6", str(path), "--friction", PLAIN, "--no-checks", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert set(said["second"]) == set(samples.joint_names)


def test_torques_of_another_topic_come_at_the_times_of_the_efforts():
    samples = recorded(1)
    torques = replace(samples, t=samples.t[::2], q=samples.q[::2], tau=samples.tau_l[::2], tau_l=None)
    efforts = replace(samples, tau_l=None)
    pieces = [efforts.take(slice(0, 1000)), efforts.take(slice(1000, None))]
    halves = [torques.take(slice(0, 300)), torques.take(slice(300, None))]
    halves = [replace(part, t=part.t - 1.0, start_ns=10**9) for part in halves]
    joined = np.concatenate([part.tau_l for part in with_torques(iter(pieces), iter(halves), "bag")])
    known = np.isfinite(joined).all(axis=1)
    assert known.mean() > 0.99
    assert np.allclose(joined[::2][known[::2]], samples.tau_l[::2][known[::2]])
    other = [replace(part, joint_names=tuple(f"x{k}" for k in range(6))) for part in halves]
    with pytest.raises(InputError, match="no efforts of the robot's joints"):
        list(with_torques(iter(pieces), iter(other), "bag"))
