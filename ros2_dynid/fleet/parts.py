"""A recording on a worker: read, prepared and changed, in parts, so that one of any length takes the same memory.

A recording of one piece is kept for the next question, as far as CACHE goes. A longer one is read again for each: first
for its outline, then for its samples.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ros2_dynid.errors import InputError
from ros2_dynid.fleet.fingerprint import fingerprint
from ros2_dynid.fleet.recordings import readable
from ros2_dynid.identification.preparation import Filter, PreparationOptions, Prepared
from ros2_dynid.identification.preparation.elsewhere import outline_of
from ros2_dynid.identification.preparation.pieces import prepare_each
from ros2_dynid.identification.read_problem import pieces_read_once, pieces_read_twice
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.notes import Note
from ros2_dynid.recording.in_order import ClockSetBackError
from ros2_dynid.recording.reading import Reading
from ros2_dynid.recording.samples import Samples

CACHE = 48 << 20
"""Bytes of prepared recordings that a process keeps."""
_kept: OrderedDict[str, Prepared] = OrderedDict()


@dataclass(frozen=True)
class Source:
    """What to read and how to prepare it; content: the hash of what is at `place`.

    long: it is known to have several pieces; twice: and that its clock was set back; robot_print: the fingerprint of
    the robot, for caches.
    """

    place: str
    content: str
    robot: Robot
    options: PreparationOptions
    reading: Reading
    filters: Filter | None = None
    long: bool = False
    twice: bool = False
    robot_print: str = ""

    @property
    def robot_key(self) -> str:
        """The fingerprint of the robot."""
        return self.robot_print or fingerprint(self.robot)

    @property
    def key(self) -> str:
        """The fingerprint of what the recording is and how it is prepared."""
        return fingerprint(self.place, self.content, self.robot_key, self.options, self.reading, self.filters)

    def prepared_with(self, options: PreparationOptions, reading: Reading, filters: Filter | None) -> Source:
        """Return the same prepared in another way; itself if it is the same way."""
        if (options, reading, filters) == (self.options, self.reading, self.filters):
            return self
        return replace(self, options=options, reading=reading, filters=filters, long=False, twice=False)


@dataclass(frozen=True)
class Change:
    """A change of a prepared recording; same_rows: it touches no time, segment or filter."""

    function: Callable[[Prepared], Prepared]
    same_rows: bool


@dataclass(frozen=True, eq=False)
class Opened:
    """A recording read for the first time: outline, first stamp [ns], and its samples if it is one piece;
    twice: its clock was set back."""

    outline: Prepared
    start_ns: int
    whole: Prepared | None
    twice: bool


class Parts:
    """The prepared parts of a recording, to go through as often as needed."""

    def __init__(self, source: Source, changes: tuple[Change, ...] = (), top_speed: Array | None = None) -> None:
        """Nothing is read yet; top_speed: of the whole recording, if it is long."""
        self.source, self.changes, self._top_speed = source, changes, top_speed

    def __iter__(self) -> Iterator[Prepared]:
        """Yield the parts with the changes made; a part that a change leaves nothing of is left out."""
        error: InputError | None = None
        count = 0
        for part in self._unchanged():
            try:
                for change in self.changes:
                    part = change.function(part)
            except InputError as found:
                error = error or found
                continue
            count += 1
            yield part
        if not count and error is not None:
            raise error

    def _unchanged(self) -> Iterator[Prepared]:
        twice, top_speed = self.source.twice, self._top_speed
        if not self.source.long or top_speed is None:
            key = self.source.key
            if key in _kept:
                _kept.move_to_end(key)
                yield _kept[key]
                return
            opened = open_recording(self.source)
            if opened.whole is not None:
                yield opened.whole
                return
            twice, top_speed = opened.twice, opened.outline.top_speed
        for part in _read(self.source, [], [], twice=twice):
            yield replace(part, top_speed=top_speed)


def open_recording(source: Source) -> Opened:
    """Read and prepare a recording once; a second time if its clock was set back."""
    for twice in (False, True):
        notes: list[Note] = []
        starts: list[int] = []
        parts = Counted(_read(source, notes, starts, twice=twice))
        try:
            found = outline_of(parts)
        except ClockSetBackError:
            continue
        found = replace(found, notes=tuple(dict.fromkeys((*notes, *found.notes))))
        whole = None if parts.only is None else replace(parts.only, notes=found.notes)
        if whole is not None:
            _keep(source.key, whole)
        return Opened(found, starts[0] if starts else 0, whole, twice)
    raise AssertionError("a recording read twice is always in order")


class Counted:
    """Parts as they pass; only: the first, as long as there is no second."""

    def __init__(self, parts: Iterator[Prepared]) -> None:
        """Nothing has passed yet."""
        self._parts = parts
        self.only: Prepared | None = None

    def __iter__(self) -> Iterator[Prepared]:
        """Yield the parts."""
        for number, part in enumerate(self._parts):
            self.only = part if number == 0 else None
            yield part


def _read(source: Source, notes: list[Note], starts: list[int], *, twice: bool) -> Iterator[Prepared]:
    """Yield the parts of a recording as `identify` reads it; at the end, append what there is to note."""
    pieces = pieces_read_twice if twice else pieces_read_once
    refused: list[Note] = []
    with readable(source.place) as file:
        samples = _noting_start(pieces(source.robot, file, source.reading, notes), starts)
        yield from prepare_each(source.robot, samples, source.options, refused, filters=source.filters)
    notes += refused


def _noting_start(pieces: Iterator[Samples], starts: list[int]) -> Iterator[Samples]:
    for piece in pieces:
        starts.append(piece.start_ns)
        yield piece


def _keep(key: str, whole: Prepared) -> None:
    """Keep a recording, and drop the oldest while all together take too much."""
    _kept[key] = whole
    _kept.move_to_end(key)
    while _kept and sum(map(_bytes, _kept.values())) > CACHE:
        _kept.popitem(last=False)


def _bytes(prepared: Prepared) -> int:
    arrays = (prepared.t, prepared.q, prepared.dq, prepared.ddq, prepared.tau, prepared.sign, prepared.bridged)
    return sum(array.nbytes for array in arrays)
