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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.backend import fast_regressor
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.dynamics.standing import joints_without_rows
from ros2_dynid.errors import Option, Text
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.error_bars import deviations_beyond_chance
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Block, Information, coarser
from ros2_dynid.identification.regression.least_squares import fit_alone, wls
from ros2_dynid.identification.validation.cross_validation import validate_in_folds
from ros2_dynid.identification.validation.finding import Finding
from ros2_dynid.identification.validation.torque_errors import AS_WELL
from ros2_dynid.model.parameters import group_of, standard_names, standard_vector
from ros2_dynid.model.robot import Array, Robot

MILLI = 1000.0
"""Efforts in mN.m or N.mm over those in N.m."""
SAMPLES = 1500
"""Samples that a joint's own evidence rests on: some twenty for each standard parameter of a six-axis arm."""
REVERSAL = 0.05
"""Share of the top speed over which Coulomb friction changes its sign, so that noise at standstill does not count."""


@dataclass(frozen=True)
class EffortThresholds:
    """When an effort has the wrong sign or unit.

    A joint's own rows. samples_per_column: fewer for each column fitted (accelerations, friction, offset, gravity) say
    nothing. own_share: least part of a column that no other column explains; motion at one frequency makes gravity look
    like inertia, and what is left of it then says nothing. effort_share: least part of the effort that a cause makes
    up, to count as evidence. weight_share: least gravity torque of a joint as a share of the heaviest joint's.
    sign_correlation: with gravity, or share of friction beyond rigid-body torques, from which either speaks about the
    sign. scale_correlation: with gravity, from which its scale counts. singular_value: share of the largest below which
    a direction is left out of the fit of the inertia. same_sign: share of the samples at which that has one sign.

    Joints against each other. prediction_noise: largest share of noise in what the other joints predict. chance: how
    often chance may make such a deviation. negative_chance: the same for a factor below 0, which nothing but a wrong
    sign explains. reversed_factor: least size of such a factor, which is near -1; smaller ones are what noise in a poor
    motion leaves. agreement: factor up to which joints agree; less is friction, masses that are shared, noise.

    All joints against the a priori masses. likely_mass_error: factor by which all masses together are seldom wrong,
    while units are. certain_mass_error: factor by which masses are hardly ever wrong, but N.mm, gear ratios and raw
    currents mostly are. same_scale: factor within which the scales of single joints are one, as far as masses tell.
    sign_gain: factor from 1 within which a gain is a sign alone. blocks: of time that deviations are told by, however
    many recordings there are; 120 tell a standard deviation to 6 %.

    On stretches left out, with the gains that put a joint right. known_error: its largest relative error; above, half
    of its torque is not predicted, a short recording says nothing about it, and nothing is said about the joint. harm:
    that error over the one without the gains, at most, for a sign or unit to be certain; a joint that shares little
    with the others is predicted about as well with either sign (8 % on a Panda), while false accusations made it 1.4 to
    11 times as large. as_well: the same of all joints together.
    """

    samples_per_column: int = 20
    own_share: float = 0.3
    effort_share: float = 0.1
    weight_share: float = 0.02
    sign_correlation: float = 0.5
    scale_correlation: float = 0.8
    singular_value: float = 0.002
    same_sign: float = 0.95
    prediction_noise: float = 0.1
    chance: float = 1e-5
    negative_chance: float = 1e-3
    reversed_factor: float = 0.25
    agreement: float = 2.0
    likely_mass_error: float = 5.0
    certain_mass_error: float = 30.0
    same_scale: float = 3.0
    sign_gain: float = 1.4
    blocks: int = 120
    known_error: float = 0.5
    harm: float = 1.25
    as_well: float = AS_WELL


EFFORTS = EffortThresholds()


def is_within(value: float, factor: float) -> bool:
    """Return whether a scale, of either sign, is closer to 1 than a factor."""
    return 1.0 / factor < abs(value) < factor


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

    def supports_sign(self, thresholds: EffortThresholds = EFFORTS) -> bool:
        """Return whether friction or inertia, which need no a priori masses, say that the sign is right."""
        return self.friction_r > thresholds.sign_correlation or self.inertia > 0

    def is_reversed(self, thresholds: EffortThresholds = EFFORTS) -> bool:
        """Return whether friction or inertia contradicts the effort's sign and nothing supports it."""
        contradicted = self.friction_r < -thresholds.sign_correlation or self.inertia < 0
        supported = self.gravity_r > thresholds.sign_correlation or self.supports_sign(thresholds)
        return contradicted and not supported

    def follows_gravity(self, thresholds: EffortThresholds = EFFORTS) -> bool:
        """Return whether gravity speaks so clearly that its scale, of either sign, counts."""
        return abs(self.gravity_r) > thresholds.scale_correlation

    def has_other_unit(self, thresholds: EffortThresholds = EFFORTS) -> bool:
        """Return whether the effort follows gravity, but at a scale that no error of the masses explains."""
        return self.follows_gravity(thresholds) and not is_within(self.gravity_scale, thresholds.certain_mass_error)


@dataclass(frozen=True, eq=False)
class SampledMotion:
    """Smooth motion and torque, shape (N, n) each [rad or m, N.m or N]."""

    q: Array
    dq: Array
    ddq: Array
    tau: Array


def sample_motion(prepared: Sequence[Prepared], count: int = SAMPLES) -> SampledMotion:
    """Return `count` samples, up to twice as many, evenly spread over the recordings' segments; all if they are few."""
    places = [np.concatenate([np.arange(0), *(np.arange(s.start, s.stop) for s in part.segments)]) for part in prepared]
    stride = 1 << max(0, (sum(map(len, places)) // count).bit_length() - 1)
    samples = [
        (part.q[at], part.dq[at], part.ddq[at], part.tau[at])
        for part, at in ((part, at[::stride]) for part, at in zip(prepared, places, strict=True))
    ]
    return SampledMotion(*(np.concatenate(column) for column in zip(*samples, strict=True)))


def build_friction_columns(dq: Array) -> tuple[Array, Array]:
    """Return columns of Coulomb and viscous friction, each between -1 and 1, of the shape of dq."""
    top = np.maximum(np.max(np.abs(dq), axis=0), 1e-9)
    return np.tanh(dq / (REVERSAL * top)), dq / top


def project_out(columns: Array, others: Array) -> Array:
    """Return what of the columns, shape (N,) or (N, k), the others, shape (N, m), cannot explain."""
    scaled = others / np.maximum(np.linalg.norm(others, axis=0), 1e-300)
    return np.asarray(columns - scaled @ np.linalg.lstsq(scaled, columns, rcond=1e-9)[0])


def unforced_joints(robot: Robot) -> NDArray[np.bool_]:
    """Return which active joints have no effort of their own, shape (n,): a floating base's, and those not measured."""
    return np.array([k < robot.base_number or spent for k, spent in enumerate(joints_without_rows(robot))])


def gather_effort_evidence(
    robot: Robot, motion: SampledMotion, thresholds: EffortThresholds = EFFORTS
) -> list[EffortEvidence]:
    """Return what the effort of each active joint shows by itself."""
    q, dq, ddq, tau = motion.q, motion.dq, motion.ddq, motion.tau
    n, driven = tau.shape[1], ~unforced_joints(robot)
    enough = thresholds.samples_per_column * (n + 5)
    if len(q) < enough:
        return [EffortEvidence()] * n
    gravity = gravity_torque(robot, standard_vector(robot), q)
    heavy = np.std(gravity, axis=0) > thresholds.weight_share * np.max(np.std(gravity, axis=0))
    links = [k for k, name in enumerate(standard_names(robot)) if group_of(name) in ("inertial", "rotor")]
    still, friction_of = np.zeros_like(q), np.stack(build_friction_columns(dq), axis=2)
    Y, resting = (np.asarray(fast_regressor(robot, q, *m))[:, :, links] for m in ((dq, ddq), (still, still)))
    evidence = []
    for j in range(n):
        known = np.isfinite(tau[:, j]) & driven[j]
        if np.count_nonzero(known) < enough or np.max(np.abs(dq[:, j])) < 1e-6 or np.ptp(tau[known, j]) == 0:
            evidence.append(EffortEvidence())
            continue
        friction, effort = friction_of[known, j], tau[known, j] - tau[known, j].mean()
        r = scale = np.nan
        if heavy[j]:
            others = np.hstack((np.ones((len(effort), 1)), friction, ddq[known]))
            r, scale = _gravity_in_effort(gravity[known, j], others, effort, thresholds)
        friction_r = _friction_in_effort(Y[known, j], friction, dq[known, j], effort, thresholds)
        unit = np.zeros_like(q)
        unit[:, j] = 1.0
        inertia_columns = np.asarray(fast_regressor(robot, q, still, unit))[:, j, links] - resting[:, j]  # of M_jj(q)
        inertia = _inertia_sign(Y[known, j], friction, inertia_columns[known], ddq[known, j], effort, thresholds)
        evidence.append(EffortEvidence(r, scale, friction_r, inertia))
    return evidence


def _gravity_in_effort(
    gravity: Array, others: Array, effort: Array, thresholds: EffortThresholds
) -> tuple[float, float]:
    """Return the partial correlation of the effort with gravity, and its scale."""
    own, rest = project_out(gravity, others), project_out(effort, others)
    if np.linalg.norm(own) < thresholds.own_share * np.linalg.norm(gravity - gravity.mean()):
        return np.nan, np.nan
    scale = float(own @ rest / (own @ own))
    if abs(scale) * np.linalg.norm(own) < thresholds.effort_share * np.linalg.norm(effort):
        return np.nan, np.nan
    return float(own @ rest / (np.linalg.norm(own) * np.linalg.norm(rest))), scale


def _friction_in_effort(Y: Array, friction: Array, dq: Array, effort: Array, thresholds: EffortThresholds) -> float:
    """Return the share of friction in the effort beyond rigid-body torques; negative if it drives the motion."""
    others = np.hstack((np.ones((len(Y), 1)), Y))
    columns, rest = project_out(friction, others), project_out(effort, others)
    own = np.linalg.norm(columns, axis=0) > thresholds.own_share * np.linalg.norm(friction, axis=0)
    if not own.any():
        return np.nan
    fitted = columns[:, own] @ np.linalg.lstsq(columns[:, own], rest, rcond=1e-6)[0]
    if np.linalg.norm(fitted) < thresholds.effort_share * np.linalg.norm(effort):
        return np.nan
    return float(np.sign(fitted @ dq)) * float(np.linalg.norm(fitted) / np.linalg.norm(rest))


def _inertia_sign(
    Y: Array, friction: Array, inertia_columns: Array, ddq: Array, effort: Array, thresholds: EffortThresholds
) -> float:
    """Return the sign of M_jj = inertia_columns chi, with chi fitted to effort = Y chi + friction, or NaN.

    It counts if the motion determines it, if it is the same everywhere, and if it makes up a part of the effort.
    """
    A = np.hstack((Y, np.ones((len(Y), 1)), friction))
    size = np.linalg.norm(A, axis=0)
    scale = np.where(size > 1e-9 * size.max(), size, np.inf)
    U, s, Vt = np.linalg.svd(A / scale, full_matrices=False)
    kept = Vt[s > thresholds.singular_value * s[0]]
    m = inertia_columns.mean(axis=0) / scale[: Y.shape[1]]
    inside = kept[:, : Y.shape[1]] @ m
    if np.linalg.norm(inside) < (1 - thresholds.own_share) * np.linalg.norm(m):
        return np.nan
    x = kept.T @ ((U.T[: len(kept)] @ effort) / s[: len(kept)])
    M = inertia_columns @ (x / scale)[: Y.shape[1]]
    if np.linalg.norm(M * ddq) < thresholds.effort_share * np.linalg.norm(effort):
        return np.nan
    return next((sign for sign in (1.0, -1.0) if np.mean(sign * M > 0) > thresholds.same_sign), np.nan)


@dataclass(frozen=True)
class Factor:
    """Scale of a joint's effort against what the other joints say, its standard deviation, and the freedom behind."""

    value: float
    std: float
    freedom: float = np.inf

    def is_wrong(self, thresholds: EffortThresholds = EFFORTS) -> bool:
        """Return whether the effort clearly follows the other joints, but clearly not by 1: negative, or off by two.

        A factor near 0 says that the other joints do not tell about this one in these data, not that it is wrong.
        """
        follows = thresholds.chance if self.value > 0 else thresholds.negative_chance
        clear = abs(self.value) > deviations_beyond_chance(self.freedom, follows) * self.std
        clear &= abs(self.value - 1.0) > deviations_beyond_chance(self.freedom, thresholds.chance) * self.std
        if self.value > 0.0:
            return clear and not is_within(self.value, thresholds.agreement)
        return clear and self.value <= -thresholds.reversed_factor


UNKNOWN_FACTOR = Factor(1.0, np.inf)
"""Of a joint that the others do not tell about."""


def _fit_rows(information: Information, rows: Sequence[Array], counts: Sequence[int]) -> Estimate:
    """Return the fit of rows [A y] alone; one with hardly more rows than parameters proves little."""
    fit = fit_alone(information, rows, counts)
    return replace(fit, dof=min(fit.dof, float(max(sum(counts) - len(fit.value), 1))))


def estimate_joint_factors(
    information: Information, without: int | None = None, thresholds: EffortThresholds = EFFORTS
) -> list[Factor]:
    """Return the factor of each joint, leaving joint `without` out of the comparison; infinite std if none can tell."""
    factors = []
    for j, columns in enumerate(information.columns):
        others = [k for k in range(information.n) if k not in (j, without)]
        of_others = set().union(*(information.columns[k].tolist() for k in others))
        shared = np.array([c in of_others and c < information.layout.n_base for c in columns.tolist()])
        if j == without or not shared.any():
            factors.append(UNKNOWN_FACTOR)
            continue
        factors.append(_factor(information, j, shared, wls(information.of_joints(others)), thresholds))
    return factors


def _factor(
    information: Information, j: int, shared: NDArray[np.bool_], rest: Estimate, thresholds: EffortThresholds
) -> Factor:
    """Return the factor of joint j against the estimate from the others, if that predicts its torque well enough."""
    known = information.columns[j][shared]
    W = information.triangle(j)[:, :-1][:, shared]
    signal = float(np.sum((W @ rest.value[known]) ** 2))
    noise = float(np.sum((W @ rest.covariance[np.ix_(known, known)]) * W))
    if not rest.identified[known].all() or noise > thresholds.prediction_noise * signal:
        return UNKNOWN_FACTOR
    rows = [
        np.column_stack((R[:, :-1][:, ~shared], R[:, :-1][:, shared] @ rest.value[known], R[:, -1]))
        for R in (block.R[j] for block in information.blocks)
    ]
    fit = _fit_rows(information, rows, [int(block.rows[j]) for block in information.blocks])
    value = float(fit.value[-1])
    std = float(np.sqrt(fit.covariance[-1, -1] + value**2 * noise / signal)) if fit.identified[-1] else np.inf
    return Factor(value, std, fit.dof)


def find_driving_friction(
    base: BaseParameters,
    robot: Robot,
    information: Information,
    *,
    together: bool = False,
    thresholds: EffortThresholds = EFFORTS,
) -> list[int]:
    """Return the joints (from 0) that friction drives, as a wrong sign of the effort makes it do.

    By their own rows, or by the estimate of all joints together: that knows friction better, but only if the joints
    agree with each other, and friction must then be a part of the effort.
    """
    estimate = wls(information) if together else None
    reversed_joints = []
    for j, (number, columns) in enumerate(zip(robot.active, information.columns, strict=True)):
        friction = [k for k, leader in enumerate(base.leaders) if leader in (f"Fv{number}", f"Fc{number}")]
        at = np.flatnonzero(np.isin(columns, friction))
        if len(at) < 2:
            continue
        R, least = information.triangle(j), 0.0
        if estimate is None:
            rows, counts = zip(*((block.R[j], int(block.rows[j])) for block in information.blocks), strict=True)
            fit, own = _fit_rows(information, rows, counts), at
        else:
            fit, own = estimate, columns[at]
            least = thresholds.effort_share * float(np.linalg.norm(R[:, -1]))
        speed = np.linalg.norm(R[:, at], axis=0)  # both coefficients as torques
        power = float(speed @ fit.value[own])
        spread = float(np.sqrt(max(speed @ fit.covariance[np.ix_(own, own)] @ speed, 0.0)))
        clear = power < -deviations_beyond_chance(fit.dof, thresholds.chance) * spread
        if fit.identified[own].all() and clear and power < -least:
            reversed_joints.append(j)
    return reversed_joints


def scale_efforts(information: Information, gains: Array) -> Information:
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


def fit_relative_gains(
    robot: Robot,
    base: BaseParameters,
    information: Information,
    start: Array | None = None,
    thresholds: EffortThresholds = EFFORTS,
) -> tuple[Array, bool]:
    """Return the gain of each joint, shape (n,), with which the joints agree, from `start` on, and whether they do.

    Signs by friction first, all at once; then the joint without which the others agree best, one after the other.
    """
    gains = np.ones(information.n) if start is None else start.copy()
    for _ in range(2 * information.n):
        part = scale_efforts(information, gains)
        reversed_joints = find_driving_friction(base, robot, part, thresholds=thresholds)
        factors = [] if reversed_joints else estimate_joint_factors(part, thresholds=thresholds)
        wrong = [j for j, factor in enumerate(factors) if factor.is_wrong(thresholds)]
        if not reversed_joints and not wrong:
            reversed_joints = find_driving_friction(base, robot, part, together=True, thresholds=thresholds)
            if not reversed_joints:
                return gains, True
        if reversed_joints:
            gains[reversed_joints] *= -1.0
            continue
        still_wrong = dict.fromkeys(wrong, 0)
        if len(wrong) > 1:
            still_wrong = {
                k: sum(f.is_wrong(thresholds) for f in estimate_joint_factors(part, k, thresholds)) for k in wrong
            }
        j = min(wrong, key=lambda k: (still_wrong[k], -abs(np.log(abs(factors[k].value) + 1e-12))))
        f = factors[j].value
        gains[j] *= -1.0 if f < 0.0 and is_within(f, thresholds.agreement) else 1.0 / f
    return gains, False


def keep_predicting_gains(
    information: Information, names: Sequence[str], gains: Array, usual: float, thresholds: EffortThresholds = EFFORTS
) -> Array:
    """Return the gains, shape (n,), with the usual one for joints whose torque is not predicted with their own.

    A sign that all joints share is a usual one. Without enough stretches of time to leave out, only what no error of
    the masses explains stays.
    """
    if np.all(gains < 0.0):
        usual = -usual
    own = np.abs(np.log(np.abs(gains / usual))) > np.log(thresholds.sign_gain)
    own |= gains * usual < 0.0
    if not own.any():
        return gains
    errors = _held_out_errors(scale_efforts(information, gains), names)
    if len(errors):
        predicted = errors <= thresholds.known_error
    else:
        predicted = np.array([not is_within(gain / usual, thresholds.certain_mass_error) for gain in gains])
    return np.where(own & ~predicted, usual, gains)


def are_gains_supported(
    information: Information, names: Sequence[str], gains: Array, thresholds: EffortThresholds = EFFORTS
) -> bool:
    """Return whether stretches left out speak for the gains of all joints that have one, shape (n,).

    Gains that all joints share change no relative error: what speaks for them is said elsewhere.
    """
    if np.all(gains == gains[0]):
        return True
    before, after = (_held_out_errors(part, names) for part in (information, scale_efforts(information, gains)))
    if not len(before) or np.linalg.norm(after) > thresholds.as_well * np.linalg.norm(before):
        return False
    changed = np.array([gain < 0.0 or not is_within(gain, thresholds.sign_gain) for gain in gains])
    return bool(np.all(after[changed] <= np.minimum(thresholds.known_error, thresholds.harm * before[changed])))


def _held_out_errors(information: Information, names: Sequence[str]) -> Array:
    """Return the relative torque error of each joint on stretches left out, shape (n,); empty with too few blocks."""
    errors = validate_in_folds(names, information, None, lambda blocks: wls(information.take(blocks))).errors
    return np.array([errors[name].relative for name in names if errors])


def estimate_prior_scale(
    information: Information, base: BaseParameters, prior: Array, joint: int | None = None
) -> Factor:
    """Return the scale of all efforts, or of one joint's (from 0), against the a priori links.

    Rotors, friction, offsets and delay are fitted.
    """
    links = [k for k, leader in enumerate(base.leaders) if group_of(leader) == "inertial"]
    if not np.any(prior[links]):
        return UNKNOWN_FACTOR
    known = np.zeros(information.size)
    known[links] = prior[links]
    free = np.setdiff1d(np.arange(information.size), links)
    joints, rows = range(information.n) if joint is None else [joint], []
    for block in information.blocks:
        parts = []
        for R, columns in ((block.R[j], information.columns[j]) for j in joints):
            own = np.isin(columns, free)
            part = np.zeros((len(R), len(free) + 2))
            part[:, np.searchsorted(free, columns[own])] = R[:, :-1][:, own]
            part[:, -2], part[:, -1] = R[:, :-1] @ known[columns], R[:, -1]
            parts.append(part)
        rows.append(np.vstack(parts))
    fit = _fit_rows(information, rows, [int(sum(block.rows[j] for j in joints)) for block in information.blocks])
    return Factor(float(fit.value[-1]), float(fit.std[-1]), fit.dof) if fit.identified[-1] else UNKNOWN_FACTOR


def check_efforts(
    problem: Problem, evidence: Sequence[EffortEvidence], thresholds: EffortThresholds
) -> tuple[Finding, ...]:
    """Return signs and units that are wrong, by the joints' own rows, by each other, and by the a priori masses.

    A sign is certain if stretches left out are predicted about as well with it put right. So is a unit by which the
    joints contradict each other, which needs no masses; and one that no masses explain. Nothing is said about a joint
    whose torque is not predicted then.
    """
    information = coarser(problem.information, thresholds.blocks)
    scale = estimate_prior_scale(information, problem.base, problem.prior)
    common = _common_scale(scale, evidence, thresholds)
    scales = [estimate_prior_scale(information, problem.base, problem.prior, j) for j in range(information.n)]
    start = np.array([_first_gain(*own, common, thresholds) for own in zip(evidence, scales, strict=True)])
    names = problem.robot.active_names
    gains, agree = fit_relative_gains(problem.robot, problem.base, information, start, thresholds)
    gains = keep_predicting_gains(information, names, gains, 1.0 / common, thresholds)
    gains = np.where(unforced_joints(problem.robot), 1.0, gains)
    contradict = bool(np.any(np.abs(gains) != np.abs(start)))
    if not np.all(gains == 1.0):
        scale = estimate_prior_scale(scale_efforts(information, gains), problem.base, problem.prior)
    if scale.is_wrong(thresholds):
        signs_known = any(joint.supports_sign(thresholds) or joint.is_reversed(thresholds) for joint in evidence)
        if scale.value < 0.0 and not signs_known:
            gains, scale = -gains, replace(scale, value=-scale.value)
        if scale.value > 0.0 and not is_within(scale.value, thresholds.likely_mass_error):
            gains = gains / scale.value
    if np.all(gains == 1.0):
        return ()
    impossible = any(not is_within(gain, thresholds.certain_mass_error) for gain in gains)
    supported = are_gains_supported(information, names, gains, thresholds)
    certain_unit = supported and (impossible or contradict)
    return _tell_gains(names, gains, agree, (supported, certain_unit), thresholds)


def _common_scale(scale: Factor, evidence: Sequence[EffortEvidence], thresholds: EffortThresholds) -> float:
    """Return the scale of all efforts against the a priori masses if it is far from 1 and the joints agree on it."""
    if not scale.is_wrong(thresholds) or is_within(scale.value, thresholds.likely_mass_error):
        return 1.0
    alike = all(
        is_within(joint.gravity_scale / scale.value, thresholds.same_scale)
        for joint in evidence
        if joint.follows_gravity(thresholds)
    )
    return abs(scale.value) if alike else 1.0


def _first_gain(joint: EffortEvidence, scale: Factor, common: float, thresholds: EffortThresholds) -> float:
    """Return the gain that a joint's own evidence asks for; scale: of its effort against the a priori links."""
    size = common
    if common == 1.0 and joint.has_other_unit(thresholds):
        size = abs(joint.gravity_scale)
    elif common == 1.0 and scale.is_wrong(thresholds) and not is_within(scale.value, thresholds.certain_mass_error):
        size = abs(scale.value)
    return (-1.0 if joint.is_reversed(thresholds) else 1.0) / size


def _tell_gains(
    names: Sequence[str], gains: Array, agree: bool, certain: tuple[bool, bool], thresholds: EffortThresholds
) -> tuple[Finding, ...]:
    """Return signs and units in words, with one option for all joints; certain: the signs, and the units."""
    by_name = dict(zip(names, gains.tolist(), strict=True))
    reversed_joints = tuple(name for name, gain in by_name.items() if gain < 0.0)
    sizes = {name: abs(1.0 / gain) for name, gain in by_name.items() if not is_within(gain, thresholds.sign_gain)}
    advice = {
        name: float(f"{gain:.3g}") if name in sizes else float(np.sign(gain))
        for name, gain in by_name.items()
        if name in sizes or gain < 0.0
    }
    option = Option("gains", advice)
    in_milli = [is_within(size / MILLI, thresholds.same_scale) for size in sizes.values()]
    if not reversed_joints and sum(in_milli) == len(names):
        option = Option("effort_unit", "mN.m")
    certain_sign, certain_unit = certain
    hint = Text("set ", option)
    if not certain_sign:
        hint = Text("record longer, and more varied motion, to be sure; if that is so, set ", option)
    if not agree:
        hint = Text("check sign and unit of every joint's effort; as far as it can be told: ", option)
    findings = []
    if reversed_joints:
        every = len(reversed_joints) == len(names)
        subject = "all efforts have" if every else f"the effort of {', '.join(reversed_joints)} has"
        doubt = "" if certain_sign else ", it seems, but there are too few data to tell"
        findings.append(Finding("effort_sign", reversed_joints, f"{subject} the wrong sign{doubt}", hint, certain_sign))
    if sizes:
        values = ", ".join(f"{name} {size:.3g}" for name, size in sizes.items())
        what = (
            f"efforts are not in N.m (N) of the joint, but this many times as large: {values}: another unit, motor "
            "currents, or torques before the gear"
        )
        findings.append(Finding("effort_unit", tuple(sizes), what, hint, certain_unit))
    return tuple(findings)
