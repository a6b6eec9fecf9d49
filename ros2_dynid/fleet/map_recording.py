# SPDX-License-Identifier: Apache-2.0

"""The map: a recording is read and prepared, and kept as that: the first stage of its robot's identification."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ros2_dynid.blas import small_matrices
from ros2_dynid.errors import DynidError, InputError, Note, NoteKind
from ros2_dynid.fleet.recordings import Identity, identity, plain_reason, readable
from ros2_dynid.fleet.store import fingerprint, packed, write_whole
from ros2_dynid.identification.options import PreparationOptions
from ros2_dynid.identification.preparation.cutoffs import Cutoffs, Spectrum
from ros2_dynid.identification.preparation.prepared import Filter, Prepared
from ros2_dynid.identification.recordings import prepare_file
from ros2_dynid.model.robot import Robot
from ros2_dynid.recording.samples import Reading


@dataclass(frozen=True)
class Source:
    """What to read and how to prepare it; content: the hash of what is at `place`."""

    place: str
    content: str
    robot: Robot
    options: PreparationOptions
    reading: Reading


@dataclass(frozen=True, eq=False)
class MappedRecording:
    """A recording prepared, and its first stamp [ns]."""

    prepared: Prepared
    start_ns: int


STORED_KINDS = (Cutoffs, Filter, MappedRecording, Note, NoteKind, Prepared, Spectrum)
"""All that a stored recording may hold."""


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
class StoredRecording:
    """A recording of the map, as identification takes it: prepared as it was mapped, or anew if asked for otherwise."""

    source: Source
    mapped: MappedRecording | None = None

    def prepare(
        self, robot: Robot, options: PreparationOptions, reading: Reading, filters: Filter | None = None
    ) -> Prepared:
        """Return it prepared; filters: of other recordings, whose cut-offs are used."""
        source = self.source
        requested_key = fingerprint(robot, options, reading)
        if (
            self.mapped
            and filters is None
            and requested_key == fingerprint(source.robot, source.options, source.reading)
        ):
            return self.mapped.prepared
        with readable(source.place) as file:
            return prepare_file(robot, file, options, reading, filters)[0]


@small_matrices
def map_recording(source: Source) -> MappedRecording | Failed:
    """Read, check and prepare a recording."""
    try:
        with readable(source.place) as file:
            return MappedRecording(*prepare_file(source.robot, file, source.options, source.reading))
    except (DynidError, OSError, MemoryError) as error:
        return failed(error, source.place)


def map_several(
    sources: tuple[Source, ...], files: tuple[Path, ...] | None = None
) -> tuple[bytes | Failed | None, ...]:
    """Return several recordings mapped and packed: a task costs as much as a short recording.

    files: where they are stored, if the worker reaches the output folder; None is returned for one that is there.
    """
    results: list[bytes | Failed | None] = []
    for k, source in enumerate(sources):
        mapped = map_recording(source)
        if isinstance(mapped, Failed):
            results.append(mapped)
        elif files is None:
            results.append(packed(mapped))
        else:
            write_whole(files[k], packed(mapped))
            results.append(None)
    return tuple(results)


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
        return Failed("there is not enough memory for it", "give the workers more memory", place)
    if isinstance(error, OSError):
        return Failed(f"it cannot be read ({error.strerror or error})", "check the file and its permissions", place)
    what, _, hint = str(error).rpartition("; ")
    return Failed(what or hint, hint, place)


def reason(failure: Failed) -> str:
    """Return the reason in one line, without the file's name."""
    return plain_reason(failure.error())
