"""Identify: recordings of a robot become base parameters with error bars, model.yaml and a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ros2_dynid import pipeline
from ros2_dynid.codec import decode
from ros2_dynid.identification.model_file import plain
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation.prepared import Filter
from ros2_dynid.identification.validation.verdict import Remark
from ros2_dynid.progress import Progress
from ros2_dynid.usecases.robot_source import RobotSource


@dataclass(frozen=True)
class IdentifyRequest:
    """Recordings to identify from and to validate on (paths), options, and where the result goes.

    output: folder for model.yaml, data.npz, summary.json and report.html, None to write nothing; overwrite: replace a
    model that it has; command: what to type to repeat it, for the report.
    """

    robot: RobotSource
    recordings: tuple[str, ...]
    validation: tuple[str, ...] = ()
    options: IdentifyOptions = field(default_factory=IdentifyOptions)
    output: str | None = None
    overwrite: bool = False
    command: str = ""


@dataclass(frozen=True)
class BaseRow:
    """A base parameter: value and standard deviation in `unit`; std None where the data do not determine it."""

    name: str
    value: float
    std: float | None
    relative_std: float | None
    unit: str
    leader: str
    expression: str


@dataclass(frozen=True)
class TorqueError:
    """rms [N.m or N], and relative: norm of the error over the norm of the torque."""

    rms: float
    relative: float


@dataclass(frozen=True)
class Delay:
    """How late the effort was recorded [s], with standard deviation."""

    value: float
    std: float | None


@dataclass(frozen=True)
class EliminationStep:
    """One elimination tried: the parameter, its relative std, the test's statistic and limit, the outcome."""

    parameter: str
    relative_std: float | None
    statistic: float
    limit: float
    dropped: bool


@dataclass(frozen=True)
class Elimination:
    """The steps to the essential parameters, and the largest share of a joint's torque that each parameter makes."""

    steps: tuple[EliminationStep, ...]
    torque_share: Mapping[str, float]


@dataclass(frozen=True)
class Consistency:
    """Number of links that can exist, by tolerance [kg.m^2] and in full, for each set of standard parameters.

    fit, loss: torque errors of the imposed set, and growth of the weighted error's norm over that of the best fit;
    smallest_joint_inertia: smallest eigenvalue of M(q) over random positions, of the standard and the imposed set.
    """

    a_priori: Mapping[str, int]
    base: Mapping[str, int] | None = None
    essential: Mapping[str, int] | None = None
    imposed: Mapping[str, int] | None = None
    fit: Mapping[str, TorqueError] | None = None
    loss: float | None = None
    smallest_joint_inertia: float | None = None
    smallest_joint_inertia_imposed: float | None = None


@dataclass(frozen=True)
class IdentifyOutcome:
    """What was identified; `model` and `report` are the files written, None if there was no output folder.

    fit, validation: by joint and for "all"; rows: of all joints together; seconds: that it took.
    """

    base: tuple[BaseRow, ...]
    essential: tuple[str, ...]
    standard: Mapping[str, float]
    consistent: Mapping[str, float]
    fit: Mapping[str, TorqueError]
    validation: Mapping[str, TorqueError]
    cond: float | None
    rows: int
    method: str
    filter: Filter
    delay: Delay
    verdict: tuple[Remark, ...]
    notes: tuple[str, ...]
    seconds: float
    elimination: Elimination | None = None
    consistency: Consistency | None = None
    model: str | None = None
    report: str | None = None


def identify(
    request: IdentifyRequest, progress: Progress | None = None, cancelled: Callable[[], bool] | None = None
) -> IdentifyOutcome:
    """Identify the robot; `progress` is told stage and fraction, and `cancelled` is asked whether to stop."""
    found = pipeline.identify(
        request.robot.load(),
        request.recordings,
        options=request.options,
        validate=request.validation,
        output=request.output,
        overwrite=request.overwrite,
        command=request.command,
        progress=progress,
        cancelled=cancelled,
    )
    return decode(IdentifyOutcome, plain(found.summary))
