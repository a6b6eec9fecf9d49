# SPDX-License-Identifier: Apache-2.0

"""How the joints and links move: constraints q = F(q_a), frames, velocities, the Jacobian of a link.

For a tree all joints are active and G is the identity. For linear constraints (robot files, URDF mimic) G is constant;
for closed loops it changes with q (loops.py). A caller with an F of his own fills in a `Motion` by `loop_motion`.

The public functions of this package take samples first; inside, samples come last, so that every operation of NumPy
runs over contiguous memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.dynamics.loops import check_loops, close_loops, loop_jacobian, loop_jacobian_rate, loop_margin
from ros2_dynid.dynamics.placement import Placement, cross, place
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import PRISMATIC, Array, Robot, refuse_loops


@dataclass(frozen=True)
class Motion:
    """Motion of all n joints of the tree, samples last: q, dq, ddq of shape (n, N).

    G: Jacobian dq/dq_a, shape (n, n_active) if constant or (n, n_active, N); None if every joint is active.
    Gdot: its derivative by time, shape (n, n_active, N); None if G is constant.
    """

    q: Array
    dq: Array
    ddq: Array
    G: Array | None = None
    Gdot: Array | None = None

    def to_active(self, tau: Array) -> Array:
        """Return G^T tau: torques, or columns of a regressor, of shape (..., n, N), felt at the active joints."""
        if self.G is None:
            return tau
        subscripts = "jk,...jt->...kt" if self.G.ndim == 2 else "jkt,...jt->...kt"
        return np.asarray(np.einsum(subscripts, self.G, tau, optimize=True))


ROUNDS = 20
"""Draws of random positions until enough are within the linkage's reach."""
FIRST_DRAW = 64
"""Positions of the first draw, which tells where the linkage reaches."""
REGULAR = 0.02
"""Margin of closed loops (loops.py) from which on a pose is not called nearly singular: velocities of the passive
joints are then at most some fifty times those of the active ones."""


def constraint(robot: Robot) -> tuple[Array, Array]:
    """Return G, shape (n, n_active), and the offset, shape (n,), of q = G q_a + offset; closed loops have none."""
    refuse_loops(robot, "external efforts, previews, rollouts and trajectories other than Fourier series")
    return linear_constraint(robot)


def linear_constraint(robot: Robot) -> tuple[Array, Array]:
    """Return G (n, n_active) and the offset (n,) of joints that follow linearly; rows of loops' passive joints 0."""
    column = {joint: k for k, joint in enumerate(robot.active)}
    G, offset = np.zeros((robot.n, len(column))), np.zeros(robot.n)
    for joint, k in column.items():
        G[joint - 1, k] = 1.0
    for passive in robot.passive:
        offset[passive.joint - 1] = passive.offset
        for joint, coefficient in passive.terms.items():
            G[passive.joint - 1, column[joint]] = coefficient
    return G, offset


def motion_of(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike | None = None,
    ddq: ArrayLike | None = None,
    *,
    near: Array | None = None,
) -> Motion:
    """Return the motion of all joints for q, dq, ddq of the active ones, shape (N, n_active); None means at rest.

    near: positions of all joints, shape (n,), from which closed loops are followed; None: their pose of assembly.
    """
    qa = _samples_last(robot, q, "q")
    dqa = np.zeros_like(qa) if dq is None else _samples_last(robot, dq, "dq")
    ddqa = np.zeros_like(qa) if ddq is None else _samples_last(robot, ddq, "ddq")
    if not qa.shape == dqa.shape == ddqa.shape:
        raise InputError(f"q, dq and ddq have shapes {qa.T.shape}, {dqa.T.shape}, {ddqa.T.shape}", "make them equal")
    if not robot.passive_joints:
        return Motion(qa, dqa, ddqa)
    G, offset = linear_constraint(robot)
    every = G @ qa + offset[:, None]
    if robot.loops is None:
        return Motion(every, G @ dqa, G @ ddqa, G)
    closed = close_loops(robot, every, near)
    check_loops(robot, closed)
    return _closed_motion(robot, closed, G, dqa, ddqa)


def _closed_motion(robot: Robot, q: Array, linear: Array, dqa: Array, ddqa: Array) -> Motion:
    """Return the motion of a robot with closed loops, for closed q (n, N) and G (n, n_active) of the other joints."""
    G = loop_jacobian(robot, q, linear)
    dq = np.einsum("jkt,kt->jt", G, dqa)
    Gdot = loop_jacobian_rate(robot, q, dq, G)
    return Motion(q, dq, np.einsum("jkt,kt->jt", G, ddqa) + np.einsum("jkt,kt->jt", Gdot, dqa), G, Gdot)


def random_positions(robot: Robot, rng: np.random.Generator, count: int, span: float | Array) -> Array:
    """Return positions of the active joints, shape (count, n_active): anywhere within +-span.

    With closed loops, where the linkage reaches and is not nearly singular, within the limits where there are any.
    """
    n_active = len(robot.active)
    if robot.loops is None:
        return rng.uniform(-1.0, 1.0, (count, n_active)) * span
    middle = np.array([robot.loops.assembly.get(j, 0.0) for j in robot.active])
    limits = [robot.joints[j - 1].limits for j in robot.active]
    lower = np.maximum([limit.lower for limit in limits], middle - span)
    upper = np.minimum([limit.upper for limit in limits], middle + span)
    G, offset = linear_constraint(robot)
    reached = np.empty((0, n_active))
    for _ in range(ROUNDS):
        q = rng.uniform(lower, upper, (max(count, FIRST_DRAW) if len(reached) else FIRST_DRAW, n_active))
        closed = close_loops(robot, G @ q.T + offset[:, None])
        reached = np.concatenate((reached, q[loop_margin(robot, closed) > REGULAR]))
        if len(reached) >= count:  # and without the others on the way to them
            reached = reached[-count:]
            reached = reached[~np.isnan(close_loops(robot, G @ reached.T + offset[:, None])).any(axis=0)]
            if len(reached) == count:
                return reached
        if len(reached) > 1:  # what was reached tells where to draw
            slack = 0.1 * np.ptp(reached, axis=0)
            lower, upper = (
                np.maximum(lower, reached.min(axis=0) - slack),
                np.minimum(upper, reached.max(axis=0) + slack),
            )
    what = f"the loops close in only {len(reached)} of the positions tried between the limits of the joints"
    raise InputError(what, "correct the loops' points and assembly, or narrow the limits to their reach", robot.name)


def velocity_ratios(robot: Robot, q: ArrayLike, *, near: Array | None = None) -> Array:
    """Return dq/dq_a of all joints, shape (N, n, n_active), for q of shape (N, n_active); near: see motion_of."""
    motion = motion_of(robot, q, near=near)
    G = np.eye(robot.n) if motion.G is None else motion.G
    shape = (*G.shape[:2], motion.q.shape[1])
    return np.moveaxis(G if G.ndim == 3 else np.broadcast_to(G[:, :, None], shape), 2, 0)


def loop_motion(q: Array, G: Array, dq_active: Array, ddq_active: Array, Gdot_dq: Array) -> Motion:
    """Return the motion of a loop with constraint q = F(q_a), samples first as everywhere outside.

    q: F(q_a), shape (N, n); G: its Jacobian, shape (N, n, n_active); dq_active, ddq_active: shape (N, n_active);
    Gdot_dq: the second derivative's part Gdot dq_a, shape (N, n), so that ddq = G ddq_a + Gdot dq_a.
    """
    N, n, n_active = G.shape
    if q.shape != (N, n) or Gdot_dq.shape != (N, n) or not dq_active.shape == ddq_active.shape == (N, n_active):
        raise InputError(f"G has shape {G.shape}, the motion does not fit it", "give q and Gdot_dq (N, n), dq (N, n_a)")
    dq = np.einsum("tjk,tk->jt", G, dq_active)
    ddq = np.einsum("tjk,tk->jt", G, ddq_active) + Gdot_dq.T
    return Motion(np.ascontiguousarray(q.T), dq, ddq, np.ascontiguousarray(np.moveaxis(G, 0, 2)))


def check_samples(robot: Robot, values: ArrayLike, name: str) -> Array:
    """Return values as an array of shape (N, n_active), C order, or refuse them: wrong shape, or not finite."""
    array = np.ascontiguousarray(values, dtype=float)
    n_active = len(robot.active)
    if array.ndim != 2 or array.shape[1] != n_active:
        raise InputError(f"{name} has shape {array.shape}", f"give samples by joints, (N, {n_active})", robot.name)
    if not np.all(np.isfinite(array)):
        sample, k = np.argwhere(~np.isfinite(array))[0]
        what = f"{name} of joint {robot.active_names[k]!r} is not finite in sample {sample}"
        raise InputError(what, "cut or repair the data first", robot.name)
    return array


def _samples_last(robot: Robot, values: ArrayLike, name: str) -> Array:
    """Return checked values with samples last, shape (n_active, N)."""
    return np.ascontiguousarray(check_samples(robot, values, name).T)


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


def jacobian(robot: Robot, q: ArrayLike, link: str) -> Array:
    """Return J, shape (N, 6, n_active): linear and angular velocity of the link's origin in its own frame, by dq."""
    if link not in robot.tools:
        raise InputError(f"the robot has no link {link!r}", f"choose from {', '.join(robot.tools)}", robot.name)
    carrier, pose = robot.tools[link]
    T = frames(robot, q)
    J = np.zeros((len(T), 6, robot.n))
    tool = T[:, carrier - 1] @ pose if carrier else np.broadcast_to(robot.base @ pose, (len(T), 4, 4))
    R, at = tool[:, :3, :3], tool[:, :3, 3]
    j = carrier
    while j:
        axis, joint = T[:, j - 1, :3, 2], robot.joints[j - 1]
        linear = axis if joint.sigma == PRISMATIC else np.cross(axis, at - T[:, j - 1, :3, 3])
        J[:, :3, j - 1] = np.einsum("tij,ti->tj", R, linear)
        if joint.sigma != PRISMATIC:
            J[:, 3:, j - 1] = np.einsum("tij,ti->tj", R, axis)
        j = joint.parent
    return np.asarray(J @ velocity_ratios(robot, q))
