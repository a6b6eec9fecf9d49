# SPDX-License-Identifier: Apache-2.0

"""How much of the described friction the efforts hold: all of it, none, or a share, as of robots that compensate it.

Friction is linear in its own coefficients, so data alone tell whether there is any, not whether there is all of it. A
description that knows the friction F0 = Fv0 dq + Fc0 sign(dq), such as an identified model's or a data sheet's, is
compared with the estimate F along the recorded motion: joint j has the share s_j = <F, F0> / <F0, F0>. Its standard
deviation is a jackknife over stretches of time. Joints of a robot that compensates friction agree on the share; those
of a description that guesses do not, and then nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.least_squares import solve_weighted
from ros2_dynid.identification.validation.cross_validation import build_folds
from ros2_dynid.model.efforts import DRIVE
from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class FrictionShareThresholds:
    """When efforts are said to hold another share of the described friction than all of it.

    folds: stretches of time that are left out in turn; joints: least number of joints with a described friction, since
    one alone cannot be confirmed; distance: shares nearer to 1 are within what temperature and wear change friction by;
    scatter: standard deviations between the share and 1, so that chance makes it in one of ten thousand; agreement:
    largest difference between a joint's share and the common one, beside three of its standard deviations; absent: a
    smaller share is none; placeholder: a larger share says that the description only holds small numbers for friction,
    as those of simulators do (a Panda's: 1/200 of what it has).
    """

    folds: int = 10
    joints: int = 3
    distance: float = 0.3
    scatter: float = 4.0
    agreement: float = 0.1
    absent: float = 0.05
    placeholder: float = 5.0


FRICTION = FrictionShareThresholds()


@dataclass(frozen=True)
class FrictionShare:
    """The share of the described friction that the efforts hold, by common vote of the joints, with its deviation.

    needless: stretches left out are predicted as well without friction of these joints.
    """

    share: float
    std: float
    needless: bool

    def __str__(self) -> str:
        """Return the share in words."""
        return f"{self.share:.2f} +- {self.std:.2f} of what the robot's description has"


def find_friction_share(problem: Problem, thresholds: FrictionShareThresholds = FRICTION) -> FrictionShare | None:
    """Return the share of the described friction where it clearly is not all of it and the joints agree, else None."""
    problem = problem.plain()
    information, described = problem.information, _described_joints(problem)
    if len(described) < thresholds.joints:
        return None
    solution, weights = solve_weighted(information)
    folds = build_folds(information, weights, thresholds.folds)
    if len(folds) < thresholds.folds:
        return None
    values = [solution.value, *(fold.fit() for fold in folds)]
    shares = np.array([[joint.share(value) for joint in described] for value in values])
    std = np.sqrt((len(folds) - 1) * np.var(shares[1:], axis=0))
    vote = 1.0 / np.maximum(std, thresholds.agreement) ** 2
    common = shares @ vote / vote.sum()
    share, spread = float(common[0]), float(np.sqrt((len(folds) - 1) * np.var(common[1:])))
    if np.any(np.abs(shares[0] - share) > thresholds.agreement + 3.0 * std):
        return None
    if abs(1.0 - share) < max(thresholds.distance, thresholds.scatter * spread) or share > thresholds.placeholder:
        return None
    columns = [column for joint in described for column in joint.columns]
    growth = [fold.error(columns) - fold.error() for fold in folds]
    needless = np.sum(growth) <= np.sqrt(len(growth)) * np.std(growth, ddof=1)  # no more than its scatter
    return FrictionShare(share, spread, bool(needless))


@dataclass(frozen=True, eq=False)
class _Joint:
    """A joint whose friction is described: columns of Fv and Fc, coefficients of F0 (2,), Gram matrix of the motion."""

    columns: tuple[int, int]
    coefficients: Array
    gram: Array

    def share(self, value: Array) -> float:
        """Return <F, F0> / <F0, F0> for the friction of an estimate."""
        toward = self.gram @ self.coefficients
        return float(value[list(self.columns)] @ toward / (self.coefficients @ toward))


def _described_joints(problem: Problem) -> list[_Joint]:
    """Return the joints whose friction is described and estimated, as a share of what the efforts shall hold of it."""
    robot, leaders, joints = problem.robot, problem.base.leaders, []
    for k, j in enumerate(robot.active):
        names, measured = (f"Fv{j}", f"Fc{j}"), robot.joints[j - 1].measured
        coefficients = (1.0 - measured.missing) * np.array([robot.parameters.get(name, 0.0) for name in names])
        if measured.drive != DRIVE or not np.any(coefficients) or not set(names) <= set(leaders):
            continue
        dq = np.concatenate([prepared.dq[:, k] for prepared in problem.prepared])
        motion = np.column_stack((dq, np.sign(dq)))
        columns = (leaders.index(names[0]), leaders.index(names[1]))
        joints.append(_Joint(columns, coefficients, motion.T @ motion))
    return joints
