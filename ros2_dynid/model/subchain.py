# SPDX-License-Identifier: Apache-2.0

"""The part of a URDF that moves: joints kept, joints held, links placed at the zero position.

Links behind fixed and held joints belong to the moving joint before them. Joints are numbered depth first in the order
of the file, so that the antecedent's number is the smaller one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.robot import Array
from ros2_dynid.model.transforms import rotation_about, transform
from ros2_dynid.model.urdf import UrdfJoint, UrdfTree, name_list


class ChainOptions(TypedDict):
    """Which part of a URDF is the robot: from base_link to tip_link (None: all), joints held at [rad or m]."""

    base_link: str | None
    tip_link: str | None
    hold: Mapping[str, float]


@dataclass(frozen=True)
class PlacedJoint:
    """Moving joint of a chain: antecedent's number, URDF frame and axis in the base link's frame at q = 0."""

    urdf: UrdfJoint
    parent: int
    pose: Array
    axis: Array
    mimic: tuple[float, Mapping[str, float]] | None = None
    """For a passive joint: the offset, and the active joints that lead it with their factors."""


@dataclass(frozen=True)
class PlacedLink:
    """Link of a chain: the number of the joint that carries it (0: the base) and its pose (4, 4) at q = 0."""

    name: str
    carrier: int
    pose: Array


@dataclass(frozen=True)
class Subchain:
    """The moving part of a URDF at the zero position, in the base link's frame; gravity direction `up` (3,) in its
    frame.
    """

    tree: UrdfTree
    base_link: str
    joints: tuple[PlacedJoint, ...]
    links: tuple[PlacedLink, ...]
    up: Array
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _JointMotion:
    """How a joint moves: held at `offset`, or offset + sum of factors times active joints, or freely (None)."""

    offset: float
    factors: Mapping[str, float]


def select_chain(
    tree: UrdfTree,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
) -> Subchain:
    """Return the sub-chain from `base_link` (default: the root) to `tip_link` (default: every branch).

    Joints in `hold` stay at the position given [rad or m], the other joints left out at zero.
    """
    hold = dict(hold or {})
    base = tree.root if base_link is None else base_link
    for link, option in ((base, "base link"), (tip_link, "tip link")):
        if link is not None and link not in tree.links:
            raise InputError(f"there is no {option} {link!r}", _choose("link", tree.links), tree.source)
    notes = _check_hold(tree, hold)
    carrier = {joint.child: joint for joint in tree.joints.values()}
    on_chain = _joints_on_chain(tree, base, tip_link, carrier)
    motions = _motions(tree, hold, on_chain, notes)
    joints, links = _place(tree, base, motions)
    if not joints:
        hint = (
            "choose other base and tip links, or hold fewer joints" if on_chain else "choose a link with joints behind"
        )
        raise InputError(f"no joint moves behind link {base!r}", hint, tree.source)
    root_to_base = np.eye(4)
    link = base
    while link in carrier:
        root_to_base = _fixed_pose(carrier[link], motions) @ root_to_base
        link = carrier[link].parent
    # Gravity points down in the root's frame, however the base link is mounted on it.
    up = root_to_base[2, :3].copy()
    if base != tree.root and up[2] < 1.0 - 1e-12:
        notes.append(f"gravity is turned into the frame of base link {base!r}, which is not upright in {tree.root!r}")
    return Subchain(tree, base, tuple(joints), tuple(links), up, tuple(notes))


def _choose(kind: str, names: Mapping[str, object]) -> str:
    return f"choose one of the {name_list(kind, names, 12)}"


def _check_hold(tree: UrdfTree, hold: dict[str, float]) -> list[str]:
    notes = []
    for name, value in hold.items():
        if name not in tree.joints:
            raise InputError(f"there is no joint {name!r} to hold", _choose("joint", tree.joints), tree.source)
        joint = tree.joints[name]
        if not np.isfinite(value):
            raise InputError(f"joint {name!r} held at {value}", "give a finite position [rad or m]", tree.source)
        if not joint.moves and value != 0.0:
            raise InputError(f"joint {name!r} is {joint.type}", "it can only be held at 0", tree.source)
        limited = joint.moves and joint.has_limit and joint.type != "continuous" and joint.lower < joint.upper
        if limited and not joint.lower - 1e-6 <= value <= joint.upper + 1e-6:
            notes.append(f"joint {name!r} is held at {value:g}, outside its limits")
    return notes


def _joints_on_chain(tree: UrdfTree, base: str, tip: str | None, carrier: Mapping[str, UrdfJoint]) -> set[str]:
    """Return the moving joints of the sub-chain: from base to tip, or all below the base."""
    if tip is not None:
        names, link = set(), tip
        while link != base:
            if link not in carrier:
                raise InputError(
                    f"tip link {tip!r} is not behind base link {base!r}", "exchange or replace them", tree.source
                )
            names.add(carrier[link].name)
            link = carrier[link].parent
    else:
        names, stack = set(), [base]
        while stack:
            for joint in tree.children.get(stack.pop(), ()):
                names.add(joint.name)
                stack.append(joint.child)
    return {name for name in names if tree.joints[name].moves}


def _motions(
    tree: UrdfTree, hold: Mapping[str, float], on_chain: set[str], notes: list[str]
) -> dict[str, _JointMotion]:
    """Return how each joint that is not free moves; joints that mimic a free one carry its factor."""
    motions: dict[str, _JointMotion] = {}
    for joint in tree.joints.values():
        if joint.name in hold:
            motions[joint.name] = _JointMotion(hold[joint.name], {})
        elif joint.type == "fixed":
            motions[joint.name] = _JointMotion(0.0, {})
        elif not joint.moves:
            if joint.parent != tree.root:
                raise InputError(
                    f"joint {joint.name!r} is {joint.type}",
                    Text("hold it: ", Option("hold", {joint.name: 0})),
                    tree.source,
                )
            notes.append(f"{joint.type} joint {joint.name!r} of the base is held")
            motions[joint.name] = _JointMotion(0.0, {})
        elif joint.mimic is None and joint.name not in on_chain:
            motions[joint.name] = _JointMotion(0.0, {})
    for joint in tree.joints.values():
        _follow(tree, joint, motions, on_chain)
    return motions


def _follow(tree: UrdfTree, joint: UrdfJoint, motions: dict[str, _JointMotion], on_chain: set[str]) -> None:
    """Resolve a joint that mimics: through others that mimic, to held and free ones."""
    trail: list[UrdfJoint] = []
    while joint.mimic is not None and joint.name not in motions:
        trail.append(joint)
        leader = joint.mimic[0]
        joint = tree.joints[leader]
        if joint in trail:
            raise InputError(
                f"joint {joint.name!r} mimics itself", "let <mimic> lead to a joint that moves freely", tree.source
            )
    for follower in reversed(trail):
        assert follower.mimic is not None
        leader, multiplier, offset = follower.mimic
        motion = motions.get(leader, _JointMotion(0.0, {leader: 1.0}))
        factors = {name: multiplier * factor for name, factor in motion.factors.items()}
        if follower.name not in on_chain:
            factors = {}
        motions[follower.name] = _JointMotion(multiplier * motion.offset + offset, factors)


def _fixed_pose(joint: UrdfJoint, motions: Mapping[str, _JointMotion]) -> Array:
    """Return the transform parent link -> child link (4, 4): at the held position, or at zero if the joint moves."""
    motion = motions.get(joint.name)
    if motion is None or motion.factors or motion.offset == 0.0:
        return joint.origin
    if joint.type == "prismatic":
        return np.asarray(joint.origin @ transform(np.eye(3), motion.offset * joint.axis))
    return np.asarray(joint.origin @ transform(rotation_about(joint.axis, motion.offset), np.zeros(3)))


def _place(
    tree: UrdfTree, base: str, motions: Mapping[str, _JointMotion]
) -> tuple[list[PlacedJoint], list[PlacedLink]]:
    joints: list[PlacedJoint] = []
    links: list[PlacedLink] = []
    stack: list[tuple[UrdfJoint | None, int, Array]] = [(None, 0, np.eye(4))]
    while stack:
        joint, carrier, parent_pose = stack.pop()
        pose = parent_pose
        if joint is not None:
            pose = parent_pose @ _fixed_pose(joint, motions)
            motion = motions.get(joint.name)
            if motion is None or motion.factors:
                mimic = None if motion is None else (motion.offset, motion.factors)
                joints.append(PlacedJoint(joint, carrier, pose, pose[:3, :3] @ joint.axis, mimic))
                carrier = len(joints)
        link = base if joint is None else joint.child
        links.append(PlacedLink(link, carrier, pose))
        stack += [(child, carrier, pose) for child in reversed(tree.children.get(link, ()))]
    return joints, links
