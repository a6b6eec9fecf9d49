# SPDX-License-Identifier: Apache-2.0

"""Where frame j stands in its antecedent's frame, and vectors with samples last: what every recursion is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ros2_dynid.model.robot import PRISMATIC, Array, Joint

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
