# SPDX-License-Identifier: Apache-2.0

"""Piecewise fifth-order polynomials: interpolation between states and exact extrema (Gautier 1992, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array

BISECTIONS = 52
"""Halvings of an interval that leave nothing of it in double precision."""
MIN_DURATION_S = 1e-3
"""Duration of a segment without motion [s]."""
MAX_GROWTHS = 200
"""Largest number of growths of a time by half until it fits; NaN ends the search here too."""


@dataclass(frozen=True, eq=False)
class PiecewiseQuintic:
    """q(t) = sum_k a[i, k] s^k with s = (t - knots[i]) / (knots[i+1] - knots[i]) on interval i.

    knots: times, shape (K + 1,) [s], the first is 0; a: shape (K, 6, n) [rad or m], in the relative time s in [0, 1].
    """

    knots: Array
    a: Array

    def __post_init__(self) -> None:
        """Refuse times that do not increase and coefficients that do not fit them."""
        K = len(self.knots) - 1
        if self.knots.ndim != 1 or K < 1 or self.a.ndim != 3 or self.a.shape[:2] != (K, 6):
            raise InputError(f"knots {self.knots.shape}, coefficients {self.a.shape}", "give (K + 1,) and (K, 6, n)")
        if not (np.all(np.isfinite(self.a)) and np.all(np.isfinite(self.knots)) and np.all(np.diff(self.knots) > 0)):
            raise InputError("a piece of the trajectory has no finite, positive duration", "let the times increase")

    @property
    def duration(self) -> float:
        """Length of the trajectory [s]."""
        return float(self.knots[-1] - self.knots[0])

    @property
    def n(self) -> int:
        """Number of joints."""
        return int(self.a.shape[2])

    def evaluate(self, t: Array) -> tuple[Array, Array, Array]:
        """Return q, dq, ddq, each of shape (N, n), at times t [s]; times outside are held at the ends."""
        t = np.clip(t, self.knots[0], self.knots[-1])
        i = np.clip(np.searchsorted(self.knots, t, side="right") - 1, 0, len(self.a) - 1)
        u = np.diff(self.knots)[i][:, None]
        s = (t - self.knots[i])[:, None] / u
        a = self.a[i]
        return polynomial(a, s), polynomial(derivative(a), s) / u, polynomial(derivative(derivative(a)), s) / u**2

    def extrema(self) -> tuple[Array, Array, Array]:
        """Return the exact extrema of q, dq and ddq over the whole time, each of shape (2, n): lowest and highest."""
        u = np.diff(self.knots)[:, None]
        return tuple(_extrema(a, u**order) for order, a in enumerate(self.derivatives()))  # type: ignore[return-value]

    def derivatives(self) -> tuple[Array, Array, Array]:
        """Return the coefficients of q, u dq and u^2 ddq in the relative time s."""
        da = derivative(self.a)
        return self.a, da, derivative(da)

    def slowed(self, speed: float) -> PiecewiseQuintic:
        """Return the same path at `speed` times the speed."""
        return PiecewiseQuintic(self.knots / speed, self.a)

    def mapped(self, G: Array, offset: Array) -> PiecewiseQuintic:
        """Return the curve of G q + offset, G of shape (m, n)."""
        a = self.a @ G.T
        a[:, 0] += offset
        return PiecewiseQuintic(self.knots, a)


def polynomial(a: Array, s: Array) -> Array:
    """Return sum_k a[:, k] s^k by Horner's rule, for a of shape (..., d + 1, n) and s that broadcasts to (..., n)."""
    value = a[..., -1, :] + 0.0 * s
    for k in range(a.shape[-2] - 2, -1, -1):
        value = value * s + a[..., k, :]
    return np.asarray(value)


def derivative(a: Array) -> Array:
    """Return the coefficients of d/ds, shape (..., d, n)."""
    return np.asarray(a[..., 1:, :] * np.arange(1, a.shape[-2])[:, None])


def critical_points(a: Array) -> Array:
    """Return points of [0, 1], shape (..., d + 1, n), that hold 0, 1 and every sign change of the polynomial a.

    The roots of a polynomial lie between those of its derivative, so bisection between them finds all of them. Extra
    points that are no roots do not change a maximum.
    """
    degree = a.shape[-2] - 1
    ends = np.stack((np.zeros_like(a[..., 0, :]), np.ones_like(a[..., 0, :])), axis=-2)
    if degree == 0:
        return ends
    nodes = critical_points(derivative(a)) if degree > 1 else ends
    low, high = nodes[..., :-1, :].copy(), nodes[..., 1:, :].copy()
    b = np.moveaxis(a, -2, 0)[..., None, :]

    def value(s: Array) -> Array:
        out = b[-1] + 0.0 * s
        for k in range(degree - 1, -1, -1):
            out = out * s + b[k]
        return np.asarray(out)

    rising = value(low) <= 0.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        left = (value(middle) <= 0.0) == rising
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return np.concatenate((ends[..., :1, :], 0.5 * (low + high), ends[..., 1:, :]), axis=-2)


def _extrema(a: Array, scale: Array) -> Array:
    """Return lowest and highest value of the pieces a, shape (K, d + 1, n), divided by scale (K, 1); shape (2, n)."""
    low, high = piece_extrema(a, scale)
    return np.stack((low.min(axis=0), high.max(axis=0)))


def piece_extrema(a: Array, scale: Array) -> tuple[Array, Array]:
    """Return the lowest and the highest value of each piece, shape (K, n), divided by scale (K, 1)."""
    s = critical_points(derivative(a))
    value = polynomial(a[:, None], s) / scale[:, None]
    return value.min(axis=1), value.max(axis=1)


def hermite(
    qa: Array,
    qb: Array,
    dqa: Array,
    dqb: Array,
    u: Array,
    ddqa: Array | float = 0.0,
    ddqb: Array | float = 0.0,
) -> Array:
    """Return the coefficients a, shape (K, 6, n), of the pieces between states a and b, each of shape (K, n).

    Gautier 1992, eq. 28, in the relative time s = t / u, u of shape (K,) [s]; its accelerations are zero at both ends.
    """
    u = np.asarray(u, dtype=float)[:, None]
    A, va, vb = qb - qa, u * dqa, u * dqb
    wa, wb = u**2 * ddqa * np.ones_like(A), u**2 * ddqb * np.ones_like(A)
    return np.stack(
        (
            qa,
            va,
            0.5 * wa,
            10.0 * A - 6.0 * va - 4.0 * vb - 1.5 * wa + 0.5 * wb,
            -15.0 * A + 8.0 * va + 7.0 * vb + 1.5 * wa - wb,
            6.0 * A - 3.0 * (va + vb) - 0.5 * wa + 0.5 * wb,
        ),
        axis=1,
    )


def through_points(t: Array, q: Array, dq: Array, ddq: Array | None = None) -> PiecewiseQuintic:
    """Return the curve through states q, dq (and ddq, zero if None), shape (K + 1, n), at times t, shape (K + 1,)."""
    wa, wb = (0.0, 0.0) if ddq is None else (ddq[:-1], ddq[1:])
    return PiecewiseQuintic(t, hermite(q[:-1], q[1:], dq[:-1], dq[1:], np.diff(t), wa, wb))


def accelerations_of(t: Array, q: Array, dq: Array) -> Array:
    """Return accelerations, shape (K + 1, n), for states q, dq without them: what the cubics on either side agree on.

    The cubic from A to B in u has the accelerations (6 (B - A) / u - 4 vA - 2 vB) / u at A and
    (-6 (B - A) / u + 2 vA + 4 vB) / u at B. Their mean is exact to the second order in u; with zeros instead, every
    interval would begin and end without acceleration. Where all joints rest, and at both ends, it is zero.
    """
    u = np.diff(t)[:, None]
    slope, va, vb = 6.0 * np.diff(q, axis=0) / u, dq[:-1], dq[1:]
    ddq = np.zeros_like(q)
    ddq[1:-1] = 0.5 * ((2.0 * va + 4.0 * vb - slope) / u)[:-1] + 0.5 * ((slope - 4.0 * va - 2.0 * vb) / u)[1:]
    ddq[np.all(dq == 0.0, axis=1)] = 0.0
    return ddq


def shortest_times(qa: Array, qb: Array, dqa: Array, dqb: Array, velocity: Array, acceleration: Array) -> Array:
    """Return the shortest u_f of each interval under |dq| <= velocity and |ddq| <= acceleration, shape (K,) [s].

    qa, qb, dqa, dqb: states at the ends of the intervals, shape (K, n). The search starts where no shorter time can
    serve, |qb - qa| / velocity or |dqb - dqa| / acceleration, grows until the exact extrema fit, and halves the rest. A
    shortest time exists: slow enough, a quintic between admissible velocities never exceeds them. inf where a velocity
    at an end is too high or a joint may not accelerate.
    """

    def fits(u: Array) -> Array:
        # With ddq = 0 at both ends ddq is s times a quadratic, and so is the jerk: extrema in closed form.
        a = hermite(qa, qb, dqa, dqb, u)
        da = derivative(a)
        dda = derivative(da)
        v = _peak(da, quadratic_roots(dda[:, 1:])) / u[:, None]
        w = _peak(dda, quadratic_roots(derivative(dda))) / u[:, None] ** 2
        slack = 1.0 + 1e-12  # an end velocity that equals the limit is allowed
        return np.asarray(np.all((v <= velocity * slack) & (w <= acceleration * slack), axis=1))

    ends = np.maximum(np.abs(dqa), np.abs(dqb))
    admissible = np.all((ends <= velocity * (1.0 + 1e-12)) & (np.asarray(acceleration) > 0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.maximum(np.abs(qb - qa) / velocity, np.abs(dqb - dqa) / acceleration).max(axis=1)
    high = np.where(admissible, np.maximum(least, MIN_DURATION_S), MIN_DURATION_S)
    feasible = fits(high)
    for _ in range(MAX_GROWTHS):
        if np.all(feasible | ~admissible):
            break
        high = np.where(feasible, high, 1.5 * high)
        feasible = fits(high)
    low = high / 1.5
    for _ in range(44):
        middle = 0.5 * (low + high)
        ok = fits(middle)
        low, high = np.where(ok, low, middle), np.where(ok, middle, high)
    return np.where(feasible & admissible, high, np.inf)


def quadratic_roots(a: Array) -> Array:
    """Return the roots of a[:, 0] + a[:, 1] s + a[:, 2] s^2, shape (K, 2, n), put to the nearer end outside [0, 1]."""
    c, b, d = (a[:, k] for k in range(3))
    half = -0.5 * (b + np.copysign(np.sqrt(np.maximum(b * b - 4.0 * d * c, 0.0)), b))
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack((half / d, c / half), axis=1)
    return np.clip(np.nan_to_num(roots, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)


def _peak(a: Array, s: Array) -> Array:
    """Return the largest absolute value of the polynomials a, shape (K, d + 1, n), at 0, 1 and s, shape (K, k, n)."""
    ends = np.stack((a[:, 0], a.sum(axis=1)), axis=1)
    return np.asarray(np.maximum(np.abs(ends).max(axis=1), np.abs(polynomial(a[:, None], s)).max(axis=1)))
