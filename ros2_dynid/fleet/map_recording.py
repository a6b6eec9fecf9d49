"""The map: one recording becomes its outline and R factors, which is all that the rest of the fleet needs of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.blas import small_matrices
from ros2_dynid.codegen.backend import MIN_BUILD_SAMPLES, regressor_function, torque_function
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.fleet.parts import Change, Parts, Source, open_recording
from ros2_dynid.fleet.recordings import Identity, identity, plain_reason
from ros2_dynid.fleet.store import packed, write_whole
from ros2_dynid.identification.estimators import Block, ColumnLayout, Information
from ros2_dynid.identification.estimators.fit import informing
from ros2_dynid.identification.estimators.least_squares import joint_errors, joint_torques, weighted
from ros2_dynid.identification.preparation import Cutoffs, Filter, Prepared
from ros2_dynid.identification.preparation.cutoffs import Spectrum
from ros2_dynid.identification.preparation.elsewhere import outline
from ros2_dynid.identification.preparation.even_grid import FirstPiece
from ros2_dynid.identification.preparation.rows import row_count
from ros2_dynid.identification.validation.comparison import LIMIT
from ros2_dynid.identification.validation.row_evidence import (
    PicturedRows,
    RowCollector,
    RowEvidence,
    Successive,
    lag_of,
    picture_stride,
)
from ros2_dynid.identification.validation.sampled_motion import (
    MOST,
    MotionSampler,
    SampledMotion,
    motion_stride,
    sample_count,
)
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Robot
from ros2_dynid.notes import Note, NoteKind


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the fleet keeps of a recording: its outline, R factors of [W tau] with plain friction, first stamp [ns].

    rows, motion: what a robot's report and the checks of its data look at; alone: relative torque error of a fit to
    this recording only, NaN if there is none; long, twice: as in Source.
    """

    outline: Prepared
    information: Information
    rows: RowEvidence
    motion: SampledMotion
    alone: float
    start_ns: int
    long: bool = False
    twice: bool = False


KINDS = (
    Block, ColumnLayout, Cutoffs, Filter, FirstPiece, Information, Note, NoteKind, Outcome, PicturedRows, Prepared,
    RowEvidence, SampledMotion, Spectrum, Successive,
)  # fmt: skip
"""All that a stored outcome may hold."""


@dataclass(frozen=True)
class Failed:
    """A task that ended with an error of the data: what is wrong, and what to do."""

    what: str
    hint: str
    source: str | None = None

    def error(self) -> InputError:
        """Return it as the error that it was."""
        return InputError(self.what, self.hint, self.source)


@dataclass(frozen=True, eq=False)
class Question:
    """A function of a recording's samples: function(whole, parts), or function(whole, parts, extra)."""

    source: Source
    outline: Prepared
    changes: tuple[Change, ...]
    function: Callable[..., object]
    extra: tuple[object, ...] = ()


@small_matrices
def map_recording(source: Source, share: float = 1.0) -> Outcome | Failed:
    """Read, check, prepare and compress a recording.

    share: of the robot's data that it likely is, which says how many of its rows and samples will be looked at. Twice
    as many are kept; if even that is too few, the recording is read again.
    """
    try:
        ready(source)
        opened = open_recording(source)
        found, long = opened.outline, opened.whole is None
        parts: Iterable[Prepared] = (opened.whole,) if opened.whole is not None else ()
        if long:
            parts = Parts(replace(source, long=True, twice=opened.twice), top_speed=found.top_speed)
        most = [max(1, round(2.0 * share * number)) for number in (LIMIT, MOST)]
        rows = RowCollector(picture_stride([row_count(found)], most[0]), lag_of(found.filter))
        motion = MotionSampler(motion_stride(sample_count(found), most[1]))
        one = _informing(source.robot_key, _Kept(source.robot), delay=source.options.delay is None)
        information = one(found, motion.over(parts), watch=rows.take)
        evidence = rows.evidence(information.columns)
        return Outcome(
            found,
            information,
            evidence,
            motion.samples(),
            _alone(information),
            opened.start_ns,
            long,
            opened.twice,
        )
    except (DynidError, OSError, MemoryError) as error:
        return failed(error, source.place)


def map_packed(source: Source, share: float = 1.0) -> bytes | Failed:
    """Return the outcome of a recording as it is stored, packed where it was computed."""
    outcome = map_recording(source, share)
    return outcome if isinstance(outcome, Failed) else packed(outcome)


def map_several(
    given: tuple[tuple[Source, float], ...], files: tuple[Path, ...] | None = None
) -> tuple[bytes | Failed | None, ...]:
    """Return the outcomes of several recordings with their shares: a task costs as much as a short recording.

    files: where they are stored, if the worker reaches the output folder; None is returned for one that is there.
    """
    if files is None:
        return tuple(map_packed(source, share) for source, share in given)
    found: list[Failed | None] = []
    for (source, share), file in zip(given, files, strict=True):
        outcome = map_packed(source, share)
        if isinstance(outcome, bytes):
            write_whole(file, outcome)
        found.append(outcome if isinstance(outcome, Failed) else None)
    return tuple(found)


def _alone(information: Information) -> float:
    """Return the relative torque error of a recording under its own estimate; NaN if it has none."""
    try:
        error = np.linalg.norm(joint_errors(information, weighted(information)[0].value))
    except DynidError:
        return float("nan")
    return float(error / max(float(np.linalg.norm(joint_torques(information))), 1e-300))


def outline_elsewhere(source: Source) -> Prepared | Failed:
    """Return the outline of a recording prepared in another way."""
    try:
        ready(source)
        return open_recording(source).outline
    except (DynidError, OSError, MemoryError) as error:
        return failed(error, source.place)


def answer(question: Question) -> object:
    """Return the answer to a question about a recording, or Failed."""
    try:
        ready(question.source)
        parts = Parts(question.source, question.changes, question.outline.top_speed)
        whole = question.outline
        if not all(change.same_rows for change in question.changes):
            whole = outline(whole, parts)
        return question.function(whole, parts, *question.extra)
    except (DynidError, OSError, MemoryError) as error:
        return failed(error, question.source.place)


def identities(places: tuple[str, ...]) -> tuple[Identity | Failed, ...]:
    """Return what each recording is."""
    return tuple(_identity(place) for place in places)


def _identity(place: str) -> Identity | Failed:
    try:
        return identity(place)
    except (DynidError, OSError) as error:
        return failed(error, place)


def failed(error: Exception, place: str) -> Failed:
    """Return an error as data: exceptions of ours do not travel between processes, and a line is all that is shown."""
    if isinstance(error, InputError):
        return Failed(str(error.what), str(error.hint), error.source)
    if isinstance(error, MemoryError):
        return Failed("there is not enough memory for it", "give the workers more", place)
    if isinstance(error, OSError):
        return Failed(f"it cannot be read ({error.strerror or error})", "check the file and its permissions", place)
    what, _, hint = str(error).rpartition("; ")
    return Failed(what or hint, hint, place)


def reason(found: Failed) -> str:
    """Return the reason in one line, without the file's name."""
    return plain_reason(found.error())


def ready(source: Source) -> None:
    """Build the robot's compiled dynamics first, if they can be: a result must not depend on who built them when."""
    _ready(source.robot_key, _Kept(source.robot))


class _Kept:
    """A robot in the arguments of a cache that goes by its fingerprint."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=64)
def _ready(key: str, kept: _Kept) -> None:
    robot = kept.robot
    regressor_function(robot, MIN_BUILD_SAMPLES)
    torque_function(*frictionless(robot, standard_vector(robot)))


@lru_cache(maxsize=64)
def _informing(key: str, kept: _Kept, *, delay: bool) -> Callable[..., Information]:
    """Return `informed` for the robot's base parameters with plain friction."""
    return informing(kept.robot, base_parameters(kept.robot, method="closed-form"), delay=delay)
