# SPDX-License-Identifier: Apache-2.0

"""Motion for position servos: within all limits, with what tells their parameters apart, also as LeRobot actions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.excitation.limits import Caps, check_trajectory
from ros2_dynid.excitation.servo_motion import AMPLITUDES, HOLD_S, STEPS, servo_motion
from ros2_dynid.excitation.trajectory import load_trajectory
from ros2_dynid.model.robot import Joint, Limits, Robot
from ros2_dynid.usecases.plan import PlanMethod, PlanRequest, plan
from ros2_dynid.usecases.robot_source import RobotSource

LIMITS = Limits(lower=-0.8, upper=1.2, velocity=3.0, acceleration=40.0)
ROBOT = Robot("two", (Joint("a", 0, limits=LIMITS), Joint("b", 1, alpha=1.57, limits=LIMITS)))


def test_servo_motion_shows_every_amplitude_speed_and_hold_within_the_limits() -> None:
    """Each joint moves alone, through reversals of all amplitudes that reach 3 Hz, crawls and rests after steps."""
    trajectory = servo_motion(ROBOT)
    assert not check_trajectory(ROBOT, trajectory)
    s = trajectory.sample(500.0)
    moving = np.abs(s.dq) > 1e-6
    assert not np.any(moving.all(axis=1))
    for j in range(2):
        speed = np.abs(s.dq[moving[:, j], j])
        assert speed.max() > 0.9 * 0.95 * 3.0 or np.abs(s.ddq[:, j]).max() > 0.9 * 0.95 * 40.0
        assert np.mean((speed > 0.01) & (speed < 0.15)) > 0.2, "slow reversals"
        turns = s.q[1:-1][np.diff(np.sign(s.dq[:, j]))[:-1] != 0, j]
        half = 0.5 * np.ptp(s.q[:, j])
        for amplitude in AMPLITUDES:
            assert np.any(np.abs(np.abs(turns - turns.mean()) - amplitude * half) < 0.1 * half)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], (~moving[:, j]).astype(int), [0]))))
        rests = (edges[1::2] - edges[::2]) / 500.0
        assert np.sum(np.abs(rests - HOLD_S) < 0.1) >= len(STEPS)


def test_caps_are_kept_and_impossible_ones_refused() -> None:
    """A cap of speed holds; a range without room is one line."""
    slow = servo_motion(ROBOT, caps=Caps(velocity=0.3))
    assert np.abs(slow.sample(200.0).dq).max() <= 0.3
    with pytest.raises(InputError, match="limits are too close"):
        servo_motion(ROBOT, caps=Caps(position=0.001))


def test_files_are_a_trajectory_a_table_and_lerobot_actions(tmp_path: Path) -> None:
    """The same motion in all three; LeRobot has degrees, and metres of joints that slide."""
    robot = tmp_path / "arm.yaml"
    robot.write_text(
        "name: arm\njoints:\n"
        "- {name: a, parent: 0, limits: {lower: -0.8, upper: 1.2, velocity: 3.0, acceleration: 40.0}}\n"
        "- {name: s, parent: 1, type: prismatic, limits: {lower: 0.0, upper: 0.2, velocity: 0.5, acceleration: 8.0}}\n"
    )
    for name in ("motion.yaml", "motion.jsonl"):
        plan(PlanRequest(RobotSource(str(robot)), str(tmp_path / name), PlanMethod.SERVO))
    s = load_trajectory(tmp_path / "motion.yaml").sample(50.0)
    actions = [json.loads(line) for line in (tmp_path / "motion.jsonl").read_text().splitlines()]
    assert np.allclose([a["a.pos"] for a in actions], np.degrees(s.q[:, 0]))
    assert np.allclose([a["s.pos"] for a in actions], s.q[:, 1])
