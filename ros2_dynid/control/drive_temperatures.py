# SPDX-License-Identifier: Apache-2.0

"""Temperatures of a robot's drives while they come, for friction that changes with them.

A drive warms up over minutes, so a temperature counts for long after it came. Where it is missing, too old or cannot
be, friction is that at T0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.dynamics.friction_law import references
from ros2_dynid.model.robot import Array, Robot

COLDEST, HOTTEST = -60.0, 200.0
"""[deg C]: no drive works beyond; what tells such a temperature is broken, or has another unit."""

WARMER, MUCH_WARMER = 0.1, 2.0
"""Friction follows temperatures that have changed by WARMER [K], over a ramp if at once by MUCH_WARMER."""


class DriveTemperatures:
    """The last temperature of each joint, by name, and when it came."""

    def __init__(self) -> None:
        """Begin without temperatures."""
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
        readings = [self._known.get(name, (np.nan, now)) for name in robot.active_names]
        return np.array([value if now - when <= stale else np.nan for value, when in readings])


class FrictionTemperatures:
    """The temperatures that a model's friction is at, where it depends on them."""

    def __init__(self) -> None:
        """Know no model yet."""
        self._heard = DriveTemperatures()
        self._references: dict[int, float] = {}  # T0 of the joints whose friction changes with the temperature
        self._now_at = np.empty(0)  # temperatures that the model's friction is at, NaN: at T0
        self._missing: list[int] = []  # those of these joints that are not known
        self._told: set[int] = set()  # and of these the ones that were told of

    def use(self, robot: Robot) -> None:
        """Follow the temperatures that this model's friction depends on; it is at T0, as a model is that is new."""
        self._references, self._missing = references(robot), []
        self._now_at = np.full(len(robot.active), np.nan)

    def drop(self) -> None:
        """There is no model any more."""
        self._references, self._missing, self._told = {}, [], set()

    def take(self, names: Sequence[str], values: Array, now: float) -> list[str]:
        """Take temperatures [deg C] that came at `now` [s]; return what is wrong with those that are not used."""
        return self._heard.take(names, values, now)

    @property
    def matter(self) -> bool:
        """Whether the model's friction depends on temperatures."""
        return bool(self._references)

    def changed(self, robot: Robot, now: float, stale: float) -> tuple[Array, bool] | None:
        """Return the temperatures, shape (n,), that friction must be brought to, and whether by much; None: by none."""
        T = self._heard.at(robot, now, stale)
        mine = list(self._references)
        self._missing = [place for place in mine if np.isnan(T[place])]
        self._told.intersection_update(self._missing)
        before, after = self._now_at[mine], T[mine]
        apart = np.abs(after - before)
        other = np.isnan(before) != np.isnan(after)
        if not (other | (apart > WARMER)).any():
            return None
        self._now_at = T
        return T, bool((other | (apart > MUCH_WARMER)).any())

    def untold(self, names: Sequence[str]) -> list[str]:
        """Return which temperatures are missing, in words, each once."""
        if not self._missing:
            return []
        new = [place for place in self._missing if place not in self._told]
        self._told.update(new)
        return [
            f"the temperature of {names[k]!r} is not known: its friction is that at {self._references[k]:g} deg C"
            for k in new
        ]

    def text(self, names: Sequence[str]) -> str:
        """Return the temperatures that friction is at, in words; nothing if it does not depend on them."""
        T = {names[place]: self._now_at[place] for place in self._references}
        return ", ".join(
            f"{name} {'not known' if np.isnan(value) else f'{value:.1f} deg C'}" for name, value in T.items()
        )
