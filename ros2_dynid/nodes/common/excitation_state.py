# SPDX-License-Identifier: Apache-2.0

"""Questions that several nodes ask of the excitation's state."""

from __future__ import annotations

from ros2_dynid.msg import ExcitationState

MOVING = frozenset(
    (
        ExcitationState.APPROACH,
        ExcitationState.SETTLE,
        ExcitationState.REHEARSING,
        ExcitationState.EXCITING,
        ExcitationState.BRAKING,
    )
)
"""States in which the excitation moves the robot, or is about to."""
STOPPED = frozenset((ExcitationState.BRAKING, ExcitationState.ABORTED))
"""States of a motion that did not reach its end."""
