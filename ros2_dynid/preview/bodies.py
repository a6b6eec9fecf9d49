# SPDX-License-Identifier: Apache-2.0

"""What a robot looks like: visual shapes of a URDF, else collision shapes, sticks where there is neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import Option, Text, one_line
from ros2_dynid.excitation.shapes import (
    MAX_URDF_BYTES,
    PRIMITIVES,
    find_mesh,
    mesh_scale,
    origin_of,
    package_folders,
    primitive_size,
)
from ros2_dynid.model.files import read_bytes
from ros2_dynid.model.from_urdf import select_chain
from ros2_dynid.model.mdh import inverse, transform
from ros2_dynid.model.mesh_file import Colour, Mesh, MeshError
from ros2_dynid.model.robot import PRISMATIC, Array, Robot, open_tree
from ros2_dynid.model.urdf import parse_urdf
from ros2_dynid.preview.meshes import GREY, decimated, read_picture_meshes

TRIANGLES = 80_000
"""Largest number of triangles on a page: 1 MB, and software rendering still draws several frames a second."""
NOT_FOUND = "the mesh was not found"
MAX_NAMED_FILES = 6
"""Most links named in a note; the others are counted."""


@dataclass(frozen=True, eq=False)
class Body:
    """A shape on a joint's frame (0: the base): kind of PRIMITIVES or mesh, size [m], pose (4, 4), colour rgba."""

    link: str
    joint: int
    pose: Array
    kind: str
    size: tuple[float, ...] = ()
    colour: Colour = GREY
    mesh: Mesh | None = None


@dataclass(frozen=True)
class _Problem:
    link: str
    why: str


def urdf_bodies(
    robot: Robot,
    urdf: Path,
    *,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
) -> tuple[list[Body], tuple[str, ...]]:
    """Return the shapes of a URDF's links and notes on what could not be drawn.

    The visual shapes of a link, or its collision shapes if it has none that can be read. The sub-chain must be the one
    that the robot was read with.
    """
    source = str(urdf)
    data = read_bytes(urdf, MAX_URDF_BYTES)
    tree = parse_urdf(data, source)  # which refuses entities and nonsense
    chain = select_chain(tree, base_link, tip_link, hold, floating_base)
    root = ElementTree.fromstring(data)
    elements = {link.get("name"): link for link in root.iter("link")}
    colours = named_colours(root)
    poses = [np.eye(4), *frames(open_tree(robot), np.zeros((1, robot.n)))[0]]
    bodies: list[Body] = []
    problems: list[_Problem] = []
    files: dict[Path, list[Mesh] | MeshError] = {}
    for link in chain.links:
        element = elements.get(link.name)
        place = inverse(poses[link.carrier]) @ link.pose
        for kind in ("visual", "collision"):
            results = []
            for part in element.findall(kind) if element is not None else []:
                try:
                    results += _body_of(part, link.name, link.carrier, place, urdf, colours, files)
                except MeshError as error:
                    problems.append(_Problem(link.name, str(error)))
            bodies += results
            if results:
                break
    notes = _notes(problems)
    if any(problem.why == NOT_FOUND for problem in problems):
        places = ", ".join(map(str, package_folders())) or "no folder of ROS packages is known"
        looked = f"meshes were looked for beside the URDF and in: {places}; add a folder: "
        notes += (Text(looked, Option("package_path"), ", or the variable ROS_PACKAGE_PATH"),)
    return limit_triangles(bodies), notes


def _body_of(
    part: ElementTree.Element,
    link: str,
    joint: int,
    place: Array,
    urdf: Path,
    colours: Mapping[str, Colour],
    files: dict[Path, list[Mesh] | MeshError],
) -> list[Body]:
    """Return the bodies of a visual or collision element; a mesh may have parts of several colours."""
    geometry = part.find("geometry")
    shape = None if geometry is None else next(iter(geometry), None)
    if shape is None:
        return []
    source = str(urdf)
    pose, colour = place @ origin_of(part, source), colour_of(part, colours)
    if shape.tag in PRIMITIVES:
        return [Body(link, joint, pose, shape.tag, primitive_size(shape, source), colour or GREY)]
    if shape.tag != "mesh":
        return []
    file = find_mesh(shape.get("filename", ""), urdf)
    if file is None:
        raise MeshError(NOT_FOUND)
    if file not in files:
        try:
            files[file] = read_picture_meshes(file)
        except (MeshError, OSError) as error:
            files[file] = error if isinstance(error, MeshError) else MeshError(str(error))
    meshes = files[file]
    if isinstance(meshes, MeshError):
        raise meshes
    scale = mesh_scale(shape, source)
    return [
        Body(
            link, joint, pose, "mesh", (), mesh.colour or colour or GREY, replace(mesh, vertices=mesh.vertices * scale)
        )
        for mesh in meshes
    ]


def named_colours(root: ElementTree.Element) -> dict[str, Colour]:
    """Return the colours of a description's materials by name."""
    colours = {material.get("name", ""): read_rgba(material) for material in root.findall("material")}
    return {name: colour for name, colour in colours.items() if colour is not None}


def colour_of(part: ElementTree.Element, colours: Mapping[str, Colour]) -> Colour | None:
    """Return the colour of a visual: its own, or that of the material it names."""
    material = part.find("material")
    if material is None:
        return None
    return read_rgba(material) or colours.get(material.get("name", ""))


def read_rgba(material: ElementTree.Element) -> Colour | None:
    """Return the colour of a material, None if it has none that can be read."""
    element = material.find("color")
    try:
        values = [float(x) for x in ("" if element is None else element.get("rgba", "")).split()]
    except ValueError:
        return None
    if len(values) != 4 or not np.all(np.isfinite(values)):
        return None
    red, green, blue, alpha = (float(np.clip(x, 0.0, 1.0)) for x in values)
    return (red, green, blue, max(alpha, 0.1))


def limit_triangles(bodies: list[Body]) -> list[Body]:
    """Return the bodies with meshes that together have at most TRIANGLES triangles, small ones left whole."""
    counts = sorted(len(body.mesh.triangles) for body in bodies if body.mesh is not None)
    remaining, share = TRIANGLES, TRIANGLES
    for k, count in enumerate(counts):
        share = remaining // (len(counts) - k)
        if count > share:
            break
        remaining -= count
        share = count
    return [body if body.mesh is None else replace(body, mesh=decimated(body.mesh, max(share, 200))) for body in bodies]


def _notes(problems: list[_Problem]) -> tuple[str, ...]:
    """Return one note for each reason."""
    reasons: dict[str, list[str]] = {}
    for problem in problems:
        reasons.setdefault(problem.why, []).append(problem.link)
    notes = []
    for why, links in reasons.items():
        names = list(dict.fromkeys(links))
        more = f" and {len(names) - MAX_NAMED_FILES} more" if len(names) > MAX_NAMED_FILES else ""
        notes.append(one_line(f"drawn without its mesh: {', '.join(names[:MAX_NAMED_FILES])}{more}: {why}"))
    return tuple(notes)


def sticks(robot: Robot) -> list[Body]:
    """Return a body for each axis and each connection between joints, for a robot known only by its DH table."""
    T = np.concatenate((np.eye(4)[None], frames(open_tree(robot), np.zeros((1, robot.n)))[0]))
    reach = max((float(np.linalg.norm(one[:3, 3] - T[0, :3, 3])) for one in T), default=0.0) or 1.0
    thick = 0.025 * reach
    bodies = []
    for j, joint in enumerate(robot.joints, start=1):
        size = (1.6 * thick, 5.0 * thick) if joint.sigma != PRISMATIC else (1.1 * thick, 7.0 * thick)
        colour = (0.92, 0.55, 0.2, 1.0) if joint.sigma != PRISMATIC else (0.25, 0.55, 0.9, 1.0)
        bodies.append(Body(joint.name, j, np.eye(4), "cylinder", size, colour))
        local = inverse(T[joint.parent]) @ T[j]
        bodies += stick_between(
            robot.joints[joint.parent - 1].name if joint.parent else "base", joint.parent, local, thick
        )
    for link, (joint_number, tool) in robot.tools.items():
        bodies += stick_between(link, joint_number, tool, thick)
    return bodies


def stick_between(name: str, joint: int, to: Array, thick: float) -> list[Body]:
    """Return a capsule from the origin of a frame to that of another one in it, nothing if they are the same."""
    way = to[:3, 3]
    length = float(np.linalg.norm(way))
    if length < 1e-6:
        return []
    z = way / length
    x = np.cross(z, [0.0, 0.0, 1.0] if abs(z[2]) < 0.9 else [1.0, 0.0, 0.0])
    x /= np.linalg.norm(x)
    return [
        Body(name, joint, transform(np.stack((x, np.cross(z, x), z), axis=1), 0.5 * way), "capsule", (thick, length))
    ]
