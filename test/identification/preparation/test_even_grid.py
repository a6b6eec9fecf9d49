# SPDX-License-Identifier: Apache-2.0

"""Every signal of a prepared recording against the function of time that it was recorded from, and the clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import VelocitySource
from ros2_dynid.identification.preparation import PreparationOptions, prepare
from ros2_dynid.identification.preparation.even_grid import Stretch, clock_of, even_grid, quantum_of
from ros2_dynid.identification.preparation.filters import Cutoffs, lowpass_kernel, spectrum
from ros2_dynid.identification.preparation.prepare import differentiated, filtered_sign, joined_prepared
from ros2_dynid.identification.regression.build_information import period_of
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
    q, v, a = differentiated(part, kernels, 2, sources)
    first = K + (-2 * K) % 2 // 2
    times = t[first : len(t) - K : 2][: len(q)]
    np.testing.assert_allclose(q, q_of(times), atol=2e-3)
    np.testing.assert_allclose(v, q_of(times, 1) + np.array([0.5, 0.0, 0.0]), atol=5e-3)
    np.testing.assert_allclose(a, q_of(times, 2), atol=0.1)
    sign = filtered_sign(ROBOT, part, kernels, 1, sources)
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
    found = spectrum([q], RATE)
    assert found.floor[0] == pytest.approx(1e-6 / (0.5 * RATE), rel=0.3)
    assert 0.15 * RATE < found.visible[0] < 0.4 * RATE
    # an encoder that is coarse for the motion: its noise lies below the frequency of its steps, at most half the rate
    step = 0.01
    for speed in (0.1, 0.8, 50.0):
        ramp = speed * np.arange(4000.0)[:, None] / RATE
        coarse = spectrum([np.round(ramp / step) * step + 1e-9 * rng.normal(size=ramp.shape)], RATE, np.array([step]))
        assert coarse.floor[0] == pytest.approx(step**2 / 12.0 / min(speed / step, RATE / 2), rel=0.05)


def test_two_pieces_are_both_there():
    first, second = (prepare(ROBOT, recording(seconds=6.0), OPTIONS) for _ in range(2))
    second = replace(second, t=second.t + 100.0, tau=second.tau + 1.0)
    found = joined_prepared([first, second])
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
    found = clock_of(stamps, q, fresh, 0.01)
    np.testing.assert_allclose(found.t, true + late.mean(), atol=1e-6)
    off = np.std(stamps - true) / 0.01
    assert f"jitter by {off:.0%} of a period" in found.notes[0].text and "100 Hz" in found.notes[0].text
    _, _, stamps, q = jittered("sampled unevenly")
    found = clock_of(stamps, q, fresh, 0.01)
    assert found.t is stamps and found.notes == () and found.period == 0.01
    even = 3.0 + 0.01 * np.arange(1500)
    assert clock_of(even, q_of(even), fresh, 0.01).t is even
    rounded = even + 1e-4 * np.sin(np.arange(1500.0))
    assert clock_of(rounded, q_of(even), fresh, 0.01).t is rounded, "off by less than 2 % of a period"
    true, late, stamps, q = jittered("stamps are late")
    few = np.arange(1500) < 50
    assert clock_of(stamps, q, few, 0.01).t is stamps, "too few fresh samples to compare"
    assert clock_of(stamps, q, np.arange(1500) < 100, 0.01).t is not stamps
    # the longest stretch decides
    later = np.where(np.arange(1500) < 200, 0.0, 2.003)
    mixed = np.where(later[:, None] > 0.0, q_of(true + later), q_of(stamps))
    assert clock_of(stamps + later, mixed, fresh, 0.01).notes
    mixed = np.where(later[:, None] > 0.0, q_of(stamps + later), q_of(true))
    assert not clock_of(stamps + later, mixed, fresh, 0.01).notes
    # a pause: each stretch has its own grid, and the longer one is compared
    later = np.where(np.arange(1500) < 400, 0.0, 2.003)
    found = clock_of(stamps + later, q_of(true + later), fresh, 0.01)
    for part in (slice(0, 400), slice(400, 1500)):
        np.testing.assert_allclose(found.t[part], (true + later)[part] + late[part].mean(), atol=1e-6)


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


@pytest.mark.parametrize("periods", [1.7, 2.3, 5.4, 17.2])
def test_the_period_of_a_motion(periods):
    t = np.arange(int(periods * 3.217 * 50.0)) / 50.0
    w = 2.0 * np.pi / 3.217
    q = np.column_stack((np.sin(w * t) + 0.3 * np.cos(3 * w * t), 20.0 * np.cos(2 * w * t + 1.0) + 5.0 * np.sin(w * t)))
    found = period_of(q, 50.0)
    if periods < 1.8:
        assert found is None
    else:
        assert found == pytest.approx(3.217, rel=1e-4 if periods < 5.0 else 2e-5 if periods < 17.0 else 5e-6)
    spoiled = q + np.random.default_rng(0).normal(size=q.shape) * 0.03 * q.std(axis=0)
    assert period_of(spoiled, 50.0) is None, "4 % are not the same"


def test_the_step_of_an_encoder_is_that_of_each_joint():
    t = np.arange(3000) / 100.0
    q = q_of(t)
    steps = np.array([1e-3, 2.5e-3, 0.0])
    coarse = np.where(steps > 0.0, np.round(q / np.where(steps > 0.0, steps, 1.0)) * steps, q)
    np.testing.assert_allclose(quantum_of(coarse), steps, rtol=1e-6)
