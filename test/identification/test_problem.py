# SPDX-License-Identifier: Apache-2.0

"""Stage 2: a problem is what the rows of recordings say, with what the data decided and what was asked for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import yaml

from motions import five_waves
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.friction_kinds import FrictionKind
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 2)
PLAIN = IdentifyOptions(
    friction="viscous+coulomb", preparation=PreparationOptions(row_cutoff=5.0, position_cutoff=25.0)
)


@cache
def recorded(seed=0, **more):
    return five_waves(ROBOT, CHI, seed, **more)


def silent(stage, done):
    """Tell nobody."""


def test_a_problem_is_what_the_rows_say():
    told = []
    problem = build_problem(ROBOT, [recorded(0), recorded(1)], PLAIN, lambda *said: told.append(said))
    assert problem.terms == problem.tried == () and problem.second is None and problem.controller is None
    assert problem.information.layout.n_delay == 1 and len(problem.prepared) == 2 and problem.row_cutoff is None
    np.testing.assert_allclose(problem.prior, [*BASE.values(ROBOT, standard_vector(ROBOT)), 0.0])
    fractions = [fraction for stage, fraction in told if stage == "regressor"]
    assert fractions == sorted(fractions) and 0.35 < fractions[0] < 0.7 and fractions[-1] == pytest.approx(0.7)
    assert [f for stage, f in told if stage == "reading recordings"] == pytest.approx([0.05, 0.2])
    estimate = wls(problem.information)
    np.testing.assert_allclose(estimate.base, BASE.values(ROBOT, CHI), atol=5 * estimate.base_std.max())
    assert abs(estimate.delay) < 5 * estimate.delay_std < 1e-3


def test_late_efforts_are_shifted_unless_their_delay_is_given():
    late = build_problem(ROBOT, [recorded(0, late=0.05)], PLAIN, silent)
    moved = late.prepared[0].filter.delay
    assert moved + wls(late.information).delay == pytest.approx(0.05, abs=2e-3) and moved > 0.02
    assert late.effort_delay.delays[0] > 0.02 and late.effort_delay.errors[-1] < late.effort_delay.errors[0]
    given = replace(PLAIN, preparation=replace(PLAIN.preparation, delay=0.0))
    fixed = build_problem(ROBOT, [recorded(0, late=0.05)], given, silent)
    assert fixed.information.layout.n_delay == 0 and fixed.prepared[0].filter.delay == 0.0
    assert fixed.effort_delay.delays == ()


@cache
def shaken(seed=0):
    """Return a recording with noise of the positions that looks like motion: it falls with the frequency, to 40 Hz."""
    samples, rng = recorded(seed, seconds=30.0), np.random.default_rng(seed)
    f = np.fft.rfftfreq(len(samples), 0.005)[:, None]
    X = (rng.normal(size=(len(f), 3)) + 1j * rng.normal(size=(len(f), 3))) * ((f > 1.0) & (f < 40.0))
    noise = np.fft.irfft(X / np.maximum(f, 1.0), len(samples), axis=0)
    return replace(samples, q=samples.q + 0.01 * noise / noise.std(axis=0))


@pytest.mark.parametrize("asked", [{}, {"row_cutoff": 8.0}, {"position_cutoff": 30.0}])
def test_a_lower_cut_off_is_looked_for_only_where_none_is_given(asked):
    options = replace(PLAIN, preparation=PreparationOptions(**asked))
    recordings = [shaken(0), shaken(1)]
    problem = build_problem(ROBOT, recordings, options, silent)
    notes = [note.text for prepared in problem.prepared for note in prepared.notes]
    said = [text for text in notes if "lets too much noise in" in text]
    if asked:
        assert problem.row_cutoff is None and said == []
        return
    decision = problem.row_cutoff
    assert decision.proposed == min(prepare(ROBOT, one).filter.row_cutoff for one in recordings) > 20.0
    assert decision.cutoff < 8.0 and decision.errors[decision.cutoff] < 0.5 * decision.errors[decision.proposed]
    assert len(said) == 2 and all(f"filtered at {decision.cutoff:g} Hz instead" in text for text in said)
    direct = [prepare(ROBOT, one, PreparationOptions(row_cutoff=decision.cutoff)) for one in recordings]
    wanted = build_information(ROBOT, BASE, direct, delay=True)
    for j in range(3):
        A, B = problem.information.triangle(j), wanted.triangle(j)
        np.testing.assert_allclose(A.T @ A, B.T @ B, rtol=1e-6, atol=1e-9 * np.abs(B.T @ B).max())


def test_a_problem_has_the_controller_the_law_and_the_second_sensor_asked_for(tmp_path):
    gains = {name: {"p": 100.0 * (k + 1), "d": 10.0 * (k + 1)} for k, name in enumerate(ROBOT.active_names)}
    path = tmp_path / "controller.yaml"
    path.write_text(yaml.safe_dump({"c": {"ros__parameters": {"gains": dict(reversed(gains.items()))}}}))
    samples = recorded(0)
    speed = np.gradient(samples.q[:, 1], samples.t)
    both = replace(samples, tau=samples.tau + np.outer(speed**3, [0.0, 3.0, 0.0]), tau_l=samples.tau + 1.0)
    options = replace(PLAIN, controller=str(path), friction=f"{ROBOT.active_names[1]}=cubic", torque_sensor="link+Fc")
    problem = build_problem(ROBOT, [both], options, silent)
    assert problem.controller.Kp.tolist() == [100.0, 200.0, 300.0]
    assert [(term.joint, term.kind) for term in problem.terms] == [(2, FrictionKind.CUBIC)]
    assert problem.information.layout.n_friction == 1 and problem.prior[problem.information.layout.friction] == [0.0]
    assert [joint.measured_drive for joint in problem.second.robot.joints] == [("Fc",)] * 3
    again = problem.gather_rows(problem.rows)
    for j in range(3):  # the rows have the columns of the terms and of the delay
        A, B = problem.information.in_motion().triangle(j), again.in_motion().triangle(j)
        np.testing.assert_allclose(A.T @ A, B.T @ B, rtol=1e-6, atol=1e-9 * np.abs(B.T @ B).max())
    other = build_problem(ROBOT, [both], PLAIN, silent)
    assert [joint.measured_drive for joint in other.second.robot.joints] == [()] * 3 and other.controller is None
    assert other.terms == (), "plain friction, whatever the data say"
    plain = problem.plain()
    assert plain.second is None and plain.terms == () and plain.information.layout.n_friction == 0


def test_rows_of_friction_that_brakes_are_those_of_the_top_speed():
    """g . value is the power of friction over the speed: positive wherever the recording went."""
    problem = build_problem(ROBOT, [recorded(0), recorded(1)], PLAIN, silent)
    rows = problem.friction_rows
    value = problem.information.layout.vector(BASE.values(ROBOT, CHI))
    assert rows.shape[1] == problem.information.size and np.all(rows @ value > 0.0)
    pushes = value.copy()
    pushes[BASE.leaders.index("Fc2")] = -10.0 * abs(pushes[BASE.leaders.index("Fc2")]) - 10.0
    assert np.any(rows @ pushes < 0.0)
