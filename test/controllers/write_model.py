# SPDX-License-Identifier: Apache-2.0

"""Write the runtime file of the demo robot for test_lifecycle.cpp: python write_model.py FILE."""

import sys
from pathlib import Path

import numpy as np

from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

if __name__ == "__main__":
    robot = load_robot("demo6")
    bars = ErrorBars(np.linspace(0.3, 0.8, robot.n), np.full(robot.n, 0.1))
    Path(sys.argv[1]).write_bytes(runtime_bytes(robot, true_parameters(robot, 3), bars))
