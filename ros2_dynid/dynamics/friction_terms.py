"""Torque of friction terms beyond Fv, Fc and off (model/friction_kinds.py), batched over samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import Array, Robot

LOCKED = 0.95
"""Largest share of the carried torque that friction takes: at 1 the gear would lock."""


def term_column(term: FrictionTerm, v: Array, sign: Array, carried: Array) -> Array:
    """Return the factor of a term's coefficient, for v, sign(v) and the carried torque of its joint, any one shape."""
    match term.kind:
        case FrictionKind.ASYMMETRIC:
            return np.abs(v)
        case FrictionKind.CUBIC:
            return np.asarray(v**3)
        case FrictionKind.ROOT:
            return np.asarray(sign * np.sqrt(np.abs(v)))
        case FrictionKind.STRIBECK:
            square = (v / term.speed) ** 2
            bell = sign * np.exp(-square)
            return np.asarray(2.0 * square * bell if term.of_speed else bell)
        case FrictionKind.LOAD:
            return np.asarray(sign * np.abs(carried))
        case FrictionKind.LOAD_VISCOUS:
            return np.asarray(v * np.abs(carried))


def terms_torque(robot: Robot, dq: Array, sign: Array, carried: Array) -> Array:
    """Return the torque of the robot's friction terms, shape (..., n_active), as dq, sign and carried have it."""
    tau = np.zeros_like(carried)
    for column, term in active_terms(robot, robot.friction):
        values = (x[..., column] for x in (dq, sign, carried))
        tau[..., column] += term.coefficient * term_column(term, *values)
    return tau


def carried_torque(robot: Robot, tau: Array, dq: Array, sign: Array) -> Array:
    """Return the torque x that the terms leave for links and rotors, shape (..., n_active).

    tau: motor torques less plain friction, of that shape as dq and sign.
    The terms brake with f + a |x|, where a holds those that grow with the load, so x + a |x| = tau - f. A gear does not
    take more than LOCKED of what it carries.
    """
    zero = np.zeros_like(tau)
    rest = tau - terms_torque(robot, dq, sign, zero)
    a = terms_torque(robot, dq, sign, np.ones_like(tau)) - terms_torque(robot, dq, sign, zero)
    a = np.clip(a, -LOCKED, LOCKED)
    return np.asarray(rest / (1.0 + a * np.sign(rest)))


def active_terms(robot: Robot, terms: Sequence[FrictionTerm]) -> list[tuple[int, FrictionTerm]]:
    """Return the terms, each with the place of its joint among the active ones."""
    place = {joint: k for k, joint in enumerate(robot.active)}
    return [(place[term.joint], term) for term in terms]
