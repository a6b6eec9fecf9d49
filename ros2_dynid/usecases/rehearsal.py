# SPDX-License-Identifier: Apache-2.0

"""The verdict on a rehearsal: what a slow run of a trajectory says of the robot before the fast one is allowed.

A run that was stopped is no rehearsal. One that was run to its end must have followed its reference, and its efforts
must show friction that brakes: a joint whose friction drives it has the sign of its effort wrong, or that of another
joint. Friction is identified beside the base parameters that the joint feels, from its own efforts alone, so that one
joint that is wrong does not spoil the others, and it is not bounded from below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.identification.online.estimator import OnlineEstimator
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.model.robot import PRISMATIC, Array, Robot
from ros2_dynid.recording.samples import Samples

NO_INFORMATION = 1e-12
"""Share of the largest eigenvalue of the scaled normal matrix below which a combination of parameters is not seen."""


@dataclass(frozen=True)
class RehearsalThresholds:
    """What a rehearsal is judged by.

    tracking_share: of the tracking tolerance that the slow run may use: what lags already then will not follow a faster
    one. deviations: standard deviations of its error bar by which friction must be wrong to be called so.
    """

    tracking_share: float = 0.5
    deviations: float = 3.0


@dataclass(frozen=True, eq=False)
class ObservedFriction:
    """Friction of joints at their speed, shape (n,) each: value and standard deviation [N.m, N]; NaN: not observed.

    at_speed: the highest speed of the rehearsal [rad/s or m/s]; full, full_std: the same at the speed of the fast run.
    """

    joint_names: tuple[str, ...]
    speed: Array
    value: Array
    std: Array
    full: Array
    full_std: Array


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """A rehearsal: joint states, largest tracking error and its tolerance [rad or m], and its speed as a share."""

    samples: Samples
    worst_error: float
    tolerance: float
    speed: float


@dataclass(frozen=True)
class RehearsalVerdict:
    """Whether the fast motion may follow, and why, in one line."""

    passed: bool
    text: str

    def __str__(self) -> str:
        """Return the verdict as it is published."""
        return f"{'passed' if self.passed else 'failed'}: {self.text}"


def judge_rehearsal(
    robot: Robot, rehearsal: Rehearsal, thresholds: RehearsalThresholds | None = None
) -> RehearsalVerdict:
    """Return the verdict on a rehearsal that was run to its end."""
    limits = thresholds or RehearsalThresholds()
    allowed = limits.tracking_share * rehearsal.tolerance
    error = f"largest tracking error {rehearsal.worst_error:.3g}"
    if rehearsal.worst_error > allowed:
        return RehearsalVerdict(False, f"{error}, more than {allowed:.3g}: it would not follow the fast motion")
    try:
        friction = observe_friction(robot, rehearsal.samples, rehearsal.speed)
    except DynidError as why:
        return RehearsalVerdict(
            True, f"{error}; friction was not observed ({why.what if isinstance(why, InputError) else why})"
        )
    if problem := friction_problem(robot, friction, limits.deviations):
        return RehearsalVerdict(False, problem)
    return RehearsalVerdict(True, f"{error}; {_friction_text(robot, friction)}")


def observe_friction(robot: Robot, samples: Samples, share: float) -> ObservedFriction:
    """Return the friction that a slow run shows; share: its speed over that of the fast one."""
    if samples.tau is None or not np.isfinite(samples.tau).any():
        raise InputError("there are no efforts", "check the topic joint_states")
    rate = (len(samples.t) - 1) / float(samples.t[-1] - samples.t[0])
    estimator = OnlineEstimator(robot, rate, memory=float(samples.t[-1] - samples.t[0]))
    for t, q, tau in zip(samples.t - samples.t[0], samples.q, samples.tau, strict=True):
        estimator.take(q, tau, float(t))
        if estimator.samples % 1000 == 0:
            estimator.work()
    estimator.work()
    information = estimator.information()
    if information is None or len(information.blocks) < 3:
        raise InputError("it is too short", "make the plan longer")
    speed, rows = estimator.top_speed, []
    for k, number in enumerate(robot.active):
        rows.append(_at_speeds(information, estimator.base, k, number, (speed[k], speed[k] / share)))
    values, stds = (np.array(column) for column in zip(*rows, strict=True))
    return ObservedFriction(robot.active_names, speed, values[:, 0], stds[:, 0], values[:, 1], stds[:, 1])


def _at_speeds(
    information: Information, base: BaseParameters, k: int, number: int, speeds: tuple[float, float]
) -> tuple[Array, Array]:
    """Return Fc + Fv v of the joint at place k at two speeds v, and standard deviations, shape (2,); NaN: not observed.

    Least squares of the joint's own rows: x = G^+ g with G, g the sums of W_b' W_b and W_b' tau_b over blocks b of
    time. The covariance is G^+ (sum of s_b s_b') G^+ with s_b = g_b - G_b x, as errors within a block are not
    independent.
    """
    columns, names = list(information.columns[k]), (f"Fc{number}", f"Fv{number}")
    if any(name not in base.leaders or base.leaders.index(name) not in columns for name in names):
        return np.full(2, np.nan), np.full(2, np.nan)
    at = [columns.index(base.leaders.index(name)) for name in names]
    products = np.array([block.R[k].T @ block.R[k] for block in information.blocks])
    scale = np.sqrt(np.maximum(np.diagonal(products.sum(axis=0))[:-1], 1e-300))
    G, g = products[:, :-1, :-1] / scale / scale[:, None], products[:, :-1, -1] / scale
    inverse = np.linalg.pinv(G.sum(axis=0), rcond=NO_INFORMATION, hermitian=True)
    x = inverse @ g.sum(axis=0)
    scores = (g - G @ x) @ inverse
    covariance = scores.T @ scores * len(G) / (len(G) - 1)
    rows = np.zeros((2, len(x)))
    rows[:, at] = np.array([[1.0, v] for v in speeds]) / scale[at]
    return rows @ x, np.sqrt(np.einsum("ki,ij,kj->k", rows, covariance, rows))


def friction_problem(robot: Robot, friction: ObservedFriction, deviations: float) -> str:
    """Return what cannot be right about friction, or nothing ("")."""
    for k, number in enumerate(robot.active):
        name, limit = friction.joint_names[k], robot.joints[number - 1].limits.effort
        if friction.value[k] < -deviations * friction.std[k]:
            return (
                f"the effort of joint {name!r} drives it where friction should brake ({friction.value[k]:.3g}"
                f" +- {friction.std[k]:.2g} {_unit(robot, number)}): its sign is wrong, or it is another joint's"
            )
        if friction.full[k] - deviations * friction.full_std[k] > limit:
            return (
                f"joint {name!r} would need {friction.full[k]:.3g} {_unit(robot, number)} for its friction alone, more"
                f" than its effort limit of {limit:.3g}: the unit of its effort is wrong, or the motion is too fast"
            )
    return ""


def _friction_text(robot: Robot, friction: ObservedFriction) -> str:
    parts = [
        f"{name} {friction.value[k]:.3g} +- {friction.std[k]:.2g} {_unit(robot, robot.active[k])}"
        for k, name in enumerate(friction.joint_names)
        if np.isfinite(friction.value[k])
    ]
    return f"friction at the speeds of the rehearsal: {', '.join(parts)}" if parts else "no friction is identifiable"


def _unit(robot: Robot, number: int) -> str:
    return "N" if robot.joints[number - 1].sigma == PRISMATIC else "N.m"
