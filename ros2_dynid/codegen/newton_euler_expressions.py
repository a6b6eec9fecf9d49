# SPDX-License-Identifier: Apache-2.0

"""The Newton-Euler recursion as expressions, in the form that needs the fewest operations.

For link j let U = [dw x] + [w x][w x], so that the acceleration of a point r of the link is a + U r, and let
E = tr(J)/2 - J be the link's second moments. Then, with the first moments m and the mass M (all in frame j),

    force   F = U m + M a,
    moment  N = vee(U E - (U E)^T) + m x a        (vee takes the vector of a skew matrix),

which is the form of Lin 1995 with all of U, and not dw, carried along the chain. Turning joint j moves no point of its
axis, so U_j z_j = R^T U_i z_j with the parent i: for right-angled axes the third column of U_j is the parent's column
turned, and dw needs no recursion of its own: U_13 = w_x w_z + dw_y gives dw_y, dw_y gives U_31, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

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


SECOND = ("E11", "E12", "E13", "E22", "E23", "E33")
FIRST = ("MX", "MY", "MZ")
LINK_SLOTS = (*SECOND, *FIRST, "M")
"""The ten constants of a link that the recursion uses: second and first moments, and mass."""
LinkSlots = Mapping[str, Expr]


@dataclass(frozen=True)
class RecursionPlan:
    """Choices that leave the result unchanged but not the number of operations.

    unit: length [m] that is 1 in the generated code; combine: (what, joint) turned by the summed angle of parallel axes
    at once, what being "w", "u", "a", "n" or "f"; child: (what, joint) whose offset along z_j is applied in frame j
    instead of the parent's, what being "a" or "n"; squares: joints of which w_y is squared instead of w_x.
    """

    unit: float = 1.0
    combine: frozenset[tuple[str, int]] = frozenset()
    child: frozenset[tuple[str, int]] = frozenset()
    squares: frozenset[int] = frozenset()


@dataclass
class Link:
    """Motion of link j in frame j: w, dw, U, acceleration a of the origin (gravity included), and its parts."""

    w: Vector
    dw: Vector
    U: list[Vector]
    a: Vector
    differences: Vector
    """U33 - U22, U11 - U33, U22 - U11."""
    run: Run


@dataclass
class Run:
    """A run of parallel axes m ... j: what the axes before joint m's turn see, and the angle turned since."""

    w: Vector
    u: Vector
    a: Vector
    rest: Vector | None
    """What the joints of the run added to the turned `a`; None where the plan did not keep them apart."""
    angle: Expr
    constant: float
    about: Rotation


@dataclass
class RecursionInputs:
    """Everything the recursion of one robot needs."""

    graph: Graph
    frames: list[Frame]
    angles: list[tuple[Expr, float, float]]
    """For each joint q, theta and gamma: parallel axes turn by q + theta + gamma, the first of a run by q + theta."""
    dq: Vector
    ddq: Vector
    gravity: Vector
    """Acceleration of the base, minus gravity, in frame 0's axes, in the plan's unit."""
    plan: RecursionPlan = field(default_factory=RecursionPlan)


def motions(recursion: RecursionInputs) -> list[Link]:
    """Return the motion of links 1 to n."""
    links: list[Link] = []
    for frame in recursion.frames:
        link = _motion(recursion, frame, links[frame.parent - 1] if frame.parent else None)
        links.append(link)
        for k, axis in enumerate("xyz"):
            recursion.graph.label(link.w[k], f"w{frame.number}_{axis}")
            recursion.graph.label(link.dw[k], f"dw{frame.number}_{axis}")
            recursion.graph.label(link.a[k], f"a{frame.number}_{axis}")
            for m in range(3):
                recursion.graph.label(link.U[k][m], f"U{frame.number}_{k + 1}{m + 1}")
    return links


def _motion(recursion: RecursionInputs, frame: Frame, parent: Link | None) -> Link:
    graph, j, plan = recursion.graph, frame.number, recursion.plan
    zero = graph.zero
    still = [zero, zero, zero]
    if parent is None:
        parent = Link(still, still, [still, still, still], recursion.gravity, still, _no_run(recursion))
    dq, ddq = recursion.dq[j - 1], recursion.ddq[j - 1]
    along = frame.offset[2]
    p = list(frame.offset)
    if ("a", j) in plan.child and frame.revolute:
        p[2] = zero
    shift = _times(parent.U, frame.fixed_out(p))
    turned_w = frame.fixed_into(parent.w)
    turned_dw = frame.fixed_into(parent.dw)
    if not frame.revolute:
        w = frame.about.into(turned_w)
        dw = frame.about.into(turned_dw)
        rotation = [*frame.fixed, frame.about]
        if all(_is_quarter_turn(r) for r in rotation):
            U, differences = _permute_matrix(parent, rotation)
        else:
            U, differences = _matrix(graph, w, dw)
        a = frame.about.into(frame.fixed_into(_plus(parent.a, shift)))
        twice = dq + dq
        a = [a[0] + twice * w[1], a[1] - twice * w[0], a[2] + ddq]
        return Link(w, dw, U, a, differences, _no_run(recursion))

    angle, constant, gamma = recursion.angles[j - 1]
    continues = frame.continues_run
    if continues:
        run = parent.run
        angle, constant = run.angle + angle, run.constant + constant + gamma
        about = variable_rotation(graph, angle, constant)
        run = Run(run.w, run.u, run.a, run.rest, angle, constant, about)
    else:
        turned_a = frame.fixed_into(_plus(parent.a, shift))
        run = Run(
            turned_w,
            _third_column(graph, frame, parent, turned_w, turned_dw),
            turned_a,
            still,
            angle,
            constant,
            frame.about,
        )

    def turn_into(what: str, now: Vector, since: Vector) -> Vector:
        return run.about.into(since) if continues and (what, j) in plan.combine else frame.about.into(now)

    w = turn_into("w", turned_w, run.w)
    w = [w[0], w[1], turned_w[2] + dq]
    u = turn_into("u", _third_column(graph, frame, parent, turned_w, turned_dw), run.u)
    beyond = [along * x for x in u] if ("a", j) in plan.child else still
    if continues and ("a", j) in plan.combine and parent.run.rest is not None:
        # the acceleration that the first axis of the run has, turned at once, and what the run adds to it
        run.rest = _plus(frame.about.into(frame.fixed_into(_plus(parent.run.rest, shift))), beyond)
        a = _plus(run.about.into(run.a), run.rest)
    else:
        a = _plus(frame.about.into(frame.fixed_into(_plus(parent.a, shift))), beyond)
        run.rest = None if continues else beyond
    x, y = w[0] * w[2], w[1] * w[2]
    dw = [y - u[1], u[0] - x, turned_dw[2] + ddq]
    xy = w[0] * w[1]
    zz = w[2] * w[2]
    if j in plan.squares:
        yy = w[1] * w[1]
        d23, U11 = zz - yy, -(yy + zz)
        U22 = u[2] - d23
        d31 = U11 - u[2]
    else:
        xx = w[0] * w[0]
        d31, U22 = xx - zz, -(xx + zz)
        U11 = u[2] + d31
        d23 = u[2] - U22
    U = [
        [U11, xy - dw[2], u[0]],
        [xy + dw[2], U22, u[1]],
        [x - dw[1], y + dw[0], u[2]],
    ]
    return Link(w, dw, U, a, [d23, d31, U22 - U11], run)


def _no_run(recursion: RecursionInputs) -> Run:
    zero = recursion.graph.zero
    still = [zero, zero, zero]
    return Run(still, still, still, still, zero, 0.0, Rotation(2, recursion.graph.one, zero))


def _is_quarter_turn(rotation: Rotation) -> bool:
    return rotation.c.is_zero or rotation.s.is_zero


def _third_column(graph: Graph, frame: Frame, parent: Link, w: Vector, dw: Vector) -> Vector:
    """Return U_i z_j in the axes before joint j's turn."""
    if all(_is_quarter_turn(rotation) for rotation in frame.fixed):
        zero = graph.zero
        z = frame.fixed_out([zero, zero, graph.one])
        return frame.fixed_into(_times(parent.U, z))
    return [w[0] * w[2] + dw[1], w[1] * w[2] - dw[0], -(w[0] * w[0] + w[1] * w[1])]


def _matrix(graph: Graph, w: Vector, dw: Vector) -> tuple[list[Vector], Vector]:
    """Return U = [dw x] + [w x][w x] and the differences of its diagonal."""
    xx, yy, zz = (x * x for x in w)
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    U = [
        [-(yy + zz), xy - dw[2], xz + dw[1]],
        [xy + dw[2], -(xx + zz), yz - dw[0]],
        [xz - dw[1], yz + dw[0], -(xx + yy)],
    ]
    return U, [zz - yy, xx - zz, yy - xx]


def _permute_matrix(parent: Link, rotations: list[Rotation]) -> tuple[list[Vector], Vector]:
    """Return R^T U R and its diagonal's differences for turns by quarters: nothing is computed."""
    U = parent.U
    # R^T U R has the columns R^T (U R e_k); for a signed permutation this only moves entries
    graph = parent.w[0].graph
    unit = [[graph.one if i == k else graph.zero for i in range(3)] for k in range(3)]
    axes = []
    for e in unit:
        for rotation in reversed(rotations):
            e = rotation.out(e)
        axes.append(e)
    columns = []
    for axis in axes:
        column = _times(U, axis)
        for rotation in rotations:
            column = rotation.into(column)
        columns.append(column)
    new = [[columns[k][i] for k in range(3)] for i in range(3)]
    order = [next(i for i in range(3) if not axis[i].is_zero) for axis in axes]
    d = {(1, 2): parent.differences[0], (2, 0): parent.differences[1], (0, 1): parent.differences[2]}

    def difference(i: int, k: int) -> Expr:  # U_kk - U_ii of the new axes
        a, b = order[i], order[k]
        return d[a, b] if (a, b) in d else -d[b, a]

    return new, [difference(1, 2), difference(2, 0), difference(0, 1)]


def _times(A: list[Vector], v: Vector) -> Vector:
    zero = v[0].graph.zero
    return [sum((row[k] * v[k] for k in range(3)), zero) for row in A]


def _plus(u: Vector, v: Vector) -> Vector:
    return [a + b for a, b in zip(u, v, strict=True)]


def link_force(link: Link, slots: LinkSlots, zero: Expr) -> Vector:
    """Return F = U m + M a."""
    m = [slots.get(name, zero) for name in FIRST]
    mass = slots.get("M", zero)
    return [f + mass * a for f, a in zip(_times(link.U, m), link.a, strict=True)]


def link_moment(link: Link, slots: LinkSlots, zero: Expr) -> Vector:
    """Return N = vee(U E - (U E)^T) + m x a."""
    E11, E12, E13, E22, E23, E33 = (slots.get(name, zero) for name in SECOND)
    m = [slots.get(name, zero) for name in FIRST]
    U, a = link.U, link.a
    d23, d31, d12 = link.differences
    return [
        E12 * U[2][0] + E22 * U[2][1] - E33 * U[1][2] - E13 * U[1][0] + E23 * d23 + m[1] * a[2] - m[2] * a[1],
        E33 * U[0][2] - E11 * U[2][0] - E12 * U[2][1] + E23 * U[0][1] + E13 * d31 + m[2] * a[0] - m[0] * a[2],
        E11 * U[1][0] - E22 * U[0][1] + E12 * d12 + E13 * U[1][2] - E23 * U[0][2] + m[0] * a[1] - m[1] * a[0],
    ]


def joint_forces(
    recursion: RecursionInputs, links: list[Link], slots: list[LinkSlots], tip: tuple[int, Vector, Vector] | None = None
) -> list[Expr]:
    """Return the torque (or force) of the links at joints 1 to n.

    tip: (joint, force, moment) that the environment exerts on that link at its origin, in its frame.
    """
    graph, plan = recursion.graph, recursion.plan
    zero = graph.zero
    force = [link_force(link, s, zero) for link, s in zip(links, slots, strict=True)]
    moment = [link_moment(link, s, zero) for link, s in zip(links, slots, strict=True)]
    if tip is not None:
        joint, f, n = tip
        force[joint - 1] = [a - b for a, b in zip(force[joint - 1], f, strict=True)]
        moment[joint - 1] = [a - b for a, b in zip(moment[joint - 1], n, strict=True)]
    # what runs of parallel axes hand at once to the axes before their first joint: number of that joint -> vector
    run_moments: dict[int, Vector] = {}
    run_forces: dict[int, Vector] = {}
    tau: list[Expr] = [zero] * len(links)
    for frame in reversed(recursion.frames):
        j, i = frame.number, frame.parent
        f, n = force[j - 1], moment[j - 1]
        tau[j - 1] = n[2] if frame.revolute else f[2]
        for k, axis in enumerate("xyz"):
            graph.label(f[k], f"f{j}_{axis}")
            graph.label(n[k], f"n{j}_{axis}")
        if not i:
            continue
        p = list(frame.offset)
        m = frame.run_start
        if ("n", j) in plan.child and frame.revolute:
            n = [n[0] - p[2] * f[1], n[1] + p[2] * f[0], n[2]]
            p[2] = zero
        turned_f = frame.about.out(f)
        if m != j and ("n", j) in plan.combine:
            at_once = links[j - 1].run.about.out([n[0], n[1], zero])
            run_moments[m] = _plus(run_moments.get(m, [zero] * 3), at_once)
            turned_n = [zero, zero, n[2]]
        else:
            turned_n = frame.about.out(n)
        if j in run_moments:
            turned_n = _plus(turned_n, run_moments[j])
        passed_force = turned_f
        if m == i and ("f", j) in plan.combine and ("n", m) not in plan.child:
            run_forces[m] = _plus(run_forces.get(m, [zero] * 3), links[j - 1].run.about.out([f[0], f[1], zero]))
            passed_force = [zero, zero, f[2]]
        if j in run_forces:
            turned_f = passed_force = _plus(turned_f, run_forces[j])
        arm = [
            p[1] * turned_f[2] - p[2] * turned_f[1],
            p[2] * turned_f[0] - p[0] * turned_f[2],
            p[0] * turned_f[1] - p[1] * turned_f[0],
        ]
        force[i - 1] = _plus(force[i - 1], frame.fixed_out(passed_force))
        moment[i - 1] = _plus(moment[i - 1], frame.fixed_out(_plus(turned_n, arm)))
    return tau
