"""Recordings become a problem: read once, prepared, their rows gathered in R factors, with the friction law."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.blas import small_matrices
from ros2_dynid.identification.estimators import Problem, inform
from ros2_dynid.identification.estimators.friction_law import with_law
from ros2_dynid.identification.estimators.information import Information
from ros2_dynid.identification.estimators.large_delay import without_large_delay
from ros2_dynid.identification.estimators.lower_cutoff import lower_cutoff
from ros2_dynid.identification.estimators.two_sensors import two_sensors
from ros2_dynid.identification.friction.laws import PLAIN
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation import Filter, Prepared, effort_later, prepare, prepare_pieces
from ros2_dynid.identification.preparation.elsewhere import Distant
from ros2_dynid.identification.preparation.rows import RowMemory
from ros2_dynid.model.effort_sensors import felt_parts
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Robot
from ros2_dynid.notes import Note, remark
from ros2_dynid.progress import Progress
from ros2_dynid.recording.ahead import ahead
from ros2_dynid.recording.in_order import ClockSetBackError, in_order, joined_samples
from ros2_dynid.recording.read import iter_samples
from ros2_dynid.recording.reading import Reading
from ros2_dynid.recording.remote_file import RemoteFile
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.streamed import streamed
from ros2_dynid.sim.controller_file import load_controller

PIECE = 200_000
"""Samples of a recording held at a time."""
Recording = str | Path | Samples | Distant


@small_matrices
def read_problem(robot: Robot, recordings: Sequence[Recording], options: IdentifyOptions, report: Progress) -> Problem:
    """Read and prepare the recordings, and gather what they say about the base parameters."""
    controller = None if options.controller is None else load_controller(options.controller, robot.active_names)
    base = base_parameters(robot, method="closed-form")
    chosen = options.preparation
    memory = None if options.friction == PLAIN else RowMemory()

    def read() -> list[Prepared]:
        return all_prepared(robot, recordings, options, report, (0.05, 0.3))

    def informed(prepared: Sequence[Prepared]) -> Information:
        on_chunk = partial(_regressor_done, report)
        return inform(robot, base, prepared, on_chunk, delay=chosen.delay is None, memory=memory)

    prepared = read()
    information = informed(prepared)
    if chosen.row_cutoff is None and chosen.position_cutoff is None:
        lower = lower_cutoff(prepared, information, informed)
        if lower is not None:
            note = remark(f"the cut-off proposed lets too much noise in: rows are filtered at {lower:g} Hz instead")
            options = replace(options, preparation=replace(chosen, row_cutoff=lower))
            prepared = [replace(part, notes=(*part.notes, note)) for part in read()]
            information = informed(prepared)
    prepared, information = without_large_delay(prepared, information, informed)
    law = with_law(robot, base, prepared, information, options.friction, options.method, memory)
    prior = law.information.layout.vector(base.values(robot, standard_vector(robot)))
    felt = felt_parts(options.torque_sensor)
    second = two_sensors(robot, base, law.prepared, law.information.layout, law.terms, felt)
    return Problem(robot, base, law.prepared, law.information, prior, law.terms, law.tried, controller, second)


def _regressor_done(report: Progress, done: float) -> None:
    report("regressor", 0.35 + 0.35 * done)


def all_prepared(
    robot: Robot,
    recordings: Sequence[Recording],
    options: IdentifyOptions,
    report: Progress,
    span: tuple[float, float],
    filters: Filter | None = None,
) -> list[Prepared]:
    """Return the recordings prepared; span: of the progress, where it begins and how long it is."""
    distant = [recording for recording in recordings if isinstance(recording, Distant)]
    if distant:
        report("reading recordings", span[0])
        found = distant[0].place.prepare(robot, distant, options.preparation, options.reading, filters)
        return found if filters is None else [effort_later(p, filters.delay - p.filter.delay) for p in found]
    return [
        _prepared(robot, part, options, report, span[0] + span[1] * k / len(recordings), filters=filters)
        for k, part in enumerate(recordings)
    ]


def _prepared(
    robot: Robot,
    recording: Recording,
    options: IdentifyOptions,
    report: Progress,
    at: float,
    filters: Filter | None = None,
) -> Prepared:
    """Return a recording prepared; a file is read once, in pieces, and twice if its clock was set back.

    filters: of the recordings fitted to, which those held out pass too, and whose efforts were as late.
    """
    report("reading recordings", at)
    found = _prepared_as_recorded(robot, recording, options, report, at, filters)
    return found if filters is None else effort_later(found, filters.delay - found.filter.delay)


def _prepared_as_recorded(
    robot: Robot,
    recording: Recording,
    options: IdentifyOptions,
    report: Progress,
    at: float,
    filters: Filter | None,
) -> Prepared:
    assert not isinstance(recording, Distant)
    if isinstance(recording, Samples):
        return prepare(robot, recording, options.preparation, filters=filters)
    for pieces in (pieces_read_once, pieces_read_twice):
        notes: list[Note] = []
        reading = pieces(robot, recording, options.reading, notes)
        try:
            found = prepare_pieces(robot, _reported(ahead(reading), report, at), options.preparation, filters=filters)
        except ClockSetBackError:
            continue
        return replace(found, notes=tuple(dict.fromkeys((*notes, *found.notes))))
    raise AssertionError("a recording read twice is always in order")


def pieces_read_once(
    robot: Robot, path: str | Path | RemoteFile, reading: Reading, notes: list[Note]
) -> Generator[Samples]:
    """Yield a recording in order, PIECE samples at a time; ClockSetBackError if that takes two readings."""
    yield from in_order(
        lambda found: iter_samples(path, robot, reading=reading, notes=found),
        notes,
        reading.start,
        reading.end,
        size=PIECE,
    )


def pieces_read_twice(
    robot: Robot, path: str | Path | RemoteFile, reading: Reading, notes: list[Note]
) -> Generator[Samples]:
    """Yield the same where the clock was set back: the longest stretch of it."""
    recording = streamed(
        lambda found: iter_samples(path, robot, reading=reading, notes=found), reading.start, reading.end
    )
    waiting: list[Samples] = []
    for chunk in recording.pieces:
        waiting.append(chunk)
        if sum(map(len, waiting)) >= PIECE:
            yield joined_samples(waiting)
            waiting = []
    if waiting:
        yield joined_samples(waiting)
    notes += recording.outline.notes


def _reported(pieces: Iterator[Samples], report: Progress, at: float) -> Iterator[Samples]:
    for piece in pieces:
        report("reading recordings", at)
        yield piece
