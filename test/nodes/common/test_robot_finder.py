# SPDX-License-Identifier: Apache-2.0

"""Where a node finds its robot."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from std_msgs.msg import String

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.nodes.common.robot_finder import RobotFinder
from urdf_text import joint, urdf

pytestmark = pytest.mark.in_process


FREE = '<limit lower="-2" upper="2" velocity="3" effort="90"/>'


BODY = '<inertial><mass value="3"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


ARM = urdf(
    '<link name="root"/>',
    *(f'<link name="{name}">{BODY}</link>' for name in ("one", "two", "three")),
    joint("a", "root", "one", inside=FREE),
    joint("b", "one", "two", xyz="0.4 0 0", axis="0 1 0", inside=FREE),
    joint("c", "two", "three", xyz="0.5 0 0", axis="0 1 0", inside=FREE),
    name="arm",
)


def described(made, text):
    """Send a description, and wait until it is read."""
    made[-1][2](String(data=text))
    for thread in threading.enumerate():
        if thread.name == "description":
            thread.join(30.0)
            assert not thread.is_alive(), "the description was not read within 30 s"


def finder(on_robot=None, **values):
    said, made, found = [], [], []
    log = SimpleNamespace(info=said.append, error=said.append)
    node = SimpleNamespace(get_logger=lambda: log, create_subscription=lambda *args: made.append(args))
    take = on_robot or found.append
    return RobotFinder(node, lambda name: values.get(name, ""), take), said, made, found


def test_a_description_is_taken_once_and_again_when_it_differs():
    finds, said, made, found = finder()
    with pytest.raises(InputError, match="the robot is not known yet"):
        finds.known()
    finds.find()
    finds.find()
    assert len(made) == 1 and made[0][1] == "robot_description", "one subscription"
    assert (finds.robot, finds.text, finds.base_link) == (None, "", "base_link")
    described(made, ARM)
    described(made, ARM)
    assert [robot.name for robot in found] == ["arm"] and finds.known() is found[0]
    assert (finds.text, finds.base_link) == (ARM, "root")
    other = ARM.replace('name="arm"', 'name="other"')
    described(made, other)
    assert [robot.name for robot in found] == ["arm", "other"]
    described(made, "<robot")
    assert finds.known().name == "other" and "robot_description" in said[-1], "what cannot be read changes nothing"
    source = finds.source()
    assert (source.path, source.urdf, source.base_link, source.tip_link) == ("", other, None, None)
    finds.forget()
    assert finds.robot is None
    finds.find()
    assert len(made) == 2


def test_a_robot_that_is_refused_leaves_the_one_before():
    refuse = [False]

    def take(robot):
        if refuse[0]:
            raise DynidError("not while it moves")

    finds, said, made, _ = finder(take)
    finds.find()
    described(made, ARM)
    refuse[0] = True
    described(made, ARM.replace('name="arm"', 'name="other"'))
    assert finds.known().name == "arm" and finds.text == ARM and "not while it moves" in said[-1]
    refuse[0] = False
    described(made, ARM.replace('name="arm"', 'name="other"'))
    assert finds.known().name == "other", "and may come again"


def test_a_file_gives_the_chain_asked_for(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    finds, _, made, found = finder(robot=str(path), base_link="one", tip_link="two")
    finds.find()
    assert not made and found[0].active_names == ("b",)
    assert (finds.text, finds.base_link) == (ARM, "one")
    source = finds.source()
    assert (source.path, source.urdf, source.base_link, source.tip_link) == (str(path), "", "one", "two")
    finds, _, _, found = finder(robot=str(path))
    finds.find()
    assert found[0].active_names == ("a", "b", "c") and finds.base_link == "root"
    finds, _, _, found = finder(robot="demo3")
    finds.find()
    assert finds.text == "" and finds.base_link == "base_link", "a table has no links"
    finds, _, made, found = finder(base_link="one", tip_link="two")
    finds.find()
    described(made, ARM)
    assert found[0].active_names == ("b",) and finds.base_link == "one"


def test_a_description_is_read_beside_its_callback_and_one_too_long_is_refused():
    found, read = [], threading.Event()

    def take(robot):
        assert read.wait(30.0)
        found.append(robot)

    finds, said, made, _ = finder(take)
    finds.find()
    for name in ("first", "between", "last"):  # nobody waits for the first
        made[0][2](String(data=ARM.replace('name="arm"', f'name="{name}"')))
    assert not found
    read.set()
    described(made, ARM)
    assert [robot.name for robot in found][-1] == "arm" and len(found) < 4, "those in between need not be read"
    described(made, ARM + 5_000_000 * " ")
    assert "it has more than 5 MB; publish it without meshes" in said[-1] and finds.known() is found[-1]
    made[0][2](String(data=ARM.replace('name="arm"', 'name="late"')))
    finds.forget()
    assert finds.robot is None and not any(thread.name == "description" for thread in threading.enumerate())
