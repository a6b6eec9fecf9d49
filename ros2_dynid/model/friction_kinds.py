"""Friction beyond Fv dq + Fc sign(dq) + off: terms of a joint's law, each linear in its coefficient.

With v the joint's speed, tau_r the torque that its gear carries (links and rotor, no friction) and T the temperature of
its drive:

    asymmetric           Fva |v|                         viscous friction that differs between the directions
    cubic                Fcub v^3                        viscous friction that grows faster than the speed
    root                 Frt sqrt(|v|) sign(v)           viscous friction that grows slower than the speed
    stribeck             Fs exp(-(v / vs)^2) sign(v)     friction that falls from standstill; vs is its shape
    load                 Fl |tau_r| sign(v)              Coulomb friction that grows with the load on the gear
    load_viscous         Flv |tau_r| v                   viscous friction that does
    power                Fp |v|^p sign(v)                viscous friction with an exponent of its own, p
    temperature          Ft (T - T0) sign(v)             Coulomb friction that changes with the temperature
    temperature_viscous  Ftv (T - T0) v                  viscous friction that does

The last two make Fc and Fv linear in the temperature: Fv (1 + c (T - T0)) with c = Ftv / Fv. Where T is not known it is
T0, and they are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    POWER = "power"
    TEMPERATURE = "temperature"
    TEMPERATURE_VISCOUS = "temperature_viscous"

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
        return self is not FrictionKind.ASYMMETRIC and self not in THERMAL


THERMAL = (FrictionKind.TEMPERATURE, FrictionKind.TEMPERATURE_VISCOUS)
"""Terms that need the temperature of the drive."""
SYMBOLS = {
    FrictionKind.ASYMMETRIC: "Fva",
    FrictionKind.CUBIC: "Fcub",
    FrictionKind.ROOT: "Frt",
    FrictionKind.STRIBECK: "Fs",
    FrictionKind.LOAD: "Fl",
    FrictionKind.LOAD_VISCOUS: "Flv",
    FrictionKind.POWER: "Fp",
    FrictionKind.TEMPERATURE: "Ft",
    FrictionKind.TEMPERATURE_VISCOUS: "Ftv",
}
SHAPES = {FrictionKind.STRIBECK: "vs", FrictionKind.POWER: "p"}
"""Terms with a parameter that they are not linear in, and its name in the equations."""
UNITS = {
    FrictionKind.ASYMMETRIC: ("N.m.s/rad", "N.s/m"),
    FrictionKind.CUBIC: ("N.m.s^3/rad^3", "N.s^3/m^3"),
    FrictionKind.ROOT: ("N.m.(s/rad)^0.5", "N.(s/m)^0.5"),
    FrictionKind.STRIBECK: ("N.m", "N"),
    FrictionKind.LOAD: ("1", "1"),
    FrictionKind.LOAD_VISCOUS: ("s/rad", "s/m"),
    FrictionKind.POWER: ("N.m.(s/rad)^p", "N.(s/m)^p"),
    FrictionKind.TEMPERATURE: ("N.m/K", "N/K"),
    FrictionKind.TEMPERATURE_VISCOUS: ("N.m.s/(rad.K)", "N.s/(m.K)"),
}
"""Of the coefficient, for a revolute and for a prismatic joint."""
EXPONENTS = (0.2, 5.0)
"""Range of the exponent p: below it is Coulomb friction, and no gear or lubricant shows more."""
ABSOLUTE_ZERO = -273.15
"""[deg C]"""


@dataclass(frozen=True)
class FrictionTerm:
    """A term of joint number `joint` with its coefficient and standard deviation (None: not known).

    speed: vs of a Stribeck term [rad/s or m/s]; 0 for the others; speed_std: its standard deviation (None: not known).
    exponent: p of a power term; 0 for the others; exponent_std: its standard deviation. reference: T0 of a term that
    changes with the temperature [deg C]; 0 for the others.
    of_shape: no term of a law, but the column that tells how a term changes with its shape, Fs d/d(log vs) or Fp d/dp.
    """

    joint: int
    kind: FrictionKind
    coefficient: float = 0.0
    std: float | None = None
    speed: float = 0.0
    speed_std: float | None = None
    of_shape: bool = False
    exponent: float = 0.0
    exponent_std: float | None = None
    reference: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an invalid term."""
        if self.of_shape and self.kind not in SHAPES:
            raise InputError(f"a friction term of kind {self.kind} has no shape", "leave of_shape out")
        where = f"friction term {self.name}"
        if not isfinite(self.coefficient) or (self.positive and self.coefficient < 0.0):
            allowed = "a number that is not negative" if self.positive else "a finite number"
            raise InputError(f"{where} has coefficient {self.coefficient:g}", f"give {allowed}")
        for std in (self.std, self.speed_std, self.exponent_std):
            if std is not None and not (isfinite(std) and std >= 0.0):
                raise InputError(f"{where} has standard deviation {std:g}", "give a number that is not negative")
        stribeck, power = self.kind is FrictionKind.STRIBECK, self.kind is FrictionKind.POWER
        if stribeck != (self.speed > 0.0) or not isfinite(self.speed):
            hint = "give the speed of a Stribeck term, above 0 [rad/s or m/s]" if stribeck else "leave speed out"
            raise InputError(f"{where} has speed {self.speed:g}", hint)
        if self.speed_std is not None and not stribeck:
            raise InputError(f"{where} has no speed", "leave speed_std out")
        if not (EXPONENTS[0] <= self.exponent <= EXPONENTS[1] if power else self.exponent == 0.0):
            hint = f"give one of {EXPONENTS[0]:g} to {EXPONENTS[1]:g}" if power else "leave exponent out"
            raise InputError(f"{where} has exponent {self.exponent:g}", hint)
        if self.exponent_std is not None and not power:
            raise InputError(f"{where} has no exponent", "leave exponent_std out")
        if self.kind in THERMAL and not (isfinite(self.reference) and self.reference > ABSOLUTE_ZERO):
            hint = "give the temperature T0 at which it is zero [deg C]"
            raise InputError(f"{where} has reference {self.reference:g}", hint)
        if self.kind not in THERMAL and self.reference != 0.0:
            raise InputError(f"{where} does not change with the temperature", "leave reference out")

    @property
    def name(self) -> str:
        """The coefficient's name, such as Fl3."""
        return f"{SHAPES[self.kind] if self.of_shape else self.kind.symbol}{self.joint}"

    @property
    def positive(self) -> bool:
        """Whether the coefficient must not be negative."""
        return self.kind.positive and not self.of_shape

    @property
    def shape(self) -> float:
        """Its shape: vs of a Stribeck term, p of a power term, 0 of the others."""
        return self.speed or self.exponent


def law_columns(terms: Sequence[FrictionTerm]) -> tuple[FrictionTerm, ...]:
    """Return the columns estimated of identified terms: each term, followed by its shape where that has a std."""
    columns: list[FrictionTerm] = []
    for term in terms:
        has_std = term.speed_std is not None or term.exponent_std is not None
        columns += [term, replace(term, of_shape=True)] if has_std else [term]
    return tuple(columns)
