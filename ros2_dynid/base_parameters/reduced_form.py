"""From a matrix whose rows span what is identifiable, or from leaders and beta, to base parameters in reduced form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters, base_name
from ros2_dynid.model.robot import Array


def noise_level(kept: float) -> float:
    """Return the rounding error to expect in coefficients when the smallest relative pivot was `kept`."""
    return float(min(max(1e-13, 100.0 * np.finfo(float).eps / kept), 1e-9))


def echelon(B: Array, order: Sequence[int], tolerance: float) -> tuple[list[int], Array, float, float]:
    """Return leaders, beta, and the smallest pivot kept and the largest one dropped, both relative to their column.

    Gauss-Jordan elimination with the columns taken in `order`: a column leads if it depends on none taken before it,
    which are the columns that QR without pivoting keeps. The others are B[:, rest] = B[:, leaders] beta, beta of
    shape (b, len(order)) with unit columns at the leaders.
    """
    alone, columns = _lonely(B)
    R = np.delete(B[:, list(order)], alone, axis=0)
    size = np.max(np.abs(R), axis=0, initial=0.0)
    leads: list[int] = []
    kept, dropped, row = 1.0, 0.0, 0
    for k in np.flatnonzero(size > tolerance * np.max(size, initial=0.0)):
        if row == len(R):
            break
        column = R[:, k].copy()
        at = row + int(np.abs(column[row:]).argmax())
        pivot = abs(column[at]) / size[k]
        if pivot <= tolerance:
            dropped = max(dropped, pivot)
            continue
        kept = min(kept, pivot)
        pivot_row = R[at, k:] / column[at]
        R[at], column[at] = R[row], column[row]
        column[row] = 0.0
        R[:, k:] -= column[:, None] * pivot_row
        R[row, k:] = pivot_row
        leads.append(int(k))
        row += 1
    beta = np.zeros((len(leads) + len(columns), B.shape[1]))
    beta[: len(leads), list(order)] = R[:row]
    leaders = [order[k] for k in leads] + columns
    beta[:, leaders] = np.eye(len(leaders))
    return leaders, beta, float(kept), float(dropped)


def _lonely(B: Array) -> tuple[list[int], list[int]]:
    """Return the rows, and the columns, whose only element is the one where they meet, such as those of friction."""
    full = B != 0.0
    rows = np.flatnonzero(full.sum(axis=1) == 1)
    columns = full[rows].argmax(axis=1)
    alone = full.sum(axis=0)[columns] == 1
    return [int(k) for k in rows[alone]], [int(k) for k in columns[alone]]


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
    beta[i, k] = np.where(np.abs(nearest - exact) * unit <= noise * np.maximum(1.0, own), nearest, exact)
    return beta


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
    full = M != 0.0
    felt, absorbed, lead = full.any(axis=0), full.sum(axis=1) > 1, set(leaders)
    return BaseParameters(
        names=tuple(base_name(standard_names[k], more) for k, more in zip(leaders, absorbed, strict=True)),
        leaders=tuple(standard_names[k] for k in leaders),
        standard_names=tuple(standard_names),
        M=M,
        eliminated=tuple(name for k, name in enumerate(standard_names) if not felt[k]),
        regrouped=tuple(name for k, name in enumerate(standard_names) if felt[k] and k not in lead),
        source=source,
        method=method,
        gap=gap,
        cond=cond,
        S=S,
        warnings=tuple(warnings),
    )
