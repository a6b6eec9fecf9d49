# SPDX-License-Identifier: Apache-2.0

"""Smooth penalty for exceeding limits, on samples of q, dq, ddq, with its exact gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.excitation.collision import Shapes, collision_term, distances, obstacle_distances
from ros2_dynid.excitation.limits import Bounds
from ros2_dynid.excitation.sensitivity import regressor_with_gradient
from ros2_dynid.model.robot import Array, Robot

PenaltyGradient = tuple[float, Array, Array, Array]
"""A penalty and its derivatives by q, dq and ddq, each of shape (N, n_active)."""
PositionTerm = Callable[[Array], tuple[float, Array]]
"""A penalty on positions alone and its derivative by q."""


@dataclass(frozen=True, eq=False)
class Penalty:
    """Sum of squares of the relative excess over limits that are tightened by `tight`, of torques, and of collisions.

    chi: standard parameters that predict the torques, None to leave these out; shapes: what must not collide.
    """

    robot: Robot
    bounds: Bounds
    tight: float = 0.98
    chi: Array | None = None
    shapes: Shapes | None = None

    @cached_property
    def _collisions(self) -> PositionTerm | None:
        return None if self.shapes is None else collision_term(self.robot, self.shapes)

    def __call__(self, q: Array, dq: Array, ddq: Array) -> PenaltyGradient:
        """Return the penalty of samples, shape (N, n_active), and its gradient."""
        value, gq, gdq, gddq = self.limits(q, dq, ddq)
        more, hq, hdq, hddq = self.further(q, dq, ddq)
        return value + more, gq + hq, gdq + hdq, gddq + hddq

    def limits(self, q: Array, dq: Array, ddq: Array) -> PenaltyGradient:
        """Return the penalty of positions, velocities and accelerations."""
        G, offset = constraint(self.robot)
        b = self.bounds
        half = 0.5 * (b.upper - b.lower)
        has_limit = np.isfinite(half)  # a passive joint may have no limits of its own
        middle = 0.5 * (np.where(has_limit, b.lower, 0.0) + np.where(has_limit, b.upper, 0.0))
        total, gradients = 0.0, []
        for x, shift, size in ((q, offset - middle, half), (dq, 0.0, b.velocity), (ddq, 0.0, b.acceleration)):
            y = x @ G.T + shift
            limit = self.tight * size
            excess = np.maximum(np.abs(y) / limit - 1.0, 0.0)
            total += float(np.sum(excess**2))
            gradients.append((2.0 * excess * np.sign(y) / limit) @ G)
        return total, gradients[0], gradients[1], gradients[2]

    def further(self, q: Array, dq: Array, ddq: Array) -> PenaltyGradient:
        """Return the penalty of torques and of collisions."""
        total, gq = self.poses(q)
        if self.chi is None:
            return total, gq, np.zeros_like(q), np.zeros_like(q)
        value, hq, hdq, hddq = self._effort(self.chi, q, dq, ddq)
        return total + value, gq + hq, hdq, hddq

    def poses(self, q: Array) -> tuple[float, Array]:
        """Return the penalty of collisions, which look at positions alone, and its derivative by q."""
        return (0.0, np.zeros_like(q)) if self._collisions is None else self._collisions(q)

    def torques(self, tau: Array) -> tuple[float, Array]:
        """Return the penalty of torques tau, shape (N, n_active), and its derivative by tau."""
        limit = self.tight * self.bounds.effort
        excess = np.maximum(np.abs(tau) / limit - 1.0, 0.0)
        return float(np.sum(excess**2)), 2.0 * excess * np.sign(tau) / limit

    def able(self, q: Array, dq: Array, ddq: Array) -> NDArray[np.bool_]:
        """Return for each of K groups of samples, shape (K, M, n_active), whether torques and distances are fine."""
        K, _, n = q.shape
        fine = np.ones(K, dtype=bool)
        if self.chi is not None:
            tau = inverse_dynamics(self.robot, self.chi, *(x.reshape(-1, n) for x in (q, dq, ddq)))
            fine &= np.all(np.abs(tau).reshape(K, -1, n) <= self.tight * self.bounds.effort, axis=(1, 2))
        if self.shapes is not None:
            least, poses = self.shapes.margin + 5e-4, q.reshape(-1, n)
            standing = obstacle_distances(self.robot, self.shapes, poses, least)
            for distance in (*distances(self.robot, self.shapes, poses), standing):
                fine &= np.all(distance.reshape(K, -1) >= least, axis=1)
        return fine

    def _effort(self, chi: Array, q: Array, dq: Array, ddq: Array) -> PenaltyGradient:
        value, slope = self.torques(inverse_dynamics(self.robot, chi, q, dq, ddq))
        gradients = np.zeros((3, *q.shape))
        rows = np.flatnonzero(slope.any(axis=1))  # the rest has no gradient
        if len(rows):
            _, back = regressor_with_gradient(self.robot, q[rows], dq[rows], ddq[rows])
            gradients[:, rows] = back(slope[rows][:, :, None] * chi)
        return value, gradients[0], gradients[1], gradients[2]
