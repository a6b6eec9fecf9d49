# SPDX-License-Identifier: Apache-2.0

"""From recordings of commands and positions to drives: several starts, friction terms that held-out time supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.servo.drive import BIAS, COMPLIANCE, DELAY, OWN, REACH, Drives, Term
from ros2_dynid.identification.servo.fit import (
    Batch,
    Fit,
    FitOptions,
    Normal,
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
from ros2_dynid.model.robot import REVOLUTE, Array, Robot
from ros2_dynid.progress import Progress
from ros2_dynid.recording.samples import Samples


@dataclass(frozen=True)
class ServoOptions:
    """How drives are identified.

    start_frequency: of a servo [rad/s], critically damped, between those of hobby and of legged robots; start_delays
    [s]; start_reaches: over the largest error of position, infinite for none: a limit changes the error's landscape.
    bias_std: encoders are calibrated so well [rad or m]; it tells a bias from gravity where a motion hardly can.
    compliance_std: servos of one robot differ by that share, or from their description, where the links' masses do not
    tell a joint's stiffness.
    least_compliance: a servo is stiffer than the others by the inverse of it at most.
    delay_std: servos of one robot hang on one bus: their delays differ by so much [s].
    told: relative standard deviation of a stiffness below which it counts as told by the data.
    gain: a term must lower the held-out error by this many times its scatter, and by the share `least_gain`: time
    stretches that are like each other support nothing by chance alone. limit_evidence, limit_gain: the same for a
    limit of the torque: what gains less is friction by another name, and would hold the joint beyond the recorded
    errors.
    """

    stretches: StretchOptions = field(default_factory=StretchOptions)
    start_frequency: float = 25.0
    start_delays: tuple[float, ...] = (0.0, 0.04)
    start_reaches: tuple[float, ...] = (np.inf, 0.6, 0.25)
    start_iterations: int = 10
    bias_std: float = 0.02
    compliance_std: float = 1.0
    least_compliance: float = 0.1
    delay_std: float = 2e-3
    told: float = 0.3
    gain: float = 2.0
    least_gain: float = 0.01
    limit_evidence: float = 3.0
    limit_gain: float = 0.1
    trial_iterations: int = 6


SHAPES = (0.03, 0.06, 0.12, 0.24)
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
    _refuse_other_units(robot, samples)
    known = np.isfinite(samples.q_r) & np.isfinite(samples.q)
    for j, name in enumerate(robot.active_names):
        u, y = samples.q_r[known[:, j], j], samples.q[known[:, j], j]
        if len(u) == 0:
            raise InputError(f"joint {name!r} has no reference", "record its command too", samples.source)
        if np.ptp(u) >= CONSTANT and any(np.array_equal(u[late:], y[: len(y) - late]) for late in range(ECHO)):
            hint = "record the command that is sent to the servo, not the position that it reports"
            raise InputError(f"the reference of {name!r} is its position", hint, samples.source)
        if np.ptp(u) > TOO_LARGE * np.ptp(y) > 0.0:
            what = f"the references of {name!r} span {np.ptp(u):.3g}, its positions {np.ptp(y):.3g} (rad or m)"
            raise InputError(what, "give both in the same unit", samples.source)
    if not moved_joints(samples).any():
        raise InputError("the commands are constant", "record a motion of every joint", samples.source)
    order = _permutation(samples)
    if order is not None:
        j, other = order
        names = robot.active_names
        what = f"the positions of {names[j]!r} follow the references of {names[other]!r}"
        raise InputError(what, "put positions and references into one joint order", samples.source)


def _refuse_other_units(robot: Robot, samples: Samples) -> None:
    """Refuse angles that are a turn or more beyond a joint's limits: degrees, shares of the range or encoder counts."""
    for j, (name, joint) in enumerate(zip(robot.active_names, robot.active, strict=True)):
        limits, q = robot.joints[joint - 1].limits, samples.q[:, j]
        reach, farthest = max(-limits.lower, limits.upper), float(np.nanmax(np.abs(q), initial=0.0))
        if robot.joints[joint - 1].sigma == REVOLUTE and farthest > reach + 2.0 * np.pi:
            what = f"the positions of {name!r} reach {farthest:.4g}, its limit is {reach:.4g} rad"
            hint = Text("if they are degrees, give ", Option("angle_unit", "deg"), "; else convert them to radians")
            raise InputError(what, hint, samples.source)


def moved_joints(samples: Samples) -> NDArray[np.bool_]:
    """Return which joints' commands change, (n,)."""
    assert samples.q_r is not None
    return np.asarray(np.nanmax(samples.q_r, axis=0) - np.nanmin(samples.q_r, axis=0) >= CONSTANT)


CONSTANT = 1e-6
"""Span of a command that does not move a joint [rad or m]."""
ECHO = 4
"""So many samples late a driver reports positions as references at most, from 0 on."""
TOO_LARGE = 20.0
"""Span of commands over that of positions that no servo explains, and degrees (57 for each radian) do."""
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
    stretches = fitting_length(recordings, options.stretches)
    batch = build_batch(robot, chi, recordings, stretches)
    fit, limited = _fit_starts(batch, recordings, options)
    report("fitting the servos", 0.3)
    batch = renew_rigid(batch, _single(_better(fit, limited, options)))
    prior, _ = _prior(_better(fit, limited, options), batch, options)
    fit, limited = (fit_drives(some.drives, batch, some.free, prior) for some in (fit, limited))
    delay = _common_delay(_better(fit, limited, options), options)
    prior, _ = _prior(_better(fit, limited, options), batch, options, delay)
    fit, limited = (fit_drives(some.drives, batch, some.free, prior) for some in (fit, limited))
    report("choosing friction terms", 0.4)
    chosen, gains, scatter = _choose_terms(fit, batch, prior, options)
    supported = _support_limits(chosen, limited, batch, prior, options)
    if supported.any():
        report("choosing friction terms", 0.6)
        chosen_limited, *tried = _choose_terms(limited, batch, prior, options, supported)
        chosen = _join_joints(chosen, chosen_limited, supported)
        gains, scatter = (np.where(supported, new, old) for new, old in zip(tried, (gains, scatter), strict=True))
    report("fitting the servos", 0.8)
    fit = chosen
    for _ in range(2):
        batch = renew_rigid(batch, _single(fit))
        prior, told = _prior(fit, batch, options, delay)
        fit = fit_drives(fit.drives, batch, fit.free, prior)
    finer = _fit_finer(fit, build_batch(robot, chi, recordings, _half_step(stretches)), prior)
    C = covariance(finer) + _step_errors(fit, finer)
    rms = np.sqrt(finer.normal.costs[0].sum(axis=0) / finer.normal.counts[0].sum(axis=0))
    return ServoFit(_single(finer), C, told, rms, gains, scatter, batch.top_speed)


def _half_step(options: StretchOptions) -> StretchOptions:
    return replace(options, step=0.5 * options.step)


def _fit_finer(fit: Fit, batch: Batch, prior: Prior) -> Fit:
    """Return the fit to a batch with other steps, whose rigid body is not yet along the simulated motion."""
    for repetition in range(4):
        batch = renew_rigid(batch, _single(fit))
        if repetition >= 2:
            fit = fit_drives(fit.drives, batch, fit.free, prior)
    return fit


def _step_errors(coarse: Fit, fine: Fit) -> Array:
    """Return the covariance of what the length of the simulation's steps does, (n, K, K): by half a step it changes."""
    before, after = (np.nan_to_num(fit.drives.ratios[:, 0], posinf=0.0) for fit in (coarse, fine))
    change = after - before
    return np.asarray(np.einsum("kj,lj->jkl", change, change))


def _single(fit: Fit) -> Drives:
    return replace(fit.drives, ratios=fit.drives.ratios[:, 0])


def _fit_starts(batch: Batch, recordings: Sequence[ServoRecording], options: ServoOptions) -> tuple[Fit, Fit]:
    """Return the best of several starts, joint by joint, of drives without and with a limit of their torque."""
    largest = np.max([np.quantile(np.abs(r.commanded - r.y), 0.999, axis=0) for r in recordings], axis=0)
    w = options.start_frequency
    variants = [(reach, delay) for reach in options.start_reaches for delay in options.start_delays]
    ratios = np.empty((OWN, len(variants), len(largest)))
    for c, (reach, delay) in enumerate(variants):
        ratios[:, c] = np.array([0.1, 1.0 / w**2, 2.0 / w, 0.01, 0.0, delay, 0.0])[:, None]
        ratios[REACH, c] = reach * np.maximum(largest, 1e-3)
    free = np.ones(ratios.shape, dtype=bool)
    free[REACH] = np.isfinite(ratios[REACH])
    fit = fit_drives(Drives(ratios), batch, free, options=FitOptions(iterations=options.start_iterations))
    limited = np.isfinite([reach for reach, _ in variants])[:, None]
    costs = (np.where(limited, np.inf, fit.normal.cost), np.where(limited, fit.normal.cost, np.inf))
    without, with_limit = (choose_variants(fit, cost.argmin(axis=0)) for cost in costs)
    return without, with_limit


def _better(fit: Fit, limited: Fit, options: ServoOptions) -> Fit:
    """Return, joint by joint, the fit that is closer to the recording: with a limit only if it is worth one."""
    return _join_joints(fit, limited, limited.normal.cost[0] * (1.0 + options.limit_gain) < fit.normal.cost[0])


def _join_joints(one: Fit, other: Fit, where: NDArray[np.bool_]) -> Fit:
    """Return a fit whose joints are those of `other` where asked for (n,), else those of one; the terms of both."""
    terms = tuple(dict.fromkeys((*one.drives.terms, *other.drives.terms)))
    wide = [_with_all_terms(fit, terms) for fit in (one, other)]
    both = Fit(
        replace(wide[0].drives, ratios=np.concatenate([fit.drives.ratios for fit in wide], axis=1)),
        Normal(*(np.concatenate([getattr(fit.normal, f.name) for fit in wide]) for f in fields(Normal))),
        np.concatenate([fit.free for fit in wide], axis=1),
        one.iterations,
        wide[0].prior,
    )
    return choose_variants(both, where.astype(int))


def _with_all_terms(fit: Fit, terms: tuple[Term, ...]) -> Fit:
    """Return a fit with more terms, whose ratios are zero and not free."""
    place = [*range(OWN), *(OWN + terms.index(term) for term in fit.drives.terms)]
    K, normal = OWN + len(terms), fit.normal
    ratios, free = np.zeros((K, *fit.drives.ratios.shape[1:])), np.zeros((K, *fit.free.shape[1:]), dtype=bool)
    ratios[place], free[place] = fit.drives.ratios, fit.free
    H, g = np.zeros((*normal.H.shape[:2], K, K)), np.zeros((*normal.g.shape[:2], K))
    gradients = np.zeros((*normal.gradients.shape[:3], K))
    H[..., np.array(place)[:, None], place], g[..., place], gradients[..., place] = normal.H, normal.g, normal.gradients
    prior = fit.prior
    if prior is not None:
        rows = [np.zeros((K, prior.mean.shape[1])) for _ in range(3)]
        for row, old in zip(rows, (prior.mean, prior.weight, prior.least), strict=True):
            row[place] = old
        prior = Prior(*rows)
    return Fit(Drives(ratios, terms), replace(normal, H=H, g=g, gradients=gradients), free, fit.iterations, prior)


def _support_limits(fit: Fit, limited: Fit, batch: Batch, prior: Prior, options: ServoOptions) -> NDArray[np.bool_]:
    """Return whether held-out time supports a limit of each joint's torque, beside the law chosen without one, (n,)."""
    hopeful = np.asarray(limited.normal.cost[0] * (1.0 + options.limit_gain) < fit.normal.cost[0])
    if not hopeful.any():
        return hopeful
    wide = _with_all_terms(limited, fit.drives.terms)
    free = np.concatenate((fit.free, fit.free | wide.free), axis=1)
    ratios = np.concatenate((fit.drives.ratios, wide.drives.ratios), axis=1)
    more = np.zeros((len(ratios) - len(prior.mean), len(hopeful)))
    prior = Prior(*(np.concatenate((x, more)) for x in (prior.mean, prior.weight, prior.least)))
    unseen = _held_out_costs(replace(fit.drives, ratios=ratios), free, batch, prior, options, hopeful)
    gain, scatter = _gains(unseen)
    return np.asarray(hopeful & (gain[1] > options.limit_evidence * scatter[1]) & (gain[1] > options.limit_gain))


def _held_out_costs(
    drives: Drives,
    free: NDArray[np.bool_],
    batch: Batch,
    prior: Prior,
    options: ServoOptions,
    joints: NDArray[np.bool_],
) -> Array:
    """Return the squared errors of stretches (laws, B, n) that laws with ratios (K, laws, n) were not fitted to.

    Every law is fitted twice, without the even and without the odd pairs of stretches, for the joints asked for.
    """
    B, laws = len(batch.stretches.y), drives.ratios.shape[1]
    held = (np.arange(B) // 2) % 2
    weight = np.array([(held == fold).astype(float) for _ in range(laws) for fold in (1, 0)])
    twice = replace(drives, ratios=np.repeat(drives.ratios, 2, axis=1))
    trial = fit_drives(
        twice,
        batch,
        np.repeat(free, 2, axis=1),
        prior,
        weight,
        FitOptions(iterations=options.trial_iterations),
        np.broadcast_to(joints, (2 * laws, len(joints))),
    )
    costs = trial.normal.costs.reshape(laws, 2, B, -1)
    return np.asarray(np.where((held == 0)[:, None], costs[:, 0], costs[:, 1]))


def _gains(unseen: Array) -> tuple[Array, Array]:
    """Return how much better than the first law the others are, as shares of its held-out error; scatter, (laws, n)."""
    total = np.maximum(unseen[0].sum(axis=0), 1e-300)
    better = unseen[0] - unseen
    return better.sum(axis=1) / total, np.sqrt(unseen.shape[1]) * better.std(axis=1) / total


def _common_delay(fit: Fit, options: ServoOptions) -> float:
    """Return the delay of the robot's servos [s]: the median of the joints', each with the weight of its error bar."""
    delay = fit.drives.ratios[DELAY, 0]
    weight = 1.0 / np.hypot(np.sqrt(covariance(fit)[:, DELAY, DELAY]), options.delay_std)
    order = np.argsort(delay)
    share = np.cumsum(weight[order]) - 0.5 * weight[order]
    return float(np.interp(0.5 * weight.sum(), share, delay[order]))


def _prior(fit: Fit, batch: Batch, options: ServoOptions, delay: float | None = None) -> tuple[Prior, tuple[bool, ...]]:
    """Return what is known of biases and compliances before, in units of a stretch's error, and what the data tell.

    A stretch counts as one observation: the errors within it are the model's, and alike. delay: of the robot's servos
    [s], None where it is not known yet.
    """
    x, C = fit.drives.ratios[:, 0], covariance(fit)
    std = np.sqrt(C[:, COMPLIANCE, COMPLIANCE])
    told = (x[COMPLIANCE] > 0.0) & (std < options.told * x[COMPLIANCE])
    common = float(np.median(x[COMPLIANCE, told])) if told.any() else _usual_compliance(batch.robot)
    usual = _described_compliances(batch.robot, common)
    cost = fit.normal.costs[0].sum(axis=0) / len(batch.stretches.begin)
    mean, weight = np.zeros_like(x), np.zeros_like(x)
    if delay is not None:
        mean[DELAY], weight[DELAY] = delay, cost / options.delay_std**2
    weight[BIAS] = cost / options.bias_std**2
    mean[COMPLIANCE], weight[COMPLIANCE] = usual, cost / (options.compliance_std * usual) ** 2
    least = lower_bounds(_single(fit))
    least[COMPLIANCE] = options.least_compliance * usual
    return Prior(mean, weight, least), tuple(map(bool, told))


def _described_compliances(robot: Robot, common: float) -> Array:
    """Return 1/kp of the servos that the robot's description has, the common one of the others, (n,)."""
    servos = [robot.joints[joint - 1].servo for joint in robot.active]
    return np.array([common if servo is None else 1.0 / servo.kp for servo in servos])


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


def _choose_terms(
    fit: Fit, batch: Batch, prior: Prior, options: ServoOptions, joints: NDArray[np.bool_] | None = None
) -> tuple[Fit, Array, Array]:
    """Return the fit with the further term that each joint's held-out time supports, if any, and what each gained.

    Law 0 is that without further terms, the others have one each. joints: that are of interest, by default all.
    """
    terms = candidate_terms(batch.top_speed / 3.0)
    n = batch.stretches.y.shape[1]
    laws = len(terms) + 1
    joints = np.ones(n, dtype=bool) if joints is None else joints
    drives = fit.drives.with_terms(terms)
    free = np.zeros((len(drives.ratios), laws, n), dtype=bool)
    free[:OWN] = fit.free[:OWN]
    for law in range(1, laws):
        free[OWN + law - 1, law] = True
    drives = replace(drives, ratios=np.repeat(drives.ratios, laws, axis=1))
    more = np.zeros((len(terms), n))
    wide = Prior(*(np.concatenate((x, more)) for x in (prior.mean, prior.weight, prior.least)))
    gain, scatter = _gains(_held_out_costs(drives, free, batch, wide, options, joints))
    gain[:, ~joints] = 0.0
    best, place = gain.argmax(axis=0), np.arange(n)
    gains, scatters = gain[best, place], scatter[best, place]
    best = np.where((gains > options.gain * scatters) & (gains > options.least_gain), best, 0)
    used = sorted({int(law) - 1 for law in best if law})
    rows = [*range(OWN), *(OWN + k for k in used)]
    start = Drives(drives.ratios[np.ix_(rows, [0])], tuple(terms[k] for k in used))
    wide = Prior(wide.mean[rows], wide.weight[rows], wide.least[rows])
    return fit_drives(start, batch, free[rows][:, best, place][:, None], wide, active=joints[None]), gains, scatters
