# SPDX-License-Identifier: Apache-2.0

"""Identification with the energy model: no accelerations are needed (Gautier 1991, eq. 10; Gautier 1992).

d/dt (h chi) + friction power = tau . dq. Multiplied by the row filter's kernel and integrated, the derivative passes to
the kernel: each row needs only energies, velocities and torques. One equation a row instead of one for each joint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.friction import add_friction_columns
from ros2_dynid.dynamics.kinematics import motion_of
from ros2_dynid.dynamics.newton_euler import add_coupling_columns
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.estimator import Fit
from ros2_dynid.identification.friction_columns import put_signs
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.rows import (
    CHUNK_ROWS,
    Rows,
    find_fast_and_still,
    row_count,
    row_filter,
    windows,
)
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import OnChunk
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import combine, gather
from ros2_dynid.identification.regression.least_squares import (
    add_error_bars,
    check_rows,
    error_levels,
    solve,
    weighted_triangle,
)
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot


def energy_rows(robot: Robot, prepared: Prepared, columns: Sequence[int], *, delay: bool = False) -> Iterator[Rows]:
    """Yield rows of the power balance as those of one joint: W (b, 1, m) [.../s], tau (1, m) holds the power [W].

    Rows are kept where any joint moves.
    """
    if prepared.kernel is None or prepared.slope_kernel is None:
        raise InputError("the energy model needs a filter to integrate with", "give a recording, not filtered arrays")
    lowpass, slope = (row_filter(k, prepared.step) for k in (prepared.kernel, prepared.slope_kernel))
    assert lowpass is not None and slope is not None
    for window in windows(prepared, CHUNK_ROWS):
        part, m = window.inputs, len(window.at)
        q, dq, tau = prepared.q[part], prepared.dq[part], prepared.tau[part]
        h = energy_regressor(robot, q, dq)[:, list(columns)].T
        W = slope(h, m) + lowpass(_dissipated(robot, prepared, part)[list(columns)], m)
        power = np.sum(tau * dq, axis=1)
        if delay:
            late = -np.sum(np.gradient(tau, 1.0 / prepared.filter.inner_rate, axis=0) * dq, axis=1)
            W = np.vstack((W, lowpass(late, m)))
        keep = np.asarray(find_fast_and_still(robot, prepared, window, lowpass)[0].any(axis=0))
        yield Rows(prepared.t[window.at], W[:, None], lowpass(power, m)[None], keep[None])


def _dissipated(robot: Robot, prepared: Prepared, part: slice) -> Array:
    """Return the power of unit friction and offset parameters, shape (n_standard, N)."""
    motion = motion_of(robot, prepared.q[part], prepared.dq[part])
    Y = np.zeros((len(standard_names(robot)), *motion.q.shape))
    add_coupling_columns(robot, Y, motion.dq, np.zeros_like(motion.dq))
    add_friction_columns(Y, motion.dq)
    Y = motion.to_active(Y)
    put_signs(robot, Y, prepared.q[part], prepared.sign[part])
    return np.asarray(np.einsum("ckt,tk->ct", Y, prepared.dq[part]))


def build_fit(problem: Problem, on_chunk: OnChunk | None = None) -> Fit:
    """Return the fit of the power balance, whose rows have one equation for all joints."""
    columns, layout = problem.base.columns(problem.robot), problem.information.layout
    delay, dependence = bool(layout.n_delay), np.ones((1, layout.size), dtype=bool)
    powers = combine(
        [
            gather(
                energy_rows(problem.robot, p, columns, delay=delay), dependence, row_count(p), layout, on_chunk=on_chunk
            )
            for p in problem.prepared
        ]
    )

    def fit(blocks: Sequence[int] | None) -> Estimate:
        part, unit = powers.take(blocks), np.ones(1)
        check_rows(part)
        # one equation a row: a block holds much of what is known
        solution = solve(weighted_triangle(part, unit).R, problem.prior)
        estimate = add_error_bars(part, solution, unit, Method.ENERGY, half=True)
        information = problem.information.take(blocks)
        return replace(estimate, sigma=error_levels(information, estimate.value, np.ones(information.n)))

    return fit
