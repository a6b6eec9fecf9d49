# SPDX-License-Identifier: Apache-2.0

"""Exact gradients of the regressors: how a weighted sum of their elements changes with q, dq and ddq.

Criteria are functions f(W); with the weights C = df/dW, df/dx = d<C, Y>/dx. The recursions are run backwards (the
adjoint method), so one call costs a small multiple of the regressor, whatever the number of joints. A name with a bar,
`w_bar`, is the derivative of <C, Y> with respect to w. The derivative of sign(dq) is taken as 0, unless it is softened.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ros2_dynid.dynamics.elastic import elastic_columns, elastic_energies, elastic_gradient
from ros2_dynid.dynamics.energy import link_velocities
from ros2_dynid.dynamics.friction import add_friction_columns
from ros2_dynid.dynamics.kinematics import (
    LinkMotion,
    Motion,
    constraint,
    link_motions,
    motion_of,
    placements_of,
)
from ros2_dynid.dynamics.newton_euler import add_coupling_columns, add_rotor_energy
from ros2_dynid.dynamics.placement import Placement, cross, dot, place
from ros2_dynid.dynamics.regressor import link_columns
from ros2_dynid.model.parameters import IA, JOINT, Fc, Fv, force_slice, link_slice, standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Joint, Robot

Index = list[int] | slice
TorqueBack = Callable[[Array], tuple[Array, Array, Array]]
EnergyBack = Callable[[Array], tuple[Array, Array]]
V, W = 0, 1
"""Places of the linear and the angular part in an array of twists."""


def regressor_with_gradient(
    robot: Robot, q: Array, dq: Array, ddq: Array, softness: Array | None = None
) -> tuple[Array, TorqueBack]:
    """Return Y, shape (N, n_active, n_standard), and a function that gives d<C, Y>/dq, /ddq and /dddq.

    C are weights of the shape of Y, the gradients have shape (N, n_active). Y = regressor(robot, q, dq, ddq); with
    softness, shape (n,) [rad/s or m/s], the columns Fc are tanh(dq / softness) instead of sign(dq), which has a slope.
    """
    motion = motion_of(robot, q, dq, ddq)
    n, N = motion.q.shape
    placements = placements_of(robot, motion)
    still = np.zeros((3, N))
    links = [LinkMotion(still, still, still), *link_motions(robot, motion, placements)]
    rows, twists = _ancestor_twists(robot, placements, N)
    Y = np.zeros((len(standard_names(robot)), n, N))
    for j in range(n):
        for k, column in enumerate(link_columns(links[j + 1], twists[j + 1][:, V], twists[j + 1][:, W])):
            Y[JOINT * j + k, rows[j + 1]] = column
    add_coupling_columns(robot, Y, motion.dq, motion.ddq)
    add_friction_columns(Y, motion.dq)
    if robot.forces:
        Y[force_slice(robot)] = elastic_columns(robot, motion)
    if softness is not None:
        for j in range(n):
            Y[JOINT * j + Fc, j] = np.tanh(motion.dq[j] / softness[j])

    def back(C: Array) -> tuple[Array, Array, Array]:
        weights = np.ascontiguousarray(C.transpose(2, 1, 0))
        if robot.passive_joints:
            weights = np.einsum("jk,pkt->pjt", constraint(robot)[0], weights)
        gradients = _link_gradient(robot, motion, placements, links, rows, twists, weights)
        _add_drive_gradient(robot, weights, gradients[1], gradients[2])
        if robot.forces:
            gradients[0][:] += elastic_gradient(robot, motion, weights[force_slice(robot)])
        if softness is not None:
            for j in range(n):
                gradients[1][j] += weights[JOINT * j + Fc, j] * (1.0 - Y[JOINT * j + Fc, j] ** 2) / softness[j]
        gq, gdq, gddq = (motion.to_active(x).T for x in gradients)
        return gq, gdq, gddq

    return motion.to_active(Y).transpose(2, 1, 0), back


def energy_with_gradient(robot: Robot, q: Array, dq: Array) -> tuple[Array, EnergyBack]:
    """Return h, shape (N, n_standard), and a function that gives d<C, h>/dq and /ddq, each of shape (N, n_active).

    C are weights of shape (N, n_standard). h = energy_regressor(robot, q, dq), by the recursion that the gradient
    runs backwards: velocities w, v of the frames, gravity g seen from them, and g . p of their origins p.
    """
    motion = motion_of(robot, q, dq)
    n, N = motion.q.shape
    placements = placements_of(robot, motion)
    velocities = [(np.zeros((3, N)), np.zeros((3, N))), *link_velocities(robot, motion)]
    gravity = [np.repeat((robot.base[:3, :3].T @ robot.gravity)[:, None], N, axis=1)]
    height = [np.full(N, float(robot.base[:3, 3] @ robot.gravity))]
    h = np.zeros((len(standard_names(robot)), N))
    for j, (joint, placement) in enumerate(zip(robot.joints, placements, strict=True)):
        height.append(height[joint.parent] + dot(gravity[joint.parent], placement.p))
        gravity.append(placement.to_child(gravity[joint.parent]))
        w, v = velocities[j + 1]
        x, y, z = w
        h[JOINT * j : JOINT * j + 6] = 0.5 * x * x, x * y, x * z, 0.5 * y * y, y * z, 0.5 * z * z
        h[JOINT * j + 6 : JOINT * j + 9] = cross(v, w) - gravity[-1]
        h[JOINT * j + 9] = 0.5 * dot(v, v) - height[-1]
    add_rotor_energy(robot, h, motion.dq)
    if robot.forces:
        h[force_slice(robot)] = elastic_energies(robot, motion)

    def back(C: Array) -> tuple[Array, Array]:
        weights = np.ascontiguousarray(C.T)
        w_bar, v_bar, g_bar = (np.zeros((n + 1, 3, N)) for _ in range(3))
        height_bar = np.zeros((n + 1, N))
        gq, gdq = np.zeros((n, N)), np.zeros((n, N))
        for j in range(n - 1, -1, -1):
            joint, placement, p, up = robot.joints[j], placements[j], placements[j].p, robot.joints[j].parent
            w, v = velocities[j + 1]
            J, m, M = _inertia(weights[link_slice(j)])
            wb = w_bar[j + 1] + _times(J, w) + cross(m, v)
            vb = v_bar[j + 1] + cross(w, m) + M * v
            gb, hb = g_bar[j + 1] - m, height_bar[j + 1] - M
            prismatic = joint.sigma == PRISMATIC
            gdq[j] = vb[2] if prismatic else wb[2]
            if not prismatic:
                gq[j] = _turn(w, wb) + _turn(v, vb) + _turn(gravity[j + 1], gb)
            wb, vb, gb = placement.to_parent(wb), placement.to_parent(vb), placement.to_parent(gb)
            if prismatic:
                gq[j] = dot(_axis(joint), cross(vb, velocities[up][0]) + hb * gravity[up])
            if up:
                w_bar[up] += wb + cross(p, vb)
                v_bar[up] += vb
                g_bar[up] += gb + hb * p
                height_bar[up] += hb
        _add_rotor_energy_gradient(robot, weights, motion.dq, gdq)
        if robot.forces:
            gq += np.einsum("ct,cjt->jt", weights[force_slice(robot)], elastic_columns(robot, motion))
        return motion.to_active(gq).T, motion.to_active(gdq).T

    return h.T, back


def _link_gradient(
    robot: Robot,
    motion: Motion,
    placements: list[Placement],
    links: list[LinkMotion],
    rows: list[Index],
    twists: list[Array],
    C: Array,
) -> tuple[Array, Array, Array]:
    """Return the gradients of the links' columns, three of shape (n, N), for weights C (n_standard, n, N).

    links, rows and twists begin with those of the base.
    """
    n, N = motion.q.shape
    w_bar, dw_bar, a_bar = (np.zeros((n + 1, 3, N)) for _ in range(3))
    s_bar = [np.zeros_like(s) for s in twists]
    gq, gdq, gddq = np.zeros((n, N)), np.zeros((n, N)), np.zeros((n, N))
    for j in range(n - 1, -1, -1):
        joint, placement, p, up = robot.joints[j], placements[j], placements[j].p, robot.joints[j].parent
        link, parent, s, dq = links[j + 1], links[up], twists[j + 1], motion.dq[j]
        own = _column_gradient(C[link_slice(j), rows[j + 1]], link, s)
        wb, dwb, ab = w_bar[j + 1] + own[0], dw_bar[j + 1] + own[1], a_bar[j + 1] + own[2]
        sb = (s_bar[j + 1] + own[3])[:, :, :-1]
        # dw or a hold the product w x (dq e), once or twice
        rotated, count = (ab, 2.0) if joint.sigma == PRISMATIC else (dwb, 1.0)
        gdq[j] = count * (rotated[0] * link.w[1] - rotated[1] * link.w[0])
        gddq[j] = rotated[2]
        wb[0] -= count * dq * rotated[1]
        wb[1] += count * dq * rotated[0]
        if joint.sigma != PRISMATIC:
            gdq[j] += wb[2]
            dw = link.dw.copy()
            dw[0] -= link.w[1] * dq
            dw[1] += link.w[0] * dq
            gq[j] = _turn(link.w, wb) + _turn(dw, dwb) + _turn(link.a, ab) + _turn(s[:, :, :-1], sb).sum(axis=(0, 1))
        wb, dwb, ab, sb = (placement.to_parent(x) for x in (wb, dwb, ab, sb))
        w0, dw0 = parent.w, parent.dw
        if up:
            w_bar[up] += wb + ab * dot(w0, p) + p * dot(ab, w0) - 2.0 * w0 * dot(ab, p)
            dw_bar[up] += dwb + cross(p, ab)
            a_bar[up] += ab
            s_bar[up] += sb
            s_bar[up][:, W] += cross(p[:, None], sb[:, V])
        if joint.sigma == PRISMATIC:
            p_bar = cross(ab, dw0) + w0 * dot(ab, w0) - ab * dot(w0, w0) + cross(sb[:, V], twists[up][:, W]).sum(axis=1)
            gq[j] = dot(_axis(joint), p_bar)
    return gq, gdq, gddq


def _ancestor_twists(robot: Robot, placements: list[Placement], N: int) -> tuple[list[Index], list[Array]]:
    """Return for the base and every joint its ancestors with itself, and their twists in its frame, (3, 2, k, N)."""
    lines: list[list[int]] = [[]]
    twists = [np.empty((3, 2, 0, N))]
    for j, (joint, placement) in enumerate(zip(robot.joints, placements, strict=True)):
        twist = twists[joint.parent].copy()
        twist[:, V] += cross(twist[:, W], placement.p[:, None])
        s = np.zeros((3, 2, twist.shape[2] + 1, N))
        s[:, :, :-1] = placement.to_child(twist)
        s[2, V if joint.sigma == PRISMATIC else W, -1] = 1.0
        lines.append([*lines[joint.parent], j])
        twists.append(s)
    # A serial arm's ancestors are 0 ... j: a slice reads and writes without the detour over an index array.
    rows: list[Index] = [slice(len(line)) if line == list(range(len(line))) else line for line in lines]
    return rows, twists


def _column_gradient(C: Array, link: LinkMotion, s: Array) -> tuple[Array, Array, Array, Array]:
    """Return w_bar, dw_bar, a_bar (3, N) and s_bar (3, 2, k, N) of s_v . F + s_w . N for weights C (10, k, N).

    F = M a + dw x m + w x (w x m), N = J dw + w x J w + m x a, J, m and M being the weights.
    """
    J, m, M = _inertia(C)
    s_v, s_w = s[:, V], s[:, W]
    w, dw, a = link.w[:, None], link.dw[:, None], link.a[:, None]
    Jw, wm = _times(J, w), dot(w, m)
    s_bar = np.empty_like(s)
    s_bar[:, V] = M * a + cross(dw, m) + w * wm - m * dot(w, w)
    s_bar[:, W] = _times(J, dw) + cross(w, Jw) + cross(m, a)
    dw_bar = _times(J, s_w) + cross(m, s_v)
    a_bar = M * s_v + cross(s_w, m)
    w_bar = cross(Jw, s_w) + _times(J, cross(s_w, w)) + s_v * wm + m * dot(s_v, w) - 2.0 * w * dot(s_v, m)
    return w_bar.sum(axis=1), dw_bar.sum(axis=1), a_bar.sum(axis=1), s_bar


def _inertia(c: Array) -> tuple[Array, Array, Array]:
    """Return J (6, ...), m (3, ...) and M from ten parameters, shape (10, ...)."""
    return c[:6], c[6:9], c[9]


def _times(J: Array, v: Array) -> Array:
    """Return J v for the symmetric J = (XX, XY, XZ, YY, YZ, ZZ) in the first axis."""
    x, y, z = v
    out = np.empty((3, *J.shape[1:]))
    out[0] = J[0] * x + J[1] * y + J[2] * z
    out[1] = J[1] * x + J[3] * y + J[4] * z
    out[2] = J[2] * x + J[4] * y + J[5] * z
    return out


def _turn(x: Array, x_bar: Array) -> Array:
    """Return x_bar . (-e_z x x): what turning the frame about its z axis does to a vector x seen from it."""
    return np.asarray(x_bar[0] * x[1] - x_bar[1] * x[0])


def _axis(joint: Joint) -> Array:
    """Return the axis of a joint in the frame of its antecedent, shape (3, 1)."""
    return place(joint, np.zeros(1)).to_parent(np.array([[0.0], [0.0], [1.0]]))


def _others(weights: dict[int, float], x: dict[int, Array]) -> dict[int, Array]:
    """Return c_j (sum over l != j of c_l x_l) by joint number j."""
    total = np.sum([c * x[j] for j, c in weights.items()], axis=0)
    return {j: c * (total - c * x[j]) for j, c in weights.items()}


def _add_drive_gradient(robot: Robot, C: Array, gdq: Array, gddq: Array) -> None:
    """Add what the columns Ia, Fv, Iam and Fvm depend on dq and ddq; C (n_standard, n, N), gradients (n, N)."""
    for j in range(robot.n):
        gddq[j] += C[JOINT * j + IA, j]
        gdq[j] += C[JOINT * j + Fv, j]
    column = JOINT * robot.n
    for coupling in robot.coupling:
        inertia = JOINT * (coupling.motor - 1) + IA
        if coupling.independent_inertia:
            inertia, column = column, column + 1
        weights = dict(coupling.weights)
        for target, c in ((gddq, C[inertia]), (gdq, C[column])):
            for j, value in _others(weights, {k: c[k - 1] for k in weights}).items():
                target[j - 1] += value
        column += 2


def _add_rotor_energy_gradient(robot: Robot, C: Array, dq: Array, gdq: Array) -> None:
    """Add what the energies of the rotors depend on dq; C of shape (n_standard, N), dq and gdq (n, N)."""
    for j in range(robot.n):
        gdq[j] += C[JOINT * j + IA] * dq[j]
    column = JOINT * robot.n
    for coupling in robot.coupling:
        inertia = JOINT * (coupling.motor - 1) + IA
        if coupling.independent_inertia:
            inertia, column = column, column + 1
        weights = dict(coupling.weights)
        for j, value in _others(weights, {k: dq[k - 1] for k in weights}).items():
            gdq[j - 1] += C[inertia] * value
        column += 2
