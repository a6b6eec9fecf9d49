# SPDX-License-Identifier: Apache-2.0

"""Cross-validation: torque errors on stretches of time that are left out in turn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.codec import NamedChoice
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.estimator import Fit
from ros2_dynid.identification.regression.information import FOLDS, Information, block_folds
from ros2_dynid.identification.regression.least_squares import joint_errors, joint_torques, solve, weighted_triangle
from ros2_dynid.identification.validation.torque_errors import Errors, tabulate_errors
from ros2_dynid.model.robot import Array


class ValidatedBy(NamedChoice):
    """What the held-out errors come from."""

    RECORDINGS = "recordings"
    CROSS_VALIDATION = "cross-validation"
    NOTHING = "nothing"


class LeftOut(NamedChoice):
    """What the folds of a cross-validation leave out in turn.

    A motion that repeats is left out by parts of its period, from all repetitions alike. Where a method cannot do that,
    the stretches left out have the motion that the rest was fitted to.
    """

    STRETCHES = "stretches"
    PARTS_OF_PERIOD = "parts of the period"
    SAME_MOTION = "stretches of the same motion"


@dataclass(frozen=True)
class HeldOut:
    """Torque errors on data that the estimate was not fitted to, what data, and the number of folds (0: recordings).

    left_out: what a fold is; switched_off: no folds were wanted.
    """

    errors: Errors = field(default_factory=dict)
    by: ValidatedBy = ValidatedBy.NOTHING
    folds: int = 0
    left_out: LeftOut = LeftOut.STRETCHES
    switched_off: bool = False


def split_folds(information: Information, k: int) -> list[list[int]]:
    """Return the numbers of the blocks of k folds: contiguous stretches with about the same number of rows."""
    most = int(np.count_nonzero(information.block_rows.sum(axis=1)))
    if k < 2 or k > most:
        raise InputError(f"{k} folds", f"choose 2 to {most}")
    return block_folds(information, k)


def cross_validate(names: Sequence[str], information: Information, k: int, fit: Fit) -> Errors:
    """Return the errors on k stretches of time, each predicted by a fit to the others."""
    errors, torques = np.zeros((2, information.n))
    moving = information.in_motion()
    for fold in split_folds(information, k):
        value = fit(tuple(b for b in range(len(information.blocks)) if b not in fold)).value
        left_out = moving.take(fold)
        errors += joint_errors(left_out, value) ** 2
        torques += joint_torques(left_out) ** 2
    return tabulate_errors(names, np.sqrt(errors), np.sqrt(torques), moving.rows)


@dataclass(frozen=True, eq=False)
class Fold:
    """R factors of [W tau] of the rows left out and of all others, in units of the joints' errors."""

    tested: Array
    others: Array

    def fit(self, dropped: Collection[int] = ()) -> Array:
        """Return the fit to the others with these columns at zero, shape (size,)."""
        value = np.zeros(self.others.shape[1] - 1)
        kept = [k for k in range(len(value)) if k not in dropped]
        value[kept] = solve(self.others[:, [*kept, -1]]).value
        return value

    def error(self, dropped: Collection[int] = ()) -> float:
        """Return the squared error of the rows left out by that fit."""
        return float(np.sum((self.tested[:, -1] - self.tested[:, :-1] @ self.fit(dropped)) ** 2))


def build_folds(information: Information, weights: Array, count: int) -> list[Fold]:
    """Return the folds of stretches of time that are left out in turn; weights: of the joints, shape (n,)."""
    pairs = (information.split(fold) for fold in block_folds(information, count))
    return [Fold(weighted_triangle(out, weights).R, weighted_triangle(rest, weights).R) for rest, out in pairs]


def validate_in_folds(names: Sequence[str], information: Information, k: int | None, fit: Fit) -> HeldOut:
    """Return the errors of a cross-validation with k folds: 0 for none, None for FOLDS, or none if data are too few."""
    if k == 0:
        return HeldOut(switched_off=True)
    if k is not None:
        return HeldOut(cross_validate(names, information, k, fit), ValidatedBy.CROSS_VALIDATION, k)
    try:
        return HeldOut(cross_validate(names, information, FOLDS, fit), ValidatedBy.CROSS_VALIDATION, FOLDS)
    except InputError:
        return HeldOut()
