# SPDX-License-Identifier: Apache-2.0

"""IDIM-IV (Janot, Vandanjon and Gautier, 2014): instruments from the simulated closed loop of the current estimate.

The rows of the simulated motion have no noise of the encoders, and follow the recorded ones as closely as the model and
its controller allow. Each estimate gives better instruments for the next one, until the parameters no longer move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ros2_dynid.identification.estimators.estimator import Fit
from ros2_dynid.identification.estimators.instrumental import CrossMoments, iv, moments_with
from ros2_dynid.identification.estimators.simulated_loop import SimulatedRecordings, first_estimate, iterate_estimates
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import OnChunk
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.model.robot import Array


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

    def estimate_again(estimate: Estimate) -> tuple[Estimate, CrossMoments]:
        moments = instruments(estimate)
        return replace(iv(information, moments, prior), method=Method.IDIM_IV), moments

    return iterate_estimates(first, estimate_again)


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
