# SPDX-License-Identifier: Apache-2.0

"""Robots whose base floats: from URDF, MJCF and robot files, whole or a limb, and back into files."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
import yaml

from ros2_dynid.codegen.urdf_export import updated_urdf
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot, robot_from_urdf_string
from ros2_dynid.model.parameters import select_groups, standard_names, standard_vector
from ros2_dynid.model.robot import BASE_JOINTS
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from urdf_oracle import example_urdfs

URDFS = {path.name: path for path in example_urdfs()}
GO2 = URDFS["go2.urdf"]
FREE_BODY = """<mujoco><worldbody>
  <body name="trunk" pos="0 0 0.4"><freejoint/><inertial pos="0.01 0.02 0.03" mass="5" diaginertia=".1 .2 .25"/>
    <body name="thigh" pos="0.2 0.1 0"><joint name="hip" axis="0 1 0"/>
      <inertial pos="0 0 -0.1" mass="1" diaginertia=".01 .01 .002"/></body></body>
  <body name="box"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia=".1 .1 .1"/></body>
</worldbody></mujoco>"""


def test_ten_parameters_of_the_base_link_join_those_of_the_joints():
    robot = load_robot(GO2, floating_base=True)
    held = load_robot(GO2)
    assert robot.active_names == (*BASE_JOINTS, *held.active_names)
    assert len(select_groups(robot, None)) == 10 + len(standard_names(held))
    trunk = pin.buildModelFromUrdf(str(GO2), pin.JointModelFreeFlyer()).inertias[1]
    assert robot.parameters["M6"] == pytest.approx(trunk.mass)
    centre = np.array([robot.parameters.get(f"M{axis}6", 0.0) for axis in "XYZ"]) / trunk.mass
    frame = np.linalg.inv(robot.tools["base"][1])
    np.testing.assert_allclose(frame[:3, :3] @ centre + frame[:3, 3], trunk.lever, atol=1e-12)


def test_a_limb_floats_alone():
    leg = load_robot(GO2, floating_base=True, base_link="base", tip_link="FL_foot")
    assert leg.active_names == (*BASE_JOINTS, "FL_hip_joint", "FL_thigh_joint", "FL_calf_joint")


def test_a_free_joint_of_an_mjcf_floats(tmp_path):
    file = tmp_path / "robot.xml"
    file.write_text(FREE_BODY)
    robot = load_robot(file, floating_base=True)
    assert robot.active_names == (*BASE_JOINTS, "hip")
    assert robot.parameters["M6"] == 5.0
    assert not load_robot(file).floating  # held, as before
    with pytest.raises(InputError, match="there is no base link"):
        load_robot(file, base_link="nothing", floating_base=True)


def test_robot_files_and_models_keep_it(tmp_path):
    (tmp_path / "robot.yaml").write_text(yaml.safe_dump({"urdf": str(GO2), "floating_base": True}))
    robot = load_robot(tmp_path / "robot.yaml")
    assert robot.floating
    again = robot_from_dict(robot_to_dict(robot), "again")
    assert again.floating
    assert again.joints == robot.joints
    np.testing.assert_array_equal(standard_vector(again), standard_vector(robot))
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump({"urdf": str(GO2), "floating_base": "yes"}))
    with pytest.raises(InputError, match="floating_base"):
        load_robot(tmp_path / "bad.yaml")


def test_parameters_go_back_into_the_urdf():
    text = GO2.read_bytes()
    robot = robot_from_urdf_string(text, floating_base=True)
    values = dict(robot.parameters) | {"M6": robot.parameters["M6"] + 2.0}
    changed, _ = updated_urdf(text, robot, values, floating_base=True)
    again = robot_from_urdf_string(changed, floating_base=True)
    for name, value in values.items():
        if not name.startswith(("Fv", "Fc")):
            assert again.parameters.get(name, 0.0) == pytest.approx(value, abs=1e-9)


def test_names_that_are_taken_are_refused():
    text = GO2.read_text().replace('"FL_hip_joint"', '"base.yaw"')
    with pytest.raises(InputError, match=r"base\.yaw"):
        robot_from_urdf_string(text, floating_base=True)
