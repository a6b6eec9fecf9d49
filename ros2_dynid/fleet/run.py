# SPDX-License-Identifier: Apache-2.0

"""A run over a fleet: find the recordings, map them, reduce each robot, compare the robots, write the page.

In the output folder: prepared/ (recordings prepared, by hash), robots/ID/ (model and report of each robot), fleet.json
and index.html. All but the last two are kept from run to run: only what is new or changed is computed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ros2_dynid.atomic import write_text
from ros2_dynid.codec import Plain, encode
from ros2_dynid.fleet.fleet_file import Member, load_fleet
from ros2_dynid.fleet.forking import begin_to_start
from ros2_dynid.fleet.hash_recordings import hash_recordings
from ros2_dynid.fleet.page import fleet_page
from ros2_dynid.fleet.recordings import Found, find
from ros2_dynid.fleet.store import Store, fingerprint, sweep
from ros2_dynid.fleet.summary import FailedRecording, Fleet, summarise
from ros2_dynid.fleet.tasks import Tasks, list_sources
from ros2_dynid.fleet.workers import Workers, workers
from ros2_dynid.model.robot import Robot
from ros2_dynid.output_files import check_folder, locked_folder
from ros2_dynid.progress import Progress, ignore_progress

PREPARED, RESULT, INDEX, STAMPS = "prepared", "fleet.json", "index.html", "stamps.json"


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
    identity_of, unread, hashing = hash_recordings(recordings_of, output / STAMPS, hands, report)
    for robot, one in recordings_of.items():
        failed += [FailedRecording(robot, p, unread[p]) for p in (*one.recordings, *one.validate) if p in unread]
    store = Store(output.resolve() / PREPARED)  # workers may be elsewhere
    sources, keys = list_sources(members, recordings_of, identity_of)
    work = Tasks(members, recordings_of, identity_of, sources, keys, store, output, command, hands)
    for completion in hands.run(work.next_task):
        stage, fraction = work.take(completion)
        report(stage, 0.05 + 0.9 * fraction)
    for robot, ones in sources.items():
        failed += [FailedRecording(robot, one.place, work.broken[key]) for one, key in ones if key in work.broken]
    report("comparing robots", 0.96)
    began = time.process_time()
    results, folders = work.results, work.folders
    kinds: dict[str, list[str]] = {}
    geometry = {id(robot): geometry_name(robot) for robot in {id(m.robot): m.robot for m in members}.values()}
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


def geometry_name(robot: Robot) -> str:
    """Return a name for the robot's geometry: robots of one kind differ in their parameters only."""
    mechanism = (robot.joints, robot.gravity, robot.base, robot.coupling, robot.passive, robot.loops, *robot.forces)
    return fingerprint(*mechanism)[:8]
