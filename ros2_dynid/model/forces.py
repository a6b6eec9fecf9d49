# SPDX-License-Identifier: Apache-2.0

"""Elastic elements beside links and drives: springs, gravity compensators, cables.

An element has one coordinate x(q) and stores energy, so that the drives feel (dx/dq)^T F(x) against it, with

    F(x) = Kf + Ks (x - x0) + Kq (x - x0)^2 + Kc (x - x0)^3,

which is linear in its coefficients. spring, cable: x is a sum of weighted joint positions, one joint or several;
cylinder: x is the distance between two points, each fixed to a link or to the base, and F > 0 pulls them together.
Geometry and rest length x0 are given; the coefficients are standard parameters, numbered by the element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite

from ros2_dynid.errors import InputError

COEFFICIENTS = ("preload", "stiffness", "quadratic", "cubic")
"""Names of the coefficients in robot files, by their power of x - x0 ..."""
SYMBOLS = ("Kf", "Ks", "Kq", "Kc")
"""... and in the equations, without the element's number."""


class ForceKind(Enum):
    """What the coordinate of an element is."""

    SPRING = "spring"
    CABLE = "cable"
    CYLINDER = "cylinder"

    def __str__(self) -> str:
        """Return the name in robot files."""
        return self.value

    @property
    def usual(self) -> tuple[int, ...]:
        """Powers of x - x0 where a robot file names no coefficients."""
        return {ForceKind.SPRING: (1,), ForceKind.CABLE: (1, 3), ForceKind.CYLINDER: (0, 1)}[self]


@dataclass(frozen=True)
class Pivot:
    """A point [m] in the frame of joint number `joint`; 0: frame 0, which is fixed to the base."""

    joint: int
    point: tuple[float, float, float]


@dataclass(frozen=True)
class Force:
    """An element: `weights` by joint number for springs and cables, two `pivots` for a cylinder.

    rest: x0 [rad or m]; powers: those of x - x0 that have a coefficient.
    """

    name: str
    kind: ForceKind
    powers: tuple[int, ...]
    weights: Mapping[int, float] = field(default_factory=dict)
    pivots: tuple[Pivot, ...] = ()
    rest: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an invalid element."""
        where = f"force {self.name!r}"
        allowed = range(len(COEFFICIENTS))
        if not self.powers or list(self.powers) != sorted(set(self.powers)) or not set(self.powers) <= set(allowed):
            raise InputError(f"{where} has no coefficients", f"choose from {', '.join(COEFFICIENTS)}")
        if not isfinite(self.rest):
            raise InputError(f"{where} has rest {self.rest:g}", "give a finite angle or length [rad or m]")
        if self.kind is ForceKind.CYLINDER:
            if len(self.pivots) != 2 or self.weights:
                raise InputError(f"{where} needs two pivots", "give the points `from` and `to`, and no joints")
            if self.pivots[0].joint == self.pivots[1].joint:
                raise InputError(f"{where} has both pivots on one link", "put them on links that move apart")
            if not all(isfinite(x) for pivot in self.pivots for x in pivot.point):
                raise InputError(f"{where} has a pivot that is not finite", "give three numbers [m]")
        elif self.pivots or not self.weights or not all(isfinite(w) and w != 0.0 for w in self.weights.values()):
            raise InputError(f"{where} has no joints", "write joints: {NAME: 1}, or {A: 1, B: -1} between two")

    @property
    def joints(self) -> set[int]:
        """Numbers of the joints that it names; 0 is the base."""
        return {pivot.joint for pivot in self.pivots} | set(self.weights)
