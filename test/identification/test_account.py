"""What is told about an estimate: every field from a value of its own, both sides of every threshold."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.inertia_matrix import inertia_matrix
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.identification import account, judgement
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import Problem, wls
from ros2_dynid.identification.estimators.column_layout import ColumnLayout
from ros2_dynid.identification.estimators.fit import inform
from ros2_dynid.identification.estimators.friction_selection import Trial
from ros2_dynid.identification.estimators.prior import Drawn, Weighing
from ros2_dynid.identification.model_file import BASE, SetErrors, TorqueError
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.outcome import (
    Delay,
    EliminationStep,
    FrictionRow,
    FrictionTrial,
    IdentifyOutcome,
    PriorUse,
    SecondSensor,
    SensorRow,
)
from ros2_dynid.identification.physical.essential import Essential, Step
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.torque_std import LEFT_OUT, band_level
from ros2_dynid.identification.validation import (
    HeldOut,
    LeftOut,
    Level,
    ValidatedBy,
    compare_torques,
    evidence,
    torque_errors,
)
from ros2_dynid.identification.validation.comparison import fitted_torques
from ros2_dynid.identification.validation.sensor_side import SensorSide
from ros2_dynid.identification.validation.torque_errors import Whiteness
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import DRIVE, PRISMATIC
from ros2_dynid.notes import remark
from ros2_dynid.sim.truth import true_parameters
from ros2_dynid.version import __version__

ROBOT = load_robot("demo3")
RNG = np.random.default_rng


def options_of(text):
    return [(part.key, part.value) for part in text.parts if not isinstance(part, str)]


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
    information = inform(ROBOT, base, parts, delay=delay)
    prior = information.layout.vector(base.values(ROBOT, standard_vector(ROBOT)))
    return Problem(ROBOT, base, tuple(parts), information, prior), chi


# --- friction


def test_friction_rows_and_trials_have_every_field():
    joints = tuple(replace(joint, sigma=PRISMATIC) if k == 2 else joint for k, joint in enumerate(ROBOT.joints))
    terms = (
        FrictionTerm(1, FrictionKind.STRIBECK, 0.4, 0.01, speed=0.2, speed_std=0.03),
        FrictionTerm(2, FrictionKind.POWER, 0.5, 0.02, exponent=0.7, exponent_std=0.04),
        FrictionTerm(3, FrictionKind.TEMPERATURE, -0.6, None, reference=31.0),
        FrictionTerm(3, FrictionKind.LOAD, 0.05, 0.001),
    )
    names = [joint.name for joint in joints]
    assert account.friction_rows(replace(ROBOT, joints=joints, friction=terms, parameters={})) == (
        FrictionRow("Fs1", names[0], "stribeck", 0.4, 0.01, "N.m", 0.2, 0.03, None, None, None),
        FrictionRow("Fp2", names[1], "power", 0.5, 0.02, "N.m.(s/rad)^p", None, None, 0.7, 0.04, None),
        FrictionRow("Ft3", names[2], "temperature", -0.6, None, "N/K", None, None, None, None, 31.0),
        FrictionRow("Fl3", names[2], "load", 0.05, 0.001, "1", None, None, None, None, None),
    )
    two = (FrictionTerm(2, FrictionKind.LOAD), FrictionTerm(2, FrictionKind.STRIBECK, speed=0.3))
    found = account.friction_trials(ROBOT, [Trial(two, 2, 0.2, 0.05, True), Trial(two[:1], 3, 0.1, 0.06, False)])
    assert found == (
        FrictionTrial("Fl2+Fs2", ROBOT.joints[1].name, "load+stribeck", 0.2, 0.05, True, 0.3),
        FrictionTrial("Fl2", ROBOT.joints[2].name, "load", 0.1, 0.06, False, None),
    )


# --- the prior


def test_how_much_a_prior_made():
    problem, _ = problem_of(delay=True)
    found = wls(problem.information)
    share = np.linspace(0.0, 0.9, problem.information.size)
    share[problem.information.layout.delay] = 0.99
    drawn = Drawn(found, SimpleNamespace(source="a.yaml"), Weighing(4.0, 0.2, 0.03), share)
    use = account.prior_use(problem, drawn)
    b = len(problem.base)
    assert (use.source, use.weight, use.gain, use.scatter) == ("a.yaml", 4.0, 0.2, 0.03)
    assert use.share == pytest.approx(share[:b].mean()) and use.parameters == dict(
        zip(problem.base.names, share[:b], strict=True)
    )


def test_a_prior_that_was_used_is_told():
    use = PriorUse("a.yaml", 4.0, 0.2, 0.03, 0.35, {"a": 0.49, "b": 0.51, "c": 0.9})
    (found,) = account.prior_remarks(use)
    assert found.level is Level.NOTE and "35 % of what is said" in found.text and "20 +- 3 %" in found.text
    assert found.text.endswith("mostly from there: b, c")
    assert account.prior_remarks(replace(use, parameters={"a": 0.1}))[0].text.endswith("none")
    assert account.prior_remarks(None) == account.prior_remarks(replace(use, weight=0.0)) == []


# --- sensors


def test_sensors_as_used_and_as_found():
    a, b, c = ROBOT.active_names
    sides = {a: SensorSide(("Fc",), True, 0.02), b: SensorSide(DRIVE, False, np.inf)}
    robot = replace(ROBOT, joints=(*ROBOT.joints[:2], replace(ROBOT.joints[2], felt=())))
    rows = account.sensor_rows(robot, sides)
    assert rows == {
        a: SensorRow("motor", "link+Fc", True, 0.02),
        b: SensorRow("motor", "link+Fc", False, None),  # the others are at the link, and it does not tell
        c: SensorRow("link"),
    }
    apart = account.sensor_rows(robot, {**sides, b: SensorSide(DRIVE, True, 0.4)})
    assert apart[b] == SensorRow("motor", "motor", True, 0.4) and apart[a].found == "link+Fc"
    assert account.sensor_rows(robot, {a: SensorSide((), False, 0.5)})[a] == SensorRow("motor", "motor", False, 0.5)


def test_second_efforts_have_errors_biases_and_drives_of_their_own(monkeypatch):
    """Two joints of three, after the delay of the second stream; a bias that is not determined has no bar."""
    problem, _ = problem_of()
    layout = ColumnLayout(2, 1, 0, 0, 3)
    value, std = np.array([9.0, 9.0, 9.0, 0.5, -0.25, 0.75]), np.array([9.0, 9.0, 9.0, 9.0, 0.1, np.inf])
    found = SimpleNamespace(layout=layout, value=value, std=std)
    robot = replace(ROBOT, joints=tuple(replace(j, felt=("Fc",) if k == 2 else ()) for k, j in enumerate(ROBOT.joints)))
    two = SimpleNamespace(joints=(1, 2), robot=robot, estimate=lambda: found)
    monkeypatch.setattr(account, "second_errors", lambda given, estimate: [(6.0, 8.0, 9), (0.0, 0.0, 0)])
    monkeypatch.setattr(account, "drive_values", lambda given, estimate, joint: {"Fv": (-1.0 - joint, 0.1 * joint)})
    rows = account.second_sensors(replace(problem, second=two))
    assert rows == {
        ROBOT.active_names[1]: SecondSensor("link", TorqueError(2.0, 0.75), -0.25, 0.1, {"Fv": -2.0}, {"Fv": 0.1}),
        ROBOT.active_names[2]: SecondSensor("link+Fc", TorqueError(0.0, 0.0), 0.75, None, {"Fv": -3.0}, {"Fv": 0.2}),
    }


def test_sensors_at_the_links_are_told_with_the_option_that_declares_them():
    link, sure, open_side = SensorSide((), True, 0.01), SensorSide(DRIVE, True, 0.4), SensorSide(DRIVE, False, 0.3)
    dry = SensorSide(("Fc",), True, 0.01)
    assert account.sensor_remarks({"a": sure, "b": open_side}) == account.sensor_remarks({}) == []
    (alike,) = account.sensor_remarks({"a": link, "b": link})
    assert alike.level is Level.NOTE and alike.text.startswith("the efforts look") and "JOINT" not in alike.text
    assert options_of(alike.text) == [("sensor", "link")]
    (some,) = account.sensor_remarks({"a": link, "b": sure})
    assert some.text.startswith("the efforts of a look") and options_of(some.text) == [("sensor", "a=link")]
    (two,) = account.sensor_remarks({"a": link, "b": sure, "c": link})
    assert two.text.startswith("the efforts of a, c look") and options_of(two.text) == [("sensor", "a=link,c=link")]
    (mixed,) = account.sensor_remarks({"a": link, "b": dry})
    assert mixed.text.startswith("the efforts look") and options_of(mixed.text) == [("sensor", "a=link,b=link+Fc")]


@pytest.mark.parametrize(
    ("coverage", "level", "low"),
    [
        ({}, None, ""),
        ({"a": 0.95, "b": 0.85, "all": 0.9}, Level.GOOD, ""),
        ({"a": 0.89, "b": 0.91, "all": 0.899}, Level.WARNING, "too few at a:"),
        ({"a": 0.95, "b": 0.85, "c": 0.6, "all": 0.89}, Level.WARNING, "too few at b, c:"),
    ],
)
def test_coverage_of_the_band(coverage, level, low):
    found = account.coverage_remarks(coverage)
    assert [remark.level for remark in found] == ([] if level is None else [level])
    assert all(f"holds {100 * coverage['all']:.0f} %" in remark.text and low in remark.text for remark in found)


# --- the model file


def test_speeds_and_loads_are_those_of_each_joint():
    problem, chi = problem_of()
    data = problem.prepared[0]
    value = problem.information.layout.vector(problem.base.values(ROBOT, chi))
    found = account.speeds_and_loads(ROBOT, problem, value, data)
    drives = {"Fv", "Fc", "off"}
    plain = np.where([name.rstrip("0123456789") in drives for name in standard_names(ROBOT)], 0.0, chi)
    load = np.abs(inverse_dynamics(ROBOT, plain, data.q, data.dq, data.ddq)).mean(axis=0)
    for j, name in enumerate(ROBOT.active_names):
        assert found[name]["speed"] == pytest.approx(np.abs(data.dq[:, j]).max())
        assert found[name]["load"] == pytest.approx(load[j])


def test_the_elimination_is_told_with_the_share_of_torque():
    problem, _ = problem_of()
    found = wls(problem.information)
    steps = (Step(2, 0.5, 1.5, 2.5, True, 0.01, 0.02), Step(0, np.inf, 9.0, 2.0, False))
    told = account.elimination_of(problem, Essential((1,), found, steps))
    names = problem.base.names
    assert (told.steps[0].parameter, told.steps[0].relative_std, told.steps[0].statistic) == (names[2], 0.5, 1.5)
    assert (told.steps[0].limit, told.steps[0].dropped) == (2.5, True)
    assert (told.steps[0].growth, told.steps[0].allowed) == (0.01, 0.02)
    assert (told.steps[1].parameter, told.steps[1].relative_std, told.steps[1].dropped) == (names[0], None, False)
    every = [np.concatenate([getattr(p, x) for p in problem.prepared]) for x in ("q", "dq", "ddq", "tau")]
    W = np.abs(regressor(ROBOT, *every[:3])[:, :, problem.base.columns(ROBOT)]).max(axis=0)
    share = np.max(W * np.abs(found.base) / np.abs(every[3]).max(axis=0)[:, None], axis=0)
    np.testing.assert_allclose([told.torque_share[name] for name in names], share, rtol=1e-9)
    for empty in (0, 1):  # a recording without rows says nothing
        parts = [replace(p, segments=()) if k == empty else p for k, p in enumerate(problem.prepared)]
        told = account.elimination_of(replace(problem, prepared=tuple(parts)), Essential((1,), found, steps))
        p = problem.prepared[1 - empty]
        W = np.abs(regressor(ROBOT, p.q, p.dq, p.ddq)[:, :, problem.base.columns(ROBOT)]).max(axis=0)
        share = np.max(W * np.abs(found.base) / np.abs(p.tau).max(axis=0)[:, None], axis=0)
        np.testing.assert_allclose([told.torque_share[name] for name in names], share, rtol=1e-9)


def test_provenance():
    problem, _ = problem_of(delay=True)
    found = replace(wls(problem.information), dof=17.0)
    validation = HeldOut({}, ValidatedBy.CROSS_VALIDATION, 4, LeftOut.PARTS_OF_PERIOD)
    options = IdentifyOptions(cross_validate=4)
    told = account.provenance(options, problem, found, validation, account.coverage_remarks({"all": 1.0}), "")
    assert told["method"] == "wls" and told["rank"] == found.rank and told["cond"] == pytest.approx(found.cond)
    assert told["rows"] == 3 * 500 and told["options"]["cross_validate"] == 4 and "command" not in told
    assert [(one["source"], one["rate"], one["segments"]) for one in told["data"]] == [
        ("run0", pytest.approx(100.0), 1),
        ("run1", pytest.approx(100.0), 1),
    ]
    assert [one["seconds"] for one in told["data"]] == pytest.approx([2.99, 1.99])
    assert told["sigma"] == pytest.approx(list(found.sigma))
    assert told["validated_by"] == {"data": "cross-validation", "folds": 4, "left_out": "parts of the period"}
    assert told["verdict"][0]["level"] == "good" and told["notes"] == ["note 0", "more 0", "note 1", "more 1"]
    assert account.provenance(options, problem, found, validation, (), "dynid identify")["command"] == "dynid identify"
    others = (problem.prepared[0], replace(problem.prepared[1], filter=replace(problem.prepared[1].filter, rate=7.0)))
    told = account.provenance(options, replace(problem, prepared=others), found, validation, (), "")
    assert told["filter"]["rate"] == pytest.approx(100.0) and told["data"][1]["rate"] == 7.0
    created = datetime.fromisoformat(told["created"])
    assert created.utcoffset() == timedelta(0) and created.microsecond == 0
    assert told["delay"]["value"] == pytest.approx(found.delay)
    assert told["versions"]["ros2_dynid"] == __version__ and told["versions"]["numpy"] == np.__version__
    # singular values of W, each joint's rows over its error, columns of unit norm, no delay
    W = np.vstack(
        [
            regressor(ROBOT, p.q, p.dq, p.ddq)[:, j, problem.base.columns(ROBOT)] / found.sigma[j]
            for p in problem.prepared
            for j in range(ROBOT.n)
        ]
    )
    s = np.linalg.svd(W / np.linalg.norm(W, axis=0), compute_uv=False)
    np.testing.assert_allclose(told["singular_values"], s, rtol=1e-7)
    exact = account.provenance(options, problem, replace(found, sigma=np.zeros(3)), validation, (), "")
    plain = np.concatenate([regressor(ROBOT, p.q, p.dq, p.ddq) for p in problem.prepared]).reshape(1500, -1)
    plain = plain[:, problem.base.columns(ROBOT)]
    s = np.linalg.svd(plain / np.linalg.norm(plain, axis=0), compute_uv=False)
    np.testing.assert_allclose(exact["singular_values"], s, rtol=1e-7)


def test_the_delay_is_what_was_moved_and_what_was_estimated():
    problem, _ = problem_of(delay=True)
    moved = tuple(replace(p, filter=replace(p.filter, delay=0.004)) for p in problem.prepared)
    problem = replace(problem, prepared=moved)
    found = wls(problem.information)
    at = problem.information.layout.delay.start
    value, covariance = found.value.copy(), found.covariance.copy()
    value[at], covariance[at, at] = 0.003, 1e-6
    known = np.ones(len(value), dtype=bool)
    told = account.delay_of(problem, replace(found, value=value, covariance=covariance, identified=known))
    assert told.value == pytest.approx(0.007) and told.std == pytest.approx(1e-3)
    unknown = found.identified.copy()
    unknown[at] = False
    assert account.delay_of(problem, replace(found, identified=unknown)).std is None
    bare, _ = problem_of()
    none = account.delay_of(bare, wls(bare.information))
    assert (none.value, none.std) == (0.0, None)


# --- judgement


@pytest.mark.parametrize(("few", "warned"), [(0.02, False), (0.0209, False), (0.0211, True)])
def test_essential_parameters_that_are_too_few_are_told(few, warned):
    def errors(x):
        return {"all": TorqueError(1.0, x)}

    sets = {BASE: SetErrors({}, errors(0.02)), "essential": SetErrors({}, errors(few))}
    found = judgement.essential_remarks(sets)
    assert bool(found) == warned and all(
        remark.level is Level.WARNING and "2.1 % on held-out data, all of them 2.0 %" in remark.text for remark in found
    )
    assert judgement.essential_remarks({BASE: sets[BASE]}) == []
    assert judgement.essential_remarks({**sets, "essential": SetErrors({}, {})}) == []


def test_an_inertia_matrix_that_cannot_be_is_told():
    def errors(x):
        return {"all": TorqueError(1.0, x)}

    (instead,) = judgement.impossible_remarks({}, "consistent")
    assert instead.level is Level.NOTE and "served instead" in instead.text
    (asked,) = judgement.impossible_remarks({BASE: SetErrors(errors(0.02), {})}, BASE)
    assert asked.level is Level.WARNING and options_of(asked.text) == [("consistent", True)]
    sets = {BASE: SetErrors(errors(0.02), errors(0.03)), "consistent": SetErrors(errors(0.05), {})}
    (why,) = judgement.impossible_remarks(sets, BASE)
    assert why.level is Level.WARNING and "(5.0 % instead of 3.0 %)" in why.text


def test_what_the_held_out_errors_are_of():
    problem, _ = problem_of()
    options = IdentifyOptions(cross_validate=4)

    def fit(blocks):
        return wls(problem.information if blocks is None else problem.information.take(blocks))

    given = SimpleNamespace(errors={"all": TorqueError(1.0, 0.5)})
    assert judgement.validation_of(problem, problem, fit, given, options) == HeldOut(
        given.errors, ValidatedBy.RECORDINGS
    )
    found = judgement.validation_of(problem, problem, fit, None, options)
    assert (found.by, found.folds, found.left_out) == (ValidatedBy.CROSS_VALIDATION, 4, LeftOut.STRETCHES)
    phases = replace(problem, information=replace(problem.information, phases=problem.information.blocks))
    assert judgement.validation_of(phases, problem, fit, None, options).left_out is LeftOut.PARTS_OF_PERIOD
    assert judgement.validation_of(phases, phases, fit, None, options).left_out is LeftOut.SAME_MOTION
    none = judgement.validation_of(phases, phases, fit, None, replace(options, cross_validate=0))
    assert (none.by, none.left_out) == (ValidatedBy.NOTHING, LeftOut.STRETCHES)
    # the level of the band: held-out errors less what the covariance explains, never below the residual
    whole = fit(None)
    five = judgement.held_out_in_folds(ROBOT.active_names, problem.information, None, fit).errors
    level = judgement.held_out_level(problem, whole, fit)
    explained = []
    for j in range(ROBOT.n):
        W = np.vstack([regressor(ROBOT, p.q, p.dq, p.ddq)[:, j, problem.base.columns(ROBOT)] for p in problem.prepared])
        explained.append(np.mean(np.sum(W @ whole.base_covariance * W, axis=1)))
    rms = np.array([five[name].rms for name in ROBOT.active_names])
    wanted = np.sqrt(np.maximum(whole.sigma**2, rms**2 - LEFT_OUT * np.array(explained)))
    np.testing.assert_allclose(level, wanted, rtol=1e-9)
    np.testing.assert_array_equal(band_level(problem.information, whole, None), whole.sigma)
    few = replace(problem, information=problem.information.take(range(4)))
    np.testing.assert_array_equal(judgement.held_out_level(few, whole, fit), whole.sigma)
    large = band_level(problem.information, whole, 3.0 * whole.sigma)
    np.testing.assert_allclose(large, np.sqrt(9.0 * whole.sigma**2 - LEFT_OUT * np.array(explained)), rtol=1e-9)


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
    assert evidence.tested_on(held_out) == words


def test_evidence_has_every_number_of_its_own():
    problem, _ = problem_of(delay=True)
    information = problem.information
    found = replace(wls(information), cond=77.0)
    names = ROBOT.active_names
    fit = torque_errors(names, information, found.value)
    other = {name: TorqueError(1.0, 0.1 + 0.1 * k) for k, name in enumerate((*names, "all"))}
    white = {names[0]: Whiteness(0.5, 0.001), names[1]: Whiteness(0.1, 0.5)}
    seen = evidence.evidence_of(
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
    bare = evidence.evidence_of(ROBOT, problem.base, information, found, fit, HeldOut())
    assert bare.held_out is None and not bare.same_motion and not any(joint.coloured for joint in bare.joints)
    lost = found.identified.copy()
    lost[1] = False
    unknown = evidence.evidence_of(ROBOT, problem.base, information, replace(found, identified=lost), fit, HeldOut())
    assert unknown.parameters[1].std is None and unknown.parameters[0].std is not None


# --- row by row


def test_compared_torques_are_those_of_the_rows_themselves():
    problem, chi = problem_of((300, 200), noise=0.5)
    value = problem.base.values(ROBOT, chi) * np.linspace(0.9, 1.1, len(problem.base))
    spread = judgement.TorqueScatter(
        np.diag(np.linspace(0.0, 1e-4, len(value))), np.ones(len(value), dtype=bool), np.array([0.3, 0.6, 0.08]), 12.0
    )
    found = compare_torques(ROBOT, problem.base, problem.prepared, value, problem.prior, limit=60, spread=spread)
    q, dq, ddq, tau = (np.concatenate([getattr(p, x) for p in problem.prepared]) for x in ("q", "dq", "ddq", "tau"))
    Y = regressor(ROBOT, q, dq, ddq)[:, :, problem.base.columns(ROBOT)]
    error = tau - Y @ value
    inside = np.abs(error) <= spread.width * np.hypot(np.sqrt(np.sum(Y @ spread.covariance * Y, axis=2)), spread.sigma)
    for j, name in enumerate(ROBOT.active_names):
        assert found.errors[name].rms == pytest.approx(np.sqrt(np.mean(error[:, j] ** 2)))
        assert found.errors[name].relative == pytest.approx(np.linalg.norm(error[:, j]) / np.linalg.norm(tau[:, j]))
        assert found.coverage[name] == pytest.approx(inside[:, j].mean()) and 0.1 < found.coverage[name] < 1.0
    assert found.coverage["all"] == pytest.approx(inside.mean())
    np.testing.assert_allclose(found.largest, np.abs(tau).max(axis=0))
    some = slice(0, None, 9)  # 500 rows, at most 60 of them
    for field, rows in (("q", q), ("dq", dq), ("ddq", ddq), ("tau", tau)):
        np.testing.assert_array_equal(getattr(found.data, field), rows[some])
    np.testing.assert_allclose(found.data.predicted, (Y @ value)[some])
    np.testing.assert_allclose(found.data.prior, (Y @ problem.prior)[some])
    assert np.isnan(found.data.temperature).all() and found.data.temperature.shape == found.data.tau.shape
    t = np.concatenate((np.arange(300) / 100.0, 2.99 + np.arange(200) / 100.0))
    np.testing.assert_allclose(found.data.t, t[some], atol=1e-9)
    one = compare_torques(ROBOT, problem.base, problem.prepared[1:], value, problem.prior)
    np.testing.assert_allclose(one.data.t, problem.prepared[1].t) and one.coverage == {}
    # a row whose torque the parameters do not determine is judged by nobody
    lost = np.ones(len(value), dtype=bool)
    lost[problem.base.leaders.index("Fv3")] = False
    partly = compare_torques(
        ROBOT, problem.base, problem.prepared, value, problem.prior, spread=replace(spread, identified=lost)
    )
    assert ROBOT.active_names[2] not in partly.coverage and partly.coverage["all"] == pytest.approx(
        inside[:, :2].mean()
    )


def test_fitted_torques_and_their_whiteness():
    problem, _ = problem_of((300, 200))
    found = wls(problem.information)
    warm = tuple(replace(p, temperature=p.q + 40.0) for p in problem.prepared)
    told = fitted_torques(replace(problem, prepared=warm), found.value, limit=130)
    some = [np.arange(0, 300, 4), np.arange(0, 200, 4)]
    for field in ("q", "dq", "ddq", "tau", "temperature"):
        rows = np.concatenate([getattr(p, field)[at] for p, at in zip(warm, some, strict=True)])
        np.testing.assert_array_equal(getattr(told.data, field), rows)
    Y = regressor(ROBOT, told.data.q, told.data.dq, told.data.ddq)[:, :, problem.base.columns(ROBOT)]
    np.testing.assert_allclose(told.data.predicted, Y @ found.value)
    np.testing.assert_allclose(told.data.prior, Y @ problem.prior)
    times = [0.04 * np.arange(75), 2.99 + 0.04 * np.arange(50)]
    np.testing.assert_allclose(told.data.t, np.concatenate(times), atol=1e-9)
    assert list(told.white) == list(ROBOT.active_names) and not any(one.coloured for one in told.white.values())
    first = problem.prepared[0]
    slow = replace(first, tau=first.tau + 5.0 * np.sin(first.t)[:, None])
    coloured = fitted_torques(replace(problem, prepared=(slow, warm[1])), found.value)
    assert all(one.coloured for one in coloured.white.values())
    other = fitted_torques(replace(problem, prepared=(warm[1], slow)), found.value)
    assert not any(one.coloured for one in other.white.values()), "the first recording is judged"


def test_the_verdict_hears_of_the_prior_and_of_the_length():
    problem, _ = problem_of()
    found = wls(problem.information)
    fit = torque_errors(ROBOT.active_names, problem.information, found.value)
    told = judgement.verdict_of(problem, found, fit, HeldOut(), {})
    error = torque_errors(ROBOT.active_names, problem.information, problem.prior)["all"].relative
    assert any(f"a priori model has {100 * error:.0f} %" in remark.text for remark in told)
    without = judgement.verdict_of(replace(problem, prior=0.0 * problem.prior), found, fit, HeldOut(), {})
    assert not any("a priori model" in remark.text for remark in without)


def test_the_verdict_hears_of_colours_terms_and_all_recordings():
    problem, _ = problem_of()
    found = wls(problem.information)
    fit = torque_errors(ROBOT.active_names, problem.information, found.value)
    heard = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judgement, "verdict", lambda given: heard.append(given) or ["said"])
        terms = (FrictionTerm(2, FrictionKind.LOAD),)
        white = {ROBOT.active_names[1]: Whiteness(0.5, 0.001)}
        tested = HeldOut(fit, ValidatedBy.RECORDINGS)
        told = judgement.verdict_of(replace(problem, terms=terms), found, fit, tested, white)
    (seen,) = heard
    assert told == ["said"] and seen.seconds == pytest.approx(2.99 + 1.99)
    assert [joint.coloured for joint in seen.joints] == [False, True, False]
    assert {p.name for p in seen.parameters if p.shared} == {"Fv2", "Fc2"}
    assert seen.held_out == seen.fit == fit["all"].relative and seen.tested == "held-out recordings"


def test_wrong_data_are_refused_by_the_first_recording_or_by_that_which_contradicts(monkeypatch):
    problem, _ = problem_of()
    found = wls(problem.information)
    calls = []
    finding = SimpleNamespace(certain=False)

    def diagnosed(given, friction):
        calls.append(("diagnose", given, friction))
        return SimpleNamespace(findings=(finding,))

    monkeypatch.setattr(judgement, "diagnose", diagnosed)
    monkeypatch.setattr(judgement, "refuse", lambda *given: calls.append(("refuse", *given)))
    monkeypatch.setattr(judgement, "refuse_contradictions", lambda *given: calls.append(("contradict", *given)))
    assert judgement.refuse_wrong_data(problem, found, "stribeck") == (finding,)
    assert calls == [
        ("diagnose", problem, "stribeck"),
        ("refuse", (finding,), "run0"),
        ("contradict", problem.information, found.value, ["run0", "run1"]),
    ]


def test_an_estimate_is_impossible_where_few_positions_show_it():
    """An inertia that is negative at one position of fifty: enough positions are looked at to see it."""
    base = base_parameters(ROBOT)
    value = base.values(ROBOT, true_parameters(ROBOT, 3))
    q = RNG(1).uniform(-np.pi, np.pi, (2000, 3))
    first = base.leaders.index("ZZ1")

    def share(less):
        moved = value.copy()
        moved[first] -= less
        chi = np.zeros(len(standard_names(ROBOT)))
        chi[base.columns(ROBOT)] = moved
        return moved, np.mean(np.linalg.eigvalsh(inertia_matrix(ROBOT, chi, q))[:, 0] < 0.0)

    low, high = 0.0, 100.0
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle)[1] < 0.02 else (low, middle)
    moved, few = share(high)
    assert 0.01 < few < 0.03 and not judgement.possible(ROBOT, base, moved)
    assert judgement.possible(ROBOT, base, value)


@pytest.mark.parametrize(("bodies", "served"), [(0.0209, "consistent"), (0.0211, "base"), (0.01, "consistent")])
def test_bodies_are_served_unasked_where_they_predict_as_well(bodies, served):
    def errors(x):
        return {"all": TorqueError(1.0, x)}

    sets = {
        "base": SetErrors(errors(0.9), errors(0.02)),
        "consistent": SetErrors(errors(0.1), errors(bodies)),
    }
    assert judgement.served_set(sets, asked=False) == served
    fitted = {"base": SetErrors(errors(0.02), {}), "consistent": SetErrors(errors(bodies), {})}
    assert judgement.served_set(fitted, asked=False) == served
    three = {"base": SetErrors(errors(0.5), {}), "essential": fitted["base"], "consistent": fitted["consistent"]}
    assert judgement.served_set(three, asked=False) == ("consistent" if served == "consistent" else "essential")
    assert judgement.served_set(three, asked=True) == "consistent"
    assert judgement.served_set({"consistent": sets["consistent"]}, asked=False) == "consistent"


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
    seen = evidence.Evidence((), (), 0.1)
    assert (seen.cond, seen.delay, seen.delay_std, seen.seconds) == (1.0, 0.0, np.inf, np.inf)
    assert (HeldOut().folds, HeldOut().by) == (0, ValidatedBy.NOTHING)


def test_no_more_rows_than_pictures_show_are_kept():
    """4000 of a recording; with one more, every second."""
    for count in (4000, 4001):
        problem, _ = problem_of((count,))
        compared = compare_torques(ROBOT, problem.base, problem.prepared, problem.prior, problem.prior)
        for kept in (compared.data.t, fitted_torques(problem, problem.prior).data.t):
            assert len(kept) == (4000 if count == 4000 else 2001)


def test_recordings_not_fitted_to_are_predicted_by_every_set():
    problem, _ = problem_of()
    found = wls(problem.information)
    assert judgement.predicted_recordings(problem, [], {}, found, IdentifyOptions(), lambda *_: None) is None
