# SPDX-License-Identifier: Apache-2.0

"""Obstacles of the excitation node: by service and from the planning scene, while the robot rests."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from rclpy.callback_groups import ReentrantCallbackGroup
from ros2_dynid.srv import SetObstacles

from planning_scenes import pose, primitive, scene, thing
from publishing_node import OneNode
from ros2_dynid.confined import Folder
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.obstacles import read_obstacles
from ros2_dynid.nodes.excitation.obstacles import Obstacles

BALL = (primitive(2, 0.3), pose())
FILE = "obstacles: [{name: lamp, sphere: 0.1, at: [0, 0, 2]}]"


@pytest.fixture
def there(tmp_path, monkeypatch):
    """Return obstacles beside a graph where moveit_msgs is installed, with a switch for a robot that moves."""
    messages = SimpleNamespace(PlanningScene=object)
    monkeypatch.setitem(sys.modules, "moveit_msgs", SimpleNamespace(msg=messages))
    monkeypatch.setitem(sys.modules, "moveit_msgs.msg", messages)
    (tmp_path / "around.yaml").write_text(FILE)
    moving, node = [], OneNode()

    def changed():
        if moving:
            raise InputError("a motion is under way", "wait")
        return "the plan keeps clear of them"

    value = {"obstacles": str(tmp_path / "around.yaml"), "planning_scene": "monitored_planning_scene"}.__getitem__
    made = Obstacles(node, value, Folder(tmp_path), ReentrantCallbackGroup(), changed, lambda: "base_link")
    return made, node, moving


def names(made):
    return [one.name for one in read_obstacles(made.file)]


def test_the_scene_stands_beside_the_file_and_waits_while_the_robot_moves(there):
    made, node, moving = there
    hear, told = node.made["monitored_planning_scene"], node.made["~/obstacles"].sent
    assert names(made) == ["lamp"] and "lamp" in told[-1].data
    hear(scene(thing("a", BALL), thing("far", BALL, frame="camera")))
    assert names(made) == ["lamp", "a"] and "the frame 'camera'" in node.log.said[0][1]
    moving.append(True)
    hear(scene(thing("b", BALL), diff=True))
    hear(scene(thing("a", operation=1), diff=True))
    assert names(made) == ["lamp", "a"] and "a motion is under way" in node.log.said[-1][1]
    with pytest.raises(InputError, match="under way"):
        made.catch_up()
    moving.clear()
    made.catch_up()
    assert names(made) == ["lamp", "b"], "both changes, though the first was told long ago"
    count = len(told)
    made.catch_up()
    assert len(told) == count, "nothing new"


def test_what_is_set_takes_the_place_of_the_file_until_that_is_used_again(there, tmp_path):
    made, node, moving = there
    ask = lambda text: node.made["~/set_obstacles"](SetObstacles.Request(obstacles=text), SetObstacles.Response())  # noqa: E731
    node.made["monitored_planning_scene"](scene(thing("a", BALL)))
    answer = ask("obstacles: [{name: post, cylinder: [0.1, 1]}]")
    assert answer.success and answer.message == "1 obstacle; the plan keeps clear of them"
    assert names(made) == ["post", "a"]
    moving.append(True)
    assert not ask("obstacles: []").success and names(made) == ["post", "a"]
    moving.clear()
    assert ask("obstacles: []").success and names(made) == ["a"]
    made.use_file()
    assert names(made) == ["lamp", "a"]
    assert {file.name for file in tmp_path.iterdir()} == {"around.yaml", "obstacles_in_use.yaml"}
