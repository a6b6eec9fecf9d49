# SPDX-License-Identifier: Apache-2.0

"""Plan an exciting trajectory within all limits and plot it: python plan_and_plot.py [ROBOT]."""

import sys

from matplotlib.figure import Figure

import ros2_dynid as dynid

robot = dynid.load_robot(sys.argv[1] if len(sys.argv) > 1 else "demo3")
options = dynid.PlanOptions(method="fourier", duration_s=10.0, time_budget_s=3.0, seed=1)
plan = dynid.plan_excitation(robot, options)
print(f"condition number {plan.cond_normalised:.1f} with columns of norm 1, {plan.duration:.1f} s")
for kind, share in plan.use.items():
    print(f"{kind:13} {100 * share:5.1f} % of the limit")

dynid.save_trajectory("exciting.yaml", plan.trajectory)  # ros2 topic pub takes this file
motion = dynid.load_trajectory("exciting.yaml").sample(100.0)
tau = dynid.compute_torque(robot, motion.q, motion.dq, motion.ddq)

figure = Figure(figsize=(8, 7), layout="constrained")
axes = figure.subplots(3, 1, sharex=True)
for axis, values, label in zip(
    axes, (motion.q, motion.dq, tau), ("position [rad]", "velocity [rad/s]", "torque [N.m]"), strict=True
):
    axis.plot(motion.t, values)
    axis.set_ylabel(label)
axes[0].legend(robot.active_names, ncols=3)
axes[-1].set_xlabel("time [s]")
figure.savefig("exciting.png", dpi=120)
