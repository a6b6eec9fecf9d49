"""Friction beyond Fv dq + Fc sign(dq) + off: terms of a joint's law, each linear in its coefficient.

With v the joint's speed and tau_r the torque that its gear carries (links and rotor, no friction):

    asymmetric     Fva |v|                         viscous friction that differs between the directions
    cubic          Fcub v^3                        viscous friction that grows faster than the speed
    root           Frt sqrt(|v|) sign(v)           viscous friction that grows slower than the speed
    stribeck       Fs exp(-(v / vs)^2) sign(v)     friction that falls from standstill; vs is its shape
    load           Fl |tau_r| sign(v)              Coulomb friction that grows with the load on the gear
    load_viscous   Flv |tau_r| v                   viscous friction that does
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isfinite

from ros2_dynid.errors import InputError


class FrictionKind(Enum):
    """What a term depends on."""

    ASYMMETRIC = "asymmetric"
    CUBIC = "cubic"
    ROOT = "root"
    STRIBECK = "stribeck"
    LOAD = "load"
    LOAD_VISCOUS = "load_viscous"

    def __str__(self) -> str:
        """Return the name in robot files and requests."""
        return self.value

    @property
    def symbol(self) -> str:
        """The coefficient's name in the equations, without the joint's number."""
        return SYMBOLS[self]

    @property
    def positive(self) -> bool:
        """Whether the coefficient must not be negative: a drop towards higher speed, a share of the load."""
        return self is not FrictionKind.ASYMMETRIC


SYMBOLS = {
    FrictionKind.ASYMMETRIC: "Fva",
    FrictionKind.CUBIC: "Fcub",
    FrictionKind.ROOT: "Frt",
    FrictionKind.STRIBECK: "Fs",
    FrictionKind.LOAD: "Fl",
    FrictionKind.LOAD_VISCOUS: "Flv",
}
UNITS = {
    FrictionKind.ASYMMETRIC: ("N.m.s/rad", "N.s/m"),
    FrictionKind.CUBIC: ("N.m.s^3/rad^3", "N.s^3/m^3"),
    FrictionKind.ROOT: ("N.m.(s/rad)^0.5", "N.(s/m)^0.5"),
    FrictionKind.STRIBECK: ("N.m", "N"),
    FrictionKind.LOAD: ("1", "1"),
    FrictionKind.LOAD_VISCOUS: ("s/rad", "s/m"),
}
"""Of the coefficient, for a revolute and for a prismatic joint."""


@dataclass(frozen=True)
class FrictionTerm:
    """A term of joint number `joint` with its coefficient and standard deviation (None: not known).

    speed: vs of a Stribeck term [rad/s or m/s]; 0 for the others; speed_std: its standard deviation (None: not known).
    of_speed: no term of a law, but the column that tells how a Stribeck term changes with its speed, Fs d/d(log vs).
    """

    joint: int
    kind: FrictionKind
    coefficient: float = 0.0
    std: float | None = None
    speed: float = 0.0
    speed_std: float | None = None
    of_speed: bool = False

    def __post_init__(self) -> None:
        """Refuse a term without meaning."""
        where = f"friction term {self.name}"
        if not isfinite(self.coefficient) or (self.positive and self.coefficient < 0.0):
            allowed = "a number that is not negative" if self.positive else "a finite number"
            raise InputError(f"{where} has coefficient {self.coefficient:g}", f"give {allowed}")
        for std in (self.std, self.speed_std):
            if std is not None and not (isfinite(std) and std >= 0.0):
                raise InputError(f"{where} has standard deviation {std:g}", "give a number that is not negative")
        stribeck = self.kind is FrictionKind.STRIBECK
        if stribeck != (self.speed > 0.0) or not isfinite(self.speed):
            cure = "give the speed of a Stribeck term, above 0 [rad/s or m/s]" if stribeck else "leave speed out"
            raise InputError(f"{where} has speed {self.speed:g}", cure)
        if (self.speed_std is not None or self.of_speed) and not stribeck:
            raise InputError(f"{where} has no speed", "leave speed_std out")

    @property
    def name(self) -> str:
        """The coefficient's name, such as Fl3."""
        return f"{'vs' if self.of_speed else self.kind.symbol}{self.joint}"

    @property
    def positive(self) -> bool:
        """Whether the coefficient must not be negative."""
        return self.kind.positive and not self.of_speed
