# SPDX-License-Identifier: Apache-2.0

"""Fleet: recordings of many robots become their models, what they share, and who stands out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ros2_dynid.fleet.run import run_fleet
from ros2_dynid.fleet.summary import FailedRecording, KindSummary, Outlier, RobotSummary
from ros2_dynid.progress import Progress

__all__ = ["FailedRecording", "FleetOutcome", "FleetRequest", "KindSummary", "Outlier", "RobotSummary", "fleet"]


@dataclass(frozen=True)
class FleetRequest:
    """A fleet file, the folder of the result, and where the work is done.

    scheduler: address of a Dask scheduler; workers: processes of this machine (None: as many as cores; 0: everything
    in this process); command: what to type to repeat it, for the reports.
    """

    file: str
    output: str
    scheduler: str | None = None
    workers: int | None = None
    command: str = ""


@dataclass(frozen=True)
class FleetOutcome:
    """Robots by id, those that stand out, what could not be used, and what robots of a kind share.

    page, result: index.html and fleet.json; recordings: how many were found; mapped, reduced: recordings and robots
    that were computed anew.
    """

    robots: Mapping[str, RobotSummary]
    outliers: tuple[Outlier, ...]
    failed: tuple[FailedRecording, ...]
    kinds: tuple[KindSummary, ...]
    page: str
    result: str
    recordings: int
    mapped: int
    reduced: int


def fleet(
    request: FleetRequest,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> FleetOutcome:
    """Run over a fleet; `say` gets lines for the user, such as the address of the dashboard."""
    run = run_fleet(
        Path(request.file),
        Path(request.output),
        scheduler=request.scheduler,
        count=request.workers,
        command=request.command,
        progress=progress,
        say=say,
    )
    summary, work = run.fleet, run.work
    return FleetOutcome(
        summary.robots,
        summary.outliers,
        summary.failed,
        summary.kinds,
        str(run.page),
        str(run.result),
        work.recordings,
        work.mapped,
        work.reduced,
    )
