# SPDX-License-Identifier: Apache-2.0

"""From leaders and beta to base parameters in reduced form, free of rounding noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.base_parameters.numeric import Dependence
from ros2_dynid.base_parameters.result import BaseParameters, base_name
from ros2_dynid.model.robot import Array


def noise_level(kept: float) -> float:
    """Return the rounding error to expect in coefficients when the smallest relative pivot was `kept`."""
    return float(min(max(1e-13, 20.0 * np.finfo(float).eps / kept), 1e-11))


def tidy(beta: Array, size: Array, leaders: Sequence[int], noise: float) -> Array:
    """Return beta with rounding noise removed, judged in the robot's own units, `size` of each parameter.

    Below `noise`: exactly zero. Within `noise` of a number of nine digits: that number, so 0.2904 and not
    0.29040000000000005; nothing moves by more than the noise that it carries.
    """
    unit = size[None, :] / size[list(leaders), None]
    own = np.abs(beta * unit)
    beta = np.where(own < noise, 0.0, beta)
    i, k = np.nonzero((beta != 0.0) & (np.abs(beta) != 1.0))
    exact, own, unit = beta[i, k], own[i, k], unit[i, k]
    digits = 10.0 ** (8.0 - np.floor(np.log10(np.abs(exact))))
    nearest = np.round(exact * digits) / digits
    beta[i, k] = np.where(np.abs(nearest - exact) * unit <= noise * np.maximum(0.01, own), nearest, exact)
    return beta


def si_coefficients(dependence: Dependence, size: Array, kept: float) -> Array:
    """Return beta, shape (b, c), in SI units and free of noise, from a factorisation in natural units.

    size: of each of the c parameters in natural units; kept: the smallest relative pivot that counted.
    """
    leaders = dependence.leaders
    return tidy(dependence.beta / size[None, :] * size[leaders, None], size, leaders, noise_level(kept))


def build(
    standard_names: Sequence[str],
    leaders: Sequence[int],
    beta: Array,
    *,
    source: str,
    method: str,
    gap: float,
    cond: float | None = None,
    S: float | None = None,
    warnings: Sequence[str] = (),
) -> BaseParameters:
    """Return the result for leaders (columns) and beta, shape (b, c): M = beta, ordered as chi."""
    order = np.argsort(list(leaders), kind="stable")
    leaders = [int(leaders[k]) for k in order]
    M = np.ascontiguousarray(beta[order])
    M[np.arange(len(leaders)), leaders] = 1.0
    M.setflags(write=False)
    nonzero = M != 0.0
    has_effect, absorbs_others, leader_set = nonzero.any(axis=0), nonzero.sum(axis=1) > 1, set(leaders)
    return BaseParameters(
        names=tuple(base_name(standard_names[k], more) for k, more in zip(leaders, absorbs_others, strict=True)),
        leaders=tuple(standard_names[k] for k in leaders),
        standard_names=tuple(standard_names),
        M=M,
        eliminated=tuple(name for k, name in enumerate(standard_names) if not has_effect[k]),
        regrouped=tuple(name for k, name in enumerate(standard_names) if has_effect[k] and k not in leader_set),
        source=source,
        method=method,
        gap=gap,
        cond=cond,
        S=S,
        warnings=tuple(warnings),
    )
