"""Check: is this recording usable?"""

from __future__ import annotations

from dataclasses import dataclass, field

from ros2_dynid.recording.checks import RecordingCheck, check_samples
from ros2_dynid.recording.read import read_samples
from ros2_dynid.recording.reading import Reading
from ros2_dynid.usecases.robot_source import RobotSource


@dataclass(frozen=True)
class CheckRequest:
    """A recording (path), how it is read, and the robot it is of."""

    robot: RobotSource
    recording: str
    reading: Reading = field(default_factory=Reading)


CheckOutcome = RecordingCheck


def check(request: CheckRequest) -> CheckOutcome:
    """Read and check the recording."""
    robot = request.robot.load()
    samples = read_samples(request.recording, robot, request.reading, in_order=False)
    return check_samples(samples, robot)
