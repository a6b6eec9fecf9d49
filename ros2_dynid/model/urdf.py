# SPDX-License-Identifier: Apache-2.0

"""A URDF as frozen data: links with their inertias, joints with their origins, read by urdf_parser_py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.robot import Array
from ros2_dynid.model.transforms import NOTE_ANGLE, rotation_rpy, snap_angle, transform
from ros2_dynid.model.urdf_xml import MOVING, clean_urdf


@dataclass(frozen=True)
class UrdfJoint:
    """A joint as the URDF gives it: `origin` (4, 4) in the parent link's frame, unit `axis` (3,) in its own."""

    name: str
    type: str
    parent: str
    child: str
    origin: Array
    axis: Array
    lower: float = 0.0
    upper: float = 0.0
    velocity: float = np.inf
    effort: float = np.inf
    has_limit: bool = False
    damping: float = 0.0
    friction: float = 0.0
    mimic: tuple[str, float, float] | None = None
    """Name of the joint that leads, multiplier, offset."""

    @property
    def moves(self) -> bool:
        """Whether the joint has the one degree of freedom that modified DH describes."""
        return self.type in MOVING


@dataclass(frozen=True)
class UrdfTree:
    """A checked URDF: one root, no cycle. `solid` names the links that have a visual or a collision shape."""

    name: str
    source: str
    root: str
    links: Mapping[str, Inertia | None]
    joints: Mapping[str, UrdfJoint]
    solid: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    children: Mapping[str, tuple[UrdfJoint, ...]] = field(default_factory=dict)
    """Joints that leave each link, in the order of the file."""


def parse_urdf(data: bytes | str, source: str = "robot_description") -> UrdfTree:
    """Return the tree of a URDF's text; `source` names the file in errors and notes."""
    try:
        from urdf_parser_py import urdf
    except ImportError:
        raise MissingPackageError("urdf-parser-py", "reading a URDF") from None
    clean = clean_urdf(data, source)
    try:
        parsed = urdf.URDF.from_xml_string(clean.text)
    except Exception as error:  # the parser raises bare Exception, AssertionError and ParseError alike
        raise InputError(f"urdf_parser_py refuses it: {error}", "correct the element named", source) from None
    rounded: dict[str, float] = {}
    joints = {joint.name: _joint(joint, rounded) for joint in parsed.joints}
    notes = _rounding_note(rounded)
    strays = [joint.name for joint in joints.values() if joint.mimic and joint.mimic[0] not in joints]
    if strays:  # published URDFs have them, and the joint moves without its leader
        notes += (f"<mimic> of an unknown joint left out: {name_list('joint', strays)} taken as free",)
        joints |= {name: replace(joints[name], mimic=None) for name in strays}
    links = {link.name: _inertia(link) for link in parsed.links}
    children: dict[str, list[UrdfJoint]] = {}
    for joint in joints.values():
        children.setdefault(joint.parent, []).append(joint)
    return UrdfTree(
        name=parsed.name,
        source=source,
        root=_root(list(links), joints, source),
        links=links,
        joints=joints,
        solid=clean.solid,
        notes=notes,
        children={link: tuple(leaving) for link, leaving in children.items()},
    )


def _joint(joint: Any, rounded: dict[str, float]) -> UrdfJoint:
    angles = [snap_angle(angle) for angle in joint.origin.rpy]
    change = max(abs(a - b) for a, b in zip(angles, joint.origin.rpy, strict=True))
    if change > NOTE_ANGLE:
        rounded[joint.name] = change
    axis = np.array(joint.axis if joint.axis is not None else (1.0, 0.0, 0.0), dtype=float)
    fields: dict[str, Any] = {}
    if joint.limit is not None:
        limit = joint.limit
        fields |= {"has_limit": True, "lower": limit.lower, "upper": limit.upper}
        fields |= {"velocity": limit.velocity, "effort": limit.effort}
    if joint.dynamics is not None:
        fields |= {"damping": joint.dynamics.damping, "friction": joint.dynamics.friction}
    if joint.mimic is not None:
        fields["mimic"] = (joint.mimic.joint, joint.mimic.multiplier, joint.mimic.offset)
    return UrdfJoint(
        name=joint.name,
        type=joint.type,
        parent=joint.parent,
        child=joint.child,
        origin=transform(rotation_rpy(*angles), np.array(joint.origin.xyz)),
        axis=np.asarray(axis / np.linalg.norm(axis)),  # coordinate axes stay exact
        **fields,
    )


def _inertia(link: Any) -> Inertia | None:
    inertial = link.inertial
    if inertial is None:
        return None
    rotation = rotation_rpy(*inertial.origin.rpy)
    return Inertia.at_centre_of_mass(
        inertial.mass, np.array(inertial.origin.xyz), rotation @ np.array(inertial.inertia.to_matrix()) @ rotation.T
    )


def _rounding_note(rounded: dict[str, float]) -> tuple[str, ...]:
    if not rounded:
        return ()
    worst = max(rounded.values())
    return (
        f"rounded angles taken as exact multiples of 90 deg (largest change {worst:.1e} rad) in the origin of "
        f"{name_list('joint', rounded)}",
    )


def name_list(kind: str, names: Iterable[object], max_names: int = 6) -> str:
    """Return "joints 'a', 'b' and 3 more" for a note of one line."""
    names_list = list(names)
    text = ", ".join(repr(name) for name in names_list[:max_names])
    more = f" and {len(names_list) - max_names} more" if len(names_list) > max_names else ""
    return f"{kind}{'s' if len(names_list) > 1 else ''} {text}{more}"


def _root(links: list[str], joints: dict[str, UrdfJoint], source: str) -> str:
    """Return the link without a parent; refuse cycles, a link with two parents, and several roots."""
    carrier: dict[str, UrdfJoint] = {}
    for joint in joints.values():
        if joint.child in carrier:
            first = carrier[joint.child].name
            raise InputError(
                f"link {joint.child!r} is the child of joints {first!r} and {joint.name!r}",
                "cut the loop: a URDF is a tree; closed loops go into a robot file as passive joints",
                source,
            )
        carrier[joint.child] = joint
    roots = [link for link in links if link not in carrier]
    reached: set[str] = set()
    stack = list(roots)
    below: dict[str, list[str]] = {}
    for joint in joints.values():
        below.setdefault(joint.parent, []).append(joint.child)
    while stack:
        link = stack.pop()
        reached.add(link)
        stack += below.get(link, [])
    for link in links:
        if link not in reached:
            raise InputError(
                f"joint {carrier[link].name!r} closes a cycle at link {link!r}",
                "cut the loop: a URDF is a tree; closed loops go into a robot file as passive joints",
                source,
            )
    used = {joint.parent for joint in joints.values()}
    rooted = [link for link in roots if link in used]
    if len(rooted) > 1:
        raise InputError(
            f"links {rooted[0]!r} and {rooted[1]!r} are both roots", "join the parts by a fixed joint", source
        )
    return rooted[0]
