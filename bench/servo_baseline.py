# SPDX-License-Identifier: Apache-2.0

"""Rollouts of identified position servos beside a second-order response for each joint, on motion that was not fitted.

    ./dynid python bench/servo_baseline.py ROBOT HELD_OUT.csv FITTED.csv [FITTED.csv ...]

The baseline is y'' = w^2 (u(t - delay) + bias - y) - 2 z w y' for each joint, with all four fitted by least squares to
the recordings that the servos are fitted to, and rolled out along the held-out commands from their first position.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.optimize import least_squares
from scipy.signal import cont2discrete, lfilter

from ros2_dynid.identification.servo.estimate import ServoOptions, estimate_drives, read_servo_recordings
from ros2_dynid.identification.servo.recording import ServoRecording
from ros2_dynid.identification.servo.rollout import whole_errors
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.read import load_samples

START = ((10.0, 1.0, 0.02, 0.0), (20.0, 1.0, 0.05, 0.0), (40.0, 0.7, 0.0, 0.0))
"""Starts of the fit: w [rad/s], z, delay [s], bias [rad]."""


def second_order(x: np.ndarray, recording: ServoRecording, j: int) -> np.ndarray:
    """Return y of joint j at the recording's times for w, z, delay and bias."""
    w, z, delay, bias = x
    t, u = recording.t, recording.commanded[:, j]
    even = np.arange(t[0], t[-1] + recording.period, recording.period)
    late = np.interp(even - delay, t, u)
    A = np.array([[0.0, 1.0], [-(w**2), -2.0 * z * w]])
    system = (A, np.array([[0.0], [w**2]]), np.array([[1.0, 0.0]]), np.zeros((1, 1)))
    Ad, Bd, Cd, _, _ = cont2discrete(system, recording.period)
    numerator = np.array([0.0, (Cd @ Bd).item(), (Cd @ (Ad - np.trace(Ad) * np.eye(2)) @ Bd).item()])
    start = late[0]
    response = start + lfilter(numerator, np.poly(Ad), late - start)
    return np.asarray(np.interp(t, even, response)) + bias


def fit_baseline(recordings: list[ServoRecording], j: int) -> np.ndarray:
    """Return w, z, delay and bias of joint j."""

    def errors(x: np.ndarray) -> np.ndarray:
        return np.concatenate([second_order(x, r, j) - r.y[:, j] for r in recordings])

    bounds = ([1.0, 0.05, 0.0, -1.0], [300.0, 10.0, 0.3, 1.0])
    fits = [least_squares(errors, x, bounds=bounds, x_scale=(10.0, 1.0, 0.01, 0.01)) for x in START]
    return np.asarray(min(fits, key=lambda fit: fit.cost).x)


def main() -> None:
    """Print the rollout errors of commands taken for positions, of the baseline and of the identified servos."""
    robot = load_robot(sys.argv[1])
    options = ServoOptions()
    samples = [load_samples(path, robot) for path in sys.argv[2:]]
    held, *fitted = read_servo_recordings(robot, samples, options)
    n = held.y.shape[1]
    began = time.perf_counter()
    baseline = np.stack([second_order(fit_baseline(fitted, j), held, j) for j in range(n)], axis=1) - held.y
    seconds = [time.perf_counter() - began]
    began = time.perf_counter()
    fit = estimate_drives(robot, fitted, options, lambda stage, share: None)
    servos = whole_errors(robot, fit.drives, held, fit.top_speed)
    seconds.append(time.perf_counter() - began)
    rows = (("commands as positions", held.commanded - held.y), ("second order", baseline), ("servos", servos))
    for name, error in rows:
        joints = ", ".join(f"{1e3 * x:.2f}" for x in np.sqrt(np.mean(error**2, axis=0)))
        print(f"{name}: {1e3 * np.sqrt(np.mean(error**2)):.2f} mrad ({joints})")
    print(f"seconds: second order {seconds[0]:.1f}, servos {seconds[1]:.1f}")


if __name__ == "__main__":
    main()
