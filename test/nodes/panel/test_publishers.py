# SPDX-License-Identifier: Apache-2.0

"""The plan for RViz."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Pose, Vector3
from std_msgs.msg import ColorRGBA, Header

from in_process import Kept
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.panel.publishers import Rviz

pytestmark = pytest.mark.in_process
NAMES = load_robot("demo3").active_names


class Marker:
    """The part of visualization_msgs/msg/Marker that is used: that package is not needed by the others."""

    LINE_STRIP, ADD = 4, 0

    def __init__(self, **fields):
        self.header, self.pose = Header(), Pose()
        self.scale, self.color, self.points = Vector3(), ColorRGBA(), []
        self.__dict__.update(fields)


class Shown:
    """A publisher that keeps what it is given."""

    def __init__(self):
        self.sent = []
        self.publish = self.sent.append


def test_paths_for_rviz_have_their_points_in_order(monkeypatch):
    package = SimpleNamespace(Marker=Marker, MarkerArray=lambda markers: markers)
    monkeypatch.setitem(sys.modules, "visualization_msgs", SimpleNamespace(msg=package))
    monkeypatch.setitem(sys.modules, "visualization_msgs.msg", package)
    made = {}

    def publisher(kind, topic, qos):
        made[topic] = Shown() if topic == "~/plan_path" else Kept()
        return made[topic]

    now = SimpleNamespace(to_msg=lambda: Time(sec=3))
    node = SimpleNamespace(create_publisher=publisher, get_clock=lambda: SimpleNamespace(now=lambda: now))
    rviz = Rviz(node)
    path = np.arange(24.0).reshape(4, 2, 3)
    rviz.path(path, "pedestal")
    ((first, second),) = made["~/plan_path"].sent
    for tip, marker in ((0, first), (1, second)):
        assert (marker.id, marker.type, marker.header.frame_id) == (tip, Marker.LINE_STRIP, "pedestal")
        np.testing.assert_array_equal([(p.x, p.y, p.z) for p in marker.points], path[:, tip])
        assert marker.pose.orientation.w == 1.0 and marker.scale.x == 0.004 and marker.color.a == 1.0
    rviz.pose(NAMES, np.array([1.0, 2.0, 3.0]))
    (state,) = made["preview/joint_states"].sent
    assert (list(state.name), list(state.position), state.header.stamp.sec) == (list(NAMES), [1.0, 2.0, 3.0], 3)
    made["preview/joint_states"].listeners = 0
    rviz.pose(NAMES, np.zeros(3))
    assert len(made["preview/joint_states"].sent) == 1
