# SPDX-License-Identifier: Apache-2.0

"""Where a robot comes from: a file or the text of a URDF, and the sub-chain of it; or an identified model."""

from __future__ import annotations

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.load import find_robot_file, load_robot
from ros2_dynid.usecases.plan import (
    Surroundings,
)
from ros2_dynid.usecases.preview import robot_appearance
from ros2_dynid.usecases.robot_source import RobotSource

URDF = find_robot_file("demo6").with_suffix(".urdf")


def test_one_robot_from_a_file_or_a_text_with_gravity_and_limits(tmp_path):
    with pytest.raises(InputError, match="no robot is given"):
        RobotSource()
    with pytest.raises(InputError, match="two robots are given"):
        RobotSource("demo3", "<robot/>")
    with pytest.raises(InputError, match="gravity"):
        RobotSource("demo3", gravity=(0.0, 0.0))
    name = load_robot("demo6").joints[1].name
    (tmp_path / "limits.yaml").write_text(f"joint_limits: {{{name}: {{max_velocity: 0.123}}}}")
    options = {"joint_limits": str(tmp_path / "limits.yaml"), "gravity": (0.0, 9.81, 0.0), "hold": {}}
    for source in (RobotSource(str(URDF), **options), RobotSource(urdf=URDF.read_text(), **options)):
        robot = source.load()
        assert robot.joints[1].limits.velocity == 0.123 and tuple(robot.gravity) == (0.0, 9.81, 0.0)
    held = {load_robot("demo6").joints[5].name: 0.3}
    for source in (RobotSource(str(URDF), hold=held), RobotSource(urdf=URDF.read_text(), hold=held)):
        assert len(source.load().active) == 5
        assert tuple(source.load().gravity) == tuple(load_robot("demo6").gravity)


def test_a_sub_chain_of_a_file_and_of_a_text():
    names = load_robot("demo6").active_names
    for source in ({"path": str(URDF)}, {"urdf": URDF.read_text()}):
        whole, tip, base = (
            RobotSource(**source, **chain).load().active_names
            for chain in ({}, {"tip_link": "forearm"}, {"base_link": "upper_arm"})
        )
        assert (whole, tip, base) == (names, names[:3], names[2:])


@pytest.mark.parametrize("text", [False, True])
def test_a_robot_looks_like_its_chain_and_what_is_around(text):
    where = {"urdf": URDF.read_text()} if text else {"path": str(URDF)}
    source = RobotSource(**where, tip_link="forearm", hold={"elbow": 0.5})
    box = (-1.0, 1.0, -2.0, 2.0, 0.0, 3.0)
    robot, look = robot_appearance(source, Surroundings(floor=-0.5, box=box))
    assert robot.active_names == source.load().active_names and look.bodies
    assert max(body.joint for body in look.bodies) <= robot.n and look.floor == -0.5 and tuple(look.box) == box
