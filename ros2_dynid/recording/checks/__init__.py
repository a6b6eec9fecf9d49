"""Is this recording usable? Checks of the stamps, of each signal, and of the efforts against the robot."""

from ros2_dynid.recording.checks.check import check_samples
from ros2_dynid.recording.checks.problems import GREEN, RED, YELLOW, RecordingProblem

__all__ = ["GREEN", "RED", "YELLOW", "RecordingProblem", "check_samples"]
