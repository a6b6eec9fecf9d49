# SPDX-License-Identifier: Apache-2.0

"""Following the excitation's state, and noticing when the node that announced it has died."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.duration import Infinite
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node

from ros2_dynid.msg import ExcitationState
from ros2_dynid.nodes.common.messages import ANNOUNCED, LATCHED

TOPIC = "excitation_state"


class Following:
    """Calls on_change(exciting) when that changes, and with False when nobody is left to end it.

    A publisher that offers a lease of liveliness, as ours does, is missed as soon as that has run out; another one when
    the middleware gives it up. One that was only silent for a while and comes back is followed again (`returned`).
    """

    def __init__(self, node: Node, on_change: Callable[[bool], None]) -> None:
        """Listen; poll() is to be called twice a second or so."""
        self._node, self._on_change, self._logger = node, on_change, node.get_logger()
        self._announced = self._lost = self.returned = False
        self._watched: Any = None
        self._alive = 0
        node.create_subscription(ExcitationState, TOPIC, self._on_state, LATCHED)

    def poll(self) -> None:
        """Look whether the publisher is alive."""
        if not self._announced:
            return
        publishers = self._node.get_publishers_info_by_topic(TOPIC)
        if self._watched is None:
            leases = [publisher.qos_profile.liveliness_lease_duration for publisher in publishers]
            if leases and all(lease != Infinite for lease in leases):
                self._watch()
        elif self._lost and self._alive and publishers:
            self._lost, self.returned = False, True
            self._on_change(True)
        if not publishers:
            self._lose()

    def _watch(self) -> None:
        """Subscribe once more, with a lease: done only if the publisher offers one, since others would not match."""
        self._watched = self._node.create_subscription(
            ExcitationState,
            TOPIC,
            lambda message: None,
            ANNOUNCED,
            event_callbacks=SubscriptionEventCallbacks(liveliness=self._on_liveliness),
        )

    def _on_liveliness(self, event: Any) -> None:
        self._alive = event.alive_count
        if not self._alive:
            self._lose()

    def _on_state(self, message: ExcitationState) -> None:
        exciting = message.state == ExcitationState.EXCITING
        self._announced, self._lost, self.returned = exciting, False, False
        self._on_change(exciting)
        if exciting:
            self.poll()
        elif self._watched is not None:
            self._node.destroy_subscription(self._watched)
            self._watched = None

    def _lose(self) -> None:
        if self._announced and not self._lost:
            self._lost = True
            self._logger.warning("the excitation is gone")
            self._on_change(False)
