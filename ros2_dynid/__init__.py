# SPDX-License-Identifier: Apache-2.0

"""Dynamic identification of robots: base parameters from a URDF and a recording, and torque feedforward.

    import ros2_dynid as dynid

    robot = dynid.load_robot("robot.urdf")
    identified = dynid.identify(robot, ["recording"])

`dynid.__all__` lists the public names; docs/python.md explains them. All else is private and may change.
"""

from __future__ import annotations

import importlib
from pkgutil import extend_path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ros2_dynid.api import (
        BaseParameters,
        DynidError,
        Identification,
        IdentifiedModel,
        IdentifyOptions,
        Payload,
        Plan,
        PlanOptions,
        Robot,
        Samples,
        Trajectory,
        compute_base_parameters,
        compute_regressor,
        compute_torque,
        export_mjcf,
        export_urdf,
        identify,
        identify_payload,
        load_model,
        load_robot,
        load_trajectory,
        make_torque_function,
        plan_excitation,
        plan_standing_poses,
        read_recording,
        roll_out,
        save_trajectory,
        write_recording,
    )
    from ros2_dynid.version import __version__

# The generated ros2_dynid.msg, .srv and .action may be in another folder of the same name, as they are when the code
# runs from a checkout. A colcon install puts this file in place of the empty one that the generator writes.
__path__ = extend_path(__path__, __name__)

__all__ = [
    "BaseParameters",
    "DynidError",
    "Identification",
    "IdentifiedModel",
    "IdentifyOptions",
    "Payload",
    "Plan",
    "PlanOptions",
    "Robot",
    "Samples",
    "Trajectory",
    "__version__",
    "compute_base_parameters",
    "compute_regressor",
    "compute_torque",
    "export_mjcf",
    "export_urdf",
    "identify",
    "identify_payload",
    "load_model",
    "load_robot",
    "load_trajectory",
    "make_torque_function",
    "plan_excitation",
    "plan_standing_poses",
    "read_recording",
    "roll_out",
    "save_trajectory",
    "write_recording",
]


def __getattr__(name: str) -> object:
    """Import the public names when one is first asked for: nodes and the command line need not wait for all of them."""
    if name == "__version__":
        return importlib.import_module("ros2_dynid.version").__version__
    if name in __all__:
        return getattr(importlib.import_module("ros2_dynid.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
