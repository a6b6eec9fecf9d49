# SPDX-License-Identifier: Apache-2.0

"""Recordings of commands and positions become a model: drives, with the links as described beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codec import Plain
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.model_file import IdentifiedModel, model_of
from ros2_dynid.identification.servo.drive import BIAS, OWN
from ros2_dynid.identification.servo.estimate import (
    ServoOptions,
    estimate_drives,
    moved_joints,
    read_servo_recordings,
)
from ros2_dynid.identification.servo.model import ServoModel
from ros2_dynid.identification.servo.recording import ServoRecording
from ros2_dynid.identification.servo.rollout import rollout_errors, whole_errors
from ros2_dynid.identification.servo.simulation import friction_term
from ros2_dynid.identification.validation.verdict import Level, Remark
from ros2_dynid.model.parameters import IA, OFF, Fc, Fv, by_joint, standard_names, standard_vector
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.progress import Progress
from ros2_dynid.recording.samples import Samples
from ros2_dynid.version import __version__


def identify_servos(
    robot: Robot,
    recordings: Sequence[Samples],
    validate: Sequence[Samples],
    report: Progress,
    options: ServoOptions | None = None,
    command: str = "",
) -> tuple[IdentifiedModel, tuple[Remark, ...]]:
    """Return the model of a robot under position servos, and the verdict on it."""
    options = options or ServoOptions()
    fitted, unseen = (read_servo_recordings(robot, some, options) for some in (recordings, validate))
    fit = estimate_drives(robot, fitted, options, report)
    report("rolling out", 0.9)
    tested = unseen or fitted
    whole = [whole_errors(robot, fit.drives, recording, fit.top_speed) for recording in tested]
    errors = rollout_errors(robot, fit.drives, tested, fit.top_speed, options.stretches, whole)
    names = robot.active_names
    servo = ServoModel(
        names,
        fit.drives,
        fit.covariance,
        fit.scale_told,
        position_errors(whole, tested),
        fit.rms,
        fit.top_speed,
        {h: _by_joint(names, row) for h, row in errors.items()},
        bool(unseen),
    )
    model = model_with_drives(robot, servo)
    still = ~np.any([moved_joints(samples) for samples in recordings], axis=0)
    verdict = servo_verdict(servo, trivial_errors(tested), still)
    obtained: dict[str, Plain] = {
        "method": "servo",
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "version": __version__,
        "recordings": [samples.source for samples in recordings],
        "validation": [samples.source for samples in validate],
        "command": command,
        "verdict": [{"level": remark.level.value, "text": remark.text} for remark in verdict],
        "used": speeds_and_loads(model.robot, servo, fitted),
    }
    return replace(model, obtained=obtained), verdict


def speeds_and_loads(robot: Robot, servo: ServoModel, recordings: Sequence[ServoRecording]) -> dict[str, Plain]:
    """Return, by joint, the top speed [rad/s or m/s] and the mean torque of gravity on its gear [N.m or N]."""
    speed = np.max([np.abs(r.v).max(axis=0) for r in recordings], axis=0)
    q = np.concatenate([r.y for r in recordings]) - servo.drives.ratios[BIAS]
    still = np.zeros_like(q)
    links = frictionless(robot, standard_vector(robot, robot.parameters))
    load = np.mean(np.abs(inverse_dynamics(*links, q, still, still)), axis=0)
    rows = zip(robot.active_names, speed.tolist(), load.tolist(), strict=True)
    return {name: {"speed": top, "load": torque} for name, top, torque in rows}


def _by_joint(names: Sequence[str], row: Array) -> dict[str, float]:
    return {**dict(zip(names, map(float, row), strict=True)), "all": float(np.sqrt(np.mean(row**2)))}


def with_drives(robot: Robot, servo: ServoModel) -> Array:
    """Return the standard parameters as described, with armature, damping and Coulomb friction of the drives."""
    chi = standard_vector(robot, robot.parameters).copy()
    drives = by_joint(robot, chi)
    for joint, row in zip(robot.active, servo.rows(), strict=True):
        drives[joint - 1, [IA, Fv, Fc, OFF]] = (row.armature.value, row.damping.value, row.coulomb.value, 0.0)
    return chi


def model_with_drives(robot: Robot, servo: ServoModel) -> IdentifiedModel:
    """Return the model of the links as described, with armature, friction and offset of the drives; no error bars."""
    chi, rows, friction = with_drives(robot, servo), servo.rows(), []
    for place, joint in enumerate(robot.active):
        row = rows[place]
        for k, term in enumerate(servo.drives.terms):
            ratio = servo.drives.ratios[OWN + k, place]
            coefficient = ratio * (1.0 if term.kind.loaded else row.kp.value)
            if coefficient:
                friction.append(friction_term(term, joint, float(coefficient)))
    robot = replace(robot, friction=tuple(friction))
    base = base_parameters(robot)
    place_of = {name: k for k, name in enumerate(standard_names(robot))}
    value = np.array([sum(c * chi[place_of[name]] for name, c in base.terms(k).items()) for k in range(len(base))])
    b = len(value)
    return model_of(robot, base, value, np.full(b, np.inf), np.zeros((b, b)), servo=servo)


def position_errors(errors: Sequence[Array], recordings: Sequence[ServoRecording]) -> Array:
    """Return what positions are wrong by at rest, and for each unit of speed, shape (2, n), from errors of rollouts.

    Their squares are fitted by a + b v^2, and scaled so that COVERED of them lie in their band.
    """
    error, speed = np.concatenate(errors), np.concatenate([r.v for r in recordings])
    result = np.zeros((2, error.shape[1]))
    for j in range(error.shape[1]):
        slow = np.abs(speed[:, j]) < SLOW * np.abs(speed[:, j]).max()
        rest = np.mean(error[slow, j] ** 2) if slow.any() else np.mean(error[:, j] ** 2)
        moving = speed[~slow, j]
        excess = np.maximum(np.mean(error[~slow, j] ** 2) - rest, 0.0) if len(moving) else 0.0
        law = np.array([rest, excess / max(np.mean(moving**2), 1e-12) if len(moving) else 0.0])
        band = np.sqrt(law[0] + law[1] * speed[:, j] ** 2)
        widths = np.quantile(np.abs(error[:, j]) / np.maximum(band, 1e-12), COVERED) / BAND
        result[:, j] = np.sqrt(law) * widths
    return result


SLOW = 0.05
"""A joint rests below this share of its top speed."""
COVERED, BAND = 0.95, 1.96
"""Share of the positions in a band of so many standard deviations."""


def trivial_errors(recordings: Sequence[ServoRecording]) -> Array:
    """Return the errors of commands taken for positions, root mean square (n,)."""
    return np.asarray(np.sqrt(np.mean(np.concatenate([r.commanded - r.y for r in recordings]) ** 2, axis=0)))


def servo_verdict(servo: ServoModel, trivial: Array, still: Array) -> tuple[Remark, ...]:
    """Return what a user has to know about identified drives.

    trivial: errors of commands taken for positions (n,) [rad or m]; still: joints whose command never changes, (n,).
    """
    remarks = []
    whole = servo.errors["whole"]["all"]
    where = "held-out motion" if servo.held_out else "the recordings it was fitted to"
    remarks.append(
        Remark(Level.NOTE, f"rolled out along its commands, the model is off by {whole:.2g} rad (rms) on {where}")
    )
    rows = list(zip(servo.joints, trivial.tolist(), still.tolist(), strict=True))
    resting = [name for name, _, rests in rows if rests]
    if resting:
        text = f"the command of {', '.join(resting)} is constant: nothing of its servo is identified; record it moving"
        remarks.append(Remark(Level.WARNING, text))
    worse = [name for name, error, rests in rows if not rests and servo.errors["whole"][name] > error]
    if worse:
        text = (
            f"the model moves {', '.join(worse)} no nearer to the recording than its commands are: fit to motion as "
            "fast as it, or check joint order, units and time stamps of the references"
        )
        remarks.append(Remark(Level.PROBLEM, text))
    untold = [name for name, told in zip(servo.joints, servo.scale_told, strict=True) if not told]
    if untold:
        text = (
            f"the stiffness of {', '.join(untold)} has no scale of its own in this recording: only the ratios of "
            "armature, damping, friction and limit to kp are identified; record with a known load, or give kp in "
            "the robot file (servo: {kp: ..., kd: ...})"
        )
        remarks.append(Remark(Level.WARNING, text))
    limited = [row.joint for row in servo.rows() if row.limit is not None]
    if limited:
        remarks.append(Remark(Level.NOTE, f"the servos of {', '.join(limited)} reach their limit in the recording"))
    return tuple(remarks)


def predicted_std(servo: ServoModel, v: Array) -> Array:
    """Return the standard deviation of simulated positions at the speeds v, shape (N, n) [rad or m].

    It is that of rollouts against recorded positions, so it holds the error bars of the parameters already.
    """
    return np.asarray(np.hypot(servo.error[0], servo.error[1] * v))
