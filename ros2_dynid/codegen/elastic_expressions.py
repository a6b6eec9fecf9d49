# SPDX-License-Identifier: Apache-2.0

"""Springs, compensators and cables as expressions: the torques (dx/dq)^T F(x) of model/forces.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ros2_dynid.codegen.graph import INVERSE_ROOT, Expr, Graph
from ros2_dynid.codegen.newton_euler_expressions import Frame, Vector
from ros2_dynid.codegen.representation import Slot
from ros2_dynid.dynamics.elastic import paths
from ros2_dynid.model.forces import SYMBOLS, Force
from ros2_dynid.model.robot import Robot


def elastic_torques(
    graph: Graph, robot: Robot, frames: Sequence[Frame], q: Vector, unit: float, slots: Mapping[Slot, Expr]
) -> list[Expr]:
    """Return the torque of all elements at every joint of the tree [N.m, N].

    frames: with lengths divided by `unit` [m]; q: positions of all joints [rad, m].
    """
    tau = [graph.zero] * robot.n
    for i, force in enumerate(robot.forces, start=1):
        own = {p: slots[SYMBOLS[p], i] for p in force.powers if (SYMBOLS[p], i) in slots}
        if not own or all(value.is_zero for value in own.values()):
            continue
        x, J = _coordinate(graph, frames, q, unit, force)
        F = _polynomial(graph, x - graph.number(force.rest), own)
        for joint, slope in J.items():
            tau[joint - 1] = tau[joint - 1] + slope * F
    return tau


def elastic_energy(graph: Graph, frames: Sequence[Frame], q: Vector, unit: float, force: Force, power: int) -> Expr:
    """Return the energy of a unit coefficient: (x - x0)^(p + 1) / (p + 1)."""
    x, _ = _coordinate(graph, frames, q, unit, force)
    stretch = x - graph.number(force.rest)
    total = stretch
    for _ in range(power):
        total = total * stretch
    return graph.number(1.0 / (power + 1)) * total


def _polynomial(graph: Graph, x: Expr, coefficients: Mapping[int, Expr]) -> Expr:
    """Return the sum of coefficients times powers of x, by Horner's rule."""
    total = graph.zero
    for power in range(max(coefficients), -1, -1):
        total = (graph.zero if total.is_zero else total * x) + coefficients.get(power, graph.zero)
    return total


def _coordinate(
    graph: Graph, frames: Sequence[Frame], q: Vector, unit: float, force: Force
) -> tuple[Expr, dict[int, Expr]]:
    """Return x [rad or m] and dx/dq by joint number."""
    if not force.pivots:
        x = graph.sum(graph.number(w) * q[j - 1] for j, w in force.weights.items())
        return x, {j: graph.number(w) for j, w in force.weights.items()}
    first, second = force.pivots
    a, b = paths(lambda j: frames[j - 1].parent, first, second)
    places = []
    for pivot, path in ((first, a), (second, b)):
        p = [graph.number(x / unit) for x in pivot.point]
        points: dict[int, Vector] = {}
        for j in path:
            points[j] = p
            rotated_point = frames[j - 1].about.out(p)
            p = frames[j - 1].fixed_out([v + o for v, o in zip(rotated_point, frames[j - 1].offset, strict=True)])
        places.append((p, points))
    (p_a, seen_a), (p_b, seen_b) = places
    span = [y - x for x, y in zip(p_a, p_b, strict=True)]
    square = graph.sum(x * x for x in span)
    inverse = graph.even(INVERSE_ROOT, square)
    u = [inverse * x for x in span]
    slopes: dict[int, Expr] = {}
    for path, points, sign in ((a, seen_a, -1), (b, seen_b, 1)):
        f = u
        for j in reversed(path):
            frame = frames[j - 1]
            f = frame.about.into(frame.fixed_into(f))
            if frame.revolute:
                p = points[j]
                slope = graph.number(unit) * (p[0] * f[1] - p[1] * f[0])
            else:
                slope = f[2]
            slopes[j] = slope if sign > 0 else -slope
    return graph.number(unit) * (square * inverse), slopes
