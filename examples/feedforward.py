# SPDX-License-Identifier: Apache-2.0

"""Feedforward in ten lines: what the model says a motion takes, sample by sample, as a control loop asks for it."""

import numpy as np

import ros2_dynid as dynid
from simulated import simulate

robot = dynid.load_robot("demo6")
model = dynid.identify(robot, [simulate(robot)]).model  # or dynid.load_model("result/model.yaml")
feedforward = dynid.make_torque_function(model)

for t in np.arange(0.0, 1.0, 0.25):
    q, dq, ddq = (np.full(6, x) for x in (0.5 * np.sin(t), 0.5 * np.cos(t), -0.5 * np.sin(t)))
    tau = feedforward.torque(q, dq, ddq)  # plus K (q - q_measured) + D (dq - dq_measured) of your controller
    print(f"{t:.2f} s", tau.round(2))
