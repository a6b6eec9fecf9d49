# SPDX-License-Identifier: Apache-2.0

"""Which torque the efforts are, by comparison: does data left out need rotor inertia and friction of the drive?

A joint's effort at the motor holds Ia ddq + Fv dq + Fc sign(dq), one at the link nothing or a part of it. The laws
(), (Fc), (Fv, Fc), (Ia, Fv, Fc) are compared by the error of stretches left out; the smallest law counts whose error is
within the scatter of the best one's. A part that a law leaves out could still be there and be hidden by other errors:
the effort is called link-side only if the data would have shown it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import FOLDS, Information
from ros2_dynid.identification.validation.cross_validation import Fold, build_folds
from ros2_dynid.model.efforts import DRIVE


@dataclass(frozen=True)
class SensorSideThresholds:
    """When a joint's effort counts as measured at the link.

    folds: stretches left out in turn to compare laws. certain: standard deviations above zero from which a part is
    there without a comparison. likely: those from which it may be there at all. visible_share: share of a joint's
    torque that viscous friction would make at the motor; real drives have 0.1 to 0.6 of it. If what was estimated and
    two standard deviations are below, a drive's friction would have shown.
    """

    folds: int = FOLDS
    certain: float = 5.0
    likely: float = 2.0
    visible_share: float = 0.05


SENSORS = SensorSideThresholds()
LAWS = ((), ("Fc",), ("Fv", "Fc"), DRIVE)
"""Parts of the drive in an effort, the smallest law first."""


@dataclass(frozen=True)
class SensorSide:
    """What a joint's effort holds of Ia, Fv and Fc by its own rows, and whether that is certain.

    share: of the joint's torque that its viscous friction makes, with two standard deviations on top; growth: of the
    squared held-out error without the parts left out, as a share of it, and scatter: its standard error; 0 without a
    comparison.
    """

    measured_drive: tuple[str, ...]
    clear: bool
    share: float
    growth: float = 0.0
    scatter: float = 0.0

    @property
    def at_link(self) -> bool:
        """Whether the effort is certainly not that of the motor."""
        return self.clear and self.measured_drive != DRIVE


def find_link_sensors(sides: Mapping[str, SensorSide]) -> dict[str, tuple[str, ...]]:
    """Return what the efforts of joints hold that are not measured at the motor, by name.

    Robots have the same sensors at all joints: if some are certainly at the link and none is certainly at the motor,
    those that do not tell are at the link too; and if most efforts hold Fc, all do, since it is easily overlooked.
    """
    if not any(side.at_link for side in sides.values()):
        return {}
    mixed = any(side.clear and not side.at_link for side in sides.values())
    at_link = {name: side for name, side in sides.items() if side.at_link or not mixed}
    with_fc = sum("Fc" in side.measured_drive for side in at_link.values()) > 0.5 * len(at_link)
    return {name: ("Fc",) if with_fc or "Fc" in side.measured_drive else () for name, side in at_link.items()}


def compare_sensor_sides(
    problem: Problem, estimate: Estimate, thresholds: SensorSideThresholds = SENSORS
) -> dict[str, SensorSide]:
    """Return what the effort of each active joint holds, of joints that are not declared to be at the link."""
    robot, information, leaders = problem.robot, problem.information, problem.base.leaders
    deviations = estimate.value / np.maximum(estimate.std, 1e-300)
    folds: list[Fold] | None = None
    sides = {}
    for k, (j, name) in enumerate(zip(robot.active, robot.active_names, strict=True)):
        if robot.joints[j - 1].measured_drive != DRIVE or not len(information.columns[k]):
            continue
        places = {part: leaders.index(f"{part}{j}") for part in DRIVE if f"{part}{j}" in leaders}
        share = _largest_viscous_share(information, estimate, k, places.get("Fv"))
        first = information.layout.friction.start
        terms = [first + i for i, term in enumerate(problem.terms) if term.joint == j]
        viscous = [*terms, places["Fv"]] if "Fv" in places else terms
        at_motor = bool(np.any(deviations[viscous] > thresholds.certain))
        if at_motor or not {"Fv", "Fc"} <= set(places):
            sides[name] = SensorSide(DRIVE, at_motor, share)
            continue
        folds = build_folds(information, 1.0 / estimate.sigma, thresholds.folds) if folds is None else folds
        # a part with a negative value, or one that may well be zero, is not there
        there = {part for part, place in places.items() if deviations[place] > thresholds.likely} | set(DRIVE) - set(
            places
        )
        laws = [law for law in LAWS if set(law) <= there]
        if deviations[places["Fc"]] > thresholds.certain:
            laws = [law for law in laws if "Fc" in law]
        columns = {part: [place] for part, place in places.items()} | {"Fv": viscous}
        sides[name] = _select_side(folds, columns, laws or [DRIVE], share, thresholds)
    return sides


def _largest_viscous_share(information: Information, estimate: Estimate, joint: int, place: int | None) -> float:
    """Return the share of a joint's torque that its viscous friction makes, two standard deviations added."""
    if place is None or not np.isfinite(estimate.base_std[place]):
        return np.inf
    R, columns = information.triangle(joint), information.columns[joint]
    column = R[:, int(np.flatnonzero(columns == place)[0])]
    largest = abs(estimate.base[place]) + 2.0 * estimate.base_std[place]
    return float(largest * np.linalg.norm(column) / max(float(np.linalg.norm(R[:, -1])), 1e-300))


def _select_side(
    folds: Sequence[Fold],
    columns: Mapping[str, Sequence[int]],
    laws: Sequence[tuple[str, ...]],
    share: float,
    thresholds: SensorSideThresholds,
) -> SensorSide:
    """Return the smallest law whose error on data left out is within the scatter of the best one's.

    columns: of each part of a law.
    """
    if len(folds) < 3:
        return SensorSide(DRIVE, False, share)
    errors = [
        np.array([fold.error([k for part, own in columns.items() if part not in law for k in own]) for fold in folds])
        for law in laws
    ]
    best = int(np.argmin([error.sum() for error in errors]))
    law, growth, scatter = laws[best], 0.0, 0.0
    for k in range(best):
        more = errors[k] - errors[best]
        spread = float(np.sqrt(len(more)) * np.std(more, ddof=1))
        if more.sum() <= spread:
            law, growth, scatter = laws[k], float(more.sum()), spread
            break
    total = max(float(errors[best].sum()), 1e-300)
    clear = "Fv" not in law and share < thresholds.visible_share
    return SensorSide(law, clear, share, growth / total, scatter / total)
