# SPDX-License-Identifier: Apache-2.0

"""Rows of regressor and torque: filters, friction terms, rows left out, threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prepared_motions import filtered_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions, VelocitySource
from ros2_dynid.identification.preparation import rows as rows_module
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import (
    find_dependence,
    find_fast_and_still,
    most_threads,
    row_chunks,
    row_count,
    row_filter,
    tabulate_rows,
    windows,
)
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import error_levels, joint_errors, own_errors, solve_weighted
from ros2_dynid.model.efforts import MeasuredEffort
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")


NAMES = ROBOT.active_names


W = np.array([2.0, 3.1, 4.3])


def moving(t, scale=1.0):
    """Return a recording at these times whose signals all differ."""
    q = np.sin(np.outer(t, scale * W))
    return Samples(t, NAMES, q, tau=5.0 * np.cos(np.outer(t, scale * W[::-1])), source="made")


def test_a_recording_that_is_too_short_for_its_filters_says_how_much_they_need():
    asked = PreparationOptions(position_cutoff=5.0, row_cutoff=1.0)
    kernels = 2 * 100 + 1, 2 * int(np.ceil(2.5 * 20.0)) + 1  # the inner rate is 20 Hz, every tenth sample
    with pytest.raises(InputError, match=f"no stretch of {(kernels[0] + 10 * kernels[1]) / 200.0:.2g} s without a gap"):
        prepare(ROBOT, moving(np.arange(0.0, 5.0, 0.005)), asked)
    rows = prepare(ROBOT, moving(np.arange(0.0, 6.1, 0.005)), asked)
    assert len(rows.t) >= kernels[1] and row_count(rows) >= 1
    assert rows.filter.dropped == pytest.approx((100 + 10 * 50) / 200.0)


def filtered_recording(seconds=8.0):
    t = np.arange(0.0, seconds, 0.005)
    samples = moving(t[(t < 3.3) | (t > 4.5)])
    found = prepare(ROBOT, samples, PreparationOptions(position_cutoff=15.0, row_cutoff=4.0, slow=0.0))
    assert len(found.segments) == 2
    return found


def all_rows(*args, **more):
    chunks = list(row_chunks(*args, **more))
    return [np.concatenate([getattr(c, name) for c in chunks], axis=-1) for name in ("t", "W", "tau", "keep")]


def plain_rows(p, columns):
    """Return t, W (b, n, m), tau and slope (n, m) by convolution of the regressor, with filtered signs."""
    Y = regressor(ROBOT, p.q, p.dq, p.ddq)[:, :, columns]
    names = standard_names(ROBOT)
    for k, column in enumerate(columns):
        if names[column].startswith("Fc"):
            joint = int(names[column][2:]) - 1
            Y[:, :, k] = 0.0
            Y[:, joint, k] = p.sign[:, joint]
    K = len(p.kernel) // 2

    def passed(x, segment, kernel):
        return np.convolve(x[segment], kernel, "valid")[:: p.step]

    parts = []
    for s in p.segments:
        W = np.array([[passed(Y[:, j, k], s, p.kernel) for j in range(3)] for k in range(len(columns))])
        tau, slope = (
            np.array([passed(p.tau[:, j], s, kernel) for j in range(3)]) for kernel in (p.kernel, p.slope_kernel)
        )
        parts.append((p.t[s][K : len(p.t[s]) - K : p.step], W, tau, slope))
    return [np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)]


@pytest.mark.parametrize("n_rows", [None, 7])
def test_rows_are_regressor_and_torque_through_the_same_filter(n_rows):
    p = filtered_recording()
    columns = base_parameters(ROBOT).columns(ROBOT)
    t, W, tau, keep = all_rows(ROBOT, p, columns, delay=True, n_rows=n_rows)
    wanted = plain_rows(p, columns)
    np.testing.assert_allclose(t, wanted[0])
    np.testing.assert_allclose(W[:-1], wanted[1], atol=1e-9)
    np.testing.assert_allclose(tau, wanted[2], atol=1e-9)
    np.testing.assert_allclose(W[-1], -wanted[3], atol=1e-9)
    assert keep.all() and keep.shape == tau.shape
    assert row_count(p) == len(t)
    bare = all_rows(replace(ROBOT, friction=(FrictionTerm(2, FrictionKind.CUBIC, 3.0),)), p, columns[::-1])
    np.testing.assert_allclose(bare[1], W[:-1][::-1], atol=1e-9)


def test_rows_made_by_several_threads_come_in_order(monkeypatch):
    p = filtered_recording()
    columns = base_parameters(ROBOT).columns(ROBOT)
    terms = (FrictionTerm(2, FrictionKind.CUBIC, 1.0),)
    alone = list(row_chunks(ROBOT, p, columns, delay=True, terms=terms, n_rows=3))
    started = []
    threads = rows_module.in_threads
    monkeypatch.setattr(rows_module, "in_threads", lambda make, chosen: started.append(1) or threads(make, chosen))
    monkeypatch.setattr(rows_module, "THREADED_SAMPLES", len(p.t) // 2)
    together = list(row_chunks(ROBOT, p, columns, delay=True, terms=terms, n_rows=3))
    assert len(started) == 1 and len(together) == len(alone) > 12
    for one, other in zip(alone, together, strict=True):
        for name in ("t", "W", "tau", "keep", "still"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    few = list(row_chunks(ROBOT, p, columns, delay=True, terms=terms, n_rows=3, every=3))
    assert len(started) == 1, "a third of them is not worth it"
    assert [chunk.t[0] for chunk in few] == [chunk.t[0] for chunk in alone[::3]]
    token = most_threads.set(1)
    try:
        list(row_chunks(ROBOT, p, columns, n_rows=3))
    finally:
        most_threads.reset(token)
    assert len(started) == 1


def test_columns_that_a_joint_feels_by_brute_force():
    columns = base_parameters(ROBOT).columns(ROBOT)
    q, dq, ddq = np.random.default_rng(5).normal(size=(3, 50, 3))
    felt = np.abs(regressor(ROBOT, q, dq, ddq)[:, :, columns]).max(axis=0) > 1e-9
    np.testing.assert_array_equal(find_dependence(ROBOT, columns), felt)
    np.testing.assert_array_equal(find_dependence(ROBOT, columns[::-1]), felt[:, ::-1])
    find_dependence(ROBOT, columns)[:] = False
    np.testing.assert_array_equal(find_dependence(ROBOT, columns), felt)


def test_friction_is_zero_in_the_rows_of_a_joint_that_rests():
    t = np.arange(0.0, 12.0, 0.005)
    q = np.sin(np.outer(t, W))
    rest = (t > 4.0) & (t < 8.0)
    q[:, 1] = np.where(
        rest,
        q[np.searchsorted(t, 4.0), 1],
        q[:, 1] + np.where(t >= 8.0, q[np.searchsorted(t, 4.0), 1] - q[np.searchsorted(t, 8.0), 1], 0.0),
    )
    samples = replace(moving(t), q=q)
    p = prepare(ROBOT, samples, PreparationOptions(position_cutoff=15.0, row_cutoff=4.0, slow=0.05))
    columns = base_parameters(ROBOT).columns(ROBOT)
    names = [standard_names(ROBOT)[column] for column in columns]
    cubic = FrictionTerm(2, FrictionKind.CUBIC)
    for plain in (None, tabulate_rows(ROBOT, [p], columns, delay=False)[0]):
        chunks = list(row_chunks(ROBOT, p, columns, terms=(cubic, FrictionTerm(3, FrictionKind.ROOT)), plain=plain))
        time = np.concatenate([c.t for c in chunks])
        Wk, still = (np.concatenate([getattr(c, name) for c in chunks], axis=-1) for name in ("W", "still"))
        deep = (time > 4.7) & (time < 7.3)
        assert still[1][deep].all() and not still[1][(time < 3.3) | (time > 8.7)].any() and not still[[0, 2]].any()
        b = len(columns)
        for k in (names.index("Fc2"), b):
            assert not Wk[k, 1][still[1]].any() and np.abs(Wk[k, 1][~still[1]]).max() > 0.1
        assert np.abs(Wk[b + 1, 2][still[1]]).max() > 0.1 and np.abs(Wk[names.index("Fc3"), 2][still[1]]).max() > 0.1


def test_windows_cover_every_row_once():
    p = filtered_recording()
    at = np.concatenate([window.at for window in windows(p, 7)])
    K = len(p.kernel) // 2
    wanted = [k for s in p.segments for k in range(s.start + K, s.stop - K, p.step)]
    assert at.tolist() == wanted
    for window in windows(p, 7):
        assert window.inputs.start == window.at[0] - K and window.inputs.stop == window.at[-1] + K + 1


def test_names_of_choices_are_those_that_callers_write():
    assert [str(method) for method in Method] == [
        "ols", "wls", "irls", "tls", "iv", "idim-iv", "didim", "energy", "sequential", "recursive",
    ]  # fmt: skip
    assert [str(source) for source in VelocitySource] == ["auto", "position", "measured"]
    assert all(Method(str(method)) is method for method in Method)


def test_what_is_done_unless_asked_otherwise():
    found = IdentifyOptions()
    assert (found.method, found.cross_validate, found.checks, found.friction) == (Method.WLS, None, True, "auto")
    assert (found.essential, found.standard, found.consistent) == (False, False, False)
    assert (found.prior, found.distance, found.sensor, found.torque_sensor) == ("auto", "scaled", "auto", "link")
    assert found.controller is None and found.preparation == PreparationOptions()
    plain = PreparationOptions()
    assert (plain.position_cutoff, plain.row_cutoff, plain.row_rate, plain.delay) == (None, None, None, None)
    assert (plain.slow, plain.velocity, plain.gains) == (0.02, VelocitySource.AUTO, {})
    gains = {NAMES[2]: 3.0, NAMES[0]: -2.0}
    np.testing.assert_array_equal(PreparationOptions(gains=gains).gains_of(ROBOT), [-2.0, 1.0, 3.0])


def prepared(rate, robot=ROBOT, seconds=8.0):
    n = len(robot.active)
    t = np.arange(int(seconds * rate)) / rate
    w = np.linspace(2.0, 5.0, n)
    q = 0.7 * np.sin(w * t[:, None]) + 0.2 * np.sin(2.1 * w * t[:, None])
    warmth = 20.0 + np.outer(t, np.arange(1.0, n + 1.0))
    samples = Samples(t, robot.active_names, q, tau=np.cos(w * t[:, None]), temperature=warmth)
    samples = samples.take(np.r_[0 : int(3.2 * rate), int(4.2 * rate) : len(t)])
    found = prepare(robot, samples, PreparationOptions(position_cutoff=12.0, row_cutoff=3.0))
    assert len(found.segments) == 2
    return replace(found, gear_torque=5.0 * np.sin(3.0 * found.t[:, None] + np.arange(n)))


STRIBECK = FrictionTerm(2, FrictionKind.STRIBECK, speed=0.4)


TERMS = (
    FrictionTerm(1, FrictionKind.LOAD),
    STRIBECK,
    replace(STRIBECK, of_shape=True),
    FrictionTerm(3, FrictionKind.TEMPERATURE, reference=25.0),
    FrictionTerm(3, FrictionKind.ROOT),
)


@pytest.mark.parametrize("rate", [100.0, 500.0])
def test_columns_of_terms_are_made_finer_and_filtered_as_the_torque_was(rate):
    p = prepared(rate)
    columns = base_parameters(ROBOT).columns(ROBOT)
    b = len(columns)
    found = np.concatenate([c.W[b:] for c in row_chunks(ROBOT, p, columns, terms=TERMS, n_rows=7)], axis=2)
    finer = max(4, round(rate / p.filter.inner_rate))
    kernel = lowpass_kernel(12.0, p.filter.inner_rate * finer)
    half = len(kernel) // 2
    wanted = []
    for segment in p.segments:
        N = segment.stop - segment.start
        places = np.clip(np.arange(-half, (N - 1) * finer + half + 1) / finer, 0, N - 1)
        v, load, T = (
            np.column_stack([np.interp(places, np.arange(N), x[segment, j]) for j in range(3)])
            for x in (p.dq, p.gear_torque, p.temperature)
        )
        s = np.sign(v)
        drop = s[:, 1] * np.exp(-((v[:, 1] / 0.4) ** 2))
        fine = np.array([
            np.abs(load[:, 0]) * s[:, 0], drop, drop * 2.0 * (v[:, 1] / 0.4) ** 2, (T[:, 2] - 25.0) * s[:, 2],
            s[:, 2] * np.sqrt(np.abs(v[:, 2])),
        ])  # fmt: skip
        inner = np.array([np.convolve(x, kernel, "valid")[::finer] for x in fine])
        rows = np.array([np.convolve(x, p.kernel, "valid")[:: p.step] for x in inner])
        wanted.append(rows)
    wanted = np.concatenate(wanted, axis=1)
    assert found.shape == (5, 3, wanted.shape[1])
    for k, joint in enumerate((0, 1, 1, 2, 2)):
        np.testing.assert_allclose(found[k, joint], wanted[k], atol=1e-9 * max(1.0, np.abs(wanted[k]).max()))
        assert not np.delete(found[k], joint, axis=0).any()


def test_columns_of_terms_do_not_depend_on_their_order():
    p, columns = prepared(100.0), base_parameters(ROBOT).columns(ROBOT)
    stribeck, power = TERMS[1], FrictionTerm(2, FrictionKind.POWER, exponent=1.4)
    terms = (
        stribeck,
        replace(stribeck, of_shape=True),
        power,
        replace(power, of_shape=True),
        FrictionTerm(2, FrictionKind.CUBIC),
    )
    b = len(columns)

    def made(chosen):
        return np.concatenate([c.W[b:] for c in row_chunks(ROBOT, p, columns, terms=chosen)], axis=2)[:, 1]

    wanted = made(terms)
    assert len({tuple(np.round(column, 6)) for column in wanted}) == 5
    for order in ((4, 3, 2, 1, 0), (0, 4, 1, 2, 3), (2, 1, 0, 3, 4), (1, 3, 0, 2, 4)):
        np.testing.assert_allclose(made([terms[k] for k in order]), wanted[list(order)], atol=1e-12)


def members_of(coupling):
    return [j - 1 for j in coupling.weights]


@pytest.mark.parametrize("filtered", [True, False])
def test_slow_joints_and_motors_that_couple_into_them(filtered):
    robot = load_robot("tx40")
    (coupling,) = robot.coupling
    if filtered:
        p = prepared(100.0, robot)
    else:
        q, dq, ddq, tau = np.random.default_rng(0).normal(size=(4, 300, 6))
        p = as_prepared(robot, q, dq, ddq, tau)
    bridged, dq = np.zeros(len(p.t)), p.dq.copy()
    bridged[100:106] = bridged[215:221] = 1.0
    dq[130:230, 2] = 0.0
    dq[200:270, members_of(coupling)] *= 0.01
    p = replace(p, dq=dq)
    p = replace(p, filter=replace(p.filter, slow=0.25), bridged=bridged if filtered else p.bridged)
    joints = [
        replace(joint, measures=MeasuredEffort(("Fv",))) if k == 0 else joint for k, joint in enumerate(robot.joints)
    ]
    robot = replace(robot, joints=tuple(joints), parameters={})
    passed = row_filter(p.kernel, p.step)
    slow = np.abs(p.dq) <= 0.25 * p.top_speed
    slow[:, 0] = False  # an effort without Coulomb friction is kept
    members = members_of(coupling)
    motor = np.abs(sum(c * p.dq[:, j - 1] for j, c in coupling.weights.items())) <= 0.25 * p.top_speed[members].max()
    crawling, resting = slow.copy(), slow.copy()
    for j in members:
        crawling[:, j] |= motor
        resting[:, j] &= motor
    kernel = np.abs(p.kernel[::-1]) / np.abs(p.kernel).sum() if filtered else np.ones(1)
    half = len(kernel) // 2
    some = [0, 0]
    for window in windows(p, 20):
        keep, still = find_fast_and_still(robot, p, window, passed)
        for k, centre in enumerate(window.at):
            around = slice(centre - half, centre + half + 1)
            whole = kernel @ p.bridged[around] <= 0.05
            np.testing.assert_array_equal(keep[:, k], whole & (kernel @ crawling[around] <= 0.2))
            np.testing.assert_array_equal(still[:, k], whole & (kernel @ resting[around] > 0.8))
        some[0] += np.count_nonzero(~keep[members])
        some[1] += np.count_nonzero(still)
    assert all(some)
    fast = replace(p, filter=replace(p.filter, slow=0.0), bridged=np.zeros(len(p.t)))
    keep, still = find_fast_and_still(robot, fast, next(windows(fast, 20)), passed)
    assert keep.all() and not still.any()


def test_exact_rows_have_an_error_level_of_rounding():
    A = np.random.default_rng(1).integers(-5, 6, (40, 3)).astype(float)
    tau = A @ np.array([1.0, -2.0, 3.0])
    block = Block((np.column_stack((A, tau)), np.column_stack((A, 10.0 * tau))), np.array([40, 40]), 0.0, 1.0)
    information = Information((block,), (np.arange(3), np.arange(3, 6)), ColumnLayout(6))
    level = 1e-12 * np.linalg.norm(tau) / np.sqrt(40) * np.array([1.0, 10.0])
    np.testing.assert_allclose(own_errors(information), level)
    value = np.array([1.0, -2.0, 3.0, 10.0, -20.0, 30.0])
    np.testing.assert_allclose(error_levels(information, value, np.ones(2)), level)
    # a known error, and degrees of freedom that the weights share
    off = value + np.array([0.1, 0.0, 0.0, 0.0, 0.2, 0.0])
    errors = np.array([0.1 * np.linalg.norm(A[:, 0]), 0.2 * np.linalg.norm(A[:, 1])])
    np.testing.assert_allclose(error_levels(information, off, np.array([5.0, 0.1])), errors / np.sqrt(40 - 3))


def test_a_joint_with_hardly_more_rows_than_parameters_does_not_draw_all_weight_to_itself():
    """16 rows of one joint for 20 parameters that all share: they would be met exactly, whatever the others say."""
    rng = np.random.default_rng(4)
    truth, rows = rng.normal(size=20), (16, 30, 30)
    parts = [rng.normal(size=(count, 20)) for count in rows]
    noisy = [np.column_stack((A, A @ truth + 0.05 * rng.normal(size=len(A)))) for A in parts]
    information = Information((Block(tuple(noisy), np.array(rows), 0.0, 1.0),), (np.arange(20),) * 3, ColumnLayout(20))
    found, weights = solve_weighted(information)
    assert 0.3 < weights[0] / np.median(weights[1:]) < 3.0
    assert np.all(joint_errors(information, found.value) > 1e-3)
    assert np.linalg.norm(found.value - truth) < 0.06
    # a level that is seen is left as it is
    alike = error_levels(information, found.value, np.array([1e-3, 1.0, 1.0]))
    assert alike[0] == pytest.approx(joint_errors(information, found.value)[0] / 4.0, rel=0.01)


BASE = base_parameters(ROBOT)


@pytest.mark.parametrize(("length", "step"), [(31, 1), (31, 4), (7, 9), (101, 13)])
def test_the_filter_of_rows_is_a_convolution(length, step):
    rng = np.random.default_rng(length)
    kernel = rng.normal(size=length)
    passed = row_filter(kernel, step)
    x = rng.normal(size=(2, 3, 700))
    m = (700 - length) // step + 1
    found = passed(x, m)
    wanted = np.apply_along_axis(lambda row: np.convolve(row, kernel, mode="valid"), 2, x)[:, :, ::step][:, :, :m]
    np.testing.assert_allclose(found, wanted, atol=1e-10)
    assert passed.magnitude.total == pytest.approx(np.abs(kernel).sum()) and passed.total == pytest.approx(kernel.sum())
    np.testing.assert_allclose(passed.magnitude(x, 5), row_filter(np.abs(kernel), step)(x, 5))
    assert row_filter(None, step) is None


@pytest.mark.parametrize("n_rows", [1, 7, 1000])
def test_windows_cover_every_segment_once(n_rows):
    p = filtered_motion()
    K, places = len(p.kernel), []
    for window in windows(p, n_rows):
        assert len(window.at) <= n_rows
        assert window.at[0] == window.inputs.start + K // 2 and window.at[-1] == window.inputs.stop - 1 - K // 2
        assert any(s.start <= window.inputs.start and window.inputs.stop <= s.stop for s in p.segments)
        places += list(window.at)
    wanted = [k for s in p.segments for k in range(s.start + K // 2, s.stop - K + K // 2 + 1, p.step)]
    assert places == wanted and row_count(p) == len(wanted)


def test_rows_are_filtered_on_both_sides_alike_and_late_by_a_slope():
    p = filtered_motion()
    columns = BASE.columns(ROBOT)
    chunks = list(row_chunks(ROBOT, p, columns, delay=True, n_rows=11))
    W, tau = (np.concatenate([getattr(c, x) for c in chunks], axis=-1) for x in ("W", "tau"))
    value = BASE.values(ROBOT, true_parameters(ROBOT, 1))
    coulomb = [k for k, leader in enumerate(BASE.leaders) if leader.startswith("Fc")]
    left = tau - np.einsum("b,bjt->jt", value, W[:-1])
    assert np.abs(left).max() < 0.2 * np.abs(value[coulomb]).max(), "but for jumps of the sign between samples"
    place = 0
    for window in windows(p, 11):
        part = p.tau[window.inputs]
        for k, first in enumerate(range(0, len(window.at) * p.step, p.step)):
            inputs = part[first : first + len(p.kernel)]
            np.testing.assert_allclose(tau[:, place + k], p.kernel[::-1] @ inputs, atol=1e-9)
            np.testing.assert_allclose(W[-1][:, place + k], -(p.slope_kernel[::-1] @ inputs), atol=1e-7)
        place += len(window.at)
    slope = np.gradient(p.tau, 0.01, axis=0)[np.concatenate([w.at for w in windows(p, 11)])]
    assert np.median(np.abs(W[-1].T + slope)) < 0.05 * np.median(np.abs(slope)), "how the torque falls"


def test_rows_near_gaps_and_of_slow_joints_are_left_out():
    p = filtered_motion()
    bridged = np.zeros(len(p.t))
    bridged[500:510] = 1.0
    share = np.abs(p.kernel[::-1]) / np.abs(p.kernel).sum()
    slow = replace(p, bridged=bridged, filter=replace(p.filter, slow=0.3))
    keep = np.concatenate([c.keep for c in row_chunks(ROBOT, slow, BASE.columns(ROBOT))], axis=1)
    at = np.concatenate([w.at for w in windows(slow, 200)])
    half = len(p.kernel) // 2
    for k, centre in enumerate(at):
        inputs = slice(centre - half, centre + half + 1)
        whole = share @ bridged[inputs] <= 0.05
        for j in range(3):
            crawling = np.abs(p.dq[inputs, j]) <= 0.3 * p.top_speed[j]
            assert keep[j, k] == (whole and share @ crawling <= 0.2)
    assert 0.05 < keep.mean() < 0.95


def test_what_a_joint_feels():
    columns = BASE.columns(ROBOT)
    felt = find_dependence(ROBOT, columns)
    for j in range(3):
        for k, leader in enumerate(BASE.leaders):
            number = int(leader.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
            if number < j + 1:
                assert not felt[j, k], "links before it are none of its business"
            if leader[:2] in ("Fv", "Fc", "of"):
                assert felt[j, k] == (number == j + 1)


def test_columns_of_friction_terms_without_a_filter_are_those_of_each_sample():
    rng = np.random.default_rng(0)
    q, dq, ddq, tau, gear_torque = rng.normal(size=(5, 50, 3))
    p = replace(as_prepared(ROBOT, q, dq, ddq, tau), gear_torque=gear_torque)
    terms = (FrictionTerm(2, FrictionKind.ASYMMETRIC), FrictionTerm(3, FrictionKind.LOAD))
    chunks = list(row_chunks(ROBOT, p, BASE.columns(ROBOT), terms=terms, n_rows=17))
    W = np.concatenate([c.W for c in chunks], axis=2)
    assert W.shape == (len(BASE) + 2, 3, 50)
    np.testing.assert_allclose(W[-2, 1], np.abs(dq[:, 1]))
    np.testing.assert_allclose(W[-1, 2], np.abs(gear_torque[:, 2]) * np.sign(dq[:, 2]))
    assert not W[-2, [0, 2]].any() and not W[-1, :2].any()
