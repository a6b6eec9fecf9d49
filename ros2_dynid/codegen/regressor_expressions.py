# SPDX-License-Identifier: Apache-2.0

"""The torque regressor and the energy as expressions: tau = Y chi, H = h chi with the standard parameters chi.

A link j with U, a (see newton_euler_expressions) gives joint i, whose unit twist seen from frame j is (s_v, s_w), the
torque s_v . F + s_w . N. With G = -[s_w x] U it is tr(G E) + m . (U^T s_v + a x s_w) + M s_v . a, so the factors of the
second moments are entries of G, and those of XX, YY, ZZ follow from E = tr(J)/2 - J.
"""

from __future__ import annotations

from ros2_dynid.codegen.elastic_expressions import elastic_energy, elastic_torques
from ros2_dynid.codegen.functions import joint_values, recursion_with_links, to_active
from ros2_dynid.codegen.graph import Expr, Graph
from ros2_dynid.codegen.newton_euler_expressions import Frame, Link, RecursionPlan, Vector
from ros2_dynid.model.parameters import IA, JOINT, PER_JOINT, force_slice, link_slice, split_name, standard_names
from ros2_dynid.model.robot import Robot


def regressor_columns(graph: Graph, robot: Robot) -> list[list[Expr]]:
    """Return Y by columns: n_standard lists of n_active entries."""
    recursion, links = recursion_with_links(graph, robot, RecursionPlan(), "q dq ddq g")
    zero = graph.zero
    columns = [[zero] * robot.n for _ in standard_names(robot)]
    twists: list[dict[int, tuple[Vector, Vector]]] = []
    for frame, link in zip(recursion.frames, links, strict=True):
        j = frame.number
        above = twists[frame.parent - 1] if frame.parent else {}
        own = {i: _twist_in_child(frame, s) for i, s in above.items()}
        z = [zero, zero, graph.one]
        own[j] = ([zero] * 3, z) if frame.revolute else (z, [zero] * 3)
        twists.append(own)
        for i, (s_v, s_w) in own.items():
            for k, entry in enumerate(_link_entries(graph, link, s_v, s_w)):
                columns[JOINT * (j - 1) + k][i - 1] = entry
    _drive_columns(graph, robot, columns)
    q, first = joint_values(graph, robot, "q"), force_slice(robot).start
    for k, name in enumerate(standard_names(robot)[first:], start=first):
        columns[k] = elastic_torques(graph, robot, recursion.frames, q, 1.0, {split_name(name): graph.one})
    return [to_active(graph, robot, column) for column in columns]


def _twist_in_child(frame: Frame, twist: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    """Return a twist of the parent's frame seen from frame j: s_v + s_w x p, s_w."""
    s_v, s_w = (frame.fixed_into(s) for s in twist)
    p = frame.offset
    s_v = [
        s_v[0] + s_w[1] * p[2] - s_w[2] * p[1],
        s_v[1] + s_w[2] * p[0] - s_w[0] * p[2],
        s_v[2] + s_w[0] * p[1] - s_w[1] * p[0],
    ]
    return frame.about.into(s_v), frame.about.into(s_w)


def _link_entries(graph: Graph, link: Link, s_v: Vector, s_w: Vector) -> list[Expr]:
    """Return the factors of XX XY XZ YY YZ ZZ MX MY MZ M."""
    U, a = link.U, link.a
    # G = -[s_w x] U, row by row
    G = [
        [s_w[2] * U[1][k] - s_w[1] * U[2][k] for k in range(3)],
        [s_w[0] * U[2][k] - s_w[2] * U[0][k] for k in range(3)],
        [s_w[1] * U[0][k] - s_w[0] * U[1][k] for k in range(3)],
    ]
    half = graph.number(0.5)
    # tr(G E) with E = tr(J)/2 - J: the factor of XX is (G22 + G33 - G11) / 2
    trace = half * (G[0][0] + G[1][1] + G[2][2])
    cross = [
        a[1] * s_w[2] - a[2] * s_w[1],
        a[2] * s_w[0] - a[0] * s_w[2],
        a[0] * s_w[1] - a[1] * s_w[0],
    ]
    m = [graph.sum((cross[k], *(U[i][k] * s_v[i] for i in range(3)))) for k in range(3)]
    mass = graph.sum(s_v[i] * a[i] for i in range(3))
    return [
        trace - G[0][0],
        -(G[0][1] + G[1][0]),
        -(G[0][2] + G[2][0]),
        trace - G[1][1],
        -(G[1][2] + G[2][1]),
        trace - G[2][2],
        *m,
        mass,
    ]


def _drive_columns(graph: Graph, robot: Robot, columns: list[list[Expr]]) -> None:
    """Write the columns of rotors, friction, offset and couplings."""
    dq, ddq = joint_values(graph, robot, "dq"), joint_values(graph, robot, "ddq")
    for j in range(robot.n):
        values = {"Ia": ddq[j], "Fv": dq[j], "Fc": graph.sign(dq[j]), "off": graph.one}
        for kind, value in values.items():
            columns[JOINT * j + PER_JOINT.index(kind)][j] = value
    column = JOINT * robot.n
    for coupling in robot.coupling:
        inertia = JOINT * (coupling.motor - 1) + IA
        if coupling.independent_inertia:
            inertia, column = column, column + 1
        speed = graph.sum(graph.number(c) * dq[j - 1] for j, c in coupling.weights.items())
        for j, c in coupling.weights.items():
            others = [(m, w) for m, w in coupling.weights.items() if m != j]
            weight = graph.number(c)
            acceleration = weight * graph.sum(graph.number(w) * ddq[m - 1] for m, w in others)
            columns[inertia][j - 1] = columns[inertia][j - 1] + acceleration
            columns[column][j - 1] = weight * graph.sum(graph.number(w) * dq[m - 1] for m, w in others)
            columns[column + 1][j - 1] = weight * graph.sign(speed)
        column += 2


def energy_row(graph: Graph, robot: Robot) -> list[Expr]:
    """Return h, n_standard entries: kinetic and potential energy, without friction and offset."""
    recursion, links = recursion_with_links(graph, robot, RecursionPlan(), "q dq")
    zero, half = graph.zero, graph.number(0.5)
    row = [zero] * len(standard_names(robot))
    v: list[Vector] = []
    height: list[
        tuple[Vector, Expr]
    ] = []  # -g in the frame's axes, and the potential energy of a unit mass at its origin
    dq = joint_values(graph, robot, "dq")
    up = [graph.number(float(x)) for x in -robot.base[:3, :3].T @ robot.gravity]
    ground = graph.number(float(-robot.gravity @ robot.base[:3, 3]))
    for frame, link in zip(recursion.frames, links, strict=True):
        j, i = frame.number, frame.parent
        w_parent = links[i - 1].w if i else [zero] * 3
        v_parent = v[i - 1] if i else [zero] * 3
        g_parent, level = height[i - 1] if i else (up, ground)
        w_turned, p = frame.fixed_into(w_parent), frame.offset
        velocity = frame.fixed_into(v_parent)
        velocity = [
            velocity[0] + w_turned[1] * p[2] - w_turned[2] * p[1],
            velocity[1] + w_turned[2] * p[0] - w_turned[0] * p[2],
            velocity[2] + w_turned[0] * p[1] - w_turned[1] * p[0],
        ]
        here = frame.about.into(velocity)
        if not frame.revolute:
            here = [here[0], here[1], here[2] + dq[j - 1]]
        v.append(here)
        g_turned = frame.fixed_into(g_parent)
        level = graph.sum((level, *(a * b for a, b in zip(g_turned, p, strict=True))))
        g = frame.about.into(g_turned)
        height.append((g, level))
        x, y, z = link.w
        entries = [
            half * (x * x),
            x * y,
            x * z,
            half * (y * y),
            y * z,
            half * (z * z),
            here[1] * z - here[2] * y + g[0],
            here[2] * x - here[0] * z + g[1],
            here[0] * y - here[1] * x + g[2],
            half * graph.sum(c * c for c in here) + level,
        ]
        row[link_slice(j - 1)] = entries
        row[JOINT * (j - 1) + IA] = half * (dq[j - 1] * dq[j - 1])
    column = JOINT * robot.n
    for coupling in robot.coupling:
        inertia = JOINT * (coupling.motor - 1) + IA
        if coupling.independent_inertia:
            inertia, column = column, column + 1
        terms = [
            graph.number(0.5 * c * w) * (dq[j - 1] * dq[m - 1])
            for j, c in coupling.weights.items()
            for m, w in coupling.weights.items()
            if m != j
        ]
        row[inertia] = graph.sum((row[inertia], *terms))
        column += 2
    q = joint_values(graph, robot, "q")
    powers = [(force, power) for force in robot.forces for power in force.powers]
    row[force_slice(robot)] = [elastic_energy(graph, recursion.frames, q, 1.0, *pair) for pair in powers]
    return row
