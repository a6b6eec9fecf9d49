# SPDX-License-Identifier: Apache-2.0

"""Poses for a robot on its feet: the trunk shifts, turns and bows, the feet stay, the weight stays over them.

The robot's own controller goes to each and holds it for some seconds. At rest the six rows of the base, or all rows
where torques are measured, tell masses and first moments; the poses are those that tell most of them together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from ros2_dynid.dynamics.floating_base import MOST_PITCH
from ros2_dynid.dynamics.kinematics import frames, jacobian
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import by_joint, standard_vector
from ros2_dynid.model.robot import BASE_JOINTS, Array, Robot

BASE = len(BASE_JOINTS)
ROUNDS = 30
"""Newton's steps in which the legs reach their feet from the stance, each at most REACH long."""
REACH = 0.2
"""Longest change of a joint in one of them [rad or m]."""
CLOSED = 1e-7
"""Distance [m] of a foot from its place that counts as none."""
PRIOR = 1e-6
"""Information, relative to the largest column's, that is there before the first pose: what no pose tells stays open."""


@dataclass(frozen=True)
class Sway:
    """How far the trunk leaves the stance: shift [m] and angle [rad] each way; margin: of the weight from the edges of
    the feet's polygon [m]; candidates: poses tried.
    """

    shift: float = 0.06
    angle: float = 0.25
    margin: float = 0.02
    candidates: int = 400


def standing_poses(
    robot: Robot, feet: tuple[str, ...], stance: Array, count: int, *, seed: int = 0, sway: Sway | None = None
) -> Array:
    """Return positions of all joints, shape (count, n_active): the feet where they are in `stance` (n_active,).

    In each the centre of mass, by the a priori masses, is above the polygon of the feet; joints are in their limits.
    """
    sway, rng = sway or Sway(), np.random.default_rng(seed)
    places = _foot_positions(robot, stance[None], _check(robot, feet, stance, count))[0]
    drawn = np.tile(np.asarray(stance, dtype=float), (sway.candidates, 1))
    drawn[:, :3] += rng.uniform(-sway.shift, sway.shift, (sway.candidates, 3))
    drawn[:, 3:BASE] += rng.uniform(-sway.angle, sway.angle, (sway.candidates, 3))
    q = _with_feet_at(robot, feet, drawn, places)
    off = np.linalg.norm(_foot_positions(robot, q, feet) - places, axis=2).max(axis=1)
    usable = (off < CLOSED) & _in_limits(robot, q) & (np.abs(q[:, 4]) < MOST_PITCH)
    usable &= _distance_inside(places[:, :2], centre_of_mass(robot, q)[:, :2]) >= sway.margin
    q = q[usable]
    if len(q) < count:
        hint = "start from a stance with bent legs and the trunk above the feet, or let it sway less"
        raise InputError(f"only {len(q)} of {sway.candidates} poses keep feet, limits and balance", hint, robot.name)
    chosen = _most_informative(robot, q, count)
    return np.asarray(q[chosen])


def _check(robot: Robot, feet: tuple[str, ...], stance: Array, count: int) -> tuple[str, ...]:
    if not robot.floating:
        raise InputError("a robot on its feet has a floating base", "let the base float", robot.name)
    if len(feet) < 3:
        raise InputError(f"{len(feet)} feet span no polygon", "name at least three, or points of the soles", robot.name)
    if np.shape(stance) != (len(robot.active),) or not np.all(np.isfinite(stance)):
        raise InputError(f"the stance has shape {np.shape(stance)}", f"give {len(robot.active)} positions", robot.name)
    if count < 1:
        raise InputError(f"{count} poses are asked for", "ask for at least one", robot.name)
    return feet


def _foot_positions(robot: Robot, q: Array, feet: tuple[str, ...]) -> Array:
    """Return the feet's positions in the world, shape (N, feet, 3) [m]."""
    T = frames(robot, q)
    tools = [robot.tools[foot] for foot in feet]
    return np.asarray(np.stack([(T[:, j - 1] @ pose)[:, :3, 3] for j, pose in tools], axis=1))


def _with_feet_at(robot: Robot, feet: tuple[str, ...], q: Array, places: Array) -> Array:
    """Return the positions with the legs moved so that the feet are at these places, as near as they reach."""
    q = q.copy()
    for _ in range(ROUNDS):
        T = frames(robot, q)
        gap, J = [], []
        for foot, place in zip(feet, places, strict=True):
            number, pose = robot.tools[foot]
            tool = T[:, number - 1] @ pose
            gap.append(np.einsum("tji,tj->ti", tool[:, :3, :3], place - tool[:, :3, 3]))  # in the foot's frame
            J.append(jacobian(robot, q, foot)[:, :3, BASE:])
        step = np.linalg.pinv(np.concatenate(J, axis=1), rcond=1e-6) @ np.concatenate(gap, axis=1)[:, :, None]
        q[:, BASE:] += np.clip(step[:, :, 0], -REACH, REACH)
    return q


def _in_limits(robot: Robot, q: Array) -> NDArray[np.bool_]:
    limits = [robot.joints[j - 1].limits for j in robot.active]
    lower, upper = np.array([(limit.lower, limit.upper) for limit in limits]).T
    return np.asarray(((q >= lower) & (q <= upper)).all(axis=1))


def centre_of_mass(robot: Robot, q: Array) -> Array:
    """Return the centre of mass in the world, shape (N, 3) [m], by the robot's a priori parameters."""
    links = by_joint(robot, standard_vector(robot))
    M, moment = links[:, 9], links[:, 6:9]
    T = frames(robot, q)
    total = np.einsum("tjik,jk->ti", T[:, :, :3, :3], moment) + np.einsum("tji,j->ti", T[:, :, :3, 3], M)
    return np.asarray(total / M.sum())


def _distance_inside(corners: Array, points: Array) -> Array:
    """Return how far points (N, 2) are inside the convex polygon of corners (k, 2) [m]; negative outside."""
    edges = ConvexHull(corners).equations  # normals outwards
    return np.asarray(-(points @ edges[:, :2].T + edges[:, 2]).max(axis=1))


def _most_informative(robot: Robot, q: Array, count: int) -> list[int]:
    """Return the poses, one after the other, that add most to the determinant of the information."""
    rest = np.zeros_like(q)
    Y = regressor(robot, q, rest, rest)[:, :BASE]
    size = np.sqrt((Y**2).sum(axis=1).max(axis=0))
    Y = Y[:, :, size > 0] / size[size > 0]
    inverse = np.eye(Y.shape[2]) / PRIOR
    chosen: list[int] = []
    for _ in range(count):
        gain = np.linalg.slogdet(np.eye(BASE) + Y @ inverse @ Y.transpose(0, 2, 1))[1]
        gain[chosen] = -np.inf
        chosen.append(int(gain.argmax()))
        own = Y[chosen[-1]]
        half = inverse @ own.T
        inverse -= half @ np.linalg.solve(np.eye(BASE) + own @ half, half.T)
    return chosen
