# SPDX-License-Identifier: Apache-2.0

"""Between messages and arrays."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Inertia, Transform
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, ReliabilityPolicy
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ros2_dynid.control.reference import reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.messages import (
    ahead,
    duration,
    inertia_message,
    inertia_of,
    matrix_of,
    reference_of,
    reference_points,
    seconds,
    trajectory_message,
    transform_message,
)
from ros2_dynid.nodes.common.qos import ANNOUNCED, COMMANDS, JOINT_STATES, LATCHED, STREAMED

ROBOT = load_robot("demo3")


NAMES = ROBOT.active_names


rng = np.random.default_rng(5)


T = np.array([0.25, 1.000000001, 2.5])


Q, DQ, DDQ, TAU = rng.uniform(-1, 1, (4, 3, 3))


def message_of(names=NAMES, fields=("positions", "velocities", "accelerations", "effort")):
    """Return a trajectory whose joints come in the order of `names`."""
    order = [NAMES.index(name) for name in names]
    values = dict(zip(("positions", "velocities", "accelerations", "effort"), (Q, DQ, DDQ, TAU), strict=True))
    points = [
        JointTrajectoryPoint(
            time_from_start=duration(float(t)), **{field: values[field][k, order].tolist() for field in fields}
        )
        for k, t in enumerate(T)
    ]
    return JointTrajectory(joint_names=list(names), points=points)


def test_a_trajectory_is_put_in_the_robots_order():
    found = reference_of(message_of(("elbow", "waist", "shoulder")), ROBOT)
    assert found.joint_names == NAMES
    for values, expected in ((found.t, T), (found.q, Q), (found.dq, DQ), (found.ddq, DDQ), (found.tau, TAU)):
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def test_what_a_trajectory_lacks_stays_lacking():
    found = reference_of(message_of(fields=("positions",)), ROBOT)
    assert found.dq is None and found.ddq is None and found.tau is None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda m: m.points.clear(), "no points"),
        (lambda m: setattr(m.points[1], "positions", [0.0, 0.0]), r"positions have lengths \[2, 3\]"),
        (lambda m: setattr(m.points[1], "velocities", []), r"velocities have lengths \[0, 3\]"),
        (lambda m: [setattr(p, "velocities", [0.0, 0.0]) for p in m.points], r"velocities have lengths \[2\]; give 3"),
        (lambda m: [setattr(p, "effort", [0.0] * 4) for p in m.points], r"effort have lengths \[4\]; give 3"),
        (lambda m: [setattr(point, "positions", []) for point in m.points], "no positions"),
        (lambda m: setattr(m, "joint_names", ["waist", "shoulder", "wrist"]), "wrist|elbow"),
        (lambda m: setattr(m, "joint_names", ["waist", "shoulder"]), "elbow"),
    ],
)
def test_trajectories_that_a_controller_would_refuse(spoil, said):
    message = message_of()
    spoil(message)
    with pytest.raises(InputError, match=said):
        reference_of(message, ROBOT)


def test_the_message_of_a_trajectory_has_every_value_in_its_place():
    message = trajectory_message(reference(NAMES, T, Q, DQ, DDQ, TAU), Time(sec=7, nanosec=8))
    assert message.joint_names == list(NAMES) and message.header.stamp == Time(sec=7, nanosec=8)
    for field, values in (("positions", Q), ("velocities", DQ), ("accelerations", DDQ), ("effort", TAU)):
        np.testing.assert_array_equal([getattr(point, field) for point in message.points], values)
    assert [(p.time_from_start.sec, p.time_from_start.nanosec) for p in message.points] == [
        (0, 250_000_000), (1, 1), (2, 500_000_000),
    ]  # fmt: skip
    bare = trajectory_message(reference(NAMES, T, Q))
    assert bare.header.stamp == Time() and not bare.points[0].velocities and not bare.points[0].effort


def test_times_and_durations():
    assert seconds(Time(sec=3, nanosec=250_000_000)) == 3.25
    for value, expected in ((1.9999999999, (2, 0)), (-0.25, (-1, 750_000_000)), (0.0, (0, 0))):
        made = duration(value)
        assert (made.sec, made.nanosec) == expected
    now = 5_000_000_000
    assert ahead(Time(sec=5, nanosec=500_000_000), now) == 0.5
    assert ahead(Time(sec=4), now) == -1.0, "late"
    assert ahead(Time(), now) == 0.0, "a stamp of zero means at once"
    assert ahead(Time(nanosec=1), now) < -4.9, "and no other"


def test_how_topics_are_connected():
    """docs/nodes.md and every other node rely on these."""
    reliable, best_effort = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
    assert LATCHED.durability is DurabilityPolicy.TRANSIENT_LOCAL and LATCHED.depth == 1
    assert ANNOUNCED.durability is DurabilityPolicy.TRANSIENT_LOCAL
    assert ANNOUNCED.liveliness is LivelinessPolicy.AUTOMATIC
    assert ANNOUNCED.liveliness_lease_duration.nanoseconds == 1_500_000_000
    assert {LATCHED.reliability, ANNOUNCED.reliability, COMMANDS.reliability, STREAMED.reliability} == {reliable}
    assert JOINT_STATES.reliability is best_effort and JOINT_STATES.depth == 2000


def rotation(axis, angle):
    x, y, z = axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def test_poses_survive_and_turn_the_right_way():
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation((0.6, 0.0, 0.8), 0.7), (1.0, -2.0, 3.0)
    message = transform_message(pose)
    quaternion = np.array((message.rotation.x, message.rotation.y, message.rotation.z, message.rotation.w))
    expected = np.array((*(np.sin(0.35) * np.array((0.6, 0.0, 0.8))), np.cos(0.35)))
    np.testing.assert_allclose(quaternion * np.sign(quaternion[3]), expected, atol=1e-12)
    np.testing.assert_allclose(matrix_of(message), pose, atol=1e-12)


@pytest.mark.parametrize("part", ["rotation", "translation"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_poses_that_are_none(part, value):
    message = Transform()
    getattr(message, part).x = value
    with pytest.raises(InputError, match="not a number"):
        matrix_of(message)


def test_a_rotation_of_zero_is_none():
    message = Transform()
    message.rotation.w = 0.0
    with pytest.raises(InputError, match="unit quaternion"):
        matrix_of(message)


def load():
    return inertia_message(2.5, (0.1, -0.2, 0.3), ((1.0, 0.1, 0.2), (0.1, 2.0, 0.3), (0.2, 0.3, 3.0)))


def test_a_load_and_its_message():
    message = load()
    found = [getattr(message, name) for name in ("m", "ixx", "ixy", "ixz", "iyy", "iyz", "izz")]
    assert found == [2.5, 1.0, 0.1, 0.2, 2.0, 0.3, 3.0]
    assert (message.com.x, message.com.y, message.com.z) == (0.1, -0.2, 0.3)


def test_a_load_is_turned_into_the_frame_of_its_joint():
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation((0.0, 0.6, 0.8), 0.9), (0.5, 0.6, 0.7)
    first = np.eye(4)
    first[:3, 3] = (0.0, 0.0, 9.0)
    robot = SimpleNamespace(tools={"hand": (3, first), "camera": (2, pose)}, n=3, name="arm")
    I = np.array(((1.0, 0.1, 0.2), (0.1, 2.0, 0.3), (0.2, 0.3, 3.0)))
    mass, com, inertia, joint = inertia_of(load(), robot, "camera")
    assert (mass, joint) == (2.5, 2)
    np.testing.assert_allclose(com, pose[:3, :3] @ (0.1, -0.2, 0.3) + pose[:3, 3])
    np.testing.assert_allclose(inertia, pose[:3, :3] @ I @ pose[:3, :3].T)
    _, com, inertia, joint = inertia_of(load(), robot, "")
    assert joint == 3
    np.testing.assert_allclose(com, (0.1, -0.2, 9.3))
    np.testing.assert_allclose(inertia, I)
    with pytest.raises(InputError, match="no last link 'foot'; choose from hand, camera"):
        inertia_of(load(), robot, "foot")
    _, com, _, joint = inertia_of(load(), SimpleNamespace(tools={}, n=6, name="bare"), "")
    assert joint == 6
    np.testing.assert_allclose(com, (0.1, -0.2, 0.3))


def test_an_empty_message_is_no_load():
    assert inertia_of(Inertia(), ROBOT, "")[0] == 0.0


def test_samples_of_a_plan_become_points():
    samples = SimpleNamespace(
        t=np.array([0.0, 1.0]), **{k: v * np.ones((2, 3)) for k, v in (("q", 1), ("dq", 2), ("ddq", 3))}
    )
    point = trajectory_message(reference_points(("a", "b", "c"), samples)).points[1]
    assert (point.positions[0], point.velocities[0], point.accelerations[0]) == (1.0, 2.0, 3.0)
