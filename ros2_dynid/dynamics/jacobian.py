# SPDX-License-Identifier: Apache-2.0

"""Jacobian of a link: its velocity for unit speeds of the active joints."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.motion import constraint
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import PRISMATIC, Array, Robot


def jacobian(robot: Robot, q: ArrayLike, link: str) -> Array:
    """Return J, shape (N, 6, n_active): linear and angular velocity of the link's origin in its own frame, by dq."""
    if link not in robot.tools:
        raise InputError(f"the robot has no link {link!r}", f"choose from {', '.join(robot.tools)}", robot.name)
    carrier, pose = robot.tools[link]
    T = frames(robot, q)
    J = np.zeros((len(T), 6, robot.n))
    tool = T[:, carrier - 1] @ pose if carrier else np.broadcast_to(robot.base @ pose, (len(T), 4, 4))
    R, at = tool[:, :3, :3], tool[:, :3, 3]
    j = carrier
    while j:
        axis, joint = T[:, j - 1, :3, 2], robot.joints[j - 1]
        linear = axis if joint.sigma == PRISMATIC else np.cross(axis, at - T[:, j - 1, :3, 3])
        J[:, :3, j - 1] = np.einsum("tij,ti->tj", R, linear)
        if joint.sigma != PRISMATIC:
            J[:, 3:, j - 1] = np.einsum("tij,ti->tj", R, axis)
        j = joint.parent
    return np.asarray(J @ constraint(robot)[0])
