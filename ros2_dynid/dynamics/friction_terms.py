"""Torque of friction terms beyond Fv, Fc and off (model/friction_kinds.py), batched over samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import Array, Robot

LOCKED = 0.95
"""Largest share of the carried torque that friction takes: at 1 the gear would lock."""


def term_column(term: FrictionTerm, v: Array, sign: Array, carried: Array, temperature: Array | None = None) -> Array:
    """Return the factor of a term's coefficient, for v, sign(v) and the carried torque of its joint, any one shape.

    temperature: of the drive [deg C], in that shape; None or NaN: not known, and taken as the term's reference.
    """
    if term.of_shape:
        return shape_column(term, v, term_column(replace(term, of_shape=False), v, sign, carried, temperature))
    match term.kind:
        case FrictionKind.ASYMMETRIC:
            return np.abs(v)
        case FrictionKind.CUBIC:
            return np.asarray(v**3)
        case FrictionKind.ROOT:
            return np.asarray(sign * np.sqrt(np.abs(v)))
        case FrictionKind.STRIBECK:
            return np.asarray(sign * np.exp(-((v / term.speed) ** 2)))
        case FrictionKind.LOAD:
            return np.asarray(sign * np.abs(carried))
        case FrictionKind.LOAD_VISCOUS:
            return np.asarray(v * np.abs(carried))
        case FrictionKind.POWER:
            return np.asarray(sign * np.abs(v) ** term.exponent)
        case FrictionKind.TEMPERATURE:
            return np.asarray(sign * warmer(term, v, temperature))
        case FrictionKind.TEMPERATURE_VISCOUS:
            return np.asarray(v * warmer(term, v, temperature))


def shape_column(term: FrictionTerm, v: Array, column: Array) -> Array:
    """Return how a term's column changes with its shape, log vs or the exponent, given the column itself."""
    if term.kind is FrictionKind.STRIBECK:
        return np.asarray(2.0 * (v / term.speed) ** 2 * column)
    size = np.abs(v)
    return np.asarray(column * np.log(np.where(size > 0.0, size, 1.0)))


def warmer(term: FrictionTerm, v: Array, temperature: Array | None) -> Array:
    """Return T - T0 in the shape of v, zero where the temperature is not known."""
    if temperature is None:
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
