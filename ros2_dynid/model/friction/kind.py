# SPDX-License-Identifier: Apache-2.0

"""What a kind of friction term is: everything that the rest of the package needs to know of it, in one definition.

A kind gives its column once, in symbols of the joint's motion. NumPy arrays (dynamics/friction.py), derivatives
(dynamics/friction.py), generated C and NumPy code (codegen/functions.py) and the header of the C++ runtime
(codegen/runtime_header.py) each bring their own symbols. To add a kind, add a file here that registers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, inf, isfinite
from typing import Any, Protocol

from ros2_dynid.errors import InputError


class Symbols(Protocol):
    """The motion of one joint as a column sees it, and functions of it; values are of whatever evaluates it.

    v: speed [rad/s or m/s]; sign: of v, or tanh(v / v0) where it is smooth; load: |torque that the gear carries| [N.m
    or N]; warmth: T - T0 of the drive [K]; shape: the term's own, 0 without one.
    """

    @property
    def v(self) -> Any: ...

    @property
    def sign(self) -> Any: ...

    @property
    def load(self) -> Any: ...

    @property
    def warmth(self) -> Any: ...

    @property
    def shape(self) -> float: ...

    def absolute(self, x: Any) -> Any:
        """Return |x|."""
        ...

    def root(self, x: Any) -> Any:
        """Return sqrt(|x|)."""
        ...

    def gauss(self, x: Any, width: float) -> Any:
        """Return exp(-(x / width)^2)."""
        ...

    def power(self, x: Any, exponent: float) -> Any:
        """Return |x|^exponent."""
        ...


@dataclass(frozen=True)
class Shape:
    """A parameter that a term is not linear in: its symbol in equations, and the field of a term that holds it.

    logarithmic: its change is that of its logarithm. tried: shapes that an automatic choice begins with; relative: they
    are shares of the joint's top speed. least, most: its range; gap: values that it cannot be told apart from another
    column at, and never has.
    """

    symbol: str
    field: str
    logarithmic: bool
    tried: tuple[float, ...]
    relative: bool
    least: float = 0.0
    most: float = inf
    gap: tuple[float, float] | None = None

    def contains(self, value: float) -> bool:
        """Return whether a term may have this shape; 0 means that it has none."""
        return isfinite(value) and value > 0.0 and self.least <= value <= self.most

    def changed(self, value: float, step: float) -> float:
        """Return the shape after a step of it, or of its logarithm: within its range, on its own side of the gap."""
        least, most = self.least, self.most
        if self.gap is not None:
            least, most = (least, self.gap[0]) if 2.0 * value < sum(self.gap) else (self.gap[1], most)
        return min(max(value * exp(step) if self.logarithmic else value + step, least), most)

    @property
    def hint(self) -> str:
        """Which values there are, in words."""
        if isfinite(self.most):
            return f"give one of {self.least:g} to {self.most:g}"
        return f"give the {self.field} of the term, above {self.least:g}"


REGISTERED: dict[str, FrictionKind] = {}
"""The kinds that there are, by name."""


class _Registry(type):
    """Makes the class iterable over its registered kinds, each also an attribute by its name in capitals."""

    def __iter__(cls) -> Iterator[FrictionKind]:
        return iter(sorted(REGISTERED.values(), key=lambda kind: (kind.thermal, kind.code, kind.name)))

    def __len__(cls) -> int:
        return len(REGISTERED)

    def __getitem__(cls, name: str) -> FrictionKind:
        try:
            return REGISTERED[name.lower()]
        except KeyError:
            raise InputError(f"unknown friction term {name!r}", f"choose from {', '.join(map(str, cls))}") from None

    def __getattr__(cls, name: str) -> FrictionKind:
        if not name.isupper() or name.lower() not in REGISTERED:
            raise AttributeError(name)
        return REGISTERED[name.lower()]


@dataclass(frozen=True, eq=False)
class FrictionKind(metaclass=_Registry):
    """A kind of friction term, linear in its coefficient.

    name: in robot files, requests and messages; symbol: of the coefficient, without the joint's number; column: the
    factor of the coefficient; units: of the coefficient, for a revolute and a prismatic joint; formula and meaning: for
    people; code: number in runtime files, which never changes. positive: whether the coefficient must not be negative,
    since it brakes; loaded: whether it grows with |tau_r|; thermal: whether it needs the drive's temperature, viscous:
    and changes Fv with it, not Fc; shape: what it is not linear in. automatic: tried unasked; evidence: how many times
    its scatter the gain of a new term of this kind must be at least, where forces that are not in the model look like
    it.
    """

    name: str
    symbol: str
    column: Callable[[Symbols], Any]
    units: tuple[str, str]
    formula: str
    meaning: str
    code: int
    positive: bool = True
    loaded: bool = False
    thermal: bool = False
    viscous: bool = False
    shape: Shape | None = None
    automatic: bool = True
    evidence: float = 0.0

    def __str__(self) -> str:
        """Return the name in robot files and requests."""
        return self.name

    def __repr__(self) -> str:
        """Return how to find it."""
        return f"FrictionKind[{self.name!r}]"

    def __reduce__(self) -> tuple[Callable[[str], FrictionKind], tuple[str]]:
        """Be the same object in another process: there is one of a name."""
        return _of_name, (self.name,)


def register(kind: FrictionKind) -> FrictionKind:
    """Add a kind to those that there are, and return it."""
    for other in FrictionKind:
        clash = other.name == kind.name or other.symbol == kind.symbol
        if clash or (other.thermal == kind.thermal and other.code == kind.code):
            raise InputError(f"friction terms {other} and {kind} have the same name, symbol or code", "change one")
    REGISTERED[kind.name] = kind
    return kind


def _of_name(name: str) -> FrictionKind:
    return FrictionKind[name]
