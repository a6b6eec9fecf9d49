# SPDX-License-Identifier: Apache-2.0

"""Which way gravity points: an arm on a wall whose description does not know it.

With a priori parameters chi the gravity torque is linear in the gravity vector g: tau = sum_k g_k G_k(q) +
s D(q, dq, ddq) + friction, with G_k the torque of a unit gravity along axis k and D that of the motion alone. g and s
come out of one linear least-squares problem beside friction, offset and rotor of each joint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.validation.effort_evidence import SampledMotion
from ros2_dynid.model.parameters import group_of, standard_names, standard_vector
from ros2_dynid.model.robot import Array, Robot

ANGLE = 25.0
"""Degrees from the described direction; mountings differ by more, and masses of the right sort give a few degrees."""
BETTER, EXPLAINED = 0.7, 0.6
"""The direction found leaves at most this share of the error of the described one, and of what there is to explain."""
CERTAIN = 0.35
"""Share left of what there is to explain below which a priori masses are good enough to be sure."""
AXIS = 10.0
"""Degrees within which a direction is taken for that of an axis."""


@dataclass(frozen=True)
class Mounting:
    """Gravity found, in the base link's frame (3,) [m/s^2]; error with it and with the described one, relative.

    angle: between the two [deg]; brakes: whether friction brakes the joints, as it does unless efforts are reversed.
    """

    gravity: tuple[float, float, float]
    error: float
    described: float
    angle: float
    brakes: bool

    @property
    def wrong(self) -> bool:
        """Whether the arm clearly is mounted another way than described."""
        better = self.error < BETTER * self.described and self.error < EXPLAINED
        return better and self.angle > ANGLE and (self.angle < 180.0 - ANGLE or self.brakes)

    @property
    def certain(self) -> bool:
        """Whether the a priori masses explain the torque so well that there is no doubt about it."""
        return self.wrong and self.error < CERTAIN


def mounting(robot: Robot, motion: SampledMotion) -> Mounting | None:
    """Return how the arm is mounted, or None if there are no a priori masses or the motion does not tell."""
    names, chi = standard_names(robot), standard_vector(robot)
    links = np.array([group_of(name) == "inertial" for name in names])
    chi = np.where(links, chi, 0.0)
    size = float(np.linalg.norm(robot.gravity))
    if not np.any(chi) or size == 0.0:
        return None
    q, dq, ddq, tau = motion.q, motion.dq, motion.ddq, motion.tau
    still = np.zeros_like(q)
    G = np.stack(
        [inverse_dynamics(replace(robot, gravity=axis), chi, q, still, still).ravel() for axis in np.eye(3)], axis=1
    )
    D = inverse_dynamics(replace(robot, gravity=np.zeros(3)), chi, q, dq, ddq).ravel()
    own = _own_columns(robot, dq, ddq)
    y, others = _beyond(tau.ravel(), own), _beyond(np.column_stack((G, D)), own)
    there = float(np.linalg.norm(y))
    if there == 0.0 or np.linalg.cond(others[:, :3] / np.linalg.norm(others[:, :3])) > 100.0:
        return None
    value, *_ = np.linalg.lstsq(others, y, rcond=None)
    g = value[:3]
    left = _left(np.column_stack((others[:, :3] @ robot.gravity, others[:, 3])), y)
    friction, *_ = np.linalg.lstsq(own, tau.ravel() - np.column_stack((G, D)) @ value, rcond=None)
    turned = float(np.degrees(np.arccos(np.clip(g @ robot.gravity / (np.linalg.norm(g) * size), -1.0, 1.0))))
    power = (own[:, : 2 * tau.shape[1]] @ friction[: 2 * tau.shape[1]]) @ dq.ravel()
    return Mounting(
        _tidy(g / np.linalg.norm(g), size),
        float(np.linalg.norm(y - others @ value) / there),
        float(np.linalg.norm(left) / there),
        turned,
        bool(power > 0.0 if abs(power) > 1e-3 * np.abs(tau.ravel() @ dq.ravel()) else value[3] > 0.0),
    )


def _left(described: Array, y: Array) -> Array:
    """Return what gravity as described, of any size but never negative, and motion leave of y."""
    value, *_ = np.linalg.lstsq(described, y, rcond=None)
    if value[0] < 0.0:
        described = described[:, 1:]
        value, *_ = np.linalg.lstsq(described, y, rcond=None)
    return np.asarray(y - described @ value)


def _own_columns(robot: Robot, dq: Array, ddq: Array) -> Array:
    """Return what each joint has by itself, shape (N n, 4 n): Coulomb and viscous friction, rotor, offset."""
    N, n = dq.shape
    top = np.maximum(np.max(np.abs(dq), axis=0), 1e-9)
    columns = (np.tanh(dq / (0.02 * top)), dq / top, ddq, np.ones_like(dq))
    out = np.zeros((N, n, 4 * n))
    for k, column in enumerate(columns):
        for j in range(n):
            out[:, j, k * n + j] = column[:, j]
    return out.reshape(N * n, 4 * n)


def _beyond(columns: Array, others: Array) -> Array:
    """Return what of the columns the others cannot explain."""
    scaled = others / np.maximum(np.linalg.norm(others, axis=0), 1e-300)
    rest: Array = columns - scaled @ np.linalg.lstsq(scaled, columns, rcond=1e-9)[0]
    return rest


def _tidy(direction: Array, size: float) -> tuple[float, float, float]:
    """Return the gravity vector, along an axis if it is close to one, with three digits otherwise."""
    k = int(np.argmax(np.abs(direction)))
    if abs(direction[k]) > np.cos(np.radians(AXIS)):
        direction = np.sign(direction[k]) * np.eye(3)[k]
    x, y, z = (float(round(size * part, 2)) + 0.0 for part in direction)
    return x, y, z
