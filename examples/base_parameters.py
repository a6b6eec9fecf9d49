# SPDX-License-Identifier: Apache-2.0

"""Base parameters of a URDF, and the identity W chi = W[:, leaders] base: python base_parameters.py [ROBOT]."""

import sys

import numpy as np

import ros2_dynid as dynid

robot = dynid.load_robot(sys.argv[1] if len(sys.argv) > 1 else "demo6")
base = dynid.compute_base_parameters(robot, method="closed-form")
print(f"{len(base.standard_names)} standard parameters, {len(base)} base parameters")
for k, name in enumerate(base.names):
    terms = " ".join(f"{factor:+.4g} {standard}" for standard, factor in base.terms(k).items())
    print(f"{name:6} = {terms}")
print("without effect:", ", ".join(base.eliminated))

rng = np.random.default_rng(0)
q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 100, len(robot.active_names)))
Y = dynid.compute_regressor(robot, q, dq, ddq)  # (100, n, n_standard)
chi = rng.uniform(0.0, 1.0, Y.shape[2])
error = np.abs(Y @ chi - Y[:, :, base.columns(robot)] @ base.values(robot, chi)).max()
print(f"largest difference of torques: {error:.1e} N.m")
