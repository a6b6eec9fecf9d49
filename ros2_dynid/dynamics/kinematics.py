# SPDX-License-Identifier: Apache-2.0

"""How the joints and links move: constraints q = F(q_a), frames, velocities, the Jacobian of a link.

For a tree all joints are active and G is the identity. For loops with explicit linear constraints (robot files, URDF
mimic) G is constant. For other loops the caller fills in a `Motion` with its own F, G and Gdot dq_a.

The public functions of this package take samples first; inside, samples come last, so that every operation of NumPy
runs over contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import PRISMATIC, Array, Joint, Robot


@dataclass(frozen=True)
class Motion:
    """Motion of all n joints of the tree, samples last: q, dq, ddq of shape (n, N).

    G: Jacobian dq/dq_a, shape (n, n_active) if constant or (n, n_active, N); None if every joint is active.
    """

    q: Array
    dq: Array
    ddq: Array
    G: Array | None = None

    def to_active(self, tau: Array) -> Array:
        """Return G^T tau: torques, or columns of a regressor, of shape (..., n, N), felt at the active joints."""
        if self.G is None:
            return tau
        subscripts = "jk,...jt->...kt" if self.G.ndim == 2 else "jkt,...jt->...kt"
        return np.asarray(np.einsum(subscripts, self.G, tau, optimize=True))


def constraint(robot: Robot) -> tuple[Array, Array]:
    """Return G, shape (n, n_active), and the offset, shape (n,), of q = G q_a + offset."""
    column = {joint: k for k, joint in enumerate(robot.active)}
    G, offset = np.zeros((robot.n, len(column))), np.zeros(robot.n)
    for joint, k in column.items():
        G[joint - 1, k] = 1.0
    for passive in robot.passive:
        offset[passive.joint - 1] = passive.offset
        for joint, coefficient in passive.terms.items():
            G[passive.joint - 1, column[joint]] = coefficient
    return G, offset


def motion_of(robot: Robot, q: ArrayLike, dq: ArrayLike | None = None, ddq: ArrayLike | None = None) -> Motion:
    """Return the motion of all joints for q, dq, ddq of the active ones, shape (N, n_active); None means at rest."""
    qa = _samples_last(robot, q, "q")
    dqa = np.zeros_like(qa) if dq is None else _samples_last(robot, dq, "dq")
    ddqa = np.zeros_like(qa) if ddq is None else _samples_last(robot, ddq, "ddq")
    if not qa.shape == dqa.shape == ddqa.shape:
        raise InputError(f"q, dq and ddq have shapes {qa.T.shape}, {dqa.T.shape}, {ddqa.T.shape}", "make them equal")
    if not robot.passive:
        return Motion(qa, dqa, ddqa)
    G, offset = constraint(robot)
    return Motion(G @ qa + offset[:, None], G @ dqa, G @ ddqa, G)


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


CHUNK = 2048
"""Samples worked on at a time: a compromise between the cost of calls and the size of the processor's cache."""


def chunks(n_samples: int) -> Iterator[slice]:
    """Yield the slices that cut n_samples into pieces of CHUNK."""
    for start in range(0, n_samples, CHUNK):
        yield slice(start, min(start + CHUNK, n_samples))


def cross(a: Array, b: Array) -> Array:
    """Return a x b for vectors in the first axis, shape (3, ...)."""
    out = np.empty(a.shape if a.shape == b.shape else np.broadcast_shapes(a.shape, b.shape))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        np.multiply(a[j], b[k], out=out[i])
        out[i] -= a[k] * b[j]
    return out


def dot(a: Array, b: Array) -> Array:
    """Return a . b for vectors in the first axis, shape (...)."""
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


@dataclass(frozen=True)
class Placement:
    """Frame j in its antecedent's frame for given q_j: rotation by angles, origin p, shape (3, samples)."""

    gamma: tuple[float, float]
    alpha: tuple[float, float]
    theta: tuple[Array, Array]
    p: Array

    def to_child(self, v: Array) -> Array:
        """Return R^T v: vectors of shape (3, ..., samples) given in frame a(j), expressed in frame j."""
        x, y, z = v
        c, s = self.gamma
        x, y = _mix(c, x, s, y), _mix(c, y, -s, x)
        c, s = self.alpha
        y, z = _mix(c, y, s, z), _mix(c, z, -s, y)
        cos, sin = self.theta
        out = np.empty(v.shape)
        out[0] = cos * x + sin * y
        out[1] = cos * y - sin * x
        out[2] = z
        return out

    def to_parent(self, v: Array) -> Array:
        """Return R v: vectors of shape (3, ..., samples) given in frame j, expressed in frame a(j)."""
        x, y, z = v
        cos, sin = self.theta
        x, y = cos * x - sin * y, sin * x + cos * y
        c, s = self.alpha
        y, z = _mix(c, y, -s, z), _mix(s, y, c, z)
        c, s = self.gamma
        out = np.empty(v.shape)
        out[0], out[1], out[2] = _mix(c, x, -s, y), _mix(s, x, c, y), z
        return out


def place(joint: Joint, q: Array) -> Placement:
    """Return the placement of frame j for positions q of joint j, shape (samples,) [rad or m]."""
    prismatic = joint.sigma == PRISMATIC
    theta = np.full_like(q, joint.theta) if prismatic else joint.theta + q
    r = joint.r + q if prismatic else np.full_like(q, joint.r)
    gamma, alpha = _cos_sin(joint.gamma), _cos_sin(joint.alpha)
    (cg, sg), (ca, sa) = gamma, alpha
    y = -sa * r
    p = np.stack((cg * joint.d - sg * y, sg * joint.d + cg * y, joint.b + ca * r))
    return Placement(gamma, alpha, (np.cos(theta), np.sin(theta)), p)


def _cos_sin(angle: float) -> tuple[float, float]:
    """Return cosine and sine, exact at multiples of pi/2: the 6e-17 of cos(pi/2) would invent base parameters."""
    quarters = angle / (np.pi / 2)
    nearest = round(quarters)
    if abs(quarters - nearest) < 1e-14 * max(1.0, abs(quarters)):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[nearest % 4]
    return float(np.cos(angle)), float(np.sin(angle))


def _mix(c: float, x: Array, s: float, y: Array) -> Array:
    """Return c x + s y without the products that a right angle saves."""
    if s == 0.0:
        return x if c == 1.0 else c * x
    if c == 0.0:
        return y if s == 1.0 else s * y
    return c * x + s * y


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
    return np.asarray(J @ constraint(robot)[0])
