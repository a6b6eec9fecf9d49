# SPDX-License-Identifier: Apache-2.0

"""Friction in an identification: its columns in the regressor, and the laws that a request names.

The sign of a speed changes between two samples of a filtered motion. So the columns of Coulomb friction hold the sign
taken at the recording's own rate and filtered like the torque, instead of the sign of the filtered speed.

A shape, such as the speed vs of a Stribeck term, is estimated by a column of its own, the change of the term with log
vs or with the exponent. That is right for a small change only, so a fit may ask for one step at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.dynamics.friction import active_terms
from ros2_dynid.dynamics.kinematics import motion_of, velocity_ratios
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import DRIVE
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm, shaped_term
from ros2_dynid.model.parameters import JOINT, Fc, standard_names
from ros2_dynid.model.robot import Array, Robot


def signs(robot: Robot, q: Array, dq: Array) -> Array:
    """Return the sign of the speeds of all joints of the tree and of the coupled motors, shape (N, n + couplings)."""
    every = dq if not robot.passive_joints else motion_of(robot, q, dq).dq.T
    motors = [sum(c * every[:, j - 1] for j, c in coupling.weights.items()) for coupling in robot.coupling]
    return np.asarray(np.sign(np.column_stack([every, *motors])))


def put_signs(robot: Robot, Y: Array, q: Array, sign: Array) -> None:
    """Write the filtered signs, shape (N, n + couplings), into the Coulomb columns of Y (n_standard, n_active, N).

    q: of the active joints, shape (N, n_active): in closed loops the passive joints' friction acts through G(q).
    """
    G = velocity_ratios(robot, q if robot.loops else np.zeros((1, len(robot.active))))
    acts = np.any(G, axis=0)  # (n, n_active)
    for j in range(robot.n):
        for k in np.flatnonzero(acts[j]):
            Y[JOINT * j + Fc, k] = G[:, j, k] * sign[:, j]
    names = standard_names(robot)
    for m, coupling in enumerate(robot.coupling):
        column = Y[names.index(f"Fcm{coupling.motor}")]
        column[:] = 0.0
        for j, c in coupling.weights.items():
            for k in np.flatnonzero(acts[j - 1]):
                column[k] += c * G[:, j - 1, k] * sign[:, robot.n + m]


SHAPE_STEP = 0.47
"""Largest change of log vs, or of an exponent, in one round: a step of the grid that shapes are tried on."""


def change_shape(term: FrictionTerm, change: float) -> FrictionTerm:
    """Return the term with its shape, log vs or the exponent, changed by at most SHAPE_STEP and within its range."""
    assert term.kind.shape is not None
    return term.with_shape(term.kind.shape.changed(term.shape, float(np.clip(change, -SHAPE_STEP, SHAPE_STEP))))


AUTO, PLAIN = "auto", "viscous+coulomb"


def list_candidate_terms(
    robot: Robot,
    top_speed: Array,
    temperatures: Array | None = None,
    temperature_change: float = 0.0,
) -> tuple[FrictionTerm, ...]:
    """Return every term that each active joint may have, with coefficient zero; top_speed: shape (n_active,).

    temperatures: lowest and highest of each joint's drive, shape (2, n_active) [deg C]; None or NaN: not known.
    temperature_change: of a drive, the least [K] for its terms. A joint whose effort is measured at the link has none.
    """
    ranges = _ranges(robot, temperatures)
    return tuple(
        term
        for joint, top, (low, high) in zip(robot.active, top_speed, ranges, strict=True)
        for kind in (FrictionKind if robot.joints[joint - 1].measured_drive == DRIVE else ())
        if kind.automatic and (not kind.thermal or high - low >= temperature_change)
        for term in _variants(joint, kind, float(top), 0.5 * (low + high))
    )


def build_standstill_terms(
    robot: Robot, terms: Sequence[FrictionTerm], top_speed: Array, slow: float
) -> tuple[FrictionTerm, ...]:
    """Return one column for each joint of `terms`: what its friction lacks near standstill, whatever its law.

    A joint that reverses sticks for some milliseconds, in which its friction goes from one sign to the other; rows of
    other speeds feel that too, through their filter. How fast it goes is not known, only that it is over at the share
    `slow` of the top speed, below which rows are left out: half of that stands for it. Not a term: a column to compare
    laws with.
    """
    tops = dict(zip(robot.active, top_speed.tolist(), strict=True))
    speeds = {joint: 0.5 * slow * tops[joint] for joint in sorted({term.joint for term in terms})}
    return tuple(FrictionTerm(joint, FrictionKind.STRIBECK, speed=v) for joint, v in speeds.items() if v > 0.0)


def read_law_terms(
    robot: Robot, law: str, top_speed: Array, temperatures: Array | None = None
) -> tuple[FrictionTerm, ...]:
    """Return the terms of a law such as "load+stribeck", or "elbow=load,wrist=cubic+load"; plain parts add nothing.

    A Stribeck or power term that is named stands for all its shapes: the best one is chosen. Arguments and
    coefficients are those of `list_candidate_terms`.
    """
    by_joint = _kinds_by_joint(robot, law)
    terms: list[FrictionTerm] = []
    for joint, top, (low, high) in zip(robot.active, top_speed, _ranges(robot, temperatures), strict=True):
        for kind in by_joint.get(joint, ()):
            if kind.thermal and not high > low:
                name = robot.joints[joint - 1].name
                changed = "does not change" if np.isfinite(low) else "is not recorded"
                what = f"friction asks for {kind}, but the temperature of joint {name!r} {changed}"
                raise InputError(what, f"record {name}.temperature while the drive warms up, or name other terms")
            terms += _variants(joint, kind, float(top), 0.5 * (low + high))
    return tuple(terms)


def _ranges(robot: Robot, temperatures: Array | None) -> list[tuple[float, float]]:
    """Return the lowest and the highest temperature of each active joint, NaN where they are not known."""
    known = np.full((2, len(robot.active)), np.nan) if temperatures is None else temperatures
    return [(float(low), float(high)) for low, high in known.T]


def check_law(law: str) -> None:
    """Refuse a law that names an unknown term; joints are checked where the robot is known."""
    if law == AUTO:
        return
    for part in law.split(","):
        _kinds(part.split("=", 1)[-1], law)


def _variants(joint: int, kind: FrictionKind, top: float, middle: float) -> list[FrictionTerm]:
    """Return a kind's terms, one for each shape, followed by the column of how it changes with the shape.

    middle: of the temperatures, where they are known.
    """
    if kind.shape is None:
        return [FrictionTerm(joint, kind, reference=round(middle, 1) if kind.thermal else 0.0)]
    unit = top if kind.shape.relative else 1.0
    shapes = [share * unit for share in kind.shape.tried if unit > 0.0]
    terms = [shaped_term(joint, kind, shape) for shape in shapes]
    return [column for term in terms for column in (term, replace(term, of_shape=True))]


def _kinds_by_joint(robot: Robot, law: str) -> dict[int, list[FrictionKind]]:
    """Return the kinds of terms that a law names, by the number of the joint; without names, of all measured drives."""
    at_motor = {j: robot.joints[j - 1].measured_drive == DRIVE for j in robot.active}
    if "=" not in law:
        kinds = _kinds(law, law)
        return {joint: kinds for joint, measured in at_motor.items() if measured}
    numbers = dict(zip(robot.active_names, robot.active, strict=True))
    by_joint = {}
    for part in law.split(","):
        name, _, text = part.partition("=")
        if name not in numbers:
            raise InputError(f"friction names the joint {name!r}", f"the robot has {', '.join(numbers)}")
        if not at_motor[numbers[name]]:
            hint = "leave the joint out, or declare its sensor as motor"
            raise InputError(f"friction names {name!r}, whose effort is measured at the link", hint)
        by_joint[numbers[name]] = _kinds(text, law)
    return by_joint


def _kinds(text: str, law: str) -> list[FrictionKind]:
    known = {str(kind): kind for kind in FrictionKind}
    kinds = []
    for word in text.split("+"):
        if word in known:
            kinds.append(known[word])
        elif word not in ("viscous", "coulomb"):
            hint = f"write auto, or terms from viscous, coulomb, {', '.join(known)} with + between them"
            raise InputError(f"friction {law!r} has the unknown term {word!r}", hint)
    return kinds


def hold_beyond(robot: Robot, terms: Sequence[FrictionTerm], fastest: Array) -> tuple[FrictionTerm, ...]:
    """Return terms that keep their value beyond the fastest speed recorded of each active joint, `fastest` (n,)."""
    return tuple(replace(term, recorded_speed=float(fastest[k])) for k, term in active_terms(robot, terms))
