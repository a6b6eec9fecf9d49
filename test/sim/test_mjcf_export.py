# SPDX-License-Identifier: Apache-2.0

"""dynid export --to mjcf: MuJoCo's inverse dynamics of the file are the model's, and what it cannot say is listed."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from linkages import cylinder_arm, delta, four_bar
from oracle import random_robot
from ros2_dynid.cli import main
from ros2_dynid.codegen.left_out import left_out
from ros2_dynid.dynamics.kinematics import motion_of, random_positions
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import JOINT, OFF, by_joint, standard_names, standard_vector
from ros2_dynid.model.robot import Passive
from ros2_dynid.sim.truth import true_parameters
from ros2_dynid.usecases.mjcf import mjcf_files
from urdf_oracle import example_urdfs

mujoco = pytest.importorskip("mujoco")


def loaded(made, folder):
    """Return MuJoCo's model of the files, written to the folder."""
    for name, data in made.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return mujoco.MjModel.from_xml_path(str(folder / next(iter(made.files))))


def inverse(model, q, dq, ddq):
    """Return MuJoCo's torques, shape (N, n)."""
    data = mujoco.MjData(model)
    rows = []
    for row in zip(q, dq, ddq, strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = row
        mujoco.mj_inverse(model, data)
        rows.append(data.qfrc_inverse.copy())
    return np.array(rows)


def motion(robot, rng, count=50):
    """Return positions in range, speeds that are not near zero, and accelerations that do not stop them at once."""
    n = robot.n
    lower = np.array([max(joint.limits.lower, -2.0) for joint in robot.joints])
    upper = np.array([min(joint.limits.upper, 2.0) for joint in robot.joints])
    q = lower + (upper - lower) * rng.uniform(0.1, 0.9, (count, n))
    return (
        q,
        rng.choice((-1.0, 1.0), (count, n)) * rng.uniform(0.5, 2.0, (count, n)),
        rng.uniform(-2.0, 2.0, (count, n)),
    )


def expressible(robot, chi):
    """Return robot and parameters without what MJCF cannot say."""
    chi = chi.copy()
    by_joint(robot, chi)[:, OFF] = 0.0
    chi[JOINT * robot.n :] = 0.0
    return replace(robot, friction=(), coupling=()), chi[: JOINT * robot.n]


@pytest.mark.parametrize("name", ["demo6", "demo3", "puma560", "ur10_robot.urdf", "panda.urdf", "tree"])
def test_mujoco_gives_the_torques_of_the_model(tmp_path, name):
    rng = np.random.default_rng(1)
    path = next((p for p in example_urdfs() if p.name == name), None)
    robot = random_robot(rng, 7, tree=True) if name == "tree" else load_robot(path or name)
    robot = replace(robot, passive=())  # MuJoCo ties followers softly
    chi = true_parameters(replace(robot, parameters=dict(robot.parameters)), 3)
    by_joint(robot, chi)[:, OFF] = 0.2
    made = mjcf_files(robot, chi)
    model = loaded(made, tmp_path)
    q, dq, ddq = motion(robot, rng)
    expected = inverse_dynamics(*expressible(robot, chi), q, dq, ddq)
    assert np.abs(inverse(model, q, dq, ddq) - expected).max() <= 1e-8 * np.abs(expected).max()
    assert any("off1 0.2" in note for note in made.notes)
    assert model.nu == robot.n and [model.joint(k).name for k in range(robot.n)] == [j.name for j in robot.joints]
    for k, joint in enumerate(robot.joints):
        if np.isfinite(joint.limits.effort) and joint.limits.effort > 0:
            assert model.actuator_forcerange[k].tolist() == [-joint.limits.effort, joint.limits.effort]


def test_the_shapes_of_the_urdf_are_there_and_weigh_nothing(tmp_path, capsys):
    path = next(p for p in example_urdfs() if p.name == "panda.urdf")
    assert main(["export", str(path), "--to", "mjcf", "-o", str(tmp_path), "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    files = [Path(file) for file in outcome["files"]]
    model = mujoco.MjModel.from_xml_path(str(files[0]))
    robot = load_robot(path)
    assert files[0].suffix == ".xml" and model.ngeom + len(outcome["notes"]) > 0
    assert model.body_mass.sum() == pytest.approx(sum(by_joint(robot, standard_vector(robot))[:, 9]), rel=1e-12)


def test_what_mjcf_cannot_say_is_listed():
    robot = load_robot("tx40")
    robot = replace(robot, friction=(FrictionTerm(2, FrictionKind.STRIBECK, 1.5, speed=0.1),))
    chi = true_parameters(robot, 2)
    chi[JOINT * 3 + OFF] = 0.5
    by_joint(robot, chi)[0, 11] = -1.0
    notes = " ".join(mjcf_files(robot, chi).notes)
    for word in ("coupled motors", "Fvm6", "off4 0.5", "1.5", "Fv1 written as 0"):
        assert word in notes, word
    assert "rotor inertia" not in notes
    assert any("rotor inertia: Ia1" in note for note in left_out(robot, chi, "URDF", rotors=False))


def test_followers_are_tied(tmp_path):
    rng = np.random.default_rng(4)
    free = random_robot(rng, 4, prismatic=0.0)
    robot, chi = (
        replace(free, passive=(Passive(2, {1: -1.0}, 0.3), Passive(4, {1: 1.0, 3: 0.5}))),
        true_parameters(free, 1),
    )
    made = mjcf_files(robot, chi)
    model = loaded(made, tmp_path)
    assert model.nu == 2 and model.neq == 2 and any("soft constraints" in note for note in made.notes)
    data = mujoco.MjData(model)
    data.qpos[:] = (0.2, 0.3 - 0.2, 0.4, 0.2 + 0.5 * 0.4)
    mujoco.mj_forward(model, data)
    rows = [k for k in range(data.nefc) if data.efc_type[k] == mujoco.mjtConstraint.mjCNSTR_EQUALITY]
    assert np.abs(data.efc_pos[rows]).max() < 1e-12  # the constraints hold where the robot's do


def test_a_link_without_mass_is_refused(tmp_path, capsys):
    assert main(["export", "puma3", "--to", "mjcf", "-o", str(tmp_path)]) == 2
    assert "positive mass" in capsys.readouterr().err


@pytest.mark.parametrize("robot", [four_bar(), cylinder_arm(), delta()], ids=lambda robot: robot.name)
def test_closed_loops_are_closed_in_mujoco_and_accelerate_as_the_model_says(robot, tmp_path):
    """At rest, where MuJoCo's constraints are not a matter of its stiffness: the torque gives the acceleration."""
    rng = np.random.default_rng(3)
    chi = np.zeros(len(standard_names(robot)))
    by_joint(robot, chi)[:, [0, 3, 5, 6, 9]] = rng.uniform(0.9, 1.1, (robot.n, 5)) * (0.3, 0.3, 0.3, 0.2, 2.0)
    model = loaded(mjcf_files(robot, chi), tmp_path)
    model.opt.tolerance, model.opt.iterations = 1e-14, 500
    model.eq_solimp[:] = (0.9999, 0.9999, 0.001, 0.5, 2.0)
    q = random_positions(robot, rng, 5, 0.2)
    ddq = rng.uniform(-2.0, 2.0, q.shape)
    tau = inverse_dynamics(robot, chi, q, np.zeros_like(q), ddq)
    data = mujoco.MjData(model)
    at = [model.joint(joint.name).qposadr[0] for joint in robot.joints]
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    assert np.abs(data.efc_pos).max() < 1e-9
    motion = motion_of(robot, q, None, ddq)
    for sample, torque in enumerate(tau):
        data.qpos[at], data.qvel[:], data.ctrl[:] = motion.q[:, sample], 0.0, torque
        mujoco.mj_forward(model, data)
        assert np.abs(data.efc_pos).max() < 1e-9
        expected = motion.ddq[:, sample]
        np.testing.assert_allclose(data.qacc[at], expected, atol=5e-3 * np.abs(expected).max())
