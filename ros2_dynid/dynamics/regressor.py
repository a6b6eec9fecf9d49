# SPDX-License-Identifier: Apache-2.0

"""The torque regressor: tau = Y(q, dq, ddq) chi (Gautier 1991, eq. 5), and its simplified form d0 (eq. 8).

For link j in frame j, with w, dw, a as in the Newton-Euler recursion and the unit twist (s_v, s_w) of an ancestor joint
i seen from frame j, the torque at joint i is s_v . F_j + s_w . N_j, where F_j = M a + dw x m + w x (w x m) and
N_j = J dw + w x (J w) + m x a. Each is linear in the ten parameters of the link; their factors are the columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.elastic import elastic_columns
from ros2_dynid.dynamics.friction import add_friction_columns
from ros2_dynid.dynamics.kinematics import (
    LinkMotion,
    Motion,
    link_motions,
    motion_of,
    placements_of,
)
from ros2_dynid.dynamics.newton_euler import add_coupling_columns
from ros2_dynid.dynamics.placement import chunks, cross, dot
from ros2_dynid.model.parameters import JOINT, force_slice, standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Robot


def regressor(robot: Robot, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike) -> Array:
    """Return Y, shape (N, n_active, n_standard), such that tau = Y chi [N.m, N].

    The memory behind it is one column after the other, joint by joint: Y.transpose(1, 0, 2).reshape(-1, n_standard) is
    the W of the papers, sorted by joints, without a copy and as LAPACK wants it.
    """
    return loop_regressor(robot, motion_of(robot, q, dq, ddq))


def regressor_d0(robot: Robot, q: ArrayLike, ddq: ArrayLike) -> Array:
    """Return d0 = Y(q, 0, ddq), shape (N, n_active, n_standard): the simplified model of Gautier 1991, eq. 8."""
    return loop_regressor(robot, motion_of(robot, q, None, ddq))


def loop_regressor(robot: Robot, motion: Motion) -> Array:
    """Return G^T Y, shape (N, n_active, n_standard), for a motion of all joints with constraint Jacobian G."""
    Y = np.zeros((len(standard_names(robot)), *motion.q.shape))
    for part in chunks(motion.q.shape[1]):
        _add_link_columns(robot, Y, part, motion)
    add_coupling_columns(robot, Y, motion.dq, motion.ddq)
    add_friction_columns(Y, motion.dq)
    if robot.forces:
        Y[force_slice(robot)] = elastic_columns(robot, motion)
    return motion.to_active(Y).transpose(2, 1, 0)


def _add_link_columns(robot: Robot, Y: Array, part: slice, motion: Motion) -> None:
    """Write the columns of the links' inertial parameters into Y[:, :, part]."""
    motion = Motion(motion.q[:, part], motion.dq[:, part], motion.ddq[:, part])
    placements = placements_of(robot, motion)
    n_samples = motion.q.shape[1]
    # The twists of a joint's ancestors and its own, in its frame: (s_v, s_w), shape (3, 2, ancestors, samples).
    twists: list[tuple[list[int], Array]] = [([], np.empty((3, 2, 0, n_samples)))]
    for j, (joint, link) in enumerate(zip(robot.joints, link_motions(robot, motion, placements), strict=True)):
        ancestors, above = twists[joint.parent]
        rows = [*ancestors, j]
        s = np.zeros((3, 2, len(rows), n_samples))
        s[2, 0 if joint.sigma == PRISMATIC else 1, -1] = 1.0
        if ancestors:
            s[:, :, :-1] = placements[j].to_child(_shift_twists(above, placements[j].p))
        twists.append((rows, s))
        # A serial arm's ancestors are 0 ... j: a slice writes without the detour over an index array.
        index = slice(0, j + 1) if rows == list(range(j + 1)) else rows
        for k, column in enumerate(link_columns(link, s[:, 0], s[:, 1])):
            Y[JOINT * j + k, index, part] = column


def _shift_twists(s: Array, p: Array) -> Array:
    """Return twists about the point p instead of the origin: s_v + s_w x p, s_w; s of shape (3, 2, k, samples)."""
    shifted = s.copy()
    shifted[:, 0] += cross(s[:, 1], p[:, None])
    return shifted


def link_columns(link: LinkMotion, s_v: Array, s_w: Array) -> tuple[Array, ...]:
    """Return the ten factors of XX XY XZ YY YZ ZZ MX MY MZ M at the joints with twists s, each (ancestors, samples)."""
    w, dw, a = link.w, link.dw, link.a[:, None]
    u = cross(s_w, w[:, None])  # s_w . (w x J w) = u . J w
    P = [[s_w[i] * dw[k] + u[i] * w[k] for k in range(3)] for i in range(3)]
    # s_v . (dw x m + w x (w x m)) = m . (s_v x dw + (s_v . w) w - (w . w) s_v), and s_w . (m x a) = m . (a x s_w)
    m = cross(s_v, dw[:, None]) + dot(s_v, w[:, None]) * w[:, None] - dot(w, w) * s_v + cross(a, s_w)
    return (
        P[0][0],
        P[0][1] + P[1][0],
        P[0][2] + P[2][0],
        P[1][1],
        P[1][2] + P[2][1],
        P[2][2],
        m[0],
        m[1],
        m[2],
        dot(s_v, a),
    )
