"""Between ROS messages and the core's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Transform
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ros2_dynid.control.reference import Reference, joint_columns, reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array, Robot

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, reliability=ReliabilityPolicy.RELIABLE)
JOINT_STATES = QoSProfile(
    depth=2000, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT
)
"""Matches every publisher of joint states, and holds two seconds of them at 1 kHz while we are busy."""
COMMANDS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)


class JointStates:
    """The robot's joints out of JointState messages, which may be permuted, partial or carry others as well."""

    def __init__(self, robot: Robot) -> None:
        """Read the active joints of `robot`."""
        self._names = robot.active_names
        self._layouts: dict[tuple[str, ...], tuple[Any, Any]] = {}
        n = len(self._names)
        self.q, self.dq, self.tau = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
        self._seen = np.zeros(n, dtype=bool)

    def take(self, message: JointState) -> bool:
        """Take in a message; return whether all joints have been seen since the last time it said so."""
        key = tuple(message.name)
        if key not in self._layouts:
            if len(self._layouts) > 16:
                self._layouts.clear()
            found = [(k, key.index(name)) for k, name in enumerate(self._names) if name in key]
            self._layouts[key] = (
                np.array([k for k, _ in found], dtype=int), np.array([at for _, at in found], dtype=int)
            )
        mine, theirs = self._layouts[key]
        if not len(mine):
            return False
        for target, values in ((self.q, message.position), (self.dq, message.velocity), (self.tau, message.effort)):
            if len(values) == len(key):
                target[mine] = np.frombuffer(values, dtype=float)[theirs]
        self._seen[mine] = True
        if not self._seen.all():
            return False
        self._seen[:] = False
        return True


def reference_of(message: JointTrajectory, robot: Robot) -> Reference:
    """Return the trajectory in the robot's joint order, or refuse it as a joint trajectory controller would."""
    columns = joint_columns(robot, message.joint_names)
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
    return reference(t, q, column("velocities"), column("accelerations"), column("effort"))


def trajectory_message(points: Reference, names: Sequence[str], stamp: Any = None) -> JointTrajectory:
    """Return the message of a trajectory of the joints named; without a stamp it starts when it arrives."""
    message = JointTrajectory(joint_names=list(names))
    if stamp is not None:
        message.header.stamp = stamp
    fields = {"positions": points.q, "velocities": points.dq, "accelerations": points.ddq, "effort": points.tau}
    given = {field: values.tolist() for field, values in fields.items() if values is not None}
    message.points = [
        JointTrajectoryPoint(time_from_start=duration(float(t)), **{field: rows[k] for field, rows in given.items()})
        for k, t in enumerate(points.t)
    ]
    return message


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
    T[:3, :3] = Rotation.from_quat((r.x, r.y, r.z, r.w)).as_matrix()
    T[:3, 3] = (t.x, t.y, t.z)
    return T
