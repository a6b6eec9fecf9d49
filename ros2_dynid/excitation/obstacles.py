# SPDX-License-Identifier: Apache-2.0

"""Obstacles that stand still around the robot: spheres, cylinders, capsules, boxes and planes, read from a file.

The signed distance to a convex body is a convex function along a segment, so its minimum there is found by narrowing
an interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ros2_dynid.errors import InputError, one_line
from ros2_dynid.model.files import read_yaml
from ros2_dynid.model.mdh import rotation_rpy, transform
from ros2_dynid.model.robot import Array

SIZES = {"sphere": 1, "cylinder": 2, "capsule": 2, "box": 3, "plane": 0}
"""Kinds and how many numbers their size has: radius; radius and length; three edges."""
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


def read_obstacles(path: str | Path) -> tuple[Obstacle, ...]:
    """Return the obstacles of a YAML file: a list `obstacles` of {name, KIND: size [m], at [m], rpy [rad]}."""
    source = str(path)
    data = read_yaml(Path(path))
    entries = data.get("obstacles") if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or len(entries) > MAX_OBSTACLES:
        raise InputError(
            f"there is no list `obstacles` of at most {MAX_OBSTACLES}",
            "write obstacles: [{name: table, box: [1, 1, 0.1], at: [0.5, 0, -0.1]}]",
            source,
        )
    return tuple(_obstacle(entry, number, source) for number, entry in enumerate(entries, start=1))


def _obstacle(entry: object, number: int, source: str) -> Obstacle:
    kinds = [kind for kind in SIZES if isinstance(entry, Mapping) and kind in entry]
    unknown = set(entry) - {*SIZES, "name", "at", "rpy"} if isinstance(entry, Mapping) else set()
    if not isinstance(entry, Mapping) or len(kinds) != 1 or unknown:
        what = f"obstacle {number} has {', '.join(sorted(map(str, unknown))) or 'not one shape'}"
        raise InputError(one_line(what), f"give one of {', '.join(SIZES)}, and name, at, rpy", source)
    (kind,) = kinds
    size = _numbers(entry[kind], SIZES[kind], f"obstacle {number}: {kind}", source)
    at, rpy = (_numbers(entry.get(key, [0, 0, 0]), 3, f"obstacle {number}: {key}", source) for key in ("at", "rpy"))
    if min(size, default=1.0) <= 0:
        raise InputError(f"obstacle {number}: a {kind} of size {size}", "give positive lengths [m]", source)
    name = one_line(str(entry.get("name", f"{kind} {number}")))
    return Obstacle(name, kind, tuple(size), transform(rotation_rpy(*rpy), np.array(at)))


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
