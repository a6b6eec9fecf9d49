# SPDX-License-Identifier: Apache-2.0

"""Sign and unit of efforts: a joint's own evidence, joints against each other and the masses, mixed recordings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from motions import slow_motion
from recordings import simulated, simulated_truth
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import gravity_torque, inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.error_bars import deviations_beyond_chance
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.validation.diagnosis import refuse_contradictions
from ros2_dynid.identification.validation.effort_sign_and_unit import (
    EFFORTS,
    EffortEvidence,
    Factor,
    SampledMotion,
    are_gains_supported,
    estimate_joint_factors,
    estimate_prior_scale,
    find_driving_friction,
    fit_relative_gains,
    gather_effort_evidence,
    keep_predicting_gains,
    sample_motion,
    scale_efforts,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import link_slice, standard_names, standard_vector

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
NAMES = standard_names(ROBOT)


def rubbing(size=2.0):
    chi = standard_vector(ROBOT)
    for j in (1, 2, 3):
        for part in ("Ia", "Fv", "Fc"):
            chi[NAMES.index(f"{part}{j}")] = size * j
    return chi


def only_bodies(chi):
    return np.where([name[:2] in ("Fv", "Fc", "of") for name in NAMES], 0.0, chi)


def random_motion(count=900, seed=0):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (3, count, 3)) * np.array([1.0, 0.7, 1.3])


def information_of(tau, motion):
    base = base_parameters(ROBOT)
    return base, build_information(ROBOT, base, [as_prepared(ROBOT, *motion, tau)], delay=False)


def noisy(gains, seed=1, chi=None):
    motion = random_motion()
    chi = standard_vector(ROBOT) if chi is None else chi
    tau = inverse_dynamics(ROBOT, chi, *motion)
    tau = tau + 0.02 * np.random.default_rng(seed).normal(size=tau.shape) * tau.std(axis=0)
    return motion, tau * np.asarray(gains)


# --- one joint's own evidence


@pytest.mark.parametrize(
    ("evidence", "is_reversed", "wrong_unit"),
    [
        (EffortEvidence(), False, False),
        (EffortEvidence(friction_r=-0.6), True, False),
        (EffortEvidence(friction_r=-0.4), False, False),
        (EffortEvidence(inertia=-1.0), True, False),
        (EffortEvidence(friction_r=-0.51), True, False),
        (EffortEvidence(friction_r=-0.49), False, False),
        (EffortEvidence(friction_r=-0.6, gravity_r=0.51), False, False),
        (EffortEvidence(friction_r=-0.6, gravity_r=0.49), True, False),
        (EffortEvidence(friction_r=0.51, inertia=-1.0), False, False),
        (EffortEvidence(friction_r=0.49, inertia=-1.0), True, False),
        (EffortEvidence(gravity_r=0.81, gravity_scale=31.0), False, True),
        (EffortEvidence(gravity_r=0.79, gravity_scale=31.0), False, False),
        (EffortEvidence(gravity_r=0.9, gravity_scale=0.034), False, False),
        (EffortEvidence(friction_r=-0.6, gravity_r=0.6), False, False),  # gravity supports the sign
        (EffortEvidence(friction_r=-0.6, inertia=1.0), False, False),  # so does inertia
        (EffortEvidence(friction_r=0.6, inertia=-1.0), False, False),  # and friction
        (EffortEvidence(-0.9, -1.0, -0.6, -1.0), True, False),
        (EffortEvidence(gravity_r=-0.99, gravity_scale=-1.0), False, False),  # a priori values alone do not accuse
        (EffortEvidence(gravity_r=0.9, gravity_scale=29.0), False, False),
        (EffortEvidence(gravity_r=0.9, gravity_scale=31.0), False, True),
        (EffortEvidence(gravity_r=-0.9, gravity_scale=-31.0), False, True),
        (EffortEvidence(gravity_r=0.9, gravity_scale=0.032), False, True),
        (EffortEvidence(gravity_r=0.7, gravity_scale=1000.0), False, False),
    ],
)
def test_evidence_of_a_joint(evidence, is_reversed, wrong_unit):
    assert (evidence.is_reversed(), evidence.has_other_unit()) == (is_reversed, wrong_unit)


def test_no_sample_is_no_evidence():
    found = gather_effort_evidence(ROBOT, SampledMotion(*np.zeros((4, 0, 3))))
    assert len(found) == 3 and all(np.isnan([one.gravity_r, one.friction_r, one.inertia]).all() for one in found)


def test_an_offset_of_the_effort_is_no_evidence():
    q, dq, ddq = slow_motion()
    tau = inverse_dynamics(ROBOT, rubbing(), q, dq, ddq)
    plain, moved = (
        gather_effort_evidence(ROBOT, SampledMotion(q, dq, ddq, x)) for x in (tau, tau + 40.0 * np.ptp(tau))
    )
    for a, b in zip(plain, moved, strict=True):
        for field in ("gravity_r", "gravity_scale", "friction_r", "inertia"):
            np.testing.assert_allclose(getattr(b, field), getattr(a, field), rtol=1e-6)


@pytest.mark.parametrize(("share", "told"), [(0.03, True), (0.015, False)])
def test_the_weight_of_a_joint_counts_beside_that_of_the_heaviest(share, told):
    q, dq, ddq = slow_motion()
    chi = only_bodies(standard_vector(ROBOT))
    last = chi[link_slice(2)].copy()
    for _ in range(8):  # a lighter last link weighs less on the one before it, too
        spread = gravity_torque(ROBOT, chi, q).std(axis=0)
        last *= share * spread[1] / spread[2]
        chi[link_slice(2)] = last
    robot = replace(ROBOT, parameters=dict(zip(NAMES, chi.tolist(), strict=True)))
    Q = gravity_torque(robot, chi, q)
    assert Q[:, 2].std() / Q.std(axis=0).max() == pytest.approx(share, rel=0.01)
    found = gather_effort_evidence(robot, SampledMotion(q, dq, ddq, 2.0 * Q))[2]
    assert np.isfinite(found.gravity_r) == told
    if told:
        assert found.gravity_scale == pytest.approx(2.0, rel=1e-6) and found.gravity_r == pytest.approx(1.0)


def true_chi(friction=1.0):
    chi, names = standard_vector(ROBOT), standard_names(ROBOT)
    for j in (1, 2, 3):
        chi[names.index(f"Fv{j}")], chi[names.index(f"Fc{j}")] = friction, friction
    return chi


def test_evidence_of_a_joint_from_its_motion():
    q, dq, ddq = slow_motion()
    chi = true_chi(3.0)
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    good = gather_effort_evidence(ROBOT, SampledMotion(q, dq, ddq, tau))
    gains = np.array([1.0, -1.0, 50.0])
    spoiled = gather_effort_evidence(ROBOT, SampledMotion(q, dq, ddq, tau * gains))
    for j, gain in enumerate(gains):
        a, b = good[j], spoiled[j]
        assert a.friction_r > 0.5 and b.friction_r == pytest.approx(np.sign(gain) * a.friction_r)
        np.testing.assert_equal(b.inertia, np.sign(gain) * a.inertia)
        np.testing.assert_allclose(b.gravity_scale, gain * a.gravity_scale)
        np.testing.assert_allclose(b.gravity_r, np.sign(gain) * a.gravity_r)
        assert not a.is_reversed() and b.is_reversed() == (gain < 0)
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
        np.isnan([one.gravity_r, one.friction_r, one.inertia]).all() for one in gather_effort_evidence(ROBOT, few)
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
        found = gather_effort_evidence(ROBOT, motion)[joint]
        assert str(found) == str(blank)
    half = gather_effort_evidence(ROBOT, SampledMotion(q, dq, ddq, unknown))[2]
    short = gather_effort_evidence(ROBOT, SampledMotion(q[:600], dq[:600], ddq[:600], tau[:600]))[2]
    assert half.inertia == short.inertia == 1.0
    for field in ("gravity_r", "gravity_scale", "friction_r"):
        np.testing.assert_allclose(getattr(half, field), getattr(short, field), rtol=0.05)


@pytest.mark.parametrize(("share", "told"), [(0.05, False), (0.3, True)])
def test_friction_is_evidence_where_it_makes_a_part_of_the_effort(share, told):
    """A tenth of the effort: less says nothing of its sign."""
    rng = np.random.default_rng(1)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 900, 3)) * np.array([1.0, 0.7, 1.3])
    tau = inverse_dynamics(ROBOT, only_bodies(standard_vector(ROBOT)), q, dq, ddq)
    size = np.linalg.norm(tau - tau.mean(axis=0), axis=0) / np.linalg.norm(np.sign(dq), axis=0)
    for sign in (1.0, -1.0):
        motion = sample_motion([as_prepared(ROBOT, q, dq, ddq, tau + sign * share * size * np.sign(dq))])
        for evidence in gather_effort_evidence(ROBOT, motion):
            assert np.isfinite(evidence.friction_r) == told
            assert not told or (np.sign(evidence.friction_r) == sign and abs(evidence.friction_r) > 0.9)


def test_samples_of_several_recordings_in_their_order():
    parts = [as_prepared(ROBOT, *np.random.default_rng(k).normal(size=(4, n, 3))) for k, n in enumerate((50, 30))]
    parts[0] = replace(parts[0], segments=(slice(3, 20), slice(25, 50)))
    every = sample_motion(parts, count=100)
    assert len(every.q) == 17 + 25 + 30
    np.testing.assert_array_equal(every.ddq, np.concatenate((parts[0].ddq[3:20], parts[0].ddq[25:], parts[1].ddq)))
    few = sample_motion(parts, count=18)
    at = np.concatenate((np.arange(3, 20), np.arange(25, 50)))[::4]
    for field in ("q", "dq", "ddq", "tau"):
        rows = np.concatenate((getattr(parts[0], field)[at], getattr(parts[1], field)[::4]))
        np.testing.assert_array_equal(getattr(few, field), rows)


# --- joints against each other


@pytest.mark.parametrize(("freedom", "chance"), [(np.inf, 1e-5), (10.0, 1e-5), (25.0, 1e-3)])
def test_what_is_no_chance(freedom, chance):
    wanted = -(norm.ppf(chance) if np.isinf(freedom) else t.ppf(chance, freedom))
    assert deviations_beyond_chance(freedom, chance) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("factor", "wrong"),
    [
        (Factor(1.0, 0.01), False),
        (Factor(-1.0, 0.01), True),
        (Factor(-0.2, 0.01), False),
        (Factor(-1.0, 0.5), False),
        (Factor(1.9, 0.01), False),
        (Factor(2.1, 0.01), True),
        (Factor(0.51, 0.01), False),
        (Factor(0.49, 0.01), True),
        (Factor(3.0, 1.0), False),
        (Factor(1000.0, 10.0), True),
        (Factor(3.0, 0.4), True),
        (Factor(3.0, 0.4, freedom=5.0), False),
        (Factor(1.0, np.inf), False),
        # chance makes 4.26 standard deviations once in 100 000, and 3.09 once in 1000
        (Factor(4.0, 4.0 / 4.2), False),
        (Factor(0.3, 0.3 / 4.3), True),
        (Factor(0.3, 0.3 / 4.2), False),
        (Factor(3.0, 2.0 / 4.3), True),
        (Factor(3.0, 2.0 / 4.2), False),
        (Factor(-1.0, 1.0 / 3.12), True),
        (Factor(-1.0, 1.0 / 3.06), False),
        (Factor(-0.26, 0.01), True),
        (Factor(-0.24, 0.01), False),
    ],
)
def test_factor_of_a_joint(factor, wrong):
    assert factor.is_wrong() == wrong


@pytest.mark.parametrize("gain", [1.0, -1.0, 7.0, 0.2])
def test_the_factor_of_a_joint_against_the_others(gain):
    base, information = information_of(*noisy((1.0, gain, 1.0))[::-1])
    found = estimate_joint_factors(information, without=0)
    assert (found[0].value, found[0].std) == (1.0, np.inf)
    told = found[1]
    assert abs(told.value - gain) < 5.0 * told.std and 1e-4 < told.std / abs(gain) < 0.1
    assert told.is_wrong() == (gain != 1.0)
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
    own = estimate_joint_factors(information_of(*noisy((1.0, 1.0, 1.0))[::-1])[1])[1]
    for gain in (7.0, -3.0):
        told = estimate_joint_factors(information_of(*noisy((1.0, gain, 1.0))[::-1])[1])[1]
        assert (told.value, told.std) == (pytest.approx(gain * own.value), pytest.approx(abs(gain) * own.std))


def test_a_joint_that_others_do_not_tell_about_has_no_factor():
    _, information = information_of(*noisy((1.0, 1.0, 1.0))[::-1])
    nothing = replace(
        information, columns=tuple(np.arange(100 * j, 100 * j + len(c)) for j, c in enumerate(information.columns))
    )
    assert all(np.isinf(one.std) and one.value == 1.0 for one in estimate_joint_factors(nothing))
    rng = np.random.default_rng(3)
    motion = random_motion()
    _, noise = information_of(rng.normal(size=motion[0].shape), motion)
    assert all(np.isinf(one.std) for one in estimate_joint_factors(noise)), "what the others predict is noise"


def recorded(gains=(1.0, 1.0, 1.0), seed=0, noise=0.02, chi=None):
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 600, 3))
    tau = inverse_dynamics(ROBOT, rubbing() if chi is None else chi, q, dq, ddq)
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    return as_prepared(ROBOT, q, dq, ddq, tau * np.array(gains))


@pytest.mark.parametrize("gains", [(1.0, 1.0, 1.0), (1.0, 4.0, 1.0), (-3.0, 1.0, 0.2)])
def test_every_joint_is_compared_with_what_any_of_the_others_know(gains):
    prepared = recorded(gains)
    information = build_information(ROBOT, BASE, [prepared], delay=False)
    Y = regressor(ROBOT, prepared.q, prepared.dq, prepared.ddq)[:, :, BASE.columns(ROBOT)]
    felt = np.linalg.norm(Y, axis=0) > 1e-9
    for j, told in enumerate(estimate_joint_factors(information)):
        others = [k for k in range(3) if k != j]
        value = wls(information.of_joints(others)).value
        shared = felt[j] & (felt[others[0]] | felt[others[1]])
        alone = felt[j] & ~shared
        A = np.column_stack((Y[:, j, alone], Y[:, j, shared] @ value[shared]))
        if np.isinf(told.std):
            assert gains != (1.0, 1.0, 1.0), "others that contradict each other tell nothing"
            continue
        assert told.value == pytest.approx(np.linalg.lstsq(A, prepared.tau[:, j], rcond=None)[0][-1], rel=1e-6)


def test_the_delay_is_no_parameter_that_joints_tell_each_other_about():
    """Its column is felt by all joints, but it is none of the robot."""
    prepared = recorded((1.0, 3.0, 1.0))
    plain, late = (build_information(ROBOT, BASE, [prepared], delay=delay) for delay in (False, True))
    for a, b in zip(estimate_joint_factors(plain), estimate_joint_factors(late), strict=True):
        assert (b.value, b.std) == (pytest.approx(a.value), pytest.approx(a.std, rel=0.01))
    prior = BASE.values(ROBOT, standard_vector(ROBOT))
    a, b = (estimate_prior_scale(one, BASE, one.layout.vector(prior)) for one in (plain, late))
    assert (b.value, b.std) == (pytest.approx(a.value), pytest.approx(a.std, rel=0.01)) and np.isfinite(a.std)
    nothing = late.layout.vector(np.zeros(len(BASE)), delay=0.1)
    none = estimate_prior_scale(late, BASE, nothing)
    assert (none.value, none.std) == (1.0, np.inf), "no links to compare with"


@pytest.mark.parametrize("scale", [1.0, -3.0, 60.0])
def test_the_scale_of_all_efforts_against_the_a_priori_links(scale):
    chi = standard_vector(ROBOT)
    drives = [k for k, name in enumerate(standard_names(ROBOT)) if name[:2] in ("Fv", "Fc", "of")]
    chi[drives] += np.linspace(0.1, 1.0, len(drives))  # fitted, whatever they are
    motion, tau = noisy((scale, scale, scale), chi=chi)
    base, information = information_of(tau, motion)
    prior = information.layout.vector(base.values(ROBOT, standard_vector(ROBOT)))
    found = estimate_prior_scale(information, base, prior)
    assert abs(found.value - scale) < 5.0 * found.std and 1e-4 < found.std / abs(scale) < 0.05
    Y = regressor(ROBOT, *motion)[:, :, base.columns(ROBOT)].reshape(-1, len(base))
    links = np.array([leader[:2] not in ("Ia", "Fv", "Fc", "of") for leader in base.leaders])
    A = np.column_stack((Y[:, ~links], Y[:, links] @ prior[: len(base)][links]))
    assert found.value == pytest.approx(np.linalg.lstsq(A, tau.ravel(), rcond=None)[0][-1], rel=1e-6)
    none = estimate_prior_scale(information, base, 0.0 * prior)
    assert (none.value, none.std) == (1.0, np.inf)


def test_the_scale_of_one_joint_against_the_a_priori_links():
    motion, tau = noisy((1.0, 1.0, 100.0))
    base, information = information_of(tau, motion)
    prior = information.layout.vector(base.values(ROBOT, standard_vector(ROBOT)))
    scales = [estimate_prior_scale(information, base, prior, joint) for joint in range(3)]
    for scale, true in zip(scales, (1.0, 1.0, 100.0), strict=True):
        assert abs(scale.value - true) < 5.0 * scale.std + 1e-3 * true and scale.is_wrong() == (true != 1.0)


def test_factors_and_scales_scatter_as_their_bars_say():
    """Both ways: bars that are too narrow accuse good joints, bars that are too wide excuse bad ones."""
    gains, of_joints, of_all = np.array([1.0, 1.0, -5.0]), [], []
    motion, tau = noisy((1.0, 1.0, 1.0))
    for seed in range(12):
        error = 0.1 * np.random.default_rng(seed).normal(size=tau.shape) * tau.std(axis=0)
        base, information = information_of((tau + error) * gains, motion)
        of_joints.append([(one.value, one.std) for one in estimate_joint_factors(information)])
        _, alike = information_of(2.0 * (tau + error), motion)
        prior = alike.layout.vector(base.values(ROBOT, standard_vector(ROBOT)))
        scale = estimate_prior_scale(alike, base, prior)
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
        assert find_driving_friction(base, ROBOT, information) == [j for j in range(3) if signs[j] < 0]


def test_scaled_information_is_that_of_scaled_efforts_and_two_wrong_joints_are_found():
    robot, samples = simulated_truth()[0], simulated()
    gains = np.array([1.0, -1.0, 1.0, 5.0, 1.0, 1.0])
    good, spoiled = (
        build_problem(robot, [s], IdentifyOptions(friction="viscous+coulomb"), lambda *_: None)
        for s in (samples, replace(samples, tau=samples.tau * gains))
    )
    again = scale_efforts(good.information, gains)
    for j in range(robot.n):
        a, b = again.triangle(j), spoiled.information.triangle(j)
        assert np.allclose(a.T @ a, b.T @ b, rtol=1e-6, atol=1e-6 * np.abs(b.T @ b).max())
    relative, agree = fit_relative_gains(robot, spoiled.base, spoiled.information)
    assert agree and np.allclose(relative * gains, 1.0, rtol=0.15)


@pytest.mark.parametrize(("spoiled", "gains", "supported"), [
    ((1.0, -1.0, 1.0), (1.0, -1.0, 1.0), True),
    ((1.0, 1.0, 8.0), (1.0, 1.0, 0.125), True),
    ((-1.0, -1.0, -1.0), (-1.0, -1.0, -1.0), True),  # changes no relative error
    ((1.0, 1.0, 1.0), (1.0, -1.0, 1.0), False),
    ((1.0, 1.0, 1.0), (1.0, 1.0, 0.125), False),
])  # fmt: skip
def test_stretches_left_out_speak_for_gains_that_put_a_joint_right(spoiled, gains, supported):
    motion, tau = noisy(spoiled)
    _, information = information_of(tau, motion)
    assert are_gains_supported(information, ROBOT.active_names, np.array(gains)) == supported


def test_nothing_speaks_for_the_gain_of_a_joint_that_is_not_predicted():
    motion, tau = noisy((1.0, 1.0, -1.0))
    tau[:, 2] += 3.0 * tau[:, 2].std() * np.random.default_rng(5).normal(size=len(tau))
    _, information = information_of(tau, motion)
    gains = np.array([1.0, 1.0, -1.0])
    assert not are_gains_supported(information, ROBOT.active_names, gains)
    assert are_gains_supported(information, ROBOT.active_names, gains, replace(EFFORTS, known_error=2.0))
    assert not are_gains_supported(information.take([0, 1]), ROBOT.active_names, gains), "too few blocks to leave out"


def test_only_joints_that_are_predicted_keep_the_gains_that_others_ask_for():
    motion, tau = noisy((-20.0, 20.0, 20.0))
    tau[:, 2] += 3.0 * tau[:, 2].std() * np.random.default_rng(5).normal(size=len(tau))
    _, information = information_of(tau, motion)
    gains, names = np.array([-0.05, 0.05, -0.05]), ROBOT.active_names
    np.testing.assert_allclose(keep_predicting_gains(information, names, gains, 0.05), [-0.05, 0.05, 0.05])
    few, gains = information.take([0, 1]), np.array([-0.05, 1e-4, 0.05])
    kept = keep_predicting_gains(few, names, gains, 0.05)
    np.testing.assert_allclose(kept, [0.05, 1e-4, 0.05], err_msg="only what no masses explain")


# --- recordings that contradict each other


def three_recordings(changes, noise, rows=20, seed=0):
    rng = np.random.default_rng(seed)
    truth, blocks = np.array([1.0, -2.0, 0.5]), []
    for k in range(12):
        A = rng.normal(size=(rows, 3))
        y = A @ truth * changes[k // 4] + noise[k // 4] * rng.normal(size=rows)
        blocks.append(Block((np.column_stack((A, y)),), np.array([rows]), float(k), k + 1.0, k // 4))
    return truth, Information(tuple(blocks), (np.arange(3),), ColumnLayout(3))


def errors_of(truth, information, k):
    """Return the relative errors of recording k: with the parameters given, and alone, each block left out in turn."""
    blocks = [block.R[0] for block in information.blocks if block.recording == k]
    alone = 0.0
    for out in range(len(blocks)):
        rest = np.vstack([rows for i, rows in enumerate(blocks) if i != out])
        best = np.linalg.lstsq(rest[:, :3], rest[:, 3], rcond=None)[0]
        alone += np.sum((blocks[out][:, 3] - blocks[out][:, :3] @ best) ** 2)
    rows = np.vstack(blocks)
    together = np.linalg.norm(rows[:, 3] - rows[:, :3] @ truth)
    return np.array([together, np.sqrt(alone)]) / np.linalg.norm(rows[:, 3])


@pytest.mark.parametrize("change", [1.07, 1.1, 1.13, 1.2, 1.5])
@pytest.mark.parametrize("noise", [0.02, 0.1, 0.2, 0.3, 0.4, 0.6])
def test_a_recording_contradicts_where_its_error_is_material_and_thrice_that_alone(change, noise):
    truth, information = three_recordings((1.0, 1.0, change), (0.02, 0.02, noise))
    together, alone = errors_of(truth, information, 2)
    assert abs(together - 0.1) > 1e-4 and abs(together / alone - 3.0) > 1e-3
    if together > 0.1 and together > 3.0 * alone:
        with pytest.raises(InputError, match=f"c: torque error {100 * together:.0f} % .*, {100 * alone:.1f} % alone"):
            refuse_contradictions(information, truth, "abc")
    else:
        refuse_contradictions(information, truth, "abc")


@pytest.mark.parametrize(("changes", "noise", "named"), [
    ((1.5, 1.0, 1.8), (0.02, 0.02, 0.02), "c"),
    ((1.8, 1.0, 1.5), (0.02, 0.02, 0.02), "a"),
    ((1.5, 1.0, 1.8), (0.02, 0.02, 0.2), "a"),  # the other one is noisy alone, too
])  # fmt: skip
def test_of_several_that_contradict_the_clearest_is_named(changes, noise, named):
    truth, information = three_recordings(changes, noise)
    with pytest.raises(InputError, match=f"^{named}: "):
        refuse_contradictions(information, truth, "abc")


def test_a_recording_of_too_few_rows_contradicts_nobody():
    truth, information = three_recordings((1.0, 1.0, 3.0), (0.02, 0.02, 0.02))
    few = (
        *information.blocks[:8],
        replace(information.blocks[8], R=(information.blocks[8].R[0][:3],), rows=np.array([3])),
    )
    refuse_contradictions(replace(information, blocks=few), truth, "abc")
    # of two joints, one with two rows
    both = tuple(
        replace(block, R=(block.R[0], block.R[0][: (20 if block.recording < 2 else 1)]),
                rows=np.array([20, 20 if block.recording < 2 else 1]))
        for block in information.blocks[:10]
    )  # fmt: skip
    two = Information(both, (np.arange(3), np.arange(3)), ColumnLayout(3))
    refuse_contradictions(two, truth, "abc")
    with pytest.raises(InputError, match=r"^c: "):
        more = tuple(replace(b, R=(b.R[0], b.R[0]), rows=np.array([20, 20])) for b in information.blocks)
        refuse_contradictions(replace(two, blocks=more), truth, "abc")


@pytest.mark.parametrize("seed", range(5))
def test_short_recordings_of_one_robot_agree_though_each_fits_better_alone(seed):
    truth, information = three_recordings((1.0, 1.0, 1.0), (0.8, 0.8, 0.8), rows=1, seed=seed)
    together, _ = errors_of(truth, information, 2)
    assert together > 0.1
    refuse_contradictions(information, truth, "abc")


def test_a_recording_that_contradicts_the_others_is_named():
    """Another load on one of three recordings; with the same load, or noise alone, nothing is said."""
    robot, samples = simulated_truth()[0], simulated()
    one = build_problem(robot, [samples], IdentifyOptions(friction="viscous+coulomb"), lambda *_: None).information
    few = one.take(range(0, len(one.blocks), 2))

    def together(*gains):
        parts = [scale_efforts(few, np.full(robot.n, gain)).blocks for gain in gains]
        blocks = [replace(block, recording=k) for k, part in enumerate(parts) for block in part]
        information = replace(one, blocks=tuple(blocks))
        refuse_contradictions(information, wls(information).value, ["first.bag", "second.bag", "third.bag"])

    together(1.0, 1.0, 1.0)
    together(1.0, 1.03, 1.0)
    together(1.5)
    with pytest.raises(InputError, match=r"second\.bag.*torque error \d+ % together with the other recordings"):
        together(1.0, 1.6, 1.0)
