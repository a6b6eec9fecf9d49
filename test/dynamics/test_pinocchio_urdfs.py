# SPDX-License-Identifier: Apache-2.0

"""Every URDF of example-robot-data: kinematics, inverse dynamics, regressor and energy against Pinocchio."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot, robot_from_urdf_string
from ros2_dynid.model.parameters import standard_vector
from urdf_oracle import PinUrdf, axis_errors, exact_urdf, example_urdfs, inertial_only

WITHOUT_JOINTS = ("quadrotor_base.urdf", "iris_simple.urdf", "ur3.urdf")
"""Files that hold no moving joint."""
FILES = example_urdfs()
MOVING = [path for path in FILES if path.name not in WITHOUT_JOINTS]


def name_of(path):
    return f"{path.parents[1].name}/{path.name}"


def test_the_package_has_the_robots_that_we_mean():
    assert len(MOVING) >= 60


@pytest.mark.parametrize("path", [path for path in FILES if path.name in WITHOUT_JOINTS], ids=name_of)
def test_files_without_a_moving_joint_are_refused(path):
    with pytest.raises(InputError, match=r"joint"):
        load_robot(path)


@pytest.mark.parametrize("path", MOVING, ids=name_of)
def test_kinematics_and_dynamics_agree_with_pinocchio(path):
    robot = load_robot(path)
    rng = np.random.default_rng(1)
    q, dq, ddq = rng.uniform(-2, 2, size=(3, 4, len(robot.active)))
    theirs = as_it_is = PinUrdf(path.read_text(), robot)
    if any("round" in note for note in robot.notes):
        theirs = PinUrdf(exact_urdf(path.read_bytes()), robot)
        for sample, T in zip(q, frames(robot, q), strict=True):
            assert max(axis_errors(robot, T, as_it_is.axes(sample))) < 3e-5  # a few angles changed by up to 1e-5 each
    chi = standard_vector(robot, inertial_only(robot))
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    torques = np.array([theirs.torque(*sample) for sample in zip(q, dq, ddq, strict=True)])
    for sample, T in zip(q, frames(robot, q), strict=True):
        turned, moved = axis_errors(robot, T, theirs.axes(sample))
        assert turned < 1e-9
        assert moved < 1e-9
        for link, (number, tool) in robot.tools.items():
            assert np.abs(T[number - 1] @ tool - theirs.link(link, sample)).max() < 1e-9
    assert np.abs(tau - torques).max() <= 1e-8 * np.abs(torques).max()
    product = np.einsum("tij,j->ti", regressor(robot, q, dq, ddq), chi)
    assert np.abs(product - tau).max() <= 1e-10 * max(1.0, np.abs(tau).max())


@pytest.mark.parametrize("path", MOVING, ids=name_of)
def test_energy_changes_by_the_work_of_the_torques(path):
    robot = load_robot(path)
    chi = standard_vector(robot, inertial_only(robot))
    rng = np.random.default_rng(2)
    q0, amplitude, phase = rng.uniform(-1, 1, size=(3, len(robot.active)))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    end = 0.5

    def motion(t):
        angle = t[:, None] + phase
        return q0 + amplitude * np.sin(angle), amplitude * np.cos(angle), -amplitude * np.sin(angle)

    q, dq, ddq = motion(end * (nodes + 1) / 2)
    power = np.einsum("ti,ti->t", inverse_dynamics(robot, chi, q, dq, ddq), dq)
    work = end / 2 * weights @ power
    before, after = energy_regressor(robot, *motion(np.array([0.0, end]))[:2]) @ chi
    assert abs(after - before - work) <= 1e-11 * max(np.abs(power).max(), abs(before), abs(after))


@pytest.mark.parametrize(
    "path", [path for path in MOVING if path.name in ("ur10_robot.urdf", "tiago.urdf")], ids=name_of
)
def test_held_joints_and_sub_chains_agree_with_pinocchio(path):
    """Joints held away from zero, as Pinocchio holds them: velocity and acceleration zero."""
    text = exact_urdf(path.read_bytes())
    full = robot_from_urdf_string(text)
    rng = np.random.default_rng(3)
    held = {joint.name: float(rng.uniform(-1, 1)) for joint in full.joints[1::2]}
    robot = robot_from_urdf_string(text, hold=held)
    assert [joint.name for joint in robot.joints] == [joint.name for joint in full.joints[::2]]
    theirs = PinUrdf(text, robot, held)
    q, dq, ddq = rng.uniform(-2, 2, size=(3, 4, robot.n))
    chi = standard_vector(robot, inertial_only(robot))
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    torques = np.array([theirs.torque(*sample) for sample in zip(q, dq, ddq, strict=True)])
    for sample, T in zip(q, frames(robot, q), strict=True):
        assert max(axis_errors(robot, T, theirs.axes(sample))) < 1e-9
    assert np.abs(tau - torques).max() <= 1e-8 * np.abs(torques).max()
