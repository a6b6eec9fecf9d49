# SPDX-License-Identifier: Apache-2.0

"""Stages 3 to 7 by definition: each figure is of the set, the rows and the data that it is said to be of."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from motions import recorded_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inertia_matrix, inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.candidates import (
    build_candidate_fits,
    build_candidates,
    choose_prior,
    impose_consistency,
)
from ros2_dynid.identification.estimation import check_recordings, estimate_parameters
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.model_file import SetErrors, TorqueError
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.physical.consistency import has_positive_inertia
from ros2_dynid.identification.physical.essential import essential
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.least_squares import solve, weighted_triangle, wls
from ros2_dynid.identification.result import assemble_identification, total_delay
from ros2_dynid.identification.scores import predict_recordings, score_candidates
from ros2_dynid.identification.served_set import choose_candidate, judge_estimate
from ros2_dynid.identification.torque_std import LEFT_OUT
from ros2_dynid.identification.validation.cross_validation import HeldOut, LeftOut, ValidatedBy, validate_in_folds
from ros2_dynid.identification.validation.torque_errors import torque_errors
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.recording.read import load_samples
from ros2_dynid.sim.truth import true_parameters
from ros2_dynid.version import __version__

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
SETS = ["base", "essential", "consistent"]
OPTIONS = IdentifyOptions(
    essential=True, standard=True, consistent=True, friction="viscous+coulomb", prior="none", checks=False
)


def silent(stage, done):
    """Tell nobody."""


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """Return the two halves of a noisy recording."""
    folder = tmp_path_factory.mktemp("recorded")
    samples = load_samples(folder / recorded_motion(folder, ROBOT), ROBOT)
    noise = 1.5 * np.random.default_rng(0).standard_normal(samples.tau.shape)
    samples = replace(samples, tau=samples.tau + noise)
    return samples.take(samples.t < 4.0), samples.take(samples.t >= 4.0)


@pytest.fixture(scope="module")
def run(halves):
    """Return a function that runs all stages with some options: each stage's result."""

    @cache
    def stages(validate=True, **changed):
        options = replace(OPTIONS, **changed)
        problem = build_problem(ROBOT, halves[:1], options, silent)
        estimation = estimate_parameters(problem, options, silent)
        candidates = build_candidates(problem, estimation, options, silent)
        held_out = halves[1:] if validate else ()
        scores = score_candidates(problem, estimation, candidates, held_out, options, silent)
        choice = choose_candidate(problem, estimation, candidates, scores, options)
        return problem, estimation, candidates, scores, choice, options

    return stages


# --- candidates


def test_candidates_are_the_sets_by_their_definitions(run):
    problem, estimation, candidates, *_ = run()
    information, estimate = problem.information, estimation.data
    assert list(candidates.values) == SETS and candidates.prior_fit is None and not candidates.consistent_prior
    np.testing.assert_array_equal(candidates.unconstrained.value, wls(information, problem.prior).value)
    assert np.all(problem.friction_rows @ candidates.values["base"] > -1e-9), "friction brakes"
    few = essential(information, estimate)
    assert candidates.selection.kept == few.kept and 0 < len(few.kept) < len(problem.base)
    dropped = [k for k in range(len(problem.base)) if k not in few.kept]
    assert not np.any(candidates.values["essential"][dropped]) and candidates.estimate.rank == few.estimate.rank
    imposed = impose_consistency(problem, information, candidates.estimate)
    np.testing.assert_allclose(candidates.values["consistent"][: len(problem.base)], imposed.value, rtol=1e-6)
    assert candidates.physical.consistency.imposed["full"] == ROBOT.n
    pairs = [("base", "essential"), ("base", "consistent"), ("essential", "consistent")]
    assert not any(np.allclose(candidates.values[a], candidates.values[b], rtol=1e-6) for a, b in pairs)


def test_the_friction_of_every_set_brakes_where_that_of_the_estimate_pushes(halves):
    speed = np.gradient(halves[0].q[:, 2], halves[0].t)
    pushed = replace(halves[0], tau=halves[0].tau - np.outer(np.sign(speed), [0.0, 0.0, 20.0]))
    problem = build_problem(ROBOT, [pushed], OPTIONS, silent)
    estimation = estimate_parameters(problem, OPTIONS, silent)
    candidates = build_candidates(problem, estimation, OPTIONS, silent)
    rows = problem.friction_rows
    assert np.min(rows @ candidates.unconstrained.value) < -1.0
    for value in candidates.values.values():
        assert np.min(rows @ value) > -1e-6
    few, kept = candidates.values["essential"], list(candidates.selection.kept)
    assert np.count_nonzero(few[kept]) > len(kept) // 2 and not np.delete(few[: len(problem.base)], kept).any()
    fits = build_candidate_fits(problem, estimation.fit, candidates, OPTIONS, None)
    for fit in fits.values():
        assert np.min(rows @ fit(tuple(range(20))).value) > -1e-6


def test_estimators_of_the_sets_see_the_blocks_that_they_are_given(run):
    problem, estimation, candidates, *_, options = run()
    information, some = problem.information, tuple(range(20))
    fits = build_candidate_fits(problem, estimation.fit, candidates, options, None)
    assert list(fits) == SETS
    base, few, consistent = (fit(some) for fit in fits.values())
    part = information.take(some)
    free = wls(part, problem.prior)
    if np.all(problem.friction_rows @ free.value > 0.0):
        np.testing.assert_allclose(base.value, free.value, rtol=1e-6)
    selection = essential(part, free, most=sum(step.dropped for step in candidates.selection.steps))
    dropped = [k for k in range(len(problem.base)) if k not in selection.kept]
    assert dropped and not few.value[dropped].any()
    kept = [k for k in range(information.size) if k not in dropped]
    if np.all(problem.friction_rows @ selection.estimate.value > 0.0):
        R = weighted_triangle(part, 1.0 / free.sigma).R[:, [*kept, information.size]]
        np.testing.assert_allclose(few.value[kept], solve(R).value, rtol=1e-5, atol=1e-8)
    imposed = impose_consistency(problem, part, few)
    np.testing.assert_allclose(consistent.base, imposed.value, rtol=1e-5, atol=1e-7)
    only = replace(candidates, values={"base": candidates.values["base"]}, selection=None)
    assert list(build_candidate_fits(problem, estimation.fit, only, options, None)) == ["base"]


def test_a_prior_is_forced_where_it_is_asked_for(run, tmp_path):
    problem, *_ = run()
    for options in (replace(OPTIONS, prior="none", essential=False), OPTIONS):
        assert choose_prior(problem, options) is None
    for prior, force in (("auto", False), ("urdf", True)):
        choice = choose_prior(problem, replace(OPTIONS, essential=False, prior=prior))
        assert choice.force == force and choice.served is not None
        served = choice.served(problem.information, wls(problem.information, problem.prior), None)
        assert served.shape == (problem.information.size,)
    second = replace(problem, second=object())
    for wrong in (replace(OPTIONS, prior="none"), replace(OPTIONS, essential=False, prior="urdf")):
        with pytest.raises(InputError, match="fitted together"):
            choose_prior(second, wrong)
    assert choose_prior(second, replace(OPTIONS, essential=False)) is None


def test_what_a_prior_served_is_consistent_where_the_estimate_is_of_no_robot(run):
    problem, estimation, *_ = run()
    served = choose_prior(problem, replace(OPTIONS, essential=False, prior="urdf")).served
    estimate = estimation.data
    bad = estimate.value.copy()
    bad[problem.base.leaders.index("ZZ1")] = -5.0
    bent = served(problem.information, replace(estimate, value=bad), None)
    good = impose_consistency(problem, problem.information, estimate).value
    fine = estimate.with_base(good * 1.0001)
    assert not np.allclose(bent, bad)
    np.testing.assert_array_equal(served(problem.information, fine, None), fine.value)


def test_an_estimate_is_of_no_robot_where_few_positions_show_it():
    """An inertia that is negative at one position of fifty: enough positions are looked at to see it."""
    base = base_parameters(ROBOT)
    value = base.values(ROBOT, true_parameters(ROBOT, 3))
    q = np.random.default_rng(1).uniform(-np.pi, np.pi, (2000, 3))

    def lighter(less):
        """Return the parameters with less inertia of the first joint, and the share of positions that show it."""
        moved, chi = value.copy(), np.zeros(len(standard_names(ROBOT)))
        moved[base.leaders.index("ZZ1")] -= less
        chi[base.columns(ROBOT)] = moved
        return moved, np.mean(np.linalg.eigvalsh(inertia_matrix(ROBOT, chi, q))[:, 0] < 0.0)

    low, high = 0.0, 100.0
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if lighter(middle)[1] < 0.02 else (low, middle)
    moved, few = lighter(high)
    assert 0.01 < few < 0.03 and not has_positive_inertia(ROBOT, base, moved)
    assert has_positive_inertia(ROBOT, base, value)


# --- scores


def test_scores_on_recordings_are_those_of_every_set(run, halves):
    problem, _, candidates, scores, _, options = run()
    with_level = replace(candidates.estimate, sigma=scores.band_level)
    direct = predict_recordings(problem, halves[1:], candidates.values, with_level, options, silent)
    assert predict_recordings(problem, (), candidates.values, with_level, options, silent) is None
    for name, value in candidates.values.items():
        assert scores.sets[name].fit == torque_errors(NAMES, problem.information, value)
        assert scores.sets[name].validation == direct[name].errors
        assert scores.validations[name] == HeldOut(direct[name].errors, ValidatedBy.RECORDINGS)
        assert scores.comparisons[name].coverage == direct[name].coverage
    assert len({scores.sets[name].validation["all"].relative for name in SETS}) == 3


def test_the_choice_does_not_rest_on_recordings_to_validate_on(run, halves):
    """Sets are compared by stretches left out; where consistent parameters were asked for nothing is compared."""
    problem, estimation, candidates, scores, _, options = run(essential=False, standard=False)
    assert scores.compared_sets is scores.sets
    unasked = replace(options, consistent=False)
    told = score_candidates(problem, estimation, candidates, halves[1:], unasked, silent)
    fits = build_candidate_fits(problem, estimation.fit, candidates, unasked, None)
    for name, own in told.compared_sets.items():
        wanted = validate_in_folds(NAMES, problem.information, None, fits[name]).errors["all"].relative
        assert own.validation["all"].relative == pytest.approx(wanted, rel=1e-6)
        assert own.validation != told.sets[name].validation == scores.sets[name].validation
        assert own.fit == told.sets[name].fit
    without = score_candidates(problem, estimation, candidates, (), unasked, silent)
    assert without.compared_sets is without.sets


def test_without_recordings_folds_are_left_out_as_many_as_asked_for(run):
    problem, estimation, candidates, scores, choice, options = run(validate=False, cross_validate=4)
    fits = build_candidate_fits(problem, estimation.fit, candidates, options, None)
    for name in SETS:
        wanted = validate_in_folds(NAMES, problem.information, 4, fits[name])
        tested = scores.validations[name]
        assert (tested.by, tested.folds, tested.left_out) == (ValidatedBy.CROSS_VALIDATION, 4, LeftOut.STRETCHES)
        for joint, error in wanted.errors.items():
            assert tested.errors[joint].relative == pytest.approx(error.relative, rel=1e-6)
    assert scores.comparisons is None and choice.validation.folds == 4
    none = run(validate=False, cross_validate=0)[3]
    assert none.validations["base"].by is ValidatedBy.NOTHING and none.sets["base"].validation == {}


def test_the_level_of_the_band_is_that_of_stretches_left_out(run):
    """Held-out errors of five folds less what the covariance explains, never below the residual."""
    problem, estimation, candidates, scores, _, options = run(essential=False, standard=False)
    fits = build_candidate_fits(problem, estimation.fit, candidates, options, None)
    rms = validate_in_folds(NAMES, problem.information, None, fits["base"]).errors
    estimate, explained = candidates.estimate, []
    for j, columns in enumerate(problem.information.columns):
        R = problem.information.triangle(j)[:, :-1]
        C = estimate.covariance[np.ix_(columns, columns)]
        explained.append(np.trace(R @ C @ R.T) / problem.information.rows[j])
    held_out = np.array([rms[name].rms for name in NAMES])
    wanted = np.sqrt(np.maximum(estimate.sigma**2, held_out**2 - LEFT_OUT * np.array(explained)))
    np.testing.assert_allclose(scores.band_level, wanted, rtol=1e-5)


# --- choice


def errors(x):
    return {"all": TorqueError(1.0, x)}


@pytest.mark.parametrize(
    ("shown", "compared", "validated", "served"),
    [
        (0.02, 0.02, False, "consistent"),
        (0.03, 0.02, False, "base"),
        (0.02, 0.03, False, "base"),
        (0.03, 0.02, True, "consistent"),  # recordings to validate on do not choose
        (0.02, 0.03, True, "base"),
    ],
)
def test_consistent_parameters_nobody_asked_for_are_served_if_no_error_speaks_against(
    run, shown, compared, validated, served
):
    problem, estimation, candidates, scores, _, _ = run(essential=False, standard=False)
    options = replace(OPTIONS, essential=False, standard=False, consistent=False)
    base = SetErrors(scores.sets["base"].fit, errors(0.02))

    def sets(x):
        return {"base": base, "consistent": SetErrors(scores.sets["consistent"].fit, errors(x))}

    told = replace(
        scores,
        sets=sets(shown),
        compared_sets=sets(compared),
        comparisons=scores.comparisons if validated else None,
    )
    choice = choose_candidate(problem, estimation, candidates, told, options)
    assert choice.served == served and choice.errors == told.sets[served]
    np.testing.assert_array_equal(choice.value, candidates.values[served])
    assert choice.validation is told.validations[served]
    asked = choose_candidate(problem, estimation, candidates, told, replace(options, consistent=True))
    assert asked.served == "consistent"


def test_the_verdict_hears_of_the_prior_and_the_findings_come_first(run):
    problem, _, candidates, scores, choice, _ = run()
    error = torque_errors(NAMES, problem.information, problem.prior)["all"].relative
    told = judge_estimate(problem, candidates, choice)
    assert any(f"a priori model has {100 * error:.0f} %" in remark.text for remark in told)
    without = judge_estimate(replace(problem, prior=0.0 * problem.prior), candidates, choice)
    assert not any("a priori model" in remark.text for remark in without)
    texts = [remark.text for remark in choice.remarks]
    assert all(remark.text in texts for remark in told)
    coverage = scores.comparisons[choice.served].coverage["all"]
    assert any(f"holds {100 * coverage:.0f} %" in text for text in texts)


def test_longer_recordings_are_asked_for_where_they_are_short(run):
    """All recordings together are less than a minute."""
    problem, _, candidates, _, choice, _ = run()
    estimate = replace(candidates.estimate, covariance=1e4 * candidates.estimate.covariance)
    poor, (prepared,) = replace(candidates, estimate=estimate), problem.prepared
    for factor, pieces, said in ((1.0, 1, True), (10.0, 1, True), (10.0, 2, False), (20.0, 1, False)):
        parts = (replace(prepared, t=factor * prepared.t),) * pieces
        told = judge_estimate(replace(problem, prepared=parts), poor, choice)
        assert any("record longer" in remark.text for remark in told) == said
    assert 30.0 < 10.0 * (prepared.t[-1] - prepared.t[0]) < 60.0


# --- checks


def test_wrong_recordings_are_refused_unless_checks_are_declined(halves):
    options = replace(OPTIONS, essential=False, standard=False, consistent=False, checks=True)
    wrong = build_problem(ROBOT, [replace(halves[0], tau=-halves[0].tau)], options, silent)
    with pytest.raises(InputError, match="wrong sign"):
        estimate_parameters(wrong, options, silent)
    assert estimate_parameters(wrong, replace(options, checks=False), silent).findings == ()
    right = build_problem(ROBOT, halves[:1], options, silent)
    assert check_recordings(right, wls(right.information), options.friction) == ()
    scaled = replace(halves[1], tau=halves[1].tau * 5.0, source="other.csv")
    pair = build_problem(ROBOT, [halves[0], scaled], options, silent)
    with pytest.raises(InputError):
        check_recordings(pair, wls(pair.information), options.friction)


# --- result


def test_every_figure_of_the_result_is_of_the_set_that_is_served(run):
    problem, estimation, candidates, scores, choice, options = run()
    result = assemble_identification(problem, estimation, candidates, scores, choice, options, "dynid identify")
    outcome, model, obtained = result.outcome, result.model, result.model.obtained
    assert outcome.serve == model.serve == choice.served == "consistent"
    assert list(outcome.sets) == SETS and outcome.fit == model.fit == scores.sets["consistent"].fit
    assert model.validation == outcome.validation and model.sets == outcome.sets
    assert outcome.validation == scores.comparisons["consistent"].errors
    assert outcome.band_coverage == scores.comparisons["consistent"].coverage
    assert result.torques["fit"] is choice.fitted.data
    assert result.torques["validation"] is scores.comparisons["consistent"].data
    estimate: Estimate = candidates.estimate
    np.testing.assert_array_equal(model.value, estimate.base)
    np.testing.assert_array_equal(model.std, estimate.base_std)
    assert outcome.essential == tuple(problem.base.names[k] for k in candidates.selection.kept)
    assert outcome.rows == sum(problem.information.rows) and outcome.cond == estimate.cond
    assert (outcome.method, outcome.recommended) == (Method.WLS, estimation.advice.method)
    assert outcome.verdict == choice.remarks and outcome.prior is None and outcome.second == {}
    assert {name: row.used for name, row in outcome.sensors.items()} == dict.fromkeys(NAMES, "motor")
    assert outcome.delay == total_delay(problem, estimate)
    late = replace(problem.prepared[0], filter=replace(problem.prepared[0].filter, delay=0.04))
    moved = total_delay(replace(problem, prepared=(late,)), estimate)
    assert moved.value == pytest.approx(0.04 + estimate.delay) and moved.std == estimate.delay_std == outcome.delay.std
    # the torques of the model that is written are those of the set
    q, dq, ddq = (getattr(choice.fitted.data, name)[::50] for name in ("q", "dq", "ddq"))
    W = regressor(ROBOT, q, dq, ddq)[:, :, problem.base.columns(ROBOT)]
    wanted = W @ choice.value[problem.information.layout.base]
    np.testing.assert_allclose(model.torque(q, dq, ddq), wanted, rtol=1e-6, atol=1e-6)
    # how it was obtained
    assert obtained["method"] == "wls" and obtained["rank"] == estimate.rank and obtained["command"] == "dynid identify"
    assert obtained["cond"] == estimate.cond and obtained["dof"] == estimate.dof
    assert obtained["band_sigma"] == scores.band_level.tolist() != obtained["sigma"] == estimate.sigma.tolist()
    assert obtained["validated_by"]["data"] == "recordings" and obtained["rows"] == outcome.rows
    (data,) = obtained["data"]
    prepared = problem.prepared[0]
    assert data["seconds"] == pytest.approx(prepared.t[-1] - prepared.t[0]) and data["source"] == prepared.source
    assert data["rate"] == prepared.filter.rate and data["segments"] == 1
    assert obtained["versions"]["ros2_dynid"] == __version__
    W = weighted_triangle(problem.information, 1.0 / estimate.sigma).base
    s = np.linalg.svd(W / np.linalg.norm(W, axis=0), compute_uv=False)
    np.testing.assert_allclose(obtained["singular_values"], s, rtol=1e-6)
    bare = assemble_identification(problem, estimation, candidates, scores, choice, options, "")
    assert "command" not in bare.model.obtained


def test_speeds_and_loads_are_those_of_each_joint(run):
    problem, estimation, candidates, scores, choice, options = run()
    used = assemble_identification(problem, estimation, candidates, scores, choice, options, "").model.obtained["used"]
    chi = np.zeros(len(standard_names(ROBOT)))
    chi[problem.base.columns(ROBOT)] = choice.value[problem.information.layout.base]
    friction = [name.rstrip("0123456789") in ("Fv", "Fc", "off") for name in standard_names(ROBOT)]
    data = choice.fitted.data
    load = np.abs(inverse_dynamics(ROBOT, np.where(friction, 0.0, chi), data.q, data.dq, data.ddq)).mean(axis=0)
    for j, name in enumerate(NAMES):
        assert used[name]["speed"] == max(np.abs(part.dq[:, j]).max() for part in problem.prepared)
        assert used[name]["load"] == pytest.approx(load[j])
    back = replace(choice, fitted=replace(choice.fitted, data=replace(data, dq=-np.abs(data.dq))))
    again = assemble_identification(problem, estimation, candidates, scores, back, options, "").model.obtained["used"]
    assert [again[name]["speed"] for name in NAMES] == [used[name]["speed"] for name in NAMES], "whatever its sign"


def test_the_elimination_is_told_with_the_share_of_torque(run):
    problem, estimation, candidates, scores, choice, options = run()
    told = assemble_identification(problem, estimation, candidates, scores, choice, options, "").outcome.elimination
    names, selection = problem.base.names, candidates.selection
    for step, own in zip(told.steps, selection.steps, strict=True):
        assert step.parameter == names[own.parameter] and step.dropped == own.dropped
        assert (step.statistic, step.limit, step.growth, step.allowed) == (
            own.statistic,
            own.limit,
            own.growth,
            own.allowed,
        )
        assert step.relative_std == (own.relative_std if np.isfinite(own.relative_std) else None)
    W, tau = np.zeros((ROBOT.n, problem.information.size)), np.zeros(ROBOT.n)
    for rows in problem.rows(0):
        seen = np.where(rows.keep, np.abs(rows.W), 0.0)
        W = np.maximum(W, seen.max(axis=2).T)
        tau = np.maximum(tau, np.where(rows.keep, np.abs(rows.tau), 0.0).max(axis=1))
    share = np.max(W * np.abs(selection.estimate.value) / tau[:, None], axis=0)
    for k, name in enumerate(names):
        assert told.torque_share[name] == pytest.approx(share[k], rel=1e-6)


def test_a_prior_that_was_used_is_told_with_its_share(run):
    problem, estimation, candidates, scores, choice, options = run(prior="urdf", essential=False, standard=False)
    use = assemble_identification(problem, estimation, candidates, scores, choice, options, "").outcome.prior
    fit = candidates.prior_fit
    assert fit.used and (use.weight, use.gain, use.scatter) == (fit.weight.weight, fit.weight.gain, fit.weight.scatter)
    shares = fit.share[problem.information.layout.base]
    assert use.share == pytest.approx(shares.mean()) and use.source == fit.prior.source
    assert use.parameters == dict(zip(problem.base.names, shares.tolist(), strict=True))
    assert any("of the information" in remark.text for remark in choice.remarks)


def test_friction_terms_are_told_with_their_shapes(halves):
    """Each row is a term of the model that is written."""
    names = ROBOT.active_names
    options = replace(
        OPTIONS, essential=False, standard=False, consistent=False, cross_validate=0,
        friction=f"{names[0]}=stribeck,{names[1]}=power,{names[2]}=load",
    )  # fmt: skip
    speed = np.gradient(halves[0].q[:, 0], halves[0].t)
    creep = 20.0 * np.exp(-np.abs(speed) / (0.1 * np.abs(speed).max())) * np.sign(speed)
    samples = replace(halves[0], tau=halves[0].tau + np.outer(creep, [1.0, 0.0, 0.0]))
    problem = build_problem(ROBOT, [samples], options, silent)
    estimation = estimate_parameters(problem, options, silent)
    candidates = build_candidates(problem, estimation, options, silent)
    scores = score_candidates(problem, estimation, candidates, (), options, silent)
    choice = choose_candidate(problem, estimation, candidates, scores, options)
    result = assemble_identification(problem, estimation, candidates, scores, choice, options, "")
    rows = {row.term: row for row in result.outcome.friction}
    assert set(rows) == {"stribeck", "power", "load"}
    for term in result.model.robot.friction:
        row = rows[str(term.kind)]
        assert (row.name, row.joint) == (term.name, ROBOT.joints[term.joint - 1].name)
        assert (row.value, row.std, row.speed_std) == (term.coefficient, term.std, term.speed_std)
        assert row.exponent_std == term.exponent_std and row.reference is None
    assert rows["stribeck"].speed > 0.0 and rows["stribeck"].exponent is None and rows["stribeck"].unit == "N.m"
    assert rows["power"].exponent > 0.0 and rows["power"].speed is None and rows["power"].unit == "N.m.(s/rad)^p"
    assert rows["load"].speed is rows["load"].exponent is None and rows["load"].unit == "1"


def test_a_second_sensor_has_errors_and_a_bias_of_its_own(halves):
    """Torques at the links without the friction of the drives, which the two tell apart."""
    noise = 0.1 * np.random.default_rng(1).normal(size=halves[0].tau.shape)
    speed = np.gradient(halves[0].q, halves[0].t, axis=0)
    link = halves[0].tau + noise + 0.5
    samples = replace(halves[0], tau=halves[0].tau + 4.0 * speed + 3.0 * np.sign(speed), tau_l=link)
    options = replace(OPTIONS, essential=False, standard=False, consistent=False, cross_validate=0)
    problem = build_problem(ROBOT, [samples], options, silent)
    estimation = estimate_parameters(problem, options, silent)
    candidates = build_candidates(problem, estimation, options, silent)
    scores = score_candidates(problem, estimation, candidates, (), options, silent)
    choice = choose_candidate(problem, estimation, candidates, scores, options)
    second = assemble_identification(problem, estimation, candidates, scores, choice, options, "").outcome.second
    assert list(second) == list(NAMES)
    torque = problem.prepared[0].second
    for j, name in enumerate(NAMES):
        row = second[name]
        assert row.sensor == "link" and row.fit.rms / row.fit.relative == pytest.approx(
            np.sqrt(np.mean(torque[:, j] ** 2)), rel=0.2
        )
        assert set(row.drive) == set(row.drive_std) and row.drive["Fv"] > 0.0


def test_an_estimator_that_needs_rows_is_tested_on_its_own_blocks(run):
    """Robust least squares is fitted anew in each fold."""
    problem, estimation, _, scores, _, _ = run(
        validate=False, cross_validate=3, method=Method.IRLS, essential=False, standard=False, consistent=False
    )
    fit = build_estimator(Method.IRLS, problem)
    assert estimation.data.method is Method.IRLS
    tested = validate_in_folds(NAMES, problem.information, 3, fit).errors
    assert scores.sets["base"].validation["all"].relative == pytest.approx(tested["all"].relative, rel=1e-3)
