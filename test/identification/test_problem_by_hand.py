# SPDX-License-Identifier: Apache-2.0

"""From recordings to a problem and back: what is read, in pieces or again, moved, filtered and reported."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.candidates import impose_consistency
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare, prepare_pieces
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import restrict
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.regression.prior import Prior, PriorFit, PriorWeight
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 2)


@cache
def recorded(seed=0, seconds=12.0, noise=1e-3, late=0.0):
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 0.005)
    amplitude, phase = rng.uniform(0.1, 0.4, (3, 5)), rng.uniform(0.0, 6.3, (3, 5))
    w = 2.0 * np.pi * np.array([0.1, 0.25, 0.4, 0.6, 0.9])

    def at(time, derivative):
        return np.sum(amplitude * w**derivative * np.sin(np.multiply.outer(time, w)[:, None] + phase
                                                         + derivative * np.pi / 2), axis=2)  # fmt: skip

    tau = inverse_dynamics(ROBOT, CHI, *(at(t - late, k) for k in range(3)))
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    return Samples(t, ROBOT.active_names, at(t, 0) + 1e-6 * rng.normal(size=tau.shape), tau=tau, source=f"run{seed}")


PLAIN = IdentifyOptions(
    friction="viscous+coulomb", preparation=PreparationOptions(row_cutoff=5.0, position_cutoff=25.0)
)


# --- reading


@pytest.mark.parametrize("off", [0, 1])
def test_a_piece_without_any_effort_is_left_out(off):
    """As of a robot whose drives were off at the end of a long recording, or at its beginning."""
    samples = recorded(0)
    pieces = [samples.take(slice(0, 500)), samples.take(slice(500, None))]
    pieces[off] = replace(pieces[off], tau=None)
    found = prepare_pieces(ROBOT, iter(pieces), PLAIN.preparation)
    alone = prepare(ROBOT, pieces[1 - off], PLAIN.preparation)
    np.testing.assert_array_equal(found.tau, alone.tau)
    (note,) = [note.text for note in found.notes if "left out" in note.text]
    assert "has no effort" in note


# --- problems


@cache
def exact(terms=()):
    q, dq, ddq = np.random.default_rng(3).uniform(-1.5, 1.5, (3, 500, 3))
    robot = replace(ROBOT, friction=tuple(terms))
    tau = inverse_dynamics(robot, CHI, q, dq, ddq)
    tau = tau + 0.01 * tau.std(axis=0) * np.random.default_rng(4).normal(size=tau.shape)
    return (as_prepared(ROBOT, q, dq, ddq, tau),)


CUBIC = FrictionTerm(2, FrictionKind.CUBIC, 0.5)


def test_a_problem_without_its_terms_and_estimators_of_blocks():
    terms = (replace(CUBIC, coefficient=0.0), FrictionTerm(3, FrictionKind.ROOT))
    information = build_information(ROBOT, BASE, exact((CUBIC,)), delay=True, terms=terms)
    prior = np.arange(information.size, dtype=float)
    problem = Problem(ROBOT, BASE, exact((CUBIC,)), information, prior, terms)
    plain = problem.plain()
    b = len(BASE)
    assert plain.terms == () and plain.information.layout.n_friction == 0 and plain.information.layout.n_delay == 1
    np.testing.assert_array_equal(plain.prior, [*range(b), b + 2])
    direct = build_information(ROBOT, BASE, exact((CUBIC,)), delay=True)
    for j in range(3):
        A, B = plain.information.triangle(j), direct.triangle(j)
        np.testing.assert_allclose(A.T @ A, B.T @ B, atol=1e-8)
    kept = [*range(b), b + 2]
    again = restrict(information, kept, plain.information.layout)
    np.testing.assert_array_equal(again.columns[1], plain.information.columns[1])
    assert not problem.repeats and problem.with_different_blocks() is problem
    some = list(range(5, 25))
    for method in (Method.OLS, Method.WLS, Method.RECURSIVE, Method.SEQUENTIAL):
        fit = build_estimator(method, problem)
        np.testing.assert_allclose(fit(some).value, build_estimator(method, replace(
            problem, information=information.take(some)))(None).value, rtol=1e-9)  # fmt: skip
        assert fit(None).friction == pytest.approx([0.5, 0.0], abs=0.1) and fit(None).method is method


def test_every_second_chunk_across_parts():
    whole = exact()[0]
    every, half = (build_information(ROBOT, BASE, [whole], delay=False, every=count) for count in (1, 2))
    assert list(every.rows) == [500] * 3 and list(half.rows) == [400] * 3, "chunks of 400 rows, the last of 100"


def test_a_motion_that_repeats_is_kept_by_phase_unless_rows_are_left_out():
    t = np.arange(0.0, 12.0, 0.01)
    w = 2.0 * np.pi / 3.0 * np.array([1.0, 2.0, 3.0])
    q, dq, ddq = (w**k * np.sin(np.outer(t, w) + k * np.pi / 2) for k in range(3))
    whole = as_prepared(ROBOT, q, dq, ddq, inverse_dynamics(ROBOT, CHI, q, dq, ddq), t)
    every, half = (build_information(ROBOT, BASE, [whole], delay=False, every=count) for count in (1, 2))
    assert len(every.phases) == 30 and half.phases == ()
    problem = Problem(ROBOT, BASE, (whole,), every, np.zeros(len(BASE)))
    tested = problem.with_different_blocks()
    assert problem.repeats and tested.information.blocks == every.phases and not tested.repeats


# --- bodies


@pytest.mark.parametrize("method", [Method.WLS, Method.IRLS])
def test_bodies_are_closest_to_the_estimate_of_any_method(method):
    information = build_information(ROBOT, BASE, exact(), delay=False)
    problem = Problem(ROBOT, BASE, exact(), information, np.zeros(len(BASE)))
    found = replace(wls(information), method=method)
    best = impose_consistency(problem, information, found)
    moved = replace(found, value=found.value * 1.02)
    other = impose_consistency(problem, information, moved)
    if method is Method.WLS:
        np.testing.assert_allclose(other.value, best.value, atol=1e-6)
    else:
        np.testing.assert_allclose(other.value, 1.02 * best.value, atol=0.02 * np.abs(best.value).max())
    np.testing.assert_allclose(best.value, found.base, atol=4 * found.base_std.max())
    assert 0.0 <= best.loss < 0.05 and 0.0 <= other.loss < 0.05
    # drawn with a prior that knows better than the data, they are those of the prior
    mean = BASE.values(ROBOT, CHI)
    prior = Prior(mean, 1e12 * np.eye(len(mean)), "truth")
    drawn = PriorFit(found, prior, PriorWeight(1.0, 0.1, 0.01), np.ones(len(mean)))
    if method is Method.WLS:
        tied = impose_consistency(problem, information, found, drawn)
        assert np.abs(tied.value - mean).max() < 0.2 * np.abs(best.value - mean).max()
        free = impose_consistency(problem, information, found, replace(drawn, weight=PriorWeight(0.0, 0.0, 0.0)))
        np.testing.assert_allclose(free.value, best.value, atol=1e-6)
