"""Essential, standard and consistent parameters with numbers: each set against a plain way to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError, ProgrammeError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators.column_layout import ColumnLayout, Triangle
from ros2_dynid.identification.estimators.covariance import block_moments, jackknife
from ros2_dynid.identification.estimators.fit import Problem, inform
from ros2_dynid.identification.estimators.information import coarser, restrict
from ros2_dynid.identification.estimators.least_squares import error_levels, weighted_triangle, wls
from ros2_dynid.identification.estimators.prior import Drawn, Prior, Weighing, joined
from ros2_dynid.identification.judgement import possible
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.physical import consistency, parameter_sets, prior_sources, standard
from ros2_dynid.identification.physical.consistency import Consistent
from ros2_dynid.identification.physical.essential import (
    _left_out_growth,
    essential,
    largest_rows,
    share_of_largest,
    significance,
)
from ros2_dynid.identification.physical_parameters import physical_parameters
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.torque_std import TorqueScatter
from ros2_dynid.identification.validation import torque_errors
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import link_slice, standard_names, standard_vector
from ros2_dynid.model.pseudo_inertia import links_of, pseudo_inertia
from ros2_dynid.model.robot import Coupling, Limits
from ros2_dynid.sim.truth import true_parameters

clarabel = pytest.importorskip("clarabel")
essential_module = import_module("ros2_dynid.identification.physical.essential")  # a function has the same name
REAL_SOLVER = clarabel.DefaultSolver
ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
NAMES = standard_names(ROBOT)
CHI = true_parameters(ROBOT, 4)
M = standard.full_map(ROBOT, BASE)
DRIVES = np.array([name[:2] in ("Ia", "Fv", "Fc", "of") for name in NAMES])


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
    information = inform(robot, BASE, prepared, delay=delay)
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
    told = physical_parameters(problem, found, None, IdentifyOptions(standard=True, distance=distance))
    chi = np.array([told.standard[name] for name in NAMES])
    reference = consistency.made_consistent(problem.robot, standard_vector(problem.robot))
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
    selection = essential(coarser(problem.information, 10), found, folds=0)
    kept = list(selection.kept)
    assert 3 < len(kept) < len(BASE) - 1
    options = IdentifyOptions(standard=True, distance=distance)
    told = physical_parameters(problem, selection.estimate, selection, options)
    chi = np.array([told.standard[name] for name in NAMES])
    reference = consistency.made_consistent(robot, standard_vector(robot))
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


def test_consistent_parameters_have_all_that_is_told_of_them(monkeypatch):
    """They are asked for with the prior that the estimate was drawn towards, and keep its delay."""
    problem, found = fitted(delay=True)
    found = replace(found, value=np.append(found.base, 0.004))
    asked = []
    chi = consistency.made_consistent(ROBOT, true_parameters(ROBOT, 7))
    imposed = Consistent(chi, M @ chi, 0.07)
    module = "ros2_dynid.identification.physical_parameters.imposed_on"
    monkeypatch.setattr(module, lambda *given: asked.append(given) or imposed)
    told = physical_parameters(problem, found, None, IdentifyOptions(consistent=True), "drawn")
    assert asked == [(problem, problem.information, found, "drawn")]
    np.testing.assert_array_equal(told.value, [*(M @ chi), 0.004])
    assert told.consistent == dict(zip(NAMES, chi.tolist(), strict=True)) and told.standard is None
    counts = told.consistency
    assert counts.imposed == consistency.table(problem.robot, chi) and counts.loss == 0.07
    assert counts.fit == torque_errors(ROBOT.active_names, problem.information, told.value)
    smallest = consistency.smallest_joint_inertia(problem.robot, chi)
    assert counts.smallest_joint_inertia_imposed == smallest and counts.smallest_joint_inertia is None
    assert counts.a_priori == consistency.table(problem.robot, standard_vector(problem.robot))


def ridge(T, value, reference, nearness):
    """Return the minimum without constraints: the fit, and `nearness` of the distance in units of the links."""
    S = standard.scales(ROBOT, reference)
    tau = T.tau_of_base(value)
    size = np.linalg.norm(tau)
    A, left = T.base @ (M * S) / size, (tau - T.base @ (M @ reference)) / size
    best = T.base @ np.linalg.lstsq(T.base, tau, rcond=None)[0]
    error = max(np.linalg.norm(tau - best) / size, 1e-5)
    x = np.linalg.solve(A.T @ A + nearness * error**2 * np.eye(len(S)), A.T @ left)
    return reference + S * x, best, tau


def fat(mass, reach):
    """Return drives of the truth and links that are balls of 0.3 m beside their joints."""
    chi = CHI.copy()
    for j in range(3):
        c = reach * np.array([1.0, -0.5, 0.3]) * (1.0 + j)
        chi[link_slice(j)] = body(np.eye(3), mass / (1.0 + j), (0.09, 0.1, 0.11), c)
    return chi


@pytest.mark.parametrize("noise", [0.3, 0.8])
def test_bodies_that_nothing_constrains_are_a_fit_with_a_trace_of_the_distance(noise):
    """Drives far above zero and a reference near the truth: the programme has a closed form."""
    problem, _ = fitted(delay=True)
    T = weighted_triangle(problem.information, 1.0 / np.array([1.0, 2.0, 0.5]))
    W = np.column_stack((T.base, np.linspace(0.0, 5.0, len(T.base))))
    tau = W @ np.append(M @ fat(2.0, 0.1), 3.0)
    error = np.random.default_rng(0).normal(size=(40, 1)) * noise * np.linalg.norm(tau) / np.sqrt(40.0)
    rows = np.vstack((np.column_stack((W, tau)), np.column_stack((np.zeros((40, W.shape[1])), error))))
    T, value = Triangle(rows, T.layout), np.append(np.zeros(len(BASE)), 3.0)
    reference = fat(2.1, 0.11)
    wanted, best, left = ridge(T, value, reference, 1e-4)
    units = consistency._link_units(ROBOT, reference)
    for (mass, length), link in zip(units, links_of(ROBOT, wanted), strict=True):
        D = np.diag([1.0 / length] * 3 + [1.0])
        assert np.linalg.eigvalsh(D @ pseudo_inertia(link) @ D / mass)[0] > 1e-3, "no constraint holds it"
    told = consistency.impose(ROBOT, BASE, T, value, reference)
    S = standard.scales(ROBOT, reference)
    size = np.abs((wanted - reference) / S).max()
    np.testing.assert_allclose((told.chi - reference) / S, (wanted - reference) / S, atol=1e-3 * size)
    for other in (2e-4, 0.5e-4):
        far = ridge(T, value, reference, other)[0]
        assert np.abs((far - wanted) / S).max() > 1.5e-3 * size, "the case tells them apart"
    np.testing.assert_allclose(told.value, M @ told.chi)
    loss = np.linalg.norm(left - T.base @ told.value) / np.linalg.norm(left - best) - 1.0
    assert told.loss == pytest.approx(loss, abs=1e-9)


def test_bodies_at_the_limit_keep_a_trace_of_definiteness_and_friction_brakes_beside_terms():
    problem, found = fitted(0.3)
    T = weighted_triangle(problem.information, 1.0 / found.sigma)
    reference = consistency.made_consistent(problem.robot, standard_vector(problem.robot))
    wide = ColumnLayout(len(BASE), n_friction=1)
    rows = np.zeros((2, wide.size))  # Fv1 >= 3 times the term, and Fc2 whatever the term
    rows[0, [BASE.leaders.index("Fv1"), -1]] = 1.0, -3.0
    rows[1, BASE.leaders.index("Fc2")] = 1.0
    with_term = Triangle(np.column_stack((T.base, np.zeros(len(T.R)), T.tau)), wide)
    told = consistency.impose(ROBOT, BASE, with_term, np.append(found.base, 10.0), reference, rows)
    smallest = []
    for (mass, length), link in zip(consistency._link_units(ROBOT, reference), links_of(ROBOT, told.chi), strict=True):
        D = np.diag([1.0 / length] * 3 + [1.0])
        smallest.append(np.linalg.eigvalsh(D @ pseudo_inertia(link) @ D / mass)[0])
    assert 0.5e-6 < min(smallest) < 2e-6
    chi = dict(zip(NAMES, told.chi, strict=True))
    assert chi["Fv1"] == pytest.approx(30.0, rel=1e-4)
    assert all(chi[f"{kind}{j}"] >= 0.0 for kind in ("Ia", "Fv", "Fc") for j in (1, 2, 3))
    low = found.base.copy()
    low[BASE.leaders.index("Fc2")] = -3.0
    pushing = Triangle(np.column_stack((T.base, T.base @ low)), T.layout)
    zero = consistency.impose(ROBOT, BASE, pushing, low, reference)
    assert 0.0 <= zero.chi[NAMES.index("Fc2")] < 1e-4


def test_offsets_and_forces_may_have_any_sign():
    problem, found = fitted()
    chi = np.where([name.startswith("off") for name in NAMES], -7.0, CHI)
    T = weighted_triangle(problem.information, 1.0 / found.sigma)
    rows = np.column_stack((T.base, T.base @ (M @ chi)))
    told = consistency.impose(ROBOT, BASE, Triangle(rows, T.layout), M @ chi, consistency.made_consistent(ROBOT, CHI))
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
    told = consistency.impose(robot, base, Triangle(rows, ColumnLayout(len(base))), np.zeros(len(base)), reference)
    found = dict(zip(names, told.chi, strict=True))
    assert all(0.0 <= found[name] < 1e-4 for name in ("Fv2", "Fvm3", "Fcm3"))


class Solver:
    """Stands for the solver of the programme: solves it, and says what it is told to say about that."""

    def __init__(self, said):
        self.said, self.programmes = list(said), []

    def __call__(self, P, q, *rest):
        self.programmes.append(P.toarray())
        status, solved = self.said.pop(0), REAL_SOLVER(P, q, *rest)

        def solve():
            return SimpleNamespace(status=status, x=solved.solve().x)

        return SimpleNamespace(solve=solve)


@pytest.mark.parametrize("said", [["Solved"], ["AlmostSolved"], ["NumericalError", "Solved"], ["MaxIterations"] * 2])
def test_a_programme_that_is_not_solved_is_drawn_more_to_the_reference_or_told(monkeypatch, said):
    problem, found = fitted(0.3)
    T = weighted_triangle(problem.information, 1.0 / found.sigma)
    reference = fat(2.1, 0.11)
    solver = Solver(said)
    monkeypatch.setattr(clarabel, "DefaultSolver", solver)
    if said[-1] == "MaxIterations":
        with pytest.raises(ProgrammeError, match="ended with MaxIterations"):
            consistency.impose(ROBOT, BASE, T, found.value, reference)
    else:
        consistency.impose(ROBOT, BASE, T, found.value, reference)
    assert len(solver.programmes) == len(said) and not solver.said
    left = T.tau - T.base @ np.linalg.lstsq(T.base, T.tau, rcond=None)[0]
    error = np.linalg.norm(left) / np.linalg.norm(T.tau)
    for one, other in pairwise(solver.programmes):
        np.testing.assert_allclose(other - one, (1e-2 - 1e-4) * error**2 * np.eye(len(NAMES)), atol=1e-9)


@pytest.mark.parametrize(("said", "good"), [("Solved", True), ("AlmostSolved", True), ("PrimalInfeasible", False)])
def test_a_body_that_no_programme_finds_is_told(monkeypatch, said, good):
    body = links_of(ROBOT, true_parameters(ROBOT, 1))[2].copy()
    body[5] = -0.5 * abs(body[5])
    monkeypatch.setattr(clarabel, "DefaultSolver", Solver([said]))
    if good:
        found = consistency.closest_body(body, np.diag(0.01 * body**2 + 1e-6))
        P = pseudo_inertia(found)
        assert np.linalg.eigvalsh(P)[0] > 0.0
    else:
        with pytest.raises(ProgrammeError, match="ended with PrimalInfeasible"):
            consistency.closest_body(body, np.eye(10))


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
    found = consistency.made_consistent(ROBOT, chi)
    assert np.array_equal(found, chi) != lifted
    if lifted:
        P = pseudo_inertia(found[link_slice(1)])
        own = np.linalg.eigvalsh(P[:3, :3] - mass * np.outer(c, c))
        np.testing.assert_allclose(own, [5.0 * mass] * 3, rtol=1e-9)  # |c|^2 / 5, above all of these
        small = chi.copy()
        small[link_slice(1)] = body(turn, mass, (moments[0], 7.0, 1.0), c)
        P = pseudo_inertia(consistency.made_consistent(ROBOT, small)[link_slice(1)])
        own = np.linalg.eigvalsh(P[:3, :3] - mass * np.outer(c, c))
        np.testing.assert_allclose(own, np.array([5.0, 5.0, 7.0]) * mass, rtol=1e-9)


def test_the_longest_link_has_a_distance_along_or_across_its_axis():
    def robot(*pairs):
        return SimpleNamespace(joints=[SimpleNamespace(d=d, r=r) for d, r in pairs])

    assert consistency.longest(robot((0.3, 0.0), (-0.7, 0.1))) == 0.7
    assert consistency.longest(robot((0.3, -0.9), (0.7, 0.1))) == 0.9
    assert consistency.longest(robot((0.0, 0.0))) == 1.0


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


def test_positions_are_drawn_between_the_limits_of_each_joint(monkeypatch):
    """Beyond a half turn where the limits are; a half turn where there is none."""
    limits = (Limits(3.5, 4.5), Limits(-np.inf, 1.0), Limits(-5.0, np.inf))
    robot = replace(ROBOT, joints=tuple(replace(j, limits=x) for j, x in zip(ROBOT.joints, limits, strict=True)))
    seen = []
    monkeypatch.setattr(consistency, "inertia_matrix", lambda robot, chi, q: seen.append(q) or np.zeros((len(q), 3, 3)))
    assert consistency.smallest_joint_inertia(robot, CHI, count=900) == 0.0
    (q,) = seen
    assert q.shape == (900, 3)
    for k, (lower, upper) in enumerate(((3.5, 4.5), (-np.pi, 1.0), (-5.0, np.pi))):
        assert lower <= q[:, k].min() < lower + 0.1 and upper - 0.1 < q[:, k].max() <= upper
    consistency.smallest_joint_inertia(robot, CHI)
    assert len(seen[1]) == 500


@pytest.mark.parametrize("upright", [True, False])
def test_base_parameters_are_possible_where_no_motion_has_negative_energy(upright):
    value = BASE.values(ROBOT, CHI)
    if not upright:
        value = value.copy()
        value[0] = -value[0]
    assert BASE.leaders[0] == "ZZ1" and possible(ROBOT, BASE, value) == upright


# --- essential parameters


def test_the_elimination_has_the_limits_of_its_papers():
    """99 % of chance, and parameters known to 10 % are not asked."""
    problem, found = fitted(0.25)
    told = essential(problem.information, found, folds=0)
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
    asked = [step.relative_std for step in essential(problem.information, found, folds=0, confidence=1.0).steps]
    assert any(0.1 < x < 0.2 for x in asked), "the case tells 10 % from 20 %"


def test_the_estimate_of_the_essential_parameters_is_a_fit_of_its_own():
    problem, found = fitted(0.1, delay=True)
    information = problem.information
    told = essential(information, replace(found, method=Method.OLS), folds=0)
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


def test_motion_that_repeats_is_left_out_by_parts_of_its_period():
    time, phase = (coarser(fitted(noise)[0].information, 6) for noise in (0.25, 0.2))
    both, weights = replace(time, phases=phase.blocks), 1.0 / fitted(0.25)[1].sigma

    def growth(information, folds=3):
        return _left_out_growth(information, weights, 0.4, 0.99, folds)

    wanted = growth(phase)
    assert len(wanted) > 0 and not np.allclose(wanted[0], growth(time)[0])
    np.testing.assert_allclose(growth(both), wanted)
    assert growth(time, 0) == growth(time.take([0])) == (), "one block cannot be left out"


@pytest.mark.parametrize(("scatter", "allowed"), [(0.002, 0.01), (0.03, 0.03), (0.09, 0.09), (0.3, 0.1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_left_out_may_grow_by_their_scatter_within_bounds(monkeypatch, scatter, allowed, weighted):
    """Four folds of error 10 that grow by a mean and a zigzag, as torques or in units of the joints' errors."""
    swing = 10.0 * np.sqrt(3.0) * scatter * np.array([1.0, -1.0, 1.0, -1.0])
    grown = np.array([12.0 + swing, np.full(4, 10.0)])  # by 20 %, and not at all
    first, last = grown[::-1] if weighted else grown
    paths = [[(10.0, 10.0), pair] for pair in zip(first, last, strict=True)]
    paths[0].append((30.0, 30.0))  # the other folds drop no more and stay as they are
    told = iter(paths)
    monkeypatch.setattr(essential_module, "_left_out_errors", lambda *given: next(told))
    problem, found = fitted()
    growth = _left_out_growth(problem.information, 1.0 / found.sigma, 0.1, 0.99, 4)
    assert growth[0] == (pytest.approx(0.2), pytest.approx(allowed)), "of the two the one nearer to its limit"
    change = np.array([20.0, *(2.0 + swing[1:])])
    assert growth[1][0] == pytest.approx(change.sum() / 40.0) and growth[1][1] == 0.1 and len(growth) == 2


@pytest.mark.parametrize("weighted", [False, True])
def test_of_two_errors_the_one_nearer_to_its_limit_decides(monkeypatch, weighted):
    """8 % that scatter by more may be chance, 5 % that every fold shows are not."""
    loose = 10.8 + 2.0 * np.array([1.0, -1.0, 1.0, -1.0])
    pair = (np.full(4, 10.5), loose) if weighted else (loose, np.full(4, 10.5))
    told = iter([[(10.0, 10.0), one] for one in zip(*pair, strict=True)])
    monkeypatch.setattr(essential_module, "_left_out_errors", lambda *given: next(told))
    problem, found = fitted()
    (growth,) = _left_out_growth(problem.information, 1.0 / found.sigma, 0.1, 0.99, 4)
    assert growth == (pytest.approx(0.05), pytest.approx(0.01))


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
    np.testing.assert_allclose(significance(iter(chunks), value), wanted)
    np.testing.assert_allclose(share_of_largest(largest, torque, value), wanted)
    assert largest_rows([]) is None and not significance([], value).any()


# --- sets


def test_sets_drop_no_more_than_they_are_told_and_start_from_the_one_before(monkeypatch):
    problem, found = fitted(0.25)
    problem = replace(problem, information=coarser(problem.information, 6))
    asked = []

    def imposed(problem, information, start, drawn, chosen):
        asked.append((information, start, drawn, chosen))
        return Consistent(CHI, np.arange(float(len(BASE))), 0.0)

    monkeypatch.setattr(parameter_sets, "imposed_on", imposed)
    calls = []

    def fit(chosen):
        calls.append(chosen)
        return wls(problem.information if chosen is None else problem.information.take(chosen))

    def dropped(fits, chosen):
        return int(np.count_nonzero(fits["essential"](chosen).value == 0.0))

    many = essential(problem.information, found)
    assert sum(step.dropped for step in many.steps) >= 2
    fits = parameter_sets.set_fits(problem, fit, with_essential=True, with_consistent=True, dropped=1)
    some = list(range(5))
    assert dropped(fits, None) == dropped(fits, some) == 1
    strict = parameter_sets.set_fits(
        problem, fit, with_essential=True, with_consistent=False, dropped=99, essential_std=1e6
    )
    assert dropped(strict, None) == 0 and list(strict) == ["base", "essential"]
    np.testing.assert_array_equal(fits["consistent"](some).value, np.arange(float(len(BASE))))
    information, start, drawn, chosen = asked.pop()
    assert start is fits["essential"](some) and drawn is None and chosen is some
    np.testing.assert_array_equal(information.rows, problem.information.take(some).rows)
    plain = parameter_sets.set_fits(problem, fit, with_essential=False, with_consistent=True)
    plain["consistent"](None)
    information, start, drawn, chosen = asked.pop()
    assert information is problem.information and start is plain["base"](None) and chosen is None
    assert list(plain) == ["base", "consistent"]


def test_sets_of_a_drawn_estimate_are_drawn_in_every_fold(monkeypatch):
    problem, _ = fitted()
    asked, draws = [], []
    monkeypatch.setattr(
        parameter_sets,
        "imposed_on",
        lambda problem, information, start, drawn, chosen: (
            asked.append((start, drawn)) or Consistent(CHI, np.zeros(len(BASE)), 0.0)
        ),
    )

    def draw(chosen):
        draws.append(chosen)
        estimate = wls(problem.information if chosen is None else problem.information.take(chosen))
        prior = Prior(estimate.value, np.eye(len(BASE)), "x")
        return Drawn(estimate, prior, Weighing(0.0, 0.0, 0.0), np.zeros(len(BASE)))

    fits = parameter_sets.set_fits(problem, None, with_essential=False, with_consistent=True, draw=draw)
    first, second = list(range(10)), list(range(10, 20))
    for chosen in (first, second, None):
        estimate = fits["base"](chosen)
        fits["consistent"](chosen)
        start, drawn = asked.pop()
        assert start is estimate is drawn.estimate
    assert draws == [first, second, None], "each once"


def test_bodies_are_drawn_by_the_weight_that_was_found_and_floored_by_friction(monkeypatch):
    problem, found = fitted()
    asked = []
    monkeypatch.setattr(parameter_sets, "impose", lambda *given: asked.append(given))
    prior = Prior(np.arange(float(len(BASE))), np.diag(np.linspace(1.0, 2.0, len(BASE))), "x")
    T = weighted_triangle(problem.information, 1.0 / found.sigma)
    reference = prior_sources.bodies_to_start_from(problem.robot, problem.information)
    half = problem.information.take(range(10))
    for weight in (0.0, 0.5, 3.0):
        drawn = Drawn(found, prior, Weighing(weight, 0.1, 0.1), np.ones(len(BASE)))
        parameter_sets.imposed_on(problem, problem.information, found, drawn)
        robot, base, triangle, value, start, rows = asked.pop()
        wanted = joined(T, prior, weight).R if weight else T.R
        np.testing.assert_allclose(triangle.R.T @ triangle.R, wanted.T @ wanted, rtol=1e-9)
        assert (robot, base) == (problem.robot, BASE) and rows is problem.friction_rows and value is found.value
        np.testing.assert_array_equal(start, reference)
    parameter_sets.imposed_on(problem, half, found)
    triangle = asked.pop()[2]
    own = weighted_triangle(half, 1.0 / found.sigma).R
    np.testing.assert_allclose(triangle.R.T @ triangle.R, own.T @ own, rtol=1e-9)
    for method, about in ((Method.OLS, False), (Method.RECURSIVE, False), (Method.IV, True), (Method.TLS, True)):
        parameter_sets.imposed_on(problem, problem.information, replace(found, method=method, value=found.value + 1.0))
        triangle = asked.pop()[2]
        best = np.linalg.lstsq(triangle.W, triangle.tau, rcond=None)[0]
        np.testing.assert_allclose(best, found.value + (1.0 if about else 0.0), rtol=1e-5, atol=1e-6)
        if about:
            error = np.linalg.norm(T.tau - T.W @ (found.value + 1.0))
            assert np.linalg.norm(triangle.tau - triangle.W @ best) == pytest.approx(error)


@pytest.mark.parametrize("chosen", [None, [0, 1, 2, 5]])
def test_bodies_of_two_sensors_are_those_of_the_rows_of_both(monkeypatch, chosen):
    """In the base parameters of the first one, which does not feel the drives of all joints."""
    problem, found = fitted()
    other, both = fitted(0.1)
    joints = (replace(ROBOT.joints[0], felt=("Fc",)), *ROBOT.joints[1:])
    robot = replace(problem.robot, joints=joints)
    asked, wanted = [], []

    def estimate(given=None):
        wanted.append(given)
        return both

    second = SimpleNamespace(base=BASE, information=other.information, estimate=estimate, back=np.eye(len(BASE)))
    problem = replace(problem, robot=robot, second=second)
    monkeypatch.setattr(parameter_sets, "impose", lambda *given: asked.append(given) or Consistent(CHI, M @ CHI, 0.03))
    told = parameter_sets.imposed_on(problem, problem.information, found, chosen=chosen)
    ((given, base, triangle, value, start, rows),) = asked
    assert (given, base, wanted) == (robot, BASE, [chosen]) and value is both.value
    np.testing.assert_array_equal(rows, problem.friction_rows)
    part = other.information if chosen is None else other.information.take(chosen)
    own = weighted_triangle(part, 1.0 / both.sigma).R
    np.testing.assert_allclose(triangle.R.T @ triangle.R, own.T @ own, rtol=1e-9)
    np.testing.assert_array_equal(start, prior_sources.bodies_to_start_from(robot, problem.information))
    chi = np.where([name in ("Ia1", "Fv1") for name in NAMES], 0.0, CHI)
    np.testing.assert_array_equal(told.chi, chi)
    np.testing.assert_allclose(told.value, BASE.values(robot, chi))
    assert told.loss == 0.03


def test_guessed_bodies_are_of_all_rows_whatever_rows_are_fitted(monkeypatch):
    problem, found = fitted()
    bare = replace(problem, robot=replace(ROBOT, parameters={}))
    asked = []
    monkeypatch.setattr(parameter_sets, "impose", lambda *given: asked.append(given[4]))
    for information in (bare.information, bare.information.take(range(5))):
        parameter_sets.imposed_on(bare, information, found)
    np.testing.assert_array_equal(asked[0], asked[1])


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


def test_a_covariance_is_inverted_as_far_as_its_digits_go():
    rng = np.random.default_rng(1)
    Q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    for smallest in (1e-6, 1e-8):
        C = Q * np.array([1.0, 0.5, 0.2, smallest]) @ Q.T
        np.testing.assert_allclose(prior_sources._inverse(C), np.linalg.inv(C), rtol=1e-5)
    scale = np.diag([1.0, 1e3, 1e-3, 1.0])
    good = scale @ (Q * np.array([1.0, 0.5, 0.2, 0.1]) @ Q.T) @ scale
    np.testing.assert_allclose(prior_sources._inverse(good), np.linalg.inv(good), rtol=1e-8)
    flat = Q * np.array([1.0, 1.0, 1.0, 0.0]) @ Q.T
    d = np.sqrt(np.diag(flat))
    largest = np.linalg.eigvalsh(flat / np.outer(d, d))[-1]
    held = np.linalg.eigvalsh(prior_sources._inverse(flat) * np.outer(d, d))[-1]
    assert held == pytest.approx(1e9 / largest, rel=1e-3)


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
    np.testing.assert_array_equal(described, consistency.made_consistent(problem.robot, standard_vector(problem.robot)))
    assert all(consistency.fully_consistent_links(problem.robot, described))


def test_terms_are_drawn_to_zero_by_the_torque_of_their_joint():
    """A term makes at most the torque measured, unless nobody feels its column; what is known already adds to that."""
    problem, _ = fitted()
    b = len(BASE)
    columns = tuple(np.append(own, b) if j == 1 else own for j, own in enumerate(problem.information.columns))
    rng = np.random.default_rng(0)
    extra = rng.normal(size=500)
    (p,) = problem.prepared
    wide = []
    for block in problem.information.blocks:
        wide.append(replace(block, R=tuple(
            np.insert(R, R.shape[1] - 1, extra[: len(R)], axis=1) if j == 1 else R for j, R in enumerate(block.R)
        )))  # fmt: skip
    layout = ColumnLayout(b, 0, 0, 2)
    information = replace(problem.information, blocks=tuple(wide), columns=columns, layout=layout)
    terms = (FrictionTerm(2, FrictionKind.CUBIC), FrictionTerm(3, FrictionKind.CUBIC))
    problem = replace(problem, information=information, terms=terms)
    base = Prior(np.zeros(b + 2), np.eye(b + 2), "x")
    told = prior_sources._with_drives(problem, base, {0: 0.5})
    column = np.concatenate([block.R[1][:, -2] for block in wide])
    scale = np.linalg.norm(p.tau[:, 1]) / np.linalg.norm(column)
    assert told.information[b, b] == pytest.approx(1.0 + scale**-2)
    assert told.information[b + 1, b + 1] == 1.0, "nobody feels it"
    assert told.information[0, 0] > 1.0 and told.information[1, 1] == 1.0
    np.testing.assert_array_equal(base.information, np.eye(b + 2))


# --- bands


def test_a_column_counts_as_felt_beside_the_largest():
    spread = TorqueScatter(np.zeros((2, 2)), np.array([True, False]), np.zeros(1))
    for small, felt in ((1e-8, True), (1e-10, False)):
        W = np.array([[[1.0, 1.0]], [[0.0, small]]])
        assert np.isinf(spread.std(W)).tolist() == [[False, felt]]
    two = TorqueScatter(np.zeros((3, 3)), np.array([True, False, False]), np.zeros(1))
    W = np.array([[[1.0, 1.0, 1.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]])
    assert np.isinf(two.std(W)).tolist() == [[False, True, True]], "any of them"
