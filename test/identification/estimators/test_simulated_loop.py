# SPDX-License-Identifier: Apache-2.0

"""The closed loop of an estimate, simulated, and the estimators that use it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from closed_loop import closed_loop, controller_of, fourier
from motions import five_waves
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.cli import main
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inertia_matrix, inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.didim import didim
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.estimators.idim_iv import idim_iv
from ros2_dynid.identification.estimators.instrumental import moments_with
from ros2_dynid.identification.estimators.simulated_loop import (
    LIFTED,
    MOVABLE,
    ROUNDS,
    SETTLED,
    SimulatedRecordings,
    first_estimate,
    measure_change,
    simulated,
)
from ros2_dynid.identification.options import Method, PreparationOptions
from ros2_dynid.identification.preparation.filters import finer_kernel, lowpass_kernel
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import row_count, windows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.validation.estimator_advice import advise_estimator
from ros2_dynid.model.efforts import MeasuredEffort, with_sensors
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples
from ros2_dynid.sim.forward_dynamics import ForwardDynamics
from ros2_dynid.sim.tracking_loop import Command, JointController, simulate_tracking
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")


CHI = true_parameters(ROBOT, 1)


CONTROLLER = controller_of(ROBOT, CHI)


SIMULATING = [Method.IDIM_IV, Method.DIDIM]


def problem_of(samples, row_cutoff=None, controller=CONTROLLER):
    base = base_parameters(ROBOT, method="closed-form")
    prepared = prepare(ROBOT, samples, PreparationOptions(row_cutoff=row_cutoff))
    information = build_information(ROBOT, base, [prepared])
    return Problem(ROBOT, base, (prepared,), information, np.zeros(len(base) + 1), controller=controller)


@pytest.fixture(scope="module")
def run():
    return closed_loop(ROBOT, CHI, 0, 5e-4, True, seconds=8.0)


@pytest.fixture(scope="module")
def run_problem(run):
    return problem_of(run, 40.0)


@pytest.fixture(scope="module")
def didim_of_run(run_problem):
    return build_estimator(Method.DIDIM, run_problem)(None)


@pytest.fixture(scope="module")
def seen_outside():
    """Return a recording whose noise the controller does not see."""
    return closed_loop(ROBOT, CHI, 0, 5e-4, False, seconds=8.0)


@pytest.fixture(scope="module")
def exact():
    """A robot as its equations say, without Coulomb friction: its torques have no jumps that a filter would blur."""
    chi = CHI.copy()
    chi[12 : 14 * ROBOT.n : 14] = 0.0
    t, q, dq, _ = fourier(np.random.default_rng(0), ROBOT.n, 8.0)
    model = ForwardDynamics(ROBOT, chi, np.full(ROBOT.n, 5e-3))
    motion = simulate_tracking(model, CONTROLLER, Command(1000.0, q, dq, np.zeros_like(q), (slice(0, len(q)),)))
    return chi, Samples(t, ROBOT.active_names, motion.q, tau=motion.tau, q_r=q)


@pytest.mark.parametrize("method", SIMULATING)
def test_data_without_noise_give_the_parameters(exact, method):
    chi, samples = exact
    problem = problem_of(samples)
    found = build_estimator(method, problem)(None)
    assert found.method is method
    truth = problem.base.values(ROBOT, chi)
    assert np.abs(found.base - truth).max() < 3e-4 * np.abs(truth).max()
    assert np.median(np.abs(found.base - truth) / np.maximum(np.abs(truth), 1e-2)) < 1e-4
    assert np.linalg.norm(found.sigma) < 1e-3 and abs(found.delay) < 1e-5


@pytest.mark.parametrize(
    ("noisy", "method", "known"),
    [("seen_outside", Method.IDIM_IV, "loop"), ("run", Method.IDIM_IV, "nothing")],
)
def test_simulated_loops_are_not_biased_where_least_squares_is(request, noisy, method, known):
    recorded = request.getfixturevalue(noisy)
    samples = recorded if known == "loop" else replace(recorded, q_r=None, tau_f=None)
    problem = problem_of(samples, 40.0, CONTROLLER if known == "loop" else None)
    check_bias(problem, build_estimator(method, problem)(None))


def test_direct_identification_is_not_biased_where_least_squares_is(run_problem, didim_of_run):
    check_bias(run_problem, didim_of_run)


def check_bias(problem, estimate):
    truth = problem.base.values(ROBOT, CHI)
    biased = build_estimator(Method.WLS, problem)(None)
    assert np.abs((biased.base - truth) / biased.base_std).max() > 6.0, "the case is one that matters"
    assert np.mean(np.abs(estimate.base - truth) < 3.0 * estimate.base_std) >= 0.95


def test_the_method_named_is_the_best_that_can_be_used(run_problem, didim_of_run):
    problem = run_problem
    found = build_estimator(Method.WLS, problem)(None)
    choice = advise_estimator(problem, found)
    best = didim_of_run if choice.method is Method.DIDIM else build_estimator(choice.method, problem)(None)
    other = build_estimator(Method.IV, problem)(None)
    assert choice.method in SIMULATING and "biases wls" in choice.reason
    well = np.minimum(best.base_std, other.base_std) < 0.05 * np.abs(other.base)
    assert np.median(best.base_std[well] / other.base_std[well]) < 1.0
    assert advise_estimator(replace(problem, controller=None), found).method is Method.IV
    assert advise_estimator(problem, didim_of_run).method is Method.DIDIM


def test_a_known_loop_says_more_where_the_robot_lags():
    """A soft controller: the robot is far from what was commanded, and the simulated one is with it."""
    samples = closed_loop(ROBOT, CHI, 1, 5e-4, True, 7.0, share=0.0, stiffness=3.0)
    problem = problem_of(samples, 15.0, controller_of(ROBOT, CHI, 3.0))
    truth = problem.base.values(ROBOT, CHI)
    plain, instruments, loop = (build_estimator(m, problem)(None) for m in (Method.IV, *SIMULATING))
    for found in (instruments, loop):
        assert np.mean(np.abs(found.base - truth) < 3.0 * found.base_std) >= 0.95
    assert np.median(instruments.base_std / plain.base_std) < 1.2
    assert np.median(loop.base_std / plain.base_std) < 0.8


def test_a_fold_is_estimated_from_its_blocks_alone(run):
    problem = problem_of(run)
    for method in SIMULATING:
        fit = build_estimator(method, problem)
        part = fit(range(20))
        assert part.method is method and np.all(part.base_std > 0)
        assert not np.allclose(part.base, fit(None).base)


def test_simulated_rows_belong_to_the_recorded_times(run):
    prepared = problem_of(run).prepared[0]
    fine = simulated(ROBOT, CHI, prepared, CONTROLLER)
    assert fine.filter.inner_rate >= 500.0 and row_count(fine) == row_count(prepared)
    times = [np.concatenate([p.t[window.at] for window in windows(p, 200)]) for p in (fine, prepared)]
    np.testing.assert_allclose(*times, atol=1e-9)
    assert np.median(np.abs(fine.q[:: fine.step // prepared.step] - prepared.q)) < 1e-3


def test_a_model_that_cannot_be_is_simulated_with_heavier_rotors(run):
    prepared = problem_of(run).prepared[0]
    impossible = CHI.copy()
    impossible[14 * 2 + 10] -= 1.0  # Ia3
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(inertia_matrix(ROBOT, impossible, prepared.q[::50]))
    fine = simulated(ROBOT, impossible, prepared, None)
    assert np.std(fine.q[:: fine.step // prepared.step] - prepared.q) < 0.02 * np.std(prepared.q)


def test_what_a_controller_adds_keeps_its_jumps(run):
    prepared = problem_of(run).prepared[0]
    N, step, two, n = prepared.commands.shape
    assert (N, two, n) == (len(prepared.t), 2, ROBOT.n) and step == round(1000.0 / prepared.filter.inner_rate)
    first = round(prepared.t[0] * 1000.0)
    raw = prepared.commands[:-1].reshape(-1, 2, n)
    assert np.array_equal(raw[:, 1], run.tau_f[first : first + len(raw)])
    assert np.abs(raw[:, 0] - run.q_r[first : first + len(raw)]).max() < 1e-4


@pytest.mark.parametrize("derivative", [0, 1])
def test_the_finer_kernel_filters_as_the_coarse_one(derivative):
    rate, m = 160.0, 4
    coarse, fine = lowpass_kernel(8.0, rate, derivative), finer_kernel(8.0, rate, m, derivative)
    assert len(fine) == m * (len(coarse) - 1) + 1
    for f in (0.0, 2.0, 6.0, 9.0, 12.0):
        gains = []
        for kernel, r in ((coarse, rate), (fine, m * rate)):
            t = (np.arange(len(kernel)) - len(kernel) // 2) / r
            gains.append(kernel @ np.exp(-2j * np.pi * f * t))
        assert abs(gains[0] - gains[1]) < 1e-4 * (1.0 + 2 * np.pi * f * derivative)


def test_loops_that_are_not_known_are_refused(run):
    with pytest.raises(InputError, match="its controller is not known; give the gains"):
        build_estimator(Method.DIDIM, problem_of(run, controller=None))
    with pytest.raises(InputError, match="the recording has no commanded positions"):
        build_estimator(Method.DIDIM, problem_of(replace(run, q_r=None)))
    problem = problem_of(run)
    warm = (FrictionTerm(1, FrictionKind.TEMPERATURE, 0.1, reference=20.0),)
    with pytest.raises(InputError, match="friction that changes with the temperature"):
        build_estimator(Method.DIDIM, replace(problem, terms=warm))
    sensors = with_sensors(ROBOT, dict.fromkeys(ROBOT.active_names, MeasuredEffort(())))
    with pytest.raises(InputError, match="efforts of torque sensors at the links"):
        build_estimator(Method.DIDIM, replace(problem, robot=sensors))
    arrays = np.random.default_rng(0).normal(size=(4, 400, ROBOT.n))
    prepared = as_prepared(ROBOT, *arrays)
    with pytest.raises(InputError, match="needs positions as recorded"):
        simulated(ROBOT, CHI, prepared, CONTROLLER)


def test_another_controller_is_refused():
    samples = closed_loop(ROBOT, CHI, 2, 1e-5, True, 4.0, share=0.0)
    build_estimator(Method.DIDIM, problem_of(samples))
    softer = replace(CONTROLLER, Kp=0.3 * CONTROLLER.Kp, Kd=0.5 * CONTROLLER.Kd)
    with pytest.raises(InputError, match="the controller is another than was given"):
        build_estimator(Method.DIDIM, problem_of(samples, controller=softer))
    fed = closed_loop(ROBOT, CHI, 2, 1e-5, True, 4.0, share=0.9)
    with pytest.raises(InputError, match=r"record what it adds \(NAME.feedforward\)"):
        build_estimator(Method.DIDIM, problem_of(replace(fed, tau_f=None)))


def test_didim_from_the_command_line(run, tmp_path, capsys):
    gains = {
        name: {"p": p, "d": d} for name, p, d in zip(ROBOT.active_names, CONTROLLER.Kp, CONTROLLER.Kd, strict=True)
    }
    controllers, recording = tmp_path / "controllers.yaml", str(tmp_path / "run.npz")
    controllers.write_text(json.dumps({"jtc": {"ros__parameters": {"gains": gains, "speed_filter": 60.0}}}))
    save_samples(run, recording)
    common = ["identify", "demo3", recording, "--cross-validate", "0", "--prior", "none", "--json", "--method", "didim"]
    assert main([*common, "--controller", str(controllers)]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["method"] == outcome["recommended"] == "didim"
    values = np.array([row["value"] for row in outcome["base"]])
    stds = np.array([row["std"] for row in outcome["base"]])
    truth = base_parameters(ROBOT, method="closed-form").values(ROBOT, CHI)
    assert np.mean(np.abs(values - truth) < 3.5 * stds) >= 0.95
    assert main(common) == 2
    assert "--controller" in capsys.readouterr().err


BASE = base_parameters(ROBOT)


TRUE_CHI = true_parameters(ROBOT, 2)


ROTORS = [standard_names(ROBOT).index(f"Ia{j}") for j in (1, 2, 3)]


@pytest.fixture(scope="module")
def prepared():
    samples = five_waves(ROBOT, TRUE_CHI, 0, 6.0, 0.02)
    return prepare(ROBOT, replace(samples, q_r=samples.q), PreparationOptions(position_cutoff=20.0, row_cutoff=4.0))


def problem_with_reference(*parts):
    information = build_information(ROBOT, BASE, parts, delay=False)
    return Problem(ROBOT, BASE, parts, information, np.zeros(information.size))


def rotors_added(chi, motion):
    """Return what the simulated model has of rotor inertia beyond chi, by joint: its torque without friction tells."""
    more = motion.gear_torque - inverse_dynamics(*frictionless(ROBOT, chi), motion.q, motion.dq, motion.ddq)
    return np.sum(more * motion.ddq, axis=0) / np.sum(motion.ddq**2, axis=0)


def test_a_model_that_cannot_move_gets_heavier_rotors(prepared):
    """All joints, by what the smallest relative inertia along the motion lacks."""
    np.testing.assert_allclose(rotors_added(TRUE_CHI, simulated(ROBOT, TRUE_CHI, prepared, None)), 0.0, atol=0.005)
    for less in (0.2, 1.0):
        chi = TRUE_CHI.copy()
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
    problem = problem_with_reference(replace(prepared, filter=replace(prepared.filter, slow=0.3)))
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
    assert first_estimate(problem_with_reference(prepared)).method is Method.IV
    still = problem_with_reference(replace(prepared, reference=prepared.reference * [1.0, 1.0, 0.0]))
    first = first_estimate(still)
    assert first.method is Method.WLS
    np.testing.assert_array_equal(first.value, wls(still.information, still.prior).value)


def test_rounds_end_when_nothing_moves_and_are_refused_when_it_does(prepared):
    """Each round starts from the estimate before; what moves is measured in bars of the later one."""
    problem = problem_with_reference(prepared)
    information, first = problem.information, wls(problem.information)
    far = replace(first, value=first.value + 5.0 * first.std)
    assert measure_change(far, first) == pytest.approx(5.0)
    assert measure_change(replace(first, covariance=100.0 * first.covariance), far) == pytest.approx(5.0)
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
