# SPDX-License-Identifier: Apache-2.0

"""Drift: a torque error of the served model well above what its own data and its error bars allow for.

A payload picked up or changed friction shows at once, before the estimates have moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.codegen.backend import fast_inverse_dynamics
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.preparation.filters import filter_signal, lowpass_kernel
from ros2_dynid.identification.torque_std import torque_scatter, torque_std
from ros2_dynid.model.robot import Array, Robot

DRIFT_SECONDS = 1.0
"""Time constant of the torque error that drift is judged by."""
STILL_SPEED = 0.02
"""Torque errors of joints slower than this [rad/s or m/s] are left out: Coulomb friction has no known sign there."""


@dataclass(frozen=True)
class Drift:
    """For each joint: torque error of the reference model now over what was to be expected; worst joint and verdict."""

    ratio: Array
    joint: str
    drifting: bool


class TorqueErrorWatch:
    """Mean square torque error of a model along a stream at `rate` [Hz], judged at every step-th sample.

    error: the mean square [N^2.m^2]; variance: what the model's error bars give it; both (n,), over DRIFT_SECONDS.
    """

    def __init__(self, robot: Robot, rate: float, *, step: int, cutoff: float) -> None:
        """Start without an error; cutoff of positions and efforts [Hz]."""
        n = len(robot.active)
        self._joints, self._rate, self._step = robot.active_names, rate, step
        self._kernels = [lowpass_kernel(cutoff, rate, derivative) for derivative in range(3)]
        self._tail = np.empty((0, 2 * n + 1))
        self.error, self.variance = np.zeros(n), np.zeros(n)

    def restart(self) -> None:
        """Forget the samples that the next ones do not continue."""
        self._tail = self._tail[:0]

    def follow(self, samples: Array, reference: IdentifiedModel) -> None:
        """Take the next samples [t q tau], shape (N, 2 n + 1), and judge the reference where the filters fit."""
        data = np.concatenate((self._tail, samples))
        length, n = len(self._kernels[0]), len(self._joints)
        usable = (len(data) - length) // self._step if len(data) >= length else 0
        if usable <= 0:
            self._tail = data
            return
        # Outputs at every step-th sample from where the kernel first fits; the tail keeps what later ones need.
        count = usable * self._step
        stretch = data[: length - 1 + count]
        self._tail = data[count:]
        q, dq, ddq = (filter_from_first_fit(stretch[:, 1 : n + 1], kernel, self._step) for kernel in self._kernels)
        tau = filter_from_first_fit(stretch[:, n + 1 :], self._kernels[0], self._step)
        error = tau - fast_inverse_dynamics(reference.robot, reference.chi, q, dq, ddq)
        std = torque_std(reference, q, dq, ddq)
        share = np.exp(-self._step / self._rate / DRIFT_SECONDS)
        for square, spread, speed in zip(error**2, np.where(np.isfinite(std), std, 0.0) ** 2, np.abs(dq), strict=True):
            fast = speed > STILL_SPEED
            self.error[fast] = share * self.error[fast] + (1 - share) * square[fast]
            self.variance[fast] = share * self.variance[fast] + (1 - share) * spread[fast]

    def compare(self, reference: IdentifiedModel, ratio: float) -> Drift:
        """Compare the recent torque error with what the reference's own data and its error bars allow for."""
        usual = np.array([reference.fit[name].rms for name in self._joints])
        level = np.maximum(usual, torque_scatter(reference).sigma)
        expected = np.sqrt(level**2 + self.variance)
        now = np.sqrt(self.error) / np.where(expected > 0, expected, 1.0)
        worst = int(np.argmax(now))
        return Drift(now, self._joints[worst], bool(now[worst] > ratio))


def filter_from_first_fit(x: Array, kernel: Array, step: int) -> Array:
    """Return the kernel's outputs at every step-th place of x, shape (N, n), from the first one where it fits."""
    pad = (-(len(kernel) - 1)) % step  # `filter_signal` counts its places from the first sample
    padded = np.concatenate((np.zeros((pad, x.shape[1])), x)) if pad else x
    return filter_signal(padded, kernel, step)
