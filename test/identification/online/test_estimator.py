# SPDX-License-Identifier: Apache-2.0

"""Identification while the robot works."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.control.reference import reference
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.model_file import TorqueError, model_of
from ros2_dynid.identification.online.estimator import (
    OnlineEstimator,
    choose_filters,
    leave_out_used,
    subtract_friction_terms,
)
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import Imperfections
from ros2_dynid.sim.truth import true_parameters
from served_model import served_model

ROBOT = load_robot("demo3")


def motion(seconds):
    """Return a lively motion around the middle of the ranges that starts and ends at rest."""
    t = np.arange(0.0, seconds, 0.02)
    phase = 2 * np.pi * np.array([0.31, 0.43, 0.59]) * t[:, None]
    envelope = np.minimum(1.0, np.minimum(t, seconds - t) / 2)[:, None] ** 2 * (np.array([0.9, 0.6, 0.8]))
    q = np.array([0.0, -1.0, 0.0]) + envelope * np.sin(phase)
    dq = np.gradient(q, 0.02, axis=0)
    dq[[0, -1]] = 0.0
    return reference(("waist", "shoulder", "elbow"), t, q, dq)


@pytest.fixture(scope="module")
def run():
    """Stream 24 s through the estimator, with a payload from the 16th second on; return what it said."""
    plant = Plant(
        ROBOT,
        seed=2,
        spread=0.15,
        period=1e-3,
        imperfections=Imperfections(torque_noise=0.005),
        start=np.array([0.0, -1.0, 0.0]),
        stiffness=8.0,
    )
    plant.follow(motion(26.0))
    estimator = OnlineEstimator(ROBOT, 1000.0, memory=30.0)
    reference_model, verdicts, found = None, [], None
    for k in range(24_000):
        if k == 16_000:
            plant.sim.attach(2.0, np.array([0.0, 0.25, 0.0]), 0.01 * np.eye(3))
        measured = plant.step()
        estimator.take(measured.q, measured.tau)
        if k % 200 == 199:
            estimator.work(reference_model)
            if k == 11_999:
                found = estimator.estimate()
                chi = true_parameters(ROBOT, 2)
                base = base_parameters(ROBOT)
                value, size = base.values(ROBOT, chi), len(base)
                usual = {name: TorqueError(0.4, 0.01) for name in (*ROBOT.active_names, "all")}
                reference_model = model_of(ROBOT, base, value, np.full(size, 1e-3), 1e-6 * np.eye(size), fit=usual)
            if reference_model is not None:
                verdicts.append((k, estimator.drift(reference_model, 3.0)))
    return found, verdicts


def test_the_estimate_has_the_torques_of_the_truth(run):
    found, _ = run
    assert found is not None and np.all(found.std > 0)
    rng = np.random.default_rng(0)
    q, dq, ddq = (rng.uniform(-1, 1, (200, 3)) for _ in range(3))
    truth = inverse_dynamics(ROBOT, true_parameters(ROBOT, 2), q, dq, ddq)
    assert np.linalg.norm(found.torque(q, dq, ddq) - truth) < 0.05 * np.linalg.norm(truth)


def test_the_bars_of_the_estimate_hold_the_truth(run):
    found, _ = run
    base = base_parameters(ROBOT)
    z = (found.value - base.values(ROBOT, true_parameters(ROBOT, 2))) / found.std
    assert np.mean(np.abs(z) < 3.0) >= 0.95
    assert 0.3 < np.sqrt(np.mean(z**2)) < 2.0


def test_blocks_are_joined_and_the_old_forgotten():
    """A stream far longer than the memory: a bounded number of blocks, and only what is recent counts."""
    rng = np.random.default_rng(0)
    estimator = OnlineEstimator(ROBOT, 100.0, memory=20.0)
    base = base_parameters(ROBOT)
    chi = true_parameters(ROBOT, 2)
    t = np.arange(0.0, 240.0, 0.01)
    phase = 2 * np.pi * np.array([0.31, 0.43, 0.59]) * t[:, None]
    size = np.array([0.9, 0.6, 0.8])
    w = 2 * np.pi * np.array([0.31, 0.43, 0.59])
    q, dq, ddq = size * np.sin(phase), size * w * np.cos(phase), -size * w**2 * np.sin(phase)
    changed = chi.copy()
    changed[12] += 5.0  # Coulomb friction of the first joint, from the first minute on
    tau = np.where(
        (t < 60.0)[:, None], inverse_dynamics(ROBOT, chi, q, dq, ddq), inverse_dynamics(ROBOT, changed, q, dq, ddq)
    )
    tau += 0.05 * rng.standard_normal(tau.shape)
    for k in range(len(t)):
        estimator.take(q[k], tau[k], float(t[k]))
        if k % 100 == 99:
            estimator.work()
    assert len(estimator.blocks) <= 60 and estimator.blocks[-1].end - estimator.blocks[-1].start <= 2.5
    found = estimator.estimate()
    k = list(base.leaders).index("Fc1")
    assert abs(found.value[k] - base.values(ROBOT, changed)[k]) < 0.1


def test_a_clock_that_is_set_back_begins_anew():
    estimator = OnlineEstimator(ROBOT, 1000.0)
    for k in range(4000):
        estimator.take(np.full(3, 0.3 * np.sin(k / 100)), np.full(3, np.cos(k / 100)), 1e-3 * k)
    assert estimator.work() > 0
    estimator.take(np.zeros(3), np.zeros(3), 0.0)
    assert estimator.work() == 0
    for k in range(4000):
        estimator.take(np.full(3, 0.3 * np.sin(k / 100)), np.full(3, np.cos(k / 100)), 1.0 + 1e-3 * k)
    assert estimator.work() > 0


def test_a_payload_is_noticed_within_two_seconds_and_not_before(run):
    _, verdicts = run
    before = [verdict.drifting for k, verdict in verdicts if k < 16_000]
    after = [verdict for k, verdict in verdicts if 18_000 <= k < 20_000]
    assert not any(before)
    assert all(verdict.drifting for verdict in after)


def test_a_broken_stream_starts_again():
    estimator = OnlineEstimator(ROBOT, 1000.0)
    for k in range(2000):
        estimator.take(np.full(3, 0.1 * np.sin(k / 50)), np.full(3, np.nan if k == 1999 else 1.0))
    assert estimator.work() == 0 and estimator.estimate() is None


@pytest.mark.parametrize(
    ("rate", "row_rate", "cutoff", "step", "row_step"),
    [(1000.0, 100.0, 15.0, 16, 2), (1000.0, 10.0, 15.0, 16, 6), (100.0, 100.0, 15.0, 1, 3), (40.0, 100.0, 30.0, 1, 1)],
)
def test_filters_of_a_stream(rate, row_rate, cutoff, step, row_step):
    estimator = OnlineEstimator(ROBOT, rate, row_rate=row_rate, cutoff=cutoff)
    settings = estimator.filter
    cutoffs = choose_filters(3, rate, settings.position_cutoff, row_rate).cutoffs
    position = min(cutoff, 0.3 * rate) if rate > 40.0 else settings.position_cutoff
    assert settings.position_cutoff == position < cutoff * 1.0001 and position <= 0.31 * rate
    assert settings.row_cutoff == pytest.approx(position / 2.2)
    assert (cutoffs.step, cutoffs.row_step) == (step, row_step)
    assert settings.inner_rate == pytest.approx(rate / step) and settings.rate == rate
    assert settings.velocity == ("position",) * 3 and settings.slow == 0.02
    assert settings.row_rate == pytest.approx(rate / step / row_step)
    kernels = lowpass_kernel(position, rate), lowpass_kernel(position / 2.2, rate / step)
    assert settings.dropped == pytest.approx((len(kernels[0]) // 2 + step * (len(kernels[1]) // 2)) / rate)


def test_the_newest_state_that_was_worked_on():
    estimator = OnlineEstimator(ROBOT, 100.0)
    assert estimator.newest == -np.inf and estimator.work() == 0
    for k in range(5):
        estimator.take(np.full(3, 0.1 * k), np.ones(3), 3.0 + 0.01 * k)
    assert estimator.newest == -np.inf
    estimator.work()
    assert estimator.newest == pytest.approx(3.04)
    for k in range(3):
        estimator.take(np.full(3, 0.1 * k), np.ones(3))
    assert estimator.samples == 8


def test_the_torque_of_the_references_friction_terms_is_taken_off():
    rng = np.random.default_rng(0)
    q, dq, ddq, tau = rng.uniform(-1.0, 1.0, (4, 50, 3))
    prepared = as_prepared(ROBOT, q, dq, ddq, tau)
    plain = served_model((0.5, 1.0, 0.1), (2.0, 0.5, 0.2))
    assert subtract_friction_terms(plain, prepared) is prepared
    cubic = replace(plain, robot=replace(ROBOT, friction=(FrictionTerm(2, FrictionKind.CUBIC, 3.0),)))
    found = subtract_friction_terms(cubic, prepared)
    np.testing.assert_allclose(found.tau, tau - np.column_stack((0 * q[:, 0], 3.0 * dq[:, 1] ** 3, 0 * q[:, 2])))
    np.testing.assert_array_equal(found.q, q)


def test_rows_that_were_used_are_not_used_again():
    t = np.array([1.0, 1.1, 1.2, 1.3])
    keep = np.array([[True, True, True, True], [True, False, True, False], [False, True, True, True]])
    rows = Rows(t, np.zeros((2, 3, 4)), np.zeros((3, 4)), keep)
    for last, new in ((-np.inf, [True, True, True, True]), (1.1, [False, False, True, True]), (1.3, [False] * 4)):
        assert np.array_equal(leave_out_used(rows, last).keep, keep & np.array(new))


def stream(seconds, rate=100.0, late=0):
    """Return t, q, tau of an exact motion without dry friction; efforts come `late` samples late."""
    chi = true_parameters(ROBOT, 2)
    chi[[12, 26, 40]] = 0.0
    t = np.arange(int(seconds * rate)) / rate
    w = np.array([2.0, 3.1, 3.7])
    x = w * t[:, None]
    slow, v = 0.4 * np.array([1.0, 2.0, 3.0]), np.array([1.1, 0.7, 0.9])
    y = v * t[:, None]
    q = 0.5 * np.sin(x) + slow * np.sin(y)
    dq = 0.5 * w * np.cos(x) + slow * v * np.cos(y)
    ddq = -0.5 * w**2 * np.sin(x) - slow * v**2 * np.sin(y)
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    return t, q, np.concatenate((np.repeat(tau[:1], late, axis=0), tau[: len(tau) - late])), chi


@pytest.mark.parametrize("piece", [13, 50, 170, 1000])
def test_every_row_of_a_stream_is_used_once_whatever_pieces_it_comes_in(piece):
    t, q, tau, chi = stream(20.0)
    estimator = OnlineEstimator(ROBOT, 100.0, memory=1e6)
    used = fed(estimator, t, q, tau, piece=piece)
    step, ends = 1.0 / estimator.filter.row_rate, estimator.filter.dropped
    stops = np.array([block.end for block in estimator.blocks])
    assert estimator.blocks[0].start == pytest.approx(ends, abs=0.011)
    assert t[-1] - ends - 1.0 - 0.01 * piece - step < stops[-1] < t[-1] - ends + 0.011
    new = np.diff(stops, prepend=estimator.blocks[0].start - step) / step  # steps that are new in each block
    rows = np.array([block.rows for block in estimator.blocks])
    assert np.all(rows.max(axis=1) > new - 0.01) and np.all(rows.max(axis=1) < new + 0.99)
    assert 0.9 < rows.sum() / (3 * new.sum()) < 1.02, "slow rows are left out"
    assert used == rows.sum()
    found = estimator.estimate()
    if piece < 1000:  # two blocks have no scatter
        wanted = base_parameters(ROBOT).values(ROBOT, chi)
        np.testing.assert_allclose(found.value, wanted, atol=0.01 * np.abs(wanted).max())


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_late_effort_is_told_with_the_estimate(late):
    t, q, tau, _ = stream(20.0, late=late)
    estimator = OnlineEstimator(ROBOT, 100.0)
    for k in range(len(t)):
        estimator.take(q[k], tau[k], float(t[k]))
        if k % 100 == 99:
            estimator.work()
    found = estimator.estimate()
    assert found.obtained["method"] == "sequential" and len(found.obtained["sigma"]) == 3
    assert found.obtained["delay"]["seconds"] == pytest.approx(0.01 * late, abs=2e-3)
    assert 0.0 < found.obtained["delay"]["std"] < 0.01 and found.obtained["dof"] > 3.0


@pytest.mark.parametrize(("back", "anew"), [(0.45, False), (0.55, True)])
def test_a_stamp_that_steps_back_a_little_is_no_clock_that_was_set(back, anew):
    estimator = OnlineEstimator(ROBOT, 100.0)
    for k in range(20):
        estimator.take(np.full(3, 0.1 * k), np.ones(3), 5.0 + 0.01 * k)
    estimator.work()
    assert estimator.newest == pytest.approx(5.19)
    estimator.take(np.zeros(3), np.ones(3), 5.19 - back)
    estimator.work()
    assert np.isinf(estimator.newest) == anew
    within = OnlineEstimator(ROBOT, 100.0)
    for stamp in (5.0, 5.6, 5.6 - back):
        within.take(np.zeros(3), np.ones(3), stamp)
    within.work()
    assert np.isinf(within.newest) == anew


def fed(estimator, t, q, tau, reference=None, piece=100):
    """Return the rows that a stream gave, worked on in pieces."""
    used = 0
    for first in range(0, len(t), piece):
        for k in range(first, min(first + piece, len(t))):
            estimator.take(q[k], tau[k], float(t[k]))
        used += estimator.work(reference)
    return used


def test_a_caller_may_use_its_arrays_again():
    t, q, tau, _ = stream(4.0)
    own, reused = OnlineEstimator(ROBOT, 100.0), OnlineEstimator(ROBOT, 100.0)
    fed(own, t, q, tau)
    q_now, tau_now = np.zeros(3), np.zeros(3)
    for k in range(len(t)):
        q_now[:], tau_now[:] = q[k], tau[k]
        reused.take(q_now, tau_now, float(t[k]))
        if k % 100 == 99:
            reused.work()
    for block, other in zip(own.blocks, reused.blocks, strict=True):
        np.testing.assert_array_equal(block.R[1], other.R[1])


@pytest.mark.parametrize("end", ["a value that is missing", "a clock that was set"])
def test_after_a_break_the_stream_gives_the_rows_of_a_new_one(end):
    t, q, tau, _ = stream(8.0)
    model = served_model((0.5, 1.0, 0.1), (2.0, 0.5, 0.2))
    fresh, again = OnlineEstimator(ROBOT, 100.0), OnlineEstimator(ROBOT, 100.0)
    fed(again, t + 100.0, q, tau, model)
    fresh.top_speed = again.top_speed.copy()
    wanted = fed(fresh, t, q, tau, model)
    if end == "a value that is missing":
        again.take(q[0], np.array([1.0, np.nan, 1.0]), 109.0)
    else:
        again.take(q[0], tau[0], 0.0)
    assert again.work(model) == 0 and again.newest == -np.inf
    before = len(again.blocks)
    assert fed(again, t, q, tau, model) == wanted > 0
    np.testing.assert_allclose([block.end for block in again.blocks[before:]], [block.end for block in fresh.blocks])


def test_rows_are_slow_against_thetop_speed_of_all_that_was_seen():
    """A joint that crawls after it ran: its rows are left out, although it is fast against the last second."""
    t, q, tau, _ = stream(16.0)
    slowed = np.where(t < 8.0, t, 8.0 + 0.01 * (t - 8.0))
    q = np.column_stack([np.interp(slowed, t, column) for column in q.T])
    estimator = OnlineEstimator(ROBOT, 100.0)
    before = fed(estimator, t[:800], q[:800], tau[:800])
    top = estimator.top_speed.copy()
    after = fed(estimator, t[800:], q[800:], tau[800:])
    assert np.all(estimator.top_speed >= top) and np.all(top > 0.5)
    assert before > 0 and after < 0.4 * before


def test_a_robot_that_stands_still_gives_no_rows():
    t = np.arange(600) / 100.0
    noise = np.random.default_rng(3).normal(0.0, 1e-5, (600, 3))
    for q in (np.full((600, 3), 0.4), 0.4 + noise):
        estimator = OnlineEstimator(ROBOT, 100.0)
        assert fed(estimator, t, q, np.ones((600, 3))) == 0 and estimator.blocks == []
    lost = np.concatenate((t[:20], t[20:40] + 3.0))
    assert fed(OnlineEstimator(ROBOT, 100.0), lost, np.outer(lost, np.ones(3)), np.ones((40, 3))) == 0


def test_friction_terms_are_those_of_the_reference_and_stay_in_the_estimate():
    t, q, tau, chi = stream(20.0)
    speed = np.gradient(q[:, 1], t)
    rubbing = tau + np.column_stack((0 * speed, 3.0 * speed**3, 0 * speed))
    law = (FrictionTerm(2, FrictionKind.CUBIC, 3.0),)
    base = base_parameters(ROBOT)
    size = len(base)
    model = model_of(replace(ROBOT, friction=law), base, base.values(ROBOT, chi), np.ones(size), np.eye(size))
    wanted = base.values(ROBOT, chi)
    for robot, served, terms, right in (
        (ROBOT, model, law, True),
        (ROBOT, None, (), False),
        (replace(ROBOT, friction=law), None, law, False),
    ):
        estimator = OnlineEstimator(robot, 100.0)
        assert estimator.robot.friction == ()
        fed(estimator, t, q, rubbing, served)
        found = estimator.estimate()
        assert found.robot.friction == terms
        off = np.abs(found.value - wanted)[list(base.leaders).index("Fv2")]
        assert (off < 0.1) == right


def test_nothing_is_said_before_every_parameter_is_determined():
    t, q, tau, _ = stream(20.0)
    one = q * np.array([1.0, 0.0, 1.0]) + np.array([0.0, 0.3, 0.0])  # joint 2 is held
    one[:, 1] += 1e-9 * np.sin(t)
    estimator = OnlineEstimator(ROBOT, 100.0)
    fed(estimator, t, one, tau)
    assert len(estimator.blocks) > 3 and estimator.estimate() is None


def test_nothing_is_said_of_too_few_blocks_or_rows():
    t, q, tau, _ = stream(20.0)
    estimator = OnlineEstimator(ROBOT, 100.0)
    fed(estimator, t, q, tau)
    whole = estimator.information()
    assert estimator.estimate_of(whole.take(range(3))) is not None
    assert estimator.estimate_of(whole.take(range(2))) is None and estimator.estimate_of(None) is None
    short = tuple(replace(b, R=tuple(R[:1] for R in b.R), rows=np.ones(3, dtype=int)) for b in whole.blocks[:3])
    assert estimator.estimate_of(Information(short, whole.columns, whole.layout)) is None


@pytest.mark.parametrize("length", [1.0, 2.5])
def test_rows_are_made_a_block_at_a_time(length):
    """The first when a block and the ends that filters take on either side are there, others a block later each."""
    t, q, tau, _ = stream(12.0)
    estimator, told = OnlineEstimator(ROBOT, 100.0, block=length), []
    for first in range(0, len(t), 10):
        if fed(estimator, *(x[first : first + 10] for x in (t, q, tau))):
            told.append(t[first + 9])
    ends = 2.0 * estimator.filter.dropped
    kept = ends + 2.0 / estimator.filter.row_rate
    assert told[0] == pytest.approx(length + ends, abs=0.11)
    np.testing.assert_allclose(np.diff(told), length + ends - kept, atol=0.11)
    assert all(block.end - block.start > 0.8 * (length - 0.2) for block in estimator.blocks)
