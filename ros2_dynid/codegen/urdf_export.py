# SPDX-License-Identifier: Apache-2.0

"""Writes standard parameters back into a URDF: only the numbers of <inertial> and <dynamics> change.

The text is edited where the numbers stand, so comments, order and formatting stay as they are. A joint's parameters
belong to all links that it carries; links fixed to its own link keep their inertia, and the own link takes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

import numpy as np

from ros2_dynid.codegen.xml_edit import Edit, Tag, edit_attributes, edited, indent_of, insert_inside, tag_end
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.from_urdf import select_chain
from ros2_dynid.model.inertia import Inertia, merged
from ros2_dynid.model.mdh import inverse, rotation_rpy
from ros2_dynid.model.robot import Array, Robot, open_tree
from ros2_dynid.model.urdf import parse_urdf


@dataclass
class _Places:
    """Where links and joints are written."""

    links: dict[str, dict[str, Tag]] = field(default_factory=dict)
    joints: dict[str, dict[str, Tag]] = field(default_factory=dict)


def updated_urdf(
    text: bytes,
    robot: Robot,
    parameters: Mapping[str, float],
    *,
    source: str = "URDF",
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
) -> tuple[bytes, list[str]]:
    """Return the URDF with the standard parameters written back, and notes for the user.

    parameters: standard parameters by name; robot: the one that this URDF and these options gave.
    """
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("the URDF is not in UTF-8", "convert it first", source)
    tree = parse_urdf(text, source)
    chain = select_chain(tree, base_link, tip_link, hold, floating_base)
    if [chain_joint.urdf.name for chain_joint in chain.joints] != [joint.name for joint in robot.joints]:
        raise InputError(
            "the joints of the URDF are not those of the model", "give the URDF that was identified", source
        )
    places = _places(text)
    notes: list[str] = []
    edits: list[Edit] = []
    zero = open_tree(robot)  # the file's own zero, whatever the offsets of joints that follow others
    poses = [np.eye(4), *frames(zero, np.zeros((1, robot.n)))[0]]
    for number, chain_joint in enumerate(chain.joints, start=1):
        if number < robot.base_number:
            continue  # of a floating base, which the file does not name
        kinds = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
        if any(f"{kind}{number}" in parameters for kind in kinds):
            XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = (parameters.get(f"{kind}{number}", 0.0) for kind in kinds)
            total = Inertia(M, np.array([MX, MY, MZ]), np.array([[XX, XY, XZ], [XY, YY, YZ], [XZ, YZ, ZZ]]))
            into = inverse(poses[number])
            own_links = [link for link in chain.links if link.carrier == number]
            others = merged(
                body.moved(into @ link.pose)
                for link in own_links
                if link.name != chain_joint.urdf.child and (body := tree.links[link.name]) is not None
            )
            rest = Inertia(
                total.mass - others.mass, total.first_moment - others.first_moment, total.matrix - others.matrix
            )
            own = next(link for link in own_links if link.name == chain_joint.urdf.child)
            body = rest.moved(inverse(into @ own.pose))
            fault = "negative mass" if body.mass < 0 else body.fault()
            if fault:
                notes.append(Text(f"link {own.name!r}: {fault}; identify with ", Option("consistent", True)))
            edits += _inertial_edits(text, places.links[own.name], body)
        friction = {
            attribute: parameters[f"{kind}{number}"]
            for kind, attribute in (("Fv", "damping"), ("Fc", "friction"))
            if f"{kind}{number}" in parameters
        }
        if number > robot.base_number:
            edits += _dynamics_edits(text, places.joints[chain_joint.urdf.name], friction)
    return edited(text, edits), notes


def _places(text: bytes) -> _Places:
    """Return where the tags of links and joints begin in the file."""
    places = _Places()
    path: list[str] = []
    current: list[dict[str, Tag]] = []
    parser = expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        path.append(name)
        tag = Tag(parser.CurrentByteIndex, attributes)
        if path in (["robot", "link"], ["robot", "joint"]):
            table = places.links if name == "link" else places.joints
            current[:] = [table.setdefault(attributes.get("name", ""), {})]
            current[0][""] = tag
        elif current and path[:2] in (["robot", "link"], ["robot", "joint"]):
            current[0].setdefault("/".join(path[2:]), tag)

    def end(name: str) -> None:
        if path in (["robot", "link"], ["robot", "joint"]):
            current[0]["end"] = Tag(parser.CurrentByteIndex, {})
        path.pop()

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.Parse(text, True)
    return places


def _numbers(values: Array) -> str:
    return " ".join(repr(float(x) + 0.0) for x in values)


def _inertial_edits(text: bytes, tags: Mapping[str, Tag], body: Inertia) -> list[Edit]:
    """Return the edits that give a link the inertia `body` (about its frame's origin, in its axes)."""
    rpy = tags["inertial/origin"].attributes.get("rpy", "0 0 0") if "inertial/origin" in tags else "0 0 0"
    roll, pitch, yaw = (float(x) for x in rpy.split())
    R = rotation_rpy(roll, pitch, yaw)
    centre = body.first_moment / body.mass if body.mass else np.zeros(3)
    about = body.matrix - body.mass * ((centre @ centre) * np.eye(3) - np.outer(centre, centre))
    J = R.T @ about @ R
    inertia = {
        name: repr(float(J[i, k]) + 0.0)
        for name, i, k in (
            ("ixx", 0, 0),
            ("ixy", 0, 1),
            ("ixz", 0, 2),
            ("iyy", 1, 1),
            ("iyz", 1, 2),
            ("izz", 2, 2),
        )
    }
    mass = {"value": repr(float(body.mass) + 0.0)}
    if "inertial" in tags:
        edits = [
            edit_attributes(text, tags["inertial/mass"], mass),
            edit_attributes(text, tags["inertial/inertia"], inertia),
        ]
        if "inertial/origin" in tags:
            edits.append(edit_attributes(text, tags["inertial/origin"], {"xyz": _numbers(centre)}))
        else:
            place = tag_end(text, tags["inertial"].start)
            indent = indent_of(text, tags["inertial"].start) + b"  "
            edits.append((place, place, b"\n" + indent + f'<origin xyz="{_numbers(centre)}" rpy="0 0 0"/>'.encode()))
        return edits
    indent = indent_of(text, tags[""].start)
    values = " ".join(f'{name}="{value}"' for name, value in inertia.items())
    inner = [
        b"<inertial>",
        f'  <origin xyz="{_numbers(centre)}" rpy="0 0 0"/>'.encode(),
        f'  <mass value="{mass["value"]}"/>'.encode(),
        f"  <inertia {values}/>".encode(),
        b"</inertial>",
    ]
    block = b"".join(b"\n" + indent + b"  " + line for line in inner)
    return [insert_inside(text, tags[""], block, indent, b"link")]


def _dynamics_edits(text: bytes, tags: Mapping[str, Tag], values: Mapping[str, float]) -> list[Edit]:
    """Return the edits that give a joint its damping and friction."""
    texts = {name: repr(float(value) + 0.0) for name, value in values.items()}
    if not texts:
        return []
    if "dynamics" in tags:
        return [edit_attributes(text, tags["dynamics"], texts)]
    if not any(values.values()):
        return []
    indent = indent_of(text, tags[""].start)
    attributes = " ".join(f'{name}="{value}"' for name, value in texts.items())
    block = b"\n" + indent + b"  " + f"<dynamics {attributes}/>".encode()
    return [insert_inside(text, tags[""], block, indent, b"joint")]
