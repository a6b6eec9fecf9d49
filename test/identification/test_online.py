# SPDX-License-Identifier: Apache-2.0

"""Identification while the robot works."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.control.reference import reference
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification import online
from ros2_dynid.identification.model_file import TorqueError, model_of
from ros2_dynid.identification.online import OnlineEstimator
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.torque_std import torque_std
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import Imperfections
from ros2_dynid.sim.truth import true_parameters

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


def block_of(start, end, rows=10, seed=0):
    rng = np.random.default_rng(seed)
    estimator = OnlineEstimator(ROBOT, 100.0)
    width = [int(np.count_nonzero(row)) + 1 for row in estimator._dependence]
    return Block(tuple(rng.normal(size=(k, k)) for k in width), np.array([rows, 2 * rows, 3 * rows]), start, end)


def test_older_blocks_count_less():
    estimator = OnlineEstimator(ROBOT, 100.0, memory=20.0)
    block = block_of(3.0, 4.0, 100)
    faded, same = estimator._faded(block, 4.0 + 10.0), estimator._faded(block, 3.5)
    share = np.exp(-0.5)
    for R, S, whole in zip(faded.R, same.R, block.R, strict=True):
        np.testing.assert_allclose(R.T @ R, share * whole.T @ whole)
        np.testing.assert_allclose(S, whole)
    assert list(faded.rows) == [61, 121, 182] and list(same.rows) == [100, 200, 300]
    newer = block_of(4.0, 9.0, 7, seed=1)
    joined = estimator._joined(block, newer)
    assert (joined.start, joined.end) == (3.0, 9.0)
    share = np.exp(-5.0 / 20.0)
    assert list(joined.rows) == [round(share * k * 100) + k * 7 for k in (1, 2, 3)]
    for R, old, new in zip(joined.R, block.R, newer.R, strict=True):
        np.testing.assert_allclose(R.T @ R, share * old.T @ old + new.T @ new, atol=1e-9)


def test_short_blocks_are_joined_and_many_are_made_longer():
    estimator = OnlineEstimator(ROBOT, 100.0, memory=40.0, block=1.0)
    for k in range(60):
        estimator._add(block_of(float(k), k + 1.0))
    assert len(estimator.blocks) == 60
    estimator._add(block_of(60.0, 60.5))
    assert len(estimator.blocks) == 31 and estimator.blocks[0].end == 2.0 and estimator.blocks[-1].start == 60.0
    estimator._add(block_of(60.5, 61.5))  # the last one is still short of what blocks are long now
    assert len(estimator.blocks) == 31 and estimator.blocks[-1].end == 61.5
    estimator._add(block_of(61.5, 63.5))
    assert len(estimator.blocks) == 32 and estimator.blocks[-1].start == 61.5
    for k in range(40):  # blocks of 2 s may become 4 s long, a tenth of the memory, and no longer
        estimator._add(block_of(63.5 + 4 * k, 67.5 + 4 * k))
    ends = [block.end for block in estimator.blocks]
    assert ends == sorted(ends) and len(ends) <= 60
    full = OnlineEstimator(ROBOT, 100.0, memory=15.0, block=1.0)  # 2 s would be more than a tenth of it
    for k in range(62):
        full._add(block_of(float(k), k + 1.0))
    assert len(full.blocks) == 60 and full.blocks[0].start == 2.0


def test_blocks_from_before_a_clock_was_set_back_are_the_older_ones():
    estimator = OnlineEstimator(ROBOT, 100.0, memory=20.0, block=1.0)
    for start, end in ((100.0, 101.0), (101.0, 102.0), (102.0, 102.3)):
        estimator._add(block_of(start, end, 100))
    for start, end in ((0.2, 1.0), (1.0, 2.0), (2.0, 3.0)):
        estimator._add(block_of(start, end, 100))
    times = [(block.start, block.end) for block in estimator.blocks]
    np.testing.assert_allclose(times, [(-2.1, -1.1), (-1.1, -0.1), (-0.1, 1.0), (1.0, 2.0), (2.0, 3.0)], atol=1e-9)
    found = estimator.information()
    shares = np.exp(-(3.0 - np.array([-1.1, -0.1])) / 20.0)
    for block, share in zip(found.blocks, shares, strict=False):
        assert list(block.rows) == [round(share * k) for k in (100, 200, 300)]


def test_what_is_asked_for_since_a_time_fades_from_its_own_end():
    estimator = OnlineEstimator(ROBOT, 100.0, memory=20.0)
    assert estimator.information() is None and estimator.estimate() is None
    estimator.blocks = [block_of(2.0 * k, 2.0 * k + 2.0, 100, seed=k) for k in range(5)]
    assert estimator.information(since=8.5) is None
    found = estimator.information(since=4.0)
    assert [block.start for block in found.blocks] == [4.0, 6.0, 8.0]
    for block, whole in zip(found.blocks, estimator.blocks[2:], strict=True):
        share = np.exp(-(10.0 - whole.end) / 20.0)
        np.testing.assert_allclose(block.R[1].T @ block.R[1], share * whole.R[1].T @ whole.R[1])
    assert estimator.estimate_of(estimator.information(since=6.0)) is None, "two blocks have no scatter"


def test_positions_are_remembered_twenty_times_a_second_and_anew_after_a_jump():
    estimator = OnlineEstimator(ROBOT, 100.0, memory=2.0)
    rows = np.column_stack((np.arange(3000) / 100.0, np.random.default_rng(0).normal(size=(3000, 6))))
    for first in range(0, 3000, 70):
        estimator._remember(rows[first : first + 70])
    kept = np.array(estimator._history)
    assert len(kept) == 161 and kept.shape[1] == 4 and kept[-1, 0] > 29.9
    assert np.all(np.diff(kept[:, 0]) >= 0.05 - 1e-9) and np.all(np.diff(kept[:, 0]) < 0.0601)
    estimator._remember(rows[:70])
    assert len(estimator._history) <= 15 and estimator._history[0][0] == 0.0


def test_blocks_of_a_motion_that_repeats_are_put_together_by_phase():
    estimator = OnlineEstimator(ROBOT, 100.0, memory=30.0)
    t = np.arange(0.0, 80.0, 0.05)
    phase = 2 * np.pi * t / 8.0
    q = np.column_stack((np.sin(phase), np.cos(phase) + 0.3 * np.sin(3 * phase), np.sin(2 * phase)))
    estimator._history.extend(np.column_stack((t, q)))
    blocks = tuple(block_of(float(k), k + 1.0, seed=k) for k in range(80))
    found = estimator._phases(blocks)
    assert len(found) == 8 and [(block.start, block.end) for block in found] == [(k, k + 1) for k in range(8)]
    for k, block in enumerate(found):
        same = blocks[k::8]
        assert list(block.rows) == [100, 200, 300]
        np.testing.assert_allclose(block.R[0].T @ block.R[0], sum(b.R[0].T @ b.R[0] for b in same))
    estimator._length = 1.5
    assert estimator._phases(blocks) == (), "five blocks of a period tell nothing"
    estimator._length = 1.0
    estimator._history.clear()
    assert estimator._phases(blocks) == ()
    estimator._history.extend(np.column_stack((t, np.random.default_rng(0).normal(size=q.shape).cumsum(axis=0))))
    assert estimator._phases(blocks) == ()


def reference_of(sigma, fit, std=0.0):
    base = base_parameters(ROBOT)
    value, size = base.values(ROBOT, true_parameters(ROBOT, 2)), len(base)
    usual = {name: TorqueError(x, 0.01) for name, x in zip((*ROBOT.active_names, "all"), (*fit, 0.1), strict=True)}
    obtained = {"sigma": list(sigma), "dof": 30.0}
    return model_of(ROBOT, base, value, np.full(size, std), std**2 * np.eye(size), fit=usual, obtained=obtained)


def test_drift_is_the_error_over_what_the_models_data_and_bars_allow_for():
    estimator = OnlineEstimator(ROBOT, 100.0)
    estimator._error, estimator._variance = np.array([4.0, 9.0, 1.0]), np.array([0.0, 3.0, 0.0])
    model = reference_of((0.5, 1.0, 0.1), (2.0, 0.5, 0.2))
    expected = np.array([2.0 / 2.0, 3.0 / 2.0, 1.0 / 0.2])
    found = estimator.drift(model, 4.9)
    np.testing.assert_allclose(found.ratio, expected)
    assert found.joint == ROBOT.active_names[2] and found.drifting
    assert not estimator.drift(model, 5.1).drifting


@pytest.mark.parametrize("piece", [1, 37, 600])
def test_the_error_that_is_followed_is_that_of_the_reference(piece):
    """A constant torque beyond the model: its square is approached as 1 - exp(-t), whatever pieces it comes in."""
    estimator = OnlineEstimator(ROBOT, 200.0, row_rate=100.0)
    t = np.arange(600) / 200.0
    w = np.array([2.0, 3.0, 2.5])
    q, dq, ddq = np.sin(w * t[:, None]), w * np.cos(w * t[:, None]), -(w**2) * np.sin(w * t[:, None])
    still = np.array([1.0, 1.0, 0.0])
    q, dq, ddq = q * still, dq * still, ddq * still
    chi = true_parameters(ROBOT, 2)
    chi[[12, 26, 40]] = 0.0  # no dry friction: its jumps are not those of a filtered motion
    base = base_parameters(ROBOT)
    size = len(base)
    model = model_of(ROBOT, base, base.values(ROBOT, chi), np.full(size, 0.1), 0.01 * np.eye(size))
    extra = np.array([2.0, -3.0, 5.0])
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq) + extra
    rows = np.column_stack((t, q, tau))
    for first in range(0, 600, piece):
        estimator._watch(rows[first : first + piece], model)
    reach = len(estimator._kernels[0]) - 1
    share = 1.0 - np.exp(-(600 - reach) / 200.0)
    np.testing.assert_allclose(estimator._error[:2], extra[:2] ** 2 * share, rtol=0.06)
    assert estimator._error[2] == estimator._variance[2] == 0.0, "a joint that stands still is not judged"
    spread = torque_std(model, q, dq, ddq)[200:].mean(axis=0)
    assert np.all(np.sqrt(estimator._variance[:2] / share) < 1.3 * spread[:2])
    assert np.all(np.sqrt(estimator._variance[:2] / share) > 0.7 * spread[:2])


@pytest.mark.parametrize(
    ("rate", "row_rate", "cutoff", "step", "row_step"),
    [(1000.0, 100.0, 15.0, 16, 2), (1000.0, 10.0, 15.0, 16, 6), (100.0, 100.0, 15.0, 1, 3), (40.0, 100.0, 30.0, 1, 1)],
)
def test_filters_of_a_stream(rate, row_rate, cutoff, step, row_step):
    estimator = OnlineEstimator(ROBOT, rate, row_rate=row_rate, cutoff=cutoff)
    settings, cutoffs = estimator._filter, estimator._setup.cutoffs
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


@pytest.mark.parametrize("step", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [9, 10, 40])
def test_outputs_of_a_kernel_start_where_it_first_fits(step, count):
    rng = np.random.default_rng(step)
    x, kernel = rng.normal(size=(count, 2)), rng.normal(size=9)
    found = online._inside(x, kernel, step)
    wanted = np.column_stack([np.convolve(column, kernel, mode="valid") for column in x.T])[::step]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_the_torque_of_the_references_friction_terms_is_taken_off():
    rng = np.random.default_rng(0)
    q, dq, ddq, tau = rng.uniform(-1.0, 1.0, (4, 50, 3))
    prepared = as_prepared(ROBOT, q, dq, ddq, tau)
    plain = reference_of((0.5, 1.0, 0.1), (2.0, 0.5, 0.2))
    assert online._without_terms(plain, prepared) is prepared
    cubic = replace(plain, robot=replace(ROBOT, friction=(FrictionTerm(2, FrictionKind.CUBIC, 3.0),)))
    found = online._without_terms(cubic, prepared)
    np.testing.assert_allclose(found.tau, tau - np.column_stack((0 * q[:, 0], 3.0 * dq[:, 1] ** 3, 0 * q[:, 2])))
    np.testing.assert_array_equal(found.q, q)


def test_rows_that_were_used_are_not_used_again():
    estimator = OnlineEstimator(ROBOT, 100.0)
    t = np.array([1.0, 1.1, 1.2, 1.3])
    keep = np.array([[True, True, True, True], [True, False, True, False], [False, True, True, True]])
    rows = Rows(t, np.zeros((2, 3, 4)), np.zeros((3, 4)), keep)
    assert np.array_equal(estimator._new(rows).keep, keep)
    estimator._last_row = 1.1
    assert np.array_equal(estimator._new(rows).keep, keep & np.array([False, False, True, True]))
    estimator._last_row = 1.3
    assert not estimator._new(rows).keep.any()


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
def test_every_row_of_a_stream_is_used_once_whatever_pieces_it_comes_in(piece, monkeypatch):
    t, q, tau, chi = stream(20.0)
    estimator, times = OnlineEstimator(ROBOT, 100.0, memory=1e6), []
    new = estimator._new

    def noted(rows):
        found = new(rows)
        times.append(rows.t[rows.t > estimator._last_row + 1e-9])
        assert np.array_equal(found.keep, rows.keep & np.isin(rows.t, times[-1]))
        return found

    monkeypatch.setattr(estimator, "_new", noted)
    used = 0
    for first in range(0, len(t), piece):
        for k in range(first, min(first + piece, len(t))):
            estimator.take(q[k], tau[k], float(t[k]))
        used += estimator.work()
    step, ends = 1.0 / estimator._filter.row_rate, estimator._filter.dropped
    all_times = np.concatenate(times)
    assert np.all(np.diff(all_times) > 0.0) and np.all(np.diff(all_times) < 1.01 * step)
    assert all_times[0] == pytest.approx(ends, abs=0.011)
    assert t[-1] - ends - 1.0 - 0.01 * piece - step < all_times[-1] < t[-1] - ends + 0.011
    assert 0.9 * 3 * len(all_times) < used <= 3 * len(all_times)  # slow rows are left out
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
    estimator, q, tau = OnlineEstimator(ROBOT, 100.0), np.zeros(3), np.zeros(3)
    for k in range(5):
        q[:], tau[:] = k, 10.0 + k
        estimator.take(q, tau)
    estimator.work()
    (rows,) = estimator._waiting
    np.testing.assert_allclose(rows, [[k / 100.0, k, k, k, 10.0 + k, 10.0 + k, 10.0 + k] for k in range(5)])


@pytest.mark.parametrize("end", ["a value that is missing", "a clock that was set"])
def test_after_a_break_the_stream_gives_the_rows_of_a_new_one(end):
    t, q, tau, _ = stream(8.0)
    model = reference_of((0.5, 1.0, 0.1), (2.0, 0.5, 0.2))
    fresh, again = OnlineEstimator(ROBOT, 100.0), OnlineEstimator(ROBOT, 100.0)
    fed(again, t + 100.0, q, tau, model)
    fresh._top_speed = again._top_speed.copy()
    wanted = fed(fresh, t, q, tau, model)
    assert len(again._tail) > 0
    if end == "a value that is missing":
        again.take(q[0], np.array([1.0, np.nan, 1.0]), 109.0)
    else:
        again.take(q[0], tau[0], 0.0)
    assert again.work(model) == 0 and len(again._tail) == 0 and again.newest == -np.inf
    before = len(again.blocks)
    assert fed(again, t, q, tau, model) == wanted > 0
    np.testing.assert_allclose([block.end for block in again.blocks[before:]], [block.end for block in fresh.blocks])


def test_rows_are_slow_against_the_top_speed_of_all_that_was_seen():
    """A joint that crawls after it ran: its rows are left out, although it is fast against the last second."""
    t, q, tau, _ = stream(16.0)
    slowed = np.where(t < 8.0, t, 8.0 + 0.01 * (t - 8.0))
    q = np.column_stack([np.interp(slowed, t, column) for column in q.T])
    estimator = OnlineEstimator(ROBOT, 100.0)
    before = fed(estimator, t[:800], q[:800], tau[:800])
    top = estimator._top_speed.copy()
    after = fed(estimator, t[800:], q[800:], tau[800:])
    assert np.all(estimator._top_speed >= top) and np.all(top > 0.5)
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


@pytest.mark.parametrize(("speed", "judged"), [(0.018, False), (0.022, True), (-0.018, False), (-0.022, True)])
def test_torque_errors_count_from_a_speed_on(speed, judged):
    estimator = OnlineEstimator(ROBOT, 200.0)
    t = np.arange(400) / 200.0
    model = reference_of((0.5, 1.0, 0.1), (2.0, 0.5, 0.2), std=0.1)
    q = speed * t[:, None] * np.array([1.0, 0.0, -1.0])
    estimator._watch(np.column_stack((t, q, np.full((400, 3), 50.0))), model)
    assert (estimator._error > 0.0).tolist() == [judged, False, judged]
    assert (estimator._variance > 0.0).tolist() == [judged, False, judged]


def test_what_the_data_did_not_determine_adds_no_variance():
    model = reference_of((0.5, 1.0, 0.1), (2.0, 0.5, 0.2), std=0.1)
    std = model.std.copy()
    std[model.leaders.index("Fv1")] = np.inf
    t = np.arange(400) / 200.0
    w = np.array([2.0, 3.0, 2.5])
    rows = np.column_stack((t, np.sin(w * t[:, None]), np.zeros((400, 3))))
    known, unknown = OnlineEstimator(ROBOT, 200.0), OnlineEstimator(ROBOT, 200.0)
    known._watch(rows, model)
    unknown._watch(rows, replace(model, std=std))
    assert unknown._variance[0] == 0.0 and np.all(known._variance > 0.0)
    np.testing.assert_allclose(unknown._variance[1:], known._variance[1:])
    np.testing.assert_allclose(unknown._error, known._error)
    wider = OnlineEstimator(ROBOT, 200.0)
    wider._watch(rows, reference_of((0.5, 1.0, 0.1), (2.0, 0.5, 0.2), std=0.2))
    np.testing.assert_allclose(wider._variance, 4.0 * known._variance)


def test_drift_of_a_joint_whose_model_allows_for_nothing():
    estimator = OnlineEstimator(ROBOT, 100.0)
    estimator._error = np.array([4.0, 0.0, 0.0])
    found = estimator.drift(reference_of((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), 1.5)
    assert found.ratio.tolist() == [2.0, 0.0, 0.0] and found.drifting and found.joint == ROBOT.active_names[0]


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
    ends = 2.0 * estimator._filter.dropped
    kept = ends + 2.0 / estimator._filter.row_rate
    assert told[0] == pytest.approx(length + ends, abs=0.11)
    np.testing.assert_allclose(np.diff(told), length + ends - kept, atol=0.11)
    assert all(block.end - block.start > 0.8 * (length - 0.2) for block in estimator.blocks)
