# SPDX-License-Identifier: Apache-2.0

"""The model that a perfect identification of the simulated robot would give."""

from __future__ import annotations

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.identification.model_file import TorqueError, model_of, save_model
from ros2_dynid.sim.truth import true_parameters


def perfect_model(robot, path, seed=1):
    """Write it as a model file."""
    base, chi = base_parameters(robot), true_parameters(robot, seed)
    b = len(base)
    fit = {name: TorqueError(1.0, 0.01) for name in (*robot.active_names, "all")}
    save_model(model_of(robot, base, base.values(robot, chi), 0.01 * np.ones(b), 1e-4 * np.eye(b), fit=fit), path)
