# SPDX-License-Identifier: Apache-2.0

"""Friction beyond Fv dq + Fc sign(dq) + off: terms of a joint's law, each linear in its coefficient.

With v the joint's speed, tau_r the torque that its gear carries (links and rotor, no friction) and T the temperature of
its drive, `model.friction` defines the kinds of terms, one file each, among them

    load                 Fl |tau_r| sign(v)              Coulomb friction that grows with the load on the gear
    stribeck             Fs exp(-(v / vs)^2) sign(v)     friction that falls from standstill; vs is its shape
    temperature          Ft (T - T0) sign(v)             Coulomb friction that changes with the temperature

Those of the temperature make Fc and Fv linear in it: Fv (1 + c (T - T0)) with c = Ftv / Fv. Where T is not known it is
T0, and they are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

from ros2_dynid.errors import InputError
from ros2_dynid.model.friction import FrictionKind

__all__ = ["FrictionKind", "FrictionTerm", "law_columns", "shaped_term"]
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
        """Refuse a term without meaning."""
        if self.of_shape and self.kind.shape is None:
            raise InputError(f"a friction term of kind {self.kind} has no shape", "leave of_shape out")
        where = f"friction term {self.name}"
        if not isfinite(self.coefficient) or (self.positive and self.coefficient < 0.0):
            allowed = "a number that is not negative" if self.positive else "a finite number"
            raise InputError(f"{where} has coefficient {self.coefficient:g}", f"give {allowed}")
        for std in (self.std, self.speed_std, self.exponent_std):
            if std is not None and not (isfinite(std) and std >= 0.0):
                raise InputError(f"{where} has standard deviation {std:g}", "give a number that is not negative")
        self._check_shapes(where)
        if self.kind.thermal and not (isfinite(self.reference) and self.reference > ABSOLUTE_ZERO):
            hint = "give the temperature T0 at which it is zero [deg C]"
            raise InputError(f"{where} has reference {self.reference:g}", hint)
        if not self.kind.thermal and self.reference != 0.0:
            raise InputError(f"{where} does not change with the temperature", "leave reference out")

    def _check_shapes(self, where: str) -> None:
        """Refuse a shape that is missing, out of range, or of another kind of term."""
        for field in ("speed", "exponent"):
            value, std = getattr(self, field), getattr(self, f"{field}_std")
            shape = self.kind.shape if self.kind.shape is not None and self.kind.shape.field == field else None
            if shape is None and value == 0.0 and std is not None:
                raise InputError(f"{where} has no {field}", f"leave {field}_std out")
            if not (value == 0.0 if shape is None else shape.contains(value)):
                hint = f"leave {field} out" if shape is None else shape.hint
                raise InputError(f"{where} has {field} {value:g}", hint)

    @property
    def name(self) -> str:
        """The coefficient's name, such as Fl3."""
        symbol = self.kind.shape.symbol if self.of_shape and self.kind.shape is not None else self.kind.symbol
        return f"{symbol}{self.joint}"

    @property
    def positive(self) -> bool:
        """Whether the coefficient must not be negative."""
        return self.kind.positive and not self.of_shape

    @property
    def shape(self) -> float:
        """Its shape: vs of a Stribeck term, p of a power term, 0 of the others."""
        return self.speed or self.exponent

    @property
    def shape_std(self) -> float | None:
        """Standard deviation of its shape; None if it is not known, or has none."""
        return self.speed_std if self.exponent_std is None else self.exponent_std

    def with_shape(self, shape: float, std: float | None = None) -> FrictionTerm:
        """Return the same with another shape, which its kind has, and the shape's standard deviation."""
        if self.kind.shape is not None and self.kind.shape.field == "exponent":
            return replace(self, exponent=shape, exponent_std=std)
        return replace(self, speed=shape, speed_std=std)


def shaped_term(joint: int, kind: FrictionKind, shape: float) -> FrictionTerm:
    """Return a term of a kind with a shape, coefficient zero."""
    if kind.shape is not None and kind.shape.field == "exponent":
        return FrictionTerm(joint, kind, exponent=shape)
    return FrictionTerm(joint, kind, speed=shape)


def law_columns(terms: Sequence[FrictionTerm]) -> tuple[FrictionTerm, ...]:
    """Return the columns estimated of identified terms: each term, followed by its shape where that has a std."""
    columns: list[FrictionTerm] = []
    for term in terms:
        has_std = term.speed_std is not None or term.exponent_std is not None
        columns += [term, replace(term, of_shape=True)] if has_std else [term]
    return tuple(columns)
