# SPDX-License-Identifier: Apache-2.0

"""The trajectory: a curve of all active joints, sampled exactly at any rate, and its file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gantry import ROBOT
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.fourier import FourierSeries, rest_basis
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory, save_trajectory

NAMES, INDEX = ROBOT.active_names, [0, 1, 2]


MIDDLE = np.array([0.5, -1.25, 0.7])


def curve_of(a, b, u=2.0):
    return through_points(np.array([0.0, u]), np.array([a, b], dtype=float), np.zeros((2, 3)))


def test_samples_in_another_order_and_at_their_ends():
    c = (rest_basis(5) @ np.random.default_rng(0).normal(size=(9, 3))).T
    move = Trajectory(("a", "b", "c"), FourierSeries(4.0, c[:, 0], c[:, 1:6], c[:, 6:], 2), "fourier", 25.0)
    turned = move.ordered(("c", "a", "b"))
    t = np.linspace(0.0, 8.0, 50)
    for x, y in zip(vars(turned.at(t)).values(), vars(move.at(t)).values(), strict=True):
        np.testing.assert_allclose(x, y if x.ndim == 1 else y[:, [2, 0, 1]], atol=1e-12)
    assert move.ordered(("a", "b", "c")) is move and turned.kind == "fourier" and turned.rate_hz == 25.0
    assert len(move.t) == 201 and move.t[-1] == 8.0 and not move.dq[[0, -1]].any()
    odd = move.sample(0.3)
    np.testing.assert_allclose(odd.t, [0.0, 1 / 0.3, 2 / 0.3, 8.0])
    with pytest.raises(InputError, match="too many samples"):
        move.sample(1.3e7)
    for rate in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="rate"):
            move.sample(rate)
        with pytest.raises(InputError, match="rate"):
            Trajectory(("a", "b", "c"), move.curve, rate_hz=rate)
    for names in (("a", "b"), ("a", "a", "b")):
        with pytest.raises(InputError, match="name every joint once"):
            Trajectory(names, move.curve)


@pytest.mark.parametrize("where", ["positions", "velocities"])
def test_a_point_changed_by_hand_rules(tmp_path, where):
    move = Trajectory(NAMES, curve_of(MIDDLE, MIDDLE + 0.3))
    save_trajectory(tmp_path / "m.yaml", move, 20.0)
    text = (tmp_path / "m.yaml").read_text()
    assert load_trajectory(tmp_path / "m.yaml").kind == "points"
    lines = text.splitlines()
    for change, kind in ((1e-7, "points"), (8e-6, "points"), (1.5e-5, "file")):
        point = json.loads(lines[20].removeprefix("- "))
        point[where][1] += change
        (tmp_path / "n.yaml").write_text("\n".join([*lines[:20], f"- {json.dumps(point)}", *lines[21:]]))
        found = load_trajectory(tmp_path / "n.yaml")
        assert found.kind == kind
    assert found.rate_hz == pytest.approx((len(move.sample(20.0).t) - 1) / move.duration)
