# SPDX-License-Identifier: Apache-2.0

"""Where the frames are, and how the links move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.motion import Motion, motion_of
from ros2_dynid.dynamics.spatial import Placement, cross, place
from ros2_dynid.model.robot import PRISMATIC, Array, Robot


@dataclass(frozen=True)
class LinkMotion:
    """Motion of link j in its own frame, each of shape (3, samples).

    w, dw: angular velocity and acceleration; a: acceleration of the frame's origin less gravity.
    """

    w: Array
    dw: Array
    a: Array


def frames(robot: Robot, q: ArrayLike) -> Array:
    """Return the transforms base link -> frame j, shape (N, n, 4, 4), for q of shape (N, n_active) [rad, m]."""
    motion = motion_of(robot, q)
    n_samples = motion.q.shape[1]
    T = np.zeros((n_samples, robot.n + 1, 4, 4))
    T[:, 0] = robot.base
    axes = np.broadcast_to(np.eye(3)[:, :, None], (3, 3, n_samples))
    for j, joint in enumerate(robot.joints, start=1):
        placement = place(joint, motion.q[j - 1])
        step = np.zeros((n_samples, 4, 4))
        step[:, :3, :3] = np.moveaxis(placement.to_parent(axes), 2, 0)
        step[:, :3, 3] = placement.p.T
        step[:, 3, 3] = 1.0
        T[:, j] = T[:, joint.parent] @ step
    return T[:, 1:]


def link_motions(
    robot: Robot, motion: Motion, placements: list[Placement], gravity: Array | None = None
) -> list[LinkMotion]:
    """Return the motion of links 1 to n: the outward half of the Newton-Euler recursion.

    Gravity enters as an acceleration of the base, -g (`gravity`: instead of the robot's, in the base frame).
    """
    n_samples = motion.q.shape[1]
    g = robot.base[:3, :3].T @ (robot.gravity if gravity is None else gravity)
    still = np.zeros((3, n_samples))
    links = [LinkMotion(still, still, np.broadcast_to(-g[:, None], (3, n_samples)))]
    for j, (joint, placement) in enumerate(zip(robot.joints, placements, strict=True)):
        parent, dq, ddq = links[joint.parent], motion.dq[j], motion.ddq[j]
        w, dw = placement.to_child(parent.w), placement.to_child(parent.dw)
        rotational = cross(parent.dw, placement.p) + cross(parent.w, cross(parent.w, placement.p))
        a = placement.to_child(parent.a + rotational)
        across = np.stack((w[1] * dq, -w[0] * dq, np.zeros(n_samples)))  # w x (dq z), with w of the antecedent
        along = np.zeros((3, n_samples))
        if joint.sigma == PRISMATIC:
            along[2] = ddq
            links.append(LinkMotion(w, dw, a + along + 2.0 * across))
        else:
            along[2] = dq
            dw = dw + across
            dw[2] += ddq
            links.append(LinkMotion(w + along, dw, a))
    return links[1:]


def placements_of(robot: Robot, motion: Motion) -> list[Placement]:
    """Return the placements of frames 1 to n."""
    return [place(joint, q) for joint, q in zip(robot.joints, motion.q, strict=True)]
