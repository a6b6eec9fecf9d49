# SPDX-License-Identifier: Apache-2.0

"""A served model of the demo arm, of chosen residuals and error bars."""

from __future__ import annotations

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.identification.model_file import IdentifiedModel, TorqueError, model_of
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")


def served_model(sigma, fit, std: float = 0.0) -> IdentifiedModel:
    """Return it with residual levels sigma and torque errors fit of each joint, and one standard deviation."""
    base = base_parameters(ROBOT)
    value, size = base.values(ROBOT, true_parameters(ROBOT, 2)), len(base)
    usual = {name: TorqueError(x, 0.01) for name, x in zip((*ROBOT.active_names, "all"), (*fit, 0.1), strict=True)}
    obtained = {"sigma": list(sigma), "dof": 30.0}
    return model_of(ROBOT, base, value, np.full(size, std), std**2 * np.eye(size), fit=usual, obtained=obtained)
