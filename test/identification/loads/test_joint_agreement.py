# SPDX-License-Identifier: Apache-2.0

"""Do joints agree about a load? Those that hardly know its mass are not asked."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.identification.loads.payload_fit import compare_joints, find_disagreement
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information


@pytest.mark.parametrize(("spread", "asked"), [(0.3, True), (0.45, True), (0.55, False), (0.9, False)])
def test_a_joint_that_hardly_knows_the_mass_is_not_asked(spread, asked):
    """Four blocks with the same weight and a scatter made to measure: the jackknife of a mean has a closed form."""
    scatter = np.array([1.0, -1.0, 1.0, -1.0])
    size = spread * 3.0 / 2.0  # sum of (size scatter / 3)^2 over four blocks is spread^2
    blocks = tuple(
        Block((np.array([[1.0, 2.0 * (1.1 + size * s)]]),), np.array([1]), float(k), k + 1.0)
        for k, s in enumerate(scatter)
    )
    loaded = Information(blocks, (np.array([0]),), ColumnLayout(1))
    load_map, load = np.zeros((1, 10)), np.zeros(10)
    load_map[0, -1], load[-1] = 1.0, 2.0
    found = compare_joints(loaded, np.zeros(1), np.zeros((1, 1)), 0.0, load_map, load, np.zeros((10, 10)))
    np.testing.assert_allclose(found.scale, [1.1 if asked else np.nan])
    np.testing.assert_allclose(found.std, [spread if asked else np.nan])
    wider = compare_joints(loaded, np.zeros(1), np.array([[0.04]]), 0.0, load_map, load, np.zeros((10, 10)))
    if spread == 0.3:
        assert wider.std[0] == pytest.approx(np.hypot(0.3, 0.2 / 2.0)), "the robot's own doubt, over the mass"


def by_dersimonian_and_laird(x, s):
    w = s**-2.0
    mean = np.sum(w * x) / np.sum(w)
    Q = np.sum(w * (x - mean) ** 2)
    between = (Q - (len(x) - 1)) / (np.sum(w) - np.sum(w**2) / np.sum(w))
    return between * np.sum(w**2) / np.sum(w) ** 2


@pytest.mark.parametrize(("scale", "std", "named"), [
    ((1.0, 1.02, 0.97), (0.02, 0.03, 0.03), ()),
    ((1.0, 1.0, 1.5), (0.02, 0.03, 0.03), (2,)),
    ((0.5, 1.0, 1.0), (0.02, 0.03, 0.03), (0,)),
    ((1.0, 1.6, 1.01, 0.3, 0.99), (0.03, 0.03, 0.03, 0.03, 0.03), (1, 3)),
    ((1.0, 1.5, 1.0, 1.0), (0.05, 0.001, 0.05, 0.05), (1,)),  # its narrow bars draw the mean to itself
    ((1.0, 1.5), (0.02, 0.02), (0, 1)),
    ((1.0, np.nan, 1.5), (0.02, np.nan, 0.02), (0, 2)),
    ((1.0, np.nan, np.nan), (0.02, np.nan, np.nan), ()),
    ((np.nan, 1.0, 1.02, np.nan, 1.5), (np.nan, 0.03, 0.03, np.nan, 0.03), (4,)),
    ((np.nan, 1.9, 1.0, 1.02, 1.01, 0.4), (np.nan, 0.03, 0.03, 0.03, 0.03, 0.03), (1, 5)),
    ((1.0, 1.07), (0.02, 0.02), ()),  # 2.5 sigma: once in a hundred
    ((1.0, 1.08), (0.02, 0.02), (0, 1)),
])  # fmt: skip
def test_joints_that_contradict_the_others_are_named(scale, std, named):
    x, s = np.array(scale), np.array(std)
    variance, found = find_disagreement(x, s)
    assert found == named
    known = np.isfinite(x)
    assert variance == pytest.approx(by_dersimonian_and_laird(x[known], s[known]) if named else 0.0)
