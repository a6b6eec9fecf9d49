# SPDX-License-Identifier: Apache-2.0

"""From recordings of commands and positions to drives: several starts, friction terms that held-out time supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.servo.drive import BIAS, COMPLIANCE, OWN, REACH, Drives, Term
from ros2_dynid.identification.servo.fit import (
    Batch,
    Fit,
    FitOptions,
    Prior,
    build_batch,
    choose_variants,
    covariance,
    fit_drives,
    lower_bounds,
    renew_rigid,
)
from ros2_dynid.identification.servo.recording import ServoRecording, StretchOptions, fitting_length, servo_recording
from ros2_dynid.identification.servo.rigid_terms import a_priori_links
from ros2_dynid.model.friction_kinds import FrictionKind
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.progress import Progress
from ros2_dynid.recording.samples import Samples


@dataclass(frozen=True)
class ServoOptions:
    """How drives are identified.

    start_frequency: of a servo [rad/s], critically damped, between those of hobby and of legged robots; start_delays
    [s]; start_reaches: over the largest error of position, infinite for none: a limit changes the error's landscape.
    bias_std: encoders are calibrated so well [rad or m]; it tells a bias from gravity where a motion hardly can.
    compliance_std: servos of one robot differ by that share, where the links' masses do not tell a joint's stiffness.
    least_compliance: a servo is stiffer than the others by the inverse of it at most.
    told: relative standard deviation of a stiffness below which it counts as told by the data.
    gain: a term must lower the held-out error by this many times its scatter, and by the share `least_gain`: time
    stretches that are like each other support nothing by chance alone.
    """

    stretches: StretchOptions = field(default_factory=StretchOptions)
    start_frequency: float = 25.0
    start_delays: tuple[float, ...] = (0.0, 0.04)
    start_reaches: tuple[float, ...] = (np.inf, 0.6, 0.25)
    start_iterations: int = 10
    bias_std: float = 0.02
    compliance_std: float = 1.0
    least_compliance: float = 0.1
    told: float = 0.3
    gain: float = 2.0
    least_gain: float = 0.01
    trial_iterations: int = 6


SHAPES = (0.05, 0.15)
"""Stribeck speeds that are tried, over the median top speed of the joints."""


@dataclass(frozen=True, eq=False)
class ServoFit:
    """Drives with ratios (K, n), their covariance (n, K, K), and what they were fitted to.

    scale_told: whether the links' masses tell a joint's stiffness, (n,). gains: by how much, as a share of the squared
    held-out error, the best law with a further term is better, with its scatter, (n,) each; rms: of the fit (n,).
    """

    drives: Drives
    covariance: Array
    scale_told: tuple[bool, ...]
    rms: Array
    gains: Array
    scatter: Array
    top_speed: float


def read_servo_recordings(robot: Robot, recordings: Sequence[Samples], options: ServoOptions) -> list[ServoRecording]:
    """Return recordings of commands and positions, or refuse those that cannot tell the drives anything."""
    checked = []
    for samples in recordings:
        refuse_useless(robot, samples)
        checked.append(servo_recording(samples, options.stretches.smoothing))
    return checked


def refuse_useless(robot: Robot, samples: Samples) -> None:
    """Refuse a recording without commands, with constant ones, with echoes of positions, or in another joint order."""
    if samples.q_r is None:
        hint = "add columns NAME.reference (or q_r), the positions that were commanded"
        raise InputError("the recording has neither efforts nor references", hint, samples.source)
    known = np.isfinite(samples.q_r) & np.isfinite(samples.q)
    for j, name in enumerate(robot.active_names):
        u, y = samples.q_r[known[:, j], j], samples.q[known[:, j], j]
        if len(u) == 0:
            raise InputError(f"joint {name!r} has no reference", "record its command too", samples.source)
        if np.array_equal(u, y):
            hint = "record the command that is sent to the servo, not the position that it reports"
            raise InputError(f"the reference of {name!r} is its position", hint, samples.source)
    constant = [name for j, name in enumerate(robot.active_names) if np.ptp(samples.q_r[known[:, j], j]) < CONSTANT]
    if len(constant) == len(robot.active_names):
        raise InputError("the commands are constant", "record a motion of every joint", samples.source)
    order = _permutation(samples)
    if order is not None:
        j, other = order
        names = robot.active_names
        what = f"the positions of {names[j]!r} follow the references of {names[other]!r}"
        raise InputError(what, "put positions and references into one joint order", samples.source)


CONSTANT = 1e-6
"""Span of a command that does not move a joint [rad or m]."""
FOLLOWS = 0.7
"""Correlation of a position with another joint's reference that shows a wrong order, where its own has half of it."""


def _permutation(samples: Samples) -> tuple[int, int] | None:
    """Return a joint that follows the reference of another one, and that other one."""
    assert samples.q_r is not None
    known = np.isfinite(samples.q_r).all(axis=1) & np.isfinite(samples.q).all(axis=1)
    y, u = samples.q[known], samples.q_r[known]
    y, u = (x - x.mean(axis=0) for x in (y, u))
    size = np.outer(np.linalg.norm(y, axis=0), np.linalg.norm(u, axis=0))
    correlation = np.divide(y.T @ u, size, out=np.zeros_like(size), where=size > 1e-9)
    for j, row in enumerate(correlation):
        other = int(np.argmax(row))
        if other != j and row[other] > FOLLOWS and row[j] < 0.5 * row[other]:
            return j, other
    return None


def estimate_drives(
    robot: Robot, recordings: Sequence[ServoRecording], options: ServoOptions, report: Progress
) -> ServoFit:
    """Return the drives of the recordings."""
    chi = a_priori_links(robot)
    report("simulating the servos", 0.1)
    batch = build_batch(robot, chi, recordings, fitting_length(recordings, options.stretches))
    fit = _fit_starts(batch, recordings, options)
    report("fitting the servos", 0.3)
    batch = renew_rigid(batch, _single(fit))
    fit = fit_drives(fit.drives, batch, fit.free)
    prior, _ = _prior(fit, batch, options)
    fit = fit_drives(fit.drives, batch, fit.free, prior)
    report("choosing friction terms", 0.5)
    fit, gains, scatter = _choose_terms(fit, batch, prior, options)
    report("fitting the servos", 0.8)
    for _ in range(2):
        batch = renew_rigid(batch, _single(fit))
        prior, told = _prior(fit, batch, options)
        fit = fit_drives(fit.drives, batch, fit.free, prior)
    rms = np.sqrt(fit.normal.costs[0].sum(axis=0) / fit.normal.counts[0].sum(axis=0))
    return ServoFit(_single(fit), covariance(fit), told, rms, gains, scatter, batch.top_speed)


def _single(fit: Fit) -> Drives:
    return replace(fit.drives, ratios=fit.drives.ratios[:, 0])


def _fit_starts(batch: Batch, recordings: Sequence[ServoRecording], options: ServoOptions) -> Fit:
    """Return the best of several starts, joint by joint."""
    largest = np.max([np.quantile(np.abs(r.commands.position - r.y), 0.999, axis=0) for r in recordings], axis=0)
    w = options.start_frequency
    variants = [(reach, delay) for reach in options.start_reaches for delay in options.start_delays]
    ratios = np.empty((OWN, len(variants), len(largest)))
    for c, (reach, delay) in enumerate(variants):
        ratios[:, c] = np.array([0.1, 1.0 / w**2, 2.0 / w, 0.01, 0.0, delay, 0.0])[:, None]
        ratios[REACH, c] = reach * np.maximum(largest, 1e-3)
    free = np.ones(ratios.shape, dtype=bool)
    free[REACH] = np.isfinite(ratios[REACH])
    fit = fit_drives(Drives(ratios), batch, free, options=FitOptions(iterations=options.start_iterations))
    cost = fit.normal.cost * np.where(free[REACH], 1.0 + options.least_gain, 1.0)
    return choose_variants(fit, cost.argmin(axis=0))


def _prior(fit: Fit, batch: Batch, options: ServoOptions) -> tuple[Prior, tuple[bool, ...]]:
    """Return what is known of biases and compliances before, in units of a stretch's error, and what the data tell.

    A stretch counts as one observation: the errors within it are the model's, and alike.
    """
    x, C = fit.drives.ratios[:, 0], covariance(fit)
    std = np.sqrt(C[:, COMPLIANCE, COMPLIANCE])
    told = (x[COMPLIANCE] > 0.0) & (std < options.told * x[COMPLIANCE])
    common = float(np.median(x[COMPLIANCE, told])) if told.any() else _usual_compliance(batch.robot)
    cost = fit.normal.costs[0].sum(axis=0) / len(batch.stretches.begin)
    mean, weight = np.zeros_like(x), np.zeros_like(x)
    weight[BIAS] = cost / options.bias_std**2
    mean[COMPLIANCE], weight[COMPLIANCE] = common, cost / (options.compliance_std * common) ** 2
    least = lower_bounds(_single(fit))
    least[COMPLIANCE] = options.least_compliance * common
    return Prior(mean, weight, least), tuple(map(bool, told))


def _usual_compliance(robot: Robot) -> float:
    """Return 1/kp of a servo that gives its largest effort at USUAL_REACH, or USUAL_COMPLIANCE without limits."""
    efforts = [robot.joints[j - 1].limits.effort for j in robot.active]
    known = [effort for effort in efforts if 0.0 < effort < np.inf]
    return USUAL_REACH / float(np.median(known)) if known else USUAL_COMPLIANCE


USUAL_REACH = 0.5
"""Error of position at which a servo usually gives its largest effort [rad]."""
USUAL_COMPLIANCE = 0.05
"""1/kp of a small servo [rad/(N.m)]: it only fixes the scale where nothing tells it."""


def candidate_terms(top_speed: float) -> tuple[Term, ...]:
    """Return the friction terms that are tried; top_speed: a usual one of the joints [rad/s or m/s]."""
    terms = []
    for kind in FrictionKind:
        if kind.automatic and kind.positive and not kind.thermal:
            shapes = (0.0,) if kind.shape is None else tuple(s * top_speed for s in SHAPES)
            terms += [Term(kind, shape) for shape in shapes]
    return tuple(terms)


def _choose_terms(fit: Fit, batch: Batch, prior: Prior, options: ServoOptions) -> tuple[Fit, Array, Array]:
    """Return the fit with the further term that each joint's held-out time supports, if any, and what each gained.

    Variant 0 is the law without further terms, the others have one each; every law is fitted twice, without the even
    and without the odd pairs of stretches, and judged on those.
    """
    terms = candidate_terms(batch.top_speed / 3.0)
    B, n = batch.stretches.y.shape
    laws = len(terms) + 1
    held = (np.arange(B) // 2) % 2
    drives = fit.drives.with_terms(terms)
    K = len(drives.ratios)
    free = np.zeros((K, 2 * laws, n), dtype=bool)
    free[:OWN] = fit.free[:OWN]
    for law in range(1, laws):
        free[OWN + law - 1, 2 * law : 2 * law + 2] = True
    ratios = np.repeat(drives.ratios, 2 * laws, axis=1)
    ratios[OWN:][free[OWN:]] = 0.0
    weight = np.array([(held == fold).astype(float) for _ in range(laws) for fold in (1, 0)])
    more = np.zeros((len(terms), n))
    wide = Prior(*(np.concatenate((x, more)) for x in (prior.mean, prior.weight, prior.least)))
    trial = fit_drives(
        replace(drives, ratios=ratios), batch, free, wide, weight, FitOptions(iterations=options.trial_iterations)
    )
    costs = trial.normal.costs.reshape(laws, 2, B, n)
    unseen = np.where((held == 0)[:, None], costs[:, 0], costs[:, 1])
    total = unseen[0].sum(axis=0)
    gain = (unseen[0] - unseen).sum(axis=1) / total
    scatter = np.sqrt(B) * (unseen[0] - unseen).std(axis=1) / total
    best = gain.argmax(axis=0)
    joints = np.arange(n)
    gains, scatters = gain[best, joints], scatter[best, joints]
    accepted = (gains > options.gain * scatters) & (gains > options.least_gain)
    best = np.where(accepted, best, 0)
    chosen = choose_variants(trial, 2 * best)
    used = sorted({int(law) - 1 for law in best if law})
    rows = [*range(OWN), *(OWN + k for k in used)]
    start = Drives(chosen.drives.ratios[rows], tuple(terms[k] for k in used))
    wide = Prior(wide.mean[rows], wide.weight[rows], wide.least[rows])
    return fit_drives(start, batch, chosen.free[rows], wide), gains, scatters
