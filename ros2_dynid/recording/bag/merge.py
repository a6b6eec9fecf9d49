# SPDX-License-Identifier: Apache-2.0

"""Merge partial joint states into complete samples: each publisher is a track, and tracks complete each other.

The track with most of the requested signals gives the times. Missing signals are interpolated linearly from the other
tracks, never across a gap and never beyond their ends. Works window by window, so that a recording may be longer than
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.bag.decode import Decoded
from ros2_dynid.recording.bag.storage import Ints
from ros2_dynid.recording.samples import FIELDS

EPOCH_LIKE = 10**15
"""A stamp [ns] beyond this is a date; then a stamp of zero means that it was never set."""
_MOST_TRACKS, _MOST_NAMES = 64, 10_000
_SILENT = 5 * 10**9  # a publisher that is behind by more [ns] has stopped and is not waited for
_GAP_PERIODS, _GAP_LEAST = 10, 50_000_000  # between samples further apart [periods, ns] nothing is interpolated


@dataclass
class Track:
    """The messages of one topic that name the same joints and carry comparable fields, waiting to be merged."""

    topic: str
    names: tuple[str, ...]
    """Its joints among the requested ones."""
    fields: set[str]
    parts: list[tuple[Ints, Ints, dict[str, Array]]] = field(default_factory=list)
    rows: int = 0
    steps: tuple[int, float] = (0, 0.0)
    """How many steps of its stamps the window with most of them had, and their median [ns]."""

    def join(self) -> tuple[Ints, Ints, dict[str, Array]]:
        """Return header stamps, bag stamps and arrays of all waiting messages, and clear them."""
        parts, self.parts, self.rows = self.parts, [], 0
        if len(parts) == 1:
            return parts[0]
        arrays = _stacked([part[2] for part in parts])
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), arrays


@dataclass
class Piece:
    """A stretch of one track with the stamps in use [ns]."""

    track: Track
    stamp: Ints
    header: Ints
    bag: Ints
    arrays: dict[str, Array]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Piece:
        arrays = {name: values[rows] for name, values in self.arrays.items()}
        return Piece(self.track, self.stamp[rows], self.header[rows], self.bag[rows], arrays)

    def signals(self) -> set[tuple[str, str]]:
        """Return (field, joint) of the signals that are not NaN throughout."""
        return {
            (name, joint)
            for name, values in self.arrays.items()
            for column, joint in enumerate(self.track.names)
            if not np.isnan(values[:, column]).all()
        }


@dataclass(frozen=True)
class SampleWindow:
    """Whole samples: stamps (M,) [ns] and arrays (M, n) by field, NaN where unknown."""

    stamp: Ints
    names: tuple[str, ...]
    arrays: dict[str, Array]


class Merger:
    """Merges decoded messages into complete samples."""

    def __init__(self, joint_names: Sequence[str] | None, stamps: str = "auto") -> None:
        """Merge for these joints (None: all that appear); stamps: "auto", "header" or "bag"."""
        self.joint_names = None if joint_names is None else tuple(joint_names)
        self.stamps = stamps
        self.seen_names: dict[str, None] = {}
        """All joints met, in order of appearance."""
        self.dropped = 0
        """Samples at which a joint was not known, since its publisher was silent."""
        self.unstamped = 0
        self.interpolated: set[str] = set()
        """Joints that were interpolated at the times of others."""
        self._tracks: dict[tuple[str, frozenset[str]], list[Track]] = {}
        self._base: Track | None = None
        self._number = 0

    @property
    def waiting(self) -> int:
        """Return how many messages wait in the longest track."""
        return max((track.rows for tracks in self._tracks.values() for track in tracks), default=0)

    def add(self, topic: str, decoded: Sequence[Decoded], bag_stamps: Ints) -> None:
        """Take in the messages of one block and topic; `rows` of each Decoded number them, also in bag_stamps."""
        by_track: dict[int, tuple[Track, list[Decoded]]] = {}
        for item in sorted(decoded, key=lambda item: int(item.rows[0])):
            track = self._track(topic, item)
            if track is not None:
                by_track.setdefault(id(track), (track, []))[1].append(item)
        for track, items in by_track.values():
            parts = [_columns(track, item) for item in items]
            rows, header, arrays = items[0].rows, items[0].header, parts[0]
            if len(items) > 1:
                rows = np.concatenate([item.rows for item in items])
                order = np.argsort(rows, kind="stable")
                rows, header = rows[order], np.concatenate([item.header for item in items])[order]
                arrays = {name: values[order] for name, values in _stacked(parts).items()}
            track.parts.append((header, bag_stamps[rows], arrays))
            track.rows += len(rows)

    def _track(self, topic: str, item: Decoded) -> Track | None:
        """Return the track of a message: same topic and joints, and fields that contain its own or lie in them."""
        fields = set(item.arrays)
        if not fields:
            return None
        tracks = self._tracks.setdefault((topic, frozenset(item.names)), [])
        for track in tracks:
            if fields <= track.fields or track.fields <= fields:
                track.fields |= fields
                return track
        if len(self.seen_names) < _MOST_NAMES:
            self.seen_names |= dict.fromkeys(item.names)
        names = tuple(dict.fromkeys(item.names))
        if self.joint_names is not None:
            names = tuple(name for name in self.joint_names if name in set(names))
        if not names:
            return None
        self._number += 1
        if self._number > _MOST_TRACKS:
            what = f"topic {topic} changes its joints from message to message: {self._number} different sets so far"
            raise InputError(what, "choose another topic, or give the robot whose joints you want")
        tracks.append(Track(topic, names, fields))
        return tracks[-1]

    def window(self, final: bool = False) -> SampleWindow | None:
        """Return the complete samples, with `final` all of them; None if there are none."""
        pieces = self._pieces()
        if not pieces:
            return None
        if self.joint_names is None:
            self.joint_names = tuple(dict.fromkeys(name for piece in pieces for name in piece.track.names))
        names = self.joint_names
        if not set(names) <= {name for piece in pieces for name in piece.track.names}:
            self.dropped += max(len(piece.stamp) for piece in pieces)
            return None
        base = self._choose_base(pieces)
        self._base = base.track
        sources = _sources(names, base, [piece for piece in pieces if piece is not base])
        horizon = int(base.stamp.max())
        if not final:
            alive = [piece.stamp.max() for piece, _ in sources if piece.stamp.max() > horizon - _SILENT]
            horizon = int(min(alive, default=horizon))
            self._keep(base, base.stamp > horizon)
            for piece, _ in sources:
                before = np.flatnonzero(piece.stamp <= horizon)
                self._keep(piece, np.arange(len(piece.stamp)) >= (before[-1] if before.size else 0))
            base = base.take(base.stamp <= horizon) if (base.stamp > horizon).any() else base
        return self._combined(names, base, sources)

    def _keep(self, piece: Piece, rows: NDArray[np.bool_]) -> None:
        """Keep rows for the next window."""
        if rows.any():
            selection = piece.take(rows)
            piece.track.parts.insert(0, (selection.header, selection.bag, selection.arrays))
            piece.track.rows += len(selection.stamp)

    def _pieces(self) -> list[Piece]:
        tracks = [track for tracks in self._tracks.values() for track in tracks if track.rows]
        tracks_with_rows = [(track, *track.join()) for track in tracks]
        if self.stamps == "auto" and tracks_with_rows:
            self.stamps = "header" if any(header.any() for _, header, _, _ in tracks_with_rows) else "bag"
        pieces = []
        for track, header, bag, arrays in tracks_with_rows:
            piece = Piece(track, header if self.stamps == "header" else bag, header, bag, arrays)
            if self.stamps == "header" and np.median(header) > EPOCH_LIKE and not header.all():
                self.unstamped += int(np.count_nonzero(header == 0))
                piece = piece.take(header != 0)
            pieces.append(piece)
        return _chained([piece for piece in pieces if len(piece.stamp)])

    def _choose_base(self, pieces: list[Piece]) -> Piece:
        for piece in pieces:
            if piece.track is self._base:
                return piece
        return max(pieces, key=lambda piece: (len(piece.signals()), len(piece.stamp)))

    def _combined(
        self, names: tuple[str, ...], base: Piece, sources: list[tuple[Piece, list[tuple[str, str]]]]
    ) -> SampleWindow | None:
        if not sources and base.track.names == names:
            return SampleWindow(base.stamp, names, base.arrays)
        column = {name: k for k, name in enumerate(names)}
        own = [column[name] for name in base.track.names]
        arrays: dict[str, Array] = {}
        for name, values in base.arrays.items():
            arrays[name] = np.full((len(base.stamp), len(names)), np.nan)
            arrays[name][:, own] = values
        unknown = np.zeros(len(base.stamp), bool)
        for piece, signals in sources:
            order = np.argsort(piece.stamp, kind="stable")
            stamp, first = np.unique(piece.stamp[order], return_index=True)
            if len(stamp) - 1 > piece.track.steps[0]:
                piece.track.steps = len(stamp) - 1, float(np.median(np.diff(stamp)))
            outside = find_uncovered(base.stamp, stamp, piece.track.steps[1])
            for name, joint in signals:
                values = piece.arrays[name][order[first], piece.track.names.index(joint)]
                target = arrays.setdefault(name, np.full((len(base.stamp), len(names)), np.nan))
                target[:, column[joint]] = np.interp(base.stamp - stamp[0], stamp - stamp[0], values)
                target[outside, column[joint]] = np.nan
                if joint not in base.track.names:
                    unknown |= outside
                    self.interpolated.add(joint)
        self.dropped += int(np.count_nonzero(unknown))
        if unknown.any():
            arrays = {name: values[~unknown] for name, values in arrays.items()}
        return SampleWindow(base.stamp[~unknown], names, arrays) if not unknown.all() else None


def _columns(track: Track, item: Decoded) -> dict[str, Array]:
    """Return the arrays of a decoded part with the columns of the track, in its order, as plain float64."""
    if item.names == track.names:
        return {name: np.array(values, dtype=np.float64) for name, values in item.arrays.items()}
    columns = [item.names.index(name) for name in track.names]
    return {name: np.array(values, dtype=np.float64)[:, columns] for name, values in item.arrays.items()}


def _stacked(parts: list[dict[str, Array]]) -> dict[str, Array]:
    """Return arrays one below the other, NaN where a part lacks a field that others have."""
    fields = {name: None for part in parts for name in part}
    shapes = [next(iter(part.values())).shape for part in parts]
    return {
        name: np.concatenate(
            [part[name] if name in part else np.full(s, np.nan) for part, s in zip(parts, shapes, strict=True)]
        )
        for name in fields
    }


def _chained(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces, joining those of one topic and set of joints that follow each other in time.

    A publisher that adds a joint or stops sending a field in mid-recording starts a new track.
    """
    chains: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: int(piece.stamp[0])):
        for k, other in enumerate(chains):
            same = (other.track.topic, other.track.names) == (piece.track.topic, piece.track.names)
            alike = set(other.arrays) == set(piece.arrays) or "q" in set(other.arrays) & set(piece.arrays)
            if same and alike and other.stamp.max() < piece.stamp.min():
                chains[k] = Piece(
                    piece.track,
                    np.concatenate((other.stamp, piece.stamp)),
                    np.concatenate((other.header, piece.header)),
                    np.concatenate((other.bag, piece.bag)),
                    _stacked([other.arrays, piece.arrays]),
                )
                break
        else:
            chains.append(piece)
    return chains


def _sources(names: tuple[str, ...], base: Piece, others: list[Piece]) -> list[tuple[Piece, list[tuple[str, str]]]]:
    """Return for each other piece the signals (field, joint) that it adds to the base: the longest piece adds first."""
    have = base.signals() if others else set()
    sources = []
    for piece in sorted(others, key=lambda piece: -len(piece.stamp)):
        added = [(f, name) for f in FIELDS for name in names if (f, name) in piece.signals() and (f, name) not in have]
        if added:
            have |= set(added)
            sources.append((piece, added))
    return sources


def find_uncovered(at: Ints, stamp: Ints, period: float) -> NDArray[np.bool_]:
    """Return which times `at` lie beyond the ends of sorted stamps, usually a period [ns] apart, or in a gap."""
    outside: NDArray[np.bool_] = (at < stamp[0]) | (at > stamp[-1])
    steps = np.diff(stamp)
    if steps.size:
        gap = max(_GAP_PERIODS * period, _GAP_LEAST)
        after = np.clip(np.searchsorted(stamp, at, side="left"), 1, len(stamp) - 1)
        in_gap = (steps[after - 1] > gap) & (at != stamp[after]) & (at != stamp[after - 1])
        outside |= in_gap
    return outside
