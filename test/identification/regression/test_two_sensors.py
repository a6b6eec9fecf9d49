# SPDX-License-Identifier: Apache-2.0

"""Two efforts of a joint in one fit: least squares on the rows of both."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.cli import main
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.two_sensors import drive_values, second_errors, two_sensors
from ros2_dynid.model.efforts import MeasuredEffort, declared_sensors
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import by_joint, standard_vector
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples
from ros2_dynid.recording.torque_topic import with_torques
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 4)
LINKS = CHI.copy()
by_joint(ROBOT, LINKS)[:, 10:] = 0.0
BIAS = np.array([0.3, -0.2, 0.1])


def motion(seed, count=600):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (3, count, 3))


# --- efforts at the motors and at the links


@cache
def both(count=2, noise=1e-3, missing=False):
    """Return recordings whose second stream is the torque at the links of joints 1 and 3, the last one's only there."""
    found = []
    for k in range(count):
        q, dq, ddq = motion(10 + k)
        rng = np.random.default_rng(20 + k)
        tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq) + noise * rng.normal(size=q.shape)
        second = inverse_dynamics(ROBOT, LINKS, q, dq, ddq) + BIAS + 0.2 * noise * rng.normal(size=q.shape)
        second[:, 1] = np.nan
        if missing and k == 0:
            second[:, 0] = np.nan
        found.append(replace(as_prepared(ROBOT, q, dq, ddq, tau), second=second))
    return tuple(found)


def two(prepared, terms=()):
    information = build_information(ROBOT, BASE, prepared, delay=False, terms=terms)
    return information, two_sensors(ROBOT, BASE, prepared, information.layout, terms)


@pytest.mark.parametrize("missing", [False, True])
def test_both_streams_in_one_fit_are_least_squares_on_the_rows_of_both(missing):
    prepared = both(missing=missing)
    information, found = two(prepared)
    assert found.joints == (0, 2) and found.information.n == 5 and found.layout == information.layout
    count = sum(len(p.t) for p in prepared)
    assert list(found.information.rows) == [count, count, count, count - (600 if missing else 0), count]
    columns = found.base.columns(ROBOT)
    links = np.array([not name.startswith(("Ia", "Fv", "Fc", "off")) for name in found.base.leaders])
    estimate = found.estimate()
    A, y = [], []
    for p in prepared:
        Y = regressor(ROBOT, p.q, p.dq, p.ddq)[:, :, columns]
        for j in range(3):
            A.append(np.column_stack((Y[:, j], np.zeros((len(p.t), 2)))) / estimate.sigma[j])
            y.append(p.tau[:, j] / estimate.sigma[j])
        for i, j in enumerate((0, 2)):
            if np.isfinite(p.second[0, j]):
                bias = np.tile(np.arange(2) == i, (len(p.t), 1))
                A.append(np.column_stack((Y[:, j] * links, bias)) / estimate.sigma[3 + i])
                y.append(p.second[:, j] / estimate.sigma[3 + i])
    value = np.linalg.lstsq(np.vstack(A), np.concatenate(y), rcond=None)[0]
    np.testing.assert_allclose(estimate.value, value, atol=1e-6)
    np.testing.assert_allclose(estimate.value[-2:], BIAS[[0, 2]], atol=1e-3)
    np.testing.assert_allclose(estimate.sigma, [1e-3] * 3 + [2e-4] * 2, rtol=0.1)
    fit = found.fit(None)
    truth = BASE.values(ROBOT, CHI)
    np.testing.assert_allclose(fit.base, truth, atol=1e-3)
    error = (fit.base - truth) / fit.base_std
    assert 0.4 < np.sqrt(np.mean(error**2)) < 1.6 and fit.identified.all()
    np.testing.assert_allclose(fit.covariance, found.back @ estimate.covariance @ found.back.T)
    np.testing.assert_array_equal(fit.sigma, estimate.sigma[:3])
    half = found.fit(range(20, 60))
    assert not np.allclose(half.base, fit.base, atol=1e-12) and np.allclose(half.base, truth, atol=5e-3)


def test_friction_terms_are_felt_by_the_motor_of_their_joint_alone():
    terms = (FrictionTerm(3, FrictionKind.CUBIC), FrictionTerm(1, FrictionKind.ROOT))
    prepared = tuple(
        replace(p, tau=p.tau + np.column_stack((0.4 * np.sign(p.dq[:, 0]) * np.sqrt(np.abs(p.dq[:, 0])),
                                               np.zeros(len(p.t)), 0.7 * p.dq[:, 2] ** 3)))
        for p in both()
    )  # fmt: skip
    _, found = two(prepared, terms)
    assert found.fit(None).friction == pytest.approx([0.7, 0.4], abs=2e-3)
    np.testing.assert_allclose(found.fit(None).base, BASE.values(ROBOT, CHI), atol=3e-3)


def test_each_stream_has_a_delay_of_its_own():
    rng = np.random.default_rng(6)
    t = np.arange(0.0, 15.0, 0.005)
    amplitude, phase = rng.uniform(0.1, 0.4, (3, 5)), rng.uniform(0.0, 6.3, (3, 5))
    w = 2.0 * np.pi * np.array([0.1, 0.25, 0.4, 0.6, 0.9])

    def at(time):
        angle = np.multiply.outer(time, w)[:, None] + phase
        return [np.sum(amplitude * w**k * np.sin(angle + k * np.pi / 2), axis=2) for k in range(3)]

    tau, torque = inverse_dynamics(ROBOT, CHI, *at(t - 0.002)), inverse_dynamics(ROBOT, LINKS, *at(t - 0.005)) + BIAS
    samples = Samples(t, ROBOT.active_names, at(t)[0], tau=tau, tau_l=torque)
    prepared = (prepare(ROBOT, samples, PreparationOptions(position_cutoff=20.0, row_cutoff=4.0)),)
    information = build_information(ROBOT, BASE, prepared, delay=True)
    found = two_sensors(ROBOT, BASE, prepared, information.layout, ())
    estimate = found.estimate()
    assert found.joints == (0, 1, 2) and estimate.layout.n_sensor == 4
    assert estimate.delay == pytest.approx(0.002, abs=2e-4) and found.fit(None).delay == estimate.delay
    sensor = estimate.value[estimate.layout.sensor]
    assert sensor[0] == pytest.approx(0.005, abs=2e-4)
    np.testing.assert_allclose(sensor[1:], BIAS, atol=0.02)
    truth = BASE.values(ROBOT, CHI)
    np.testing.assert_allclose(found.fit(None).base, truth, atol=0.02 * np.abs(truth).max())


def streams(robot, first, second, seed=30, count=600, noise=1e-3):
    """Return a recording whose two efforts are those of these parameters, a bias in the second."""
    q, dq, ddq = motion(seed, count)
    rng = np.random.default_rng(seed)
    tau, other = (np.column_stack([inverse_dynamics(ROBOT, chi, q, dq, ddq)[:, j] for j, chi in enumerate(some)])
                  for some in (first, second))  # fmt: skip
    tau, other = tau + noise * rng.normal(size=q.shape), other + BIAS + noise * rng.normal(size=q.shape)
    return replace(as_prepared(robot, q, dq, ddq, tau), second=other)


def test_where_the_first_effort_is_that_of_the_link_the_second_is_the_motors():
    """Joint 1 has its sensor at the link and its motor's effort beside it; joints 2 and 3 the other way round."""
    joints = (replace(ROBOT.joints[0], measures=MeasuredEffort(())), *ROBOT.joints[1:])
    robot = replace(ROBOT, joints=joints, parameters={})
    base = base_parameters(robot)
    prepared = (streams(robot, (LINKS, CHI, CHI), (CHI, LINKS, LINKS)),)
    information = build_information(robot, base, prepared, delay=False)
    found = two_sensors(robot, base, prepared, information.layout, ())
    estimate = found.estimate()
    for error, _, rows in second_errors(found, estimate):
        assert error / np.sqrt(rows) == pytest.approx(1e-3, rel=0.15)
    np.testing.assert_allclose(estimate.sigma, np.full(6, 1e-3), rtol=0.15)
    drive = drive_values(found, estimate, 0)
    for part, truth in zip(("Ia", "Fv", "Fc"), by_joint(ROBOT, CHI)[0, 10:13], strict=True):
        assert drive[part][0] == pytest.approx(truth, abs=5 * drive[part][1])
    fit = found.fit(None)
    truth = CHI.copy()
    by_joint(ROBOT, truth)[0, 13] = 0.0  # the offset of its first effort
    np.testing.assert_allclose(fit.base, base.values(robot, truth), atol=6 * fit.base_std.max())


def test_a_sensor_at_the_link_may_feel_a_part_of_the_drive():
    dry = LINKS.copy()
    by_joint(ROBOT, dry)[:, 12] = by_joint(ROBOT, CHI)[:, 12]
    prepared = (streams(ROBOT, (CHI,) * 3, (dry,) * 3),)
    layout = build_information(ROBOT, BASE, prepared, delay=False).layout
    for felt, level in ((("Fc",), 1e-3), ((), 0.05)):
        found = two_sensors(ROBOT, BASE, prepared, layout, (), felt)
        errors = [error / np.sqrt(rows) for error, _, rows in second_errors(found, found.estimate())]
        assert np.allclose(errors, level, rtol=0.15) if felt else min(errors) > level


def test_what_neither_stream_shows_is_not_identified_and_stays_with_the_description():
    prepared = streams(ROBOT, (CHI,) * 3, (LINKS,) * 3)
    q, dq, ddq = (x * [1.0, 1.0, 0.0] for x in (prepared.q, prepared.dq, prepared.ddq))
    tau, link = (inverse_dynamics(ROBOT, chi, q, dq, ddq) for chi in (CHI, LINKS))
    rng = np.random.default_rng(1)
    tau, link = tau + 1e-3 * rng.normal(size=tau.shape), link + 1e-3 * rng.normal(size=tau.shape)
    still = (replace(as_prepared(ROBOT, q, dq, ddq, tau), second=link),)
    found = two(still)[1]
    known = found.base.values(ROBOT, standard_vector(ROBOT))
    np.testing.assert_allclose(found.prior, [*known, 0.0, 0.0, 0.0])
    for fit in (found.fit(None), found.fit(range(25))):
        for k, name in enumerate(BASE.leaders):
            if name in ("Fv3", "Fv1", "Fc2"):
                assert fit.identified[k] == (name != "Fv3")
        at = BASE.leaders.index("Fv3")
        assert fit.base[at] == pytest.approx(BASE.values(ROBOT, standard_vector(ROBOT))[at]) and fit.base[at] != 0.0
    estimate = found.estimate()
    assert set(drive_values(found, estimate, 0)) == {"Ia", "Fv", "Fc"} and "Fv" not in drive_values(found, estimate, 2)


OPTIONS = IdentifyOptions(checks=False, prior="none", friction=PLAIN)


RECORDED_BIAS = 0.4


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
    tau_l = tau_l + RECORDED_BIAS + link_noise * tau_l.std(axis=0) * rng.standard_normal(tau.shape)
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
        assert row.sensor == "link" and abs(row.bias - RECORDED_BIAS) < 4.0 * row.bias_std
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
    expected = inverse_dynamics(robot, links, q, dq, ddq) + RECORDED_BIAS
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
