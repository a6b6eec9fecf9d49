"""From rows to estimators: parts of recordings, several of them, and what each method takes from which."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from closed_loop import controller_of
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import fit as fit_module
from ros2_dynid.identification.estimators import simulated_loop
from ros2_dynid.identification.estimators.column_layout import ColumnLayout
from ros2_dynid.identification.estimators.covariance import block_moments, jackknife
from ros2_dynid.identification.estimators.energy_rows import energy_rows
from ros2_dynid.identification.estimators.fit import Problem, fitter, inform, informing
from ros2_dynid.identification.estimators.information import gather
from ros2_dynid.identification.estimators.instruments import in_band, instrument_motion, motion_band
from ros2_dynid.identification.estimators.least_squares import error_levels, wls
from ros2_dynid.identification.estimators.total_least_squares import tls
from ros2_dynid.identification.preparation import PreparationOptions, as_prepared, prepare
from ros2_dynid.identification.preparation import rows as rows_module
from ros2_dynid.identification.preparation.filters import finer_kernel
from ros2_dynid.identification.preparation.rows import RowMemory, felt_by, row_count, windows
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.tracking_loop import TrackedMotion
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 2)
COLUMNS = BASE.columns(ROBOT)


@cache
def recorded(seed=0, seconds=6.0, noise=1e-4, reference=True, late=0.0):
    """Return a prepared recording at 20 and 4 Hz."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 0.005)
    amplitude, phase = rng.uniform(0.1, 0.4, (3, 5)), rng.uniform(0.0, 6.3, (3, 5))
    w = 2.0 * np.pi * np.array([0.15, 0.3, 0.5, 0.7, 0.9])

    def at(time):
        angle = np.multiply.outer(time, w)[:, None] + phase
        return [np.sum(amplitude * w**k * np.sin(angle + k * np.pi / 2), axis=2) for k in range(3)]

    tau = inverse_dynamics(ROBOT, CHI, *at(t - late))
    tau = tau + 0.02 * tau.std(axis=0) * rng.normal(size=tau.shape)
    q = at(t)[0]
    samples = Samples(t, ROBOT.active_names, q + noise * rng.normal(size=q.shape), tau=tau,
                      q_r=q if reference else None, source=f"run{seed}")  # fmt: skip
    return prepare(ROBOT, samples, PreparationOptions(position_cutoff=20.0, row_cutoff=4.0))


def problem_of(*prepared, delay=False, **more):
    information = inform(ROBOT, BASE, prepared, delay=delay)
    return Problem(ROBOT, BASE, tuple(prepared), information, np.zeros(information.size), **more)


def exact(count, seed=0, rate=1.0):
    """Return motion as it is, every sample a row."""
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-1.5, 1.5, (3, count, 3))
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq) + 0.1 * rng.normal(size=q.shape)
    return as_prepared(ROBOT, q, dq, ddq, tau, np.arange(count) / rate)


# --- rows that come in parts


@pytest.mark.parametrize(("every", "kept"), [(1, range(9)), (2, (0, 2, 4, 6, 8)), (3, (0, 3, 6))])
def test_chunks_are_counted_through_the_parts_of_a_recording(monkeypatch, every, kept):
    """Parts of 3, 2 and 4 chunks of 50 rows: which are taken does not depend on where a part begins."""
    for module in (fit_module, rows_module):
        monkeypatch.setattr(module, "rows_of_a_chunk", lambda prepared: 50)
    whole = exact(450)
    parts = []
    for part in (slice(0, 150), slice(150, 250), slice(250, 450)):
        some = [getattr(whole, name)[part] for name in ("q", "dq", "ddq", "tau", "t")]
        parts.append(as_prepared(ROBOT, *some))
    terms = (FrictionTerm(3, FrictionKind.CUBIC), FrictionTerm(1, FrictionKind.ASYMMETRIC))
    found = informing(ROBOT, BASE, delay=False, terms=terms, every=every)(whole, iter(parts))
    rows = np.isin(np.arange(450) // 50, kept)
    assert list(found.rows) == [np.count_nonzero(rows)] * 3
    length = int(np.ceil(450 / every / 30))
    assert [int(block.rows[0]) for block in found.blocks[:-1]] == [length] * (len(found.blocks) - 1)
    assert found.layout == ColumnLayout(len(BASE), n_friction=2)
    Y = regressor(ROBOT, whole.q, whole.dq, whole.ddq)[rows][:, :, COLUMNS]
    more = np.zeros((np.count_nonzero(rows), 3, 2))
    more[:, 2, 0], more[:, 0, 1] = whole.dq[rows, 2] ** 3, np.abs(whole.dq[rows, 0])
    W = np.concatenate((Y, more), axis=2)
    for j, columns in enumerate(found.columns):
        assert (len(BASE) in columns, len(BASE) + 1 in columns) == (j == 2, j == 0), "of its own joint alone"
        np.testing.assert_array_equal(columns[columns < len(BASE)], np.flatnonzero(felt_by(ROBOT, COLUMNS)[j]))
        A = np.column_stack((W[:, j, columns], whole.tau[rows, j]))
        R = found.triangle(j)
        np.testing.assert_allclose(R.T @ R, A.T @ A, atol=1e-8)


def test_whoever_watches_sees_every_chunk_with_its_window(monkeypatch):
    for module in (fit_module, rows_module):
        monkeypatch.setattr(module, "rows_of_a_chunk", lambda prepared: 40)
    whole, seen = exact(100), []
    parts = [replace(whole), replace(whole)]
    informing(ROBOT, BASE, delay=False)(whole, parts, watch=lambda *all_: seen.append(all_))
    assert [(len(window.at), len(rows.t)) for _, window, rows in seen] == [(40, 40), (40, 40), (20, 20)] * 2
    assert [part is parts[k // 3] for k, (part, _, _) in enumerate(seen)] == [True] * 6
    assert [rows.t[0] for _, _, rows in seen[:3]] == [0.0, 40.0, 80.0]


def test_rows_are_kept_for_other_terms_where_there_is_a_memory():
    whole, memory = exact(500), RowMemory()
    first = inform(ROBOT, BASE, [whole], delay=False, memory=memory)
    kept = [memory.rows(whole, window) for window in windows(whole, 400)]
    assert all(rows is not None and rows.W.shape[0] == len(BASE) for rows in kept)
    term = (FrictionTerm(1, FrictionKind.CUBIC),)
    again, plain = (inform(ROBOT, BASE, [whole], delay=False, terms=term, memory=m) for m in (memory, None))
    for j in range(3):
        np.testing.assert_allclose(again.triangle(j).T @ again.triangle(j), plain.triangle(j).T @ plain.triangle(j),
                                   atol=1e-8)  # fmt: skip
    assert first.size == again.size - 1


# --- several recordings


def test_rows_of_robust_fits_are_numbered_as_the_blocks_of_all_recordings(monkeypatch):
    """95 rows are 24 blocks of 4, the last of 3; those of the next recording follow."""
    problem = problem_of(exact(95), exact(70, 1))
    assert len(problem.information.blocks) == 24 + 24
    seen = []

    def told(information, chunks, regather, prior, chosen):
        for numbers, rows in chunks():
            seen.extend(zip(numbers.tolist(), rows.t.tolist(), strict=True))
        return information, regather(lambda rows: np.ones(rows.tau.shape)), np.ones(3)

    monkeypatch.setattr(fit_module, "reweighted", told)
    fitter(Method.IRLS, problem)(None)
    assert len(seen) == 165
    for k, (number, t) in enumerate(seen):
        block = problem.information.blocks[number]
        assert block.start <= t <= block.end and block.recording == (k >= 95)


def repeating(seconds=9.0, seed=0, period=3.0):
    t = np.arange(0.0, seconds, 0.02)
    w = 2.0 * np.pi / period * np.array([1.0, 2.0, 3.0])
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0.0, 6.0, 3)
    q, dq, ddq = (w**k * np.sin(np.outer(t, w) + phase + k * np.pi / 2) for k in range(3))
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq)
    return as_prepared(ROBOT, q, dq, ddq, tau + 0.3 * rng.normal(size=tau.shape), t)


def test_rows_gathered_again_are_in_the_same_blocks_and_phases():
    problem = problem_of(repeating(), exact(90, 1, 50.0))
    again, done = problem.gathered(problem.rows), []
    for name in ("blocks", "phases"):
        ours, theirs = getattr(problem.information, name), getattr(again, name)
        assert len(ours) == len(theirs) > 30
        for a, b in zip(ours, theirs, strict=True):
            assert (a.start, a.end, a.recording, a.rows.tolist()) == (b.start, b.end, b.recording, b.rows.tolist())
            np.testing.assert_allclose(a.R[1].T @ a.R[1], b.R[1].T @ b.R[1], atol=1e-9)
    half = problem.gathered(problem.rows, weight=lambda rows: np.full(rows.tau.shape, 0.5), on_chunk=done.append)
    np.testing.assert_allclose(half.phases[3].R[2].T @ half.phases[3].R[2],
                               0.25 * again.phases[3].R[2].T @ again.phases[3].R[2], atol=1e-9)  # fmt: skip
    assert done and done[-1] == pytest.approx(1.0)


def test_motion_that_repeats_is_left_out_by_phase_where_a_method_needs_r_factors_only():
    problem = problem_of(repeating())
    for method in Method:
        tested = problem.to_test(method)
        if method in (Method.OLS, Method.WLS, Method.RECURSIVE, Method.SEQUENTIAL):
            assert tested.information.blocks == problem.information.phases and tested.prepared == problem.prepared
        else:
            assert tested is problem


def test_progress_is_that_of_all_recordings():
    done = []
    inform(ROBOT, BASE, [exact(500), exact(90, 1)], done.append, delay=False)
    assert done == pytest.approx([0.4, 0.5, 1.0]), "chunks of 400 rows"


@pytest.mark.parametrize("bars", [True, False])
def test_error_bars_are_left_out_where_nobody_asks_for_them(bars):
    found = fitter(Method.WLS, problem_of(exact(90)), bars=bars)(None)
    assert np.isfinite(found.covariance).all() == np.isfinite(found.dof) == bars


def test_a_plain_problem_has_one_sensor():
    terms = (FrictionTerm(2, FrictionKind.CUBIC),)
    prepared = (exact(90),)
    information = inform(ROBOT, BASE, prepared, delay=False, terms=terms)
    problem = Problem(ROBOT, BASE, prepared, information, np.zeros(information.size), terms, second="both")
    assert problem.plain().second is None
    assert replace(problem, terms=()).plain().second == "both", "nothing is left out there"


def test_instruments_of_several_recordings_are_moments_of_each_in_its_own_blocks():
    """Against sums over rows; a motion that repeats also by phase, another one by time in the same place."""
    rng = np.random.default_rng(0)
    first, second = recorded(0), recorded(1, 4.0)
    problem = problem_of(first, second)
    found = fit_module._moments(problem, lambda p: problem.rows(instrument_motion(ROBOT, p)))
    assert found.phases is None and len(found.A) == len(problem.information.blocks)
    at = 0
    for k, prepared in enumerate((first, second)):
        blocks = [block for block in problem.information.blocks if block.recording == k]
        ours, theirs = (list(problem.rows(p)) for p in (prepared, instrument_motion(ROBOT, prepared)))
        t = np.concatenate([rows.t for rows in ours])
        W, Z = (np.concatenate([rows.W for rows in some], axis=2) for some in (ours, theirs))
        tau = np.concatenate([rows.tau for rows in ours], axis=1)
        keep = np.concatenate([a.keep & b.keep for a, b in zip(ours, theirs, strict=True)], axis=1)
        for i in (0, 11, len(blocks) - 1):
            for j in range(3):
                inside = (t >= blocks[i].start) & (t <= blocks[i].end) & keep[j]
                A = Z[:, j, inside] @ W[:, j, inside].T
                np.testing.assert_allclose(found.A[at + i, j], A, atol=1e-9 * max(np.abs(A).max(), 1.0))
                np.testing.assert_allclose(found.y[at + i, j], Z[:, j, inside] @ tau[j, inside], atol=1e-8)
        at += len(blocks)
    again, other = repeating(), exact(90, 1, 50.0)
    both = problem_of(other, again)
    noisy = fit_module._moments(both, lambda p: (
        replace(rows, W=rows.W + rng.normal(size=rows.W.shape)) for rows in both.rows(p)
    ))  # fmt: skip
    assert len(noisy.phases.A) == len([b for b in both.information.blocks if b.recording == 0]) + 30
    np.testing.assert_allclose(noisy.phases.y.sum(axis=0), noisy.y.sum(axis=0))


def test_noise_that_instruments_share_is_looked_for_in_every_recording():
    quiet = recorded(0, reference=False)
    loud = replace(quiet.known.spectrum, floor=np.full(3, 1.0))
    spoilt = replace(quiet, known=replace(quiet.known, spectrum=loud), source="loud")
    fitter(Method.IV, problem_of(quiet))
    for method in (Method.IV, Method.IDIM_IV):
        with pytest.raises(InputError, match=r"loud: joint .*no instrument is without it"):
            fitter(method, problem_of(quiet, spoilt))


@pytest.mark.parametrize("method", [Method.IRLS, Method.TLS, Method.ENERGY])
def test_methods_that_go_through_the_rows_again_tell_how_far_they_are_and_can_be_stopped(method):
    problem, done = problem_of(recorded(0), recorded(1)), []
    fitter(method, problem, done.append)(None)
    assert len(done) >= 2 and done.count(pytest.approx(1.0)) >= 2 and min(done) > 0.0

    def stop(fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitter(method, problem, stop)(None)


def test_noise_is_taken_off_where_the_recorded_rows_are_kept():
    """Not where those with noise would be; every recording has noise of its own."""
    p = recorded(0)
    noise = np.array([2e-3, 1e-3, 5e-4])
    prepared = tuple(replace(p, position_noise=noise, filter=replace(p.filter, slow=0.2)) for _ in range(2))
    problem = problem_of(*prepared)
    found = fit_module._differences(problem, None)
    kept = sum(rows.keep.sum(axis=1) for rows in problem.rows(prepared[0]))
    disturbed = sum(rows.keep.sum(axis=1) for rows in problem.rows(fit_module.disturbed(prepared[0], 0)))
    assert not np.array_equal(kept, disturbed)
    np.testing.assert_array_equal(found.rows, 2 * kept)
    np.testing.assert_array_equal(found.rows, problem.information.in_motion().rows)
    first, second = found.recordings.values()
    assert not np.allclose(first.triangle(1).T @ first.triangle(1), second.triangle(1).T @ second.triangle(1))
    assert not any(block.R[1][:, -1].any() for block in found.blocks), "torques are the same with and without"


def test_of_some_blocks_the_noise_of_these_is_taken_off():
    noise = np.array([5e-3, 5e-3, 5e-3])
    problem = problem_of(*(replace(recorded(k), position_noise=noise) for k in range(2)))
    fit, every = fitter(Method.TLS, problem), fit_module._differences(problem, None)
    for chosen in (None, list(range(5, 30))):
        part, less = (x if chosen is None else x.take(chosen) for x in (problem.information, every))
        wanted = tls(part, less, problem.prior)
        np.testing.assert_allclose(fit(chosen).value, wanted.value, rtol=1e-9)
        np.testing.assert_allclose(fit(chosen).covariance, wanted.covariance, rtol=1e-6)
    assert not np.allclose(tls(part, every, problem.prior).value, wanted.value, rtol=1e-4)


# --- the power balance


def test_the_power_balance_is_ordinary_least_squares_with_bars_of_half_the_correction():
    prepared = (recorded(0), recorded(1, 4.5))
    problem = problem_of(*prepared, delay=True)
    done = []
    fit = fitter(Method.ENERGY, problem, done.append)
    assert done and done[-1] == pytest.approx(1.0)
    some = list(range(5, len(problem.information.blocks) - 4))
    felt = np.ones((1, problem.information.size), dtype=bool)
    powers = [
        gather(energy_rows(ROBOT, p, COLUMNS, delay=True), felt, row_count(p), problem.information.layout)
        for p in prepared
    ]
    for chosen in (None, some):
        found = fit(chosen)
        blocks = [block.R[0] for part in powers for block in part.blocks]
        A = np.vstack([blocks[k] for k in (range(len(blocks)) if chosen is None else chosen)])
        size = np.linalg.norm(A[:, :-1], axis=0)
        value = np.linalg.lstsq(A[:, :-1] / size, A[:, -1], rcond=None)[0] / size
        np.testing.assert_allclose(found.value, value, rtol=1e-4, atol=1e-5 * np.abs(value).max())
        assert found.method is Method.ENERGY and found.sigma.shape == (3,)
        information = problem.information if chosen is None else problem.information.take(chosen)
        np.testing.assert_allclose(found.sigma, error_levels(information, found.value, np.ones(3)), rtol=1e-9)
    one = powers[0]
    alone = fitter(Method.ENERGY, problem_of(prepared[0], delay=True))(None)
    moments = block_moments(one, alone.value, np.ones(1))
    half, dof = jackknife(moments, alone.identified, half=True)
    np.testing.assert_allclose(alone.covariance, half, rtol=1e-5)
    assert alone.dof == pytest.approx(dof)
    with pytest.raises(InputError, match="rows for"):
        fit([0])


def test_what_power_does_not_show_stays_with_the_prior():
    p = recorded(0)
    still = replace(p, q=p.q * [1, 1, 0], dq=p.dq * [1, 1, 0], ddq=p.ddq * [1, 1, 0], sign=p.sign * [1, 1, 0])
    problem = replace(problem_of(p), prepared=(still,))
    prior = np.arange(1.0, len(BASE) + 1.0)
    found = fitter(Method.ENERGY, replace(problem, prior=prior))(None)
    k = BASE.leaders.index("Fv3")
    assert not found.identified[k] and found.value[k] == prior[k]


# --- simulated loops, of a robot that moves as it is told to


def moving_as(motions):
    """Return a simulation in which every recording moves as `motions` say, one after the other."""
    told = {key: iter(some) for key, some in motions.items()}
    last = {}

    def simulated(robot, chi, prepared, controller):
        last[prepared.source] = next(told[prepared.source], last.get(prepared.source))
        return last[prepared.source]

    return simulated


def test_rows_of_a_simulation_are_those_of_the_first_run_that_are_fast_enough(monkeypatch):
    p = recorded(0)
    slow = replace(p, dq=p.dq * np.where(p.t < 3.0, 1e-3, 1.0)[:, None], carried=p.tau)
    fast = replace(p, carried=p.tau)
    monkeypatch.setattr(fit_module, "simulated", moving_as({p.source: [slow, fast]}))
    problem = problem_of(p)
    simulation = fit_module._Simulation(problem)
    found = wls(problem.information)
    simulation.run(found)
    assert simulation.motion(p) is slow
    first = np.concatenate([rows.keep for rows in simulation.rows(p)], axis=1)
    wanted = np.concatenate([rows.keep for rows in problem.rows(slow)], axis=1)
    np.testing.assert_array_equal(first, wanted)
    simulation.run(found)
    assert simulation.motion(p) is fast
    again = list(simulation.rows(p))
    np.testing.assert_array_equal(np.concatenate([rows.keep for rows in again], axis=1), first)
    plain = np.concatenate([rows.keep for rows in problem.rows(fast)], axis=1)
    assert np.count_nonzero(plain) > 1.2 * np.count_nonzero(first)
    np.testing.assert_array_equal(
        np.concatenate([rows.W for rows in again], axis=2),
        np.concatenate([rows.W for rows in problem.rows(fast)], axis=2),
    )


def test_the_model_that_is_simulated_has_the_friction_that_was_found(monkeypatch):
    p, seen = recorded(0), []
    terms = (FrictionTerm(2, FrictionKind.CUBIC),)
    information = inform(ROBOT, BASE, (p,), delay=False, terms=terms)
    problem = Problem(ROBOT, BASE, (p,), information, np.zeros(information.size), terms, controller="its own")
    monkeypatch.setattr(fit_module, "simulated", lambda *args: seen.append(args) or "moved")
    found = wls(information)
    value = found.value.copy()
    value[len(BASE)] = 0.7
    fit_module._Simulation(problem).run(replace(found, value=value))
    ((robot, chi, prepared, controller),) = seen
    (term,) = robot.friction
    assert (term.joint, term.kind, term.coefficient) == (2, FrictionKind.CUBIC, 0.7)
    assert prepared is p and controller == "its own"
    at = [k for k, name in enumerate(BASE.leaders) if not name.startswith("F")]
    np.testing.assert_array_equal(chi[list(COLUMNS)][at], value[at])


def test_didim_is_least_squares_of_recorded_torques_on_simulated_rows(monkeypatch):
    """Every recording must be known whole, and move as it was recorded."""
    first, second = recorded(0), recorded(1)
    motions = {
        p.source: [replace(p, tau=0.0 * p.tau, carried=p.tau, q=1.001 * p.q, dq=p.dq * (p.t > 1.0)[:, None])]
        for p in (first, second)
    }  # the simulated robot starts late: rows are left out where it stands still
    monkeypatch.setattr(fit_module, "simulated", moving_as(motions))
    problem = problem_of(first, second, controller=object())
    fit = fitter(Method.DIDIM, problem)
    chosen = list(range(15, 45))

    def rows(p):
        for ours, theirs in zip(problem.rows(motions[p.source][0]), problem.rows(p), strict=True):
            yield replace(ours, tau=theirs.tau)

    by_hand = problem.gathered(rows)
    for some, information in ((None, by_hand), (chosen, by_hand.take(chosen))):
        found = fit(some)
        np.testing.assert_allclose(found.value, wls(information, problem.prior).value, rtol=1e-6, atol=1e-9)
        assert found.method is Method.DIDIM
    assert not np.allclose(fit(None).value, wls(problem.information).value, rtol=1e-5)
    far = {**motions, "run1": [replace(motions["run1"][0], q=1.2 * second.q)]}
    monkeypatch.setattr(fit_module, "simulated", moving_as(far))
    with pytest.raises(InputError, match=r"run1: .*the controller is another than was given"):
        fitter(Method.DIDIM, problem)
    with pytest.raises(InputError, match=r"run1: .*no commanded positions"):
        fitter(Method.DIDIM, replace(problem, prepared=(first, replace(second, reference=None))))


def test_instruments_of_simulated_motion_are_those_of_the_last_run(monkeypatch):
    """Plain instruments where the simulation moves as was commanded; of some blocks, moments of these alone."""
    p = recorded(0)
    same = replace(p, q=p.reference, tau=p.tau, carried=p.tau, reference=None, commands=None)
    monkeypatch.setattr(fit_module, "simulated", moving_as({p.source: [same]}))
    problem = problem_of(p)
    fit, plain = fitter(Method.IDIM_IV, problem), fitter(Method.IV, problem)
    for chosen in (None, list(range(20))):
        ours, theirs = fit(chosen), plain(chosen)
        assert ours.method is Method.IDIM_IV and theirs.method is Method.IV
        assert np.median(np.abs(ours.value - theirs.value) / theirs.std) < 0.5
        assert 0.5 < np.median(ours.std / theirs.std) < 2.0
    assert np.abs(fit(None).value - fit(list(range(20))).value).max() > 1e-6


def test_without_instruments_that_excite_everything_the_first_model_is_that_of_least_squares(monkeypatch):
    p = recorded(0)
    still = replace(p, reference=p.reference * [1.0, 1.0, 0.0])
    problem = problem_of(still)
    found = fit_module._start(problem)
    assert found.method is Method.WLS
    np.testing.assert_array_equal(found.value, wls(problem.information, problem.prior).value)
    assert fit_module._start(problem_of(p)).method is Method.IV


# --- the recording once more, simulated


@pytest.mark.parametrize(("slow", "controlled", "commanded"), [
    (0.05, True, True), (0.0, True, True), (0.05, False, True), (0.05, True, False),
])  # fmt: skip
def test_what_is_simulated_and_with_which_loop(monkeypatch, slow, controlled, commanded):
    """The robot's own loop only where both controller and command are known; else one that follows closely."""
    p = recorded(0, reference=commanded)
    N = len(p.t)
    warmth = 20.0 + np.outer(p.t, [1.0, 2.0, 3.0])
    p = replace(p, filter=replace(p.filter, slow=slow), temperature=warmth, second=p.tau, carried=p.tau,
                segments=(slice(0, 200), slice(210, N)))  # fmt: skip
    p = replace(p, bridged=np.where(np.isin(np.arange(N), [100, 300]), 0.5, 0.0))
    seen, rate = [], p.filter.inner_rate
    m = int(np.ceil(500.0 / rate))
    controller = controller_of(ROBOT, CHI) if controlled else None

    def tracked(model, used, command):
        seen.append((model, used, command))
        count = command.segments[-1].stop
        made = [np.full((count, 3), k + np.arange(count)[:, None]) for k in range(6)]
        return TrackedMotion(*made, 0.02)

    monkeypatch.setattr(simulated_loop, "simulate_tracking", tracked)
    fine = simulated_loop.simulated(ROBOT, CHI, p, controller)
    ((model, used, command),) = seen
    assert rate < 250.0 and command.rate == m * rate >= 500.0 and (m - 1) * rate < 500.0
    np.testing.assert_allclose(model.v0, 0.1 * (slow or 0.02) * p.top_speed)
    assert (used is controller) == (controlled and commanded)
    plain, ddq = simulated_loop._command(ROBOT, p, m)
    np.testing.assert_array_equal(command.q, plain.q)
    if used is controller:
        np.testing.assert_array_equal(command.tau_f, plain.tau_f)
    else:
        np.testing.assert_allclose(command.tau_f, inverse_dynamics(ROBOT, CHI, plain.q, plain.dq, ddq), atol=1e-8)
        assert used.speed_filter == np.inf
    sizes = [m * (s.stop - s.start - 1) + 1 for s in p.segments]
    assert fine.segments == (slice(0, sizes[0]), slice(sizes[0], sum(sizes)))
    for k, field in enumerate(("q", "dq", "ddq", "tau", "carried", "sign")):
        assert getattr(fine, field)[7, 1] == k + 7, field
    for part, own in zip(fine.segments, p.segments, strict=True):
        np.testing.assert_allclose(fine.t[part][::m], p.t[own])
        np.testing.assert_allclose(fine.temperature[part], 20.0 + np.outer(fine.t[part], [1.0, 2.0, 3.0]))
        started = int(np.ceil(5.0 * 0.02 * m * rate))
        assert (fine.bridged[part][:started] == 1.0).all() and fine.bridged[part][started] < 1.0
    assert np.count_nonzero(fine.bridged == 0.5) == 2 * m
    np.testing.assert_array_equal(fine.kernel, finer_kernel(4.0, rate, m))
    np.testing.assert_array_equal(fine.slope_kernel, finer_kernel(4.0, rate, m, 1))
    assert (fine.step, fine.filter) == (m * p.step, replace(p.filter, inner_rate=m * rate))
    assert fine.reference is fine.commands is fine.second is None and fine.source == p.source
    assert simulated_loop.simulated(ROBOT, CHI, replace(p, temperature=None), controller).temperature is None


@pytest.mark.parametrize(("rate", "times"), [(800.0, 1), (500.0, 1), (400.0, 2), (125.0, 4), (120.0, 5)])
def test_the_loop_is_simulated_at_500_hz_at_least(monkeypatch, rate, times):
    p = recorded(0)
    p = replace(p, filter=replace(p.filter, inner_rate=rate), top_speed=np.array([1.0, 2.0, 0.0]))
    seen = []

    def tracked(model, used, command):
        seen.append((model, command))
        return TrackedMotion(*(np.zeros_like(command.q) for _ in range(6)), 0.02)

    monkeypatch.setattr(simulated_loop, "simulate_tracking", tracked)
    fine = simulated_loop.simulated(ROBOT, CHI, p, None)
    ((model, command),) = seen
    assert command.rate == fine.filter.inner_rate == times * rate and fine.step == times * p.step
    assert model.v0[2] == 1e-9, "of a joint that stands still too"


def test_a_model_with_heavier_rotors_is_also_fed_forward(monkeypatch):
    """What the close follower adds is the torque of the model that moves, not of the one that could not."""
    p, seen = recorded(0, reference=False), []
    impossible = CHI.copy()
    impossible[14 * 2 + 10] -= 1.0  # Ia3

    def tracked(model, used, command):
        seen.append((model, command))
        return TrackedMotion(*(np.zeros_like(command.q) for _ in range(6)), 0.02)

    monkeypatch.setattr(simulated_loop, "simulate_tracking", tracked)
    simulated_loop.simulated(ROBOT, impossible, p, None)
    ((model, command),) = seen
    assert not np.allclose(model.chi, impossible)
    _, ddq = simulated_loop._command(ROBOT, p, round(command.rate / p.filter.inner_rate))
    wanted = inverse_dynamics(ROBOT, model.chi, command.q, command.dq, ddq)
    np.testing.assert_allclose(command.tau_f, wanted, atol=1e-8)


def test_samples_that_are_elsewhere_or_filtered_by_others_are_not_simulated():
    p = recorded(0)
    with pytest.raises(InputError, match="elsewhere cannot be simulated"):
        simulated_loop.simulated(ROBOT, CHI, replace(p, elsewhere=object()), None)
    for bad in (
        replace(p, known=None), replace(p, kernel=None), replace(p, filter=replace(p.filter, row_cutoff=None)),
    ):  # fmt: skip
        with pytest.raises(InputError, match="needs positions as recorded"):
            simulated_loop.simulated(ROBOT, CHI, bad, None)


def test_instruments_of_a_simulation_are_its_motion_at_the_recorded_times():
    p = recorded(0)
    N, m = len(p.t), 3
    p = replace(p, segments=(slice(0, 150), slice(160, N)), temperature=p.tau + 5.0)
    p = replace(p, bridged=np.where(np.isin(np.arange(N), [3, 155, 170]), 0.5, 0.0))
    rng = np.random.default_rng(0)
    sizes = [m * 149 + 1, m * (N - 161) + 1]
    q, tau, carried = np.cumsum(rng.normal(size=(3, sum(sizes), 3)), axis=1) * 0.01
    t = np.concatenate([np.linspace(p.t[s.start], p.t[s.stop - 1], size)
                        for s, size in zip(p.segments, sizes, strict=True)])  # fmt: skip
    parts = (slice(0, sizes[0]), slice(sizes[0], sum(sizes)))
    motion = replace(p, t=t, q=q, tau=tau, carried=carried, segments=parts, step=m * p.step,
                     bridged=np.ones(sum(sizes)))  # fmt: skip
    found = simulated_loop.simulated_instruments(ROBOT, p, motion)
    at = np.concatenate((np.arange(0, sizes[0], m), np.arange(sizes[0], sum(sizes), m)))
    own = np.concatenate((np.arange(150), np.arange(160, N)))
    assert found.segments == (slice(0, 150), slice(150, N - 10)) and found.step == p.step
    np.testing.assert_allclose(found.t, p.t[own])
    np.testing.assert_array_equal(found.bridged, p.bridged[own])
    np.testing.assert_array_equal(found.temperature, p.temperature[own])
    band = motion_band(p)
    for part in found.segments:
        for field, source in (("q", q), ("tau", tau), ("carried", carried)):
            slow = in_band(source[at][part], band, p.filter.inner_rate)
            np.testing.assert_allclose(getattr(found, field)[part], slow, atol=1e-9)
    assert simulated_loop.simulated_instruments(ROBOT, replace(p, temperature=None), motion).temperature is None
