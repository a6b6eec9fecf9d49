# SPDX-License-Identifier: Apache-2.0

"""Is this recording usable? Checks of the stamps, of each signal, and of the efforts against the robot."""

from ros2_dynid.recording.checks.problems import GREEN, RED, YELLOW, RecordingProblem
from ros2_dynid.recording.checks.recording_check import (
    JointCheck,
    RecordingCheck,
    check_samples,
    replace_problems,
    with_problems,
)
from ros2_dynid.recording.checks.timing import Gap

__all__ = [
    "GREEN",
    "RED",
    "YELLOW",
    "Gap",
    "JointCheck",
    "RecordingCheck",
    "RecordingProblem",
    "check_samples",
    "replace_problems",
    "with_problems",
]
