"""Which estimator suits the data: is least squares biased by the noise of the encoders?

Where the noise is strong enough to matter at all, the instrumental variables' estimate, which it does not bias, is put
beside the one found (Hausman): they differ by more than chance only if the latter is biased.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError, Option, RankError, Text
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators.estimate import Estimate
from ros2_dynid.identification.estimators.fit import Problem, fitter
from ros2_dynid.identification.estimators.instruments import NOISY, noise_share

FAR = 3.0
"""Standard deviations of the instrumental variables' estimate by which a parameter must differ from it."""
WELL = 0.05
"""Relative standard deviation, as stated, below which a parameter is well excited: others say nothing about bias."""


@dataclass(frozen=True)
class MethodChoice:
    """The estimator that suits the data, and why if it is another one than was used.

    noise: power of the encoders' noise over that of the motion in the accelerations of the rows, worst joint; None
    where it is not known.
    """

    method: Method
    noise: float | None = None
    reason: str | None = None


def method_choice(problem: Problem, found: Estimate) -> MethodChoice:
    """Return which estimator suits the data that `found` was estimated from."""
    noise = _noise(problem)
    if noise is None or noise < NOISY or found.method is Method.IV:
        return MethodChoice(found.method, noise)
    share = f"encoder noise makes {100 * noise:.2g} % of the power of a joint's accelerations"
    try:
        unbiased = fitter(Method.IV, problem)(None)
    except RankError:
        return MethodChoice(found.method, noise)
    except InputError as error:
        # the refusal's own cure is a method without instruments, which this one already is
        cure = "; record the commanded positions too, or faster motion"
        return MethodChoice(found.method, noise, Text(f"{share}: the parameters may be biased; ", error.what, cure))
    std = unbiased.base_std
    well = (found.base_std < WELL * np.abs(unbiased.base)) & unbiased.base_identified
    z = np.where(well, (found.base - unbiased.base) / std, 0.0)
    worst = int(np.argmax(np.abs(z)))
    if abs(z[worst]) <= FAR:
        return MethodChoice(found.method, noise)
    reason = Text(
        f"{share}, which biases {found.method}: {problem.base.names[worst]} is off by {abs(z[worst]):.1f} standard "
        "deviations; use ",
        Option("method", Method.IV.value),
    )
    return MethodChoice(Method.IV, noise, reason)


def _noise(problem: Problem) -> float | None:
    shares = [
        float(np.max(noise_share(prepared, prepared.filter.row_cutoff)))
        for prepared in problem.prepared
        if prepared.elsewhere is None and prepared.known is not None and prepared.filter.row_cutoff is not None
    ]
    return max(shares, default=None)
