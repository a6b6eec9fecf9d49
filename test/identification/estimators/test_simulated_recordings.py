# SPDX-License-Identifier: Apache-2.0

"""Recordings simulated in closed loop: the model that moves, and the rows that stay the same from run to run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motions import five_waves
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inertia_matrix, inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.didim import didim
from ros2_dynid.identification.estimators.idim_iv import ROUNDS, SETTLED, idim_iv, moved
from ros2_dynid.identification.estimators.instrumental import moments_with
from ros2_dynid.identification.estimators.simulated_loop import (
    LIFTED,
    MOVABLE,
    SimulatedRecordings,
    first_estimate,
    simulated,
)
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation import PreparationOptions, prepare
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.sim.tracking_loop import JointController
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 2)
ROTORS = [standard_names(ROBOT).index(f"Ia{j}") for j in (1, 2, 3)]


@pytest.fixture(scope="module")
def prepared():
    samples = five_waves(ROBOT, CHI, 0, 6.0, 0.02)
    return prepare(ROBOT, replace(samples, q_r=samples.q), PreparationOptions(position_cutoff=20.0, row_cutoff=4.0))


def problem_of(*parts):
    information = build_information(ROBOT, BASE, parts, delay=False)
    return Problem(ROBOT, BASE, parts, information, np.zeros(information.size))


def rotors_added(chi, motion):
    """Return what the simulated model has of rotor inertia beyond chi, by joint: its torque without friction tells."""
    more = motion.gear_torque - inverse_dynamics(*frictionless(ROBOT, chi), motion.q, motion.dq, motion.ddq)
    return np.sum(more * motion.ddq, axis=0) / np.sum(motion.ddq**2, axis=0)


def test_a_model_that_cannot_move_gets_heavier_rotors(prepared):
    """All joints, by what the smallest relative inertia along the motion lacks."""
    np.testing.assert_allclose(rotors_added(CHI, simulated(ROBOT, CHI, prepared, None)), 0.0, atol=0.005)
    for less in (0.2, 1.0):
        chi = CHI.copy()
        chi[ROTORS[2]] -= less
        M = inertia_matrix(ROBOT, chi, prepared.reference)
        size = np.sqrt(np.abs(np.einsum("tjj->tj", M)).mean(axis=0))
        least = np.linalg.eigvalsh(M / np.outer(size, size)).min()
        added = rotors_added(chi, simulated(ROBOT, chi, prepared, None))
        wanted = np.zeros(3) if least >= MOVABLE else (LIFTED - least) * size**2
        np.testing.assert_allclose(added, wanted, rtol=0.05, atol=0.01)
    assert least < 0.0


def test_rows_that_are_too_slow_are_those_of_the_first_run(prepared):
    """Under a soft controller the simulated robot lags by its friction."""
    problem = problem_of(replace(prepared, filter=replace(prepared.filter, slow=0.3)))
    problem = replace(
        problem, controller=JointController(np.array([800.0, 800.0, 200.0]), np.array([100.0, 100.0, 10.0]))
    )
    estimate, simulation = wls(problem.information), SimulatedRecordings(problem)

    def keeps(rows):
        return np.concatenate([chunk.keep for chunk in rows], axis=1)

    simulation.run(estimate)
    first = keeps(simulation.rows(0))
    np.testing.assert_array_equal(first, keeps(problem.rows_of(simulation.motions[0])))
    heavy = estimate.value.copy()
    heavy[[k for k, name in enumerate(BASE.leaders) if name.startswith("F")]] *= 20.0
    simulation.run(replace(estimate, value=heavy))
    assert not np.array_equal(first, keeps(problem.rows_of(simulation.motions[0]))), "it moves otherwise"
    again = list(simulation.rows(0))
    np.testing.assert_array_equal(first, keeps(again))
    W = np.concatenate([rows.W for rows in problem.rows_of(simulation.motions[0])], axis=2)
    np.testing.assert_array_equal(np.concatenate([rows.W for rows in again], axis=2), W)


def test_the_first_model_is_that_of_instruments_if_they_excite_everything(prepared):
    assert first_estimate(problem_of(prepared)).method is Method.IV
    still = problem_of(replace(prepared, reference=prepared.reference * [1.0, 1.0, 0.0]))
    first = first_estimate(still)
    assert first.method is Method.WLS
    np.testing.assert_array_equal(first.value, wls(still.information, still.prior).value)


def test_rounds_end_when_nothing_moves_and_are_refused_when_it_does(prepared):
    """Each round starts from the estimate before; what moves is measured in bars of the later one."""
    problem = problem_of(prepared)
    information, first = problem.information, wls(problem.information)
    far = replace(first, value=first.value + 5.0 * first.std)
    assert moved(far, first) == pytest.approx(5.0)
    assert moved(replace(first, covariance=100.0 * first.covariance), far) == pytest.approx(5.0)
    started = []

    def rows(estimate):
        started.append(estimate)
        return information

    settled, same = didim(far, rows)
    assert same is information and [one.value.tolist() for one in started] == [far.value.tolist(), first.value.tolist()]
    assert settled.method is Method.DIDIM
    near = replace(first, value=first.value + 0.9 * SETTLED * first.std)
    started.clear()
    didim(near, rows)
    assert len(started) == 1, "a tenth of a deviation is settled"
    swing = [information.take(range(k, len(information.blocks), 2)) for k in (0, 1)]
    count = iter(range(99))
    with pytest.raises(InputError, match=f"didim still move after {ROUNDS} simulations"):
        didim(first, lambda estimate: swing[next(count) % 2])
    assert next(count) == ROUNDS
    moments = moments_with(problem, problem.rows)  # the rows as their own instruments: least squares
    asked = []
    estimate, used = idim_iv(information, far, lambda before: asked.append(before) or moments)
    assert used is moments and len(asked) == 2 and estimate.method is Method.IDIM_IV
    np.testing.assert_allclose(estimate.value, first.value, atol=0.2 * first.std.max())
