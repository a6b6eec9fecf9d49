# SPDX-License-Identifier: Apache-2.0

"""Do joints agree about a load? Those that hardly know its mass are not asked."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.identification.loads.joint_agreement import agreement
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
    found = agreement(loaded, np.zeros(1), np.zeros((1, 1)), 0.0, load_map, load, np.zeros((10, 10)))
    np.testing.assert_allclose(found.scale, [1.1 if asked else np.nan])
    np.testing.assert_allclose(found.std, [spread if asked else np.nan])
    wider = agreement(loaded, np.zeros(1), np.array([[0.04]]), 0.0, load_map, load, np.zeros((10, 10)))
    if spread == 0.3:
        assert wider.std[0] == pytest.approx(np.hypot(0.3, 0.2 / 2.0)), "the robot's own doubt, over the mass"
