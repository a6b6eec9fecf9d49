# SPDX-License-Identifier: Apache-2.0

"""What is told about an estimate: every field from a value of its own, both sides of every threshold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import remark
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.physical.essential import Step
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.least_squares import own_errors, wls
from ros2_dynid.identification.result import Delay, EliminationStep, IdentifyOutcome, SensorRow
from ros2_dynid.identification.validation import verdict
from ros2_dynid.identification.validation.sensor_side import SensorSide
from ros2_dynid.identification.validation.torque_errors import (
    HeldOut,
    LeftOut,
    ValidatedBy,
    Whiteness,
    compare_torques,
    torque_errors,
)
from ros2_dynid.model.forces import Force, ForceKind
from ros2_dynid.model.friction import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
RNG = np.random.default_rng


def problem_of(counts=(300, 200), *, delay=False, noise=0.05):
    """Return two recordings of demo3 at random motion, as they are, and the true parameters."""
    chi, base, parts = true_parameters(ROBOT, 3), base_parameters(ROBOT), []
    for k, count in enumerate(counts):
        rng = RNG(k)
        q, dq, ddq = rng.uniform(-2.0, 2.0, (3, count, ROBOT.n)) * np.array([1.0, 0.5, 2.0])
        tau = inverse_dynamics(ROBOT, chi, q, dq, ddq) + noise * np.array([1.0, 2.0, 0.3]) * rng.normal(size=q.shape)
        t = 5.0 * k + 1.0 + np.arange(count) / 100.0
        notes = (remark(f"note {k}"), remark(f"more {k}"))
        parts.append(replace(as_prepared(ROBOT, q, dq, ddq, tau, t, source=f"run{k}"), notes=notes))
    information = build_information(ROBOT, base, parts, delay=delay)
    prior = information.layout.vector(base.values(ROBOT, standard_vector(ROBOT)))
    return Problem(ROBOT, base, tuple(parts), information, prior), chi


# --- judgement


@pytest.mark.parametrize(
    ("held_out", "words"),
    [
        (HeldOut({}, ValidatedBy.RECORDINGS), "held-out recordings"),
        (HeldOut({}, ValidatedBy.CROSS_VALIDATION, 4), "4 stretches left out in turn"),
        (HeldOut({}, ValidatedBy.CROSS_VALIDATION, 3, LeftOut.SAME_MOTION), "3 stretches left out in turn"),
        (
            HeldOut({}, ValidatedBy.CROSS_VALIDATION, 6, LeftOut.PARTS_OF_PERIOD),
            "6 parts of the motion, which repeats itself, left out in turn",
        ),
    ],
)
def test_what_was_tested_on_in_words(held_out, words):
    assert verdict.tested_on(held_out) == words


def test_evidence_has_every_number_of_its_own():
    problem, _ = problem_of(delay=True)
    information = problem.information
    found = replace(wls(information), cond=77.0)
    names = ROBOT.active_names
    fit = torque_errors(names, information, found.value)
    other = {name: TorqueError(1.0, 0.1 + 0.1 * k) for k, name in enumerate((*names, "all"))}
    white = {names[0]: Whiteness(0.5, 0.001), names[1]: Whiteness(0.1, 0.5)}
    seen = verdict.evidence_of(
        ROBOT,
        problem.base,
        information,
        found,
        fit,
        HeldOut(other, ValidatedBy.CROSS_VALIDATION, 5, LeftOut.SAME_MOTION),
        prior_error=0.33,
        whiteness=white,
        seconds=12.0,
        terms=(FrictionTerm(2, FrictionKind.LOAD),),
    )
    assert [joint.coloured for joint in seen.joints] == [True, False, False]
    assert [joint.held_out for joint in seen.joints] == pytest.approx([0.1, 0.2, 0.3])
    assert [joint.fit for joint in seen.joints] == [fit[name].relative for name in names]
    assert (seen.held_out, seen.fit) == (pytest.approx(0.4), fit["all"].relative) and seen.same_motion
    assert (seen.cond, seen.prior_error, seen.seconds) == (77.0, 0.33, 12.0)
    assert (seen.delay, seen.delay_std) == (found.delay, found.delay_std)
    for k, parameter in enumerate(seen.parameters):
        assert parameter.shared == (parameter.name in ("Fv2", "Fc2"))
        assert (parameter.value, parameter.std) == (found.base[k], found.base_std[k])
    bare = verdict.evidence_of(ROBOT, problem.base, information, found, fit, HeldOut())
    assert bare.held_out is None and not bare.same_motion and not any(joint.coloured for joint in bare.joints)
    lost = found.identified.copy()
    lost[1] = False
    unknown = verdict.evidence_of(ROBOT, problem.base, information, replace(found, identified=lost), fit, HeldOut())
    assert unknown.parameters[1].std is None and unknown.parameters[0].std is not None


@pytest.mark.parametrize(("correlation", "probability", "coloured"), [
    (0.3, 0.001, True), (-0.3, 0.001, True), (0.19, 0.001, False), (0.3, 0.011, False), (0.21, 0.009, True),
])  # fmt: skip
def test_what_counts_as_coloured(correlation, probability, coloured):
    problem, _ = problem_of((100, 100))
    estimate = wls(problem.information)
    fit = torque_errors(ROBOT.active_names, problem.information, estimate.value)
    white = {ROBOT.active_names[1]: Whiteness(correlation, probability)}
    seen = verdict.evidence_of(ROBOT, problem.base, problem.information, estimate, fit, HeldOut(), whiteness=white)
    assert [joint.coloured for joint in seen.joints] == [False, coloured, False]


# --- row by row


def test_fitted_torques_and_their_whiteness():
    problem, _ = problem_of((300, 200))
    found = wls(problem.information)
    warm = tuple(replace(p, temperature=p.q + 40.0) for p in problem.prepared)
    told = compare_torques(ROBOT, problem.base, warm, found.value, problem.prior, limit=130)
    some = [np.arange(0, 300, 4), np.arange(0, 200, 4)]
    for field in ("q", "dq", "ddq", "tau", "temperature"):
        rows = np.concatenate([getattr(p, field)[at] for p, at in zip(warm, some, strict=True)])
        np.testing.assert_array_equal(getattr(told.data, field), rows)
    Y = regressor(ROBOT, told.data.q, told.data.dq, told.data.ddq)[:, :, problem.base.columns(ROBOT)]
    np.testing.assert_allclose(told.data.predicted, Y @ found.value)
    np.testing.assert_allclose(told.data.prior, Y @ problem.prior)
    times = [0.04 * np.arange(75), 2.99 + 0.04 * np.arange(50)]
    np.testing.assert_allclose(told.data.t, np.concatenate(times), atol=1e-9)
    assert list(told.whiteness) == list(ROBOT.active_names)
    assert all(one.probability > 0.01 for one in told.whiteness.values())
    first = problem.prepared[0]
    slow = replace(first, tau=first.tau + 5.0 * np.sin(first.t)[:, None])
    for recordings, random in (((slow, warm[1]), False), ((warm[1], slow), True)):  # the first recording is judged
        white = compare_torques(ROBOT, problem.base, recordings, found.value, problem.prior).whiteness
        assert all((one.probability > 0.01) == random for one in white.values())


def test_what_is_not_said_has_its_default():
    """Of results that a caller makes without every field."""
    outcome = IdentifyOutcome(
        (), (), {}, {}, {}, {}, None, 0, Method.WLS, None, Delay(0.0, None), (), (), 1.0
    )  # fmt: skip
    assert (outcome.validated_by, outcome.folds, outcome.serve) == (ValidatedBy.NOTHING, 0, "base")
    assert (outcome.elimination, outcome.consistency, outcome.prior, outcome.recommended) == (None,) * 4
    step = EliminationStep("a", None, 1.0, 2.0, True)
    assert (step.growth, step.allowed) == (0.0, 0.0) and SensorRow("motor") == SensorRow("motor", None, True, None)
    tried = Step(1, 0.5, 1.0, 2.0, True)
    assert (tried.growth, tried.allowed) == (0.0, 0.0)
    side = SensorSide((), True, 0.1)
    assert (side.growth, side.scatter) == (0.0, 0.0)
    seen = verdict.Evidence((), (), 0.1)
    assert (seen.cond, seen.delay, seen.delay_std, seen.seconds) == (1.0, 0.0, np.inf, np.inf)
    assert (HeldOut().folds, HeldOut().by) == (0, ValidatedBy.NOTHING)


def test_no_more_rows_than_pictures_show_are_kept():
    """4000 of a recording; with one more, every second."""
    for count in (4000, 4001):
        problem, _ = problem_of((count,))
        compared = compare_torques(ROBOT, problem.base, problem.prepared, problem.prior, problem.prior)
        assert len(compared.data.t) == (4000 if count == 4000 else 2001)


def test_springs_are_felt_by_their_outer_joint():
    """Of a spring between two joints the outer one counts, whatever the number of the spring."""
    forces = (
        Force("between", ForceKind.SPRING, (1,), {1: 1.0, 3: -1.0}),
        Force("own", ForceKind.SPRING, (1,), {2: 1.0}),
    )
    robot = replace(ROBOT, forces=forces)
    base = base_parameters(robot)
    rng = np.random.default_rng(0)
    q, dq, ddq, tau = rng.normal(size=(4, 300, 3)) * np.array([1.0, 2.0, 3.0])
    information = build_information(robot, base, [as_prepared(robot, q, dq, ddq, tau)])
    found = wls(information)
    fit = torque_errors(robot.active_names, information, found.value)
    seen = {one.name: one for one in verdict.evidence_of(robot, base, information, found, fit, HeldOut()).parameters}
    for name, joint in (("Ks1", 2), ("Ks2", 1)):
        one = seen[name]
        assert (one.joint, one.kind, one.group) == (robot.active_names[joint], "Ks", "force")
        assert one.noise == found.sigma[joint]
    assert seen["Ks2"].effect == pytest.approx(np.sqrt(np.mean(q[:, 1] ** 2)))
    assert seen["Ks1"].effect == pytest.approx(np.sqrt(np.mean((q[:, 0] - q[:, 2]) ** 2)))
    odd = replace(found, sigma=np.ones(5))  # of rows that are not those of the joints
    again = verdict.evidence_of(robot, base, information, odd, fit, HeldOut()).parameters
    own = own_errors(information)
    assert {one.name: one.noise for one in again}["Ks2"] == own[1] != found.sigma[1]
