"""Temperatures of a robot's drives while they come, for friction that changes with them.

A drive warms up over minutes, so a temperature counts for long after it came. Where it is missing, too old or cannot
be, friction is that at T0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.model.robot import Array, Robot

COLDEST, HOTTEST = -60.0, 200.0
"""[deg C]: no drive works beyond; what tells such a temperature is broken, or has another unit."""


class DriveTemperatures:
    """The last temperature of each joint, by name, and when it came."""

    def __init__(self) -> None:
        """Know none yet."""
        self._known: dict[str, tuple[float, float]] = {}

    def take(self, names: Sequence[str], values: Array, now: float) -> list[str]:
        """Take temperatures [deg C] that came at `now` [s]; return what is wrong with those that are not used."""
        wrong = []
        for name, value in zip(names, values.tolist(), strict=True):
            if COLDEST <= value <= HOTTEST:
                self._known[name] = (value, now)
            else:
                wrong.append(f"the temperature of {name!r} is {value:g} deg C: not used")
        return wrong

    def at(self, robot: Robot, now: float, stale: float) -> Array:
        """Return the temperatures of the active joints, shape (n,), NaN where not known for `stale` seconds."""
        found = [self._known.get(name, (np.nan, now)) for name in robot.active_names]
        return np.array([value if now - when <= stale else np.nan for value, when in found])
