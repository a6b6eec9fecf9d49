# SPDX-License-Identifier: Apache-2.0

"""Report: the page of an identification, or the comparison of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ros2_dynid.errors import InputError
from ros2_dynid.output_files import check_outputs
from ros2_dynid.report.build import MODEL, write_comparison, write_report


@dataclass(frozen=True)
class ReportRequest:
    """Folders that identify wrote: one for its page, several to compare.

    output: the comparison's page; figures: PNG and PDF beside the page of one; overwrite: replace a comparison's page
    that exists. The page of one belongs to its folder and is written anew.
    """

    folders: tuple[str, ...]
    output: str | None = None
    figures: bool = True
    overwrite: bool = False


@dataclass(frozen=True)
class ReportOutcome:
    """The page written; of a comparison also its models and, for each but the first, what changed significantly."""

    report: str
    models: tuple[str, ...] = ()
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def report(request: ReportRequest) -> ReportOutcome:
    """Write the page."""
    folders = [Path(folder) for folder in request.folders]
    if not folders:
        raise InputError("there is no folder to report on", "name a folder that dynid identify wrote")
    if len(folders) == 1:
        if request.output is not None:
            raise InputError("the output names the page of a comparison", "leave it out: the page goes into the folder")
        return ReportOutcome(str(write_report(folders[0], figures=request.figures)))
    page = Path(request.output or "comparison.html")
    check_outputs([page], inputs=[folder / MODEL for folder in folders], overwrite=request.overwrite)
    comparison = write_comparison(folders, page)
    return ReportOutcome(comparison.report, comparison.models, comparison.changed)
