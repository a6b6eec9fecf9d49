# SPDX-License-Identifier: Apache-2.0

"""Rollouts: identified drives along commands alone, and their errors after some time and over a whole motion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.identification.servo.drive import BIAS, COMPLIANCE, Drives
from ros2_dynid.identification.servo.fit import rigid_along
from ros2_dynid.identification.servo.recording import (
    ServoRecording,
    StretchOptions,
    cut_stretches,
    join_stretches,
    unbroken_pieces,
)
from ros2_dynid.identification.servo.rigid_terms import a_priori_links, rigid_terms
from ros2_dynid.identification.servo.simulation import (
    Commands,
    Motion,
    Stretches,
    simulate_motion,
    simulate_samples,
)
from ros2_dynid.model.robot import Array, Robot

HORIZONS = (0.1, 0.5, 2.0)
"""Times after a start at which the errors of rollouts are given [s]."""
STEP = 1e-3
"""Largest step of a rollout [s]: servos that reach their limit are right to 1e-3 of the motion."""
AGREEMENT = 1e-6
"""Largest change of a position [rad or m] between repetitions of a rollout that ends them."""
REPETITIONS = 30
"""Repetitions at most: each makes the joints' influence on each other that much truer."""


@dataclass(frozen=True, eq=False)
class Rollout:
    """Measured positions y, speeds v and torques of the drives at the times t, (N,), shape (N, n)."""

    t: Array
    y: Array
    v: Array
    effort: Array


def roll_out(
    robot: Robot,
    drives: Drives,
    commands: Commands,
    t: Array,
    y: Array,
    v: Array,
    top_speed: float,
) -> Rollout:
    """Return the motion of drives (K, n) along commands, from measured position y and speed v at t[0], shape (n,)."""
    recording = ServoRecording(
        commands, t, np.broadcast_to(y, (len(t), len(y))), np.broadcast_to(v, (len(t), len(v))), _period(t)
    )
    whole = StretchOptions(length=t[-1] - t[0] + _period(t), settling=0.0, step=STEP, gap=np.inf)
    stretches = cut_stretches(recording, whole)
    motion = _settle(robot, drives, (commands,), stretches, top_speed)
    rigid = rigid_along(robot, a_priori_links(robot), motion, stretches.step)
    simulated = simulate_samples(Drives(drives.ratios[:, None], drives.terms), (commands,), rigid, stretches, top_speed)
    edges = t[0] + stretches.step[0] * np.arange(stretches.steps + 1)
    columns = range(len(y))
    middle = 0.5 * (edges[1:] + edges[:-1])
    speed = np.stack([np.interp(t, edges, motion.v[:, 0, j]) for j in columns], axis=1)
    force = np.stack([np.interp(t, middle, motion.force[:, 0, j]) for j in columns], axis=1)
    positions = np.vstack((y, simulated.y[0, 0].T[: len(t) - 1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        effort = force / drives.ratios[COMPLIANCE]
    return Rollout(t, positions, speed, effort)


def _period(t: Array) -> float:
    return float(np.median(np.diff(t)))


def _settle(
    robot: Robot, drives: Drives, commands: Sequence[Commands], stretches: Stretches, top_speed: float
) -> Motion:
    """Return the motion whose rigid body is that of itself: simulated until it repeats."""
    chi = a_priori_links(robot)
    shape = (stretches.steps, *stretches.y.shape)
    q = np.broadcast_to(stretches.y - drives.ratios[BIAS], shape)
    rigid = rigid_terms(robot, chi, q, np.zeros(shape), np.zeros(shape))
    motion = simulate_motion(drives, commands, rigid, stretches, top_speed)
    for _ in range(REPETITIONS):
        before = motion.q
        motion = simulate_motion(
            drives, commands, rigid_along(robot, chi, motion, stretches.step), stretches, top_speed
        )
        if np.max(np.abs(motion.q - before)) < AGREEMENT:
            break
    return motion


def rollout_errors(
    robot: Robot,
    drives: Drives,
    recordings: Sequence[ServoRecording],
    top_speed: float,
    options: StretchOptions,
    whole: Sequence[Array],
) -> Mapping[str, Array]:
    """Return the root mean square errors of the positions, shape (n,), by horizon: "0.1", "0.5", "2" [s], "whole".

    whole: errors over each whole recording (`whole_errors`).
    """
    longest = max(HORIZONS)
    parts = [cut_stretches(r, replace(options, length=longest + 2.0 * r.period, settling=0.0)) for r in recordings]
    stretches = join_stretches(parts)
    commands = tuple(r.commands for r in recordings)
    motion = _settle(robot, drives, commands, stretches, top_speed)
    rigid = rigid_along(robot, a_priori_links(robot), motion, stretches.step)
    wide = Drives(drives.ratios[:, None], drives.terms)
    error = simulate_samples(wide, commands, rigid, stretches, top_speed).y[0] - np.moveaxis(stretches.measured, 0, 2)
    period = np.median([r.period for r in recordings])
    errors = {}
    for horizon in HORIZONS:
        slot = max(round(horizon / period) - 1, 0)
        errors[f"{horizon:g}"] = np.sqrt(np.nanmean(error[:, :, min(slot, error.shape[2] - 1)] ** 2, axis=0))
    errors["whole"] = np.sqrt(np.mean(np.concatenate(whole) ** 2, axis=0))
    return errors


def whole_errors(robot: Robot, drives: Drives, recording: ServoRecording, top_speed: float) -> Array:
    """Return simulated less measured positions over a whole recording, shape (N, n), anew after each pause."""
    t, y, v = recording.t, recording.y, recording.v
    errors = np.zeros_like(y)
    for rows in unbroken_pieces(t, recording.period, StretchOptions.gap):
        rollout = roll_out(robot, drives, recording.commands, t[rows], y[rows][0], v[rows][0], top_speed)
        errors[rows] = rollout.y - y[rows]
    return errors
