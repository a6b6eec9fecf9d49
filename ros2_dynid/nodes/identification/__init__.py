# SPDX-License-Identifier: Apache-2.0

"""Node identification: identifies a robot from bags, serves its base parameters, watches for drift."""

from ros2_dynid.nodes.identification.node import main

__all__ = ["main"]
