"""Distances between the true collision shapes of a URDF, meshes included, by the library coal (optional).

The search keeps capsules apart, which cover the shapes; pairs that the joints hold too close for capsules are left out
there. This check looks at the shapes themselves, and at those pairs too.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import MissingPackageError
from ros2_dynid.excitation.shapes import Solid, urdf_solids
from ros2_dynid.model.robot import Array, Robot


def available() -> bool:
    """Return whether coal is installed."""
    return importlib.util.find_spec("coal") is not None


def exact_clearance(
    robot: Robot,
    urdf: str | Path,
    q: Array,
    *,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
) -> tuple[float, str]:
    """Return the smallest distance [m] between links that are not neighbours at poses q, shape (N, n_active).

    Zero or less if shapes overlap; the second value names the links. The sub-chain is the one the robot was read with.
    """
    try:
        coal = importlib.import_module("coal")
    except ImportError:
        raise MissingPackageError("coal", "measuring distances between meshes") from None
    solids, _ = urdf_solids(robot, urdf, base_link=base_link, tip_link=tip_link, hold=hold)
    bodies = [_geometry(coal, solid) for solid in solids]
    parents = [0, *(joint.parent for joint in robot.joints)]
    pairs = [
        (i, k)
        for i, one in enumerate(solids)
        for k, two in enumerate(solids[:i])
        if one.joint != two.joint and parents[one.joint] != two.joint and parents[two.joint] != one.joint
    ]
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.enable_signed_distance = True
    best, text = np.inf, "nothing"
    for pose in frames(robot, q):
        placed = [(np.eye(4) if solid.joint == 0 else pose[solid.joint - 1]) @ solid.pose for solid in solids]
        poses = [coal.Transform3s(T[:3, :3], T[:3, 3]) for T in placed]
        for i, k in pairs:
            result.clear()
            distance = coal.distance(bodies[i], poses[i], bodies[k], poses[k], request, result)
            if distance < best:
                best, text = float(distance), f"{solids[i].link} and {solids[k].link}"
    return best, text


def _geometry(coal: Any, solid: Solid) -> Any:
    """Return the shape as coal has it."""
    if solid.kind == "sphere":
        return coal.Sphere(solid.size[0])
    if solid.kind == "cylinder":
        return coal.Cylinder(solid.size[0], solid.size[1])
    if solid.kind == "capsule":
        return coal.Capsule(solid.size[0], solid.size[1])
    if solid.kind == "box":
        return coal.Box(*solid.size)
    corners = solid.triangles.reshape(-1, 3)
    model = coal.BVHModelOBBRSS()
    model.beginModel(len(solid.triangles), len(corners))
    model.addVertices(corners)
    model.addTriangles(np.arange(len(corners)).reshape(-1, 3))
    model.endModel()
    return model
