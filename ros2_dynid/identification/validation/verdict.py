# SPDX-License-Identifier: Apache-2.0

"""The verdict in words: what is well identified, what is not, and what to do about it.

It is a function of the evidence alone, and judges by held-out errors where there are any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codec import NamedChoice
from ros2_dynid.errors import Option, Text
from ros2_dynid.identification.model_file import BASE, CONSISTENT, ESSENTIAL, SetErrors
from ros2_dynid.identification.regression.error_bars import SIGNIFICANCE
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import joint_torques, own_errors
from ros2_dynid.identification.regression.prior import PriorFit
from ros2_dynid.identification.validation.cross_validation import HeldOut, LeftOut, ValidatedBy
from ros2_dynid.identification.validation.resonance import Resonance
from ros2_dynid.identification.validation.sensor_side import SensorSide, find_link_sensors
from ros2_dynid.identification.validation.torque_errors import AS_WELL, Errors, Whiteness
from ros2_dynid.model.efforts import sensor_name
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import group_of, split_name, unit_of
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class VerdictThresholds:
    """When a model, a joint or a parameter is good, and when it deserves a remark.

    Errors are relative torque errors, held out where there are such data. good_error, large_error: up to which a model
    is good, and from which it is a problem, or a joint worth a remark; rigid-body models of real arms reach 2 to 10 %.
    unknown_error: from which a joint's torque is not known; predicting nothing has an error of 1. carries: share of the
    largest joint's torque from which a joint that is not known is a problem for the robot. noise_multiple: held-out
    error over the joint's own noise below which it is noise; noise against noise is sqrt(2). overfit, badly_overfit:
    held-out over fitted error from which a model does not generalise, if the error is not small anyway. as_well:
    held-out error over that of another parameter set up to which one predicts as well.

    Parameters by relative standard deviation. well_known, fairly_known: counted in the verdict, as in the papers.
    poorly_known: from which friction or a rotor is named, if the torque of that uncertainty exceeds the joint's error.
    significance: standard deviations that are no chance. mostly_prior: share of a parameter that comes from the prior,
    from which it is named. condition: of W, above which an optimised trajectory would do better; those reach some tens.
    coverage: share of held-out rows inside the 95 % band below which the error bars do not hold.
    other_motion: expected error on motion of another kind over the held-out one from which it is told, as overfit is.
    colour_chance, colour_correlation: chance below which, and correlation above which, errors are not random in time.
    short: recordings of less [s] could be longer. listed: names in a remark, at most.
    """

    good_error: float = 0.10
    large_error: float = 0.15
    unknown_error: float = 0.5
    carries: float = 0.1
    noise_multiple: float = 2.0
    overfit: float = 2.0
    badly_overfit: float = 3.0
    as_well: float = AS_WELL
    well_known: float = 0.05
    fairly_known: float = 0.10
    poorly_known: float = 0.3
    significance: float = SIGNIFICANCE
    mostly_prior: float = 0.5
    condition: float = 300.0
    coverage: float = 0.9
    other_motion: float = 2.0
    colour_chance: float = 0.01
    colour_correlation: float = 0.2
    short: float = 60.0
    listed: int = 8


DEFAULTS = VerdictThresholds()


@dataclass(frozen=True)
class JointEvidence:
    """A joint: rms of its torque and of its noise [N.m or N], relative errors in the fit and on held-out data.

    noise: what is left when its own rows alone are fitted, so neither more data nor better parameters remove it;
    coloured: its errors are not random in time; unit: of its torque.
    """

    name: str
    torque: float
    noise: float
    fit: float
    held_out: float | None = None
    coloured: bool = False
    unit: str = "N.m"

    @property
    def error(self) -> float:
        """Relative error that counts: on held-out data where there are any."""
        return self.fit if self.held_out is None else self.held_out


@dataclass(frozen=True)
class ParameterEvidence:
    """A base parameter: value, std (None: not excited; 0: not essential, dropped), the joint and kind of its leader.

    effect: rms torque at that joint for a unit of it; noise: rms error of that joint [N.m or N]; shared: the friction
    law of its joint has further terms, so that its value alone says nothing.
    """

    name: str
    joint: str
    kind: str
    group: str
    value: float
    std: float | None
    effect: float
    noise: float
    shared: bool = False

    @property
    def dropped(self) -> bool:
        """Whether it is not essential."""
        return self.std == 0.0

    @property
    def relative_std(self) -> float:
        """Standard deviation over value; infinite if it is not known or was dropped."""
        return np.inf if self.std is None or self.dropped else self.std / max(abs(self.value), 1e-300)

    @property
    def uncertainty_matters(self) -> bool:
        """Whether its uncertainty makes a larger torque than the joint's error, which no better value would remove."""
        return self.std is not None and self.std * self.effect > self.noise


@dataclass(frozen=True)
class Evidence:
    """All of it: joints, parameters, relative torque errors of all joints together, and the rest of the fit.

    fit, held_out, prior_error: of the data used, of held-out data (None: there are none), of the a priori model;
    tested: what the held-out data are, in words, or why there are none; same_motion: they repeat the motion fitted to;
    delay of the effort with std [s]; seconds: length of the recordings. other_motion: share of the torque that is not
    known where positions, speeds and accelerations are combined otherwise (`other_motions`).
    """

    joints: tuple[JointEvidence, ...]
    parameters: tuple[ParameterEvidence, ...]
    fit: float
    held_out: float | None = None
    tested: str = ""
    prior_error: float | None = None
    cond: float = 1.0
    delay: float = 0.0
    delay_std: float = np.inf
    seconds: float = np.inf
    same_motion: bool = False
    other_motion: float = 0.0


def gather_evidence(
    robot: Robot,
    base: BaseParameters,
    information: Information,
    estimate: Estimate,
    fit: Errors,
    held_out: HeldOut,
    *,
    prior_error: float | None = None,
    whiteness: Mapping[str, Whiteness] | None = None,
    seconds: float = np.inf,
    terms: Sequence[FrictionTerm] = (),
    other_motion: float = 0.0,
    thresholds: VerdictThresholds = DEFAULTS,
) -> Evidence:
    """Return the evidence of an estimate from the information it was fitted to; terms: of its friction law."""
    moving = information.in_motion()
    names, noise = robot.active_names, own_errors(moving)
    torque = joint_torques(moving) / np.sqrt(np.maximum(moving.rows, 1))
    tested = held_out.errors
    coloured = {
        name
        for name, white in (whiteness or {}).items()
        if white.probability < thresholds.colour_chance and abs(white.correlation) > thresholds.colour_correlation
    }
    joints = tuple(
        JointEvidence(
            name,
            float(torque[j]),
            float(noise[j]),
            fit[name].relative,
            tested[name].relative if tested else None,
            name in coloured,
            unit_of(robot, f"off{number}"),
        )
        for j, (number, name) in enumerate(zip(robot.active, names, strict=True))
    )
    return Evidence(
        joints,
        _gather_parameters(robot, base, information, estimate, {term.joint for term in terms}),
        fit["all"].relative,
        tested["all"].relative if tested else None,
        describe_validation(held_out),
        prior_error,
        estimate.cond,
        estimate.delay,
        estimate.delay_std,
        seconds,
        held_out.left_out is LeftOut.SAME_MOTION,
        other_motion,
    )


def describe_validation(held_out: HeldOut) -> str:
    """Return what the held-out data are, or why there are none, in words."""
    if held_out.switched_off:
        return "validation was switched off"
    if held_out.by is ValidatedBy.NOTHING:
        return "there are too few data to hold some out"
    if not held_out.folds:
        return "held-out recordings"
    if held_out.left_out is LeftOut.PARTS_OF_PERIOD:
        return f"{held_out.folds} parts of the motion, which repeats itself, left out in turn"
    return f"{held_out.folds} stretches left out in turn"


def _gather_parameters(
    robot: Robot, base: BaseParameters, information: Information, estimate: Estimate, with_terms: Set[int]
) -> tuple[ParameterEvidence, ...]:
    joint_of = {number: j for j, number in enumerate(robot.active)}
    sigma = estimate.sigma if estimate.sigma.shape == (information.n,) else own_errors(information)
    out = []
    for k, (name, leader) in enumerate(zip(base.names, base.leaders, strict=True)):
        kind, number = split_name(leader)
        if group_of(leader) == "force":
            element = robot.forces[number - 1]
            number = max(element.joints)  # the joint that feels it: of a cylinder, that of the outer pivot
        j = joint_of.get(number)
        effect = 0.0 if j is None else _torque_of_unit(information, j, k)
        std = float(estimate.base_std[k]) if estimate.base_identified[k] else None
        noise = 0.0 if j is None else float(sigma[j])
        joint, group, value = robot.joints[number - 1].name, group_of(leader), float(estimate.base[k])
        shared = group == "friction" and number in with_terms
        out.append(ParameterEvidence(name, joint, kind, group, value, std, effect, noise, shared))
    return tuple(out)


def _torque_of_unit(information: Information, j: int, k: int) -> float:
    """Return the rms of column k of W over the rows of joint j."""
    at = np.flatnonzero(information.columns[j] == k)
    column: Array = information.triangle(j)[:, at]
    return float(np.linalg.norm(column) / np.sqrt(max(int(information.rows[j]), 1)))


class Level(NamedChoice):
    """How a remark is meant."""

    GOOD = "good"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Remark:
    """One remark: its level and a sentence."""

    level: Level
    text: str


def give_verdict(evidence: Evidence, thresholds: VerdictThresholds = DEFAULTS) -> list[Remark]:
    """Return the remarks, problems first."""
    joints = _remark_on_joints(evidence, thresholds)
    remarks = [
        *_remark_on_model(evidence, joints, thresholds),
        *joints,
        *_remark_on_other_motion(evidence, thresholds),
        *_remark_on_coloured_errors(evidence.joints, thresholds),
        *_remark_on_known_parameters(evidence.parameters, thresholds),
        *_remark_on_poorly_known(evidence, thresholds),
        *_remark_on_negative(evidence.parameters, thresholds),
    ]
    if evidence.cond > thresholds.condition:
        text = f"the condition number is {evidence.cond:.0f}: an optimised exciting trajectory will do better"
        remarks.append(Remark(Level.WARNING, text))
    if abs(evidence.delay) > thresholds.significance * evidence.delay_std:
        late = "late" if evidence.delay > 0 else "early"
        size = f"{abs(1e3 * evidence.delay):.2f} +- {1e3 * evidence.delay_std:.2f} ms"
        remarks.append(Remark(Level.NOTE, f"the effort was recorded {size} {late} against the positions: corrected"))
    return sort_remarks(remarks)


def sort_remarks(remarks: Sequence[Remark]) -> list[Remark]:
    """Return the remarks as they are read: problems, warnings, what is good, notes."""
    order = (Level.PROBLEM, Level.WARNING, Level.GOOD, Level.NOTE)
    return sorted(remarks, key=lambda remark: order.index(remark.level))


def _remark_on_model(evidence: Evidence, joints: Sequence[Remark], thresholds: VerdictThresholds) -> list[Remark]:
    """Judge all joints together; never good while a joint that carries torque is not known."""
    fit, tested = evidence.fit, evidence.held_out
    error = fit if tested is None else tested
    level = Level.PROBLEM
    if error < thresholds.large_error:
        level = Level.GOOD if error < thresholds.good_error else Level.WARNING
    if level is Level.GOOD and (tested is None or any(remark.level is Level.PROBLEM for remark in joints)):
        level = Level.WARNING
    text = f"the torque error is {100 * fit:.1f} % on the data used"
    text += (
        f"; not validated: {evidence.tested}" if tested is None else f" and {100 * tested:.1f} % on {evidence.tested}"
    )
    if evidence.prior_error is not None:
        text += f"; the a priori model has {100 * evidence.prior_error:.0f} %"
    remarks = [Remark(level, text)]
    if evidence.same_motion:
        text = "the motion repeats itself, so these stretches hold nothing that was not fitted to"
        remarks.append(Remark(Level.WARNING, f"{text}: test on a recording of another motion"))
    if tested is not None and tested > max(thresholds.overfit * fit, thresholds.good_error):
        text = "the model does not hold beyond the motion that it was fitted to: record longer, and more varied motion"
        remarks.append(Remark(Level.PROBLEM if tested > thresholds.badly_overfit * fit else Level.WARNING, text))
    return remarks


def _remark_on_other_motion(evidence: Evidence, thresholds: VerdictThresholds) -> list[Remark]:
    """Say where motion of another kind asks for what the recorded one leaves open; held-out stretches do not tell."""
    error = evidence.fit if evidence.held_out is None else evidence.held_out
    expected = float(np.hypot(error, evidence.other_motion))
    if expected <= thresholds.other_motion * error:
        return []
    text = (
        f"motion of another kind may have an error of {_format_size(100 * expected)} % or more: the recorded one "
        "leaves combinations of position, speed and acceleration open; record more varied motion (dynid excite)"
    )
    return [Remark(Level.WARNING, text)]


def _remark_on_joints(evidence: Evidence, thresholds: VerdictThresholds) -> list[Remark]:
    """Remark on every joint whose torque is predicted badly, with what would help; the largest error first."""
    largest = max((joint.torque for joint in evidence.joints), default=0.0)
    remarks = []
    for joint in sorted(evidence.joints, key=lambda joint: -joint.error):
        if joint.error <= thresholds.large_error:
            continue
        unknown = joint.error > thresholds.unknown_error
        carries = joint.torque > thresholds.carries * largest
        level = Level.PROBLEM if unknown and carries else Level.WARNING
        where = "" if joint.held_out is None else " on held-out data"
        name = f"{joint.name} is not known" if unknown else joint.name
        torque = f"{100 * joint.error:.0f} % of its torque ({_format_size(joint.torque)} {joint.unit} rms)"
        remarks.append(Remark(level, f"{name}: {torque} is not predicted{where}; {_suggest_cure(joint, thresholds)}"))
    return remarks


def _suggest_cure(joint: JointEvidence, thresholds: VerdictThresholds) -> str:
    """Return why a joint is predicted badly, and what would help."""
    if joint.error * joint.torque > thresholds.noise_multiple * joint.noise:
        if joint.held_out is None or joint.held_out <= thresholds.overfit * joint.fit:
            alone = f"its rows alone fit to {_format_size(100 * joint.noise / joint.torque)} %"
            return f"{alone}: what it shares with other joints is not right: a coupling, a spring, a gain that is off"
        return f"in the fit it is {100 * joint.fit:.0f} %: record longer, and more varied motion of all joints"
    if joint.coloured:
        return (
            "any model of this kind leaves as much, and not at random: check its effort sensor, its coupling to other "
            "joints, and friction beyond Fv and Fc"
        )
    noise = f"its noise is {_format_size(joint.noise)} {joint.unit} rms"
    return f"{noise}: only larger torques (faster motion, a load) or a better sensor help"


def _remark_on_coloured_errors(joints: Sequence[JointEvidence], thresholds: VerdictThresholds) -> list[Remark]:
    names = [joint.name for joint in joints if joint.coloured]
    if not names:
        return []
    text = f"errors of {_list_names(names, thresholds)} are not random in time: the model lacks something there"
    return [Remark(Level.NOTE, f"{text} (the error bars allow for it)")]


def _remark_on_known_parameters(parameters: Sequence[ParameterEvidence], thresholds: VerdictThresholds) -> list[Remark]:
    count = sum(not parameter.dropped for parameter in parameters)
    limits = (thresholds.well_known, thresholds.fairly_known)
    well, fairly = (sum(p.relative_std < limit for p in parameters) for limit in limits)
    text = f"{well} of {count} base parameters are known to {100 * limits[0]:.0f} % or better, {fairly} to"
    remarks = [Remark(Level.NOTE, f"{text} {100 * limits[1]:.0f} %")]
    unknown = [parameter for parameter in parameters if parameter.std is None]
    if unknown:
        names, joints = (
            _list_names([p.name for p in unknown], thresholds),
            _list_names(sorted({p.joint for p in unknown}), thresholds),
        )
        text = f"not excited: {names}; move {joints} more, and other joints at the same time"
        remarks.append(Remark(Level.PROBLEM, text))
    return remarks


def _remark_on_poorly_known(evidence: Evidence, thresholds: VerdictThresholds) -> list[Remark]:
    """Remark on friction and rotors that are poorly known, where that matters for the torque."""
    poor: dict[str, list[ParameterEvidence]] = {}
    for p in evidence.parameters:
        counts = p.group in ("friction", "rotor") and not p.shared and p.uncertainty_matters
        if counts and np.isfinite(p.relative_std) and p.relative_std > thresholds.poorly_known:
            poor.setdefault(p.joint, []).append(p)
    remarks = []
    for joint, parameters in poor.items():
        groups = {p.group for p in parameters}
        hints = [
            hint
            for group, hint in (("rotor", "accelerate it more"), ("friction", "vary its speed more"))
            if group in groups
        ]
        longer = ", or record longer" if evidence.seconds < thresholds.short else ""
        names = _list_names([p.name for p in parameters], thresholds)
        text = f"{joint}: {names} poorly known; {' and '.join(hints)}{longer}"
        remarks.append(Remark(Level.WARNING, text))
    return remarks


def _remark_on_negative(parameters: Sequence[ParameterEvidence], thresholds: VerdictThresholds) -> list[Remark]:
    """Remark on friction and rotors clearly below 0, which no joint has, by a larger torque than the joint's error."""
    names = [
        p.name
        for p in parameters
        if p.kind in ("Fv", "Fc", "Ia") and not p.shared and p.std is not None
        if p.value < -thresholds.significance * p.std and -p.value * p.effect > p.noise
    ]
    if not names:
        return []
    text = "came out negative: check whether the effort is filtered or late, and the friction law"
    return [Remark(Level.WARNING, f"{_list_names(names, thresholds)} {text}")]


def _format_size(x: float) -> str:
    return f"{x:.0f}" if x >= 100.0 else f"{x:.2g}"


def _list_names(names: Sequence[str], thresholds: VerdictThresholds) -> str:
    more = len(names) - thresholds.listed
    return ", ".join(names[: thresholds.listed]) + (f" and {more} more" if more > 0 else "")


def remark_on_prior(
    prior_fit: PriorFit | None, names: Sequence[str], thresholds: VerdictThresholds = DEFAULTS
) -> list[Remark]:
    """Say how much of the model is not the data's; names: of the base parameters."""
    if prior_fit is None or prior_fit.weight.weight == 0.0:
        return []
    weight, shares = prior_fit.weight, prior_fit.share[prior_fit.estimate.layout.base]
    mostly = [name for name, share in zip(names, shares, strict=True) if share > thresholds.mostly_prior]
    if weight.weak:
        text = f"the data leave {_list_names(mostly, thresholds)} open: mostly the values of {prior_fit.prior.source}"
        return [Remark(Level.NOTE, text)] if mostly else []
    text = (
        f"{100 * prior_fit.base_share:.0f} % of the information on the base parameters comes from "
        f"{prior_fit.prior.source}, which lowers the held-out error by {100 * weight.gain:.0f} +- "
        f"{100 * weight.scatter:.0f} %; parameters mostly from there: {_list_names(mostly, thresholds) or 'none'}"
    )
    return [Remark(Level.NOTE, text)]


def remark_on_essential(sets: Mapping[str, SetErrors], thresholds: VerdictThresholds = DEFAULTS) -> list[Remark]:
    """Say so where the essential parameters alone predict held-out data worse than all of them."""
    if ESSENTIAL not in sets or not sets[ESSENTIAL].validation:
        return []
    every, essential = (sets[name].validation["all"].relative for name in (BASE, ESSENTIAL))
    if essential <= thresholds.as_well * every:
        return []
    text = (
        f"the essential parameters alone have {100 * essential:.1f} % on held-out data, all of them {100 * every:.1f} %"
    )
    return [Remark(Level.WARNING, Text(text, ": too few are left; keep all parameters"))]


def remark_on_held_friction(
    names: Sequence[str], free: Estimate, estimate: Estimate, thresholds: VerdictThresholds = DEFAULTS
) -> list[Remark]:
    """Say which coefficients of friction only brake because the fit holds them at zero.

    names: of base parameters and friction terms; free: the fit without that.
    """
    pushing = free.value < -thresholds.significance * free.std
    pairs = zip(names, pushing, estimate.value, strict=False)
    held = [name for name, before, after in pairs if before and after == 0.0]
    if not held:
        return []
    text = f"friction that came out negative is held at zero ({', '.join(held)}): the effort may be filtered or late"
    return [Remark(Level.NOTE, text)]


def remark_on_impossible(sets: Mapping[str, SetErrors], served: str) -> list[Remark]:
    """Say so where base parameters would have motions of negative kinetic energy; served: the set that is the model."""
    text = "the inertia matrix of the base parameters is not positive definite at some positions"
    if served == CONSISTENT:
        return [Remark(Level.NOTE, Text(text, ": the closest physically consistent parameters are used instead"))]
    why = ", and a controller that inverts it fails there: "
    if CONSISTENT not in sets:
        hint = Text("use physically consistent parameters: ", Option("consistent", True))
        return [Remark(Level.WARNING, Text(text, why, hint))]
    other, best = (100.0 * (sets[name].validation or sets[name].fit)["all"].relative for name in (CONSISTENT, served))
    cause = "springs or a counterbalance that the robot file lacks may be the cause"
    worse = f"physically consistent parameters predict worse ({other:.1f} % instead of {best:.1f} %); {cause}"
    return [Remark(Level.WARNING, Text(text, why, worse))]


def remark_on_sensors(sides: Mapping[str, SensorSide]) -> list[Remark]:
    """Say so where efforts that count as the motors' look like those of torque sensors at the links."""
    sensors = {name: sensor_name(drive) for name, drive in find_link_sensors(sides).items()}
    if not sensors:
        return []
    alike = len(sensors) == len(sides) and len(set(sensors.values())) == 1
    named = next(iter(sensors.values())) if alike else ",".join(f"{name}={one}" for name, one in sensors.items())
    who = "the efforts" if len(sensors) == len(sides) else f"the efforts of {', '.join(sensors)}"
    text = f"{who} look like those of torque sensors at the links: held-out data need no viscous friction and no rotor"
    hint = Text(text, " inertia there; if that is so, declare it: ", Option("sensor", named))
    return [Remark(Level.NOTE, hint)]


def remark_on_resonances(resonances: Sequence[Resonance]) -> list[Remark]:
    """Name the joints whose drives, or what they stand on, seem elastic, with the evidence."""
    if not resonances:
        return []
    peaks = [
        f"{one.joint} at {one.frequency:.2g} Hz ({one.ratio:.0f} times its surroundings, {100 * one.share:.0f} %)"
        for one in resonances
    ]
    text = f"peaks in the spectrum of what the model leaves beyond the motion: {', '.join(peaks)}: resonances of"
    hint = "elastic drives or of the base; keep motion below, or record encoders of motor and link (dynid stiffness)"
    return [Remark(Level.NOTE, f"{text} {hint}")]


def remark_on_coverage(coverage: Mapping[str, float], thresholds: VerdictThresholds = DEFAULTS) -> list[Remark]:
    """Say whether the 95 % band of the prediction holds on data that were not used."""
    if "all" not in coverage:
        return []
    share = coverage["all"]
    text = f"the 95 % band of the torque holds {100 * share:.0f} % of the held-out rows"
    if share >= thresholds.coverage:
        return [Remark(Level.GOOD, text)]
    low = [name for name, one in coverage.items() if one < thresholds.coverage and name != "all"]
    text += f", too few at {', '.join(low)}: the error bars do not hold there; record longer, and more varied motion"
    return [Remark(Level.WARNING, text)]
