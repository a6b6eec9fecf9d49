# SPDX-License-Identifier: Apache-2.0

"""Finite Fourier series at rest at both ends: the curve, its linear parametrisation and its exact extrema.

q_j(t) = c_j + sum over l = 1 ... L of A_jl cos(l w t) + B_jl sin(l w t), w = 2 pi / period.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array


@dataclass(frozen=True, eq=False)
class FourierSeries:
    """A periodic trajectory: c, shape (n,); A, B, shape (n, L) [rad or m]; period [s], repeated `periods` times."""

    period: float
    c: Array
    A: Array
    B: Array
    periods: int = 1

    def __post_init__(self) -> None:
        """Refuse a series without a finite period, harmonics or coefficients that fit together."""
        if not (np.isfinite(self.period) and self.period > 0 and self.periods >= 1):
            raise InputError(f"period {self.period} s, {self.periods} times", "give a positive period and count")
        if self.c.ndim != 1 or self.A.ndim != 2 or self.A.shape[0] != len(self.c) or self.A.shape != self.B.shape:
            raise InputError(f"series of shapes {self.c.shape}, {self.A.shape}, {self.B.shape}", "give (n,), (n, L)")
        if self.A.shape[1] < 1 or not all(np.all(np.isfinite(x)) for x in (self.c, self.A, self.B)):
            raise InputError("the series has no harmonic or a coefficient that is not finite", "correct it")

    @property
    def duration(self) -> float:
        """Length of the trajectory [s]."""
        return self.period * self.periods

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.c)

    def evaluate(self, t: Array) -> tuple[Array, Array, Array]:
        """Return q, dq, ddq, each of shape (N, n), at times t [s]; times outside are held at the ends."""
        lw = harmonics(self.period, self.A.shape[1])
        phase = np.clip(t, 0.0, self.duration)[:, None] * lw
        cos, sin = np.cos(phase), np.sin(phase)
        return (
            self.c + cos @ self.A.T + sin @ self.B.T,
            cos @ (lw * self.B).T - sin @ (lw * self.A).T,
            -(cos @ (lw**2 * self.A).T + sin @ (lw**2 * self.B).T),
        )

    def extrema(self) -> tuple[Array, Array, Array]:
        """Return the exact extrema of q, dq and ddq over the whole time, each of shape (2, n): lowest and highest."""
        lw = harmonics(self.period, self.A.shape[1])
        series = ((self.A, self.B), (lw * self.B, -lw * self.A), (-(lw**2) * self.A, -(lw**2) * self.B))
        q, dq, ddq = (series_extrema(A, B) for A, B in series)
        return q + self.c, dq, ddq

    def slowed(self, speed: float) -> FourierSeries:
        """Return the same path at `speed` times the speed."""
        return FourierSeries(self.period / speed, self.c, self.A, self.B, self.periods)

    def mapped(self, G: Array, offset: Array) -> FourierSeries:
        """Return the curve of G q + offset, G of shape (m, n)."""
        return FourierSeries(self.period, G @ self.c + offset, G @ self.A, G @ self.B, self.periods)


def harmonics(period: float, L: int) -> Array:
    """Return l w for l = 1 ... L [rad/s]."""
    return np.asarray(2.0 * np.pi / period * np.arange(1, L + 1))


def series_extrema(A: Array, B: Array) -> Array:
    """Return lowest and highest value of sum_l A_l cos(l x) + B_l sin(l x) for each row, shape (2, n).

    The extrema are at roots of the derivative, sum of c_l z^l + conj(c_l) z^-l on the circle z = exp(i x): eigenvalues
    of a companion matrix, polished by Newton's rule, beside a grid. Extra points do not change the maximum.
    """
    l = np.arange(1, A.shape[1] + 1)
    grid = np.linspace(0.0, 2.0 * np.pi, 16 * A.shape[1], endpoint=False)
    out = np.empty((2, len(A)))
    for j, (a, b) in enumerate(zip(A, B, strict=True)):
        x = np.concatenate((grid, _stationary(a, b, l)))
        cos, sin = np.cos(np.outer(x, l)), np.sin(np.outer(x, l))
        values = cos @ a + sin @ b
        out[:, j] = values.min(), values.max()
    return out


def _stationary(a: Array, b: Array, l: Array) -> Array:
    """Return angles at which the derivative of sum a cos(l x) + b sin(l x) vanishes, polished."""
    c = l * (b + 1j * a)  # the derivative is Re(sum c_l exp(i l x)), up to the factor 1
    size = np.abs(c).max()
    if size == 0.0:
        return np.zeros(1)
    L = int(l[np.abs(c) > 1e-14 * size].max())
    c, l = c[:L], l[:L]
    coefficients = np.concatenate((np.conj(c[::-1]), [0.0], c))  # of z^0 ... z^2L
    x = np.angle(np.roots(coefficients[::-1]))
    start = x.copy()
    for _ in range(3):
        e = np.exp(1j * np.outer(x, l))
        slope, curvature = (e @ c).real, (e @ (1j * l * c)).real
        step = np.divide(slope, curvature, out=np.zeros_like(x), where=np.abs(curvature) > 1e-9 * size)
        x = x - np.clip(step, -0.1, 0.1)
    return np.concatenate((start, x))


def rest_basis(L: int, fixed_start: bool = False) -> Array:
    """Return an orthonormal basis Z, shape (2 L + 1, k), of the series at rest at t = 0: [c, A, B] = Z y.

    dq(0) = 0: sum of l B_l = 0; ddq(0) = 0: sum of l^2 A_l = 0; with fixed_start also q(0) = 0: c + sum of A_l = 0.
    So k = 2 L - 1 or 2 L - 2.
    """
    if (3 if fixed_start else 2) > L:
        raise InputError(f"{L} harmonics cannot start and end at rest", "use at least 3")
    l = np.arange(1.0, L + 1)
    o = np.zeros(L)
    rows = [np.concatenate(([0.0], o, l)), np.concatenate(([0.0], l**2, o))]
    if fixed_start:
        rows.append(np.concatenate(([1.0], np.ones(L), o)))
    _, _, Vt = np.linalg.svd(np.array(rows))
    return np.asarray(Vt[len(rows) :].T)


def design(period: float, L: int, t: Array) -> tuple[Array, Array, Array]:
    """Return the matrices, each (N, 2 L + 1), that give q, dq and ddq at times t from [c, A, B]."""
    lw = harmonics(period, L)
    phase = np.outer(t, lw)
    cos, sin, one, zero = np.cos(phase), np.sin(phase), np.ones((len(t), 1)), np.zeros((len(t), 1))
    return (
        np.hstack((one, cos, sin)),
        np.hstack((zero, -lw * sin, lw * cos)),
        np.hstack((zero, -(lw**2) * cos, -(lw**2) * sin)),
    )
