# SPDX-License-Identifier: Apache-2.0

"""Position servos beside mujoco.sysid and a second-order response: time, and error on a motion that was not fitted.

    ./dynid python bench/servo_sysid.py [--seed S] [--seconds T] [--iterations N]

One recording of the six-joint arm of bench/servo_plants.py with plain friction, no delay and no bias, which a peer does
not fit. Both fit stiffness, armature, damping and friction of six joints; ours delays, biases, limits and the law of
friction besides. mujoco.sysid (`mujoco[sysid]`) starts at 1.5 times the truth. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
from mujoco import sysid

from ros2_dynid.identification.servo.estimate import ServoOptions, estimate_drives, read_servo_recordings
from ros2_dynid.identification.servo.rollout import whole_errors
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from servo_baseline import fit_baseline, second_order
from servo_plants import ARM, draw_plant, simulate

STEP = 0.002
FIELDS = ("armature", "damping", "frictionloss")


def arm_with_servos() -> mujoco.MjSpec:
    """Return the arm with a position actuator and a sensor for each joint."""
    spec = mujoco.MjSpec.from_string(ARM.format(step=STEP))
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    for joint in spec.joints:
        actuator = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(kp=10.0)
        spec.add_sensor(name=joint.name, type=mujoco.mjtSensor.mjSENS_JOINTPOS, objtype=mujoco.mjtObj.mjOBJ_JOINT,
                        objname=joint.name)  # fmt: skip
        joint.solref_friction, joint.solimp_friction[:2] = np.array([2.0 * STEP, 1.0]), 0.9999
    return spec


def set_field(name: str, field: str) -> Callable[[mujoco.MjSpec, sysid.Parameter], None]:
    """Return what sets a value of a joint or, for kp, of its actuator."""

    def change(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        value = float(parameter.value[0])
        if field == "kp":
            sysid.apply_pgain(spec, name, value)
        elif field == "damping":
            spec.joint(name).damping[0] = value
        else:
            setattr(spec.joint(name), field, value)

    return change


def series(samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times at MuJoCo's step, the commands held there, and positions interpolated."""
    assert samples.q_r is not None
    t = np.arange(0.0, samples.t[-1], STEP)
    row = np.minimum(np.searchsorted(samples.t, t + 1e-9, side="right") - 1, len(samples.t) - 1)
    y = np.stack([np.interp(t, samples.t, q) for q in samples.q.T], axis=1)
    return t, samples.q_r[row], y


def fit_sysid(samples: Samples, truth: dict[str, float], iterations: int) -> mujoco.MjModel:
    """Return the model that mujoco.sysid fits."""
    spec = arm_with_servos()
    model = spec.compile()
    t, u, y = series(samples)
    start = sysid.create_initial_state(model, y[0], np.zeros(6), np.zeros(0))
    measured = sysid.TimeSeries.from_names(t, y, model)
    sequences = sysid.ModelSequences("arm", spec, "fit", start, sysid.TimeSeries(t, u), measured)
    parameters = sysid.ParameterDict()
    for name, value in truth.items():
        joint, field = name.split(".")
        parameters.add(
            sysid.Parameter(name, nominal=value, min_value=0.1 * value, max_value=10.0 * value,
                            modifier=set_field(joint, field))
        )  # fmt: skip
        parameters[name].value[:] = 1.5 * value
    residual = sysid.build_residual_fn(models_sequences=[sequences])
    fitted, _ = sysid.optimize(parameters, residual, optimizer="mujoco", verbose=False, max_iters=iterations)
    return sysid.apply_param_modifiers(fitted, spec)


def roll_out_mujoco(model: mujoco.MjModel, samples: Samples) -> np.ndarray:
    """Return MuJoCo's positions less the recorded ones, from the first recorded position."""
    t, u, y = series(samples)
    data = mujoco.MjData(model)
    data.qpos[:] = y[0]
    error = np.empty_like(y)
    for k in range(len(t)):
        error[k] = data.qpos - y[k]
        data.ctrl[:] = u[k]
        mujoco.mj_step(model, data)
    return error


def main() -> None:
    """Print seconds and held-out errors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--iterations", type=int, default=30)
    args = parser.parse_args()
    plant = replace(draw_plant(args.seed), law=("",) * 6, coefficient=np.zeros(6), delay=0.0, bias=np.zeros(6),
                    limit=np.full(6, np.inf), period=0.01)  # fmt: skip
    fitted, held = (simulate(plant, args.seconds, args.seed + k, soft=False) for k in (0, 1000))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arm.xml"
        file.write_text(ARM.format(step=STEP))
        robot = load_robot(file)
    options = ServoOptions()
    recordings = read_servo_recordings(robot, [fitted, held], options)
    began = time.process_time()
    fit = estimate_drives(robot, recordings[:1], options, lambda stage, share: None)
    ours = time.process_time() - began
    error = whole_errors(robot, fit.drives, recordings[1], fit.top_speed)
    print(f"servos: {ours:.1f} s, held-out error {1e3 * np.sqrt(np.mean(error**2)):.3f} mrad", flush=True)
    began = time.process_time()
    fits = [fit_baseline(recordings[:1], j) for j in range(6)]
    seconds = time.process_time() - began
    response = np.stack([second_order(x, recordings[1], j) for j, x in enumerate(fits)], axis=1)
    error = response - recordings[1].y
    print(f"second order: {seconds:.1f} s, held-out error {1e3 * np.sqrt(np.mean(error**2)):.3f} mrad", flush=True)
    values = {"kp": plant.kp, "armature": plant.armature, "damping": plant.damping, "frictionloss": plant.coulomb}
    truth = {f"{n}.{field}": float(x[j]) for field, x in values.items() for j, n in enumerate(robot.active_names)}
    began = time.process_time()
    model = fit_sysid(fitted, truth, args.iterations)
    peer = time.process_time() - began
    error = roll_out_mujoco(model, held)
    print(f"mujoco.sysid: {peer:.1f} s, held-out error {1e3 * np.sqrt(np.mean(error**2)):.3f} mrad")
    print(f"ratio of seconds: {peer / ours:.1f}")


if __name__ == "__main__":
    main()
