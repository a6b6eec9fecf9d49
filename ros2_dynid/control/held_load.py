# SPDX-License-Identifier: Apache-2.0

"""A load at the end of the robot, and whether a load or a model can be true: the robot must be able to hold it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import link_slice
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

POSES = 64
"""Random positions within the joint limits that stand for all the robot can reach."""
LARGEST_RADIUS = 10.0
"""Radius of gyration [m] beyond which an inertia is a mistake of units: no arm holds a load of that size."""


@dataclass(frozen=True, eq=False)
class Load:
    """mass [kg], com (3,) [m] and inertia about it (3, 3) [kg.m^2] in the frame of joint number `joint`."""

    mass: float
    com: Array
    inertia: Array
    joint: int


def checked_load(load: Load) -> Load:
    """Return a load that a body can have, or refuse it.

    Its inertia about the centre of mass is that of a density >= 0: the principal moments are not negative, and none is
    larger than the sum of the others.
    """
    if not (np.isfinite(load.mass) and load.mass >= 0):
        raise InputError(f"the payload has the mass {load.mass:g} kg", "give a finite mass >= 0")
    if not (np.isfinite(load.com).all() and np.isfinite(load.inertia).all()):
        raise InputError("the payload's centre or inertia is not finite", "give finite numbers, 0 where not known")
    if load.mass == 0 and np.any(load.inertia):
        raise InputError("the payload has inertia but no mass", "give its mass, or zeros to take it off")
    with np.errstate(over="ignore", invalid="ignore"):
        moments = np.linalg.eigvalsh(load.inertia / 2 + load.inertia.T / 2)
    if not np.isfinite(moments).all() or moments[2] > LARGEST_RADIUS**2 * load.mass:
        raise InputError("no body of the payload's mass has its inertia", "give it in kg.m^2, zeros where not known")
    slack = 1e-9 * float(np.abs(moments).max())
    if moments[0] < -slack:
        raise InputError("the payload's inertia has a negative principal moment", "give zeros where it is not known")
    if moments[2] > moments[0] + moments[1] + slack:
        raise InputError(
            "the payload's inertia breaks the triangle inequality of principal moments",
            "give it about the centre of mass, or zeros where it is not known",
        )
    return load


def load_parameters(robot: Robot, load: Load, size: int) -> Array:
    """Return the standard parameters, shape (size,), that a load adds: J = I + m (c.c 1 - c c^T), m c and m."""
    chi = np.zeros(size)
    if load.mass:
        m, c = load.mass, load.com
        J = load.inertia + m * (c @ c * np.eye(3) - np.outer(c, c))
        chi[link_slice(load.joint - 1)] = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(m * c), m)
    return chi


def reachable_poses(robot: Robot, count: int = POSES) -> Array:
    """Return positions within the limits of the active joints, shape (count, n); half a turn or 1 m where unlimited."""
    rng = np.random.default_rng(0)
    if robot.loops is not None:
        return random_positions(robot, rng, count, np.pi)
    rows = []
    for j in robot.active:
        joint = robot.joints[j - 1]
        wide = 1.0 if joint.sigma == PRISMATIC else np.pi
        lower, upper = max(joint.limits.lower, -wide), min(joint.limits.upper, wide)
        rows.append(rng.uniform(lower, max(lower, upper), count))
    return np.array(rows).T


def check_holdable(
    model: FeedforwardModel,
    without: FeedforwardModel | None,
    effort: Array,
    q: Array | None,
    poses: Array,
    what: str,
    hint: str,
) -> None:
    """Refuse what the robot could not hold: gravity beyond the effort limits where it is, or in most positions.

    effort: limits, shape (n,), infinite where not known; q: present position, shape (n,), if known. without: the model
    without the load in question, whose own gravity is then judged, too.
    """
    names = model.robot.active_names

    def torques(place: Array) -> list[Array]:
        whole = model.gravity(place)
        return [whole] if without is None else [whole, whole - without.gravity(place)]

    for tau in torques(q) if q is not None else ():
        if np.any(np.abs(tau) > effort) or not np.isfinite(tau).all():
            k = int(np.argmax(np.abs(tau) / effort))
            raise InputError(
                f"{what} needs {abs(tau[k]):.4g} N.m at {names[k]!r} against gravity where the robot is, "
                f"its limit is {effort[k]:g}",
                hint,
            )
    beyond = [any(np.any(np.abs(tau) > effort) or not np.isfinite(tau).all() for tau in torques(p)) for p in poses]
    if 2 * sum(beyond) > len(poses):
        raise InputError(f"{what} is beyond the effort limits in {np.mean(beyond):.0%} of the robot's positions", hint)
