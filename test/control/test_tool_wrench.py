# SPDX-License-Identifier: Apache-2.0

"""What a wrist sensor feels beyond its tool: against MuJoCo's sensors and pushes, in any frame, with its error bars."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.held_load import Load
from ros2_dynid.control.tool_wrench import (
    ZERO_SAMPLES,
    SensorTool,
    effort_of_wrench,
    feel_wrench,
    moved_wrench,
    read_tool,
    with_load,
    zeroed,
)
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from sensor_model import sensor_model

mujoco = pytest.importorskip("mujoco")

ROBOT, LINK = load_robot("demo6"), "flange"
MASS, COM = 1.2, np.array((0.012, -0.02, 0.085))
INERTIA = np.array(((0.0041, 0.0002, -0.0001), (0.0002, 0.0037, 0.0003), (-0.0001, 0.0003, 0.0016)))
BIAS = np.array((3.0, -7.0, 12.0, 0.2, 0.1, -0.3))
TOOL = SensorTool(LINK, MASS, COM, INERTIA, BIAS)
MODEL = sensor_model(ROBOT, LINK, MASS, COM, INERTIA)


def pushed(seed):
    """Return a motion (3, n), the wrench shown, the push on the tool in the sensor's frame, and on the joints."""
    rng, data = np.random.default_rng(seed), mujoco.MjData(MODEL)
    q, dq, ddq = rng.uniform(-1.5, 1.5, (3, ROBOT.n))
    data.qpos[:], data.qvel[:], data.qacc[:] = q, dq, ddq
    body = MODEL.body("tool").id
    data.xfrc_applied[body] = rng.uniform(-20, 20, 6)
    mujoco.mj_inverse(MODEL, data)
    R, arm = data.site("sensor").xmat.reshape(3, 3), data.xipos[body] - data.site("sensor").xpos
    force, torque = data.xfrc_applied[body][:3], data.xfrc_applied[body][3:]
    push = np.concatenate((R.T @ force, R.T @ (torque + np.cross(arm, force))))
    linear, angular = np.zeros((2, 3, ROBOT.n))
    mujoco.mj_jacBodyCom(MODEL, data, linear, angular, body)
    return (q, dq, ddq), data.sensordata.copy(), push, linear.T @ force + angular.T @ torque


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_left_is_the_push(sign):
    tool = replace(TOOL, sign=sign)
    for seed in range(10):
        motion, shown, push, _ = pushed(seed)
        felt = feel_wrench(ROBOT, tool, *motion, sign * shown + BIAS)
        np.testing.assert_allclose(felt.external, push, atol=1e-8)
        np.testing.assert_allclose(felt.wrench, -sign * push, atol=1e-8)
        assert not felt.std.any(), "nothing is said to be uncertain"


def test_another_frame_and_the_joints_feel_the_same_push():
    motion, _, push, joints = pushed(3)
    q = motion[0]
    T = frames(ROBOT, q[None])[0, ROBOT.tools[LINK][0] - 1] @ ROBOT.tools[LINK][1]
    base = moved_wrench(ROBOT, q, push, LINK, "")
    np.testing.assert_allclose(base[:3], T[:3, :3] @ push[:3])
    np.testing.assert_allclose(base[3:], T[:3, :3] @ push[3:] + np.cross(T[:3, 3], base[:3]))
    np.testing.assert_allclose(moved_wrench(ROBOT, q, push, LINK, LINK), push, atol=1e-12)
    np.testing.assert_allclose(effort_of_wrench(ROBOT, q, push, LINK), joints, atol=1e-8)
    with pytest.raises(InputError, match="no link 'hand'"):
        moved_wrench(ROBOT, q, push, LINK, "hand")


def test_error_bars_hold_what_wrong_parameters_make():
    bars = replace(
        TOOL, mass_std=0.01, com_std=np.full(3, 1e-3), inertia_std=np.full((3, 3), 1e-4), bias_std=np.full(6, 0.05),
        noise=np.full(6, 0.1),
    )  # fmt: skip
    rng, errors = np.random.default_rng(0), []
    for seed in range(200):
        motion, shown, push, _ = pushed(seed)
        spread = rng.standard_normal((3, 3)) * 1e-4
        wrong = replace(
            bars,
            mass=MASS + 0.01 * rng.standard_normal(),
            com=COM + 1e-3 * rng.standard_normal(3),
            inertia=INERTIA + np.triu(spread) + np.triu(spread, 1).T,
            bias=BIAS + 0.05 * rng.standard_normal(6),
        )
        felt = feel_wrench(ROBOT, wrong, *motion, shown + BIAS + 0.1 * rng.standard_normal(6))
        errors.append((felt.external - push) / felt.std)
    assert np.all((np.std(errors, axis=0) > 0.8) & (np.std(errors, axis=0) < 1.2))


def test_tools_are_changed_and_the_sensor_is_zeroed():
    carrier, pose = ROBOT.tools[LINK]
    load = Load(0.7, pose[:3, :3] @ [0.0, 0.0, 0.05] + pose[:3, 3], 1e-3 * np.eye(3), carrier)
    other = with_load(replace(TOOL, noise=np.ones(6)), load, ROBOT)
    np.testing.assert_allclose(other.com, [0.0, 0.0, 0.05], atol=1e-12)
    assert other.mass == 0.7 and other.noise.all() and (other.bias == BIAS).all()
    assert with_load(TOOL, Load(0.0, np.zeros(3), np.zeros((3, 3)), carrier), ROBOT).mass == 0.0
    with pytest.raises(InputError, match="give it at a link behind the sensor"):
        with_load(TOOL, replace(load, joint=carrier - 1), ROBOT)
    rng = np.random.default_rng(1)
    left = np.array((1.0, 2.0, 3.0, 0.1, 0.2, 0.3)) + 0.1 * rng.standard_normal((ZERO_SAMPLES, 6))
    np.testing.assert_allclose(zeroed(TOOL, left).bias, BIAS + left.mean(axis=0))
    squares = np.sum((left - left.mean(axis=0)) ** 2, axis=0)
    np.testing.assert_allclose(zeroed(TOOL, left).bias_std ** 2, squares / (ZERO_SAMPLES * (ZERO_SAMPLES - 1)))
    with pytest.raises(InputError, match="wait for"):
        zeroed(TOOL, left[:5])


def test_the_file_of_dynid_tool_is_read_and_another_one_refused(tmp_path):
    std = {"mass": 0.01, "com": [0.001] * 3, "inertia": [[1e-4] * 3] * 3}
    outcome = {
        "frame": LINK, "mass": MASS, "com": COM.tolist(), "inertia": INERTIA.tolist(), "bias": BIAS.tolist(),
        "sign": -1, "std": std, "sensor_std": {"bias": [0.1] * 6}, "residual": [0.2] * 6,
    }  # fmt: skip
    file = tmp_path / "tool.json"
    file.write_text(json.dumps(outcome))
    tool = read_tool(file)
    assert tool.sign == -1 and tool.link == LINK and tool.mass_std == 0.01 and (tool.noise == 0.2).all()
    np.testing.assert_allclose(tool.parameters, TOOL.parameters)
    for wrong in ("{", "[]", json.dumps({**outcome, "mass": None}), json.dumps({**outcome, "bias": [1.0]})):
        file.write_text(wrong)
        with pytest.raises(InputError) as error:
            read_tool(file)
        assert "\n" not in str(error.value) and str(file) in str(error.value)
