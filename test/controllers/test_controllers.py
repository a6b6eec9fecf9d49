# SPDX-License-Identifier: Apache-2.0

"""The controllers in a real controller_manager on a robot in MuJoCo: chained, fast, nothing allocated, safe on faults.

Needs ros2_control with joint_trajectory_controller, and this package built and sourced with it; skipped elsewhere. More
options for CMake and a library that the program needs can be given in CMAKE_ARGS and DYNID_CONTROL_PRELOAD.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.control.held_load import Load, load_parameters
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics
from ros2_dynid.model.efforts import ErrorBars, declare_added_effort
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import OFF, Fc, Fv, by_joint, standard_names
from ros2_dynid.sim.mjcf import mjcf
from ros2_dynid.sim.truth import true_parameters

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
URDF = ROOT / "config" / "robots" / "demo6.urdf"
DT, STEP = 1e-3, 1e-4
KP, KD = [400.0, 400.0, 400.0, 60.0, 60.0, 60.0], [40.0, 40.0, 40.0, 6.0, 6.0, 6.0]
NAMES = {
    "feedforward_controller": "ros2_dynid/FeedforwardController",
    "hand_guiding_controller": "ros2_dynid/HandGuidingController",
    "external_effort_broadcaster": "ros2_dynid/ExternalEffortBroadcaster",
    "brake_controller": "ros2_dynid/BrakeController",
    "joint_trajectory_controller": "joint_trajectory_controller/JointTrajectoryController",
}


def missing():
    """Return what the machine lacks, or nothing."""
    if shutil.which("cmake") is None:
        return "cmake"
    prefixes = [Path(p) for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    for package in ("controller_manager", "joint_trajectory_controller"):
        if not any((p / "share" / package).is_dir() for p in prefixes):
            return f"ros2_control ({package})"
    if not any((p / "lib" / "libros2_dynid_controllers.so").exists() for p in prefixes):
        return "ros2_dynid built with ros2_control, and sourced"
    return ""


pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=f"needs {missing()}"),
    pytest.mark.timeout(600),  # the first test builds the program, for minutes where many compile
]
if missing() and os.environ.get("DYNID_REQUIRE_CONTROLLERS"):  # where they are installed on purpose
    raise RuntimeError(f"DYNID_REQUIRE_CONTROLLERS is set, but there is no {missing()}")


@cache
def arm():
    """Return the arm, its true parameters, and those of the model: identified ones are off by about a hundredth."""
    robot = declare_added_effort(load_robot(URDF), ["nothing"])
    chi = true_parameters(robot, 3)
    return robot, chi, chi * (1 + 0.01 * np.random.default_rng(0).uniform(-1, 1, len(chi)))


START = np.array((0.1, -0.6, 0.5, 0.2, -0.3, 0.1))


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Build and install the simulated robot and the program; return the program's path and environment."""
    import mujoco

    folder = tmp_path_factory.mktemp("control")
    extra = shlex.split(os.environ.get("CMAKE_ARGS", ""))
    options = [f"-DMUJOCO={Path(mujoco.__file__).parent}", f"-DCMAKE_INSTALL_PREFIX={folder / 'install'}"]
    for command in (
        ["cmake", "-S", str(HERE), "-B", "build", *options, *extra],
        ["cmake", "--build", "build"],
        ["cmake", "--install", "build"],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    environment = dict(os.environ)
    environment["AMENT_PREFIX_PATH"] = f"{folder / 'install'}{os.pathsep}{environment['AMENT_PREFIX_PATH']}"
    environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    environment["ROS_DOMAIN_ID"] = str(60 + os.getpid() % 40)
    if preload := os.environ.get("DYNID_CONTROL_PRELOAD"):
        environment["LD_PRELOAD"] = preload
    return folder / "install" / "bin" / "controllers_program", environment


def trajectory():
    """Return rows t, q, dq, ddq: a motion that begins and ends at rest, all joints moving fast."""
    t = np.arange(0.0, 4.0 + DT / 2, DT)
    w = 2 * np.pi * np.array((0.45, 0.5, 0.55, 0.6, 0.65, 0.7))
    amplitude = np.array((0.6, 0.4, 0.5, 0.6, 0.6, 0.8))
    s = np.minimum(1.0, np.minimum(t, t[-1] - t) / 0.8)
    blend = s**3 * (10 - 15 * s + 6 * s**2)
    q = START + amplitude * blend[:, None] * np.sin(w * t[:, None])
    dq = np.gradient(q, DT, axis=0, edge_order=2)
    ddq = np.gradient(dq, DT, axis=0, edge_order=2)
    dq[[0, -1]] = ddq[[0, -1]] = 0.0
    return np.column_stack((t, q, dq, ddq))


def described(states=("position", "velocity", "effort"), folder=None, carries_itself=False, noise=0.0):
    """Return the URDF with the simulated hardware; noise: of its efforts [N.m]."""
    robot = arm()[0]
    joints = "".join(
        f'<joint name="{name}"><command_interface name="effort"/>'
        + "".join(f'<state_interface name="{state}"/>' for state in states)
        + "</joint>"
        for name in robot.active_names
    )
    hardware = (
        '<ros2_control name="simulated" type="system"><hardware>'
        "<plugin>ros2_dynid_control_test/MujocoSystem</plugin>"
        f'<param name="mjcf">{folder / "arm.xml"}</param><param name="friction">{folder / "friction.txt"}</param>'
        f'<param name="carries_itself">{str(carries_itself).lower()}</param><param name="noise">{noise}</param>'
        f"</hardware>{joints}</ros2_control>"
    )
    return re.sub(r"</robot>\s*$", hardware + "</robot>", URDF.read_text())


def prepare(folder, chi=None, states=("position", "velocity", "effort"), **changes):
    """Write what a scenario needs into the folder; changes: parameters by controller."""
    robot, true, model = arm()
    drives = by_joint(robot, true)
    lightest = 1 / np.diag(np.linalg.inv(inertia_matrix(robot, true, START[None])[0]))
    v0 = np.maximum(5e-3, drives[:, Fc] * STEP / lightest)  # as steep as the integration bears
    (folder / "arm.xml").write_text(mjcf(robot, true, STEP))
    np.savetxt(folder / "friction.txt", np.column_stack((drives[:, Fv], drives[:, Fc], drives[:, OFF], v0, START)))
    (folder / "robot.urdf").write_text(described(states, folder))
    np.savetxt(folder / "trajectory.txt", trajectory(), fmt="%.17g")
    effort = np.array([joint.limits.effort for joint in robot.joints])
    rows = trajectory()[:, 1:].reshape(-1, 3, 6).transpose(1, 0, 2)
    wrong = np.sqrt(
        np.mean((inverse_dynamics(robot, true, *rows) - inverse_dynamics(robot, model, *rows)) ** 2, axis=0)
    )
    bars = ErrorBars(wrong, wrong)  # as honest as those of an identification
    data = runtime_bytes(robot, model if chi is None else chi, bars)
    (folder / "model.dynid").write_bytes(data)
    (folder / "broken.dynid").write_bytes(data[:-30])
    lighter = model.copy()
    lighter[: 14 * robot.n] = np.where(np.arange(14 * robot.n) % 14 < 10, 0.9, 1.0) * lighter[: 14 * robot.n]
    (folder / "lighter.dynid").write_bytes(runtime_bytes(robot, lighter, bars))
    other = load_robot("tx40")
    (folder / "other.dynid").write_bytes(runtime_bytes(other, np.ones(len(standard_names(other)))))
    common = {"model": str(folder / "model.dynid"), "joints": list(robot.active_names)}
    limits = {"effort_limits": effort.tolist()}
    parameters = {
        "controller_manager": {"update_rate": 1000, "use_sim_time": True}
        | {name: {"type": kind, "params_file": [str(folder / "parameters.yaml")]} for name, kind in NAMES.items()},
        "feedforward_controller": common | limits | {"kp": KP, "kd": KD},
        "hand_guiding_controller": common | limits,
        "brake_controller": common | limits,
        "external_effort_broadcaster": common | {"frame": next(iter(robot.tools))},
        "joint_trajectory_controller": {
            "joints": list(robot.active_names),
            "command_joints": [f"feedforward_controller/{name}" for name in robot.active_names],
            "command_interfaces": ["position", "velocity", "acceleration"],
            "state_interfaces": ["position", "velocity"],
            "interpolate_from_desired_state": True,
        },
    }
    for name, change in changes.items():
        parameters[name] |= change
    text = json.dumps({name: {"ros__parameters": values} for name, values in parameters.items()})  # YAML, too
    (folder / "parameters.yaml").write_text(text)
    return folder


def run(program, folder, scenario):
    """Run a scenario; return all its numbers and texts by name, and what was logged."""
    path, environment = program
    command = [str(path), scenario, str(folder), "--ros-args", "--params-file", str(folder / "parameters.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, list] = {}
    for line in done.stdout.splitlines():
        if match := re.fullmatch(r"([a-z][a-z_ ]*?)((?: (?:-?[0-9.]+(?:e[-+][0-9]+)?|-?nan|-?inf))+)", line):
            found.setdefault(match[1], []).append(np.array(match[2].split(), dtype=float))
        elif match := re.match(r"([a-z][a-z0-9_ .-]*): ?(.*)", line):
            found.setdefault(match[1], []).append(match[2])
    return found, done.stderr + done.stdout


def held(q, chi=None):
    robot, _, model = arm()
    chi = model if chi is None else chi
    return gravity_torque(robot, chi, q[None])[0] + by_joint(robot, chi)[:, OFF]


def test_the_chain_tracks_five_times_better_than_the_same_gains_without_the_model(program, tmp_path):
    results = []
    for name, chi in (("with", None), ("without", np.zeros_like(arm()[1]))):
        (tmp_path / name).mkdir()
        found, _ = run(program, prepare(tmp_path / name, chi), "track")
        assert found["count"][0] > 3900 and np.all(found["active"][0] == 1)
        results.append(found)
    with_model, without = (found["rms"][0] for found in results)
    print("RMS with", with_model, "without", without, "ratio", without / with_model)
    assert np.sqrt(np.mean(without**2) / np.mean(with_model**2)) > 5
    assert np.all(without / with_model > 5)
    found = results[0]
    assert np.abs(found["drift"][0]).max() < 0.02  # gravity and damping hold the arm when the reference has gone
    assert np.allclose(found["command"][0], held(found["position"][0]), atol=0.2)
    assert np.allclose(found["left"][0], held(found["position"][0]), atol=0.2)


def test_update_is_fast_and_allocates_nothing(program, tmp_path):
    # the manager's own limits allocate when a command is written: they are left out
    found, _ = run(program, prepare(tmp_path, controller_manager={"enforce_command_limits": False}), "speed")
    for name in list(NAMES)[:4]:
        median, high, whole, most = found[f"time {name}"][0]
        print(f"{name}: {median:.2f} us, 99 %: {high:.2f} us ({whole:.2f} in all), largest {most:.1f} us")
        assert found[f"allocations {name}"][0] == 0
        assert high < 5.0
    assert found["counted"][0][0] == 2


def test_faults_while_running_are_survived(program, tmp_path):
    found, _ = run(program, prepare(tmp_path), "faults")
    rate = 20 * DT  # of the limit, in one update
    assert found["step ordinary"][0] <= rate * (1 + 1e-6)
    step, good, active = found["step late"][0]
    assert step <= 2 * rate * (1 + 1e-6) and good == active == 1
    cycles, step, feedforward, before = found["blind"][0]
    assert 45 < cycles < 60 and feedforward == before == 0  # an error within 60 ms: the manager takes the chain off
    assert step <= 2 * rate * (1 + 1e-6)
    # gravity, and a brake where the speed is known: not the motion's torque
    brake = 0.5 * by_joint(arm()[0], arm()[2])[:, Fc]
    assert np.all(np.abs(found["command"][0] - held(found["position"][0])) < brake + 0.5)
    assert found["again"][0] == 1 and found["blind activation"][0] == 0


def test_gains_model_and_payload_change_while_running(program, tmp_path):
    folder = prepare(tmp_path)
    found, _ = run(program, folder, "live")
    robot, _, model = arm()
    q = found["position"][0]
    assert "6 values" in found["wrong gains"][0] and found["right gains"][0] == ""
    assert "cut" in found["model broken"][0] and "another robot" in found["model other"][0]
    assert found["model lighter"][0] == ""
    lighter = model.copy()
    lighter[: 14 * robot.n] = np.where(np.arange(14 * robot.n) % 14 < 10, 0.9, 1.0) * lighter[: 14 * robot.n]
    joint, T = next(iter(robot.tools.values()))
    load = Load(1.0, T[:3, :3] @ (0, 0, 0.1) + T[:3, 3], np.zeros((3, 3)), joint)
    loaded = lighter + load_parameters(robot, load, len(lighter))
    texts = [found[f"payload {mass}"][0] for mass in ("-1", "500", "1")]
    assert [text[0] for text in texts] == ["0", "0", "1"], texts
    # the arm sinks a little while the model is too light: torques are compared within the damping of that motion
    scale = np.abs(held(q)).max()
    assert np.allclose(found["loaded"][0], held(q, loaded), atol=0.03 * scale)
    for name in ("first", "lighter", "loaded"):
        assert (
            found[f"{name} step"][0] < 1.6
        )  # no jump: encoder noise times damping is below, new parameters at once are not


def test_hand_guiding(program, tmp_path):
    found, _ = run(program, prepare(tmp_path), "guide")
    assert np.abs(found["let go"][0]).max() < 5e-3
    assert found["pushed"][0][2] > 0.02
    assert found["friction"][0] != ""
    assert np.allclose(found["left"][0], held(found["position"][0]), atol=0.05)


def prepare_kind(folder, carries_itself, **declared):
    """As prepare(), for an arm that adds gravity itself, or one that does not; declared: `robot_adds` by controller."""
    prepare(folder, **{name: {"robot_adds": [text]} for name, text in declared.items()})
    if carries_itself:
        arm_file = folder / "arm.xml"
        arm_file.write_text(arm_file.read_text().replace("<body ", '<body gravcomp="1" '))
    (folder / "robot.urdf").write_text(described(folder=folder, carries_itself=carries_itself, noise=0.05))
    return folder


@pytest.mark.parametrize("carries_itself", [True, False])
def test_an_arm_is_held_fed_forward_and_guided_without_a_jerk_whether_it_adds_gravity_or_not(
    program, tmp_path, carries_itself
):
    adds = "gravity" if carries_itself else "nothing"
    folder = prepare_kind(tmp_path, carries_itself, feedforward_controller=adds, hand_guiding_controller=adds)
    found, _ = run(program, folder, "serve")
    for switch in ("held", "chained", "guided"):
        print(switch, found[switch][0])
        assert found[switch][0].max() < 0.01  # [rad/s]: friction holds what the model lacks of gravity
    weight = held(found["position"][0])
    assert np.abs(weight).max() > 15  # [N.m]
    assert np.allclose(found["command"][0], 0 if carries_itself else weight, atol=0.1)
    print("RMS", found["rms"][0])
    assert found["rms"][0].max() < 2e-3
    assert found["pushed"][0][0] > 0.02 and found["let go"][0].max() < 0.02


@pytest.mark.parametrize("carries_itself", [True, False])
def test_a_wrong_declaration_is_refused_at_rest_before_anything_moves(program, tmp_path, carries_itself):
    wrong = "nothing" if carries_itself else "gravity"
    # an arm that does not carry itself is handed over by a controller that is right
    folder = prepare_kind(
        tmp_path,
        carries_itself,
        feedforward_controller=wrong,
        brake_controller=wrong,
        hand_guiding_controller="nothing",
    )
    found, text = run(program, folder, "take over")
    assert found["taken guiding"][0] == (0 if carries_itself else 1)
    assert found["taken feedforward_controller"][0] == found["taken brake_controller"][0] == 0
    assert np.max(found["speed"]) < 0.01
    assert ("the robot seems to hold itself" if carries_itself else "it would fall") in text


def test_deactivated_in_motion_friction_brakes_and_nothing_drives(program, tmp_path):
    """One last command stays applied for ever: gravity, and a brake that friction holds once the arm rests."""
    found, text = run(program, prepare(tmp_path), "leave")
    robot, _, model = arm()
    speed, left = found["speed"][0], found["command"][0]
    assert np.abs(speed).max() > 0.5 and "deactivated in motion" in text
    brake = 0.5 * by_joint(robot, model)[:, Fc]
    expected = held(found["seen"][0]) - np.sign(speed) * brake * (np.abs(speed) > 0.02)
    assert np.allclose(left, expected, atol=0.1 * brake.max())
    assert found["step"][0] == 0  # nobody commands
    path = np.array(found["path"])
    print("moved on by", np.abs(path[-1] - path[0]))
    level = [0, 3, 4, 5]  # of the others the gravity has changed on the way by more than friction holds
    assert np.all(np.abs(path[-1] - path[-200])[level] < 2e-3)


def test_restarted_without_a_reference_in_motion_the_arm_is_braked_within_the_rates(program, tmp_path):
    found, _ = run(program, prepare(tmp_path), "restart")
    assert np.abs(found["speed"][0]).max() > 0.5
    assert found["step"][0] <= 20 * DT * (1 + 1e-6)
    path = np.array(found["path"])
    print("moved on by", np.abs(path[-1] - path[0]))
    assert np.all(np.abs(path[-1] - path[0]) < 0.3) and np.all(np.abs(path[-1] - path[-100]) < 2e-3)


def test_deactivated_in_motion_above_a_brake_the_arm_is_braked_within_the_limits(program, tmp_path):
    """The plain request that takes the chain off, without a word about the brake: it goes on and brakes."""
    found, _ = run(program, prepare(tmp_path, feedforward_controller={"command_prefix": "brake_controller"}), "brake")
    speed = np.abs(found["speed"][0])
    assert speed.max() > 0.5 and np.abs(found["again"][0]).max() > 0.5
    assert found["step"][0] <= 20 * DT * (1 + 1e-6)  # of the limits: within the rates
    path = np.array(found["path"])
    moved, rest = np.abs(path - path[-1]), np.abs(np.diff(path, axis=0)) / DT
    seconds = DT * np.flatnonzero((rest > 0.02).any(axis=1)).max()
    print("moved on by", moved[0], "at rest after", seconds, "s")
    assert np.all(moved[0] < 0.3 * speed + 0.01) and seconds < 0.6
    assert np.array_equal(found["active"][0], (1, 0))
    assert np.allclose(found["held"][0], held(found["position"][0]), atol=0.1)
    brake = 0.5 * by_joint(arm()[0], arm()[2])[:, Fc]  # all of it taken off: one last command as ever
    assert np.all(np.isfinite(found["left"][0])) and np.any(np.abs(found["left"][0] - found["held"][0]) > 0.5 * brake)


def test_references_of_the_topic_are_put_into_order_and_faults_are_told(program, tmp_path):
    found, text = run(program, prepare(tmp_path), "stream")
    moved = found["followed"][0] - found["start"][0]
    sticking = by_joint(arm()[0], arm()[1])[:, Fc] / KP + 1e-3
    assert np.all(np.abs(moved - 0.03 * np.arange(1, 7)) < sticking)  # messages name the joints in reverse
    assert found["active"][0] == 1 and np.abs(found["drift"][0]).max() < 0.02
    for fault in (
        "of other joints",
        "too old or ahead of the clock",
        "not newer than the one before",
        "not finite",
        "without one position, velocity and acceleration",
        "without exactly one point",
        "beyond a position limit",
        "beyond a velocity limit",
    ):
        assert re.search(rf"references refused: .*[1-9][0-9]* {fault}", text), fault


def test_the_broadcaster_sends_by_the_simulated_clock_while_it_is_active(program, tmp_path):
    found, _ = run(program, prepare(tmp_path), "broadcast")
    configured, active, paused, inactive = found["messages"][0]
    assert 80 <= active <= 101  # 100 Hz for a second of simulated time
    assert configured == paused == inactive == 0


def test_a_push_is_found(program, tmp_path):
    found, _ = run(program, prepare(tmp_path, external_effort_broadcaster={"publish_rate": 1000.0}), "push")
    events = np.array(found["contact"])
    assert events[0, 1] == 0  # the first message: no contact
    begins, ends = events[events[:, 1] == 1][0], events[-1]
    print("contact", events)
    assert len(events) == 3 and 0 < begins[0] < 0.01 and begins[2] == 1
    assert ends[1] == 0 and ends[0] > 0.2
    count, felt, pushed = found["felt"][0]
    assert count > 5 and abs(felt - pushed) < 0.1 * pushed
    assert found["frame"][0] == next(iter(arm()[0].tools))


@pytest.mark.parametrize(
    "fault", ["none", "truncated", "other robot", "other geometry", "no file", "no limits", "no velocity"]
)
def test_what_cannot_run_is_refused_before_it_moves(program, tmp_path, fault):
    states = ("position", "effort") if fault == "no velocity" else ("position", "velocity", "effort")
    names = list(NAMES)[:4]
    prepare(tmp_path)
    robot, _, model = arm()
    change: dict[str, object] = {}
    if fault == "truncated":
        change = {"model": str(tmp_path / "broken.dynid")}
    elif fault == "other robot":
        change = {"model": str(tmp_path / "other.dynid")}
    elif fault == "no file":
        change = {"model": str(tmp_path / "nothing.dynid")}
    changes = dict.fromkeys(names, change)
    if fault == "no limits":
        changes = {name: {"effort_limits": [0.0]} for name in names if name != "external_effort_broadcaster"}
    folder = prepare(tmp_path, states=states, **changes)
    if fault == "other geometry":  # the same joint names, another arm
        longer = replace(robot.joints[2], d=robot.joints[2].d + 0.02)
        other = replace(robot, joints=(*robot.joints[:2], longer, *robot.joints[3:]))
        (folder / "model.dynid").write_bytes(runtime_bytes(other, model))
    if fault == "no limits":
        joints = tuple(replace(joint, limits=replace(joint.limits, effort=np.inf)) for joint in robot.joints)
        (folder / "model.dynid").write_bytes(runtime_bytes(replace(robot, joints=joints), model))
    found, text = run(program, folder, "start")
    for name in names:
        loaded, configured, activated = found[f"start {name}"][0]
        assert loaded == 1
        if fault == "none" or (fault == "no limits" and name == "external_effort_broadcaster"):
            assert configured == activated == 1
        elif fault == "no velocity":
            assert activated == 0
        else:
            assert configured == activated == 0
    reasons = {
        "truncated": "cut",
        "other robot": "lacks",
        "other geometry": "another robot",
        "no file": "cannot be read",
        "no limits": "effort_limits",
    }
    if fault in reasons:
        assert reasons[fault] in text
