"""Motions that are safe for the shipped three-joint robot."""

from __future__ import annotations

import numpy as np

from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory


def saved_motion(folder, robot, seconds=6.0):
    """Write a slow motion of all joints as a trajectory file."""
    t = np.linspace(0, seconds, 31)
    shape = (1 - np.cos(2 * np.pi * t / seconds)) / 2
    amplitude = np.full(robot.n, 0.4)
    q = shape[:, None] * amplitude - np.array([0.0, 1.0, 0.0])[: robot.n]
    dq = np.pi / seconds * np.sin(2 * np.pi * t / seconds)[:, None] * amplitude
    dq[[0, -1]] = 0.0
    folder.mkdir(parents=True, exist_ok=True)
    save_trajectory(folder / "slow.yaml", Trajectory(robot.active_names, through_points(t, q, dq)))
