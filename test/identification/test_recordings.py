# SPDX-License-Identifier: Apache-2.0

"""Stage 1: files and samples become prepared recordings, read in pieces and said so."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from motions import five_waves
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import shift_effort
from ros2_dynid.identification.recordings import PIECE_SAMPLES, prepare_file, prepare_recordings
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Reading
from ros2_dynid.recording.save import save_samples
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
CHI = true_parameters(ROBOT, 2)
PLAIN = IdentifyOptions(
    friction="viscous+coulomb", preparation=PreparationOptions(row_cutoff=5.0, position_cutoff=25.0)
)


@cache
def recorded(seed=0, **more):
    return five_waves(ROBOT, CHI, seed, **more)


class Told:
    """Keeps what a progress says."""

    def __init__(self):
        self.all = []

    def __call__(self, stage, fraction):
        self.all.append((stage, fraction))


def test_recordings_are_prepared_one_after_the_other_and_said_so():
    told = Told()
    pair = [recorded(0), recorded(1)]
    found = prepare_recordings(ROBOT, pair, PLAIN, told, progress_from=0.2, progress_to=0.6)
    assert told.all == [("reading recordings", pytest.approx(0.2)), ("reading recordings", pytest.approx(0.4))]
    assert [p.source for p in found] == ["run0", "run1"]
    np.testing.assert_array_equal(found[1].tau, prepare(ROBOT, recorded(1), PLAIN.preparation).tau)


def standing(joint, seed):
    """Return a recording in which a joint stands still at 0.7 rad, but for its encoder's noise."""
    noise = 1e-5 * np.random.default_rng(seed).normal(size=len(recorded(seed)))
    samples = recorded(seed)
    own = np.arange(3) == joint
    return replace(samples, q=np.where(own, 0.7 + noise[:, None], samples.q), dq=None)


def test_a_joint_may_stand_still_in_a_recording_if_it_moves_in_another():
    alone = [prepare(ROBOT, part, PLAIN.preparation) for part in (standing(1, 0), recorded(1))]
    resting, moving = prepare_recordings(ROBOT, [standing(1, 0), recorded(1)], PLAIN, Told())
    assert alone[0].top_speed[1] < 0.01 < resting.top_speed[1] == moving.top_speed[1] == alone[1].top_speed[1]
    np.testing.assert_array_equal(resting.top_speed[[0, 2]], alone[0].top_speed[[0, 2]])
    name = ROBOT.active_names[1]
    for never in ([standing(1, 0)], [standing(1, 0), standing(1, 1)]):
        with pytest.raises(InputError, match=rf"'{name}' never moved .*hold: {{{name}: 0\.7"):
            prepare_recordings(ROBOT, never, PLAIN, Told())


def test_recordings_held_out_pass_the_filters_and_the_delay_of_those_fitted():
    first = prepare(ROBOT, recorded(0), PLAIN.preparation)
    moved = shift_effort(first, 0.04)
    (found,) = prepare_recordings(ROBOT, [recorded(1)], IdentifyOptions(), Told(), filters=moved.filter)
    assert (found.filter.row_cutoff, found.filter.position_cutoff) == (5.0, 25.0)
    assert found.filter.delay == pytest.approx(moved.filter.delay) == pytest.approx(0.04)
    own = prepare(ROBOT, recorded(1), PLAIN.preparation)
    np.testing.assert_allclose(found.tau, shift_effort(own, 0.04).tau)
    given = IdentifyOptions(preparation=replace(PLAIN.preparation, delay=0.04))
    (once,) = prepare_recordings(ROBOT, [recorded(1)], given, Told(), filters=moved.filter)
    assert once.filter.delay == pytest.approx(0.04), "not twice"
    largest = np.abs(own.tau).max()
    np.testing.assert_allclose(once.tau[20:-20], found.tau[20:][: len(once.tau) - 40], atol=0.02 * largest)


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_a_file_is_its_samples_between_the_times_asked_for(tmp_path, suffix):
    samples, path = recorded(0), tmp_path / f"run.{suffix}"
    save_samples(samples, path)
    told = Told()
    (whole,) = prepare_recordings(ROBOT, [path], PLAIN, told)
    wanted = prepare(ROBOT, samples, PLAIN.preparation)
    assert (
        whole.source == str(path) and len(told.all) >= 2 and {stage for stage, _ in told.all} == {"reading recordings"}
    )
    np.testing.assert_allclose(whole.tau, wanted.tau, atol=1e-6 * np.abs(wanted.tau).max())
    pieces = []
    span = Reading(start=1.0, end=11.0)
    part, start = prepare_file(ROBOT, str(path), PLAIN.preparation, span, on_piece=lambda: pieces.append(1))
    inside = prepare(ROBOT, samples.take((samples.t >= 1.0) & (samples.t <= 11.0)), PLAIN.preparation)
    np.testing.assert_allclose(part.tau, inside.tau, atol=1e-6 * np.abs(wanted.tau).max())
    np.testing.assert_allclose(part.t, inside.t, atol=1e-6)
    assert pieces and isinstance(start, int)


def test_a_file_longer_than_a_piece_is_read_in_pieces(tmp_path):
    """At a seam the filters lose what they lose at a gap; nothing else is missing."""
    samples = recorded(0, seconds=1.01 * 0.001 * PIECE_SAMPLES, step=0.001)
    assert PIECE_SAMPLES < len(samples) < 2 * PIECE_SAMPLES
    path, pieces = tmp_path / "long.npz", []
    save_samples(samples, path)
    told, _ = prepare_file(ROBOT, path, PLAIN.preparation, Reading(), on_piece=lambda: pieces.append(1))
    whole = prepare(ROBOT, samples, PLAIN.preparation)
    assert len(pieces) == 2 and len(told.segments) >= 1
    assert told.t[0] == whole.t[0] and told.t[-1] > whole.t[-1] - 1.1, "the last piece may be too short"
    assert len(told.t) > 0.99 * len(whole.t)
    torque = np.interp(told.t, whole.t, whole.tau[:, 1])
    np.testing.assert_allclose(told.tau[:, 1], torque, atol=0.01 * np.abs(whole.tau).max())


def test_of_a_clock_that_was_set_back_the_longest_stretch_is_read(tmp_path):
    samples, path = recorded(0), tmp_path / "run.npz"
    t = samples.t.copy()
    t[600:] -= 2.9
    save_samples(replace(samples, t=t), path)
    told = Told()
    (found,) = prepare_recordings(ROBOT, [path], PLAIN, told, progress_from=0.3, progress_to=0.5)
    later = prepare(ROBOT, samples.take(slice(600, None)), PLAIN.preparation)
    np.testing.assert_allclose(found.q, later.q, atol=1e-6)
    assert any("clock was set back" in note.text for note in found.notes) and {f for _, f in told.all} == {0.3}
    assert len({note.text for note in found.notes}) == len(found.notes), "each once"


def test_a_stored_recording_is_asked_to_prepare_itself():
    asked = []

    def stored(robot, options, reading, filters=None):
        asked.append((robot, options, reading, filters))
        return prepare(robot, recorded(0), options)

    reading = Reading(start=2.0)
    options = replace(PLAIN, reading=reading)
    (found,) = prepare_recordings(ROBOT, [SimpleNamespace(prepare=stored)], options, Told())
    assert asked == [(ROBOT, PLAIN.preparation, reading, None)] and found.source == "run0"
    prepare_recordings(ROBOT, [SimpleNamespace(prepare=stored)], options, Told(), filters=found.filter)
    assert asked[1][3] is found.filter
