# SPDX-License-Identifier: Apache-2.0

"""Identification of the minimal linear combinations from the last link to the first (Lin 1995, eq. 94 to 116).

The torque of joint i is v_i w_i + phi_i: w_i are the combinations of the composite body i (Theorem 2), v_i (eq. 97, 98,
103, 104) and phi_i (eq. 95, 110) follow from the motion and from the combinations of the bodies behind joint i. So w_n
is found from the torque of joint n, then w_{n-1} from that of joint n - 1, to w_1: n small least-squares problems.
Friction and rotors are taken off the torque before, as in the paper. The symbols are those of
`codegen/minimal_recursion.py`: with A the acceleration of a frame's origin less gravity, Omega = [dw x] + [w x][w x]
and Psi(J) = J dw + w x J w,

    rotational joint:     tau = (k x A + Psi(D))_z + e_z         w: elements of D = U - diag(U22, U22, 0), kx, ky
    translational joint:  tau = m A_z + (Omega k)_z + p_z        w: m, elements of k
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.base_parameters.minimal_combinations import axis_before, combination_matrix
from ros2_dynid.dynamics.kinematics import LinkMotion, link_motions, motion_of, placements_of
from ros2_dynid.dynamics.placement import Placement, cross
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import REVOLUTE, Array, Robot

INERTIA = {"U11-U22": (0, 0), "U33": (2, 2), "U12": (0, 1), "U13": (0, 2), "U23": (1, 2)}
"""Places of the combinations in D."""
MOMENT = {"kx": 0, "ky": 1, "kz": 2}
"""Places of the combinations in k."""


@dataclass(frozen=True)
class MinimalEstimate:
    """The combinations by name (`U33_1`, `kx_2`, `m_3`), and the condition number of each joint's problem, (n,)."""

    value: dict[str, float]
    cond: tuple[float, ...]


@dataclass(frozen=True)
class _Body:
    """What is known of a composite body: m, k (3,) and D (3, 3); D without what translational joints behind it add."""

    m: float
    k: Array
    D: Array


def identify_from_last_link(robot: Robot, q: Array, dq: Array, ddq: Array, tau: Array) -> MinimalEstimate:
    """Return the minimal combinations found from joint n to joint 1; all of shape (N, n), tau without friction.

    Raises InputError where a joint's problem has no unique solution: the motion does not excite (eq. 117).
    """
    if robot.passive or any(joint.parent != k for k, joint in enumerate(robot.joints)):
        raise InputError("Lin's recursion is for serial robots", "use another method", robot.name)
    motion = motion_of(robot, q, dq, ddq)
    placements = placements_of(robot, motion)
    links = link_motions(robot, motion, placements)
    labels, cond = combination_matrix(robot)[2], np.ones(robot.n)
    value: dict[str, float] = {}
    bodies: dict[int, _Body] = {}
    p = e = np.zeros((3, len(tau)))
    for i in range(robot.n, 0, -1):
        link, names = links[i - 1], [label for label in labels if label.endswith(f"_{i}")]
        moved = _moved_inertia(robot, i, motion.q, placements, bodies)
        known = _turn(moved, link)[2] + e[2] if robot.joints[i - 1].sigma == REVOLUTE else p[2]
        if names:
            V = np.column_stack([_torque(robot, i, link, _body_of(robot, i, {name: 1.0})) for name in names])
            w, _, rank, sigma = np.linalg.lstsq(V, tau[:, i - 1] - known, rcond=None)
            if rank < len(names):
                hint = "record a motion that moves every joint before it and behind it"
                raise InputError(f"the motion does not excite joint {robot.joints[i - 1].name}", hint, robot.name)
            value |= dict(zip(names, w.tolist(), strict=True))
            cond[i - 1] = sigma[0] / sigma[-1]
        bodies[i] = _body_of(robot, i, {name: value[name] for name in names})
        rho, zeta = _own_force(robot, i, link, motion.q[i - 1], motion.dq[i - 1], motion.ddq[i - 1], bodies[i], moved)
        placement, p = placements[i - 1], p + rho
        p, e = placement.to_parent(p), placement.to_parent(zeta + e)
        e = e + cross(placement.p, p)
    return MinimalEstimate({label: value[label] for label in labels}, tuple(cond.tolist()))


def _body_of(robot: Robot, i: int, w: dict[str, float]) -> _Body:
    """Return the body i that has these combinations, others zero; kappa1 and kappa2 make k (eq. 87)."""
    m, k, D = 0.0, np.zeros(3), np.zeros((3, 3))
    for label, x in w.items():
        kind = label.rpartition("_")[0]
        if kind in INERTIA:
            a, b = INERTIA[kind]
            D[a, b] = D[b, a] = x
        elif kind in MOMENT:
            k[MOMENT[kind]] = x
        elif kind == "m":
            m = x
        else:
            u = axis_before(robot, i)
            size = u[0] ** 2 + u[1] ** 2
            along = (-u[1] / size, u[0] / size, 0.0), (-u[2] * u[0] / size, -u[2] * u[1] / size, 1.0)
            k += x * np.array(along[0 if kind == "kappa1" else 1])
    return _Body(m, k, D)


def _torque(robot: Robot, i: int, link: LinkMotion, body: _Body) -> Array:
    """Return what body i itself adds to the torque of its joint, shape (N,)."""
    k = body.k[:, None]
    if robot.joints[i - 1].sigma == REVOLUTE:
        return np.asarray((cross(k * np.ones_like(link.a), link.a) + _turn(body.D[:, :, None], link))[2])
    return np.asarray(body.m * link.a[2] + _flow(link, k * np.ones_like(link.a))[2])


def _turn(J: Array, link: LinkMotion) -> Array:
    """Return Psi(J) = J dw + w x J w, shape (3, N), for J of shape (3, 3, N) or (3, 3, 1)."""
    return np.asarray(np.sum(J * link.dw, axis=1) + cross(link.w, np.sum(J * link.w, axis=1)))


def _flow(link: LinkMotion, x: Array) -> Array:
    """Return Omega x = dw x x + w x (w x x), shape (3, N)."""
    return np.asarray(cross(link.dw, x) + cross(link.w, cross(link.w, x)))


def _moved_inertia(robot: Robot, i: int, q: Array, placements: list[Placement], bodies: dict[int, _Body]) -> Array:
    """Return what translational joints right behind joint i add to D_i, shape (3, 3, N) (eq. 38, 91, 92)."""
    moved = np.zeros((3, 3, q.shape[1]))
    axes = np.broadcast_to(np.eye(3)[:, :, None], moved.shape)
    R = axes
    for k in range(i + 1, robot.n + 1):
        joint, placement = robot.joints[k - 1], placements[k - 1]
        if joint.sigma == REVOLUTE or robot.joints[i - 1].sigma != REVOLUTE:
            break
        R = np.einsum("abn,bcn->acn", R, placement.to_parent(axes))
        d = np.zeros((3, q.shape[1]))
        d[2] = joint.r + q[k - 1]
        dx, kx = _skew(d), _skew(np.tile(bodies[k].k[:, None], q.shape[1]))
        W = -(np.einsum("abn,bcn->acn", dx, kx) + np.einsum("abn,bcn->acn", kx, dx))
        moved += np.einsum("abn,bcn,dcn->adn", R, W, R)
    return moved


def _skew(v: Array) -> Array:
    """Return [v x], shape (3, 3, N)."""
    zero = np.zeros_like(v[0])
    return np.array([[zero, -v[2], v[1]], [v[2], zero, -v[0]], [-v[1], v[0], zero]])


def _own_force(
    robot: Robot, i: int, link: LinkMotion, q: Array, dq: Array, ddq: Array, body: _Body, moved: Array
) -> tuple[Array, Array]:
    """Return rho and zeta, shape (3, N) each: what body i adds to force and moment at its joint (eq. 63 to 65)."""
    k = body.k[:, None] * np.ones_like(link.a)
    if robot.joints[i - 1].sigma == REVOLUTE:
        return _flow(link, k), cross(k, link.a) + _turn(body.D[:, :, None] + moved, link)
    d, rate, gamma = np.zeros_like(link.a), np.zeros_like(link.a), np.zeros_like(link.a)
    d[2], rate[2], gamma[2] = robot.joints[i - 1].r + q, dq, ddq
    gamma = gamma + 2.0 * cross(link.w, rate)
    flow = _flow(link, d) + gamma
    return body.m * flow, body.m * cross(d, link.a - flow) + cross(k, gamma)
