# SPDX-License-Identifier: Apache-2.0

"""Torques that leave one after the other: whatever changes, the torque goes over from what was sent last.

tau = target + (1 - s) (last - target then), s rising from 0 to 1 over the ramp, so a change within a ramp begins where
the first one has led to. An ending is a change-over to gravity that somebody waits for.
"""

from __future__ import annotations

from ros2_dynid.control.torque_limiter import LONGEST_STEP, EffortLimits, LimitedTorque, TorqueLimiter
from ros2_dynid.model.robot import Array

RAMP_SECONDS = 0.3
"""Time [s] of a change-over unless a parameter says otherwise."""
ENDING_RAMP = 0.5
"""Longest ramp [s] of an ending that somebody waits for: those who stop a node give it about a second."""
LONGEST_ENDING = 2.5
"""An ending is over after this time [s] of torques at the latest; by the least rate it takes 2 s."""


class TorqueRamp:
    """The limiter, None while effort limits are not known, and the change-over under way; sent: how many have left."""

    def __init__(self) -> None:
        """Begin before the first torque, without limits."""
        self.limiter: TorqueLimiter | None = None
        self.sent = 0
        self._changes = False  # the next torque begins a change-over
        self._offset: Array | None = None
        self._begin = self._ramp = 0.0
        self._left = self._ticked = 0.0  # time that an ending still has [s], and when it was last looked at

    @property
    def limits(self) -> EffortLimits | None:
        """The limits of what leaves, None while they are not known."""
        return None if self.limiter is None else self.limiter.limits

    @property
    def ramping(self) -> bool:
        """Whether a change-over is under way."""
        return self._offset is not None

    @property
    def held_back(self) -> bool:
        """Whether the last torque was brought back to a limit or a rate."""
        return self.limiter is not None and self.limiter.held_back

    @property
    def has_sent(self) -> bool:
        """Whether it is known what the robot carries: a torque has left."""
        return self.limiter is not None and self.limiter.last is not None

    @property
    def settled(self) -> bool:
        """Whether the last torque was the one wanted, as far as the limits allow."""
        return not self.ramping and self.limiter is not None and not self.limiter.lagging

    def use(self, limiter: TorqueLimiter | None) -> None:
        """Let torques out within other limits, from what left last on; None: they are not known."""
        self.limiter = None if limiter is None else limiter.continue_from(self.limiter)

    def forget(self) -> None:
        """Take the next torque as the first."""
        if self.limiter is not None:
            self.limiter.forget()

    def change_over(self) -> None:
        """Let the next torque begin a change-over from what was sent last."""
        self._changes = True

    def send(self, target: Array, now: float, ramp: float) -> LimitedTorque:
        """Return the torque that leaves at `now` [s] on the way to `target`; a change-over takes `ramp` [s]."""
        limiter = self.limiter
        assert limiter is not None
        if self._changes:
            self._changes, self._begin, self._ramp = False, now, ramp
            self._offset = None if limiter.last is None or ramp <= 0 else limiter.last.tau - target
        if self._offset is not None:
            share = (now - self._begin) / self._ramp
            if share >= 1:
                self._offset = None
            else:
                target = target + (1 - max(share, 0.0)) * self._offset
        torque = limiter.limit(target, now)
        self.sent += 1
        return torque

    def begin_ending(self, now: float) -> None:
        """Let the next torque begin the last change-over."""
        self.change_over()
        self._left, self._ticked = LONGEST_ENDING, now

    def has_ended(self, now: float) -> bool:
        """Whether the torque has reached what was wanted, or has had its time: one that is none has no more."""
        self._left -= min(now - self._ticked, LONGEST_STEP)  # a pause of the computer brings no torque nearer
        self._ticked = now
        return self.settled or self._left <= 0
