# SPDX-License-Identifier: Apache-2.0

"""MuJoCo: a robot with its parameters becomes MJCF with the URDF's shapes, and a list of what MJCF cannot say."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np

from ros2_dynid.codegen.left_out import left_out
from ros2_dynid.codegen.text import identifier
from ros2_dynid.dynamics.kinematics import motion_of
from ros2_dynid.model.from_urdf import ChainOptions
from ros2_dynid.model.mesh_file import Mesh
from ros2_dynid.model.parameters import Fc, Fv, by_joint
from ros2_dynid.model.robot import Array, Loops, Robot
from ros2_dynid.preview.bodies import Body, urdf_bodies
from ros2_dynid.sim.mjcf import MjcfTree, body_tree, mjcf_numbers

VISUAL = {"contype": "0", "conaffinity": "0", "group": "2", "density": "0"}
"""Shapes are to be seen: they neither collide nor weigh."""


@dataclass(frozen=True)
class MjcfFiles:
    """Files by their path in the folder, the .xml first, and notes on what is not in them."""

    files: Mapping[str, bytes]
    notes: tuple[str, ...]


def mjcf_files(
    robot: Robot, chi: Array, *, name: str = "", urdf: Path | None = None, chain: ChainOptions | None = None
) -> MjcfFiles:
    """Return the robot with standard parameters chi, shape (n_standard,), as MJCF, with meshes of its URDF beside it.

    Joints have armature, damping, frictionloss, range and a motor with the effort limit; joints that follow others are
    tied by equality constraints; links of the robot are sites.
    """
    options: ChainOptions = chain or {"base_link": None, "tip_link": None, "hold": {}, "floating_base": False}
    links = link_names(robot)
    tree = body_tree(robot, chi, links, [joint.name for joint in robot.joints])
    tree.option.set("integrator", "implicitfast")
    _drives(robot, chi, tree)
    _sites(robot, tree)
    _followers(robot, tree)
    if robot.loops is not None:
        _close_loops(robot, robot.loops, tree)
    notes = left_out(robot, chi, "MJCF", rotors=True)
    if robot.passive_joints:
        notes.append("MuJoCo holds joints that follow others by soft constraints: their torques are not exact")
    files: dict[str, bytes] = {}
    if urdf is not None:
        bodies, missing = urdf_bodies(robot, urdf, **options)
        files = add_shapes(tree, bodies)
        notes += missing
    file = f"{identifier(name or robot.name)}.xml"
    return MjcfFiles({file: tree.text.encode(), **files}, tuple(notes))


def link_names(robot: Robot) -> list[str]:
    """Return a name for each joint's body: the first link that it carries, else one of its number."""
    link_of_joint = {carrier: link for link, (carrier, _) in reversed(list(robot.tools.items()))}
    return [f"{link_of_joint[j]}_body" if j in link_of_joint else f"link{j}" for j in range(1, robot.n + 1)]


def _drives(robot: Robot, chi: Array, tree: MjcfTree) -> None:
    actuators = ET.SubElement(tree.root, "actuator")
    following = robot.passive_joints
    for j, (joint, element) in enumerate(zip(robot.joints, tree.joints, strict=True), start=1):
        drive, limits = by_joint(robot, chi)[j - 1], joint.limits
        element.set("damping", f"{max(drive[Fv], 0.0):.17g}")
        element.set("frictionloss", f"{max(drive[Fc], 0.0):.17g}")
        if np.isfinite(limits.lower) and np.isfinite(limits.upper) and limits.lower < limits.upper:
            element.set("limited", "true")
            element.set("range", mjcf_numbers((limits.lower, limits.upper)))
        if j in following or j <= robot.base_number:
            continue
        motor = ET.SubElement(actuators, "motor", name=joint.name, joint=joint.name)
        if np.isfinite(limits.effort) and limits.effort > 0:
            bounds = mjcf_numbers((-limits.effort, limits.effort))
            motor.set("ctrllimited", "true")
            motor.set("ctrlrange", bounds)
            motor.set("forcelimited", "true")
            motor.set("forcerange", bounds)


def _sites(robot: Robot, tree: MjcfTree) -> None:
    for link, (carrier, pose) in robot.tools.items():
        place = pose if carrier else robot.base @ pose
        _add_placed_element(tree.bodies[carrier], "site", place, name=link)


def _followers(robot: Robot, tree: MjcfTree) -> None:
    """Tie joints that follow one other by equality constraints, and those that follow several by tendons."""
    if not robot.passive:
        return
    equality = ET.SubElement(tree.root, "equality")
    tendons: ET.Element | None = None
    for passive in robot.passive:
        own = robot.joints[passive.joint - 1].name
        if len(passive.terms) == 1:
            (leader, factor), *_ = passive.terms.items()
            polynomial = mjcf_numbers((passive.offset, factor, 0.0, 0.0, 0.0))
            ET.SubElement(equality, "joint", joint1=own, joint2=robot.joints[leader - 1].name, polycoef=polynomial)
            continue
        if tendons is None:
            tendons = ET.SubElement(tree.root, "tendon")
        fixed = ET.SubElement(tendons, "fixed", name=f"{own}_follows")
        ET.SubElement(fixed, "joint", joint=own, coef="1")
        for leader, factor in passive.terms.items():
            ET.SubElement(fixed, "joint", joint=robot.joints[leader - 1].name, coef=f"{-factor:.17g}")
        ET.SubElement(
            equality, "tendon", tendon1=f"{own}_follows", polycoef=mjcf_numbers((passive.offset, 0.0, 0.0, 0.0, 0.0))
        )


def _close_loops(robot: Robot, loops: Loops, tree: MjcfTree) -> None:
    """Tie the points where the loops were cut; the key frame is the assembled pose."""
    equality = tree.root.find("equality")
    equality = ET.SubElement(tree.root, "equality") if equality is None else equality
    for k, pair in enumerate(loops.pairs, start=1):
        sites = {f"cut{k}_from": pair[0], f"cut{k}_to": pair[1]}
        for name, pivot in sites.items():
            place = np.eye(4)
            place[:3, 3] = pivot.point
            _add_placed_element(
                tree.bodies[pivot.joint], "site", place if pivot.joint else robot.base @ place, name=name
            )
        first, second = sites
        ET.SubElement(equality, "connect", site1=first, site2=second)
    active = [[loops.assembly.get(j, 0.0) for j in robot.active]]
    assembled = motion_of(robot, active).q[_depth_first(robot), 0]
    ET.SubElement(ET.SubElement(tree.root, "keyframe"), "key", name="assembled", qpos=mjcf_numbers(assembled))


def _depth_first(robot: Robot, parent: int = 0) -> list[int]:
    """Return the indices of the joints below `parent` in MuJoCo's order: a branch to its end before the next one."""
    children = [j for j, joint in enumerate(robot.joints, start=1) if joint.parent == parent]
    return [index for j in children for index in (j - 1, *_depth_first(robot, j))]


def add_shapes(tree: MjcfTree, bodies: list[Body]) -> dict[str, bytes]:
    """Add the shapes to the bodies; return the mesh files."""
    files: dict[str, bytes] = {}
    assets: ET.Element | None = None
    for k, body in enumerate(bodies):
        at, rgba = tree.bodies[body.joint], mjcf_numbers(body.colour)
        if body.mesh is not None:
            if len(body.mesh.triangles) < 4:
                continue
            if assets is None:
                assets = ET.Element("asset")
                tree.root.insert(2, assets)
            name = f"{identifier(body.link)}_{k}"
            files[f"meshes/{name}.stl"] = stl_bytes(body.mesh)
            ET.SubElement(assets, "mesh", name=name, file=f"meshes/{name}.stl", inertia="shell")
            _add_placed_element(at, "geom", body.pose, type="mesh", mesh=name, rgba=rgba, **VISUAL)
        elif body.kind == "box":
            _add_placed_element(
                at, "geom", body.pose, type="box", size=mjcf_numbers(np.array(body.size) / 2), rgba=rgba, **VISUAL
            )
        elif body.kind == "sphere":
            _add_placed_element(
                at, "geom", body.pose, type="sphere", size=mjcf_numbers(body.size[:1]), rgba=rgba, **VISUAL
            )
        elif body.kind in ("cylinder", "capsule"):
            radius, length = body.size
            size = mjcf_numbers((radius, length / 2))
            _add_placed_element(at, "geom", body.pose, type=body.kind, size=size, rgba=rgba, **VISUAL)
    return files


def _add_placed_element(parent: ET.Element, tag: str, pose: Array, **attributes: str) -> None:
    axes = mjcf_numbers([*pose[:3, 0], *pose[:3, 1]])
    ET.SubElement(parent, tag, {**attributes, "pos": mjcf_numbers(pose[:3, 3]), "xyaxes": axes})


def stl_bytes(mesh: Mesh) -> bytes:
    """Return the mesh as binary STL: 80 bytes, the number of triangles, and for each normal, corners and two zeros."""
    corners = mesh.vertices[mesh.triangles]
    rows = np.zeros(len(corners), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("zero", "<u2")])
    rows["corners"] = corners
    return b"\0" * 80 + struct.pack("<I", len(rows)) + rows.tobytes()
