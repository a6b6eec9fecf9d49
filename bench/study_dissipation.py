# SPDX-License-Identifier: Apache-2.0

"""Friction laws that are served: do they brake from standstill to the speed limit, and what does that cost?

    python bench/study_dissipation.py [--data ../shared/data] [--plants N [--first SEED]] [NAME ...]

For each set of bench/real_robots.py: fit and held-out error, processor time, and of each joint the fastest speed
recorded, the speed limit, the law, the least F(v) sign(v) from standstill to the limit at loads up to the largest
recorded as a share of the friction at the fastest speed, how much of that friction terms of the wrong sign undo, and
how much friction grows from the fastest speed to the limit. Then N random plants with friction of many kinds, some of
which push: in how many of them a law that is served pushes, or falls beyond the recorded speeds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ros2_dynid.dynamics.friction import frictionless, term_column
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.result import Identification
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import JOINT, Fc, Fv
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

SPEEDS = np.unique(np.concatenate((np.geomspace(1e-6, 1.0, 400), np.linspace(0.0, 1.0, 401)[1:])))
"""Shares of the speed limit at which laws are looked at."""
ROUNDING = 1e-6
METHODS = (Method.WLS, Method.WLS, Method.WLS, Method.OLS, Method.IRLS, Method.SEQUENTIAL, Method.RECURSIVE, Method.TLS)


def law_terms(found: Identification, k: int) -> list[tuple[str, float, FrictionTerm | None]]:
    """Return the terms of active joint k that are served: name, coefficient and term, None for Fv and Fc."""
    robot, chi = found.model.robot, found.model.chi
    joint = robot.active[k]
    own = JOINT * (joint - 1)
    plain = [(f"Fv{joint}", float(chi[own + Fv]), None), (f"Fc{joint}", float(chi[own + Fc]), None)]
    return plain + [(term.name, term.coefficient, term) for term in robot.friction if term.joint == joint]


def braking(found: Identification, k: int, v: Array, load: float) -> Array:
    """Return what each term of joint k brakes with, shape (terms, N), at signed speeds v (N,)."""
    rows = []
    for name, coefficient, term in law_terms(found, k):
        if term is None:
            rows.append(coefficient * (np.abs(v) if name.startswith("Fv") else np.ones_like(v)))
        else:
            rows.append(coefficient * np.sign(v) * term_column(term, v, np.sign(v), np.full_like(v, load)))
    return np.array(rows)


@dataclass(frozen=True)
class Figures:
    """Of a joint's law: fastest speed recorded and limit; least braking, what terms undo and the least slope beyond the
    fastest speed, as shares of the friction there; growth to the limit over that of the speed."""

    fastest: float
    limit: float
    least: float
    undone: float
    slope: float
    growth: float


def figures(found: Identification, k: int) -> Figures:
    """Return the figures of the law of joint k that is served."""
    robot, data = found.model.robot, found.torques["fit"]
    fastest = found.model.recorded_speeds[robot.active_names[k]]
    limit = robot.joints[robot.active[k] - 1].limits.velocity
    limit = max(limit if np.isfinite(limit) and limit > 0.0 else 2.0 * fastest, fastest)
    v = np.concatenate((SPEEDS, -SPEEDS)) * limit
    beyond = np.linspace(fastest, limit, 200)
    least, undone, slope, growth = np.inf, 0.0, np.inf, 0.0
    for load in (0.0, float(np.nanmax(np.abs(data.tau[:, k])))):
        parts, outside = braking(found, k, v, load), braking(found, k, beyond, load).sum(axis=0)
        unit = max(float(np.abs(parts).sum(axis=0).max()), 1e-6 * float(np.nanstd(data.tau[:, k])))
        least = min(least, float(parts.sum(axis=0).min()) / unit)
        undone = max(undone, float(-parts.clip(max=0.0).sum(axis=0).min()) / unit)
        if limit > fastest:
            slope = min(slope, float(np.diff(outside).min()) / unit)
            growth = max(growth, float(np.max(outside * fastest - outside[0] * beyond)) / unit / limit)
    return Figures(fastest, limit, least, undone, slope, growth)


def random_plant(seed: int) -> tuple[Robot, Samples, IdentifyOptions]:
    """Return a robot, a recording of it and how to identify it; its friction is of any kind, and may even push."""
    rng = np.random.default_rng(seed)
    robot = load_robot("demo3")
    n, rate, seconds = robot.n, 100.0, float(rng.uniform(6.0, 15.0))
    t = np.arange(0.0, seconds, 1.0 / rate)
    w = 2.0 * np.pi * np.arange(1, 6) / float(rng.uniform(4.0, 9.0))
    a, b = rng.normal(size=(2, 5, n)) / np.arange(1, 6)[:, None] * rng.uniform(0.2, 1.0, n)
    phase = t[:, None] * w
    q = np.sin(phase) @ a - np.cos(phase) @ b
    dq, ddq = (
        (np.cos(phase) * w) @ a + (np.sin(phase) * w) @ b,
        -(np.sin(phase) * w**2) @ a + (np.cos(phase) * w**2) @ b,
    )
    top = np.abs(dq).max(axis=0)
    limits = np.where(rng.random(n) < 0.3, np.inf, top * rng.uniform(0.9, 4.0, n))
    joints = tuple(
        replace(joint, limits=replace(joint.limits, velocity=float(limit)))
        for joint, limit in zip(robot.joints, limits, strict=True)
    )
    robot = replace(robot, joints=joints)
    plain, chi = frictionless(robot, true_parameters(robot, seed))
    tau = inverse_dynamics(plain, chi, q, dq, ddq)
    v, sign = np.abs(dq) / top, np.sign(dq)
    size = 0.3 * tau.std(axis=0)
    shapes = (np.ones_like(v), v, v**2, v**3, np.sqrt(v), v / (v + 0.1), np.exp(-((v / 0.1) ** 2)), np.tanh(v / 0.02))
    weights = rng.normal(0.3, 0.7, (len(shapes), n)) * (rng.random((len(shapes), n)) < 0.4)
    friction = sign * sum(weight * shape for weight, shape in zip(weights, shapes, strict=True)) * size
    friction += sign * rng.normal(0.05, 0.1, n) * np.abs(tau) * (rng.random(n) < 0.4)
    tau = tau + friction + float(rng.choice([0.003, 0.03, 0.1])) * tau.std(axis=0) * rng.normal(size=q.shape)
    essential = bool(rng.random() < 0.2)
    options = IdentifyOptions(
        method=METHODS[int(rng.integers(len(METHODS)))],
        friction=str(rng.choice(["auto", "auto", "auto", "viscous+coulomb", "root+cubic", "stribeck+asymmetric+load"])),
        essential=essential,
        consistent=bool(rng.random() < 0.3),
        prior="auto" if essential else str(rng.choice(["auto", "none", "urdf"])),
        checks=False,
    )
    return robot, Samples(t, robot.active_names, q, tau=tau, source=f"plant {seed}"), options


def faults(found: Identification) -> list[str]:
    """Return what is wrong with the laws that are served, in words."""
    wrong = []
    for k, name in enumerate(found.model.robot.active_names):
        one = figures(found, k)
        if one.least < -ROUNDING:
            wrong.append(f"{name} pushes by {-one.least:.2g}")
        if one.slope < -ROUNDING:
            wrong.append(f"{name} falls by {-one.slope:.2g} beyond {one.fastest:.3g}")
    return wrong


def real_sets(args: argparse.Namespace) -> None:
    """Print the figures of the real sets."""
    from real_robots import held_out_errors, sets

    for one in sets(args.data):
        if args.names and one.name not in args.names:
            continue
        with tempfile.TemporaryDirectory() as place:
            began = time.process_time()
            options = IdentifyOptions(friction=args.friction, consistent=args.consistent)
            found = identify(one.robot, one.fitted, options=options, output=place)
            spent = time.process_time() - began
            held_out = held_out_errors(Path(place), one.robot, one.held_out)
        print(
            f"{one.name}: serves {found.model.serve}, fit {100 * found.outcome.fit['all'].relative:.2f} %, "
            f"left out {100 * found.outcome.validation['all'].relative:.2f} %, held out {100 * held_out.all:.2f} %, "
            f"{spent:.2f} s; joints {' '.join(f'{100 * error:.1f}' for error in held_out.joints)}"
        )
        for k, name in enumerate(one.robot.active_names):
            law, told = law_terms(found, k), figures(found, k)
            text = " ".join(f"{term}={value:.4g}" for term, value, _ in law)
            print(
                f"   {name:20s} to {told.fastest:6.3f} of {told.limit:6.3f}: least {told.least:6.3f} undone "
                f"{told.undone:5.2f} slope {told.slope:6.3f} growth {told.growth:5.2f}: {text}",
                flush=True,
            )


def main() -> None:
    """Print the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="real sets to try (default: all)")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--plants", type=int, default=0, help="random plants to try as well")
    parser.add_argument("--first", type=int, default=0, help="seed of the first plant, to run in chunks")
    parser.add_argument("--friction", default="auto")
    parser.add_argument("--consistent", action="store_true")
    args = parser.parse_args()
    if args.names or not args.plants:
        real_sets(args)
    wrong = refused = 0
    for seed in range(args.first, args.first + args.plants):
        try:
            robot, samples, options = random_plant(seed)
            said = faults(identify(robot, [samples], options=options))
        except DynidError as error:
            refused += 1
            print(f"plant {seed}: {error}")
            continue
        wrong += bool(said)
        if said:
            print(f"plant {seed} ({options.method}, {options.friction}): {'; '.join(said)}", flush=True)
    if args.plants:
        print(
            f"{wrong} of {args.plants} plants from {args.first} on with a law that pushes or falls; {refused} refused"
        )


if __name__ == "__main__":
    main()
