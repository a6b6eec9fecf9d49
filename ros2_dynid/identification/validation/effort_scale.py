# SPDX-License-Identifier: Apache-2.0

"""Is the recorded effort a torque of this robot? Sign, unit and consistency of joints and recordings.

Parameters that several joints feel must come out the same from each: tau_j = f (W_shared base of the others) + what
only joint j feels gives a factor f for each joint, 1 if all is well, -1 for a wrong sign, 57 or 1000 for a wrong
unit.

Sign and unit of the efforts: do they fit the robot's weight, inertia and friction, a priori values not trusted?

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
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.backend import fast_regressor
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import (
    block_moments,
    jackknife,
    joint_errors,
    joint_torques,
    solve,
    weighted,
    wls,
)
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


UNRELIABLE = 0.1
"""Share of noise in what the other joints predict above which they cannot tell."""
LEVEL = 1e-5
"""A deviation counts if chance makes one as large less often than this."""
LEVEL_NEGATIVE = 1e-3
"""The same for a factor below 0, which nothing but a wrong sign explains."""
REVERSED = -0.25
"""An effort of the wrong sign has a factor near -1; one between this and 0 is what noise in a poor motion leaves."""


def clear(freedom: float, level: float = LEVEL) -> float:
    """Return how many standard deviations are no chance: 4.3 if they are well known, 8 from ten degrees of freedom."""
    return -float(stdtrit(freedom, level) if np.isfinite(freedom) else ndtri(level))


@dataclass(frozen=True)
class Factor:
    """Scale of a joint's effort against what the other joints say, its standard deviation, and the freedom behind."""

    value: float
    std: float
    freedom: float = np.inf

    @property
    def wrong(self) -> bool:
        """Whether the effort clearly follows the other joints, but clearly not by 1: negative, or off by two.

        A factor near 0 says that the other joints do not tell about this one in these data, not that it is wrong.
        """
        follows = abs(self.value) > clear(self.freedom, LEVEL if self.value > 0 else LEVEL_NEGATIVE) * self.std
        certain = abs(self.value - 1.0) > clear(self.freedom) * self.std
        return follows and certain and not REVERSED < self.value < 0.0 and not 0.5 < self.value < 2.0


def factors(information: Information, without: int | None = None) -> list[Factor]:
    """Return the factor of each joint, leaving joint `without` out of the comparison; infinite std if none can tell."""
    out = []
    for j, columns in enumerate(information.columns):
        others = [k for k in range(information.n) if k not in (j, without)]
        shared = np.array(
            [any(c in information.columns[k] for k in others) and c < information.layout.n_base for c in columns]
        )
        if j == without or not others or not shared.any():
            out.append(Factor(1.0, np.inf))
            continue
        found = wls(information.of_joints(others))
        out.append(_factor(information, j, shared, found))
    return out


def _factor(information: Information, j: int, shared: NDArray[np.bool_], rest: Estimate) -> Factor:
    """Return the factor of joint j against the estimate from the others, if that predicts its torque well enough."""
    columns = information.columns[j]
    known = columns[shared]
    R = information.triangle(j)
    W = R[:, :-1][:, shared]
    signal = float(np.sum((W @ rest.value[known]) ** 2))
    noise = float(np.sum((W @ rest.covariance[np.ix_(known, known)]) * W))
    if not rest.identified[known].all() or noise > UNRELIABLE * signal:
        return Factor(1.0, np.inf)
    blocks = []
    for block in information.blocks:
        own = block.R[j]
        A = np.column_stack((own[:, :-1][:, ~shared], own[:, :-1][:, shared] @ rest.value[known], own[:, -1]))
        blocks.append(Block((A,), block.rows[j : j + 1], block.start, block.end, block.recording))
    width = blocks[0].R[0].shape[1] - 1
    alone = Information(tuple(blocks), (np.arange(width),), ColumnLayout(width))
    found = solve(alone.triangle(0))
    covariance, freedom = jackknife(block_moments(alone, found.value, np.ones(1)), found.identified)
    freedom = min(freedom, _left_over(alone))
    std = np.sqrt(covariance[-1, -1] + found.value[-1] ** 2 * noise / signal) if found.identified[-1] else np.inf
    return Factor(float(found.value[-1]), float(std), freedom)


def _left_over(information: Information) -> float:
    """Return how many rows there are beyond the parameters, at least 1: a fit with hardly more proves little."""
    return float(max(information.rows.sum() - information.size, 1))


def backward_friction(base: BaseParameters, robot: Robot, information: Information) -> list[int]:
    """Return the joints (from 0) whose own rows say that friction drives them, as a wrong sign of the effort does."""
    names = {leader: k for k, leader in enumerate(base.leaders)}
    reversed_joints = []
    for j, number in enumerate(robot.active):
        places = [names[f"{kind}{number}"] for kind in ("Fv", "Fc") if f"{kind}{number}" in names]
        columns = information.columns[j]
        at = [int(np.flatnonzero(columns == p)[0]) for p in places if p in columns]
        if len(at) < 2:
            continue
        found = solve(information.triangle(j))
        blocks = tuple(Block((b.R[j],), b.rows[j : j + 1], b.start, b.end, b.recording) for b in information.blocks)
        alone = Information(blocks, (np.arange(len(columns)),), ColumnLayout(len(columns)))
        covariance, freedom = jackknife(block_moments(alone, found.value, np.ones(1)), found.identified)
        freedom = min(freedom, _left_over(alone))
        speed = np.linalg.norm(information.triangle(j)[:, at], axis=0)  # both as torques
        power = float(speed @ found.value[at])
        spread = float(np.sqrt(max(speed @ covariance[np.ix_(at, at)] @ speed, 0.0)))
        if found.identified[at].all() and power < -clear(freedom) * spread and power < 0:
            reversed_joints.append(j)
    return reversed_joints


def _backward_together(base: BaseParameters, robot: Robot, information: Information) -> list[int]:
    """Return the joints (from 0) that friction drives in the estimate of all joints together.

    It knows friction better than a joint's own rows do, but only if the joints agree with each other.
    """
    found = wls(information)
    names = {leader: k for k, leader in enumerate(base.leaders)}
    out = []
    for j, number in enumerate(robot.active):
        places = [names[f"{kind}{number}"] for kind in ("Fv", "Fc") if f"{kind}{number}" in names]
        columns = information.columns[j]
        at = [int(np.flatnonzero(columns == p)[0]) for p in places if p in columns]
        if len(at) < 2 or not found.identified[places].all():
            continue
        speed = np.linalg.norm(information.triangle(j)[:, at], axis=0)
        power = float(speed @ found.value[places])
        spread = float(np.sqrt(max(speed @ found.covariance[np.ix_(places, places)] @ speed, 0.0)))
        if power < -clear(found.dof) * spread and power < -MATERIAL * np.linalg.norm(information.triangle(j)[:, -1]):
            out.append(j)
    return out


def scaled(information: Information, gains: Array) -> Information:
    """Return the information with each joint's recorded effort times its gain, shape (n,)."""
    if np.all(gains == 1.0):
        return information
    layout = information.layout
    delay = range(layout.delay.start, layout.delay.stop)
    sizes = [
        np.append(np.where(np.isin(columns, delay), gain, 1.0), gain)  # the delay's column is -dtau/dt
        for columns, gain in zip(information.columns, gains, strict=True)
    ]
    blocks = []
    for block in information.blocks:
        parts = tuple(R * size for R, size in zip(block.R, sizes, strict=True))
        blocks.append(Block(parts, block.rows, block.start, block.end, block.recording))
    return Information(tuple(blocks), information.columns, layout)


def relative_gains(
    robot: Robot, base: BaseParameters, information: Information, start: Array | None = None
) -> tuple[Array, bool]:
    """Return the gain of each joint, shape (n,), with which the joints agree, from `start` on, and whether they do.

    Signs by friction first, all at once; then the joint without which the others agree best, one after the other.
    """
    gains = np.ones(information.n) if start is None else start.copy()
    for _ in range(2 * information.n):
        part = scaled(information, gains)
        backward = backward_friction(base, robot, part)
        if backward:
            gains[backward] *= -1.0
            continue
        found = factors(part)
        wrong = [j for j, factor in enumerate(found) if factor.wrong]
        if not wrong:
            backward = _backward_together(base, robot, part)
            if not backward:
                return gains, True
            gains[backward] *= -1.0
            continue
        left = dict.fromkeys(wrong, 0)
        if len(wrong) > 1:
            left = {k: sum(factor.wrong for factor in factors(part, k)) for k in wrong}
        j = min(wrong, key=lambda k: (left[k], -abs(np.log(abs(found[k].value) + 1e-12))))
        f = found[j].value
        gains[j] *= -1.0 if -2.0 < f < -0.5 else 1.0 / f
    return gains, False


def refuse_contradictions(information: Information, value: Array, sources: Sequence[str]) -> None:
    """Raise InputError if one of several recordings contradicts the others: another robot, or another load."""
    if len(information.recordings) < 2:
        return
    worst, most = None, 1.0
    for k, own in information.recordings.items():
        if np.any(own.rows <= 2) or own.rows.sum() <= own.size:
            continue
        torque = np.linalg.norm(joint_torques(own))
        together = float(np.linalg.norm(joint_errors(own, value)) / torque)
        if together <= 0.1:
            continue
        alone = float(np.linalg.norm(joint_errors(own, weighted(own)[0].value)) / torque)
        if together > 3.0 * alone and together / alone > most:
            worst, most = (k, together, alone), together / alone
    if worst is not None:
        k, together, alone = worst
        what = f"torque error {100 * together:.0f} % together with the other recordings, {100 * alone:.1f} % alone"
        raise InputError(what, "identify recordings of different robots or loads apart", sources[k])


def against_prior(information: Information, base: BaseParameters, prior: Array) -> Factor:
    """Return the scale of all efforts against the a priori links; rotors, friction, offsets and delay are fitted."""
    links = [k for k, leader in enumerate(base.leaders) if group_of(leader) == "inertial"]
    if not np.any(prior[links]):
        return Factor(1.0, np.inf)
    known = np.zeros(information.size)
    known[links] = prior[links]
    blocks = []
    free = [k for k in range(information.size) if k not in set(links)]
    place = {k: i for i, k in enumerate(free)}
    felt = [[i for i, k in enumerate(columns.tolist()) if k in place] for columns in information.columns]
    places = [[place[int(columns[i])] for i in of] for columns, of in zip(information.columns, felt, strict=True)]
    for block in information.blocks:
        parts = []
        for R, columns, to, of in zip(block.R, information.columns, places, felt, strict=True):
            wide = np.zeros((len(R), len(free) + 2))
            wide[:, to] = R[:, of]
            wide[:, -2] = R[:, :-1] @ known[columns]
            wide[:, -1] = R[:, -1]
            parts.append(wide)
        blocks.append(Block((np.vstack(parts),), np.array([block.rows.sum()]), block.start, block.end, block.recording))
    alone = Information(tuple(blocks), (np.arange(len(free) + 1),), ColumnLayout(len(free) + 1))
    found = solve(alone.triangle(0))
    covariance, freedom = jackknife(block_moments(alone, found.value, np.ones(1)), found.identified)
    std = float(np.sqrt(covariance[-1, -1])) if found.identified[-1] else np.inf
    return Factor(float(found.value[-1]), std, freedom)
