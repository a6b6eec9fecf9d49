# SPDX-License-Identifier: Apache-2.0

"""IDIM-IV (Janot, Vandanjon and Gautier, 2014): instruments from the simulated closed loop of the current estimate.

The rows of the simulated motion have no noise of the encoders, and follow the recorded ones as closely as the model and
its controller allow. Each estimate gives better instruments for the next one, until the parameters no longer move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.estimators.estimator import Fit
from ros2_dynid.identification.estimators.instrumental import CrossMoments, iv, moments_with
from ros2_dynid.identification.estimators.simulated_loop import SimulatedRecordings, first_estimate
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import OnChunk
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.model.robot import Array

ROUNDS = 10
SETTLED = 0.1
"""Standard deviations by which no parameter moves any more once the estimates have settled."""


def idim_iv(
    information: Information,
    first: Estimate,
    instruments: Callable[[Estimate], CrossMoments],
    prior: Array | None = None,
) -> tuple[Estimate, CrossMoments]:
    """Return the estimate whose own closed loop made its instruments, and the moments of these.

    first: where to start; instruments: from an estimate to the moments of its simulated closed loop with the rows of
    `information`.
    """
    found = first
    for _ in range(ROUNDS):
        moments = instruments(found)
        before, found = found, replace(iv(information, moments, prior), method=Method.IDIM_IV)
        if moved(before, found) < SETTLED:
            return found, moments
    raise not_settled(Method.IDIM_IV)


def moved(before: Estimate, found: Estimate) -> float:
    """Return the farthest way of a parameter from one estimate to the next, in standard deviations of the latter."""
    std, change = found.std, found.value - before.value
    known = np.isfinite(std) & (std > 0.0)
    exact = np.linalg.norm(found.value) * 1e-12
    return float(np.max(np.abs(change[known]) / np.maximum(std[known], exact), initial=0.0))


def not_settled(method: Method) -> InputError:
    """Return the error for estimates that still move after ROUNDS simulations."""
    what = f"the estimates of {method} still move after {ROUNDS} simulations of the closed loop"
    return InputError(what, Text("excite the robot more, or use ", Option("method", Method.IV.value)))


def build_fit(problem: Problem, on_chunk: OnChunk | None = None) -> Fit:
    """Return IDIM-IV for a problem; folds use the instruments of the whole."""
    simulation = SimulatedRecordings(problem)

    def instruments(estimate: Estimate) -> CrossMoments:
        simulation.run(estimate)
        return moments_with(problem, simulation.instruments)

    whole, moments = idim_iv(problem.information, first_estimate(problem), instruments, problem.prior)

    def fit(blocks: Sequence[int] | None) -> Estimate:
        if blocks is None:
            return whole
        return replace(iv(problem.information, moments, problem.prior, blocks), method=Method.IDIM_IV)

    return fit
