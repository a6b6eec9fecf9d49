# SPDX-License-Identifier: Apache-2.0

"""Identify a robot from NumPy arrays: t (N,) [s], q [rad] and tau [N.m], (N, n) in the order of the robot's joints."""

import ros2_dynid as dynid
from simulated import simulate

robot = dynid.load_robot("demo6")
measured = simulate(robot)  # put your own arrays here
t, q, tau = measured.t, measured.q, measured.tau

samples = dynid.Samples(t, robot.active_names, q, tau=tau)  # velocities are optional
options = dynid.IdentifyOptions(cross_validate=4, standard=True)
model = dynid.identify(robot, [samples], options=options).model

print("joints:", ", ".join(robot.active_names))
for joint, error in model.validation.items():
    print(f"{joint:14} {error.rms:7.3f} N.m rms on data not used, {100 * error.relative:6.2f} % of the torque")
print(f"mass of link 3: {model.standard['M3']:.2f} kg, in the description {robot.parameters['M3']:.2f} kg")
