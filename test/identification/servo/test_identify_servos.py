# SPDX-License-Identifier: Apache-2.0

"""Position servos: drives that MuJoCo simulates are identified from commands and positions alone."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import load_model, save_model
from ros2_dynid.identification.servo.drive import Drives, Term
from ros2_dynid.identification.servo.estimate import ServoOptions
from ros2_dynid.identification.servo.fit import build_batch
from ros2_dynid.identification.servo.recording import servo_recording
from ros2_dynid.identification.servo.rigid_terms import a_priori_links
from ros2_dynid.identification.servo.simulation import simulate_samples
from ros2_dynid.model.friction_kinds import FrictionKind
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Joint, Limits, Robot, Servo
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.mjcf import mjcf
from ros2_dynid.usecases.rollout import roll_out_model

ROBOT = Robot(
    "pendulum",
    (Joint("shoulder", 0, alpha=-np.pi / 2), Joint("elbow", 1, d=0.25)),
    parameters={"MX1": 0.12, "ZZ1": 0.03, "M1": 1.0, "MX2": 0.05, "ZZ2": 0.008, "M2": 0.5, "YY1": 0.03, "XX1": 1e-3}
    | {"YY2": 0.008, "XX2": 1e-3},
)
KP, KD, ARMATURE = np.array([18.0, 9.0]), np.array([1.1, 0.5]), np.array([0.03, 0.012])
COULOMB, BIAS, DELAY = np.array([0.25, 0.1]), np.array([0.01, -0.008]), 0.023
COUNTS = 4096
STEP = 2e-4


def record(seconds: float, seed: int) -> Samples:
    """Return what encoders of COUNTS a turn record at 100 Hz while MuJoCo moves servos along held commands."""
    rng = np.random.default_rng(seed)
    period, every = 0.01, 50
    t = period * np.arange(round(seconds / period))
    frequency, phase = rng.uniform(0.1, 2.0, (6, 2)), rng.uniform(0.0, 6.3, (6, 2))
    u = 0.14 * np.sin(2 * np.pi * frequency[None] * t[:, None, None] + phase).sum(axis=1)
    chi = standard_vector(ROBOT, ROBOT.parameters)
    model = mujoco.MjModel.from_xml_string(mjcf(ROBOT, chi, STEP))
    model.dof_armature[:] = ARMATURE
    model.dof_frictionloss[:] = COULOMB
    model.dof_damping[:] = KD
    model.dof_solref[:, 0], model.dof_solimp[:, :2] = 2 * STEP, 0.9999  # joints that stick do not creep
    model.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data = mujoco.MjData(model)
    data.qpos[:] = u[0]
    q, late = np.empty_like(u), round(DELAY / STEP)
    for k in range(len(t) * every):
        if k % every == 0:
            q[k // every] = data.qpos
        data.qfrc_applied[:] = KP * (u[max(k - late, 0) // every] - data.qpos)
        mujoco.mj_step(model, data)
    resolution = 2 * np.pi / COUNTS
    y = np.round((q + BIAS) / resolution) * resolution
    return Samples(t, ROBOT.active_names, y, q_r=u, source=f"seed {seed}")


@pytest.fixture(scope="module")
def samples() -> Samples:
    """Return a recording."""
    return record(30.0, 1)


def test_drives_of_mujoco_are_identified(samples: Samples, tmp_path) -> None:
    """MuJoCo's values come out, a file keeps them, and an unseen motion is rolled out within an encoder's count."""
    unseen = record(10.0, 2)
    found = identify(ROBOT, [samples], validate=[unseen], output=tmp_path)
    rows = found.outcome.servos
    for j, row in enumerate(rows):
        assert row.scale_told
        assert row.kp.value == pytest.approx(KP[j], rel=0.03)
        assert row.damping.value == pytest.approx(KD[j], rel=0.03)
        assert row.coulomb.value == pytest.approx(COULOMB[j], rel=0.05)
        assert row.armature.value == pytest.approx(ARMATURE[j], abs=0.003)
        assert row.bias.value == pytest.approx(BIAS[j], abs=1e-3)
        assert row.delay.value == pytest.approx(DELAY, abs=1e-3)
        assert not row.terms
    assert found.outcome.rollout["whole"]["all"] < 2 * np.pi / COUNTS
    model = load_model(tmp_path)
    assert model.servo is not None
    for row, stored in zip(rows, model.servo.rows(), strict=True):
        assert stored.kp.value == row.kp.value
        assert stored.armature.std == pytest.approx(row.armature.std)
    y = roll_out_model(model, unseen).y
    assert np.sqrt(np.mean((y - unseen.q) ** 2)) < 2 * np.pi / COUNTS
    save_model(replace(model, servo=None), tmp_path / "older.yaml")
    assert load_model(tmp_path / "older.yaml").servo is None


def test_derivatives_are_those_of_differences(samples: Samples) -> None:
    """The simulation's derivatives by the ratios agree with central differences wherever no joint changes its state."""
    recording = servo_recording(samples, 0.1)
    batch = build_batch(ROBOT, a_priori_links(ROBOT), [recording], ServoOptions().stretches)
    terms = (Term(FrictionKind["stribeck"], 0.3),)
    x = np.array([0.06, 2e-3, 0.06, 0.01, 0.005, 0.0213, 0.3, 0.004])[:, None, None] * np.ones((1, 2))

    def simulated(x: np.ndarray):
        return simulate_samples(Drives(x, terms), batch.commands, batch.rigid, batch.stretches, batch.top_speed)

    slopes = simulated(x).slopes
    for k in (0, 1, 2, 3, 4, 5, 7):
        step = np.zeros_like(x)
        step[k] = 1e-4 * x[k]
        difference = (simulated(x + step).y - simulated(x - step).y) / (2 * step[k, 0, 0])
        known = np.isfinite(difference)
        error = np.abs(difference - slopes[..., k])[known]
        assert np.median(error) < 1e-3 * np.abs(difference[known]).mean()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda s: replace(s, q_r=s.q.copy()), "is its position"),
        (lambda s: replace(s, q_r=np.vstack((s.q[:1], s.q[:-1]))), "is its position"),
        (lambda s: replace(s, q_r=np.degrees(s.q_r)), "in the same unit"),
        (lambda s: replace(s, q_r=np.zeros_like(s.q)), "commands are constant"),
        (lambda s: replace(s, q_r=s.q_r[:, ::-1]), "follow the references of"),
        (lambda s: s.take(slice(0, 40)), "too short"),
    ],
)
def test_useless_recordings_are_refused(samples: Samples, change, what: str) -> None:
    """A recording that tells nothing of the drives gets one line that says why."""
    with pytest.raises(InputError, match=what):
        identify(ROBOT, [change(samples)])


def test_positions_turns_beyond_the_limits_are_in_another_unit(samples: Samples) -> None:
    """LeRobot's data sets hold degrees, or percents of the range."""
    limited = replace(ROBOT, joints=tuple(replace(joint, limits=Limits(-1.5, 1.5)) for joint in ROBOT.joints))
    assert np.abs(samples.q).max() < 1.5
    other = replace(samples, q=np.degrees(samples.q), q_r=np.degrees(samples.q_r))
    with pytest.raises(InputError, match=r"its limit is 1\.5 rad; if they are degrees, give angle_unit: deg"):
        identify(limited, [other])


def test_a_stiffness_that_is_not_told_is_that_of_the_description(samples: Samples) -> None:
    """Of links without mass nothing tells kp, but the description may; the ratios to it are those of the recording."""
    joints = tuple(replace(joint, servo=Servo(kp, 0.0)) for joint, kp in zip(ROBOT.joints, KP, strict=True))
    outcome = identify(Robot("massless", joints, parameters={}), [samples.take(slice(0, 600))]).outcome
    for j, row in enumerate(outcome.servos):
        assert not row.scale_told and row.kp.value == pytest.approx(KP[j], rel=1e-3)
    assert any("give kp in the robot file" in remark.text for remark in outcome.verdict)


def test_gaps_are_borne(samples: Samples) -> None:
    """Missing positions and a pause cost no accuracy."""
    part = samples.take(slice(0, 1500))
    q, t = part.q.copy(), part.t.copy()
    q[300:330, 0] = np.nan
    t[900:] += 3.0
    for j, row in enumerate(identify(ROBOT, [replace(part, t=t, q=q)]).outcome.servos):
        assert row.delay.value == pytest.approx(DELAY, abs=1e-3)
        assert row.kp.value == pytest.approx(KP[j], rel=0.03)


def test_a_joint_that_is_not_commanded_is_named(samples: Samples) -> None:
    """The verdict says of which servo the recording tells nothing."""
    part = samples.take(slice(0, 600))
    u, q = part.q_r.copy(), part.q.copy()
    u[:, 1], q[:, 1] = 0.3, 0.3 + BIAS[1]
    verdict = identify(ROBOT, [replace(part, q=q, q_r=u)]).outcome.verdict
    assert any("elbow is constant" in remark.text for remark in verdict)
