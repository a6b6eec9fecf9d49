# SPDX-License-Identifier: Apache-2.0

"""The rigid body along a motion: what each drive carries when the other joints move as they do there."""

from __future__ import annotations

import numpy as np

from ros2_dynid.codegen.backend import pad_to_block, torque_function
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.identification.servo.simulation import RigidTerms
from ros2_dynid.model.parameters import IA, by_joint, standard_vector
from ros2_dynid.model.robot import Array, Robot

ANGLE_STEP = 1e-4
"""Step of the numeric derivative of the torque by a position [rad or m]."""


def a_priori_links(robot: Robot) -> Array:
    """Return the a priori standard parameters of the links alone, without rotors, shape (n_standard,)."""
    chi = standard_vector(robot, robot.parameters).copy()
    by_joint(robot, chi)[:, IA] = 0.0
    return frictionless(robot, chi)[1]


def rigid_terms(robot: Robot, chi: Array, q: Array, v: Array, a: Array) -> RigidTerms:
    """Return the rigid body's terms along q, v, a, shape (L, B, n) [rad or m, s], for link parameters chi."""
    shape, n = q.shape, q.shape[-1]
    function = torque_function(*frictionless(robot, chi))

    def torques(q: Array, v: Array, a: Array) -> Array:
        arrays = [np.ascontiguousarray(x.reshape(-1, n)) for x in (q, v, a)]
        return np.asarray(function.torques(*pad_to_block(arrays))[: len(arrays[0])]).reshape(shape)

    inertia, stiffness = np.empty(shape), np.empty(shape)
    torque = torques(q, v, a)
    for j in range(n):
        unit = np.eye(n)[j]
        inertia[..., j] = (torques(q, v, a + unit) - torque)[..., j]
        stiffness[..., j] = (torques(q + ANGLE_STEP * unit, v, a) - torque)[..., j] / ANGLE_STEP
    return RigidTerms(q, inertia, torque - inertia * a, stiffness)
