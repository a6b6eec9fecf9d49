# SPDX-License-Identifier: Apache-2.0

"""What becomes of chosen terms in the fit of the whole law: significance, signs, shapes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from friction_rows import BLOCKS, ROWS, SLOW, TRUTH, rows_of
from ros2_dynid.identification.decisions.friction_selection import Trial
from ros2_dynid.identification.decisions.friction_terms import (
    count_deviations,
    drop_insignificant_terms,
    drop_pushing_terms,
    mark_dropped_terms,
    refine_shapes,
)
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information, select_friction
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")
CUBIC, ROOT, ASYMMETRIC, STRIBECK, LOAD, POWER = (
    FrictionKind[name] for name in ("CUBIC", "ROOT", "ASYMMETRIC", "STRIBECK", "LOAD", "POWER")
)

STRIBECK_SHARES, POWERS = STRIBECK.shape.tried, POWER.shape.tried


@pytest.mark.parametrize(("value", "variance", "deviations"), [
    ((0.6,), ((0.04,),), 3.0),
    ((-0.6,), ((0.04,),), -3.0),  # friction that drives
    ((0.6,), ((np.inf,),), 0.0),
    ((0.6, -0.2), ((0.04, 0.01), (0.01, 0.02)), None),
    ((0.6, 0.2), ((0.04, 0.02), (0.02, 0.01)), 0.0),  # not told apart
])  # fmt: skip
def test_how_certain_a_term_is(value, variance, deviations):
    terms = (FrictionTerm(1, ROOT), FrictionTerm(2, STRIBECK, speed=0.1), replace(SLOW, speed=0.1, of_shape=True))
    C = np.eye(3)
    n = len(value)
    C[1 : 1 + n, 1 : 1 + n] = variance
    found = count_deviations(terms[: 1 + n], 1, np.array([9.0, *value]), C[: 1 + n, : 1 + n])
    if deviations is None:
        deviations = np.sqrt(np.array(value) @ np.linalg.inv(np.array(variance)) @ np.array(value))
    assert found == pytest.approx(deviations)
    either = (FrictionTerm(1, ASYMMETRIC),)
    assert count_deviations(either, 0, np.array([-0.6]), np.array([[0.04]])) == pytest.approx(3.0)
    assert count_deviations(terms, 2, np.zeros(3), np.eye(3)) == np.inf, "a shape does not leave alone"


def law_information(seed, extra):
    """Return rows of the terms ROOT, STRIBECK with its shape, and ASYMMETRIC, and their fit: extra by column."""
    rng = np.random.default_rng(seed)
    W = rows_of(seed)
    chosen = [0, 1, 2, 3, 4, 7, 9, 10, 5, 15]
    W = W[chosen]
    W[8] = 0.0
    W[8, 0] = rows_of(seed)[5, 0]
    value = np.zeros(10)
    value[:5], value[9] = TRUTH[:5], 0.01
    for k, coefficient in extra.items():
        value[5 + k] = coefficient
    tau = np.einsum("b,bjt->jt", value, W) + np.array([[0.1], [0.02]]) * rng.normal(size=W.shape[1:])
    feels = (np.array([0, 1, 2, 5, 8, 9]), np.array([2, 3, 4, 6, 7, 9]))
    blocks = tuple(
        Block(
            tuple(np.column_stack((W[c, j, k * ROWS :][:, :ROWS].T, tau[j, k * ROWS :][:ROWS]))
                  for j, c in enumerate(feels)),
            np.array([ROWS, ROWS]), float(k), k + 1.0,
        )
        for k in range(BLOCKS)
    )  # fmt: skip
    return Information(blocks, feels, ColumnLayout(5, 1, 0, 4)), W, tau


LAW = (FrictionTerm(1, ROOT), SLOW, replace(SLOW, of_shape=True), FrictionTerm(1, ASYMMETRIC))


def sign_rows(terms, size):
    """Return the rows that hold the coefficients of terms, which follow five base parameters, above zero."""
    return np.eye(size)[[5 + k for k, term in enumerate(terms) if term.positive]]


@pytest.mark.parametrize(("extra", "left"), [
    ({0: 1.0, 1: 0.4, 3: -0.5}, LAW),
    ({1: 0.4}, LAW[1:3]),
    ({3: 0.5}, LAW[3:]),
    ({0: -1.0, 3: 0.5}, LAW[3:]),  # no root term drives
    ({0: 1.0, 1: -0.4}, LAW[:1]),
    ({}, ()),
])  # fmt: skip
def test_terms_that_the_whole_law_does_not_need_leave_it(extra, left):
    information, W, tau = law_information(2, extra)
    law, terms = drop_insignificant_terms(information, LAW, sign_rows, 3.0)
    assert terms == left
    assert law.layout == ColumnLayout(5, 1, 0, len(left)) and law.size == 6 + len(left)
    kept = [*range(5), *(5 + LAW.index(term) for term in left), 9]
    A = np.vstack([W[kept, 0].T / 0.1, W[kept, 1].T / 0.02])
    by_hand = np.linalg.lstsq(A, np.concatenate((tau[0] / 0.1, tau[1] / 0.02)), rcond=None)[0]
    np.testing.assert_allclose(wls(law).value, by_hand, rtol=0.1, atol=0.02)


def test_terms_whose_sign_cannot_be_leave_with_their_shape():
    information, *_ = law_information(3, {0: 1.0, 1: -0.4, 3: -0.5})

    terms, value = drop_pushing_terms(information, LAW, (0, 1, 2, 3), sign_rows)
    assert terms == (LAW[0], LAW[3])
    assert value[5] == pytest.approx(1.0, abs=0.1) and value[6] == pytest.approx(-0.5, abs=0.1) and len(value) == 8
    terms, value = drop_pushing_terms(information, LAW, (1, 2), sign_rows)
    assert terms == () and value.shape == (0,)
    terms, value = drop_pushing_terms(information, LAW, (1, 2, 3), sign_rows)
    assert terms == LAW[3:] and len(value) == 7
    terms, value = drop_pushing_terms(information, LAW, (3,), sign_rows)
    assert terms == LAW[3:] and value[5] < 0.0, "of either sign"
    every = select_friction(information, [0, 3])
    np.testing.assert_array_equal(every.columns[0], [0, 1, 2, 5, 6, 7])
    np.testing.assert_array_equal(every.columns[1], [2, 3, 4, 7])


def test_a_law_with_a_term_that_left_was_not_taken():
    laws = [(LAW[0],), (LAW[0], LAW[3]), (FrictionTerm(2, ROOT),), (FrictionTerm(1, CUBIC),)]
    trials = [Trial(terms, terms[0].joint, 0.5, 0.1, chosen) for terms, chosen in zip(laws, (1, 1, 1, 0), strict=True)]
    found = mark_dropped_terms(trials, {LAW[3], LAW[2]})
    assert [bool(trial.chosen) for trial in found] == [True, False, True, False]
    assert [trial.terms for trial in found] == laws and all(trial.gain == 0.5 for trial in found)


def stribeck(speed, joint=2):
    term = FrictionTerm(joint, STRIBECK, speed=speed)
    return term, replace(term, of_shape=True)


def power(exponent, joint=3):
    term = FrictionTerm(joint, POWER, exponent=exponent)
    return term, replace(term, of_shape=True)


@pytest.mark.parametrize(("terms", "value", "expected", "fixed"), [
    (stribeck(0.2), (2.0, 0.4), stribeck(0.2 * np.exp(0.2)), set()),
    (stribeck(0.2), (2.0, -0.4), stribeck(0.2 * np.exp(-0.2)), set()),
    (stribeck(0.2), (2.0, 0.04), stribeck(0.2), set()),  # 2 % are a detail
    (stribeck(0.2), (2.0, 0.08), stribeck(0.2 * np.exp(0.04)), set()),
    (stribeck(0.2), (2.0, 9.0), stribeck(0.2 * np.exp(0.47)), set()),  # a step of the grid at most
    (stribeck(0.85), (2.0, 1.0), stribeck(0.9)[:1], {2}),  # 0.45 of the top speed of 2
    (stribeck(0.045), (2.0, -1.0), stribeck(0.04)[:1], {2}),
    (power(1.5), (2.0, 0.4), power(1.7), set()),
    (power(1.5), (2.0, 9.0), power(1.97), set()),
    (power(1.3), (2.0, -0.6), power(1.1)[:1], {3}),  # too near to viscous friction
    (power(0.6), (2.0, 0.8), power(0.9)[:1], {3}),
    (power(0.4), (2.0, -0.8), power(0.2)[:1], {3}),
    (power(4.8), (2.0, 0.8), power(5.0)[:1], {3}),
    ((FrictionTerm(1, ROOT), *stribeck(0.2)), (1.0, 2.0, 0.4), (FrictionTerm(1, ROOT), *stribeck(0.2 * np.exp(0.2))),
     set()),
    (stribeck(0.2)[:1], (2.0,), stribeck(0.2), set()),
])  # fmt: skip
def test_shapes_follow_the_column_of_their_change(terms, value, expected, fixed):
    gone = set()
    found = refine_shapes(ROBOT, terms, np.array(value), np.array([1.0, 2.0, 3.0]), gone)
    assert [(t.joint, t.kind, t.of_shape) for t in found] == [(t.joint, t.kind, t.of_shape) for t in expected]
    for one, wanted in zip(found, expected, strict=True):
        assert (one.speed, one.exponent) == pytest.approx((wanted.speed, wanted.exponent))
    assert gone == fixed


def test_top_speeds_are_those_of_active_joints():
    robot = SimpleNamespace(active=(2, 5))
    terms, gone = (*stribeck(0.85, 5), *stribeck(0.85, 2)), set()
    found = refine_shapes(robot, terms, np.array([2.0, 1.0, 2.0, 1.0]), np.array([9.0, 2.0]), gone := set())
    assert gone == {5} and [term.speed for term in found] == pytest.approx([0.9, *[0.85 * np.exp(0.47)] * 2])


def test_shapes_that_are_fixed_stay_without_a_column():
    for fixed in ({2}, set()):
        found = refine_shapes(ROBOT, stribeck(0.2), np.array([2.0, 0.0]), np.ones(3), fixed)
        assert found == (stribeck(0.2)[:1] if fixed else stribeck(0.2))


def test_columns_of_a_load_stay_where_terms_leave():
    rng = np.random.default_rng(0)
    R = rng.normal(size=(9, 8))
    information = Information((Block((R,), np.array([9]), 0.0, 1.0),), (np.arange(7),), ColumnLayout(1, 1, 2, 3))
    found = select_friction(information, [0, 2])
    assert found.layout == ColumnLayout(1, 1, 2, 2)
    kept = R[:, [0, 1, 3, 4, 5, 6, 7]]
    np.testing.assert_allclose(found.triangle(0).T @ found.triangle(0), kept.T @ kept, atol=1e-9)
