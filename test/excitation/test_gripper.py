# SPDX-License-Identifier: Apache-2.0

"""Gripper joints are named, with the option that holds them."""

from __future__ import annotations

import pytest

from excitation_robots import example_urdf
from ros2_dynid.commands.shared.arguments import as_flag
from ros2_dynid.excitation.gripper import gripper_joints, gripper_notes
from ros2_dynid.model.load import load_robot


@pytest.mark.parametrize(
    ("urdf", "joints"),
    [
        ("panda_description/urdf/panda.urdf", ("panda_finger_joint1",)),
        ("tiago_pro_description/robots/tiago_pro.urdf", ("gripper_left_finger_joint", "gripper_right_finger_joint")),
        ("ur_description/urdf/ur5_robot.urdf", ()),
        ("xarm_description/urdf/xarm7.urdf", ()),
        ("solo_description/robots/solo12.urdf", ()),  # legs are short branches too, but of the base
        ("simple_humanoid_description/urdf/simple_humanoid.urdf", ()),  # arms on a torso
    ],
)
def test_grippers_of_known_robots(urdf, joints):
    robot = load_robot(example_urdf(urdf))
    assert gripper_joints(robot) == joints
    assert len(gripper_notes(robot)) == (1 if joints else 0)


def test_the_note_can_be_typed():
    path = example_urdf("panda_description/urdf/panda.urdf")
    (note,) = gripper_notes(load_robot(path))
    assert note.render(as_flag).endswith("--hold panda_finger_joint1=0")
    held = load_robot(path, hold={"panda_finger_joint1": 0.0})
    assert not gripper_notes(held) and len(held.active) == 7
