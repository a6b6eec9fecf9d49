# SPDX-License-Identifier: Apache-2.0

"""Every signal of a prepared recording against the function of time that it was recorded from, and the clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prepared_motions import CUTOFFS, stretch_of
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import PreparationOptions, VelocitySource
from ros2_dynid.identification.preparation.cutoffs import Cutoffs, Spectrum, estimate_spectrum, power_spectrum
from ros2_dynid.identification.preparation.even_grid import (
    Stretch,
    even_grid,
    even_times,
    find_bursts,
    find_repeats,
    gap_edges,
    interpolate_marked,
    interpolate_spline,
    measure_period,
    measure_quantum,
    noise_ratio,
    sampling_times,
    shift_stretch,
)
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepare import (
    differentiate,
    filter_commands,
    filter_signs,
    join_prepared,
    prepare,
    select_velocity_sources,
)
from ros2_dynid.model.efforts import declared_sensors
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
RATE, START = 200.0, 7.0
W = np.array([[2.0, 9.0], [3.0, 7.0], [1.5, 11.0]])
"""Two frequencies [rad/s] of each joint."""


def q_of(t, derivative=0):
    waves = np.sin(np.multiply.outer(t, W) + derivative * np.pi / 2) * W**derivative
    return waves @ np.array([0.6, 0.1])


def tau_of(t):
    return np.column_stack((5.0 * np.sin(3 * t), 2.0 * np.cos(2 * t), np.sin(4 * t) + 0.3))


def torque_of(t):
    return np.column_stack((np.sin(2 * t), 3.0 * np.cos(3 * t), 0.5 * np.sin(5 * t)))


def warmth_of(t):
    return np.column_stack((20.0 + 0.3 * t, np.full_like(t, np.nan), 40.0 - 0.2 * t))


def recording(delay=0.0, seconds=10.0):
    t = START + np.arange(int(seconds * RATE)) / RATE
    return Samples(
        t, NAMES, q_of(t), tau=tau_of(t - delay), q_r=q_of(t + 0.01), tau_f=np.round(tau_of(t)),
        tau_l=torque_of(t), temperature=warmth_of(t), source="made",
    )  # fmt: skip


GAINS = {NAMES[0]: 2.0, NAMES[2]: -1.5}
OPTIONS = PreparationOptions(position_cutoff=20.0, row_cutoff=4.0, gains=GAINS, delay=0.0123)


@pytest.mark.parametrize("at_link", [(), (1, 2)])
def test_every_signal_is_that_of_its_time(at_link):
    robot = ROBOT
    if at_link:
        robot = declared_sensors(ROBOT, ",".join(f"{NAMES[k]}=link" for k in at_link))
    found = prepare(robot, recording(delay=0.0123), OPTIONS)
    t = found.t
    assert found.segments == (slice(0, len(t)),) and found.step == 5 and found.filter.inner_rate == pytest.approx(100.0)
    for derivative, signal in enumerate((found.q, found.dq, found.ddq)):
        wanted = q_of(t, derivative)
        np.testing.assert_allclose(signal, wanted, atol=2e-3 * np.abs(wanted).max())
    gains = np.array([2.0, 1.0, -1.5])
    efforts, torques = gains * tau_of(t), torque_of(t)
    swapped = np.isin(np.arange(3), at_link)
    if at_link:  # the first stream is the one at the link, which came in time: it is taken as late as the other
        torques_later = torque_of(t + 0.0123)
        np.testing.assert_allclose(found.tau[:, swapped], torques_later[:, swapped], atol=0.01)
        early = gains * tau_of(t - 0.0123)
        np.testing.assert_allclose(found.second[:, swapped], early[:, swapped], atol=0.02)
    np.testing.assert_allclose(found.tau[:, ~swapped], efforts[:, ~swapped], atol=0.005)
    np.testing.assert_allclose(found.second[:, ~swapped], torques[:, ~swapped], atol=0.005)
    np.testing.assert_allclose(found.reference, q_of(t + 0.01), atol=1e-3)
    np.testing.assert_allclose(found.temperature, warmth_of(t), atol=1e-6)
    np.testing.assert_allclose(found.temperatures[0], [warmth_of(t)[0, 0], np.nan, warmth_of(t)[-1, 2]], atol=1e-6)
    np.testing.assert_allclose(found.temperatures[1], [warmth_of(t)[-1, 0], np.nan, warmth_of(t)[0, 2]], atol=1e-6)
    assert found.commands.shape == (len(t), 2, 2, 3)
    for k in range(2):
        np.testing.assert_allclose(found.commands[:-20, k, 0], q_of(t[:-20] + 0.01 + k / RATE), atol=2e-3)
        np.testing.assert_array_equal(found.commands[:-20, k, 1], gains * np.round(tau_of(t[:-20] + k / RATE)))
    fast = np.abs(q_of(t, 1)) > 0.8
    np.testing.assert_allclose(found.sign[fast], np.sign(q_of(t, 1))[fast], atol=0.1)
    assert np.abs(found.sign).max() < 1.2 and found.sign.shape == (len(t), 3)
    assert not found.bridged.any() and found.filter.delay == pytest.approx(0.0123)
    np.testing.assert_allclose(found.top_speed, np.quantile(np.abs(found.dq), 0.99, axis=0), rtol=1e-9)
    # half of each kernel: 2.5 / 20 s of the positions', 2.5 / 4 s of the rows'
    assert found.filter.dropped == pytest.approx(2.5 / 20 + 2.5 / 4, abs=0.02)
    assert t[0] == pytest.approx(START + 2.5 / 20, abs=0.011) and t[-1] == pytest.approx(START + 10 - 0.125, abs=0.04)
    assert found.filter.row_rate == pytest.approx(20.0) and found.source == "made"
    assert len(found.kernel) == len(found.slope_kernel) == 2 * int(np.ceil(2.5 * 100.0 / 4.0)) + 1


def test_signals_that_one_stretch_lacks_are_left_out_and_noise_is_told():
    samples = recording(seconds=20.0)
    rng = np.random.default_rng(0)
    noise = np.array([1e-4, 3e-4, 5e-5])
    samples = replace(samples, q=samples.q + noise * rng.normal(size=samples.q.shape))
    samples = samples.take(np.r_[0:1800, 2400:4000])
    q_r = samples.q_r.copy()
    q_r[2000] = np.nan  # in the second stretch
    found = prepare(ROBOT, replace(samples, q_r=q_r), replace(OPTIONS, delay=0.0))
    assert len(found.segments) == 2 and found.reference is None and found.commands is None
    assert found.second is not None and found.temperature is not None
    np.testing.assert_allclose(found.position_noise, noise, rtol=0.2)
    one, two = found.segments
    assert found.t[one][-1] < START + 9.0 < START + 12.0 < found.t[two][0] and two.stop == len(found.t)
    np.testing.assert_allclose(found.tau, np.array([2.0, 1.0, -1.5]) * tau_of(found.t), atol=0.005)


def test_speeds_and_signs_come_from_the_source_named():
    t = np.arange(600) / RATE
    dq = q_of(t, 1) + np.array([0.5, 0.5, 0.0])  # what an encoder of another frame might say
    part = Stretch(t, q_of(t), tau_of(t), dq, np.zeros(600, dtype=bool))
    kernels = [lowpass_kernel(20.0, RATE, k) for k in range(3)]
    K = len(kernels[0]) // 2
    sources = ("measured", "position", "measured")
    v, a = (differentiate(part, kernels, 2, sources, order) for order in (1, 2))
    first = K + (-2 * K) % 2 // 2
    times = t[first : len(t) - K : 2][: len(v)]
    np.testing.assert_allclose(v, q_of(times, 1) + np.array([0.5, 0.0, 0.0]), atol=5e-3)
    np.testing.assert_allclose(a, q_of(times, 2), atol=0.1)
    sign = filter_signs(ROBOT, part, kernels, 1, sources)
    speeds = np.column_stack([np.convolve(x, kernel, "valid") for x, kernel in (
        (dq[:, 0], kernels[0]), (part.q[:, 1], kernels[1]), (dq[:, 2], kernels[0]),
    )])  # fmt: skip
    held = np.pad(np.sign(speeds), ((K, K), (0, 0)), mode="edge")
    for j in range(3):
        np.testing.assert_allclose(sign[:, j], np.convolve(held[:, j], kernels[0], "valid"), atol=1e-9)
    assert Cutoffs(20.0, 4.0, 1, 1).slow_rate is False
    asked = prepare(ROBOT, replace(recording(), dq=dq_of_recording()), replace(
        OPTIONS, velocity=VelocitySource.MEASURED))  # fmt: skip
    np.testing.assert_allclose(asked.dq, q_of(asked.t, 1) + 0.5, atol=5e-3)


def dq_of_recording():
    return q_of(recording().t, 1) + 0.5


def test_gaps_are_counted_and_short_stretches_used():
    samples = recording(seconds=20.0)
    rows = np.r_[0:1500, 1600:1620, 1720:1730, 1900:4000]
    grid = even_grid(samples.take(rows))
    assert [len(part.t) for part in grid.parts] == [1500, 20, 2100], "ten samples are of no use"
    assert [note.text for note in grid.notes] == ["3 gaps split the recording"]
    with pytest.raises(InputError, match="gaps cut the recording into shreds"):
        even_grid(samples.take(np.concatenate([np.arange(k, k + 12) for k in range(0, 4000, 200)])))


def test_noise_is_what_is_left_at_the_highest_frequencies():
    rng = np.random.default_rng(0)
    count = 20_000
    white, motion = rng.normal(size=(2, count))
    f = np.fft.rfftfreq(count, 1.0 / RATE)
    slow = np.fft.irfft(np.where((f > 0.2) & (f < 0.3 * RATE), np.fft.rfft(motion), 0.0), count)
    q = (slow + 1e-3 * white)[:, None]
    found = estimate_spectrum([q], RATE)
    assert found.floor[0] == pytest.approx(1e-6 / (0.5 * RATE), rel=0.3)
    assert 0.15 * RATE < found.visible[0] < 0.4 * RATE
    # an encoder that is coarse for the motion: its noise lies below the frequency of its steps, at most half the rate
    step = 0.01
    for speed in (0.1, 0.8, 50.0):
        ramp = speed * np.arange(4000.0)[:, None] / RATE
        coarse = estimate_spectrum(
            [np.round(ramp / step) * step + 1e-9 * rng.normal(size=ramp.shape)], RATE, np.array([step])
        )
        assert coarse.floor[0] == pytest.approx(step**2 / 12.0 / min(speed / step, RATE / 2), rel=0.05)


def test_two_pieces_are_both_there():
    first, second = (prepare(ROBOT, recording(seconds=6.0), OPTIONS) for _ in range(2))
    second = replace(second, t=second.t + 100.0, tau=second.tau + 1.0)
    found = join_prepared([first, second])
    assert len(found.t) == len(first.t) + len(second.t) and len(found.segments) == 2
    for field in ("t", "q", "tau", "second", "temperature", "commands", "reference", "sign"):
        both = np.concatenate((getattr(first, field), getattr(second, field)))
        np.testing.assert_array_equal(getattr(found, field), both)


# --- stamps


def jittered(kind, count=1500, period=0.01):
    """Return stamps and positions: the robot sampled evenly and stamps are off, or it sampled when they say."""
    rng = np.random.default_rng(1)
    true = 3.0 + period * np.arange(count)
    late = rng.uniform(0.0, 0.4 * period, count)
    stamps = true + late
    sampled = true if kind == "stamps are late" else stamps
    return true, late, stamps, q_of(sampled)


def test_times_are_those_along_which_the_motion_is_smoother():
    fresh = np.ones(1500, dtype=bool)
    true, late, stamps, q = jittered("stamps are late")
    times, notes = sampling_times(stamps, q, fresh, 0.01)
    np.testing.assert_allclose(times, true + late.mean(), atol=1e-6)
    off = np.std(stamps - true) / 0.01
    assert f"jitter by {off:.0%} of a period" in notes[0].text and "100 Hz" in notes[0].text
    _, _, stamps, q = jittered("sampled unevenly")
    times, notes = sampling_times(stamps, q, fresh, 0.01)
    assert times is stamps and notes == []
    even = 3.0 + 0.01 * np.arange(1500)
    assert sampling_times(even, q_of(even), fresh, 0.01)[0] is even
    rounded = even + 1e-4 * np.sin(np.arange(1500.0))
    assert sampling_times(rounded, q_of(even), fresh, 0.01)[0] is rounded, "off by less than 2 % of a period"
    true, late, stamps, q = jittered("stamps are late")
    few = np.arange(1500) < 50
    assert sampling_times(stamps, q, few, 0.01)[0] is stamps, "too few fresh samples to compare"
    assert sampling_times(stamps, q, np.arange(1500) < 100, 0.01)[0] is not stamps
    # the longest stretch decides
    later = np.where(np.arange(1500) < 200, 0.0, 2.003)
    mixed = np.where(later[:, None] > 0.0, q_of(true + later), q_of(stamps))
    assert sampling_times(stamps + later, mixed, fresh, 0.01)[1]
    mixed = np.where(later[:, None] > 0.0, q_of(stamps + later), q_of(true))
    assert not sampling_times(stamps + later, mixed, fresh, 0.01)[1]
    # a pause: each stretch has its own grid, and the longer one is compared
    later = np.where(np.arange(1500) < 400, 0.0, 2.003)
    times, _ = sampling_times(stamps + later, q_of(true + later), fresh, 0.01)
    for part in (slice(0, 400), slice(400, 1500)):
        np.testing.assert_allclose(times[part], (true + later)[part] + late[part].mean(), atol=1e-6)


# --- efforts that repeat or burst, positions that are coarse, motions that repeat


def test_efforts_that_repeat_the_one_before_are_interpolated():
    samples = recording(seconds=12.0)
    k = np.arange(len(samples.t) // 2)
    rng = np.random.default_rng(0)
    steps = np.where(k[:, None] % 6 == np.arange(3), 1.0, 3.0) * rng.choice([-1.0, 1.0], (len(k), 3))
    fast = np.cumsum(steps, axis=0).repeat(2, axis=0) + np.arange(len(samples.t))[:, None] % 2
    held = fast[::2].repeat(2, axis=0)
    grid = even_grid(replace(samples, tau=held))
    (part,) = grid.parts
    between = np.column_stack([np.interp(samples.t, samples.t[::2], column[::2]) for column in fast.T])
    np.testing.assert_allclose(part.tau[:-1], between[:-1], atol=1e-9)
    assert [note.text for note in grid.notes] == [
        "50 % of the efforts repeat the one before although the positions do not: interpolated"
    ]
    once = fast.copy()
    once[500:520:2] = once[499:519:2]  # 0.4 %
    (part,) = even_grid(replace(samples, tau=once)).parts
    np.testing.assert_array_equal(part.tau, once)


def test_bursts_are_told_with_their_joints_and_their_time():
    samples = recording(seconds=12.0)
    tau = samples.tau.copy()
    rng = np.random.default_rng(0)
    for at in (600, 1500):
        tau[at : at + 30, 1] += 3.0 * rng.normal(size=30)
    grid = even_grid(replace(samples, tau=tau))
    (part,) = grid.parts
    (text,) = [note.text for note in grid.notes]
    assert text.startswith(f"the effort of {NAMES[1]} is noisy in short bursts, 2 in all, from 2.9")
    np.testing.assert_allclose(part.tau[:, 1], tau_of(samples.t)[:, 1], atol=0.2)
    np.testing.assert_array_equal(part.tau[:, [0, 2]], samples.tau[:, [0, 2]])
    tau[600:630, [0, 2]] += 9.0 * rng.normal(size=(30, 2))
    tau[1500:1530] = samples.tau[1500:1530]
    (text,) = [note.text for note in even_grid(replace(samples, tau=tau)).notes]
    assert text.startswith("all efforts are noisy in short bursts, 1 in all, from 2.9")


def test_signals_beside_are_resampled_with_the_positions():
    samples = recording(seconds=12.0)
    rng = np.random.default_rng(3)
    # the robot sampled when its stamps say
    t = np.sort(START + rng.uniform(0.0, 12.0, 2400))
    t = START + np.arange(2400) / RATE + 0.3 / RATE * np.sin(np.arange(2400.0))
    known = warmth_of(t)
    known[100:200, 0] = np.nan
    torque = torque_of(t)
    torque[:, 2] = np.nan
    uneven = replace(samples, t=t, q=q_of(t), dq=q_of(t, 1), tau=tau_of(t), q_r=q_of(t) + 1.0, tau_f=tau_of(t) + 2.0,
                     temperature=known, tau_l=torque)  # fmt: skip
    grid = even_grid(uneven)
    (part,) = grid.parts
    assert np.allclose(np.diff(part.t), 1.0 / RATE, rtol=1e-3) and "resampled to 200" in grid.notes[-1].text
    np.testing.assert_allclose(part.q, q_of(part.t), atol=1e-5)
    np.testing.assert_allclose(part.dq, q_of(part.t, 1), atol=1e-4)
    np.testing.assert_allclose(part.tau, tau_of(part.t), atol=1e-4)
    np.testing.assert_allclose(part.q_r, q_of(part.t) + 1.0, atol=1e-5)
    np.testing.assert_allclose(part.tau_f, tau_of(part.t) + 2.0, atol=1e-4)
    np.testing.assert_allclose(part.temperature, warmth_of(part.t), atol=1e-6)
    np.testing.assert_allclose(part.second[:, :2], torque_of(part.t)[:, :2], atol=1e-3)
    assert np.isnan(part.second[:, 2]).all()


def test_the_step_of_an_encoder_is_that_of_each_joint():
    t = np.arange(3000) / 100.0
    q = q_of(t)
    steps = np.array([1e-3, 2.5e-3, 0.0])
    coarse = np.where(steps > 0.0, np.round(q / np.where(steps > 0.0, steps, 1.0)) * steps, q)
    np.testing.assert_allclose(measure_quantum(coarse), steps, rtol=1e-6)


def plain_spline(t, x, at):
    """Cubics with unknown coefficients: through the points, smooth to the second derivative, parabolas at the ends."""
    n = len(t) - 1
    A, b = np.zeros((4 * n, 4 * n)), np.zeros(4 * n)
    row = 0

    def put(k, d, order, sign=1.0):
        factors = {0: (1, d, d**2, d**3), 1: (0, 1, 2 * d, 3 * d**2), 2: (0, 0, 2, 6 * d), 3: (0, 0, 0, 6)}[order]
        A[row, 4 * k : 4 * k + 4] += sign * np.array(factors)

    for k in range(n):
        for d, value in ((0.0, x[k]), (t[k + 1] - t[k], x[k + 1])):
            put(k, d, 0)
            b[row] = value
            row += 1
    for k in range(n - 1):
        for order in (1, 2):
            put(k, t[k + 1] - t[k], order)
            put(k + 1, 0.0, order, -1.0)
            row += 1
    for k in (0, n - 1):
        put(k, 0.0, 3)
        row += 1
    c = np.linalg.solve(A, b).reshape(n, 4)
    k = np.clip(np.searchsorted(t, at, side="right") - 1, 0, n - 1)
    d = at - t[k]
    return c[k, 0] + d * (c[k, 1] + d * (c[k, 2] + d * c[k, 3]))


@pytest.mark.parametrize("count", [3, 4, 9])
def test_splines_are_the_smoothest_curves_through_uneven_samples(count):
    rng = np.random.default_rng(count)
    t = 5.0 + np.cumsum(rng.uniform(0.3, 2.0, count))
    x = rng.normal(size=(count, 2))
    at = np.concatenate((t, np.linspace(t[0], t[-1], 50), [t[0] - 0.2, t[-1] + 0.3]))
    found = interpolate_spline(t, x, at)
    for j in range(2):
        if count > 3:
            np.testing.assert_allclose(found[:, j], plain_spline(t, x[:, j], at), atol=1e-9)
        else:
            np.testing.assert_allclose(found[:, j], np.polyval(np.polyfit(t - 5, x[:, j], 2), at - 5), atol=1e-9)
    with pytest.raises(ValueError, match="increase"), np.errstate(all="ignore"):
        interpolate_spline(np.array([0.0, 0.0, 0.0, 0.0]), np.zeros((4, 1)), at)


@pytest.mark.parametrize("step", [1e-4, 2.5e-3])
def test_the_step_of_an_encoder_is_found(step):
    t = np.arange(5000) / 500
    q = np.column_stack((np.sin(t), np.round(np.sin(1.3 * t) / step) * step + 0.4 * step, np.zeros(5000)))
    np.testing.assert_allclose(measure_quantum(q), [0.0, step, 0.0], rtol=1e-6)
    rough = q.copy()
    rough[:100, 1] += np.random.default_rng(0).uniform(0, step, 100)  # too much of it is not on the steps
    assert measure_quantum(rough)[1] == 0.0
    late = np.concatenate((np.sin(np.arange(20_000) / 500), np.round(np.sin(t) / step) * step))
    assert measure_quantum(late[:, None])[0] == 0.0, "the first 20 000 samples count"
    assert measure_quantum(q[:1]).tolist() == [0.0, 0.0, 0.0] and measure_quantum(q[:, 2:]).tolist() == [0.0]


def moving(count=2000):
    t = np.arange(count) / 500
    return np.column_stack((np.sin(2 * t), np.cos(3 * t)))


@pytest.mark.parametrize("every", [2, 4, 20])
def test_a_driver_that_publishes_too_often_repeats(every):
    x = moving()[::every].repeat(every, axis=0)[:2000]
    wanted = np.arange(2000) % every != 0
    np.testing.assert_array_equal(find_repeats(x), wanted)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_repeats_of_a_motion_in_one_direction(sign):
    t = np.arange(2000) / 500
    x = sign * np.column_stack((t**3, t**2))[::4].repeat(4, axis=0)
    np.testing.assert_array_equal(find_repeats(x)[1000:], np.arange(1000) % 4 != 0)


def test_what_does_not_count_as_repeated():
    x = moving()
    assert not find_repeats(x).any()
    one = x.copy()
    one[::2, 0] = one[1::2, 0]  # one joint repeats, the other does not
    assert not find_repeats(one).any()
    still = np.concatenate((x[:900], np.repeat(x[899:900], 200, axis=0), x[900:]))
    assert not find_repeats(still).any(), "a standstill"
    slow = np.round(moving()[:, :1] * 200) / 200
    assert not find_repeats(slow).any(), "an encoder whose steps are coarse goes on by one of them"
    few = x.copy()
    few[[300, 700]] = few[[299, 699]]
    assert not find_repeats(few).any(), "two in two thousand"
    some = x.copy()
    lost = np.arange(50, 1950, 100)
    some[lost] = some[lost - 1]
    np.testing.assert_array_equal(np.flatnonzero(find_repeats(some)), lost)
    assert not find_repeats(np.zeros((50, 2))).any() and not find_repeats(x[:1]).any()
    stops = np.concatenate((x[:900], np.repeat(x[899:900], 15, axis=0)))
    assert not find_repeats(stops).any(), "it stops at the end"
    often = np.concatenate((x[:800:4].repeat(4, axis=0), np.repeat(x[796:797], 2, axis=0)))
    assert find_repeats(often)[-5:].all(), "as before"


@pytest.mark.parametrize("seed", range(12))
def test_repeats_are_those_of_their_definition(seed):
    """Run by run, in loops: a run counts where some joint goes on by more than one and a half small steps after it."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([1.0, 2.0, 3.0, -1.0], size=(400, 2), p=[0.5, 0.3, 0.1, 0.1])
    lengths = rng.choice([1, 1, 1, 2, 5, 21, 22], size=400)
    x = np.cumsum(steps, axis=0).repeat(lengths, axis=0)
    small = [np.quantile(c[c > 0], 0.1) for c in np.abs(np.diff(x, axis=0)).T]
    fresh = [0, *(k for k in range(1, len(x)) if np.any(x[k] != x[k - 1]))]
    wanted = np.zeros(len(x), bool)
    known = False
    for k, first in enumerate(fresh):
        after = fresh[k + 1] if k + 1 < len(fresh) else len(x)
        if k + 1 < len(fresh):
            moved = np.any(np.abs(x[after] - x[first]) > 1.5 * np.array(small))
            known = known or (moved and after - first > 1)
        else:
            moved = known
        if moved and after - first - 1 <= 20:
            wanted[first + 1 : after] = True
    assert wanted.mean() > 0.005
    np.testing.assert_array_equal(find_repeats(x), wanted)


@pytest.mark.parametrize(("share", "found"), [(0.0045, False), (0.0055, True)])
def test_few_repeats_may_be_chance(share, found):
    x = moving(4000)
    lost = np.arange(100, 100 + 150 * int(share * 4000), 150)
    x[lost] = x[lost - 1]
    assert find_repeats(x).any() == found


@pytest.mark.parametrize(
    ("off", "share", "found"), [(0.018, 1.0, True), (0.022, 1.0, False), (0.3, 0.008, True), (0.3, 0.012, False)]
)
def test_steps_that_are_off_the_grid(off, share, found):
    rng = np.random.default_rng(0)
    steps = rng.integers(2, 9, 4000).astype(float)
    steps[0] = 1.0
    chosen = rng.permutation(np.arange(1, 4000))[: int(share * 3999)]
    steps[chosen] += off * rng.choice([-1.0, 1.0], len(chosen))
    q = np.concatenate(([0.0], np.cumsum(steps)))[:, None]
    assert measure_quantum(q)[0] == pytest.approx(1.0 if found else 0.0)


def test_steps_of_rounding_are_no_steps():
    """Numbers that differ in their last digit only: an encoder's step is larger, and no joint moves by that."""
    k = np.arange(4000)
    q = np.round(np.sin(k / 500) / 2.5e-3) * 2.5e-3
    wiggle = 1e-15 * (k % 2)
    np.testing.assert_allclose(measure_quantum((q + wiggle)[:, None]), [2.5e-3], rtol=1e-6)
    slow = np.round(np.sin(k / 500) * 200) / 200
    goes_on = np.diff(slow, prepend=slow[0]) != 0.0
    rests = 1e-15 * np.cumsum(goes_on * (1 + k % 7)) + np.where(k > 3900, 0.01 * (k - 3900), 0.0)
    assert not find_repeats(np.column_stack((slow, rests))).any()


@pytest.mark.parametrize("n", [-3, -1, 0, 2, 20])
def test_a_later_effort_belongs_to_an_earlier_motion(n):
    count = 12
    k = np.arange(count, dtype=float)
    bridged = k == 5
    part = Stretch(0.1 * k, k[:, None], 100 + k[:, None], 200 + k[:, None], bridged, 300 + k[:, None])
    found = shift_stretch(part, n)
    pairs = [(i, i + n) for i in range(count) if 0 <= i + n < count]
    np.testing.assert_allclose(found.t, [0.1 * i for i, _ in pairs])
    for array, offset, column in ((found.q, 0, 0), (found.tau, 100, 1), (found.dq, 200, 0), (found.q_r, 300, 0)):
        np.testing.assert_array_equal(array[:, 0], [offset + pair[column] for pair in pairs])
    assert list(found.bridged) == [i == 5 or j == 5 for i, j in pairs]
    bare = shift_stretch(Stretch(part.t, part.q, part.tau, None, bridged), n)
    assert bare.dq is None and bare.q_r is None


def sampled(t):
    q = np.column_stack((np.sin(3 * t), np.cos(2 * t)))
    dq = np.column_stack((3 * np.cos(3 * t), -2 * np.sin(2 * t)))
    return Samples(t, ("a", "b"), q, dq, None, np.column_stack((np.cos(t), np.sin(t))), q_r=q + 0.1)


def test_a_recording_that_is_even_stays_as_it_is():
    t = np.arange(2000) / 100
    grid = even_grid(sampled(t))
    (part,) = grid.parts
    assert grid.spectrum.rate == pytest.approx(100.0) and grid.notes == ()
    np.testing.assert_allclose(part.t, t, atol=1e-9)
    for found, given in ((part.q, sampled(t).q), (part.tau, sampled(t).tau), (part.dq, sampled(t).dq)):
        np.testing.assert_array_equal(found, given)
    assert not part.bridged.any() and part.q_r is not None


@pytest.mark.parametrize(("lost", "parts"), [(5, 1), (30, 2)])
def test_short_gaps_are_bridged_and_long_ones_split(lost, parts):
    t = np.delete(np.arange(2000) / 100, slice(700, 700 + lost))
    grid = even_grid(sampled(t))
    assert len(grid.parts) == parts
    told = " ".join(note.text for note in grid.notes)
    if parts == 2:
        assert "a gap splits the recording" in told
        assert [len(part.t) for part in grid.parts] == [700, 1300 - lost]
        return
    (part,) = grid.parts
    assert "1 gaps of at most 60 ms are bridged" in told and len(part.t) == 2000
    assert np.flatnonzero(part.bridged).tolist() == list(range(699, 705))
    np.testing.assert_allclose(part.q, sampled(part.t).q, atol=1e-5)
    straight = np.interp(part.t[part.bridged], t, sampled(t).tau[:, 0])
    np.testing.assert_allclose(part.tau[part.bridged, 0], straight, atol=1e-9)


def test_repeats_are_left_out_and_coarse_positions_named():
    t = np.arange(4000) / 200
    twice = sampled(t).q[::2].repeat(2, axis=0)
    samples = Samples(t, ("a", "b"), twice, tau=sampled(t).tau)
    grid = even_grid(samples)
    (told,) = [note.text for note in grid.notes if "of the samples repeat the one before" in note.text]
    assert 45 <= float(told.split()[0]) <= 50 and grid.spectrum.rate == pytest.approx(200.0)
    coarse = sampled(np.arange(3000) / 100)
    q = coarse.q.copy()
    q[:, 1] = np.round(q[:, 1] / 0.01) * 0.01
    grid = even_grid(coarse.with_arrays(coarse.t, coarse.arrays() | {"q": q}))
    assert any("the positions of 1 joints, 'b' first, have steps of 0.01" in note.text for note in grid.notes)
    with pytest.raises(InputError, match="only 15 usable samples"):
        even_grid(sampled(np.arange(15) / 100))


@pytest.mark.parametrize(("rate", "cutoff", "passes"), [(200.0, 5.0, 20.0), (200.0, 40.0, 40.0), (50.0, 30.0, 15.0)])
def test_commands_are_hardly_filtered_and_those_of_every_sample(rate, cutoff, passes):
    t = np.arange(600) / rate
    f = 0.4 * passes
    q_r = np.column_stack((np.sin(2 * np.pi * f * t), np.cos(2 * np.pi * 4.0 * passes * t)))
    tau_f = np.column_stack((np.sign(np.sin(3 * t)), t))
    part = Stretch(t, q_r, q_r, None, np.zeros(600, dtype=bool), q_r=q_r, tau_f=tau_f)
    index = np.arange(120, 480, 3)
    gains = np.array([2.0, -1.0])
    found = filter_commands(part, index, 3, rate, cutoff, gains)
    assert found.shape == (120, 3, 2, 2)
    every = index[:, None] + np.arange(3)
    np.testing.assert_allclose(found[:, :, 0, 0], q_r[every, 0], atol=0.02)
    if 4.0 * passes < rate / 2:
        assert np.abs(found[:, :, 0, 1]).max() < 0.02, "well beyond"
    np.testing.assert_array_equal(found[:, :, 1], (tau_f * gains)[every])
    bare = filter_commands(Stretch(t, q_r, q_r, None, part.bridged, q_r=q_r), index, 3, rate, cutoff, gains)
    assert not bare[:, :, 1].any()


def test_velocities_as_asked_for():
    part = stretch_of(gain=3.0)
    for wanted in (VelocitySource.POSITION, VelocitySource.MEASURED):
        assert select_velocity_sources(part, 200.0, CUTOFFS, wanted, ("a",)) == ((wanted.value,), ())
    bare = Stretch(part.t, part.q, part.tau, None, part.bridged)
    assert select_velocity_sources(bare, 200.0, CUTOFFS, VelocitySource.AUTO, ("a",)) == (("position",), ())
    with pytest.raises(InputError, match="no velocities"):
        select_velocity_sources(bare, 200.0, CUTOFFS, VelocitySource.MEASURED, ("a",))


@pytest.mark.parametrize(("share", "filled"), [(0.018, False), (0.022, True)])
def test_efforts_that_are_held_are_interpolated_where_they_are_many(share, filled):
    t = np.arange(4000) / 500
    q, tau = np.column_stack((np.sin(2 * t), np.cos(3 * t))), np.column_stack((3 * np.cos(2 * t), np.sin(t)))
    held = np.zeros(4000, bool)
    held[np.arange(30, 30 + 40 * int(share * 4000), 40)] = True
    kept = np.where(held[:, None], np.roll(tau, 1, axis=0), tau)
    samples = Samples(t, ("a", "b"), q, tau=kept, source="x.csv")
    grid = even_grid(samples)
    (part,) = grid.parts
    told = "efforts repeat the one before although the positions do not: interpolated"
    assert any(told in note.text for note in grid.notes) == filled
    assert np.abs(kept - tau).max() > 5e-3  # those that hardly change need not be found
    np.testing.assert_allclose(part.tau, tau if filled else kept, atol=5e-4)
    q[held] = q[np.flatnonzero(held) - 1]  # where the positions repeat, too, the sample is left out
    repeated = even_grid(samples.with_arrays(t, samples.arrays() | {"q": q}))
    assert not any(told in note.text for note in repeated.notes)


@pytest.mark.parametrize(("times", "named"), [(0.9, False), (1.1, True)])
def test_steps_of_an_encoder_are_coarse_from_a_thousandth_of_the_motion_on(times, named):
    t = np.arange(4000) / 200
    q = np.column_stack((np.sin(2.0 * t), 0.5 * np.cos(3.0 * t)))
    step = times * 1e-3 * np.ptp(q[:, 1])
    q[:, 1] = np.round(q[:, 1] / step) * step
    notes = even_grid(Samples(t, ("a", "b"), q, tau=np.column_stack((np.cos(t), np.sin(t))), source="x.csv")).notes
    assert any("'b' first, have steps" in note.text and "of 1 joints" in note.text for note in notes) == named


OMEGA = np.array([2.0, 3.1, 4.3])


def moving_arm(t, scale=1.0):
    """Return a recording at these times whose signals all differ."""
    q = np.sin(np.outer(t, scale * OMEGA))
    return Samples(t, NAMES, q, tau=5.0 * np.cos(np.outer(t, scale * OMEGA[::-1])), source="made")


def test_gaps_of_any_size_do_not_make_the_period_longer():
    rng = np.random.default_rng(0)
    steps = rng.uniform(0.2, 1.8, 4000) * 0.003
    steps[::200] = 2.0
    steps[2000] = 3600.0
    usual = np.mean(steps[steps < 1.0])
    assert measure_period(np.cumsum(steps)) == pytest.approx(usual, rel=1e-9)


@pytest.mark.parametrize(("off", "regular"), [(0.19, True), (0.21, False)])
def test_steps_near_whole_numbers_of_periods_are_regular(off, regular):
    """Steps of 1 and, a tenth of them, a little more: regular ones count as one period, others by their mean."""
    steps = np.where(np.arange(2000) % 10 == 3, 1.0 + off, 1.0)
    t = np.concatenate(([0.0], np.cumsum(0.01 * steps)))
    assert measure_period(t) == pytest.approx(0.01 * np.mean(steps))
    lost = np.where(np.arange(2000) % 7 == 3, 2.0, steps)  # a lost sample is two periods, if stamps are regular
    t = np.concatenate(([0.0], np.cumsum(0.01 * lost)))
    turns = np.where(lost == 2.0, 2.0, 1.0)
    wanted = np.sum(lost) / np.sum(turns) if regular else np.mean(lost)
    assert measure_period(t) == pytest.approx(0.01 * wanted)


def test_a_late_message_makes_two_odd_steps_and_the_period_no_shorter():
    number = np.arange(1000.0)
    delay = np.where(np.arange(1000) % 50 == 7, 0.6, 0.0)
    assert measure_period(0.01 * (number + delay)) == pytest.approx(0.01, rel=1e-9)


def test_numbers_of_samples_whose_stamps_are_nearly_a_period_late():
    rng = np.random.default_rng(1)
    number = np.delete(np.arange(400), [57, 58, 210])
    delay = rng.uniform(0.0, 0.8, len(number))
    delay[0], delay[-1] = 0.0, 0.75
    found = even_times(5.0 + 0.01 * (number + delay), 0.01)
    np.testing.assert_allclose(found, 5.0 + 0.01 * (number + delay.mean()), atol=1e-9)
    delay = np.full(len(number), 0.1)
    delay[[100, 250]] = 0.9  # nearer to its successor's place than to its own: the message came late
    found = even_times(5.0 + 0.01 * (number + delay), 0.01)
    np.testing.assert_allclose(found, 5.0 + 0.01 * (number + delay.mean()), atol=1e-9)


def test_where_no_sample_is_lost_each_has_the_number_of_its_place_however_late_it_is():
    rng, number = np.random.default_rng(2), np.arange(400.0)
    delay = rng.uniform(0.0, 1.6, 400)
    delay[[0, -1]] = 0.8
    stamps = 5.0 + 0.01 * np.sort(number + delay)
    found = even_times(stamps, 0.01)
    np.testing.assert_allclose(found, 0.01 * number + np.mean(stamps - 0.01 * number), atol=1e-9)


@pytest.mark.parametrize(("begins", "even"), [(0.0, True), (40.0, True), (61.0, False)])
def test_stamps_are_judged_by_the_first_minute(begins, even):
    rng = np.random.default_rng(1)
    true = 0.01 * np.arange(7000)
    stamps = true + rng.uniform(0.0, 0.004, 7000)
    q = np.sin(np.outer(np.maximum(true - begins, 0.0), OMEGA))
    assert (sampling_times(stamps, q, np.ones(7000, dtype=bool), 0.01)[0] is not stamps) == even


@pytest.mark.parametrize(("noise", "even"), [(9e-4, True), (1.6e-3, False)])
def test_an_even_grid_must_leave_half_of_the_noise_at_most(noise, even):
    rng = np.random.default_rng(1)
    true = 0.01 * np.arange(4000)
    stamps = true + rng.uniform(0.0, 0.002, 4000)
    q = np.sin(np.outer(true, OMEGA)) + noise * rng.normal(size=(4000, 3))
    assert (sampling_times(stamps, q, np.ones(4000, dtype=bool), 0.01)[0] is not stamps) == even


@pytest.mark.parametrize(("off", "even"), [(0.017, True), (0.023, False)])
def test_stamps_that_are_off_by_a_fiftieth_of_a_period_are_not_even(off, even):
    """Those below are taken as they are; the others are compared, and here an even grid is much smoother."""
    true = 0.01 * np.arange(2000)
    stamps = true + 0.01 * off * np.where(np.random.default_rng(0).random(2000) < 0.5, -1.0, 1.0)
    times, notes = sampling_times(stamps, np.sin(np.outer(true, OMEGA)), np.ones(2000, dtype=bool), 0.01)
    assert (times is stamps) == even and bool(notes) != even
    (part,) = even_grid(replace(moving_arm(true), t=stamps)).parts
    np.testing.assert_allclose(part.q, np.sin(np.outer(true, OMEGA)), atol=1e-12)


@pytest.mark.parametrize(("lost", "bridged"), [(1, False), (2, False), (3, True), (6, True)])
def test_a_pause_is_a_gap_from_three_and_a_half_periods_on(lost, bridged):
    t = np.delete(np.arange(2000) / 200.0, slice(900, 900 + lost))
    grid = even_grid(moving_arm(t))
    (part,) = grid.parts
    assert np.all(part.bridged[900 : 900 + lost] == bridged) and len(part.t) == 2000
    assert not part.bridged[:899].any() and not part.bridged[901 + lost :].any()
    assert any("gaps of at most" in note.text for note in grid.notes) == bridged
    np.testing.assert_allclose(part.q, np.sin(np.outer(part.t, OMEGA)), atol=1e-5)


def test_a_recording_with_many_gaps_still_shows_how_slow_its_motion_is():
    k = np.arange(6000)
    grid = even_grid(moving_arm(k[k % 40 < 30] / 200.0, 0.5))  # ten samples of forty are lost
    assert len(grid.parts) == 1 and np.all(grid.spectrum.motion < 0.7)
    with pytest.raises(InputError, match="gaps cut the recording into shreds"):
        even_grid(moving_arm(k[k % 40 < 12] / 200.0, 0.5))


@pytest.mark.parametrize("times", [2, 4, 10])
def test_the_rate_of_a_driver_that_publishes_faster_than_it_reads(times):
    t = np.arange(8000) / 400.0
    samples = moving_arm(t)
    again = [x[::times].repeat(times, axis=0) for x in (samples.q, samples.tau)]
    grid = even_grid(replace(samples, q=again[0], tau=again[1]))
    (told,) = [note.text for note in grid.notes if "repeat the one before" in note.text]
    assert told.startswith(f"{100.0 * (1.0 - 1.0 / times):.2g} % of the samples")
    assert grid.spectrum.rate == pytest.approx(400.0 / times if times > 2 else 400.0, rel=0.02)
    for part in grid.parts:
        off = np.abs(part.q - np.sin(np.outer(part.t, OMEGA)))
        assert np.quantile(off, 0.98) < 2e-3, "but for some where all joints turn back"


def test_a_burst_at_the_very_beginning_is_one_and_the_recording_stays_as_it_is():
    t = np.arange(2400) / 200.0
    samples = moving_arm(t)
    samples.tau[:24, 1] += 40.0 * np.random.default_rng(0).normal(size=24)
    loud = samples.tau.copy()
    (text,) = [note.text for note in even_grid(replace(samples, t=t + 50.0)).notes]
    assert text.startswith(f"the effort of {NAMES[1]} is noisy in short bursts, 1 in all, from 0 s on")
    noisy = find_bursts(samples.tau)
    assert noisy[:24, 1].all()
    interpolate_marked(t, samples.tau, noisy)
    np.testing.assert_array_equal(samples.tau, loud)


@pytest.mark.parametrize("n", [3, -2])
def test_of_all_signals_only_the_effort_is_taken_later(n):
    k = np.arange(20.0)[:, None]
    part = Stretch(k[:, 0], k, 100 + k, 200 + k, k[:, 0] == 7, 300 + k, 400 + k, 500 + k, 600 + k)
    found = shift_stretch(part, n)
    motion = np.arange(20 - abs(n)) + max(-n, 0)
    for name, first in (("q", 0), ("dq", 200), ("q_r", 300), ("temperature", 400), ("tau_f", 500), ("second", 600)):
        np.testing.assert_array_equal(getattr(found, name)[:, 0], first + motion)
    np.testing.assert_array_equal(found.tau[:, 0], 100 + motion + n)
    assert np.flatnonzero(found.bridged).tolist() == sorted(
        i for i in range(len(motion)) if 7 in (motion[i], motion[i] + n)
    )


def test_signals_with_values_missing_are_left_out_of_a_stretch():
    t = np.arange(400) / 200.0
    whole = {name: np.tile(t[:, None], (1, 3)) for name in ("dq", "q_r", "tau_f")}
    for uneven in (0.0, 0.3):
        times = t + uneven / 200.0 * np.sin(np.arange(400.0))
        for name in whole:
            spoilt = {**whole, name: np.where(np.arange(400)[:, None] == 9, np.nan, whole[name])}
            (part,) = even_grid(replace(moving_arm(times), **spoilt)).parts
            for other in whole:
                assert (getattr(part, other) is None) == (other == name)


def test_the_period_of_even_rounded_gappy_and_jittering_stamps():
    even = np.arange(4000) / 333.0
    assert measure_period(even) == pytest.approx(1 / 333.0, rel=1e-9)
    rounded = np.round(even, 3)  # steps of 3 and 4 ms
    assert measure_period(np.unique(rounded)) == pytest.approx(1 / 333.0, rel=2e-3)
    lost = np.delete(even, slice(None, None, 10))
    assert measure_period(lost) == pytest.approx(1 / 333.0, rel=1e-6), "a lost sample is two periods"
    gappy = np.concatenate((even, even + 100.0, even + 500.0))
    assert measure_period(gappy) == pytest.approx(1 / 333.0, rel=1e-6)
    late = even + np.random.default_rng(0).uniform(0.0, 1.5 / 333.0, 4000)
    late = np.sort(np.concatenate((late, late + 60.0)))
    assert np.median(np.diff(late)) < 0.98 / 333.0
    assert measure_period(late) == pytest.approx(1 / 333.0, rel=2e-3), "of the mean, not of the median"
    with pytest.raises(InputError, match="do not advance"):
        measure_period(np.array([1.0, 1.0, 1.0, 2.0]))


def test_stretches_without_a_pause():
    t = np.array([0.0, 0.1, 0.2, 0.55, 0.65, 2.0])
    assert list(gap_edges(t, 0.3)) == [0, 3, 5, 6]
    assert list(gap_edges(t, 0.4)) == [0, 5, 6] and list(gap_edges(t, 5.0)) == [0, 6]


def test_even_times_of_stamps_that_come_late():
    rng = np.random.default_rng(1)
    true = 5.0 + 0.01 * np.arange(300)
    late = rng.uniform(0.0, 0.004, 300)
    found = even_times(true + late, 0.01)
    np.testing.assert_allclose(found, true + late.mean(), atol=1e-9)
    kept = np.delete(np.arange(300), [40, 41, 170])
    found = even_times((true + late)[kept], 0.01)
    np.testing.assert_allclose(found, true[kept] + late[kept].mean(), atol=1e-9)


def smooth(count=1200):
    t = np.arange(count) / 500
    return t, np.column_stack((10 * np.sin(3 * t), 5 * np.cos(2 * t))) + 1e-3 * np.random.default_rng(0).normal(
        size=(count, 2)
    )


@pytest.mark.parametrize("joint", [0, 1])
def test_a_burst_is_found_where_it_is_and_interpolated(joint):
    t, tau = smooth()
    assert not find_bursts(tau).any()
    loud = tau.copy()
    loud[480:504, joint] += 8.0 * np.random.default_rng(1).normal(size=24)
    found = find_bursts(loud)
    assert found[480:504, joint].all() and not found[:, 1 - joint].any()
    rows = np.flatnonzero(found[:, joint])
    assert 456 <= rows[0] <= 480 and 504 <= rows[-1] <= 532 and np.all(np.diff(rows) == 1)
    filled = interpolate_marked(t, loud, found)
    np.testing.assert_array_equal(filled[:, 1 - joint], loud[:, 1 - joint])
    bad = found[:, joint]
    np.testing.assert_array_equal(filled[~bad, joint], loud[~bad, joint])
    np.testing.assert_allclose(filled[bad, joint], np.interp(t[bad], t[~bad], tau[~bad, joint]), atol=1e-12)


def test_what_is_no_burst():
    _, tau = smooth()
    noise = np.random.default_rng(1).normal(size=tau.shape)
    assert not find_bursts(tau + 3.0 * noise).any(), "noisy all the time"
    often = tau.copy()
    often[:80, 0] += 8.0 * noise[:80, 0]
    assert not find_bursts(often).any(), "more than a twentieth of it"
    quiet = tau.copy()
    quiet[480:504, 0] += 0.05 * noise[480:504, 0]
    assert not find_bursts(quiet).any(), "too little to do harm"
    step = tau.copy()
    step[600:, 0] += 6.0
    assert not find_bursts(step).any(), "dry friction where a joint turns back"
    short = tau[:200].copy()
    short[100:112] += 8.0 * noise[100:112]
    assert not find_bursts(short).any(), "too short to tell"


@pytest.mark.parametrize("seed", range(12))
def test_bursts_are_those_of_their_definition(seed):
    """Block by block of 12 fourth differences, in loops: sizes about where a burst begins to count."""
    rng = np.random.default_rng(seed)
    count = 1200
    _, tau = smooth(count)
    for joint in range(2):
        for _ in range(rng.integers(1, 6)):
            at, size = int(rng.integers(0, count - 24)), rng.uniform(0.1, 1.5)
            tau[at : at + int(rng.integers(8, 30)), joint] += size * rng.normal()
            tau[at : at + 24, joint] += size * rng.normal(size=24)
    wanted = np.zeros(tau.shape, bool)
    for joint in range(2):
        jagged = np.abs(np.diff(tau[:, joint], 4))
        blocks = [jagged[12 * k : 12 * k + 12] for k in range((count - 4) // 12)]
        means = [block.mean() for block in blocks]
        limit = max(6.0 * np.quantile(means, 0.9), 0.3 * tau[:, joint].std())
        noisy = [k for k, block in enumerate(blocks) if block.mean() > limit and np.median(block) > limit]
        if len(noisy) <= 0.05 * len(blocks):
            for k in noisy:
                wanted[max(12 * (k - 1), 0) : 12 * (k + 2) + 4, joint] = True
    np.testing.assert_array_equal(find_bursts(tau), wanted)


def test_how_long_efforts_must_be_for_bursts_to_be_looked_for():
    for blocks, told in ((19, False), (20, True)):
        tau = 1e-3 * np.random.default_rng(0).normal(size=(12 * blocks + 4, 1))
        tau[100:112] += 20.0 * np.random.default_rng(1).normal(size=(12, 1))
        tau[:, 0] += 10.0 * np.sin(np.arange(len(tau)) / 200)
        assert find_bursts(tau).any() == told


@pytest.mark.parametrize("hertz", [0.6, 8.0])
def test_noise_is_the_power_of_the_speed_beyond_four_times_the_motion(hertz):
    """At most from a quarter of the rate on; the mean of the joints is that of logarithms."""
    rng, rate = np.random.default_rng(3), 100.0
    t = np.arange(4000) / rate
    slow, fast = (np.convolve(rng.normal(size=4040), kernel, "same")[20:-20] for kernel in ([1, 1, 1, 1], [1, -2, 1]))
    motions = [np.column_stack([np.sin(2.0 * np.pi * f * t + k) for k in range(3)]) for f in (hertz, 2.0 * hertz)]
    noises = [np.outer(slow, [1.0, 2.0, 3.0]), np.outer(fast, [1.0, 0.5, 7.0])]
    first, second = (q + 1e-4 * noise for q, noise in zip(motions, noises, strict=True))
    motion = [np.median(estimate_spectrum([q], rate).motion) for q in (first, second)]
    beyond = min(4.0 * motion[0], rate / 4.0)
    assert motion[0] < 0.8 * motion[1] and ((beyond < 5.0) if hertz < 1.0 else (beyond == 25.0))
    powers = []
    for q in (first, second):
        f, P = power_spectrum([np.diff(q, axis=0) * rate], rate)
        powers.append(P[f > beyond].sum(axis=0))
    assert noise_ratio(first, second, rate, 4.0) == pytest.approx(np.exp(np.mean(np.log(powers[1] / powers[0]))))


@pytest.mark.parametrize(
    ("motion", "longest"),
    [((0.2, 1.0, 9.0), 0.05), ((0.001, 0.01, 9.0), 0.5), ((9.0, 50.0, 90.0), 3.5 / 200.0), ((0.1, 0.5, 0.6), 0.1)],
)
def test_gaps_are_bridged_up_to_a_twentieth_of_the_motions_period(motion, longest):
    like = Spectrum(np.zeros(3), np.array(motion), np.full(3, 10.0), 200.0)
    t = np.arange(2400) / 200.0
    for pause, parts in ((0.97 * longest, 1), (1.03 * longest, 2)):
        grid = even_grid(moving_arm(np.where(t < 6.0, t, t + pause - 1.0 / 200.0), 0.1), like)
        assert len(grid.parts) == parts and grid.spectrum.rate == 200.0 and grid.spectrum.motion is like.motion


@pytest.mark.parametrize(("pauses", "told"), [
    ((0.05,), ["1 gaps of at most 50 ms are bridged"]), ((2.0,), ["a gap splits the recording"]),
    ((0.03, 2.0, 0.05), ["2 gaps of at most 50 ms are bridged", "a gap splits the recording"]),
    ((3.0, 0.04, 2.0), ["1 gaps of at most 40 ms are bridged", "2 gaps split the recording"]),
])  # fmt: skip
def test_gaps_are_told_by_what_becomes_of_them(pauses, told):
    like = Spectrum(np.zeros(3), np.full(3, 0.5), np.full(3, 10.0), 200.0)
    t = np.arange(3200) / 200.0
    for k, pause in enumerate(pauses, start=1):
        t[800 * k :] += pause - 1.0 / 200.0
    notes = [note.text for note in even_grid(moving_arm(t, 0.1), like).notes if "gap" in note.text]
    assert [note.partition(",")[0] for note in notes] == told
