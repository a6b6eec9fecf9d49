# SPDX-License-Identifier: Apache-2.0

"""Decisions about efforts as tables: sign and unit, diagnosis, sensor side, choice of the estimator, agreement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.validation import diagnosis, effort_scale, sensor_side
from ros2_dynid.identification.validation.effort_scale import (
    EffortEvidence,
    SampledMotion,
    against_prior,
    backward_friction,
    clear,
    factors,
    sampled_motion,
)
from ros2_dynid.model.efforts import DRIVE
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import with_gravity

ROBOT = load_robot("demo3")


# --- sign and unit in words


def test_all_that_is_certain_is_refused_in_one_line():
    found = [
        diagnosis.Finding("x", (), "first", "do this"),
        diagnosis.Finding("y", (), "second", "do that", certain=False),
        diagnosis.Finding("z", (), "third", "do this"),
        diagnosis.Finding("w", (), "fourth", "do more"),
    ]
    with pytest.raises(InputError) as refused:
        diagnosis.refuse(found, "run")
    assert refused.value.what == "first; third; fourth" and refused.value.hint == "do this, and do more"
    diagnosis.refuse(found[1:2], "run")


# --- efforts against the other joints and the a priori masses


@pytest.mark.parametrize(("freedom", "level"), [(np.inf, 1e-5), (10.0, 1e-5), (25.0, 1e-3)])
def test_what_is_no_chance(freedom, level):
    assert clear(freedom, level) == pytest.approx(-(norm.ppf(level) if np.isinf(freedom) else t.ppf(level, freedom)))


def random_motion(count=900, seed=0):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (3, count, 3)) * np.array([1.0, 0.7, 1.3])


def information_of(tau, motion, blocks=None):
    base = base_parameters(ROBOT)
    return base, build_information(ROBOT, base, [as_prepared(ROBOT, *motion, tau)], delay=False)


def noisy(gains, seed=1, chi=None):
    motion = random_motion()
    chi = standard_vector(ROBOT) if chi is None else chi
    tau = inverse_dynamics(ROBOT, chi, *motion)
    tau = tau + 0.02 * np.random.default_rng(seed).normal(size=tau.shape) * tau.std(axis=0)
    return motion, tau * np.asarray(gains)


@pytest.mark.parametrize("gain", [1.0, -1.0, 7.0, 0.2])
def test_the_factor_of_a_joint_against_the_others(gain):
    base, information = information_of(*noisy((1.0, gain, 1.0))[::-1])
    found = factors(information, without=0)
    assert (found[0].value, found[0].std) == (1.0, np.inf)
    told = found[1]
    assert abs(told.value - gain) < 5.0 * told.std and 1e-4 < told.std / abs(gain) < 0.1
    assert told.wrong == (gain != 1.0)
    assert 3.0 <= told.freedom <= len(information.blocks)
    # by brute force: what joints 3 knows, times one factor, beside what only joint 2 feels
    q, dq, ddq = random_motion()
    _, tau = noisy((1.0, gain, 1.0))
    Y = regressor(ROBOT, q, dq, ddq)[:, :, base.columns(ROBOT)]
    felt = [np.linalg.norm(Y[:, j], axis=0) > 1e-9 for j in range(3)]
    value = np.zeros(len(base))
    value[felt[2]] = np.linalg.lstsq(Y[:, 2, felt[2]], tau[:, 2], rcond=None)[0]
    own = felt[1] & ~felt[2]
    A = np.column_stack((Y[:, 1, own], Y[:, 1, felt[2] & felt[1]] @ value[felt[2] & felt[1]]))
    assert told.value == pytest.approx(np.linalg.lstsq(A, tau[:, 1], rcond=None)[0][-1], rel=1e-6)


def test_the_doubt_of_a_factor_is_in_the_unit_of_the_effort():
    """Both that of the joint's own rows and that of what the others predict."""
    own = factors(information_of(*noisy((1.0, 1.0, 1.0))[::-1])[1])[1]
    for gain in (7.0, -3.0):
        told = factors(information_of(*noisy((1.0, gain, 1.0))[::-1])[1])[1]
        assert (told.value, told.std) == (pytest.approx(gain * own.value), pytest.approx(abs(gain) * own.std))


def test_a_joint_that_others_do_not_tell_about_has_no_factor():
    _, information = information_of(*noisy((1.0, 1.0, 1.0))[::-1])
    nothing = replace(
        information, columns=tuple(np.arange(100 * j, 100 * j + len(c)) for j, c in enumerate(information.columns))
    )
    assert all(np.isinf(one.std) and one.value == 1.0 for one in factors(nothing))
    rng = np.random.default_rng(3)
    motion = random_motion()
    _, noise = information_of(rng.normal(size=motion[0].shape), motion)
    assert all(np.isinf(one.std) for one in factors(noise)), "what the others predict is noise"


@pytest.mark.parametrize("scale", [1.0, -3.0, 60.0])
def test_the_scale_of_all_efforts_against_the_a_priori_links(scale):
    chi = standard_vector(ROBOT)
    drives = [k for k, name in enumerate(standard_names(ROBOT)) if name[:2] in ("Fv", "Fc", "of")]
    chi[drives] += np.linspace(0.1, 1.0, len(drives))  # fitted, whatever they are
    motion, tau = noisy((scale, scale, scale), chi=chi)
    base, information = information_of(tau, motion)
    prior = information.layout.vector(base.values(ROBOT, standard_vector(ROBOT)))
    found = against_prior(information, base, prior)
    assert abs(found.value - scale) < 5.0 * found.std and 1e-4 < found.std / abs(scale) < 0.05
    Y = regressor(ROBOT, *motion)[:, :, base.columns(ROBOT)].reshape(-1, len(base))
    links = np.array([leader[:2] not in ("Ia", "Fv", "Fc", "of") for leader in base.leaders])
    A = np.column_stack((Y[:, ~links], Y[:, links] @ prior[: len(base)][links]))
    assert found.value == pytest.approx(np.linalg.lstsq(A, tau.ravel(), rcond=None)[0][-1], rel=1e-6)
    none = against_prior(information, base, 0.0 * prior)
    assert (none.value, none.std) == (1.0, np.inf)


def test_factors_and_scales_scatter_as_their_bars_say():
    """Both ways: bars that are too narrow accuse good joints, bars that are too wide excuse bad ones."""
    gains, of_joints, of_all = np.array([1.0, 1.0, -5.0]), [], []
    motion, tau = noisy((1.0, 1.0, 1.0))
    for seed in range(12):
        error = 0.1 * np.random.default_rng(seed).normal(size=tau.shape) * tau.std(axis=0)
        base, information = information_of((tau + error) * gains, motion)
        of_joints.append([(one.value, one.std) for one in factors(information)])
        _, alike = information_of(2.0 * (tau + error), motion)
        prior = alike.layout.vector(base.values(ROBOT, standard_vector(ROBOT)))
        scale = against_prior(alike, base, prior)
        of_all.append((scale.value, scale.std))
    for told in (np.array(of_joints)[:, 2], np.array(of_all)):
        assert 0.5 < np.sqrt(np.mean(told[:, 1] ** 2)) / told[:, 0].std(ddof=1) < 2.0


def test_friction_that_drives_is_found_at_its_joint():
    chi = standard_vector(ROBOT)
    names = standard_names(ROBOT)
    for j, (Fv, Fc) in enumerate(((1.0, 2.0), (0.5, 1.0), (0.7, 0.4)), start=1):
        chi[names.index(f"Fv{j}")], chi[names.index(f"Fc{j}")] = Fv, Fc
    for signs in ((1, 1, 1), (1, -1, 1), (-1, 1, -1)):
        motion, tau = noisy(signs, chi=chi)
        base, information = information_of(tau, motion)
        assert backward_friction(base, ROBOT, information) == [j for j in range(3) if signs[j] < 0]


# --- one joint's own evidence


def true_chi(friction=1.0):
    chi, names = standard_vector(ROBOT), standard_names(ROBOT)
    for j in (1, 2, 3):
        chi[names.index(f"Fv{j}")], chi[names.index(f"Fc{j}")] = friction, friction
    return chi


def test_evidence_of_a_joint_from_its_motion():
    q, dq, ddq = slow_motion()
    chi = true_chi(3.0)
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    good = effort_scale.effort_evidence(ROBOT, SampledMotion(q, dq, ddq, tau))
    gains = np.array([1.0, -1.0, 50.0])
    spoiled = effort_scale.effort_evidence(ROBOT, SampledMotion(q, dq, ddq, tau * gains))
    for j, gain in enumerate(gains):
        a, b = good[j], spoiled[j]
        assert a.friction_r > 0.5 and b.friction_r == pytest.approx(np.sign(gain) * a.friction_r)
        np.testing.assert_equal(b.inertia, np.sign(gain) * a.inertia)
        np.testing.assert_allclose(b.gravity_scale, gain * a.gravity_scale)
        np.testing.assert_allclose(b.gravity_r, np.sign(gain) * a.gravity_r)
        assert not a.reversed and b.reversed == (gain < 0)
    assert np.isnan(good[0].gravity_r), "a vertical axis feels no weight"
    assert good[1].gravity_scale == pytest.approx(1.0, abs=0.35) and good[1].gravity_r > 0.8
    assert [one.inertia for one in good].count(1.0) >= 1
    # partial correlation and scale by their definition
    friction = np.column_stack((np.tanh(dq[:, 1] / (0.05 * np.abs(dq[:, 1]).max())), dq[:, 1]))
    others = np.column_stack((np.ones(len(q)), friction, ddq))
    Q = inverse_dynamics(
        ROBOT, np.where([name[:2] in ("Fv", "Fc", "of") for name in standard_names(ROBOT)], 0.0, chi), q, 0 * q, 0 * q
    )[:, 1]
    own, rest = (x - others @ np.linalg.lstsq(others, x, rcond=None)[0] for x in (Q, tau[:, 1] - tau[:, 1].mean()))
    assert good[1].gravity_r == pytest.approx(own @ rest / np.linalg.norm(own) / np.linalg.norm(rest), rel=1e-6)
    assert good[1].gravity_scale == pytest.approx(own @ rest / (own @ own), rel=1e-6)


def test_what_shows_nothing():
    q, dq, ddq = slow_motion()
    tau = inverse_dynamics(ROBOT, true_chi(), q, dq, ddq)
    few = SampledMotion(*(x[:159] for x in (q, dq, ddq, tau)))
    blank = EffortEvidence()
    assert all(
        np.isnan([one.gravity_r, one.friction_r, one.inertia]).all() for one in effort_scale.effort_evidence(ROBOT, few)
    )
    still, constant, unknown = dq.copy(), tau.copy(), tau.copy()
    still[:, 0] = 0.0
    constant[:, 1] = 5.0
    unknown[600:, 2] = np.nan
    for motion, joint in (
        (SampledMotion(q, still, ddq, tau), 0),
        (SampledMotion(q, dq, ddq, constant), 1),
        (SampledMotion(q[:170], dq[:170], ddq[:170], np.where(np.arange(170)[:, None] > 150, np.nan, tau[:170])), 2),
    ):
        found = effort_scale.effort_evidence(ROBOT, motion)[joint]
        assert str(found) == str(blank)
    half = effort_scale.effort_evidence(ROBOT, SampledMotion(q, dq, ddq, unknown))[2]
    short = effort_scale.effort_evidence(ROBOT, SampledMotion(q[:600], dq[:600], ddq[:600], tau[:600]))[2]
    assert half.inertia == short.inertia == 1.0
    for field in ("gravity_r", "gravity_scale", "friction_r"):
        np.testing.assert_allclose(getattr(half, field), getattr(short, field), rtol=0.05)


# --- mounting


@pytest.mark.parametrize("gravity", [(0.0, 0.0, -9.81), (0.0, 0.0, 9.81), (6.9, 0.0, -6.9), (0.0, 9.81, 0.0)])
def test_gravity_is_found_whatever_the_size_of_the_motion_torque(gravity):
    q, dq, ddq = slow_motion(2)
    tau = inverse_dynamics(with_gravity(ROBOT, gravity), true_chi(), q, dq, ddq)
    found = diagnosis.mounting(ROBOT, SampledMotion(q, dq, ddq, tau))
    angle = np.degrees(
        np.arccos(np.dot(gravity, ROBOT.gravity) / np.linalg.norm(gravity) / np.linalg.norm(ROBOT.gravity))
    )
    np.testing.assert_allclose(found.gravity, np.array(gravity) * 9.81 / np.linalg.norm(gravity), atol=0.3)
    assert found.error < 0.1 and found.brakes and found.angle == pytest.approx(angle, abs=2.0)
    assert found.wrong == found.certain == (angle > 25.0)
    assert (found.described < 0.1) == (angle < 25.0) and found.described < 1.0 + 1e-9
    backward = diagnosis.mounting(ROBOT, SampledMotion(q, dq, ddq, -tau))
    assert not backward.brakes and backward.angle == pytest.approx(180.0 - angle, abs=2.0)
    smooth = inverse_dynamics(
        with_gravity(ROBOT, gravity),
        np.where([n[:2] in ("Fv", "Fc", "of") for n in standard_names(ROBOT)], 0.0, standard_vector(ROBOT)),
        q,
        dq,
        ddq,
    )
    assert diagnosis.mounting(ROBOT, SampledMotion(q, dq, ddq, smooth)).brakes, "of inertia, where there is no friction"
    assert not diagnosis.mounting(ROBOT, SampledMotion(q, dq, ddq, -smooth)).brakes
    for unit in (1e-6, 1e6):  # nothing depends on the unit of the effort
        for effort, wanted in ((tau, found), (-tau, backward)):
            other = diagnosis.mounting(ROBOT, SampledMotion(q, dq, ddq, unit * effort))
            assert (other.brakes, other.wrong, other.gravity) == (wanted.brakes, wanted.wrong, wanted.gravity)
            assert other.described == pytest.approx(wanted.described, rel=1e-6)
        for sign in (1.0, -1.0):
            assert diagnosis.mounting(ROBOT, SampledMotion(q, dq, ddq, sign * unit * smooth)).brakes == (sign > 0.0)


def test_mounting_is_not_told_without_masses_gravity_or_motion():
    q, dq, ddq = slow_motion(2)
    tau = inverse_dynamics(ROBOT, true_chi(), q, dq, ddq)
    motion = SampledMotion(q, dq, ddq, tau)
    assert diagnosis.mounting(replace(ROBOT, parameters={}), motion) is None
    assert diagnosis.mounting(replace(ROBOT, gravity=np.zeros(3)), motion) is None
    assert diagnosis.mounting(ROBOT, SampledMotion(q, dq, ddq, 0.0 * tau)) is None
    one = q * np.array([1.0, 1e-4, 1e-4])
    assert diagnosis.mounting(ROBOT, SampledMotion(one, dq, ddq, tau)) is None


# --- motor or link


def side(felt, sure, share=0.01):
    return sensor_side.SensorSide(felt, sure, share)


@pytest.mark.parametrize(
    ("sides", "found"),
    [
        ({}, {}),
        ({"a": side((), True), "b": side((), True)}, {"a": (), "b": ()}),
        ({"a": side((), True), "b": side(DRIVE, False)}, {"a": (), "b": ("Fc",)}),
        ({"a": side((), True), "b": side(DRIVE, True)}, {"a": ()}),
        ({"a": side((), True), "b": side(("Fc",), False), "c": side(DRIVE, True)}, {"a": ()}),
        ({"a": side((), False), "b": side(("Fc",), False)}, {}),
        ({"a": side(("Fc",), True), "b": side(("Fv", "Fc"), False)}, {"a": ("Fc",), "b": ("Fc",)}),
        # half of them hold Fc: each has its own; more than half: all do
        ({"a": side(("Fc",), True), "b": side((), True)}, {"a": ("Fc",), "b": ()}),
        ({"a": side(("Fc",), True), "b": side((), True), "c": side(("Fc",), True)}, dict.fromkeys("abc", ("Fc",))),
        ({"a": side(("Fc",), True), "b": side((), True), "c": side((), True)}, {"a": ("Fc",), "b": (), "c": ()}),
    ],
)
def test_joints_that_do_not_tell_follow_those_that_do(sides, found):
    assert sensor_side.link_side_sensors(sides) == found


ALL, DRY, SLIDE, FULL = (0, 1, 2, 3), (0, 1, 3), (0,), ()


# --- which estimator


def test_samples_of_several_recordings_in_their_order():
    parts = [as_prepared(ROBOT, *np.random.default_rng(k).normal(size=(4, n, 3))) for k, n in enumerate((50, 30))]
    parts[0] = replace(parts[0], segments=(slice(3, 20), slice(25, 50)))
    every = sampled_motion(parts, most=100)
    assert len(every.q) == 17 + 25 + 30
    np.testing.assert_array_equal(every.ddq, np.concatenate((parts[0].ddq[3:20], parts[0].ddq[25:], parts[1].ddq)))
    few = sampled_motion(parts, most=18)
    at = np.concatenate((np.arange(3, 20), np.arange(25, 50)))[::4]
    for field in ("q", "dq", "ddq", "tau"):
        rows = np.concatenate((getattr(parts[0], field)[at], getattr(parts[1], field)[::4]))
        np.testing.assert_array_equal(getattr(few, field), rows)
