# SPDX-License-Identifier: Apache-2.0

"""Essential, standard and consistent parameters with numbers: each set against a plain way to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.candidates import (
    Candidates,
    PhysicalParameters,
    find_physical_parameters,
)
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.physical import consistency, prior_sources, standard
from ros2_dynid.identification.physical.consistency import has_positive_inertia
from ros2_dynid.identification.physical.essential import EssentialThresholds, essential, largest_rows, share_of_largest
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.error_bars import block_moments, jackknife
from ros2_dynid.identification.regression.estimate import ColumnLayout, Triangle
from ros2_dynid.identification.regression.information import coarser, restrict
from ros2_dynid.identification.regression.least_squares import error_levels, weighted_triangle, wls
from ros2_dynid.identification.torque_std import TorqueScatter
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.inertia import links_of, pseudo_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import link_slice, standard_names, standard_vector
from ros2_dynid.model.robot import Coupling
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
NAMES = standard_names(ROBOT)
CHI = true_parameters(ROBOT, 4)
M = BASE.full_map(ROBOT)
DRIVES = np.array([name[:2] in ("Ia", "Fv", "Fc", "of") for name in NAMES])


def candidates_of(estimate, selection=None):
    """Return what the physical parameters of an estimate start from."""
    return Candidates({"base": estimate.value}, estimate, estimate, None, selection, PhysicalParameters(), True)


def rounded_robot():
    """Return the robot with a last link that its description has rounded to a point mass."""
    chi = standard_vector(ROBOT)
    m, c = 0.8, np.array([0.1, -0.05, 0.02])
    J = m * (c @ c * np.eye(3) - np.outer(c, c))
    chi[link_slice(2)] = [J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(m * c), m]
    return replace(ROBOT, parameters=dict(zip(NAMES, chi.tolist(), strict=True)))


@cache
def fitted(noise=0.02, delay=False, count=500):
    robot = rounded_robot()
    rng = np.random.default_rng(5)
    q, dq, ddq = rng.uniform(-1.5, 1.5, (3, count, 3))
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq)
    tau = tau + noise * np.array([1.0, 2.0, 0.5]) * tau.std(axis=0) * rng.normal(size=tau.shape)
    prepared = (as_prepared(robot, q, dq, ddq, tau),)
    information = build_information(robot, BASE, prepared, delay=delay)
    prior = information.layout.vector(BASE.values(robot, standard_vector(robot)))
    return Problem(robot, BASE, prepared, information, prior), wls(information)


def body(turn, mass, moments, c):
    """Return the ten parameters of a body by its second moments of mass about the centre c, each over its mass."""
    S = mass * (turn * np.array(moments) @ turn.T + np.outer(c, c))
    J = np.trace(S) * np.eye(3) - S
    return [J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * c), mass]


# --- standard parameters


def rows_weighted(problem, sigma):
    (p,) = problem.prepared
    Y = regressor(ROBOT, p.q, p.dq, p.ddq)[:, :, BASE.columns(ROBOT)] / sigma[:, None]
    return Y.reshape(-1, len(BASE)), (p.tau / sigma).ravel()


@pytest.mark.parametrize("distance", ["scaled", "euclidean"])
def test_standard_parameters_are_closest_to_the_description_made_possible(distance):
    problem, found = fitted()
    told = find_physical_parameters(problem, candidates_of(found), IdentifyOptions(standard=True, distance=distance))
    chi = np.array([told.standard[name] for name in NAMES])
    reference = consistency.make_consistent(problem.robot, standard_vector(problem.robot))
    assert not np.allclose(reference, standard_vector(problem.robot))
    np.testing.assert_allclose(M @ chi, found.base, atol=1e-9)
    S = standard.scales(problem.robot, reference) if distance == "scaled" else np.ones(len(NAMES))
    change = (chi - reference) / S
    free = np.linalg.svd(M * S)[2][np.linalg.matrix_rank(M * S) :]  # changes that no torque shows
    np.testing.assert_allclose(free @ change, 0.0, atol=1e-9 * np.linalg.norm(change))


@pytest.mark.parametrize("distance", ["scaled", "euclidean"])
def test_with_essential_parameters_only_these_leave_the_description(distance):
    """Drives are those of the full estimate; what the description leaves of the torque is fitted by the essential."""
    problem, found = fitted(0.1)
    robot = problem.robot
    selection = essential(coarser(problem.information, 10), found, EssentialThresholds(folds=0))
    kept = list(selection.kept)
    assert 3 < len(kept) < len(BASE) - 1
    options = IdentifyOptions(standard=True, distance=distance)
    told = find_physical_parameters(problem, candidates_of(selection.estimate, selection), options)
    chi = np.array([told.standard[name] for name in NAMES])
    reference = consistency.make_consistent(robot, standard_vector(robot))
    full = standard.closest(robot, BASE, found.base, reference, distance)
    known = np.where(DRIVES, full, reference)
    A, y = rows_weighted(problem, selection.estimate.sigma)
    change = np.linalg.lstsq(A[:, kept], y - A @ (M @ known), rcond=None)[0]
    wanted = M @ known
    wanted[kept] += change
    np.testing.assert_allclose(M @ chi, wanted, atol=1e-8 * np.abs(wanted).max())
    if distance == "euclidean":
        moved = {NAMES[k] for k in np.flatnonzero(np.abs(chi - known) > 1e-12)}
        assert moved <= {BASE.leaders[k] for k in kept}
    else:
        np.testing.assert_allclose(chi, standard.closest(robot, BASE, wanted, known, "scaled"), atol=1e-9)
    counts = told.consistency
    assert counts.base == consistency.table(robot, full) and counts.essential == consistency.table(robot, chi)
    assert counts.smallest_joint_inertia == consistency.smallest_joint_inertia(robot, chi)


def test_what_is_beside_the_base_parameters_is_taken_off_before_the_essential_are_fitted():
    rng = np.random.default_rng(0)
    layout = ColumnLayout(len(BASE), 1, 0, 1)
    problem, _ = fitted()
    R = rng.normal(size=(60, layout.size + 1))
    information = SimpleNamespace()
    others = rng.normal(size=layout.size)
    kept = [0, 3, 5]
    reference = standard_vector(problem.robot)

    def triangle(given, weights):
        assert given is information and weights == "weights"
        return Triangle(R, layout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standard, "weighted_triangle", triangle)
        found = standard.essential_change(problem.robot, BASE, information, "weights", kept, reference, others)
    b = len(BASE)
    left = R[:, -1] - R[:, b:-1] @ others[b:] - R[:, :b] @ (M @ reference)
    wanted = M @ reference
    wanted[kept] += np.linalg.lstsq(R[:, kept], left, rcond=None)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_leaders_take_the_change_of_their_base_parameter():
    change = np.arange(1.0, len(BASE) + 1.0)
    reference = np.linspace(-1.0, 1.0, len(NAMES))
    chi = standard.on_leaders(ROBOT, BASE, change, reference)
    for k, leader in enumerate(BASE.leaders):
        assert chi[NAMES.index(leader)] == pytest.approx(reference[NAMES.index(leader)] + change[k])
    rest = [k for k, name in enumerate(NAMES) if name not in BASE.leaders]
    np.testing.assert_array_equal(chi[rest], reference[rest])
    assert reference[0] == -1.0, "the reference stays as it is"


def test_units_of_links_without_a_useful_description():
    """Links without mass or size have those of something small; a value below 0 counts by its size."""
    chi = np.zeros(len(NAMES))
    chi[link_slice(1)] = [0.5, 0, 0, 0.5, 0, 1.0, 0, 0, 0, 4.0]
    chi[link_slice(2)] = [-9.0, 0, 0, 0, 0, 0, 0, 0, 0, 2.0]
    chi[NAMES.index("Fv2")] = -3.0
    S = standard.scales(ROBOT, chi)
    np.testing.assert_allclose(S[link_slice(0)], [1e-2 * 4e-4] * 6 + [1e-2 * 2e-2] * 3 + [1e-2])
    np.testing.assert_allclose(S[link_slice(1)], [4.0 * 0.25] * 6 + [4.0 * 0.5] * 3 + [4.0])
    np.testing.assert_allclose(S[link_slice(2)], [2.0 * 4e-4] * 6 + [2.0 * 2e-2] * 3 + [2.0])
    assert S[NAMES.index("Fv2")] == 3.0 and S[NAMES.index("Fv1")] == 1e3


# --- consistent parameters


def fat(mass, reach):
    """Return drives of the truth and links that are balls of 0.3 m beside their joints."""
    chi = CHI.copy()
    for j in range(3):
        c = reach * np.array([1.0, -0.5, 0.3]) * (1.0 + j)
        chi[link_slice(j)] = body(np.eye(3), mass / (1.0 + j), (0.09, 0.1, 0.11), c)
    return chi


def test_offsets_and_forces_may_have_any_sign():
    problem, found = fitted()
    chi = np.where([name.startswith("off") for name in NAMES], -7.0, CHI)
    T = weighted_triangle(problem.information, 1.0 / found.sigma)
    rows = np.column_stack((T.base, T.base @ (M @ chi)))
    programme = consistency.build_programme(ROBOT, BASE, consistency.make_consistent(ROBOT, CHI))
    told = consistency.impose(programme, Triangle(rows, T.layout), M @ chi)
    for j in (1, 2, 3):
        assert told.chi[NAMES.index(f"off{j}")] == pytest.approx(-7.0, rel=1e-3)


def test_friction_of_a_coupled_motor_brakes_too():
    robot = replace(ROBOT, coupling=(Coupling(3, {2: 1.0, 3: 1.0}),), parameters={})
    base, names = base_parameters(robot), standard_names(robot)
    chi = np.append(fat(2.0, 0.1), np.zeros(len(names) - len(NAMES)))
    for name, value in (("Fvm3", -0.5), ("Fcm3", -0.7), ("Fv2", -0.4)):
        chi[names.index(name)] = value
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 300, 3))
    W = regressor(robot, q, dq, ddq)[:, :, base.columns(robot)].reshape(-1, len(base))
    rows = np.column_stack((W, W @ base.values(robot, chi) + 0.1 * rng.normal(size=len(W))))
    reference = np.where(np.arange(len(chi)) < len(NAMES), chi, 0.0)
    programme = consistency.build_programme(robot, base, reference)
    told = consistency.impose(programme, Triangle(rows, ColumnLayout(len(base))), np.zeros(len(base)))
    found = dict(zip(names, told.chi, strict=True))
    assert all(0.0 <= found[name] < 1e-4 for name in ("Fv2", "Fvm3", "Fcm3"))


@pytest.mark.parametrize(
    ("moments", "mass", "lifted"),
    [
        ((2e-3, 1.0, 1.0), 1.0, False),
        ((0.5e-3, 1.0, 1.0), 1.0, True),
        ((-0.1, 1.0, 1.0), 1.0, True),
        ((0.3, 0.4, 0.5), 2e-3, False),
    ],
)
def test_a_body_is_lifted_where_a_second_moment_is_no_body_s(moments, mass, lifted):
    """Moments about the centre, far from the origin: those below that of the ball become it, larger ones stay."""
    c = np.array([3.0, 0.0, 4.0])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    chi = true_parameters(ROBOT, 1)
    chi[link_slice(1)] = body(turn, mass, moments, c)
    found = consistency.make_consistent(ROBOT, chi)
    assert np.array_equal(found, chi) != lifted
    if lifted:
        P = pseudo_inertia(found[link_slice(1)])
        own = np.linalg.eigvalsh(P[:3, :3] - mass * np.outer(c, c))
        np.testing.assert_allclose(own, [5.0 * mass] * 3, rtol=1e-9)  # |c|^2 / 5, above all of these
        small = chi.copy()
        small[link_slice(1)] = body(turn, mass, (moments[0], 7.0, 1.0), c)
        P = pseudo_inertia(consistency.make_consistent(ROBOT, small)[link_slice(1)])
        own = np.linalg.eigvalsh(P[:3, :3] - mass * np.outer(c, c))
        np.testing.assert_allclose(own, np.array([5.0, 5.0, 7.0]) * mass, rtol=1e-9)


def test_the_longest_link_has_a_distance_along_or_across_its_axis():
    def robot(*pairs):
        return SimpleNamespace(joints=[SimpleNamespace(d=d, r=r) for d, r in pairs])

    assert consistency.longest_link(robot((0.3, 0.0), (-0.7, 0.1))) == 0.7
    assert consistency.longest_link(robot((0.3, -0.9), (0.7, 0.1))) == 0.9
    assert consistency.longest_link(robot((0.0, 0.0))) == 1.0


def test_tolerances_of_the_table():
    """Links whose smallest moment at the centre is between the tolerances: each is counted from its own on."""
    chi = true_parameters(ROBOT, 1)
    counts = []
    for smallest in (1e-3, 0.0, -0.009, -0.011, -0.021, -0.039, -0.041):
        links = links_of(ROBOT, chi.copy())
        bad = np.array([smallest, 0, 0, 5.0, 0, 6.0, 0, 0, 0, 1.0])
        table = consistency.table(ROBOT, np.concatenate((chi[:28], bad, chi[38:])))
        assert table["full"] == 2 and len(links) == 3
        counts.append([table[key] for key in ("0", "-0.01", "-0.02", "-0.04")])
    assert counts == [
        [3, 3, 3, 3], [2, 3, 3, 3], [2, 3, 3, 3], [2, 2, 3, 3], [2, 2, 2, 3], [2, 2, 2, 3], [2, 2, 2, 2]
    ]  # fmt: skip


def test_pivots_of_an_indefinite_matrix_go_on_below_zero():
    J = np.array([[-2.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 1.0]])
    pivots = consistency.cholesky_pivots(J)
    minors = [np.linalg.det(J[:k, :k]) for k in (1, 2, 3)]
    np.testing.assert_allclose(pivots, [minors[0], minors[1] / minors[0], minors[2] / minors[1]])
    later = consistency.cholesky_pivots(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 2.0], [0.0, 2.0, 1.0]]))
    assert later[0] == 1.0 and later[1] == 0.0 and later[2] == -np.inf
    chi = true_parameters(ROBOT, 1)
    chi[link_slice(2)] = [0.01, 0.02, 0.0, 0.01, 0.0, 0.01, 0, 0, 0, 1.0]  # eigenvalue -0.01, pivot -0.03
    assert [consistency.consistent_links(ROBOT, chi, -0.02, by=by)[2] for by in ("eigenvalues", "pivots")] == [
        True,
        False,
    ]


@pytest.mark.parametrize("upright", [True, False])
def test_base_parameters_are_possible_where_no_motion_has_negative_energy(upright):
    value = BASE.values(ROBOT, CHI)
    if not upright:
        value = value.copy()
        value[0] = -value[0]
    assert BASE.leaders[0] == "ZZ1" and has_positive_inertia(ROBOT, BASE, value) == upright


# --- essential parameters


def test_the_elimination_has_the_limits_of_its_papers():
    """99 % of chance, and parameters known to 10 % are not asked."""
    problem, found = fitted(0.25)
    told = essential(problem.information, found, EssentialThresholds(folds=0))
    R = weighted_triangle(problem.information, 1.0 / found.sigma).R
    W = R[:, :-1]
    naive = np.diag(np.linalg.inv(W.T @ W))
    inflation = max(1.0, np.median(np.diag(found.covariance) / naive))
    free = max(1500 / inflation - len(BASE), len(problem.information.blocks) - 1)
    assert told.steps[0].limit == pytest.approx(scipy.stats.f.ppf(0.99, 1, free))
    estimate = told.estimate
    relative = estimate.std / np.maximum(np.abs(estimate.value), 1e-300)
    refused = {step.parameter for step in told.steps if not step.dropped}
    assert all(relative[k] <= 0.1 for k in told.kept if k not in refused)
    assert min(step.relative_std for step in told.steps) > 0.1
    asked = [
        step.relative_std
        for step in essential(problem.information, found, EssentialThresholds(folds=0, confidence=1.0)).steps
    ]
    assert any(0.1 < x < 0.2 for x in asked), "the case tells 10 % from 20 %"


def test_the_estimate_of_the_essential_parameters_is_a_fit_of_its_own():
    problem, found = fitted(0.1, delay=True)
    information = problem.information
    told = essential(information, replace(found, method=Method.OLS), EssentialThresholds(folds=0))
    estimate, weights = told.estimate, 1.0 / found.sigma
    left = [k for k in range(len(BASE)) if k not in told.kept]
    assert left and estimate.method is Method.OLS
    columns = [*told.kept, len(BASE)] if found.identified[-1] else list(told.kept)
    R = weighted_triangle(information, weights).R
    value = np.linalg.lstsq(R[:, columns], R[:, -1], rcond=None)[0]
    np.testing.assert_allclose(estimate.value[columns], value, rtol=1e-7)
    covariance, dof = jackknife(
        block_moments(restrict(information, columns), value, weights), np.ones(len(columns), dtype=bool)
    )
    np.testing.assert_allclose(estimate.covariance[np.ix_(columns, columns)], covariance, rtol=1e-6)
    assert estimate.dof == dof and estimate.rank == len(columns)
    np.testing.assert_allclose(estimate.sigma, error_levels(information, estimate.value, weights))
    assert not np.allclose(estimate.sigma, found.sigma, rtol=1e-6)
    scaled = R[:, columns] / np.linalg.norm(R[:, columns], axis=0)
    s = np.linalg.svd(scaled, compute_uv=False)
    assert estimate.cond == pytest.approx(s[0] / s[-1])


def test_significance_is_of_the_rows_kept_in_all_chunks():
    rng = np.random.default_rng(0)
    chunks = []
    for k in range(3):
        W, tau = rng.normal(size=(4, 2, 30)), rng.normal(size=(2, 30))
        keep = rng.uniform(size=(2, 30)) > 0.3
        W[:, ~keep] *= 100.0
        tau[~keep] *= 100.0
        chunks.append(Rows(np.arange(30.0) + k, W, tau * (5.0 if k == 1 else 1.0), keep))
    largest, torque = largest_rows(iter(chunks))
    for j in range(2):
        every = np.concatenate([one.tau[j, one.keep[j]] for one in chunks])
        assert torque[j] == np.abs(every).max()
        for b in range(4):
            column = np.concatenate([one.W[b, j, one.keep[j]] for one in chunks])
            assert largest[b, j] == np.abs(column).max()
    value = np.array([1.0, -2.0, 0.5, 0.0])
    wanted = np.max(largest * np.abs(value)[:, None] / torque, axis=1)
    np.testing.assert_allclose(share_of_largest(largest, torque, value), wanted)
    assert largest_rows([]) is None


# --- where priors come from


def test_a_sister_of_another_kind_is_refused_and_terms_are_those_of_its_shapes():
    problem, found = fitted()
    b = len(BASE)
    terms = (
        FrictionTerm(1, FrictionKind.STRIBECK, speed=0.2),
        FrictionTerm(1, FrictionKind.STRIBECK, speed=0.4),
        FrictionTerm(1, FrictionKind.STRIBECK, speed=0.4, of_shape=True),
        FrictionTerm(2, FrictionKind.CUBIC),
        FrictionTerm(2, FrictionKind.POWER, exponent=2.2),
        FrictionTerm(3, FrictionKind.POWER, exponent=1.5),
        FrictionTerm(3, FrictionKind.CUBIC),
    )
    layout = ColumnLayout(b, 0, 0, len(terms))
    law = (
        FrictionTerm(1, FrictionKind.STRIBECK, 0.7, speed=0.4),
        FrictionTerm(2, FrictionKind.CUBIC, 0.05),
        FrictionTerm(2, FrictionKind.POWER, 0.3, exponent=1.5),  # another force than that with 2.2
        FrictionTerm(3, FrictionKind.POWER, 0.4, exponent=1.5),
    )
    problem = replace(problem, information=replace(problem.information, layout=layout), terms=terms)
    model = SimpleNamespace(
        robot=replace(problem.robot, friction=law),
        names=BASE.names,
        std=np.ones(b),
        value=np.arange(b) + 1.0,
        covariance=np.eye(b),
    )
    told = prior_sources.model_prior(problem, model, "sister.yaml")
    np.testing.assert_array_equal(told.mean, [*(np.arange(b) + 1.0), 0.0, 0.7, 0.0, 0.05, 0.0, 0.4, 0.0])
    np.testing.assert_allclose(told.information[:b, :b], np.eye(b))
    other = SimpleNamespace(**{**vars(model), "robot": load_robot("demo6")})
    with pytest.raises(InputError, match=r"sister\.yaml"):
        prior_sources.model_prior(problem, other, "sister.yaml")
    assert found is not None


def test_bodies_of_no_description_are_a_prior_only_where_they_may_be_guessed():
    problem, _ = fitted()
    bare = replace(problem, robot=replace(ROBOT, parameters={}))
    with pytest.raises(InputError, match="no masses"):
        prior_sources.described_prior(bare)
    told = prior_sources.described_prior(bare, guess=True)
    assert told.source == prior_sources.GUESSED
    chi = prior_sources.bodies_to_start_from(bare.robot, bare.information)
    np.testing.assert_allclose(told.mean, M @ chi)
    assert prior_sources.described_prior(problem, guess=True).source == prior_sources.DESCRIBED
    described = prior_sources.bodies_to_start_from(problem.robot, problem.information)
    np.testing.assert_array_equal(described, consistency.make_consistent(problem.robot, standard_vector(problem.robot)))
    assert all(consistency.fully_consistent_links(problem.robot, described))


# --- bands


def test_a_column_counts_as_felt_beside_the_largest():
    spread = TorqueScatter(np.zeros((2, 2)), np.array([True, False]), np.zeros(1))
    for small, felt in ((1e-8, True), (1e-10, False)):
        W = np.array([[[1.0, 1.0]], [[0.0, small]]])
        assert np.isinf(spread.std(W)).tolist() == [[False, felt]]
    two = TorqueScatter(np.zeros((3, 3)), np.array([True, False, False]), np.zeros(1))
    W = np.array([[[1.0, 1.0, 1.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]])
    assert np.isinf(two.std(W)).tolist() == [[False, True, True]], "any of them"
