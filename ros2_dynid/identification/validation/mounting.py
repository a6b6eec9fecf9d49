# SPDX-License-Identifier: Apache-2.0

"""Which way gravity points, for an arm on a wall whose description does not know it.

With a priori parameters chi the gravity torque is linear in the gravity vector g: tau = sum_k g_k G_k(q) + s D(q, dq,
ddq) + friction, with G_k the torque of a unit gravity along axis k and D that of the motion alone. g and s come out of
one linear least-squares problem beside friction, offset and rotor of each joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import Option, Text
from ros2_dynid.identification.validation.effort_sign_and_unit import SampledMotion, build_friction_columns, project_out
from ros2_dynid.identification.validation.finding import Finding
from ros2_dynid.model.parameters import group_of, standard_names, standard_vector
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class MountingThresholds:
    """When the arm is mounted another way than described.

    angle: least angle between the directions of gravity [deg]; mountings differ by more, and masses of the right sort
    give a few degrees. better: largest error with the direction that fits, over that with the described one. explained:
    largest share that it leaves of what there is to explain. certain: the same below which a priori masses are good
    enough to be sure. axis: angle [deg] within which a direction is taken for that of an axis. condition: of the three
    gravity columns, above which the motion does not tell the direction. reversed_efforts: error with the described
    direction and efforts turned round, over that with the other direction, up to which that explains it as well.
    """

    angle: float = 25.0
    better: float = 0.7
    explained: float = 0.6
    certain: float = 0.35
    axis: float = 10.0
    condition: float = 100.0
    reversed_efforts: float = 1.1


MOUNTING = MountingThresholds()


@dataclass(frozen=True)
class Mounting:
    """Gravity that fits, in the base link's frame (3,) [m/s^2]; error with it and with the described one, relative.

    angle: between the two [deg]; brakes: whether friction brakes the joints, as it does unless efforts are reversed.
    """

    gravity: tuple[float, float, float]
    error: float
    described: float
    angle: float
    brakes: bool

    def is_wrong(self, thresholds: MountingThresholds = MOUNTING) -> bool:
        """Return whether the arm clearly is mounted another way than described."""
        better = self.error < thresholds.better * self.described and self.error < thresholds.explained
        return better and self.angle > thresholds.angle and (self.angle < 180.0 - thresholds.angle or self.brakes)

    def is_certain(self, thresholds: MountingThresholds = MOUNTING) -> bool:
        """Return whether the a priori masses explain the torque so well that there is no doubt about it."""
        return self.is_wrong(thresholds) and self.error < thresholds.certain


def estimate_mounting(
    robot: Robot, motion: SampledMotion, thresholds: MountingThresholds = MOUNTING
) -> Mounting | None:
    """Return how the arm is mounted, or None if there are no a priori masses or the motion does not tell."""
    links = np.array([group_of(name) == "inertial" for name in standard_names(robot)])
    chi = np.where(links, standard_vector(robot), 0.0)
    size = float(np.linalg.norm(robot.gravity))
    if not np.any(chi) or size == 0.0:
        return None
    q, dq, ddq, tau = motion.q, motion.dq, motion.ddq, motion.tau.ravel()
    still = np.zeros_like(q)
    G = [inverse_dynamics(replace(robot, gravity=axis), chi, q, still, still).ravel() for axis in np.eye(3)]
    D = inverse_dynamics(replace(robot, gravity=np.zeros(3)), chi, q, dq, ddq).ravel()
    drives, shared = _drive_columns(dq, ddq), np.column_stack((*G, D))
    y, columns = project_out(tau, drives), project_out(shared, drives)
    torque = float(np.linalg.norm(y))
    gravity_columns, motion_column = columns[:, :3], columns[:, 3:]
    if torque == 0.0 or np.linalg.cond(gravity_columns / np.linalg.norm(gravity_columns)) > thresholds.condition:
        return None
    value, *_ = np.linalg.lstsq(columns, y, rcond=None)
    direction = value[:3] / np.linalg.norm(value[:3])
    described = np.column_stack((gravity_columns @ robot.gravity, motion_column))
    if np.linalg.lstsq(described, y, rcond=None)[0][0] < 0.0:  # gravity may have any size, but does not pull upwards
        described = motion_column
    drive_values, *_ = np.linalg.lstsq(drives, tau - shared @ value, rcond=None)
    friction = slice(0, 2 * q.shape[1])
    power = float((drives[:, friction] @ drive_values[friction]) @ dq.ravel())
    rubs = abs(power) > 1e-3 * np.abs(tau @ dq.ravel())
    return Mounting(
        _round_gravity(direction, size, thresholds.axis),
        float(np.linalg.norm(y - columns @ value) / torque),
        float(np.linalg.norm(project_out(y, described)) / torque),
        float(np.degrees(np.arccos(np.clip(direction @ robot.gravity / size, -1.0, 1.0)))),
        bool(power > 0.0 if rubs else value[3] > 0.0),
    )


def _drive_columns(dq: Array, ddq: Array) -> Array:
    """Return what each joint has by itself, shape (N n, 4 n): Coulomb and viscous friction, rotor, offset."""
    N, n = dq.shape
    columns = np.stack((*build_friction_columns(dq), ddq, np.ones_like(dq)))
    return np.asarray(np.einsum("ktj,ij->tikj", columns, np.eye(n)).reshape(N * n, 4 * n))


def _round_gravity(direction: Array, size: float, axis: float) -> tuple[float, float, float]:
    """Return the gravity vector, along an axis if it is as close to one [deg], with two decimals otherwise."""
    k = int(np.argmax(np.abs(direction)))
    if abs(direction[k]) > np.cos(np.radians(axis)):
        direction = np.sign(direction[k]) * np.eye(3)[k]
    x, y, z = (float(round(size * part, 2)) + 0.0 for part in direction)
    return x, y, z


def check_mounting(
    robot: Robot, motion: SampledMotion, is_reversed: Sequence[bool], thresholds: MountingThresholds = MOUNTING
) -> Finding | None:
    """Return the finding of an arm that is mounted another way; is_reversed: efforts that seem to have a wrong sign."""
    mounting = estimate_mounting(robot, motion, thresholds)
    if mounting is None or not mounting.is_wrong(thresholds):
        return None
    turned_round = estimate_mounting(
        robot, replace(motion, tau=np.where(is_reversed, -1.0, 1.0) * motion.tau), thresholds
    )
    if turned_round is not None and turned_round.described < thresholds.reversed_efforts * mounting.error:
        return None
    what = (
        f"gravity points {mounting.angle:.0f} degrees away from where the robot's description has it: the a priori "
        f"masses leave {100 * mounting.described:.0f} % of the torque unexplained with that, "
        f"{100 * mounting.error:.0f} % with "
        f"({', '.join(f'{x:g}' for x in mounting.gravity)}) m/s^2 in the base link's frame"
    )
    hint = Text("if the arm is mounted that way, set ", Option("gravity", mounting.gravity))
    return Finding("gravity", (), what, hint, mounting.is_certain(thresholds))
