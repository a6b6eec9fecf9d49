# SPDX-License-Identifier: Apache-2.0

"""Quality of service of the topics that our nodes publish and subscribe to."""

from __future__ import annotations

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, reliability=ReliabilityPolicy.RELIABLE)
ANNOUNCED = QoSProfile(
    depth=1,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
    reliability=ReliabilityPolicy.RELIABLE,
    liveliness=LivelinessPolicy.AUTOMATIC,
    liveliness_lease_duration=Duration(seconds=1.5),
)
"""Latched, and missed within its lease when the node that published it is killed: the middleware itself takes 20 s."""
ANY_PUBLISHER = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Of a subscription that matches every publisher, latched or not, reliable or not."""
SERVICES = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
"""Of services: as many requests wait as anybody sends at once; of the usual ten the others would never be answered."""
JOINT_STATES = QoSProfile(depth=2000, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Matches every publisher of joint states, and holds two seconds of them at 1 kHz while we are busy."""
COMMANDS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
STREAMED = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
"""For references at 1 kHz: none is lost while we are busy."""
