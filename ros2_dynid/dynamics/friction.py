# SPDX-License-Identifier: Apache-2.0

"""Friction of the joints, batched: Fv dq + Fc sign(dq) + off, and further terms.

Derivatives of friction terms by speed and by shape, from the one definition of their columns: dual numbers. A dual
number holds a value and its derivative; the column of a term, evaluated with them, gives both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm, Symbols
from ros2_dynid.model.parameters import JOINT, OFF, Fc, Fv, group_of, standard_names
from ros2_dynid.model.robot import Array, Robot


def friction_torque(chi: Array, dq: Array) -> Array:
    """Return Fv dq + Fc sign(dq) + off, shape (n, N), for chi of shape (n, JOINT) and dq of shape (n, N)."""
    return chi[:, Fv, None] * dq + chi[:, Fc, None] * np.sign(dq) + chi[:, OFF, None]


def add_friction_columns(Y: Array, dq: Array) -> None:
    """Write the columns of Fv, Fc and off into Y, shape (n_standard, n, N), for dq of shape (n, N)."""
    for j in range(dq.shape[0]):
        Y[JOINT * j + Fv, j] = dq[j]
        Y[JOINT * j + Fc, j] = np.sign(dq[j])
        Y[JOINT * j + OFF, j] = 1.0


def frictionless(robot: Robot, chi: Array) -> tuple[Robot, Array]:
    """Return the robot without its friction terms, and chi, shape (n_standard,), without friction and offsets."""
    return replace(robot, friction=()), without_friction(robot, chi)


def without_friction(robot: Robot, chi: Array) -> Array:
    """Return chi, shape (n_standard,), with friction and offsets set to zero; the robot's own terms are not in chi."""
    is_rigid = [group_of(name) not in ("friction", "offset") for name in standard_names(robot)]
    return np.where(is_rigid, chi, 0.0)


TINY = 1e-9
"""Speed [rad/s or m/s] below which a root has no slope."""


@dataclass(frozen=True, eq=False)
class Dual:
    """A value and its derivative, arrays of one shape."""

    value: Array
    slope: Array

    def __mul__(self, other: Dual) -> Dual:
        """Return the product."""
        return Dual(self.value * other.value, self.slope * other.value + self.value * other.slope)


@dataclass(frozen=True, eq=False)
class DualSymbols:
    """The motion of one joint as dual numbers (model/friction_kinds.py); shape_slope: derivative of the shape."""

    v: Dual
    sign: Dual
    load: Dual
    warmth: Dual
    shape: float
    shape_slope: float = 0.0

    def absolute(self, x: Dual) -> Dual:
        """Return |x|."""
        return Dual(np.abs(x.value), np.sign(x.value) * x.slope)

    def root(self, x: Dual) -> Dual:
        """Return sqrt(|x|)."""
        return self.power(x, 0.5, 0.0)

    def gauss(self, x: Dual, width: float) -> Dual:
        """Return exp(-(x / width)^2), where width is the shape."""
        bell = np.exp(-((x.value / width) ** 2))
        inner = x.slope - x.value / width * self.shape_slope
        return Dual(bell, -2.0 * x.value / width**2 * inner * bell)

    def power(self, x: Dual, exponent: float, exponent_slope: float | None = None) -> Dual:
        """Return |x|^exponent, where the exponent is the shape unless its slope is given."""
        size = np.abs(x.value)
        value, least = size**exponent, np.maximum(size, TINY)
        slope = np.sign(x.value) * exponent * least ** (exponent - 1.0) * x.slope
        changes = self.shape_slope if exponent_slope is None else exponent_slope
        return Dual(value, slope + changes * value * np.log(np.where(size > 0.0, size, 1.0)) if changes else slope)


def column_slopes(
    term: FrictionTerm, v: Array, sign: Array, turn: Array, gear_torque: Array
) -> tuple[Array, Array, Array]:
    """Return a term's column and its derivatives by v and by the gear torque, each as v; turn: d sign / d v."""
    zero, load, capped_speed = np.zeros_like(v), np.abs(gear_torque), _recorded(term, v)
    speed = Dual(capped_speed, np.where(capped_speed == v, 1.0, 0.0))
    moving = DualSymbols(speed, Dual(sign, turn), Dual(load, zero), Dual(zero, zero), term.shape)
    by_torque = Dual(load, np.sign(gear_torque))
    loading = DualSymbols(Dual(capped_speed, zero), Dual(sign, zero), by_torque, Dual(zero, zero), term.shape)
    by_speed: Any = term.kind.column(moving)
    by_load: Any = term.kind.column(loading)
    return by_speed.value, by_speed.slope, by_load.slope


def shape_slope(kind: FrictionKind, symbols: Symbols) -> tuple[Array, Array]:
    """Return a column, and how it changes with its shape, or with the logarithm of it; symbols: of arrays."""
    assert kind.shape is not None
    change = symbols.shape if kind.shape.logarithmic else 1.0
    v, sign, load, warmth = (Dual(x, np.zeros_like(x)) for x in (symbols.v, symbols.sign, symbols.load, symbols.warmth))
    column: Any = kind.column(DualSymbols(v, sign, load, warmth, symbols.shape, change))
    return np.asarray(column.value), np.asarray(column.slope)


LOCKED = 0.95
"""Largest share of the gear torque that friction takes: at 1 the gear would lock."""


@dataclass(frozen=True, eq=False)
class ArraySymbols:
    """The motion of one joint as arrays of any one shape (model/friction_kinds.py)."""

    v: Array
    sign: Array
    load: Array
    warmth: Array
    shape: float

    def absolute(self, x: Array) -> Array:
        """Return |x|."""
        return np.abs(x)

    def root(self, x: Array) -> Array:
        """Return sqrt(|x|)."""
        return np.asarray(np.sqrt(np.abs(x)))

    def gauss(self, x: Array, width: float) -> Array:
        """Return exp(-(x / width)^2)."""
        return np.asarray(np.exp(-((x / width) ** 2)))

    def power(self, x: Array, exponent: float) -> Array:
        """Return |x|^exponent."""
        return np.asarray(np.abs(x) ** exponent)


def term_column(
    term: FrictionTerm, v: Array, sign: Array, gear_torque: Array, temperature: Array | None = None
) -> Array:
    """Return the factor of a term's coefficient, for v, sign(v) and the gear torque of its joint, any one shape.

    temperature: of the drive [deg C], in that shape; None or NaN: not known, and taken as the term's reference.
    """
    symbols = _array_symbols(term, v, sign, gear_torque, temperature)
    if term.of_shape:
        return shape_slope(term.kind, symbols)[1]
    return np.asarray(term.kind.column(symbols))


def column_and_shape(
    term: FrictionTerm, v: Array, sign: Array, gear_torque: Array, temperature: Array | None = None
) -> tuple[Array, Array]:
    """Return the columns of a term and of its shape at once; arguments as in term_column."""
    return shape_slope(term.kind, _array_symbols(term, v, sign, gear_torque, temperature))


def _array_symbols(
    term: FrictionTerm, v: Array, sign: Array, gear_torque: Array, temperature: Array | None
) -> ArraySymbols:
    return ArraySymbols(_recorded(term, v), sign, np.abs(gear_torque), _warmth(term, v, temperature), term.shape)


def _recorded(term: FrictionTerm, v: Array) -> Array:
    """Return v, held at the fastest speed that the term was identified from: no recording says how it goes on."""
    if term.recorded_speed == 0.0 or term.kind.thermal:  # the latter change Fc and Fv
        return v
    return np.asarray(np.clip(v, -term.recorded_speed, term.recorded_speed))


def column_at_rest(term: FrictionTerm, load: float = 1.0) -> float:
    """Return what a term of coefficient 1 brakes with right after standstill, at that load on the gear."""
    zero, one = np.zeros(1), np.ones(1)
    return float(term_column(term, zero, one, load * one)[0])


def _warmth(term: FrictionTerm, v: Array, temperature: Array | None) -> Array:
    """Return T - T0 in the shape of v, zero where the temperature is not known."""
    if temperature is None or not term.kind.thermal:
        return np.zeros_like(v)
    return np.where(np.isfinite(temperature), temperature - term.reference, 0.0)


def terms_torque(robot: Robot, dq: Array, sign: Array, gear_torque: Array, temperature: Array | None = None) -> Array:
    """Return the torque of the robot's friction terms, shape (..., n_active), as dq, sign and gear_torque have it.

    temperature: of the drives [deg C], in that shape; None or NaN: not known.
    """
    tau = np.zeros_like(gear_torque)
    for column, term in active_terms(robot, robot.friction):
        v, s, load = (x[..., column] for x in (dq, sign, gear_torque))
        warmth = None if temperature is None else temperature[..., column]
        tau[..., column] += term.coefficient * term_column(term, v, s, load, warmth)
    return tau


def carried_torque(robot: Robot, tau: Array, dq: Array, sign: Array, temperature: Array | None = None) -> Array:
    """Return the torque x that the terms leave for links and rotors, shape (..., n_active).

    tau: motor torques less plain friction, of that shape as dq and sign; temperature: of the drives, as above.
    The terms brake with f + a |x|, where a holds those that grow with the load, so x + a |x| = tau - f. A gear does not
    take more than LOCKED of what it carries.
    """
    zero = np.zeros_like(tau)
    free = terms_torque(robot, dq, sign, zero, temperature)
    rest = tau - free
    a = terms_torque(robot, dq, sign, np.ones_like(tau), temperature) - free
    a = np.clip(a, -LOCKED, LOCKED)
    return np.asarray(rest / (1.0 + a * np.sign(rest)))


def active_terms(robot: Robot, terms: Sequence[FrictionTerm]) -> list[tuple[int, FrictionTerm]]:
    """Return the terms, each with the place of its joint among the active ones."""
    place = {joint: k for k, joint in enumerate(robot.active)}
    return [(place[term.joint], term) for term in terms]
