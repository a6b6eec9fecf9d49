# SPDX-License-Identifier: Apache-2.0

"""What a caller may choose about the preparation of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import VelocitySource
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class PreparationOptions:
    """How to prepare a recording; None: proposed from the data.

    position_cutoff, row_cutoff: low-pass of the positions, and of torque and regressor alike [Hz]; row_rate: rows kept
    a second for each joint [Hz]; slow: rows of a joint slower than this fraction of its top speed are left out, since
    Coulomb friction is not defined there; velocity: where it comes from; gains: drive
    gains by joint name, tau = gain times the recorded effort; delay: the recorded effort is this late [s] (None: it is
    estimated beside the parameters).
    """

    position_cutoff: float | None = None
    row_cutoff: float | None = None
    row_rate: float | None = None
    slow: float = 0.02
    velocity: VelocitySource = VelocitySource.AUTO
    gains: Mapping[str, float] = field(default_factory=dict)
    delay: float | None = None

    def __post_init__(self) -> None:
        """Refuse settings without meaning."""
        for name in ("position_cutoff", "row_cutoff", "row_rate"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InputError(f"{name} is {value} Hz", "give a positive frequency [Hz]")
        if not 0.0 <= self.slow < 1.0:
            raise InputError(f"slow is {self.slow}", "give a fraction of the top speed between 0 and 1")
        if not isinstance(self.velocity, VelocitySource):
            raise InputError(f"velocity is {self.velocity!r}", f"choose from {', '.join(map(str, VelocitySource))}")
        if self.delay is not None and not np.isfinite(self.delay):
            raise InputError(f"the delay is {self.delay} s", "give a finite number of seconds")

    def with_filters(self, position: float | None, row: float | None, highest: float) -> PreparationOptions:
        """Return the options with these cut-offs [Hz], as far as the data carry them, unless others are asked for."""
        if position is None or row is None:
            return self
        return replace(
            self,
            position_cutoff=self.position_cutoff or min(position, highest),
            row_cutoff=self.row_cutoff or min(row, highest),
        )

    def gains_of(self, robot: Robot) -> Array:
        """Return the drive gain of each active joint, shape (n,), 1 where none is given."""
        unknown = set(self.gains) - set(robot.active_names)
        if unknown:
            hint = f"the robot has {', '.join(robot.active_names)}"
            raise InputError(f"a drive gain is given for {min(unknown)!r}", hint)
        gains = np.array([self.gains.get(name, 1.0) for name in robot.active_names])
        if not np.all(np.isfinite(gains)) or np.any(gains == 0):
            hint = "give N.m (or N) for each unit of the recorded effort"
            raise InputError("a drive gain is zero or not finite", hint)
        return gains
