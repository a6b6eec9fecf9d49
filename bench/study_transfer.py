# SPDX-License-Identifier: Apache-2.0

"""Does what is identified hold for motions of another kind? Default settings, plain friction and a plain baseline.

    python bench/study_transfer.py [--first SEED] [--runs N] [--seconds S] [--urdf FILE ...]

Each run has a random arm (synthetic_arms.py), a recording of one kind of motion to fit and true torques of another kind
held out; errors are compared in a band of 4 Hz. The baseline is the regressor with Coulomb, viscous and rotor terms,
least squares with a zero-phase filter whose cut-off is the best of seven for the data held out. Printed for each run:
errors held out of the default, of plain friction and of the baseline; the verdict's error on stretches left out and its
level; the cut-offs of positions and rows; the terms; processor time. Then how many are worse than what.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import signal

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.codegen.backend import fast_regressor
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.friction_columns import AUTO, PLAIN
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.result import Identification
from ros2_dynid.model.robot import Array
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples
from synthetic_arms import KINDS, Arm, Sampling, held_out_error, motion, random_arm, record

CUTOFFS = (2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0)
RATE = 100.0
"""Samples a second of the motion held out."""


@dataclass(frozen=True, eq=False)
class HeldOutMotion:
    """True motion and torques that nothing is fitted to."""

    t: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array

    def error(self, predicted: Array) -> Array:
        """Return the relative errors of each joint and of all."""
        return held_out_error(self.tau, predicted, self.dq, RATE)


def baseline_errors(arm: Arm, samples: Samples, held_out: HeldOutMotion) -> dict[float, float]:
    """Return the error held out by cut-off [Hz]."""
    rate = 1.0 / float(np.median(np.diff(samples.t)))
    t = np.arange(samples.t[0], samples.t[-1], 1.0 / rate)
    assert samples.tau is not None
    q, tau = (np.column_stack([np.interp(t, samples.t, x) for x in array.T]) for array in (samples.q, samples.tau))
    columns = base_parameters(arm.robot, method="closed-form").columns(arm.robot)
    Y_out = _columns(arm, held_out.q, held_out.dq, held_out.ddq, columns)
    errors = {}
    for cutoff in (one for one in CUTOFFS if one < 0.2 * rate):
        sos = signal.butter(4, cutoff, fs=rate, output="sos")
        smooth, slow_tau = signal.sosfiltfilt(sos, q, axis=0), signal.sosfiltfilt(sos, tau, axis=0)
        dq = np.gradient(smooth, 1.0 / rate, axis=0)
        ddq = np.gradient(dq, 1.0 / rate, axis=0)
        kept = slice(int(rate), len(t) - int(rate), max(1, int(rate / (4.0 * cutoff))))
        Y = _columns(arm, smooth[kept], dq[kept], ddq[kept], columns)
        n = Y.shape[1]
        A, b = Y.reshape(-1, Y.shape[2]), slow_tau[kept].reshape(-1)
        weights = np.ones(n)
        for _ in range(2):
            W = np.tile(weights, len(A) // n)
            value = np.linalg.lstsq(A * W[:, None], b * W, rcond=1e-9)[0]
            weights = 1.0 / np.maximum(np.std((b - A @ value).reshape(-1, n), axis=0), 1e-9)
        errors[cutoff] = float(held_out.error(Y_out @ value)[-1])
    return errors


def _columns(arm: Arm, q: Array, dq: Array, ddq: Array, columns: Array) -> Array:
    return np.asarray(fast_regressor(arm.robot, q, dq, ddq))[:, :, columns]


def tried(arm: Arm, samples: Samples, held_out: HeldOutMotion, friction: str) -> tuple[Identification, Array, float]:
    """Return the identification, its errors held out, and the processor time [s]."""
    began = time.process_time()
    found = identify(arm.robot, [samples], options=IdentifyOptions(friction=friction))
    spent = time.process_time() - began
    predicted = found.model.torque(held_out.q, held_out.dq, held_out.ddq)
    return found, held_out.error(np.asarray(predicted)), spent


def main() -> None:
    """Print the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each recording")
    parser.add_argument("--urdf", type=Path, action="append", default=[], help="robots beside those of the tables")
    args = parser.parse_args()
    ratios, refused = [], 0
    for seed in range(args.first, args.first + args.runs):
        rng = np.random.default_rng([seed, 2])
        arm = random_arm(seed, args.urdf)
        fitted, other = rng.choice(KINDS, 2, replace=False)
        sampling = Sampling.random(rng)
        samples = record(arm, fitted, rng, args.seconds, sampling)
        t, q, dq, ddq = motion(other, rng, arm.top, 20.0, RATE)
        held_out = HeldOutMotion(t, q, dq, ddq, arm.torque(t, q, dq, ddq))
        print(f"{seed}: {arm.robot.name}, {fitted} -> {other}, {sampling}")
        try:
            default, errors, spent = tried(arm, samples, held_out, AUTO)
            _, plain_errors, plain_spent = tried(arm, samples, held_out, PLAIN)
        except DynidError as error:
            refused += 1
            print(f"   refused: {error}", flush=True)
            continue
        by_cutoff = baseline_errors(arm, samples, held_out)
        best = min(by_cutoff, key=lambda cutoff: by_cutoff[cutoff])
        said, filters = default.outcome, default.outcome.filter
        left_out = said.validation["all"].relative if said.validation else np.nan
        levels = {str(remark.level) for remark in said.verdict}
        worst = "problem" if "problem" in levels else "warning" if "warning" in levels else "good"
        ratios.append((errors[-1] / plain_errors[-1], errors[-1] / by_cutoff[best], left_out / errors[-1]))
        print(
            f"   default {100 * errors[-1]:.2f} %, plain {100 * plain_errors[-1]:.2f} %, baseline "
            f"{100 * by_cutoff[best]:.2f} % at {best:g} Hz; left out {100 * left_out:.2f} % ({worst}); "
            f"{filters.position_cutoff:.3g}, {filters.row_cutoff:.3g} Hz; serves {default.model.serve}; "
            f"{' '.join(row.name for row in said.friction)}; {spent:.2f}, {plain_spent:.2f} s"
        )
        both = zip(errors, plain_errors, strict=True)
        print(f"   joints, default/plain: {' '.join(f'{100 * e:.1f}/{100 * p:.1f}' for e, p in both)}")
        for remark in said.verdict:
            print(f"   [{remark.level}] {remark.text}", flush=True)
    if not ratios:
        return
    over_plain, over_baseline, left_out_over = np.array(ratios).T
    print(
        f"{len(ratios)} runs, {refused} refused: over 1.03 times plain {np.sum(over_plain > 1.03)}, median "
        f"{np.median(over_plain):.3f}; over the baseline {np.sum(over_baseline > 1.0)}, below 0.9 "
        f"{np.sum(over_baseline < 0.9)}, median {np.median(over_baseline):.3f}; "
        f"left out over held out outside 1/1.5 to 1.5: {np.sum(np.abs(np.log(left_out_over)) > np.log(1.5))}"
    )


if __name__ == "__main__":
    main()
