# SPDX-License-Identifier: Apache-2.0

"""Standard deviations of predicted torques: sqrt(diag(Y_b C Y_b^T)) with C the covariance of the base parameters.

Columns of friction terms join Y_b, at the torque that the gears carry, where the model knows their covariance too.

A measured torque scatters about the prediction by the level sigma of its joint as well: a band for measurements has the
variance Y_b C Y_b^T + sigma^2, sigma being that of motion that was not fitted to (`band_level`). Torque that depends on
a parameter which the data did not determine has an infinite standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ros2_dynid.codegen.backend import fast_inverse_dynamics, fast_regressor
from ros2_dynid.dynamics.friction import active_terms, frictionless, term_column
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.regression.error_bars import half_width
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.friction_kinds import law_columns
from ros2_dynid.model.parameters import group_of, standard_names
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

LEFT_OUT = 1.25
"""Variance of parameters with one of five stretches left out, over that with all of them."""
CHUNK = 2000
"""Samples whose regressor is held at a time."""
ZERO_COLUMN = 1e-9
"""A column of W counts as zero below this fraction of the largest element."""


@dataclass(frozen=True, eq=False)
class TorqueScatter:
    """What the scatter about a prediction comes from: covariance of the parameters (b, b), identified (b,), sigma (n,).

    identified: False where the data do not determine a parameter; sigma: level of each joint's errors [N.m or N];
    dof: degrees of freedom that both are known with.
    """

    covariance: Array
    identified: NDArray[np.bool_]
    sigma: Array
    dof: float = np.inf

    @property
    def width(self) -> float:
        """Half width of the band for measurements, in standard deviations (Student)."""
        return half_width(self.dof)

    def std(self, W: Array) -> Array:
        """Return the standard deviation of W value, shape (n, m), for rows W (b, n, m)."""
        b, n, m = W.shape
        flat = W.reshape(b, n * m)
        variance = np.maximum(np.sum(flat * (self.covariance @ flat), axis=0), 0.0)
        open_columns = np.abs(flat[~self.identified])
        variance[np.any(open_columns > ZERO_COLUMN * np.abs(flat).max(initial=0.0), axis=0)] = np.inf
        return np.asarray(np.sqrt(variance).reshape(n, m))

    def measured(self, W: Array) -> Array:
        """Return the standard deviation of measured torques about W value, shape (n, m)."""
        return np.hypot(self.std(W), self.sigma[:, None])


def band_level(information: Information, estimate: Estimate, held_out: Array | None) -> Array:
    """Return the level of the errors about a prediction that the parameters' covariance does not explain, shape (n,).

    held_out: rms error of each joint on stretches left out in turn, (n,) [N.m or N]; None: not known. What is not in
    the model differs from motion to motion, so that errors are larger beyond the data fitted to; the part of them that
    the covariance C of the parameters explains, tr(C W^T W) / rows and a little more with a stretch left out, is taken
    off. Never below the residual level.
    """
    if held_out is None:
        return estimate.sigma
    explained = np.empty(information.n)
    for j, columns in enumerate(information.columns):
        R = information.triangle(j)[:, :-1]
        C = estimate.covariance[np.ix_(columns, columns)]
        explained[j] = float(np.sum((R @ C) * R)) / max(int(information.rows[j]), 1)
    return np.sqrt(np.maximum(estimate.sigma**2, held_out**2 - LEFT_OUT * explained))


def torque_scatter(model: IdentifiedModel) -> TorqueScatter:
    """Return the spread of a model's torques; sigma is zero where the file does not tell it."""
    sigma, n = model.obtained.get("band_sigma", model.obtained.get("sigma")), len(model.robot.active)
    numbers = [float(s) for s in sigma if isinstance(s, float | int)] if isinstance(sigma, list) else []
    level = np.array(numbers) if len(numbers) == n else np.zeros(n)
    dof = model.obtained.get("dof")
    known = float(dof) if isinstance(dof, float | int) and dof > 0 else np.inf
    return TorqueScatter(model.covariance, np.isfinite(model.std), level, known)


def torque_std(
    model: IdentifiedModel,
    q: ArrayLike,
    dq: ArrayLike,
    ddq: ArrayLike,
    *,
    friction: bool = True,
    measured: bool = False,
) -> Array:
    """Return the standard deviation of model.torque(q, dq, ddq), shape (N, n_active) [N.m or N].

    friction: False leaves friction and offset out; measured: of measured torques about it, filtered as in the
    identification, instead. Terms of the temperature are at T0.
    """
    motion = [np.asarray(x, dtype=float) for x in (q, dq, ddq)]
    n = len(model.robot.active)
    if any(x.ndim != 2 or x.shape != (len(motion[0]), n) for x in motion):
        raise InputError("q, dq and ddq differ in shape", f"give three arrays (N, {n})")
    place = {name: k for k, name in enumerate(standard_names(model.robot))}
    columns = [place[name] for name in model.leaders]
    absent = [k for k, name in enumerate(model.leaders) if group_of(name) in ("friction", "offset") and not friction]
    with_terms = friction and model.friction_covariance is not None
    spread, out = torque_scatter(model), np.empty(motion[0].shape)
    if with_terms:
        C = model.known_covariance
        identified = np.append(spread.identified, np.ones(len(C) - len(columns), dtype=bool))
        spread = replace(spread, covariance=C, identified=identified)
    for at in range(0, len(out), CHUNK):
        part = slice(at, at + CHUNK)
        Y = np.asarray(fast_regressor(model.robot, *(x[part] for x in motion)))
        W = np.ascontiguousarray(Y[:, :, columns].transpose(2, 1, 0))
        W[absent] = 0.0
        if with_terms:
            W = np.concatenate((W, _term_rows(model, *(x[part] for x in motion))))
        out[part] = (spread.measured(W) if measured else spread.std(W)).T
    return out


def _term_rows(model: IdentifiedModel, q: Array, dq: Array, ddq: Array) -> Array:
    """Return the columns of the robot's friction terms, shape (f, n_active, N)."""
    gear_torque = fast_inverse_dynamics(*frictionless(model.robot, model.chi), q, dq, ddq)
    columns = active_terms(model.robot, law_columns(model.robot.friction))
    W = np.zeros((len(columns), *q.T.shape))
    for k, (place, term) in enumerate(columns):
        W[k, place] = term_column(term, dq[:, place], np.sign(dq[:, place]), gear_torque[:, place])
    return W


SAMPLES = 500
"""Random motions that stand for all the robot can do."""
WIDE = 1.0
"""Speed [rad/s or m/s] and acceleration taken where the robot has no limit of its own."""


def error_bars(model: IdentifiedModel) -> ErrorBars:
    """Return residual level and largest torque standard deviation of each active joint, shape (n,) [N.m or N].

    The largest is that over random motions within the robot's limits; NaN where the file does not tell the residual
    level, or where the torque depends on a parameter that the data did not determine.
    """
    return bars_of(model.robot, model.leaders, torque_scatter(model))


def bars_of(robot: Robot, leaders: Sequence[str], spread: TorqueScatter) -> ErrorBars:
    """Return the same of base parameters by their leaders, with the spread of their torques."""
    rng = np.random.default_rng(0)
    n = len(robot.active)
    q, dq, ddq = (rng.uniform(-1.0, 1.0, (SAMPLES, n)) for _ in range(3))
    for k, number in enumerate(robot.active):
        joint = robot.joints[number - 1]
        limits, reach = joint.limits, 1.0 if joint.sigma == PRISMATIC else np.pi
        lower, upper = max(limits.lower, -reach), min(limits.upper, reach)
        q[:, k] = (lower + upper) / 2 + q[:, k] * (upper - lower) / 2
        dq[:, k] *= limits.velocity if np.isfinite(limits.velocity) else WIDE
        ddq[:, k] *= limits.acceleration if np.isfinite(limits.acceleration) else WIDE
    if robot.loops is not None:
        q = random_positions(robot, rng, SAMPLES, np.pi)
    place = {name: k for k, name in enumerate(standard_names(robot))}
    Y = np.asarray(fast_regressor(robot, q, dq, ddq))[:, :, [place[name] for name in leaders]]
    std, sigma = spread.std(np.ascontiguousarray(Y.transpose(2, 1, 0))).max(axis=1), spread.sigma
    return ErrorBars(np.where(sigma > 0.0, sigma, np.nan), np.where(np.isfinite(std), std, np.nan))
