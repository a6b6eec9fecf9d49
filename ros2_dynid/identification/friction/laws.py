"""Friction laws as a request names them: auto, plain, or terms by name, for all joints or for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import Array, Robot

AUTO, PLAIN = "auto", "viscous+coulomb"
STRIBECK_SHARES = (0.04, 0.065, 0.105, 0.17)
"""Speeds vs that a Stribeck term is tried with, as shares of the joint's top speed: slower than the first the rows are
left out as too slow, faster than the last it is hard to tell from viscous friction that grows with the speed. Each is
1.6 times the one before: from the best of them a step of Gauss and Newton goes the right way."""
AUTOMATIC = tuple(FrictionKind)


def candidates(robot: Robot, top_speed: Array) -> tuple[FrictionTerm, ...]:
    """Return every term that each active joint may have, with coefficient zero; top_speed: shape (n_active,)."""
    return tuple(
        term
        for joint, top in zip(robot.active, top_speed, strict=True)
        for kind in AUTOMATIC
        for term in _variants(joint, kind, float(top))
    )


def given_terms(robot: Robot, law: str, top_speed: Array) -> tuple[FrictionTerm, ...]:
    """Return the terms of a law such as "load+stribeck", or "elbow=load,wrist=cubic+load"; plain parts add nothing.

    A Stribeck term that is named stands for all its speeds: the best one is chosen.
    """
    by_joint = dict(_named(robot, law))
    return tuple(
        term
        for joint, top in zip(robot.active, top_speed, strict=True)
        for kind in by_joint.get(joint, ())
        for term in _variants(joint, kind, float(top))
    )


def check_law(law: str) -> None:
    """Refuse a law that names an unknown term; joints are checked where the robot is known."""
    if law == AUTO:
        return
    for part in law.split(","):
        _kinds(part.split("=", 1)[-1], law)


def _variants(joint: int, kind: FrictionKind, top: float) -> list[FrictionTerm]:
    if kind is FrictionKind.STRIBECK:
        return [FrictionTerm(joint, kind, speed=share * top) for share in STRIBECK_SHARES if top > 0.0]
    return [FrictionTerm(joint, kind)]


def _named(robot: Robot, law: str) -> list[tuple[int, Sequence[FrictionKind]]]:
    if "=" not in law:
        kinds = _kinds(law, law)
        return [(joint, kinds) for joint in robot.active]
    numbers = dict(zip(robot.active_names, robot.active, strict=True))
    found: list[tuple[int, Sequence[FrictionKind]]] = []
    for part in law.split(","):
        name, _, text = part.partition("=")
        if name not in numbers:
            raise InputError(f"friction names the joint {name!r}", f"the robot has {', '.join(numbers)}")
        found.append((numbers[name], _kinds(text, law)))
    return found


def _kinds(text: str, law: str) -> list[FrictionKind]:
    known = {str(kind): kind for kind in FrictionKind}
    kinds = []
    for word in text.split("+"):
        if word in known:
            kinds.append(known[word])
        elif word not in ("viscous", "coulomb"):
            cure = f"write auto, or terms from viscous, coulomb, {', '.join(known)} with + between them"
            raise InputError(f"friction {law!r} has the unknown term {word!r}", cure)
    return kinds


def top_speeds(speeds: Sequence[Array]) -> Array:
    """Return the largest speed of each joint over several recordings, shape (n,)."""
    return np.asarray(np.max(np.array(speeds), axis=0))
