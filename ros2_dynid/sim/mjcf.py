"""A robot in modified DH form with standard parameters, as a MuJoCo model (MJCF).

Body j has the frame of joint j at q_j = 0, so its joint turns about or slides along the body's z axis. MuJoCo takes
the inertia about the centre of mass: I_C = J + m m^T / M - (m . m / M) 1 with first moment m = M c. The rotor's Ia is
the joint's armature.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import IA, by_joint
from ros2_dynid.model.pseudo_inertia import central_inertia
from ros2_dynid.model.robot import PRISMATIC, Array, Robot


def rigid_body(parameters: Array) -> tuple[float, Array, Array]:
    """Return mass [kg], centre of mass (3,) [m] and inertia about it (3, 3) [kg.m^2] from a link's ten parameters."""
    M, inertia = float(parameters[9]), central_inertia(parameters)
    if inertia is None:
        raise InputError(f"a link of mass {M:g} kg cannot be simulated", "give every link a positive mass")
    return M, parameters[6:9] / M, inertia


def mjcf(robot: Robot, chi: Array, step: float) -> str:
    """Return the MJCF text of the robot with standard parameters chi, integrated with `step` [s]."""
    if robot.passive or robot.coupling:
        raise InputError("closed loops and coupled motors cannot be simulated", "use a tree robot", robot.name)
    root = ET.Element("mujoco", model=robot.name)
    ET.SubElement(root, "compiler", angle="radian", balanceinertia="false", inertiafromgeom="false")
    option = ET.SubElement(root, "option", timestep=f"{step:.17g}", gravity=_text(robot.gravity), integrator="Euler")
    ET.SubElement(option, "flag", contact="disable", constraint="disable")
    bodies = [ET.SubElement(root, "worldbody")]
    rest = np.concatenate((np.eye(4)[None], frames(robot, np.zeros((1, robot.n)))[0]))  # world and frames 1 ... n
    for j, joint in enumerate(robot.joints, start=1):
        pose = np.linalg.inv(rest[joint.parent]) @ rest[j]
        x, y = pose[:3, 0], pose[:3, 1]
        body = ET.SubElement(
            bodies[joint.parent], "body", name=f"link{j}", pos=_text(pose[:3, 3]), xyaxes=_text([*x, *y])
        )
        parameters = by_joint(robot, chi)[j - 1]
        M, c, I = rigid_body(parameters)
        full = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        ET.SubElement(body, "inertial", pos=_text(c), mass=f"{M:.17g}", fullinertia=_text(full))
        kind = "slide" if joint.sigma == PRISMATIC else "hinge"
        ET.SubElement(body, "joint", name=f"joint{j}", type=kind, axis="0 0 1", armature=f"{parameters[IA]:.17g}")
        bodies.append(body)
    return ET.tostring(root, encoding="unicode")


def _text(numbers: object) -> str:
    return " ".join(f"{x:.17g}" for x in np.asarray(numbers, dtype=float))
