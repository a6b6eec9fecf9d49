"""The verdict in words: what is well identified, what is not, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import Option, Text
from ros2_dynid.identification.estimators.estimate import Estimate
from ros2_dynid.identification.validation.effort_scale import Factor
from ros2_dynid.identification.validation.torque_errors import Errors, Whiteness
from ros2_dynid.model.parameters import group_of, split_name
from ros2_dynid.model.robot import Array, Robot

GOOD, FAIR = 0.05, 0.10
"""Relative standard deviations below which a parameter is well, or fairly, identified."""
FAIR_ERROR = 0.1
"""Relative torque error up to which a model is called good."""
LARGE_ERROR = 0.15
POOR_CONDITION = 300.0
LOW, HIGH = 0.005, 3.0
"""Shares of a joint's effort limit outside which its largest effort hardly is in N.m."""


class Level(str, Enum):
    """How a remark is meant."""

    GOOD = "good"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Remark:
    """One remark: its level and a sentence."""

    level: Level
    text: str


def verdict(
    robot: Robot,
    base: BaseParameters,
    found: Estimate,
    fit: Errors,
    validation: Errors,
    *,
    prior_error: float | None = None,
    prior_scale: Factor | None = None,
    whiteness: Mapping[str, Whiteness] | None = None,
    largest: Array | None = None,
    seconds: float = np.inf,
) -> list[Remark]:
    """Return the remarks, problems first.

    prior_error: relative torque error of the a priori model; largest: effort of each joint, shape (n,) [N.m, N].
    """
    remarks = [
        *_overall(fit, validation, prior_error),
        *_units(prior_scale),
        *_limits(robot, largest),
        *_parameters(robot, base, found, seconds),
        *_joints(fit, whiteness or {}),
    ]
    if found.cond > POOR_CONDITION:
        remarks.append(
            Remark(
                Level.WARNING,
                f"the condition number is {found.cond:.0f}: an optimised exciting trajectory will do better",
            )
        )
    if abs(found.delay) > 3.0 * found.delay_std:
        late = "late" if found.delay > 0 else "early"
        size = f"{abs(1e3 * found.delay):.2f} +- {1e3 * found.delay_std:.2f} ms"
        remarks.append(Remark(Level.GOOD, f"the effort was recorded {size} {late} against the positions: corrected"))
    order = (Level.PROBLEM, Level.WARNING, Level.GOOD)
    return sorted(remarks, key=lambda remark: order.index(remark.level))


def _overall(fit: Errors, validation: Errors, prior_error: float | None) -> list[Remark]:
    total, tested = fit["all"].relative, validation["all"].relative if validation else None
    level = Level.GOOD if total < FAIR_ERROR else Level.WARNING if total < LARGE_ERROR else Level.PROBLEM
    text = f"the torque error is {100 * total:.1f} % on the data used"
    if tested is not None:
        text += f" and {100 * tested:.1f} % on held-out data"
    if prior_error is not None:
        text += f"; the a priori model has {100 * prior_error:.0f} %"
    remarks = [Remark(level, text)]
    if tested is not None and tested > 2.0 * total and tested > 0.1:
        remarks.append(
            Remark(Level.WARNING, "the model does not generalise to held-out data: record longer, excite more evenly")
        )
    return remarks


def _units(scale: Factor | None) -> list[Remark]:
    if scale is None or not scale.wrong or not np.isfinite(scale.std):
        return []
    if scale.value < 0:
        return [
            Remark(
                Level.PROBLEM,
                Text("all efforts point against the a priori masses: check their sign: ", Option("gains")),
            )
        ]
    if 0.2 < scale.value < 5.0:
        return []
    text = f"all efforts are {scale.value:.3g} times what the a priori masses ask for: check their unit: "
    return [Remark(Level.PROBLEM, Text(text, Option("gains")))]


def _limits(robot: Robot, largest: Array | None) -> list[Remark]:
    if largest is None:
        return []
    remarks = []
    for number, effort in zip(robot.active, largest, strict=True):
        joint = robot.joints[number - 1]
        limit = joint.limits.effort
        if not (np.isfinite(limit) and limit > 0):
            continue
        if effort > HIGH * limit or effort < LOW * limit:
            share = f"{effort / limit:.3g} times" if effort > limit else f"only {100 * effort / limit:.2g} % of"
            text = f"{joint.name}: its effort reaches {share} its limit of {limit:g}: check its unit: "
            remarks.append(Remark(Level.PROBLEM, Text(text, Option("gains"))))
    return remarks


def _parameters(robot: Robot, base: BaseParameters, found: Estimate, seconds: float) -> list[Remark]:
    value, std, known = found.base, found.base_std, found.base_identified
    relative = np.where(known, std / np.maximum(np.abs(value), 1e-300), np.inf)
    dropped = known & (std == 0.0)  # not essential
    relative[dropped] = np.inf
    remarks = []
    b = len(base) - int(np.count_nonzero(dropped))
    well = int(np.count_nonzero(relative < GOOD))
    remarks.append(
        Remark(
            Level.GOOD,
            f"{well} of {b} base parameters are known to {100 * GOOD:.0f} % or better, "
            f"{int(np.count_nonzero(relative < FAIR))} to {100 * FAIR:.0f} %",
        )
    )
    if not known.all():
        names = _listed([name for name, ok in zip(base.names, known, strict=True) if not ok])
        joints = _listed(sorted({_joint(robot, base.leaders[k]) for k in np.flatnonzero(~known)}))
        remarks.append(
            Remark(Level.PROBLEM, f"not excited: {names}; move {joints} more, and other joints at the same time")
        )
    poor: dict[str, list[str]] = {}
    for k in np.flatnonzero(known & ~dropped & (relative > 0.3)):
        if group_of(base.leaders[k]) in ("friction", "rotor"):
            poor.setdefault(_joint(robot, base.leaders[k]), []).append(base.names[k])
    for joint, few in poor.items():
        kinds = {group_of(base.leaders[base.names.index(name)]) for name in few}
        cure = (
            "vary its speed more"
            if kinds == {"friction"}
            else "accelerate it more" + (" and vary its speed" if "friction" in kinds else "")
        )
        longer = ", or record longer" if seconds < 60 else ""
        remarks.append(Remark(Level.WARNING, f"{joint}: {_listed(few)} poorly known; {cure}{longer}"))
    negative = [
        base.names[k]
        for k in np.flatnonzero(known)
        if split_name(base.leaders[k])[0] in ("Fv", "Fc", "Ia") and value[k] < -3.0 * std[k]
    ]
    if negative:
        text = (
            f"{_listed(negative)} came out negative: check sign and unit of that joint's effort and its friction model"
        )
        remarks.append(Remark(Level.WARNING, text))
    return remarks


def _joints(fit: Errors, whiteness: Mapping[str, Whiteness]) -> list[Remark]:
    remarks = []
    for name, row in fit.items():
        if name != "all" and row.relative > LARGE_ERROR:
            text = (
                f"{name}: {100 * row.relative:.0f} % of its torque is not explained; check its sensor, sign, coupling "
                "to other joints, and friction beyond Fv and Fc"
            )
            remarks.append(Remark(Level.WARNING, text))
    coloured = [name for name, white in whiteness.items() if white.probability < 0.01 and abs(white.correlation) > 0.2]
    if coloured:
        text = f"errors of {_listed(coloured)} are not random in time: the model lacks something there"
        remarks.append(Remark(Level.WARNING, f"{text} (the error bars allow for it)"))
    return remarks


def _joint(robot: Robot, leader: str) -> str:
    return robot.joints[split_name(leader)[1] - 1].name


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
