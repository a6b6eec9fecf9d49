# SPDX-License-Identifier: Apache-2.0

"""Good recordings spoiled as loggers and drivers do it: the model hardly suffers, and the notes say what was done."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import signal

from recordings import DATA, simulated, simulated_truth, tx40
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.preparation.even_grid import find_bursts
from ros2_dynid.model.load import load_robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import in_order_of

WORSE = 1.2
"""A spoiled recording may make the error on clean data this much larger, or a note says what was done to it ..."""
NAMED = 0.04
"""... and then the error grows by less than this, except where so little is left that the verdict is not good."""
ALONE = IdentifyOptions(prior="none")
"""What the recordings say by themselves: a prior would make up for some of what is spoiled."""
BAND = 4.0
"""Torques are compared below this frequency [Hz], whatever filters the identification chose."""


@functools.cache
def good(name):
    """Return the robot, the recordings to fit and the one held out."""
    if name == "simulated":
        robot, samples = simulated_truth()[0], simulated(seconds=24.0)
        split = len(samples) // 2
    elif name == "tx40":
        robot, samples = tx40()
        split = int(np.searchsorted(samples.t, samples.t[0] + 5.0))
    elif not (DATA / name).is_dir():
        pytest.skip("the recording is not here (set DYNID_DATA)")
    elif name == "kr300":
        robot = load_robot(DATA / name / "robot.yaml")
        a, b, c = (load_samples(DATA / name / f"{part}.npz", robot) for part in "abc")
        return robot, (a, b), c
    else:
        robot = load_robot(DATA / name / "robot.urdf")
        samples = load_samples(DATA / name / "run.db3", robot)
        split = 2 * len(samples) // 3
    return robot, (samples.take(slice(0, split)),), samples.take(slice(split, None))


@functools.cache
def identified(name):
    robot, recordings, _ = good(name)
    return identify(robot, recordings, options=ALONE)


@functools.cache
def clean_motion(name):
    """Return q, dq, ddq and tau of the clean recording held out, below BAND, and where a joint moves, (N, n) each."""
    _, _, samples = good(name)
    rate = 1.0 / float(np.mean(np.diff(samples.t)))
    t = samples.t[0] + np.arange(len(samples)) / rate
    q, tau = (np.column_stack([np.interp(t, samples.t, x) for x in array.T]) for array in (samples.q, samples.tau))
    q = signal.sosfiltfilt(signal.butter(4, min(5.0 * BAND, 0.3 * rate), fs=rate, output="sos"), q, axis=0)
    dq = np.gradient(q, 1.0 / rate, axis=0)
    band = functools.partial(signal.sosfiltfilt, signal.butter(4, BAND, fs=rate, output="sos"), axis=0)
    slow = (np.abs(dq) <= 0.02 * np.max(np.abs(dq), axis=0)).astype(float)
    width = max(1, round(rate / BAND))
    moves = np.column_stack([np.convolve(x, np.ones(width) / width, mode="same") for x in slow.T]) < 0.2
    moves &= ((t > t[0] + 0.5) & (t < t[-1] - 0.5))[:, None]
    return (q, dq, np.gradient(dq, 1.0 / rate, axis=0)), band, band(tau), moves


def error(name, found):
    """Return the relative torque error of a model on the clean recording held out, computed outside the package."""
    motion, band, tau, moves = clean_motion(name)
    return np.linalg.norm((tau - band(found.model.torque(*motion))) * moves) / np.linalg.norm(tau * moves)


def jittered(s, rng):
    period = float(np.median(np.diff(s.t)))
    return replace(s, t=np.sort(s.t + rng.uniform(-0.3, 0.3, len(s)) * period))


def repeats(s, rng):
    index = np.arange(len(s))
    stale = rng.random(len(s)) < 0.2
    stale[0] = False
    for k in np.flatnonzero(stale):
        index[k] = index[k - 1]
    return replace(s, q=s.q[index], dq=None, tau=s.tau[index])


def short_gaps(s, rng):
    keep = np.ones(len(s), dtype=bool)
    for at in np.linspace(0.1, 0.9, 8):
        k = int(at * len(s))
        keep[k : k + max(4, int(0.01 / np.median(np.diff(s.t))))] = False
    return s.take(keep)


def long_gap(s, rng):
    span = s.t[-1] - s.t[0]
    return s.take((s.t < s.t[0] + 0.45 * span) | (s.t > s.t[0] + 0.5 * span))


def late(seconds):
    def spoil(s, rng):
        tau = np.column_stack([np.interp(s.t - seconds, s.t, x) for x in s.tau.T])
        return replace(s, tau=tau)

    return spoil


def quantised(s, rng):
    return replace(s, q=0.01 * np.round(s.q / 0.01), dq=None)


def bursts(s, rng):
    tau = s.tau.copy()
    for at in np.linspace(0.1, 0.9, 6):
        k, m = int(at * len(s)), max(3, len(s) // 200)
        tau[k : k + m] += rng.normal(0.0, 0.3 * np.std(s.tau, axis=0), (m, s.tau.shape[1]))
    return replace(s, tau=tau)


def slow_rate(s, rng):
    """20 Hz, as a throttled topic has it: samples are picked, nothing is filtered."""
    pick = np.unique(np.searchsorted(s.t, np.arange(s.t[0], s.t[-1], 0.05)))
    return s.take(pick)


def permuted(s, rng):
    return in_order_of(s, s.joint_names[::-1])


SPOILS = {
    "stamps jittered by 30 %": (jittered, "taken as even|uneven stamps"),
    "20 % repeated": (repeats, "% of the samples repeat the one before"),
    "short gaps": (short_gaps, "gaps? "),
    "long gap": (long_gap, "gap splits the recording|gaps split the recording"),
    "effort 5 ms late": (late(0.005), ""),
    "effort 20 ms late": (late(0.02), ""),
    "effort 50 ms late": (late(0.05), ""),
    "quantised to 0.01 rad": (quantised, "have steps of 0.01"),
    "noise in bursts": (bursts, ""),
    "20 Hz": (slow_rate, ""),
    "joints in another order": (permuted, ""),
}
CAUSE = {"noise in bursts": "noisy in short bursts", "20 Hz": "20 samples a second show .* record faster"}
"""What a note says where the error grows."""


REAL = ("ur10", "panda30", "kr300", "tx40")
CASES = [("simulated", spoil) for spoil in SPOILS] + [
    (name, spoil) for k, name in enumerate(REAL) for j, spoil in enumerate(SPOILS) if (j + k) % 2 == 0
]
"""Everything on the simulated recording, and on two of the real ones."""


@pytest.mark.parametrize(("name", "spoil"), CASES)
def test_a_spoiled_recording_gives_as_good_a_model_or_a_diagnosis(name, spoil):
    robot, recordings, _ = good(name)
    change, said = SPOILS[spoil]
    before = error(name, identified(name))
    try:
        spoiled = [change(samples, np.random.default_rng(0)) for samples in recordings]
        found = identify(robot, spoiled, options=ALONE)
    except InputError as refusal:
        assert said and re.search(said.split()[0], str(refusal)), refusal
        return
    after, notes = error(name, found), " ".join(found.outcome.notes)
    print(f"{name} {spoil}: {100 * before:.2f} -> {100 * after:.2f} %", notes)
    assert re.search(said, notes)
    if after >= WORSE * before:
        late_by = re.search(r"recorded ([0-9.]+) .* late", " ".join(remark.text for remark in found.outcome.verdict))
        assert late_by if "late" in spoil else re.search(CAUSE.get(spoil) or said or "not named", notes)
        assert after < before + NAMED or all(remark.level != "good" for remark in found.outcome.verdict)
    if "late" in spoil:
        expected = float(spoil.split()[1]) * 1e-3 + identified(name).outcome.delay.value
        assert abs(found.outcome.delay.value - expected) < 7e-3


@pytest.mark.parametrize("name", ["simulated", "ur10", "panda30", "kr300"])
def test_bursts_are_found_where_they_are_and_nowhere_else(name):
    _, recordings, held_out = good(name)
    for samples in (*recordings, held_out):
        assert not find_bursts(samples.tau).any()
    if name != "simulated":
        return
    spoiled, (samples,) = bursts(recordings[0], np.random.default_rng(0)), recordings
    truly, seen = np.any(spoiled.tau != samples.tau, axis=1), find_bursts(spoiled.tau).any(axis=1)
    assert np.all(seen[truly]) and np.mean(seen) < 2.0 * np.mean(truly)
    jumps = np.where(np.arange(4000)[:, None] % 400 < 200, 1.0, -1.0) * np.ones(3)  # dry friction without any noise
    assert not find_bursts(jumps + 1e-3 * np.sin(np.arange(4000.0))[:, None]).any()
    assert not find_bursts(jumps[:100]).any()


def test_a_delay_that_is_given_is_used_as_given():
    robot, (samples,), _ = good("simulated")
    spoiled = late(0.03)(samples, None)
    found, better = (
        identify(robot, [spoiled], options=replace(ALONE, preparation=PreparationOptions(delay=delay)))
        for delay in (0.0, 0.03)
    )
    assert found.outcome.delay.value == 0.0 and found.outcome.delay.std is None
    assert better.outcome.delay.value == 0.03
    assert error("simulated", better) < WORSE * error("simulated", identified("simulated"))
    assert error("simulated", found) > 3 * error("simulated", better)
