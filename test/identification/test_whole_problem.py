"""From recordings to a problem and back: what is read, in pieces or again, moved, filtered and reported."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import yaml

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification import read_problem as reading
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import fit as fit_module
from ros2_dynid.identification.estimators.column_layout import ColumnLayout
from ros2_dynid.identification.estimators.fit import Problem, fitter, inform
from ros2_dynid.identification.estimators.information import Information, restrict
from ros2_dynid.identification.estimators.least_squares import solve, weighted_triangle, wls
from ros2_dynid.identification.estimators.prior import Drawn, Prior, Weighing
from ros2_dynid.identification.estimators.robust import irls
from ros2_dynid.identification.estimators.total_least_squares import disturbed
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.physical.parameter_sets import imposed_on, set_fits
from ros2_dynid.identification.preparation import PreparationOptions, as_prepared, effort_later, prepare, prepare_pieces
from ros2_dynid.identification.read_problem import all_prepared, pieces_read_once, pieces_read_twice, read_problem
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.recording.in_order import ClockSetBackError
from ros2_dynid.recording.reading import Reading
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples
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


class Told:
    """Keeps what a progress says."""

    def __init__(self):
        self.all = []

    def __call__(self, stage, fraction):
        self.all.append((stage, fraction))


# --- reading


def test_recordings_are_prepared_one_after_the_other_and_said_so():
    told = Told()
    found = all_prepared(ROBOT, [recorded(0), recorded(1)], PLAIN, told, (0.2, 0.4))
    assert told.all == [("reading recordings", pytest.approx(0.2)), ("reading recordings", pytest.approx(0.4))]
    assert [p.source for p in found] == ["run0", "run1"]
    np.testing.assert_array_equal(found[1].tau, prepare(ROBOT, recorded(1), PLAIN.preparation).tau)


def test_recordings_held_out_pass_the_filters_and_the_delay_of_those_fitted():
    first = prepare(ROBOT, recorded(0), PLAIN.preparation)
    moved = effort_later(first, 0.04)
    (found,) = all_prepared(ROBOT, [recorded(1)], IdentifyOptions(), Told(), (0.0, 1.0), moved.filter)
    assert (found.filter.row_cutoff, found.filter.position_cutoff) == (5.0, 25.0)
    assert found.filter.delay == pytest.approx(moved.filter.delay) == pytest.approx(0.04)
    own = prepare(ROBOT, recorded(1), PLAIN.preparation)
    np.testing.assert_allclose(found.tau, effort_later(own, 0.04).tau)
    given = IdentifyOptions(preparation=replace(PLAIN.preparation, delay=0.04))
    (once,) = all_prepared(ROBOT, [recorded(1)], given, Told(), (0.0, 1.0), moved.filter)
    assert once.filter.delay == pytest.approx(0.04), "not twice"
    np.testing.assert_allclose(
        once.tau[20:-20], found.tau[20:][: len(once.tau) - 40], atol=0.02 * np.abs(own.tau).max()
    )


def test_a_file_is_read_in_pieces_that_hold_all_of_it(tmp_path, monkeypatch):
    samples = recorded(0)
    path = tmp_path / "run.csv"
    save_samples(samples, path)
    monkeypatch.setattr(reading, "PIECE", 800)
    notes = []
    pieces = list(pieces_read_once(ROBOT, path, Reading(start=1.0, end=11.0), notes))
    twice = list(pieces_read_twice(ROBOT, path, Reading(start=1.0, end=11.0), []))
    inside = (samples.t >= 1.0) & (samples.t <= 11.0)
    for parts in (pieces, twice):
        for field in ("t", "q", "tau"):
            whole = np.concatenate([getattr(part, field) for part in parts])
            np.testing.assert_allclose(whole, getattr(samples, field)[inside], atol=1e-9)
    assert [len(part) for part in pieces] == [1999, 2], "what may still be put in order comes last"
    monkeypatch.undo()
    (found,) = all_prepared(ROBOT, [path], PLAIN, Told(), (0.0, 1.0))
    whole = prepare(ROBOT, samples, PLAIN.preparation)
    assert found.source == str(path) and found.t[-1] == pytest.approx(whole.t[-1])
    np.testing.assert_allclose(found.q[:50], whole.q[:50], atol=1e-6)


def test_of_a_clock_that_was_set_back_the_longest_stretch_is_read(tmp_path):
    samples = recorded(0)
    t = samples.t.copy()
    t[600:] -= 2.9
    path = tmp_path / "run.npz"
    save_samples(replace(samples, t=t), path)
    with pytest.raises(ClockSetBackError):
        list(pieces_read_once(ROBOT, path, Reading(), []))
    notes = []
    parts = list(pieces_read_twice(ROBOT, path, Reading(), notes))
    np.testing.assert_allclose(np.concatenate([part.q for part in parts]), samples.q[600:], atol=1e-9)
    assert any("clock was set back" in note.text for note in notes)
    told = Told()
    (found,) = all_prepared(ROBOT, [path], PLAIN, told, (0.3, 0.2))
    assert any("clock was set back" in note.text for note in found.notes) and {f for _, f in told.all} == {0.3}
    assert len({note.text for note in found.notes}) == len(found.notes), "each once"


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


def test_a_problem_is_what_the_rows_say(monkeypatch):
    told = Told()
    problem = read_problem(ROBOT, [recorded(0), recorded(1)], PLAIN, told)
    assert problem.terms == () and problem.second is None and problem.controller is None
    assert problem.information.layout.n_delay == 1 and len(problem.prepared) == 2
    value = BASE.values(ROBOT, standard_vector(ROBOT))
    np.testing.assert_allclose(problem.prior, [*value, 0.0])
    fractions = [fraction for stage, fraction in told.all if stage == "regressor"]
    assert fractions == sorted(fractions) and 0.35 < fractions[0] < 0.7 and fractions[-1] == pytest.approx(0.7)
    assert [f for stage, f in told.all if stage != "regressor"] == pytest.approx([0.05, 0.2])
    estimate = wls(problem.information)
    np.testing.assert_allclose(estimate.base, BASE.values(ROBOT, CHI), atol=5 * estimate.base_std.max())
    assert abs(estimate.delay) < 5 * estimate.delay_std < 1e-3
    given = replace(PLAIN, preparation=replace(PLAIN.preparation, delay=0.0))
    assert read_problem(ROBOT, [recorded(0)], given, Told()).information.layout.n_delay == 0
    late = read_problem(ROBOT, [recorded(0, late=0.05)], PLAIN, Told())
    total = late.prepared[0].filter.delay + wls(late.information).delay
    assert total == pytest.approx(0.05, abs=2e-3) and late.prepared[0].filter.delay > 0.02


@pytest.mark.parametrize("asked", [{}, {"row_cutoff": 8.0}, {"position_cutoff": 30.0}])
def test_a_lower_cut_off_is_asked_for_only_where_none_is_given(monkeypatch, asked):
    calls = []

    def lower(prepared, information, inform):
        calls.append(len(prepared))
        return 3.0

    monkeypatch.setattr(reading, "lower_cutoff", lower)
    options = replace(PLAIN, preparation=PreparationOptions(**asked))
    problem = read_problem(ROBOT, [recorded(0)], options, Told())
    told = [note.text for note in problem.prepared[0].notes]
    if asked:
        assert not calls and not any("lets too much noise in" in text for text in told)
    else:
        assert calls == [1] and problem.prepared[0].filter.row_cutoff == 3.0
        assert any("rows are filtered at 3 Hz instead" in text for text in told)


def test_a_problem_has_the_controller_the_law_and_the_second_sensor_asked_for(tmp_path):
    gains = {name: {"p": 100.0 * (k + 1), "d": 10.0 * (k + 1)} for k, name in enumerate(ROBOT.active_names)}
    path = tmp_path / "controller.yaml"
    path.write_text(yaml.safe_dump({"c": {"ros__parameters": {"gains": dict(reversed(gains.items()))}}}))
    samples = recorded(0)
    speed = np.gradient(samples.q[:, 1], samples.t)
    both = replace(samples, tau=samples.tau + np.outer(speed**3, [0.0, 3.0, 0.0]), tau_l=samples.tau + 1.0)
    options = replace(PLAIN, controller=str(path), friction=f"{ROBOT.active_names[1]}=cubic", torque_sensor="link+Fc")
    problem = read_problem(ROBOT, [both], options, Told())
    assert problem.controller.Kp.tolist() == [100.0, 200.0, 300.0]
    assert [(term.joint, term.kind) for term in problem.terms] == [(2, FrictionKind.CUBIC)]
    assert problem.information.layout.n_friction == 1 and problem.prior[problem.information.layout.friction] == [0.0]
    assert [joint.felt for joint in problem.second.robot.joints] == [("Fc",)] * 3
    other = read_problem(ROBOT, [both], PLAIN, Told())
    assert [joint.felt for joint in other.second.robot.joints] == [()] * 3 and other.controller is None
    assert other.terms == (), "plain friction, whatever the data say"


def test_after_a_lower_cut_off_the_rows_are_those_filtered_by_it(monkeypatch):
    monkeypatch.setattr(reading, "lower_cutoff", lambda prepared, information, inform: 3.0)
    options = replace(PLAIN, preparation=PreparationOptions())
    problem = read_problem(ROBOT, [recorded(0), recorded(1)], options, Told())
    direct = [prepare(ROBOT, recorded(k), PreparationOptions(row_cutoff=3.0)) for k in range(2)]
    wanted = inform(ROBOT, BASE, direct, delay=True)
    for j in range(3):
        A, B = problem.information.triangle(j), wanted.triangle(j)
        np.testing.assert_allclose(A.T @ A, B.T @ B, rtol=1e-6, atol=1e-6 * np.abs(B.T @ B).max())
    for part, same in zip(problem.prepared, direct, strict=True):
        assert part.filter == same.filter and len(part.notes) == len(same.notes) + 1


def test_a_file_read_twice_comes_in_pieces_too(monkeypatch):
    samples = recorded(0)

    def chunks(path, robot, reading, notes):
        for first in range(0, len(samples), 100):
            yield samples.take(slice(first, first + 100))

    monkeypatch.setattr(reading, "iter_samples", chunks)
    monkeypatch.setattr(reading, "PIECE", 450)
    parts = list(pieces_read_twice(ROBOT, "run", Reading(), []))
    assert all(450 <= len(part) < 650 for part in parts[:-1]) and len(parts) == 5
    for field in ("t", "q", "tau"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, field) for part in parts]), getattr(samples, field))


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
    information = inform(ROBOT, BASE, exact((CUBIC,)), delay=True, terms=terms)
    prior = np.arange(information.size, dtype=float)
    problem = Problem(ROBOT, BASE, exact((CUBIC,)), information, prior, terms)
    plain = problem.plain()
    b = len(BASE)
    assert plain.terms == () and plain.information.layout.n_friction == 0 and plain.information.layout.n_delay == 1
    np.testing.assert_array_equal(plain.prior, [*range(b), b + 2])
    direct = inform(ROBOT, BASE, exact((CUBIC,)), delay=True)
    for j in range(3):
        A, B = plain.information.triangle(j), direct.triangle(j)
        np.testing.assert_allclose(A.T @ A, B.T @ B, atol=1e-8)
    kept = [*range(b), b + 2]
    again = restrict(information, kept, plain.information.layout)
    np.testing.assert_array_equal(again.columns[1], plain.information.columns[1])
    assert not problem.repeats and problem.to_test(Method.WLS) is problem
    some = list(range(5, 25))
    for method in (Method.OLS, Method.WLS, Method.RECURSIVE, Method.SEQUENTIAL):
        fit = fitter(method, problem)
        np.testing.assert_allclose(fit(some).value, fitter(method, replace(
            problem, information=information.take(some)))(None).value, rtol=1e-9)  # fmt: skip
        assert fit(None).friction == pytest.approx([0.5, 0.0], abs=0.1) and fit(None).method is method


def test_every_second_chunk_across_parts():
    whole = exact()[0]
    every, half = (inform(ROBOT, BASE, [whole], delay=False, every=count) for count in (1, 2))
    assert list(every.rows) == [500] * 3 and list(half.rows) == [400] * 3, "chunks of 400 rows, the last of 100"


def test_a_motion_that_repeats_is_kept_by_phase_unless_rows_are_left_out():
    t = np.arange(0.0, 12.0, 0.01)
    w = 2.0 * np.pi / 3.0 * np.array([1.0, 2.0, 3.0])
    q, dq, ddq = (w**k * np.sin(np.outer(t, w) + k * np.pi / 2) for k in range(3))
    whole = as_prepared(ROBOT, q, dq, ddq, inverse_dynamics(ROBOT, CHI, q, dq, ddq), t)
    every, half = (inform(ROBOT, BASE, [whole], delay=False, every=count) for count in (1, 2))
    assert len(every.phases) == 30 and half.phases == ()
    problem = Problem(ROBOT, BASE, (whole,), every, np.zeros(len(BASE)))
    tested = problem.to_test(Method.WLS)
    assert problem.repeats and tested.information.blocks == every.phases and not tested.repeats
    assert problem.to_test(Method.IRLS) is problem


def test_what_noise_of_the_encoders_does_to_the_rows():
    """The information that total least squares takes off is that of W with noise less W without."""
    prepared = tuple(prepare(ROBOT, recorded(k), PLAIN.preparation) for k in range(2))
    prepared = tuple(replace(p, position_noise=np.array([1e-3, 2e-3, 0.0])) for p in prepared)
    information = inform(ROBOT, BASE, prepared, delay=False)
    problem = Problem(ROBOT, BASE, prepared, information, np.zeros(len(BASE)))
    found = fit_module._differences(problem, None)
    sums = [np.zeros((len(columns) + 1,) * 2) for columns in information.columns]
    for k, p in enumerate(prepared):
        for clean, noisy in zip(problem.rows(p), problem.rows(disturbed(p, k)), strict=True):
            for j, columns in enumerate(information.columns):
                more = (noisy.W - clean.W)[columns, j][:, clean.keep[j]]
                sums[j][:-1, :-1] += more @ more.T
    for j, wanted in enumerate(sums):
        R = found.triangle(j)
        np.testing.assert_allclose(R.T @ R, wanted, atol=1e-9 * max(wanted.max(), 1.0))
    assert sums[0].max() > 0.0
    wide = Information(information.blocks[:1], information.columns, ColumnLayout(10_000))
    with pytest.raises(InputError, match=r"rows for 10000 base parameters"):
        irls(wide, wide, np.ones(3))


# --- bodies


@pytest.mark.parametrize("method", [Method.WLS, Method.IRLS])
def test_bodies_are_closest_to_the_estimate_of_any_method(method):
    pytest.importorskip("clarabel")
    information = inform(ROBOT, BASE, exact(), delay=False)
    problem = Problem(ROBOT, BASE, exact(), information, np.zeros(len(BASE)))
    found = replace(wls(information), method=method)
    best = imposed_on(problem, information, found)
    moved = replace(found, value=found.value * 1.02)
    other = imposed_on(problem, information, moved)
    if method is Method.WLS:
        np.testing.assert_allclose(other.value, best.value, atol=1e-6)
    else:
        np.testing.assert_allclose(other.value, 1.02 * best.value, atol=0.02 * np.abs(best.value).max())
    np.testing.assert_allclose(best.value, found.base, atol=4 * found.base_std.max())
    # drawn with a prior that knows better than the data, they are those of the prior
    mean = BASE.values(ROBOT, CHI)
    prior = Prior(mean, 1e12 * np.eye(len(mean)), "truth")
    drawn = Drawn(found, prior, Weighing(1.0, 0.1, 0.01), np.ones(len(mean)))
    if method is Method.WLS:
        tied = imposed_on(problem, information, found, drawn)
        assert np.abs(tied.value - mean).max() < 0.2 * np.abs(best.value - mean).max()
        free = imposed_on(problem, information, found, replace(drawn, weighing=Weighing(0.0, 0.0, 0.0)))
        np.testing.assert_allclose(free.value, best.value, atol=1e-6)


def test_sets_of_some_blocks_are_those_of_a_fit_to_them():
    pytest.importorskip("clarabel")
    information = inform(ROBOT, BASE, exact(), delay=False)
    problem = Problem(ROBOT, BASE, exact(), information, np.zeros(len(BASE)))
    fits = set_fits(problem, fitter(Method.WLS, problem), with_essential=True, with_consistent=True)
    assert list(fits) == ["base", "essential", "consistent"]
    some = list(range(20))
    base, few, bodies = (fit(some) for fit in fits.values())
    np.testing.assert_allclose(base.value, wls(information.take(some)).value)
    dropped = few.value == 0.0
    assert dropped.any()
    kept = [*np.flatnonzero(~dropped), information.size]
    R = weighted_triangle(information.take(some), 1.0 / base.sigma).R[:, kept]
    np.testing.assert_allclose(few.value[~dropped], solve(R).value, rtol=1e-6)
    assert np.abs(bodies.value - few.value).max() < 0.2 * np.abs(few.value).max() and fits["base"](some) is base
