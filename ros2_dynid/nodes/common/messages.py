# SPDX-License-Identifier: Apache-2.0

"""Between ROS messages and the core's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Inertia, Transform
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_order import joint_order
from ros2_dynid.model.robot import Array, Robot


def reference_of(message: JointTrajectory, robot: Robot) -> Reference:
    """Return the trajectory in the robot's joint order, or refuse it as a joint trajectory controller would."""
    columns = joint_order(robot.active_names, message.joint_names, source=robot.name)
    if not message.points:
        raise InputError("the trajectory has no points", "give at least one")
    t = np.array([seconds(point.time_from_start) for point in message.points])

    def column(field: str) -> Array | None:
        rows = [getattr(point, field) for point in message.points]
        lengths = {len(row) for row in rows}
        if lengths == {0}:
            return None
        if lengths != {len(columns)}:
            raise InputError(f"{field} have lengths {sorted(lengths)}", f"give {len(columns)} in every point, or none")
        return np.array(rows, dtype=float)[:, columns]

    q = column("positions")
    if q is None:
        raise InputError("the trajectory has no positions", "give positions in every point")
    return reference(robot.active_names, t, q, column("velocities"), column("accelerations"), column("effort"))


def reference_points(joint_names: Sequence[str], samples: Any) -> Reference:
    """Return the reference through the samples t, q, dq, ddq of a planned trajectory of the joints named."""
    return reference(joint_names, samples.t, samples.q, samples.dq, samples.ddq)


def trajectory_message(points: Reference, stamp: Any = None) -> JointTrajectory:
    """Return the message of a trajectory; without a stamp it starts when it arrives."""
    message = JointTrajectory(joint_names=list(points.joint_names))
    if stamp is not None:
        message.header.stamp = stamp
    fields = {"positions": points.q, "velocities": points.dq, "accelerations": points.ddq, "effort": points.tau}
    given = {field: values.tolist() for field, values in fields.items() if values is not None}
    message.points = [
        JointTrajectoryPoint(time_from_start=duration(float(t)), **{field: rows[k] for field, rows in given.items()})
        for k, t in enumerate(points.t)
    ]
    return message


def ahead(stamp: Any, now_ns: int) -> float:
    """Return how far a header's stamp lies ahead of now [s]; 0 for a stamp of zero, which means at once."""
    if stamp.sec == 0 and stamp.nanosec == 0:
        return 0.0
    return 1e-9 * (int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec) - now_ns)


def seconds(value: Any) -> float:
    """Return a Duration or Time message in seconds."""
    return float(value.sec) + 1e-9 * float(value.nanosec)


def duration(value: float) -> Duration:
    """Return a Duration message from seconds."""
    whole, rest = divmod(round(value * 1e9), 1_000_000_000)
    return Duration(sec=int(whole), nanosec=int(rest))


def transform_message(T: Array) -> Transform:
    """Return a Transform message of a 4x4 matrix."""
    from scipy.spatial.transform import Rotation

    message = Transform()
    message.translation.x, message.translation.y, message.translation.z = (float(v) for v in T[:3, 3])
    x, y, z, w = Rotation.from_matrix(T[:3, :3]).as_quat()
    message.rotation.x, message.rotation.y, message.rotation.z, message.rotation.w = map(float, (x, y, z, w))
    return message


def matrix_of(message: Transform) -> Array:
    """Return the 4x4 matrix of a Transform message."""
    from scipy.spatial.transform import Rotation

    T = np.eye(4)
    r, t = message.rotation, message.translation
    if not np.isfinite((r.x, r.y, r.z, r.w, t.x, t.y, t.z)).all() or not any((r.x, r.y, r.z, r.w)):
        raise InputError("a transform's rotation or translation is not a number, or zero", "send a unit quaternion")
    T[:3, :3] = Rotation.from_quat((r.x, r.y, r.z, r.w)).as_matrix()
    T[:3, 3] = (t.x, t.y, t.z)
    return T


def inertia_of(message: Inertia, robot: Robot, link: str) -> tuple[float, Array, Array, int]:
    """Return mass [kg], centre (3,) [m], inertia about it (3, 3) and the joint's number, in that joint's frame.

    The message is given in the frame of `link` (empty: the robot's last link, or its last joint's frame).
    """
    if link:
        if link not in robot.tools:
            raise InputError(
                f"the robot has no last link {link!r}", f"choose from {', '.join(robot.tools)}", robot.name
            )
        joint, T = robot.tools[link]
    else:
        joint, T = next(iter(robot.tools.values()), (robot.n, np.eye(4)))
    R = T[:3, :3]
    com = R @ np.array((message.com.x, message.com.y, message.com.z)) + T[:3, 3]
    I = np.array(
        (
            (message.ixx, message.ixy, message.ixz),
            (message.ixy, message.iyy, message.iyz),
            (message.ixz, message.iyz, message.izz),
        )
    )
    return float(message.m), com, R @ I @ R.T, joint


def inertia_message(mass: float, com: Sequence[float], inertia: Sequence[Sequence[float]]) -> Inertia:
    """Return the message of a load: mass [kg], centre (3,) [m], inertia about it (3, 3) [kg.m^2]."""
    message = Inertia(m=float(mass))
    message.com.x, message.com.y, message.com.z = (float(value) for value in com)
    (message.ixx, message.ixy, message.ixz), (_, message.iyy, message.iyz), (_, _, message.izz) = (
        [float(value) for value in row] for row in inertia
    )
    return message
