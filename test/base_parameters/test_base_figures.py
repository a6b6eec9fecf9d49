# SPDX-License-Identifier: Apache-2.0

"""The figures inside the factorisations and the words about them, one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

from oracle import random_robot, screw
from ros2_dynid.base_parameters import base_parameters, closed_form
from ros2_dynid.base_parameters.closed_form import (
    RankMargin,
    close_span,
    identifiable_rows,
    placements,
    reaches,
    span,
    transfer_matrix,
)
from ros2_dynid.base_parameters.expressions import align, combination
from ros2_dynid.base_parameters.minimal_combinations import combination_matrix, minimal_combinations
from ros2_dynid.base_parameters.numeric import (
    EPS,
    Dependence,
    by_qr,
    by_svd,
    condition,
    equilibrium,
    independent_columns,
    typical_length,
)
from ros2_dynid.base_parameters.result import base_name
from ros2_dynid.base_parameters.symbols import Polynomial
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, Coupling, Joint, Passive, Robot

QUARTER = np.pi / 2


# --- factorisations


def test_the_gap_is_what_is_kept_over_what_is_dropped():
    found = Dependence([0], np.ones((1, 1)), 0.5, 1e-10, 1e-8)
    assert found.gap == pytest.approx(5e9) and np.isinf(Dependence([0], np.ones((1, 1)), 0.5, 0.0, 1e-8).gap)


def test_condition_and_scaling_of_special_matrices():
    assert condition(np.diag((4.0, 2.0, 0.5))) == pytest.approx(8.0) and condition(np.zeros((3, 0))) == 1.0
    assert np.isinf(condition(np.diag((1.0, 0.0))))
    W = np.array([[8.0, 0.0, 1e-13], [-2.0, 1e-3, 0.0], [1e-13, 0.0, 0.0]])
    assert equilibrium(W) == pytest.approx(8.0 / 1e-13) and equilibrium(np.zeros((2, 2))) == 1.0
    assert equilibrium(W[:, :2]) == pytest.approx(8000.0) and equilibrium(W[:, :2], 1e-16) == pytest.approx(8e13)


@pytest.mark.parametrize("seed", range(5))
def test_columns_one_by_one_are_those_of_a_plain_search(seed):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(30, 12))
    for k in (3, 6, 7, 11):
        W[:, k] = W[:, :k] @ (rng.normal(size=k) * (rng.random(k) < 0.6))
    W /= np.linalg.norm(W, axis=0) + 1e-300
    plain = []
    for k in range(12):
        if np.linalg.matrix_rank(W[:, [*plain, k]], tol=1e-8) > len(plain):
            plain.append(k)
    assert plain == independent_columns(W, 1e-8, len(plain))
    for factorise in (by_qr, by_svd):
        found = factorise(W)
        assert found.leaders == plain and found.tolerance == 30 * EPS and found.doubt is None
        np.testing.assert_allclose(W[:, plain] @ found.beta, W, atol=1e-12)
        np.testing.assert_allclose(found.beta[:, plain], np.eye(len(plain)), atol=1e-12)
        assert factorise(W, 1e-5).tolerance == 1e-5


def test_coefficients_above_ten_thousand_hide_no_dependence():
    """A column made of two that are almost parallel: what rounding leaves of it is not taken for a direction."""
    a, b, c = np.linalg.qr(np.random.default_rng(7).normal(size=(30, 3)))[0].T
    near = (a + 1e-5 * b) / np.linalg.norm(a + 1e-5 * b)
    W = np.column_stack((a, near, b, c))
    assert independent_columns(W, 1e-9, 3) == [0, 1, 3]
    dependence = by_qr(W, 1e-9)
    assert dependence.leaders == [0, 1, 3]
    np.testing.assert_allclose(W[:, dependence.leaders] @ dependence.beta, W, atol=1e-9)


def test_a_column_that_nearly_depends_is_left_out_by_the_tolerance():
    W = np.eye(4)
    W[:, 3] = (0.0, 0.0, 1.0, 1e-9)  # 1e-9 away from the third column
    for factorise in (by_qr, by_svd):
        found = factorise(np.vstack((W, W)), 1e-7)
        assert found.leaders == [0, 1, 2] and found.doubt is None
        np.testing.assert_allclose(found.beta[:, 3], [0.0, 0.0, 1.0], atol=1e-8)


# --- words


def test_factors_and_polynomials():
    for value, plain, latex in (
        (1.0, "+ M2", "+ M_{2}"), (-1.0, "- M2", "- M_{2}"), (0.2904, "+ 0.2904 M2", "+ 0.2904 M_{2}"),
        (-2.5e-12, "- 2.5e-12 M2", r"- 2.5 \cdot 10^{-12} M_{2}"), (1.0 + 1e-12, "+ M2", "+ M_{2}"),
    ):  # fmt: skip
        terms = {"M1": 1.0, "M2": value}
        assert combination(terms) in (f"M1 {plain}", "(M1 + M2)", "M1 + M2")
        assert combination(terms, latex=True).endswith(latex)
    ninth = {("D3", "D3"): 0.123456789, ("R3",): -1.0}
    for polynomial, text in (
        ({("D", "D"): 1.0}, "+ D^2"), ({("D", "R"): -2.0}, "- 2 D R"), ({(): 1.0}, "+ 1"),
        ({("D", "D"): -1.0, ("R", "R"): 1.0}, "+ (R^2 - D^2)"), ({("D",): -1.0, ("R",): -3.0}, "- (D + 3 R)"),
        ({(): 2.0, ("D",): 1.0, ("D", "D"): -1.0}, "+ (-D^2 + D + 2)"), (ninth, "+ (0.123456789 D3^2 - R3)"),
    ):  # fmt: skip
        assert combination({"ZZ1": 1.0, "M2": 1.0}, {"M2": Polynomial(polynomial)}) == f"ZZ1 {text} M2"
    latex = combination({"ZZR12": 1.0, "M2": 1.0}, {"M2": Polynomial(ninth)}, latex=True)
    assert latex == r"\mathit{ZZR}_{12} + (0.123456789 D_{3}^2 - R_{3}) M_{2}"
    assert combination({}) == "0" and combination({"M1": -1.0, "M2": 2.0}) == "-M1 + 2 M2"
    terms = {"ZZ1": 1.0, "M3": 0.5, "M2": 0.5, "Ia1": -1.0, "YY2": 1.0, "M4": 2.0}
    assert combination(terms) == "ZZ1 + YY2 + 2 M4 + 0.5 (M2 + M3) - Ia1"
    assert combination({"ZZ1": 1.0, "M2": -2.0}, {"M2": Polynomial({("D", "D"): -1.0})}) == "ZZ1 - D^2 M2"
    assert align(["a = b = c", "d = e"]) == "\\begin{align}\na &= b = c \\\\\nd &= e\n\\end{align}\n"
    assert combination({"ZZ1": 1.0, "M3": 0.3 + 1e-12, "M2": 0.3}) == "ZZ1 + 0.3 (M2 + M3)"
    assert combination({"ZZ1": 1.0, "M2": 0.123456789}) == "ZZ1 + 0.123456789 M2"
    assert base_name("ZZ12", True) == "ZZR12" and base_name("ZZ12", False) == "ZZ12"


# --- the recursion


@pytest.mark.parametrize("sigma", [0, PRISMATIC])
def test_as_many_powers_close_a_span_as_are_independent(sigma):
    """They span all that a joint makes of a twist, or of an energy, and one more adds nothing."""
    rng = np.random.default_rng(5)
    for operator, powers in (
        (closed_form.DRIFT[sigma], closed_form.TWIST_POWERS[sigma]),
        (closed_form.FLOW[sigma], closed_form.ENERGY_POWERS[sigma]),
    ):
        x = rng.normal(size=(1, len(operator)))
        rows = close_span(x, operator, powers)
        turned = np.vstack([x @ expm(q * operator) for q in rng.uniform(-3.0, 3.0, 12)])
        for more in (rows, turned, np.vstack((rows, turned)), close_span(x, operator, powers + 1)):
            assert np.linalg.matrix_rank(more, tol=1e-9) == powers


def test_what_coupled_motors_share():
    joints = (Joint("a", 0), Joint("b", 1, d=0.3), Joint("p", 2, PRISMATIC, alpha=QUARTER, d=0.2))
    couplings = (Coupling(2, {1: 2.0, 2: 3.0}), Coupling(3, {1: 0.5, 3: -1.5}, True))
    robot = Robot("r", joints, coupling=couplings)
    closed, sampled = (base_parameters(robot, method=m) for m in ("closed-form", "qr"))
    assert closed.leaders == sampled.leaders
    np.testing.assert_allclose(closed.M, sampled.M, atol=1e-9)


def test_what_is_observed_has_the_null_space_of_the_samples():
    for seed in range(4):
        robot = random_robot(np.random.default_rng(seed + 20), 4, tree=True)
        length = typical_length(robot)
        names = standard_names(robot)
        B, margin = identifiable_rows(robot, names, length=length)
        sampled = base_parameters(robot, method="svd", scale=False)
        assert np.linalg.matrix_rank(B, tol=1e-8) == len(sampled) and margin.kept > 1e-6 and margin.dropped < 1e-10
        T = placements(robot, length)
        assert len(reaches(robot, T, transfer_matrix(T), False, 1e-10, RankMargin())) == 4
    loop = Robot("l", (Joint("a", 0), Joint("b", 1, d=0.1)), passive=(Passive(2, {1: 1.0}),))
    with pytest.raises(InputError, match="no exact recursion"):
        identifiable_rows(loop, standard_names(loop))
    with pytest.raises(InputError, match="not covered by Theorem 2"):
        combination_matrix(loop)
    with pytest.raises(InputError, match="takes gravity for granted"):
        minimal_combinations(Robot("w", (Joint("a", 0),), gravity=np.zeros(3)))


def test_motors_of_joints_that_turn_and_slide_share_by_their_units():
    """Two motors feel the same two joints, one that turns and one that slides: exact weights against samples."""
    joints = (Joint("a", 0, alpha=QUARTER), Joint("p", 1, PRISMATIC, alpha=QUARTER, d=0.4), Joint("c", 2, d=0.3))
    for weights in ({1: 1.0, 2: 2.0}, {1: 1.0, 2: -2.0}, {1: -0.5, 2: 0.7}):
        more = {j: 3.0 * w for j, w in weights.items()}
        for apart in (False, True):
            robot = Robot("r", joints, coupling=(Coupling(1, weights, apart), Coupling(2, more, apart)))
            closed, sampled = (base_parameters(robot, method=m) for m in ("closed-form", "svd"))
            assert closed.leaders == sampled.leaders
            np.testing.assert_allclose(closed.M, sampled.M, rtol=1e-9, atol=1e-10)
            friction = dict(closed.terms(closed.leaders.index("Fvm1")))
            assert friction == pytest.approx({"Fvm1": 1.0, "Fvm2": 9.0})
            assert closed.terms(closed.leaders.index("Fcm1")) == pytest.approx({"Fcm1": 1.0, "Fcm2": 3.0})


@pytest.mark.parametrize("more", [{"alpha": QUARTER}, {"d": 0.3}])
def test_coupled_joints_behind_few_directions_feel_them_as_they_turn(more):
    """A lift and a turn on one line, then two joints with one motor, then one across: no gravity, the lift is felt."""
    joints = (Joint("p", 0, PRISMATIC), Joint("a", 1), Joint("b", 2), Joint("c", 3), Joint("e", 4, **more))
    robot = Robot("r", joints, coupling=(Coupling(4, {3: 1.0, 4: -0.5}),), gravity=np.zeros(3))
    closed, sampled = (base_parameters(robot, method=m) for m in ("closed-form", "qr"))
    assert closed.leaders == sampled.leaders
    np.testing.assert_allclose(closed.M, sampled.M, atol=1e-9)


@pytest.mark.parametrize(("tilt", "apart"), [(1e-10, False), (1e-7, True)])
def test_axes_count_as_parallel_and_on_one_line_to_a_billionth(tilt, apart):
    def names(*joints):
        return [c.name for c in minimal_combinations(Robot("r", joints))]

    tilted = names(Joint("a", 0), Joint("b", 1, alpha=tilt))
    assert ("U12_2" in tilted) == apart
    for size in (1e-6, 1.0, 1e6):  # lengths count in the robot's own unit
        shifted = names(Joint("a", 0), Joint("b", 1, d=tilt * size), Joint("c", 2, r=size))
        assert ("kx_2" in shifted) == apart and "U12_2" not in shifted


def test_a_base_on_its_side_and_weak_gravity_count_in_theorem_2():
    joints = (Joint("a", 0), Joint("b", 1, r=0.2))
    upright = Robot("r", joints, gravity=np.array((0.0, 0.0, -1e-3)))
    assert [c.name for c in minimal_combinations(upright)] == ["U33_1", "U33_2"]
    lying = replace(upright, base=screw("x", QUARTER, 0.0), gravity=np.array((0.0, 1e-11, 0.0)))
    assert [c.name for c in minimal_combinations(lying)] == ["U33_1", "U33_2"], "gravity along both axes"
    across = replace(lying, gravity=np.array((0.0, 0.0, -1e-11)))
    assert [c.name for c in minimal_combinations(across)] == ["U33_1", "kx_1", "ky_1", "U33_2", "kx_2", "ky_2"]


def test_a_span_is_found_where_lapack_gives_up(monkeypatch):
    rows = np.array([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0], [3.0, 4.0, 0.0]])
    quick = span(rows, 1e-8, RankMargin())
    monkeypatch.setattr(closed_form, "dgesdd", lambda *_, **__: (None, None, None, 1))
    slow = span(rows, 1e-8, RankMargin())
    np.testing.assert_allclose(slow.T @ slow, quick.T @ quick, atol=1e-14)
    assert slow.shape == (2, 3)


def test_the_set_of_theorem_2_by_its_cases():
    def names(*joints, gravity=(0.0, 0.0, -9.81)):
        return [c.name for c in minimal_combinations(Robot("r", joints, gravity=np.array(gravity)))]

    assert names(Joint("a", 0)) == ["U33_1"]
    assert names(Joint("a", 0, alpha=QUARTER)) == ["U33_1", "kx_1", "ky_1"]
    assert names(Joint("p", 0, PRISMATIC)) == ["m_1"]
    assert names(Joint("a", 0), Joint("b", 1)) == ["U33_1", "U33_2"]
    assert names(Joint("a", 0), Joint("b", 1, d=0.2)) == ["U33_1", "U33_2", "kx_2", "ky_2"]
    assert names(Joint("a", 0), Joint("b", 1, r=0.2)) == ["U33_1", "U33_2"]
    assert names(Joint("p", 0, PRISMATIC, alpha=QUARTER), Joint("b", 1, alpha=-QUARTER)) == [
        "m_1", "U33_2", "kx_2", "ky_2"], "a slide shakes it"  # fmt: skip
    back = (Joint("a", 0), Joint("b", 1, d=0.2), Joint("c", 2, d=-0.2))
    assert names(*back) == ["U33_1", "U33_2", "kx_2", "ky_2", "U33_3", "kx_3", "ky_3"], "off the second axis"
    assert names(back[0], replace(back[1], sigma=PRISMATIC), back[2]) == ["U33_1", "m_2", "U33_3"]
    second = ["U11-U22_2", "U33_2", "U12_2", "U13_2", "U23_2", "kx_2", "ky_2"]
    assert names(Joint("a", 0), Joint("b", 1, alpha=QUARTER)) == ["U33_1", *second]
    assert names(Joint("a", 0), Joint("p", 1, PRISMATIC)) == ["U33_1", "m_2"]
    assert names(Joint("a", 0), Joint("p", 1, PRISMATIC, alpha=0.3)) == ["U33_1", "m_2", "kappa1_2", "kappa2_2"]
    wrist = names(Joint("a", 0), Joint("b", 1, alpha=QUARTER), Joint("p", 2, PRISMATIC, alpha=QUARTER))
    assert wrist == ["U33_1", *second, "m_3", "kx_3", "ky_3", "kz_3"]
