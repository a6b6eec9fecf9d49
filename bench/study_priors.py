# SPDX-License-Identifier: Apache-2.0

"""What a prior does to held-out errors: recordings cut to a few seconds, and whole ones, with and without it.

    python bench/study_priors.py --data ../shared/data [--seconds 5] [--every 6] [NAME ...]
    python bench/study_priors.py --simulated 4 [--spread 0.3] [--bare] [NAME ...]

Each window of a recording is fitted with `--prior none` and `--prior auto` and tested on the rest of it; the last line
of a set is the whole recording, cross-validated. Printed: both errors, their ratio, and how much came from the prior.

Simulated arms, `--simulated` recordings each: masses, centres and inertias are off the description by up to `--spread`
of themselves, or not described at all (`--bare`). 5 s are fitted, and 30 s, and 20 s of another motion are predicted.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.interpolate import make_interp_spline

from real_robots import sets
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import group_of, standard_names
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import joined_samples
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

LOADED, NOISE = 0.04, 0.03
"""Friction of simulated joints for each unit of torque carried, and noise of their efforts beside the torque."""
MOVING = 0.02
"""Share of the top speed below which the end of a recording counts as standing still."""


def errors(robot: Robot, fitted: list[Samples], tested: list[Samples]) -> str:
    """Return a line: held-out error without and with a prior, on `tested` or, if there are none, on folds."""
    found = {}
    for prior in ("none", "auto"):
        options = replace(IdentifyOptions(checks=False, prior=prior), cross_validate=None if tested else 5)
        found[prior] = identify(robot, fitted, options=options, validate=tested).outcome
    none, auto = (100 * found[prior].validation["all"].relative for prior in ("none", "auto"))
    use = found["auto"].prior
    told = "no prior" if use is None else f"weight {use.weight:g}, gain {use.gain:.2f} +- {use.scatter:.2f}"
    share = 0.0 if use is None else use.share
    return f"{none:8.2f} {auto:8.2f} %  ratio {auto / none:.3f}  {told}, share {share:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--every", type=float, default=6.0)
    parser.add_argument("--simulated", type=int, default=0)
    parser.add_argument("--spread", type=float, default=0.3)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.simulated:
        simulated_arms(args.names or ["demo6", "puma560"], args.simulated, args.spread, args.seconds, bare=args.bare)
        return
    for case in sets(args.data):
        if case.name == "synthetic" or (args.names and case.name not in args.names):
            continue
        parts = [*case.fitted, case.held_out]
        for number, part in enumerate(parts if case.name == "kr300" else [joined_samples(parts)]):
            moving = _moving(part)
            t = moving.t - moving.t[0]
            for start in np.arange(0.0, max(t[-1] - args.seconds, 0.0) + 1e-9, args.every):
                inside = (t >= start) & (t < start + args.seconds)
                rest = [
                    moving.take(side)
                    for side in (t < start, t >= start + args.seconds)
                    if side.any() and np.ptp(t[side]) > 1.5
                ]
                if not rest:
                    continue
                try:
                    print(
                        f"{case.name} {number} {start:5.1f} s ",
                        errors(case.robot, [moving.take(inside)], rest),
                        flush=True,
                    )
                except InputError as error:
                    print(f"{case.name} {number} {start:5.1f} s ", error, flush=True)
        print(f"{case.name} whole    ", errors(case.robot, parts, []), flush=True)
        print(f"{case.name} split    ", errors(case.robot, case.fitted, [case.held_out]), flush=True)


def simulated_arms(names: list[str], count: int, spread: float, seconds: float, *, bare: bool) -> None:
    """Print the table of simulated arms, given by file or shipped name."""
    for name in names:
        robot = load_robot(name)
        told = replace(robot, parameters={}) if bare else robot
        for seed in range(count):
            chi = true_parameters(robot, seed, spread)
            tested = [simulated_motion(robot, chi, 1000 + seed, 20.0)]
            for length in (seconds, 30.0):
                fitted = [simulated_motion(robot, chi, seed, length)]
                try:
                    print(f"{robot.name} {seed} {length:5.1f} s ", errors(told, fitted, tested), flush=True)
                except InputError as error:
                    print(f"{robot.name} {seed} {length:5.1f} s ", error, flush=True)


def simulated_motion(robot: Robot, chi: Array, seed: int, seconds: float) -> Samples:
    """Return a recording at 250 Hz of a motion through random points, with friction that grows with the load."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 0.004)
    points = rng.uniform(-1.0, 1.0, (int(seconds) + 3, len(robot.active)))
    curve = make_interp_spline(np.arange(len(points)) - 1.0, points, k=5)
    q, dq, ddq = (curve(t, nu=order) for order in range(3))
    rigid = chi.copy()
    for k, parameter in enumerate(standard_names(robot)):
        rigid[k] *= group_of(parameter) == "inertial"
    carried = inverse_dynamics(robot, rigid, q, dq, ddq)
    tau = inverse_dynamics(robot, chi, q, dq, ddq) + LOADED * np.abs(carried) * np.sign(dq)
    size = np.sqrt(np.mean(tau**2, axis=0))
    tau += NOISE * size * rng.standard_normal(tau.shape)
    return Samples(t, robot.active_names, q + 1e-5 * rng.standard_normal(q.shape), tau=tau, source=f"motion {seed}")


def _moving(samples: Samples) -> Samples:
    """Return the recording without its end at rest."""
    speed = np.abs(np.gradient(samples.q, samples.t, axis=0)).max(axis=1)
    last = np.flatnonzero(speed > MOVING * np.percentile(speed, 99))[-1]
    return samples.take(slice(0, int(last) + 1))


if __name__ == "__main__":
    main()
