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
from ros2_dynid.identification.decisions.friction_law import with_law
from ros2_dynid.identification.friction import AUTO
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import Information, coarser
from ros2_dynid.identification.regression.least_squares import joint_torques, own_errors
from ros2_dynid.identification.validation.effort_scale import (
    CLEAR,
    STRONG,
    EffortEvidence,
    Factor,
    SampledMotion,
    against_prior,
    effort_evidence,
    relative_gains,
    sampled_motion,
    scaled,
)
from ros2_dynid.model.parameters import group_of, standard_names, standard_vector
from ros2_dynid.model.robot import REVOLUTE, Array, Robot

ANGLE = 25.0
"""Degrees from the described direction; mountings differ by more, and masses of the right sort give a few degrees."""
BETTER, EXPLAINED = 0.7, 0.6
"""The direction found leaves at most this share of the error of the described one, and of what there is to explain."""
CERTAIN = 0.35
"""Share left of what there is to explain below which a priori masses are good enough to be sure."""
AXIS = 10.0
"""Degrees within which a direction is taken for that of an axis."""


@dataclass(frozen=True)
class Mounting:
    """Gravity found, in the base link's frame (3,) [m/s^2]; error with it and with the described one, relative.

    angle: between the two [deg]; brakes: whether friction brakes the joints, as it does unless efforts are reversed.
    """

    gravity: tuple[float, float, float]
    error: float
    described: float
    angle: float
    brakes: bool

    @property
    def wrong(self) -> bool:
        """Whether the arm clearly is mounted another way than described."""
        better = self.error < BETTER * self.described and self.error < EXPLAINED
        return better and self.angle > ANGLE and (self.angle < 180.0 - ANGLE or self.brakes)

    @property
    def certain(self) -> bool:
        """Whether the a priori masses explain the torque so well that there is no doubt about it."""
        return self.wrong and self.error < CERTAIN


def mounting(robot: Robot, motion: SampledMotion) -> Mounting | None:
    """Return how the arm is mounted, or None if there are no a priori masses or the motion does not tell."""
    names, chi = standard_names(robot), standard_vector(robot)
    links = np.array([group_of(name) == "inertial" for name in names])
    chi = np.where(links, chi, 0.0)
    size = float(np.linalg.norm(robot.gravity))
    if not np.any(chi) or size == 0.0:
        return None
    q, dq, ddq, tau = motion.q, motion.dq, motion.ddq, motion.tau
    still = np.zeros_like(q)
    G = np.stack(
        [inverse_dynamics(replace(robot, gravity=axis), chi, q, still, still).ravel() for axis in np.eye(3)], axis=1
    )
    D = inverse_dynamics(replace(robot, gravity=np.zeros(3)), chi, q, dq, ddq).ravel()
    own = _own_columns(robot, dq, ddq)
    y, others = _beyond(tau.ravel(), own), _beyond(np.column_stack((G, D)), own)
    there = float(np.linalg.norm(y))
    if there == 0.0 or np.linalg.cond(others[:, :3] / np.linalg.norm(others[:, :3])) > 100.0:
        return None
    value, *_ = np.linalg.lstsq(others, y, rcond=None)
    g = value[:3]
    left = _left(np.column_stack((others[:, :3] @ robot.gravity, others[:, 3])), y)
    friction, *_ = np.linalg.lstsq(own, tau.ravel() - np.column_stack((G, D)) @ value, rcond=None)
    turned = float(np.degrees(np.arccos(np.clip(g @ robot.gravity / (np.linalg.norm(g) * size), -1.0, 1.0))))
    power = (own[:, : 2 * tau.shape[1]] @ friction[: 2 * tau.shape[1]]) @ dq.ravel()
    return Mounting(
        _rounded_gravity(g / np.linalg.norm(g), size),
        float(np.linalg.norm(y - others @ value) / there),
        float(np.linalg.norm(left) / there),
        turned,
        bool(power > 0.0 if abs(power) > 1e-3 * np.abs(tau.ravel() @ dq.ravel()) else value[3] > 0.0),
    )


def _left(described: Array, y: Array) -> Array:
    """Return what gravity as described, of any size but never negative, and motion leave of y."""
    value, *_ = np.linalg.lstsq(described, y, rcond=None)
    if value[0] < 0.0:
        described = described[:, 1:]
        value, *_ = np.linalg.lstsq(described, y, rcond=None)
    return np.asarray(y - described @ value)


def _own_columns(robot: Robot, dq: Array, ddq: Array) -> Array:
    """Return what each joint has by itself, shape (N n, 4 n): Coulomb and viscous friction, rotor, offset."""
    N, n = dq.shape
    top = np.maximum(np.max(np.abs(dq), axis=0), 1e-9)
    columns = (np.tanh(dq / (0.02 * top)), dq / top, ddq, np.ones_like(dq))
    out = np.zeros((N, n, 4 * n))
    for k, column in enumerate(columns):
        for j in range(n):
            out[:, j, k * n + j] = column[:, j]
    return out.reshape(N * n, 4 * n)


def _beyond(columns: Array, others: Array) -> Array:
    """Return what of the columns the others cannot explain."""
    scaled = others / np.maximum(np.linalg.norm(others, axis=0), 1e-300)
    rest: Array = columns - scaled @ np.linalg.lstsq(scaled, columns, rcond=1e-9)[0]
    return rest


def _rounded_gravity(direction: Array, size: float) -> tuple[float, float, float]:
    """Return the gravity vector, along an axis if it is close to one, with three digits otherwise."""
    k = int(np.argmax(np.abs(direction)))
    if abs(direction[k]) > np.cos(np.radians(AXIS)):
        direction = np.sign(direction[k]) * np.eye(3)[k]
    x, y, z = (float(round(size * part, 2)) + 0.0 for part in direction)
    return x, y, z


UNIT_FACTOR = 5.0
"""All masses together are seldom wrong by more; units are."""
CERTAIN_FACTOR = 30.0
"""Masses are hardly ever wrong by more; N.mm, gear ratios and raw currents mostly are."""
SAME = 3.0
"""Scales of single joints within this factor of the common one are the same within what masses are wrong by."""
DEGREES = np.pi / 180.0
BLOCKS = 120
"""Blocks of time, however many recordings there are: enough to tell a standard deviation to 6 %."""


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
    """What was found, and what each joint's effort shows."""

    findings: tuple[Finding, ...]
    evidence: tuple[EffortEvidence, ...]


@small_matrices
def diagnose(problem: Problem, *, friction: str = AUTO) -> Diagnosis:
    """Return what is wrong with the recordings; what would hide the rest comes alone.

    friction: the law asked for; unless that is auto, the one that the data support is looked for where joints disagree.
    """
    chosen, whole = problem, problem.plain()
    problem = replace(whole, information=coarser(whole.information, BLOCKS))
    robot, motion = problem.robot, sampled_motion(problem.prepared)
    evidence = tuple(effort_evidence(robot, motion))
    for found in (_degrees(problem, motion), _mounting(robot, motion, evidence)):
        if found is not None:
            return Diagnosis((found,), evidence)
    # friction of other laws is no wrong unit, whichever was asked for: with them the joints may agree
    if chosen.terms and _agrees(chosen, evidence, motion):
        return Diagnosis((), evidence)
    found_efforts = _efforts(problem, evidence, motion)
    if found_efforts and friction != AUTO:
        law = _law_of_data(whole)
        found_efforts = () if law is not None and _agrees(law, evidence, motion) else found_efforts
    return Diagnosis(found_efforts, evidence)


def _law_of_data(plain: Problem) -> Problem | None:
    """Return the problem with the friction law that the data support, None if that is plain friction."""
    law = with_law(plain.robot, plain.base, plain.prepared, plain.information, AUTO, Method.WLS)
    if not law.terms:
        return None
    prior = law.information.layout.vector(plain.base.values(plain.robot, standard_vector(plain.robot)))
    return replace(plain, prepared=law.prepared, information=law.information, prior=prior, terms=law.terms)


def _agrees(problem: Problem, evidence: Sequence[EffortEvidence], motion: SampledMotion) -> bool:
    """Return whether nothing is wrong with the efforts by this problem's law."""
    return not _efforts(replace(problem, information=coarser(problem.information, BLOCKS)), evidence, motion)


def refuse(findings: Sequence[Finding], source: str) -> None:
    """Raise InputError with all that is certain, in one line."""
    certain = [finding for finding in findings if finding.certain]
    if certain:
        hints = list(dict.fromkeys(finding.hint for finding in certain))
        parts: list[str] = []
        for hint in hints:
            parts += [", and ", hint] if parts else [hint]
        raise InputError("; ".join(finding.what for finding in certain), Text(*parts), source)


def _mounting(robot: Robot, motion: SampledMotion, evidence: Sequence[EffortEvidence]) -> Finding | None:
    found = mounting(robot, motion)
    if found is None or not found.wrong:
        return None
    signs = np.array([-1.0 if one.reversed else 1.0 for one in evidence])
    upright = mounting(robot, replace(motion, tau=motion.tau * signs))
    if upright is not None and upright.described < 1.1 * found.error:
        return None  # reversed efforts explain it as well
    what = (
        f"gravity points {found.angle:.0f} degrees away from where the robot's description has it: the a priori masses "
        f"leave {100 * found.described:.0f} % of the torque unexplained with that, {100 * found.error:.0f} % with "
        f"({', '.join(f'{x:g}' for x in found.gravity)}) m/s^2 in the base link's frame"
    )
    hint = Text("if the arm is mounted that way, set ", Option("gravity", found.gravity))
    return Finding("gravity", (), what, hint, found.certain)


def _degrees(problem: Problem, motion: SampledMotion) -> Finding | None:
    """Look for angles in degrees: where a joint turns too far, both are tried."""
    robot = problem.robot
    turns = np.array([robot.joints[number - 1].sigma == REVOLUTE for number in robot.active])
    far = np.max(np.abs(motion.q), axis=0, initial=0.0) > 2.0 * np.pi
    if not np.any(turns & far):
        return None
    size = np.where(turns, DEGREES, 1.0)
    prepared = [_in_radians(p, size) for p in problem.prepared]
    there = build_information(robot, problem.base, prepared)
    before, after = (_own_error(information) for information in (problem.information, there))
    if after > 0.5 * before:
        return None
    names = tuple(name for name, yes in zip(robot.active_names, turns & far, strict=True) if yes)
    what = f"positions of {', '.join(names)} are in degrees: with radians the efforts do not follow any motion"
    return Finding("position_unit", names, what, Text("set ", Option("angle_unit", "deg")))


def _in_radians(prepared: Prepared, size: Array) -> Prepared:
    motion = (prepared.q, prepared.dq, prepared.ddq)
    q, dq, ddq = (x * size for x in motion)
    return replace(prepared, q=q, dq=dq, ddq=ddq, top_speed=prepared.top_speed * size)


def _own_error(information: Information) -> float:
    """Return the relative error when each joint's rows are fitted alone."""
    rms = joint_torques(information) / np.sqrt(np.maximum(information.rows, 1))
    return float(np.linalg.norm(own_errors(information)) / max(float(np.linalg.norm(rms)), 1e-300))


def _efforts(problem: Problem, evidence: Sequence[EffortEvidence], motion: SampledMotion) -> tuple[Finding, ...]:
    robot, information = problem.robot, problem.information
    names = robot.active_names
    first = against_prior(information, problem.base, problem.prior)
    common = _common_scale(first, evidence)
    start = np.array([_first_gain(found, common) for found in evidence])
    gains, agree = relative_gains(robot, problem.base, information, start)
    again = first
    if not np.all(gains == 1.0):
        again = against_prior(scaled(information, gains), problem.base, problem.prior)
    signs_known = any(found.friction_r > CLEAR or found.inertia > 0 or found.reversed for found in evidence)
    if again.wrong and again.value < 0 and not signs_known:
        gains = -gains
        again = Factor(-again.value, again.std, again.freedom)
    certain_unit = True
    if again.wrong and np.isfinite(again.std) and not 1 / UNIT_FACTOR < again.value < UNIT_FACTOR and again.value > 0:
        certain_unit = not 1 / CERTAIN_FACTOR < again.value < CERTAIN_FACTOR
        gains = gains / again.value
    return _findings(names, gains, agree, certain_unit)


def _common_scale(scale: Factor, evidence: Sequence[EffortEvidence]) -> float:
    """Return the scale of all efforts against the a priori masses if it is far from 1 and the joints agree on it."""
    if not scale.wrong or not np.isfinite(scale.std) or 1 / UNIT_FACTOR < abs(scale.value) < UNIT_FACTOR:
        return 1.0
    clear = [abs(found.gravity_scale) for found in evidence if abs(found.gravity_r) > STRONG]
    same = all(1 / SAME < one / abs(scale.value) < SAME for one in clear)
    return abs(scale.value) if same else 1.0


def _first_gain(found: EffortEvidence, common: float) -> float:
    """Return the gain that a joint's own evidence asks for."""
    size = common if common != 1.0 or not found.wrong_unit else abs(found.gravity_scale)
    return (-1.0 if found.reversed else 1.0) / size


def _findings(names: Sequence[str], gains: Array, agree: bool, certain_unit: bool) -> tuple[Finding, ...]:
    """Return signs and units in words, with one option for all joints."""
    turned = tuple(name for name, gain in zip(names, gains, strict=True) if gain < 0)
    sized = {name: abs(1.0 / gain) for name, gain in zip(names, gains, strict=True) if not 0.7 < abs(gain) < 1.4}
    option = Option(
        "gains", {n: _rounded_gain(g) for n, g in zip(names, gains, strict=True) if n in sized or n in turned}
    )
    if len(sized) == len(names) and not turned and all(1000 / SAME < size < 1000 * SAME for size in sized.values()):
        option = Option("effort_unit", "mN.m")
    hint = Text("set ", option)
    if not agree:
        hint = Text("check sign and unit of every joint's effort; as far as it can be told: ", option)
    found = []
    if turned:
        all_joints = "all efforts have" if len(turned) == len(names) else f"the effort of {', '.join(turned)} has"
        found.append(Finding("effort_sign", turned, f"{all_joints} the wrong sign", hint))
    if sized:
        values = ", ".join(f"{name} {size:.3g}" for name, size in sized.items())
        what = (
            f"efforts are not in N.m (N) of the joint, but this many times as large: {values}: another unit, motor "
            "currents, or torques before the gear"
        )
        found.append(Finding("effort_unit", tuple(sized), what, hint, certain_unit))
    return tuple(found)


def _rounded_gain(gain: float) -> float:
    """Return a gain with three digits; one of about 1 is a sign."""
    return float(np.sign(gain)) if 0.7 < abs(gain) < 1.4 else float(f"{gain:.3g}")
