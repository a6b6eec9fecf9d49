# SPDX-License-Identifier: Apache-2.0

"""Efforts at the motors and torques at the links in one fit.

Both streams see the same links. Rows at the motor also hold Ia, Fv, Fc and the law of friction of their joint, rows at
the link do not, or only a part; each stream has its own weights, and the second one a delay and biases of its own.
Together they tell more than either: the difference of the two is the drive alone, so that rotor inertias come
out apart from those of the links. What they tell is given in the base parameters of the first stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters.numeric import by_qr
from ros2_dynid.base_parameters.result import BaseParameters, build
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.rows import Rows, find_dependence, row_chunks
from ros2_dynid.identification.regression.build_information import gather_recordings
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import joint_errors, joint_torques, wls
from ros2_dynid.model.efforts import DRIVE, MeasuredEffort, with_sensors
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import standard_names, standard_vector, unmeasured_parameters
from ros2_dynid.model.robot import Array, Robot

ROUNDING = 1e-9
"""Coefficients of regrouping below this are rounding."""


@dataclass(frozen=True, eq=False)
class TwoSensors:
    """Rows of both streams: those of the n active joints by the first one, then those of `joints` by the second.

    base: what both tell, whose columns the information begins with; joints: places among the active ones; robot: as the
    second stream sees it; back: from the information's columns to those of the first stream's problem.
    """

    robot: Robot
    base: BaseParameters
    information: Information
    joints: tuple[int, ...]
    back: Array
    layout: ColumnLayout
    prior: Array

    def estimate(self, chosen: Sequence[int] | None = None) -> Estimate:
        """Return the weighted least-squares estimate from blocks of both streams."""
        return wls(self.information.take(chosen), self.prior)

    def fit(self, chosen: Sequence[int] | None) -> Estimate:
        """Return the same in the columns of the first stream, with the errors of its joints."""
        return self.in_first_stream(self.estimate(chosen))

    def in_first_stream(self, estimate: Estimate) -> Estimate:
        """Return an estimate of both streams in the columns of the first one, with the errors of its joints."""
        return replace(
            estimate,
            layout=self.layout,
            value=self.back @ estimate.value,
            covariance=self.back @ estimate.covariance @ self.back.T,
            identified=~np.any((np.abs(self.back) > ROUNDING) & ~estimate.identified, axis=1),
            sigma=estimate.sigma[: self.information.n - len(self.joints)],
        )


def two_sensors(
    robot: Robot,
    base: BaseParameters,
    prepared: Sequence[Prepared],
    layout: ColumnLayout,
    terms: Sequence[FrictionTerm],
    link_drive: Sequence[str] = (),
) -> TwoSensors | None:
    """Return the rows of both streams; None if no recording has a second one.

    layout, terms: of the first stream's problem; link_drive: parameters of the drive that a sensor at a link feels.
    """
    joints = [int(k) for k in np.flatnonzero(np.any([_find_second_streams(p) for p in prepared], axis=0))]
    if not joints:
        return None
    names = robot.active_names
    at_link = {name for j, name in zip(robot.active, names, strict=True) if robot.joints[j - 1].measured_drive != DRIVE}
    other = with_sensors(
        replace(robot, parameters={}, friction=()),
        {names[k]: MeasuredEffort(DRIVE if names[k] in at_link else tuple(link_drive)) for k in joints},
    )
    stacked = _stacked_base(robot, other, joints)
    columns = stacked.columns(robot)
    full = ColumnLayout(len(stacked), layout.n_delay, 0, layout.n_friction, layout.n_delay + len(joints))
    first, second = (_find_measured(r, stacked.leaders) for r in (robot, other))
    second &= np.array([not name.startswith("off") for name in stacked.leaders])
    dependence = np.ones((len(names) + len(joints), full.size), dtype=bool)
    by_joint = find_dependence(robot, columns)
    dependence[:, full.base] = np.vstack((by_joint & first, by_joint[joints] & second))
    place = {j: k for k, j in enumerate(robot.active)}
    for i, term in enumerate(terms):
        dependence[:, full.friction.start + i] = np.arange(len(dependence)) == place[term.joint]
    dependence[len(names) :, full.delay] = False
    dependence[:, full.sensor] = False
    dependence[len(names) :, full.sensor] = (
        np.hstack((np.ones((len(joints), layout.n_delay)), np.eye(len(joints)))) > 0.0
    )
    rows = partial(_rows, robot, other, columns, tuple(terms), full, tuple(joints), (first, second))
    information = gather_recordings(prepared, lambda k: rows(prepared[k]), dependence, full)
    back = np.zeros((layout.size, full.size))
    back[layout.base, full.base] = base.full_map(robot)[:, columns]
    back[layout.friction, full.friction] = np.eye(layout.n_friction)
    back[layout.delay, full.delay] = np.eye(layout.n_delay)
    prior = full.vector(stacked.values(robot, standard_vector(robot)))
    return TwoSensors(other, stacked, information, tuple(joints), back, layout, prior)


def second_errors(two: TwoSensors, estimate: Estimate) -> list[tuple[float, float, int]]:
    """Return norm of the error, norm of the torque and rows of each joint's second stream under an estimate of both."""
    n = two.information.n - len(two.joints)
    errors, torques = joint_errors(two.information, estimate.value)[n:], joint_torques(two.information)[n:]
    return list(zip(errors.tolist(), torques.tolist(), two.information.rows[n:].tolist(), strict=True))


def drive_values(two: TwoSensors, estimate: Estimate, joint: int) -> Mapping[str, tuple[float, float]]:
    """Return Ia, Fv and Fc of active joint number `joint` with standard deviations, as far as they are told apart."""
    number = two.robot.active[joint]
    place = {name: k for k, name in enumerate(two.base.names)}
    names = [f"{part}{number}" for part in DRIVE]
    values = {name[:2]: (estimate.base[place[name]], estimate.base_std[place[name]]) for name in names if name in place}
    return {part: (float(value), float(std)) for part, (value, std) in values.items() if np.isfinite(std)}


def _stacked_base(robot: Robot, other: Robot, joints: Sequence[int]) -> BaseParameters:
    """Return the base parameters that the rows of both streams tell, by QR of sampled rows."""
    names = standard_names(robot)
    rng = np.random.default_rng(0)
    count = 40 + 4 * len(names) // len(robot.active)
    q = random_positions(robot, rng, count, 2.0)
    dq, ddq = rng.uniform(-2.0, 2.0, (2, *q.shape))
    Y = regressor(robot, q, dq, ddq)
    both = np.concatenate((Y * _find_measured(robot, names), Y[:, list(joints)] * _find_measured(other, names)), axis=1)
    groups = by_qr(both.reshape(-1, len(names)))
    if groups.doubt:
        raise InputError(f"both sensors together: {groups.doubt}", "check the robot's geometry", robot.name)
    beta, gap = np.where(np.abs(groups.beta) < ROUNDING, 0.0, groups.beta), groups.kept / max(groups.dropped, 1e-300)
    return build(names, groups.leaders, beta, source="torque", method="qr", gap=gap)


def _find_measured(robot: Robot, names: Sequence[str]) -> NDArray[np.bool_]:
    unmeasured = unmeasured_parameters(robot)
    return np.array([name not in unmeasured for name in names])


def _find_second_streams(prepared: Prepared) -> NDArray[np.bool_]:
    """Return the active joints whose second stream is there all the time, shape (n,)."""
    if prepared.second is None:
        return np.zeros(prepared.q.shape[1], dtype=bool)
    return np.asarray(np.isfinite(prepared.second).all(axis=0))


def _rows(
    robot: Robot,
    other: Robot,
    columns: Sequence[int],
    terms: tuple[FrictionTerm, ...],
    layout: ColumnLayout,
    joints: Sequence[int],
    measured: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    prepared: Prepared,
) -> Iterator[Rows]:
    """Yield the rows of both streams, W of shape (size, n + len(joints), m).

    measured: base parameters that the efforts of either stream include, (b,) each.
    """
    n, b, delay, at = len(robot.active), layout.n_base, bool(layout.n_delay), list(joints)
    second = np.full_like(prepared.tau, np.nan) if prepared.second is None else prepared.second
    known = _find_second_streams(prepared)[at]
    efforts = replace(prepared, tau=np.where(np.isfinite(second), second, 0.0))
    pairs = zip(
        row_chunks(robot, prepared, columns, delay=delay, terms=terms),
        row_chunks(other, efforts, columns, delay=delay),
        strict=True,
    )
    for mine, its in pairs:
        W = np.zeros((layout.size, n + len(at), len(mine.t)))
        W[:b, :n] = mine.W[:b] * measured[0][:, None, None]
        W[b : b + layout.n_friction + delay, :n] = mine.W[b:]
        W[:b, n:] = its.W[:b][:, at] * measured[1][:, None, None]
        if delay:
            W[layout.sensor.start, n:] = its.W[-1][at]
        for i in range(len(at)):
            W[layout.sensor.start + delay + i, n + i] = 1.0
        keep = np.concatenate((mine.keep, its.keep[at] & known[:, None]))
        yield Rows(mine.t, W, np.concatenate((mine.tau, its.tau[at])), keep)
