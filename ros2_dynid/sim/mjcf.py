# SPDX-License-Identifier: Apache-2.0

"""A robot in modified DH form with standard parameters, as a MuJoCo model (MJCF).

Body j has the frame of joint j at q_j = 0, so its joint turns about or slides along the body's z axis. MuJoCo takes
the inertia about the centre of mass: I_C = J + m m^T / M - (m . m / M) 1 with first moment m = M c. The rotor's Ia is
the joint's armature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

import numpy as np

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError
from ros2_dynid.model.inertia import central_inertia
from ros2_dynid.model.parameters import IA, by_joint
from ros2_dynid.model.robot import PRISMATIC, Array, Robot, open_tree


@dataclass(frozen=True, eq=False)
class MjcfTree:
    """The elements of a MuJoCo model: the root, its option, the world and bodies 1 ... n, and their joints."""

    root: ET.Element
    option: ET.Element
    bodies: tuple[ET.Element, ...]
    joints: tuple[ET.Element, ...]

    @property
    def text(self) -> str:
        """The model as XML."""
        ET.indent(self.root)
        return ET.tostring(self.root, encoding="unicode") + "\n"


def rigid_body(parameters: Array) -> tuple[float, Array, Array]:
    """Return mass [kg], centre of mass (3,) [m] and inertia about it (3, 3) [kg.m^2] from a link's ten parameters."""
    M, inertia = float(parameters[9]), central_inertia(parameters)
    if inertia is None:
        raise InputError(f"a link of mass {M:g} kg cannot be simulated", "give every link a positive mass")
    return M, parameters[6:9] / M, inertia


def link_name(number: int) -> str:
    """Return the name of the simulated plant's body of joint `number`."""
    return f"link{number}"


def joint_name(number: int) -> str:
    """Return the name of the simulated plant's joint `number`."""
    return f"joint{number}"


def mjcf(robot: Robot, chi: Array, step: float) -> str:
    """Return the MJCF text of the simulated plant with standard parameters chi, integrated with `step` [s].

    Bodies and rotors only: friction, drives and limits are simulated around it.
    """
    if robot.passive_joints or robot.coupling:
        raise InputError("closed loops and coupled motors cannot be simulated", "use a tree robot", robot.name)
    numbers = range(1, robot.n + 1)
    tree = body_tree(robot, chi, [link_name(j) for j in numbers], [joint_name(j) for j in numbers])
    tree.option.set("timestep", f"{step:.17g}")
    tree.option.set("integrator", "Euler")
    ET.SubElement(tree.option, "flag", contact="disable", constraint="disable")
    return tree.text


def body_tree(robot: Robot, chi: Array, links: Sequence[str], joints: Sequence[str]) -> MjcfTree:
    """Return bodies and joints of the robot with standard parameters chi, called by these names."""
    root = ET.Element("mujoco", model=robot.name)
    ET.SubElement(root, "compiler", angle="radian", balanceinertia="false", inertiafromgeom="false")
    option = ET.SubElement(root, "option", gravity=mjcf_numbers(robot.gravity))
    bodies = [ET.SubElement(root, "worldbody")]
    hinges: list[ET.Element] = []
    if robot.floating:
        body, hinges = _floating_body(robot, chi, bodies[0], links[robot.base_number - 1], joints)
        bodies += [body] * robot.base_number
    for j, (joint, pose) in enumerate(zip(robot.joints, rest_poses(robot), strict=True), start=1):
        if j <= robot.base_number:
            continue
        x, y = pose[:3, 0], pose[:3, 1]
        body = ET.SubElement(
            bodies[joint.parent],
            "body",
            name=links[j - 1],
            pos=mjcf_numbers(pose[:3, 3]),
            xyaxes=mjcf_numbers([*x, *y]),
        )
        parameters = by_joint(robot, chi)[j - 1]
        _add_inertia(body, parameters)
        kind = "slide" if joint.sigma == PRISMATIC else "hinge"
        armature = f"{max(parameters[IA], 0.0):.17g}"
        hinges.append(ET.SubElement(body, "joint", name=joints[j - 1], type=kind, axis="0 0 1", armature=armature))
        bodies.append(body)
    return MjcfTree(root, option, tuple(bodies), tuple(hinges))


def _add_inertia(body: ET.Element, parameters: Array) -> None:
    M, c, I = rigid_body(parameters)
    full = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
    ET.SubElement(body, "inertial", pos=mjcf_numbers(c), mass=f"{M:.17g}", fullinertia=mjcf_numbers(full))


def _floating_body(
    robot: Robot, chi: Array, world: ET.Element, link: str, joints: Sequence[str]
) -> tuple[ET.Element, list[ET.Element]]:
    """Return the body of a floating base and its six joints: MuJoCo has no massless bodies, but bodies with many."""
    number = robot.base_number
    rest = frames(open_tree(robot), np.zeros((1, robot.n)))[0]
    T = rest[number - 1]
    body = ET.SubElement(
        world, "body", name=link, pos=mjcf_numbers(T[:3, 3]), xyaxes=mjcf_numbers([*T[:3, 0], *T[:3, 1]])
    )
    _add_inertia(body, by_joint(robot, chi)[number - 1])
    elements = []
    for joint, name, frame in zip(robot.joints[:number], joints[:number], rest, strict=False):
        axis, at = T[:3, :3].T @ frame[:3, 2], T[:3, :3].T @ (frame[:3, 3] - T[:3, 3])
        kind = "slide" if joint.sigma == PRISMATIC else "hinge"
        elements.append(
            ET.SubElement(body, "joint", name=name, type=kind, axis=mjcf_numbers(axis), pos=mjcf_numbers(at))
        )
    return body, elements


def rest_poses(robot: Robot) -> list[Array]:
    """Return the pose of each joint's frame in its antecedent's where every joint's own position is 0, (4, 4) each."""
    rest = np.concatenate((np.eye(4)[None], frames(open_tree(robot), np.zeros((1, robot.n)))[0]))
    return [np.linalg.inv(rest[joint.parent]) @ rest[j] for j, joint in enumerate(robot.joints, start=1)]


def mjcf_numbers(numbers: object) -> str:
    """Return numbers as MJCF writes them, with all their digits."""
    return " ".join(f"{x:.17g}" for x in np.asarray(numbers, dtype=float))
