# SPDX-License-Identifier: Apache-2.0

"""All estimators with one signature: each becomes a function from blocks of time to an estimate.

An estimator that needs more of the rows than their R factors is a module of this package with a function
`build_fit(problem, on_chunk)`, named in MODULES.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from ros2_dynid.base_parameters import BaseParameters, base_parameters
from ros2_dynid.blas import small_matrices
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import find_dependence, row_chunks, row_count, rows_of_a_chunk
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import OnChunk
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information, block_length, gather
from ros2_dynid.identification.regression.least_squares import ols, wls
from ros2_dynid.model.robot import Array, Robot

Blocks = tuple[int, ...] | None
"""Numbers of the blocks to use, None for all."""
Fit = Callable[[Blocks], Estimate]
FROM_TRIANGLES = (Method.OLS, Method.WLS, Method.RECURSIVE, Method.SEQUENTIAL)
"""Methods that need no more of the rows than their R factors, in whatever blocks these are."""
MODULES = {
    Method.IRLS: "robust",
    Method.TLS: "total_least_squares",
    Method.ENERGY: "energy_rows",
    Method.IV: "instrumental",
    Method.IDIM_IV: "idim_iv",
    Method.DIDIM: "didim",
}
"""Where the others are."""


def build_estimator(
    method: Method, problem: Problem, on_chunk: OnChunk | None = None, *, error_bars: bool = True
) -> Fit:
    """Return the estimator of that name for the problem; what it needs of the rows is computed once, here.

    error_bars: whether they are asked for; without, an estimator may leave them out, as wls does.
    """
    if problem.second is not None:
        if method is not Method.WLS:
            what = "efforts at the motors and torques at the links are fitted together by wls only"
            hint = Text("choose ", Option("method", "wls"), ", or leave one of them out of the recording")
            raise InputError(what, hint)
        return problem.second.fit
    if method in FROM_TRIANGLES:
        estimate = _triangle_estimator(method, error_bars)
        return lambda blocks: estimate(problem.information.take(blocks), problem.prior)
    module = importlib.import_module(f"ros2_dynid.identification.estimators.{MODULES[method]}")
    build: Callable[[Problem, OnChunk | None], Fit] = module.build_fit
    return build(problem, on_chunk)


def _triangle_estimator(method: Method, error_bars: bool) -> Callable[[Information, Array], Estimate]:
    """Return an estimator of R factors and a priori values."""
    if method is Method.OLS:
        return ols
    if method is Method.WLS:
        return lambda information, prior: wls(information, prior, error_bars=error_bars)
    if method is Method.RECURSIVE:
        from ros2_dynid.identification.estimators.joint_by_joint import recursive

        return recursive
    from ros2_dynid.identification.estimators.sequential import sequential

    return sequential


@small_matrices
def identify_arrays(
    robot: Robot, q: Array, dq: Array, ddq: Array, tau: Array, *, base: BaseParameters | None = None
) -> tuple[BaseParameters, Estimate]:
    """Return the base parameters and their weighted least-squares estimate from motion as it is, (N, n_active) each.

    No filter and no delay: for data that are smooth already, such as simulated or prepared ones.
    """
    base = base or base_parameters(robot, method="closed-form")
    prepared = as_prepared(robot, q, dq, ddq, tau)
    columns, n_rows = base.columns(robot), row_count(prepared)
    whole = min(rows_of_a_chunk(prepared), block_length(n_rows))  # a chunk is a block, if that is not too long
    chunks = row_chunks(robot, prepared, columns, n_rows=whole)
    return base, wls(gather(chunks, find_dependence(robot, columns), n_rows))
