# SPDX-License-Identifier: Apache-2.0

"""Descent with exact gradients within a time budget; it returns the best point seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ros2_dynid.model.robot import Array
from ros2_dynid.progress import Progress

Cost = Callable[[Array], tuple[float, Array]]


def silent(stage: str, fraction: float) -> None:
    """Report nothing."""


class OutOfTimeError(Exception):
    """The time budget is spent: not an error for the user, but the end of a descent."""


@dataclass
class TimeBudget:
    """A time budget [s] that is shared by the stages of a search, and the way to report progress."""

    budget_s: float
    progress: Progress = silent
    start: float = field(default_factory=time.perf_counter)

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    def over(self, fraction: float = 1.0) -> bool:
        """Return whether this fraction of the budget is spent."""
        return self.spent >= fraction * self.budget_s

    def report(self, text: str) -> None:
        """Report the value reached and the fraction of the budget spent."""
        self.progress(text, min(1.0, self.spent / self.budget_s))


def descend(cost: Cost, x: Array, clock: TimeBudget, iterations: int, until: float = 1.0) -> Array:
    """Return an improved x by L-BFGS, within `iterations` steps and the fraction `until` of the budget."""
    from scipy.optimize import minimize  # here, since it takes a while to import

    best: tuple[float, Array] = (np.inf, x)

    def guarded(z: Array) -> tuple[float, Array]:
        nonlocal best
        if clock.over(until):
            raise OutOfTimeError
        value, gradient = cost(z)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return 1e30, np.zeros_like(z)  # a step far too long: the line search turns back
        if value < best[0]:
            best = (value, z.copy())
        return value, gradient

    with suppress(OutOfTimeError):
        options: Any = {"maxiter": iterations, "maxcor": 30, "maxfun": 10**6}
        minimize(guarded, x, jac=True, method="L-BFGS-B", options=options)
    return best[1]
