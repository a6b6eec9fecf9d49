# SPDX-License-Identifier: Apache-2.0

"""The true collision shapes of a URDF, meshes included, by the library coal (optional).

The search keeps capsules apart, which cover the shapes. This module checks links that are too close together for
capsules: where such a pair touches, it narrows the range of a joint between them, so that no motion reaches that place.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import MissingPackageError
from ros2_dynid.excitation.shapes import Solid
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

Pair = tuple[str, str]
STEPS = 72
"""Positions of a joint at which pairs are checked, per turn or over the range of a prismatic joint."""
GUARD_M = 0.004
"""Shapes closer than this [m] count as touching: a guard for motion between those positions."""


def available() -> bool:
    """Return whether coal is installed."""
    return importlib.util.find_spec("coal") is not None


def import_coal() -> ModuleType:
    """Return the library coal, or refuse without it."""
    try:
        return importlib.import_module("coal")
    except ImportError:
        raise MissingPackageError("coal", "measuring distances between meshes") from None


def exact_clearance(
    robot: Robot, solids: Sequence[Solid], q: Array, *, only: Sequence[Pair] | None = None
) -> tuple[float, str]:
    """Return the smallest distance [m] between links that are not neighbours at poses q, shape (N, n_active).

    Zero or less if shapes overlap; the second value names the links. `only`: the pairs of links to check.
    """
    coal = import_coal()
    bodies = [_geometry(coal, solid) for solid in solids]
    parents = [0, *(joint.parent for joint in robot.joints)]
    selected_pairs = None if only is None else {frozenset(pair) for pair in only}
    pairs = [
        (i, k)
        for i, one in enumerate(solids)
        for k, two in enumerate(solids[:i])
        if one.joint != two.joint and parents[one.joint] != two.joint and parents[two.joint] != one.joint
        if selected_pairs is None or frozenset((one.link, two.link)) in selected_pairs
    ]
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.enable_signed_distance = True
    best, text = np.inf, "nothing"
    for frame in frames(robot, q):
        poses = [_to_transform(coal, solid, frame) for solid in solids]
        for i, k in pairs:
            result.clear()
            distance = coal.distance(bodies[i], poses[i], bodies[k], poses[k], request, result)
            if distance < best:
                best, text = float(distance), f"{solids[i].link} and {solids[k].link}"
    return best, text


def narrowed(
    robot: Robot, solids: Sequence[Solid], close: Sequence[Pair], *, start: Sequence[float] | None = None
) -> tuple[Robot, tuple[str, ...]]:
    """Return the robot with joint ranges in which links of `close` pairs do not touch, and notes on what was done.

    The range is the longest one that is free at every position of the other joint between the links; it contains
    `start`, shape (n_active,), if given. A pair that more than two joints move, or that touches everywhere, is only
    noted.
    """
    coal = import_coal()
    notes = []
    for pair in close:
        between = _between(robot, *(next(s.joint for s in solids if s.link == link) for link in pair))
        text = f"{pair[0]} and {pair[1]}"
        if not 1 <= len(between) <= 2:
            notes.append(f"{text} are too close to be checked for collision: watch them in a rehearsal")
            continue
        touching = find_touching(coal, robot, [s for s in solids if s.link in pair], between)
        if not touching.any():
            continue
        ranges = [
            find_free_range(
                robot,
                j,
                np.asarray(touching.any(axis=1 - axis)),
                None if start is None else start[robot.active.index(j)],
            )
            for axis, j in enumerate(between)
        ]
        j, free_range = max(
            zip(between, ranges, strict=True), key=lambda item: -1.0 if item[1] is None else np.ptp(item[1])
        )
        if free_range is None:
            notes.append(f"{text} touch in poses that no joint limit excludes: watch them in a rehearsal")
            continue
        joint = robot.joints[j - 1]
        limits = replace(joint.limits, lower=free_range[0], upper=free_range[1])
        joints = [*robot.joints[: j - 1], replace(joint, limits=limits), *robot.joints[j:]]
        robot = replace(robot, joints=tuple(joints))
        notes.append(
            f"joint {joint.name} is limited to {free_range[0]:.4g} .. {free_range[1]:.4g}: beyond, {text} would touch"
        )
    return robot, tuple(notes)


def _between(robot: Robot, one: int, two: int) -> list[int]:
    """Return the joints that move link carriers `one` and `two` against each other, none if one of them is passive."""
    chains = []
    for j in (one, two):
        chain = set()
        while j:
            chain.add(j)
            j = robot.joints[j - 1].parent
        chains.append(chain)
    between = sorted(chains[0] ^ chains[1])
    return between if set(between) <= set(robot.active) else []


def grid_positions(robot: Robot, j: int) -> tuple[Array, NDArray[np.intp]]:
    """Return the positions of joint j that are checked [rad or m], and the index of each in the table."""
    joint = robot.joints[j - 1]
    lower, upper = max(joint.limits.lower, -1e3), min(joint.limits.upper, 1e3)
    if joint.sigma == PRISMATIC:
        return np.linspace(lower, upper, STEPS), np.arange(STEPS)
    if not np.isfinite(joint.limits.lower + joint.limits.upper):
        lower, upper = -np.pi, np.pi
    step = 2.0 * np.pi / STEPS
    number = np.arange(np.ceil(lower / step), np.floor(upper / step) + 1).astype(int)
    return step * number, number % STEPS


def find_touching(coal: ModuleType, robot: Robot, solids: Sequence[Solid], between: Sequence[int]) -> NDArray[np.bool_]:
    """Return where the first link's shapes touch the other's, a table over the positions of the joints between."""
    first = [s for s in solids if s.link == solids[0].link]
    other = [s for s in solids if s.link != solids[0].link]
    bodies = {id(s): _geometry(coal, s) for s in solids}
    request, result = coal.CollisionRequest(), coal.CollisionResult()
    request.security_margin = GUARD_M
    grids = [
        dict(zip(places.tolist(), values, strict=True))
        for values, places in (grid_positions(robot, j) for j in between)
    ]
    cells = [(a, *rest) for a in grids[0] for rest in ([(b,) for b in grids[1]] if len(grids) > 1 else [()])]
    q = np.zeros((len(cells), len(robot.active)))
    for axis, j in enumerate(between):
        q[:, robot.active.index(j)] = [grids[axis][cell[axis]] for cell in cells]
    table = np.zeros((STEPS,) * len(between), dtype=bool)
    for cell, frame in zip(cells, frames(robot, q), strict=True):
        for one in first:
            for two in other:
                result.clear()
                placed_bodies = [part for s in (one, two) for part in (bodies[id(s)], _to_transform(coal, s, frame))]
                table[cell] |= coal.collide(*placed_bodies, request, result) > 0
    return table if len(between) > 1 else table[:, None]


def find_free_range(
    robot: Robot, j: int, blocked: NDArray[np.bool_], start: float | None
) -> tuple[float, float] | None:
    """Return the longest range of joint j without a blocked place, the one around `start` if that is given."""
    limits = robot.joints[j - 1].limits
    values, places = grid_positions(robot, j)
    free = ~blocked[places]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], free, [False])).astype(int)))
    runs = []
    for first, behind in edges.reshape(-1, 2):
        low = limits.lower if first == 0 else values[first]
        high = limits.upper if behind == len(values) else values[behind - 1]
        if high > low and (start is None or low <= start <= high):
            runs.append((float(low), float(high)))
    return max(runs, key=lambda run: (round(np.ptp(run), 6), run[0] <= 0.0 <= run[1]), default=None)


def _to_transform(coal: ModuleType, solid: Solid, frame: Array) -> object:
    """Return a shape's pose, given the frames of all joints, shape (n, 4, 4)."""
    T = (np.eye(4) if solid.joint == 0 else frame[solid.joint - 1]) @ solid.pose
    return coal.Transform3s(T[:3, :3], T[:3, 3])


def _geometry(coal: ModuleType, solid: Solid) -> object:
    """Return the shape as coal has it."""
    if solid.kind == "sphere":
        return coal.Sphere(solid.size[0])
    if solid.kind == "cylinder":
        return coal.Cylinder(solid.size[0], solid.size[1])
    if solid.kind == "capsule":
        return coal.Capsule(solid.size[0], solid.size[1])
    if solid.kind == "box":
        return coal.Box(*solid.size)
    corners = solid.triangles.reshape(-1, 3)
    model = coal.BVHModelOBBRSS()
    model.beginModel(len(solid.triangles), len(corners))
    model.addVertices(corners)
    model.addTriangles(np.arange(len(corners)).reshape(-1, 3))
    model.endModel()
    return model
