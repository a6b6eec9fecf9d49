# SPDX-License-Identifier: Apache-2.0

"""Derivatives of friction terms by speed and by shape, from the one definition of their columns: dual numbers.

A dual number holds a value and its derivative; the column of a term, evaluated with them, gives both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ros2_dynid.model.friction import FrictionKind, Symbols
from ros2_dynid.model.robot import Array

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
    """The motion of one joint as dual numbers (model/friction/kind.py); shape_slope: derivative of the shape."""

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
    kind: FrictionKind, shape: float, v: Array, sign: Array, turn: Array, carried: Array
) -> tuple[Array, Array, Array]:
    """Return a column and its derivatives by v and by the carried torque, each as v; turn: d sign / d v."""
    zero, load = np.zeros_like(v), np.abs(carried)
    moving = DualSymbols(Dual(v, zero + 1.0), Dual(sign, turn), Dual(load, zero), Dual(zero, zero), shape)
    loading = DualSymbols(Dual(v, zero), Dual(sign, zero), Dual(load, np.sign(carried)), Dual(zero, zero), shape)
    by_speed: Any = kind.column(moving)
    by_load: Any = kind.column(loading)
    return by_speed.value, by_speed.slope, by_load.slope


def shape_slope(kind: FrictionKind, symbols: Symbols) -> tuple[Array, Array]:
    """Return a column, and how it changes with its shape, or with the logarithm of it; symbols: of arrays."""
    assert kind.shape is not None
    change = symbols.shape if kind.shape.logarithmic else 1.0
    v, sign, load, warmth = (Dual(x, np.zeros_like(x)) for x in (symbols.v, symbols.sign, symbols.load, symbols.warmth))
    column: Any = kind.column(DualSymbols(v, sign, load, warmth, symbols.shape, change))
    return np.asarray(column.value), np.asarray(column.slope)
