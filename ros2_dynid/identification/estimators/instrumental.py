# SPDX-License-Identifier: Apache-2.0

"""Instrumental variables against the noise that comes through the regressor, and the motion that makes instruments.

Noise of the encoders is in W, and in tau too where it passes through the robot's own controller: least squares is then
biased. Instruments Z follow the motion but do not share its noise, and sum of Z^T (tau - W base) = 0 has the true
parameters as its solution whatever the noise of W and tau have in common.

The motion of instruments is that of the robot without the noise of its encoders. Where the commanded positions were
recorded, it is theirs. Else it is the motion within its own band: white noise of the encoders makes accelerations of
high frequencies, while the motion that was commanded is slow. What the regressor takes from the torque (delay,
load-dependent friction) is kept to the same band. A robot that tracks its reference well moves like that, so these are
the instruments of IDIM-IV (`idim_iv`) without a simulation, and neither controller nor gains need be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Option, RankError, Text
from ros2_dynid.identification.estimators.estimator import Fit
from ros2_dynid.identification.friction_columns import signs
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.filters import filter_signal, half_length, lowpass_kernel
from ros2_dynid.identification.preparation.prepare import SignalThresholds
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.repetition import find_motion_period
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import OnChunk
from ros2_dynid.identification.regression.error_bars import Moments, jackknife
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import BLOCKS, Information, phase_of
from ros2_dynid.identification.regression.least_squares import TOLERANCE, error_levels, wls
from ros2_dynid.model.robot import Array, Robot

PASSED = 0.45
"""Share of a kernel's cut-off up to which it passes everything."""
IN_BAND = 5e-3
"""Noise over motion, as power of the accelerations, above which instruments share too much noise with the regressor:
estimates would be off by about this share."""


def instrument_motion(robot: Robot, prepared: Prepared) -> Prepared:
    """Return the recording as the instruments see it: commanded motion, or motion in its own band, and slow torques."""
    cutoff, segments = motion_band(prepared), prepared.segments
    rate = prepared.filter.inner_rate
    source = prepared.q if prepared.reference is None else prepared.reference
    band = cutoff if prepared.reference is None else prepared.filter.row_cutoff or cutoff
    parts = [_smooth(source[segment], band, rate) for segment in segments]
    q, dq, ddq = (np.concatenate(column) for column in zip(*parts, strict=True))
    tau = np.concatenate([_smooth(prepared.tau[segment], cutoff, rate)[0] for segment in segments])
    gear_torque = prepared.gear_torque
    if gear_torque is not None:
        gear_torque = np.concatenate([_smooth(gear_torque[segment], cutoff, rate)[0] for segment in segments])
    return replace(prepared, q=q, dq=dq, ddq=ddq, tau=tau, sign=signs(robot, q, dq), gear_torque=gear_torque)


def motion_band(prepared: Prepared) -> float:
    """Return the cut-off [Hz] that passes the motion of all joints and as little else as possible."""
    if prepared.spectrum is None or prepared.filter.row_cutoff is None:
        raise InputError("instrumental variables need positions as recorded", "give a recording, not filtered arrays")
    band = float(np.max(prepared.spectrum.motion)) / PASSED
    return min(band, prepared.filter.row_cutoff)


def noise_share(prepared: Prepared, cutoff: float) -> Array:
    """Return the power of the encoders' noise over that of the motion, in the accelerations below `cutoff` [Hz], (n,).

    White noise of the positions with power floor [rad^2/Hz] has the power floor (2 pi)^4 cutoff^5 / 5 in them. Of a
    joint that stands still there is nothing to be biased: 0.
    """
    assert prepared.spectrum is not None
    noise = prepared.spectrum.floor * (2.0 * np.pi) ** 4 * cutoff**5 / 5.0
    parts = [_smooth(prepared.q[s], cutoff, prepared.filter.inner_rate)[2] for s in prepared.segments]
    power = np.mean(np.concatenate(parts) ** 2, axis=0)
    share = noise / np.maximum(power - noise, 1e-3 * power + 1e-300)
    return np.where(np.ptp(prepared.q, axis=0) < SignalThresholds.least_motion, 0.0, share)


def refuse_shared_noise(prepared: Prepared, names: tuple[str, ...]) -> None:
    """Raise InputError if the encoders' noise is within the band of the motion: then no instrument is without it."""
    if prepared.reference is not None:
        return
    share = noise_share(prepared, motion_band(prepared))
    worst = int(np.argmax(share))
    if share[worst] > IN_BAND:
        what = (
            f"joint {names[worst]!r}: the encoder's noise lies within the band of its motion "
            f"({100 * share[worst]:.2g} % of the acceleration), and instruments made from the positions have it too"
        )
        hint = Text(
            "record the commanded positions too (NAME.reference), move faster, or use ", Option("method", "wls")
        )
        raise InputError(what, hint, prepared.source)


def in_band(q: Array, cutoff: float, rate: float) -> Array:
    """Return signals (N, n) at `rate` [Hz] low-passed at `cutoff` [Hz], all samples of them."""
    return _smooth(q, cutoff, rate)[0]


def _smooth(q: Array, cutoff: float, rate: float) -> tuple[Array, Array, Array]:
    """Return q, dq, ddq of positions (N, n) low-passed at `cutoff` [Hz]; beyond the ends the motion is mirrored."""
    K = half_length(cutoff, rate)
    padded = np.concatenate((_mirrored(q, K), q, _mirrored(q[::-1], K)[::-1]))
    smooth = [filter_signal(padded, lowpass_kernel(cutoff, rate, k), 1) for k in range(3)]
    return smooth[0], smooth[1], smooth[2]


def _mirrored(q: Array, count: int) -> Array:
    """Return `count` samples before q, shape (N, n): q turned about its first sample, repeatedly if it is short."""
    before: Array = q[:0]
    head = q
    while len(before) < count:
        turned = 2.0 * head[0] - head[1:][::-1]
        before = np.concatenate((turned, before))
        head = turned
    return before[-count:]


@dataclass(frozen=True, eq=False)
class CrossMoments:
    """A = sum of Z^T W (B, n, size, size), y = sum of Z^T tau (B, n, size): B blocks, n joints with weight 1 each.

    phases: the same in blocks of the period, where the motion repeats.
    """

    A: Array
    y: Array
    phases: CrossMoments | None = None

    def weighted(self, weights: Array, blocks: Sequence[int]) -> tuple[Array, Array]:
        """Return A (B, size, size) and y (B, size) of some blocks, joints added up by their squared weights."""
        chosen = list(blocks)
        w = weights**2
        return np.einsum("j,kjab->kab", w, self.A[chosen]), np.einsum("j,kja->ka", w, self.y[chosen])


def cross_moments(
    instruments: Iterable[Rows], rows: Iterable[Rows], starts: Array, period: float | None = None
) -> CrossMoments:
    """Return the moments of one recording in blocks of time, from the rows of instruments and of the recording itself.

    starts: times [s] at which the blocks begin, shape (B,); period: of the motion [s] if it repeats.
    """
    moments: CrossMoments | None = None
    for first, second in zip(instruments, rows, strict=True):
        if moments is None:
            b, n, _ = second.W.shape
            phases = None if period is None else _zero(BLOCKS, n, b)
            moments = replace(_zero(len(starts), n, b), phases=phases)
        _add(moments, np.maximum(np.searchsorted(starts, second.t, side="right") - 1, 0), first, second)
        if period is not None and moments.phases is not None:
            _add(moments.phases, phase_of(second.t, period), first, second)
    if moments is None:
        raise InputError("the recording gives no row", "record longer")
    return moments


def _zero(B: int, n: int, b: int) -> CrossMoments:
    return CrossMoments(np.zeros((B, n, b, b)), np.zeros((B, n, b)))


def _add(moments: CrossMoments, block: NDArray[np.intp], instruments: Rows, rows: Rows) -> None:
    """Add rows to the moments of the blocks that they are of, shape (m,)."""
    keep = instruments.keep & rows.keep
    for k in np.unique(block):
        inside = block == k
        for j in range(len(keep)):
            chosen = inside & keep[j]
            Z = instruments.W[:, j, chosen]
            moments.A[k, j] += Z @ rows.W[:, j, chosen].T
            moments.y[k, j] += Z @ rows.tau[j, chosen]


def join_moments(parts: Sequence[CrossMoments]) -> CrossMoments:
    """Return the moments of several recordings together."""
    together = CrossMoments(np.concatenate([p.A for p in parts]), np.concatenate([p.y for p in parts]))
    if not any(p.phases for p in parts):
        return together
    return replace(together, phases=join_moments([replace(p.phases or p, phases=None) for p in parts]))


def iv(
    information: Information, moments: CrossMoments, prior: Array | None = None, chosen: Sequence[int] | None = None
) -> Estimate:
    """Return the instrumental-variable estimate from all blocks or those chosen; joints are weighted as wls does."""
    blocks = range(len(information.blocks)) if chosen is None else chosen
    part = information.take(blocks)
    weights = 1.0 / wls(part, prior).sigma
    A_b, y_b = moments.weighted(weights, blocks)
    A, y = A_b.sum(axis=0), y_b.sum(axis=0)
    size = np.sqrt(np.abs(np.diag(A)))
    excited = size > 0
    scale = np.where(excited, size, 1.0)
    scaled = (A / np.outer(scale, scale))[np.ix_(excited, excited)]
    s = np.linalg.svd(scaled, compute_uv=False)
    rank = int(np.count_nonzero(s > TOLERANCE * s[0]))
    if rank < np.count_nonzero(excited):
        raise RankError(
            "the instruments do not excite all base parameters",
            Text(
                "use ",
                Option("method", Method.WLS.value),
                ", which leaves open what is not excited, or excite the robot more",
            ),
            rank=rank,
            expected=int(np.count_nonzero(excited)),
            tolerance=TOLERANCE,
        )
    value = np.zeros(len(y))
    value[excited] = np.linalg.solve(scaled, (y / scale)[excited])
    value /= scale
    g = y_b - np.einsum("kij,j->ki", A_b, value)
    recording = np.array([block.recording for block in part.blocks], dtype=float)
    phases = None
    if chosen is None and moments.phases is not None:
        A_p, y_p = moments.phases.weighted(weights, range(len(moments.phases.y)))
        phases = Moments(A_p, y_p - np.einsum("kij,j->ki", A_p, value), np.zeros(len(y_p)))
    covariance, dof = jackknife(Moments(A_b, g, recording, phases), excited)
    sigma = error_levels(part, value, weights)
    cond = float(np.sqrt(s[0] / s[-1]))
    return Estimate(information.layout, value, covariance, excited, sigma, cond, rank, Method.IV, dof)


def build_fit(problem: Problem, on_chunk: OnChunk | None = None) -> Fit:
    """Return instrumental variables for a problem, with the instruments that its recordings have."""
    for prepared in problem.prepared:
        refuse_shared_noise(prepared, problem.robot.active_names)
    motions = [instrument_motion(problem.robot, prepared) for prepared in problem.prepared]
    moments = moments_with(problem, lambda number: problem.rows_of(motions[number]))

    def fit(blocks: Sequence[int] | None) -> Estimate:
        return iv(problem.information, moments, problem.prior, blocks)

    return fit


def moments_with(problem: Problem, instruments: Callable[[int], Iterable[Rows]]) -> CrossMoments:
    """Return the moments of all recordings; instruments: from a recording's number to the rows of its instruments."""
    moments = []
    for k, prepared in enumerate(problem.prepared):
        starts = np.array([block.start for block in problem.information.blocks if block.recording == k])
        moments.append(cross_moments(instruments(k), problem.rows(k), starts, find_motion_period(prepared)))
    return join_moments(moments)
