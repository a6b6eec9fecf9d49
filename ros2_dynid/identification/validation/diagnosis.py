# SPDX-License-Identifier: Apache-2.0

"""What is wrong with a recording as a recording of this robot: mounting, angles in degrees, sign and unit of efforts.

`check` and `identify` both ask here, so they say the same. All joints are named at once, with the whole option that
puts them right. What rests on a priori masses alone is certain only where they explain the torque well; the rest needs
the geometry only.

Which way gravity points, for an arm on a wall whose description does not know it: with a priori parameters chi the
gravity torque is linear in the gravity vector g: tau = sum_k g_k G_k(q) + s D(q, dq, ddq) + friction, with G_k the
torque of a unit gravity along axis k and D that of the motion alone. g and s come out of one linear least-squares
problem beside friction, offset and rotor of each joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.blas import small_matrices
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.decisions.friction_law import choose_friction_law
from ros2_dynid.identification.friction_columns import AUTO
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import Information, coarser
from ros2_dynid.identification.regression.least_squares import joint_torques, own_errors
from ros2_dynid.identification.validation.effort_scale import (
    EFFORTS,
    EffortEvidence,
    EffortThresholds,
    Factor,
    SampledMotion,
    are_gains_supported,
    build_friction_columns,
    estimate_prior_scale,
    fit_relative_gains,
    gather_effort_evidence,
    is_within,
    project_out,
    sample_motion,
    scale_efforts,
)
from ros2_dynid.identification.validation.gravity_share import (
    GRAVITY,
    GravityShare,
    GravityThresholds,
    find_other_share,
)
from ros2_dynid.model.parameters import group_of, standard_names, standard_vector
from ros2_dynid.model.robot import REVOLUTE, Array, Robot

MILLI = 1000.0
"""Efforts in mN.m or N.mm over those in N.m."""


@dataclass(frozen=True)
class MountingThresholds:
    """When the arm is mounted another way than described.

    angle: least angle between the directions of gravity [deg]; mountings differ by more, and masses of the right sort
    give a few degrees. better: largest error with the direction that fits, over that with the described one. explained:
    largest share that it leaves of what there is to explain. certain: the same below which a priori masses are good
    enough to be sure. axis: angle [deg] within which a direction is taken for that of an axis. condition: of the three
    gravity columns, above which the motion does not tell the direction. reversed_efforts: error with the described
    direction and efforts turned round, over that with the other direction, up to which that explains it as well.
    """

    angle: float = 25.0
    better: float = 0.7
    explained: float = 0.6
    certain: float = 0.35
    axis: float = 10.0
    condition: float = 100.0
    reversed_efforts: float = 1.1


@dataclass(frozen=True)
class DegreesThresholds:
    """When positions are in degrees.

    farthest: position [rad] beyond which a joint may be; no joint turns so far by itself. better: largest error of each
    joint's own fit in degrees, over that in radians.
    """

    farthest: float = 2.0 * np.pi
    better: float = 0.5


MOUNTING, DEGREES = MountingThresholds(), DegreesThresholds()


@dataclass(frozen=True)
class DiagnosisThresholds:
    """Those of each question that is asked of a recording."""

    efforts: EffortThresholds = EFFORTS
    mounting: MountingThresholds = MOUNTING
    degrees: DegreesThresholds = DEGREES
    gravity: GravityThresholds = GRAVITY


DEFAULTS = DiagnosisThresholds()


@dataclass(frozen=True)
class Mounting:
    """Gravity that fits, in the base link's frame (3,) [m/s^2]; error with it and with the described one, relative.

    angle: between the two [deg]; brakes: whether friction brakes the joints, as it does unless efforts are reversed.
    """

    gravity: tuple[float, float, float]
    error: float
    described: float
    angle: float
    brakes: bool

    def is_wrong(self, thresholds: MountingThresholds = MOUNTING) -> bool:
        """Return whether the arm clearly is mounted another way than described."""
        better = self.error < thresholds.better * self.described and self.error < thresholds.explained
        return better and self.angle > thresholds.angle and (self.angle < 180.0 - thresholds.angle or self.brakes)

    def is_certain(self, thresholds: MountingThresholds = MOUNTING) -> bool:
        """Return whether the a priori masses explain the torque so well that there is no doubt about it."""
        return self.is_wrong(thresholds) and self.error < thresholds.certain


def estimate_mounting(
    robot: Robot, motion: SampledMotion, thresholds: MountingThresholds = MOUNTING
) -> Mounting | None:
    """Return how the arm is mounted, or None if there are no a priori masses or the motion does not tell."""
    links = np.array([group_of(name) == "inertial" for name in standard_names(robot)])
    chi = np.where(links, standard_vector(robot), 0.0)
    size = float(np.linalg.norm(robot.gravity))
    if not np.any(chi) or size == 0.0:
        return None
    q, dq, ddq, tau = motion.q, motion.dq, motion.ddq, motion.tau.ravel()
    still = np.zeros_like(q)
    G = [inverse_dynamics(replace(robot, gravity=axis), chi, q, still, still).ravel() for axis in np.eye(3)]
    D = inverse_dynamics(replace(robot, gravity=np.zeros(3)), chi, q, dq, ddq).ravel()
    drives, shared = _drive_columns(dq, ddq), np.column_stack((*G, D))
    y, columns = project_out(tau, drives), project_out(shared, drives)
    torque = float(np.linalg.norm(y))
    gravity_columns, motion_column = columns[:, :3], columns[:, 3:]
    if torque == 0.0 or np.linalg.cond(gravity_columns / np.linalg.norm(gravity_columns)) > thresholds.condition:
        return None
    value, *_ = np.linalg.lstsq(columns, y, rcond=None)
    direction = value[:3] / np.linalg.norm(value[:3])
    described = np.column_stack((gravity_columns @ robot.gravity, motion_column))
    if np.linalg.lstsq(described, y, rcond=None)[0][0] < 0.0:  # gravity may have any size, but does not pull upwards
        described = motion_column
    drive_values, *_ = np.linalg.lstsq(drives, tau - shared @ value, rcond=None)
    friction = slice(0, 2 * q.shape[1])
    power = float((drives[:, friction] @ drive_values[friction]) @ dq.ravel())
    rubs = abs(power) > 1e-3 * np.abs(tau @ dq.ravel())
    return Mounting(
        _round_gravity(direction, size, thresholds.axis),
        float(np.linalg.norm(y - columns @ value) / torque),
        float(np.linalg.norm(project_out(y, described)) / torque),
        float(np.degrees(np.arccos(np.clip(direction @ robot.gravity / size, -1.0, 1.0)))),
        bool(power > 0.0 if rubs else value[3] > 0.0),
    )


def _drive_columns(dq: Array, ddq: Array) -> Array:
    """Return what each joint has by itself, shape (N n, 4 n): Coulomb and viscous friction, rotor, offset."""
    N, n = dq.shape
    columns = np.stack((*build_friction_columns(dq), ddq, np.ones_like(dq)))
    return np.asarray(np.einsum("ktj,ij->tikj", columns, np.eye(n)).reshape(N * n, 4 * n))


def _round_gravity(direction: Array, size: float, axis: float) -> tuple[float, float, float]:
    """Return the gravity vector, along an axis if it is as close to one [deg], with two decimals otherwise."""
    k = int(np.argmax(np.abs(direction)))
    if abs(direction[k]) > np.cos(np.radians(axis)):
        direction = np.sign(direction[k]) * np.eye(3)[k]
    x, y, z = (float(round(size * part, 2)) + 0.0 for part in direction)
    return x, y, z


@dataclass(frozen=True)
class Finding:
    """Something wrong: kind (a word to match on), joints it is about (none: all), what, hint, whether it is certain.

    A model identified from such data is wrong: `identify` refuses what is certain and remarks on the rest.
    """

    kind: str
    joints: tuple[str, ...]
    what: str
    hint: str
    certain: bool = True


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
    share = _find_gravity_share(plain, evidence, thresholds)
    for alone in (
        _check_degrees(plain, motion, thresholds.degrees),
        _check_absent_gravity(share, thresholds.gravity),
        _check_mounting(plain.robot, motion, evidence, thresholds),
    ):
        if alone is not None:
            return Diagnosis((alone,), evidence)
    findings = _check_efforts(plain, evidence, thresholds.efforts)
    if findings:
        law = problem if friction == AUTO and problem.terms else _with_law_of_data(plain)
        findings = findings if not law.terms or _check_efforts(law, evidence, thresholds.efforts) else ()
    return Diagnosis(findings or _tell_part_of_gravity(share), evidence)


def _with_law_of_data(plain: Problem) -> Problem:
    """Return the problem with the friction law that the data support."""
    law = choose_friction_law(plain.robot, plain.base, plain.prepared, plain.information, AUTO, Method.WLS)
    prior = law.information.layout.vector(plain.base.values(plain.robot, standard_vector(plain.robot)))
    return replace(plain, prepared=law.prepared, information=law.information, prior=prior, terms=law.terms)


def refuse_certain(findings: Sequence[Finding], source: str) -> None:
    """Raise InputError with all that is certain, in one line."""
    certain = [finding for finding in findings if finding.certain]
    if certain:
        first, *more = dict.fromkeys(finding.hint for finding in certain)
        hint = Text(first, *(part for hint in more for part in (", and ", hint)))
        raise InputError("; ".join(finding.what for finding in certain), hint, source)


def _check_mounting(
    robot: Robot, motion: SampledMotion, evidence: Sequence[EffortEvidence], thresholds: DiagnosisThresholds
) -> Finding | None:
    limits = thresholds.mounting
    mounting = estimate_mounting(robot, motion, limits)
    if mounting is None or not mounting.is_wrong(limits):
        return None
    signs = np.array([-1.0 if joint.is_reversed(thresholds.efforts) else 1.0 for joint in evidence])
    turned_round = estimate_mounting(robot, replace(motion, tau=motion.tau * signs), limits)
    if turned_round is not None and turned_round.described < limits.reversed_efforts * mounting.error:
        return None
    what = (
        f"gravity points {mounting.angle:.0f} degrees away from where the robot's description has it: the a priori "
        f"masses leave {100 * mounting.described:.0f} % of the torque unexplained with that, "
        f"{100 * mounting.error:.0f} % with "
        f"({', '.join(f'{x:g}' for x in mounting.gravity)}) m/s^2 in the base link's frame"
    )
    hint = Text("if the arm is mounted that way, set ", Option("gravity", mounting.gravity))
    return Finding("gravity", (), what, hint, mounting.is_certain(limits))


def _find_gravity_share(
    problem: Problem, evidence: Sequence[EffortEvidence], thresholds: DiagnosisThresholds
) -> GravityShare | None:
    """Return a share of gravity that is not all of it; not looked for where an effort follows the a priori gravity."""
    near = 1.0 + thresholds.gravity.distance
    if any(joint.follows_gravity(thresholds.efforts) and is_within(joint.gravity_scale, near) for joint in evidence):
        return None
    return find_other_share(problem, thresholds.gravity)


def _check_absent_gravity(share: GravityShare | None, thresholds: GravityThresholds) -> Finding | None:
    """Return the finding of efforts that hold no gravity, if they do not."""
    if share is None or abs(share.share) > max(share.std, thresholds.absent):
        return None
    errors = f"{100 * share.with_gravity:.1f} % with gravity, {100 * share.without:.1f} % without"
    what = f"the efforts do not hold gravity ({share}); torque error on stretches left out: {errors}"
    return Finding("gravity", (), what, Text("identify without it: ", Option("gravity", (0.0, 0.0, 0.0))), False)


def _tell_part_of_gravity(share: GravityShare | None) -> tuple[Finding, ...]:
    """Return the finding of efforts that hold a part of gravity, which nothing else explains."""
    if share is None or not share.share > 0.0:
        return ()
    hint = "check the drive gains, and the payload that the robot compensates"
    return (Finding("gravity", (), f"the efforts hold a part of gravity ({share})", hint, False),)


def _check_degrees(problem: Problem, motion: SampledMotion, thresholds: DegreesThresholds) -> Finding | None:
    """Look for angles in degrees: where a joint turns too far, both are tried."""
    robot = problem.robot
    revolute = np.array([robot.joints[number - 1].sigma == REVOLUTE for number in robot.active])
    far = revolute & (np.max(np.abs(motion.q), axis=0, initial=0.0) > thresholds.farthest)
    if not np.any(far):
        return None
    unit = np.where(revolute, np.pi / 180.0, 1.0)
    in_radians = [
        replace(p, q=p.q * unit, dq=p.dq * unit, ddq=p.ddq * unit, top_speed=p.top_speed * unit)
        for p in problem.prepared
    ]
    as_told, as_degrees = (
        _own_error(information)
        for information in (problem.information, build_information(robot, problem.base, in_radians))
    )
    if as_degrees > thresholds.better * as_told:
        return None
    names = tuple(name for name, yes in zip(robot.active_names, far, strict=True) if yes)
    what = f"positions of {', '.join(names)} are in degrees: with radians the efforts do not follow any motion"
    return Finding("position_unit", names, what, Text("set ", Option("angle_unit", "deg")))


def _own_error(information: Information) -> float:
    """Return the relative error when each joint's rows are fitted alone."""
    rms = joint_torques(information) / np.sqrt(np.maximum(information.rows, 1))
    return float(np.linalg.norm(own_errors(information)) / max(float(np.linalg.norm(rms)), 1e-300))


def _check_efforts(
    problem: Problem, evidence: Sequence[EffortEvidence], thresholds: EffortThresholds
) -> tuple[Finding, ...]:
    """Return signs and units that are wrong, by the joints' own rows, by each other, and by the a priori masses.

    A sign is certain if stretches left out are predicted at least as well with it put right. So is a unit by which the
    joints contradict each other, which needs no masses; and one that no masses explain.
    """
    information = coarser(problem.information, thresholds.blocks)
    scale = estimate_prior_scale(information, problem.base, problem.prior)
    common = _common_scale(scale, evidence, thresholds)
    start = np.array([_first_gain(joint, common, thresholds) for joint in evidence])
    gains, agree = fit_relative_gains(problem.robot, problem.base, information, start, thresholds)
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
    supported = are_gains_supported(information, problem.robot.active_names, gains, thresholds)
    certain_unit = impossible or (contradict and supported)
    return _tell_gains(problem.robot.active_names, gains, agree, (supported, certain_unit), thresholds)


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


def _first_gain(joint: EffortEvidence, common: float, thresholds: EffortThresholds) -> float:
    """Return the gain that a joint's own evidence asks for."""
    scale = abs(joint.gravity_scale) if common == 1.0 and joint.has_other_unit(thresholds) else common
    return (-1.0 if joint.is_reversed(thresholds) else 1.0) / scale


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
