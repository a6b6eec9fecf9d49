# SPDX-License-Identifier: Apache-2.0

"""Drive gains from a known load (Gautier 2013, eq. 5): tau_j = g_j v_j with the recorded effort v_j of unknown unit.

Divided by g_j, the equation of joint j is v_j = W_j (base / g_j) + W_Lj (phi / g_j), so its own fit gives the load in
units of its gain: g_j = mass / (mass found). Joints that do not feel the mass (a wrist's last axis) see the load
through its first moment and inertia, which the others have measured by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.payload_fit import build_load_information
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import fit_alone, solve, wls
from ros2_dynid.model.parameters import LINK
from ros2_dynid.model.robot import Array, Robot

LOAD_DRAWS = 32
"""Loads drawn from the uncertainty of the one measured, to see what it does to a gain."""
LARGEST_GAIN_STD = 0.2
"""A gain counts as found if its relative standard deviation is below this."""


@dataclass(frozen=True, eq=False)
class Gains:
    """Drive gains [N.m or N for each unit of the recorded effort], shape (n,), NaN where not found, with std."""

    value: Array
    std: Array
    from_mass: tuple[bool, ...]


def drive_gains(
    robot: Robot,
    base: BaseParameters,
    empty: Information,
    loaded: Information,
    mass: float,
    *,
    load: Array | None = None,
) -> Gains:
    """Return the gains of all joints from recordings without and with a load of known mass [kg].

    load: all ten parameters of the load in the frame of its joint, if known; then all joints are fitted at once with
    one set of base parameters (Gautier 2013, eq. 5).
    """
    together = build_load_information(robot, base, empty, [loaded])
    if load is not None:
        return gains_at_once(together, load)
    if not (np.isfinite(mass) and mass > 0):
        raise InputError(f"the mass is {mass} kg", "give the mass of the known load, more than 0 kg")
    n = together.n
    value, std = np.full(n, np.nan), np.full(n, np.nan)
    for j in range(n):
        share, error = measure_share(together, j, np.eye(len(LINK))[LINK.index("M")], free=True)
        keep_gain(value, std, j, share / mass, error / mass)
    from_mass = tuple(bool(x) for x in np.isfinite(value))
    if not any(from_mass):
        raise InputError("no joint feels the load's mass", "take a heavier load and move the arm against gravity")
    load, draws = measure_load(together, value, mass)
    for k in np.flatnonzero(~np.isfinite(value)):
        share, error = measure_share(together, int(k), load, free=False)
        shares = [measure_share(together, int(k), draw, free=False, bar=False)[0] for draw in draws]
        keep_gain(value, std, int(k), share, float(np.hypot(error, np.std(shares))))
    return Gains(value, std, from_mass)


def gains_at_once(together: Information, load: Array) -> Gains:
    """Return the gains of all joints from one fit with a load whose ten parameters, shape (10,), are known (eq. 5).

    v_j g_j = W_j base + W_Lj load for all joints j and one set of base parameters: linear in base and g. Rows of each
    joint are divided by the size of its effort, so that joints of different units weigh alike; noise of the effort
    stands on the side of the unknowns, so that it makes gains a little too small. std: blocks of time left out in turn.
    """
    if load.shape != (len(LINK),) or not np.all(np.isfinite(load)) or not load[LINK.index("M")] > 0:
        raise InputError("the load is not ten finite parameters with a positive mass", f"give {' '.join(LINK)}")
    n, first = together.n, together.layout.load.start
    sizes = [np.sqrt(sum(float(np.sum(block.R[j][:, -1] ** 2)) for block in together.blocks)) for j in range(n)]
    parts = []
    for block in together.blocks:
        rows = []
        for j in range(n):
            R, columns = block.R[j] / max(sizes[j], 1e-300), together.columns[j]
            wide = np.zeros((len(R), first + n + 1))
            old = columns < first
            wide[:, columns[old]] = R[:, :-1][:, old]
            wide[:, first + j] = -R[:, -1]
            wide[:, -1] = -R[:, :-1][:, ~old] @ load[columns[~old] - first]
            rows.append(wide)
        parts.append(np.vstack(rows))
    solution = solve(np.vstack(parts))
    each = [solve(np.vstack([part for m, part in enumerate(parts) if m != k])).value[first:] for k in range(len(parts))]
    B = len(each)
    std = np.sqrt((B - 1) / B * np.sum((np.array(each) - np.mean(each, axis=0)) ** 2, axis=0))
    value = np.where(solution.identified[first:], solution.value[first:], np.nan)
    good = std < LARGEST_GAIN_STD * np.abs(value)
    return Gains(np.where(good, value, np.nan), np.where(good, std, np.nan), (True,) * n)


def keep_gain(value: Array, std: Array, j: int, share: float, error: float) -> None:
    """Keep g = 1 / share if it is well determined."""
    if share != 0.0 and np.isfinite(error) and error < LARGEST_GAIN_STD * abs(share):
        value[j], std[j] = 1.0 / share, error / share**2


def measure_share(
    together: Information, j: int, direction: Array, *, free: bool, bar: bool = True
) -> tuple[float, float]:
    """Return how much of `direction`, shape (10,), the load has in the units of joint j, and its standard deviation.

    free: the load's other parameters are fitted too; otherwise the load is a multiple of `direction`. bar: whether the
    standard deviation is wanted.
    """
    of_load = together.columns[j] >= together.layout.load.start
    others = np.flatnonzero(direction == 0.0) if free else np.empty(0, dtype=np.intp)
    rows = []
    for block in together.blocks:
        W, tau = block.R[j][:, :-1], block.R[j][:, -1]
        load = W[:, of_load]
        rows.append(np.column_stack((W[:, ~of_load], load[:, others], load @ direction, tau)))
    fit = fit_alone(together, rows, [int(block.rows[j]) for block in together.blocks], error_bars=bar)
    if not fit.identified[-1]:
        return 0.0, np.inf
    return float(fit.value[-1]), float(np.sqrt(fit.covariance[-1, -1])) if bar else 0.0


def measure_load(together: Information, gains: Array, mass: float) -> tuple[Array, list[Array]]:
    """Return the ten parameters of the load from the joints whose gains are known, and draws around them.

    What the gains have in common cancels when all ten are scaled to the mass given.
    """
    known = np.flatnonzero(np.isfinite(gains))
    blocks = tuple(
        replace(
            block,
            R=tuple(np.column_stack((block.R[j][:, :-1], gains[j] * block.R[j][:, -1])) for j in known),
            rows=block.rows[known],
        )
        for block in together.blocks
    )
    part = Information(blocks, tuple(together.columns[j] for j in known), together.layout)
    estimate = wls(part)
    load, covariance = estimate.load, estimate.load_covariance
    at = LINK.index("M")
    if not load[at] > 0:
        raise InputError("the load found has no positive mass", "check which recording is with the load")
    rng = np.random.default_rng(0)
    near = rng.multivariate_normal(load, covariance, LOAD_DRAWS, method="eigh")
    return load * mass / load[at], [draw * mass / draw[at] for draw in near]
