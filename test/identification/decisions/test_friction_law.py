# SPDX-License-Identifier: Apache-2.0

"""What is done with the terms that were chosen: significance, shapes, gear torques; the law as a whole."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from friction_rows import BLOCKS, ROWS, SLOW, TRUTH, rows_of
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.decisions import friction_law
from ros2_dynid.identification.decisions.friction_law import choose_friction_law
from ros2_dynid.identification.decisions.friction_selection import DEFAULTS, Trial
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.estimate import ColumnLayout, identified_terms
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector

ROBOT = load_robot("demo3")
CUBIC, ROOT, ASYMMETRIC, STRIBECK, LOAD, POWER = (
    FrictionKind[name] for name in ("CUBIC", "ROOT", "ASYMMETRIC", "STRIBECK", "LOAD", "POWER")
)

STRIBECK_SHARES, POWERS = STRIBECK.shape.tried, POWER.shape.tried

# --- what is done with the terms that were chosen


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
    found = friction_law._deviations(terms[: 1 + n], 1, np.array([9.0, *value]), C[: 1 + n, : 1 + n])
    if deviations is None:
        deviations = np.sqrt(np.array(value) @ np.linalg.inv(np.array(variance)) @ np.array(value))
    assert found == pytest.approx(deviations)
    either = (FrictionTerm(1, ASYMMETRIC),)
    assert friction_law._deviations(either, 0, np.array([-0.6]), np.array([[0.04]])) == pytest.approx(3.0)
    assert friction_law._deviations(terms, 2, np.zeros(3), np.eye(3)) == np.inf, "a shape does not leave alone"


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
    law, terms = friction_law._drop_insignificant_terms(information, LAW, sign_rows, 3.0)
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

    monkeypatch.setattr(friction_law, "_deviations", told)
    information, *_ = law_information(2, {0: 1.0, 1: 0.4, 3: -0.5})
    law, terms = friction_law._drop_insignificant_terms(information, LAW, sign_rows, 3.0)
    assert terms == left and law.layout.n_friction == len(left)
    if certain[3] == 2.8:
        assert [one for one, _ in itertools.groupby(asked)] == [LAW, LAW[:3], LAW[1:3]]


def test_terms_whose_sign_cannot_be_leave_with_their_shape():
    information, *_ = law_information(3, {0: 1.0, 1: -0.4, 3: -0.5})

    terms, value = friction_law._drop_pushing_terms(information, LAW, (0, 1, 2, 3), sign_rows)
    assert terms == (LAW[0], LAW[3])
    assert value[5] == pytest.approx(1.0, abs=0.1) and value[6] == pytest.approx(-0.5, abs=0.1) and len(value) == 8
    terms, value = friction_law._drop_pushing_terms(information, LAW, (1, 2), sign_rows)
    assert terms == () and value.shape == (0,)
    terms, value = friction_law._drop_pushing_terms(information, LAW, (1, 2, 3), sign_rows)
    assert terms == LAW[3:] and len(value) == 7
    terms, value = friction_law._drop_pushing_terms(information, LAW, (3,), sign_rows)
    assert terms == LAW[3:] and value[5] < 0.0, "of either sign"
    every = friction_law.select_friction(information, [0, 3])
    np.testing.assert_array_equal(every.columns[0], [0, 1, 2, 5, 6, 7])
    np.testing.assert_array_equal(every.columns[1], [2, 3, 4, 7])


def test_a_law_with_a_term_that_left_was_not_taken():
    laws = [(LAW[0],), (LAW[0], LAW[3]), (FrictionTerm(2, ROOT),), (FrictionTerm(1, CUBIC),)]
    trials = [Trial(terms, terms[0].joint, 0.5, 0.1, chosen) for terms, chosen in zip(laws, (1, 1, 1, 0), strict=True)]
    found = friction_law._without_terms(trials, {LAW[3], LAW[2]})
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
    found = friction_law._refine_shapes(ROBOT, terms, np.array(value), np.array([1.0, 2.0, 3.0]), gone)
    assert [(t.joint, t.kind, t.of_shape) for t in found] == [(t.joint, t.kind, t.of_shape) for t in expected]
    for one, wanted in zip(found, expected, strict=True):
        assert (one.speed, one.exponent) == pytest.approx((wanted.speed, wanted.exponent))
    assert gone == fixed


def test_top_speeds_are_those_of_active_joints():
    robot = SimpleNamespace(active=(2, 5))
    terms, gone = (*stribeck(0.85, 5), *stribeck(0.85, 2)), set()
    found = friction_law._refine_shapes(
        robot, terms, np.array([2.0, 1.0, 2.0, 1.0]), np.array([9.0, 2.0]), gone := set()
    )
    assert gone == {5} and [term.speed for term in found] == pytest.approx([0.9, *[0.85 * np.exp(0.47)] * 2])


def test_shapes_that_are_fixed_stay_without_a_column():
    for fixed in ({2}, set()):
        found = friction_law._refine_shapes(ROBOT, stribeck(0.2), np.array([2.0, 0.0]), np.ones(3), fixed)
        assert found == (stribeck(0.2)[:1] if fixed else stribeck(0.2))


def test_columns_of_a_load_stay_where_terms_leave():
    rng = np.random.default_rng(0)
    R = rng.normal(size=(9, 8))
    information = Information((Block((R,), np.array([9]), 0.0, 1.0),), (np.arange(7),), ColumnLayout(1, 1, 2, 3))
    found = friction_law.select_friction(information, [0, 2])
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
    return choose_friction_law(
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
    assert any(trial.chosen and trial.joint == true.joint for trial in law.trials)
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
    near, chosen = traced(monkeypatch, "build_standstill_terms"), traced(monkeypatch, "select_terms")
    information = build_information(ROBOT, BASE, parts, delay=False)
    for order in (parts, parts[::-1]):
        near.clear(), chosen.clear()
        choose_friction_law(ROBOT, BASE, order, information, "auto", Method.WLS)
        ((_, _, top, slow), _, _), (args, asked, _) = *near, *chosen
        assert slow == 0.03 and asked["independent"] == pytest.approx(0.2)
        np.testing.assert_array_equal(top, np.maximum(*(p.top_speed for p in parts)))
        assert args[0].layout.n_friction == len(args[1]) + 3, "what each joint lacks near standstill beside them"
    near.clear(), chosen.clear()
    choose_friction_law(ROBOT, BASE, parts, information, "load", Method.WLS)
    assert not near and chosen[0][1]["force"] and chosen[0][0][0].layout.n_friction == 3


def test_a_motion_that_repeats_is_left_out_by_parts_of_its_period(monkeypatch):
    """Or each stretch left out would have the motion of another, and whatever repeats with it, such as a gear's ripple,
    would look like a term."""
    chosen = traced(monkeypatch, "select_terms")
    for count, repeats in ((700, False), (1500, True)):
        prepared = [exact_motion(with_terms(FrictionTerm(2, LOAD, 0.3)), count=count)]
        information = build_information(ROBOT, BASE, prepared, delay=False)
        assert bool(information.phases) == repeats
        law = choose_friction_law(ROBOT, BASE, prepared, information, "auto", Method.WLS)
        ((judged, *_), _, _) = chosen.pop()
        blocks = information.phases if repeats else information.blocks
        assert [(block.start, block.end) for block in judged.blocks] == [(block.start, block.end) for block in blocks]
        assert [term.kind for term in law.terms] == [LOAD]


@pytest.mark.parametrize("law", ["auto", "temperature"])
def test_speeds_and_temperatures_of_all_recordings_say_what_may_be_tried(monkeypatch, law):
    """20 to 21 degrees in one and 24 to 25 in the other are a change of 5 K."""
    parts = [
        replace(p, temperature=np.tile(np.linspace(low, low + 1.0, 300)[:, None], 3), top_speed=speed * p.top_speed,
                temperatures=np.array([[low] * 3, [low + 1.0] * 3]))
        for p, low, speed in zip([exact_motion(ROBOT, k, 300) for k in (1, 2)], (20.0, 24.0), (0.5, 1.0), strict=True)
    ]  # fmt: skip
    asked = traced(monkeypatch, "list_candidate_terms" if law == "auto" else "read_law_terms")
    choose_friction_law(ROBOT, BASE, parts, build_information(ROBOT, BASE, parts, delay=False), law, Method.WLS)
    ((args, _, terms),) = asked
    top, temperatures = args[1:3] if law == "auto" else args[2:4]
    np.testing.assert_array_equal(temperatures, [[20.0] * 3, [25.0] * 3])
    np.testing.assert_array_equal(top, np.maximum(*(p.top_speed for p in parts)))
    assert {term.reference for term in terms if "temperature" in str(term.kind)} == {22.5}


def test_a_law_of_which_nothing_is_left_is_plain_friction_with_what_was_tried(monkeypatch):
    """Also where its terms are not significant in the fit with all of them."""
    monkeypatch.setattr(friction_law, "_drop_insignificant_terms", lambda law, *_: (law, ()))
    chosen = traced(monkeypatch, "select_terms")
    prepared = [exact_motion(with_terms(FrictionTerm(2, LOAD, 0.3)))]
    information = build_information(ROBOT, BASE, prepared, delay=False)
    none = choose_friction_law(ROBOT, BASE, prepared, information, "auto", Method.WLS)
    assert none.terms == () and none.information is information and none.prepared == tuple(prepared)
    trials = chosen[0][2].trials
    assert any(trial.chosen for trial in trials) and none.trials == tuple(replace(t, chosen=False) for t in trials)
    monkeypatch.setattr(friction_law, "_drop_pushing_terms", lambda *_: ((), np.empty(0)))
    none = choose_friction_law(ROBOT, BASE, prepared, information, "load", Method.WLS)
    assert none.terms == () and none.information is information and not any(trial.chosen for trial in none.trials)


def test_plain_friction_stays_plain_and_the_energy_model_has_no_terms():
    law = law_of([], "auto")
    assert law.terms == () and law.trials and law.information.layout.n_friction == 0
    plain = law_of([FrictionTerm(2, LOAD, 0.3)], "viscous+coulomb")
    assert plain.terms == () and plain.trials == ()
    energy = law_of([FrictionTerm(2, LOAD, 0.3)], "auto", Method.ENERGY)
    assert energy.terms == () and energy.information.layout.n_friction == 0
    with pytest.raises(InputError, match="energy model has no friction terms"):
        law_of([], "load", Method.ENERGY)
    assert law_of([], "viscous+coulomb", Method.ENERGY).terms == ()
