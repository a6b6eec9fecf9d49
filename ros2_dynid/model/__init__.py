# SPDX-License-Identifier: Apache-2.0

"""The robot as frozen data, and its readers for URDFs and robot files.

`robot` is the data in modified Denavit-Hartenberg form, `parameters` names, orders and units of the standard
parameters. `load` finds and reads a robot: `urdf_xml`, `urdf`, `subchain`, `mdh` and `from_urdf` turn a URDF into one,
`robot_file` (with `yaml_values`) a table; `joint_limits` adds MoveIt's limits. `inertia`, `pseudo_inertia` and
`transforms` are the small algebra that these share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ros2_dynid.exports import lazy_exports

if TYPE_CHECKING:
    from ros2_dynid.model.from_urdf import robot_from_urdf_string
    from ros2_dynid.model.load import load_robot, shipped_robots
    from ros2_dynid.model.parameters import standard_names, standard_vector, unit_of
    from ros2_dynid.model.robot import Coupling, Joint, Limits, Passive, Robot

__all__ = [
    "Coupling",
    "Joint",
    "Limits",
    "Passive",
    "Robot",
    "load_robot",
    "robot_from_urdf_string",
    "shipped_robots",
    "standard_names",
    "standard_vector",
    "unit_of",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "Coupling": "robot",
        "Joint": "robot",
        "Limits": "robot",
        "Passive": "robot",
        "Robot": "robot",
        "load_robot": "load",
        "robot_from_urdf_string": "from_urdf",
        "shipped_robots": "load",
        "standard_names": "parameters",
        "standard_vector": "parameters",
        "unit_of": "parameters",
    },
)
