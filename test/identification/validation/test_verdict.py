# SPDX-License-Identifier: Apache-2.0

"""What is told about an estimate: every field from a value of its own, both sides of every threshold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recordings import DATA, simulated, simulated_truth
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import remark
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.physical.essential import Step
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem, build_problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.error_bars import block_moments
from ros2_dynid.identification.regression.least_squares import own_errors, wls
from ros2_dynid.identification.result import Delay, EliminationStep, IdentifyOutcome, SensorRow
from ros2_dynid.identification.validation.cross_validation import HeldOut, LeftOut, ValidatedBy
from ros2_dynid.identification.validation.sensor_side import SensorSide
from ros2_dynid.identification.validation.torque_errors import Whiteness, compare_torques, torque_errors
from ros2_dynid.identification.validation.verdict import (
    Evidence,
    JointEvidence,
    Level,
    ParameterEvidence,
    describe_validation,
    gather_evidence,
    give_verdict,
)
from ros2_dynid.model.forces import Force, ForceKind
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples
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
    assert describe_validation(held_out) == words


def test_evidence_has_every_number_of_its_own():
    problem, _ = problem_of(delay=True)
    information = problem.information
    found = replace(wls(information), cond=77.0)
    names = ROBOT.active_names
    fit = torque_errors(names, information, found.value)
    other = {name: TorqueError(1.0, 0.1 + 0.1 * k) for k, name in enumerate((*names, "all"))}
    white = {names[0]: Whiteness(0.5, 0.001), names[1]: Whiteness(0.1, 0.5)}
    seen = gather_evidence(
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
    bare = gather_evidence(ROBOT, problem.base, information, found, fit, HeldOut())
    assert bare.held_out is None and not bare.same_motion and not any(joint.coloured for joint in bare.joints)
    lost = found.identified.copy()
    lost[1] = False
    unknown = gather_evidence(ROBOT, problem.base, information, replace(found, identified=lost), fit, HeldOut())
    assert unknown.parameters[1].std is None and unknown.parameters[0].std is not None


@pytest.mark.parametrize(("correlation", "probability", "coloured"), [
    (0.3, 0.001, True), (-0.3, 0.001, True), (0.19, 0.001, False), (0.3, 0.011, False), (0.21, 0.009, True),
])  # fmt: skip
def test_what_counts_as_coloured(correlation, probability, coloured):
    problem, _ = problem_of((100, 100))
    estimate = wls(problem.information)
    fit = torque_errors(ROBOT.active_names, problem.information, estimate.value)
    white = {ROBOT.active_names[1]: Whiteness(correlation, probability)}
    seen = gather_evidence(ROBOT, problem.base, problem.information, estimate, fit, HeldOut(), whiteness=white)
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
    asked = {"method": Method.WLS, "filter": None, "delay": Delay(0.0, None)}
    outcome = IdentifyOutcome(base=(), verdict=(), notes=(), **asked)
    assert (outcome.essential, outcome.cond, outcome.rows, outcome.seconds) == ((), None, 0, 0.0)
    assert outcome.standard == outcome.consistent == outcome.fit == outcome.validation == {}
    assert (outcome.validated_by, outcome.folds, outcome.serve) == (ValidatedBy.NOTHING, 0, "base")
    assert (outcome.elimination, outcome.consistency, outcome.prior, outcome.recommended) == (None,) * 4
    step = EliminationStep("a", None, 1.0, 2.0, True)
    assert (step.growth, step.allowed) == (0.0, 0.0) and SensorRow("motor") == SensorRow("motor", None, True, None)
    tried = Step(1, 0.5, 1.0, 2.0, True)
    assert (tried.growth, tried.allowed) == (0.0, 0.0)
    side = SensorSide((), True, 0.1)
    assert (side.growth, side.scatter) == (0.0, 0.0)
    seen = Evidence((), (), 0.1)
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
    seen = {one.name: one for one in gather_evidence(robot, base, information, found, fit, HeldOut()).parameters}
    for name, joint in (("Ks1", 2), ("Ks2", 1)):
        one = seen[name]
        assert (one.joint, one.kind, one.group) == (robot.active_names[joint], "Ks", "force")
        assert one.noise == found.sigma[joint]
    assert seen["Ks2"].effect == pytest.approx(np.sqrt(np.mean(q[:, 1] ** 2)))
    assert seen["Ks1"].effect == pytest.approx(np.sqrt(np.mean((q[:, 0] - q[:, 2]) ** 2)))
    odd = replace(found, sigma=np.ones(5))  # of rows that are not those of the joints
    again = gather_evidence(robot, base, information, odd, fit, HeldOut()).parameters
    own = own_errors(information)
    assert {one.name: one.noise for one in again}["Ks2"] == own[1] != found.sigma[1]


# --- this evidence, that conclusion

STRONG = JointEvidence("shoulder", torque=50.0, noise=0.5, fit=0.02, held_out=0.03)
WEAK = JointEvidence("wrist", torque=4.0, noise=0.1, fit=0.03, held_out=0.04)
Fv = ParameterEvidence("Fv2", "wrist", "Fv", "friction", value=1.0, std=0.02, effect=1.0, noise=0.1)
Ia = replace(Fv, name="Ia2", kind="Ia", group="rotor")
FINE = Evidence((STRONG, WEAK), (Fv, Ia), fit=0.02, held_out=0.03, tested="held-out recordings", cond=20.0)


def said(evidence, part):
    return [remark for remark in give_verdict(evidence) if part in remark.text]


def levels(evidence):
    return [remark.level for remark in give_verdict(evidence)]


def test_a_good_model_gets_no_warning():
    assert set(levels(FINE)) == {Level.GOOD, Level.NOTE}
    assert [str(level) for level in Level] == ["good", "note", "warning", "problem"]


@pytest.mark.parametrize(
    ("fit", "held_out", "level"),
    [
        (0.09, 0.099, Level.GOOD),
        (0.09, 0.101, Level.WARNING),
        (0.001, 0.149, Level.WARNING),
        (0.2, 0.149, Level.WARNING),
        (0.02, 0.151, Level.PROBLEM),
        (0.02, None, Level.WARNING),
        (0.151, None, Level.PROBLEM),
    ],
)
def test_held_out_error_decides_and_not_the_fit(fit, held_out, level):
    (overall,) = said(replace(FINE, fit=fit, held_out=held_out), "the torque error is")
    assert overall.level is level
    assert ("not validated" in overall.text) == (held_out is None)


@pytest.mark.parametrize(
    ("fit", "held_out", "level"),
    [
        (0.06, 0.119, None),
        (0.06, 0.121, Level.WARNING),
        (0.03, 0.099, None),
        (0.034, 0.101, Level.WARNING),
        (0.034, 0.144, Level.PROBLEM),
        (0.034, None, None),
    ],
)
def test_a_model_that_does_not_generalise_is_named(fit, held_out, level):
    found = said(replace(FINE, fit=fit, held_out=held_out), "does not hold beyond")
    assert [remark.level for remark in found] == ([] if level is None else [level])


@pytest.mark.parametrize(
    ("torque", "held_out", "level", "known"),
    [
        (5.1, 0.149, None, True),
        (5.1, 0.151, Level.WARNING, True),
        (4.9, 0.151, Level.WARNING, True),
        (5.1, 0.51, Level.PROBLEM, False),
        (4.9, 0.51, Level.WARNING, False),
        (4.9, 0.49, Level.WARNING, True),
    ],
)
def test_a_joint_that_is_not_predicted_is_named_by_what_it_carries(torque, held_out, level, known):
    bad = replace(WEAK, torque=torque, held_out=held_out)
    evidence = replace(FINE, joints=(STRONG, bad))
    found = said(evidence, "of its torque")
    assert [remark.level for remark in found] == ([] if level is None else [level])
    assert all(remark.text.startswith("wrist") and ("not known" in remark.text) != known for remark in found)
    (overall,) = said(evidence, "the torque error is")
    assert (overall.level is Level.GOOD) == (level is not Level.PROBLEM)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"noise": 0.2, "torque": 0.2, "fit": 0.9, "held_out": 1.0}, "larger torques"),
        ({"noise": 0.2, "torque": 0.2, "fit": 0.9, "held_out": 1.0, "coloured": True}, "friction beyond"),
        ({"noise": 0.1, "fit": 0.02, "held_out": 0.6}, "more varied motion"),
        ({"noise": 0.1, "fit": 0.5, "held_out": 0.6}, "shares with other joints"),
        ({"noise": 0.1, "fit": 0.5, "held_out": None}, "shares with other joints"),
        ({"noise": 1.19, "fit": 0.2, "held_out": 0.6}, "more varied motion"),  # just above twice its noise
        ({"noise": 1.21, "fit": 0.2, "held_out": 0.6}, "larger torques"),
        ({"noise": 0.1, "fit": 0.29, "held_out": 0.6}, "more varied motion"),
        ({"noise": 0.1, "fit": 0.31, "held_out": 0.6}, "shares with other joints"),
    ],
)
def test_the_hint_fits_the_cause(change, hint):
    (remark,) = said(replace(FINE, joints=(STRONG, replace(WEAK, **change))), "of its torque")
    assert hint in remark.text
    others = {"larger torques", "friction beyond", "more varied motion", "shares with other joints"} - {hint}
    assert not any(other in remark.text for other in others)


@pytest.mark.parametrize(
    ("parameter", "hint"),
    [
        (replace(Fv, std=0.31), "vary its speed more"),
        (replace(Ia, std=0.31), "accelerate it more"),
        (replace(Fv, std=0.29), None),  # known well enough
        (replace(Fv, std=0.31, effect=0.3), None),  # its uncertainty is less than the joint's error
        (replace(Fv, value=1e-3, std=0.05), None),  # hardly any friction: nothing to know
        (replace(Fv, std=0.0), None),  # not essential
        (replace(Fv, std=0.31, shared=True), None),  # further terms of the law share its torque
        (replace(Fv, group="inertial", std=0.31), None),
    ],
)
def test_poorly_known_friction_is_named_where_it_matters(parameter, hint):
    found = said(replace(FINE, parameters=(parameter,)), "poorly known")
    assert [hint in remark.text and parameter.name in remark.text for remark in found] == (
        [] if hint is None else [True]
    )
    longer = said(replace(FINE, parameters=(parameter,), seconds=59.0), "poorly known")
    assert all("record longer" in remark.text for remark in longer) and len(longer) == len(found)
    found = said(replace(FINE, parameters=(parameter,), seconds=61.0), "poorly known")
    assert not any("record longer" in remark.text for remark in found)


@pytest.mark.parametrize(("value", "std", "relative"), [
    (2.0, 0.1, 0.05), (-2.0, 0.1, 0.05), (-2.0, None, np.inf), (2.0, 0.0, np.inf),
])  # fmt: skip
def test_a_parameter_is_known_relative_to_its_size(value, std, relative):
    assert replace(Fv, value=value, std=std).relative_std == pytest.approx(relative)


def test_a_joint_is_named_once_with_all_that_is_poorly_known_of_it():
    few = (replace(Fv, std=0.4), replace(Ia, std=0.4), replace(Fv, name="Fc1", joint="elbow", std=0.4))
    found = said(replace(FINE, parameters=few, seconds=70.0), "poorly known")
    assert [remark.text for remark in found] == [
        "wrist: Fv2, Ia2 poorly known; accelerate it more and vary its speed more",
        "elbow: Fc1 poorly known; vary its speed more",
    ]
    assert {remark.level for remark in found} == {Level.WARNING}


@pytest.mark.parametrize(
    ("parameter", "named"),
    [
        (replace(Fv, value=-1.0), True),
        (replace(Ia, value=-1.0), True),
        (replace(Fv, value=1.0), False),
        (replace(Fv, value=-0.05), False),  # smaller than the joint's error
        (replace(Fv, value=-1.0, std=0.34), False),  # may be chance
        (replace(Fv, value=-1.0, std=0.32), True),
        (replace(Fv, value=-0.11), True),
        (replace(Fv, value=-0.2, effect=0.45), False),
        (replace(Fv, value=-1.0, std=None), False),
        (replace(Fv, value=-1.0, shared=True), False),  # the law as a whole may brake
        (replace(Fv, kind="off", value=-1.0), False),
    ],
)
def test_negative_friction_is_named_and_good_friction_is_not(parameter, named):
    found = said(replace(FINE, parameters=(parameter,)), "negative")
    assert [(remark.level, parameter.name in remark.text) for remark in found] == [(Level.WARNING, True)] * named


def test_what_was_not_excited_is_a_problem_and_counts_are_right():
    parameters = (Fv, replace(Fv, name="a", std=0.07), replace(Fv, name="b", std=None), replace(Fv, name="c", std=0.0))
    evidence = replace(FINE, parameters=parameters)
    (remark,) = said(evidence, "not excited")
    assert remark.level is Level.PROBLEM and "b; move wrist" in remark.text
    assert said(evidence, "1 of 3 base parameters are known to 5 % or better, 2 to 10 %")
    more = [
        replace(Fv, name=name, joint=joint, std=None)
        for name, joint in (("x", "wrist"), ("y", "elbow"), ("z", "wrist"))
    ]
    (remark,) = said(replace(FINE, parameters=(Fv, *more)), "not excited")
    assert "not excited: x, y, z; move elbow, wrist more," in remark.text, "each joint once"


@pytest.mark.parametrize(
    ("change", "part", "count"),
    [
        ({"cond": 299.0}, "condition number", 0),
        ({"cond": 301.0}, "condition number", 1),
        ({"delay": 2.9e-3, "delay_std": 1e-3}, "corrected", 0),
        ({"delay": -2.9e-3, "delay_std": 1e-3}, "corrected", 0),
        ({"delay": 3.1e-3, "delay_std": 1e-3}, "corrected", 1),
        ({"delay": 4e-3, "delay_std": 1e-3}, "4.00 +- 1.00 ms late", 1),
        ({"delay": -4e-3, "delay_std": 1e-3}, "early", 1),
        ({"joints": (replace(STRONG, coloured=True), WEAK)}, "errors of shoulder are not random", 1),
        ({"prior_error": 0.46}, "the a priori model has 46 %", 1),
    ],
)
def test_the_rest(change, part, count):
    assert len(said(replace(FINE, **change), part)) == count


def test_problems_come_first():
    bad = replace(FINE, held_out=0.6, cond=1e4, joints=(STRONG, replace(WEAK, torque=20.0, held_out=0.9)))
    order = [Level.PROBLEM, Level.WARNING, Level.GOOD, Level.NOTE]
    ranks = [order.index(level) for level in levels(bad)]
    assert ranks == sorted(ranks) and len(set(ranks)) == 3
    # a part that is not excited, a poor condition, a good error, the count of what is known: all four kinds
    mixed = replace(FINE, parameters=(Fv, replace(Ia, std=None)), cond=400.0)
    assert levels(mixed) == order


def test_evidence_of_a_simulation_has_the_joints_own_numbers():
    robot, _ = simulated_truth()
    problem = build_problem(robot, [simulated()], IdentifyOptions(), lambda *_: None)
    information, value = problem.information, problem.prior
    found = wls(information)
    errors = torque_errors(robot.active_names, information, found.value)
    seen = gather_evidence(robot, problem.base, information, found, errors, HeldOut(errors, ValidatedBy.RECORDINGS))
    torque = torque_errors(robot.active_names, information, np.zeros_like(value))
    for joint in seen.joints:
        assert joint.torque == pytest.approx(torque[joint.name].rms)
        assert 0.1 * errors[joint.name].rms < joint.noise < 1.1 * errors[joint.name].rms  # its rows alone
        assert joint.held_out == errors[joint.name].relative
    A = block_moments(information, found.value, np.ones(information.n)).A.sum(axis=0)
    for k, parameter in enumerate(seen.parameters):
        if parameter.kind in ("Fv", "Fc", "off"):  # felt by that joint alone
            j = robot.active_names.index(parameter.joint)
            assert parameter.effect == pytest.approx(np.sqrt(A[k, k] / information.rows[j]))
            assert parameter.noise == found.sigma[j]


def test_cross_validation_is_the_default_and_says_so():
    robot, _ = simulated_truth()
    quick = IdentifyOptions(friction="viscous+coulomb", checks=False, prior="none")
    outcome = identify(robot, [simulated()], options=quick).outcome
    assert (outcome.validated_by, outcome.folds) == (ValidatedBy.CROSS_VALIDATION, 5)
    assert set(outcome.validation) == set(outcome.fit)
    assert outcome.fit["all"].relative < outcome.validation["all"].relative < 0.02
    none = identify(robot, [simulated()], options=replace(quick, cross_validate=0)).outcome
    assert (none.validated_by, none.folds, dict(none.validation)) == (ValidatedBy.NOTHING, 0, {})
    assert any("not validated: validation was switched off" in remark.text for remark in none.verdict)


@pytest.mark.skipif(not (DATA / "kr300").is_dir(), reason="the recordings of real robots are not here")
def test_a_kr300_fitted_on_one_trajectory_is_not_called_good():
    robot, folder = load_robot(DATA / "kr300" / "robot.yaml"), DATA / "kr300"
    options = IdentifyOptions(prior="none")
    alone = identify(robot, [folder / "a.npz"], options=options).outcome
    assert alone.sets["base"].fit["all"].relative < 0.04
    assert Level.GOOD not in {remark.level for remark in alone.verdict}
    assert any("does not hold beyond" in remark.text for remark in alone.verdict)
    tested = identify(robot, [folder / "a.npz"], options=options, validate=[folder / "c.npz"]).outcome
    assert tested.validated_by is ValidatedBy.RECORDINGS and tested.sets["base"].validation["all"].relative > 0.3
    assert tested.serve == "consistent" and tested.validation["all"].relative < 0.15, "bodies hold beyond it"


@pytest.mark.skipif(not (DATA / "kr300").is_dir(), reason="the recordings of real robots are not here")
def test_least_squares_is_recommended_where_instruments_correct_nothing():
    robot, folder = load_robot(DATA / "kr300" / "robot.yaml"), DATA / "kr300"
    options = IdentifyOptions(method=Method.IV, friction="viscous+coulomb")
    found = identify(robot, [folder / "a.npz"], options=options).outcome
    assert found.recommended is Method.WLS
    assert any("biases nothing" in remark.text and remark.level is Level.WARNING for remark in found.verdict)


def repeated_motion(seed, seconds, period):
    """Return demo6 on three harmonics, with a torque that no model of ours has."""
    robot, rng = load_robot("demo6"), np.random.default_rng(seed)
    chi = standard_vector(robot)
    chi[11 : 14 * robot.n : 14] = 2.0
    t = np.arange(0.0, seconds, 0.01)
    q, dq, ddq = np.zeros((3, len(t), robot.n))
    for j in range(robot.n):
        for h in (1, 2, 3):
            w, (a, b) = 2.0 * np.pi * h / period, rng.normal(0.0, 0.5 / h, 2)
            s, c = np.sin(w * t), np.cos(w * t)
            q[:, j], dq[:, j], ddq[:, j] = (
                q[:, j] + a * s + b * c,
                dq[:, j] + w * (a * c - b * s),
                ddq[:, j] - w**2 * (a * s + b * c),
            )
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    tau += 0.15 * np.sqrt(np.mean(tau**2, axis=0)) * np.sin(3.0 * q) + rng.normal(0.0, 0.02, q.shape)
    return robot, Samples(t, robot.active_names, q, tau=tau, source="repeated")


def test_a_motion_that_repeats_is_left_out_by_parts_of_its_period():
    """Stretches of time hold nothing new there: their error is that of the fit, a third of that on another motion."""
    options, ratios = IdentifyOptions(checks=False, prior="none"), []
    _, other = repeated_motion(100, 30.0, 7.3)
    for seed in (1, 0):
        robot, recording = repeated_motion(seed, 30.0, 6.0)
        elsewhere = identify(robot, [recording], options=options, validate=[other]).outcome.validation["all"].relative
        honest = identify(robot, [recording], options=options).outcome
        ratios.append(honest.validation["all"].relative / elsewhere)
        assert any("parts of the motion, which repeats itself" in remark.text for remark in honest.verdict)
        assert (Level.GOOD in {remark.level for remark in honest.verdict}) <= (honest.validation["all"].relative < 0.1)
    assert 0.5 < np.sqrt(ratios[0] * ratios[1]) < 2.0, "one recording's error is known within a factor of two or so"
    # irls finds its weights in stretches of time and cannot leave out parts of the period: the verdict says so
    same = identify(robot, [recording], options=replace(options, method=Method.IRLS)).outcome
    assert same.validation["all"].relative < min(1.3 * same.fit["all"].relative, elsewhere)
    assert any("repeats itself" in r.text and r.level is Level.WARNING for r in same.verdict)


@pytest.mark.parametrize(
    ("joint", "words"),
    [
        ({"torque": 123.4, "held_out": 0.516}, "52 % of its torque (123 N.m rms) is not predicted on held-out data"),
        ({"torque": 45.67, "held_out": 0.516}, "52 % of its torque (46 N.m rms)"),
        ({"torque": 20.0, "held_out": None, "fit": 0.3}, "30 % of its torque (20 N.m rms) is not predicted;"),
        ({"torque": 20.0, "noise": 0.5, "fit": 0.3, "held_out": 0.4}, "its rows alone fit to 2.5 %"),
        ({"torque": 1.0, "noise": 1.234, "fit": 2.0, "held_out": 3.0}, "its rows alone fit to 123 %"),
        ({"torque": 20.0, "noise": 0.5, "fit": 0.1, "held_out": 0.4}, "in the fit it is 10 %"),
        ({"torque": 20.0, "noise": 5.0, "fit": 0.3, "held_out": 0.4}, "its noise is 5 N.m rms"),
    ],
)
def test_remarks_have_the_figures_of_their_joint(joint, words):
    (remark,) = said(replace(FINE, joints=(STRONG, replace(WEAK, **joint))), "of its torque")
    assert words in remark.text


@pytest.mark.parametrize(("count", "end"), [(8, "p7"), (9, "p7 and 1 more"), (12, "p7 and 4 more")])
def test_long_lists_are_cut(count, end):
    parameters = tuple(replace(Fv, name=f"p{k}", value=-1.0) for k in range(count))
    (remark,) = said(replace(FINE, parameters=parameters), "came out negative")
    assert remark.text.startswith(f"p0, p1, p2, p3, p4, p5, p6, {end} came out negative")
