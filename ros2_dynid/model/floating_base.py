# SPDX-License-Identifier: Apache-2.0

"""A base that floats: six joints without drives between the world and the base link.

The base link's origin stands at (x, y, z) in the world and is turned by Rz(yaw) Ry(pitch) Rx(roll): three prismatic
and three revolute joints, whose links have no mass. So a robot that stands, hangs or flies is a tree like any other.
The efforts of the six joints are the forces and moments from outside: nothing drives them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.robot import BASE_JOINTS, Array
from ros2_dynid.model.urdf import UrdfJoint, UrdfTree, name_list

WORLD = "world"
AXES = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1), (0, 1, 0), (1, 0, 0))
"""Axes of x, y, z, yaw, pitch and roll."""


def with_floating_base(tree: UrdfTree, base_link: str | None = None) -> UrdfTree:
    """Return what `base_link` carries, behind the six joints of a floating base, in a world of its own.

    By default the base is the link that the file itself lets float, else its root.
    """
    base = _find_base(tree) if base_link is None else base_link
    if base not in tree.links:
        raise InputError(f"there is no base link {base!r}", f"choose one of the {_links(tree)}", tree.source)
    inside = _links_beyond(tree, base)
    own = {name: joint for name, joint in tree.joints.items() if joint.parent in inside}
    if taken := sorted(set(BASE_JOINTS) & set(own)):
        raise InputError(f"joint {taken[0]!r} has the name of a joint of the floating base", "rename it", tree.source)
    world = _free_name(WORLD, inside)
    places = [*(_free_name(name, inside) for name in BASE_JOINTS[:-1]), base]
    joints = {
        name: _base_joint(number, parent, child)
        for number, (name, parent, child) in enumerate(zip(BASE_JOINTS, (world, *places), places, strict=False))
    }
    joints |= own
    children: dict[str, tuple[UrdfJoint, ...]] = {}
    for joint in joints.values():
        children[joint.parent] = (*children.get(joint.parent, ()), joint)
    massless = Inertia(0.0, np.zeros(3), np.zeros((3, 3)))
    return replace(
        tree,
        root=world,
        links={world: None, **dict.fromkeys(places[:-1], massless), **{name: tree.links[name] for name in inside}},
        joints=joints,
        children=children,
        loops=tuple((what, names & set(own)) for what, names in tree.loops if names & set(own)),
    )


def _base_joint(number: int, parent: str, child: str) -> UrdfJoint:
    kind = "prismatic" if number < 3 else "continuous"
    axis: Array = np.array(AXES[number], dtype=float)
    limits = {"lower": -np.inf, "upper": np.inf, "has_limit": True}
    return UrdfJoint(BASE_JOINTS[number], kind, parent, child, np.eye(4), axis, **limits)  # type: ignore[arg-type]


def _find_base(tree: UrdfTree) -> str:
    floats = [joint.child for joint in tree.joints.values() if joint.type == "floating"]
    carriers = [link for link in floats if any(tree.joints[n].moves for n in _joints_beyond(tree, link))] or floats
    if len(carriers) > 1:
        what = f"the file lets {name_list('link', sorted(carriers))} float"
        raise InputError(what, Text("name one of them: ", Option("base_link")), tree.source)
    return carriers[0] if carriers else tree.root


def _joints_beyond(tree: UrdfTree, link: str) -> list[str]:
    inside = _links_beyond(tree, link)
    return [name for name, joint in tree.joints.items() if joint.parent in inside]


def _links_beyond(tree: UrdfTree, link: str) -> dict[str, None]:
    """Return the link and all that it carries, in the order of the file's tree."""
    inside: dict[str, None] = {}
    stack = [link]
    while stack:
        inside[(name := stack.pop())] = None
        stack += [joint.child for joint in reversed(tree.children.get(name, ()))]
    return inside


def _free_name(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _links(tree: UrdfTree) -> str:
    return name_list("link", tree.links, 12)
