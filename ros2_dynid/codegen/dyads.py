# SPDX-License-Identifier: Apache-2.0

"""Planar loops with two passive joints, such as four-bars and slider-cranks, as triangles: a solution in closed form.

In the plane of the loop, with both passive joints at zero, the loop closes where

    R(phi_1) a + R(phi_2) b = D    for two revolute joints,
    R(phi_1) a = D + s z    for a revolute and a prismatic one,
    R(phi_1) (a + s z) = D    where that turns with the revolute one, as the rod of a cylinder.

a, b, D and z follow from the other joints; of the two solutions the one of the assembly is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.codegen.graph import Expr, Graph, evaluate
from ros2_dynid.codegen.loop_expressions import JOINTS, chain_end, point_of, scaled_frames, to_end
from ros2_dynid.codegen.newton_euler_expressions import Frame, Vector
from ros2_dynid.dynamics.elastic import paths
from ros2_dynid.dynamics.loops import loop_size
from ros2_dynid.model.forces import Pivot
from ros2_dynid.model.robot import Array, Robot

PLANES = {0: (1, 2), 1: (2, 0), 2: (0, 1)}
"""Axes of the plane across each axis, in the order in which turns about it are positive."""


@dataclass(frozen=True, eq=False)
class Dyad:
    """A loop: its passive joints (numbers, the revolute one first), their turns +-1, and the triangle's sides.

    second: b, or z of a prismatic joint; serial: whether the second joint turns with the first; branch: +-1.
    """

    joints: tuple[int, int]
    turns: tuple[float, float]
    slides: bool
    serial: bool
    a: Vector
    second: Vector
    D: Vector
    branch: float = 1.0


def find_dyads(graph: Graph, robot: Robot, assembly: Array) -> list[Dyad]:
    """Return the loops of a robot as triangles, if all of them are; assembly: closed positions of all joints, (n,)."""
    assert robot.loops is not None
    dyads = [_dyad(graph, robot, pair) for pair in robot.loops.pairs]
    found = [dyad for dyad in dyads if dyad is not None]
    joints = [j for dyad in found for j in dyad.joints]
    if len(found) < len(dyads) or sorted(joints) != sorted(robot.loops.passive):
        return []
    return [_on_branch(graph, robot, dyad, assembly) for dyad in found]


def _dyad(graph: Graph, robot: Robot, pair: tuple[Pivot, Pivot]) -> Dyad | None:
    """Return a loop as a triangle; None if it is not planar, or has other passive joints."""
    assert robot.loops is not None
    zero = scaled_frames(graph, robot, robot.loops.passive)
    sides = paths(lambda j: robot.joints[j - 1].parent, *pair)
    passive = [(j, side) for side in (0, 1) for j in sides[side] if j in robot.loops.passive]
    normal = _normal(graph, zero, sides)
    slides = [not zero[j - 1].revolute for j, _ in passive]
    if len(passive) != 2 or normal is None or all(slides):
        return None
    if any(slides):  # the revolute one first
        if passive[0][1] == passive[1][1] and slides == [False, True]:
            return None  # the slide carries the revolute joint
        passive = [passive[k] for k in np.argsort(slides)]
    plane = PLANES[normal]
    (j1, side1), (j2, side2) = passive
    serial = side1 == side2
    if serial and not any(slides):  # the one nearer to where the chains meet first
        j1, j2 = j2, j1

    def flat(v: Vector) -> Vector:
        return [v[k] for k in plane]

    def origin(j: int, side: int) -> Vector:
        path = sides[side][sides[side].index(j) :]
        return flat(chain_end(graph, zero, [graph.zero] * 3, path))

    def axis(j: int, side: int) -> Vector:
        return to_end(zero, [graph.zero, graph.zero, graph.one], sides[side][sides[side].index(j) :])

    ends = [
        flat(chain_end(graph, zero, point_of(graph, pivot, loop_size(robot)), path))
        for pivot, path in zip(pair, sides, strict=True)
    ]
    first, turn = origin(j1, side1), axis(j1, side1)[normal].number
    assert turn is not None
    if any(slides):
        z = flat(axis(j2, side2))
        if serial:
            D = _less(ends[1 - side1], first)
            return Dyad((j1, j2), (turn, 1.0), True, True, _less(ends[side1], first), z, D)
        return Dyad((j1, j2), (turn, 1.0), True, False, _less(ends[side1], first), z, _less(ends[side2], first))
    second, other_turn = origin(j2, side2), axis(j2, side2)[normal].number
    assert other_turn is not None
    turns = (float(np.sign(turn)), float(np.sign(other_turn)))
    if serial:
        b, D = _less(ends[side2], second), _less(ends[1 - side1], first)
        return Dyad((j1, j2), turns, False, True, _less(second, first), b, D)
    return Dyad(
        (j1, j2), turns, False, False, _less(ends[side1], first), _less(second, ends[side2]), _less(second, first)
    )


def _normal(graph: Graph, frames: Sequence[Frame], sides: tuple[list[int], list[int]]) -> int | None:
    """Return the axis across which the loop lies, in the axes where its chains meet; None if it is not planar."""
    z = [graph.zero, graph.zero, graph.one]
    axes = [(frames[j - 1].revolute, to_end(frames, z, path[i:])) for path in sides for i, j in enumerate(path)]
    for normal, (i, k) in PLANES.items():
        turns = [abs(axis[normal].number or 0.0) == 1.0 for revolute, axis in axes if revolute]
        flat = [axis[normal].is_zero for revolute, axis in axes if not revolute]
        straight = [axis[i].is_zero and axis[k].is_zero for revolute, axis in axes if revolute]
        if all(turns) and all(flat) and all(straight):
            return normal
    return None


def _less(u: Vector, v: Vector) -> Vector:
    return [x - y for x, y in zip(u, v, strict=True)]


def _on_branch(graph: Graph, robot: Robot, dyad: Dyad, assembly: Array) -> Dyad:
    """Return the loop with the branch on which it was assembled."""
    numbers: list[Expr] = [*dyad.a, *dyad.second, *dyad.D]
    a, second, D = np.reshape(evaluate(graph, numbers, {JOINTS: assembly.tolist()}, {}), (3, 2))
    if dyad.slides:
        side = assembly[dyad.joints[1] - 1] / loop_size(robot) + (a if dyad.serial else D) @ second
    else:
        phi = dyad.turns[0] * assembly[dyad.joints[0] - 1]
        turned = np.array([np.cos(phi) * a[0] - np.sin(phi) * a[1], np.sin(phi) * a[0] + np.cos(phi) * a[1]])
        side = D[0] * turned[1] - D[1] * turned[0]
    return replace(dyad, branch=1.0 if side >= 0.0 else -1.0)
