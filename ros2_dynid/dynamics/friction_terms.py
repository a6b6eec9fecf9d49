# SPDX-License-Identifier: Apache-2.0

"""Torque of friction terms beyond Fv, Fc and off (model/friction_kinds.py), batched over samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.dynamics.friction_slopes import shape_slope
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

LOCKED = 0.95
"""Largest share of the carried torque that friction takes: at 1 the gear would lock."""


@dataclass(frozen=True, eq=False)
class ArraySymbols:
    """The motion of one joint as arrays of any one shape (model/friction/kind.py)."""

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


def term_column(term: FrictionTerm, v: Array, sign: Array, carried: Array, temperature: Array | None = None) -> Array:
    """Return the factor of a term's coefficient, for v, sign(v) and the carried torque of its joint, any one shape.

    temperature: of the drive [deg C], in that shape; None or NaN: not known, and taken as the term's reference.
    """
    symbols = ArraySymbols(v, sign, np.abs(carried), _warmth(term, v, temperature), term.shape)
    if term.of_shape:
        return shape_slope(term.kind, symbols)[1]
    return np.asarray(term.kind.column(symbols))


def column_and_shape(
    term: FrictionTerm, v: Array, sign: Array, carried: Array, temperature: Array | None = None
) -> tuple[Array, Array]:
    """Return the columns of a term and of its shape at once; arguments as in term_column."""
    symbols = ArraySymbols(v, sign, np.abs(carried), _warmth(term, v, temperature), term.shape)
    return shape_slope(term.kind, symbols)


def column_at_rest(term: FrictionTerm, load: float = 1.0) -> float:
    """Return what a term of coefficient 1 brakes with right after standstill, at that load on the gear."""
    zero, one = np.zeros(1), np.ones(1)
    return float(term_column(term, zero, one, load * one)[0])


def _warmth(term: FrictionTerm, v: Array, temperature: Array | None) -> Array:
    """Return T - T0 in the shape of v, zero where the temperature is not known."""
    if temperature is None or not term.kind.thermal:
        return np.zeros_like(v)
    return np.where(np.isfinite(temperature), temperature - term.reference, 0.0)


def terms_torque(robot: Robot, dq: Array, sign: Array, carried: Array, temperature: Array | None = None) -> Array:
    """Return the torque of the robot's friction terms, shape (..., n_active), as dq, sign and carried have it.

    temperature: of the drives [deg C], in that shape; None or NaN: not known.
    """
    tau = np.zeros_like(carried)
    for column, term in active_terms(robot, robot.friction):
        v, s, load = (x[..., column] for x in (dq, sign, carried))
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
