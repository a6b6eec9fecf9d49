# SPDX-License-Identifier: Apache-2.0

"""The plan for RViz: joint states that play it, and the tip's path as markers where visualization_msgs is installed."""

from __future__ import annotations

from array import array
from typing import Any

from geometry_msgs.msg import Point
from rclpy.node import Node
from sensor_msgs.msg import JointState

from ros2_dynid.model.robot import Array
from ros2_dynid.nodes.common.qos import LATCHED

WIDTH_M = 0.004


class Rviz:
    """Publishes ~/plan_path and preview/joint_states."""

    def __init__(self, node: Node) -> None:
        """Advertise what can be published here."""
        self._node = node
        self._states = node.create_publisher(JointState, "preview/joint_states", 10)
        self._markers: Any = None
        try:
            from visualization_msgs.msg import Marker, MarkerArray
        except ImportError:
            return
        self._kind, self._array = Marker, MarkerArray
        self._markers = node.create_publisher(MarkerArray, "~/plan_path", LATCHED)

    def path(self, path: Array, frame: str) -> None:
        """Show the tips' paths, shape (N, tips, 3) [m], in the frame of the base."""
        if self._markers is None:
            return
        markers = []
        for tip in range(path.shape[1]):
            marker = self._kind(type=self._kind.LINE_STRIP, action=self._kind.ADD, id=tip, ns="dynid_plan")
            marker.header.frame_id = frame
            marker.header.stamp = self._node.get_clock().now().to_msg()
            marker.pose.orientation.w, marker.scale.x = 1.0, WIDTH_M
            marker.color.r, marker.color.g, marker.color.b, marker.color.a = 0.85, 0.28, 0.06, 1.0
            marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in path[:, tip]]
            markers.append(marker)
        self._markers.publish(self._array(markers=markers))

    def pose(self, names: tuple[str, ...], q: Array) -> None:
        """Send the pose of the planned robot, if somebody listens."""
        if not self._states.get_subscription_count():
            return
        message = JointState(name=list(names), position=array("d", q))
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._states.publish(message)
