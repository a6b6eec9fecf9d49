# SPDX-License-Identifier: Apache-2.0

"""Priors, possible bodies, essential parameters and the model file: each part by its definition."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from scipy.optimize import minimize

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inertia_matrix, inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import SetErrors, TorqueError, load_model, model_of, save_model
from ros2_dynid.identification.physical import consistency, prior_sources, standard
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import block_folds, each_triangle
from ros2_dynid.identification.regression.least_squares import solve, weighted_triangle, wls
from ros2_dynid.identification.regression.prior import (
    Prior,
    PriorThresholds,
    PriorWeight,
    embed_prior,
    regularize,
    select_prior_weight,
    stack_prior,
    torque_scale,
)
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.inertia import links_of, pseudo_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import link_slice, standard_names, standard_vector
from ros2_dynid.model.robot import Limits
from ros2_dynid.sim.truth import true_parameters

essential_module = import_module("ros2_dynid.identification.physical.essential")  # a function has the same name
ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)


def rows_of(count=300, noise=0.3, seed=0, delay=False):
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, count, 3))
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    tau = tau + noise * np.array([1.0, 2.0, 0.5]) * rng.normal(size=tau.shape)
    prepared = as_prepared(ROBOT, q, dq, ddq, tau)
    return prepared, build_information(ROBOT, BASE, [prepared], delay=delay)


def problem_of(terms=(), **more):
    prepared, information = rows_of(**more)
    prior = information.layout.vector(BASE.values(ROBOT, standard_vector(ROBOT)))
    return Problem(ROBOT, BASE, (prepared,), information, prior, tuple(terms))


# --- drawn towards a prior


def a_prior(size, seed=0, strength=1.0):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(size, size))
    return Prior(rng.normal(size=size), strength * (L @ L.T), "somewhere")


def test_the_root_of_a_priors_information():
    prior = a_prior(6)
    np.testing.assert_allclose(prior.root.T @ prior.root, prior.information, atol=1e-9)


@pytest.mark.parametrize("good", [True, False])
def test_the_weight_is_the_largest_within_the_scatter_of_the_smallest_error_on_data_left_out(good):
    _, information = rows_of(30, noise=3.0)
    found = wls(information)
    truth = BASE.values(ROBOT, true_parameters(ROBOT, 1))
    mean = truth * (1.0 if good else -3.0)
    prior = Prior(mean, np.diag(1.0 / (0.1 * np.abs(truth) + 0.1) ** 2), "x")
    told = select_prior_weight(information, found, prior)
    folds = [fold for count in (3, 5) for fold in block_folds(information, count)]
    logs = np.empty((1 + len(PriorThresholds().weights), len(folds)))
    for f, fold in enumerate(folds):
        rest = information.take([b for b in range(len(information.blocks)) if b not in fold])
        out = information.take(fold)
        T, U = (weighted_triangle(part, 1.0 / found.sigma) for part in (rest, out))
        for k, weight in enumerate((0.0, *PriorThresholds().weights)):
            A = T.W.T @ T.W + weight * prior.information
            x = np.linalg.lstsq(A, T.W.T @ T.tau + weight * prior.information @ mean, rcond=None)[0]
            if weight == 0.0:
                x = solve(T.R, mean).value
            logs[k, f] = np.log(np.linalg.norm(U.tau - U.W @ x))
    best = int(np.argmin(logs[1:].mean(axis=1)))
    gains = logs[0] - logs[1 + best]
    if good:
        more = logs[1:] - logs[1 + best]
        alike = [k for k in range(len(more)) if more[k].mean() <= more[k].std(ddof=1) / np.sqrt(8)]
        assert max(alike) > best
        best = max(alike)
        gains = logs[0] - logs[1 + best]
    assert told.gain == pytest.approx(1.0 - np.exp(-gains.mean()), rel=1e-3, abs=1e-4)
    scatter = gains.std(ddof=1) / np.sqrt(8)
    assert told.scatter == pytest.approx(scatter * np.exp(-gains.mean()), rel=1e-3)
    if good:
        assert told.weight == PriorThresholds().weights[best] and not told.weak
    else:  # the largest weak weight that the folds do not speak against, if there is one
        harm = logs[1:] - logs[0]
        harmless = [
            weight
            for weight, more in zip(PriorThresholds().weights, harm, strict=True)
            if weight <= PriorThresholds().weak and more.mean() <= more.std(ddof=1) / np.sqrt(8)
        ]
        assert told.weight == max(harmless, default=0.0)
    assert good == (gains.mean() > scatter and told.gain > 0.1)
    first = logs[0] - logs[1 + int(np.argmin(logs[1:].mean(axis=1)))]
    deviations, share = first.mean() / (first.std(ddof=1) / np.sqrt(8)), 1.0 - np.exp(-first.mean())
    for factor in (0.99, 1.01):  # both the scatter and the share of the gain are asked about
        for limits in (
            PriorThresholds(scatters=factor * deviations, least_gain=-9.0),
            PriorThresholds(scatters=-9.0, least_gain=factor * share),
        ):
            with_limits = select_prior_weight(information, found, prior, thresholds=limits)
            assert (with_limits.weight > 0.0 and not with_limits.weak) == (factor < 1.0) or not good
    forced = select_prior_weight(information, found, prior, force=True)
    assert forced.weight == PriorThresholds().weights[best] and forced.gain == told.gain
    few = information.take(range(4))
    assert (
        select_prior_weight(few, found, prior).weight == 0.0
        and select_prior_weight(few, found, prior, force=True).weight == 1.0
    )
    blind = replace(found, sigma=np.ones(2))
    assert select_prior_weight(information, blind, prior).weight == 0.0


@pytest.mark.parametrize("times", [0.01, 1.0, 1.5, 40.0])
def test_a_drawn_estimate_its_covariance_and_its_share(times):
    """times: how much more the data scatter than their errors at first; never less than white errors would."""
    _, information = rows_of()
    found, b = wls(information), len(BASE)
    found = replace(found, covariance=times * found.covariance)
    prior = a_prior(b, strength=50.0)
    drawn = regularize(information, found, prior, PriorWeight(4.0, 0.1, 0.2))
    T = weighted_triangle(information, 1.0 / found.sigma)
    A, L = T.W.T @ T.W, 4.0 * prior.information
    B = np.linalg.inv(A + L)
    np.testing.assert_allclose(drawn.estimate.value, B @ (A @ found.value + L @ prior.mean), rtol=1e-6, atol=1e-8)
    white = max(np.trace(found.covariance @ A) / b, 1.0)
    C = B @ A @ found.covariance @ A @ B + white * B @ L @ B
    np.testing.assert_allclose(drawn.estimate.covariance, C, rtol=1e-6, atol=1e-9 * np.abs(C).max())
    np.testing.assert_allclose(drawn.share, np.clip(np.diag(B @ L), 0.0, 1.0), rtol=1e-6)
    assert drawn.base_share == pytest.approx(drawn.share.mean())
    joined = stack_prior(T, prior, 4.0)
    np.testing.assert_allclose(joined.W.T @ joined.W, A + L, rtol=1e-8)
    np.testing.assert_allclose(joined.W.T @ joined.tau, T.W.T @ T.tau + L @ prior.mean, rtol=1e-8)


def test_a_column_that_nobody_feels_stays_with_the_prior():
    _, information = rows_of()
    found = wls(information)
    blind = each_triangle(
        information, lambda R, columns: R * np.append(columns != 4, True), information.columns, information.layout
    )
    found = replace(found, value=np.where(np.arange(len(BASE)) == 4, 0.0, found.value))
    L = np.diag(np.full(len(BASE), 0.25))
    drawn = regularize(blind, found, Prior(np.full(len(BASE), 7.0), L, "x"), PriorWeight(2.0, 0.0, 0.0))
    assert drawn.estimate.value[4] == pytest.approx(7.0) and drawn.share[4] == pytest.approx(1.0)
    assert drawn.estimate.std[4] >= 1.0 / np.sqrt(2.0 * 0.25) * (1.0 - 1e-9) and np.all(np.delete(drawn.share, 4) < 1.0)
    assert drawn.estimate.identified[4]


def test_the_value_at_which_a_column_makes_the_whole_torque():
    prepared, information = rows_of()
    Y = regressor(ROBOT, prepared.q, prepared.dq, prepared.ddq)[:, :, BASE.columns(ROBOT)]
    for k in range(len(BASE)):
        felt = [j for j in range(3) if k in information.columns[j]]
        sizes = [np.linalg.norm(prepared.tau[:, j]) / np.linalg.norm(Y[:, j, k]) for j in felt]
        assert torque_scale(information, k) == pytest.approx(min(sizes))
    assert torque_scale(information, 99) == np.inf
    layout = ColumnLayout(2, 1)
    mean, L = embed_prior(layout, np.array([1.0, 2.0]), np.array([[3.0, 4.0], [4.0, 5.0]]))
    assert mean.tolist() == [1.0, 2.0, 0.0] and L.tolist() == [[3.0, 4.0, 0.0], [4.0, 5.0, 0.0], [0.0, 0.0, 0.0]]


class ShortBase:
    """Base parameters without the last one."""

    names, leaders = BASE.names[:-1], BASE.leaders[:-1]

    def __len__(self):
        return len(self.names)

    def values(self, robot, chi):
        return np.full(len(self), 7.0)


def test_the_prior_of_another_model_is_its_values_and_their_covariance():
    load = FrictionTerm(2, FrictionKind.LOAD, 0.05)
    problem = problem_of()
    information = replace(
        problem.information, layout=ColumnLayout(len(BASE) - 1, 0, 0, 1)
    )  # the last column stands for a term
    base = ShortBase()
    problem = replace(problem, information=information, base=base, terms=(load,))
    rng = np.random.default_rng(0)
    b = len(BASE) - 1
    S = rng.normal(size=(b, b))
    covariance = S @ S.T
    std = np.sqrt(np.diag(covariance))
    std[4] = np.inf
    robot = replace(ROBOT, friction=(replace(load, coefficient=0.08),))
    model = SimpleNamespace(robot=robot, names=base.names, std=std, value=np.arange(b) + 1.0, covariance=covariance)
    found = prior_sources.model_prior(problem, model, "sister.yaml")
    known = np.arange(b) != 4
    np.testing.assert_allclose(
        found.information[:b, :b][np.ix_(known, known)], np.linalg.inv(covariance[np.ix_(known, known)]), rtol=1e-5
    )
    assert not found.information[4].any() and found.mean[4] == 7.0 and found.mean[5] == 6.0
    assert found.mean[b] == 0.08 and found.source == "sister.yaml"
    assert found.information[b, b] == pytest.approx(torque_scale(information, b) ** -2)
    with pytest.raises(InputError, match="other base parameters"):
        prior_sources.model_prior(problem, SimpleNamespace(**{**vars(model), "names": base.names[::-1]}), "x")


def test_a_description_without_masses_is_no_prior():
    assert prior_sources.has_masses(ROBOT)
    bare = replace(ROBOT, parameters={})
    assert not prior_sources.has_masses(bare)
    assert prior_sources.has_masses(replace(ROBOT, parameters={"M2": 1.0})), "one link is enough"
    with pytest.raises(InputError, match="no masses"):
        prior_sources.described_prior(replace(problem_of(), robot=bare))


"""Of four folds; the standard error of its mean is 1 / sqrt(3)."""


def test_the_prior_of_a_description_is_the_scatter_of_its_links_with_free_drives():
    problem = problem_of()
    prior = prior_sources.described_prior(problem)
    M, names = BASE.full_map(ROBOT), standard_names(ROBOT)
    chi = consistency.make_consistent(ROBOT, standard_vector(ROBOT))
    np.testing.assert_allclose(prior.mean, M @ chi)
    link = np.array([name[:2] not in ("Ia", "Fv", "Fc", "of") for name in names])
    S = M[:, link] @ np.linalg.inv(prior_sources.entropic_metric(ROBOT, chi)) @ M[:, link].T
    wide = 1e9 * np.abs(S).max() * M[:, ~link] @ M[:, ~link].T  # a drive may have any value
    L = np.linalg.inv(S + wide)
    for k, leader in enumerate(BASE.leaders):
        share = {"Fv": 1.0, "Fc": 1.0, "of": 0.1}.get(leader[:2])
        if share is not None:
            L[k, k] += (share * torque_scale(problem.information, k)) ** -2
    np.testing.assert_allclose(prior.information, L, rtol=1e-5, atol=1e-7 * np.abs(L).max())
    assert prior.source == prior_sources.DESCRIBED and {n[:2] for n in BASE.leaders} >= {"Fv", "Fc", "of"}


@pytest.mark.parametrize("sizes", [(1.0, 0.01, 3.0), (1.0, 1.0, 1.0), (20.0, 0.5, 0.1)])
def test_guessed_bodies_are_balls_that_need_the_largest_torque_at_or_behind_their_joint(sizes):
    prepared, _ = rows_of()
    tau = prepared.tau * np.array(sizes)
    bare = replace(ROBOT, parameters={})
    guess = links_of(
        bare, prior_sources.bodies_to_start_from(bare, build_information(ROBOT, BASE, [replace(prepared, tau=tau)]))
    )
    rms, length = np.sqrt(np.mean(tau**2, axis=0)), 0.5  # of the longest link
    for k, body in enumerate(guess):
        mass = max(rms[k:]) / (9.81 * length)
        ball = 0.4 * mass * length**2
        np.testing.assert_allclose(body, [ball, 0.0, 0.0, ball, 0.0, ball, 0.0, 0.0, 0.0, mass], rtol=1e-9, atol=1e-12)


# --- standard parameters


def test_how_freely_a_parameter_may_change():
    chi = standard_vector(ROBOT)
    names = standard_names(ROBOT)
    S = standard.scales(ROBOT, chi)
    for j, link in enumerate(links_of(ROBOT, chi)):
        m = max(link[9], 1e-2)
        length = max(np.sqrt(max(link[0] + link[3] + link[5], 0.0) / 2.0 / m), 2e-2)
        np.testing.assert_allclose(S[link_slice(j)], [m * length**2] * 6 + [m * length] * 3 + [m])
    for k, name in enumerate(names):
        if name[:2] in ("Ia", "Fv", "Fc", "of"):
            assert S[k] == (abs(chi[k]) if chi[k] != 0.0 else 1e3)
    chosen = standard.with_drives(ROBOT, chi + 1.0, chi)
    for k, name in enumerate(names):
        assert chosen[k] == chi[k] + (1.0 if name[:2] in ("Ia", "Fv", "Fc", "of") else 0.0)


def test_only_essential_parameters_leave_the_reference():
    problem = problem_of(delay=True)
    information = problem.information
    reference, weights = standard_vector(ROBOT), np.array([1.0, 0.5, 3.0])
    others = np.zeros(information.size)
    kept = [1, 4, 9]
    found = standard.essential_change(ROBOT, BASE, information, weights, kept, reference, others)
    before = BASE.full_map(ROBOT) @ reference
    rest = [k for k in range(len(BASE)) if k not in kept]
    np.testing.assert_array_equal(found[rest], before[rest])
    T = weighted_triangle(information, weights)
    left = T.tau - T.base @ before
    np.testing.assert_allclose((found - before)[kept], np.linalg.lstsq(T.base[:, kept], left, rcond=None)[0], rtol=1e-7)


# --- bodies


def test_links_that_cannot_be_are_lifted_and_others_stay():
    chi = true_parameters(ROBOT, 1)
    good = consistency.make_consistent(ROBOT, chi)
    np.testing.assert_array_equal(good, chi)
    bad = chi.copy()
    bad[link_slice(1)] = [0, 0, 0, 0, 0, 0, 0.3, -0.2, 0.1, 2.0]  # a point mass beside the axis that turns freely
    bad[link_slice(2)] = 0.0
    found = consistency.make_consistent(ROBOT, bad)
    assert all(consistency.fully_consistent_links(ROBOT, found)) and not all(
        consistency.fully_consistent_links(ROBOT, bad)
    )
    np.testing.assert_array_equal(found[link_slice(0)], chi[link_slice(0)])
    point, none = links_of(ROBOT, found)[1:]
    np.testing.assert_array_equal(point[6:], bad[link_slice(1)][6:])
    c = np.array([0.3, -0.2, 0.1]) / 2.0
    S = pseudo_inertia(point)[:3, :3] - 2.0 * np.outer(c, c)
    np.testing.assert_allclose(np.linalg.eigvalsh(S), [2.0 * c @ c / 5.0] * 3, rtol=1e-9)
    assert none[9] == 1e-3 and np.linalg.eigvalsh(pseudo_inertia(none)[:3, :3])[0] == pytest.approx(1e-4 * 1e-3 / 5.0)


def test_the_closest_body_in_units_of_the_covariance():
    body = links_of(ROBOT, true_parameters(ROBOT, 1))[2].copy()
    assert consistency.closest_body(body, np.eye(10)) is body
    impossible = body.copy()
    impossible[5] = -0.5 * abs(body[5])
    rng = np.random.default_rng(2)
    L = np.diag(0.1 * np.abs(body) + 1e-3) @ (np.eye(10) + 0.2 * rng.normal(size=(10, 10)))
    C = L @ L.T
    found = consistency.closest_body(impossible, C)
    assert np.linalg.eigvalsh(pseudo_inertia(found))[0] > -1e-7
    W = np.linalg.inv(C)
    distance = (found - impossible) @ W @ (found - impossible)

    def cost(x):
        P = np.zeros((4, 4))
        P[np.tril_indices(4)] = x
        P = P @ P.T
        J = np.trace(P[:3, :3]) * np.eye(3) - P[:3, :3]
        ten = np.array([J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *P[:3, 3], P[3, 3]])
        return (ten - impossible) @ W @ (ten - impossible)

    start = np.linalg.cholesky(pseudo_inertia(body))[np.tril_indices(4)]
    best = minimize(cost, start, method="BFGS", options={"maxiter": 2000}).fun
    assert distance == pytest.approx(best, rel=0.02)


@pytest.mark.parametrize("limited", [True, False])
def test_the_smallest_inertia_over_positions_within_the_limits(limited):
    limits = [Limits(0.2, 0.4), Limits(-1.0, -0.5), Limits(1.0, 1.1)] if limited else [Limits()] * 3
    robot = replace(ROBOT, joints=tuple(replace(j, limits=x) for j, x in zip(ROBOT.joints, limits, strict=True)))
    chi = true_parameters(ROBOT, 1)
    found = consistency.smallest_joint_inertia(robot, chi, count=400)
    lower = np.array([0.2, -1.0, 1.0]) if limited else np.full(3, -np.pi)
    upper = np.array([0.4, -0.5, 1.1]) if limited else np.full(3, np.pi)
    q = np.random.default_rng(5).uniform(lower, upper, (3000, 3))
    every = np.linalg.eigvalsh(inertia_matrix(robot, chi, q)).min(axis=1)
    assert every.min() * (1 - 1e-9) <= found * 1.02 and found <= np.quantile(every, 0.02)


def test_imposed_parameters_fit_best_among_those_of_bodies():
    problem = problem_of(noise=3.0)
    information = problem.information
    found = wls(information)
    T = weighted_triangle(information, 1.0 / found.sigma)
    reference = consistency.make_consistent(ROBOT, standard_vector(ROBOT))
    ours = consistency.impose(consistency.build_programme(ROBOT, BASE, reference), T, found.value)
    assert all(consistency.fully_consistent_links(ROBOT, ours.chi))
    best, mine = (np.linalg.norm(T.tau - T.base @ value) for value in (found.base, ours.value))
    assert ours.loss == pytest.approx(mine / best - 1.0, rel=1e-6, abs=1e-9) and ours.loss >= -1e-9
    names = standard_names(ROBOT)
    signed = [k for k, name in enumerate(names) if name[:2] in ("Ia", "Fv", "Fc")]
    assert np.all(ours.chi[signed] >= 0.0)
    truth = consistency.make_consistent(ROBOT, true_parameters(ROBOT, 1))
    M = BASE.full_map(ROBOT)
    assert mine <= np.linalg.norm(T.tau - T.base @ (M @ truth)) * (1 + 1e-6), "no other body fits better"
    for share in (0.1, 0.5):
        other = M @ (ours.chi + share * (truth - ours.chi))
        assert mine <= np.linalg.norm(T.tau - T.base @ other) * (1 + 1e-6)
    steep = np.zeros((1, len(BASE)))
    steep[0, [BASE.leaders.index("Fv2"), BASE.leaders.index("Fc2")]] = 1.0, -50.0
    high = consistency.impose(consistency.build_programme(ROBOT, BASE, reference, steep), T, found.value)
    Fv, Fc = (high.chi[names.index(name)] for name in ("Fv2", "Fc2"))
    assert Fv >= 50.0 * Fc - 1e-4 * Fv and Fv > 0.0 and high.loss > ours.loss


# --- essential parameters


def test_the_elimination_drops_what_is_least_known_and_refits():
    _, information = rows_of(noise=2.0)
    full = wls(information)
    found = essential_module.essential(information, full, essential_module.EssentialThresholds(folds=0))
    relative = full.std / np.abs(full.value)
    assert found.steps[0].parameter == int(np.argmax(relative))
    assert found.steps[0].relative_std == pytest.approx(relative.max())
    dropped = [step.parameter for step in found.steps if step.dropped]
    assert set(found.kept) == set(range(len(BASE))) - set(dropped) and len(dropped) >= 1
    assert not found.estimate.value[dropped].any() and found.estimate.identified[dropped].all()
    assert not found.estimate.covariance[dropped].any() and not found.estimate.covariance[:, dropped].any()
    kept = list(found.kept)
    R = weighted_triangle(information, 1.0 / full.sigma).R
    best = np.linalg.lstsq(R[:, kept], R[:, -1], rcond=None)[0]
    np.testing.assert_allclose(found.estimate.value[kept], best, rtol=1e-7)
    first, y = found.steps[0], R[:, -1]
    W = R[:, :-1]
    rest = np.delete(W, first.parameter, axis=1)
    least, more = (np.sum((y - A @ np.linalg.lstsq(A, y, rcond=None)[0]) ** 2) for A in (W, rest))
    per_row = least / (information.rows.sum() - len(BASE))
    inflation = max(1.0, np.median(np.diag(full.covariance) / np.diag(np.linalg.inv(W.T @ W))))
    assert first.statistic == pytest.approx((more - least) / inflation / per_row)
    one = essential_module.essential(information, full, most=1)
    assert sum(step.dropped for step in one.steps) == 1
    last = one.steps[-1]
    assert not last.dropped and last.statistic <= last.limit, "the step that went too far is told, too"
    loose = essential_module.essential(
        information, full, essential_module.EssentialThresholds(folds=0, relative_std=1e9)
    )
    assert loose.steps == () and loose.kept == tuple(range(len(BASE)))


def test_the_share_of_the_largest_torque():
    W, tau = np.array([[1.0, 2.0], [4.0, 0.5]]), np.array([10.0, 0.0])
    np.testing.assert_allclose(essential_module.share_of_largest(W, tau, np.array([-3.0, 2.0])), [0.3, 0.8])


# --- the model file


def model(**more):
    value = BASE.values(ROBOT, standard_vector(ROBOT))
    rng = np.random.default_rng(0)
    S = rng.normal(size=(len(BASE), len(BASE)))
    return model_of(ROBOT, BASE, value, np.sqrt(np.diag(S @ S.T)), S @ S.T, **more)


def test_every_field_of_a_model_comes_back(tmp_path):
    names = ROBOT.active_names
    fit = {name: TorqueError(0.1 * k, 0.01 * k) for k, name in enumerate((*names, "all"), start=1)}
    validation = {name: TorqueError(0.3 * k, 0.02 * k) for k, name in enumerate((*names, "all"), start=1)}
    chi = dict(zip(standard_names(ROBOT), true_parameters(ROBOT, 1).tolist(), strict=True))
    sets = {"base": SetErrors(fit, validation), "consistent": SetErrors(validation, {})}
    robot = replace(ROBOT, friction=(FrictionTerm(2, FrictionKind.LOAD, 0.05, 0.01),))
    written = replace(
        model(fit=fit, validation=validation, consistent=chi, standard={"ZZ1": 2.0}, serve="consistent", sets=sets),
        robot=robot,
        essential=("ZZR1", "Fv1"),
    )
    save_model(written, tmp_path / "model.yaml")
    read = load_model(tmp_path / "model.yaml")
    assert (read.serve, read.fit, read.validation, read.sets) == ("consistent", fit, validation, sets)
    assert (read.consistent, read.standard, read.essential) == (chi, {"ZZ1": 2.0}, ("ZZR1", "Fv1"))
    np.testing.assert_allclose(read.served, BASE.values(ROBOT, true_parameters(ROBOT, 1)))
    assert read.standard_served == chi and replace(read, serve="base").standard_served == {"ZZ1": 2.0}
    text = yaml.safe_load((tmp_path / "model.yaml").read_text())
    for k, row in enumerate(text["base"]):
        assert row["served"] == pytest.approx(read.served[k]) and row["value"] == pytest.approx(read.value[k])
    place = {leader: k for k, leader in enumerate(BASE.leaders)}
    for j, row in enumerate(text["friction"], start=1):
        assert row["joint"] == ROBOT.joints[j - 1].name
        for kind in ("Fv", "Fc", "off"):
            assert row[kind] == pytest.approx(read.served[place[f"{kind}{j}"]])
        assert row.get("Fl") == (0.05 if j == 2 else None)
    save_model(model(), tmp_path / "plain.yaml")
    plain = yaml.safe_load((tmp_path / "plain.yaml").read_text())
    assert all("served" not in row for row in plain["base"]) and plain["consistent"] is plain["essential"] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"std": np.ones(3)}, "no finite value"),
        ({"value": np.full(len(BASE), np.inf)}, "no finite value"),
        ({"covariance": np.eye(3)}, "differ in number"),
        ({"leaders": BASE.leaders[:-1]}, "differ in number"),
        ({"names": (), "leaders": (), "terms": ()}, "differ in number"),
        ({"leaders": ("QQ1", *BASE.leaders[1:])}, "'QQ1' is not a parameter"),
        ({"terms": ({"QQ2": 1.0},) * len(BASE)}, "'QQ2' is not a parameter"),
        ({"serve": "standard"}, "serves 'standard'"),
        ({"serve": "consistent"}, "no consistent parameters"),
    ],
)
def test_parts_of_a_model_that_do_not_fit_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        replace(model(), **change)


def test_rows_of_the_table_and_expressions():
    one = replace(model(), terms=({"ZZ1": 1.0, "Ia1": -1.0, "M3": -0.25, "YY2": 2.0},) * len(BASE))
    assert one.expression(0) == "ZZ1 - Ia1 - 0.25*M3 + 2*YY2"
    assert replace(one, terms=({"ZZ1": -1.0},) * len(BASE)).expression(0) == "-ZZ1"
    value = one.value.copy()
    value[0], value[1] = 0.0, -4.0
    rows = replace(one, value=value, std=np.full(len(BASE), 2.0)).table()
    assert rows[0].relative_std is None and rows[0].std == 2.0 and rows[1].relative_std == pytest.approx(0.5)
    for array in (one.value, one.std, one.covariance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
