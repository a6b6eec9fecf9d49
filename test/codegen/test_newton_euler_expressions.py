# SPDX-License-Identifier: Apache-2.0

"""The Newton-Euler recursion as expressions, in the form that needs the fewest operations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as ScipyRotation

from ros2_dynid.codegen.graph import Count, Graph, evaluate
from ros2_dynid.codegen.newton_euler_expressions import Rotation, turn, variable_rotation


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_rotation_turns_about_its_axis(axis):
    graph = Graph()
    angle = graph.variable("q", 0)
    turn = Rotation(axis, graph.cos(angle), graph.sin(angle))
    v = [graph.variable("v", k) for k in range(3)]
    values = {"q": [0.7], "v": [1.0, -2.0, 3.0]}
    R = ScipyRotation.from_rotvec(0.7 * np.eye(3)[axis]).as_matrix()
    assert evaluate(graph, turn.out(v), values, {}) == pytest.approx(R @ values["v"])
    assert evaluate(graph, turn.into(v), values, {}) == pytest.approx(R.T @ values["v"])


def test_quarter_turns_are_exact_and_no_others():
    exact = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))
    for k in range(-8, 9):
        right = k * (math.pi / 2)
        assert turn(right) == exact[k % 4]
        for off in (-1e-9, 1e-9, 0.3):
            assert turn(right + off) == (math.cos(right + off), math.sin(right + off))
        for off in (0.0, 1e-9, -0.3):
            graph = Graph()
            angle = graph.variable("q", 0)
            rotation = variable_rotation(graph, angle, right + off)
            c, s = evaluate(graph, [rotation.c, rotation.s], {"q": [0.7]}, {})
            assert (c, s) == pytest.approx((math.cos(0.7 + right + off), math.sin(0.7 + right + off)), abs=2e-15)
            assert graph.count([rotation.c, rotation.s]) == Count(0, int(off != 0.0)), "a quarter turn costs nothing"
