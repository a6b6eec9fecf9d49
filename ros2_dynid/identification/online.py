"""Identification while the robot works: every joint state counts, estimates follow, and drift is noticed.

Joint states at their own rate go through the same low-pass filters as a recording's (positions, their derivatives and
torques alike), are taken down to a slower rate, and become rows of the sequential estimator, which forgets with a time
constant. Drift is a torque error of the served model well above the one it had on its own data: a payload picked up or
changed friction shows at once, before the estimates have moved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codegen.backend import fast_inverse_dynamics, fast_regressor
from ros2_dynid.identification.estimators.sequential import FilterState, start, update
from ros2_dynid.identification.model_file import IdentifiedModel, model_of
from ros2_dynid.identification.preparation.filters import filtered, lowpass_kernel
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

DRIFT_SECONDS = 1.0
"""Time constant of the torque error that drift is judged by."""
STILL = 0.02
"""Rows of joints slower than this [rad/s or m/s] are left out: Coulomb friction has no known sign there."""


@dataclass(frozen=True)
class Drift:
    """For each joint: torque error of the reference model now over the one on its own data; worst joint and verdict."""

    ratio: Array
    joint: str
    drifting: bool


class OnlineEstimator:
    """The sequential estimator behind a stream of joint states at `rate` [Hz], rows at `row_rate` [Hz]."""

    def __init__(
        self, robot: Robot, rate: float, *, row_rate: float = 100.0, cutoff: float = 15.0, memory: float = 30.0
    ) -> None:
        """Start knowing nothing; `cutoff` of the filters [Hz], `memory` [s] after which rows count 1/e."""
        self.robot, self._rate = robot, rate
        self._base = base_parameters(robot, method="closed-form")
        self._columns = self._base.columns(robot)
        self._step = max(1, round(rate / row_rate))
        self._kernels = [lowpass_kernel(cutoff, rate, derivative) for derivative in range(3)]
        n = len(robot.active)
        self._forgetting = float(np.exp(-self._step / rate / memory / n))
        self._terms: tuple[FrictionTerm, ...] = ()
        self._pending: list[tuple[Array, Array]] = []
        self._tail = np.empty((0, 2 * n))
        self._weights: Array | None = None
        self.state: FilterState = start(len(self._base))
        self._error = np.zeros(n)
        self.samples = 0

    def take(self, q: Array, tau: Array) -> None:
        """Take one joint state: positions and torques, shape (n,); one with NaN breaks the stream."""
        self.samples += 1
        self._pending.append((q.copy(), tau.copy()))

    def work(self, reference: IdentifiedModel | None = None) -> int:
        """Turn what came into rows and update the estimate; return the number of rows used."""
        if not self._pending:
            return 0
        new = np.array([np.concatenate(pair) for pair in self._pending])
        self._pending = []
        if not np.all(np.isfinite(new)):
            self._tail = self._tail[:0]
            return 0
        data = np.concatenate((self._tail, new))
        length = len(self._kernels[0])
        usable = (len(data) - length) // self._step if len(data) >= length else 0
        if usable <= 0:
            self._tail = data
            return 0
        # Outputs at every step-th sample from where the kernel first fits; the tail keeps what later ones need.
        count = usable * self._step
        stretch = data[: length - 1 + count]
        self._tail = data[count:]
        n = len(self.robot.active)
        q, tau = stretch[:, :n], stretch[:, n:]
        q_f, dq, ddq = (_inside(q, kernel, self._step) for kernel in self._kernels)
        return self._use(q_f, dq, ddq, _inside(tau, self._kernels[0], self._step), reference)

    def _use(self, q: Array, dq: Array, ddq: Array, tau: Array, reference: IdentifiedModel | None) -> int:
        Y = np.asarray(fast_regressor(self.robot, q, dq, ddq))
        if reference is not None:
            plain = Y @ reference.chi
            self._terms = reference.robot.friction  # are taken as they are: only what is linear is followed
            if self._terms:
                tau = tau - (fast_inverse_dynamics(reference.robot, reference.chi, q, dq, ddq) - plain)
            self._judge(tau - plain, dq)
        W = Y[:, :, self._columns]
        moving = np.abs(dq) > STILL
        if self._weights is None:
            scale = np.sqrt(np.mean(tau**2, axis=0))
            self._weights = 1 / np.where(scale > 0, scale, 1.0)
        rows = np.concatenate((W, tau[:, :, None]), axis=2) * self._weights[:, None]
        chosen = rows[moving]
        if len(chosen):
            self.state = update(self.state, chosen, self._forgetting)
        return len(chosen)

    def _judge(self, error: Array, dq: Array) -> None:
        share = np.exp(-self._step / self._rate / DRIFT_SECONDS)
        for row, speed in zip(error**2, np.abs(dq), strict=True):
            fast = speed > STILL
            self._error[fast] = share * self._error[fast] + (1 - share) * row[fast]

    def estimate(self) -> IdentifiedModel | None:
        """Return the estimate with its standard deviations, or None before the data determine every parameter."""
        if len(self.state.R) < len(self._base) + 1:
            return None
        found = self.state.solution
        if found.rank < len(self._base):
            return None
        b = len(self._base)
        inverse = solve_triangular(self.state.R[:b, :b], np.eye(b))
        covariance = self.state.variance * inverse @ inverse.T
        return model_of(
            replace(self.robot, friction=self._terms),
            self._base,
            found.value,
            np.sqrt(np.diag(covariance)),
            covariance,
            obtained={"method": "sequential"},
        )

    def drift(self, reference: IdentifiedModel, ratio: float) -> Drift:
        """Compare the recent torque error with that of the reference on its own data."""
        usual = np.array([reference.fit[name].rms for name in self.robot.active_names])
        now = np.sqrt(self._error) / np.where(usual > 0, usual, 1.0)
        worst = int(np.argmax(now))
        return Drift(now, self.robot.active_names[worst], bool(now[worst] > ratio))


def _inside(x: Array, kernel: Array, step: int) -> Array:
    """Return the kernel's outputs at every step-th place of x, shape (N, n), from the first one where it fits."""
    pad = (-(len(kernel) - 1)) % step  # `filtered` counts its places from the first sample
    padded = np.concatenate((np.zeros((pad, x.shape[1])), x)) if pad else x
    return filtered(padded, kernel, step)
