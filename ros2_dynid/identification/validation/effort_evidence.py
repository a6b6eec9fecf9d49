# SPDX-License-Identifier: Apache-2.0

"""Sign and unit of the efforts: do they fit the robot's weight, inertia and friction, a priori values not trusted?

Evidence of three kinds for each joint. Gravity: how the effort follows the gravity torque of the a priori parameters,
beyond friction and accelerations; its scale a should be near 1, a strongly negative correlation means a reversed sign,
a near 1000 a wrong unit. Friction and inertia need the geometry only: tau_j is fitted by all rigid-body torques that
any inertial parameters could make, Y_j chi, and by friction along dq_j; friction must brake, and the inertia M_jj(q)
that belongs to chi must be positive. Gravity alone never calls an effort reversed, since a priori parameters may be
zero or poor; friction and inertia do, which do not depend on these, but only if no other evidence supports the effort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.codegen.backend import fast_regressor
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.parameters import group_of, standard_names, standard_vector
from ros2_dynid.model.robot import Array, Robot

STRONG = 0.8
"""Partial correlation from which gravity speaks clearly."""
CLEAR = 0.5
WELL_KNOWN = 0.002
"""Singular values below this fraction of the largest are left out of the fit."""
OWN, MATERIAL = 0.3, 0.1
"""Part of a cause that nothing else explains, and part of the effort that this must make up, to count as evidence.

Motion at one frequency makes gravity look like inertia: what is left of it then says nothing.
"""
UNIT_FACTOR = 30.0
"""Masses are seldom wrong by more; N.mm, gear ratios and raw currents mostly are."""


@dataclass(frozen=True)
class EffortEvidence:
    """What the effort of one joint shows, NaN where it shows nothing.

    gravity_r, gravity_scale: correlation with the a priori gravity torque, and scale; friction_r: part of the effort
    beyond rigid-body torques that is friction, negative if it drives; inertia: 1 if positive, -1 if negative.
    """

    gravity_r: float = np.nan
    gravity_scale: float = np.nan
    friction_r: float = np.nan
    inertia: float = np.nan

    @property
    def reversed(self) -> bool:
        """Return whether friction or inertia contradicts the effort's sign and nothing supports it."""
        contradicted = self.friction_r < -CLEAR or self.inertia < 0
        supported = self.gravity_r > CLEAR or self.friction_r > CLEAR or self.inertia > 0
        return bool(contradicted and not supported)

    @property
    def wrong_unit(self) -> bool:
        """Return whether the effort follows gravity but at an impossible scale."""
        scale = abs(self.gravity_scale)
        return bool(abs(self.gravity_r) > STRONG and not 1 / UNIT_FACTOR < scale < UNIT_FACTOR)


def effort_evidence(robot: Robot, motion: SampledMotion) -> list[EffortEvidence]:
    """Return the evidence for each joint."""
    q, dq, ddq, tau = motion.q, motion.dq, motion.ddq, motion.tau
    n = tau.shape[1]
    if len(q) < 20 * (n + 5):
        return [EffortEvidence()] * n
    Q = gravity_torque(robot, standard_vector(robot), q)
    heaviest = float(np.max(np.std(Q, axis=0)))
    bodies = [k for k, name in enumerate(standard_names(robot)) if group_of(name) in ("inertial", "rotor")]
    Y, resting = (np.asarray(fast_regressor(robot, q, *m))[:, :, bodies] for m in ((dq, ddq), (0.0 * q, 0.0 * q)))
    found = []
    for j in range(n):
        known = np.isfinite(tau[:, j])
        speed = float(np.max(np.abs(dq[:, j])))
        if np.count_nonzero(known) < 20 * (n + 5) or speed < 1e-6 or np.ptp(tau[known, j]) == 0:
            found.append(EffortEvidence())
            continue
        friction = np.column_stack((np.tanh(dq[known, j] / (0.05 * speed)), dq[known, j] / speed))
        effort = tau[known, j] - tau[known, j].mean()
        r = scale = np.nan
        if np.std(Q[:, j]) > 0.02 * heaviest:
            r, scale = _gravity(Q[known, j], np.hstack((np.ones((len(effort), 1)), friction, ddq[known])), effort)
        friction_r = _friction(Y[known, j], friction, dq[known, j], effort)
        own = (_accelerated(robot, q, j)[:, bodies] - resting[:, j])[known]
        inertia = _inertia_sign(Y[known, j], friction, own, ddq[known, j], effort)
        found.append(EffortEvidence(r, scale, friction_r, inertia))
    return found


def _gravity(Q: Array, others: Array, effort: Array) -> tuple[float, float]:
    """Return the partial correlation of the effort with gravity, and its scale."""
    own, rest = _beyond(Q[:, None], others)[:, 0], _beyond(effort[:, None], others)[:, 0]
    if np.linalg.norm(own) < OWN * np.linalg.norm(Q - Q.mean()):
        return np.nan, np.nan
    scale = float(own @ rest / (own @ own))
    if abs(scale) * np.linalg.norm(own) < MATERIAL * np.linalg.norm(effort):
        return np.nan, np.nan
    return float(own @ rest / (np.linalg.norm(own) * np.linalg.norm(rest))), scale


def _friction(Y: Array, friction: Array, dq: Array, effort: Array) -> float:
    """Return the share of friction in the effort beyond rigid-body torques; negative if it drives the motion."""
    A = np.hstack((np.ones((len(Y), 1)), Y))
    columns, rest = _beyond(friction, A), _beyond(effort[:, None], A)[:, 0]
    columns = columns[:, np.linalg.norm(columns, axis=0) > OWN * np.linalg.norm(friction, axis=0)]
    if not columns.shape[1]:
        return np.nan
    fitted = columns @ np.linalg.lstsq(columns, rest, rcond=1e-6)[0]
    if np.linalg.norm(fitted) < MATERIAL * np.linalg.norm(effort):
        return np.nan
    return float(np.sign(fitted @ dq)) * float(np.linalg.norm(fitted) / np.linalg.norm(rest))


def _accelerated(robot: Robot, q: Array, j: int) -> Array:
    """Return the regressor of M_jj(q) and gravity, shape (N, n_standard): the torque of a unit acceleration."""
    unit = np.zeros_like(q)
    unit[:, j] = 1.0
    return np.asarray(fast_regressor(robot, q, np.zeros_like(q), unit))[:, j]


def _inertia_sign(Y: Array, friction: Array, own: Array, ddq: Array, effort: Array) -> float:
    """Return the sign of M_jj = own chi, with chi fitted to effort = Y chi + friction, or NaN.

    It counts if the motion determines it, if it is the same everywhere, and if it makes up a part of the effort.
    """
    A = np.hstack((Y, np.ones((len(Y), 1)), friction))
    size = np.linalg.norm(A, axis=0)
    scale = np.where(size > 1e-9 * size.max(), size, np.inf)
    U, s, Vt = np.linalg.svd(A / scale, full_matrices=False)
    kept = Vt[s > WELL_KNOWN * s[0]]
    m = own.mean(axis=0) / scale[: Y.shape[1]]
    inside = kept[:, : Y.shape[1]] @ m
    if np.linalg.norm(inside) < (1 - OWN) * np.linalg.norm(m):
        return np.nan
    x = kept.T @ ((U.T[: len(kept)] @ effort) / s[: len(kept)])
    M = own @ (x / scale)[: Y.shape[1]]
    if np.linalg.norm(M * ddq) < MATERIAL * np.linalg.norm(effort):
        return np.nan
    positive = float(np.mean(M > 0))
    return 1.0 if positive > 0.95 else -1.0 if positive < 0.05 else np.nan


def _beyond(columns: Array, others: Array) -> Array:
    """Return what of the columns the others cannot explain."""
    scaled = others / np.maximum(np.linalg.norm(others, axis=0), 1e-300)
    rest: Array = columns - scaled @ np.linalg.lstsq(scaled, columns, rcond=1e-9)[0]
    return rest


MOST = 1500
"""Samples: some twenty for each of the standard parameters of a six-axis arm."""


@dataclass(frozen=True, eq=False)
class SampledMotion:
    """Smooth motion and torque, shape (N, n) each [rad or m, N.m or N]."""

    q: Array
    dq: Array
    ddq: Array
    tau: Array


def sampled_motion(prepared: Sequence[Prepared], most: int = MOST) -> SampledMotion:
    """Return `most` samples, up to twice as many, evenly spread over the recordings' segments; all if they are few."""
    count = sum(segment.stop - segment.start for part in prepared for segment in part.segments)
    stride = 1 << max(0, (count // most).bit_length() - 1)
    samples = [sample for part in prepared for sample in _every(part, stride)]
    q, dq, ddq, tau = (np.concatenate(column) for column in zip(*samples, strict=True))
    return SampledMotion(q, dq, ddq, tau)


def _every(prepared: Prepared, stride: int) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield every stride-th sample of a recording's segments."""
    seen = 0
    for segment in prepared.segments:
        some = slice(segment.start + -seen % stride, segment.stop, stride)
        yield prepared.q[some], prepared.dq[some], prepared.ddq[some], prepared.tau[some]
        seen += segment.stop - segment.start
