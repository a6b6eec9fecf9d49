# SPDX-License-Identifier: Apache-2.0

"""Collisions: distances between capsules fixed to the links, to planes and to obstacles, with gradients.

A capsule is all points within `radius` of a segment; a sphere is one with a segment of length zero. Capsules cover the
true shapes, so a distance is on the safe side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.dynamics.kinematics import constraint, frames
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.obstacles import Obstacle, segment_to_obstacle, signed_distance
from ros2_dynid.excitation.shapes import Capsule, Solid
from ros2_dynid.model.robot import PRISMATIC, Array, Limits, Robot

Indices = NDArray[np.intp]
DEFAULT_MARGIN_M = 0.02
SOFTNESS_M = 0.05
"""Distance below the margin [m] that weighs 1 in the penalty."""
BLOCK, PROMISING = 1000, 500
"""Poses per block, and pairs of a block whose exact distance is computed at once, the closest candidates first."""
ALWAYS_TOUCHING_SHARE = 0.9
"""Pairs closer than the margin in more than this share of all poses are not kept apart: the joints hold them there."""


@dataclass(frozen=True, eq=False)
class Shapes:
    """Capsules on the links and planes in the base frame.

    joint: number of the joint that carries each capsule (0: the base), shape (m,); a, b: ends of its segment in the
    frame of that joint, shape (m, 3) [m]; radius: shape (m,) [m]; links: names. pairs: indices of the capsules kept
    apart, shape (k, 2). planes: unit normal and offset, shape (l, 4): n . p >= offset + margin; plane_shapes: capsules
    they hold for. margin: distance kept [m]. close: links whose capsules nearly always touch, so that they are not kept
    apart; solids: their true shapes, where known. obstacles: what stands still in the base frame; obstacle_pairs:
    capsules and the obstacles that they are kept apart from, shape (o, 2).
    """

    joint: Indices
    a: Array
    b: Array
    radius: Array
    links: tuple[str, ...]
    pairs: Indices
    planes: Array
    plane_shapes: Indices
    margin: float = DEFAULT_MARGIN_M
    notes: tuple[str, ...] = ()
    close: tuple[tuple[str, str], ...] = ()
    solids: tuple[Solid, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    obstacle_pairs: Indices = field(default_factory=lambda: np.zeros((0, 2), dtype=int))

    def __post_init__(self) -> None:
        """Refuse shapes that are not finite or have no size."""
        m = len(self.radius)
        if self.a.shape != (m, 3) or self.b.shape != (m, 3) or len(self.links) != m or len(self.joint) != m:
            raise InputError("collision shapes do not fit together", "give every capsule two ends and a radius")
        if not (np.all(np.isfinite(self.a)) and np.all(np.isfinite(self.b)) and np.all(self.radius > 0)):
            raise InputError("a collision shape has no positive radius or no finite ends", "correct it")
        if not (np.isfinite(self.margin) and self.margin >= 0):
            raise InputError(f"collision margin {self.margin} m", "give a distance, 0 or more")


def planes_of(floor: float | None = None, box: Sequence[float] | None = None) -> list[tuple[Array, float]]:
    """Return the planes (inward normal, offset) of a floor at height `floor` [m] and of a box x, X, y, Y, z, Z [m]."""
    planes = [] if floor is None else [(np.array([0.0, 0.0, 1.0]), float(floor))]
    if floor is not None and not np.isfinite(floor):
        raise InputError(f"a floor at {floor} m", "give its height in the base frame [m]")
    if box is not None:
        if len(box) != 6 or not all(box[k] < box[k + 1] for k in (0, 2, 4)):
            raise InputError(f"a workspace of {list(box)}", "give x,X,y,Y,z,Z with the lower one first [m]")
        for k, value in enumerate(box):
            if np.isfinite(value):
                side = 1.0 if k % 2 == 0 else -1.0
                planes.append((side * np.eye(3)[k // 2], side * float(value)))
    return planes


def make_shapes(
    robot: Robot,
    capsules: list[Capsule],
    *,
    planes: list[tuple[Array, float]] | None = None,
    obstacles: Sequence[Obstacle] = (),
    margin: float = DEFAULT_MARGIN_M,
    notes: tuple[str, ...] = (),
    seed: int = 0,
) -> Shapes:
    """Return shapes from capsules (link, joint number, end, end, radius) with the pairs to keep apart.

    Left out are shapes of one link, of neighbouring links, and pairs that touch in nearly every pose or whose distance
    is constant.
    """
    m = len(capsules)
    joint = np.array([c[1] for c in capsules], dtype=int)
    a, b = (np.array([c[k] for c in capsules], dtype=float).reshape(m, 3) for k in (2, 3))
    radius = np.array([c[4] for c in capsules], dtype=float)
    links = tuple(c[0] for c in capsules)
    walls = np.array([[*n, d] for n, d in planes or []], dtype=float).reshape(-1, 4)
    neighbours = {frozenset((j.parent, number)) for number, j in enumerate(robot.joints, start=1)}
    pairs = [
        (i, k)
        for i, k in itertools.combinations(range(m), 2)
        if joint[i] != joint[k] and frozenset((joint[i], joint[k])) not in neighbours
    ]
    moving = np.flatnonzero(joint > 0)
    shapes = Shapes(joint, a, b, radius, links, np.array(pairs, dtype=int).reshape(-1, 2), walls, moving, margin, notes)
    standing = np.array(list(itertools.product(moving, range(len(obstacles)))), dtype=int).reshape(-1, 2)
    shapes = replace(shapes, obstacles=tuple(obstacles), obstacle_pairs=standing)
    return _without_constant(robot, shapes, seed)


def _without_constant(robot: Robot, shapes: Shapes, seed: int) -> Shapes:
    """Return the shapes without the pairs whose distance no pose changes, or that are together in nearly every pose."""
    q = random_poses(robot, 400, np.random.default_rng(seed))
    pair, plane = distances(robot, shapes, q)
    together = (
        np.mean(pair < shapes.margin, axis=0) > ALWAYS_TOUCHING_SHARE
        if pair.size
        else np.zeros(len(shapes.pairs), dtype=bool)
    )
    varies = np.ptp(pair, axis=0) > 1e-9 if pair.size else ~together
    close = sorted({(shapes.links[i], shapes.links[k]) for i, k in shapes.pairs[together & varies]})
    bounded = shapes.plane_shapes
    if plane.size:
        bounded = bounded[np.any(np.ptp(plane, axis=0) > 1e-9, axis=0)]
    kept = replace(shapes, pairs=shapes.pairs[varies & ~together], plane_shapes=bounded, close=tuple(close))
    return _without_touching(kept, obstacle_distances(robot, shapes, q))


def _without_touching(shapes: Shapes, distance: Array) -> Shapes:
    """Return the shapes without obstacles that are always equally far, or touched in nearly every pose, and say so."""
    if not shapes.obstacles:
        return shapes
    together = np.mean(distance < shapes.margin, axis=0) > ALWAYS_TOUCHING_SHARE
    varies = np.ptp(distance, axis=0) > 1e-6
    notes = list(shapes.notes)
    for number, obstacle in enumerate(shapes.obstacles):
        at = together & (shapes.obstacle_pairs[:, 1] == number)
        names = dict.fromkeys(shapes.links[k] for k in shapes.obstacle_pairs[at, 0])
        if names:
            notes.append(
                f"not kept apart, since they touch in nearly every pose: {obstacle.name} and {', '.join(names)}"
            )
    return replace(shapes, obstacle_pairs=shapes.obstacle_pairs[varies & ~together], notes=tuple(notes))


def random_poses(robot: Robot, count: int, rng: np.random.Generator) -> Array:
    """Return random poses within the position limits, +-pi where there is none, shape (count, n_active)."""
    ranges = [_half_turns(robot.joints[j - 1].limits) for j in robot.active]
    lower, upper = np.array(ranges).T
    return rng.uniform(lower, upper, (count, len(ranges)))


def _half_turns(limits: Limits) -> tuple[float, float]:
    """Return the range of a joint as far as it lies within +-pi; of one that lies beyond, a turn at most."""
    if limits.lower > np.pi:
        return limits.lower, min(limits.upper, limits.lower + 2 * np.pi)
    if limits.upper < -np.pi:
        return max(limits.lower, limits.upper - 2 * np.pi), limits.upper
    return max(limits.lower, -np.pi), min(limits.upper, np.pi)


def _ends(robot: Robot, shapes: Shapes, q: Array) -> tuple[Array, Array, Array]:
    """Return the ends of all segments in the base frame, shape (N, m, 3) each, and the frames (N, n + 1, 4, 4)."""
    T = np.empty((len(q), robot.n + 1, 4, 4))
    T[:, 0], T[:, 1:] = np.eye(4), frames(robot, q)
    transforms = T[:, shapes.joint]
    R, p = transforms[..., :3, :3], transforms[..., :3, 3]
    return np.einsum("tmij,mj->tmi", R, shapes.a) + p, np.einsum("tmij,mj->tmi", R, shapes.b) + p, T


def segment_distance(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array, Array]:
    """Return the distance of segments a-b and c-d, shape (..., 3) each, and where on them (0 to 1) they are nearest."""
    u, v, w = b - a, d - c, a - c
    uu, uv, vv = np.sum(u * u, -1), np.sum(u * v, -1), np.sum(v * v, -1)
    uw, vw = np.sum(u * w, -1), np.sum(v * w, -1)
    tiny = 1e-18
    determinant = uu * vv - uv * uv
    skew = determinant > 1e-12 * uu * vv + tiny
    s = np.clip((uv * vw - vv * uw) / np.where(skew, determinant, np.inf), 0.0, 1.0)
    t = np.clip((uv * s + vw) / np.maximum(vv, tiny), 0.0, 1.0)
    s = np.clip((uv * t - uw) / np.maximum(uu, tiny), 0.0, 1.0)
    gap = w + s[..., None] * u - t[..., None] * v
    return np.linalg.norm(gap, axis=-1), s, t


def distances(robot: Robot, shapes: Shapes, q: Array) -> tuple[Array, Array]:
    """Return the distances of the pairs, shape (N, k), and of shapes to planes, shape (N, l, s), at poses q [m]."""
    a, b, _ = _ends(robot, shapes, q)
    i, k = shapes.pairs.T
    pair = segment_distance(a[:, i], b[:, i], a[:, k], b[:, k])[0] - shapes.radius[i] - shapes.radius[k]
    bounded = shapes.plane_shapes
    lowest = np.minimum(*(np.einsum("li,tmi->tlm", shapes.planes[:, :3], x[:, bounded]) for x in (a, b)))
    return pair, lowest - shapes.planes[:, 3][None, :, None] - shapes.radius[bounded]


def obstacle_distances(robot: Robot, shapes: Shapes, q: Array, within: float = np.inf) -> Array:
    """Return the distances of the pairs of capsules and obstacles at poses q, shape (N, o) [m]; inf beyond `within`."""
    a, b, _ = _ends(robot, shapes, q)
    found = np.full((len(q), len(shapes.obstacle_pairs)), np.inf)
    for near in _near_obstacles(shapes, a, b, within):
        found[near.sample, near.pair] = near.distance
    return found


@dataclass(frozen=True, eq=False)
class _NearObstacle:
    """Capsules near an obstacle: their samples, pairs and numbers, distances, nearest points on the segments, ways."""

    obstacle: int
    sample: Indices
    pair: Indices
    capsule: Indices
    distance: Array
    point: Array
    away: Array


def _near_obstacles(shapes: Shapes, a: Array, b: Array, within: float) -> Iterator[_NearObstacle]:
    """Yield for each obstacle the capsules whose segments a-b, shape (N, m, 3), may come nearer than `within` [m]."""
    reach = capsule_reach(shapes)
    for number, obstacle in enumerate(shapes.obstacles):
        pairs = np.flatnonzero(shapes.obstacle_pairs[:, 1] == number)
        capsules = shapes.obstacle_pairs[pairs, 0]
        middle = 0.5 * (a[:, capsules] + b[:, capsules])
        sample, which = np.nonzero(signed_distance(obstacle, middle)[0] - reach[capsules] < within)
        if len(sample):
            capsule = capsules[which]
            distance, point, away = segment_to_obstacle(obstacle, a[sample, capsule], b[sample, capsule])
            yield _NearObstacle(number, sample, pairs[which], capsule, distance - shapes.radius[capsule], point, away)


def clearance(robot: Robot, shapes: Shapes, q: Array) -> tuple[float, str]:
    """Return the smallest distance [m] at the poses q, shape (N, n_active), and the two parts it is between."""
    best, text = np.inf, "nothing"
    bounded = shapes.plane_shapes
    for start in range(0, len(q), BLOCK):  # a slow trajectory through many points has a hundred thousand poses
        a, b, _ = _ends(robot, shapes, q[start : start + BLOCK])
        distance, pair = _nearest_pair(shapes, a, b, best)
        if pair is not None:
            i, k = shapes.pairs[pair]
            best, text = distance, f"{shapes.links[i]} and {shapes.links[k]}"
        for wall, plane in enumerate(shapes.planes):
            lowest = (
                np.minimum(a[:, bounded] @ plane[:3], b[:, bounded] @ plane[:3]) - plane[3] - shapes.radius[bounded]
            )
            if lowest.size and lowest.min() < best:
                shape = bounded[int(np.argmin(lowest.min(axis=0)))]
                best, text = float(lowest.min()), f"{shapes.links[shape]} and plane {wall + 1}"
        for near in _near_obstacles(shapes, a, b, best):
            at = int(np.argmin(near.distance))
            if near.distance[at] < best:
                best = float(near.distance[at])
                text = f"{shapes.links[near.capsule[at]]} and {shapes.obstacles[near.obstacle].name}"
    return best, text


@dataclass(frozen=True, eq=False)
class Nearest:
    """The closest pair at each of N poses: distance, shape (N,) [m], inf where nothing is kept apart.

    first, second: numbers of the capsules, shape (N,); second is -1 - k for plane k, obstacles follow the planes.
    p, r: the nearest points of both surfaces in the base frame, shape (N, 3) [m].
    """

    distance: Array
    first: Indices
    second: Indices
    p: Array
    r: Array


def nearest(robot: Robot, shapes: Shapes, q: Array) -> Nearest:
    """Return the closest pair at each pose, q of shape (N, n_active)."""
    parts = [_nearest_block(robot, shapes, q[start : start + BLOCK]) for start in range(0, len(q), BLOCK)]
    fields = ("distance", "first", "second", "p", "r")
    return Nearest(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))


def _nearest_block(robot: Robot, shapes: Shapes, q: Array) -> Nearest:
    N, bounded = len(q), shapes.plane_shapes
    a, b, _ = _ends(robot, shapes, q)
    best, first, second = np.full(N, np.inf), np.zeros(N, dtype=np.intp), np.zeros(N, dtype=np.intp)
    p, r = np.zeros((N, 3)), np.zeros((N, 3))
    for i, k in shapes.pairs:
        apart, s, t = segment_distance(a[:, i], b[:, i], a[:, k], b[:, k])
        distance = apart - shapes.radius[i] - shapes.radius[k]
        closer = distance < best
        one = a[:, i] + s[:, None] * (b[:, i] - a[:, i])
        two = a[:, k] + t[:, None] * (b[:, k] - a[:, k])
        way = np.divide(two - one, apart[:, None], out=np.zeros_like(one), where=apart[:, None] > 0)
        best, first, second = np.where(closer, distance, best), np.where(closer, i, first), np.where(closer, k, second)
        p = np.where(closer[:, None], one + shapes.radius[i] * way, p)
        r = np.where(closer[:, None], two - shapes.radius[k] * way, r)
    for wall, plane in enumerate(shapes.planes):
        for i in bounded:
            low_a, low_b = a[:, i] @ plane[:3], b[:, i] @ plane[:3]
            distance = np.minimum(low_a, low_b) - plane[3] - shapes.radius[i]
            closer = distance < best
            low = np.where((low_a < low_b)[:, None], a[:, i], b[:, i]) - shapes.radius[i] * plane[:3]
            best, first = np.where(closer, distance, best), np.where(closer, i, first)
            second = np.where(closer, -1 - wall, second)
            p = np.where(closer[:, None], low, p)
            r = np.where(closer[:, None], low - distance[:, None] * plane[:3], r)
    for near in _near_obstacles(shapes, a, b, np.inf):
        order = np.argsort(-near.distance)  # the nearest is written last
        order = order[near.distance[order] < best[near.sample[order]]]
        at, distance, away = near.sample[order], near.distance[order], near.away[order]
        best[at], first[at], second[at] = distance, near.capsule[order], -1 - len(shapes.planes) - near.obstacle
        surface = near.point[order] - shapes.radius[near.capsule[order], None] * away
        p[at], r[at] = surface, surface - distance[:, None] * away
    return Nearest(best, first, second, p, r)


def _nearest_pair(shapes: Shapes, a: Array, b: Array, best: float) -> tuple[float, int | None]:
    """Return the smallest distance of a pair that is below `best`, and its number; `best` and None if none is."""
    i, k = shapes.pairs.T
    reach, middle = capsule_reach(shapes), 0.5 * (a + b)
    least = np.linalg.norm(middle[:, i] - middle[:, k], axis=2) - reach[i] - reach[k]  # no pair is closer than this
    number: int | None = None
    while True:
        sample, pair = np.nonzero(least < best)
        if not len(pair):
            return best, number
        if len(pair) > PROMISING:
            first = np.argpartition(least[sample, pair], PROMISING)[:PROMISING]
            sample, pair = sample[first], pair[first]
        one, two = i[pair], k[pair]
        ends = a[sample, one], b[sample, one], a[sample, two], b[sample, two]
        distance = segment_distance(*ends)[0] - shapes.radius[one] - shapes.radius[two]
        least[sample, pair] = np.inf
        at = int(np.argmin(distance))
        if distance[at] < best:
            best, number = float(distance[at]), int(pair[at])


def capsule_reach(shapes: Shapes) -> Array:
    """Return how far each capsule reaches from its middle, shape (m,) [m]."""
    return np.asarray(0.5 * np.linalg.norm(shapes.b - shapes.a, axis=1) + shapes.radius)


def collision_term(robot: Robot, shapes: Shapes, tight: float = 1.15) -> Callable[[Array], tuple[float, Array]]:
    """Return the penalty of poses whose distances are below `tight` times the margin, with its derivative by q."""
    moves_shape = _joint_moves_shape(robot)
    G, _ = constraint(robot)
    min_distance = tight * shapes.margin + 1e-3
    i, k = shapes.pairs.T
    reach = capsule_reach(shapes)
    near = min_distance + reach[i] + reach[k]  # capsules whose middles are farther apart need no closer look

    def term(q: Array) -> tuple[float, Array]:
        a, b, T = _ends(robot, shapes, q)
        gradient = np.zeros((len(q), robot.n))
        middle = 0.5 * (a + b)
        between = middle[:, i] - middle[:, k]
        sample, pair = np.nonzero(np.einsum("tpi,tpi->tp", between, between) < near**2)
        one, two = i[pair], k[pair]
        ends = a[sample, one], b[sample, one], a[sample, two], b[sample, two]
        distance, s, t = segment_distance(*ends)
        lack = np.maximum(min_distance - (distance - shapes.radius[one] - shapes.radius[two]), 0.0) / SOFTNESS_M
        total = float(np.sum(lack**2))
        p = ends[0] + s[:, None] * (ends[1] - ends[0])
        r = ends[2] + t[:, None] * (ends[3] - ends[2])
        force = (-2.0 * lack / SOFTNESS_M / np.maximum(distance, 1e-9))[:, None] * (p - r)
        _push(robot, T, gradient, moves_shape, sample, shapes.joint[one], p, force)
        _push(robot, T, gradient, moves_shape, sample, shapes.joint[two], r, -force)
        bounded = shapes.plane_shapes
        for plane in shapes.planes:
            for end in (a[:, bounded], b[:, bounded]):
                lack = np.maximum(min_distance + plane[3] + shapes.radius[bounded] - end @ plane[:3], 0.0) / SOFTNESS_M
                total += float(np.sum(lack**2))
                sample, shape = np.nonzero(lack)
                force = -2.0 / SOFTNESS_M * lack[sample, shape][:, None] * plane[:3]
                _push(robot, T, gradient, moves_shape, sample, shapes.joint[bounded[shape]], end[sample, shape], force)
        for close in _near_obstacles(shapes, a, b, min_distance):
            lack = np.maximum(min_distance - close.distance, 0.0) / SOFTNESS_M
            total += float(np.sum(lack**2))
            force = (-2.0 / SOFTNESS_M * lack)[:, None] * close.away
            _push(robot, T, gradient, moves_shape, close.sample, shapes.joint[close.capsule], close.point, force)
        return total, gradient @ G

    return term


def _joint_moves_shape(robot: Robot) -> NDArray[np.bool_]:
    """Return whether joint j moves what joint i carries, shape (n + 1, n + 1), numbers from 0 (the base)."""
    moves_shape = np.eye(robot.n + 1, dtype=bool)
    for j, joint in enumerate(robot.joints, start=1):
        moves_shape[j] |= moves_shape[joint.parent]
    return moves_shape


def _push(
    robot: Robot,
    T: Array,
    gradient: Array,
    moves_shape: NDArray[np.bool_],
    sample: Indices,
    joint: Indices,
    p: Array,
    force: Array,
) -> None:
    """Add J^T force to the gradient, shape (N, n), for points p on links of `joint`, each belonging to a sample."""
    for j in range(1, robot.n + 1):
        which = np.flatnonzero(moves_shape[joint, j])
        at = sample[which]
        z = T[at, j, :3, 2]
        lever = z if robot.joints[j - 1].sigma == PRISMATIC else np.cross(z, p[which] - T[at, j, :3, 3])
        np.add.at(gradient[:, j - 1], at, np.sum(lever * force[which], axis=1))
