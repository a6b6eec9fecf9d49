# SPDX-License-Identifier: Apache-2.0

"""The demo's drives."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from geometry_msgs.msg import Inertia, Vector3

from ros2_dynid.control.reference import reference
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.mission import node as mission

pytestmark = pytest.mark.in_process


ROBOT = load_robot("demo3")


NAMES = ROBOT.active_names


class Pilot:
    """A client that keeps what it is told, and is off the reference by so much."""

    robot = ROBOT

    def __init__(self, **off):
        self.off, self.done = off, []

    def go(self, q):
        self.done.append(("go", np.round(q, 6).tolist()))

    def position(self):
        return np.zeros(3)

    def set(self, node, **values):
        self.done.append((node, values))

    def follow(self, points, *, feedforward):
        self.done.append(("follow", feedforward, points))
        t = np.linspace(0.0, points.duration, 5)
        error = np.zeros((5, 3))
        error[2] = self.off["with_" if feedforward else "without"]
        return t, points.sampled(t)[0] + error


def test_tracking_is_compared_without_and_with_feedforward():
    pilot = Pilot(without=(0.4, 0.0, 0.0), with_=(0.0, -0.1, 0.0))
    way = reference(NAMES, np.array([0.0, 2.0]), np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]))
    found = mission.tracking(pilot, way)
    assert found.without == pytest.approx(0.4 / np.sqrt(15)) and found.with_ == pytest.approx(0.1 / np.sqrt(15))
    assert found.ratio == pytest.approx(4.0)
    start = ("go", [1.0, 2.0, 3.0])
    assert [done[:2] for done in pilot.done] == [start, ("follow", False), start, ("follow", True), start]


def test_the_open_loop_moves_a_fifth_of_the_range_and_sets_back_what_it_set():
    pilot = Pilot(with_=(0.1, -0.2, 0.0))
    found = mission.open_loop(pilot, {"slow": 2.0, "quick": 1.0})
    limits = [joint.limits for joint in ROBOT.joints]
    lower, upper = (np.array([max(x.lower, -1.5) for x in limits]), np.array([min(x.upper, 1.5) for x in limits]))
    travel, middle = 0.2 * (upper - lower), (lower + upper) / 2
    share = np.array([0.1, 0.2, 0.0]) / travel
    assert set(found) == {
        f"{s}, {g}" for s in ("slow", "quick") for g in ("gravity at the reference", "on-line gravity")
    }
    for one in found.values():
        assert (one.worst, one.mean) == (pytest.approx(share.max()), pytest.approx(share.mean()))
    follows = [done[2] for done in pilot.done if done[0] == "follow"]
    assert [points.duration for points in follows] == pytest.approx([2.0, 2.0, 1.0, 1.0])
    np.testing.assert_allclose(follows[0].q[[0, -1]], [middle - travel / 2, middle + travel / 2])
    settings = [done[1] for done in pilot.done if done[0] == "feedforward"]
    assert [s["measured_gravity"] for s in settings] == [False, False, True, False] * 2
    assert [s["output"] for s in settings] == ["effort", "trajectory"] * 4
    assert settings[0]["hold_gravity_on_activate"] is False
    assert pilot.done[0] == ("go", np.round(middle - travel / 2, 6).tolist())


def test_a_payload_is_weighed_against_the_truth():
    payload = Inertia(m=1.8, com=Vector3(x=0.1, y=0.2, z=0.3))
    asked = []

    def call(kind, name, **fields):
        asked.append((name, fields))
        return SimpleNamespace(payload=payload, mass_std=0.05)

    found = mission.weighed(SimpleNamespace(call=call), "empty.bag", "loaded.bag", 2.0)
    assert asked[0][1]["empty_bags"] == ["empty.bag"] and asked[0][1]["loaded_bags"] == ["loaded.bag"]
    assert (found.true_mass, found.bag, found.mass, found.mass_std) == (2.0, "loaded.bag", 1.8, 0.05)
    assert found.com == (0.1, 0.2, 0.3) and found.relative_error == pytest.approx(0.1) and found.error is None

    def refuses(kind, name, **fields):
        raise ClientError("not excited")

    found = mission.weighed(SimpleNamespace(call=refuses), "empty.bag", "loaded.bag", 2.0)
    assert found.error == "not excited" and found.mass is None
