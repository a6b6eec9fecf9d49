# SPDX-License-Identifier: Apache-2.0

"""How a recording is to be read: topic or columns, units, stamps and the stretch of time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ros2_dynid.errors import InputError
from ros2_dynid.recording.units import SI, Units


@dataclass(frozen=True)
class Reading:
    """How a recording is read: see load_samples.

    rate: the samples are evenly spaced at this rate [Hz], whatever stamps or time column say; for recordings without.
    torque_topic: of a bag, joint states whose efforts are torques at the links, beside those of `topic`.
    """

    topic: str | Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    units: Units = SI
    stamps: str = "auto"
    start: float | None = None
    end: float | None = None
    rate: float | None = None
    torque_topic: str | None = None

    def __post_init__(self) -> None:
        """Refuse a rate that is not positive."""
        if self.rate is not None and not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"the rate is {self.rate} Hz", "give the samples a second, such as 1000 [Hz]")
