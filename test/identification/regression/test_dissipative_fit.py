# SPDX-License-Identifier: Apache-2.0

"""Estimates whose friction brakes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from recordings import DATA, study
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.friction import terms_torque
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.friction_columns import hold_beyond
from ros2_dynid.identification.online.estimator import OnlineEstimator
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.dissipative_fit import constrain, dissipation_rows, dissipative_estimate
from ros2_dynid.identification.regression.least_squares import ols, wls
from ros2_dynid.identification.regression.prior import Prior
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Coupling
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples

ROBOT = load_robot("demo3")


BASE = base_parameters(ROBOT)


FV2, FC2 = BASE.leaders.index("Fv2"), BASE.leaders.index("Fc2")


KIND = FrictionKind


def braking(rows, x, tolerance=1e-9):
    return bool(np.all(rows @ x >= -tolerance * np.abs(x).max()))


@pytest.mark.parametrize("seed", range(6))
def test_no_other_value_that_satisfies_the_inequalities_fits_better(seed):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(30, 8)) * 10.0 ** rng.uniform(-2, 2, 8)
    value, rows = rng.normal(size=8) / np.linalg.norm(W, axis=0), rng.normal(size=(6, 8)) * np.linalg.norm(W, axis=0)
    least = rng.normal(size=6) - 0.5
    x, projection = constrain(W, value, rows, least)
    assert np.all(rows @ x >= least - 1e-9)
    by_scipy = scipy.optimize.minimize(
        lambda z: np.sum((W @ (z / np.linalg.norm(W, axis=0) - value)) ** 2),
        np.zeros(8),
        constraints={"type": "ineq", "fun": lambda z: rows @ (z / np.linalg.norm(W, axis=0)) - least},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.sum((W @ (x - value)) ** 2) == pytest.approx(by_scipy.fun, rel=1e-6, abs=1e-9)
    at_limit = np.abs(rows @ x - least) < 1e-9
    assert at_limit.any()
    np.testing.assert_allclose(rows[at_limit] @ projection, 0.0, atol=1e-6 * np.abs(rows).max())
    np.testing.assert_allclose(projection @ projection, projection, atol=1e-6)


def test_what_is_not_free_stays_and_what_holds_is_left_alone():
    rng = np.random.default_rng(1)
    W, value = rng.normal(size=(20, 5)), np.array([1.0, -2.0, 3.0, -0.5, 0.2])
    rows = np.eye(5)[[1]]
    free = np.array([True, True, False, True, False])
    x, _ = constrain(W, value, rows, free=free)
    assert x[1] == 0.0 and np.array_equal(x[[2, 4]], value[[2, 4]])
    kept = np.linalg.lstsq(W[:, [0, 3]], W[:, [0, 1, 3]] @ value[[0, 1, 3]], rcond=None)[0]
    np.testing.assert_allclose(x[[0, 3]], kept)
    same = constrain(W, np.abs(value), rows)
    assert np.array_equal(same[0], np.abs(value)) and np.array_equal(same[1], np.eye(5))


def rows_of(friction, seed=0, count=600):
    """Return the information of a motion whose second joint has Fv and Fc of `friction`, and its rows."""
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-1.5, 1.5, (3, count, 3))
    chi = standard_vector(ROBOT).copy()
    chi[14 + 11], chi[14 + 12] = friction
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    return build_information(
        ROBOT, BASE, [as_prepared(ROBOT, q, dq, ddq, tau + 0.05 * rng.normal(size=tau.shape))], delay=False
    )


def plain_rows():
    return dissipation_rows(ROBOT, BASE.leaders, (), None, len(BASE))


@pytest.mark.parametrize("method", ["ols", "wls"])
def test_an_estimate_with_pushing_friction_is_the_fit_without_its_column(method):
    """All other parameters are estimated anew, and the error bars are those of that fit."""
    information = rows_of((-2.0, 3.0))
    fit = {"ols": ols, "wls": wls}[method]
    free = fit(information)
    assert free.value[FV2] < -1.0
    told = dissipative_estimate(information, free, plain_rows())
    assert told.value[FV2] == 0.0 and told.std[FV2] == pytest.approx(0.0, abs=1e-9)
    kept = [k for k in range(len(BASE)) if k != FV2]
    weights = np.ones(3) if method == "ols" else 1.0 / free.sigma
    parts = []
    for j, columns in enumerate(information.columns):
        R = np.zeros((len(information.triangle(j)), len(BASE) + 1))
        R[:, [*columns, -1]] = weights[j] * information.triangle(j)
        parts.append(R)
    A = np.vstack(parts)
    by_hand = np.linalg.lstsq(A[:, kept], A[:, -1], rcond=None)[0]
    np.testing.assert_allclose(told.value[kept], by_hand, rtol=1e-6, atol=1e-8)
    assert told.value[FC2] != pytest.approx(free.value[FC2], rel=0.05), "Fc makes up for what Fv may not do"
    assert np.all(told.std <= 1.05 * free.std) and told.sigma[1] > free.sigma[1]


def test_an_estimate_whose_friction_brakes_is_not_touched():
    information = rows_of((2.0, 3.0))
    estimate = wls(information)
    assert dissipative_estimate(information, estimate, plain_rows()) is estimate


def test_a_prior_is_held_to_as_much_as_before():
    """The fit of rows and prior together is what changes least."""
    information = rows_of((-2.0, 3.0))
    free = wls(information)
    prior = Prior(np.zeros(len(BASE)), 1e12 * np.eye(len(BASE)), "certain")
    held, loose = (
        dissipative_estimate(information, free, plain_rows(), prior=prior, weight=weight) for weight in (1.0, 0.0)
    )
    assert held.value[FV2] == loose.value[FV2] == 0.0
    kept = np.arange(len(BASE)) != FV2
    np.testing.assert_allclose(held.value[kept], free.value[kept], rtol=1e-3, atol=1e-5)
    assert not np.allclose(loose.value[FC2], free.value[FC2], rtol=1e-2)


def test_a_stream_has_friction_that_brakes():
    t = np.arange(3000) / 100.0
    w = np.array([1.3, 1.7, 2.3])
    q, dq, ddq = np.sin(w * t[:, None]), w * np.cos(w * t[:, None]), -(w**2) * np.sin(w * t[:, None])
    q, dq, ddq = (x + y for x, y in zip((q, dq, ddq), (0.5 * np.sin(3 * t[:, None] + w), 1.5 * np.cos(3 * t[:, None] + w), -4.5 * np.sin(3 * t[:, None] + w)), strict=True))  # fmt: skip  # noqa: E501
    chi = standard_vector(ROBOT).copy()
    chi[14 + 11] = -1.0
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    estimator = OnlineEstimator(ROBOT, 100.0)
    for row in zip(q, tau, t, strict=True):
        estimator.take(*row)
        estimator.work()
    model = estimator.estimate()
    assert model is not None and model.value[FV2] == 0.0 and model.value[FC2] > 0.0


LEADERS = ("Fv2", "Fc2")


def judged(terms, coefficients, *, viscous=1.0, coulomb=1.0, temperature=None):
    """Return whether the law of joint 2 with these terms brakes."""
    rows = dissipation_rows(ROBOT, LEADERS, terms, temperature, 2 + len(terms))
    return braking(rows, np.array([viscous, coulomb, *coefficients]))


def test_every_term_brakes_and_none_makes_up_for_another():
    root, cubic = FrictionTerm(2, KIND.ROOT), FrictionTerm(2, KIND.CUBIC)
    assert judged([], [], viscous=0.0, coulomb=0.0)
    assert not judged([], [], viscous=-1e-3) and not judged([], [], coulomb=-1e-3)
    assert judged([root, cubic], [5.0, 5.0]) and not judged([root], [5.0], viscous=-1.0)
    assert not judged([root, cubic], [9.0, -1e-3])


def test_terms_of_either_sign_take_no_more_than_viscous_and_coulomb_friction_give():
    both = FrictionTerm(2, KIND.ASYMMETRIC)
    assert judged([both], [-1.0]) and judged([both], [1.0]) and not judged([both], [1.01])
    warm, thin = (FrictionTerm(2, kind, reference=30.0) for kind in (KIND.TEMPERATURE, KIND.TEMPERATURE_VISCOUS))
    seen = np.array([[20.0, 20.0, 20.0], [20.0, 50.0, 20.0]])
    for term in (warm, thin):
        assert judged([term], [-0.049], temperature=seen) and judged([term], [0.099], temperature=seen)
        assert not judged([term], [-0.051], temperature=seen) and not judged([term], [0.101], temperature=seen)
        assert judged([term], [-9.0]), "without temperatures it is zero"
    assert judged([thin, both], [-0.03, 0.39], temperature=seen)
    assert not judged([thin, both], [-0.03, 0.41], temperature=seen)


def test_a_shape_changes_by_one_step_at_most():
    term = FrictionTerm(2, KIND.STRIBECK, speed=0.9)
    free = (term, replace(term, of_shape=True))
    assert judged(free, [1.0, 0.46]) and not judged(free, [1.0, 0.48]) and not judged(free, [1.0, -0.48])


def test_beyond_the_fastest_speed_recorded_a_law_is_held_beside_its_viscous_part():
    """Neither does it fall there, as a wide Stribeck term would, nor grow by more than the recording showed."""
    kinds = {KIND.CUBIC: {}, KIND.POWER: {"exponent": 3.0}, KIND.STRIBECK: {"speed": 0.9}, KIND.ROOT: {}, KIND.LOAD: {}}
    terms = tuple(FrictionTerm(2, kind, 0.5, **shape) for kind, shape in kinds.items())
    robot = replace(ROBOT, friction=hold_beyond(ROBOT, terms, np.array([1.0, 2.0, 1.0])))
    v = np.array([[0.0, x, 0.0] for x in (-9.0, -2.0, -1.0, 1.0, 2.0, 9.0)])
    load = np.full_like(v, 3.0)
    tau = terms_torque(robot, v, np.sign(v), load)[:, 1]
    free = terms_torque(replace(ROBOT, friction=terms), v, np.sign(v), load)[:, 1]
    np.testing.assert_allclose(tau[1:5], free[1:5])
    np.testing.assert_allclose(tau[[0, 5]], tau[[1, 4]])
    assert free[5] > 10.0 * tau[5]


def test_a_coupled_motor_and_its_joints_have_friction_of_their_own():
    robot = replace(ROBOT, coupling=(Coupling(3, {2: 2.0, 3: 1.0}),))
    leaders = ("Fv2", "Fv3", "Fvm3", "Fcm3")
    rows = dissipation_rows(robot, leaders, (), None, 4)
    for value, right in (((4.0, 1.0, 1.0, 0.0), True), ((3.9, 1.0, 1.0, 0.0), False), ((4.0, 0.9, 1.0, 0.0), False),
                         ((4.0, 1.0, -0.1, 0.0), False), ((4.0, 1.0, 1.0, -0.1), False)):  # fmt: skip
        x = np.array(value)
        assert braking(rows, x) == right
        if right:  # the power of viscous friction is never negative
            A = np.array([[x[0], 2.0 * x[2]], [2.0 * x[2], x[1]]])
            assert np.linalg.eigvalsh(A)[0] >= -1e-12


@pytest.mark.parametrize("seed", range(15))
def test_laws_of_random_plants_brake_from_standstill_to_the_speed_limit(seed):
    """Whatever the plant does, the method, the law asked for, the prior and the set that is served."""
    plants = study("study_dissipation")
    robot, samples, options = plants.random_plant(seed)
    assert plants.faults(identify(robot, [samples], options=options)) == []


@pytest.mark.parametrize("method", [Method.IV, Method.ENERGY])
def test_laws_of_other_estimators_brake(method):
    plants = study("study_dissipation")
    for seed in (3, 7):
        robot, samples, _ = plants.random_plant(seed)
        options = IdentifyOptions(method=method, checks=False, friction="auto")
        assert plants.faults(identify(robot, [samples], options=options)) == []


@pytest.mark.parametrize("consistent", [False, True])
def test_the_friction_of_a_real_arm_brakes(consistent):
    """A UR10 whose shoulder pushed by 11 N.m at 1e-4 rad/s when the signs of its terms were free."""
    if not (DATA / "ur10").is_dir():
        pytest.skip("the recording of the UR10 is not here (set DYNID_DATA)")
    plants = study("study_dissipation")
    robot = load_robot(DATA / "ur10" / "robot.urdf")
    samples = load_samples(DATA / "ur10" / "run.db3", robot)
    found = identify(robot, [samples], options=IdentifyOptions(consistent=consistent))
    assert plants.faults(found) == []
    assert found.outcome.fit["all"].relative < 0.04
