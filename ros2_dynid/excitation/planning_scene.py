# SPDX-License-Identifier: Apache-2.0

"""MoveIt's planning scene as obstacles: primitives, planes, and boxes around meshes of the objects in its world.

Messages are read by their fields: moveit_msgs/msg/PlanningScene, or anything that has them. Objects that are attached
to the robot, octomaps and the allowed collision matrix are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ros2_dynid.errors import InputError, one_line
from ros2_dynid.excitation.obstacles import LARGEST_M, MAX_OBSTACLES, ObstacleEntry, rotation_of_axis
from ros2_dynid.model.mdh import rpy_of_rotation, transform
from ros2_dynid.model.robot import Array

BOX, SPHERE, CYLINDER, CONE = 1, 2, 3, 4
"""Types of shape_msgs/msg/SolidPrimitive."""
ADD, REMOVE, APPEND, MOVE = 0, 1, 2, 3
"""Operations of moveit_msgs/msg/CollisionObject."""
LEAST_M = 1e-4
"""A box around a flat mesh is at least so thick [m]."""


@dataclass(frozen=True)
class SceneObjects:
    """Objects by their id: each its pose (4, 4) in the base frame, and kind, size and pose in it of its parts."""

    objects: Mapping[str, tuple[Array, tuple[tuple[str, tuple[float, ...], Array], ...]]] = field(default_factory=dict)

    def entries(self) -> tuple[ObstacleEntry, ...]:
        """Return the obstacles, in the base frame."""
        return tuple(
            _entry(name, kind, size, pose @ part)
            for name, (pose, parts) in self.objects.items()
            for kind, size, part in parts
        )


def take_scene(before: SceneObjects, scene: Any, base_frame: str) -> tuple[SceneObjects, tuple[str, ...]]:
    """Return the objects after a scene, or after a change of it (is_diff), and what was left out, a line each."""
    objects, notes = dict(before.objects) if scene.is_diff else {}, []
    for one in scene.world.collision_objects:
        name = one_line(str(one.id)) or "object"
        try:
            _take(objects, name, one, base_frame)
        except InputError as error:
            notes.append(f"{name}: {error.what}")
    if len(objects) > MAX_OBSTACLES or sum(len(parts) for _, parts in objects.values()) > MAX_OBSTACLES:
        raise InputError(f"the planning scene has more than {MAX_OBSTACLES} bodies", "leave some of them out")
    return SceneObjects(objects), tuple(notes)


def _take(objects: dict[str, Any], name: str, one: Any, base_frame: str) -> None:
    operation = one.operation[0] if isinstance(one.operation, bytes) else int(one.operation)
    if operation == REMOVE:
        objects.pop(name, None)
        return
    if one.header.frame_id not in ("", base_frame):
        raise InputError(
            f"it is given in the frame {one_line(str(one.header.frame_id))!r}", f"give it in {base_frame!r}"
        )
    pose = _matrix(one.pose) if hasattr(one, "pose") else np.eye(4)
    known = objects.get(name)
    if operation == MOVE:
        if known is not None:
            objects[name] = (pose, known[1])
        return
    parts = (*(known[1] if operation == APPEND and known is not None else ()), *_parts(one))
    objects[name] = (pose, parts)


def _parts(one: Any) -> list[tuple[str, tuple[float, ...], Array]]:
    """Return kind, size and pose of the parts of an object, in its own frame."""
    parts = [
        (*_primitive(solid), _matrix(pose)) for solid, pose in zip(one.primitives, one.primitive_poses, strict=True)
    ]
    for mesh, pose in zip(one.meshes, one.mesh_poses, strict=True):
        corners = np.array([[p.x, p.y, p.z] for p in mesh.vertices], dtype=float).reshape(-1, 3)
        if not len(corners) or not np.all(np.abs(corners) < LARGEST_M):
            raise InputError("its mesh has no corners", "give some")
        low, high = corners.min(axis=0), corners.max(axis=0)
        edges = np.maximum(high - low, LEAST_M)
        parts.append(("box", tuple(edges.tolist()), _matrix(pose) @ transform(np.eye(3), 0.5 * (low + high))))
    for plane, pose in zip(one.planes, one.plane_poses, strict=True):
        a = np.array(plane.coef, dtype=float)
        length = float(np.linalg.norm(a[:3]))
        if not np.all(np.isfinite(a)) or length < 1e-9:
            raise InputError("its plane has no normal", "give a x + b y + c z + d = 0")
        normal = a[:3] / length
        parts.append(("plane", (), _matrix(pose) @ transform(rotation_of_axis(normal), -a[3] / length * normal)))
    return parts


def _primitive(solid: Any) -> tuple[str, tuple[float, ...]]:
    """Return kind and size of a primitive; a cone is covered by its cylinder."""
    size = tuple(float(x) for x in solid.dimensions)
    kinds = {BOX: ("box", 3), SPHERE: ("sphere", 1), CYLINDER: ("cylinder", 2), CONE: ("cylinder", 2)}
    kind, count = kinds.get(int(solid.type), ("", 0))
    if not kind:
        raise InputError(f"a primitive of type {int(solid.type)} is not read", "give a box, sphere, cylinder or cone")
    if len(size) < count or not all(0 < x < LARGEST_M for x in size[:count]):
        raise InputError(f"a {kind} has the dimensions {list(size)[:4]}", "give positive lengths [m]")
    return kind, (size[1], size[0]) if kind == "cylinder" else size[:count]


def _matrix(pose: Any) -> Array:
    """Return a geometry_msgs/msg/Pose as (4, 4); a quaternion of zeros is none."""
    p, o = pose.position, pose.orientation
    place, (x, y, z, w) = np.array([p.x, p.y, p.z], dtype=float), (o.x, o.y, o.z, o.w)
    length = float(np.sqrt(x * x + y * y + z * z + w * w))
    if not np.all(np.abs(place) < LARGEST_M) or not np.isfinite(length):
        raise InputError("its pose is not finite", "correct it")
    if length < 1e-9:
        x, y, z, w, length = 0.0, 0.0, 0.0, 1.0, 1.0
    x, y, z, w = x / length, y / length, z / length, w / length
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    return transform(R, place)


def _entry(name: str, kind: str, size: tuple[float, ...], pose: Array) -> ObstacleEntry:
    """Return an entry; the robot keeps on that side of a plane on which its base is."""
    if kind == "plane" and (pose[:3, :3].T @ -pose[:3, 3])[2] < 0:
        pose = pose @ np.diag([1.0, -1.0, -1.0, 1.0])
    at, rpy = pose[:3, 3].tolist(), rpy_of_rotation(pose[:3, :3])
    return ObstacleEntry(name, kind, size, tuple(at), rpy)
