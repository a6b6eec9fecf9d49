# SPDX-License-Identifier: Apache-2.0

"""What is wrong with a recording as a recording of this robot: mounting, angles in degrees, sign and unit of efforts.

`check` and `identify` both ask here, so they say the same. All joints are named at once, with the whole option that
puts them right. What rests on a priori masses alone is certain only where they explain the torque well; the rest needs
the geometry only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.blas import small_matrices
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.decisions.friction_law import choose_friction_law
from ros2_dynid.identification.friction_columns import AUTO
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import FOLDS, Information, block_folds
from ros2_dynid.identification.regression.least_squares import joint_errors, joint_torques, own_errors, solve_weighted
from ros2_dynid.identification.validation.effort_sign_and_unit import (
    EFFORTS,
    EffortEvidence,
    EffortThresholds,
    SampledMotion,
    check_efforts,
    estimate_prior_scale,
    gather_effort_evidence,
    is_within,
    sample_motion,
)
from ros2_dynid.identification.validation.finding import Finding
from ros2_dynid.identification.validation.friction_share import (
    FRICTION,
    FrictionShare,
    FrictionShareThresholds,
    find_friction_share,
)
from ros2_dynid.identification.validation.gravity_share import (
    GRAVITY,
    GravityShare,
    GravityThresholds,
    find_gravity_share,
)
from ros2_dynid.identification.validation.mounting import MOUNTING, MountingThresholds, check_mounting
from ros2_dynid.model.efforts import DRIVE, MeasuredEffort
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import REVOLUTE, Array, Robot

SHARE_DIGITS = 2
"""Of a share of friction that is proposed: error bars of recordings are larger."""


@dataclass(frozen=True)
class DegreesThresholds:
    """When positions are in degrees, or were radians before they were converted.

    farthest: position [rad] beyond which a joint is asked; hardly one turns so far, and hardly a robot whose joints all
    stay within as many degrees of zero. better: largest error of each joint's own fit in the other unit, over that in
    this one, to be certain of degrees. as_well: the same, from which on either unit may be right: a few seconds fit
    with both, and so does any motion that was made 57 times as small, while small motions do not fit when enlarged.
    """

    farthest: float = 2.0 * np.pi
    better: float = 0.5
    as_well: float = 1.1


DEGREES = DegreesThresholds()


@dataclass(frozen=True)
class ContradictionThresholds:
    """When a recording is of another robot or load than the others.

    error: its least relative torque error in the fit of all together; less may be friction that changed. over_alone:
    that error over the one of this recording alone, on stretches left out.
    """

    error: float = 0.1
    over_alone: float = 3.0


CONTRADICTIONS = ContradictionThresholds()


@dataclass(frozen=True)
class DiagnosisThresholds:
    """Those of each question that is asked of a recording."""

    efforts: EffortThresholds = EFFORTS
    mounting: MountingThresholds = MOUNTING
    degrees: DegreesThresholds = DEGREES
    gravity: GravityThresholds = GRAVITY
    friction: FrictionShareThresholds = FRICTION


DEFAULTS = DiagnosisThresholds()


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What is wrong, and what each joint's effort shows."""

    findings: tuple[Finding, ...]
    evidence: tuple[EffortEvidence, ...]


@small_matrices
def diagnose(problem: Problem, friction: str = AUTO, thresholds: DiagnosisThresholds = DEFAULTS) -> Diagnosis:
    """Return what is wrong with the recordings; what would hide the rest comes alone.

    Efforts are judged with plain friction and, where joints disagree then, with the law that the data support: friction
    of other laws is no wrong unit. friction: the law asked for, which does not change the outcome; that of auto need
    not be selected again.
    """
    plain = problem.plain()
    motion = sample_motion(plain.prepared)
    evidence = tuple(gather_effort_evidence(plain.robot, motion, thresholds.efforts))
    is_reversed = [joint.is_reversed(thresholds.efforts) for joint in evidence]
    share = _find_other_gravity(plain, evidence, thresholds)
    mounting = check_mounting(plain.robot, motion, is_reversed, thresholds.mounting)
    for alone in (
        _check_degrees(plain, motion, thresholds),
        _check_absent_gravity(plain.robot, share, thresholds.gravity),
        mounting if mounting is not None and mounting.certain else None,
    ):
        if alone is not None:
            return Diagnosis((alone,), evidence)
    findings = check_efforts(plain, evidence, thresholds.efforts)
    if findings:
        law = problem if friction == AUTO and problem.terms else _with_law_of_data(plain)
        findings = findings if not law.terms or check_efforts(law, evidence, thresholds.efforts) else ()
    if mounting is not None and not any(finding.certain for finding in findings):
        return Diagnosis((mounting,), evidence)  # a unit that is certain makes gravity look turned
    findings = findings or _tell_part_of_gravity(share)
    if not findings:
        friction_share = find_friction_share(plain, thresholds.friction)
        findings = _tell_part_of_friction(plain.robot, friction_share, thresholds.friction)
    return Diagnosis(findings, evidence)


def _with_law_of_data(plain: Problem) -> Problem:
    """Return the problem with the friction law that the data support."""
    law = choose_friction_law(plain.robot, plain.base, plain.prepared, plain.information, AUTO, Method.WLS)
    prior = law.information.layout.vector(plain.base.values(plain.robot, standard_vector(plain.robot)))
    return replace(plain, prepared=law.prepared, information=law.information, prior=prior, terms=law.terms)


def _find_other_gravity(
    problem: Problem, evidence: Sequence[EffortEvidence], thresholds: DiagnosisThresholds
) -> GravityShare | None:
    """Return a share of gravity that is not all of it; not looked for where an effort follows the a priori gravity."""
    following = [joint for joint in evidence if joint.follows_gravity(thresholds.efforts)]
    if any(is_within(joint.gravity_scale, 1.0 + thresholds.gravity.distance) for joint in following):
        return None
    by_masses = max(following, key=lambda joint: joint.gravity_r, default=EffortEvidence()).gravity_scale
    if not following:  # efforts without gravity follow none
        scale = estimate_prior_scale(problem.information, problem.base, problem.prior)
        by_masses = scale.value if max(abs(scale.value), scale.std) < thresholds.gravity.absent else np.nan
    return find_gravity_share(problem, thresholds.gravity, by_masses=by_masses)


def _check_absent_gravity(robot: Robot, share: GravityShare | None, thresholds: GravityThresholds) -> Finding | None:
    """Return the finding of efforts that hold no gravity, if they do not."""
    if share is None or abs(share.share) > max(share.std, thresholds.absent):
        return None
    errors = f"{100 * share.with_gravity:.1f} % with gravity, {100 * share.without:.1f} % without"
    what = f"the efforts do not hold gravity ({share}); torque error on stretches left out: {errors}"
    option = _sensor_option(robot, lambda one: replace(one, gravity=False))
    hint = Text("if the robot compensates it itself, say so: ", option)
    if all(robot.joints[j - 1].measured.drive == DRIVE for j in robot.active):
        at_link = _sensor_option(robot, lambda one: replace(one, drive=(), missing=0.0, current=False, gravity=False))
        hint = Text(hint, ", or with torque sensors at the links: ", at_link)
    return Finding("gravity", (), what, hint, False)


def _sensor_option(robot: Robot, change: Callable[[MeasuredEffort], MeasuredEffort]) -> Option:
    """Return the option that declares changed efforts of all joints."""
    numbered = zip(robot.active, robot.active_names, strict=True)
    sensors = {name: str(change(robot.joints[j - 1].measured)) for j, name in numbered}
    alike = len(set(sensors.values())) == 1
    return Option("sensor", next(iter(sensors.values())) if alike else sensors)


def _tell_part_of_friction(
    robot: Robot, share: FrictionShare | None, thresholds: FrictionShareThresholds
) -> tuple[Finding, ...]:
    """Return the finding of efforts that hold another share of friction than the description has."""
    if share is None:
        return ()
    absent = abs(share.share) <= max(share.std, thresholds.absent)
    if absent and share.needless:
        option = _sensor_option(robot, lambda one: replace(one, drive=("Ia",), missing=0.0))
        hint = Text("if the robot compensates it itself, say so: ", option)
        return (Finding("friction", (), f"the efforts hold no friction ({share})", hint, False),)
    what = f"the efforts hold another friction than described ({share})"
    if absent or not 0.0 < share.share < 1.0:
        return (Finding("friction", (), what, "check the drive gains, and the description", False),)
    option = _sensor_option(
        robot, lambda one: replace(one, missing=round(1.0 - share.share * (1.0 - one.missing), SHARE_DIGITS))
    )
    hint = Text("check drive gains and description; if the robot compensates the rest itself, say so: ", option)
    return (Finding("friction", (), what, hint, False),)


def _tell_part_of_gravity(share: GravityShare | None) -> tuple[Finding, ...]:
    """Return the finding of efforts that hold a part of gravity, which nothing else explains."""
    if share is None or not share.share > 0.0:
        return ()
    hint = "check the drive gains, and the payload that the robot compensates"
    return (Finding("gravity", (), f"the efforts hold a part of gravity ({share})", hint, False),)


def _check_degrees(problem: Problem, motion: SampledMotion, thresholds: DiagnosisThresholds) -> Finding | None:
    """Look for angles in degrees, and for radians that were taken for degrees: where joints turn too far, or hardly.

    Motion is tried in both units. Where either fits, that is a doubt; but where hardly any motion goes with efforts
    that no masses explain, it is certain.
    """
    robot, limits, degree = problem.robot, thresholds.degrees, np.pi / 180.0
    revolute = np.array([robot.joints[number - 1].sigma == REVOLUTE for number in robot.active])
    reach = np.max(np.abs(motion.q), axis=0, initial=0.0)
    far = revolute & (reach > limits.farthest)
    if not far.any() and not (revolute.any() and np.all(reach[revolute] < limits.farthest * degree)):
        return None
    in_other = _build_in_unit(problem, np.where(revolute, degree if far.any() else 1.0 / degree, 1.0))
    ratio = _own_error(in_other) / max(_own_error(problem.information), 1e-300)
    if ratio > limits.as_well:
        return None
    if far.any():
        names = tuple(name for name, yes in zip(robot.active_names, far, strict=True) if yes)
        said, option = f"positions of {', '.join(names)}", Option("angle_unit", "deg")
        if ratio <= limits.better:
            what = f"{said} are in degrees: with radians the efforts do not follow any motion"
            return Finding("position_unit", names, what, Text("set ", option))
        what = f"{said} reach {reach.max():.3g} rad, and the efforts follow as well if these are degrees"
        return Finding("position_unit", names, what, Text("if they are, set ", option), False)
    scale = estimate_prior_scale(problem.information, problem.base, problem.prior)
    usual = is_within(scale.value, thresholds.efforts.likely_mass_error)
    if np.isfinite(scale.std) and usual:
        return None
    certain = scale.is_wrong(thresholds.efforts) and scale.value > 1.0 and not usual
    what = "all positions are within 6.3 degrees of zero, and the efforts follow as well if these are radians"
    option = Option("angle_unit", "rad")
    return Finding("position_unit", (), what, Text("set " if certain else "if they are, set ", option), certain)


def _build_in_unit(problem: Problem, unit: Array) -> Information:
    """Return the information with each joint's positions times a unit, shape (n,)."""
    prepared = [
        replace(p, q=p.q * unit, dq=p.dq * unit, ddq=p.ddq * unit, top_speed=p.top_speed * unit)
        for p in problem.prepared
    ]
    return build_information(problem.robot, problem.base, prepared)


def _own_error(information: Information) -> float:
    """Return the relative error when each joint's rows are fitted alone."""
    rms = joint_torques(information) / np.sqrt(np.maximum(information.rows, 1))
    return float(np.linalg.norm(own_errors(information)) / max(float(np.linalg.norm(rms)), 1e-300))


def _error_alone(own: Information) -> float | None:
    """Return the relative torque error of one recording on stretches left out of a fit to it; None: too short to tell.

    The error of the fit itself would tell nothing: a few seconds are always fitted better alone.
    """
    folds = block_folds(own, FOLDS)
    errors, moving = 0.0, own.in_motion()
    for fold in folds:
        rest, _ = own.split(fold)
        if np.any(rest.rows <= 2) or rest.rows.sum() <= rest.size:
            return None
        errors += float(np.sum(joint_errors(moving.take(fold), solve_weighted(rest)[0].value) ** 2))
    return np.sqrt(errors) / float(np.linalg.norm(joint_torques(moving))) if folds else None


def refuse_certain(findings: Sequence[Finding], source: str) -> None:
    """Raise InputError with all that is certain, in one line."""
    certain = [finding for finding in findings if finding.certain]
    if certain:
        first, *more = dict.fromkeys(finding.hint for finding in certain)
        hint = Text(first, *(part for hint in more for part in (", and ", hint)))
        raise InputError("; ".join(finding.what for finding in certain), hint, source)


def refuse_contradictions(
    information: Information,
    value: Array,
    sources: Sequence[str],
    thresholds: ContradictionThresholds = CONTRADICTIONS,
) -> None:
    """Raise InputError if one of several recordings contradicts the others: another robot, or another load."""
    if len(information.recordings) < 2:
        return
    contradicting = []
    for k, own in information.recordings.items():
        if np.any(own.rows <= 2) or own.rows.sum() <= own.size:
            continue
        torque = np.linalg.norm(joint_torques(own))
        together = float(np.linalg.norm(joint_errors(own, value)) / torque)
        if together > thresholds.error:
            alone = _error_alone(own)
            if alone is not None and together > thresholds.over_alone * alone:
                contradicting.append((together / max(alone, 1e-300), together, alone, k))
    if contradicting:
        _, together, alone, k = max(contradicting)
        what = f"torque error {100 * together:.0f} % together with the other recordings, {100 * alone:.1f} % alone"
        raise InputError(what, "identify recordings of different robots or loads apart", sources[k])
