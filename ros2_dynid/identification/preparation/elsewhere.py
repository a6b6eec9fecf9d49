"""Recordings whose samples are elsewhere: what is computed from them is computed there, and results come back.

An outline is a Prepared with all that is small; its samples are on another process, or on disk. `over` is the map over
recordings that the estimators use: it calls the function here for recordings that are here, and sends it to the others.
A long recording comes in parts, one after the other in time, so that no process ever holds all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from ros2_dynid.identification.preparation.preparation_options import PreparationOptions
    from ros2_dynid.identification.preparation.prepared import Filter, Prepared
    from ros2_dynid.model.robot import Array, Robot
    from ros2_dynid.notes import Note
    from ros2_dynid.recording.reading import Reading

T = TypeVar("T")


class Elsewhere(Protocol):
    """Where the samples of an outline are, and what is to be done to them before they are used."""

    def over(
        self, function: Callable[..., T], prepared: Sequence[Prepared], each: Sequence[object] | None = None
    ) -> list[T]:
        """Return function(whole, parts) of each recording, or function(whole, parts, each[k])."""
        ...

    def later(self, change: Callable[[Prepared], Prepared], *, same_rows: bool) -> Elsewhere:
        """Return the same with one more change, made when the samples are next used."""
        ...


class Place(Protocol):
    """Prepares recordings elsewhere and gives their outlines."""

    def prepare(
        self,
        robot: Robot,
        recordings: Sequence[Distant],
        options: PreparationOptions,
        reading: Reading,
        filters: Filter | None,
    ) -> list[Prepared]:
        """Return the outlines of recordings read and prepared there."""
        ...


@dataclass(frozen=True)
class Distant:
    """A recording that is read elsewhere, by name."""

    place: Place
    name: str


def over(function: Callable[..., T], prepared: Sequence[Prepared], each: Sequence[object] | None = None) -> list[T]:
    """Return function(whole, parts) of each recording, with each[k] as third argument if given.

    whole has the recording's outline, parts its samples; of a recording that is here both are the recording itself.
    """
    where = prepared[0].elsewhere if prepared else None
    if where is not None:
        return where.over(function, prepared, each)
    if each is None:
        return [function(p, (p,)) for p in prepared]
    return [function(p, (p,), more) for p, more in zip(prepared, each, strict=True)]


def changed(change: Callable[[Prepared], Prepared], prepared: Prepared, *, same_rows: bool = False) -> Prepared:
    """Return the recording changed; one that is elsewhere is changed when it is next used, its outline stays as it was.

    same_rows: the change touches no time, segment or filter, so that the outline stays true.
    """
    if prepared.elsewhere is None:
        return change(prepared)
    return replace(prepared, elsewhere=prepared.elsewhere.later(change, same_rows=same_rows))


def changed_now(change: Callable[[Prepared], Prepared], prepared: Sequence[Prepared]) -> list[Prepared]:
    """Return the recordings changed, those elsewhere with the outline after the change."""
    if not prepared or prepared[0].elsewhere is None:
        return [change(p) for p in prepared]
    later = [changed(change, p) for p in prepared]
    return [replace(found, elsewhere=p.elsewhere) for found, p in zip(over(outline, later), later, strict=True)]


def outline(whole: Prepared, parts: Iterable[Prepared]) -> Prepared:
    """Return all of a recording but its samples, with the notes that it had."""
    return replace(outline_of(parts), notes=whole.notes)


def outline_of(parts: Iterable[Prepared]) -> Prepared:
    """Return all of a recording, whose parts are one after the other in time, but its samples.

    second: one row, a number for each joint whose second effort is there in all parts.
    """
    first: Prepared | None = None
    notes: list[Note] = []
    segments, top, at, end = [], [], 0, 0.0
    seconds: list[Array | None] = []
    temperatures: list[Array | None] = []
    for part in parts:
        notes += part.notes
        first = first or emptied(part)
        segments += [slice(s.start + at, s.stop + at) for s in part.segments]
        top.append(part.top_speed)
        temperatures.append(part.temperatures)
        seconds.append(part.second)
        at += len(part.t)
        end = float(part.t[-1])
    assert first is not None
    return replace(
        first,
        t=np.array([first.t[0], end]),
        segments=tuple(segments),
        top_speed=np.max(top, axis=0),
        temperatures=range_of(temperatures),
        second=_second_of(seconds),
        notes=tuple(dict.fromkeys(notes)),
    )


def _second_of(parts: Sequence[Array | None]) -> Array | None:
    """Return a row of zeros, NaN where a joint's second effort is missing in one of the parts; None if all are."""
    known = [np.isfinite(part).all(axis=0) for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return np.where(np.all(known, axis=0), 0.0, np.nan)[None]


def range_of(ranges: Sequence[Array | None]) -> Array | None:
    """Return the lowest and the highest temperatures, shape (2, n), of several such ranges; None if one is not known.

    A joint whose temperature is not known in one of them, NaN, stays so.
    """
    known = [one for one in ranges if one is not None]
    if not known or len(known) < len(ranges):
        return None
    return np.array((np.min([one[0] for one in known], axis=0), np.max([one[1] for one in known], axis=0)))


def emptied(part: Prepared) -> Prepared:
    """Return all of a part of a recording but its samples."""
    none = np.empty((0, part.q.shape[1]))
    return replace(
        part,
        t=part.t[[0, -1]],
        q=none,
        dq=none,
        ddq=none,
        tau=none,
        sign=np.empty((0, part.sign.shape[1])),
        bridged=np.empty(0),
        carried=None,
        reference=None,
        temperature=None,
        commands=None,
        second=None,
    )
