# SPDX-License-Identifier: Apache-2.0

"""MJCF as a robot: torques as MuJoCo's inverse dynamics has them, drives as a priori values, what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from linkages import cylinder_arm, delta, four_bar
from ros2_dynid.dynamics.kinematics import motion_of, random_positions
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot, urdf_of
from ros2_dynid.model.parameters import by_joint, standard_names, standard_vector
from ros2_dynid.model.robot import Servo
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from ros2_dynid.usecases.mjcf import mjcf_files

GO2 = Path(__file__).parents[3] / "shared" / "data" / "go2" / "robot.xml"

ARM = """
<mujoco model="arm">
  <compiler angle="degree" eulerseq="zyx"/>
  <option gravity="0.5 -1 -9.7"/>
  <default><default class="light"><geom density="300"/><joint armature="0.02" damping="0.3"/></default></default>
  <asset><texture name="t" type="2d" builtin="flat" width="8" height="8"/><mesh name="seen" file="absent.stl"/></asset>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="base" pos="0 0 0.3" euler="10 20 0"><geom type="mesh" mesh="seen"/>
      <body name="shoulder" pos="0 0 0.1" childclass="light">
        <joint name="yaw" axis="0 0 1" ref="25" range="-120 150" frictionloss="0.4"/>
        <joint name="pitch" axis="0 1 1" pos="0.02 0 0.05" stiffness="3" springref="40"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0.1 0.3 0.2"/>
        <geom type="box" size="0.1 0.02 0.03" pos="0 0.1 0" euler="30 0 10" mass="1.5"/>
        <body name="lift" pos="0.1 0.3 0.2" quat="0.9 0.1 -0.3 0.2">
          <joint name="lift" type="slide" axis="0 0.6 0.8" ref="0.1" range="-0.2 0.3" limited="true"/>
          <inertial pos="0.01 0.02 0.1" mass="2" fullinertia="0.03 0.02 0.015 0.002 -0.001 0.003"/>
          <geom type="mesh" mesh="seen"/>
          <body pos="0 0 0.2">
            <joint name="left" axis="1 0 0" pos="0 0.01 0"/>
            <inertial pos="0 0.1 0" mass="0.4" diaginertia="0.002 0.001 0.002"/>
            <site name="tip" pos="0 0.2 0" euler="0 0 90"/>
          </body>
          <body name="right" pos="0 0 -0.2">
            <joint name="right" axis="1 0 0" ref="10"/><geom type="sphere" size="0.04"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <equality><joint joint1="right" joint2="left" polycoef="0.2 -0.5 0 0 0"/></equality>
  <actuator>
    <position name="a" joint="yaw" kp="40" kv="3" gear="5" forcerange="-4 4"/>
    <motor name="b" joint="pitch" gear="-10" ctrlrange="-2 3" ctrllimited="true"/>
    <velocity name="c" joint="left" kv="2"/>
  </actuator>
  <sensor><jointpos joint="yaw"/></sensor>
  <keyframe><key qpos="0 0 0 0 0"/></keyframe>
</mujoco>
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "robot.xml"
    file.write_text(text)
    return file


def assert_torques_are_mujocos(robot, text: str) -> None:
    """Compare chi's torques, but for Coulomb friction, with mj_inverse, joints that follow others included."""
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(model)
    named = {model.joint(j).name or f"joint{j + 1}": j for j in range(model.njnt)}
    places = [named[joint.name] for joint in robot.joints]
    G, offset = np.zeros((robot.n, len(robot.active))), np.zeros(robot.n)
    G[np.array(robot.active) - 1, np.arange(len(robot.active))] = 1.0
    for passive in robot.passive:
        offset[passive.joint - 1] = passive.offset
        for leader, factor in passive.terms.items():
            G[passive.joint - 1, robot.active.index(leader)] = factor
    q, dq, ddq = np.random.default_rng(3).uniform(-1.5, 1.5, size=(3, 20, len(robot.active)))
    expected = []
    for position, velocity, acceleration in zip(q, dq, ddq, strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = model.qpos0, 0.0, 0.0
        data.qpos[model.jnt_qposadr[places]] = G @ position + offset
        dofs = model.jnt_dofadr[places]
        data.qvel[dofs], data.qacc[dofs] = G @ velocity, G @ acceleration
        mujoco.mj_inverse(model, data)
        expected.append(G.T @ data.qfrc_inverse[dofs])
    values = {name: value for name, value in robot.parameters.items() if not name.startswith("Fc")}
    torque = regressor(robot, q, dq, ddq) @ standard_vector(robot, values)
    np.testing.assert_allclose(torque, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_torques_are_mujocos_whatever_the_bodies_are_written_as(tmp_path):
    file = written(tmp_path, ARM)
    robot = load_robot(file)
    assert [joint.name for joint in robot.joints] == ["yaw", "pitch", "lift", "left", "right"]
    text = re.sub(r'<(mesh name|geom type="mesh")[^>]*/>', "", ARM)  # MuJoCo itself would need the mesh to be seen
    assert_torques_are_mujocos(robot, text)
    assert "tip" in robot.tools
    assert urdf_of(file)[0] is None
    again = robot_from_dict(robot_to_dict(robot), "again")
    assert robot_to_dict(again) == robot_to_dict(robot)
    assert_torques_are_mujocos(again, text)


def test_drives_are_a_priori_values(tmp_path):
    yaw, pitch, lift, left, _ = load_robot(written(tmp_path, ARM)).joints
    assert yaw.servo == Servo(kp=25 * 40.0, kd=25 * 3.0)
    assert (yaw.limits.effort, pitch.limits.effort, left.limits.effort) == (20.0, 20.0, np.inf)
    assert (pitch.servo, left.servo) == (None, None)
    np.testing.assert_allclose((yaw.limits.lower, yaw.limits.upper), np.deg2rad((-120, 150)))
    assert (lift.limits.lower, lift.limits.upper) == (-0.2, 0.3)
    robot = load_robot(tmp_path / "robot.xml")
    assert {robot.parameters[name] for name in ("Ia1", "Fv1", "Fc1", "Ks1")} == {0.02, 0.3, 0.4, 3.0}
    assert robot.forces[0].rest == pytest.approx(np.deg2rad(40))


@pytest.mark.skipif(not GO2.exists(), reason="no shared data")
def test_legged_robot_with_its_base_held_and_one_leg_of_it():
    robot = load_robot(GO2)
    assert robot.n == 12
    assert any("of the base is held" in note for note in robot.notes)
    assert_torques_are_mujocos(robot, GO2.read_text())
    leg = load_robot(GO2, base_link="base", tip_link="RR_calf")
    assert [joint.name for joint in leg.joints] == ["RR_hip_joint", "RR_thigh_joint", "RR_calf_joint"]
    assert leg.joints[2].limits.effort == 45.43
    assert_torques_are_mujocos(leg, GO2.read_text())


@pytest.mark.parametrize("name", ["demo6", "puma560", "tx40"])
def test_exported_model_read_again_has_the_same_torques(tmp_path, name):
    robot = load_robot(name)
    if name != "demo6":  # geometry only: give it links
        rng = np.random.default_rng(1)
        inertia = {"XX": 0.4, "YY": 0.5, "ZZ": 0.3, "MX": 0.1, "MY": -0.2, "MZ": 0.15, "M": 2.0, "Ia": 0.1, "Fv": 1.0}
        values = {f"{k}{j}": v * rng.uniform(0.8, 1.2) for j in range(1, robot.n + 1) for k, v in inertia.items()}
        robot = replace(robot, parameters=values, coupling=(), friction=())
    export = mjcf_files(robot, standard_vector(robot))
    again = load_robot(written(tmp_path, next(iter(export.files.values())).decode()))
    assert [joint.name for joint in again.joints] == [joint.name for joint in robot.joints]
    q, dq, ddq = np.random.default_rng(2).uniform(-1, 1, size=(3, 10, robot.n))
    first, second = (regressor(r, q, dq, ddq) @ standard_vector(r) for r in (robot, again))
    np.testing.assert_allclose(second, first, rtol=0, atol=1e-10 * np.abs(first).max())


TWO_LINKS = """<mujoco>{top}<worldbody><body name="a"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
  <joint name="j1" axis="0 0 1"/><body name="b" pos="0 0 1"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
  <joint name="j2" {kind}/>{body}</body></body></worldbody>{bottom}</mujoco>"""


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"bottom": '<equality><connect body1="b" body2="world" anchor="0 0 0"/></equality>'}, "leave an active joint"),
        (
            {
                "bottom": '<equality><connect body1="b" body2="world" anchor="0 0 0"/></equality><actuator>'
                '<motor joint="j1"/><motor joint="j2"/></actuator>'
            },
            "actuators drive joints 'j1', 'j2', which form a loop",
        ),
        ({"bottom": '<equality><joint joint1="j1" joint2="j2" polycoef="0 1 2 0 0"/></equality>'}, "not linear"),
        ({"kind": 'type="ball"'}, "joint 'j2' is ball; hold it"),
        ({"body": "<geom><nonsense/></geom>"}, "MuJoCo refuses it: .*unrecognized element"),
        ({"top": '<include file="absent.xml"/>'}, "keep its files"),
    ],
)
def test_what_is_no_tree_of_joints_is_refused_in_one_line(tmp_path, parts, message):
    file = written(tmp_path, TWO_LINKS.format(**{"top": "", "kind": 'axis="0 1 0"', "body": "", "bottom": ""} | parts))
    with pytest.raises(InputError, match=message) as caught:
        load_robot(file)
    assert "\n" not in str(caught.value)


def test_a_loop_beyond_the_chain_does_not_matter(tmp_path):
    fingers = '<body name="{0}"><joint name="{0}"/><geom size="0.1"/></body>'
    equality = '<equality><connect body1="f" body2="g" anchor="0 0 0"/></equality>'
    body = fingers.format("f") + fingers.format("g")
    file = written(tmp_path, TWO_LINKS.format(top="", kind='axis="0 1 0"', body=body, bottom=equality))
    closed = load_robot(file)
    assert closed.loops is not None and {closed.joints[j - 1].name for j in closed.loops.passive} == {"f", "g"}
    assert [joint.name for joint in load_robot(file, tip_link="b").joints] == ["j1", "j2"]
    assert load_robot(file, hold={"f": 0.1, "g": -0.1}).n == 2


FOUR_BAR = """<mujoco><worldbody>
  <body name="crank"><inertial pos="0.15 0 0" mass="1" diaginertia="0.1 0.1 0.1"/><joint name="crank" axis="0 -1 0"/>
    <body name="coupler" pos="0.3 0 0" euler="0 -40 0"><inertial pos="0.4 0 0" mass="1" diaginertia="0.2 0.2 0.2"/>
      <joint name="coupler" axis="0 -1 0"/></body></body>
  <body name="rocker" pos="1 0 0" euler="0 -110 0"><inertial pos="0.3 0 0" mass="1" diaginertia="0.1 0.1 0.1"/>
    <joint name="rocker" axis="0 -1 0"/>{tab}</body>
  </worldbody><equality>{equality}</equality><actuator><motor joint="crank"/></actuator></mujoco>"""
TAB = """<body name="tab" pos="0.7 0 0"><inertial pos="0 0 0" mass="0.1" diaginertia="0.01 0.01 0.01"/>
  <joint name="tab" axis="0 -1 0"/></body>"""
CONNECT = '<connect body1="coupler" body2="rocker" anchor="0.9 0 0"/>'
WELD = '<weld body1="coupler" body2="tab" relpose="0.9 0 0 1 0 0 0"/>'


@pytest.mark.parametrize(("tab", "equality"), [("", CONNECT), (TAB, WELD)], ids=["connect", "weld"])
def test_mujoco_sees_the_loops_of_its_file_closed(tmp_path, tab, equality):
    file = written(tmp_path, FOUR_BAR.format(tab=tab, equality=equality))
    robot = load_robot(file)
    assert robot.active_names == ("crank",)
    motion = motion_of(robot, np.linspace(-1.0, 1.0, 9)[:, None])
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    for q in motion.q.T:
        data.qpos[[model.joint(joint.name).qposadr[0] for joint in robot.joints]] = q
        mujoco.mj_forward(model, data)
        assert data.ne > 0 and np.abs(data.efc_pos[: data.ne]).max() < 1e-9


@pytest.mark.parametrize("robot", [four_bar(), cylinder_arm(), delta()], ids=lambda robot: robot.name)
def test_closed_loops_go_there_and_back(tmp_path, robot):
    rng = np.random.default_rng(1)
    chi = np.zeros(len(standard_names(robot)))
    by_joint(robot, chi)[:, [0, 3, 5, 6, 9]] = rng.uniform(0.9, 1.1, (robot.n, 5)) * (0.3, 0.3, 0.3, 0.2, 2.0)
    again = load_robot(written(tmp_path, next(iter(mjcf_files(robot, chi).files.values())).decode()))
    order = [robot.active_names.index(name) for name in again.active_names]  # MuJoCo's: branch after branch
    assert sorted(order) == list(range(len(robot.active)))
    q = random_positions(robot, rng, 10, 0.2)
    dq, ddq = rng.uniform(-1.0, 1.0, (2, *q.shape))
    first = inverse_dynamics(robot, chi, q, dq, ddq)
    second = inverse_dynamics(again, standard_vector(again), *(x[:, order] for x in (q, dq, ddq)))
    np.testing.assert_allclose(second, first[:, order], atol=1e-9 * np.abs(first).max())
