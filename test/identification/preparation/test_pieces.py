# SPDX-License-Identifier: Apache-2.0

"""Recordings in pieces and elsewhere: the first piece decides for all, and changes are made where the samples are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation import PreparationOptions, as_prepared, prepare, prepare_pieces
from ros2_dynid.identification.preparation.prepare import prepare_each
from ros2_dynid.identification.preparation.prepared import shift_effort, temperature_range
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples

ROBOT = load_robot("demo3")


def moving(seconds, start=0.0, rate=200.0, hertz=0.5, noise=0.0):
    t = start + np.arange(int(seconds * rate)) / rate
    w = 2.0 * np.pi * hertz * np.array([1.0, 1.3, 1.7])
    q = 0.5 * np.sin(w * t[:, None]) + noise * np.random.default_rng(0).normal(size=(len(t), 3))
    return Samples(t, ROBOT.active_names, q, tau=np.cos(w * t[:, None]), source="made")


# --- pieces


def test_the_first_piece_decides_about_grid_and_filters_of_all():
    """The others move faster, are noisier and come at another rate: alone they would be filtered otherwise."""
    pieces = [moving(10.0), moving(10.0, 20.0, 400.0, 3.0, 1e-4), moving(10.0, 40.0, 100.0, 0.1, 1e-3)]
    parts = list(prepare_each(ROBOT, pieces, None, []))
    alone = [prepare(ROBOT, piece) for piece in pieces]
    assert len({p.filter.rate for p in alone}) == len({p.filter.row_cutoff for p in alone}) == 3
    for part in parts:
        assert part.filter == alone[0].filter and part.cutoffs == alone[0].cutoffs
        np.testing.assert_allclose(np.diff(part.t), 1.0 / alone[0].filter.inner_rate)
    np.testing.assert_array_equal(parts[0].tau, alone[0].tau)
    whole = prepare_pieces(ROBOT, pieces)
    assert whole.filter == alone[0].filter and len(whole.segments) == 3
    np.testing.assert_array_equal(whole.tau, np.concatenate([part.tau for part in parts]))


def test_velocities_are_taken_as_in_the_first_piece():
    def with_speed(piece, gain):
        return replace(piece, dq=gain * np.gradient(piece.q, piece.t, axis=0))

    measured = PreparationOptions()
    first = replace(moving(10.0, noise=1e-3), dq=np.gradient(moving(10.0).q, 1.0 / 200.0, axis=0))
    parts = list(prepare_each(ROBOT, [first, with_speed(moving(10.0, 20.0), 2.0)], measured, []))
    assert parts[0].filter.velocity == ("measured",) * 3
    own = prepare(ROBOT, moving(10.0, 20.0), PreparationOptions(position_cutoff=5.0))
    assert parts[1].filter.velocity == ("measured",) * 3
    assert np.abs(parts[1].dq).max() == pytest.approx(2.0 * np.abs(own.dq).max(), rel=0.05), (
        "although it is wrong there"
    )


def test_filters_of_another_recording_are_those_of_every_piece():
    other = prepare(ROBOT, moving(10.0), PreparationOptions(position_cutoff=17.0, row_cutoff=3.5))
    found = prepare_pieces(ROBOT, [moving(10.0), moving(10.0, 20.0)], filters=other.filter)
    assert (found.filter.position_cutoff, found.filter.row_cutoff) == (17.0, 3.5)


def still(seconds, start):
    samples = moving(seconds, start)
    return replace(samples, q=np.zeros_like(samples.q), source="still")


def test_a_piece_may_stand_still_unless_it_is_the_first():
    refused = []
    pieces = [still(4.0, 0.0), moving(10.0, 10.0), still(4.0, 30.0), moving(10.0, 40.0)]
    parts = list(prepare_each(ROBOT, pieces, None, refused))
    assert [round(p.t[0]) for p in parts] == [10, 30, 40] and not parts[1].dq.any()
    assert [note.text[:38] for note in refused] == ["the piece of 0 to 3.995 s was left out"]
    assert "never moved" in refused[0].text
    short = moving(0.05)
    with pytest.raises(InputError, match="never moved"):
        list(prepare_each(ROBOT, [still(4.0, 0.0), short, short.take(slice(0, 0))], None, refused))
    assert refused[-1].text.startswith("the piece of no samples was left out")


def test_temperatures_of_pieces_are_those_of_all_or_not_known():
    def warm(piece, first, last):
        return replace(piece, temperature=np.tile(np.linspace(first, last, len(piece.t))[:, None], (1, 3)))

    a, b = warm(moving(10.0), 20.0, 30.0), warm(moving(10.0, 20.0), 40.0, 25.0)
    found = prepare_pieces(ROBOT, [a, b])
    np.testing.assert_allclose(found.temperatures, np.tile([[20.0], [40.0]], (1, 3)), atol=1.0)
    assert len(found.temperature) == len(found.t)
    without = prepare_pieces(ROBOT, [a, replace(b, temperature=None)])
    assert without.temperature is None and without.temperatures is None
    known, unknown = np.array([[1.0, 5.0], [2.0, 6.0]]), np.array([[0.0, np.nan], [9.0, np.nan]])
    np.testing.assert_array_equal(temperature_range([known, unknown]), [[0.0, np.nan], [9.0, np.nan]])


# --- efforts that are late


@pytest.mark.parametrize("samples", [4, -4])
def test_only_the_effort_is_taken_later(samples):
    rng, count = np.random.default_rng(0), 80
    p = as_prepared(ROBOT, *rng.normal(size=(4, count, 3)), t=np.arange(count) / 100.0)
    bridged = np.where(np.arange(count) == 30, 0.7, 0.0)
    p = replace(
        p,
        kernel=np.ones(21),
        segments=(slice(0, 24), slice(24, 80)),
        bridged=bridged,
        commands=rng.normal(size=(count, 2, 2, 3)),
        **{name: rng.normal(size=(count, 3)) for name in ("reference", "temperature", "second")},
    )
    found = shift_effort(p, samples / 100.0)
    assert found.segments == (slice(0, 52),), "the first stretch is then shorter than the filter"
    motion = np.arange(24, 76) + max(-samples, 0)
    for name in ("t", "q", "dq", "ddq", "sign", "reference", "temperature", "second", "commands"):
        np.testing.assert_array_equal(getattr(found, name), getattr(p, name)[motion])
    np.testing.assert_array_equal(found.tau, p.tau[motion + samples])
    np.testing.assert_array_equal(found.bridged, np.where((motion == 30) | (motion + samples == 30), 0.7, 0.0))
    just = shift_effort(replace(p, segments=(slice(0, 25), slice(25, 80))), samples / 100.0)
    assert just.segments == (slice(0, 21), slice(21, 72))
