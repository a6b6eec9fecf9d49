# SPDX-License-Identifier: Apache-2.0

"""The demo's operator: goes through the whole mission with services, actions and topics."""

from ros2_dynid.nodes.mission.node import main

__all__ = ["main"]
