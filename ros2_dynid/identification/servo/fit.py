# SPDX-License-Identifier: Apache-2.0

"""Levenberg-Marquardt over stretches of time: each joint of each variant is a problem of its own, all side by side.

The other joints enter a joint's problem by the rigid body along the latest simulated motion, which `fit_drives`
renews; how they would move with this joint's parameters is left out of the derivatives, which only lead the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.identification.servo.drive import DELAY, Drives, nonnegative
from ros2_dynid.identification.servo.recording import (
    ServoRecording,
    StretchOptions,
    cut_stretches,
    join_stretches,
    measured_motion,
)
from ros2_dynid.identification.servo.rigid_terms import rigid_terms
from ros2_dynid.identification.servo.simulation import (
    Commands,
    Motion,
    RigidTerms,
    Stretches,
    simulate_motion,
    simulate_samples,
)
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True, eq=False)
class Batch:
    """Stretches of all recordings with the rigid body along the latest motion; top_speed: see simulate_motion."""

    robot: Robot
    chi: Array
    commands: tuple[Commands, ...]
    stretches: Stretches
    rigid: RigidTerms
    top_speed: float


def build_batch(robot: Robot, chi: Array, recordings: Sequence[ServoRecording], options: StretchOptions) -> Batch:
    """Return the recordings' stretches, with the rigid body along the measured motion."""
    parts = [cut_stretches(recording, options) for recording in recordings]
    stretches = join_stretches(parts)
    motions = [measured_motion(r, p, stretches.steps) for r, p in zip(recordings, parts, strict=True)]
    q, v = (np.concatenate(signal, axis=1) for signal in zip(*motions, strict=True))
    rigid = rigid_terms(robot, chi, q, v, np.zeros_like(q))
    commands = tuple(recording.commands for recording in recordings)
    return Batch(robot, chi, commands, stretches, rigid, TOP_SPEED * float(np.abs(v).max()))


TOP_SPEED = 3.0
"""Speed, over the fastest recorded one, from which on friction terms keep their value."""


def renew_rigid(batch: Batch, drives: Drives) -> Batch:
    """Return the batch with the rigid body along the simulated motion of drives (K, n)."""
    motion = simulate_motion(drives, batch.commands, batch.rigid, batch.stretches, batch.top_speed)
    return replace(batch, rigid=rigid_along(batch.robot, batch.chi, motion, batch.stretches.step))


def rigid_along(robot: Robot, chi: Array, motion: Motion, step: Array) -> RigidTerms:
    """Return the rigid body in the middle of the steps of a simulated motion."""
    q, v = (0.5 * (x[1:] + x[:-1]) for x in (motion.q, motion.v))
    return rigid_terms(robot, chi, q, v, np.diff(motion.v, axis=0) / step[:, None])


@dataclass(frozen=True, eq=False)
class Prior:
    """What is known beforehand: mean and weight (the cost of one stretch over the variance), shape (K, n) each.

    least: lower bounds of the ratios, (K, n).
    """

    mean: Array
    weight: Array
    least: Array


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal equations of C variants of n joints: cost (C, n), H (C, n, K, K), g (C, n, K).

    costs, counts: squared errors and samples of each stretch, (C, B, n); gradients: of each stretch, (C, B, n, K).
    """

    cost: Array
    H: Array
    g: Array
    costs: Array
    counts: Array
    gradients: Array


@dataclass(frozen=True, eq=False)
class Fit:
    """Fitted drives, ratios (K, C, n), with their normal equations, which are free (K, C, n), and the iterations.

    prior: what was known beforehand, if anything.
    """

    drives: Drives
    normal: Normal
    free: NDArray[np.bool_]
    iterations: int
    prior: Prior | None = None


@dataclass(frozen=True)
class FitOptions:
    """When the search ends: all costs fall by less than the share `gain`, or after `iterations`; damping at its start.

    least_damping: keeps equations solvable where columns are alike. most_damping: a joint whose cost no step lowers,
    however damped, has arrived. delay_step: largest change of a delay at once [s]: positions are linear in it only
    nearby.
    """

    iterations: int = 25
    gain: float = 1e-4
    damping: float = 1e-2
    least_damping: float = 1e-8
    most_damping: float = 1e4
    delay_step: float = 0.02


def normal_equations(
    drives: Drives, batch: Batch, weight: Array | None = None, active: NDArray[np.bool_] | None = None
) -> Normal:
    """Return the normal equations for ratios (K, C, n); weight: of each stretch in each variant, (C, B).

    active: which problems are of interest, (C, n); the others cost NaN. By default all.
    """
    simulated = simulate_samples(drives, batch.commands, batch.rigid, batch.stretches, batch.top_speed, active)
    K, C, n = drives.ratios.shape
    measured = np.moveaxis(batch.stretches.measured, 0, 2)
    known = np.isfinite(measured)
    B = len(measured)
    weight = np.ones((C, B)) if weight is None else weight
    H, costs, gradients = np.zeros((C, n, K, K)), np.full((C, B, n), np.nan), np.zeros((C, B, n, K))
    for c, j in np.argwhere(np.ones((C, n)) if active is None else active):  # what diverges costs infinity or NaN
        S = simulated.slopes[c, :, j] * known[:, j, :, None]
        error = np.where(known[:, j], measured[:, j] - simulated.y[c, :, j], 0.0)
        rows = S[weight[c] > 0.0].reshape(-1, K)
        with np.errstate(over="ignore", invalid="ignore"):
            gradients[c, :, j] = np.matmul(error[:, None], S)[:, 0]
            costs[c, :, j] = np.sum(error**2, axis=1)
            H[c, j] = rows.T @ rows
    w = weight[:, :, None]
    counts = np.broadcast_to(known.sum(axis=2), costs.shape)
    return Normal((costs * w).sum(axis=1), H, (gradients * w[..., None]).sum(axis=1), costs, counts, gradients)


def fit_drives(
    start: Drives,
    batch: Batch,
    free: NDArray[np.bool_],
    prior: Prior | None = None,
    weight: Array | None = None,
    options: FitOptions | None = None,
    active: NDArray[np.bool_] | None = None,
) -> Fit:
    """Return the drives whose simulated positions fit the measured ones best, from a start with ratios (K, C, n).

    free: which ratios are fitted, (K, C, n); active: the problems that are of interest, (C, n), by default all. A joint
    whose step does not lower its cost takes a more cautious one.
    """
    options = options or FitOptions()
    ratios = start.ratios.copy()
    least = lower_bounds(start) if prior is None else prior.least
    ratios = np.maximum(ratios, least[:, None])
    start = replace(start, ratios=ratios)
    normal = _with_prior(normal_equations(start, batch, weight, active), ratios, prior)
    damping = np.full(ratios.shape[1:], options.damping)
    settled = np.zeros(ratios.shape[1:], dtype=bool) if active is None else ~active
    iteration = 0
    while iteration < options.iterations and not settled.all():
        iteration += 1
        trial = ratios.copy()
        for c, j in np.argwhere(~settled):
            step = _damped_step(
                ratios[:, c, j], normal.H[c, j], normal.g[c, j], free[:, c, j], least[:, j], damping[c, j]
            )
            step *= min(1.0, options.delay_step / max(abs(step[DELAY]), 1e-12))
            trial[:, c, j] = np.maximum(ratios[:, c, j] + step, least[:, j])
        searched = normal_equations(replace(start, ratios=trial), batch, weight, ~settled)
        new = _with_prior(searched, trial, prior)
        better = new.cost < normal.cost
        settled |= (better & (normal.cost - new.cost < options.gain * normal.cost)) | (damping > options.most_damping)
        ratios = np.where(better, trial, ratios)
        normal = _choose(better, new, normal)
        damping = np.where(better, np.maximum(damping / 5.0, options.least_damping), damping * 8.0)
    return Fit(replace(start, ratios=ratios), normal, free, iteration, prior)


def _damped_step(x: Array, H: Array, g: Array, free: NDArray[np.bool_], least: Array, damping: float) -> Array:
    """Return a damped step from x; ratios at their bounds that would fall below stay there."""
    free = free & (np.diag(H) > 0.0)
    step = np.zeros_like(x)
    for _ in range(len(x)):
        step[:] = 0.0
        if not free.any():
            break
        scale = np.sqrt(np.diag(H)[free])
        scaled = H[np.ix_(free, free)] / np.outer(scale, scale)
        step[free] = np.linalg.solve(scaled + damping * np.eye(len(scale)), g[free] / scale) / scale
        falling = free & (x <= least) & (step < 0.0)
        if not falling.any():
            break
        free = free & ~falling
    return step


def _with_prior(normal: Normal, ratios: Array, prior: Prior | None) -> Normal:
    if prior is None:
        return normal
    weight = prior.weight[:, None, :]
    deviation = np.where(weight > 0.0, prior.mean[:, None, :] - ratios, 0.0)
    H, K = normal.H.copy(), len(ratios)
    H[:, :, range(K), range(K)] += prior.weight.T
    g = normal.g + (weight * deviation).transpose(1, 2, 0)
    return replace(normal, H=H, g=g, cost=normal.cost + np.sum(weight * deviation**2, axis=0))


def _choose(better: NDArray[np.bool_], new: Normal, old: Normal) -> Normal:
    """Return the new normal equations of some problems, the old ones of the others."""
    return Normal(
        np.where(better, new.cost, old.cost),
        np.where(better[..., None, None], new.H, old.H),
        np.where(better[..., None], new.g, old.g),
        np.where(better[:, None], new.costs, old.costs),
        new.counts,
        np.where(better[:, None, :, None], new.gradients, old.gradients),
    )


def choose_variants(fit: Fit, chosen: Array) -> Fit:
    """Return the fit with one variant for each joint, chosen (n,): C is 1."""
    joints = np.arange(len(chosen))
    normal = Normal(
        fit.normal.cost[chosen, joints][None],
        fit.normal.H[chosen, joints][None],
        fit.normal.g[chosen, joints][None],
        fit.normal.costs[chosen, :, joints].T[None],
        fit.normal.counts[chosen, :, joints].T[None],
        fit.normal.gradients[chosen, :, joints].transpose(1, 0, 2)[None],
    )
    ratios = fit.drives.ratios[:, chosen, joints][:, None]
    free = fit.free[:, chosen, joints][:, None]
    return Fit(replace(fit.drives, ratios=ratios), normal, free, fit.iterations, fit.prior)


def lower_bounds(drives: Drives) -> Array:
    """Return the lower bounds of the ratios, shape (K, n): zero where a negative one makes no sense."""
    bounds = np.where(nonnegative(drives.terms), 0.0, -np.inf)
    return np.repeat(bounds[:, None], drives.ratios.shape[-1], axis=1)


def covariance(fit: Fit) -> Array:
    """Return the covariance of the ratios of the first variant, shape (n, K, K).

    Stretches are independent, samples are not: H^-1 (sum of the products of the stretches' gradients) H^-1, in which
    what was known beforehand is one more observation. Infinite where the data say nothing, zero where fixed. A ratio at
    its bound has the variance that it would have beside the others, and does not change theirs.
    """
    K, _, n = fit.drives.ratios.shape
    C = np.zeros((n, K, K))
    positive = nonnegative(fit.drives.terms)
    for j in range(n):
        informed = fit.free[:, 0, j] & (np.diag(fit.normal.H[0, j]) > 0.0)
        bound = informed & positive & (fit.drives.ratios[:, 0, j] <= 0.0)
        inside = np.flatnonzero(informed & ~bound)
        C[j][np.ix_(inside, inside)] = _sandwich(fit, j, inside)
        if bound.any():
            everything = np.flatnonzero(informed)
            C[j][bound, bound] = np.diag(_sandwich(fit, j, everything))[bound[everything]]
        silent = fit.free[:, 0, j] & ~informed
        C[j][silent, silent] = np.inf
    return C


def _sandwich(fit: Fit, j: int, told: NDArray[np.intp]) -> Array:
    """Return the covariance of joint j's ratios `told`, the others fixed."""
    H = fit.normal.H[0, j]
    scale = np.sqrt(np.diag(H)[told])
    inverse = np.linalg.pinv(H[np.ix_(told, told)] / np.outer(scale, scale), rcond=1e-12, hermitian=True)
    inverse /= np.outer(scale, scale)
    g = fit.normal.gradients[0, :, j][:, told]
    used = np.any(fit.normal.counts[0] > 0, axis=1)
    scatter = g.T @ g * (used.sum() / max(used.sum() - len(told), 1))
    if fit.prior is not None:
        scatter += np.diag(fit.prior.weight[told, j] * fit.normal.costs[0, :, j].sum() / used.sum())
    return np.asarray(inverse @ scatter @ inverse)
