# SPDX-License-Identifier: Apache-2.0

"""Closed loops of any form: passive joints follow from pairs of points that coincide (Gautier 1991, section 2.3).

Every loop is cut open at a joint, so that a tree is left. Where it was cut, points of the one link meet points of the
other: phi(q) = p_to - p_from = 0. So q_p = F(q_a), and with the Jacobian Phi = dphi/dq, whose columns are Phi_p for the
passive joints and Phi_a for those that move independently,

    Phi_p dq_p = -Phi_a dq_a,    Phi_p ddq_p = -Phi_a ddq_a - dPhi/dt dq.

There may be more equations than passive joints (a planar loop closed in space): they are solved by QR.
Inside, samples come last, as everywhere in this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ros2_dynid.dynamics.placement import cross, place
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import PRISMATIC, Array, Loops, Robot

ANGLE_STEP = 0.1
"""Way of the active joints [rad; in lengths of the loop for prismatic ones] from one solution to the next: small
enough that Newton's method stays on the branch of assembly it comes from."""
MAX_STEPS = 2000
"""Steps from the assembled pose to a sample: 200 rad."""
ITERATIONS = 6
"""Newton's method doubles the digits with each: from a step of 0.1 rad three or four are enough."""
CLOSED = 1e-10
"""Points that are to coincide may be that far apart, in lengths of the loop."""
NEIGHBOURS = 64
"""Samples that are reached from the pose of assembly itself, of any number: the rest is then near to one of them."""
SINGULAR = 1e-9
"""Smallest diagonal element of R, relative to the largest, of a Phi_p that determines the passive joints."""


@dataclass(frozen=True)
class _Axes:
    """Frames 0 to n seen from frame 0. axes[j][k]: axis k of frame j; origin[j]; each of shape (3, N)."""

    axes: list[Array]
    origin: list[Array]


@dataclass(frozen=True)
class _Rates:
    """Angular velocity and velocity of the origin of frames 0 to n, seen from frame 0, each of shape (3, N)."""

    w: list[Array]
    v: list[Array]


def close_loops(robot: Robot, q: Array, near: Array | None = None) -> Array:
    """Return q, shape (n, N), with the positions of the loops' passive joints; what those rows held is not used.

    NaN in samples that the linkage cannot reach. Some samples are reached by steps straight from the pose of assembly
    (or from `near`, shape (n,), closed positions of an earlier call), the others from the nearest of those, or from
    that pose as well where that fails.
    """
    loops = _loops(robot)
    passive = [j - 1 for j in loops.passive]
    assembly = np.array([loops.assembly.get(j, 0.0) for j in range(1, robot.n + 1)])
    pose = (assembly if near is None else near)[:, None]
    unit = np.array([loop_size(robot) if joint.sigma == PRISMATIC else 1.0 for joint in robot.joints])[:, None]
    out, N = q.copy(), q.shape[1]
    some = np.arange(0, N, max(1, N // NEIGHBOURS))
    out[:, some] = _follow(robot, passive, np.repeat(pose, len(some), axis=1), q[:, some], unit)
    near = some[~np.isnan(out[passive[0], some])]
    rest = np.setdiff1d(np.arange(N), some)
    if len(near) and len(rest):
        others = [j for j in range(robot.n) if j not in passive]
        nearest = near[cKDTree((q / unit)[others][:, near].T).query((q / unit)[others][:, rest].T)[1]]
        out[:, rest] = _follow(robot, passive, out[:, nearest], q[:, rest], unit)
        rest = rest[np.isnan(out[passive[0], rest])]
    if len(rest):
        out[:, rest] = _follow(robot, passive, np.repeat(pose, len(rest), axis=1), q[:, rest], unit)
    return out


def check_loops(robot: Robot, q: Array) -> None:
    """Refuse positions of all joints, shape (n, N), that `close_loops` could not reach."""
    open_samples = np.flatnonzero(np.isnan(q).any(axis=0))
    if len(open_samples):
        sample = int(open_samples[0])
        passive = set(_loops(robot).passive)
        at = ", ".join(
            f"{joint.name} = {q[j - 1, sample]:.6g}" for j, joint in enumerate(robot.joints, 1) if j not in passive
        )
        what = f"the loops do not close in sample {sample}, at {at}"
        raise InputError(what, "give positions that the linkage reaches, and limits of the joints within", robot.name)


def loop_jacobian(robot: Robot, q: Array, G: Array) -> Array:
    """Return dq/dq_a, shape (n, n_active, N), for closed positions q (n, N) and G (n, n_active) of the other joints."""
    Phi = _jacobian(robot, q)
    passive = [j - 1 for j in _loops(robot).passive]
    full = np.repeat(G[:, :, None], q.shape[1], axis=2)
    full[passive] = 0.0
    full[passive] = _solve(Phi[:, passive], -np.einsum("mjt,jkt->mkt", Phi, full))
    return full


def loop_jacobian_rate(robot: Robot, q: Array, dq: Array, G: Array) -> Array:
    """Return dG/dt, shape (n, n_active, N), for q, dq of all joints, shape (n, N), and G of `loop_jacobian`."""
    passive = [j - 1 for j in _loops(robot).passive]
    rate = np.zeros_like(G)
    right = -np.einsum("mjt,jkt->mkt", _jacobian_rate(robot, q, dq), G)
    rate[passive] = _solve(_jacobian(robot, q)[:, passive], right)
    return rate


def loop_margin(robot: Robot, q: Array) -> Array:
    """Return how well the active joints determine the passive ones, shape (N,), for closed positions q (n, N).

    The smallest singular value of Phi_p over its largest, lengths in lengths of the loop: 0 in a singular pose, where
    the linkage can leave its branch, and where it does not close.
    """
    loops = _loops(robot)
    size = loop_size(robot)
    closed = ~np.isnan(q).any(axis=0)
    margin = np.zeros(q.shape[1])
    Phi = _jacobian(robot, q[:, closed])[:, [j - 1 for j in loops.passive]] / size
    Phi[:, [robot.joints[j - 1].sigma == PRISMATIC for j in loops.passive]] *= size
    values = np.linalg.svd(np.moveaxis(Phi, 2, 0), compute_uv=False)
    margin[closed] = values[:, -1] / values[:, 0]
    return margin


def loop_size(robot: Robot) -> float:
    """Return a length of the loops [m]: the longest of their pivots' distances and of the joints' constants."""
    lengths = [abs(x) for pair in _loops(robot).pairs for pivot in pair for x in pivot.point]
    lengths += [abs(x) for joint in robot.joints for x in (joint.b, joint.d, joint.r)]
    return max(lengths) or 1.0


def _loops(robot: Robot) -> Loops:
    assert robot.loops is not None
    return robot.loops


def _follow(robot: Robot, passive: list[int], start: Array, q: Array, unit: Array) -> Array:
    """Return closed positions at q, by steps from closed positions (or nearly so) `start`, each of shape (n, N)."""
    others = [j for j in range(robot.n) if j not in passive]
    size = loop_size(robot)
    now, way = start.copy(), q - start
    way[passive] = 0.0
    steps = int(np.ceil(min(np.max(np.abs(way) / unit, initial=0.0) / ANGLE_STEP, MAX_STEPS + 1)))
    if steps > MAX_STEPS:
        hint = f"give positions within {ANGLE_STEP * MAX_STEPS:g} rad of it, in rad and m"
        raise InputError("a joint is too far from the loops' pose of assembly", hint, robot.name)
    live = np.flatnonzero(_newton(robot, passive, now, size))
    for step in range(1, steps + 1):
        part = now[:, live]
        part[passive] += _tangent(robot, passive, part, way[:, live] / steps)
        part[others] = start[others][:, live] + way[others][:, live] * (step / steps)
        closed = _newton(robot, passive, part, size)
        now[:, live] = part
        live = live[closed]
    now[others] = q[others]
    reached = np.isin(np.arange(q.shape[1]), live)
    last = now[passive] - _correction(robot, passive, now)  # one more, to the last digit
    now[passive] = np.where(reached, last, np.nan)
    return now


def _tangent(robot: Robot, passive: list[int], q: Array, way: Array) -> Array:
    """Return how far the passive joints go, to first order, when all others go `way`, shape (n, N)."""
    Phi = _jacobian(robot, q)
    return _solve(Phi[:, passive], -np.einsum("mjt,jt->mt", Phi, way)[:, None])[:, 0]


def _newton(robot: Robot, passive: list[int], q: Array, size: float) -> NDArray[np.bool_]:
    """Move the passive joints of q, shape (n, N), until the loops close; return which samples do, shape (N,)."""
    gap = np.full(q.shape[1], np.inf)
    for _ in range(ITERATIONS):
        at = _frames(robot, q)
        gap = np.max(np.abs(_gaps(robot, at)), axis=0) / size
        if np.all((gap <= CLOSED) | ~np.isfinite(gap)):
            break
        q[passive] -= _correction(robot, passive, q, at)
    return np.asarray(gap <= CLOSED)


def _correction(robot: Robot, passive: list[int], q: Array, at: _Axes | None = None) -> Array:
    """Return Newton's step of the passive joints, shape (passive, N), to be taken off q, shape (n, N)."""
    at = _frames(robot, q) if at is None else at
    return _solve(_jacobian(robot, q, at)[:, passive], _gaps(robot, at)[:, None])[:, 0]


def _solve(Phi_p: Array, right: Array) -> Array:
    """Return x, shape (passive, k, N), with Phi_p x = right in the least squares sense; NaN where it is singular."""
    A, b = np.moveaxis(Phi_p, 2, 0), np.moveaxis(right, 2, 0)
    finite = np.isfinite(A).all(axis=(1, 2), keepdims=True) & np.isfinite(b).all(axis=(1, 2), keepdims=True)
    Q, R = np.linalg.qr(np.where(finite, A, 0.0))
    diagonal = np.abs(np.diagonal(R, axis1=1, axis2=2))
    regular = diagonal.min(axis=1) > SINGULAR * diagonal.max(axis=1)
    R[~regular] = np.eye(R.shape[1])
    x = np.linalg.solve(R, np.swapaxes(Q, 1, 2) @ np.where(finite, b, 0.0))
    x[~regular] = np.nan
    return np.ascontiguousarray(np.moveaxis(x, 0, 2))


def _frames(robot: Robot, q: Array) -> _Axes:
    """Return where the frames stand for positions q of all joints, shape (n, N)."""
    N = q.shape[1]
    axes = [np.repeat(np.eye(3)[:, :, None], N, axis=2)]
    origin = [np.zeros((3, N))]
    for joint, position in zip(robot.joints, q, strict=True):
        placement = place(joint, position)
        above = axes[joint.parent]
        origin.append(origin[joint.parent] + np.einsum("kt,kit->it", placement.p, above))
        axes.append(placement.to_child(above))
    return _Axes(axes, origin)


def _cut_points(robot: Robot, at: _Axes) -> Iterator[tuple[int, float, int, Array]]:
    """Yield for every point of the cuts: the number of its equation, its sign, its link, and itself, shape (3, N)."""
    for row, pair in enumerate(_loops(robot).pairs):
        for sign, pivot in zip((-1.0, 1.0), pair, strict=True):
            point = at.origin[pivot.joint] + np.einsum("k,kit->it", pivot.point, at.axes[pivot.joint])
            yield row, sign, pivot.joint, point


def _gaps(robot: Robot, at: _Axes) -> Array:
    """Return phi, shape (3 pairs, N) [m]."""
    phi = np.zeros((len(_loops(robot).pairs), *at.origin[0].shape))
    for row, sign, _, point in _cut_points(robot, at):
        phi[row] += sign * point
    return phi.reshape(3 * len(phi), -1)


def _jacobian(robot: Robot, q: Array, at: _Axes | None = None) -> Array:
    """Return Phi, shape (3 pairs, n, N)."""
    at = _frames(robot, q) if at is None else at
    Phi = np.zeros((len(_loops(robot).pairs), 3, *q.shape))
    for row, sign, link, point in _cut_points(robot, at):
        j = link
        while j:
            joint, axis = robot.joints[j - 1], at.axes[j][2]
            Phi[row, :, j - 1] += sign * (axis if joint.sigma == PRISMATIC else cross(axis, point - at.origin[j]))
            j = joint.parent
    return Phi.reshape(3 * len(Phi), *q.shape)


def _jacobian_rate(robot: Robot, q: Array, dq: Array) -> Array:
    """Return dPhi/dt, shape (3 pairs, n, N), for the speeds dq of all joints, shape (n, N)."""
    at = _frames(robot, q)
    rates = _speeds(robot, at, dq)
    rate = np.zeros((len(_loops(robot).pairs), 3, *q.shape))
    for row, sign, link, point in _cut_points(robot, at):
        velocity = rates.v[link] + cross(rates.w[link], point - at.origin[link])
        j = link
        while j:
            joint, axis = robot.joints[j - 1], at.axes[j][2]
            turned = cross(rates.w[j], axis)
            rate[row, :, j - 1] += sign * (
                turned
                if joint.sigma == PRISMATIC
                else cross(turned, point - at.origin[j]) + cross(axis, velocity - rates.v[j])
            )
            j = joint.parent
    return rate.reshape(3 * len(rate), *q.shape)


def _speeds(robot: Robot, at: _Axes, dq: Array) -> _Rates:
    """Return the velocities of the frames for the speeds dq of all joints, shape (n, N)."""
    w, v = [np.zeros_like(at.origin[0])], [np.zeros_like(at.origin[0])]
    for j, joint in enumerate(robot.joints, start=1):
        along = at.axes[j][2] * dq[j - 1]
        a = joint.parent
        linear = v[a] + cross(w[a], at.origin[j] - at.origin[a])
        prismatic = joint.sigma == PRISMATIC
        w.append(w[a] if prismatic else w[a] + along)
        v.append(linear + along if prismatic else linear)
    return _Rates(w, v)
