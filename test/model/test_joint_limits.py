# SPDX-License-Identifier: Apache-2.0

"""MoveIt's joint_limits.yaml: velocity, acceleration and position limits beside those of the URDF."""

from __future__ import annotations

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.joint_limits import with_joint_limits
from urdf_arm import arm


@pytest.fixture
def files(tmp_path):
    """Return a writer of robot files beside arm.urdf, in a folder that is not the present one."""
    folder = tmp_path / "robots"
    folder.mkdir()
    (folder / "arm.urdf").write_text(arm())

    def write(text, name="r.yaml"):
        (folder / name).write_text(text)
        return folder / name

    return write


def test_limits_for_moveit(files):
    robot = robot_from_urdf_string(arm())
    for flag, entry, changed in (
        ("position", "min_position: -1, max_position: 1.5", {"lower": -1.0, "upper": 1.5}),
        ("velocity", "max_velocity: 0.5", {"velocity": 0.5}),
        ("acceleration", "max_acceleration: 0.25", {"acceleration": 0.25}),
        ("effort", "max_effort: 7", {"effort": 7.0}),
    ):
        before = robot.joints[1].limits
        for has, counts in (("", True), (f", has_{flag}_limits: true", True), (f", has_{flag}_limits: false", False)):
            file = files(f"joint_limits: {{j2: {{{entry}{has}}}}}\n", "l.yaml")
            joints = with_joint_limits(robot, file).joints
            for kind in ("lower", "upper", "velocity", "acceleration", "effort"):
                wanted = changed.get(kind, getattr(before, kind)) if counts else getattr(before, kind)
                assert getattr(joints[1].limits, kind) == wanted
            assert joints[0] == robot.joints[0] and joints[2] == robot.joints[2]
    lone = files("joint_limits: {j2: {has_position_limits: true, max_position: 1.0}}\n", "l.yaml")
    assert with_joint_limits(robot, lone).joints[1].limits.lower == -3.0
    for wrong in ("min_position: 4", "max_position: -3.5", "min_position: 2, max_position: 1"):
        with pytest.raises(InputError, match="min_position > max_position"):
            with_joint_limits(robot, files(f"joint_limits: {{j2: {{{wrong}}}}}\n", "l.yaml"))
    for wrong in ("max_velocity: 0", "max_acceleration: -1", "max_effort: 0"):
        with pytest.raises(InputError, match="give a positive number"):
            with_joint_limits(robot, files(f"joint_limits: {{j2: {{{wrong}}}}}\n", "l.yaml"))
    for wrong in ("max_velocity: true", "max_velocity: .inf", "max_velocity: fast", "min_position: .nan"):
        with pytest.raises(InputError, match="give a finite number"):
            with_joint_limits(robot, files(f"joint_limits: {{j2: {{{wrong}}}}}\n", "l.yaml"))
    inner = "robot_description_planning: {joint_limits: {j1: {max_velocity: 1}}}"
    wrapped = files(f"/**: {{ros__parameters: {{{inner}}}}}\n", "l.yaml")
    assert with_joint_limits(robot, wrapped).joints[0].limits.velocity == 1.0
    two = files(f"a: {{{inner}}}\nb: {{{inner}}}\n", "l.yaml")
    with pytest.raises(InputError, match="no mapping joint_limits"):
        with_joint_limits(robot, two)
