# SPDX-License-Identifier: Apache-2.0

"""Units of tables, and their factors to SI."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ros2_dynid.errors import InputError

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
ANGLE_UNITS = {"rad": 1.0, "deg": math.pi / 180}
LENGTH_UNITS = {"m": 1.0, "mm": 1e-3}
EFFORT_UNITS = {"N.m": 1.0, "mN.m": 1e-3}


@dataclass(frozen=True)
class Units:
    """Units of a table: time, angles of revolute joints (also in rates), lengths of prismatic ones, efforts."""

    time: str = "s"
    angle: str = "rad"
    length: str = "m"
    effort: str = "N.m"

    def __post_init__(self) -> None:
        """Refuse unknown units."""
        for name, units in zip(("time", "angle", "length", "effort"), self.tables(), strict=True):
            if getattr(self, name) not in units:
                raise InputError(f"unknown {name} unit {getattr(self, name)!r}", f"choose from {', '.join(units)}")

    @staticmethod
    def tables() -> tuple[Mapping[str, float], ...]:
        """Return the units known for time, angle, length and effort, with their size in SI."""
        return TIME_UNITS, ANGLE_UNITS, LENGTH_UNITS, EFFORT_UNITS


SI = Units()
