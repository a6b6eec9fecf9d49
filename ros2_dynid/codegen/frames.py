# SPDX-License-Identifier: Apache-2.0

"""Geometry of the joints as expressions: rotations and positions, quarter turns exact, parallel axes combined."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ros2_dynid.codegen.graph import Expr, Graph
from ros2_dynid.model.robot import REVOLUTE, Robot

Vector = list[Expr]
_SNAP = 1e-14
"""A sine or cosine below this is one of a quarter turn that was written in radians."""


def turn(angle: float) -> tuple[float, float]:
    """Return (cos, sin) of a constant angle, exactly 0 and 1 for quarter turns."""
    c, s = math.cos(angle), math.sin(angle)
    if abs(c) < _SNAP:
        return 0.0, math.copysign(1.0, s)
    if abs(s) < _SNAP:
        return math.copysign(1.0, c), 0.0
    return c, s


@dataclass(frozen=True)
class Rotation:
    """A rotation about one axis (0 x, 2 z) by an angle of which cosine and sine are expressions."""

    axis: int
    c: Expr
    s: Expr

    def out(self, v: Vector) -> Vector:
        """Return R v: from the rotated frame to the one before."""
        i, j = ((1, 2), (2, 0), (0, 1))[self.axis]
        w = list(v)
        w[i], w[j] = self.c * v[i] - self.s * v[j], self.s * v[i] + self.c * v[j]
        return w

    def into(self, v: Vector) -> Vector:
        """Return R^T v: into the rotated frame."""
        i, j = ((1, 2), (2, 0), (0, 1))[self.axis]
        w = list(v)
        w[i], w[j] = self.c * v[i] + self.s * v[j], self.c * v[j] - self.s * v[i]
        return w


@dataclass(frozen=True)
class Frame:
    """Joint j as expressions: frame i (parent) -> Rz(gamma) -> Rx(alpha) -> Rz(theta) -> frame j.

    `fixed` turns the parent's axes into the axes before the joint's own turn `about` (constant for a prismatic
    joint); `offset` is the origin of frame j in the axes after `fixed`, [d, 0, r] plus what b adds.
    """

    number: int
    parent: int
    revolute: bool
    fixed: tuple[Rotation, ...]
    about: Rotation
    offset: Vector
    run_start: int
    """Number of the first joint of the run of parallel revolute axes that joint j continues; j itself if it starts one.

    It follows from the geometry alone. Angles must not decide it: those of the passive joints of a loop may cancel.
    """

    @property
    def continues_run(self) -> bool:
        """Whether joint j and its parent are revolute, with parallel axes that point the same way."""
        return self.run_start != self.number

    def fixed_into(self, v: Vector) -> Vector:
        """Return v, given in the parent's axes, in the axes just before the joint's own turn."""
        for rotation in self.fixed:
            v = rotation.into(v)
        return v

    def fixed_out(self, v: Vector) -> Vector:
        """Return v, given in the axes just before the joint's turn, in the parent's axes."""
        for rotation in reversed(self.fixed):
            v = rotation.out(v)
        return v


def constant_rotation(graph: Graph, axis: int, angle: float) -> Rotation:
    """Return the rotation by a constant angle."""
    c, s = turn(angle)
    return Rotation(axis, graph.number(c), graph.number(s))


def variable_rotation(graph: Graph, angle: Expr, constant: float) -> Rotation:
    """Return the rotation about z by `angle` + `constant`; quarter turns in `constant` cost nothing."""
    quarter = round(constant / (math.pi / 2))
    rest = constant - quarter * (math.pi / 2)
    if abs(rest) > _SNAP:
        angle = angle + graph.number(rest)
    c, s = graph.cos(angle), graph.sin(angle)
    for _ in range(quarter % 4):
        c, s = -s, c
    return Rotation(2, c, s)


def expression_frames(graph: Graph, robot: Robot, positions: Vector, unit: float = 1.0) -> list[Frame]:
    """Return the robot's frames with joint positions q as expressions; lengths are divided by `unit` [m]."""
    result: list[Frame] = []
    for number, joint in enumerate(robot.joints, start=1):
        q = positions[number - 1]
        fixed = tuple(
            constant_rotation(graph, axis, angle)
            for axis, angle in ((2, joint.gamma), (0, joint.alpha))
            if turn(angle) != (1.0, 0.0)
        )
        ca, sa = turn(joint.alpha)
        d, r, b = (graph.number(length / unit) for length in (joint.d, joint.r, joint.b))
        along = r
        if joint.sigma == REVOLUTE:
            about = variable_rotation(graph, q, joint.theta)
        else:
            about = constant_rotation(graph, 2, joint.theta)
            along = along + q
        # b lies along the parent's z axis, which is Rx(alpha)^T [0, 0, 1] in the axes after `fixed`
        offset = [d, graph.number(sa) * b, along + graph.number(ca) * b]
        revolute = joint.sigma == REVOLUTE
        continues = revolute and sa == 0.0 and ca > 0 and joint.parent and result[joint.parent - 1].revolute
        run_start = result[joint.parent - 1].run_start if continues else number
        result.append(Frame(number, joint.parent, revolute, fixed, about, offset, run_start))
    return result
