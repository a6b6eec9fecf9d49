# SPDX-License-Identifier: Apache-2.0

"""Rollout: a model in closed loop along the commanded positions of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ros2_dynid.atomic import write_text
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.model_file import IdentifiedModel, load_model
from ros2_dynid.identification.servo.estimate import ServoOptions
from ros2_dynid.identification.servo.identify import predicted_std
from ros2_dynid.identification.servo.model import ServoModel
from ros2_dynid.identification.servo.recording import ServoRecording, StretchOptions, servo_recording
from ros2_dynid.identification.servo.rollout import HORIZONS, Rollout, roll_out, rollout_errors, whole_errors
from ros2_dynid.model.robot import Array
from ros2_dynid.output_files import check_outputs
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.controller_file import load_controller
from ros2_dynid.sim.forward_dynamics import ForwardDynamics
from ros2_dynid.sim.tracking_loop import Command, simulate_from, simulate_tracking

SMOOTH_SPEED = 5e-3
"""Speed [rad/s or m/s] within which friction changes its sign, in the rollout of a model from torques."""


@dataclass(frozen=True)
class RolloutRequest:
    """Model file, table with NAME.reference, and table to write (None: none).

    horizon: every so many seconds the rollout starts again from the recorded state (None: only once). std: also write
    NAME.position_std. controller: gains of the robot's controller, for a model from torques, which has no servo.
    overwrite: replace the
    output.
    """

    model: str
    input: str
    output: str | None = None
    horizon: float | None = None
    std: bool = False
    controller: str | None = None
    overwrite: bool = False


@dataclass(frozen=True)
class RolloutOutcome:
    """The table written, and errors of the positions where the input has some: root mean square [rad or m].

    error: over all joints, by horizon [s]: 0.1, 0.5, 2, that asked for, and "whole"; joints: the same by joint.
    covered: share of the recorded positions within the 95 % band, with std.
    """

    rows: int
    output: str | None
    error: Mapping[str, float]
    joints: Mapping[str, Mapping[str, float]]
    covered: float | None = None


def rollout(request: RolloutRequest) -> RolloutOutcome:
    """Roll the model out and write the table."""
    inputs = [request.model, request.input, request.controller]
    check_outputs([request.output], inputs=inputs, overwrite=request.overwrite)
    model = load_model(request.model)
    samples = load_samples(request.input, model.robot)
    if samples.q_r is None:
        raise InputError(
            "the table has no reference", "add columns NAME.reference: the commanded positions", request.input
        )
    if request.horizon is not None and not request.horizon > 0.0:
        raise InputError(f"the horizon is {request.horizon} s", "give a positive time [s]")
    if model.servo is None:
        result, errors = roll_out_torque_model(model, samples, request.controller)
        std = None
        if request.std or request.horizon is not None:
            what = "bands and horizons are of models of position servos"
            hint = Text(
                "leave ", Option("std"), " and ", Option("horizon"), " out, or identify from commands and positions"
            )
            raise InputError(what, hint)
    else:
        result, std, errors = _roll_out_servos(model, model.servo, samples, request)
    if request.output is not None:
        _write(request, model.robot.active_names, result, std if request.std else None)
    names = model.robot.active_names
    joints = {h: dict(zip(names, map(float, row), strict=True)) for h, row in errors.items()}
    error = {h: float(np.sqrt(np.mean(row**2))) for h, row in errors.items() if np.isfinite(row).all()}
    covered = None
    if std is not None and request.std and errors:
        measured = np.stack([np.interp(result.t, samples.t, samples.q[:, j]) for j in range(len(names))], axis=1)
        covered = float(np.mean(np.abs(result.y - measured) <= 1.96 * std))
    return RolloutOutcome(len(result.t), request.output, error, joints, covered)


def _rms(error: Array) -> Array:
    return np.asarray(np.sqrt(np.nanmean(error**2, axis=0)))


def _roll_out_servos(
    model: IdentifiedModel, servo: ServoModel, samples: Samples, request: RolloutRequest
) -> tuple[Rollout, Array, dict[str, Array]]:
    """Return the rollout, its standard deviations and, where positions were recorded, its errors by horizon."""
    options = ServoOptions().stretches
    robot = model.robot
    recording = servo_recording(samples, options.smoothing)
    pieces = _pieces(recording, request.horizon)
    parts = [
        roll_out(robot, servo.drives, recording.commands, recording.t[p], recording.y[p.start], recording.v[p.start],
                 servo.top_speed)
        for p in pieces
    ]  # fmt: skip
    fields = ("t", "y", "v", "effort")
    result = Rollout(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))
    whole = result.y - recording.y
    if request.horizon is not None:
        whole = whole_errors(robot, servo.drives, recording, servo.top_speed)
    errors = dict(rollout_errors(robot, servo.drives, [recording], servo.top_speed, options, [whole]))
    if request.horizon is not None:
        ends = np.array([part.y[-1] for part in parts])
        errors[f"{request.horizon:g}"] = _rms(ends - recording.y[[p.stop - 1 for p in pieces]])
    return result, predicted_std(servo, result.v), errors


def _pieces(recording: ServoRecording, horizon: float | None) -> list[slice]:
    """Return the rows between two starts."""
    N = len(recording.t)
    rows = N if horizon is None else max(round(horizon / recording.period), 2)
    starts = [k for k in range(0, N, rows) if N - k >= 2]
    return [slice(k, min(k + rows, N) if N - k - rows >= 2 else N) for k in starts]


def roll_out_torque_model(
    model: IdentifiedModel, samples: Samples, controller: str | None
) -> tuple[Rollout, dict[str, Array]]:
    """Return the motion of a model from torques under a controller with known gains, and its errors by horizon."""
    if controller is None:
        hint = Text("give the gains of the robot's controller: ", Option("controller", "FILE.yaml"))
        raise InputError("the model comes from torques and has no servo", hint)
    assert samples.q_r is not None
    period = float(np.median(np.diff(samples.t)))
    t = np.arange(samples.t[0], samples.t[-1], period)
    n = samples.q_r.shape[1]
    q = np.stack([np.interp(t, samples.t, samples.q_r[:, j]) for j in range(n)], axis=1)
    v0 = np.full(n, SMOOTH_SPEED)
    command = Command(1.0 / period, q, np.gradient(q, period, axis=0), np.zeros_like(q), (slice(0, len(t)),))
    gains = load_controller(controller, model.robot.active_names)
    dynamics = ForwardDynamics(model.robot, model.chi, v0)
    motion = simulate_tracking(dynamics, gains, command)

    def sampled(x: Array) -> Array:
        return np.stack([np.interp(samples.t, t, x[:, j]) for j in range(n)], axis=1)

    result = Rollout(samples.t, sampled(motion.q), sampled(motion.dq), sampled(motion.tau))
    recording = servo_recording(samples, StretchOptions.smoothing)
    y, v = (
        np.stack([np.interp(t, recording.t, x[:, j]) for j in range(n)], axis=1) for x in (recording.y, recording.v)
    )
    steps = round(max(HORIZONS) / period)
    starts = np.arange(0, len(t) - steps - 1, steps)
    errors = {}
    if len(starts):
        positions = simulate_from(dynamics, gains, command, y[starts], v[starts], starts, steps)
        for horizon in HORIZONS:
            step = round(horizon / period)
            errors[f"{horizon:g}"] = _rms(positions[step] - y[starts + step])
    return result, {**errors, "whole": _rms(result.y - samples.q)}


def _write(request: RolloutRequest, names: tuple[str, ...], result: Rollout, std: Array | None) -> None:
    kinds = ["position", "velocity", "effort"] + (["position_std"] if std is not None else [])
    header = ",".join(["time", *(f"{name}.{kind}" for kind in kinds for name in names)])
    table = np.column_stack((result.t, result.y, result.v, result.effort, *(() if std is None else (std,))))
    lines = [header, *(",".join(map(repr, map(float, row))) for row in table)]
    assert request.output is not None
    write_text(Path(request.output), "\n".join(lines) + "\n", overwrite=request.overwrite)


def roll_out_model(model: IdentifiedModel, samples: Samples) -> Rollout:
    """Return the motion of a model of position servos along the references of samples, from their first position."""
    if model.servo is None:
        raise InputError("the model comes from torques and has no servo", "identify from commands and positions")
    if samples.q_r is None:
        raise InputError("the samples have no references", "give q_r: the commanded positions")
    return _roll_out_servos(model, model.servo, samples, RolloutRequest("", ""))[0]
