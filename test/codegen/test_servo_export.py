# SPDX-License-Identifier: Apache-2.0

"""Position servos for simulators: a user's MJCF moves in MuJoCo as the model predicts, its rest stays as it was."""

from __future__ import annotations

import difflib
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import mujoco
import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.servo.drive import Drives, Term
from ros2_dynid.identification.servo.identify import model_with_drives
from ros2_dynid.identification.servo.model import ServoModel
from ros2_dynid.model.friction_kinds import FrictionKind
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.usecases.export import (
    export_actuators,
    export_mjcf,
    export_patched_mjcf,
    export_random_drives,
    export_urdf,
)
from ros2_dynid.usecases.rollout import roll_out_model

MJCF = """<mujoco model="arm">
  <!-- measured on the bench -->
  <compiler angle="radian" autolimits="true"/>
  <option timestep="0.002" integrator="{integrator}"/>
  <default>
    <joint damping="0.6" armature="0.01" frictionloss="0.2"/>
    <default class="elbow_motor"><motor ctrlrange="-2 2" gear="3"/></default>
  </default>
  <worldbody>
    <body name="upper" pos="0 0 0.3">
      <joint name="shoulder" axis="0 1 0" damping="0.4"/>   <!-- a joint -->
      <inertial pos="0 0 -0.1" mass="0.6" diaginertia="2e-3 2e-3 4e-4"/>
      <body name="fore" pos="0 0 -0.2">
        <joint name="elbow"
               axis="0 1 0"/>
        <inertial pos="0.02 0 -0.08" mass="0.3" diaginertia="1e-3 1e-3 2e-4"/>
        <body name="hand" pos="0 0 -0.15">
          <joint name="wrist" axis="1 0 0"/>
          <inertial pos="0 0 -0.04" mass="0.1" diaginertia="2e-4 2e-4 5e-5"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="p" joint="shoulder" kp="5" dampratio="1"/>  <!-- first -->
    <motor name="m" class="elbow_motor" joint="elbow"/>
  </actuator>
</mujoco>
"""
PERIOD = 0.02
NAMES = ("shoulder", "elbow", "wrist")


def servo_model(file: Path, terms: tuple[Term, ...] = (), coefficients: tuple[float, ...] = ()) -> IdentifiedModel:
    """Return a model of the arm's servos, one of which reaches its limit."""
    robot = load_robot(file)
    kp = np.array([14.0, 8.0, 4.0])
    ratios = np.array(
        [
            1.0 / kp,
            np.array([0.02, 0.012, 0.006]) / kp,
            np.array([0.9, 0.5, 0.2]) / kp,
            np.array([0.12, 0.08, 0.03]) / kp,
            [0.01, -0.006, 0.0],
            [0.0213, 0.0213, 0.02],
            [np.inf, 0.15, np.inf],
            *(np.full(3, c) / kp for c in coefficients),
        ]
    )
    K = len(ratios)
    covariance = np.zeros((3, K, K))
    covariance[:, range(K), range(K)] = (0.05 * np.nan_to_num(ratios, posinf=1.0).T) ** 2
    servo = ServoModel(
        NAMES, Drives(ratios, terms), covariance, (True,) * 3, np.full((2, 3), 1e-3), np.full(3, 1e-3), top_speed=20.0
    )
    return model_with_drives(robot, servo)


def commands() -> Samples:
    """Return four seconds of held commands: sines, then steps."""
    t = PERIOD * np.arange(200)
    sines = 0.4 * np.sin(2 * np.pi * t[:, None] * np.array([0.5, 0.8, 1.1]))
    steps = 0.4 * np.sign(np.sin(2 * np.pi * 0.6 * t[:, None] + np.array([0.0, 1.0, 2.0])))
    u = np.where(t[:, None] < 2.0, sines, steps)
    return Samples(t, NAMES, np.zeros_like(u), q_r=u, dq=np.zeros_like(u))


def simulate(file: Path, model: IdentifiedModel, samples: Samples) -> np.ndarray:
    """Return what encoders read while MuJoCo moves the model of a file along the commands."""
    assert samples.q_r is not None and model.servo is not None
    arm = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(arm)
    bias = np.array([row.bias.value for row in model.servo.rows()])
    data.qpos[:] = samples.q[0] - bias
    joints = arm.actuator_trnid[:, 0]
    for i, joint in enumerate(joints):
        values = np.full((arm.actuator_history[i, 0], 1), samples.q_r[0, joint])
        mujoco.mj_initCtrlHistory(arm, data, i, None, values)
    y = np.empty_like(samples.q)
    for k, u in enumerate(samples.q_r):
        y[k] = data.qpos + bias
        data.ctrl[:] = u[joints]
        for _ in range(round(PERIOD / arm.opt.timestep)):
            mujoco.mj_step(arm, data)
    return y


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_mujoco_moves_the_users_file_as_the_model_predicts(integrator: str, tmp_path: Path) -> None:
    """Positions agree to a thousandth of the motion; all lines but those of joints and actuators are untouched."""
    file = tmp_path / "arm.xml"
    file.write_text(MJCF.format(integrator=integrator))
    model, samples = servo_model(file), commands()
    outcome = export_patched_mjcf(model, file, tmp_path / "out")
    predicted = roll_out_model(model, samples).y
    error = simulate(Path(outcome.files[0]), model, samples) - predicted
    assert np.sqrt(np.mean(error**2)) < 1e-3 * np.sqrt(np.mean((predicted - predicted.mean(axis=0)) ** 2))
    old, new = file.read_text().splitlines(), Path(outcome.files[0]).read_text().splitlines()
    changes = [line for line in difflib.ndiff(old, new) if line[0] in "-+"]
    assert all(any(word in line for word in ("<joint", 'axis="0 1 0"', "<position", "<motor")) for line in changes)
    text = "\n".join(new)
    assert all(comment in text for comment in ("<!-- measured on the bench -->", "<!-- a joint -->", "<!-- first -->"))
    names = [mujoco.MjModel.from_xml_path(outcome.files[0]).actuator(i).name for i in range(3)]
    assert names == ["p", "m", "wrist"], "the order of ctrl stays"
    assert any("elbow" in note and "position" in note for note in outcome.notes)


def test_a_robot_without_an_mjcf_gets_one(tmp_path: Path) -> None:
    """The MJCF that is written from the model itself moves as it predicts, too."""
    file = tmp_path / "arm.xml"
    file.write_text(MJCF.format(integrator="Euler"))
    model, samples = servo_model(file), commands()
    outcome = export_mjcf(model, tmp_path / "out")
    predicted = roll_out_model(model, samples).y
    error = simulate(Path(outcome.files[0]), model, samples) - predicted
    assert np.sqrt(np.mean(error**2)) < 1e-3 * np.sqrt(np.mean((predicted - predicted.mean(axis=0)) ** 2))


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Further friction is replaced by the nearest plain one with a note; a file that lacks a joint is refused."""
    file = tmp_path / "arm.xml"
    file.write_text(MJCF.format(integrator="Euler"))
    model = servo_model(file, (Term(FrictionKind["stribeck"], 0.3),), (0.1,))
    used = {name: {"speed": 2.0, "load": 0.3} for name in NAMES}
    outcome = export_patched_mjcf(replace(model, obtained={"used": used}), file, tmp_path / "out")
    assert any("Fs1" in note for note in outcome.notes)
    other = tmp_path / "other.xml"
    other.write_text(MJCF.format(integrator="Euler").replace('"wrist"', '"roll"'))
    with pytest.raises(InputError, match="joint 'wrist' is not in this file"):
        export_patched_mjcf(servo_model(file), other, tmp_path / "more")


def test_urdf_takes_damping_and_friction(tmp_path: Path) -> None:
    """Only <dynamics> of a URDF changes: its links are those that were described."""
    urdf = tmp_path / "arm.urdf"
    links = "".join(
        f'<link name="l{j}"><inertial><origin xyz="0 0 0.1"/><mass value="0.3"/>'
        '<inertia ixx="1e-3" ixy="0" ixz="0" iyy="1e-3" iyz="0" izz="1e-3"/></inertial></link>'
        for j in range(4)
    )
    joints = "".join(
        f'<joint name="{name}" type="revolute"><parent link="l{j}"/><child link="l{j + 1}"/><origin xyz="0 0 0.2"/>'
        '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="5" velocity="3"/></joint>\n'
        for j, name in enumerate(NAMES)
    )
    urdf.write_text(f'<robot name="arm">{links}{joints}</robot>')
    outcome = export_urdf(servo_model(urdf), urdf, tmp_path / "out")
    text = Path(outcome.files[0]).read_text()
    assert text.count("<dynamics") == 3
    assert load_robot(outcome.files[0]).parameters["Fv1"] == pytest.approx(0.9)
    assert load_robot(outcome.files[0]).parameters["Fc3"] == pytest.approx(0.03)
    assert text.count('izz="1e-3"') == 4


@pytest.mark.parametrize(
    ("simulator", "module", "names"),
    [
        ("isaaclab", "isaaclab.actuators", ("DelayedPDActuatorCfg",)),
        ("mjlab", "mjlab.actuator", ("BuiltinPositionActuatorCfg",)),
        ("newton", "newton.actuators", ("DrivePD", "ClampingMaxEffort")),
    ],
)
def test_actuator_files_hold_the_drives(
    simulator: str, module: str, names: tuple[str, ...], tmp_path, monkeypatch
) -> None:
    """The file runs with the simulator's classes by name, and gives them the identified values."""
    file = tmp_path / "arm.xml"
    file.write_text(MJCF.format(integrator="Euler"))
    outcome = export_actuators(servo_model(file), simulator, tmp_path / "out")
    for name in (module.split(".")[0], module):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name in names:
        setattr(sys.modules[module], name, SimpleNamespace if simulator != "newton" else name)
    space: dict = {}
    exec(Path(outcome.files[0]).read_text(), space)
    if simulator == "newton":
        added = []
        builder = SimpleNamespace(
            joint_label=["arm/worldbody/shoulder", "arm/x/elbow"],
            joint_qd_start=[6, 7],
            **{
                field: [1.0] * 8 for field in ("joint_armature", "joint_friction", "joint_target_ke", "joint_target_kd")
            },
            add_actuator=lambda kind, **values: added.append((kind, values)),
        )
        space["add_drives"](builder)
        assert builder.joint_armature[6:] == pytest.approx([0.02, 0.012])
        assert added[0][1]["kp"] == pytest.approx(14.0) and added[0][1]["delay_steps"] == 4
        assert added[1][1]["clamping"][0][1]["max_effort"] == pytest.approx(1.2)
        return
    drives = space["ACTUATORS"]
    elbow = drives["elbow"] if simulator == "isaaclab" else drives[1]
    assert (elbow.stiffness, elbow.damping, elbow.armature) == pytest.approx((8.0, 0.5, 0.012))
    assert elbow.effort_limit == pytest.approx(1.2)
    assert (elbow.max_delay if simulator == "isaaclab" else elbow.delay_max_lag) == 4
    assert any("bias" in note for note in outcome.notes)


def test_random_drives_have_the_errors_and_correlations_of_the_model(tmp_path: Path) -> None:
    """Spread and correlation of the draws are those of the covariance; an untold stiffness stays; seeds repeat."""
    file = tmp_path / "arm.xml"
    file.write_text(MJCF.format(integrator="Euler"))
    model = servo_model(file)
    assert model.servo is not None
    C = model.servo.covariance.copy()
    std = np.sqrt(np.diag(C[0]))
    C[0, 1, 2] = C[0, 2, 1] = 0.8 * std[1] * std[2]
    told = (True, False, True)
    model = replace(model, servo=replace(model.servo, covariance=C, scale_told=told))
    paths = [Path(export_random_drives(model, 4000, 3, tmp_path / name).files[0]) for name in ("a", "b")]
    assert paths[0].read_text() == paths[1].read_text()
    table = np.genfromtxt(paths[0], delimiter=",", names=True, deletechars="", replace_space="_")
    assert np.std(table["shoulder.kp"]) == pytest.approx(0.05 * 14.0, rel=0.1)
    assert np.ptp(table["elbow.kp"]) == pytest.approx(0.0, abs=1e-9)
    assert np.std(table["elbow.limit"]) == pytest.approx(0.05 * 1.2, rel=0.1)
    inertia, damping = (table[f"shoulder.{name}"] / table["shoulder.kp"] for name in ("armature", "damping"))
    assert np.corrcoef(inertia, damping)[0, 1] == pytest.approx(0.8, abs=0.05)
    with pytest.raises(InputError, match="0 samples"):
        export_random_drives(model, 0, 0, tmp_path / "c")
