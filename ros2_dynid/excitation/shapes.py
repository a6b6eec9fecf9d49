# SPDX-License-Identifier: Apache-2.0

"""Collision shapes from a URDF (primitives and meshes) or from the user's file, as capsules that cover them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError
from ros2_dynid.model.files import read_bytes, read_yaml
from ros2_dynid.model.from_urdf import select_chain
from ros2_dynid.model.mdh import inverse, rotation_rpy, transform
from ros2_dynid.model.mesh_file import MeshError, read_meshes
from ros2_dynid.model.robot import Array, Robot, open_tree
from ros2_dynid.model.urdf import parse_urdf

MAX_URDF_BYTES = 50_000_000
PIECES = 4
"""A mesh is covered by at most this many capsules."""
MAX_VOLUME_RATIO = 0.75
"""A mesh is split in two if the halves' capsules have less than this share of the volume."""

PRIMITIVES = ("sphere", "cylinder", "capsule", "box")

Capsule = tuple[str, int, Array, Array, float]
"""Link, joint that carries it (0: the base), ends in that joint's frame [m], radius [m]."""


@dataclass(frozen=True, eq=False)
class Solid:
    """A collision shape: kind (sphere, cylinder, capsule, box, mesh), size [m], pose (4, 4) in the frame of its joint.

    size: radius; radius and length; or three edges. triangles of a mesh: shape (k, 3, 3) [m]. joint 0 is the base.
    """

    link: str
    joint: int
    pose: Array
    kind: str
    size: tuple[float, ...] = ()
    triangles: Array = field(default_factory=lambda: np.empty((0, 3, 3)))

    def capsules(self) -> list[tuple[Array, Array, float]]:
        """Return capsules (end, end, radius) that cover the shape, in its own frame."""
        zero = np.zeros(3)
        if self.kind == "sphere":
            return [(zero, zero, self.size[0])]
        if self.kind in ("cylinder", "capsule"):
            end = np.array([0.0, 0.0, 0.5 * self.size[1]])
            return [(-end, end, self.size[0])]
        if self.kind == "box":
            corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
            return [bounding_capsule(corners * self.size)]
        return cover(self.triangles)


def urdf_solids(
    robot: Robot,
    urdf: str | Path,
    *,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
) -> tuple[list[Solid], tuple[str, ...]]:
    """Return the <collision> shapes of a URDF on the robot's joints, and the links whose mesh was not found.

    The sub-chain must be the one that the robot was read with. A mesh is looked for beside the URDF and in the
    packages of the ROS installation that is sourced.
    """
    path, source = Path(urdf), str(urdf)
    data = read_bytes(path, MAX_URDF_BYTES)
    tree = parse_urdf(data, source)  # which refuses entities and nonsense
    chain = select_chain(tree, base_link, tip_link, hold, floating_base)
    elements = {link.get("name"): link.findall("collision") for link in ElementTree.fromstring(data).iter("link")}
    zero = frames(open_tree(robot), np.zeros((1, robot.n)))[0]
    poses = [np.eye(4), *zero]
    solids, missing = [], []
    for link in chain.links:
        for element in elements.get(link.name, []):
            pose = inverse(poses[link.carrier]) @ link.pose @ origin_of(element, source)
            geometry = geometry_of(element, path, source)
            if geometry is None:
                missing.append(link.name)
            elif geometry[0]:
                kind, size, triangles = geometry
                solids.append(Solid(link.name, link.carrier, pose, kind, size, triangles))
    return solids, tuple(dict.fromkeys(missing))


def capsules_of(solids: Sequence[Solid]) -> list[Capsule]:
    """Return capsules that cover the shapes, in the frames of the joints that carry them."""
    capsules: list[Capsule] = []
    for solid in solids:
        for a, b, radius in solid.capsules():
            ends = [(solid.pose @ np.append(end, 1.0))[:3] for end in (a, b)]
            capsules.append((solid.link, solid.joint, ends[0], ends[1], radius))
    return capsules


def missing_note(missing: Sequence[str]) -> tuple[str, ...]:
    """Return the note on links whose mesh could not be read, if there are any."""
    if not missing:
        return ()
    return (f"collisions are not checked for {', '.join(missing[:6])}: the mesh was not found or cannot be read",)


def file_capsules(robot: Robot, path: str | Path) -> list[Capsule]:
    """Return the capsules and spheres of a YAML file: a list `shapes` of {joint, from, to, radius} [m].

    joint: name of the joint that carries it, or "base"; from, to: ends in the frame of that joint (modified DH); a
    sphere has `at` instead.
    """
    source = str(path)
    data = read_yaml(Path(path))
    entries = data.get("shapes") if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or not entries:
        raise InputError("there is no list `shapes`", "write shapes: [{joint: j1, at: [0, 0, 0], radius: 0.1}]", source)
    numbers = {"base": 0} | {joint.name: j for j, joint in enumerate(robot.joints, start=1)}
    capsules = []
    for k, entry in enumerate(entries, start=1):
        try:
            ends = [np.array(entry.get(key, entry.get("at")), dtype=float) for key in ("from", "to")]
            joint, radius = entry["joint"], float(entry["radius"])
            fits = all(end.shape == (3,) and np.all(np.isfinite(end)) for end in ends) and 0 < radius < np.inf
        except (AttributeError, KeyError, TypeError, ValueError):
            joint, fits = None, False
        if not fits or joint not in numbers:
            raise InputError(
                f"shape {k} is not complete", f"give joint (of {', '.join(numbers)}), from and to or at, radius", source
            )
        capsules.append((str(entry.get("name", joint)), numbers[joint], ends[0], ends[1], radius))
    return capsules


def origin_of(element: ElementTree.Element, source: str) -> Array:
    """Return the pose (4, 4) of a collision or visual element in its link."""
    origin = element.find("origin")
    if origin is None:
        return np.eye(4)
    xyz, rpy = (_numbers(origin.get(key, "0 0 0"), 3, source) for key in ("xyz", "rpy"))
    return transform(rotation_rpy(*rpy), np.array(xyz))


def _numbers(text: str, count: int, source: str) -> list[float]:
    try:
        values = [float(x) for x in text.split()]
    except ValueError:
        values = []
    if len(values) != count or not np.all(np.isfinite(values)):
        raise InputError(f"a shape has {text[:40]!r} instead of {count} numbers", "correct it", source)
    return values


def geometry_of(element: ElementTree.Element, urdf: Path, source: str) -> tuple[str, tuple[float, ...], Array] | None:
    """Return kind, size and triangles of a collision element; an empty kind for none, None for a missing mesh."""
    geometry = element.find("geometry")
    shape = None if geometry is None else next(iter(geometry), None)
    none = np.empty((0, 3, 3))
    if shape is None:
        return "", (), none
    if shape.tag in PRIMITIVES:
        return shape.tag, primitive_size(shape, source), none
    file = find_mesh(shape.get("filename", ""), urdf) if shape.tag == "mesh" else None
    triangles = None if file is None else read_triangles(file)
    if triangles is None or not len(triangles):
        return None
    return "mesh", (), triangles * mesh_scale(shape, source)


def primitive_size(shape: ElementTree.Element, source: str) -> tuple[float, ...]:
    """Return the size of one of PRIMITIVES [m]: radius; radius and length; or three edges."""
    if shape.tag == "box":
        return tuple(_sizes(shape.get("size", ""), 3, source))
    keys = ("radius",) if shape.tag == "sphere" else ("radius", "length")
    return tuple(_sizes(shape.get(key, ""), 1, source)[0] for key in keys)


def mesh_scale(shape: ElementTree.Element, source: str) -> Array:
    """Return the factors (3,) of a mesh element."""
    return np.array(_numbers(shape.get("scale", "1 1 1"), 3, source))


def _sizes(text: str, count: int, source: str) -> list[float]:
    values = _numbers(text, count, source)
    if min(values) <= 0:
        raise InputError(f"a shape has the size {text[:40]!r}", "give positive lengths [m]", source)
    return values


def find_mesh(name: str, urdf: Path) -> Path | None:
    """Return the file of a mesh: a path, file:// or package://, looked for upwards of the URDF and in ROS packages."""
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").partition("/")
        parents = urdf.resolve().parents
        candidates = [folder / package / rest for folder in (*parents, *package_folders())]
        candidates += [parent / rest for parent in parents]  # the package's folder has another name
    else:
        candidates = [urdf.parent / name.removeprefix("file://")]
    return next((file for file in candidates if file.is_file()), None)


def package_folders() -> list[Path]:
    """Return the folders that hold ROS packages: of ROS_PACKAGE_PATH, AMENT_PREFIX_PATH and installed Python wheels."""
    named = [Path(folder) for folder in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if folder]
    prefixes = [Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]
    prefixes += [Path(sys.prefix), *(Path(place) / "cmeel.prefix" for place in sys.path if place)]
    shares = [prefix / "share" for prefix in prefixes]
    return [folder for folder in dict.fromkeys((*named, *shares)) if folder.is_dir()]


def read_triangles(file: Path) -> Array | None:
    """Return the triangles of an STL, OBJ or Collada file, shape (k, 3, 3) [m]; None if it cannot be read whole."""
    try:
        return np.concatenate([mesh.vertices[mesh.triangles] for mesh in read_meshes(file)])
    except MeshError:
        return None


def cover(triangles: Array, pieces: int = PIECES) -> list[tuple[Array, Array, float]]:
    """Return at most `pieces` capsules whose union contains every triangle, shape (k, 3, 3)."""
    whole = bounding_capsule(triangles.reshape(-1, 3))
    if pieces < 2 or len(triangles) < 8:
        return [whole]
    centres = triangles.mean(axis=1)
    best = None
    for axis in np.linalg.svd(centres - centres.mean(axis=0), full_matrices=False)[2]:
        along = centres @ axis
        for threshold in np.quantile(along, (0.2, 0.35, 0.5, 0.65, 0.8)):
            below = along <= threshold
            if 4 <= below.sum() <= len(along) - 4:
                halves = [bounding_capsule(triangles[part].reshape(-1, 3)) for part in (below, ~below)]
                size = sum(capsule_volume(half) for half in halves)
                if best is None or size < best[0]:
                    best = (size, below)
    if best is None or best[0] > MAX_VOLUME_RATIO * capsule_volume(whole):
        return [whole]
    below = best[1]
    first = cover(triangles[below], pieces // 2)
    return [*first, *cover(triangles[~below], pieces - len(first))]


def capsule_volume(capsule: tuple[Array, Array, float]) -> float:
    """Return the volume [m^3] of a capsule: two ends and the radius."""
    a, b, r = capsule
    return float(np.pi * r * r * (np.linalg.norm(b - a) + 4.0 / 3.0 * r))


def bounding_capsule(points: Array) -> tuple[Array, Array, float]:
    """Return the smallest capsule along a principal axis that holds the points, shape (k, 3): ends and radius."""
    middle = points.mean(axis=0)
    axes = np.linalg.svd(points - middle, full_matrices=False)[2]
    best: tuple[Array, Array, float] | None = None
    for k in range(3):
        axis, side = axes[k], np.delete(axes, k, axis=0)
        across = (points - middle) @ side.T
        centre = 0.5 * (across.min(axis=0) + across.max(axis=0))
        distance = np.linalg.norm(across - centre, axis=1)
        radius = float(distance.max()) * (1.0 + 1e-12) + 1e-9
        along = (points - middle) @ axis
        cap = np.sqrt(np.maximum(radius**2 - distance**2, 0.0))  # how far the round end reaches beyond the segment
        low, high = float((along + cap).min()), float((along - cap).max())
        if low > high:
            low = high = 0.5 * (low + high)
        foot = middle + centre @ side
        capsule = (foot + low * axis, foot + high * axis, radius)
        if best is None or capsule_volume(capsule) < capsule_volume(best):
            best = capsule
    assert best is not None
    return best
