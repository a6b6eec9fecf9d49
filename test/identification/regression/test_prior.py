# SPDX-License-Identifier: Apache-2.0

"""Estimates regularised by a prior: the identity, the weight chosen on data left out, a sister robot, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prepared_motions import small_information
from recordings import DATA, simulated, simulated_truth
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.candidates import impose_consistency
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.physical.consistency import fully_consistent_links, make_consistent
from ros2_dynid.identification.physical.prior_sources import (
    GUESSED,
    bodies_to_start_from,
    described_prior,
    entropic_metric,
)
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import (
    Block,
    different_motion,
    each_triangle,
    restrict,
)
from ros2_dynid.identification.regression.least_squares import weighted_triangle, wls
from ros2_dynid.identification.regression.prior import (
    Prior,
    PriorThresholds,
    PriorWeight,
    regularize,
    regularize_estimate,
    select_prior_weight,
)
from ros2_dynid.model.inertia import links_of, pseudo_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples

PLAIN = IdentifyOptions(friction="viscous+coulomb", prior="none", cross_validate=0)


@pytest.fixture(scope="module")
def short():
    """The first three seconds of a simulated recording, the rest of it, and a stretch of another motion."""
    whole = simulated()
    t = whole.t - whole.t[0]
    return whole.take(t < 3.0), whole.take(t >= 8.0), simulated(1, 101, seconds=5.0)


@pytest.fixture(scope="module")
def problem(short):
    """What three seconds say."""
    return build_problem(simulated_truth()[0], [short[0]], PLAIN, lambda *_: None)


def test_the_metric_is_the_second_order_of_the_entropic_distance():
    robot, _ = simulated_truth()
    chi = standard_vector(robot)
    G = entropic_metric(robot, chi)
    rng, step = np.random.default_rng(0), 1e-5
    for j, link in enumerate(links_of(robot, chi)):
        P0 = pseudo_inertia(link)
        change = step * link * rng.normal(size=10)
        X = np.linalg.solve(P0, pseudo_inertia(link + change))
        distance = np.trace(X) - np.log(np.linalg.det(X)) - 4.0
        at = slice(10 * j, 10 * j + 10)
        assert change @ G[at, at] @ change == pytest.approx(distance, rel=0.05)


def test_a_drawn_estimate_minimises_the_joint_cost_and_its_bars_shrink(problem):
    found = build_estimator(Method.WLS, problem)(None)
    prior = described_prior(problem)
    result = regularize(problem.information, found, prior, PriorWeight(30.0, 0.0, 0.0))
    T = weighted_triangle(problem.information, 1.0 / found.sigma)
    x, L = result.estimate.value, 30.0 * prior.information
    gradient = T.W.T @ (T.W @ x - T.tau) + L @ (x - prior.mean)
    size = np.abs(T.W).T @ np.abs(T.W @ x) + np.abs(L) @ np.abs(x - prior.mean)
    assert np.all(np.abs(gradient) < 1e-6 * size)
    assert np.all((result.share >= 0.0) & (result.share <= 1.0))
    assert 0.0 < result.base_share < 1.0
    assert np.median(result.estimate.base_std / found.base_std) < 1.0
    none = regularize(problem.information, found, prior, PriorWeight(0.0, 0.0, 0.0))
    assert none.estimate is found and not none.share.any()


def test_a_short_recording_predicts_better_with_the_description_and_says_so(short):
    robot, _ = simulated_truth()
    options = replace(PLAIN, prior="auto")
    with_prior = identify(robot, [short[0]], options=options, validate=[short[1]]).outcome
    without = identify(robot, [short[0]], options=PLAIN, validate=[short[1]]).outcome
    assert with_prior.prior is not None and with_prior.prior.weight > 0.0
    assert with_prior.validation["all"].relative < 0.85 * without.validation["all"].relative
    assert any("comes from the URDF prior" in remark.text for remark in with_prior.verdict)


def test_with_a_prior_bodies_are_served(short):
    robot, _ = simulated_truth()
    found = identify(robot, [short[0]], options=replace(PLAIN, prior="auto"))
    assert found.outcome.prior is not None and found.outcome.prior.weight > 0.0
    assert found.model.serve == "consistent" and found.model.consistent is not None
    chi = np.array([found.model.consistent[name] for name in standard_names(robot)])
    assert all(fully_consistent_links(robot, chi))


def test_the_weight_is_that_of_what_is_served(problem):
    """What is served decides: where it gains nothing by the prior, it is weak; where it is the same, as without."""
    found, prior = build_estimator(Method.WLS, problem)(None), described_prior(problem)
    plain = select_prior_weight(problem.information, found, prior)
    assert plain.weight > 0.0 and not plain.consistent
    same = select_prior_weight(problem.information, found, prior, served=lambda part, one, fit: one.value)
    assert same.consistent and 0.3 < same.weight / plain.weight < 3.5
    never = select_prior_weight(problem.information, found, prior, served=lambda part, one, fit: prior.mean)
    assert never.weak and never.weight <= PriorThresholds().weak and never.gain < 0.0
    forced = select_prior_weight(
        problem.information, found, prior, force=True, served=lambda part, one, fit: prior.mean
    )
    assert forced.weight == plain.weight and not forced.consistent


def test_a_joint_that_moved_one_way_has_friction_and_no_offset():
    """Fc and off are one column then: without a prior nobody tells them apart, with it what is there is friction."""
    robot, chi = simulated_truth()
    names, rng = standard_names(robot), np.random.default_rng(3)
    at = {name: k for k, name in enumerate(names)}
    truth = chi.copy()
    truth[[at[f"off{j}"] for j in range(1, 7)]] = 0.0
    t = np.arange(0.0, 5.0, 0.004)
    w, phase = 2.0 * np.pi * np.array((0.3, 0.7, 1.1)), rng.uniform(0.0, 6.0, (3, 6))
    x = w[:, None] * t[:, None, None] + phase
    q, dq, ddq = np.sin(x).sum(axis=1) / 6, (w[:, None] * np.cos(x)).sum(axis=1) / 6, -(w[:, None] ** 2 * np.sin(x))
    ddq = ddq.sum(axis=1) / 6
    q[:, 0], dq[:, 0], ddq[:, 0] = 0.6 * t - 0.1 * np.cos(3 * t), 0.6 + 0.3 * np.sin(3 * t), 0.9 * np.cos(3 * t)
    tau = inverse_dynamics(robot, truth, q, dq, ddq)
    tau += 0.02 * np.sqrt(np.mean(tau**2, axis=0)) * rng.standard_normal(tau.shape)
    samples = Samples(t, robot.active_names, q, tau=tau, source="one way")
    one_way = build_problem(robot, [samples], PLAIN, lambda *_: None)
    found, prior = build_estimator(Method.WLS, one_way)(None), described_prior(one_way)
    result = regularize(
        one_way.information, found, prior, select_prior_weight(one_way.information, found, prior, force=True)
    )
    value = dict(zip(one_way.base.leaders, result.estimate.base, strict=True))
    assert abs(value["off1"]) < 0.1 * value["Fc1"]
    assert value["Fc1"] == pytest.approx(truth[at["Fc1"]], rel=0.3)


def test_a_wrong_description_pulls_less_than_a_right_one(problem):
    """Masses ten times too large help less than true ones, and pull less."""
    heavy = dict(problem.robot.parameters)
    wrong = replace(problem, robot=replace(problem.robot, parameters={name: 10.0 * v for name, v in heavy.items()}))
    found = build_estimator(Method.WLS, problem)(None)
    right, off = described_prior(problem), described_prior(wrong)
    good, bad = (select_prior_weight(problem.information, found, prior, force=True) for prior in (right, off))
    at = problem.information.layout.base
    pull = [np.trace(told.weight * prior.information[at, at]) for told, prior in ((good, right), (bad, off))]
    assert bad.gain < good.gain and pull[1] < pull[0]


def test_a_sister_robot_gives_its_values_and_their_covariance(short, tmp_path):
    robot, _ = simulated_truth()
    sister = identify(robot, [short[2]], options=PLAIN, output=tmp_path / "sister")
    options = replace(PLAIN, prior=str(tmp_path / "sister" / "model.yaml"))
    with_sister = identify(robot, [short[0]], options=options, validate=[short[1]]).outcome
    without = identify(robot, [short[0]], options=PLAIN, validate=[short[1]]).outcome
    assert with_sister.prior is not None and with_sister.prior.source.endswith("model.yaml")
    assert with_sister.validation["all"].relative < without.validation["all"].relative
    assert sister.model.obtained.get("prior") is None


def test_consistent_parameters_are_drawn_too(problem):
    found, prior = build_estimator(Method.WLS, problem)(None), described_prior(problem)
    distances = []
    for weight in (0.0, 10.0, 1e4):
        result = regularize(problem.information, found, prior, PriorWeight(weight, 0.0, 0.0))
        value = impose_consistency(problem, problem.information, result.estimate, result).value
        change = result.estimate.with_base(value).value - prior.mean
        distances.append(change @ prior.information @ change)
    assert distances[0] > distances[1] > distances[2]


@pytest.mark.parametrize(
    ("options", "what"),
    [({"prior": "cad"}, "prior is 'cad'"), ({"prior": "urdf", "essential": True}, "with essential parameters")],
)
def test_priors_that_cannot_be_are_refused(options, what):
    with pytest.raises(InputError, match=what):
        IdentifyOptions(**options)


def test_a_robot_without_masses_has_no_prior_of_its_own(short):
    robot = replace(simulated_truth()[0], parameters={})
    with pytest.raises(InputError, match="no masses"):
        identify(robot, [short[0]], options=replace(PLAIN, prior="urdf"))
    with_guess, without = (
        identify(robot, [short[0]], options=replace(PLAIN, prior=prior), validate=[short[1]]).outcome
        for prior in ("auto", "none")
    )
    assert with_guess.validation["all"].relative < 1.03 * without.validation["all"].relative
    assert with_guess.prior is not None and with_guess.prior.source == GUESSED


def test_bodies_are_guessed_from_torques(problem):
    """Links of any size are bodies, weigh what the torques ask for, and are left alone where masses are described."""
    bare = replace(problem.robot, parameters={})
    guess = bodies_to_start_from(bare, problem.information)
    assert all(fully_consistent_links(bare, guess))
    heavier = each_triangle(
        problem.information,
        lambda R, _: R * np.append(np.ones(R.shape[1] - 1), 10.0),
        problem.information.columns,
        problem.information.layout,
    )
    assert np.allclose(links_of(bare, bodies_to_start_from(bare, heavier)), 10.0 * links_of(bare, guess))
    described = make_consistent(problem.robot, standard_vector(problem.robot))
    assert np.array_equal(bodies_to_start_from(problem.robot, problem.information), described)


@pytest.mark.parametrize(
    ("robot", "recording"),
    [("ur10/robot.urdf", "ur10/run.db3"), *(("kr300/robot.yaml", f"kr300/{part}.npz") for part in "ab")],
)
def test_five_seconds_of_a_real_robot(robot, recording):
    """UR10, described, and KR300, without masses: at most 0.85 times the held-out error without a prior."""
    if not (DATA / robot).is_file():
        pytest.skip("the recordings of real robots are not here (set DYNID_DATA)")
    robot = load_robot(DATA / robot)
    samples = load_samples(DATA / recording, robot)
    t = samples.t - samples.t[0]
    fitted, rest = samples.take(t < 5.0), samples.take(t >= 5.0)
    options = IdentifyOptions(checks=False, cross_validate=0)
    errors = [
        identify(robot, [fitted], options=replace(options, prior=prior), validate=[rest]).outcome.validation["all"]
        for prior in ("auto", "none")
    ]
    assert errors[0].relative < 0.85 * errors[1].relative


def test_what_a_motion_leaves_open_does_not_spoil_another_one():
    """KR300, without masses: the prior does not help on stretches left out, and is weak; another motion gains by it."""
    if not (DATA / "kr300" / "robot.yaml").is_file():
        pytest.skip("the recordings of real robots are not here (set DYNID_DATA)")
    robot = load_robot(DATA / "kr300" / "robot.yaml")
    a, b, c = (load_samples(DATA / "kr300" / f"{part}.npz", robot) for part in "abc")
    outcomes = [
        identify(robot, [a, c], options=replace(PLAIN, prior=prior), validate=[b]).outcome for prior in ("auto", "none")
    ]
    assert outcomes[0].prior is not None and 0.0 < outcomes[0].prior.weight <= PriorThresholds().weak
    weak, without = (one.validation["all"].relative for one in outcomes)
    assert weak < 0.6 * without
    assert not any("comes from" in remark.text for remark in outcomes[0].verdict)


def drawn_problem(repeats):
    """Return rows of few blocks, in which a prior near the truth helps, its estimate and the prior."""
    information = small_information(6, blocks=10, rows=1, noise=10.0)
    information = restrict(information, [0, 1, 2, 3, 5], ColumnLayout(4, 1))
    if repeats:
        rows = [np.vstack([block.R[j] for block in information.blocks]) for j in (0, 1)]
        parts = [tuple(R[k::6] for R in rows) for k in range(6)]
        phases = tuple(Block(R, np.array([len(R[0])] * 2), float(k), k + 1.0) for k, R in enumerate(parts))
        information = replace(information, phases=phases)
    prior = Prior(np.array([1.0, -2.0, 0.5, 3.0, 0.1]) + 0.01, np.diag([900.0, 400.0, 2000.0, 900.0, 1e4]), "near")
    return information, wls(information), prior


def test_a_prior_is_weighed_by_phase_where_a_motion_repeats():
    """Blocks of time would hold what is left out."""
    information, found, prior = drawn_problem(True)
    told = select_prior_weight(information, found, prior, force=True)
    by_phase = select_prior_weight(different_motion(information), found, prior, force=True)
    by_time = select_prior_weight(replace(information, phases=()), found, prior, force=True)
    assert (told.weight, told.gain) == (by_phase.weight, by_phase.gain)
    assert abs(told.gain - by_time.gain) > 1e-6


@pytest.mark.parametrize("force", [False, True])
def test_a_drawn_fit_weighs_within_the_blocks_that_it_is_given(force):
    information, _, prior = drawn_problem(False)
    asked = []

    def fit(chosen):
        asked.append(chosen)
        return wls(information if chosen is None else information.take(chosen))

    def serve(part, one, told):
        return one.value

    for chosen in (None, [0, 1, 2, 3, 5, 6, 8, 9]):
        for served in (None, serve):
            found = regularize_estimate(information.take(chosen), fit(chosen), prior, force=force, served=served)
            part = information if chosen is None else information.take(chosen)
            told = select_prior_weight(part, wls(part), prior, force=force, served=served)
            wanted = regularize(part, wls(part), prior, told)
            assert asked[-1] == chosen and found.prior is prior
            assert (found.weight.weight, found.weight.consistent) == (told.weight, told.consistent)
            assert told.weight > 0.0 and told.consistent == (served is not None), "it helps here"
            np.testing.assert_array_equal(found.estimate.value, wanted.estimate.value)
            np.testing.assert_array_equal(found.share, wanted.share)
    far = Prior(-9.0 * prior.mean, prior.information, "far")
    assert regularize_estimate(information, fit(None), far, force=force).used == force


def test_an_estimate_of_any_method_is_drawn_from_its_own_values():
    """|W (x - value)|^2 + weight (x - mean)^T L (x - mean); what only the prior knows is known then."""
    information = small_information(5)
    found = wls(information, np.array([0.0, 0.0, 0.0, 0.0, 2.0, 0.0]))
    found = replace(found, value=1.3 * found.value + 0.1)
    prior = Prior(np.array([1.0, -2.0, 0.5, 3.0, 9.0, 0.1]), np.diag([40.0, 90.0, 20.0, 70.0, 4.0, 10.0]), "x")
    told = regularize(information, found, prior, PriorWeight(3.0, 0.1, 0.01))
    W = weighted_triangle(information, 1.0 / found.sigma).W
    A, L = W.T @ W, 3.0 * prior.information
    wanted = np.linalg.solve(A + L, A @ found.value + L @ prior.mean)
    np.testing.assert_allclose(told.estimate.value, wanted, rtol=1e-8)
    assert not found.identified[4] and told.estimate.identified.all() and told.share[4] == pytest.approx(1.0)


def test_the_share_of_base_parameters_is_not_that_of_the_delay():
    information, found, prior = drawn_problem(False)
    told = regularize(information, found, prior, PriorWeight(1.0, 0.1, 0.01))
    assert told.base_share == pytest.approx(told.share[:4].mean()) and abs(told.share[4] - told.base_share) > 1e-3
