# SPDX-License-Identifier: Apache-2.0

"""What a verdict rests on, as numbers: errors and noise of each joint, what each parameter does to the torque."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import joint_torques, own_errors
from ros2_dynid.identification.validation.torque_errors import Errors, HeldOut, LeftOut, ValidatedBy, Whiteness
from ros2_dynid.model.friction import FrictionTerm
from ros2_dynid.model.parameters import group_of, split_name
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class JointEvidence:
    """A joint: rms of its torque and of its noise [N.m or N], relative errors in the fit and on held-out data.

    noise: what is left when its own rows alone are fitted, so neither more data nor better parameters remove it;
    coloured: its errors are not random in time.
    """

    name: str
    torque: float
    noise: float
    fit: float
    held_out: float | None = None
    coloured: bool = False

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
        """Whether it was found not to be essential."""
        return self.std == 0.0

    @property
    def relative_std(self) -> float:
        """Standard deviation over value; infinite if it is not known or was dropped."""
        return np.inf if self.std is None or self.dropped else self.std / max(abs(self.value), 1e-300)

    @property
    def matters(self) -> bool:
        """Whether its uncertainty makes a larger torque than the joint's error, which no better value would remove."""
        return self.std is not None and self.std * self.effect > self.noise

    @property
    def negative(self) -> bool:
        """Whether it is clearly below 0, by a torque that is larger than the joint's error."""
        return self.std is not None and self.value < -3.0 * self.std and -self.value * self.effect > self.noise


@dataclass(frozen=True)
class Evidence:
    """All of it: joints, parameters, relative torque errors of all joints together, and the rest of the fit.

    fit, held_out, prior_error: of the data used, of held-out data (None: there are none), of the a priori model;
    tested: what the held-out data are, in words, or why there are none; same_motion: they repeat the motion fitted to;
    delay of the effort with std [s]; seconds: length of the recordings.
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


def evidence_of(
    robot: Robot,
    base: BaseParameters,
    information: Information,
    found: Estimate,
    fit: Errors,
    held_out: HeldOut,
    *,
    prior_error: float | None = None,
    whiteness: Mapping[str, Whiteness] | None = None,
    seconds: float = np.inf,
    terms: Sequence[FrictionTerm] = (),
) -> Evidence:
    """Return the evidence of an estimate from the information it was fitted to; terms: of its friction law."""
    moving = information.in_motion()
    names, noise = robot.active_names, own_errors(moving)
    torque = joint_torques(moving) / np.sqrt(np.maximum(moving.rows, 1))
    white, tested = whiteness or {}, held_out.errors
    joints = tuple(
        JointEvidence(
            name,
            float(torque[j]),
            float(noise[j]),
            fit[name].relative,
            tested[name].relative if tested else None,
            name in white and white[name].coloured,
        )
        for j, name in enumerate(names)
    )
    return Evidence(
        joints,
        _parameters(robot, base, information, found, {term.joint for term in terms}),
        fit["all"].relative,
        tested["all"].relative if tested else None,
        tested_on(held_out),
        prior_error,
        found.cond,
        found.delay,
        found.delay_std,
        seconds,
        held_out.left_out is LeftOut.SAME_MOTION,
    )


def tested_on(held_out: HeldOut) -> str:
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


def _parameters(
    robot: Robot, base: BaseParameters, information: Information, found: Estimate, with_terms: Set[int]
) -> tuple[ParameterEvidence, ...]:
    joint_of = {number: j for j, number in enumerate(robot.active)}
    sigma = found.sigma if found.sigma.shape == (information.n,) else own_errors(information)
    out = []
    for k, (name, leader) in enumerate(zip(base.names, base.leaders, strict=True)):
        kind, number = split_name(leader)
        if group_of(leader) == "force":
            element = robot.forces[number - 1]
            number = max(element.joints)  # the joint that feels it: of a cylinder, that of the outer pivot
        j = joint_of.get(number)
        effect = 0.0 if j is None else _effect(information, j, k)
        std = float(found.base_std[k]) if found.base_identified[k] else None
        noise = 0.0 if j is None else float(sigma[j])
        joint, group, value = robot.joints[number - 1].name, group_of(leader), float(found.base[k])
        shared = group == "friction" and number in with_terms
        out.append(ParameterEvidence(name, joint, kind, group, value, std, effect, noise, shared))
    return tuple(out)


def _effect(information: Information, j: int, k: int) -> float:
    """Return the rms of column k of W over the rows of joint j."""
    at = np.flatnonzero(information.columns[j] == k)
    column: Array = information.triangle(j)[:, at]
    return float(np.linalg.norm(column) / np.sqrt(max(int(information.rows[j]), 1)))
