# SPDX-License-Identifier: Apache-2.0

"""What a node says about itself on /diagnostics, once a second: by diagnostic_updater where that is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
NodeStatus = tuple[bytes, str, Mapping[str, object]]
"""Level, message and values."""
TASK = "state"
PERIOD = 1.0


def publish_diagnostics(node: Node, status: Callable[[], NodeStatus]) -> None:
    """Publish status() of `node` every second as `NAME: state`, NAME with its namespace, as long as the node lives."""
    name = node.get_fully_qualified_name().strip("/")
    try:
        from diagnostic_updater import Updater
    except ImportError:
        publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 1)
        node.create_timer(PERIOD, lambda: publisher.publish(_array(node, f"{name}: {TASK}", status())))
        return
    updater = Updater(node, PERIOD)
    updater.setHardwareID("none")
    updater.node_name = name
    updater.add(TASK, lambda wrapper: _filled(wrapper, status()))


def _array(node: Node, name: str, status: NodeStatus) -> DiagnosticArray:
    level, message, values = status
    pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    array = DiagnosticArray(
        status=[DiagnosticStatus(level=level, name=name, message=message, hardware_id="none", values=pairs)]
    )
    array.header.stamp = node.get_clock().now().to_msg()
    return array


def _filled(wrapper: Any, status: NodeStatus) -> Any:
    level, message, values = status
    wrapper.summary(level, message)
    for key, value in values.items():
        wrapper.add(key, str(value))
    return wrapper
