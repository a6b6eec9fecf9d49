# SPDX-License-Identifier: Apache-2.0

"""Lin's recursion (Lin 1995, eq. 57 to 93): inverse and forward dynamics in minimal linear combinations (Theorem 2).

It is a second generator, independent of `newton_euler_expressions`: its constants are those of composite bodies, mass
m_i, first moment k_i and inertia U_i, not those of links. With A the acceleration of a frame's origin less gravity,
Omega = [dw x] + [w x][w x] and Psi(J) = J dw + w x J w, the telescoped sums of forces and moments over the bodies
behind joint i leave, for a rotational joint i and a translational joint i with displacement d_i along u_i,

    rho_i  = Omega_i [kx, ky, 0]                       rho_i  = m_i (Omega_i d_i + gamma_i)
    zeta_i = [kx, ky, 0] x A_i + Psi_i(D_i)            zeta_i = m_i d_i x (A_i - Omega_i d_i - gamma_i) + k_i x gamma_i
    tau_i  = (zeta_i + e_i)_z                          tau_i  = (m_i A_i + Omega_i k_i + p_{i+1})_z

    p_i = rho_i + p_{i+1},   e_i = zeta_{i+1} + e_{i+1} + s_{i+1} x p_{i+1},   gamma_i = u_i ddq_i + 2 w_i x u_i dq_i.

D_i = U_i - diag(U_22, U_22, 0), and what translational joints right behind joint i move adds -[d x][k x] - [k x][d x]
to it (eq. 38, 91). All of it is made of minimal combinations. For rotational joints alone this is the Newton-Euler
recursion of Khalil and Kleinfinger in base parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.base_parameters.minimal_combinations import axis_before, combination_matrix
from ros2_dynid.codegen.graph import ADD, MUL, Count, Expr, Graph
from ros2_dynid.codegen.newton_euler_expressions import Frame, Vector, expression_frames
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Robot

InertiaExpressions = tuple[Expr, Expr, Expr, Expr, Expr, Expr]
"""XX, XY, XZ, YY, YZ, ZZ."""


STEPS = ("w", "dw", "Omega", "alpha", "D", "a", "rho", "zeta", "p", "e", "tau")
"""Variables of Table II, in its order; alpha: the differences of squares in Psi."""


@dataclass(frozen=True)
class Body:
    """The constants of a composite body as far as they are minimal combinations; what is none has no effect: zero."""

    m: Expr
    k: Vector
    D: InertiaExpressions


@dataclass(frozen=True)
class MinimalRecursion:
    """Outputs of the recursion and the operations that each of its variables took, {variable: [joint 1, joint 2...]}."""  # noqa: E501

    outputs: list[Expr]
    steps: dict[str, list[Count]]


class _OperationCounts:
    """Counts the operations that a recursion adds to a graph, variable by variable."""

    def __init__(self, graph: Graph, variables: tuple[str, ...]) -> None:
        self.steps: dict[str, list[Count]] = {name: [] for name in variables}
        self._graph, self._nodes = graph, len(graph.keys)

    def skip(self) -> None:
        """Leave out what was added since the last count."""
        self._nodes = len(self._graph.keys)

    def add(self, variable: str) -> None:
        """Count what was added since the last count as operations of a variable, of the next joint."""
        new = range(self._nodes, len(self._graph.keys))
        kinds = [self._graph.keys[node][0] for node in new if not self._graph.constant[node]]
        self.steps[variable].append(Count(kinds.count(MUL), kinds.count(ADD)))
        self.skip()


@dataclass(frozen=True)
class _BodyMotion:
    """Motion of composite body i in frame i.

    squares: the differences of squares in Psi; A: acceleration of the origin less gravity, A_before: the same without
    the displacement d of a translational joint, of which gamma is the part that dq and ddq bring and flow the whole.
    """

    frame: Frame
    dw: Vector
    Omega: list[Vector]
    squares: Vector
    A: Vector
    A_before: Vector
    d: Expr
    gamma: Vector
    flow: Vector


def minimal_torque(graph: Graph, robot: Robot, keep: frozenset[str] | None = None) -> MinimalRecursion:
    """Return tau(q, dq, ddq), shape (n,), in parameters named as the combinations (`U33_1`, `kx_2`, `m_3`).

    keep: combinations that are not zero (default all), for links that are simplified.
    """
    _refuse_branches(robot)
    q, dq, ddq = ([graph.variable(name, j) for j in range(robot.n)] for name in ("q", "dq", "ddq"))
    frames = expression_frames(graph, robot, q)
    bodies = _bodies(graph, robot, keep)
    counts = _OperationCounts(graph, STEPS)
    g = -robot.base[:3, :3].T @ robot.gravity
    gravity = [graph.number(float(x)) for x in np.where(np.abs(g) < 1e-15 * np.abs(g).max(), 0.0, g)]
    motions = _body_motions(frames, dq, ddq, gravity, counts)
    inertias = _joint_inertias(frames, bodies, counts)
    forces = [_own_force(motion, bodies[j], inertias[j], counts) for j, motion in enumerate(motions)]
    tau = _joint_torques(graph, motions, bodies, forces, counts)
    return MinimalRecursion(tau, counts.steps)


def _body_motions(
    frames: list[Frame], dq: Vector, ddq: Vector, A: Vector, counts: _OperationCounts
) -> list[_BodyMotion]:
    """Return the motion of composite bodies 1 to n, outwards from a base that accelerates by A (eq. 57 to 60)."""
    zero = dq[0].graph.zero
    still = [zero, zero, zero]
    w, dw, Omega = still, still, [still, still, still]
    motions = []
    for frame in frames:
        j = frame.number - 1
        counts.skip()
        w = _into(frame, w)
        if frame.revolute:
            w = [w[0], w[1], w[2] + dq[j]]
        counts.add("w")
        dw = _into(frame, dw)
        if frame.revolute:
            dw = [dw[0] + w[1] * dq[j], dw[1] - w[0] * dq[j], dw[2] + ddq[j]]
        counts.add("dw")
        parent_Omega, (Omega, products) = Omega, _omega(w, dw)
        counts.add("Omega")
        squares = _differences(products)
        counts.add("alpha")
        d, gamma, flow = zero, still, still
        if frame.revolute:
            A = _into(frame, _plus(A, _times(parent_Omega, frame.fixed_out(frame.offset))))
            A_before = A
        else:
            d = frame.offset[2]
            fixed = [frame.offset[0], frame.offset[1], zero]
            A_before = _into(frame, _plus(A, _times(parent_Omega, frame.fixed_out(fixed))))
            twice = dq[j] + dq[j]
            gamma = [twice * w[1], -(twice * w[0]), ddq[j]]
            flow = _plus([d * row[2] for row in Omega], gamma)
            A = _plus(A_before, flow)
        counts.add("a")
        motions.append(_BodyMotion(frame, dw, Omega, squares, A, A_before, d, gamma, flow))
    return motions


def _joint_inertias(frames: list[Frame], bodies: list[Body], counts: _OperationCounts) -> list[InertiaExpressions]:
    """Return D of each body: d W, with a constant W, is what translational joints add to the rotational one before."""
    D = [body.D for body in bodies]
    for frame in frames:
        at, W = frame, _moved_moment(bodies[frame.number - 1].k)
        while not at.revolute and at.parent:
            W, at = _rotate_inertia(at, W), frames[at.parent - 1]
        if at.revolute and at is not frame:
            d = frame.offset[2]
            D[at.number - 1] = _sum(D[at.number - 1], tuple(d * x for x in W))  # type: ignore[arg-type]
        counts.add("D")
    return D


def _own_force(
    motion: _BodyMotion, body: Body, D: InertiaExpressions, counts: _OperationCounts
) -> tuple[Vector, Vector]:
    """Return rho and zeta, what a body adds to force and moment at its joint."""
    m, k, A, A_before = body.m, body.k, motion.A, motion.A_before
    if motion.frame.revolute:
        rho = [row[0] * k[0] + row[1] * k[1] for row in motion.Omega]
        counts.add("rho")
        arm = [k[1] * A[2], -(k[0] * A[2]), k[0] * A[1] - k[1] * A[0]]
        zeta = _plus(_psi(D, motion.dw, motion.Omega, motion.squares), arm)
    else:
        rho = [m * x for x in motion.flow]
        counts.add("rho")
        lever, gamma = m * motion.d, motion.gamma
        turn = [
            k[1] * gamma[2] - k[2] * gamma[1],
            k[2] * gamma[0] - k[0] * gamma[2],
            k[0] * gamma[1] - k[1] * gamma[0],
        ]
        zeta = [turn[0] - lever * A_before[1], turn[1] + lever * A_before[0], turn[2]]
    counts.add("zeta")
    return rho, zeta


def _joint_torques(
    graph: Graph,
    motions: list[_BodyMotion],
    bodies: list[Body],
    forces: list[tuple[Vector, Vector]],
    counts: _OperationCounts,
) -> list[Expr]:
    """Return tau of joints 1 to n: forces p and moments e summed inwards."""
    zero = graph.zero
    tau: list[Expr] = [zero] * len(motions)
    p, e = [zero] * 3, [zero] * 3
    for motion, body, (rho, zeta) in reversed(list(zip(motions, bodies, forces, strict=True))):
        frame = motion.frame
        j = frame.number - 1
        if frame.revolute:
            tau[j] = zeta[2] + e[2]
        else:
            tau[j] = body.m * motion.A[2] + sum((motion.Omega[2][c] * body.k[c] for c in range(3)), zero) + p[2]
        counts.add("tau")
        own = _plus(rho, p)
        own_rotated = frame.about.out(own) if frame.parent else own
        p = frame.fixed_out(own_rotated) if frame.parent else own
        counts.add("p")
        e = _plus(zeta, e)
        if frame.parent:
            x, y, along = frame.offset
            e = frame.about.out([e[0] - along * own[1], e[1] + along * own[0], e[2]])
            e = frame.fixed_out(
                [e[0] + y * own_rotated[2], e[1] - x * own_rotated[2], e[2] + x * own_rotated[1] - y * own_rotated[0]]
            )
        counts.add("e")
    for name in ("tau", "p", "e"):
        counts.steps[name].reverse()
    return tau


def minimal_inertia(graph: Graph, robot: Robot) -> MinimalRecursion:
    """Return the inertia matrix M(q), n x n row by row, in minimal combinations (eq. 8 to 15, Renaud's composites).

    The first moment of the composite body i is k_i plus a part that moves with the joints behind it, its inertia U_i
    plus another: only combinations enter. With tau at ddq = 0 this makes the forward dynamics M ddq = tau - h.
    """
    _refuse_branches(robot)
    n, zero = robot.n, graph.zero
    frames = expression_frames(graph, robot, [graph.variable("q", j) for j in range(n)])
    bodies = _bodies(graph, robot, None)
    M = [[zero] * n for _ in range(n)]
    still: InertiaExpressions = (zero,) * 6
    counts = _OperationCounts(graph, ("l", "J"))
    moment, inertia = [zero] * 3, still  # of what is behind, in the frame of the body at hand, less its constants
    for frame in reversed(frames):
        j = frame.number - 1
        body = bodies[j]
        l = _plus(body.k, moment)
        V = _sum(inertia, body.D) if frame.revolute else inertia
        if frame.revolute:
            force, turn = [-l[1], l[0], zero], [V[2], V[4], V[5]]
        else:
            force, turn = [zero, zero, body.m], [l[1], -l[0], zero]
        M[j][j] = turn[2] if frame.revolute else force[2]
        f, t, at = force, turn, frame
        while at.parent:
            f, s = at.about.out(f), at.offset
            arm = [s[1] * f[2] - s[2] * f[1], s[2] * f[0] - s[0] * f[2], s[0] * f[1] - s[1] * f[0]]
            t = at.fixed_out(_plus(at.about.out(t), arm))
            f = at.fixed_out(f)
            at = frames[at.parent - 1]
            i = at.number - 1
            M[i][j] = M[j][i] = t[2] if at.revolute else f[2]
        if not frame.parent:
            continue
        s, d = frame.offset, frame.offset[2]
        counts.skip()
        if frame.revolute:  # all of s is constant; k_z and U_22 already are in the body before
            recursion_with_links = frame.about.out([l[0], l[1], moment[2]])
            moment = frame.fixed_out(recursion_with_links)
            counts.add("l")
            inertia = _sum(_about_inertia(frame, V), _steiner(s, recursion_with_links))
        else:
            now, later = frame.about.out(l), frame.about.out(moment)
            shift = [zero, zero, body.m * d]
            moment = frame.fixed_out(_plus(later, shift))
            counts.add("l")
            before = [s[0], s[1], zero]
            inertia = _sum(_about_inertia(frame, V), _steiner([zero, zero, d], now))
            inertia = _sum(inertia, _steiner(before, _plus(later, shift)))
            square = shift[2] * d
            inertia = _sum(inertia, (square, zero, zero, square, zero, zero))
        inertia = _fixed_inertia(frame, inertia)
        counts.add("J")
    for per_joint in counts.steps.values():
        per_joint.reverse()
    return MinimalRecursion([entry for row in M for entry in row], counts.steps)


def _refuse_branches(robot: Robot) -> None:
    """Raise InputError unless the robot is serial."""
    if robot.passive_joints or any(joint.parent != k for k, joint in enumerate(robot.joints)):
        raise InputError("Lin's recursion is for serial robots", "use the generated dynamics", robot.name)


def _bodies(graph: Graph, robot: Robot, keep: frozenset[str] | None) -> list[Body]:
    """Return the composite bodies; k of translational joints before s comes from kappa1 and kappa2 (eq. 87)."""
    _, _, labels = combination_matrix(robot)
    have = {label for label in labels if keep is None or label in keep}
    zero = graph.zero

    def value(kind: str, j: int) -> Expr:
        return graph.parameter(f"{kind}_{j}") if f"{kind}_{j}" in have else zero

    bodies = []
    for j in range(1, robot.n + 1):
        D = (value("U11-U22", j), value("U12", j), value("U13", j), zero, value("U23", j), value("U33", j))
        k = [value("kx", j), value("ky", j), value("kz", j)]
        if f"kappa1_{j}" in have or f"kappa2_{j}" in have:
            u = axis_before(robot, j)
            size = float(u[0] ** 2 + u[1] ** 2)
            across = [-u[1] / size, u[0] / size, 0.0]
            up = [-u[2] * u[0] / size, -u[2] * u[1] / size, 1.0]
            one, two = value("kappa1", j), value("kappa2", j)
            k = [graph.number(float(a)) * one + graph.number(float(b)) * two for a, b in zip(across, up, strict=True)]
        bodies.append(Body(value("m", j), k, D))
    return bodies


def _into(frame: Frame, v: Vector) -> Vector:
    return frame.about.into(frame.fixed_into(v))


def _plus(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def _times(A: list[Vector], v: Vector) -> Vector:
    zero = v[0].graph.zero
    return [sum((row[k] * v[k] for k in range(3)), zero) for row in A]


def _sum(a: InertiaExpressions, b: InertiaExpressions) -> InertiaExpressions:
    return tuple(x + y for x, y in zip(a, b, strict=True))  # type: ignore[return-value]


def _omega(w: Vector, dw: Vector) -> tuple[list[Vector], Vector]:
    """Return Omega and wx^2, wy^2, wz^2, wy wz, wx wz, wx wy (eq. 59)."""
    xx, yy, zz = (x * x for x in w)
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    Omega = [
        [-(yy + zz), xy - dw[2], xz + dw[1]],
        [xy + dw[2], -(xx + zz), yz - dw[0]],
        [xz - dw[1], yz + dw[0], -(xx + yy)],
    ]
    return Omega, [xx, yy, zz, yz, xz, xy]


def _differences(products: Vector) -> Vector:
    """Return wy^2 - wz^2, wz^2 - wx^2, wx^2 - wy^2, then wy wz, wx wz, wx wy (eq. 60)."""
    xx, yy, zz, yz, xz, xy = products
    return [yy - zz, zz - xx, xx - yy, yz, xz, xy]


def _psi(D: InertiaExpressions, dw: Vector, Omega: list[Vector], squares: Vector) -> Vector:
    """Return D dw + w x D w (eq. 28), from entries of Omega."""
    XX, XY, XZ, YY, YZ, ZZ = D
    dx, dy, dz, yz, xz, xy = squares
    return [
        XX * dw[0] - YY * yz + ZZ * yz - XY * Omega[2][0] + XZ * Omega[1][0] + YZ * dx,
        YY * dw[1] + XX * xz - ZZ * xz + XY * Omega[2][1] - YZ * Omega[0][1] + XZ * dy,
        ZZ * dw[2] - XX * xy + YY * xy - XZ * Omega[1][2] + YZ * Omega[0][2] + XY * dz,
    ]


def _moved_moment(k: Vector) -> InertiaExpressions:
    """Return W = -[z x][k x] - [k x][z x] (eq. 92): what first moment k adds to the inertia for each metre along z."""
    zero = k[0].graph.zero
    return (k[2] + k[2], zero, -k[0], k[2] + k[2], -k[1], zero)


def _steiner(s: Vector, k: Vector) -> InertiaExpressions:
    """Return -[s x][k x] - [k x][s x]."""
    products = [s[i] * k[i] for i in range(3)]
    two = s[0].graph.number(2.0)
    return (
        two * (products[1] + products[2]),
        -(s[0] * k[1] + s[1] * k[0]),
        -(s[0] * k[2] + s[2] * k[0]),
        two * (products[0] + products[2]),
        -(s[1] * k[2] + s[2] * k[1]),
        two * (products[0] + products[1]),
    )


def _about_inertia(frame: Frame, J: InertiaExpressions) -> InertiaExpressions:
    return _conjugated(J, frame.about.axis, frame.about.c, frame.about.s)


def _fixed_inertia(frame: Frame, J: InertiaExpressions) -> InertiaExpressions:
    for rotation in reversed(frame.fixed):
        J = _conjugated(J, rotation.axis, rotation.c, rotation.s)
    return J


def _rotate_inertia(frame: Frame, J: InertiaExpressions) -> InertiaExpressions:
    return _fixed_inertia(frame, _about_inertia(frame, J))


def _conjugated(J: InertiaExpressions, axis: int, c: Expr, s: Expr) -> InertiaExpressions:
    """Return R J R^T for a rotation about z (2) or x (0)."""
    XX, XY, XZ, YY, YZ, ZZ = J
    cc, ss, cs = c * c, s * s, c * s
    two = c.graph.number(2.0)
    if axis == 2:
        return (
            cc * XX - two * (cs * XY) + ss * YY,
            cs * (XX - YY) + (cc - ss) * XY,
            c * XZ - s * YZ,
            ss * XX + two * (cs * XY) + cc * YY,
            s * XZ + c * YZ,
            ZZ,
        )
    return (
        XX,
        c * XY - s * XZ,
        s * XY + c * XZ,
        cc * YY - two * (cs * YZ) + ss * ZZ,
        cs * (YY - ZZ) + (cc - ss) * YZ,
        ss * YY + two * (cs * YZ) + cc * ZZ,
    )
