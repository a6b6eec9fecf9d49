# SPDX-License-Identifier: Apache-2.0

"""The tasks of a run over a fleet, in an order in which no worker waits long: recordings to map, robots to reduce."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ros2_dynid.errors import InputError
from ros2_dynid.fleet.fleet_file import Member
from ros2_dynid.fleet.map_recording import Failed, Source, map_several, reason
from ros2_dynid.fleet.recordings import Found, Identity
from ros2_dynid.fleet.reduce_robot import Reduced, RobotJob, RobotResult, put, reduce_robot, store_robot, stored_robot
from ros2_dynid.fleet.store import FORMAT, Store, fingerprint
from ros2_dynid.fleet.workers import Done, Task, Workers
from ros2_dynid.report.build import MODEL, PAGE
from ros2_dynid.version import __version__

ROBOTS = "robots"
"""Folder of the robots' models and reports in the output."""
TOGETHER, TOGETHER_BYTES = 24, 12_000_000
"""Recordings that are mapped in one task, and their size [bytes]: several if they are short."""
SPREAD = 4
"""Tasks for each worker that the recordings left are shared out in, at least: the last tasks are short."""

Pairs = list[tuple[Source, str]]


def list_sources(
    members: list[Member], recordings_of: Mapping[str, Found], identity_of: Mapping[str, Identity]
) -> tuple[dict[str, Pairs], dict[str, Source]]:
    """Return each robot's recordings with their keys, the same content once, and what to read for each key."""
    sources: dict[str, Pairs] = {}
    keys: dict[str, Source] = {}
    prints: dict[int, str] = {}
    for member in members:
        robot_print = prints.setdefault(id(member.robot), fingerprint(member.robot))
        options = member.options
        how = fingerprint(FORMAT, __version__, robot_print, options.preparation, options.reading)
        own: dict[str, tuple[Source, str]] = {}
        for place in recordings_of[member.id].recordings:
            if place in identity_of:
                key = fingerprint(how, identity_of[place].content)
                content, reading = identity_of[place].content, options.reading
                source = Source(place, content, member.robot, options.preparation, reading)
                own.setdefault(key, (source, key))
                keys.setdefault(key, source)
        sources[member.id] = list(own.values())
    return sources, keys


class Tasks:
    """The tasks of a run: recordings that are not in the store, and robots whose recordings or options have changed.

    Recordings come robot by robot, and a robot's turn comes as soon as all its recordings are done: robots are
    identified while others are still read. Robots with large recordings are first, so that no worker is left with a
    long task at the end.
    """

    def __init__(
        self,
        members: Sequence[Member],
        recordings_of: Mapping[str, Found],
        identity_of: Mapping[str, Identity],
        sources: Mapping[str, Pairs],
        keys: Mapping[str, Source],
        store: Store,
        output: Path,
        command: str,
        hands: Workers,
        *,
        together_bytes: int = TOGETHER_BYTES,
        spread: int = SPREAD,
    ) -> None:
        """Sort out what is missing; `hands` are not asked to do anything yet."""
        self._together_bytes, self._spread = together_bytes, spread
        self.broken: dict[str, str] = {}
        self.mapped, self.reduced = 0, 0
        self.mapping, self.identifying, self.last_mapped = 0.0, 0.0, 0.0
        self._results: dict[str, RobotResult] = {}
        self._files: dict[str, dict[str, str]] = {}
        self._members = {member.id: member for member in members}
        self._recordings_of, self._identity_of, self._sources, self._keys = recordings_of, identity_of, sources, keys
        self._store, self._output, self._command = store, output.resolve(), command
        self._hands, self._share_files = hands.count, hands.share_files
        self._robot_keys: dict[str, str] = {}
        self._alone: set[str] = set()
        self._sizes = sizes = {key: identity_of[source.place].size for key, source in keys.items()}
        missing = {key for key in keys if store.load(key) is None}
        unread = {robot: [key for _, key in pairs if key in missing] for robot, pairs in sources.items()}
        self._unread = deque(in_turn(unread, sizes))
        self._waiting: dict[str, set[str]] = {}
        self._users: dict[str, list[str]] = {}
        self._ready: deque[str] = deque()
        self._total = len(missing), len(sources)
        for robot, pairs in sources.items():
            for _, key in pairs:
                self._users.setdefault(key, []).append(robot)
            self._waiting[robot] = set(unread[robot])
            if not self._waiting[robot]:
                self._ready.append(robot)

    @property
    def results(self) -> dict[str, RobotResult]:
        """Results of the robots that have any, in the order of the fleet file."""
        return {robot: self._results[robot] for robot in self._members if robot in self._results}

    @property
    def folders(self) -> dict[str, tuple[str, str]]:
        """Model and report of the robots that have them."""
        return {
            robot: (f"{ROBOTS}/{robot}/{MODEL}", f"{ROBOTS}/{robot}/{PAGE}")
            for robot, names in self._files.items()
            if names
        }

    def next_task(self) -> Task | None:
        """Return a robot whose recordings are all mapped, or the next recording; None if what is left waits."""
        while self._ready:
            robot = self._ready.popleft()
            job = self._job(robot)
            if job is not None:
                return Task(reduce_robot, (job,), robot)
        if self._unread:
            keys = self._next_keys()
            files = tuple(map(self._store.path, keys)) if self._share_files else None
            return Task(map_several, (tuple(self._keys[key] for key in keys), files), " ".join(keys))
        return None

    def _next_keys(self) -> list[str]:
        """Return the recordings of the next task: one, or several that are short."""
        keys = [self._unread.popleft()]
        most = 1 if keys[0] in self._alone else min(TOGETHER, len(self._unread) // (self._spread * self._hands))
        size = self._sizes[keys[0]]
        while len(keys) < most and (size := size + self._sizes[self._unread[0]]) <= self._together_bytes:
            keys.append(self._unread.popleft())
        return keys

    def _job(self, robot: str) -> RobotJob | None:
        """Return a robot to reduce; None if it is known, or nothing of it can be used."""
        pairs = [pair for pair in self._sources[robot] if pair[1] not in self.broken]
        if not pairs:
            return None
        member, options = self._members[robot], self._members[robot].options
        held_out = [place for place in self._recordings_of[robot].validate if place in self._identity_of]
        validation = tuple(
            Source(place, self._identity_of[place].content, member.robot, options.preparation, options.reading)
            for place in sorted(held_out, key=lambda place: self._identity_of[place].content)
        )
        contents = [source.content for source in validation]
        key = fingerprint(FORMAT, robot, member.robot, options, sorted(key for _, key in pairs), contents, __version__)
        folder = self._output / ROBOTS / robot
        record = stored_robot(folder)
        if record is not None and record.key == key:
            self._results[robot], self._files[robot] = record.result, record.files
            return None
        self._robot_keys[robot] = key
        return RobotJob(
            robot,
            member.robot,
            options,
            tuple(source for source, _ in pairs),
            tuple(self._stored(*pair) for pair in pairs),
            validation,
            f"{ROBOTS}/{robot}",
            self._command,
            key,
            folder if self._share_files else None,
        )

    def _stored(self, source: Source, key: str) -> bytes | Path:
        """Return a recording as the map stored it, or its file if workers reach it."""
        if self._share_files:
            return self._store.path(key)
        data = self._store.load(key)
        if data is None:
            raise InputError("its stored R factors are missing", "repeat the command", source.place)
        return data

    def take(self, completion: Done) -> tuple[str, float]:
        """Store what was done; return what it was, in words, and how much of the work is done."""
        if completion.task.function is map_several:
            self._mapped(completion.task.subject.split(), completion)
            stage = f"reading recordings ({self.mapped} of {self._total[0]})"
        else:
            self._reduced(completion.task.subject, completion)
            stage = f"identifying robots ({len(self._results)} of {self._total[1]})"
        recordings, robots = self.mapped / max(self._total[0], 1), len(self._results) / self._total[1]
        return stage, 0.9 * recordings + 0.1 * robots

    def _mapped(self, keys: list[str], completion: Done) -> None:
        self.mapping += completion.seconds
        if isinstance(completion.result, Failed) and len(keys) > 1:
            # Workers were lost over one of them, nobody knows which: each has another try, by itself.
            self._alone.update(keys)
            self._unread.extendleft(reversed(keys))
            return
        results = completion.result if isinstance(completion.result, tuple) else (completion.result,)
        for key, result in zip(keys, results, strict=True):
            self._mapped_one(key, result)

    def _mapped_one(self, key: str, result: object) -> None:
        self.mapped += 1
        self.last_mapped = time.monotonic()
        if isinstance(result, Failed):
            self.broken[key] = reason(result)
        elif isinstance(result, bytes):
            self._store.save(key, result)
        else:
            assert result is None  # the worker has stored it
        for robot in self._users[key]:
            self._waiting[robot].remove(key)
            if not self._waiting[robot]:
                self._ready.append(robot)

    def _reduced(self, robot: str, completion: Done) -> None:
        if isinstance(completion.result, Failed):
            raise InputError(f"{robot}: {completion.result.what}", completion.result.hint, completion.result.source)
        assert isinstance(completion.result, Reduced)
        began, key, reduced = time.process_time(), self._robot_keys.pop(robot), completion.result
        self.reduced += 1
        folder = self._output / ROBOTS / robot
        write = partial(put, reduced.files) if reduced.files else None
        record = reduced.stored or store_robot(folder, key, reduced.result, write)
        self._results[robot], self._files[robot] = record.result, record.files
        self.identifying += completion.seconds + time.process_time() - began


def in_turn(robots: Mapping[str, Sequence[str]], sizes: Mapping[str, int]) -> list[str]:
    """Return the keys of recordings robot by robot, each once; the robot with the largest recording is first.

    Within a robot large ones are first too: what comes last is short.
    """
    own = [sorted(keys, key=lambda key: -sizes[key]) for keys in robots.values()]
    own.sort(key=lambda keys: [-sizes[key] for key in keys])
    return list(dict.fromkeys(key for keys in own for key in keys))
