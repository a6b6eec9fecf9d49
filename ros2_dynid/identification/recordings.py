# SPDX-License-Identifier: Apache-2.0

"""Stage 1, Recordings -> Prepared: files and samples become smooth motion and torque on an even grid."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ros2_dynid.errors import Note
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.preparation.prepare import judge_motion, prepare, prepare_pieces
from ros2_dynid.identification.preparation.prepared import Filter, Prepared, shift_effort
from ros2_dynid.model.robot import Robot
from ros2_dynid.progress import Progress
from ros2_dynid.recording.read import ClockSetBackError, ahead, in_order, iter_samples, joined_samples, streamed
from ros2_dynid.recording.remote_file import RemoteFile
from ros2_dynid.recording.samples import Reading, Samples

PIECE_SAMPLES = 200_000
"""Samples of a recording held at a time."""


class StoredRecording(Protocol):
    """A recording whose prepared form may be stored: who stores it returns that, or prepares it."""

    def prepare(
        self, robot: Robot, options: PreparationOptions, reading: Reading, filters: Filter | None = None
    ) -> Prepared:
        """Return the recording prepared with these options; filters: of other recordings, whose cut-offs it takes."""
        ...


Recording = str | Path | Samples | StoredRecording
"""A file, samples in memory, or a recording that is stored prepared."""


def prepare_recordings(
    robot: Robot,
    recordings: Sequence[Recording],
    options: IdentifyOptions,
    report: Progress,
    *,
    filters: Filter | None = None,
    progress_from: float = 0.05,
    progress_to: float = 0.35,
) -> tuple[Prepared, ...]:
    """Return the recordings prepared for the robot, each joint of which moves in one of them at least.

    filters: of the recordings fitted to, which those held out pass too, and whose efforts were as late.
    """
    prepared = []
    for k, recording in enumerate(recordings):
        done = progress_from + (progress_to - progress_from) * k / len(recordings)

        def tell(done: float = done) -> None:
            report("reading recordings", done)

        tell()
        one = _prepare(robot, recording, options, filters, tell)
        prepared.append(one if filters is None else shift_effort(one, filters.delay - one.filter.delay))
    return judge_motion(robot, prepared) if filters is None else tuple(prepared)


def _prepare(
    robot: Robot, recording: Recording, options: IdentifyOptions, filters: Filter | None, on_piece: Callable[[], None]
) -> Prepared:
    if isinstance(recording, Samples):
        return prepare(robot, recording, options.preparation, filters=filters)
    if isinstance(recording, str | Path):
        return prepare_file(robot, recording, options.preparation, options.reading, filters, on_piece)[0]
    return recording.prepare(robot, options.preparation, options.reading, filters)


def prepare_file(
    robot: Robot,
    file: str | Path | RemoteFile,
    options: PreparationOptions,
    reading: Reading,
    filters: Filter | None = None,
    on_piece: Callable[[], None] = lambda: None,
) -> tuple[Prepared, int]:
    """Return a file prepared, and its first stamp [ns]; it is read in pieces, and twice if its clock was set back.

    on_piece: called with every piece, and may raise to stop.
    """
    for read_pieces in (_read_once, _read_twice):
        notes: list[Note] = []
        starts: list[int] = []

        def pieces(source: Iterator[Samples], starts: list[int] = starts) -> Iterator[Samples]:
            for piece in source:
                starts.append(piece.start_ns)
                on_piece()
                yield piece

        try:
            source = pieces(ahead(read_pieces(robot, file, reading, notes)))
            prepared = prepare_pieces(robot, source, options, filters=filters)
        except ClockSetBackError:
            continue
        return replace(prepared, notes=tuple(dict.fromkeys((*notes, *prepared.notes)))), starts[0]
    raise AssertionError("a recording read twice is always in order")


def _read_once(robot: Robot, file: str | Path | RemoteFile, reading: Reading, notes: list[Note]) -> Generator[Samples]:
    """Yield a recording in order, PIECE_SAMPLES at a time; ClockSetBackError if that takes two readings."""
    yield from in_order(
        lambda found: iter_samples(file, robot, reading=reading, notes=found),
        notes,
        reading.start,
        reading.end,
        size=PIECE_SAMPLES,
    )


def _read_twice(robot: Robot, file: str | Path | RemoteFile, reading: Reading, notes: list[Note]) -> Generator[Samples]:
    """Yield the same where the clock was set back: the longest stretch of it."""
    recording = streamed(
        lambda found: iter_samples(file, robot, reading=reading, notes=found), reading.start, reading.end
    )
    waiting: list[Samples] = []
    for chunk in recording.pieces:
        waiting.append(chunk)
        if sum(map(len, waiting)) >= PIECE_SAMPLES:
            yield joined_samples(waiting)
            waiting = []
    if waiting:
        yield joined_samples(waiting)
    notes += recording.outline.notes
