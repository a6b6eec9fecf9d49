# SPDX-License-Identifier: Apache-2.0

"""Node excitation: plans, approaches, runs and supervises an exciting trajectory."""

from ros2_dynid.nodes.excitation.node import main

__all__ = ["main"]
