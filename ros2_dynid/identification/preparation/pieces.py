"""A recording of any length, prepared piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.elsewhere import emptied, range_of
from ros2_dynid.identification.preparation.preparation_options import PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import Filter, Prepared
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.notes import Note, remark
from ros2_dynid.recording.samples import Samples


def prepare_pieces(
    robot: Robot,
    pieces: Iterable[Samples],
    options: PreparationOptions | None = None,
    *,
    filters: Filter | None = None,
) -> Prepared:
    """Return a recording that comes in pieces, one after the other in time, prepared: only one piece is held at a time.

    The first piece that can be used proposes the filters, unless those of another recording are to be used (`filters`).
    At the seams the filters' transients are lost, as at a gap.
    A piece alone may stand still or be too short: it is left out with a note, unless none can be used.
    """
    refused: list[Note] = []
    done = list(prepare_each(robot, pieces, options, refused, filters=filters))
    return joined_prepared(done, tuple(refused))


def prepare_each(
    robot: Robot,
    pieces: Iterable[Samples],
    options: PreparationOptions | None,
    refused: list[Note],
    *,
    filters: Filter | None = None,
) -> Iterator[Prepared]:
    """Yield the pieces prepared, one at a time; what was left out is appended to `refused`."""
    like: Prepared | None = None
    first_error: InputError | None = None
    for piece in pieces:
        try:
            part = prepare(robot, piece, options, like=like, filters=filters)
        except InputError as error:
            first_error = first_error or error
            span = f"{piece.t[0]:.6g} to {piece.t[-1]:.6g} s" if len(piece) else "no samples"
            refused.append(remark(f"the piece of {span} was left out: {error.what}"))
            continue
        like = like or emptied(part)
        yield part
    if like is None:
        assert first_error is not None
        raise first_error


def joined_prepared(parts: list[Prepared], notes: tuple[Note, ...] = ()) -> Prepared:
    """Return parts of one recording, one after the other in time, as one; equal notes are given once."""
    every = tuple(dict.fromkeys((*(note for part in parts for note in part.notes), *notes)))
    first = parts[0]
    if len(parts) == 1:
        return replace(first, notes=every)
    starts = np.cumsum([0, *(len(part.t) for part in parts[:-1])])
    return replace(
        first,
        t=np.concatenate([part.t for part in parts]),
        q=np.concatenate([part.q for part in parts]),
        dq=np.concatenate([part.dq for part in parts]),
        ddq=np.concatenate([part.ddq for part in parts]),
        tau=np.concatenate([part.tau for part in parts]),
        sign=np.concatenate([part.sign for part in parts]),
        bridged=np.concatenate([part.bridged for part in parts]),
        reference=_joined([part.reference for part in parts]),
        temperature=_joined([part.temperature for part in parts]),
        commands=_joined([part.commands for part in parts]),
        second=_joined([part.second for part in parts]),
        segments=tuple(
            slice(segment.start + int(start), segment.stop + int(start))
            for part, start in zip(parts, starts, strict=True)
            for segment in part.segments
        ),
        top_speed=np.max([part.top_speed for part in parts], axis=0),
        temperatures=range_of([part.temperatures for part in parts]),
        notes=every,
    )


def _joined(signals: list[Array | None]) -> Array | None:
    """Return the signal of all parts, or None if one has none."""
    known = [signal for signal in signals if signal is not None]
    return np.concatenate(known) if len(known) == len(signals) else None
