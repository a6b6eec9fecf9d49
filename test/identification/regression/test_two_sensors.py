# SPDX-License-Identifier: Apache-2.0

"""Two efforts of a joint in one fit: least squares on the rows of both."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.identification.preparation import PreparationOptions, as_prepared, prepare
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.two_sensors import drive_values, second_errors, two_sensors
from ros2_dynid.model.friction import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import by_joint, standard_vector
from ros2_dynid.recording.samples import Samples
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
    joints = (replace(ROBOT.joints[0], measured_drive=()), *ROBOT.joints[1:])
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
