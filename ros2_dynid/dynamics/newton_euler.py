# SPDX-License-Identifier: Apache-2.0

"""Inverse dynamics by the Newton-Euler recursion in modified DH frames."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.coupling import drive_torque
from ros2_dynid.dynamics.elastic import elastic_torque
from ros2_dynid.dynamics.friction import friction_torque, without_friction
from ros2_dynid.dynamics.friction_terms import terms_torque
from ros2_dynid.dynamics.kinematics import link_motions, placements_of
from ros2_dynid.dynamics.motion import Motion, motion_of
from ros2_dynid.dynamics.spatial import chunks, cross
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import by_joint, standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Robot


def inverse_dynamics(
    robot: Robot, chi: ArrayLike, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike, temperature: Array | None = None
) -> Array:
    """Return tau = Y(q, dq, ddq) chi, shape (N, n_active) [N.m, N], friction, rotors and offsets included.

    The robot's friction terms are added to it. chi: standard parameters, shape (n_standard,); q, dq, ddq: shape
    (N, n_active); temperature: of the drives [deg C], in that shape; None or NaN: not known.
    """
    chi = checked_standard(robot, chi)
    motion = motion_of(robot, q, dq, ddq)
    tau = rigid_body_torque(robot, chi, motion)
    if robot.forces:
        tau += elastic_torque(robot, chi, motion)
    rotors = drive_torque(robot, without_friction(robot, chi), motion.dq, motion.ddq) if robot.friction else None
    carried = None if rotors is None else motion.to_active(tau + rotors).T
    tau += drive_torque(robot, chi, motion.dq, motion.ddq)
    tau += friction_torque(by_joint(robot, chi), motion.dq)
    total = motion.to_active(tau).T
    if carried is not None:
        speed = np.asarray(dq, dtype=float)
        total = total + terms_torque(robot, speed, np.sign(speed), carried, temperature)
    return total


def checked_standard(robot: Robot, chi: ArrayLike) -> Array:
    """Return chi as an array of shape (n_standard,), or refuse it."""
    array = np.asarray(chi, dtype=float)
    expected = len(standard_names(robot))
    if array.shape != (expected,):
        raise InputError(f"chi has shape {array.shape}", f"give all {expected} standard parameters", robot.name)
    return array


def rigid_body_torque(robot: Robot, chi: Array, motion: Motion, gravity: Array | None = None) -> Array:
    """Return the torque of the links alone, shape (n, N); gravity [m/s^2, base frame]: instead of the robot's."""
    tau = np.empty_like(motion.q)
    for part in chunks(motion.q.shape[1]):
        piece = Motion(motion.q[:, part], motion.dq[:, part], motion.ddq[:, part])
        tau[:, part] = _newton_euler(robot, chi, piece, gravity)
    return tau


def _newton_euler(robot: Robot, chi: Array, motion: Motion, gravity: Array | None) -> Array:
    placements = placements_of(robot, motion)
    force, moment = [], []  # of link j on its joint, in frame j, about its origin
    for link, parameters in zip(link_motions(robot, motion, placements, gravity), by_joint(robot, chi), strict=True):
        XX, XY, XZ, YY, YZ, ZZ = parameters[:6]
        J = np.array(((XX, XY, XZ), (XY, YY, YZ), (XZ, YZ, ZZ)))
        m = parameters[6:9, None]
        force.append(parameters[9] * link.a + cross(link.dw, m) + cross(link.w, cross(link.w, m)))
        moment.append(J @ link.dw + cross(link.w, J @ link.w) + cross(m, link.a))
    tau = np.empty_like(motion.q)
    for j in range(robot.n - 1, -1, -1):
        joint, placement = robot.joints[j], placements[j]
        tau[j] = force[j][2] if joint.sigma == PRISMATIC else moment[j][2]
        if joint.parent:
            f = placement.to_parent(force[j])
            force[joint.parent - 1] = force[joint.parent - 1] + f
            moment[joint.parent - 1] = moment[joint.parent - 1] + placement.to_parent(moment[j]) + cross(placement.p, f)
    return tau
