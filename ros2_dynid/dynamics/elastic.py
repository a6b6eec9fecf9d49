# SPDX-License-Identifier: Apache-2.0

"""Springs, gravity compensators and cables: tau = (dx/dq)^T F(x), linear in the coefficients of F (model/forces.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ros2_dynid.dynamics.kinematics import Motion, placements_of
from ros2_dynid.dynamics.placement import Placement, cross
from ros2_dynid.model.forces import Force, Pivot
from ros2_dynid.model.parameters import force_slice
from ros2_dynid.model.robot import PRISMATIC, Array, Robot


def elastic_columns(robot: Robot, motion: Motion) -> Array:
    """Return the torques of unit coefficients at all joints, shape (coefficients, n, N)."""
    columns = []
    for x, J, force in _coordinates(robot, motion):
        columns += [J * (x - force.rest) ** power for power in force.powers]
    return np.array(columns).reshape(-1, *motion.q.shape)


def elastic_torque(robot: Robot, chi: Array, motion: Motion) -> Array:
    """Return the torque of all elements, shape (n, N), for chi of shape (n_standard,)."""
    return np.asarray(np.tensordot(chi[force_slice(robot)], elastic_columns(robot, motion), axes=1))


def elastic_energies(robot: Robot, motion: Motion) -> Array:
    """Return the energies of unit coefficients, shape (coefficients, N): (x - x0)^(p + 1) / (p + 1)."""
    energies = []
    for x, _, force in _coordinates(robot, motion):
        energies += [(x - force.rest) ** (power + 1) / (power + 1) for power in force.powers]
    return np.array(energies).reshape(-1, motion.q.shape[1])


def elastic_gradient(robot: Robot, motion: Motion, weights: Array) -> Array:
    """Return d<weights, columns>/dq, shape (n, N), for weights of the columns' shape (coefficients, n, N).

    By central differences: the elements are few, and their second derivatives are long.
    """
    gradient = np.zeros_like(motion.q)
    step = 1e-5
    for j in range(robot.n):
        sides = []
        for sign in (1.0, -1.0):
            q = motion.q.copy()
            q[j] += sign * step
            sides.append(elastic_columns(robot, Motion(q, motion.dq, motion.ddq)))
        gradient[j] = np.einsum("cjt,cjt->t", weights, sides[0] - sides[1]) / (2.0 * step)
    return gradient


def _coordinates(robot: Robot, motion: Motion) -> list[tuple[Array, Array, Force]]:
    """Return x (N,) and dx/dq (n, N) of every element."""
    placements = placements_of(robot, motion) if any(force.pivots for force in robot.forces) else []
    coordinates = []
    for force in robot.forces:
        J = np.zeros_like(motion.q)
        if force.pivots:
            x = _distance(robot, placements, force, J)
        else:
            for joint, weight in force.weights.items():
                J[joint - 1] = weight
            x = np.sum(J * motion.q, axis=0)
        coordinates.append((x, J, force))
    return coordinates


def _distance(robot: Robot, placements: Sequence[Placement], force: Force, J: Array) -> Array:
    """Return the distance of a cylinder's pivots, shape (N,), and write its derivative into J (n, N)."""
    first, second = force.pivots
    a, b = paths(lambda j: robot.joints[j - 1].parent, first, second)
    N = J.shape[1]
    places = []
    for pivot, path in ((first, a), (second, b)):
        p = np.repeat(np.array(pivot.point)[:, None], N, axis=1)
        points = {}
        for j in path:
            points[j] = p
            p = placements[j - 1].to_parent(p) + placements[j - 1].p
        places.append((p, points))
    (p_a, points_a), (p_b, points_b) = places
    span = p_b - p_a
    x = np.sqrt(np.sum(span**2, axis=0))
    u = span / np.maximum(x, 1e-300)
    for path, points, sign in ((a, points_a, -1.0), (b, points_b, 1.0)):
        f = u
        for j in reversed(path):
            f = placements[j - 1].to_child(f)
            prismatic = robot.joints[j - 1].sigma == PRISMATIC
            J[j - 1] += sign * (f[2] if prismatic else cross(points[j], f)[2])
    return np.asarray(x)


def paths(parent: Callable[[int], int], first: Pivot, second: Pivot) -> tuple[list[int], list[int]]:
    """Return the joints from each of two pivots up to the frame in which their chains to the base meet."""
    chains = []
    for pivot in (first, second):
        chain, j = [pivot.joint], pivot.joint
        while j:
            j = parent(j)
            chain.append(j)
        chains.append(chain)
    meet = next(j for j in chains[0] if j in chains[1])
    a, b = (chain[: chain.index(meet)] for chain in chains)
    return a, b
