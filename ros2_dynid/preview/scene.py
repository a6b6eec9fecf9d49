# SPDX-License-Identifier: Apache-2.0

"""A robot's motion as data: all that the page needs to draw it at any moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.dynamics.kinematics import constraint, frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError, Text
from ros2_dynid.excitation.collision import Nearest, Shapes, nearest
from ros2_dynid.excitation.limits import Bounds, Caps, bounds_of, known_parameters, use_by_joint
from ros2_dynid.excitation.obstacles import ObstacleEntry
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.mdh import inverse
from ros2_dynid.model.robot import PRISMATIC, Array, Robot, open_tree
from ros2_dynid.preview.bodies import Body, sticks

RATE_HZ = 50.0
MAX_SAMPLES = 2000
"""A longer motion is sampled less often than RATE_HZ: a page must stay small."""
UNCHECKED = "collisions are not checked for"
"""How the note on links without a readable collision shape begins (excitation.shapes.missing_note)."""
TIPS = 4
"""Ends of the robot whose path is drawn."""


@dataclass(frozen=True, eq=False)
class Link:
    """Joint j of the tree: its parent (0: the base), whether it slides, transform (4, 4) parent -> j at q = 0."""

    name: str
    parent: int
    prismatic: bool
    zero: Array


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Kinematics for the page: T_j = T_parent zero_j Rot(z, q_j), or Trans(z, q_j), with q = G q_active + offset.

    base: base link -> frame 0, (4, 4). active: names of the joints that move independently.
    """

    links: tuple[Link, ...]
    base: Array
    G: Array
    offset: Array
    active: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Tip:
    """An end of the robot: link, the joint that carries it, and its place (3,) in that joint's frame [m]."""

    link: str
    joint: int
    point: Array


@dataclass(frozen=True, eq=False)
class Appearance:
    """A robot without a motion: skeleton, bodies, tips, and collision shapes with their planes."""

    name: str
    skeleton: Skeleton
    bodies: tuple[Body, ...]
    tips: tuple[Tip, ...]
    shapes: Shapes | None
    floor: float | None
    box: tuple[float, ...] | None
    up: Array
    """Against gravity, in the base frame (3,)."""
    notes: tuple[str, ...]
    obstacles: tuple[ObstacleEntry, ...] = ()


@dataclass(frozen=True, eq=False)
class MotionData:
    """Samples at even times: q, dq, ddq, tau, shape (N, n_active), tau empty (N, 0) where no mass is known.

    lower, upper, velocity, acceleration, effort: limits of the active joints, (n_active,), inf where unknown; use:
    largest fraction used by each of them along the exact curve. path: of each tip, (N, tips, 3) [m].
    """

    kind: str
    duration: float
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    effort: Array
    use: Mapping[str, Array]
    path: Array
    nearest: Nearest | None

    @property
    def t(self) -> Array:
        """Times of the samples, shape (N,) [s]."""
        return np.linspace(0.0, self.duration, len(self.q))


@dataclass(frozen=True, eq=False)
class Scene:
    """A robot and its motion."""

    appearance: Appearance
    motion: MotionData
    notes: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """What to know first: that collisions were not checked, or not with all links; empty if they were."""
        return warning_of(self.motion.nearest is not None, self.notes)


def warning_of(checked: bool, notes: Sequence[object]) -> str:
    """Return what to know first of collisions: that none is checked, or not with all links; "" if they all are."""
    if not checked:
        return "Collisions are NOT checked: the robot has no collision shapes that can be read."
    missing = [str(note) for note in notes if str(note).startswith(UNCHECKED)]
    return f"Not all collisions are checked: {'; '.join(missing)}." if missing else ""


def skeleton_of(robot: Robot) -> Skeleton:
    """Return the robot's kinematics as the page computes it."""
    T = [robot.base, *frames(open_tree(robot), np.zeros((1, robot.n)))[0]]
    links = tuple(
        Link(joint.name, joint.parent, joint.sigma == PRISMATIC, inverse(T[joint.parent]) @ T[j])
        for j, joint in enumerate(robot.joints, start=1)
    )
    G, offset = constraint(robot)
    return Skeleton(links, robot.base, G, offset, robot.active_names)


def appearance(
    robot: Robot,
    bodies: Sequence[Body] = (),
    shapes: Shapes | None = None,
    *,
    floor: float | None = None,
    box: Sequence[float] | None = None,
    notes: Sequence[str] = (),
) -> Appearance:
    """Return what the robot looks like; joints without bodies are drawn as sticks, from the kinematics."""
    gravity = float(np.linalg.norm(robot.gravity))
    up = -robot.gravity / gravity if gravity > 0 else np.array([0.0, 0.0, 1.0])
    return Appearance(
        robot.name,
        skeleton_of(robot),
        (*bodies, *sticks_where_nothing_is_drawn(robot, bodies)),
        _tips(robot),
        shapes,
        floor,
        None if box is None else tuple(box),
        up,
        tuple(notes),
    )


def sticks_where_nothing_is_drawn(robot: Robot, bodies: Sequence[Body]) -> list[Body]:
    """Return the sticks of the joints without a body: of all, if more than half of the joints have none."""
    drawn = {body.joint for body in bodies}
    joints = {j for j in range(1, robot.n + 1) if j not in drawn}
    if 2 * len(joints) > robot.n:
        joints = set(range(robot.n + 1))
    elif joints:
        joints |= {robot.joints[j - 1].parent for j in joints}
    return [body for body in sticks(robot) if body.joint in joints]


def _tips(robot: Robot) -> tuple[Tip, ...]:
    """Return the ends of the robot: links at the ends of its branches, or the origin of the last frame."""
    parents = {joint.parent for joint in robot.joints}
    ends = [Tip(link, j, T[:3, 3].copy()) for link, (j, T) in robot.tools.items() if j not in parents]
    one_each = list({tip.joint: tip for tip in ends}.values())
    return tuple(one_each[:TIPS]) or (Tip(robot.joints[-1].name, robot.n, np.zeros(3)),)


def motion_data(robot: Robot, trajectory: Trajectory, look: Appearance, caps: Caps | None = None) -> MotionData:
    """Return samples of the motion with limits, torques by the a priori parameters, and distances."""
    trajectory = trajectory.ordered(robot.active_names)
    bounds = _bounds(robot, caps)
    count = int(np.clip(np.ceil(trajectory.duration * RATE_HZ), 1, MAX_SAMPLES)) + 1
    s = trajectory.at(np.linspace(0.0, trajectory.duration, count))
    chi = known_parameters(robot)
    tau = np.empty((count, 0)) if chi is None else inverse_dynamics(robot, chi, s.q, s.dq, s.ddq)
    active = [j - 1 for j in robot.active]
    use = use_by_joint(robot, trajectory.curve, bounds, chi)
    return MotionData(
        trajectory.kind,
        trajectory.duration,
        s.q,
        s.dq,
        s.ddq,
        tau,
        bounds.lower[active],
        bounds.upper[active],
        bounds.velocity[active],
        bounds.acceleration[active],
        bounds.effort,
        {kind: used if kind == "effort" else used[active] for kind, used in use.items()},
        _path(look, frames(robot, s.q)),
        None if look.shapes is None else nearest(robot, look.shapes, s.q),
    )


def sampled_path(
    look: Appearance, q_of: Callable[[Array], Array], duration: float, frames_of: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Return q, shape (N, n_active), at even times of a motion q_of(t) of this duration [s], and its tips' path.

    frames_of(q): the frames (N, n, 4, 4); the path has the shape (N, tips, 3) [m].
    """
    count = int(np.clip(np.ceil(duration * RATE_HZ), 1, MAX_SAMPLES)) + 1
    q = q_of(np.linspace(0.0, duration, count))
    return q, _path(look, frames_of(q))


def _path(look: Appearance, T: Array) -> Array:
    T = np.concatenate((np.broadcast_to(np.eye(4), (len(T), 1, 4, 4)), T), axis=1)
    return np.stack([T[:, tip.joint, :3, :3] @ tip.point + T[:, tip.joint, :3, 3] for tip in look.tips], axis=1)


def _bounds(robot: Robot, caps: Caps | None) -> Bounds:
    """Return the limits without a margin; a robot that lacks limits is shown with those it has."""
    try:
        return bounds_of(robot, 0.0, caps)
    except InputError:
        limits = [joint.limits for joint in robot.joints]
        lower, upper, velocity, acceleration, effort = (
            np.array([getattr(one, name) for one in limits])
            for name in ("lower", "upper", "velocity", "acceleration", "effort")
        )
        names = tuple(joint.name for joint in robot.joints)
        effort = effort[[j - 1 for j in robot.active]]
        note = "some limits are not known: their use is not shown"
        return Bounds(names, lower, upper, velocity, acceleration, effort, (note,))


def scene(robot: Robot, trajectory: Trajectory, look: Appearance, caps: Caps | None = None) -> Scene:
    """Return the scene of a trajectory, whose joints must be the robot's."""
    if set(trajectory.joint_names) != set(robot.active_names):
        missing = sorted(set(robot.active_names) ^ set(trajectory.joint_names))[0]
        raise InputError(
            f"joint {missing!r} is in the trajectory or in the robot, but not in both",
            "give the robot, and its base and tip links, that the trajectory was planned for",
        )
    motion = motion_data(robot, trajectory, look, caps)
    notes: list[str] = [*look.notes, *_bounds(robot, caps).notes]
    if not motion.tau.shape[1]:
        notes.append(Text("the robot has no masses: torques are not shown"))
    if motion.nearest is None:
        notes.append("the robot has no collision shapes: distances are not shown")
    elif look.shapes is not None:
        notes += look.shapes.notes
    return Scene(look, motion, tuple(notes))


def moment_of_least(motion: MotionData) -> tuple[float, float] | None:
    """Return the least distance [m] and its time [s], None if nothing is kept apart."""
    if motion.nearest is None or not np.isfinite(motion.nearest.distance).any():
        return None
    k = int(np.argmin(motion.nearest.distance))
    return float(motion.nearest.distance[k]), float(motion.t[k])


def names_of(shapes: Shapes, first: int, second: int) -> tuple[str, str]:
    """Return the two parts of a pair of `Nearest` in words."""
    standing = [*(f"plane {k + 1}" for k in range(len(shapes.planes))), *(one.name for one in shapes.obstacles)]
    return shapes.links[first], shapes.links[second] if second >= 0 else standing[-1 - second]
