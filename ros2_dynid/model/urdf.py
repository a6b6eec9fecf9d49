# SPDX-License-Identifier: Apache-2.0

"""A URDF as frozen data: links with their inertias, joints with their origins, read by urdf_parser_py.

The text is validated first: well-formed, no entities, unique names, finite numbers. Only the elements that the dynamics
need are passed on to the parser.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree.ElementTree import Element, SubElement, TreeBuilder, tostring
from xml.parsers import expat

import numpy as np

from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.mdh import NOTE_ANGLE, rotation_rpy, snap_angle, transform
from ros2_dynid.model.robot import STANDARD_GRAVITY, Array, Servo

MAX_BYTES = 50_000_000
"""A URDF larger than this is refused: the largest published ones have 1 MB."""
MAX_NUMBER = 1e30
"""Lengths, masses and inertias beyond this overflow in products and mean nothing."""
MOVING = ("revolute", "continuous", "prismatic")
JOINT_TYPES = (*MOVING, "fixed", "floating", "planar")


@dataclass(frozen=True)
class CleanUrdf:
    """A checked URDF: `text` holds links with inertials and joints only; `solid` names the links that have a shape."""

    text: str
    solid: frozenset[str]


def clean_urdf(data: bytes | str, source: str) -> CleanUrdf:
    """Check a URDF and return it reduced to links and joints; `source` names the file in errors."""
    root = _parse(data, source)
    if root.tag != "robot":
        raise InputError(f"its first element is <{root.tag}>, not <robot>", "give a URDF", source)
    clean = Element("robot", name=root.get("name") or "robot")
    links = [element for element in root if element.tag == "link"]
    joints = [element for element in root if element.tag == "joint"]
    _check_names(links, "link", source)
    _check_names(joints, "joint", source)
    if not joints:
        hint = "run xacro first" if any("xacro" in e.tag for e in root) else "give a robot with at least one joint"
        raise InputError("the URDF has no <joint>", hint, source)
    solid = set()
    for link in links:
        _clean_link(clean, link, source)
        if link.find("visual") is not None or link.find("collision") is not None:
            solid.add(link.get("name", ""))
    link_names = {link.get("name") for link in links}
    for joint in joints:
        _clean_joint(clean, joint, link_names, source)
    return CleanUrdf(tostring(clean, encoding="unicode"), frozenset(solid))


def _parse(data: bytes | str, source: str) -> Element:
    """Return the root element; document types and entities are refused, nothing outside the text is read."""
    if len(data) > MAX_BYTES:
        raise InputError(f"the URDF has more than {MAX_BYTES // 1_000_000} MB", "give the robot without meshes", source)
    if isinstance(data, str):
        # A lone surrogate cannot be written as UTF-8; "replace" makes it a question mark, which XML may hold.
        data, encoding = data.lstrip("\ufeff \t\r\n").encode("utf-8", "replace"), "utf-8"
    else:
        data, encoding = data.lstrip(b" \t\r\n"), None
    builder = TreeBuilder()
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True

    def refuse(*_: object) -> None:
        raise InputError("it has a <!DOCTYPE>", "remove it: a URDF needs no document type or entities", source)

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    try:
        parser.Parse(data, True)
        return builder.close()
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset + 1}: {expat.errors.messages.get(error.code, 'bad XML')}"
        raise InputError(f"not XML ({where})", "give a URDF file, or run xacro first", source) from None
    except (ValueError, LookupError, AssertionError) as error:
        raise InputError(f"not XML ({error})", "give a URDF file in UTF-8", source) from None


def root_tag(data: bytes) -> str:
    """Return the name of a document's first element, empty if it is not XML."""
    names: list[str] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, _: names.append(name)
    with contextlib.suppress(expat.ExpatError, ValueError, LookupError):
        parser.Parse(data.lstrip(b" \t\r\n"), True)
    return names[0] if names else ""


def _check_names(elements: list[Element], kind: str, source: str) -> None:
    earlier = set()
    for number, element in enumerate(elements, start=1):
        name = element.get("name")
        if not name or not name.strip():
            raise InputError(f"{kind} number {number} has no name", f"give every <{kind}> a name", source)
        if name in earlier:
            raise InputError(f"{kind} {name!r} occurs twice", f"give every {kind} its own name", source)
        earlier.add(name)


def _clean_link(clean: Element, link: Element, source: str) -> None:
    where = f"link {link.get('name')!r}"
    out = SubElement(clean, "link", name=link.get("name", ""))
    inertial = link.find("inertial")
    if inertial is None:
        return
    clean_inertial = SubElement(out, "inertial")
    _clean_origin(clean_inertial, inertial, f"{where} inertial", source)
    mass = _child(inertial, "mass", where, source)
    value = _numbers(mass, "value", 1, f"{where} <mass>", source)
    if value[0] < 0:
        raise InputError(f"{where} has the negative mass {value[0]:g} kg", "correct <mass value>", source)
    SubElement(clean_inertial, "mass", value=mass.get("value", ""))
    inertia = _child(inertial, "inertia", where, source)
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    for name in names:
        _numbers(inertia, name, 1, f"{where} <inertia>", source)
    SubElement(clean_inertial, "inertia", {name: inertia.get(name, "") for name in names})


def _clean_joint(clean: Element, joint: Element, links: set[str | None], source: str) -> None:
    where = f"joint {joint.get('name')!r}"
    kind = joint.get("type")
    if kind not in JOINT_TYPES:
        raise InputError(f"{where} has the type {kind!r}", f"use one of {', '.join(JOINT_TYPES)}", source)
    out = SubElement(clean, "joint", name=joint.get("name", ""), type=kind)
    _clean_origin(out, joint, where, source)
    for tag in ("parent", "child"):
        link = _child(joint, tag, where, source).get("link")
        if link not in links:
            raise InputError(f"{where} names the unknown {tag} link {link!r}", f"add <link name={link!r}/>", source)
        SubElement(out, tag, link=link or "")
    if kind in MOVING:
        _clean_axis(out, joint, where, source)
    limit = joint.find("limit")
    if limit is not None:
        clean_limit = SubElement(out, "limit")
        for name, missing in (("lower", "0"), ("upper", "0"), ("effort", "inf"), ("velocity", "inf")):
            if limit.get(name) is not None:
                _numbers(limit, name, 1, f"{where} <limit>", source, infinite=True)
            clean_limit.set(name, limit.get(name, missing))
    dynamics = joint.find("dynamics")
    if dynamics is not None:
        clean_limit = SubElement(out, "dynamics")
        for name in ("damping", "friction"):
            if dynamics.get(name) is not None:
                _numbers(dynamics, name, 1, f"{where} <dynamics>", source)
            clean_limit.set(name, dynamics.get(name, "0"))
    mimic = joint.find("mimic")
    if mimic is not None and kind in MOVING:
        if not mimic.get("joint"):
            raise InputError(f"{where} <mimic> names no joint", "write <mimic joint=NAME/>", source)
        clean_limit = SubElement(out, "mimic", joint=mimic.get("joint", ""))
        for name, missing in (("multiplier", "1"), ("offset", "0")):
            if mimic.get(name) is not None:
                _numbers(mimic, name, 1, f"{where} <mimic>", source)
            clean_limit.set(name, mimic.get(name, missing))


def _clean_axis(out: Element, joint: Element, where: str, source: str) -> None:
    """Copy the axis, (1 0 0) where it is missing as URDF says, and refuse one without a direction."""
    axis = joint.find("axis")
    text = "1 0 0"
    if axis is not None:
        numbers = _numbers(axis, "xyz", 3, f"{where} <axis>", source)
        text = axis.get("xyz", "")
        if math.hypot(*numbers) < 1e-12:
            raise InputError(f"{where} has a zero axis", "give <axis xyz> a direction such as 0 0 1", source)
    SubElement(out, "axis", xyz=text)


def _clean_origin(out: Element, element: Element, where: str, source: str) -> None:
    origin = element.find("origin")
    clean_origin = SubElement(out, "origin", xyz="0 0 0", rpy="0 0 0")
    for name in ("xyz", "rpy"):
        if origin is not None and origin.get(name) is not None:
            _numbers(origin, name, 3, f"{where} <origin>", source)
            clean_origin.set(name, origin.get(name, ""))


def _child(element: Element, tag: str, where: str, source: str) -> Element:
    child = element.find(tag)
    if child is None:
        raise InputError(f"{where} has no <{tag}>", "add it", source)
    return child


def _numbers(
    element: Element, attribute: str, count: int, where: str, source: str, *, infinite: bool = False
) -> list[float]:
    """Return the `count` numbers of an attribute; infinity passes only where it means "no limit"."""
    text = element.get(attribute)
    if text is None:
        raise InputError(f"{where} has no {attribute}", f"add {attribute}= with {_quantity(count)}", source)
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        values = []
    excerpt = text if len(text) <= 60 else text[:57] + "..."
    if len(values) != count or "_" in text:
        hint = "run xacro first" if "$" in text else f"write {_quantity(count)}"
        raise InputError(f"{where} has {attribute}={excerpt!r}", hint, source)
    if any(math.isnan(v) or (abs(v) > MAX_NUMBER and not infinite) for v in values):
        raise InputError(
            f"{where} has {attribute}={excerpt!r}, not a finite number", f"write {_quantity(count)}", source
        )
    return values


def _quantity(count: int) -> str:
    return "a number" if count == 1 else f"{count} numbers"


@dataclass(frozen=True)
class UrdfJoint:
    """A joint as the URDF gives it: `origin` (4, 4) in the parent link's frame, unit `axis` (3,) in its own.

    armature and servo are what an MJCF says beyond that.
    """

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
    armature: float = 0.0
    servo: Servo | None = None
    mimic: tuple[str, float, float] | None = None
    """Name of the joint that leads, multiplier, offset."""

    @property
    def moves(self) -> bool:
        """Whether the joint has the one degree of freedom that modified DH describes."""
        return self.type in MOVING


@dataclass(frozen=True)
class LoopCuts:
    """Where closed loops are cut: pairs of points (link, x, y, z in its frame [m]) that meet.

    driven: joints that have an actuator; assembly: positions [rad or m] near which the loops close, by joint.
    """

    pairs: tuple[tuple[tuple[str, Array], tuple[str, Array]], ...]
    driven: frozenset[str]
    assembly: Mapping[str, float]


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
    gravity: tuple[float, ...] = STANDARD_GRAVITY
    """In the root's frame [m/s^2]."""
    exact: bool = False
    """Whether axes are kept as they are, to the last digit; else nearly right angles were rounded in the file."""
    loops: tuple[tuple[str, frozenset[str]], ...] = ()
    """Constraints that are not read, by name, with the joints that they bind: none of those may move."""
    cuts: LoopCuts | None = None


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
    angle_changes: dict[str, float] = {}
    joints = {joint.name: _joint(joint, angle_changes) for joint in parsed.joints}
    notes = _rounding_note(angle_changes)
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
        children={link: tuple(outgoing_joints) for link, outgoing_joints in children.items()},
    )


def _joint(joint: Any, angle_changes: dict[str, float]) -> UrdfJoint:
    angles = [snap_angle(angle) for angle in joint.origin.rpy]
    change = max(abs(a - b) for a, b in zip(angles, joint.origin.rpy, strict=True))
    if change > NOTE_ANGLE:
        angle_changes[joint.name] = change
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


def _rounding_note(angle_changes: dict[str, float]) -> tuple[str, ...]:
    if not angle_changes:
        return ()
    worst = max(angle_changes.values())
    return (
        f"rounded angles taken as exact multiples of 90 deg (largest change {worst:.1e} rad) in the origin of "
        f"{name_list('joint', angle_changes)}",
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
    reachable_links: set[str] = set()
    stack = list(roots)
    below: dict[str, list[str]] = {}
    for joint in joints.values():
        below.setdefault(joint.parent, []).append(joint.child)
    while stack:
        link = stack.pop()
        reachable_links.add(link)
        stack += below.get(link, [])
    for link in links:
        if link not in reachable_links:
            raise InputError(
                f"joint {carrier[link].name!r} closes a cycle at link {link!r}",
                "cut the loop: a URDF is a tree; closed loops go into a robot file as passive joints",
                source,
            )
    parent_links = {joint.parent for joint in joints.values()}
    rooted = [link for link in roots if link in parent_links]
    if len(rooted) > 1:
        raise InputError(
            f"links {rooted[0]!r} and {rooted[1]!r} are both roots", "join the parts by a fixed joint", source
        )
    return rooted[0]
