# SPDX-License-Identifier: Apache-2.0

"""dynid tool: MuJoCo's force and torque sensors as the oracle, with bias, drift, noise and rounded positions."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bagmaker import ROS2, joint_state, write_bag
from ros2_dynid.cli import main
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.tool_fit import _information, identify_tool, sensor_regressor
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.wrench import Wrenches, read_wrenches
from ros2_dynid.sim.mjcf import body_tree, mjcf_numbers

mujoco = pytest.importorskip("mujoco")
MASS, COM = 1.2, np.array((0.012, -0.02, 0.085))
INERTIA = np.array(((0.0041, 0.0002, -0.0001), (0.0002, 0.0037, 0.0003), (-0.0001, 0.0003, 0.0016)))
SECONDS, RATE = 30.0, 500.0
LINK = "flange"


@cache
def clean():
    """Return the robot, t, q and the wrenches of MuJoCo's sensors at the flange along a smooth motion."""
    from xml.etree import ElementTree as ET

    robot = load_robot("demo6")
    n = robot.n
    tree = body_tree(robot, standard_vector(robot), [f"link{j}" for j in range(n)], robot.active_names)
    carrier, pose = robot.tools[LINK]
    body = ET.SubElement(
        tree.bodies[carrier],
        "body",
        name="tool",
        pos=mjcf_numbers(pose[:3, 3]),
        xyaxes=mjcf_numbers([*pose[:3, 0], *pose[:3, 1]]),
    )
    I = INERTIA
    full = mjcf_numbers((I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]))
    ET.SubElement(body, "inertial", pos=mjcf_numbers(COM), mass=str(MASS), fullinertia=full)
    ET.SubElement(body, "site", name="sensor")
    sensors = ET.SubElement(tree.root, "sensor")
    ET.SubElement(sensors, "force", site="sensor")
    ET.SubElement(sensors, "torque", site="sensor")
    model = mujoco.MjModel.from_xml_string(tree.text)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    t = np.arange(0.0, SECONDS, 1.0 / RATE)
    w, phase, a = rng.uniform(0.8, 5.0, (3, n)), rng.uniform(0.0, 6.0, (3, n)), rng.uniform(0.1, 0.3, (3, n))
    angle = t[:, None, None] * w + phase
    q, dq, ddq = (a * np.sin(angle)).sum(1), (a * w * np.cos(angle)).sum(1), -(a * w**2 * np.sin(angle)).sum(1)
    wrench = np.empty((len(t), 6))
    for k in range(len(t)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[k], dq[k], ddq[k]
        mujoco.mj_inverse(model, data)
        wrench[k] = data.sensordata
    return robot, t, (q, dq, ddq), wrench


def sensed(seed, sign=1.0):
    """Return samples and wrenches with bias, drift, noise and quantised positions, and the mean bias."""
    robot, t, (q, _, _), wrench = clean()
    rng = np.random.default_rng(seed)
    scale = np.array((1.0, 1.0, 1.0, 0.05, 0.05, 0.05))
    bias = scale * rng.uniform(-20.0, 20.0, 6)
    drift = scale * rng.uniform(-1.0, 1.0, 6)  # over the recording
    slow = scale * 0.05 * np.cumsum(rng.standard_normal((len(t), 6)), axis=0) / np.sqrt(len(t))
    shift = bias + (t / SECONDS)[:, None] * drift + slow
    measured = sign * wrench + shift + scale * 0.3 * rng.standard_normal(wrench.shape)
    quantum = 2 * np.pi / 2**17
    return Samples(t, robot.active_names, np.round(q / quantum) * quantum), Wrenches(t, measured), shift.mean(axis=0)


def found_of(seed, **options):
    robot, *_ = clean()
    samples, wrenches, bias = sensed(seed)
    prepared = prepare(robot, Samples(samples.t, samples.joint_names, samples.q, tau=samples.q))
    return identify_tool(robot, prepared, wrenches, LINK, **options), bias


def test_the_regressor_is_that_of_mujocos_sensors():
    robot, _, motion, wrench = clean()
    rows = slice(0, None, 100)
    J = INERTIA + MASS * (COM @ COM * np.eye(3) - np.outer(COM, COM))
    phi = np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(MASS * COM), MASS))
    Y = sensor_regressor(robot, LINK, *(x[rows] for x in motion))
    error = np.abs(Y @ phi - wrench[rows])
    assert error.max() < 1e-9 * np.abs(wrench).max()


def test_the_tool_is_found_with_honest_bars():
    errors = []
    for seed in range(6):
        found, bias = found_of(seed)
        load = found.load
        assert abs(load.mass - MASS) < 0.01 * MASS and np.abs(load.com - COM).max() < 1e-3
        assert found.sign == 1 and load.significant and abs(found.delay) < 1e-3
        errors.append((load.mass - MASS) / load.mass_std)
        errors += list((load.com - COM) / load.com_std)
        errors += list((found.bias - bias) / found.bias_std)
    assert 0.5 < np.sqrt(np.mean(np.square(errors))) < 1.6  # of 60 figures
    assert np.mean(np.abs(errors) < 2.0) > 0.85


def test_the_other_sign_is_noticed_and_free_needs_no_body():
    robot, *_ = clean()
    samples, wrenches, _ = sensed(1, sign=-1.0)
    prepared = prepare(robot, Samples(samples.t, samples.joint_names, samples.q, tau=samples.q))
    found = identify_tool(robot, prepared, wrenches, LINK, free=True)
    assert found.sign == -1 and abs(found.load.mass - MASS) < 0.01 * MASS


def test_a_sensor_that_pauses_still_tells_the_tool():
    robot, *_ = clean()
    samples, wrenches, bias = sensed(1)
    prepared = prepare(robot, Samples(samples.t, samples.joint_names, samples.q, tau=samples.q))
    whole = identify_tool(robot, prepared, wrenches, LINK)
    there = (wrenches.t < 12.0) | (wrenches.t > 12.4)
    spoiled = wrenches.w.copy()
    spoiled[~there] = 1e6
    found = identify_tool(robot, prepared, Wrenches(wrenches.t[there], spoiled[there]), LINK)
    assert abs(found.load.mass - MASS) < 0.01 * MASS and np.abs(found.bias - bias).max() < 1.0
    assert 0.85 * whole.rows < found.rows < whole.rows
    np.testing.assert_allclose(found.load.com, whole.load.com, atol=2e-4)
    early = Wrenches(wrenches.t[:40], wrenches.w[:40])
    with pytest.raises(InputError, match=r"too few|no stretch in common"):
        identify_tool(robot, prepared, early, LINK)


def test_the_bias_is_linear_over_a_minute_and_the_sensor_must_be_on_a_link_that_moves():
    robot, _, motion, _ = clean()
    few = [x[:5] for x in motion]
    fixed = [name for name, (joint, _) in robot.tools.items() if not joint]
    for link in ("nose", *fixed):
        with pytest.raises(InputError, match=f"no moving link '{link}' carries the sensor"):
            sensor_regressor(robot, link, *few)
    samples, wrenches, _ = sensed(1)
    prepared = prepare(robot, Samples(samples.t, samples.joint_names, samples.q, tau=samples.q))
    for slower, pieces in ((1.0, 1), (3.0, 2), (5.0, 3)):  # the same in 30, 90 and 150 s
        shown = replace(prepared, t=slower * prepared.t)
        information, knots = _information(robot, shown, Wrenches(slower * wrenches.t, wrenches.w), LINK)
        assert len(knots) == pieces + 1 and information.layout.n_base == 6 * (pieces + 1)
        assert np.allclose(np.diff(knots), (knots[-1] - knots[0]) / pieces)


def wrench_message(stamp, values):
    types = ROS2.types
    Vector, Wrench = types["geometry_msgs/msg/Vector3"], types["geometry_msgs/msg/Wrench"]
    Header, Time = types["std_msgs/msg/Header"], types["builtin_interfaces/msg/Time"]
    header = Header(stamp=Time(sec=int(stamp // 10**9), nanosec=int(stamp % 10**9)), frame_id="ft_sensor")
    return types["geometry_msgs/msg/WrenchStamped"](
        header=header, wrench=Wrench(force=Vector(*values[:3]), torque=Vector(*values[3:]))
    )


def test_bag_csv_and_npz_give_the_same(tmp_path, capsys):
    robot, *_ = clean()
    samples, wrenches, bias = sensed(2)
    part = slice(0, 6000, 2)  # 12 s at 250 Hz
    t, q, w = samples.t[part], samples.q[part], wrenches.w[part]
    messages = []
    for k in range(len(t)):
        stamp = 1_000_000_000_000 + round(t[k] * 1e9)
        messages.append(("/joint_states", stamp, joint_state(stamp, robot.active_names, q[k].tolist())))
        messages.append(("/ft/wrench", stamp, wrench_message(stamp, w[k].tolist())))
    write_bag(tmp_path / "bag", messages)
    np.savez(tmp_path / "run.npz", t=t, q=q, wrench=w)
    axes = [f"ft.{kind}.{axis}" for kind in ("force", "torque") for axis in "xyz"]
    header = ",".join(["time", *(f"{name}.position" for name in robot.active_names), *axes])
    np.savetxt(tmp_path / "run.csv", np.column_stack((t, q, w)), delimiter=",", header=header, comments="", fmt="%.17g")
    outcomes = []
    for file, topic in (("bag", "/ft/wrench"), ("run.npz", "wrench"), ("run.csv", "ft")):
        assert main(["tool", "demo6", str(tmp_path / file), "--wrench", topic, "--json"]) == 0
        outcomes.append(json.loads(capsys.readouterr().out))
    for outcome in outcomes:
        assert outcome["mass"] == pytest.approx(MASS, rel=0.01) and outcome["frame"] == LINK
        assert len(outcome["bias"]) == 6 and outcome["mass"] == pytest.approx(outcomes[0]["mass"], rel=1e-6)
        assert np.abs(np.array(outcome["bias"]) - bias).max() < 1.0
    assert any("ft_sensor" in note for note in outcomes[0]["notes"])
    assert main(["tool", "demo6", str(tmp_path / "bag"), "--wrench", "/ft/none"]) == 2
    assert "no topic '/ft/none'" in capsys.readouterr().err
    assert main(["tool", "demo6", str(tmp_path / "bag"), "--wrench", "/joint_states"]) == 2
    assert "JointState" in capsys.readouterr().err
    assert main(["tool", "demo6", str(tmp_path / "run.csv"), "--wrench", "none"]) == 2
    assert "wrench columns" in capsys.readouterr().err
    assert main(["tool", "demo6", str(tmp_path / "bag"), "--wrench", "/ft/wrench", "--sensor-link", "x"]) == 2
    assert "no link 'x'" in capsys.readouterr().err


def test_a_sensor_that_does_not_turn_is_refused():
    robot, t, *_ = clean()
    q = np.tile(np.linspace(0.0, 0.002, len(t))[:, None], (1, robot.n))  # it hardly moves
    prepared = prepare(robot, Samples(t, robot.active_names, q, tau=q))
    with pytest.raises(InputError, match="hardly turns"):
        identify_tool(robot, prepared, Wrenches(t, np.zeros((len(t), 6))), LINK)


def test_wrenches_that_are_damaged_are_left_out(tmp_path):
    t = np.arange(0.0, 1.0, 0.01)
    w = np.ones((100, 6))
    w[3, 2] = np.nan
    np.savez(tmp_path / "x.npz", t=t, q=np.zeros((100, 1)), wrench=w)
    assert len(read_wrenches(tmp_path / "x.npz", "wrench", 0).t) == 99
    np.savez(tmp_path / "y.npz", t=t, wrench=w[:, :5])
    with pytest.raises(InputError, match="shape"):
        read_wrenches(tmp_path / "y.npz", "wrench", 0)
