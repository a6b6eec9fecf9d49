# SPDX-License-Identifier: Apache-2.0

"""Recordings of a robot whose base floats: its pose and the forces of its contacts become positions and efforts.

The base from a state estimator or motion capture (nav_msgs/Odometry, geometry_msgs/PoseStamped): position and
quaternion. Or from an IMU (sensor_msgs/Imu): its orientation, or its angular velocity integrated, and its proper
acceleration integrated twice. Positions then drift, and with them velocities; but a base feels neither, and its
acceleration comes back when the positions are differentiated, as those of joints are.

The force f of a contact is worth J^T f at all joints, and that is added to the drives' efforts: both together are the
torque of the model. Nothing drives the base, so its efforts are those of the contacts alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ros2_dynid.dynamics.floating_base import base_positions, check_pitch, contact_efforts
from ros2_dynid.errors import InputError, Option, Text, remark
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.bag.read_bag import is_bag
from ros2_dynid.recording.samples import Reading, Samples
from ros2_dynid.recording.torque_topic import interpolate
from ros2_dynid.recording.vectors import (
    MessageKind,
    Vectors,
    is_file_of_columns,
    read_columns,
    read_messages,
    topics_of,
)
from ros2_dynid.recording.wrench import AXES, SHORT, WRENCH

ODOMETRY = MessageKind("nav_msgs/msg/Odometry", 7, strings=1)
POSE = MessageKind("geometry_msgs/msg/PoseStamped", 7)
IMU = MessageKind("sensor_msgs/msg/Imu", 28)
XYZ, QUATERNION = ("x", "y", "z"), ("x", "y", "z", "w")
FORCES = (AXES, AXES[:3], SHORT, SHORT[:3])
"""Forms of a contact's columns: with and without torque."""
PREFIX = "base"
TILT_SECONDS = 0.5
"""Time over which gravity tells how an IMU without orientation is tilted at first; an error only tilts the world."""


def drive_robot(robot: Robot) -> Robot:
    """Return the joints that have drives, in their order: those that joint states tell of."""
    drives = robot.drive_names
    return Robot(
        robot.name, tuple(replace(joint, parent=0, measures=None) for joint in robot.joints if joint.name in drives)
    )


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What is beside the joint states: positions of the base's joints (N, 6), wrenches on links, each at its times."""

    base: Vectors
    contacts: Mapping[str, Vectors]
    notes: tuple[str, ...] = ()


def has_base(path: Path, reading: Reading) -> bool:
    """Return whether a recording tells of a floating base apart from its joints."""
    if reading.base:
        return True
    if not is_file_of_columns(path):
        return is_bag(path) and any(topics_of(path, kind) for kind in (ODOMETRY, POSE, IMU))
    return any(read_columns(path, f"{PREFIX}.{name}", (XYZ,), reading, 0) for name in ("position", "acceleration"))


def with_base(robot: Robot, pieces: Iterator[Samples], path: Path, reading: Reading) -> Iterator[Samples]:
    """Yield samples of all of the robot's joints from those of its drives and what is recorded beside them."""
    around: Surroundings | None = None
    for piece in pieces:
        if around is None:
            around = read_surroundings(robot, path, reading, piece.start_ns)
            piece = piece.noted(*map(remark, around.notes))
            _check_direction(robot, join_base(robot, piece, around), around)
        yield join_base(robot, piece, around)


def read_surroundings(robot: Robot, path: Path, reading: Reading, start_ns: int) -> Surroundings:
    """Return the base and the contacts of a recording; start_ns: stamp of the joint states' time 0."""
    base = _read_base(robot, path, reading, start_ns)
    contacts = {link: _read_contact(path, link, topic, reading, start_ns) for link, topic in reading.contacts}
    if not contacts and is_file_of_columns(path):
        found = {link: read_columns(path, link, FORCES, reading, start_ns) for link in _moving_links(robot)}
        contacts = {link: wrench for link, wrench in found.items() if wrench is not None}
    for link in contacts:
        if link not in robot.tools:
            raise InputError(
                f"there is no link {link!r} in contact", f"choose from {', '.join(robot.tools)}", robot.name
            )
    notes = [
        f"the forces on {link!r} are in frame {wrench.frame!r}, which is taken as that of the link"
        for link, wrench in contacts.items()
        if wrench.frame and wrench.frame != link
    ]
    return Surroundings(base, contacts, tuple(notes))


def join_base(robot: Robot, piece: Samples, around: Surroundings) -> Samples:
    """Return the samples with the joints of the base before those of the drives; what is not known is NaN."""
    base = _at(piece.t, around.base)
    q = np.hstack((base, piece.q))
    size = base.shape[1]
    arrays = {name: np.pad(array, ((0, 0), (size, 0))) for name, array in piece.arrays().items() if name != "q"}
    for name in ("dq", "ddq", "q_r", "temperature", "tau_l"):
        if name in arrays:
            arrays[name][:, :size] = np.nan
    tau = arrays.get("tau", np.zeros_like(q))
    known = np.isfinite(q).all(axis=1)
    for link, wrench in around.contacts.items():
        force = _at(piece.t, wrench)
        tau[~np.isfinite(force).all(axis=1)] = np.nan
        tau[known] += contact_efforts(robot, q[known], link, force[known])
    return piece.with_arrays(piece.t, arrays | {"q": q, "tau": tau}, robot.active_names)


def _check_direction(robot: Robot, samples: Samples, around: Surroundings) -> None:
    """Refuse contacts that together push the robot down: over some time, whatever carries it pushes it up."""
    force = np.nanmean(samples.tau[:, :3], axis=0) if samples.tau is not None and around.contacts else np.zeros(3)
    if force @ robot.gravity > 0.0:
        names = ", ".join(around.contacts)
        what = f"the forces on {names} push the robot down: they are those that it exerts on the ground"
        link = next(iter(around.contacts))
        raise InputError(what, Text("reverse each: ", Option("contact", f"{link}=-{link}")), samples.source)


def _at(t: Array, vectors: Vectors) -> Array:
    return np.column_stack([interpolate(t, vectors.t, column) for column in vectors.values.T])


def _moving_links(robot: Robot) -> list[str]:
    return [link for link, (number, _) in robot.tools.items() if number]


def _read_contact(path: Path, link: str, topic: str, reading: Reading, start_ns: int) -> Vectors:
    if topic.startswith("-"):  # what the robot exerts on the ground
        reversed_force = _read_contact(path, link, topic[1:], reading, start_ns)
        return replace(reversed_force, values=-reversed_force.values)
    if not is_file_of_columns(path):
        return read_messages(path, topic, (WRENCH,), reading, start_ns)
    found = read_columns(path, topic, FORCES, reading, start_ns)
    if found is None:
        raise InputError(f"there are no columns {topic}.force.x ... of the contact of {link!r}", "name them", str(path))
    return found


def _read_base(robot: Robot, path: Path, reading: Reading, start_ns: int) -> Vectors:
    """Return the positions of the base's six joints."""
    if not is_file_of_columns(path):
        topic = reading.base or _only_topic(path)
        found = read_messages(path, topic, (ODOMETRY, POSE, IMU), reading, start_ns)
        return _of_imu(robot, found, found.frame) if found.kind is IMU else _of_pose(robot, found, str(path))
    prefix = reading.base or PREFIX

    def column(name: str, axes: tuple[str, ...]) -> Vectors | None:
        return read_columns(path, f"{prefix}.{name}", (axes,), reading, start_ns)

    position, turn = column("position", XYZ), column("orientation", QUATERNION)
    if position is not None and turn is not None:
        return _of_pose(robot, _side_by_side(position, turn), str(path))
    rate, acceleration = column("angular_velocity", XYZ), column("acceleration", XYZ)
    if rate is None or acceleration is None:
        what = f"the recording does not tell where the base is: {prefix}.position.x ... {prefix}.orientation.w"
        raise InputError(
            what, f"or record an IMU: {prefix}.angular_velocity.x ..., {prefix}.acceleration.x ...", str(path)
        )
    unknown = Vectors(rate.t, np.column_stack((np.zeros((len(rate.t), 4)), -np.ones(len(rate.t)))))
    gap = Vectors(rate.t, np.zeros((len(rate.t), 8)))
    whole = _side_by_side(unknown, gap, rate, gap, Vectors(rate.t, np.zeros((len(rate.t), 1))), acceleration)
    return _of_imu(robot, whole, "")


def _only_topic(path: Path) -> str:
    """Return the one topic that tells where the base is: a pose, or else an IMU."""
    for kind in (ODOMETRY, POSE, IMU):
        topics = topics_of(path, kind)
        if len(topics) == 1:
            return topics[0]
        if topics:
            what = f"the bag has {len(topics)} topics of type {kind.type}: {', '.join(topics)}"
            raise InputError(what, Text("name that of the base: ", Option("base", topics[0])), str(path))
    hint = f"record {ODOMETRY.type}, {POSE.type} or {IMU.type}"
    raise InputError("the bag does not tell where the base is", hint, str(path))


def _side_by_side(*parts: Vectors) -> Vectors:
    """Return vectors at the times that all of them have."""
    t = parts[0].t
    for part in parts[1:]:
        t = np.intersect1d(t, part.t)
    return Vectors(t, np.hstack([part.values[np.searchsorted(part.t, t)] for part in parts]))


def _of_pose(robot: Robot, pose: Vectors, source: str) -> Vectors:
    if not len(pose.t):
        raise InputError("no pose of the base is finite", "record its position and orientation", source)
    return Vectors(pose.t, base_positions(pose.values[:, :3], pose.values[:, 3:7]))


def _of_imu(robot: Robot, imu: Vectors, frame: str) -> Vectors:
    """Return the base's positions from an IMU's orientation, angular velocity and proper acceleration (N, 28)."""
    t, rate, acceleration = imu.t, imu.values[:, 13:16], imu.values[:, 25:28]
    if len(t) < 2:
        raise InputError("the IMU has too few samples", "record it for some seconds", robot.name)
    quaternion, known = imu.values[:, :4], imu.values[:, 4] != -1.0
    size = np.linalg.norm(quaternion, axis=1)
    if known.all() and np.all(np.abs(size - 1.0) < 0.1):
        R = _rotations(quaternion / size[:, None])
    else:
        R = _integrate(t, rate, _tilt(t, acceleration, robot.gravity))
    p = _twice_integrated(t, np.einsum("tij,tj->ti", R, acceleration) + robot.gravity)
    number, pose = robot.tools.get(frame, (robot.base_number, None))
    base_link = next((own for carrier, own in robot.tools.values() if carrier == robot.base_number), np.eye(4))
    mount = np.eye(4) if pose is None or number != robot.base_number else np.linalg.inv(base_link) @ pose
    R = R @ mount[:3, :3].T
    p = p - np.einsum("tij,j->ti", R, mount[:3, 3])
    q = base_positions(p, _quaternions(R))
    check_pitch(q)
    return Vectors(t, q)


def _tilt(t: Array, acceleration: Array, gravity: Array) -> Array:
    """Return a rotation (3, 3) that turns the first mean acceleration upwards, against gravity."""
    up = -gravity / max(float(np.linalg.norm(gravity)), 1e-9)
    own = acceleration[t <= t[0] + TILT_SECONDS].mean(axis=0)
    own = own / max(float(np.linalg.norm(own)), 1e-9)
    axis, cosine = np.cross(own, up), float(own @ up)
    if cosine < -0.99:
        raise InputError("the IMU is upside down", "give the link whose frame it measures in, or turn it")
    skew = np.array(((0.0, -axis[2], axis[1]), (axis[2], 0.0, -axis[0]), (-axis[1], axis[0], 0.0)))
    return np.asarray(np.eye(3) + skew + skew @ skew / (1.0 + cosine))


def _integrate(t: Array, rate: Array, R: Array) -> Array:
    """Return rotations (N, 3, 3) from the first one and angular velocities in the body's frame."""
    from scipy.spatial.transform import Rotation

    steps = Rotation.from_rotvec(0.5 * (rate[1:] + rate[:-1]) * np.diff(t)[:, None]).as_matrix()
    out = np.empty((len(t), 3, 3))
    out[0] = R
    for k, step in enumerate(steps):
        out[k + 1] = out[k] @ step
    return np.asarray(Rotation.from_matrix(out).as_matrix())


def _twice_integrated(t: Array, acceleration: Array) -> Array:
    """Return positions (N, 3) whose second derivative is the acceleration, linear between samples."""
    step = np.diff(t)[:, None]
    a, b = acceleration[:-1], acceleration[1:]
    speed = np.vstack((np.zeros(3), np.cumsum(0.5 * (a + b) * step, axis=0)))
    return np.vstack((np.zeros(3), np.cumsum(speed[:-1] * step + (a / 3 + b / 6) * step**2, axis=0)))


def _rotations(quaternion: Array) -> Array:
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.from_quat(quaternion).as_matrix())


def _quaternions(R: Array) -> Array:
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.from_matrix(R).as_quat())
