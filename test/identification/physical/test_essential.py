# SPDX-License-Identifier: Apache-2.0

"""The elimination of parameters that data do not support, step by step, against fits to the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from ros2_dynid.identification.options import Method
from ros2_dynid.identification.physical.essential import EssentialThresholds
from ros2_dynid.identification.physical.essential import essential as essential_of
from ros2_dynid.identification.regression.error_bars import block_moments, jackknife
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information, restrict
from ros2_dynid.identification.regression.least_squares import add_error_bars, solve, weighted_triangle, wls

BLOCKS, ROWS = 20, 12
LAYOUT = ColumnLayout(8, 1, 0, 1)
FEELS = (np.array([0, 1, 2, 3, 4, 8, 9]), np.array([2, 3, 4, 5, 6, 7, 9]))
TRUTH = np.array([2.0, -1.5, 0.02, 1.0, 0.0, 3.0, 0.01, 0.03, 0.0, 0.0])
SIGMA = np.array([0.5, 0.2])


def rows_of(seed, lacking=0.0):
    """Return W (joint: rows, columns), tau and the information; lacking: a force that the model lacks, in one half."""
    rng = np.random.default_rng(seed)
    W = [rng.normal(size=(BLOCKS * ROWS, len(columns))) for columns in FEELS]
    tau = [A @ TRUTH[columns] + s * rng.normal(size=len(A)) for A, columns, s in zip(W, FEELS, SIGMA, strict=True)]
    half = BLOCKS * ROWS // 2
    tau[1][:half] += lacking * W[1][:half, 5]
    tau[1][half:] -= 0.9 * lacking * W[1][half:, 5]
    blocks = []
    for k in range(BLOCKS):
        at = slice(k * ROWS, (k + 1) * ROWS)
        R = tuple(np.column_stack((A[at], y[at])) for A, y in zip(W, tau, strict=True))
        blocks.append(Block(R, np.array([ROWS, ROWS]), float(k), k + 1.0))
    return W, tau, Information(tuple(blocks), FEELS, LAYOUT)


def squares(W, tau, weights, kept, used, tested):
    """Return the weighted and the plain squared errors of the rows tested, by the fit of columns to those used."""

    def wide(rows):
        A = np.zeros((2, len(rows), LAYOUT.size))
        for j, columns in enumerate(FEELS):
            A[j][:, columns] = W[j][rows]
        return A

    A, y = wide(used), np.array([tau[j][used] for j in range(2)])
    stacked = (weights[:, None, None] * A).reshape(-1, LAYOUT.size)[:, kept]
    value = np.linalg.lstsq(stacked, (weights[:, None] * y).ravel(), rcond=None)[0]
    left = np.array([tau[j][tested] for j in range(2)]) - wide(tested)[:, :, kept] @ value
    return np.sum((weights[:, None] * left) ** 2), np.sum(left**2)


def inflation_of(information, full, weights):
    """Return the typical variance stated over that of independent errors, at least 1."""
    W = weighted_triangle(information, weights).W
    return max(1.0, np.median(np.diag(full.covariance) / np.diag(np.linalg.inv(W.T @ W))))


def refit(information, weights, kept):
    """Return the values of these columns with their standard deviations, all others 0 and infinite."""
    R = weighted_triangle(information, weights).R
    found, part = solve(R[:, [*kept, LAYOUT.size]]), restrict(information, kept)
    value, std = np.zeros(LAYOUT.size), np.full(LAYOUT.size, np.inf)
    value[kept] = found.value
    std[kept] = np.sqrt(np.diag(jackknife(block_moments(part, found.value, weights), found.identified)[0]))
    return value, std


def eliminated(information, full, weights):
    """Return the columns that are left after every one that is dropped: the least known ones, by F tests."""
    R = weighted_triangle(information, weights).R

    def left(kept):
        A = R[:, kept]
        return np.sum((R[:, -1] - A @ np.linalg.lstsq(A, R[:, -1], rcond=None)[0]) ** 2)

    kept, protected, path = list(range(10)), {8, 9}, []
    rows, inflation, least = information.rows.sum(), inflation_of(information, full, weights), left(kept)
    free = max(rows / inflation - 10, len(information.blocks) - 1.0)
    value, std = full.value, full.std
    while True:
        relative = {k: std[k] / abs(value[k]) for k in kept if k not in protected}
        worst = max(relative, key=lambda k: relative[k], default=None)
        if worst is None or relative[worst] <= 0.1:
            return path
        rest = [k for k in kept if k != worst]
        statistic = (left(rest) - least) / inflation / (len(path) + 1) / (least / (rows - len(kept)))
        if statistic > scipy.stats.f.ppf(0.95, len(path) + 1, free):
            protected.add(worst)
            continue
        kept = rest
        path.append(kept)
        value, std = refit(information, weights, kept)


@pytest.mark.parametrize(("seed", "lacking"), [(1, 0.0), (2, 0.6), (3, 1.2), (4, 0.6), (10, 0.6)])
def test_every_step_has_its_test_and_its_error_on_stretches_left_out(seed, lacking):
    W, tau, information = rows_of(seed, lacking)
    full = wls(information)
    weights = 1.0 / full.sigma
    every = np.arange(BLOCKS * ROWS)
    found = essential_of(information, full, EssentialThresholds(confidence=0.95))
    growths = left_out_growth(W, tau, information, weights)
    inflation = inflation_of(information, full, weights)
    kept, dropped = list(range(10)), 0
    least, _ = squares(W, tau, weights, kept, every, every)
    free = max(480 / inflation - 10, 19.0)
    value, std = full.value, full.std
    protected = {8, 9}
    most = max([k for k, (grown, allowed) in enumerate(growths, start=1) if grown <= allowed], default=0)
    for step in found.steps:
        relative = {k: std[k] / abs(value[k]) for k in kept if k not in protected}
        worst = max(relative, key=lambda k: relative[k])
        assert step.parameter == worst and step.relative_std == pytest.approx(relative[worst])
        rest = [k for k in kept if k != worst]
        more = squares(W, tau, weights, rest, every, every)[0] - least
        assert step.statistic == pytest.approx(more / inflation / (dropped + 1) / (least / (480 - len(kept))), rel=1e-6)
        assert step.limit == pytest.approx(scipy.stats.f.ppf(0.95, dropped + 1, free))
        if step.statistic > step.limit:
            assert not step.dropped and step.growth == step.allowed == 0.0
            protected.add(worst)
            continue
        grown, allowed = growths[min(dropped, len(growths) - 1)]
        assert (step.growth, step.allowed) == (pytest.approx(grown, rel=1e-6, abs=1e-9), pytest.approx(allowed))
        assert step.dropped == (dropped < most)
        if not step.dropped:
            break
        kept, dropped = rest, dropped + 1
        value, std = refit(information, weights, kept)
    assert found.kept == tuple(k for k in kept if k < 8) and dropped >= 1
    assert not found.estimate.value[[k for k in range(8) if k not in kept]].any()
    assert found.estimate.value[8] != 0.0 and found.estimate.value[9] != 0.0, "friction terms and delay stay"


@pytest.mark.parametrize("seed", [4, 10, 11])
def test_no_more_are_dropped_than_asked_for_whatever_fails_between(seed):
    """A parameter that the first test keeps does not count as one that is dropped."""
    _, _, information = rows_of(seed, 0.6)
    full = wls(information)
    every = essential_of(information, full, EssentialThresholds(confidence=0.95), most=8).steps
    went = [step.parameter for step in every if step.dropped]
    failed = [k for k, step in enumerate(every) if not step.dropped]
    assert len(went) == 3 and any(step.dropped for step in every[failed[0] :])
    for most in range(5):
        found = essential_of(information, full, EssentialThresholds(confidence=0.95), most=most)
        assert [step.parameter for step in found.steps if step.dropped] == went[:most]
        assert found.kept == tuple(k for k in range(8) if k not in went[:most])


def left_out_growth(W, tau, information, weights):
    """Return growth and limit for every number of parameters dropped."""
    paths = []
    for fold in range(5):
        blocks = range(4 * fold, 4 * fold + 4)
        tested = np.arange(48 * fold, 48 * fold + 48)
        used = np.setdiff1d(np.arange(BLOCKS * ROWS), tested)
        part = information.take([b for b in range(BLOCKS) if b not in blocks])
        R = weighted_triangle(part, weights).R
        own = add_error_bars(part, solve(R), weights, Method.WLS)
        path = [list(range(10)), *eliminated(part, own, weights)]
        paths.append([squares(W, tau, weights, kept, used, tested) for kept in path])
    length = max(map(len, paths))
    errors = np.array([path + [path[-1]] * (length - len(path)) for path in paths])
    found = []
    for k in range(1, length):
        change = errors[:, k] - errors[:, 0]
        before = errors[:, 0].sum(axis=0)
        grown = change.sum(axis=0) / before
        scatter = np.sqrt(5.0) * np.std(change, axis=0, ddof=1) / before
        allowed = np.clip(scatter, 0.01, 0.1)
        nearer = int(np.argmax(grown - allowed))
        found.append((grown[nearer], allowed[nearer]))
    return found
