# SPDX-License-Identifier: Apache-2.0

"""How friction terms are chosen and finished: against fits to the rows themselves, law by law and fold by fold."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.decisions import friction_law, friction_selection
from ros2_dynid.identification.decisions.friction_law import with_law
from ros2_dynid.identification.decisions.friction_selection import Trial, select_terms
from ros2_dynid.identification.friction import (
    DEFAULTS,
    STEP,
    candidates,
    change_shape,
    check_law,
    given_terms,
    near_standstill,
    top_speeds,
)
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate, friction_covariance, identified_terms
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.friction import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector

ROBOT = load_robot("demo3")
CUBIC, ROOT, ASYMMETRIC, STRIBECK, LOAD, POWER = (
    FrictionKind[name] for name in ("CUBIC", "ROOT", "ASYMMETRIC", "STRIBECK", "LOAD", "POWER")
)

STRIBECK_SHARES, POWERS = STRIBECK.shape.tried, POWER.shape.tried

# --- the choice, by fits to the rows themselves

SLOW, FAST = (FrictionTerm(2, STRIBECK, speed=v) for v in (0.15, 0.3))
TERMS = (
    FrictionTerm(1, ASYMMETRIC),
    FrictionTerm(1, CUBIC),
    FrictionTerm(1, ROOT),
    FrictionTerm(2, LOAD),
    SLOW,
    replace(SLOW, of_shape=True),
    FAST,
    replace(FAST, of_shape=True),
)
LAYOUT = ColumnLayout(5, 1, 0, len(TERMS) + 2)
"""Base columns: v, sign and a shared one of joint 1; the shared one, v and sign of joint 2. Then the candidates, what
either joint lacks near standstill, and the delay."""
FEELS = (np.array([0, 1, 2, 5, 6, 7, 13, 15]), np.array([2, 3, 4, 8, 9, 10, 11, 12, 14, 15]))
BLOCKS, ROWS = 20, 15
COUNTS = np.array([ROWS, 2 * ROWS])
"""Rows that the factors of a block stand for."""


def rows_of(seed):
    """Return W (size, n, samples) of a motion drawn at random."""
    rng = np.random.default_rng(seed)
    count = BLOCKS * ROWS
    v, s = rng.uniform(-1.5, 1.5, (2, count)), None
    s = np.sign(v)
    W = np.zeros((LAYOUT.size, 2, count))
    W[0, 0], W[1, 0], W[2] = v[0], s[0], rng.normal(size=(2, count))
    W[3, 1], W[4, 1] = v[1], s[1]
    W[5, 0], W[6, 0], W[7, 0] = np.abs(v[0]), v[0] ** 3, s[0] * np.sqrt(np.abs(v[0]))
    W[8, 1] = s[1] * np.abs(rng.normal(size=count))
    for k, vs in ((9, 0.15), (11, 0.3)):
        W[k, 1] = s[1] * np.exp(-((v[1] / vs) ** 2))
        W[k + 1, 1] = W[k, 1] * 2.0 * (v[1] / vs) ** 2
    for j in range(2):
        W[13 + j, j] = s[j] * np.exp(-((v[j] / 0.02) ** 2))
    W[15] = rng.normal(size=(2, count))
    W[2] += 0.5 * (W[6] + W[8] + W[9])  # what the joints share gives way to the terms of both
    return W


def informed(W, tau, recordings=1):
    blocks = []
    for k in range(BLOCKS):
        at = slice(k * ROWS, (k + 1) * ROWS)
        R = tuple(np.column_stack((W[columns, j, at].T, tau[j, at])) for j, columns in enumerate(FEELS))
        blocks.append(Block(R, COUNTS, float(k), k + 1.0, k * recordings // BLOCKS))
    return Information(tuple(blocks), FEELS, LAYOUT)


class ByHand:
    """The same choice with a least-squares fit to the rows for every law and fold."""

    def __init__(self, W, tau, weights, recordings):
        self.W, self.tau, self.weights = W, tau, weights
        self.count = W.shape[2]
        place = np.arange(self.count)
        self.folds = [place // (self.count // 10) == f for f in range(10)]
        self.wholes = [place * recordings // self.count == r for r in range(recordings)] if recordings > 1 else []

    def fit(self, columns, used):
        size = np.sqrt(self.weights)
        A = np.vstack([size[j] * self.W[columns, j][:, used].T for j in range(2)])
        y = np.concatenate([size[j] * self.tau[j, used] for j in range(2)])
        return np.linalg.lstsq(A, y, rcond=None)[0]

    def errors(self, columns, used):
        """Return the squared error of each joint in the rows not used, under the fit to those that are."""
        value = self.fit(columns, used)
        left = self.tau[:, ~used] - np.einsum("b,bjt->jt", value, self.W[columns][:, :, ~used])
        return self.weights * np.sum(left**2, axis=1)

    def held_out(self, columns):
        """Return the errors (folds and recordings, joints)."""
        return np.array([self.errors(columns, ~out) for out in (*self.folds, *self.wholes)])

    def reweighted(self, columns):
        value = self.fit(columns, np.ones(self.count, dtype=bool))
        left = self.tau - np.einsum("b,bjt->jt", value, self.W[columns])
        return COUNTS * BLOCKS / np.sum(left**2, axis=1)

    def always(self):
        """Return the columns that are always fitted: near standstill, those that take friction away."""
        columns = [0, 1, 2, 3, 4, 13, 14, 15]
        value = dict(zip(columns, self.fit(columns, np.ones(self.count, dtype=bool)), strict=True))
        return [k for k in columns if k < 13 or k == 15 or value[k] < 0.0]


def scatter_of(gains):
    """Return the scatter of a sum of ten gains; the largest one is no evidence against the others."""
    one = np.std(gains, ddof=1) * np.sqrt(10)
    rest = np.sort(gains)[:9]
    return min(one, np.std(rest, ddof=1) * 3.0 * gains.sum() / rest.sum()) if rest.sum() > 0.0 else one


def possible_laws(hand, joint, always, others, size):
    """Yield the laws of so many kinds whose signs and shapes can be, as numbers of candidates."""
    kinds = ({0: (0,), 1: (1,), 2: (2,)}, {3: (3,), 4: (4, 5), 6: (6, 7)})[joint]
    for group in itertools.combinations(kinds.values(), size):
        law = tuple(itertools.chain(*group))
        if {4, 6} <= set(law):
            continue  # one Stribeck term at a time
        value = hand.fit([*always, *(5 + k for k in (*others, *law))], np.ones(hand.count, dtype=bool))
        value = dict(zip((*others, *law), value[len(always) :], strict=True))
        if any(value[k] <= 0.0 for k in law if TERMS[k].positive):
            continue
        if any(abs(value[k]) > DEFAULTS.shape_change * abs(value[k - 1]) for k in law if TERMS[k].of_shape):
            continue
        yield law


def check_trials(found, hand, always, chosen, recordings, independent):
    """Compare the trials of both joints, one by one, with fits to the rows."""
    trials = list(found.trials)
    for joint in (0, 1):
        others = [k for k in chosen if TERMS[k].joint != joint + 1]
        own = [trial for trial in trials if trial.joint == joint + 1]
        law, current = (), None
        for size in range(1, (3, 2)[joint] + 1):
            smaller = law
            before = hand.held_out([*always, *(5 + k for k in (*others, *smaller))])
            left = before[:10, joint].sum()
            laws = list(possible_laws(hand, joint, always, others, size))
            known = {TERMS[k].kind for k in smaller}
            asked = [any(TERMS[k].kind in (CUBIC, ASYMMETRIC) and TERMS[k].kind not in known for k in one)
                     for one in laws]  # fmt: skip
            for strict in (False, True):
                group = [one for one, doubtful in zip(laws, asked, strict=True) if doubtful == strict]
                if not group:
                    continue
                errors = {one: hand.held_out([*always, *(5 + k for k in (*others, *one))]) for one in group}
                best = min(group, key=lambda one: errors[one][:10].sum())
                gains = (before - errors[best]).sum(axis=1)
                trial = own.pop(0)
                assert trial.terms == tuple(TERMS[k] for k in best if not TERMS[k].of_shape)
                assert trial.gain == pytest.approx(gains[:10].sum() / left, rel=1e-5, abs=1e-7)
                assert trial.scatter == pytest.approx(scatter_of(gains[:10]) / left, rel=1e-5, abs=1e-7)
                further = size - sum(not TERMS[k].of_shape for k in smaller)
                Q = further * scipy.stats.f.isf(2 * 0.05 / 6, further, 9)
                scatters = (Q - 2 * further) / (2 * np.sqrt(Q))
                evidence = max(4.0 if TERMS[k].kind is ASYMMETRIC else 2.5 if TERMS[k].kind is CUBIC else 0.0
                               for k in best if TERMS[k].kind not in known) if strict else 0.0  # fmt: skip
                share = max(0.07 * further, (Q - 2 * further) / (independent * BLOCKS * COUNTS[joint]))
                enough = trial.gain > max(scatters, evidence) * trial.scatter and trial.gain > share
                elsewhere = recordings == 1 or gains[10:].sum() > 0.0
                if (
                    law != smaller
                ):  # two laws of one size: with evidence of its own, the doubtful one need only be better
                    more = (current - errors[best]).sum(axis=1)
                    enough = more[:10].sum() > (0.0 if enough else 1.4 * scatter_of(more[:10]))
                    elsewhere = elsewhere and (recordings == 1 or more[10:].sum() > 0.0)
                assert trial.chosen == (enough and elsewhere)
                if trial.chosen:
                    law, current = best, errors[best]
        assert not own and law == tuple(k for k in chosen if TERMS[k].joint == joint + 1)


TRUTH = np.array([1.0, 2.0, 0.5, -1.5, 0.7, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.5, -0.2, 0.01])


@pytest.mark.parametrize(("terms", "recordings", "chosen"), [
    ({}, 1, ()),
    ({1: 0.5}, 1, (1,)),
    ({0: -0.6, 2: 2.0}, 1, (0, 2)),
    ({1: -0.5}, 1, None),  # a cubic term cannot be negative: others may stand for it
    ({3: 0.4}, 2, (3,)),
    ({4: 0.5}, 1, (4, 5)),
    ({6: 0.5, 3: 0.3}, 3, (3, 6, 7)),
    ({1: 0.5, 3: 0.3}, 3, (1, 3)),
    ({2: 2.0, 6: 0.5}, 1, (2, 6, 7)),
    ({1: 0.02, 6: 0.015}, 1, None),  # hardly there
    ({2: 0.15, 3: 0.012}, 2, None),
])  # fmt: skip
def test_terms_are_chosen_by_what_they_gain_on_rows_left_out(terms, recordings, chosen):
    rng = np.random.default_rng(len(terms))
    sigma, independent = np.array([0.1, 0.02]), 0.8
    W = rows_of(3)
    value = TRUTH.copy()
    for k, coefficient in terms.items():
        value[5 + k] = coefficient
    tau = np.einsum("b,bjt->jt", value, W) + sigma[:, None] * rng.normal(size=W.shape[1:])
    information = informed(W, tau, recordings)
    found = select_terms(information, TERMS, sigma, independent=independent)
    if chosen is not None:
        assert found.chosen == chosen
    hand = ByHand(W, tau, 1.0 / sigma**2, recordings)
    always = hand.always()
    if found.chosen:  # the weights follow the law
        hand.weights = hand.reweighted([*always, *(5 + k for k in found.chosen)])
    check_trials(found, hand, always, found.chosen, recordings, independent)


@pytest.mark.parametrize(("cubic", "scatter", "chosen"), [
    (4.8, 0.5, (1,)),  # evidence of its own, and a little better
    (5.2, 0.5, (0,)),  # a little worse
    (4.8, 8.0, (0,)),  # a little better, but half of the folds contradict it
    (1.0, 0.5, (1,)),
    (2.0, 9.9, (0,)),  # no evidence of its own, and better by a standard error only
    (-3.2, 16.0, (1,)),  # by one and a half
])  # fmt: skip
def test_of_two_laws_alike_the_better_is_taken_if_each_stands_for_itself(monkeypatch, cubic, scatter, chosen):
    zigzag = np.array([1.0, -1.0] * 5)
    errors = {(0,): 5.0 + 0.5 * zigzag[::-1], (1,): cubic + scatter * zigzag}
    terms = (FrictionTerm(1, STRIBECK, speed=0.1), FrictionTerm(1, CUBIC))

    def tried(given, laws):
        found = np.array([errors.get(one, np.full(10, 20.0)) for one in laws.sets])
        return found, np.array([len(one) == 1 for one in laws.sets])

    monkeypatch.setattr(friction_selection, "_tried", tried)
    chance = [friction_selection._chance(d, 10, 2) for d in (1, 2)]
    judge = friction_selection._Judge(np.zeros((10, 1, 1)), 1000.0, chance, 10)
    given = SimpleNamespace(e=np.full(10, 10.0), own=lambda squares, law: 100.0)
    law, trials = friction_selection._law(given, judge, terms, force=False)
    assert law == chosen and [trial.chosen for trial in trials] == [True, chosen == (1,)]
    assert [trial.gain for trial in trials] == pytest.approx([0.5, 1.0 - 0.1 * cubic])


def test_a_shape_is_no_further_term(monkeypatch):
    """A law with one term more than a Stribeck term with its shape must gain what chance gives to one."""
    zigzag = np.array([1.0, -1.0] * 5)
    errors = {(0, 1): 5.0 + 0.1 * zigzag, (0, 1, 2): 4.0 + 0.5 * zigzag}
    terms = (FrictionTerm(1, STRIBECK, speed=0.1), FrictionTerm(1, STRIBECK, speed=0.1, of_shape=True),
             FrictionTerm(1, LOAD))  # fmt: skip

    def tried(given, laws):
        return np.array([errors.get(one, np.full(10, 20.0)) for one in laws.sets]), np.ones(len(laws.sets), dtype=bool)

    monkeypatch.setattr(friction_selection, "_tried", tried)
    judge = friction_selection._Judge(np.zeros((10, 1, 1)), 1e6, (9.0, 1e4, 1e4), 10)
    given = SimpleNamespace(e=10.0 + 0.5 * zigzag, own=lambda squares, law: 100.0)
    law, trials = friction_selection._law(given, judge, terms, force=False)
    assert law == (0, 1, 2) and [trial.chosen for trial in trials] == [True, True]
    assert [trial.terms for trial in trials] == [terms[:1], (terms[0], terms[2])]


def test_what_so_many_further_terms_must_gain():
    for folds, tests in ((10, 6), (5, 54)):
        Q = [d * scipy.stats.f.isf(0.1 / tests, d, folds - 1) for d in (1, 2, 3)]
        chance = [friction_selection._chance(d, folds, tests) for d in (1, 2, 3)]
        assert chance == pytest.approx(Q)
        for rows in (30.0, 3000.0):
            judge = friction_selection._Judge(np.zeros((folds, 1, 1)), rows, chance, folds)
            for d, q in zip((1, 2, 3), Q, strict=True):
                assert judge.scatters(d) == pytest.approx((q - 2 * d) / (2 * np.sqrt(q)))
                assert judge.share(d) == pytest.approx(max(0.07 * d, (q - 2 * d) / rows))


def test_a_joint_is_judged_by_its_independent_rows_and_by_all_terms_that_are_tried(monkeypatch):
    W = rows_of(3)
    tau = np.einsum("b,bjt->jt", TRUTH, W) + np.array([[0.1], [0.02]]) * np.random.default_rng(0).normal(size=(2, 300))
    judges = []

    def law(given, judge, terms, *, force):
        judges.append(judge)
        return (), []

    monkeypatch.setattr(friction_selection, "_law", law)
    for independent, rows in ((0.8, 0.8 * BLOCKS * COUNTS), (1e-9, np.ones(2))):
        judges.clear()
        assert select_terms(informed(W, tau, 2), TERMS, np.array([0.1, 0.02]), independent=independent).chosen == ()
        assert [judge.rows for judge in judges] == pytest.approx(list(rows)) and {j.parts for j in judges} == {10}
        for judge, sigma, j in zip(judges, (0.1, 0.02), (0, 1), strict=True):
            assert judge.chance == pytest.approx([friction_selection._chance(d, 10, 6) for d in range(1, 10)])
            own = W[FEELS[j], j, 30:60] / sigma
            np.testing.assert_allclose(judge.own[1][np.ix_(FEELS[j], FEELS[j])], own @ own.T, rtol=1e-9, atol=1e-6)


def test_joints_are_gone_through_again_until_no_law_changes_four_times_at_most(monkeypatch):
    """With each law the weights are those of its own errors, and the other joints' terms are held."""
    W = rows_of(3)
    tau = np.einsum("b,bjt->jt", TRUTH, W) + np.array([[0.1], [0.02]]) * np.random.default_rng(0).normal(size=(2, 300))
    information = informed(W, tau)
    real, held, weights = friction_selection._Reduced.without, [], []
    monkeypatch.setattr(friction_selection._Reduced, "without",
                        lambda self, others, own: held.append(list(others)) or real(self, others, own))  # fmt: skip

    def laws(chosen):
        told = iter(chosen)

        def law(given, judge, terms, *, force):
            weights.append(judge.own[:, -1, -1].sum())
            return next(told), []

        return law

    for chosen, sweeps, found in (
        ([(1,), ()] * 2, 2, (1,)),
        ([(1,), (0,), (2,), (0,), (2,), (0,)], 3, (2, 3)),
        ([(1,), (), (2,), ()] * 2, 4, (2,)),  # never settles
    ):
        held.clear(), weights.clear()
        monkeypatch.setattr(friction_selection, "_law", laws(chosen))
        assert select_terms(information, TERMS, np.array([0.1, 0.02])).chosen == found
        assert len(weights) == 2 * sweeps
    assert held == [[], [1], [], [2], [], [1], [], [2]]
    hand = ByHand(W, tau, np.array([100.0, 2500.0]), 1)
    always = hand.always()
    squares = np.sum(tau**2, axis=1)
    for sweep, term in enumerate((None, 1, 2, 1)):
        if term is not None:
            hand.weights = hand.reweighted([*always, 5 + term])
        np.testing.assert_allclose(weights[2 * sweep : 2 * sweep + 2], hand.weights * squares, rtol=1e-6)


@pytest.mark.parametrize("held", [[], [1], [0, 6, 7]])
def test_held_out_errors_of_laws_are_those_of_fits_to_the_rows(held):
    """Of a law alone and beside terms that other joints hold, for parts and for whole recordings left out.

    Torques have the norm 1 there.
    """
    W, sigma = rows_of(3), np.array([0.1, 0.02])
    tau = np.einsum("b,bjt->jt", TRUTH, W) + sigma[:, None] * np.random.default_rng(0).normal(size=(2, 300))
    tau[0] += 0.3 * W[6, 0] + 0.2 * W[5, 0]
    information = informed(W, tau, 2)
    hand = ByHand(W, tau, sigma**-2.0, 2)
    always = hand.always()
    folds = [*friction_selection.block_folds(information, 10), *friction_selection._recordings(information)]
    squares = friction_selection._normal_equations(information, folds)
    reduced = friction_selection._reduced(squares, sigma**-2.0, information, len(TERMS), np.array(always), 10)
    size = np.sum(sigma**-2.0 * np.sum(tau**2, axis=1))
    kept = [2, 3, 4, 5]
    given = reduced.without(held, kept)
    columns = [*always, *(5 + k for k in held)]
    np.testing.assert_allclose(size * given.e, hand.held_out(columns).sum(axis=1), rtol=1e-6)
    for law in ([0], [1], [2, 3], [0, 2, 3]):
        errors, coefficients, apart = given.laws(np.array([law]))
        wanted = hand.held_out([*columns, *(5 + kept[k] for k in law)])
        np.testing.assert_allclose(size * errors[0], wanted.sum(axis=1), rtol=1e-6)
        fit = hand.fit([*columns, *(5 + kept[k] for k in law)], np.ones(300, dtype=bool))
        value = np.sqrt(size) * coefficients[0, -1] / given.norm[law]
        np.testing.assert_allclose(value, fit[len(columns) :], rtol=1e-5)
        assert apart.all()
        for j in range(2):
            own = given.own(sigma[j] ** -2.0 * squares[:10, j], law)
            assert size * own == pytest.approx(wanted[:10, j].sum(), rel=1e-6)


def test_an_effort_without_error_does_not_outweigh_the_rest():
    np.testing.assert_allclose(friction_selection._finite_weights(np.array([4.0, 0.0, 1.0])), [0.25, 2.5e15, 1.0])
    np.testing.assert_allclose(friction_selection._finite_weights(np.zeros(2)), [1e200, 1e200])


def test_laws_of_a_size_have_three_cold_terms_at_most_and_any_warm_ones():
    names = ("ASYMMETRIC", "CUBIC", "ROOT", "LOAD", "TEMPERATURE", "TEMPERATURE_VISCOUS")
    kinds = [FrictionKind[name] for name in names]
    columns = tuple((kind, False) for kind in kinds)
    for size in range(1, 7):
        groups = [one for one in itertools.combinations(range(6), size) if sum(k < 4 for k in one) <= 3]
        found = friction_selection._laws_of_size(columns, size, False)
        assert list(found.sets) == groups
        for one, evidence in zip(found.sets, found.evidence, strict=True):
            assert evidence.tolist() == [{0: 4.0, 1: 2.5}.get(k, 0.0) if k in one else 0.0 for k in range(6)]
        every = friction_selection._laws_of_size(columns, size, True).sets
        assert list(every) == list(itertools.combinations(range(6), size)), "asked for, any number"
    (width,) = friction_selection._laws_of_size(columns, 2, False).by_width
    np.testing.assert_array_equal(width[2], [[k not in (0, 4, 5) for k in one] for one in width[1]])


@pytest.mark.parametrize(("cold", "warm", "sizes"), [(2, 0, [1, 2]), (5, 0, [1, 2, 3]), (5, 2, [1, 2, 3, 4, 5]),
                                                     (2, 2, [1, 2, 3, 4])])  # fmt: skip
def test_laws_grow_to_three_cold_terms_and_all_warm_ones(monkeypatch, cold, warm, sizes):
    names = ("ASYMMETRIC", "CUBIC", "ROOT", "LOAD", "LOAD_VISCOUS")[:cold]
    terms = [FrictionTerm(1, FrictionKind[name]) for name in names]
    terms += [FrictionTerm(1, kind, reference=20.0) for kind in list(FrictionKind)[-2:][:warm]]
    asked = []

    def tried(given, laws):
        asked.append(len(laws.sets[0]))
        return np.zeros((len(laws.sets), 10)), np.zeros(len(laws.sets), dtype=bool)

    monkeypatch.setattr(friction_selection, "_tried", tried)
    judge = friction_selection._Judge(np.zeros((10, 1, 1)), 1000.0, [5.0] * 9, 10)
    given = SimpleNamespace(e=np.full(10, 10.0), own=lambda squares, law: 100.0)
    assert friction_selection._law(given, judge, terms, force=False) == ((), []) and asked == sizes


@pytest.mark.parametrize(("gains", "parts", "scatter"), [
    ([1.0, 1.2, 20.0], 3, np.std([1.0, 1.2, 20.0], ddof=1) * np.sqrt(3)),  # too few to leave one out
    ([1.0, 1.2, 1.1, 20.0], 4, np.std([1.0, 1.2, 1.1], ddof=1) * np.sqrt(3) * 23.3 / 3.3),
    ([-1.0, -1.2, 1.1, 20.0], 4, np.std([-1.0, -1.2, 1.1, 20.0], ddof=1) * 2.0),  # the others lose
    ([1.0, 3.0, 2.0, 3.0], 4, np.std([1.0, 3.0, 2.0, 3.0], ddof=1) * 2.0),  # the smaller of both
])  # fmt: skip
def test_the_scatter_of_a_gain(gains, parts, scatter):
    gain, found, everywhere = friction_selection._gain(np.array(gains), parts)
    assert gain == pytest.approx(sum(gains)) and found == pytest.approx(scatter) and everywhere
    more = [friction_selection._gain(np.array([*gains, *rest]), parts)[2] for rest in ([2.0, -1.0], [1.0, -2.0])]
    assert more == [True, False]


def test_a_law_that_one_recording_contradicts_is_not_taken():
    rng = np.random.default_rng(5)
    sigma, W = np.array([0.1, 0.02]), rows_of(4)
    half = W.shape[2] // 2
    tau = np.einsum("b,bjt->jt", TRUTH, W) + sigma[:, None] * rng.normal(size=W.shape[1:])
    tau[1, :half] += 1.0 * W[8, 1, :half]
    tau[1, half:] += 0.1 * W[8, 1, half:]  # half of each says what helps on average, and neither predicts the other
    together, apart = (select_terms(informed(W, tau, count), TERMS, sigma) for count in (1, 2))
    assert 3 in together.chosen and 3 not in apart.chosen


def test_laws_that_are_asked_for_are_taken_unless_their_sign_cannot_be():
    rng = np.random.default_rng(6)
    sigma, W = np.array([0.1, 0.02]), rows_of(5)
    tau = np.einsum("b,bjt->jt", TRUTH, W) + sigma[:, None] * rng.normal(size=W.shape[1:])
    tau[0] += 0.2 * W[5, 0] + 0.3 * W[6, 0] + 0.4 * W[7, 0]
    tau[1] += 0.1 * W[8, 1] + 0.2 * W[11, 1]
    found = select_terms(informed(W, tau), TERMS, sigma, force=True)
    assert found.chosen == (0, 1, 2, 3, 6, 7)
    tau[0] -= 0.6 * W[6, 0]
    found = select_terms(informed(W, tau), TERMS, sigma, force=True)
    assert found.chosen == (0, 2, 3, 6, 7), "a cubic term that drives is left out"
    assert all(trial.chosen for trial in found.trials)


def test_columns_that_are_not_told_apart_and_few_blocks_give_no_term():
    rng = np.random.default_rng(7)
    sigma, W = np.array([0.1, 0.02]), rows_of(6)
    W[7, 0] = 2.0 * W[0, 0] - W[1, 0]  # what viscous and Coulomb friction are already
    tau = np.einsum("b,bjt->jt", TRUTH, W) + sigma[:, None] * rng.normal(size=W.shape[1:])
    tau[0] += 0.5 * W[6, 0]
    information = informed(W, tau)
    found = select_terms(information, TERMS, sigma)
    assert found.chosen == (1,) and not any(ROOT in {term.kind for term in trial.terms} for trial in found.trials)
    assert select_terms(information.take([0, 1]), TERMS, sigma).trials == ()
    assert select_terms(information, (), sigma).chosen == ()


@pytest.mark.parametrize(("apart", "possible"), [(1e-4, False), (1e-2, True)])
def test_terms_that_are_not_told_from_each_other_are_not_in_one_law(apart, possible):
    """Each alone may be: of the squared norm of a column a millionth must be its own."""
    rng = np.random.default_rng(8)
    sigma, W = np.array([0.1, 0.02]), rows_of(6)
    W[7, 0] = W[6, 0] + apart * np.linalg.norm(W[6, 0]) * np.linalg.qr(rng.normal(size=(300, 1)))[0][:, 0]
    tau = np.einsum("b,bjt->jt", TRUTH, W) + sigma[:, None] * rng.normal(size=W.shape[1:])
    tau[0] += 0.5 * W[6, 0]
    information = informed(W, tau)
    squares = friction_selection._normal_equations(information, friction_selection.block_folds(information, 10))
    always = ByHand(W, tau, sigma**-2.0, 1).always()
    reduced = friction_selection._reduced(squares, sigma**-2.0, information, len(TERMS), np.array(always), 10)
    _, _, told = reduced.laws(np.array([[1, 2], [0, 1]]))
    assert told.tolist() == [possible, True] and reduced.laws(np.array([[1], [2]]))[2].all()
    found = select_terms(information, TERMS, sigma)
    if not possible:
        laws = [{term.kind for term in trial.terms} for trial in found.trials if trial.joint == 1]
        assert laws and not any({CUBIC, ROOT} <= law for law in laws)


# --- what is done with the terms that were chosen


@pytest.mark.parametrize(("cutoff", "rate", "share"), [(None, 50.0, 1.0), (10.0, 50.0, 0.4), (40.0, 50.0, 1.0)])
def test_two_rows_of_a_period_of_the_filter_are_independent(cutoff, rate, share):
    assert friction_law._independent(SimpleNamespace(row_cutoff=cutoff, row_rate=rate)) == pytest.approx(share)


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
    found = friction_law._certain(terms[: 1 + n], 1, np.array([9.0, *value]), C[: 1 + n, : 1 + n])
    if deviations is None:
        deviations = np.sqrt(np.array(value) @ np.linalg.inv(np.array(variance)) @ np.array(value))
    assert found == pytest.approx(deviations)
    either = (FrictionTerm(1, ASYMMETRIC),)
    assert friction_law._certain(either, 0, np.array([-0.6]), np.array([[0.04]])) == pytest.approx(3.0)
    assert friction_law._certain(terms, 2, np.zeros(3), np.eye(3)) == np.inf, "a shape does not leave alone"


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
    law, terms = friction_law._significant(information, LAW, sign_rows)
    assert terms == left
    assert law.layout == ColumnLayout(5, 1, 0, len(left)) and law.size == 6 + len(left)
    kept = [*range(5), *(5 + LAW.index(term) for term in left), 9]
    A = np.vstack([W[kept, 0].T / 0.1, W[kept, 1].T / 0.02])
    by_hand = np.linalg.lstsq(A, np.concatenate((tau[0] / 0.1, tau[1] / 0.02)), rcond=None)[0]
    np.testing.assert_allclose(wls(law).value, by_hand, rtol=0.1, atol=0.02)


@pytest.mark.parametrize(("certain", "left"), [
    ({0: 3.0, 1: 9.0, 3: 4.0}, LAW),
    ({0: 2.9, 1: 9.0, 3: 2.8}, LAW[1:3]),
    ({0: 4.0, 1: -9.0, 3: 2.9}, LAW[:1]),
    ({0: 9.0, 1: 0.0, 3: 9.0}, (LAW[0], LAW[3])),
])  # fmt: skip
def test_terms_of_less_than_three_deviations_leave_one_by_one_the_weakest_first(monkeypatch, certain, left):
    asked = []

    def told(terms, k, value, covariance):
        asked.append(terms)
        return certain.get(LAW.index(terms[k]), np.inf)

    monkeypatch.setattr(friction_law, "_certain", told)
    information, *_ = law_information(2, {0: 1.0, 1: 0.4, 3: -0.5})
    law, terms = friction_law._significant(information, LAW, sign_rows)
    assert terms == left and law.layout.n_friction == len(left)
    if certain[3] == 2.8:
        assert [one for one, _ in itertools.groupby(asked)] == [LAW, LAW[:3], LAW[1:3]]


def test_terms_whose_sign_cannot_be_leave_with_their_shape():
    information, *_ = law_information(3, {0: 1.0, 1: -0.4, 3: -0.5})

    def fit(part, terms):
        return friction_law._braking_value(part, sign_rows(terms, part.size))

    terms, value = friction_law._of_possible_sign(information, LAW, (0, 1, 2, 3), fit)
    assert terms == (LAW[0], LAW[3])
    assert value[5] == pytest.approx(1.0, abs=0.1) and value[6] == pytest.approx(-0.5, abs=0.1) and len(value) == 8
    terms, value = friction_law._of_possible_sign(information, LAW, (1, 2), fit)
    assert terms == () and value.shape == (0,)
    terms, value = friction_law._of_possible_sign(information, LAW, (1, 2, 3), fit)
    assert terms == LAW[3:] and len(value) == 7
    terms, value = friction_law._of_possible_sign(information, LAW, (3,), fit)
    assert terms == LAW[3:] and value[5] < 0.0, "of either sign"
    every = friction_law._with_terms(information, [0, 3])
    np.testing.assert_array_equal(every.columns[0], [0, 1, 2, 5, 6, 7])
    np.testing.assert_array_equal(every.columns[1], [2, 3, 4, 7])


def test_a_law_with_a_term_that_left_was_not_taken():
    laws = [(LAW[0],), (LAW[0], LAW[3]), (FrictionTerm(2, ROOT),), (FrictionTerm(1, CUBIC),)]
    trials = [Trial(terms, terms[0].joint, 0.5, 0.1, chosen) for terms, chosen in zip(laws, (1, 1, 1, 0), strict=True)]
    found = friction_law._judged_again(trials, {LAW[3], LAW[2]})
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
    found = friction_law._with_shapes(ROBOT, terms, np.array(value), np.array([1.0, 2.0, 3.0]), gone)
    assert [(t.joint, t.kind, t.of_shape) for t in found] == [(t.joint, t.kind, t.of_shape) for t in expected]
    for one, wanted in zip(found, expected, strict=True):
        assert (one.speed, one.exponent) == pytest.approx((wanted.speed, wanted.exponent))
    assert gone == fixed


def test_top_speeds_are_those_of_active_joints():
    robot = SimpleNamespace(active=(2, 5))
    terms = (*stribeck(0.85, 5), *stribeck(0.85, 2))
    found = friction_law._with_shapes(robot, terms, np.array([2.0, 1.0, 2.0, 1.0]), np.array([9.0, 2.0]), gone := set())
    assert gone == {5} and [term.speed for term in found] == pytest.approx([0.9, *[0.85 * np.exp(0.47)] * 2])


def test_shapes_that_are_fixed_stay_without_a_column():
    for fixed in ({2}, set()):
        found = friction_law._with_shapes(ROBOT, stribeck(0.2), np.array([2.0, 0.0]), TOP, fixed)
        assert found == (stribeck(0.2)[:1] if fixed else stribeck(0.2))


def test_columns_of_a_load_stay_where_terms_leave():
    rng = np.random.default_rng(0)
    R = rng.normal(size=(9, 8))
    information = Information((Block((R,), np.array([9]), 0.0, 1.0),), (np.arange(7),), ColumnLayout(1, 1, 2, 3))
    found = friction_law._with_terms(information, [0, 2])
    assert found.layout == ColumnLayout(1, 1, 2, 2)
    kept = R[:, [0, 1, 3, 4, 5, 6, 7]]
    np.testing.assert_allclose(found.triangle(0).T @ found.triangle(0), kept.T @ kept, atol=1e-9)


def with_terms(*terms):
    return replace(ROBOT, friction=terms)


def exact_motion(robot, seed=1, count=900):
    """Return smooth motion with the robot's torques and a trace of noise, every sample a row."""
    rng = np.random.default_rng(seed)
    t = np.arange(count) / 50.0
    amplitude, phase = rng.uniform(0.1, 0.35, (3, 5)), rng.uniform(0.0, 6.3, (3, 5))
    w = 2.0 * np.pi * np.array([0.1, 0.2, 0.3, 0.5, 0.7])
    waves = [np.sin(np.multiply.outer(t, w)[:, None] + phase + k * np.pi / 2) for k in range(3)]
    q, dq, ddq = (np.sum(amplitude * w**k * wave, axis=2) for k, wave in enumerate(waves))
    tau = inverse_dynamics(robot, standard_vector(robot), q, dq, ddq)
    return as_prepared(robot, q, dq, ddq, tau + 1e-3 * rng.normal(size=tau.shape), t)


BASE = base_parameters(ROBOT)


def law_of(true, friction, method=Method.WLS, **more):
    prepared = [exact_motion(with_terms(*true))]
    return with_law(
        ROBOT, BASE, prepared, build_information(ROBOT, BASE, prepared, delay=False), friction, method, **more
    )


@pytest.mark.parametrize(
    "changed", [{"gain": 1e6}, {"chance": 1e-12}, {"terms": 0}, {"significance": 1e6}, {"collinear": 1.0}]
)
def test_thresholds_are_those_that_are_passed(changed):
    """With any of these no term is taken that is taken by default."""
    true = [FrictionTerm(2, LOAD, 0.3)]
    assert [term.kind for term in law_of(true, "auto").terms] == [LOAD]
    assert law_of(true, "auto", thresholds=replace(DEFAULTS, **changed)).terms == ()


@pytest.mark.parametrize(("true", "friction"), [
    (FrictionTerm(2, LOAD, 0.3), "auto"),
    (FrictionTerm(2, LOAD, 0.3), "joint2=load"),
    (FrictionTerm(3, STRIBECK, 2.0, speed=0.25), "joint3=stribeck"),
    (FrictionTerm(3, STRIBECK, 2.0, speed=0.25), "auto"),
    (FrictionTerm(1, POWER, 3.0, exponent=1.9), "joint1=power"),
])  # fmt: skip
def test_the_law_of_exact_data_is_found_with_its_shape(true, friction):
    names = {f"joint{k + 1}": name for k, name in enumerate(ROBOT.active_names)}
    for given, name in names.items():
        friction = friction.replace(f"{given}=", f"{name}=")
    law = law_of([true], friction)
    (found,) = identified_terms(law.terms, wls(law.information))
    assert (found.joint, found.kind) == (true.joint, true.kind)
    assert found.coefficient == pytest.approx(true.coefficient, rel=0.01)
    assert found.speed == pytest.approx(true.speed, rel=0.01)
    assert found.exponent == pytest.approx(true.exponent, rel=0.01)
    assert any(trial.chosen and trial.joint == true.joint for trial in law.tried)
    estimate = wls(law.information)
    value = BASE.values(ROBOT, standard_vector(ROBOT))
    np.testing.assert_allclose(estimate.base, value, atol=0.02 * np.abs(value).max())


def traced(monkeypatch, name):
    """Return what the law asks of a function, and what it gets."""
    real, calls = getattr(friction_law, name), []

    def told(*args, **more):
        found = real(*args, **more)
        calls.append((args, more, found))
        return found

    monkeypatch.setattr(friction_law, name, told)
    return calls


def test_the_slowest_filter_of_several_recordings_decides(monkeypatch):
    parts = [exact_motion(ROBOT, seed, 400) for seed in (1, 2)]
    parts = [replace(p, filter=replace(p.filter, slow=slow, row_cutoff=cutoff, row_rate=50.0))
             for p, slow, cutoff in zip(parts, (0.03, 0.01), (20.0, 5.0), strict=True)]  # fmt: skip
    near, chosen = traced(monkeypatch, "near_standstill"), traced(monkeypatch, "select_terms")
    information = build_information(ROBOT, BASE, parts, delay=False)
    for order in (parts, parts[::-1]):
        near.clear(), chosen.clear()
        with_law(ROBOT, BASE, order, information, "auto", Method.WLS)
        ((_, _, top, slow), _, _), (args, asked, _) = *near, *chosen
        assert slow == 0.03 and asked["independent"] == pytest.approx(0.2)
        np.testing.assert_array_equal(top, np.maximum(*(p.top_speed for p in parts)))
        assert args[0].layout.n_friction == len(args[1]) + 3, "what each joint lacks near standstill beside them"
    near.clear(), chosen.clear()
    with_law(ROBOT, BASE, parts, information, "load", Method.WLS)
    assert not near and chosen[0][1]["force"] and chosen[0][0][0].layout.n_friction == 3


@pytest.mark.parametrize("law", ["auto", "temperature"])
def test_speeds_and_temperatures_of_all_recordings_say_what_may_be_tried(monkeypatch, law):
    """20 to 21 degrees in one and 24 to 25 in the other are a change of 5 K."""
    parts = [
        replace(p, temperature=np.tile(np.linspace(low, low + 1.0, 300)[:, None], 3), top_speed=speed * p.top_speed,
                temperatures=np.array([[low] * 3, [low + 1.0] * 3]))
        for p, low, speed in zip([exact_motion(ROBOT, k, 300) for k in (1, 2)], (20.0, 24.0), (0.5, 1.0), strict=True)
    ]  # fmt: skip
    asked = traced(monkeypatch, "candidates" if law == "auto" else "given_terms")
    with_law(ROBOT, BASE, parts, build_information(ROBOT, BASE, parts, delay=False), law, Method.WLS)
    ((args, _, terms),) = asked
    np.testing.assert_array_equal(args[-1], [[20.0] * 3, [25.0] * 3])
    np.testing.assert_array_equal(args[-2], np.maximum(*(p.top_speed for p in parts)))
    assert {term.reference for term in terms if "temperature" in str(term.kind)} == {22.5}


def test_a_law_of_which_nothing_is_left_is_plain_friction_with_what_was_tried(monkeypatch):
    """Also where its terms are not significant in the fit with all of them."""
    monkeypatch.setattr(friction_law, "_significant", lambda law, *_: (law, ()))
    chosen = traced(monkeypatch, "select_terms")
    prepared = [exact_motion(with_terms(FrictionTerm(2, LOAD, 0.3)))]
    information = build_information(ROBOT, BASE, prepared, delay=False)
    none = with_law(ROBOT, BASE, prepared, information, "auto", Method.WLS)
    assert none.terms == () and none.information is information and none.prepared == tuple(prepared)
    trials = chosen[0][2].trials
    assert any(trial.chosen for trial in trials) and none.tried == tuple(replace(t, chosen=False) for t in trials)
    monkeypatch.setattr(friction_law, "_of_possible_sign", lambda *_: ((), np.empty(0)))
    none = with_law(ROBOT, BASE, prepared, information, "load", Method.WLS)
    assert none.terms == () and none.information is information and not any(trial.chosen for trial in none.tried)


def test_plain_friction_stays_plain_and_the_energy_model_has_no_terms():
    law = law_of([], "auto")
    assert law.terms == () and law.tried and law.information.layout.n_friction == 0
    plain = law_of([FrictionTerm(2, LOAD, 0.3)], "viscous+coulomb")
    assert plain.terms == () and plain.tried == ()
    energy = law_of([FrictionTerm(2, LOAD, 0.3)], "auto", Method.ENERGY)
    assert energy.terms == () and energy.information.layout.n_friction == 0
    with pytest.raises(InputError, match="energy model has no friction terms"):
        law_of([], "load", Method.ENERGY)
    assert law_of([], "viscous+coulomb", Method.ENERGY).terms == ()


# --- terms with what was estimated


def estimate_of(value, std, identified=None):
    known = np.ones(len(value) + 1, dtype=bool) if identified is None else np.array([True, *identified])
    covariance = np.diag(np.array([1.0, *std]) ** 2)
    layout = ColumnLayout(1, 0, 0, len(value))
    return Estimate(layout, np.array([5.0, *value]), covariance, known, np.ones(1), 1.0, 1, Method.WLS)


def test_terms_with_what_was_estimated():
    terms = (FrictionTerm(1, ROOT), FrictionTerm(1, ASYMMETRIC), *stribeck(0.2), *power(1.5), FrictionTerm(3, CUBIC))
    found = identified_terms(terms, estimate_of(
        (-0.3, -0.4, 2.0, 0.5, 4.0, -0.8, 0.7), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), [True] * 6 + [False]
    ))  # fmt: skip
    assert [(term.joint, term.kind) for term in found] == [
        (1, ROOT), (1, ASYMMETRIC), (2, STRIBECK), (3, POWER), (3, CUBIC),
    ]  # fmt: skip
    assert [term.coefficient for term in found] == [0.0, -0.4, 2.0, 4.0, 0.7]
    assert [term.std for term in found] == pytest.approx([0.1, 0.2, 0.3, 0.5, None])
    assert found[2].speed == pytest.approx(0.2 * np.exp(0.25)) and found[2].speed_std == pytest.approx(0.2 * 0.4 / 2.0)
    assert found[3].exponent == pytest.approx(1.3) and found[3].exponent_std == pytest.approx(0.6 / 4.0)
    assert found[0].speed_std is found[0].exponent_std is None
    driving = identified_terms(stribeck(0.2), estimate_of((-1.0, 0.5), (0.1, 0.1)))
    assert driving[0].coefficient == 0.0 and driving[0].speed == 0.2 and driving[0].speed_std is None
    unknown = identified_terms(stribeck(0.2), estimate_of((1.0, 0.2), (0.1, 0.1), [True, False]))
    assert unknown[0].speed == pytest.approx(0.2 * np.exp(0.2)) and unknown[0].speed_std is None


def test_the_covariance_of_a_law_is_that_of_its_own_columns_with_base_parameters_and_each_other():
    """Where a shape is known its column counts too; where a term has left the order is that of the law."""
    terms = (FrictionTerm(1, ROOT), *stribeck(0.2), FrictionTerm(3, CUBIC))
    layout = ColumnLayout(2, 1, 0, 4)
    S = np.random.default_rng(0).normal(size=(7, 7))
    C, value = S @ S.T, np.array([5.0, 6.0, 0.3, 2.0, 0.5, 0.7, 0.01])

    def found(identified, value=value, C=C):
        return Estimate(layout, value, C, np.array(identified), np.ones(1), 1.0, 7, Method.WLS)

    every = [True] * 7
    np.testing.assert_array_equal(friction_covariance(terms, found(every)), C[2:6][:, [0, 1, 2, 3, 4, 5]])
    no_shape = [True, True, True, True, False, True, True]
    np.testing.assert_array_equal(friction_covariance(terms, found(no_shape)), C[np.ix_([2, 3, 5], [0, 1, 2, 3, 5])])
    driving = value * np.where(np.arange(7) == 3, -1.0, 1.0)  # without a coefficient there is no shape
    assert friction_covariance(terms, found(every, driving)).shape == (3, 5)
    assert friction_covariance(terms, found([True, True, False, True, True, True, True])) is None
    assert friction_covariance(terms, found(every, C=np.where(np.eye(7) > 0, np.nan, C))) is None
    bare = Estimate(ColumnLayout(2), value[:2], C[:2, :2], np.array([True] * 2), np.ones(1), 1.0, 2, Method.WLS)
    assert friction_covariance((), bare) is None


@pytest.mark.parametrize(("change", "ratio"), [(0.3, np.exp(0.3)), (-0.3, np.exp(-0.3)), (2.0, np.exp(0.47)),
                                               (-2.0, np.exp(-0.47))])  # fmt: skip
def test_a_shape_changes_by_a_step_of_the_grid_at_most(change, ratio):
    stribeck = FrictionTerm(1, FrictionKind.STRIBECK, speed=0.3)
    assert change_shape(stribeck, change).speed == pytest.approx(0.3 * ratio)
    assert change_shape(power(2.0)[0], change).exponent == pytest.approx(2.0 + np.log(ratio))


# --- laws by name

TOP = np.array([1.0, 2.0, 4.0])


def test_every_term_that_a_joint_may_have():
    found = candidates(ROBOT, TOP)
    cold = [kind for kind in FrictionKind if kind is not POWER and "temperature" not in str(kind)]
    for joint, top in enumerate(TOP, start=1):
        own = [term for term in found if term.joint == joint]
        assert list(dict.fromkeys(term.kind for term in own)) == cold
        speeds = [(term.speed, term.of_shape) for term in own if term.kind is STRIBECK]
        assert speeds == [(pytest.approx(share * top), of) for share in STRIBECK_SHARES for of in (False, True)]
    assert all(term.coefficient == 0.0 for term in found)
    warm = candidates(ROBOT, TOP, np.array([[20.0, 30.0, np.nan], [21.9, 32.5, np.nan]]))
    more = [(term.joint, str(term.kind), term.reference) for term in warm if "temperature" in str(term.kind)]
    assert more == [(2, "temperature", 31.2), (2, "temperature_viscous", 31.2)], "2 K at least"
    edge = candidates(ROBOT, TOP, np.array([[20.0, 20.0, 20.0], [22.0, 21.9, 22.1]]))
    assert {term.joint for term in edge if "temperature" in str(term.kind)} == {1, 3}
    joints = [replace(joint, measured_drive=()) if k == 1 else joint for k, joint in enumerate(ROBOT.joints)]
    at_link = replace(ROBOT, joints=tuple(joints), parameters={})
    assert {term.joint for term in candidates(at_link, TOP)} == {1, 3}
    still = candidates(ROBOT, np.array([0.0, 2.0, 4.0]))
    assert STRIBECK not in {term.kind for term in still if term.joint == 1}


def test_shapes_that_are_tried_are_a_step_of_the_grid_apart():
    assert STRIBECK_SHARES[0] == pytest.approx(0.04) and len(STRIBECK_SHARES) == 4
    np.testing.assert_allclose(np.diff(np.log(STRIBECK_SHARES)), STEP, atol=0.02)
    for lowest, highest, farthest in ((0.2, 0.9, 0.26), (1.1, 3.8, DEFAULTS.shape_change + 1e-9)):
        near = [p for p in POWERS if (p < 1.0) == (highest < 1.0)]
        assert all(min(abs(p - x) for p in near) <= farthest for x in np.linspace(lowest, highest, 200))
    assert len(POWERS) == 5 and tuple(sorted(POWERS)) == POWERS, "on either side of viscous friction"


def test_what_friction_lacks_near_standstill():
    terms = [FrictionTerm(3, LOAD), FrictionTerm(1, LOAD), FrictionTerm(1, ROOT)]
    found = near_standstill(ROBOT, terms, TOP, 0.02)
    assert [(t.joint, t.kind, t.speed) for t in found] == [
        (1, STRIBECK, pytest.approx(0.01)), (3, STRIBECK, pytest.approx(0.04)),
    ]  # fmt: skip
    assert near_standstill(ROBOT, terms, TOP, 0.0) == ()


def test_laws_that_can_be_asked_for():
    for law in ("auto", "load", "viscous+coulomb", "elbow=load,wrist=cubic+load", "elbow=stribeck"):
        check_law(law)
    for law, word in (("auto+load", "auto"), ("elbow=load,wrist=glue", "glue"), ("load,", ""), ("a=b=load", "b=load")):
        with pytest.raises(InputError, match=f"unknown term '{word}'; write auto, or terms from viscous"):
            check_law(law)


def test_terms_of_a_law_by_name():
    a, b, c = ROBOT.active_names
    found = given_terms(ROBOT, "load+viscous+root", TOP)
    assert [(t.joint, t.kind) for t in found] == [(j, kind) for j in (1, 2, 3) for kind in (LOAD, ROOT)]
    found = given_terms(ROBOT, f"{c}=cubic,{a}=power+coulomb", TOP)
    assert [(t.joint, t.kind, t.exponent, t.of_shape) for t in found] == [
        *((1, POWER, p, of) for p in POWERS for of in (False, True)), (3, CUBIC, 0.0, False),
    ]  # fmt: skip
    assert given_terms(ROBOT, "viscous+coulomb", TOP) == ()
    warmth = np.array([[20.0, 20.0, np.nan], [20.3, 20.0, np.nan]])
    (term,) = given_terms(ROBOT, f"{a}=temperature", TOP, warmth)
    assert term.reference == pytest.approx(20.1, abs=0.11), "asked for, it needs no 2 K"
    for name, words in ((b, "does not change"), (c, "is not recorded")):
        with pytest.raises(InputError, match=words):
            given_terms(ROBOT, f"{name}=temperature_viscous", TOP, warmth)
    joints = [replace(joint, measured_drive=()) if k == 1 else joint for k, joint in enumerate(ROBOT.joints)]
    at_link = replace(ROBOT, joints=tuple(joints), parameters={})
    assert {term.joint for term in given_terms(at_link, "load", TOP)} == {1, 3}
    with pytest.raises(InputError, match="measured at the link"):
        given_terms(at_link, f"{b}=load", TOP)
    with pytest.raises(InputError, match="names the joint 'nobody'"):
        given_terms(ROBOT, "nobody=load", TOP)
    np.testing.assert_array_equal(top_speeds([np.array([1.0, 5.0]), np.array([2.0, 3.0])]), [2.0, 5.0])
