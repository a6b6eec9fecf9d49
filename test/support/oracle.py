# SPDX-License-Identifier: Apache-2.0

"""What several tests share: random robots, and the same robot in Pinocchio."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.loops import loop_margin
from ros2_dynid.model.forces import Pivot
from ros2_dynid.model.robot import PRISMATIC, REVOLUTE, Array, Coupling, Joint, Loops, Passive, Robot

PIN_COLUMNS = ("M", "MX", "MY", "MZ", "XX", "XY", "YY", "XZ", "YZ", "ZZ")
"""Order of Pinocchio's ten parameters of a body."""


def random_robot(rng: np.random.Generator, n: int, *, tree: bool = False, prismatic: float = 0.3) -> Robot:
    """Return a robot whose geometry mixes zeros, right angles and general values, as real robots do."""

    def angle() -> float:
        return float(rng.choice([0.0, np.pi / 2, -np.pi / 2, np.pi, rng.uniform(-3, 3)]))

    def length() -> float:
        return float(rng.choice([0.0, rng.uniform(-1, 1)]))

    joints = []
    for j in range(n):
        parent = int(rng.integers(0, j + 1)) if tree else j
        branch = (angle(), length()) if tree else (0.0, 0.0)
        sigma = PRISMATIC if rng.random() < prismatic else REVOLUTE
        joints.append(Joint(f"j{j + 1}", parent, sigma, *branch, angle(), length(), angle(), length()))
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    base = np.eye(4)
    base[:3, :3] = turn * np.sign(np.linalg.det(turn))
    base[:3, 3] = rng.normal(size=3)
    return Robot(f"random{n}", tuple(joints), gravity=rng.normal(size=3) * 5, base=base)


def random_loop(rng: np.random.Generator, n: int) -> Robot:
    """Return a tree of n joints with random linear constraints, coupled motors and many parallel axes.

    Passive joints follow one to three active ones, many of them their parent by -1, so that the angles of neighbours
    cancel as in a parallelogram; some are held at their offset.
    """
    tree = random_robot(rng, n, tree=rng.random() < 0.4, prismatic=0.2)
    joints = tuple(replace(joint, alpha=0.0) if rng.random() < 0.6 else joint for joint in tree.joints)
    followers = rng.choice(np.arange(2, n + 1), size=rng.integers(1, n // 2 + 1), replace=False)
    active = sorted(set(range(1, n + 1)) - {int(k) for k in followers})
    passive = []
    for follower in followers:
        parent = joints[follower - 1].parent
        leaders = rng.choice(active, size=min(int(rng.integers(4)), len(active)), replace=False)
        terms = {int(k): float(rng.choice([-1.0, 1.0, 0.5, rng.uniform(-2, 2)])) for k in leaders}
        if parent in active and rng.random() < 0.6:
            terms = {parent: -1.0}
        passive.append(Passive(int(follower), terms, float(rng.choice([0.0, 0.0, 0.3, rng.uniform(-2, 2)]))))
    motor, other = (int(k) for k in rng.choice(np.arange(1, n + 1), size=2, replace=False))
    coupling = (Coupling(motor, {motor: 1.0, other: float(rng.uniform(-2, 2))}, bool(rng.integers(2))),)
    return replace(tree, joints=joints, passive=tuple(passive), coupling=coupling if rng.integers(2) else ())


def random_parallelogram(rng: np.random.Generator) -> Robot:
    """Return yaw, pitch and a parallelogram behind it, whose angles cancel, with a last joint of any kind."""
    lengths = rng.uniform(-0.6, 0.6, (5, 2))
    front, bottom = rng.uniform(-1.0, 1.0, 2)
    joints = (
        Joint("yaw", 0, r=0.4),
        Joint("pitch", 1, alpha=np.pi / 2, d=lengths[1, 0]),
        Joint("front", 2, d=lengths[2, 0], theta=front),
        Joint("bottom", 3, d=lengths[3, 0], theta=bottom, r=float(rng.choice([0.0, lengths[3, 1]]))),
        Joint("last", 4, int(rng.integers(2)), alpha=float(rng.choice([0.0, 1.1])), d=lengths[4, 0], r=lengths[4, 1]),
    )
    passive = (Passive(3, {2: -1.0}), Passive(4, {2: 1.0}, float(rng.choice([0.0, 0.4]))))
    return Robot("parallelogram", joints, passive=passive)


def random_linkage(rng: np.random.Generator) -> Robot:
    """Return a tree of six joints in two branches whose ends meet in a ball joint; joints 2, 3 and 6 are passive.

    Drawn again until the passive joints are determined well where it was assembled.
    """
    while True:
        tree = random_robot(rng, 6, prismatic=0.15)
        joints = [replace(joint, parent=parent) for joint, parent in zip(tree.joints, (0, 1, 2, 0, 4, 5), strict=True)]
        robot = replace(tree, joints=tuple(joints))
        q = rng.uniform(-1.0, 1.0, 6)
        T = frames(robot, q[None])[0]
        end = T[2] @ np.append(rng.uniform(-0.6, 0.6, 3), 1.0)
        pivots = tuple(Pivot(j, tuple((np.linalg.inv(T[j - 1]) @ end)[:3].tolist())) for j in (3, 6))
        assembly = {j: float(value) for j, value in enumerate(q, start=1)}
        robot = replace(robot, loops=Loops(((pivots[0], pivots[1]),), (2, 3, 6), assembly))
        if loop_margin(robot, q[:, None])[0] > 0.1:
            return robot


def pin_model(robot: Robot) -> Any:
    """Return the robot as a Pinocchio model without inertias, joints in our order, gravity and base included."""
    import pinocchio as pin

    def screw(axis: str, angle: float, length: float) -> Any:
        turn = pin.utils.rotate(axis, angle)
        return pin.SE3(turn, length * np.eye(3)["xyz".index(axis)])

    model = pin.Model()
    ids = [0]
    for joint in robot.joints:
        placement = (
            screw("z", joint.gamma, joint.b) * screw("x", joint.alpha, joint.d) * screw("z", joint.theta, joint.r)
        )
        if joint.parent == 0:
            placement = pin.SE3(robot.base) * placement
        kind = pin.JointModelPZ() if joint.sigma == PRISMATIC else pin.JointModelRZ()
        ids.append(model.addJoint(ids[joint.parent], kind, placement, joint.name))
    assert ids == list(range(robot.n + 1)), "Pinocchio renumbered the joints"
    model.gravity.linear = robot.gravity
    return model


def pin_regressor(robot: Robot, q: Array, dq: Array, ddq: Array) -> Array:
    """Return Pinocchio's torque regressor with columns in our order, shape (N, n, 10 n)."""
    import pinocchio as pin

    model = pin_model(robot)
    data = model.createData()
    ours = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
    pick = [10 * j + PIN_COLUMNS.index(kind) for j in range(robot.n) for kind in ours]
    rows = [
        np.atleast_2d(pin.computeJointTorqueRegressor(model, data, *sample))[:, pick]
        for sample in zip(q, dq, ddq, strict=True)
    ]
    return np.array(rows)


def screw(axis, angle, length):
    """Return a turn [rad] about an axis, "x", "y" or "z", and a shift along it, shape (4, 4)."""
    k = "xyz".index(axis)
    a, b = (k + 1) % 3, (k + 2) % 3
    T = np.eye(4)
    T[a, a] = T[b, b] = np.cos(angle)
    T[b, a], T[a, b] = np.sin(angle), -np.sin(angle)
    T[k, 3] = length
    return T
