# SPDX-License-Identifier: Apache-2.0

"""Planning scenes of MoveIt as they come from the wire: messages with the fields that are read of them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

ADD = 0
FIELDS = {
    "moveit_msgs/msg/CollisionObject": """std_msgs/Header header
geometry_msgs/Pose pose
string id
shape_msgs/SolidPrimitive[] primitives
geometry_msgs/Pose[] primitive_poses
shape_msgs/Mesh[] meshes
geometry_msgs/Pose[] mesh_poses
shape_msgs/Plane[] planes
geometry_msgs/Pose[] plane_poses
byte operation
""",
    "moveit_msgs/msg/PlanningSceneWorld": "moveit_msgs/CollisionObject[] collision_objects\n",
    "moveit_msgs/msg/PlanningScene": "moveit_msgs/PlanningSceneWorld world\nbool is_diff\n",
}
"""The fields that are read, of moveit_msgs/msg/PlanningScene and what it holds."""
QUARTER = (0.0, 0.0, float(np.sqrt(0.5)), float(np.sqrt(0.5)))
"""Quaternion of a quarter turn about z."""


@cache
def store():
    typesys = pytest.importorskip("rosbags.typesys")
    made = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    types = {}
    for name, text in FIELDS.items():
        types |= typesys.get_types_from_msg(text, name)
    made.register(types)
    return made


def of(name, **fields):
    return store().types[name](**fields)


def pose(x=0.0, y=0.0, z=0.0, turn=(0.0, 0.0, 0.0, 1.0)):
    point = of("geometry_msgs/msg/Point", x=x, y=y, z=z)
    return of(
        "geometry_msgs/msg/Pose",
        position=point,
        orientation=of("geometry_msgs/msg/Quaternion", **dict(zip("xyzw", turn, strict=True))),
    )


def primitive(kind, *dimensions):
    polygon = of("geometry_msgs/msg/Polygon", points=[])
    return of("shape_msgs/msg/SolidPrimitive", type=kind, dimensions=np.array(dimensions), polygon=polygon)


def thing(name, *primitives, at=None, frame="base_link", operation=ADD, meshes=(), planes=()):
    stamp = of("builtin_interfaces/msg/Time", sec=0, nanosec=0)
    return of(
        "moveit_msgs/msg/CollisionObject",
        header=of("std_msgs/msg/Header", stamp=stamp, frame_id=frame),
        pose=at or pose(),
        id=name,
        primitives=[one for one, _ in primitives],
        primitive_poses=[place for _, place in primitives],
        meshes=list(meshes),
        mesh_poses=[pose() for _ in meshes],
        planes=list(planes),
        plane_poses=[pose() for _ in planes],
        operation=operation,
    )


def scene(*things, diff=False):
    """Return a scene that was serialized and read again."""
    world = of("moveit_msgs/msg/PlanningSceneWorld", collision_objects=list(things))
    message, kind = of("moveit_msgs/msg/PlanningScene", world=world, is_diff=diff), "moveit_msgs/msg/PlanningScene"
    return store().deserialize_cdr(store().serialize_cdr(message, kind), kind)
