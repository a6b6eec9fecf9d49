# SPDX-License-Identifier: Apache-2.0

"""Friction beyond Fv dq + Fc sign(dq) + off: kinds of terms, one definition each, and the terms of a joint's law.

With v the joint's speed, tau_r the torque that its gear carries (links and rotor, no friction) and T the temperature of
its drive, each term is linear in its coefficient, among them

    load                 Fl |tau_r| sign(v)              Coulomb friction that grows with the load on the gear
    stribeck             Fs exp(-(v / vs)^2) sign(v)     friction that decreases with speed; vs is its shape
    temperature          Ft (T - T0) sign(v)             Coulomb friction that changes with the temperature

Those of the temperature make Fc and Fv linear in it: Fv (1 + c (T - T0)) with c = Ftv / Fv. Where T is not known it is
T0, and they are zero. A new kind is one more `register(FrictionKind(...))`: columns, torques, generated code, the C++
header, names, units and documentation all come from it.

A kind gives its column once, in symbols of the joint's motion. NumPy arrays and derivatives (dynamics/friction.py),
generated C and NumPy code (codegen/functions.py) and the header of the C++ runtime
(codegen/runtime_header.py) each bring their own symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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


register(
    FrictionKind(
        name="asymmetric",
        symbol="Fva",
        column=lambda x: x.absolute(x.v),
        units=("N.m.s/rad", "N.s/m"),
        formula="Fva |v|",
        meaning="viscous friction that differs between the directions",
        code=0,
        positive=False,
        evidence=4.0,  # it takes over all that is even in speed: a gain of 2.9 times its scatter on a Panda is none
    )
)

register(
    FrictionKind(
        name="cubic",
        symbol="Fcub",
        column=lambda x: x.v * x.v * x.v,
        units=("N.m.s^3/rad^3", "N.s^3/m^3"),
        formula="Fcub v^3",
        meaning="viscous friction that grows faster than the speed",
        code=1,
        # it takes over forces of the fastest moves, which few folds have: 1.4 on a KR300, 2.0 on a TX-40, where 2.7 and
        # more are true terms of simulated arms
        evidence=2.5,
    )
)

register(
    FrictionKind(
        name="load",
        symbol="Fl",
        column=lambda x: x.sign * x.load,
        units=("1", "1"),
        formula="Fl |tau_r| sign(v)",
        meaning="Coulomb friction that grows with the load on the gear",
        code=4,
        loaded=True,
    )
)

register(
    FrictionKind(
        name="load_viscous",
        symbol="Flv",
        column=lambda x: x.v * x.load,
        units=("s/rad", "s/m"),
        formula="Flv |tau_r| v",
        meaning="viscous friction that grows with the load on the gear",
        code=5,
        loaded=True,
    )
)

register(
    FrictionKind(
        name="power",
        symbol="Fp",
        column=lambda x: x.sign * x.power(x.v, x.shape),
        units=("N.m.(s/rad)^p", "N.(s/m)^p"),
        formula="Fp |v|^p sign(v)",
        meaning="viscous friction with an exponent of its own, p",
        code=6,
        # 1 is viscous friction, which every joint has; below 0.2 it is Coulomb's, and no gear or lubricant shows 5
        shape=Shape(
            "p",
            "exponent",
            logarithmic=False,
            tried=(0.4, 0.65, 1.5, 2.2, 3.2),
            relative=False,
            least=0.2,
            most=5.0,
            gap=(0.9, 1.1),
        ),
        automatic=False,  # root and cubic stand for powers: a free one beside them fits whatever is left
    )
)

register(
    FrictionKind(
        name="root",
        symbol="Frt",
        column=lambda x: x.sign * x.root(x.v),
        units=("N.m.(s/rad)^0.5", "N.(s/m)^0.5"),
        formula="Frt sqrt(|v|) sign(v)",
        meaning="viscous friction that grows slower than the speed",
        code=2,
    )
)

register(
    FrictionKind(
        name="stribeck",
        symbol="Fs",
        column=lambda x: x.sign * x.gauss(x.v, x.shape),
        units=("N.m", "N"),
        formula="Fs exp(-(v / vs)^2) sign(v)",
        meaning="friction that decreases with speed; vs is its shape",
        code=3,
        # Slower than the first the rows are left out as too slow, faster than the last it is hard to tell from viscous
        # friction that grows with the speed. Each is 1.6 times the one before: with the column of its change beside it,
        # the best of them misses the true term by a few percent, and a step of Gauss and Newton goes the right way.
        shape=Shape("vs", "speed", logarithmic=True, tried=(0.04, 0.065, 0.105, 0.17), relative=True),
    )
)

register(
    FrictionKind(
        name="temperature",
        symbol="Ft",
        column=lambda x: x.sign * x.warmth,
        units=("N.m/K", "N/K"),
        formula="Ft (T - T0) sign(v)",
        meaning="Coulomb friction that changes with the temperature",
        code=0,
        positive=False,
        thermal=True,
    )
)

register(
    FrictionKind(
        name="temperature_viscous",
        symbol="Ftv",
        column=lambda x: x.v * x.warmth,
        units=("N.m.s/(rad.K)", "N.s/(m.K)"),
        formula="Ftv (T - T0) v",
        meaning="viscous friction that changes with the temperature",
        code=1,
        positive=False,
        thermal=True,
        viscous=True,
    )
)


ABSOLUTE_ZERO = -273.15
"""[deg C]"""


@dataclass(frozen=True)
class FrictionTerm:
    """A term of joint number `joint` with its coefficient and standard deviation (None: not known).

    speed: vs of a Stribeck term [rad/s or m/s]; 0 for the others; speed_std: its standard deviation (None: not known).
    exponent: p of a power term; 0 for the others; exponent_std: its standard deviation. reference: T0 of a term that
    changes with the temperature [deg C]; 0 for the others. recorded_speed: fastest speed of the recordings that it was
    identified from [rad/s or m/s]; faster, its column keeps the value that it has there; 0: not known, no bound.
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
    recorded_speed: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a term without meaning."""
        if self.of_shape and self.kind.shape is None:
            raise InputError(f"a friction term of kind {self.kind} takes no shape", "omit of_shape")
        where = f"friction term {self.name}"
        if not isfinite(self.coefficient) or (self.positive and self.coefficient < 0.0):
            allowed = "a number that is not negative" if self.positive else "a finite number"
            raise InputError(f"{where} has coefficient {self.coefficient:g}", f"give {allowed}")
        for std in (self.std, self.speed_std, self.exponent_std):
            if std is not None and not (isfinite(std) and std >= 0.0):
                raise InputError(f"{where} has standard deviation {std:g}", "give a number that is not negative")
        self._check_shapes(where)
        if not (isfinite(self.recorded_speed) and self.recorded_speed >= 0.0):
            what = f"{where} has recorded_speed {self.recorded_speed:g}"
            raise InputError(what, "give a speed that is not negative [rad/s or m/s]")
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
