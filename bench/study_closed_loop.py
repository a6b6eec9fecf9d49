# SPDX-License-Identifier: Apache-2.0

"""Is the estimate right where encoder noise passes through the robot's controller? MuJoCo runs:

    python bench/study_closed_loop.py [--runs 20] [--robot demo3] [--noise 1e-3] [--methods wls,iv] [--row-cutoff HZ]
        [--reference] [--controller] [--stiffness 8] [--share 0.9]

The controller, PD with feedforward of a model that is 10 % off, sees the encoders' white noise (inside) or the true
positions (outside); the recording has the noisy positions and the torque that acted. Printed for each method: the share
of true base parameters within three stated standard deviations, stated over empirical ones, and the bias of the mean of
all runs over the mean stated standard deviation, worst and median over the well-excited parameters.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test" / "support")]

from closed_loop import closed_loop, controller_of  # noqa: E402
from ros2_dynid.base_parameters import base_parameters  # noqa: E402
from ros2_dynid.identification.estimators.estimator import build_estimator  # noqa: E402
from ros2_dynid.identification.options import Method, PreparationOptions  # noqa: E402
from ros2_dynid.identification.preparation.prepare import prepare  # noqa: E402
from ros2_dynid.identification.problem import Problem  # noqa: E402
from ros2_dynid.identification.regression.build_information import build_information  # noqa: E402
from ros2_dynid.identification.validation.estimator_advice import advise_estimator  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.robot import Array  # noqa: E402
from ros2_dynid.sim.truth import true_parameters  # noqa: E402

WELL = 0.05
"""Relative standard deviation below which a parameter is well excited."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--robot", default="demo3")
    parser.add_argument("--noise", type=float, default=1e-3)
    parser.add_argument("--methods", default="wls,iv,recommended")
    parser.add_argument("--row-cutoff", type=float)
    parser.add_argument("--reference", action="store_true", help="the recordings have the commanded positions")
    parser.add_argument("--controller", action="store_true", help="and its controller is known, with what it adds")
    parser.add_argument("--stiffness", type=float, default=8.0, help="natural frequency of its loop [Hz]")
    parser.add_argument("--share", type=float, default=0.9, help="share of the true torque that it adds to its own")
    parser.add_argument("--seconds", type=float, default=12.0)
    args = parser.parse_args()
    robot = load_robot(args.robot)
    chi = true_parameters(robot, 1)
    chi[13 : 14 * robot.n : 14] = 0.3
    base = base_parameters(robot, method="closed-form")
    truth = base.values(robot, chi)
    options = PreparationOptions(row_cutoff=args.row_cutoff)
    controller = controller_of(robot, chi, args.stiffness) if args.controller else None
    for inside in (False, True):
        found: dict[str, tuple[list[Array], list[Array]]] = {method: ([], []) for method in args.methods.split(",")}
        named: list[Method] = []
        for run in range(args.runs):
            samples = closed_loop(
                robot, chi, run, args.noise, inside, args.seconds, share=args.share, stiffness=args.stiffness
            )
            if not args.reference and not args.controller:
                samples = replace(samples, q_r=None)
            prepared = prepare(robot, samples, options)
            information = build_information(robot, base, [prepared])
            problem = Problem(robot, base, (prepared,), information, np.zeros(len(base) + 1), controller=controller)
            estimate = build_estimator(Method.WLS, problem)(None)
            named.append(advise_estimator(problem, estimate).method)
            estimates = {Method.WLS: estimate}
            for name, (values, stds) in found.items():
                method = named[-1] if name == "recommended" else Method(name)
                if method not in estimates:
                    estimates[method] = build_estimator(method, problem)(None)
                estimate = estimates[method]
                values.append(estimate.base - truth)
                stds.append(estimate.base_std)
        print(f"{'inside ' if inside else 'outside'} recommended: {dict(Counter(map(str, named)))}")
        for method, (values, stds) in found.items():
            error, std = np.array(values), np.array(stds)
            mean_std = np.sqrt(np.mean(std**2, axis=0))
            well = mean_std < WELL * np.abs(truth)
            bias = np.abs(error.mean(axis=0)) / mean_std
            ratio = mean_std / np.sqrt(np.mean(error**2, axis=0))
            print(
                f"{'inside ' if inside else 'outside'} {method:11s} {len(error)} runs: "
                f"{100 * np.mean(np.abs(error) < 3 * std):.1f} % within 3 sigma, stated / empirical "
                f"{np.median(ratio):.2f}; bias / sigma of {well.sum()} well-excited: worst {bias[well].max():.2f}, "
                f"median {np.median(bias[well]):.2f}; worst relative bias "
                f"{100 * np.max(np.abs(error.mean(axis=0) / truth)[well]):.2f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
