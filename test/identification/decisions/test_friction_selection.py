# SPDX-License-Identifier: Apache-2.0

"""Friction terms are chosen by what they gain on rows left out, compared with fits to the rows themselves."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from friction_rows import BLOCKS, COUNTS, FEELS, LAYOUT, ROWS, TERMS, TRUTH, rows_of
from ros2_dynid.identification.decisions import friction_selection
from ros2_dynid.identification.decisions.friction_selection import DEFAULTS, select_terms
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")
CUBIC, ROOT, ASYMMETRIC, STRIBECK, LOAD, POWER = (
    FrictionKind[name] for name in ("CUBIC", "ROOT", "ASYMMETRIC", "STRIBECK", "LOAD", "POWER")
)

STRIBECK_SHARES, POWERS = STRIBECK.shape.tried, POWER.shape.tried

# --- the choice, by fits to the rows themselves


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


def chance_of(further, folds, tests):
    return friction_selection._largest_by_chance(further, folds, tests, DEFAULTS.chance)


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

    monkeypatch.setattr(friction_selection, "_held_out_errors", tried)
    chance = [chance_of(d, 10, 2) for d in (1, 2)]
    judge = friction_selection._JointEvidence(np.zeros((10, 1, 1)), 1000.0, chance, 10, DEFAULTS)
    given = SimpleNamespace(e=np.full(10, 10.0), joint_error=lambda squares, law: 100.0)
    law, trials = friction_selection._choose_law(given, judge, terms, force=False)
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

    monkeypatch.setattr(friction_selection, "_held_out_errors", tried)
    judge = friction_selection._JointEvidence(np.zeros((10, 1, 1)), 1e6, (9.0, 1e4, 1e4), 10, DEFAULTS)
    given = SimpleNamespace(e=10.0 + 0.5 * zigzag, joint_error=lambda squares, law: 100.0)
    law, trials = friction_selection._choose_law(given, judge, terms, force=False)
    assert law == (0, 1, 2) and [trial.chosen for trial in trials] == [True, True]
    assert [trial.terms for trial in trials] == [terms[:1], (terms[0], terms[2])]


def test_joints_are_gone_through_again_until_no_law_changes_four_times_at_most(monkeypatch):
    """With each law the weights are those of its own errors, and the other joints' terms are held."""
    W = rows_of(3)
    tau = np.einsum("b,bjt->jt", TRUTH, W) + np.array([[0.1], [0.02]]) * np.random.default_rng(0).normal(size=(2, 300))
    information = informed(W, tau)
    real, held, weights = friction_selection._Reduced.with_held, [], []
    monkeypatch.setattr(friction_selection._Reduced, "with_held",
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
        monkeypatch.setattr(friction_selection, "_choose_law", laws(chosen))
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


def test_an_effort_without_error_does_not_outweigh_the_rest():
    np.testing.assert_allclose(friction_selection._finite_weights(np.array([4.0, 0.0, 1.0])), [0.25, 2.5e15, 1.0])
    np.testing.assert_allclose(friction_selection._finite_weights(np.zeros(2)), [1e200, 1e200])


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

    monkeypatch.setattr(friction_selection, "_held_out_errors", tried)
    judge = friction_selection._JointEvidence(np.zeros((10, 1, 1)), 1000.0, [5.0] * 9, 10, DEFAULTS)
    given = SimpleNamespace(e=np.full(10, 10.0), joint_error=lambda squares, law: 100.0)
    assert friction_selection._choose_law(given, judge, terms, force=False) == ((), []) and asked == sizes


@pytest.mark.parametrize(("gains", "parts", "scatter"), [
    ([1.0, 1.2, 20.0], 3, np.std([1.0, 1.2, 20.0], ddof=1) * np.sqrt(3)),  # too few to leave one out
    ([1.0, 1.2, 1.1, 20.0], 4, np.std([1.0, 1.2, 1.1], ddof=1) * np.sqrt(3) * 23.3 / 3.3),
    ([-1.0, -1.2, 1.1, 20.0], 4, np.std([-1.0, -1.2, 1.1, 20.0], ddof=1) * 2.0),  # the others lose
    ([1.0, 3.0, 2.0, 3.0], 4, np.std([1.0, 3.0, 2.0, 3.0], ddof=1) * 2.0),  # the smaller of both
])  # fmt: skip
def test_the_scatter_of_a_gain(gains, parts, scatter):
    gain, found, everywhere = friction_selection._sum_gains(np.array(gains), parts)
    assert gain == pytest.approx(sum(gains)) and found == pytest.approx(scatter) and everywhere
    more = [friction_selection._sum_gains(np.array([*gains, *rest]), parts)[2] for rest in ([2.0, -1.0], [1.0, -2.0])]
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
    tau[0] += 30.0 * W[6, 0] + 30.0 * W[7, 0]
    information = informed(W, tau)
    laws = [{term.kind for term in trial.terms} for trial in select_terms(information, TERMS, sigma).trials]
    assert {ROOT} in laws and any({CUBIC, ROOT} <= law for law in laws) == possible
