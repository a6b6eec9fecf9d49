# SPDX-License-Identifier: Apache-2.0

"""Generalised momentum p = M dq and what changes it, without accelerations.

dp/dt = beta + carried + external, with beta = C^T dq - Q and C + C^T = dM/dt. C^T dq is the gradient of the kinetic
energy: with (f, n) the momentum of all that joint k carries, about its origin, and (w, v) the motion of its frame,
dT/dq_k = n . (w x z) + f . (v x z) for a revolute joint and f . (w x z) for a prismatic one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.coupling import drive_torque
from ros2_dynid.dynamics.friction import without_friction
from ros2_dynid.dynamics.inertia_matrix import gravity_torque
from ros2_dynid.dynamics.kinematics import placements_of
from ros2_dynid.dynamics.motion import motion_of
from ros2_dynid.dynamics.newton_euler import checked_standard
from ros2_dynid.dynamics.spatial import cross
from ros2_dynid.model.parameters import by_joint
from ros2_dynid.model.robot import PRISMATIC, Array, Robot


def momentum(robot: Robot, chi: ArrayLike, q: ArrayLike, dq: ArrayLike) -> tuple[Array, Array]:
    """Return p and beta, each of shape (N, n_active) [N.m.s or N.s, N.m or N], for q, dq of that shape."""
    chi = checked_standard(robot, chi)
    motion = motion_of(robot, q, dq)
    placements = placements_of(robot, motion)
    still = np.zeros((3, motion.q.shape[1]))
    links, f, n = [(still, still)], [], []
    for j, (joint, placement) in enumerate(zip(robot.joints, placements, strict=True)):
        w, v = links[joint.parent]
        v = placement.to_child(v + cross(w, placement.p))
        w = placement.to_child(w)
        (v if joint.sigma == PRISMATIC else w)[2] += motion.dq[j]
        links.append((w, v))
        XX, XY, XZ, YY, YZ, ZZ, *m, M = by_joint(robot, chi)[j, :10]
        J, first = np.array(((XX, XY, XZ), (XY, YY, YZ), (XZ, YZ, ZZ))), np.array(m)[:, None]
        f.append(M * v + cross(w, first))
        n.append(J @ w + cross(first, v))
    p, gradient = np.empty_like(motion.q), np.empty_like(motion.q)
    for j in range(robot.n - 1, -1, -1):
        joint, placement, (w, v) = robot.joints[j], placements[j], links[j + 1]
        if joint.sigma == PRISMATIC:
            p[j] = f[j][2]
            gradient[j] = f[j][0] * w[1] - f[j][1] * w[0]
        else:
            p[j] = n[j][2]
            gradient[j] = n[j][0] * w[1] - n[j][1] * w[0] + f[j][0] * v[1] - f[j][1] * v[0]
        if joint.parent:
            up = placement.to_parent(f[j])
            f[joint.parent - 1] = f[joint.parent - 1] + up
            n[joint.parent - 1] = n[joint.parent - 1] + placement.to_parent(n[j]) + cross(placement.p, up)
    p += drive_torque(robot, without_friction(robot, chi), motion.dq, motion.dq)
    return motion.to_active(p).T, motion.to_active(gradient).T - gravity_torque(robot, chi, q)
