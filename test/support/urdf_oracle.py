# SPDX-License-Identifier: Apache-2.0

"""The same URDF in Pinocchio and in ours: joints matched by name, constraints of passive joints applied."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ros2_dynid.model.from_urdf import select_chain
from ros2_dynid.model.mdh import Axis, snap_angle, snap_axes
from ros2_dynid.model.robot import PRISMATIC, Array, Robot
from ros2_dynid.model.urdf import parse_urdf


def example_urdfs() -> list[Path]:
    """Return every URDF of the example-robot-data package."""
    import pinocchio

    folder = Path(pinocchio.__file__).parents[4] / "share" / "example-robot-data" / "robots"
    return sorted(folder.rglob("*.urdf"))


def exact_urdf(data: bytes) -> str:
    """Return the URDF with rounded angles and axes written out as the exact ones that our reader takes them for.

    Pinocchio does not know of them: it must be told in order to agree beyond the file's own digits.
    """
    root = ElementTree.fromstring(data.lstrip())
    chain = select_chain(parse_urdf(data, "test"))
    axes = [Axis(joint.parent, joint.axis, joint.pose[:3, 3]) for joint in chain.joints]
    snapped, changes = snap_axes(axes, chain.up)
    local = {
        chain.joints[number - 1].urdf.name: chain.joints[number - 1].pose[:3, :3].T @ snapped[number - 1].direction
        for number in changes
    }
    for joint in root.findall("joint"):
        origin = joint.find("origin")
        if origin is not None and origin.get("rpy"):
            origin.set("rpy", " ".join(repr(snap_angle(float(word))) for word in origin.get("rpy", "").split()))
        if joint.get("name") in local:
            axis = joint.find("axis")
            if axis is None:
                axis = ElementTree.SubElement(joint, "axis")
            axis.set("xyz", " ".join(repr(float(value)) for value in local[joint.get("name", "")]))
    return ElementTree.tostring(root, encoding="unicode")


class PinUrdf:
    """A URDF in Pinocchio, moved by the active joints of our robot; other joints stay at their neutral position."""

    def __init__(self, text: str, robot: Robot, held: dict[str, float] | None = None) -> None:
        import pinocchio as pin

        self.pin, self.robot = pin, robot
        self.model = pin.buildModelFromXML(text)
        self.data = self.model.createData()
        self.ids = [self.model.getJointId(joint.name) for joint in robot.joints]
        assert max(self.ids) < self.model.njoints, "Pinocchio lacks one of our joints"
        self.rows = [self.model.joints[i].idx_v for i in self.ids]
        self.held = held or {}
        self.G = np.zeros((robot.n, len(robot.active)))
        self.offset = np.zeros(robot.n)
        for column, number in enumerate(robot.active):
            self.G[number - 1, column] = 1.0
        for constraint in robot.passive:
            self.offset[constraint.joint - 1] = constraint.offset
            for number, factor in constraint.terms.items():
                self.G[constraint.joint - 1, robot.active.index(number)] = factor

    def position(self, q: Array) -> Array:
        """Return Pinocchio's configuration for active joint positions q (n_active,)."""
        configuration = self.pin.neutral(self.model)
        values = list(zip(self.ids, self.G @ q + self.offset, strict=True))
        values += [(self.model.getJointId(name), value) for name, value in self.held.items()]
        for i, value in values:
            joint = self.model.joints[i]
            if joint.nq == 2:  # a continuous joint is a point of the unit circle
                configuration[joint.idx_q : joint.idx_q + 2] = math.cos(value), math.sin(value)
            else:
                configuration[joint.idx_q] = value
        return configuration

    def axes(self, q: Array) -> list[tuple[Array, Array]]:
        """Return origin and axis of each of our joints in the world."""
        configuration = self.position(q)
        zeros = np.zeros(self.model.nv)
        self.pin.forwardKinematics(self.model, self.data, configuration, zeros)
        result = []
        for i, joint in zip(self.ids, self.robot.joints, strict=True):
            subspace = np.asarray(self.data.joints[i].S).reshape(6, -1)[:, 0]
            local = subspace[:3] if joint.sigma == PRISMATIC else subspace[3:]
            result.append((self.data.oMi[i].translation.copy(), self.data.oMi[i].rotation @ local))
        return result

    def link(self, name: str, q: Array) -> Array:
        """Return the pose (4, 4) of a link in the world."""
        self.pin.framesForwardKinematics(self.model, self.data, self.position(q))
        frame = self.model.getFrameId(name, self.pin.FrameType.BODY)
        return np.array(self.data.oMf[frame].homogeneous)

    def torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return pin.rnea's torques of the active joints, G^T tau, shape (n_active,)."""
        v, a = np.zeros(self.model.nv), np.zeros(self.model.nv)
        v[self.rows], a[self.rows] = self.G @ dq, self.G @ ddq
        tau = self.pin.rnea(self.model, self.data, self.position(q), v, a)
        return np.asarray(self.G.T @ tau[self.rows])


def axis_errors(robot: Robot, T: Array, theirs: list[tuple[Array, Array]]) -> tuple[float, float]:
    """Return the largest difference of the axes [rad] and distance of their origins from our axes [m]; T (n, 4, 4)."""
    turned = moved = 0.0
    for frame, (origin, axis) in zip(T, theirs, strict=True):
        turned = max(turned, float(np.linalg.norm(frame[:3, 2] - axis)))
        moved = max(moved, float(np.linalg.norm(np.cross(origin - frame[:3, 3], frame[:3, 2]))))
    return turned, moved


def inertial_only(robot: Robot) -> dict[str, float]:
    """Return the robot's a priori parameters without friction, which pin.rnea does not know."""
    return {name: value for name, value in robot.parameters.items() if not name.startswith(("Fv", "Fc"))}
