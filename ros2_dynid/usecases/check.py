"""Check: is this recording usable?"""

from __future__ import annotations

from dataclasses import dataclass, field

from ros2_dynid.codec import decode, encode
from ros2_dynid.recording.checks import check_samples
from ros2_dynid.recording.read import read_samples
from ros2_dynid.recording.reading import Reading
from ros2_dynid.usecases.robot_source import RobotSource


@dataclass(frozen=True)
class CheckRequest:
    """A recording (path), how it is read, and the robot it is of."""

    robot: RobotSource
    recording: str
    reading: Reading = field(default_factory=Reading)


@dataclass(frozen=True)
class Gap:
    """A pause of the stamps: its start and length [s], and how many samples are missing."""

    start: float
    duration: float
    missing: float


@dataclass(frozen=True)
class JointRow:
    """What was seen of a joint; positions [rad or m], speed [/s], efforts [N.m or N]; None where unknown.

    coverage: share of its range that was used; gravity_scale, gravity_correlation, friction_correlation: how its effort
    follows the a priori gravity and its own speed; level: of its worst problem.
    """

    name: str
    position_min: float | None
    position_max: float | None
    coverage: float | None
    speed_max: float | None
    effort_rms: float | None
    effort_max: float | None
    gravity_scale: float | None
    gravity_correlation: float | None
    friction_correlation: float | None
    level: str


@dataclass(frozen=True)
class ProblemRow:
    """A problem: kind, level (green, yellow, red), joint (None: the whole recording), what is wrong, what to do."""

    kind: str
    level: str
    joint: str | None
    what: str
    do: str


@dataclass(frozen=True)
class CheckOutcome:
    """The verdict (green, yellow, red), rate [Hz], jitter [s], gaps, a row for each joint, and problems."""

    source: str
    verdict: str
    samples: int
    duration: float
    rate: float
    jitter: float
    gaps: tuple[Gap, ...]
    gap_count: int
    missing_samples: int
    joints: tuple[JointRow, ...]
    problems: tuple[ProblemRow, ...]
    notes: tuple[str, ...]


def check(request: CheckRequest) -> CheckOutcome:
    """Read and check the recording."""
    robot = request.robot.load()
    samples = read_samples(request.recording, robot, request.reading, in_order=False)
    return decode(CheckOutcome, encode(check_samples(samples, robot)))
