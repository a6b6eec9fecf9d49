# SPDX-License-Identifier: Apache-2.0

"""The identified model in Pinocchio and in MuJoCo: both give its gravity torques. Needs pin and mujoco."""

from pathlib import Path

import mujoco
import numpy as np
import pinocchio

import ros2_dynid as dynid
from simulated import simulate

urdf = Path(__file__).parents[1] / "config/robots/demo6.urdf"  # your robot's URDF
robot = dynid.load_robot(urdf)
options = dynid.IdentifyOptions(consistent=True)  # a URDF needs links that can exist
model = dynid.identify(robot, [simulate(robot)], options=options).model
updated = dynid.export_urdf(model, urdf, "exported")
mjcf = dynid.export_mjcf(model, "exported")
print(*updated.notes, *mjcf.notes, *updated.files, *mjcf.files, sep="\n")

q = np.random.default_rng(0).uniform(-1.0, 1.0, robot.n)
gravity = dynid.compute_torque(model, [q], [0 * q], [0 * q], friction=False)[0]

pin_model = pinocchio.buildModelFromUrdf(updated.files[0])
pin_gravity = pinocchio.computeGeneralizedGravity(pin_model, pin_model.createData(), q)
print(f"Pinocchio differs by {np.abs(pin_gravity - gravity).max():.1e} N.m")

mj_model = mujoco.MjModel.from_xml_path(mjcf.files[0])
mj_data = mujoco.MjData(mj_model)
mj_data.qpos[:] = q
mujoco.mj_inverse(mj_model, mj_data)
print(f"MuJoCo differs by {np.abs(mj_data.qfrc_inverse - gravity).max():.1e} N.m")
