"""The torque that the gears carry, which load-dependent friction grows with: that of links and rotors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.backend import fast_inverse_dynamics
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot


def with_carried(robot: Robot, base: BaseParameters, value: Array, prepared: Prepared) -> Prepared:
    """Return the recording with the torque without friction of base parameters `value`, shape (b,)."""
    chi = np.zeros(len(standard_names(robot)))
    chi[base.columns(robot)] = value
    carried = fast_inverse_dynamics(*frictionless(robot, chi), prepared.q, prepared.dq, prepared.ddq)
    return replace(prepared, carried=carried)
