# SPDX-License-Identifier: Apache-2.0

"""Predicted torque beside the measured one, as a plot wants it: a JointState like the measured one, with its stamp."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from ros2_dynid.control.prediction import MotionWindow
from ros2_dynid.model.robot import Array
from ros2_dynid.nodes.common.fast import unpacked
from ros2_dynid.recording.live import LiveStates

PLOTTED = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)


class Predicted:
    """Publishes ~/predicted while somebody listens: effort is the model's torque along the measured motion.

    The joints come in the order of the measured message, so that effort[i] is the same joint in both; those that the
    model does not know have NaN.
    """

    def __init__(self, node: Node, rate: float, *, band: bool = False) -> None:
        """Advertise the topic of `node`; it is sent at most `rate` times a second [Hz].

        band: ~/predicted_upper and ~/predicted_lower too, between which 95 % of the measured torques are.
        """
        self.rate = rate
        self.publisher = node.create_publisher(JointState, "~/predicted", PLOTTED)
        names = ("~/predicted_lower", "~/predicted_upper") if band else ()
        self.edges = tuple(node.create_publisher(JointState, name, PLOTTED) for name in names)
        self._window = MotionWindow()
        self._joints: tuple[str, ...] = ()
        self._last = 0

    @property
    def listened(self) -> bool:
        """Whether somebody listens."""
        return any(publisher.get_subscription_count() for publisher in (self.publisher, *self.edges))

    def take(
        self,
        data: bytes,
        states: LiveStates,
        torque: Callable[[Array, Array, Array], Array] | None,
        band: Callable[[Array, Array, Array], Array] | None = None,
    ) -> None:
        """Take a serialized JointState with what it says; torque(q, dq, ddq), shape (n,), is the model's.

        band(q, dq, ddq): half width of its band, shape (n,).
        """
        if torque is None or not self.listened:
            return
        if states.names != self._joints:
            self._joints, self._window = states.names, MotionWindow()
        self._window.take(states.stamp, states.q)
        if 0 <= states.stamp - self._last < 1e9 / self.rate:
            return
        motion = self._window.middle()
        if motion is None:
            return
        self._last = states.stamp
        names = _names(data, states.names)
        place = [names.index(name) for name in states.names]
        message = JointState(name=names)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(motion.stamp, 1_000_000_000)
        tau = torque(motion.q, motion.dq, motion.ddq)
        message.position, message.velocity, message.effort = (
            _spread(values, place, len(names)) for values in (motion.q, motion.dq, tau)
        )
        self.publisher.publish(message)
        if band is None or not any(edge.get_subscription_count() for edge in self.edges):
            return
        width = band(motion.q, motion.dq, motion.ddq)
        for edge, side in zip(self.edges, (-1.0, 1.0), strict=True):
            message.effort = _spread(tau + side * width, place, len(names))
            edge.publish(message)


def _names(data: bytes, known: Sequence[str]) -> list[str]:
    """Return the joints in the order of this measured message, or in ours if it does not carry them all."""
    names = list(unpacked(data, JointState).name)
    return names if set(known) <= set(names) and len(set(names)) == len(names) else list(known)


def _spread(values: Array, place: list[int], count: int) -> array[float]:
    spread = np.full(count, np.nan)
    spread[place] = values
    return array("d", spread)
