"""A run over a fleet: find the recordings, map them, reduce each robot, compare the robots, write the page.

In the output folder: outcomes/ (what the map found, by hash), robots/ID/ (model and report of each robot), fleet.json
and index.html. All but the last two are kept from run to run: only what is new or changed is computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ros2_dynid.atomic import write_text
from ros2_dynid.codec import Plain, encode
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.fleet.fingerprint import fingerprint
from ros2_dynid.fleet.fleet_file import Member, load_fleet
from ros2_dynid.fleet.lock import locked
from ros2_dynid.fleet.map_recording import Failed, Outcome, identities, map_recording, reason
from ros2_dynid.fleet.page import fleet_page
from ros2_dynid.fleet.parts import Source
from ros2_dynid.fleet.recordings import Found, Identity, find, stamp_of
from ros2_dynid.fleet.reduce_robot import RecordingRow, Reduced, RobotJob, RobotResult
from ros2_dynid.fleet.store import FORMAT, Store, read_packed, sweep, write_packed
from ros2_dynid.fleet.summary import FailedRecording, Fleet, summarise
from ros2_dynid.fleet.trends import FrictionPoint
from ros2_dynid.fleet.workers import Workers, workers
from ros2_dynid.identification.estimators import Block, ColumnLayout, Information
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.identification.preparation import Cutoffs, Filter, Prepared
from ros2_dynid.identification.preparation.cutoffs import Spectrum
from ros2_dynid.identification.preparation.even_grid import FirstPiece
from ros2_dynid.model.robot import Robot
from ros2_dynid.notes import Note, NoteKind
from ros2_dynid.progress import Progress, Reporter
from ros2_dynid.report.build import MODEL, PAGE
from ros2_dynid.results import committed
from ros2_dynid.version import __version__

OUTCOMES, ROBOTS, RESULT, INDEX, STAMPS = "outcomes", "robots", "fleet.json", "index.html", "stamps.json"
OWN = "fleet_robot.npz"
BATCH = 20
"""Recordings that are hashed in one task."""


@dataclass(frozen=True, eq=False)
class StoredRobot:
    """A robot's result with the key of what it was made from, and the names of its model's files."""

    key: str
    result: RobotResult
    files: tuple[str, ...]


KINDS = (
    Block, ColumnLayout, Cutoffs, Filter, FirstPiece, FrictionPoint, Information, Note, NoteKind, Outcome, Prepared,
    RecordingRow, RobotResult, Spectrum, StoredRobot, TorqueError,
)  # fmt: skip
"""All that a stored outcome may hold."""


@dataclass(frozen=True)
class Work:
    """What a run had to do: recordings and robots, and how many of them were computed anew."""

    recordings: int
    mapped: int
    robots: int
    reduced: int


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
    cancelled: Callable[[], bool] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> FleetRun:
    """Run over a fleet. say: gets lines for the user, such as the address of the dashboard."""
    report = Reporter(progress, cancelled)
    members = load_fleet(file)
    with locked(output):
        sweep(output)
        report("finding recordings", 0.0)
        home = file.resolve().parent
        found = {member.id: find(member, home) for member in members}
        with workers(scheduler, count) as hands:
            if hands.dashboard:
                say(f"dashboard: {hands.dashboard}")
            return _run(members, found, output, hands, command, report)


def _run(
    members: list[Member], found: Mapping[str, Found], output: Path, hands: Workers, command: str, report: Progress
) -> FleetRun:
    failed = [FailedRecording(robot, *missing) for robot, one in found.items() for missing in one.missing]
    known, unread = _identities(found, output / STAMPS, hands, report)
    for robot, one in found.items():
        failed += [FailedRecording(robot, p, unread[p]) for p in (*one.recordings, *one.validate) if p in unread]
    store = Store(output / OUTCOMES, KINDS)
    sources, keys = _sources(members, found, known)
    mapped, broken = _map(sources, keys, store, hands, report)
    for robot, ones in sources.items():
        failed += [FailedRecording(robot, one.place, broken[key]) for one, key in ones if key in broken]
    jobs = {
        member.id: _Job(member, [pair for pair in sources[member.id] if pair[1] not in broken], found, known, command)
        for member in members
    }
    results, reduced, folders = _reduce(jobs, store, output, hands, report)
    report("comparing robots", 0.96)
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
    work = Work(sum(map(len, sources.values())), mapped, sum(one in results for one in jobs), reduced)
    return FleetRun(fleet, work, output / INDEX, output / RESULT)


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
    found: Mapping[str, Found], stamps: Path, hands: Workers, report: Progress
) -> tuple[dict[str, Identity], dict[str, str]]:
    """Return what each recording is, and why not; a file whose stamp has not changed is not read again."""
    before = _stamps(stamps)
    known: dict[str, Identity] = {}
    unread: dict[str, str] = {}
    asked: list[str] = []
    for place in dict.fromkeys(p for one in found.values() for p in (*one.recordings, *one.validate)):
        try:
            size, stamp = stamp_of(place)
        except (DynidError, OSError):
            asked.append(place)  # a worker may reach what this machine does not
            continue
        if place in before and (before[place].size, before[place].stamp) == (size, stamp):
            known[place] = before[place]
        else:
            asked.append(place)
    batches = [tuple(asked[k : k + BATCH]) for k in range(0, len(asked), BATCH)]
    for done, (number, result) in enumerate(hands.run(identities, ((batch,) for batch in batches)), start=1):
        report("hashing recordings", 0.05 * done / len(batches))
        answers = result if isinstance(result, tuple) else (result,) * len(batches[number])
        for place, one in zip(batches[number], answers, strict=True):
            if isinstance(one, Failed):
                unread[place] = reason(one)
            else:
                known[place] = one
    if asked:
        table = {place: [one.content, one.size, one.stamp] for place, one in sorted(known.items())}
        write_text(stamps, json.dumps(table))
    return known, unread


def _stamps(path: Path) -> dict[str, Identity]:
    try:
        data = json.loads(path.read_text())
        return {str(p): Identity(str(c), int(size), str(stamp)) for p, (c, size, stamp) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


Pairs = list[tuple[Source, str]]


def _sources(
    members: list[Member], found: Mapping[str, Found], known: Mapping[str, Identity]
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
        for place in found[member.id].recordings:
            if place in known:
                key = fingerprint(how, known[place].content)
                source = Source(place, known[place].content, member.robot, options.preparation, options.reading)
                own.setdefault(key, (source, key))
                keys.setdefault(key, source)
        sources[member.id] = list(own.values())
    return sources, keys


def _map(
    sources: Mapping[str, Pairs], keys: Mapping[str, Source], store: Store, hands: Workers, report: Progress
) -> tuple[int, dict[str, str]]:
    """Map what is not in the store; return how many, and why some of them failed, by key."""
    missing = [key for key in keys if store.load(key, Outcome) is None]
    broken: dict[str, str] = {}
    tasks = hands.run(map_recording, ((keys[key],) for key in missing))
    for done, (number, result) in enumerate(tasks, start=1):
        report(f"reading recordings ({done} of {len(missing)})", 0.05 + 0.55 * done / len(missing))
        if isinstance(result, Failed):
            broken[missing[number]] = reason(result)
        else:
            store.save(missing[number], result)
    return len(missing), broken


class _Job:
    """A robot to reduce: its key, and its recordings with their keys."""

    def __init__(
        self, member: Member, pairs: Pairs, found: Mapping[str, Found], known: Mapping[str, Identity], command: str
    ) -> None:
        self.member, self.pairs, self.command = member, pairs, command
        options = member.options
        held_out = [place for place in found[member.id].validate if place in known]
        self.validation = tuple(
            Source(place, known[place].content, member.robot, options.preparation, options.reading)
            for place in sorted(held_out, key=lambda place: known[place].content)
        )
        contents = [source.content for source in self.validation]
        self.key = fingerprint(
            FORMAT, member.id, member.robot, options, sorted(key for _, key in pairs), contents, __version__
        )

    def load(self, store: Store) -> RobotJob | None:
        """Return the job with its outcomes in order of time, and of content where that is the same."""
        loaded = []
        for source, key in self.pairs:
            outcome = store.load(key, Outcome)
            if outcome is not None:
                loaded.append((outcome.start_ns, source.content, source, outcome))
        if not loaded:
            return None
        loaded.sort(key=lambda one: one[:2])
        return RobotJob(
            self.member.id,
            self.member.robot,
            self.member.options,
            tuple(_as_mapped(source, outcome) for _, _, source, outcome in loaded),
            tuple(outcome for _, _, _, outcome in loaded),
            self.validation,
            f"{ROBOTS}/{self.member.id}",
            self.command,
        )


def _as_mapped(source: Source, outcome: Outcome) -> Source:
    return Source(
        source.place, source.content, source.robot, source.options, source.reading, None, outcome.long, outcome.twice
    )


def _reduce(
    jobs: Mapping[str, _Job], store: Store, output: Path, hands: Workers, report: Progress
) -> tuple[dict[str, RobotResult], int, dict[str, tuple[str, str]]]:
    """Reduce the robots whose recordings or options have changed; return results, how many, and models and reports."""
    results: dict[str, RobotResult] = {}
    files: dict[str, tuple[str, ...]] = {}
    todo: list[_Job] = []
    for robot, job in jobs.items():
        if not job.pairs:
            continue
        stored = read_packed(output / ROBOTS / robot / OWN, StoredRobot, {kind.__name__: kind for kind in KINDS})
        here = stored is not None and all((output / ROBOTS / robot / name).is_file() for name in stored.files)
        if stored is not None and here and stored.key == job.key:
            results[robot], files[robot] = stored.result, stored.files
        else:
            todo.append(job)
    given: list[_Job] = []

    def loaded() -> Iterator[RobotJob]:
        for job in todo:
            ready = job.load(store)
            if ready is not None:
                given.append(job)
                yield ready

    for done, (number, reduced) in enumerate(hands.reduce(loaded(), len(todo)), start=1):
        report(f"identifying robots ({done} of {len(todo)})", 0.6 + 0.35 * done / len(todo))
        job = given[number]
        if isinstance(reduced, Failed):
            raise InputError(f"{job.member.id}: {reduced.what}", reduced.cure)
        _write_robot(output / ROBOTS / job.member.id, job.key, reduced)
        results[job.member.id], files[job.member.id] = reduced.result, tuple(reduced.files)
    folders = {
        robot: (f"{ROBOTS}/{robot}/{MODEL}", f"{ROBOTS}/{robot}/{PAGE}") for robot, names in files.items() if names
    }
    return {robot: results[robot] for robot in jobs if robot in results}, len(todo), folders


def _write_robot(folder: Path, key: str, reduced: Reduced) -> None:
    """Write the files of a robot's model, or take away those of an earlier one; the key comes last."""
    (folder / OWN).unlink(missing_ok=True)
    if reduced.files:
        with committed(folder, last=MODEL) as new:
            for name, data in reduced.files.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).write_bytes(data)
    else:
        for name in (MODEL, PAGE):
            (folder / name).unlink(missing_ok=True)
    write_packed(folder / OWN, StoredRobot(key, reduced.result, tuple(reduced.files)))
