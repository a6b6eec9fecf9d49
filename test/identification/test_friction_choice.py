"""How friction terms are chosen and finished: against fits to the rows themselves, law by law and fold by fold."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import friction_law, friction_selection
from ros2_dynid.identification.estimators.carried_torque import with_carried
from ros2_dynid.identification.estimators.column_layout import ColumnLayout
from ros2_dynid.identification.estimators.estimate import Estimate
from ros2_dynid.identification.estimators.fit import inform
from ros2_dynid.identification.estimators.friction_law import with_law
from ros2_dynid.identification.estimators.friction_selection import Trial, select_terms
from ros2_dynid.identification.estimators.identified_terms import changed_exponent, identified_terms, speed_ratio
from ros2_dynid.identification.estimators.information import Block, Information
from ros2_dynid.identification.estimators.least_squares import wls
from ros2_dynid.identification.friction.laws import (
    POWERS,
    STRIBECK_SHARES,
    candidates,
    given_terms,
    near_standstill,
    top_speeds,
)
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector

ROBOT = load_robot("demo3")
CUBIC, ROOT, ASYMMETRIC, STRIBECK, LOAD, POWER = (
    FrictionKind[name] for name in ("CUBIC", "ROOT", "ASYMMETRIC", "STRIBECK", "LOAD", "POWER")
)

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
        if any(abs(value[k]) > friction_selection.FARTHEST * abs(value[k - 1]) for k in law if TERMS[k].of_shape):
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
    law, terms = friction_law._significant(information, LAW)
    assert terms == left
    assert law.layout == ColumnLayout(5, 1, 0, len(left)) and law.size == 6 + len(left)
    kept = [*range(5), *(5 + LAW.index(term) for term in left), 9]
    A = np.vstack([W[kept, 0].T / 0.1, W[kept, 1].T / 0.02])
    by_hand = np.linalg.lstsq(A, np.concatenate((tau[0] / 0.1, tau[1] / 0.02)), rcond=None)[0]
    np.testing.assert_allclose(wls(law).value, by_hand, rtol=0.1, atol=0.02)


def test_terms_whose_sign_cannot_be_leave_with_their_shape():
    information, *_ = law_information(3, {0: 1.0, 1: -0.4, 3: -0.5})
    terms, value = friction_law._of_possible_sign(information, LAW, (0, 1, 2, 3))
    assert terms == (LAW[0], LAW[3])
    assert value[5] == pytest.approx(1.0, abs=0.1) and value[6] == pytest.approx(-0.5, abs=0.1) and len(value) == 8
    terms, value = friction_law._of_possible_sign(information, LAW, (1, 2))
    assert terms == () and value.shape == (0,)
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


def test_the_same_torque_is_carried():
    rng = np.random.default_rng(0)
    base = base_parameters(ROBOT)
    prepared = as_prepared(ROBOT, *rng.uniform(-1.0, 1.0, (4, 60, 3)))
    value = base.values(ROBOT, standard_vector(ROBOT))
    carrying = with_carried(ROBOT, base, value, prepared)
    chi = np.zeros(len(standard_vector(ROBOT)))
    chi[base.columns(ROBOT)] = value
    torque = inverse_dynamics(*frictionless(ROBOT, chi), prepared.q, prepared.dq, prepared.ddq)
    np.testing.assert_allclose(carrying.carried, torque, atol=1e-9)
    same = [friction_law._same(ROBOT, base, scale * value, carrying, (carrying,)) for scale in (1.0, 1.015, 0.985)]
    assert same == [True] * 3
    assert not friction_law._same(ROBOT, base, 1.03 * value, carrying, (carrying,))
    one = carrying.carried.copy()
    one[:, 2] *= 1.1
    other = replace(carrying, carried=one)
    assert not friction_law._same(ROBOT, base, value, other, (other,)), "every joint counts"
    assert not friction_law._same(ROBOT, base, value, other, (carrying, other))


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


def law_of(true, friction, method=Method.WLS):
    prepared = [exact_motion(with_terms(*true))]
    return with_law(ROBOT, BASE, prepared, inform(ROBOT, BASE, prepared, delay=False), friction, method)


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


def test_plain_friction_stays_plain_and_the_energy_model_has_no_terms():
    law = law_of([], "auto")
    assert law.terms == () and law.tried and law.information.layout.n_friction == 0
    plain = law_of([FrictionTerm(2, LOAD, 0.3)], "viscous+coulomb")
    assert plain.terms == () and plain.tried == ()
    energy = law_of([FrictionTerm(2, LOAD, 0.3)], "auto", Method.ENERGY)
    assert energy.terms == () and energy.information.layout.n_friction == 0
    with pytest.raises(InputError, match="energy model has no friction terms"):
        law_of([], "load", Method.ENERGY)


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


@pytest.mark.parametrize(("change", "ratio"), [(0.3, np.exp(0.3)), (-0.3, np.exp(-0.3)), (2.0, np.exp(0.47)),
                                               (-2.0, np.exp(-0.47))])  # fmt: skip
def test_a_shape_changes_by_a_step_of_the_grid_at_most(change, ratio):
    assert speed_ratio(change) == pytest.approx(ratio)
    assert changed_exponent(power(2.0)[0], change) == pytest.approx(2.0 + np.log(ratio))


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
    joints = [replace(joint, felt=()) if k == 1 else joint for k, joint in enumerate(ROBOT.joints)]
    at_link = replace(ROBOT, joints=tuple(joints), parameters={})
    assert {term.joint for term in candidates(at_link, TOP)} == {1, 3}
    still = candidates(ROBOT, np.array([0.0, 2.0, 4.0]))
    assert STRIBECK not in {term.kind for term in still if term.joint == 1}


def test_what_friction_lacks_near_standstill():
    terms = [FrictionTerm(3, LOAD), FrictionTerm(1, LOAD), FrictionTerm(1, ROOT)]
    found = near_standstill(ROBOT, terms, TOP, 0.02)
    assert [(t.joint, t.kind, t.speed) for t in found] == [
        (1, STRIBECK, pytest.approx(0.01)), (3, STRIBECK, pytest.approx(0.04)),
    ]  # fmt: skip
    assert near_standstill(ROBOT, terms, TOP, 0.0) == ()


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
    joints = [replace(joint, felt=()) if k == 1 else joint for k, joint in enumerate(ROBOT.joints)]
    at_link = replace(ROBOT, joints=tuple(joints), parameters={})
    assert {term.joint for term in given_terms(at_link, "load", TOP)} == {1, 3}
    with pytest.raises(InputError, match="measured at the link"):
        given_terms(at_link, f"{b}=load", TOP)
    with pytest.raises(InputError, match="names the joint 'nobody'"):
        given_terms(ROBOT, "nobody=load", TOP)
    np.testing.assert_array_equal(top_speeds([np.array([1.0, 5.0]), np.array([2.0, 3.0])]), [2.0, 5.0])
