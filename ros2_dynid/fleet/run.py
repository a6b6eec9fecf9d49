# SPDX-License-Identifier: Apache-2.0

"""A run over a fleet: find the recordings, map them, reduce each robot, compare the robots, write the page.

In the output folder: prepared/ (recordings prepared, by hash), robots/ID/ (model and report of each robot), fleet.json
and index.html. All but the last two are kept from run to run: only what is new or changed is computed.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ros2_dynid.atomic import write_text
from ros2_dynid.codec import Plain, encode
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.fleet.fleet_file import Member, load_fleet
from ros2_dynid.fleet.forking import begin_to_start
from ros2_dynid.fleet.map_recording import Failed, Source, identities, map_several, reason
from ros2_dynid.fleet.page import fleet_page
from ros2_dynid.fleet.recordings import Found, Identity, find, is_url, stamp_of
from ros2_dynid.fleet.reduce_robot import Reduced, RobotJob, RobotResult, put, reduce_robot, store_robot, stored_robot
from ros2_dynid.fleet.store import FORMAT, Store, fingerprint, sweep
from ros2_dynid.fleet.summary import FailedRecording, Fleet, summarise
from ros2_dynid.fleet.workers import Done, Task, Workers, workers
from ros2_dynid.model.robot import Robot
from ros2_dynid.output_files import check_folder, locked_folder
from ros2_dynid.progress import Progress, ignore_progress
from ros2_dynid.report.build import MODEL, PAGE
from ros2_dynid.version import __version__

PREPARED, ROBOTS, RESULT, INDEX, STAMPS = "prepared", "robots", "fleet.json", "index.html", "stamps.json"
BATCH, BATCH_BYTES = 50, 100_000_000
"""Recordings that are hashed in one task, and their size [bytes]."""
TOGETHER, TOGETHER_BYTES = 24, 12_000_000
"""Recordings that are mapped in one task, and their size [bytes]: several if they are short."""
SPREAD = 4
"""Tasks for each worker that the recordings left are shared out in, at least: the last tasks are short."""


@dataclass(frozen=True)
class Work:
    """What a run had to do: recordings and robots, how many of them were computed anew, and the time it took [s].

    Processor time: mapping: of the recordings, hashing them included; identifying: of the robots, each a task as well;
    comparing: of comparing them and of the page. By the clock: seconds: of the run, start of the workers included;
    after: of that, what is left when the last recording is mapped.
    """

    recordings: int
    mapped: int
    robots: int
    reduced: int
    mapping: float
    identifying: float
    comparing: float
    seconds: float
    after: float


@dataclass(frozen=True, eq=False)
class FleetRun:
    """The fleet, its files and what the run did."""

    fleet: Fleet
    work: Work
    page: Path
    result: Path


def run_fleet(
    file: Path,
    output: Path,
    *,
    scheduler: str | None = None,
    count: int | None = None,
    command: str = "",
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> FleetRun:
    """Run over a fleet. say: gets lines for the user, such as the address of the dashboard."""
    report, began = progress or ignore_progress, time.monotonic()
    if scheduler is None and count != 0:
        begin_to_start()
    members = load_fleet(file)
    with locked_folder(output):
        refuse_foreign_files(output, file)
        sweep(output)
        report("finding recordings", 0.0)
        home = file.resolve().parent
        recordings_of = {member.id: find(member, home) for member in members}
        with workers(scheduler, count) as hands:
            if hands.dashboard:
                say(f"dashboard: {hands.dashboard}")
            run = _run(members, recordings_of, output, hands, command, report)
    now = time.monotonic()
    return replace(run, work=replace(run.work, seconds=now - began, after=now - max(began, run.work.after)))


def refuse_foreign_files(output: Path, file: Path) -> None:
    """Refuse a folder whose pages are not those of a fleet."""
    check_folder(output, (RESULT, INDEX, STAMPS), inputs=[file], overwrite=(output / STAMPS).is_file())


def _run(
    members: list[Member],
    recordings_of: Mapping[str, Found],
    output: Path,
    hands: Workers,
    command: str,
    report: Progress,
) -> FleetRun:
    """Run; the time in the result's `after` is the clock's when the last recording was mapped, 0 if none was."""
    failed = [FailedRecording(robot, *missing) for robot, one in recordings_of.items() for missing in one.missing]
    identity_of, unread, hashing = _identities(recordings_of, output / STAMPS, hands, report)
    for robot, one in recordings_of.items():
        failed += [FailedRecording(robot, p, unread[p]) for p in (*one.recordings, *one.validate) if p in unread]
    store = Store(output.resolve() / PREPARED)  # workers may be elsewhere
    sources, keys = _sources(members, recordings_of, identity_of)
    work = _Tasks(members, recordings_of, identity_of, sources, keys, store, output, command, hands)
    for completion in hands.run(work.next_task):
        stage, fraction = work.take(completion)
        report(stage, 0.05 + 0.9 * fraction)
    for robot, ones in sources.items():
        failed += [FailedRecording(robot, one.place, work.broken[key]) for one, key in ones if key in work.broken]
    report("comparing robots", 0.96)
    began = time.process_time()
    results, folders = work.results, work.folders
    kinds: dict[str, list[str]] = {}
    geometry = {id(robot): _geometry(robot) for robot in {id(m.robot): m.robot for m in members}.values()}
    for member in members:
        kinds.setdefault(member.kind or f"{member.robot.name} {geometry[id(member.robot)]}", []).append(member.id)
    failed.sort(key=lambda one: (one.robot, one.recording))
    fleet = summarise(kinds, results, failed, folders)
    report("writing", 0.98)
    write_text(output / RESULT, json.dumps(_plain(fleet), indent=1, sort_keys=True))
    write_text(output / INDEX, fleet_page(fleet))
    report("done", 1.0)
    did = Work(
        sum(map(len, sources.values())),
        work.mapped,
        len(results),
        work.reduced,
        hashing + work.mapping,
        work.identifying,
        time.process_time() - began,
        0.0,
        work.last_mapped,
    )
    return FleetRun(fleet, did, output / INDEX, output / RESULT)


def _plain(fleet: Fleet) -> Plain:
    """Return the result as data: no times, no order of arrival, so that equal fleets give equal files."""
    return {
        "robots": encode(fleet.robots),
        "outliers": encode(fleet.outliers),
        "failed": encode(fleet.failed),
        "kinds": encode(fleet.kinds),
    }


def _geometry(robot: Robot) -> str:
    """Return a name for the robot's geometry: robots of one kind differ in their parameters only."""
    return fingerprint(robot.joints, robot.gravity, robot.base, robot.coupling, robot.passive, *robot.forces)[:8]


def _identities(
    recordings_of: Mapping[str, Found], stamps: Path, hands: Workers, report: Progress
) -> tuple[dict[str, Identity], dict[str, str], float]:
    """Return what each recording is, or why not, and the time it took [s]; a file with the same stamp is not read."""
    before = _stamps(stamps)
    identity_of: dict[str, Identity] = {}
    unread: dict[str, str] = {}
    hashing = 0.0
    to_hash: list[str] = []
    sizes: dict[str, int] = {}
    for place in dict.fromkeys(p for one in recordings_of.values() for p in (*one.recordings, *one.validate)):
        try:
            size, stamp = stamp_of(place)
        except (DynidError, OSError):
            to_hash.append(place)  # a worker may reach what this machine does not
            continue
        if place in before and (before[place].size, before[place].stamp) == (size, stamp):
            identity_of[place] = before[place]
        else:
            to_hash.append(place)
            sizes[place] = 0 if is_url(place) else size  # what is remote is not read for it
    batches = _batches(to_hash, sizes)
    waiting = iter([Task(identities, (batch,), str(k)) for k, batch in enumerate(batches)])
    for finished, completion in enumerate(hands.run(lambda: next(waiting, None)), start=1):
        report("hashing recordings", 0.05 * finished / len(batches))
        hashing += completion.seconds
        batch, result = batches[int(completion.task.subject)], completion.result
        answers = result if isinstance(result, tuple) else (result,) * len(batch)
        for place, one in zip(batch, answers, strict=True):
            if isinstance(one, Failed):
                unread[place] = reason(one)
            else:
                identity_of[place] = one
    if to_hash:
        table = {place: [one.content, one.size, one.stamp] for place, one in sorted(identity_of.items())}
        write_text(stamps, json.dumps(table))
    return identity_of, unread, hashing


def _batches(places: Sequence[str], sizes: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Return places in batches of at most BATCH recordings, and no more than BATCH_BYTES in one unless it is alone."""
    batches: list[list[str]] = []
    total = 0
    for place in places:
        size = sizes.get(place, 0)
        if not batches or len(batches[-1]) == BATCH or total + size > BATCH_BYTES:
            batches.append([])
            total = 0
        batches[-1].append(place)
        total += size
    return [tuple(batch) for batch in batches]


def _stamps(path: Path) -> dict[str, Identity]:
    try:
        data = json.loads(path.read_text())
        return {str(p): Identity(str(c), int(size), str(stamp)) for p, (c, size, stamp) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


Pairs = list[tuple[Source, str]]


def _sources(
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


class _Tasks:
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
    ) -> None:
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
        most = 1 if keys[0] in self._alone else min(TOGETHER, len(self._unread) // (SPREAD * self._hands))
        size = self._sizes[keys[0]]
        while len(keys) < most and (size := size + self._sizes[self._unread[0]]) <= TOGETHER_BYTES:
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
