# SPDX-License-Identifier: Apache-2.0

"""Stiffness of drives between an encoder at the motor and one at the link, joint by joint.

The motor's side alone tells it, whatever the links weigh and however they move:

    tau = Ia ddq_m + Fv dq_m + Fc sign(dq_m) + k (q_m - q) + d (dq_m - dq) + c

with both positions on the joint's side of the gear. All signals pass one low-pass, and the rows are fitted by least
squares. Errors of neighbouring rows belong together, so error bars come from the scatter between blocks of them.
k (q_m - q) + c is then the torque at the link: a sensor, up to the motor's offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.errors import InputError, remark
from ros2_dynid.identification.preparation.even_grid import even_grid
from ros2_dynid.identification.preparation.filters import filter_signal, lowpass_kernel
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import Samples

K, D, C = 3, 4, 5
"""Columns of the stiffness, the damping and the constant."""


@dataclass(frozen=True)
class StiffnessThresholds:
    """When a stiffness counts as seen.

    cutoff: of the low-pass [Hz]: above the motion, which arms keep below 10 Hz, and below most noise. slow: share of
    the top speed below which the sign of friction is in doubt and rows are left out. blocks: of rows, whose errors are
    taken for independent. seen: standard deviations from zero. same: twist [rad, m], its standard deviation, below
    that no encoder tells. agreement: of the stiffness with the one from the twist as the dependent
    variable, which is as much too high as noise in the twist makes this one too low.
    """

    cutoff: float = 20.0
    slow: float = 0.1
    blocks: int = 30
    seen: float = 5.0
    same: float = 1e-9
    agreement: float = 0.2


THRESHOLDS = StiffnessThresholds()


@dataclass(frozen=True)
class DriveStiffness:
    """Stiffness k, damping d [N.m/rad, N.m.s/rad; N/m, N.s/m] and rotor inertia Ia of a drive, with error bars.

    offset: c [N.m, N]; twist: standard deviation of q_m - q [rad, m]; doubt: why k must not be used, "" if it may.
    """

    joint: str
    k: float
    k_std: float
    d: float
    d_std: float
    Ia: float
    Ia_std: float
    offset: float
    twist: float
    doubt: str

    @property
    def resonance(self) -> float:
        """Frequency of the motor against a link that is held [Hz], NaN where k or Ia is not known."""
        return float(np.sqrt(self.k / self.Ia) / (2.0 * np.pi)) if self.k > 0.0 and self.Ia > 0.0 else np.nan


def estimate_stiffness(
    recordings: Sequence[Samples], thresholds: StiffnessThresholds = THRESHOLDS
) -> tuple[DriveStiffness, ...]:
    """Return the stiffness of each joint's drive from recordings with positions of motors and links, and efforts."""
    names = recordings[0].joint_names
    prepared = [part for samples in recordings for part in _filtered_parts(samples, thresholds)]
    return tuple(_of_joint(name, prepared, j, thresholds) for j, name in enumerate(names))


def with_link_torque(samples: Samples, drives: Sequence[DriveStiffness]) -> Samples:
    """Return the samples with the torque that drives of known stiffness pass on to the links, NaN at other joints."""
    assert samples.q_m is not None
    tau = np.full(samples.q.shape, np.nan)
    for j, drive in enumerate(drives):
        if not drive.doubt:
            tau[:, j] = drive.k * (samples.q_m[:, j] - samples.q[:, j]) + drive.offset
    note = remark("NAME.torque is k (q_m - q) of the drives: a torque at the link, up to the motor's offset")
    return replace(samples, tau_l=tau).noted(note)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Filtered signals of a stretch, (N, n): the motor's motion and direction, the twist and its speed, the effort."""

    dq_m: Array
    direction: Array
    ddq_m: Array
    twist: Array
    twist_speed: Array
    tau: Array


def _filtered_parts(samples: Samples, limits: StiffnessThresholds) -> list[_Rows]:
    """Return the filtered signals, thinned to the rows that the low-pass leaves independent."""
    q_m, tau = samples.q_m, samples.tau
    if q_m is None or tau is None:
        lack = "NAME.motor_position" if q_m is None else "NAME.effort"
        raise InputError(f"the recording has no {lack}", "record the motors' encoders and efforts", samples.source)
    if not all(np.isfinite(x).all() for x in (samples.q, q_m, tau)):
        raise InputError("a position or effort is unknown", "cut or repair the data first", samples.source)
    grid = even_grid(replace(samples, q_r=q_m))  # a second set of positions, resampled as the first one
    rate = grid.spectrum.rate
    cutoff = min(limits.cutoff, 0.25 * rate)
    step = max(1, int(rate / (2.0 * cutoff)))
    kernels = [lowpass_kernel(cutoff, rate, derivative) for derivative in range(3)]
    parts = []
    for part in grid.parts:
        if part.q_r is None or len(part.t) <= 2 * len(kernels[0]):
            continue
        twist = part.q_r - part.q
        dq_m, ddq_m = (filter_signal(part.q_r, kernels[i], step) for i in (1, 2))
        smooth, speed, tau = (filter_signal(x, kernels[i], step) for x, i in ((twist, 0), (twist, 1), (part.tau, 0)))
        sign = np.sign(filter_signal(part.q_r, kernels[1], 1))  # at each sample, then through the low-pass as the rest
        reach = len(kernels[0]) // 2
        direction = filter_signal(np.pad(sign, ((reach, reach), (0, 0)), mode="edge"), kernels[0], step)
        parts.append(_Rows(dq_m, direction, ddq_m, smooth, speed, tau))
    if not parts:
        raise InputError("the recording is too short", "record some seconds at 50 Hz or more", samples.source)
    return parts


def _of_joint(name: str, parts: Sequence[_Rows], j: int, limits: StiffnessThresholds) -> DriveStiffness:
    dq_m, direction, ddq_m, twist, twist_speed, tau = (
        np.concatenate([getattr(part, field)[:, j] for part in parts])
        for field in ("dq_m", "direction", "ddq_m", "twist", "twist_speed", "tau")
    )
    fast = np.abs(dq_m) > limits.slow * np.abs(dq_m).max(initial=0.0)
    A = np.column_stack((ddq_m, dq_m, direction, twist, twist_speed, np.ones(len(tau))))[fast]
    if len(A) < 2 * limits.blocks or np.std(twist) < limits.same:
        why = "it hardly moved" if len(A) < 2 * limits.blocks else "both encoders show the same"
        nan = float("nan")
        return DriveStiffness(name, nan, nan, nan, nan, nan, nan, nan, nan, why)
    x, std = _fit(A, tau[fast], limits.blocks)
    reverse = _reverse_stiffness(A, tau[fast])
    drive = DriveStiffness(name, x[K], std[K], x[D], std[D], x[0], std[0], x[C], float(np.std(twist[fast])), doubt="")
    return replace(drive, doubt=_doubt(drive, reverse, limits))


def _doubt(drive: DriveStiffness, reverse: float, limits: StiffnessThresholds) -> str:
    """Return why a stiffness must not be used, "" if it may."""
    if not drive.k > limits.seen * drive.k_std:
        return f"k = {drive.k:.3g} +- {drive.k_std:.2g}: not told from zero"
    if not abs(reverse / drive.k - 1.0) <= limits.agreement:
        return f"noise hides it: {drive.k:.3g} from the effort, {reverse:.3g} from the twist"
    return ""


def _fit(A: Array, b: Array, blocks: int) -> tuple[Array, Array]:
    """Return the least-squares solution of A x = b and its standard deviations, from the scatter between blocks."""
    size = np.linalg.norm(A, axis=0)
    size[size == 0.0] = 1.0
    A = A / size
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    inverse = np.linalg.pinv(A.T @ A)
    scores = np.array(
        [part.T @ rest for part, rest in zip(np.array_split(A, blocks), np.array_split(b - A @ x, blocks), strict=True)]
    )
    spread = inverse @ (scores.T @ scores) @ inverse * blocks / (blocks - 1)
    return x / size, np.sqrt(np.diag(spread)) / size


def _reverse_stiffness(A: Array, b: Array) -> float:
    """Return k from a fit of the twist: noise in the twist does not lower it."""
    columns = np.delete(A, K, axis=1)
    size = np.linalg.norm(np.column_stack((columns, b)), axis=0)
    size[size == 0.0] = 1.0
    slope = np.linalg.lstsq(np.column_stack((columns, b)) / size, A[:, K], rcond=None)[0][-1] / size[-1]
    return float(1.0 / slope) if slope else np.inf
