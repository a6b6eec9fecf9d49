"""What a node says about itself on /diagnostics, once a second."""

from __future__ import annotations

from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class Diagnostics:
    """Publishes node.status(), level, message and values, as long as the node lives."""

    def __init__(self, node: Any) -> None:
        """Start with the node."""
        self._node = node
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._timer = node.create_timer(1.0, self._publish)

    def _publish(self) -> None:
        level, message, values = self._node.status()
        name = self._node.get_fully_qualified_name().strip("/")
        pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        array = DiagnosticArray(status=[DiagnosticStatus(level=level, name=name, message=message, values=pairs)])
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(array)
