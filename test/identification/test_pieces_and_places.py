"""Recordings in pieces and elsewhere: the first piece decides for all, and changes are made where the samples are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.fit import inform
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation import (
    PreparationOptions,
    as_prepared,
    effort_later,
    prepare,
    prepare_pieces,
)
from ros2_dynid.identification.preparation.elsewhere import (
    Distant,
    changed,
    changed_now,
    emptied,
    outline_of,
    over,
    range_of,
)
from ros2_dynid.identification.preparation.pieces import joined_prepared, prepare_each
from ros2_dynid.identification.preparation.repetition import repetition
from ros2_dynid.identification.read_problem import all_prepared
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.reading import Reading
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
    np.testing.assert_array_equal(range_of([known, unknown]), [[0.0, np.nan], [9.0, np.nan]])


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
    found = effort_later(p, samples / 100.0)
    assert found.segments == (slice(0, 52),), "the first stretch is then shorter than the filter"
    motion = np.arange(24, 76) + max(-samples, 0)
    for name in ("t", "q", "dq", "ddq", "sign", "reference", "temperature", "second", "commands"):
        np.testing.assert_array_equal(getattr(found, name), getattr(p, name)[motion])
    np.testing.assert_array_equal(found.tau, p.tau[motion + samples])
    np.testing.assert_array_equal(found.bridged, np.where((motion == 30) | (motion + samples == 30), 0.7, 0.0))
    just = effort_later(replace(p, segments=(slice(0, 25), slice(25, 80))), samples / 100.0)
    assert just.segments == (slice(0, 21), slice(21, 72))


# --- elsewhere


@dataclass(frozen=True)
class Store:
    """Keeps the samples of recordings by name, and the changes to be made to them."""

    kept: dict
    told: list
    changes: tuple = ()

    def over(self, function, prepared, each=None):
        found = []
        for k, outline in enumerate(prepared):
            parts = self.kept[outline.source]
            for change in outline.elsewhere.changes:
                parts = [change(part) for part in parts]
            found.append(function(outline, parts) if each is None else function(outline, parts, each[k]))
        return found

    def later(self, change, *, same_rows):
        self.told.append(same_rows)
        return replace(self, changes=(*self.changes, change))


def stored():
    """Return outlines of two recordings, the first of two parts, and the parts."""
    rng = np.random.default_rng(1)
    kept = {
        name: [
            replace(as_prepared(ROBOT, *rng.normal(size=(4, 50, 3)), t=start + np.arange(50) / 100.0), source=name)
            for start in starts
        ]
        for name, starts in (("a", (0.0, 3.0)), ("b", (10.0,)))
    }
    store = Store(kept, [])
    return [replace(outline_of(parts), elsewhere=store) for parts in kept.values()], kept, store


def test_an_outline_of_three_parts_counts_their_samples():
    rng = np.random.default_rng(0)
    parts = [
        replace(as_prepared(ROBOT, *rng.normal(size=(4, n, 3)), t=10.0 * k + np.arange(n)), segments=(slice(1, n),))
        for k, n in enumerate((20, 30, 25))
    ]
    found = outline_of(parts)
    assert found.segments == (slice(1, 20), slice(21, 50), slice(51, 75)) and list(found.t) == [0.0, 44.0]
    np.testing.assert_array_equal(found.top_speed, np.max([part.top_speed for part in parts], axis=0))


def test_functions_over_recordings_elsewhere_are_called_there():
    outlines, kept, _ = stored()
    assert over(lambda whole, parts: (whole.source, len(parts)), outlines) == [("a", 2), ("b", 1)]
    found = over(lambda whole, parts, more: (whole, parts[0].tau[0, 0], more), outlines, ["x", "y"])
    assert [(one[0], one[2]) for one in found] == [(outlines[0], "x"), (outlines[1], "y")]
    assert found[1][1] == kept["b"][0].tau[0, 0]


@pytest.mark.parametrize("same_rows", [True, False])
def test_a_change_elsewhere_is_made_when_the_samples_are_used(same_rows):
    (first, _), kept, store = stored()
    twice = changed(lambda p: replace(p, tau=2.0 * p.tau), first, same_rows=same_rows)
    more = changed(lambda p: replace(p, tau=1.0 + p.tau), twice, same_rows=same_rows)
    assert store.told == [same_rows, same_rows] and more.segments == first.segments
    (sums,) = over(lambda whole, parts: [part.tau.sum() for part in parts], [more])
    np.testing.assert_allclose(sums, [2.0 * part.tau.sum() + 150.0 for part in kept["a"]])
    here = kept["a"][0]
    assert changed(lambda p: replace(p, source="there"), here).source == "there" and len(store.told) == 2


def test_a_change_that_is_made_now_gives_the_outline_after_it():
    outlines, kept, _ = stored()
    outlines = [replace(p, notes=("of the whole",)) for p in outlines]
    found = changed_now(lambda p: effort_later(p, 0.03), outlines)
    for outline, parts in zip(found, kept.values(), strict=True):
        moved = [effort_later(part, 0.03) for part in parts]
        wanted = outline_of(moved)
        assert outline.segments == wanted.segments and list(outline.t) == list(wanted.t)
        assert outline.filter.delay == pytest.approx(0.03) and outline.notes == ("of the whole",)
        (sizes,) = over(lambda whole, some: [len(part.t) for part in some], [outline])
        assert sizes == [47] * len(parts), "and once, not twice, when it is used"
    direct = effort_later(outlines[0], 0.03)
    assert direct.segments == found[0].segments and repetition(outlines[0]) is None


def test_what_recordings_elsewhere_say_is_what_they_say_here():
    """In the same blocks, in motion and at rest, although their samples come in parts."""
    _, kept, _ = stored()
    kept = {
        name: [replace(p, top_speed=np.full(3, 3.0), filter=replace(p.filter, slow=0.15)) for p in parts]
        for name, parts in kept.items()
    }
    store = Store(kept, [])
    base = base_parameters(ROBOT, method="closed-form")
    outlines = [replace(outline_of(parts), elsewhere=store) for parts in kept.values()]
    there = inform(ROBOT, base, outlines, delay=False)
    here = inform(ROBOT, base, [joined_prepared(parts) for parts in kept.values()], delay=False)
    assert len(there.blocks) == len(here.blocks) > 20 and sum(block.resting for block in here.blocks) > 50
    for own, other in ((there.blocks, here.blocks), (there.motion, here.motion)):
        for a, b in zip(own, other, strict=True):
            assert (a.recording, a.resting, a.start, a.end) == (b.recording, b.resting, b.start, b.end)
            np.testing.assert_array_equal(a.rows, b.rows)
            for mine, its in zip(a.R, b.R, strict=True):
                np.testing.assert_allclose(mine.T @ mine, its.T @ its, atol=1e-9)


def test_of_what_is_emptied_no_signal_is_left():
    rng = np.random.default_rng(0)
    whole = as_prepared(ROBOT, *rng.normal(size=(4, 30, 3)), t=np.arange(30.0))
    signals = ("carried", "reference", "temperature", "second", "commands")
    whole = replace(whole, **{name: rng.normal(size=(30, 3)) for name in signals}, temperatures=np.zeros((2, 3)))
    bare = emptied(whole)
    assert all(getattr(bare, name) is None for name in signals) and bare.temperatures is whole.temperatures
    assert all(getattr(bare, name).shape == (0, 3) for name in ("q", "dq", "ddq", "tau", "sign"))
    assert list(bare.t) == [0.0, 29.0] and bare.bridged.shape == (0,) and bare.filter == whole.filter


class Place:
    """Prepares recordings by name, here."""

    def __init__(self):
        self.asked = []

    def prepare(self, robot, recordings, options, reading, filters):
        self.asked.append(([one.name for one in recordings], options, reading, filters))
        return [prepare(robot, moving(10.0), options) for _ in recordings]


def test_recordings_that_are_elsewhere_are_prepared_there():
    place, said = Place(), []
    options = IdentifyOptions(preparation=PreparationOptions(row_cutoff=4.0), reading=Reading(topic="/states"))
    recordings = [Distant(place, "a"), Distant(place, "b")]
    found = all_prepared(ROBOT, recordings, options, lambda *told: said.append(told), (0.2, 0.5))
    assert place.asked == [(["a", "b"], options.preparation, options.reading, None)]
    assert said == [("reading recordings", 0.2)] and [p.filter.delay for p in found] == [0.0, 0.0]
    late = replace(found[0].filter, delay=0.1)
    given = replace(options, preparation=replace(options.preparation, delay=0.04))
    moved = all_prepared(ROBOT, recordings, given, lambda *_: None, (0.0, 1.0), late)
    assert place.asked[1] == (["a", "b"], given.preparation, given.reading, late)
    step = 1.0 / found[0].filter.inner_rate
    assert [p.filter.delay for p in moved] == pytest.approx([0.1, 0.1], abs=step), "the rest of it, not all of it again"
