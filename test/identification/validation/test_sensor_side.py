# SPDX-License-Identifier: Apache-2.0

"""Which torque the efforts are: laws compared by brute force on rows left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import block_folds
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.validation.sensor_side import (
    LAWS,
    SENSORS,
    SensorSide,
    compare_sensor_sides,
    find_link_sensors,
)
from ros2_dynid.model.efforts import DRIVE, MeasuredEffort
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
NAMES = ROBOT.active_names
N = 600


def problem_of(drives, noise=1.0, seed=0, terms=()):
    """Return a problem whose joints have these Ia, Fv and Fc in their efforts."""
    chi, names, rng = standard_vector(ROBOT), standard_names(ROBOT), np.random.default_rng(seed)
    for j, parts in enumerate(drives, start=1):
        for part, x in zip(DRIVE, parts, strict=True):
            chi[names.index(f"{part}{j}")] = x
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, N, 3)) * np.array([1.0, 0.7, 2.0])
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq) + noise * rng.normal(size=q.shape)
    prepared = (as_prepared(ROBOT, q, dq, ddq, tau),)
    information = build_information(ROBOT, BASE, prepared, delay=False, terms=terms)
    return Problem(ROBOT, BASE, prepared, information, np.zeros(information.size), terms)


def place(part, joint):
    return BASE.leaders.index(f"{part}{joint}")


def side_by_hand(problem, estimate, joint):
    """Return the parts of the smallest law within the scatter of the best, and growth and scatter, from the rows."""
    (p,) = problem.prepared
    W = regressor(ROBOT, p.q, p.dq, p.ddq)[:, :, BASE.columns(ROBOT)] / estimate.sigma[:, None]
    tau, block = p.tau / estimate.sigma, np.arange(N) // 20
    z = {part: estimate.value[place(part, joint)] / estimate.std[place(part, joint)]
         for part in DRIVE if f"{part}{joint}" in BASE.leaders}  # fmt: skip
    laws = [law for law in LAWS if all(z.get(part, np.inf) > SENSORS.likely for part in law)]
    laws = [law for law in laws if "Fc" in law or z["Fc"] <= SENSORS.certain] or [LAWS[-1]]
    errors = []
    for law in laws:
        kept = [k for k, leader in enumerate(BASE.leaders) if leader not in {f"{part}{joint}" for part in z} - {
            f"{part}{joint}" for part in law}]  # fmt: skip
        own = []
        for fold in block_folds(problem.information, 5):
            out = np.isin(block, fold)
            x = np.linalg.lstsq(W[~out][:, :, kept].reshape(-1, len(kept)), tau[~out].ravel(), rcond=None)[0]
            own.append(np.sum((tau[out] - W[out][:, :, kept] @ x) ** 2))
        errors.append(np.array(own))
    best = int(np.argmin([e.sum() for e in errors]))
    for k in range(best):
        more = errors[k] - errors[best]
        spread = np.sqrt(5) * more.std(ddof=1)
        if more.sum() <= spread:
            return laws[k], more.sum() / errors[best].sum(), spread / errors[best].sum()
    return laws[best], 0.0, 0.0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("drives", [((0.5, 6.0, 8.0), (0.0, 0.0, 5.0), (0.0, 0.0, 0.0)), ((0.0, 0.05, 0.6),) * 3])
def test_sides_are_those_of_laws_compared_by_hand(seed, drives):
    problem = problem_of(drives, seed=seed)
    estimate = wls(problem.information)
    sides = compare_sensor_sides(problem, estimate)
    (p,) = problem.prepared
    for j, name in enumerate(NAMES, start=1):
        side, k = sides[name], place("Fv", j)
        largest = abs(estimate.base[k]) + 2.0 * estimate.base_std[k]
        share = largest * np.linalg.norm(p.dq[:, j - 1]) / np.linalg.norm(p.tau[:, j - 1])
        assert side.share == pytest.approx(share, rel=1e-6)
        if estimate.value[k] > SENSORS.certain * estimate.std[k]:
            assert (side.measured_drive, side.clear, side.growth) == (DRIVE, True, 0.0)
            continue
        felt, growth, scatter = side_by_hand(problem, estimate, j)
        assert side.measured_drive == felt
        assert (side.growth, side.scatter) == (pytest.approx(growth, abs=1e-6), pytest.approx(scatter, abs=1e-6))
        assert side.clear == ("Fv" not in felt and share < SENSORS.visible_share)


def test_a_joint_at_the_link_is_not_asked_and_one_that_is_not_known_has_no_share():
    problem = problem_of(((0.0, 0.0, 0.0),) * 3)
    estimate = wls(problem.information)
    linked = replace(
        ROBOT,
        joints=tuple(replace(j, measures=MeasuredEffort(())) if k == 1 else j for k, j in enumerate(ROBOT.joints)),
    )
    assert list(compare_sensor_sides(replace(problem, robot=linked), estimate)) == [NAMES[0], NAMES[2]]
    lost = estimate.identified.copy()
    lost[place("Fv", 3)] = False
    unknown = compare_sensor_sides(problem, replace(estimate, identified=lost))[NAMES[2]]
    assert unknown.share == np.inf and not unknown.clear
    few = replace(problem, information=problem.information.take([0, 1]))
    sides = compare_sensor_sides(few, estimate)
    assert all((side.measured_drive, side.clear) == (DRIVE, False) for side in sides.values()), (
        "too few folds to compare"
    )


@pytest.mark.parametrize(("deviations", "certain"), [(1.01 * SENSORS.certain, True), (0.99 * SENSORS.certain, False)])
def test_a_friction_term_that_is_certainly_there_is_of_a_motor(deviations, certain):
    terms = (FrictionTerm(3, FrictionKind.CUBIC),)
    problem = problem_of(((0.0, 0.0, 0.0),) * 3, terms=terms)
    estimate = wls(problem.information)
    value = estimate.value.copy()
    value[estimate.layout.friction] = deviations * estimate.std[estimate.layout.friction]
    value[[place("Fv", 3), place("Fc", 3)]] = 0.0
    sides = compare_sensor_sides(problem, replace(estimate, value=value))
    assert (sides[NAMES[2]].measured_drive == DRIVE and sides[NAMES[2]].clear) == certain
    assert not (sides[NAMES[0]].measured_drive == DRIVE and sides[NAMES[0]].clear), "the term is of another joint"


def side(measured_drive, sure, share=0.01):
    return SensorSide(measured_drive, sure, share)


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
    assert find_link_sensors(sides) == found
