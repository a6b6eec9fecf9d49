# SPDX-License-Identifier: Apache-2.0

"""Obstacles that stand still around the robot: spheres, cylinders, capsules, boxes and planes, read from a file.

The signed distance to a convex body is a convex function along a segment, so its minimum there is found by narrowing
an interval.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ros2_dynid.codec import Plain
from ros2_dynid.errors import InputError, one_line
from ros2_dynid.model.files import MAX_YAML, parse_yaml, read_bytes
from ros2_dynid.model.mdh import rotation_rpy, transform
from ros2_dynid.model.robot import Array

SIZES = {"sphere": 1, "cylinder": 2, "capsule": 2, "box": 3, "plane": 0}
"""Kinds and how many numbers their size has: radius; radius and length; three edges."""
CAPSULES, ROBOT = "capsules", "robot"
"""Kinds of entries that are several bodies: rows of capsules; a robot's file, with the positions `q` of its joints."""
MAX_OBSTACLES = 200
LARGEST_M = 1e3
"""Sizes and coordinates beyond this are no workshop's."""
NARROWINGS = 40
"""Thirds that are cut off a segment: its nearest point is then known to 1e-7 of its length."""


@dataclass(frozen=True, eq=False)
class Obstacle:
    """A body at a pose (4, 4) in the base frame: kind of SIZES, size [m]; a robot keeps on the z side of a plane."""

    name: str
    kind: str
    size: tuple[float, ...]
    pose: Array


@dataclass(frozen=True)
class ObstacleEntry:
    """An entry of a file: kind of SIZES or CAPSULES, size [m], place of its frame [m] and its angles [rad].

    A robot that stands there is an entry of capsules: x, y, z, X, Y, Z, radius of each, one after the other in `size`.
    """

    name: str
    kind: str
    size: tuple[float, ...]
    at: tuple[float, ...] = (0.0, 0.0, 0.0)
    rpy: tuple[float, ...] = (0.0, 0.0, 0.0)

    def bodies(self) -> tuple[Obstacle, ...]:
        """Return the bodies of an entry, in the base frame."""
        pose = transform(rotation_rpy(*self.rpy), np.array(self.at))
        if self.kind != CAPSULES:
            return (Obstacle(self.name, self.kind, self.size, pose),)
        return tuple(_capsule(self.name, pose, *row) for row in np.array(self.size).reshape(-1, 7))

    def plain(self) -> dict[str, Plain]:
        """Return the entry as it stands in a file."""
        rows = np.array(self.size).reshape(-1, 7).tolist() if self.kind == CAPSULES else list(self.size)
        return {"name": self.name, self.kind: rows, "at": list(self.at), "rpy": list(self.rpy)}


def read_obstacles(path: str | Path) -> tuple[Obstacle, ...]:
    """Return the obstacles of a YAML file: a list `obstacles` of {name, KIND: size [m], at [m], rpy [rad]}."""
    return bodies_of(read_entries(path))


def read_entries(path: str | Path) -> tuple[ObstacleEntry, ...]:
    """Return the entries of a file of obstacles; robots are read from files beside it."""
    return parse_entries(read_bytes(Path(path), MAX_YAML), str(path), lambda name: Path(path).parent / name)


def parse_entries(
    text: bytes | str, source: str, robot_file: Callable[[str], Path] | None = None
) -> tuple[ObstacleEntry, ...]:
    """Return the entries of a YAML text; robot_file: gives the path of a robot that is named, None refuses robots."""
    data = parse_yaml(text, source)
    listed = data.get("obstacles") if isinstance(data, Mapping) else None
    if not isinstance(listed, list) or len(listed) > MAX_OBSTACLES:
        raise InputError(
            f"there is no list `obstacles` of at most {MAX_OBSTACLES}",
            "write obstacles: [{name: table, box: [1, 1, 0.1], at: [0.5, 0, -0.1]}]",
            source,
        )
    entries = tuple(_entry(entry, number, source, robot_file) for number, entry in enumerate(listed, start=1))
    if len(bodies_of(entries)) > MAX_OBSTACLES:
        raise InputError(f"there are more than {MAX_OBSTACLES} bodies", "leave some of them out", source)
    return entries


def bodies_of(entries: Sequence[ObstacleEntry]) -> tuple[Obstacle, ...]:
    """Return the bodies of entries."""
    return tuple(body for entry in entries for body in entry.bodies())


def obstacles_text(entries: Sequence[ObstacleEntry]) -> str:
    """Return the text of a file with these entries, one a line."""
    rows = "".join(f"  - {json.dumps(entry.plain())}\n" for entry in entries)
    return f"obstacles:\n{rows}" if rows else "obstacles: []\n"


def _entry(entry: object, number: int, source: str, robot_file: Callable[[str], Path] | None) -> ObstacleEntry:
    kinds = [kind for kind in (*SIZES, CAPSULES, ROBOT) if isinstance(entry, Mapping) and kind in entry]
    known = {*kinds[:1], "name", "at", "rpy", *(("q",) if kinds[:1] == [ROBOT] else ())}
    unknown = set(entry) - known if isinstance(entry, Mapping) else set()
    if not isinstance(entry, Mapping) or len(kinds) != 1 or unknown:
        what = f"obstacle {number} has {', '.join(sorted(map(str, unknown))) or 'not one shape'}"
        raise InputError(
            one_line(what), f"give one of {', '.join((*SIZES, CAPSULES, ROBOT))}, and name, at, rpy", source
        )
    (kind,) = kinds
    at, rpy = (_numbers(entry.get(key, [0, 0, 0]), 3, f"obstacle {number}: {key}", source) for key in ("at", "rpy"))
    name = one_line(str(entry.get("name", f"{kind} {number}")))
    if kind == ROBOT:
        size, kind = _robot_capsules(entry, number, source, robot_file), CAPSULES
    elif kind == CAPSULES:
        rows = entry[kind] if isinstance(entry[kind], list) else []
        size = [x for row in rows for x in _numbers(row, 7, f"obstacle {number}: a capsule", source)]
        if not rows or min(size[6::7]) <= 0:
            raise InputError(f"obstacle {number}: capsules without a radius", "give x, y, z, X, Y, Z, radius", source)
    else:
        size = _numbers(entry[kind], SIZES[kind], f"obstacle {number}: {kind}", source)
        if min(size, default=1.0) <= 0:
            raise InputError(f"obstacle {number}: a {kind} of size {size}", "give positive lengths [m]", source)
    return ObstacleEntry(name, kind, tuple(size), tuple(at), tuple(rpy))


def _robot_capsules(
    entry: Mapping[object, object], number: int, source: str, robot_file: Callable[[str], Path] | None
) -> list[float]:
    """Return the capsules of a robot that stands at the positions `q`, in its base link's frame."""
    if robot_file is None:
        raise InputError(f"obstacle {number} names a robot's file", "give its capsules here", source)
    positions = entry.get("q", {})
    if not isinstance(positions, Mapping):
        raise InputError(f"obstacle {number}: q is no mapping", "write q: {JOINT: position}", source)
    q = {str(name): _numbers(value, 1, f"obstacle {number}: q", source)[0] for name, value in positions.items()}
    from ros2_dynid.excitation.standing_robot import standing_capsules

    return [x for row in standing_capsules(robot_file(str(entry[ROBOT])), q) for x in row]


def _capsule(name: str, pose: Array, *row: float) -> Obstacle:
    a, b, radius = np.array(row[:3]), np.array(row[3:6]), float(row[6])
    middle, length = 0.5 * (a + b), float(np.linalg.norm(b - a))
    if length < 1e-9:
        return Obstacle(name, "sphere", (radius,), pose @ transform(np.eye(3), middle))
    return Obstacle(name, "capsule", (radius, length), pose @ transform(rotation_of_axis((b - a) / length), middle))


def rotation_of_axis(z: Array) -> Array:
    """Return a rotation, shape (3, 3), whose third column is the unit vector z."""
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return np.column_stack((x, np.cross(z, x), z))


def _numbers(value: object, count: int, what: str, source: str) -> list[float]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    numbers = [
        float(x) for x in values if isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < LARGEST_M
    ]
    if len(numbers) != count or len(values) != count:
        raise InputError(f"{what} is not {count} numbers below {LARGEST_M:g}", "correct it [m, rad]", source)
    return numbers


def signed_distance(obstacle: Obstacle, points: Array) -> tuple[Array, Array]:
    """Return the distance to the surface at points (..., 3), below 0 inside, and its gradient, shape (..., 3)."""
    R, origin = obstacle.pose[:3, :3], obstacle.pose[:3, 3]
    x = (points - origin) @ R
    if obstacle.kind == "plane":
        return x[..., 2], np.broadcast_to(R[:, 2], x.shape)
    if obstacle.kind in ("sphere", "capsule"):
        half = 0.5 * obstacle.size[1] if obstacle.kind == "capsule" else 0.0
        way = x - np.clip(x[..., 2], -half, half)[..., None] * np.array([0.0, 0.0, 1.0])
        distance = np.linalg.norm(way, axis=-1)
        return distance - obstacle.size[0], way / np.maximum(distance, 1e-12)[..., None] @ R.T
    if obstacle.kind == "box":
        axes = np.sign(x)[..., None] * np.eye(3)
        beyond = np.abs(x) - 0.5 * np.array(obstacle.size)
    else:  # a cylinder is a rectangle turned about z
        radial = x * [1.0, 1.0, 0.0]
        rho = np.linalg.norm(radial, axis=-1)
        axes = np.stack(
            (radial / np.maximum(rho, 1e-12)[..., None], np.sign(x[..., 2:]) * np.array([0.0, 0.0, 1.0])), axis=-2
        )
        beyond = np.stack((rho - obstacle.size[0], np.abs(x[..., 2]) - 0.5 * obstacle.size[1]), axis=-1)
    outside = np.maximum(beyond, 0.0)
    distance = np.linalg.norm(outside, axis=-1)
    inside = np.eye(beyond.shape[-1])[np.argmax(beyond, axis=-1)]
    share = np.where(distance[..., None] > 0, outside / np.maximum(distance, 1e-12)[..., None], inside)
    return distance + np.minimum(beyond.max(axis=-1), 0.0), np.einsum("...k,...ki->...i", share, axes) @ R.T


def segment_to_obstacle(obstacle: Obstacle, a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Return the signed distance of segments a-b, shape (m, 3) each, their nearest points and the gradient there."""
    low, high = np.zeros(len(a)), np.ones(len(a))
    for _ in range(NARROWINGS):
        third = (high - low) / 3.0
        left, right = (signed_distance(obstacle, a + t[:, None] * (b - a))[0] for t in (low + third, high - third))
        low, high = np.where(left > right, low + third, low), np.where(left > right, high, high - third)
    nearest = np.where(low + high > 1.0, high, low)  # so that ends are exact
    points = a + nearest[:, None] * (b - a)
    return *signed_distance(obstacle, points)[:1], points, signed_distance(obstacle, points)[1]
