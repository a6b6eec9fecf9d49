# SPDX-License-Identifier: Apache-2.0

"""The tool beyond a force-torque sensor."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from bagmaker import ROS2, joint_state, write_bag
from ros2_dynid.cli import main
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.sensor_wrench import sensor_regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads import payload_fit
from ros2_dynid.identification.loads.tool_fit import identify_tool, weigh_knots
from ros2_dynid.identification.loads.tool_rows import build_tool_information, smooth_wrenches, spread_of_directions
from ros2_dynid.identification.options import PreparationOptions
from ros2_dynid.identification.preparation.filters import MAX_CUTOFF_SHARE, lowpass_kernel
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.inertia import pseudo_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import link_slice
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.wrench import Wrenches, read_wrenches
from ros2_dynid.sim.truth import true_parameters
from sensor_model import sensor_model

ROBOT = load_robot("demo3")


MASS, COM = 2.5, np.array((0.03, -0.05, 0.12))


def ten(mass=MASS, com=COM, own=0.01):
    J = own * np.eye(3) + mass * (com @ com * np.eye(3) - np.outer(com, com))
    return np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass))


def chi_with(load=None, link=ROBOT.n):
    chi = true_parameters(ROBOT, 2)
    if load is not None:
        chi[link_slice(link - 1)] += load
    return chi


LAW = tuple(FrictionTerm(joint, FrictionKind.LOAD, 0.05 + 0.03 * joint) for joint in ROBOT.active)


def moved(seed, load=None, *, law=False, noise=0.005, gains=1.0, link=ROBOT.n, moving=1.0):
    """Return 400 samples of an exact motion as they are."""
    rng = np.random.default_rng(seed)
    motion = moving * rng.uniform(-2.0, 2.0, (3, 400, ROBOT.n))
    robot = replace(ROBOT, friction=LAW) if law else ROBOT
    tau = inverse_dynamics(robot, chi_with(load, link), *motion)
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    return as_prepared(ROBOT, *motion, tau / gains)


def sensed(sign=1.0, seconds=0.0, noise=1e-4, length=16.0):
    """Return a robot with a sensor, its motion prepared, and wrenches that drift and come `seconds` late."""
    rng = np.random.default_rng(3)
    w = 2.0 * np.pi * np.array([0.12, 0.3, 0.55, 0.8])
    a, phase = rng.uniform(0.1, 0.4, (4, 3)), rng.uniform(0.0, 6.3, (4, 3))

    def at(time, order):
        angle = np.multiply.outer(time, w)[:, :, None] + phase + order * np.pi / 2
        return np.sum(a * w[:, None] ** order * np.sin(angle), axis=1)

    c, s = np.cos(0.7), np.sin(0.7)
    pose = np.array(((c, -s, 0.0, 0.03), (s, c, 0.0, -0.02), (0.0, 0.0, 1.0, 0.05), (0.0, 0.0, 0.0, 1.0)))
    robot = replace(ROBOT, tools={"sensor": (ROBOT.n, pose), "elbow": (2, pose)})
    t = 5.0 + np.arange(0.0, length, 0.01)
    samples = Samples(t, ROBOT.active_names, at(t, 0), tau=at(t, 0))
    prepared = prepare(robot, samples, PreparationOptions(position_cutoff=15.0, row_cutoff=4.0))
    t = 5.0 + np.arange(0.0, length, 0.005)
    Y = sensor_regressor(robot, "sensor", *(at(t - seconds, k) for k in range(3)))
    wrench = sign * Y @ ten() + BIAS + DRIFT * (t[:, None] - 5.0)
    return robot, prepared, Wrenches(t, wrench + noise * rng.normal(size=wrench.shape))


BIAS, DRIFT = np.array([3.0, -7.0, 11.0, 0.2, -0.5, 0.9]), np.array([0.02, 0.05, -0.03, 0.004, -0.002, 0.001])


@pytest.mark.parametrize(("sign", "seconds"), [(1, 0.0), (-1, 0.012), (1, -0.008)])
def test_a_tool_with_bias_drift_and_delay(sign, seconds):
    robot, prepared, wrenches = sensed(sign, seconds)
    found = identify_tool(robot, prepared, wrenches, "sensor", free=True)
    assert found.sign == sign and found.load.frame == "sensor" and found.load.joint == ROBOT.n
    np.testing.assert_allclose(found.load.parameters, ten(), atol=0.01)
    assert found.load.mass == pytest.approx(MASS, abs=0.01)
    np.testing.assert_allclose(found.load.com, COM, atol=2e-3)
    assert found.delay == pytest.approx(seconds, abs=1e-3)
    information, knots = build_tool_information(robot, prepared, wrenches, "sensor")
    assert len(knots) == 2
    np.testing.assert_allclose(found.bias, BIAS + DRIFT * (knots.mean() - 5.0), atol=0.05)
    np.testing.assert_allclose(found.drift, DRIFT, atol=5e-3)
    own = wls(information)
    assert found.rows == information.rows.sum() > 6 * 100
    np.testing.assert_array_equal(found.sigma, own.sigma)
    span = knots[1] - knots[0]
    for axis in range(6):
        C = own.covariance[2 * axis : 2 * axis + 2, 2 * axis : 2 * axis + 2]
        assert found.bias_std[axis] == pytest.approx(np.sqrt(C.sum()) / 2.0)
        assert found.drift_std[axis] == pytest.approx(np.sqrt(C[0, 0] + C[1, 1] - 2.0 * C[0, 1]) / span)


def test_a_tool_is_a_body_unless_anything_goes():
    robot, prepared, wrenches = sensed(noise=4.0)
    free, body = (identify_tool(robot, prepared, wrenches, "sensor", free=free) for free in (True, False))
    smallest = [np.linalg.eigvalsh(pseudo_inertia(found.load.parameters))[0] for found in (free, body)]
    assert smallest[0] < 0.0 < smallest[1]
    np.testing.assert_allclose(
        body.load.parameters, payload_fit.closest_body(free.load.parameters, free.load.covariance), atol=1e-9
    )
    np.testing.assert_array_equal(body.bias, free.bias)


def test_parameters_of_a_tool_that_did_not_show_are_named():
    robot, prepared, wrenches = sensed()
    still = replace(prepared, dq=0.0 * prepared.dq, ddq=0.0 * prepared.ddq)
    with pytest.raises(InputError, match="XX, XY, XZ, YY, YZ, ZZ of the tool not excited"):
        identify_tool(robot, still, wrenches, "sensor")
    with pytest.raises(InputError, match="no moving link 'nose' carries the sensor; choose from sensor, elbow"):
        identify_tool(robot, prepared, wrenches, "nose")


def test_rows_of_a_tool_are_those_where_both_are_known():
    """A pause of the sensor and a gap of the joint states: what is shorter than the filter between them is lost."""
    robot, prepared, wrenches = sensed()
    whole = build_tool_information(robot, prepared, wrenches, "sensor")[0].rows[0]
    kernel, step = len(prepared.kernel), prepared.step
    half = 0.5 * (len(lowpass_kernel(15.0, 200.0)) - 1) / 200.0
    pause = (wrenches.t < 10.0) | (wrenches.t > 10.5)
    found = build_tool_information(robot, prepared, Wrenches(wrenches.t[pause], wrenches.w[pause]), "sensor")[0]
    lost = (0.5 + 2.0 * half) * prepared.filter.inner_rate + kernel
    assert whole - found.rows[0] == pytest.approx(lost / step, abs=2.0)
    early = (wrenches.t < 6.0) | (wrenches.t > 10.5)  # what is before is shorter than the filter
    later = wrenches.t > 10.5
    counts = [
        build_tool_information(robot, prepared, Wrenches(wrenches.t[k], wrenches.w[k]), "sensor")[0].rows[0]
        for k in (early, later)
    ]
    assert abs(int(counts[0]) - int(counts[1])) <= 1
    short = wrenches.t < 6.0
    with pytest.raises(InputError, match="no stretch in common"):
        build_tool_information(robot, prepared, Wrenches(wrenches.t[short], wrenches.w[short]), "sensor")


def test_the_spread_of_directions_is_that_about_the_second_axis():
    rng = np.random.default_rng(2)
    tilt = 0.1 * np.clip(rng.normal(size=(5000, 2)), -2, 2)
    a = 9.81 * np.column_stack((tilt, np.ones(5000)))
    assert spread_of_directions(a) == pytest.approx(np.sqrt(np.mean(tilt**2)), rel=0.05)
    assert spread_of_directions(a * [1.0, 0.5, 1.0]) == pytest.approx(0.5 * spread_of_directions(a), rel=0.05)
    assert spread_of_directions(a * [1.0, 0.0, 1.0]) < 0.1 * spread_of_directions(a), "about one axis only"
    up_and_down = a * rng.uniform(0.5, 4.0, 5000)[:, None]
    assert spread_of_directions(up_and_down) == pytest.approx(spread_of_directions(a)), "accelerations do not turn it"


@pytest.mark.parametrize(("size", "refused"), [(0.03, True), (1.0, False)])
def test_a_sensor_that_hardly_turns_is_refused(size, refused):
    robot, prepared, wrenches = sensed()
    middle = prepared.q.mean(axis=0)
    slow = replace(prepared, q=middle + size * (prepared.q - middle), dq=size * prepared.dq, ddq=size * prepared.ddq)
    if refused:
        with pytest.raises(InputError, match="hardly turns against gravity"):
            identify_tool(robot, slow, wrenches, "sensor")
    else:
        identify_tool(robot, slow, wrenches, "sensor")


@pytest.mark.parametrize(("rate", "cutoff"), [(20.0, 15.0), (200.0, 15.0)])
def test_slow_wrenches_are_filtered_as_far_as_their_rate_carries(rate, cutoff):
    t = np.arange(0.0, 6.0, 1.0 / rate)
    prepared = replace(moved(0), t=np.arange(0.0, 6.0, 0.01))
    prepared = replace(prepared, filter=replace(prepared.filter, position_cutoff=cutoff))
    _, known = smooth_wrenches(prepared, Wrenches(t, np.zeros((len(t), 6))))
    reach = np.ceil(2.5 * rate / min(cutoff, MAX_CUTOFF_SHARE * rate)) / rate
    assert prepared.t[known][0] == pytest.approx(reach, abs=0.011)
    assert prepared.t[known][-1] == pytest.approx(t[-1] - reach, abs=0.011 + 1.0 / rate)


DEMO6 = load_robot("demo6")


def motion(seed, count=400):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (3, count, DEMO6.n))


def test_mean_and_slope_from_knots():
    knots = np.array([2.0, 5.0, 6.0, 10.0])
    mean, slope = weigh_knots(knots)
    y = np.array([1.0, 3.0, -2.0, 4.0])
    fine = np.linspace(2.0, 10.0, 80_001)
    assert mean @ y == pytest.approx(np.mean(np.interp(fine, knots, y)), abs=1e-3)
    assert slope @ y == pytest.approx((4.0 - 1.0) / 8.0)


def test_wrenches_are_filtered_at_their_own_rate_and_not_known_near_their_gaps():
    rate, cutoff = 500.0, 10.0
    t = 2.0 + np.arange(5000) / rate

    def wrench(time):
        return np.column_stack([np.sin((k + 1.0) * time) for k in range(6)])

    fast = 0.5 * np.sin(2.0 * np.pi * 60.0 * t)[:, None]  # folds where states come 100 times a second
    there = (t < 5.0) | (t > 5.2)
    at = np.arange(1.5, 13.0, 0.01)
    prepared = SimpleNamespace(t=at, filter=SimpleNamespace(position_cutoff=cutoff), source="run")
    wrenches = Wrenches(t[there], (wrench(t) + fast)[there])
    found, known = smooth_wrenches(prepared, wrenches)
    half = 2.5 / cutoff
    wanted = (at > 2.0 + half) & (at < 12.0 - half) & ((at < 5.0 - half) | (at > 5.2 + half))
    near = np.min(np.abs(at[:, None] - [2.0 + half, 12.0 - half, 5.0 - half, 5.2 + half]), axis=1) < 0.011
    assert np.array_equal(known[~near], wanted[~near]) and 0.5 < known.mean() < 0.9
    np.testing.assert_allclose(found[known], wrench(at)[known], atol=5e-3)
    with pytest.raises(InputError, match="too few for their filter"):
        smooth_wrenches(prepared, Wrenches(t[:30], wrench(t)[:30]))


@pytest.mark.parametrize(
    ("rate", "pause", "gap"), [(500.0, 0.045, False), (500.0, 0.06, True), (50.0, 0.09, False), (50.0, 0.12, True)]
)
def test_a_pause_of_the_sensor_is_a_gap_from_five_periods_and_a_twentieth_of_a_second_on(rate, pause, gap):
    t = np.arange(0.0, 4.0, 1.0 / rate)
    t = np.where(t > 2.0, t + pause - 1.0 / rate, t)
    prepared = SimpleNamespace(t=np.arange(0.0, 4.0, 0.01), filter=SimpleNamespace(position_cutoff=10.0), source="run")
    _, known = smooth_wrenches(prepared, Wrenches(t, np.zeros((len(t), 6))))
    assert known[[100, 300]].all() and known[200] != gap


def test_wrenches_and_states_that_have_nothing_in_common_are_refused():
    m = motion(3, 600)
    times = np.arange(600) / 100.0
    prepared = as_prepared(DEMO6, *m, m[0], times)
    kernels = lowpass_kernel(10.0, 100.0), lowpass_kernel(10.0, 100.0, 1)
    settings = replace(prepared.filter, position_cutoff=10.0)
    prepared = replace(prepared, kernel=kernels[0], slope_kernel=kernels[1], step=2, filter=settings)
    robot = replace(DEMO6, tools={"flange": (DEMO6.n, np.eye(4))})
    for first, refused in ((0.0, False), (100.0, True)):
        wrenches = Wrenches(first + times, np.zeros((600, 6)))
        if refused:
            with pytest.raises(InputError, match="no stretch in common"):
                build_tool_information(robot, prepared, wrenches, "flange")
        else:
            assert build_tool_information(robot, prepared, wrenches, "flange")[0].rows.min() > 100


@pytest.mark.parametrize(("rate", "knots"), [(100.0, 2), (9.6, 2), (9.0, 3), (4.8, 3), (4.5, 4)])
def test_the_bias_has_a_knot_a_minute(rate, knots):
    """600 samples at these rates, less what the filters of wrenches and rows take at either end."""
    m, times = motion(3, 600), np.arange(600) / rate
    prepared = as_prepared(DEMO6, *m, m[0], times)
    cutoff = 0.25 * rate
    kernels = lowpass_kernel(cutoff, rate), lowpass_kernel(cutoff, rate, 1)
    settings = replace(prepared.filter, position_cutoff=cutoff)
    prepared = replace(prepared, kernel=kernels[0], slope_kernel=kernels[1], step=1, filter=settings)
    robot = replace(DEMO6, tools={"flange": (DEMO6.n, np.eye(4))})
    information, found = build_tool_information(robot, prepared, Wrenches(times, np.zeros((600, 6))), "flange")
    assert len(found) == knots == 1 + int(np.ceil((found[-1] - found[0]) / 60.0))
    assert information.layout.n_base == 6 * knots


mujoco = pytest.importorskip("mujoco")


TOOL_MASS, TOOL_COM = 1.2, np.array((0.012, -0.02, 0.085))


INERTIA = np.array(((0.0041, 0.0002, -0.0001), (0.0002, 0.0037, 0.0003), (-0.0001, 0.0003, 0.0016)))


SECONDS, RATE = 30.0, 500.0


LINK = "flange"


@cache
def clean():
    """Return the robot, t, q and the wrenches of MuJoCo's sensors at the flange along a smooth motion."""
    robot = load_robot("demo6")
    n = robot.n
    model = sensor_model(robot, LINK, TOOL_MASS, TOOL_COM, INERTIA)
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


def sensed_tool(seed, sign=1.0):
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
    samples, wrenches, bias = sensed_tool(seed)
    prepared = prepare(robot, Samples(samples.t, samples.joint_names, samples.q, tau=samples.q))
    return identify_tool(robot, prepared, wrenches, LINK, **options), bias


def test_the_regressor_is_that_of_mujocos_sensors():
    robot, _, motion, wrench = clean()
    rows = slice(0, None, 100)
    J = INERTIA + TOOL_MASS * (TOOL_COM @ TOOL_COM * np.eye(3) - np.outer(TOOL_COM, TOOL_COM))
    phi = np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(TOOL_MASS * TOOL_COM), TOOL_MASS))
    Y = sensor_regressor(robot, LINK, *(x[rows] for x in motion))
    error = np.abs(Y @ phi - wrench[rows])
    assert error.max() < 1e-9 * np.abs(wrench).max()


def test_the_tool_is_found_with_honest_bars():
    errors = []
    for seed in range(6):
        found, bias = found_of(seed)
        load = found.load
        assert abs(load.mass - TOOL_MASS) < 0.01 * TOOL_MASS and np.abs(load.com - TOOL_COM).max() < 1e-3
        assert found.sign == 1 and load.significant and abs(found.delay) < 1e-3
        errors.append((load.mass - TOOL_MASS) / load.mass_std)
        errors += list((load.com - TOOL_COM) / load.com_std)
        errors += list((found.bias - bias) / found.bias_std)
    assert 0.5 < np.sqrt(np.mean(np.square(errors))) < 1.6  # of 60 figures
    assert np.mean(np.abs(errors) < 2.0) > 0.85


def test_the_other_sign_is_noticed_and_free_needs_no_body():
    robot, *_ = clean()
    samples, wrenches, _ = sensed_tool(1, sign=-1.0)
    prepared = prepare(robot, Samples(samples.t, samples.joint_names, samples.q, tau=samples.q))
    found = identify_tool(robot, prepared, wrenches, LINK, free=True)
    assert found.sign == -1 and abs(found.load.mass - TOOL_MASS) < 0.01 * TOOL_MASS


def test_a_sensor_that_pauses_still_tells_the_tool():
    robot, *_ = clean()
    samples, wrenches, bias = sensed_tool(1)
    prepared = prepare(robot, Samples(samples.t, samples.joint_names, samples.q, tau=samples.q))
    whole = identify_tool(robot, prepared, wrenches, LINK)
    there = (wrenches.t < 12.0) | (wrenches.t > 12.4)
    spoiled = wrenches.w.copy()
    spoiled[~there] = 1e6
    found = identify_tool(robot, prepared, Wrenches(wrenches.t[there], spoiled[there]), LINK)
    assert abs(found.load.mass - TOOL_MASS) < 0.01 * TOOL_MASS and np.abs(found.bias - bias).max() < 1.0
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
    samples, wrenches, _ = sensed_tool(1)
    prepared = prepare(robot, Samples(samples.t, samples.joint_names, samples.q, tau=samples.q))
    for slower, pieces in ((1.0, 1), (3.0, 2), (5.0, 3)):  # the same in 30, 90 and 150 s
        shown = replace(prepared, t=slower * prepared.t)
        information, knots = build_tool_information(robot, shown, Wrenches(slower * wrenches.t, wrenches.w), LINK)
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
    samples, wrenches, bias = sensed_tool(2)
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
        assert outcome["mass"] == pytest.approx(TOOL_MASS, rel=0.01) and outcome["frame"] == LINK
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
    assert "no moving link 'x'" in capsys.readouterr().err


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
