# SPDX-License-Identifier: Apache-2.0

"""Plan an exciting trajectory for a robot, by optimum points or by Fourier series, and check it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gantry import GANTRY, ROBOT, wall
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import plan as planning
from ros2_dynid.excitation.limits import bounds_of, peak_effort
from ros2_dynid.excitation.plan import PlanOptions
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.model.parameters import standard_vector

NAMES, INDEX = ROBOT.active_names, [0, 1, 2]


BOUNDS = bounds_of(ROBOT, 0.0)


MIDDLE = np.array([0.5, -1.25, 0.7])


CHI = standard_vector(ROBOT)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"method": "magic"}, "unknown method"),
        ({"criterion": "size"}, "unknown criterion"),
        ({"time_budget_s": 0.0}, "time budget"),
        ({"time_budget_s": np.inf}, "time budget"),
        ({"duration_s": 0.0}, "duration"),
        ({"duration_s": np.nan}, "duration"),
        ({"harmonics": 2}, "2 harmonics"),
        ({"harmonics": 41}, "41 harmonics"),
        ({"periods": 0}, "0 periods"),
        ({"periods": 1001}, "1001 periods"),
        ({"weights": (1.0, 1.0)}, "one for each"),
        ({"weights": (1.0, 0.0, 1.0)}, "positive"),
        ({"weights": (1.0, np.inf, 1.0)}, "positive"),
    ],
)
def test_wishes_that_no_plan_can_meet(wish, words):
    with pytest.raises(InputError, match=words):
        planning.check_options(PlanOptions(**wish), ROBOT)


def curve_of(a, b, u=2.0):
    return through_points(np.array([0.0, u]), np.array([a, b], dtype=float), np.zeros((2, 3)))


def test_what_is_wrong_with_a_curve():
    good = curve_of(MIDDLE, MIDDLE + np.array([0.5, 0.3, -0.2]), 5.0)
    penalty = SimpleNamespace(bounds=BOUNDS, chi=None)
    assert planning.problems_of(ROBOT, good, penalty, None) == []
    far = curve_of(MIDDLE, MIDDLE + np.array([0.0, 0.8, 0.0]), 5.0)
    (problem,) = planning.problems_of(ROBOT, far, penalty, None)
    assert NAMES[1] in problem
    weak = np.array([500.0, 400.0, 0.1])
    told = planning.problems_of(ROBOT, good, SimpleNamespace(bounds=replace(BOUNDS, effort=weak), chi=CHI), None)
    assert len(told) == 1 and told[0].startswith(f"torque of joint '{NAMES[2]}' reaches ")
    peak = peak_effort(ROBOT, good, CHI)
    for k in range(3):
        for share, count in ((1.001, 0), (0.999, 1)):
            effort = 2.0 * peak
            effort[k] = share * peak[k]
            tight = SimpleNamespace(bounds=replace(BOUNDS, effort=effort), chi=CHI)
            told = planning.problems_of(ROBOT, good, tight, None)
            assert len(told) == count and all(f"torque of joint '{NAMES[k]}'" in one for one in told)
    assert planning.problems_of(GANTRY, good, penalty, wall(0, MIDDLE[0] - 0.06)) == []
    end = wall(0, MIDDLE[0] + 0.53, -1.0)
    assert planning.problems_of(GANTRY, good, penalty, end) == ["hand and plane 1 come within 0.03 m"]
