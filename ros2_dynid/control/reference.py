# SPDX-License-Identifier: Apache-2.0

"""A trajectory given by points, and what it says between them, as ros2_control's joint_trajectory_controller reads it.

Between two points each joint follows the polynomial of lowest degree that meets what both points give: degree 1 with
positions, 3 with velocities, 5 with accelerations too. Before the first point and after the last one it rests there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_order import joint_order
from ros2_dynid.model.robot import Array


@dataclass(frozen=True, eq=False)
class Reference:
    """Points of the joints named: t, shape (K,) [s], increasing; q, dq, ddq, tau, shape (K, n), None where not given.

    coefficients: of the polynomials, shape (K - 1, 6, n), in the time since the segment's start, lowest power first.
    The arrays are read-only: a reference may pass from thread to thread.
    """

    joint_names: tuple[str, ...]
    t: Array
    q: Array
    dq: Array | None
    ddq: Array | None
    tau: Array | None
    coefficients: Array

    @property
    def duration(self) -> float:
        """Time of the last point [s]."""
        return float(self.t[-1])

    def shifted(self, lead: float) -> Reference:
        """Return the same motion `lead` [s] later; with a negative lead the points in the past are left out."""
        t = self.t + lead
        first = max(int(np.searchsorted(t, 0.0, side="left")), 0)
        if first >= len(t):
            raise InputError("the trajectory lies in the past", "give it a later stamp")
        if first == 0:
            return Reference(self.joint_names, _kept(t), self.q, self.dq, self.ddq, self.tau, self.coefficients)
        rest = [None if x is None else x[first:] for x in (self.dq, self.ddq, self.tau)]
        return reference(self.joint_names, t[first:], self.q[first:], *rest)

    def ordered(self, names: Sequence[str], what: str = "trajectory") -> Reference:
        """Return the same motion with its joints in the order of `names`, which must be the same joints."""
        if tuple(names) == self.joint_names:
            return self
        order = joint_order(names, self.joint_names, what)
        values = [None if x is None else x[:, order] for x in (self.q, self.dq, self.ddq, self.tau)]
        assert values[0] is not None
        return reference(tuple(names), self.t, values[0], *values[1:])

    def at(self, t: float) -> tuple[Array, Array, Array, Array | None]:
        """Return q, dq, ddq, each of shape (n,), and tau (n,) or None at time t [s], at rest outside the points."""
        if t <= self.t[0] or t >= self.t[-1]:
            end = 0 if t <= self.t[0] else -1
            still = np.zeros(self.q.shape[1])
            return self.q[end], still, still, None if self.tau is None else self.tau[end]
        k = int(self.t.searchsorted(t, side="right")) - 1
        s = float(t - self.t[k])
        s2, s3, s4 = s * s, s * s * s, s * s * s * s
        powers = np.array(
            (
                (1.0, s, s2, s3, s4, s4 * s),
                (0.0, 1.0, 2 * s, 3 * s2, 4 * s3, 5 * s4),
                (0.0, 0.0, 2.0, 6 * s, 12 * s2, 20 * s3),
            )
        )
        q, dq, ddq = powers @ self.coefficients[k]
        if self.tau is None:
            return q, dq, ddq, None
        share = s / (self.t[k + 1] - self.t[k])
        return q, dq, ddq, (1 - share) * self.tau[k] + share * self.tau[k + 1]

    def within(self, shares: Array) -> tuple[Array, Array, Array]:
        """Return q, dq, ddq, each of shape (N, n), at the `shares` (0 to 1) of every segment; of the only point."""
        if len(self.t) < 2:
            still = np.zeros_like(self.q)
            return self.q, still if self.dq is None else self.dq, still
        s = np.diff(self.t)[:, None] * shares
        one, zero = np.ones_like(s), np.zeros_like(s)
        rows = (
            (one, s, s**2, s**3, s**4, s**5),
            (zero, one, 2 * s, 3 * s**2, 4 * s**3, 5 * s**4),
            (zero, zero, 2 * one, 6 * s, 12 * s**2, 20 * s**3),
        )
        n = len(self.joint_names)
        q, dq, ddq = (np.einsum("pks,kpn->ksn", np.stack(powers), self.coefficients).reshape(-1, n) for powers in rows)
        return q, dq, ddq

    def sampled(self, t: Array) -> tuple[Array, Array, Array]:
        """Return q, dq, ddq, each of shape (N, n), at the times t, shape (N,)."""
        rows = [self.at(float(instant))[:3] for instant in t]
        q, dq, ddq = (np.array(column) for column in zip(*rows, strict=True))
        return q, dq, ddq


def reference(
    joint_names: Sequence[str],
    t: Array,
    q: Array,
    dq: Array | None = None,
    ddq: Array | None = None,
    tau: Array | None = None,
) -> Reference:
    """Return the reference through points at t, shape (K,) [s]; the others of shape (K, n), None where not given."""
    names = tuple(joint_names)
    if len(set(names)) != len(names):
        raise InputError("the trajectory names a joint twice", "name every joint once")
    for name, values in (("positions", q), ("velocities", dq), ("accelerations", ddq), ("efforts", tau)):
        if values is not None and (values.ndim != 2 or len(values) != len(t) or values.shape[1] != len(names)):
            raise InputError(
                f"{name} have shape {values.shape} for {len(t)} points of {len(names)} joints",
                "give one for each joint and point",
            )
        if values is not None and not np.all(np.isfinite(values)):
            raise InputError(f"{name} hold a value that is not finite", "correct the trajectory")
    if not len(t) or not np.all(np.isfinite(t)) or t[0] < 0 or np.any(np.diff(t) <= 0):
        raise InputError("the times of the points do not increase from 0 on", "give each point a later time_from_start")
    c = _polynomials(np.diff(t)[:, None], q, dq, ddq)
    given = [None if x is None else _kept(x) for x in (dq, ddq, tau)]
    return Reference(names, _kept(t), _kept(q), given[0], given[1], given[2], _kept(c))


def _kept(values: Array) -> Array:
    """Return values that nobody can write to any more: a copy, unless they are read-only and own their memory."""
    if not values.flags.writeable and values.flags.owndata:
        return values
    kept = np.array(values, dtype=float)
    kept.setflags(write=False)
    return kept


def _polynomials(T: Array, q: Array, dq: Array | None, ddq: Array | None) -> Array:
    """Return the coefficients, shape (K - 1, 6, n), of the segments of length T, shape (K - 1, 1)."""
    c = np.zeros((len(T), 6, q.shape[1]))
    c[:, 0] = q[:-1]
    step = np.diff(q, axis=0)
    if dq is None:
        c[:, 1] = step / T
        return c
    v0, v1 = dq[:-1], dq[1:]
    c[:, 1] = v0
    if ddq is None:
        c[:, 2] = (3 * step / T - 2 * v0 - v1) / T
        c[:, 3] = (-2 * step / T + v0 + v1) / T**2
        return c
    a0, a1 = ddq[:-1], ddq[1:]
    c[:, 2] = a0 / 2
    # What the end still lacks in position, velocity and acceleration once c0 ... c2 are taken.
    p, v, a = step - v0 * T - a0 * T**2 / 2, v1 - v0 - a0 * T, a1 - a0
    c[:, 3] = (10 * p - 4 * v * T + a * T**2 / 2) / T**3
    c[:, 4] = (-15 * p + 7 * v * T - a * T**2) / T**4
    c[:, 5] = (6 * p - 3 * v * T + a * T**2 / 2) / T**5
    return c


def check_end(points: Reference) -> None:
    """Refuse a trajectory that does not end at rest: a joint trajectory controller would."""
    if points.dq is not None and np.any(np.abs(points.dq[-1]) > 1e-9):
        raise InputError("the trajectory does not end at rest", "end it with zero velocities")
