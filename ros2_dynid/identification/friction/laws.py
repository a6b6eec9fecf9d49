# SPDX-License-Identifier: Apache-2.0

"""Friction laws as a request names them: auto, plain, or terms by name, for all joints or for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import DRIVE
from ros2_dynid.model.friction import FrictionKind, FrictionTerm, shaped_term
from ros2_dynid.model.robot import Array, Robot

AUTO, PLAIN = "auto", "viscous+coulomb"
WARMED = 2.0
"""Temperatures that changed by less [K] are not tried: drives tell theirs in whole degrees."""


def candidates(robot: Robot, top_speed: Array, temperatures: Array | None = None) -> tuple[FrictionTerm, ...]:
    """Return every term that each active joint may have, with coefficient zero; top_speed: shape (n_active,).

    temperatures: lowest and highest of each joint's drive, shape (2, n_active) [deg C]; None or NaN: not known.
    A joint whose effort is measured at the link has no terms.
    """
    ranges = _ranges(robot, temperatures)
    return tuple(
        term
        for joint, top, (low, high) in zip(robot.active, top_speed, ranges, strict=True)
        for kind in (FrictionKind if robot.joints[joint - 1].felt == DRIVE else ())
        if kind.automatic and (not kind.thermal or high - low >= WARMED)
        for term in _variants(joint, kind, float(top), 0.5 * (low + high))
    )


def near_standstill(
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


def given_terms(
    robot: Robot, law: str, top_speed: Array, temperatures: Array | None = None
) -> tuple[FrictionTerm, ...]:
    """Return the terms of a law such as "load+stribeck", or "elbow=load,wrist=cubic+load"; plain parts add nothing.

    A Stribeck or power term that is named stands for all its shapes: the best one is chosen. Else as `candidates`.
    """
    by_joint = dict(_named(robot, law))
    found: list[FrictionTerm] = []
    for joint, top, (low, high) in zip(robot.active, top_speed, _ranges(robot, temperatures), strict=True):
        for kind in by_joint.get(joint, ()):
            if kind.thermal and not high > low:
                name = robot.joints[joint - 1].name
                changed = "does not change" if np.isfinite(low) else "is not recorded"
                what = f"friction asks for {kind}, but the temperature of joint {name!r} {changed}"
                raise InputError(what, f"record {name}.temperature while the drive warms up, or name other terms")
            found += _variants(joint, kind, float(top), 0.5 * (low + high))
    return tuple(found)


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


def _named(robot: Robot, law: str) -> list[tuple[int, Sequence[FrictionKind]]]:
    if "=" not in law:
        kinds = _kinds(law, law)
        return [(joint, kinds) for joint in robot.active if robot.joints[joint - 1].felt == DRIVE]
    numbers = dict(zip(robot.active_names, robot.active, strict=True))
    found: list[tuple[int, Sequence[FrictionKind]]] = []
    for part in law.split(","):
        name, _, text = part.partition("=")
        if name not in numbers:
            raise InputError(f"friction names the joint {name!r}", f"the robot has {', '.join(numbers)}")
        if robot.joints[numbers[name] - 1].felt != DRIVE:
            hint = "leave the joint out, or declare its sensor as motor"
            raise InputError(f"friction names {name!r}, whose effort is measured at the link", hint)
        found.append((numbers[name], _kinds(text, law)))
    return found


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


def top_speeds(speeds: Sequence[Array]) -> Array:
    """Return the largest speed of each joint over several recordings, shape (n,)."""
    return np.asarray(np.max(np.array(speeds), axis=0))
