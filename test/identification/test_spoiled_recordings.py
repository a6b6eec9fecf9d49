"""Good recordings spoiled as loggers and drivers do it: the model hardly suffers, and the notes say what was done."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recordings import ROOT, simulated, simulated_truth
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators import inform
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation import PreparationOptions, prepare
from ros2_dynid.identification.validation import torque_errors
from ros2_dynid.model.load import load_robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import in_order_of

DATA = Path(os.environ.get("DYNID_DATA", ROOT.parent / "shared" / "data"))
WORSE = 1.2
"""A spoiled recording may make the error on clean data this much larger, ..."""
NOISE = 0.002
"""... and by this, below what any real recording has: simulated errors are near 0.1 %."""


PLAIN = IdentifyOptions(friction="viscous+coulomb")
"""Errors are those of the base parameters: what friction terms add is not looked at here."""


@functools.cache
def good(name):
    """Return the robot, the samples to fit and those held out."""
    if name == "simulated":
        robot, _ = simulated_truth()
        samples = simulated(seconds=24.0)
        split = len(samples) // 2
    else:
        if not (DATA / name).is_dir():
            pytest.skip("the recording is not here (set DYNID_DATA)")
        robot = load_robot(DATA / name / "robot.urdf")
        samples = load_samples(DATA / name / "run.db3", robot)
        split = 2 * len(samples) // 3
    return robot, samples.take(slice(0, split)), samples.take(slice(split, None))


@functools.cache
def clean_information(name):
    robot, _, held_out = good(name)
    base = base_parameters(robot, method="closed-form")
    return base, inform(robot, base, [prepare(robot, held_out)], delay=False)


@functools.cache
def identified(name):
    robot, samples, _ = good(name)
    return identify(robot, [samples], options=PLAIN)


def error(name, found):
    """Return the relative torque error of a model on the clean held-out samples."""
    robot, _, _ = good(name)
    _, information = clean_information(name)
    return torque_errors(robot.active_names, information, found.model.value)["all"].relative


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
    "long gap": (long_gap, "split the recording"),
    "effort 5 ms late": (late(0.005), ""),
    "effort 20 ms late": (late(0.02), ""),
    "effort 50 ms late": (late(0.05), ""),
    "quantised to 0.01 rad": (quantised, "have steps of 0.01"),
    "noise in bursts": (bursts, ""),
    "20 Hz": (slow_rate, ""),
    "joints in another order": (permuted, ""),
}


@pytest.mark.parametrize("name", ["simulated", "ur10", "panda30"])
@pytest.mark.parametrize("spoil", SPOILS)
def test_a_spoiled_recording_gives_as_good_a_model_or_a_diagnosis(name, spoil):
    robot, samples, _ = good(name)
    change, said = SPOILS[spoil]
    before = error(name, identified(name))
    try:
        found = identify(robot, [change(samples, np.random.default_rng(0))], options=PLAIN)
    except InputError as refusal:
        assert said and re.search(said.split()[0], str(refusal)), refusal
        return
    after, notes = error(name, found), " ".join(found.outcome.notes)
    print(f"{name} {spoil}: {100 * before:.2f} -> {100 * after:.2f} %", notes)
    assert re.search(said, notes)
    if spoil.startswith("quantised"):  # what the encoder did not resolve is lost, and the note has said so
        assert after < before + 0.03
        return
    assert after < WORSE * before + NOISE
    if said == "" and "late" in spoil:
        expected = float(spoil.split()[1]) * 1e-3 + identified(name).outcome.delay.value
        assert abs(found.outcome.delay.value - expected) < 5e-3


def test_a_delay_that_is_given_is_used_as_given():
    robot, samples, _ = good("simulated")
    options = replace(PLAIN, preparation=PreparationOptions(delay=0.0))
    found = identify(robot, [late(0.03)(samples, None)], options=options)
    assert found.outcome.delay.value == 0.0 and found.outcome.delay.std is None
    right = replace(PLAIN, preparation=PreparationOptions(delay=0.03))
    better = identify(robot, [late(0.03)(samples, None)], options=right)
    assert better.outcome.delay.value == 0.03
    assert error("simulated", better) < WORSE * error("simulated", identified("simulated")) + NOISE
    assert error("simulated", found) > 3 * error("simulated", better)
