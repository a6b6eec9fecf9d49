# SPDX-License-Identifier: Apache-2.0

"""A floating base against Pinocchio and MuJoCo: regressor, torque, contacts, number of base parameters."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from recordings import DATA
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.floating_base import (
    base_motion,
    base_positions,
    base_wrench,
    contact_efforts,
)
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.load import load_robot, robot_from_urdf_string
from ros2_dynid.model.parameters import LINK, standard_vector
from ros2_dynid.usecases.mjcf import mjcf_files
from ros2_dynid.usecases.plan import PlanRequest, plan
from ros2_dynid.usecases.robot_source import RobotSource
from urdf_oracle import exact_urdf, example_urdfs, inertial_only

URDFS = {path.name: path for path in example_urdfs()}
LEGGED = ("go2.urdf", "g1_29dof_rev_1_0.urdf", "talos_reduced.urdf")
FEET = {"go2.urdf": "FL_foot", "g1_29dof_rev_1_0.urdf": "left_ankle_roll_link", "talos_reduced.urdf": "left_sole_link"}
GO2_MJCF = DATA / "go2" / "robot.xml"
N = 6


def _leg(name, x, y):
    return f"""<body name="{name}_thigh" pos="{x} {y} 0">
      <joint name="{name}_hip" axis="0 1 0" damping="0.3" armature="0.02"/>
      <inertial pos="0.01 0 -0.1" mass="0.6" diaginertia=".004 .004 .001"/>
      <body name="{name}_calf" pos="0 0 -0.2"><joint name="{name}_knee" axis="0 1 0" damping="0.3" armature="0.02"/>
        <inertial pos="0 0 -0.1" mass="0.3" diaginertia=".002 .002 .0005"/>
        <geom type="sphere" size="0.02" pos="0 0 -0.2"/><site name="{name}" pos="0 0 -0.2"/></body></body>"""


LEGS = {"fl": (0.2, 0.1), "fr": (0.2, -0.1), "rl": (-0.2, 0.1), "rr": (-0.2, -0.1)}
STANDING = f"""<mujoco><option timestep="0.001" integrator="implicitfast"/><worldbody><geom type="plane" size="5 5 1"/>
  <body name="trunk" pos="0 0 0.37"><freejoint/><inertial pos="0.02 0.01 0" mass="5" diaginertia=".1 .2 .25"/>
  {"".join(_leg(name, *at) for name, at in LEGS.items())}</body></worldbody>
  <actuator>{"".join(f'<motor joint="{name}_{joint}"/>' for name in LEGS for joint in ("hip", "knee"))}
  </actuator></mujoco>"""


class FreeFlyer:
    """The same URDF in Pinocchio with a free-flyer, and random motion of the base in its own frame."""

    def __init__(self, name):
        text = exact_urdf(URDFS[name].read_bytes())
        self.robot = robot_from_urdf_string(text, floating_base=True)
        self.model = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
        self.data = self.model.createData()
        rng = np.random.default_rng(3)
        n = len(self.robot.active)
        assert self.model.nv == n
        self.places = [self.model.joints[self.model.getJointId(j)].idx_v for j in self.robot.active_names[6:]]
        self.at, self.turn = rng.normal(size=(N, 3)), Rotation.random(N, rng=rng)
        tilted = np.abs(self.turn.as_euler("ZYX")[:, 1]) > 1.4
        self.turn = Rotation.from_euler("ZYX", np.where(tilted[:, None], 0.3, self.turn.as_euler("ZYX")))
        self.velocity, self.acceleration = rng.normal(size=(2, N, 6))
        self.joints = rng.uniform(-2, 2, size=(3, N, n - 6))
        base = base_positions(self.at, self.turn.as_quat())
        dbase, ddbase = base_motion(base, self.velocity, self.acceleration)
        self.motion = tuple(np.hstack(pair) for pair in zip((base, dbase, ddbase), self.joints, strict=True))

    def samples(self):
        """Yield q, v, a as Pinocchio has them: the linear acceleration is that of the spatial vector."""
        for k in range(N):
            q = pin.neutral(self.model)
            q[:7] = *self.at[k], *self.turn[k].as_quat()
            for name, value in zip(self.robot.active_names[6:], self.joints[0, k], strict=True):
                q[self.model.joints[self.model.getJointId(name)].idx_q] = value
            v, a = np.zeros((2, self.model.nv))
            v[:6], a[:6] = self.velocity[k], self.acceleration[k]
            a[:3] -= np.cross(v[3:6], v[:3])
            v[self.places], a[self.places] = self.joints[1:, k]
            yield q, v, a

    def rows(self, tau):
        """Return Pinocchio's rows in our order."""
        return np.concatenate((tau[:6], tau[self.places]))


@pytest.fixture(scope="module", params=LEGGED)
def flyer(request):
    return request.param, FreeFlyer(request.param)


def by_base(robot, q, tau):
    """Return our rows with those of the base as force and moment in its frame."""
    return np.concatenate((base_wrench(q[:, :6], tau[:, :6]), tau[:, 6:]), axis=1)


def test_torque_and_regressor_agree_with_the_free_flyer(flyer):
    _, fly = flyer
    robot, chi = fly.robot, standard_vector(fly.robot, inertial_only(fly.robot))
    expected = np.array([fly.rows(pin.rnea(fly.model, fly.data, *one)) for one in fly.samples()])
    tau = by_base(robot, fly.motion[0], inverse_dynamics(robot, chi, *fly.motion))
    assert np.abs(tau - expected).max() <= 1e-9 * np.abs(expected).max()
    Y = regressor(robot, *fly.motion)
    product = by_base(robot, fly.motion[0], Y @ chi)
    assert np.abs(product - expected).max() <= 1e-9 * np.abs(expected).max()
    # the base link alone: a body given in its frame, in Pinocchio's order of parameters
    numbers = np.random.default_rng(6).normal(size=10)
    M, MX, MY, MZ, XX, XY, YY, XZ, YZ, ZZ = numbers
    body = Inertia(M, np.array([MX, MY, MZ]), np.array([[XX, XY, XZ], [XY, YY, YZ], [XZ, YZ, ZZ]]))
    pose = next(pose for number, pose in robot.tools.values() if number == 6)
    alone = standard_vector(robot, {f"{kind}6": x for kind, x in body.moved(pose).standard().items()})
    ours = by_base(robot, fly.motion[0], Y @ alone)
    for k, one in enumerate(fly.samples()):
        theirs = pin.computeJointTorqueRegressor(fly.model, fly.data, *one)[:, :10] @ numbers
        assert np.abs(ours[k] - fly.rows(theirs)).max() <= 1e-9 * np.abs(theirs).max()


def test_a_contact_is_worth_what_pinocchio_says(flyer):
    name, fly = flyer
    robot, foot = fly.robot, FEET[name]
    wrench = np.random.default_rng(5).normal(size=(N, 6)) * 30
    chi = standard_vector(robot, inertial_only(robot))
    tau = inverse_dynamics(robot, chi, *fly.motion) - contact_efforts(robot, fly.motion[0], foot, wrench)
    frame = fly.model.frames[fly.model.getFrameId(foot)]
    outside = [pin.Force.Zero() for _ in range(fly.model.njoints)]
    for k, one in enumerate(fly.samples()):
        outside[frame.parentJoint] = frame.placement.act(pin.Force(wrench[k]))
        expected = fly.rows(pin.rnea(fly.model, fly.data, *one, outside))
        assert np.abs(by_base(robot, fly.motion[0], tau)[k] - expected).max() <= 1e-9 * np.abs(expected).max()


def test_as_many_base_parameters_as_pinocchios_regressor_has_rank(flyer):
    """And the six rows of the base alone have the same rank: nothing is lost without torque sensors."""
    _, fly = flyer
    robot = fly.robot
    rng = np.random.default_rng(0)
    W = []
    for _ in range(60):
        q = pin.randomConfiguration(fly.model, -np.ones(fly.model.nq), np.ones(fly.model.nq))
        W.append(pin.computeJointTorqueRegressor(fly.model, fly.data, q, *rng.normal(size=(2, fly.model.nv))).copy())

    def rank(rows):
        size = np.linalg.norm(rows, axis=0)
        s = np.linalg.svd(rows[:, size > 0] / size[size > 0], compute_uv=False)
        return int(np.sum(s > 1e-9 * s[0]))

    expected = rank(np.concatenate(W))
    for method in ("closed-form", "qr"):
        base = base_parameters(robot, method=method, groups=("inertial",))
        assert len(base) == expected
        assert base.leaders[:10] == tuple(f"{kind}6" for kind in LINK)
    motion = rng.uniform(-1, 1, size=(3, 80, robot.n))
    assert rank(regressor(robot, *motion)[:, :6].reshape(-1, 14 * robot.n)[:, base.columns(robot)]) == expected


def test_mujoco_moves_a_free_joint_by_the_same_forces():
    robot = load_robot(GO2_MJCF, floating_base=True)
    model = mujoco.MjModel.from_xml_path(str(GO2_MJCF))
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_FRICTIONLOSS | off.mjDSBL_LIMIT
    data = mujoco.MjData(model)
    rng = np.random.default_rng(1)
    chi = standard_vector(robot, {name: v for name, v in robot.parameters.items() if not name.startswith("Fc")})
    names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(1, model.njnt)]
    assert tuple(names) == robot.active_names[6:]
    turn = Rotation.from_euler("ZYX", rng.uniform(-1, 1, 3))
    at, angles = rng.normal(size=3), rng.uniform(-0.5, 0.5, 12)
    velocity, acceleration = rng.normal(size=(2, 6))
    speeds, rates = rng.normal(size=(2, 12))
    data.qpos[:] = *at, *np.roll(turn.as_quat(), 1), *angles
    data.qvel[:] = *turn.apply(velocity[:3]), *velocity[3:], *speeds
    data.qacc[:] = *turn.apply(acceleration[:3]), *acceleration[3:], *rates
    mujoco.mj_inverse(model, data)
    q = base_positions(at[None], turn.as_quat()[None])
    motion = [np.hstack((base, joint[None])) for base, joint in zip(
        (q, *base_motion(q, velocity[None], acceleration[None])), (angles, speeds, rates), strict=True
    )]  # fmt: skip
    tau = inverse_dynamics(robot, chi, *motion)[0]
    expected = data.qfrc_inverse.copy()
    ours = by_base(robot, motion[0], tau[None])[0]
    ours[:3] = turn.apply(ours[:3])  # MuJoCo gives the force in the world
    assert np.abs(ours - expected).max() <= 1e-9 * np.abs(expected).max()


def test_angles_go_on_over_a_turn_and_a_robot_on_its_nose_is_refused():
    yaw = np.linspace(0.0, 12.0, 200)
    turn = Rotation.from_euler("ZYX", np.column_stack((yaw, 0.2 * np.sin(yaw), 0.1 * np.cos(yaw))))
    signs = np.where(np.arange(200) % 3, 1.0, -1.0)[:, None]
    q = base_positions(np.zeros((200, 3)), turn.as_quat() * signs)
    np.testing.assert_allclose(q[:, 3], yaw, atol=1e-12)
    with pytest.raises(InputError, match="pitches"):
        base_positions(np.zeros((1, 3)), Rotation.from_euler("y", 1.55).as_quat()[None])
    with pytest.raises(InputError, match="shapes"):
        base_positions(np.zeros((2, 3)), np.zeros((2, 3)))


def test_the_exported_mjcf_moves_as_the_robot_does(tmp_path):
    """Six joints without motors, whose inverse dynamics in MuJoCo are ours."""
    robot = load_robot(GO2_MJCF, floating_base=True)
    chi = standard_vector(robot, {name: v for name, v in robot.parameters.items() if not name.startswith("Fc")})
    files = mjcf_files(robot, chi).files
    model = mujoco.MjModel.from_xml_string(next(iter(files.values())).decode())
    assert (model.nv, model.nu) == (18, 12)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT
    data = mujoco.MjData(model)
    motion = np.random.default_rng(2).uniform(-1, 1, size=(3, 1, 18))
    data.qpos[:], data.qvel[:], data.qacc[:] = motion[:, 0]
    mujoco.mj_inverse(model, data)
    tau = inverse_dynamics(robot, chi, *motion)[0]
    assert np.abs(tau - data.qfrc_inverse).max() <= 1e-9 * np.abs(tau).max()


def test_no_motion_is_planned_for_a_floating_base(tmp_path):
    source = RobotSource(str(URDFS["go2.urdf"]), floating_base=True)
    with pytest.raises(InputError, match="nothing drives a floating base"):
        plan(PlanRequest(source, str(tmp_path / "plan.yaml")))


def test_contacts_of_a_standing_robot_in_mujoco(tmp_path):
    """Drives and the forces that MuJoCo's contacts exert make the torque of the model, step by step."""
    file = tmp_path / "standing.xml"
    file.write_text(STANDING)
    robot, model = load_robot(file, floating_base=True), mujoco.MjModel.from_xml_path(str(file))
    data, chi = mujoco.MjData(model), standard_vector(robot)
    data.qpos[7:] = np.tile((0.4, -0.8), 4)
    rng = np.random.default_rng(3)
    motion, felt, touches = [], [], []
    for step in range(400):
        posture = np.tile((0.4, -0.8), 4) + 0.1 * np.sin(0.02 * step + np.arange(8))
        data.ctrl[:] = 60 * (posture - data.qpos[7:]) - 1.0 * data.qvel[6:] + 0.2 * rng.normal(size=8)
        mujoco.mj_step1(model, data)
        mujoco.mj_step2(model, data)
        if step < 200 or step % 20:
            continue
        mujoco.mj_forward(model, data)
        q, v, a = data.qpos, data.qvel, data.qacc
        turn = Rotation.from_quat(np.roll(q[3:7], -1))
        base = base_positions(q[None, :3], turn.as_quat()[None])
        twist, change = (np.r_[turn.inv().apply(x[:3]), x[3:6]] for x in (v, a))
        rates = base_motion(base, twist[None], change[None])
        motion.append([np.r_[one[0], rest] for one, rest in zip((base, *rates), (q[7:], v[6:], a[6:]), strict=True)])
        tau = np.r_[np.zeros(6), data.ctrl]
        touches.append(data.ncon)
        for k in range(data.ncon):
            contact, own = data.contact[k], np.zeros(6)
            mujoco.mj_contactForce(model, data, k, own)
            link = list(LEGS)[[site_of(model, name) for name in LEGS].index(model.geom_bodyid[contact.geom[1]])]
            site = data.site(link)
            force = contact.frame.reshape(3, 3).T @ own[:3]
            moment = np.cross(contact.pos - site.xpos, force)
            R = site.xmat.reshape(3, 3)
            wrench = np.r_[R.T @ force, R.T @ moment]
            tau += contact_efforts(robot, motion[-1][0][None], link, wrench[None])[0]
        felt.append(tau)
    assert min(touches) >= 2 and max(touches) == 4
    q, dq, ddq = np.array(motion).transpose(1, 0, 2)
    expected = inverse_dynamics(robot, chi, q, dq, ddq)
    assert np.abs(np.array(felt) - expected).max() <= 1e-9 * np.abs(expected).max()


def site_of(model, name):
    """Return the number of the body that has this site."""
    return model.site(name).bodyid[0]
