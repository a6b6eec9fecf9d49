# SPDX-License-Identifier: Apache-2.0

"""Inertia matrix and gravity torques as expressions, by composite links (Izaguirre 1992, section 4).

The composite link j is link j with all that it carries, as if rigid. Its mass is constant; its first moments m and
second moments E (E = tr(J)/2 - J) about the origin of frame j follow from those of the links it carries:

    m_i = m_i + R m_j + M_j p,    E_i = E_i + R E_j R^T + p (R m_j)^T + (R m_j) p^T + M_j p p^T.

A unit acceleration of revolute joint j needs the force z x m = [-m_y, m_x, 0] and the moment
J z = [-E13, -E23, E11 + E22] of composite link j; carried down the chain, its components along the axes of the joints
below are column j of M(q).
Gravity at joint j is z . (m x a) with the acceleration a = -g.
"""

from __future__ import annotations

from dataclasses import dataclass

from ros2_dynid.codegen.graph import Expr, Graph
from ros2_dynid.codegen.newton_euler_expressions import (
    FIRST,
    Frame,
    LinkSlots,
    RecursionInputs,
    Vector,
    variable_rotation,
)

Symmetric = dict[tuple[int, int], Expr]


@dataclass
class _Composite:
    E: Symmetric
    m: Vector
    mass: Expr


def composite_coefficients(recursion: RecursionInputs, slots: list[LinkSlots]) -> tuple[list[list[Expr]], list[Expr]]:
    """Return M(q), n x n, without rotors, and the gravity torques, n, of all joints of the tree."""
    graph = recursion.graph
    zero = graph.zero
    n = len(recursion.frames)
    links = [_link(s, zero) for s in slots]
    M = [[zero] * n for _ in range(n)]
    gravity = _gravity(recursion)
    Q = [zero] * n
    for frame in reversed(recursion.frames):
        j = frame.number - 1
        link = links[j]
        a = gravity[j]
        m, E = link.m, link.E
        if frame.revolute:
            Q[j] = m[0] * a[1] - m[1] * a[0]
            force: Vector = [-m[1], m[0], zero]
            moment: Vector = [-E[0, 2], -E[1, 2], E[0, 0] + E[1, 1]]
            M[j][j] = moment[2]
        else:
            Q[j] = link.mass * a[2]
            force = [zero, zero, link.mass]
            moment = [m[1], -m[0], zero]
            M[j][j] = link.mass
        _carry_down(recursion, j, force, moment, M)
        if frame.parent:
            _add(graph, frame, link, links[frame.parent - 1])
    return M, Q


def _link(slots: LinkSlots, zero: Expr) -> _Composite:
    E = {(i, k): slots.get(f"E{i + 1}{k + 1}", zero) for i in range(3) for k in range(i, 3)}
    return _Composite(E, [slots.get(name, zero) for name in FIRST], slots.get("M", zero))


def _gravity(recursion: RecursionInputs) -> list[Vector]:
    """Return -g in the axes of frames 1 to n, by the summed angle for parallel axes where the plan says so."""
    result: list[Vector] = []
    start: list[Vector] = []
    angle: list[tuple[Expr, float]] = []
    for frame in recursion.frames:
        i, j = frame.parent - 1, frame.number
        now = frame.fixed_into(result[i] if frame.parent else recursion.gravity)
        own, constant, gamma = recursion.angles[j - 1]
        if frame.continues_run:
            own, constant = angle[i][0] + own, angle[i][1] + constant + gamma
            before = start[i]
        else:
            before = now
        start.append(before)
        angle.append((own, constant))
        if ("a", j) in recursion.plan.combine and frame.revolute:
            result.append(variable_rotation(recursion.graph, own, constant).into(before))
        else:
            result.append(frame.about.into(now))
    return result


def _carry_down(recursion: RecursionInputs, j: int, force: Vector, moment: Vector, M: list[list[Expr]]) -> None:
    """Write M[i][j] and M[j][i] for the joints i below j, from what composite link j needs at its origin."""
    frame = recursion.frames[j]
    graph = recursion.graph
    while frame.parent:
        p = list(frame.offset)
        if ("n", frame.number) in recursion.plan.child and frame.revolute:
            moment = [moment[0] - p[2] * force[1], moment[1] + p[2] * force[0], moment[2]]
            p[2] = graph.zero
        f = frame.about.out(force)
        n = [a + b for a, b in zip(frame.about.out(moment), _cross(p, f), strict=True)]
        force, moment = frame.fixed_out(f), frame.fixed_out(n)
        frame = recursion.frames[frame.parent - 1]
        i = frame.number - 1
        M[i][j] = M[j][i] = moment[2] if frame.revolute else force[2]


def _cross(p: Vector, f: Vector) -> Vector:
    return [p[1] * f[2] - p[2] * f[1], p[2] * f[0] - p[0] * f[2], p[0] * f[1] - p[1] * f[0]]


def _add(graph: Graph, frame: Frame, link: _Composite, parent: _Composite) -> None:
    """Add composite link j to its parent."""
    m, E = link.m, link.E
    p = frame.offset
    zero = graph.zero
    # the parts along the joint's own axis first: turning about z leaves them as they are
    shift = [zero, zero, p[2]]
    m, E = _shift_moments(m, E, link.mass, shift)
    m = frame.about.out(m)
    E = _turn_about_z(E, frame.about.c, frame.about.s)
    m, E = _shift_moments(m, E, link.mass, [p[0], p[1], zero])
    for rotation in reversed(frame.fixed):
        m = rotation.out(m)
        if rotation.axis == 2:
            E = _turn_about_z(E, rotation.c, rotation.s)
        else:
            E = _permute_axes(_turn_about_z(_permute_axes(E, (1, 2, 0)), rotation.c, rotation.s), (2, 0, 1))
    parent.m = [a + b for a, b in zip(parent.m, m, strict=True)]
    parent.E = {key: parent.E[key] + E[key] for key in E}
    parent.mass = parent.mass + link.mass


def _permute_axes(E: Symmetric, order: tuple[int, int, int]) -> Symmetric:
    """Return E with axis k of the result being axis order[k] of E."""
    return {(i, k): E[min(order[i], order[k]), max(order[i], order[k])] for i in range(3) for k in range(i, 3)}


def _shift_moments(m: Vector, E: Symmetric, mass: Expr, p: Vector) -> tuple[Vector, Symmetric]:
    """Return first and second moments about the point -p: m + M p and E + p m^T + m p^T + M p p^T."""
    first_moment = [a + mass * b for a, b in zip(m, p, strict=True)]
    # p_i m_k + m_i p_k + M p_i p_k, with the mass's part in the first moment that is moved already
    return first_moment, {(i, k): E[i, k] + p[i] * first_moment[k] + m[i] * p[k] for i, k in E}


def _turn_about_z(E: Symmetric, c: Expr, s: Expr) -> Symmetric:
    """Return R E R^T for the turn about z by the angle of (c, s), with x = c (E11 - E22) - 2 s E12 shared."""
    x = c * (E[0, 0] - E[1, 1]) - s * (E[0, 1] + E[0, 1])
    cx = c * x
    return {
        (0, 0): E[1, 1] + cx,
        (1, 1): E[0, 0] - cx,
        (0, 1): E[0, 1] + s * x,
        (0, 2): c * E[0, 2] - s * E[1, 2],
        (1, 2): s * E[0, 2] + c * E[1, 2],
        (2, 2): E[2, 2],
    }
