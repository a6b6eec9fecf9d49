# SPDX-License-Identifier: Apache-2.0

"""Preparation: what uneven, gappy, partly missing and plainly bad recordings become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recordings import simulated, simulated_truth
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation import PreparationOptions, as_prepared, prepare, prepare_pieces
from ros2_dynid.identification.preparation.rows import row_times
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples

ROBOT = load_robot("demo6")


def smooth(rate=500.0, seconds=8.0, seed=0, names=ROBOT.active_names):
    """Return a recording of sines with known derivatives, and those derivatives."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1.0 / rate)
    f, a = rng.uniform(0.3, 1.2, len(names)), rng.uniform(0.5, 1.0, len(names))
    w = 2 * np.pi * f
    q, dq, ddq = a * np.sin(w * t[:, None]), a * w * np.cos(w * t[:, None]), -a * w**2 * np.sin(w * t[:, None])
    return Samples(t, tuple(names), q, tau=10 * q + 0.1 * rng.standard_normal(q.shape)), (f, a, w, dq, ddq)


@pytest.mark.parametrize("rate", [100.0, 250.0, 1000.0, 5000.0])
def test_derivatives_are_right_at_any_rate(rate):
    samples, (_, a, w, _, _) = smooth(rate)
    p = prepare(ROBOT, samples)
    assert np.allclose(p.dq, a * w * np.cos(w * p.t[:, None]), atol=2e-2 * np.max(a * w))
    assert np.allclose(p.ddq, -a * w**2 * np.sin(w * p.t[:, None]), atol=2e-2 * np.max(a * w**2))
    assert p.filter.row_cutoff < p.filter.position_cutoff <= 0.31 * rate


def test_uneven_stamps_are_resampled():
    samples, (_, a, w, _, _) = smooth(500.0)
    rng = np.random.default_rng(1)
    t = samples.t + rng.uniform(-0.3, 0.3, len(samples.t)) / 500.0
    q = a * np.sin(w * t[:, None])
    p = prepare(ROBOT, replace(samples, t=t, q=q))
    assert any("uneven" in note.text for note in p.notes)
    assert np.allclose(p.ddq, -a * w**2 * np.sin(w * p.t[:, None]), atol=2e-2 * np.max(a * w**2))


def test_gaps_split_the_recording_and_no_row_crosses_them():
    samples, _ = smooth(500.0, 12.0)
    kept = (samples.t < 5.0) | (samples.t > 5.5)
    p = prepare(ROBOT, samples.take(kept))
    assert len(p.segments) == 2
    t = row_times(p)
    reach = p.filter.dropped
    assert not np.any((t > 5.0 - 0.9 * reach) & (t < 5.5 + 0.9 * reach))


def test_some_nan_are_dropped_with_a_note():
    samples, _ = smooth()
    q = samples.q.copy()
    q[100, 2] = np.nan
    assert any("not finite" in note.text and "'" in note.text for note in prepare(ROBOT, replace(samples, q=q)).notes)


def test_good_measured_velocity_is_used_and_a_late_one_is_not():
    rng = np.random.default_rng(0)
    samples, (_, a, w, dq, _) = smooth(500.0)
    coarse = np.round(samples.q / 1e-3) * 1e-3
    good = prepare(ROBOT, replace(samples, q=coarse, dq=dq + 1e-5 * rng.standard_normal(dq.shape)))
    assert set(good.filter.velocity) == {"measured"}
    truth = a * w * np.cos(w * good.t[:, None]), -a * w**2 * np.sin(w * good.t[:, None])
    for found, true in zip((good.dq, good.ddq), truth, strict=True):
        assert np.allclose(found, true, atol=1e-3 * np.max(np.abs(true))), "far better than positions of 1 mrad can be"
    late = a * w * np.cos(w * (samples.t[:, None] - 0.02))
    assert set(prepare(ROBOT, replace(samples, q=coarse, dq=late)).filter.velocity) == {"position"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: replace(s, tau=None), "no effort"),
        (lambda s: replace(s, tau=s.tau * np.where(np.arange(6) == 3, np.nan, 1.0)), "joint 'joint4' has no effort"),
        (lambda s: replace(s, q=s.q * np.where(np.arange(6) == 2, 0.0, 1.0)), "never moved.*hold: "),
        (lambda s: replace(s, tau=s.tau * np.where(np.arange(6) == 1, 0.0, 1.0)), "is constant"),
        (lambda s: s.take(slice(0, 10)), "only 10 samples"),
        (lambda s: s.take(slice(0, 24)), "no stretch"),
        (lambda s: replace(s, joint_names=tuple(f"x{k}" for k in range(6))), "not in the recording"),
    ],
)
def test_bad_recordings_are_refused_in_one_line(change, message):
    samples, _ = smooth()
    message = message.replace("joint4", ROBOT.active_names[3])
    with pytest.raises(InputError, match=message) as error:
        prepare(ROBOT, change(samples))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options", [{"row_cutoff": -1.0}, {"slow": 1.5}, {"velocity": "guess"}, {"delay": np.inf}, {"row_rate": 0.0}]
)
def test_settings_without_meaning_are_refused(options):
    with pytest.raises(InputError):
        PreparationOptions(**options)


def test_cutoff_beyond_the_rate_is_refused():
    samples, _ = smooth(100.0)
    with pytest.raises(InputError, match="too high"):
        prepare(ROBOT, samples, PreparationOptions(position_cutoff=60.0))


def test_gains_scale_the_effort_and_unknown_joints_are_refused():
    samples, _ = smooth()
    name = ROBOT.active_names[1]
    plain, scaled = (prepare(ROBOT, samples, PreparationOptions(gains=g)) for g in ({}, {name: -2.5}))
    assert np.allclose(scaled.tau[:, 1], -2.5 * plain.tau[:, 1])
    assert np.allclose(scaled.tau[:, 0], plain.tau[:, 0])
    with pytest.raises(InputError, match="drive gain"):
        prepare(ROBOT, samples, PreparationOptions(gains={"nobody": 2.0}))


@pytest.mark.parametrize("delay", [0.03, -0.02])
def test_a_given_delay_moves_the_effort_to_the_motion_it_belongs_to(delay):
    """An effort that was recorded `delay` late is taken that much later; the motion stays where it is."""
    samples, (_, a, w, _, _) = smooth(500.0)
    tau = 10 * a * np.sin(w * (samples.t[:, None] - delay))
    p = prepare(ROBOT, replace(samples, tau=tau), PreparationOptions(delay=delay))
    assert p.filter.delay == pytest.approx(delay, abs=1e-3)
    step = abs(p.filter.delay - delay)
    assert np.allclose(p.tau, 10 * p.q, atol=10 * np.max(a * w) * (step + 1e-4) + 0.02)
    assert np.allclose(p.q, a * np.sin(w * p.t[:, None]), atol=1e-3)


@pytest.mark.parametrize("delay", [0.0316, 0.0004, -0.0007, -0.0212])
def test_a_delay_is_taken_to_a_fraction_of_a_sample(delay):
    """At 500 Hz a sample is 2 ms: what is left of the delay beside whole samples is the filter's to take."""
    samples, (_, a, w, _, _) = smooth(500.0)
    tau = 10 * a * np.sin(w * (samples.t[:, None] - delay))
    p = prepare(ROBOT, replace(samples, tau=tau), PreparationOptions(delay=delay))
    assert p.filter.delay == pytest.approx(delay, abs=1e-12)
    np.testing.assert_allclose(p.tau, 10 * p.q, atol=10 * np.max(a * w) * 1e-4)


def test_arrays_must_fit():
    with pytest.raises(InputError, match="shapes"):
        as_prepared(ROBOT, np.zeros((5, 6)), np.zeros((5, 6)), np.zeros((4, 6)), np.zeros((5, 6)))


def test_simulated_recording_keeps_most_of_its_rows():
    robot, _ = simulated_truth()
    p = prepare(robot, simulated(seconds=6.0))
    assert p.filter.dropped < 0.6
    assert len(row_times(p)) > 50


def test_a_piece_that_cannot_be_used_is_left_out_with_a_note():
    samples, _ = smooth(seconds=24.0)
    third = len(samples) // 3
    first, short, last = (
        samples.take(part) for part in (slice(0, third), slice(third, third + 10), slice(third, None))
    )
    found = prepare_pieces(ROBOT, [first, short, last])
    assert len(found.segments) == 2
    assert [note.text for note in found.notes if "left out" in note.text] == [
        f"the piece of {short.t[0]:.6g} to {short.t[-1]:.6g} s was left out: only 10 usable samples are left"
    ]
    with pytest.raises(InputError, match="only 10 samples"):
        prepare_pieces(ROBOT, [short])
