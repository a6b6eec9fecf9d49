# SPDX-License-Identifier: Apache-2.0

"""Recordings of robots whose base floats: poses, IMUs and contact forces beside the joints, in tables and bags."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bagmaker import EPOCH, ROS2, header, write_bag
from ros2_dynid.dynamics.floating_base import base_rotation, contact_efforts
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import robot_from_urdf_string
from ros2_dynid.recording.read import read_samples
from ros2_dynid.recording.samples import Reading

URDF = """<robot name="hopper">
<link name="trunk"><inertial><mass value="3"/>
<inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="imu"/><joint name="mount" type="fixed"><parent link="trunk"/><child link="imu"/>
<origin xyz="0.1 -0.05 0.2" rpy="0.3 0 0.2"/></joint>
<link name="leg"><inertial><mass value="1"/><origin xyz="0 0 -.2"/>
<inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="hip" type="continuous"><parent link="trunk"/><child link="leg"/><axis xyz="0 1 0"/></joint>
<link name="foot"/>
<joint name="sole" type="fixed"><parent link="leg"/><child link="foot"/><origin xyz="0 0 -.4"/></joint>
</robot>"""
ROBOT = robot_from_urdf_string(URDF, floating_base=True)
RATE, N = 500.0, 1500
t = np.arange(N) / RATE


def motion():
    """Return positions of the seven joints, shape (N, 7), that turn on and on about the vertical."""
    rng = np.random.default_rng(2)
    phase = rng.uniform(0, 6, 7)
    q = 0.2 * np.sin(2 * np.pi * np.array([0.5, 0.7, 0.9, 0.3, 0.6, 0.8, 1.1]) * t[:, None] + phase)
    q[:, 3] += 1.5 * t
    return q


Q = motion()
TURN = Rotation.from_matrix(base_rotation(Q))
FORCE = np.column_stack((np.sin(t), np.cos(t), 40 + np.sin(3 * t)))
EFFORT = np.cos(2 * t)


def expected_tau(force):
    tau = contact_efforts(ROBOT, Q, "foot", np.hstack((force, np.zeros((N, 3)))))
    tau[:, 6] += EFFORT
    return tau


def imu_of(q):
    """Return angular velocity and proper acceleration in the IMU's frame, by differences of its pose."""
    pose = np.linalg.inv(ROBOT.tools["trunk"][1]) @ ROBOT.tools["imu"][1]
    R = base_rotation(q)
    at = q[:, :3] + R @ pose[:3, 3]
    own = Rotation.from_matrix(R @ pose[:3, :3])
    second = np.gradient(np.gradient(at, 1 / RATE, axis=0), 1 / RATE, axis=0)
    rate = (own[:-2].inv() * own[2:]).as_rotvec() * RATE / 2
    rate = np.vstack((rate[:1], rate, rate[-1:]))
    return own, rate, own.inv().apply(second - ROBOT.gravity)


def table(file, columns):
    names = ["time", "hip.position", "hip.effort", *columns]
    values = np.column_stack((t, Q[:, 6], EFFORT, *columns.values()))
    np.savetxt(file, values, delimiter=",", header=",".join(names), comments="", fmt="%.17g")
    return file


def pose_columns():
    quaternion = TURN.as_quat()
    columns = {f"base.position.{axis}": Q[:, k] for k, axis in enumerate("xyz")}
    return columns | {f"base.orientation.{axis}": quaternion[:, k] for k, axis in enumerate("xyzw")}


def force_columns():
    return {f"foot.force.{axis}": FORCE[:, k] for k, axis in enumerate("xyz")}


def test_tables_tell_pose_and_contact_forces(tmp_path):
    file = table(tmp_path / "run.csv", pose_columns() | force_columns())
    samples = read_samples(file, ROBOT)
    assert samples.joint_names == ROBOT.active_names
    np.testing.assert_allclose(samples.q, Q, atol=1e-9)
    np.testing.assert_allclose(samples.tau, expected_tau(FORCE), atol=1e-9)
    arrays = {"base.position": Q[:, :3], "base.orientation": TURN.as_quat(), "foot": FORCE}
    np.savez(tmp_path / "run.npz", t=t, q=Q[:, 6:], tau=EFFORT[:, None], joint_names=["hip"], **arrays)
    np.testing.assert_allclose(read_samples(tmp_path / "run.npz", ROBOT).tau, samples.tau, atol=1e-9)
    # without contacts the base feels nothing; a contact that is named must be there
    file = table(tmp_path / "air.csv", pose_columns())
    np.testing.assert_array_equal(read_samples(file, ROBOT).tau, np.column_stack((np.zeros((N, 6)), EFFORT)))
    with pytest.raises(InputError, match="no columns toe"):
        read_samples(file, ROBOT, Reading(contacts=(("foot", "toe"),)))
    reverse = Reading(contacts=(("foot", "-foot"),))
    with pytest.raises(InputError, match="push the robot down"):
        read_samples(tmp_path / "run.csv", ROBOT, reverse)
    with pytest.raises(InputError, match="no link 'toe'"):
        read_samples(tmp_path / "run.csv", ROBOT, Reading(contacts=(("toe", "foot"),)))


def test_tables_without_a_base_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"base\.x"):
        read_samples(table(tmp_path / "arm.csv", {}), ROBOT)


@pytest.mark.parametrize("oriented", [True, False])
def test_an_imu_moves_the_base_as_it_moved(tmp_path, oriented):
    """Position and heading may drift: what differentiates to the same motion has the same torque."""
    own, rate, acceleration = imu_of(Q)
    kind = {name: ROS2.types[f"geometry_msgs/msg/{name}"] for name in ("Vector3", "Quaternion")}
    messages = [("/joint_states", EPOCH + int(1e9 * t[k]), joint_state(k)) for k in range(N)]
    for k in range(N):
        unknown = np.zeros(9)
        first = unknown if oriented else np.array([-1.0, *unknown[1:]])
        message = ROS2.types["sensor_msgs/msg/Imu"](
            header=header(EPOCH + int(1e9 * t[k]), "imu"),
            orientation=kind["Quaternion"](*own[k].as_quat()),
            orientation_covariance=first,
            angular_velocity=kind["Vector3"](*rate[k]),
            angular_velocity_covariance=unknown,
            linear_acceleration=kind["Vector3"](*acceleration[k]),
            linear_acceleration_covariance=unknown,
        )
        messages.append(("/imu/data", EPOCH + int(1e9 * t[k]) + 1, message))
    bag = write_bag(tmp_path / "bag", messages)
    samples = read_samples(bag, ROBOT)
    inside = slice(20, -20)

    def felt(q):
        """Return what the base feels: angular velocity and proper acceleration in its own frame."""
        R = base_rotation(q)
        second = np.gradient(np.gradient(q[:, :3], 1 / RATE, axis=0), 1 / RATE, axis=0) - ROBOT.gravity
        turn = Rotation.from_matrix(R)
        return (turn[:-2].inv() * turn[2:]).as_rotvec()[inside] * RATE / 2, turn.inv().apply(second)[inside]

    for ours, true in zip(felt(samples.q[:, :6]), felt(Q[:, :6]), strict=True):
        assert np.abs(ours - true).max() < 2e-3 * np.abs(true).max()


def joint_state(k):
    return ROS2.types["sensor_msgs/msg/JointState"](
        header=header(EPOCH + int(1e9 * t[k]), ""),
        name=["hip"],
        position=Q[k, 6:],
        velocity=np.zeros(0),
        effort=EFFORT[k : k + 1],
    )


def test_bags_tell_odometry_and_wrenches(tmp_path):
    types = ROS2.types
    quaternion = TURN.as_quat()
    messages = []
    for k in range(N):
        stamp = EPOCH + int(1e9 * t[k])
        pose = types["geometry_msgs/msg/Pose"](
            position=types["geometry_msgs/msg/Point"](*Q[k, :3]),
            orientation=types["geometry_msgs/msg/Quaternion"](*quaternion[k]),
        )
        zero = types["geometry_msgs/msg/Vector3"](0.0, 0.0, 0.0)
        odometry = types["nav_msgs/msg/Odometry"](
            header=header(stamp, "odom"),
            child_frame_id="trunk",
            pose=types["geometry_msgs/msg/PoseWithCovariance"](pose=pose, covariance=np.zeros(36)),
            twist=types["geometry_msgs/msg/TwistWithCovariance"](
                twist=types["geometry_msgs/msg/Twist"](linear=zero, angular=zero), covariance=np.zeros(36)
            ),
        )
        force = types["geometry_msgs/msg/Vector3"](*FORCE[k])
        wrench = types["geometry_msgs/msg/WrenchStamped"](
            header=header(stamp, "foot"), wrench=types["geometry_msgs/msg/Wrench"](force=force, torque=zero)
        )
        messages += [("/joint_states", stamp, joint_state(k)), ("/odom", stamp, odometry), ("/sole", stamp, wrench)]
    bag = write_bag(tmp_path / "bag", messages)
    samples = read_samples(bag, ROBOT, Reading(contacts=(("foot", "/sole"),)))
    inside = np.isfinite(samples.q).all(axis=1) & np.isfinite(samples.tau).all(axis=1)
    assert inside.sum() > N - 5
    np.testing.assert_allclose(samples.q[inside], Q[inside], atol=1e-6)
    np.testing.assert_allclose(samples.tau[inside], expected_tau(FORCE)[inside], atol=1e-3)
    with pytest.raises(InputError, match="has type"):
        read_samples(bag, ROBOT, Reading(base="/sole"))


def test_a_contact_on_a_robot_that_is_held_is_refused():
    held = replace(ROBOT, joints=tuple(replace(joint, name=f"{joint.name}_") for joint in ROBOT.joints))
    with pytest.raises(InputError, match="floating base"):
        contact_efforts(held, Q, "foot", np.zeros((N, 6)))
