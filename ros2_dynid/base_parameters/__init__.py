# SPDX-License-Identifier: Apache-2.0

"""Base parameters: the combinations of standard parameters that a robot's torques, or its energy, can tell.

`base_parameters(robot)` is the way in; its result holds leaders, coefficients and how clear-cut the count is.
"""

from ros2_dynid.base_parameters.compute import METHODS, base_parameters
from ros2_dynid.base_parameters.numeric import SOURCES
from ros2_dynid.base_parameters.result import BaseParameters

__all__ = ["METHODS", "SOURCES", "BaseParameters", "base_parameters"]
