# SPDX-License-Identifier: Apache-2.0

"""Node panel: the suite in a browser."""

from ros2_dynid.nodes.panel.node import main

__all__ = ["main"]
