# SPDX-License-Identifier: Apache-2.0

"""MoveIt's planning scene becomes obstacles: messages of the same fields, as they come from the wire."""

from __future__ import annotations

import numpy as np
import pytest

from planning_scenes import QUARTER, of, pose, primitive, scene, thing
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.obstacles import bodies_of, signed_distance
from ros2_dynid.excitation.planning_scene import APPEND, MOVE, REMOVE, SceneObjects, take_scene


def distances(objects, *points):
    bodies = bodies_of(objects.entries())
    return [[round(float(signed_distance(body, np.array(p))[0]), 6) for p in points] for body in bodies]


def test_primitives_stand_where_object_and_part_say():
    table = thing("table", (primitive(1, 1.0, 0.4, 0.2), pose(z=0.1)), at=pose(x=1.0, turn=QUARTER))
    post = thing("post", (primitive(3, 1.0, 0.1), pose(y=2.0)))
    ball, cone = (thing("ball", (primitive(2, 0.3), pose())), thing("cone", (primitive(4, 0.5, 0.2), pose(x=3.0))))
    objects, notes = take_scene(SceneObjects(), scene(table, post, ball, cone), "base_link")
    assert not notes and [(entry.name, entry.kind) for entry in objects.entries()] == [
        ("table", "box"), ("post", "cylinder"), ("ball", "sphere"), ("cone", "cylinder"),
    ]  # fmt: skip
    assert distances(objects, [1.0, 0.6, 0.1], [1.3, 0.0, 0.1])[0] == [0.1, 0.1], "turned, 1 m along y"
    assert distances(objects, [0.3, 2.0, 0.0], [0.0, 2.0, 0.7])[1] == [0.2, 0.2]
    assert distances(objects, [0.0, 0.5, 0.0])[2] == [0.2]
    assert [entry.size for entry in objects.entries()][3] == (0.2, 0.5)


def test_meshes_become_boxes_and_of_a_plane_the_robot_keeps_its_side():
    points = [of("geometry_msgs/msg/Point", x=x, y=y, z=0.5) for x, y in ((0.0, 0.0), (2.0, 0.0), (0.0, 1.0))]
    mesh = of("shape_msgs/msg/Mesh", triangles=[], vertices=points)
    for coefficients in ([0.0, 0.0, 2.0, 1.0], [0.0, 0.0, -2.0, -1.0]):
        floor = of("shape_msgs/msg/Plane", coef=np.array(coefficients))
        objects, notes = take_scene(
            SceneObjects(), scene(thing("sheet", meshes=[mesh]), thing("floor", planes=[floor])), "base_link"
        )
        assert not notes
        (sheet, plane) = distances(objects, [1.0, 0.5, 0.6], [0.0, 0.0, 0.0])
        assert sheet[0] == pytest.approx(0.1, abs=1e-4) and plane[1] == 0.5, "z = -0.5, and the base is above it"


def test_changes_add_move_append_and_remove_and_a_whole_scene_replaces():
    ball = (primitive(2, 0.3), pose())
    objects, _ = take_scene(SceneObjects(), scene(thing("a", ball), thing("b", ball)), "base_link")
    moved = thing("a", at=pose(x=1.0), operation=MOVE)
    more = thing("b", (primitive(1, 1.0, 1.0, 1.0), pose(z=2.0)), operation=APPEND)
    objects, _ = take_scene(objects, scene(moved, more, diff=True), "base_link")
    assert [(entry.name, entry.kind, entry.at) for entry in objects.entries()] == [
        ("a", "sphere", (1.0, 0.0, 0.0)), ("b", "sphere", (0.0, 0.0, 0.0)), ("b", "box", (0.0, 0.0, 2.0)),
    ]  # fmt: skip
    objects, _ = take_scene(objects, scene(thing("b", operation=REMOVE), diff=True), "base_link")
    assert [entry.name for entry in objects.entries()] == ["a"]
    objects, _ = take_scene(objects, scene(thing("c", ball)), "base_link")
    assert [entry.name for entry in objects.entries()] == ["c"]


def test_what_cannot_be_read_is_left_out_with_one_line_and_the_rest_is_taken():
    ball = (primitive(2, 0.3), pose())
    wrong = (
        (thing("far", ball, frame="camera"), "far: it is given in the frame 'camera'"),
        (thing("prism", (primitive(5, 0.3), pose())), "prism: a primitive of type 5 is not read"),
        (thing("flat", (primitive(1, 1.0, 1.0), pose())), "flat: a box has the dimensions"),
        (thing("nan", (primitive(2, float("nan")), pose())), "nan: a sphere has the dimensions"),
        (thing("lost", ball, at=pose(x=float("inf"))), "lost: its pose is not finite"),
        (thing("empty", meshes=[of("shape_msgs/msg/Mesh", triangles=[], vertices=[])]), "empty: its mesh has no"),
        (thing("side", planes=[of("shape_msgs/msg/Plane", coef=np.zeros(4))]), "side: its plane has no normal"),
    )
    objects, notes = take_scene(SceneObjects(), scene(*(one for one, _ in wrong), thing("good", ball)), "base_link")
    assert [entry.name for entry in objects.entries()] == ["good"] and len(notes) == len(wrong)
    assert all(said in note for (_, said), note in zip(wrong, notes, strict=True))
    with pytest.raises(InputError, match="more than 200 bodies"):
        take_scene(SceneObjects(), scene(*(thing(f"ball{k}", ball) for k in range(201))), "base_link")
