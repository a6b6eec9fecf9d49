# SPDX-License-Identifier: Apache-2.0

"""Identify: recordings of a robot become base parameters with error bars, model.yaml and a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ros2_dynid import pipeline
from ros2_dynid.atomic import write_bytes
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.result import IdentifyOutcome
from ros2_dynid.model.files import read_bytes
from ros2_dynid.output_files import check_folder
from ros2_dynid.progress import Progress
from ros2_dynid.report.build import PREVIEW, write_report
from ros2_dynid.usecases.robot_source import RobotSource

__all__ = ["IdentifyOutcome", "IdentifyRequest", "identify"]

MAX_PREVIEW_BYTES = 100_000_000


@dataclass(frozen=True)
class IdentifyRequest:
    """Recordings to identify from and to validate on (paths), options, and where the result goes.

    output: folder for model.yaml, data.npz, summary.json and report.html, None to write nothing; overwrite: replace a
    model that it has; command: what to type to repeat it, for the report; preview: page of the trajectory that was run
    (dynid preview), which is copied beside the report and linked there.
    """

    robot: RobotSource
    recordings: tuple[str, ...]
    validation: tuple[str, ...] = ()
    options: IdentifyOptions = field(default_factory=IdentifyOptions)
    output: str | None = None
    overwrite: bool = False
    command: str = ""
    preview: str | None = None


def identify(request: IdentifyRequest, progress: Progress | None = None) -> IdentifyOutcome:
    """Identify the robot; `progress` gets stage and fraction, and may raise to stop."""
    if request.output is not None:
        options = request.options
        described = (request.robot.path or None, request.robot.joint_limits, options.controller, options.prior)
        inputs = (*request.recordings, *request.validation, *described)
        check_folder(Path(request.output), pipeline.RESULT_FILES, inputs=inputs, overwrite=request.overwrite)
    page = None if request.preview is None else read_bytes(Path(request.preview), MAX_PREVIEW_BYTES)
    identification = pipeline.identify(
        request.robot.load(),
        request.recordings,
        options=request.options,
        validate=request.validation,
        output=request.output,
        overwrite=request.overwrite,
        command=request.command,
        progress=progress,
    )
    if page is not None and request.output is not None:
        write_bytes(Path(request.output) / PREVIEW, page)
        write_report(Path(request.output), figures=False)
    return identification.outcome
