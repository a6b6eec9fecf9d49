# SPDX-License-Identifier: Apache-2.0

"""Tours of poses on ways that are not all clear, optimisers by what they are handed, and files of pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.excitation import friction_sweeps as sweeps
from ros2_dynid.excitation import static
from ros2_dynid.excitation.descent import TimeBudget, descend
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Limits

LIMITS = (Limits(-1.0, 2.0, 3.0, 5.0, 500.0), Limits(-2.0, -0.5, 1.0, 7.0, 400.0), Limits(0.2, 1.2, 2.0, 4.0, 300.0))
ROBOT = load_robot("demo3")
ROBOT = replace(ROBOT, joints=tuple(replace(j, limits=x) for j, x in zip(ROBOT.joints, LIMITS, strict=True)))
MIDDLE = np.array([0.5, -1.25, 0.7])


# --- tours


def tour(monkeypatch, clear, poses=4, **more):
    """Return the poses held, of a tour on which a way from a to b is clear where clear(a, b)."""
    monkeypatch.setattr(static, "way_is_clear", lambda robot, shapes, a, b: clear(a, b))
    found = static.static_poses(ROBOT, poses=poses, hold_s=0.5, seed=2, start=MIDDLE, candidates=40, **more)
    return found, found.at(found.curve.knots).q[1:-2:2]


def test_a_tour_ends_where_no_way_leads_on_and_the_way_back_is_clear(monkeypatch):
    def back(a, b):  # home is only reached from poses near to it
        return not np.array_equal(b, MIDDLE) or a[0] < 0.5

    _, free = tour(monkeypatch, lambda a, b: True)
    _, held = tour(monkeypatch, back)
    last = np.flatnonzero(free[:, 0] < 0.5)[-1]
    np.testing.assert_allclose(held, free[: last + 1])
    for never in (lambda a, b: False, lambda a, b: not np.array_equal(b, MIDDLE)):
        with pytest.raises(InputError, match="no safe pose can be reached"):
            tour(monkeypatch, never)
    only = []

    def once(a, b):
        if np.array_equal(b, MIDDLE):
            return True
        if np.array_equal(a, MIDDLE) and not only:
            only.append(b)
        return bool(only) and np.array_equal(b, only[0]) and np.array_equal(a, MIDDLE)

    _, held = tour(monkeypatch, once)
    assert len(held) == 1, "nowhere to go from there"


def test_usual_sweeps_and_ramps():
    assert sweeps.SPEEDS == (0.02, 0.06, 0.2, 0.5) and sweeps.LOADS == 3 and sweeps.MAX_SWEEP_S == 4.0
    found = static.ramps(ROBOT, start=MIDDLE, margin=0.0).sample(200.0)
    for k, limits in enumerate(LIMITS):
        steady = (np.abs(found.ddq[:, k]) < 1e-9) & (np.abs(found.dq[:, k]) > 1e-9)
        slowest = np.abs(found.dq[steady, k]).min()
        assert slowest == pytest.approx(0.05 * limits.velocity, rel=1e-6)
        assert np.abs(found.q[:, k] - MIDDLE[k]).max() <= 1.0 + 1e-9


# --- optimisers


@pytest.mark.parametrize(("spent", "until", "over"), [(4.0, 0.5, False), (6.0, 0.5, True), (9.0, 1.0, False)])
def test_a_descent_ends_at_its_share_of_the_time(spent, until, over):
    seen = []

    class Clock(TimeBudget):
        @property
        def spent(self):
            return spent

    descend(lambda x: seen.append(1) or (float(x @ x), 2 * x), np.ones(2), Clock(10.0), 5, until)
    assert (not seen) == over


# --- files


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize(("speed", "kept"), [(5e-10, False), (-5e-10, False), (1.5e-9, True), (-1.5e-9, True)])
def test_ends_are_at_rest_but_for_rounding(end, speed, kept):
    dq = np.zeros((2, 1))
    dq[end] = speed
    move = Trajectory(("a",), through_points(np.array([0.0, 1.0]), np.array([[0.0], [1.0]]), dq))
    found = move.sample(10.0).dq[[0, -1], 0]
    assert (found[end] != 0.0) == kept and found[1 - end] == 0.0
