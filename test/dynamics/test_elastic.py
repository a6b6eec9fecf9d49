# SPDX-License-Identifier: Apache-2.0

"""Springs, compensators and cables: MuJoCo's springs and tendons, energy, base parameters, generated code, refusals."""

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.codegen.backend import fast_regressor, torque_function
from ros2_dynid.codegen.emit_numpy import emit_numpy
from ros2_dynid.codegen.program import ProgramOptions, program_of
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.newton_euler import gravity_torque, inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.sensitivity import regressor_with_gradient
from ros2_dynid.identification.estimators.estimator import identify_arrays
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.parameters import force_slice, standard_names, standard_vector, unit_of
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from ros2_dynid.sim.simulated_robot import Imperfections, SimulatedRobot

JOINTS = [
    {"name": "a", "r": 0.3},
    {"name": "b", "alpha": np.pi / 2, "d": 0.2, "theta": 0.3},
    {"name": "c", "type": "prismatic", "alpha": 0.4, "d": 0.5, "r": 0.1},
    {"name": "d", "parent": 1, "alpha": 0.9, "d": 0.5, "r": 0.1},
]
FORCES = [
    {
        "name": "s",
        "type": "spring",
        "joints": {"a": 1, "b": -0.5},
        "rest": 0.1,
        "coefficients": {"stiffness": 3.0, "preload": 1.0},
    },
    {
        "name": "strut",
        "type": "cylinder",
        "from": {"joint": "d", "point": [0.1, 0.2, -0.3]},
        "to": {"joint": "c", "point": [0.1, -0.2, 0.3]},
        "rest": 0.4,
        "coefficients": ["preload", "stiffness", "quadratic"],
    },
    {"name": "hose", "type": "cable", "joints": {"d": 1}},
    {
        "name": "balancer",
        "type": "cylinder",
        "from": {"joint": 0, "point": [0.1, 0.2, -0.3]},
        "to": {"joint": "b", "point": [0.1, -0.2, 0.3]},
        "rest": 0.4,
        "coefficients": {"preload": 20.0, "stiffness": 50.0},
    },
]  # fmt: skip


def make(forces=FORCES, **more):
    base = np.eye(4)
    base[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    base[:3, 3] = (0.1, 0.2, 0.3)
    return robot_from_dict({"name": "r", "base": base.tolist(), "joints": JOINTS, "forces": forces, **more}, "r.yaml")


def motion(robot, count=40, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (3, count, len(robot.active)))


def some_parameters(robot, seed=1):
    return np.random.default_rng(seed).uniform(0.1, 1.0, len(standard_names(robot)))


def test_torque_is_the_slope_of_the_energy_and_the_regressor_has_it():
    robot = make()
    chi = some_parameters(robot)
    q, dq, ddq = motion(robot)
    assert np.allclose(regressor(robot, q, dq, ddq) @ chi, inverse_dynamics(robot, chi, q, dq, ddq), atol=1e-12)
    assert np.allclose(fast_regressor(robot, q, dq, ddq), regressor(robot, q, dq, ddq), atol=1e-12)
    only = np.zeros_like(chi)
    only[force_slice(robot)] = chi[force_slice(robot)]
    slope = np.empty_like(q)
    for j, e in enumerate(1e-6 * np.eye(4)):
        up, down = (energy_regressor(robot, x, 0.0 * q) @ only for x in (q + e, q - e))
        slope[:, j] = (up - down) / 2e-6
    assert np.allclose(slope, gravity_torque(robot, only, q), atol=1e-7)


def test_pivots_that_meet_pull_nowhere():
    """At q = 0 both pivots are at one point: the distance has no slope there, and nothing is infinite."""
    ends = {"from": {"joint": 0, "point": [0.4, 0.0, 0.0]}, "to": {"joint": "a", "point": [0.4, 0.0, 0.0]}}
    force = {"type": "cylinder", **ends, "coefficients": ["preload", "stiffness"]}
    robot = robot_from_dict({"joints": [{"name": "a"}], "forces": [force]}, "r.yaml")
    still = np.zeros((1, 1))
    with np.errstate(all="raise"):
        assert not regressor(robot, still, still, still)[0, 0, force_slice(robot)].any()
    turned = regressor(robot, still + 0.3, still, still)[0, 0, force_slice(robot)]
    x, slope = 0.8 * np.sin(0.15), 0.4 * np.cos(0.15)  # the chord of the angle 0.3 on a circle of 0.4 m
    assert turned == pytest.approx([slope, slope * x])


def test_mujoco_has_the_same_springs():
    mujoco = pytest.importorskip("mujoco")
    xml = """
    <mujoco><option gravity="0 0 -9.81" integrator="Euler"/><compiler angle="radian"/>
    <worldbody><site name="base" pos="0.3 0 0.1"/>
      <body pos="0 0 0"><joint name="a" axis="0 0 1" stiffness="3" springref="0.1"/>
        <inertial pos="0.1 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>
        <body pos="0.5 0 0"><joint name="b" axis="0 0 1"/><site name="tip" pos="0.2 0.1 0.05"/>
          <inertial pos="0.2 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body></body></worldbody>
    <tendon><spatial stiffness="40" springlength="0.25"><site site="base"/><site site="tip"/></spatial></tendon>
    </mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    robot = robot_from_dict(
        {
            "joints": [{"name": "a"}, {"name": "b", "d": 0.5}],
            "forces": [
                {"type": "spring", "joints": {"a": 1}, "rest": 0.1, "coefficients": {"stiffness": 3.0}},
                {
                    "type": "cylinder",
                    "from": {"joint": 0, "point": [0.3, 0.0, 0.1]},
                    "to": {"joint": "b", "point": [0.2, 0.1, 0.05]},
                    "rest": 0.25,
                    "coefficients": {"stiffness": 40.0},
                },
            ],
        },
        "r",
    )
    for q in motion(robot)[0]:
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        ours = gravity_torque(robot, standard_vector(robot), q[None])[0]
        assert np.allclose(-data.qfrc_spring, ours, atol=1e-9)


def test_closed_form_and_qr_agree_and_a_preload_joins_the_offset():
    robot = make()
    closed, sampled = (base_parameters(robot, method=method) for method in ("closed-form", "qr"))
    assert closed.leaders == sampled.leaders
    assert np.allclose(closed.M, sampled.M, atol=1e-9)
    assert "Kf1" in closed.regrouped and {"Ks1", "Kf2", "Kq2", "Kc3", "Kf4"} <= set(closed.leaders)
    assert closed.terms(closed.leaders.index("off1"))["Kf1"] == pytest.approx(1.0)


def test_generated_code_has_them():
    robot = replace(make(), friction=(FrictionTerm(2, FrictionKind.LOAD, 0.2),))
    chi = some_parameters(robot)
    q, dq, ddq = motion(robot)
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    compiled = torque_function(robot, chi)
    assert np.allclose([compiled.torque(*x) for x in zip(q, dq, ddq, strict=True)], tau, atol=1e-11)
    names = standard_names(robot)
    program = program_of(replace(robot, friction=()), names, chi, ProgramOptions(effort=5))
    space = {}
    exec(emit_numpy(program)["r.py"], space)  # the text that the export writes
    bare = inverse_dynamics(replace(robot, friction=()), chi, q, dq, ddq)
    assert np.allclose(space["torque"](q, dq, ddq), bare, atol=1e-10)
    assert np.allclose(space["inertia_gravity"](q)[1], gravity_torque(robot, chi, q), atol=1e-10)


def test_gears_carry_what_a_balancer_leaves():
    plain = make()
    robot = replace(plain, friction=(FrictionTerm(2, FrictionKind.LOAD, 0.5),))
    chi = standard_vector(robot)
    q, dq, _ = motion(robot)
    more = inverse_dynamics(robot, chi, q, dq, 0 * q) - inverse_dynamics(plain, chi, q, dq, 0 * q)
    assert np.allclose(more[:, 1], 0.5 * np.sign(dq[:, 1]) * np.abs(gravity_torque(plain, chi, q)[:, 1]))


def test_the_gradient_of_the_criterion_sees_them():
    robot = make()
    q, dq, ddq = motion(robot, 3)
    Y, back = regressor_with_gradient(robot, q, dq, ddq)
    C = np.random.default_rng(4).normal(size=Y.shape)
    gq = back(C)[0]
    for j, e in enumerate(1e-6 * np.eye(4)):
        up, down = (regressor(robot, x, dq, ddq) for x in (q + e, q - e))
        assert np.allclose(np.sum(C * (up - down), axis=(1, 2)) / 2e-6, gq[:, j], rtol=1e-5, atol=1e-5)


def test_coefficients_are_identified():
    robot = make()
    chi = some_parameters(robot)
    q, dq, ddq = motion(robot, 400)
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    base, found = identify_arrays(robot, q, dq, ddq, tau)
    want = base.values(robot, chi)
    assert np.allclose(found.base, want, atol=1e-7)
    assert "Kf4" in base.leaders


def test_robot_files_keep_them():
    robot = make()
    again = robot_from_dict(robot_to_dict(robot), "again")
    assert again.forces == robot.forces or [f.powers for f in again.forces] == [f.powers for f in robot.forces]
    q = motion(robot)[0]
    chi = some_parameters(robot)
    assert np.allclose(gravity_torque(again, chi, q), gravity_torque(robot, chi, q), atol=1e-12)
    assert again.parameters == robot.parameters and robot.parameters["Kf4"] == 20.0
    assert [unit_of(robot, name) for name in ("Kf1", "Ks1", "Kf4", "Ks4", "Kq2", "Kc3")] == [
        "N.m", "N.m/rad", "N", "N/m", "N/m^2", "N.m/rad^3",
    ]  # fmt: skip


def test_the_simulated_robot_swings_on_its_spring():
    pytest.importorskip("mujoco")
    robot = robot_from_dict(
        {
            "joints": [{"name": "a", "limits": {"effort": 100.0}}],
            "parameters": {"ZZ1": 0.2, "XX1": 0.2, "YY1": 0.2, "M1": 1.0},
            "forces": [{"type": "spring", "joints": {"a": 1}, "coefficients": {"stiffness": 20.0}}],
        },
        "r",
    )
    sim = SimulatedRobot(robot, standard_vector(robot), imperfections=Imperfections(latency=0), start=np.array([0.1]))
    q = np.array([sim.step(np.zeros(1)).q[0] for _ in range(700)])
    crossings = np.flatnonzero(np.diff(np.sign(q)))
    half = float(np.mean(np.diff(crossings))) * 1e-3
    assert half == pytest.approx(np.pi / np.sqrt(20.0 / 0.2), rel=0.02)


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({"type": "spring", "joints": {"x": 1}}, "unknown joint 'x'"),
        ({"type": "rubber", "joints": {"a": 1}}, "has type 'rubber'"),
        ({"type": "spring", "joints": {"a": 1}, "coefficients": {"stiffness": -1}}, "has stiffness -1"),
        ({"type": "spring", "joints": {"a": 1}, "coefficients": {"softness": 1}}, "softness"),
        ({"type": "spring"}, "has no joints"),
        ({"type": "cylinder", "from": {"joint": 0, "point": [0, 0, 0]}}, "needs two pivots"),
        (
            {"type": "cylinder", "from": {"joint": "a", "point": [0, 0, 0]}, "to": {"joint": "a", "point": [1, 0, 0]}},
            "both pivots on one link",
        ),
        ({"type": "spring", "joints": {"a": 1}, "rest": "long"}, "rest"),
    ],
)
def test_refusals_are_one_line(entry, what):
    with pytest.raises(InputError, match=what) as caught:
        make([{"name": "f", **entry}])
    assert "\n" not in str(caught.value)
