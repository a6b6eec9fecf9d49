# SPDX-License-Identifier: Apache-2.0

"""The stop of the whole suite, as each node that moves a robot sees it: a latched switch, and an enabling switch.

The stop stays set until somebody releases it. An enabling switch, where there is one, says again and again that it is
pressed: when it says otherwise, or nothing, that is a stop as well, which ends when it is pressed again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

Reason = tuple[str, str]
"""Why nothing may move, and what to do."""

STOP_SET = "the stop is set", "release it first: publish false on the topic stop, or call guard/release"
NOT_ENABLED = "the enabling switch is not pressed", "press it first"
HISTORY_SECONDS = 1.0
"""What comes so soon after we began to listen [s] may have been said long before: the last words of who latches."""


class HoldBack(NamedTuple):
    """From `now` [s] on no motion may begin, for this reason; None: it may."""

    now: float
    reason: Reason | None


class StopSwitch:
    """Any thread may ask for `reason`; one at a time may tell it something.

    enabled_for: how long [s] a press of the enabling switch counts; 0: there is no such switch.
    """

    def __init__(self, enabled_for: float = 0.0, listens_since: float = 0.0) -> None:
        """Begin to listen [s]. Nothing was said yet: not stopped, and not enabled where there is an enabling switch."""
        self._enabled_for, self._listens_since = enabled_for, listens_since
        self._stopped, self._said_at = False, -math.inf
        self._pressed_at = -math.inf

    def take_stop(self, stop: bool, said_at: float, now: float) -> bool:
        """Take what somebody said of the stop at a time [s] of their clock, heard `now` [s].

        Of several who speak, each one's last word is kept for whoever comes later, in no order: the newest counts. But
        clocks of computers differ. Once we have listened for a while, a stop is obeyed whatever time it says; a release
        must be newer than all else. Return False if such a release is not believed.
        """
        settled = now > self._listens_since + HISTORY_SECONDS
        if said_at > self._said_at or (stop and settled):
            self._stopped, self._said_at = stop, max(said_at, self._said_at)
            return True
        return stop or not (settled and self._stopped)

    def take_enabling(self, pressed: bool, now: float) -> None:
        """Take what the enabling switch says `now` [s]."""
        self._pressed_at = now if pressed else -math.inf

    def reason(self, now: float) -> Reason | None:
        """Return why nothing may move at `now` [s] and what to do, None if it may."""
        if self._stopped:
            return STOP_SET
        if self._enabled_for and now - self._pressed_at > self._enabled_for:
            return NOT_ENABLED
        return None
