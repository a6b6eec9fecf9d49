# SPDX-License-Identifier: Apache-2.0

"""Contact where the external torque is beyond what the model and the sensors explain, as in observer.hpp.

Threshold of a joint: width * sqrt(sigma^2 + torque_std^2 + noise^2) + undecided friction. sigma and torque_std are the
model's error bars. noise is that of the external torque itself, from its third differences over 1/K, which slow torques
hardly enter and pushes only for a moment; in contact it is not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.robot import Array

MEMORY = 5.0
"""Time [s] over which the noise is averaged."""
SETTLING = 5
"""Times 1/K until the observer has found what there was at first."""
WARM = 25
"""Third differences until the noise is known."""
_X = np.exp(-1.0)
NORMAL = float(20 - 30 * _X + 12 * _X**2 - 2 * _X**3)
"""Variance of third differences of what a filter of time constant 1/K makes of white noise of variance 1. Noise with
less memory gives more, which is on the safe side."""
CLIP = 9.0
"""A square counts at most this many times the variance, so that a push does not pass for noise."""


@dataclass(frozen=True)
class ContactOptions:
    """bandwidth: of the observer [rad/s]; width: threshold in standard deviations; confirm: time [s] beyond it.

    release, hold: a contact ends below this share of the threshold, held for this time [s].

    Six standard deviations: in a year of motion, at 16 Hz and six joints, Gaussian errors reach them about ten times;
    what a model misses is not Gaussian, so it is rather more.
    """

    bandwidth: float = 100.0
    width: float = 6.0
    release: float = 0.5
    hold: float = 0.05
    confirm: float = 0.001


DEFAULT = ContactOptions()


class ContactEvent(Enum):
    """What a sample changed."""

    NONE = "none"
    BEGINS = "contact begins"
    ENDS = "contact ends"


class ContactDetector:
    """Contacts of n joints; thresholds, shape (n,) [N.m or N], infinite where there are none; beyond, shape (n,)."""

    def __init__(self, bars: ErrorBars, given: Sequence[float] = (), options: ContactOptions = DEFAULT) -> None:
        """Begin without contact; given: thresholds, one a joint or one; 0, or none at all: from the error bars."""
        n = len(bars.sigma)
        fixed = np.zeros(n) if len(given) == 0 else np.asarray(given, dtype=float)
        if fixed.shape not in ((1,), (n,)) or not np.all(fixed >= 0):
            raise InputError(f"contact thresholds {list(given)}", f"give {n} numbers >= 0, or one")
        positive = (options.bandwidth, options.width, options.release)
        if not (all(np.isfinite(x) and x > 0 for x in positive) and options.release <= 1):
            raise InputError("an option of the contacts is out of range", "give positive numbers, release at most 1")
        self.options = options
        self._given = np.broadcast_to(fixed, n)
        self._variance = bars.sigma**2 + bars.torque_std**2
        self.restart()

    @property
    def usable(self) -> bool:
        """Whether any joint can make a contact."""
        return bool(np.any((self._given > 0) | np.isfinite(self._variance)))

    def restart(self) -> None:
        """Forget contacts and noise."""
        n = len(self._variance)
        self.thresholds, self.beyond, self.contact = np.full(n, np.inf), np.zeros(n, dtype=bool), False
        self._noise, self._over, self._under = np.zeros(n), np.zeros(n), np.zeros(n)
        self._before = np.zeros((3, n))
        self._tick, self._settled, self._stored, self._count = 0.0, 0, 0, 0

    def update(self, external: Array, undecided: Array, dt: float) -> ContactEvent:
        """Take what the observer found with a sample that it could use, shape (n,), `dt` [s] after the one before."""
        if not (dt > 0 and np.isfinite(dt)):
            return ContactEvent.NONE
        self._follow_noise(external, dt)
        options = self.options
        bar = np.where(self._given > 0, self._given, options.width * np.sqrt(self._variance + self._noise))
        self.thresholds = np.where(np.isfinite(bar), bar, np.inf) + undecided
        size = np.abs(external)
        self._over = np.where(size > self.thresholds, self._over + dt, 0.0)
        self._under = np.where(size < options.release * self.thresholds, self._under + dt, 0.0)
        begins = (self._over > options.confirm) & (self._count >= WARM)
        self.beyond = np.where(self.beyond, self._under <= options.hold, begins)
        was, self.contact = self.contact, bool(self.beyond.any())
        if self.contact:
            self._stored = 0  # what was stored before the contact is no neighbour of what comes after it
        if was == self.contact:
            return ContactEvent.NONE
        return ContactEvent.BEGINS if self.contact else ContactEvent.ENDS

    def _follow_noise(self, external: Array, dt: float) -> None:
        self._tick += dt
        if self._tick * self.options.bandwidth < 1.0 - 1e-9:
            return
        spent, self._tick = self._tick, 0.0
        if self._settled < SETTLING:
            self._settled += 1
            return
        if self.contact:
            return
        if self._stored >= 3:
            a, b, c = self._before
            square = (external - 3.0 * a + 3.0 * b - c) ** 2 / NORMAL
            if self._count >= WARM:
                square = np.minimum(square, CLIP * self._noise)
            self._count += 1
            self._noise = self._noise + max(spent / MEMORY, 1.0 / self._count) * (square - self._noise)
        else:
            self._stored += 1
        self._before = np.stack((external, self._before[0], self._before[1]))
