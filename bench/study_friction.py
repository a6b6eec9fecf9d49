# SPDX-License-Identifier: Apache-2.0

"""Is the friction law of a plant found, and are its coefficients within their error bars? Simulated recordings.

    python bench/study_friction.py [--runs N] [--robots NAMES] [--laws LAWS] [--seconds S] [--noise SHARE]

Each run has a robot of other true parameters, another motion, noise in positions and efforts, and a law whose terms all
joints have, with coefficients drawn from what gears show: a load share of 5 to 20 %, a Stribeck drop of 0.4 to 1 of
Coulomb friction with a speed of 0.05 to 0.2 of the top speed, and viscous terms that make up 0.5 to 1 of Coulomb
friction at top speed. A term is *visible* at a joint if what the other columns leave of it exceeds the noise of the
rows; the study asks for these. Printed for each law: runs in which every joint got its true terms and no other, the
share of joints for which that holds, and the share of coefficients (Stribeck speeds too) within three standard
deviations of the truth. The law *sticking* is plain friction of the simulated robot in MuJoCo under PD control, whose
joints stick where they reverse; *quiet* is the same with a tenth of the noise.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test" / "support")]

from ros2_dynid.dynamics.friction import frictionless, term_column  # noqa: E402
from ros2_dynid.dynamics.newton_euler import inverse_dynamics  # noqa: E402
from ros2_dynid.identification.estimators.estimator import build_estimator  # noqa: E402
from ros2_dynid.identification.options import IdentifyOptions  # noqa: E402
from ros2_dynid.identification.preparation.prepared import Filter  # noqa: E402
from ros2_dynid.identification.problem import (  # noqa: E402
    Problem,
    build_problem,
)
from ros2_dynid.identification.regression.estimate import identified_terms  # noqa: E402
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.robot import Array, Robot  # noqa: E402
from ros2_dynid.recording.samples import Samples  # noqa: E402
from ros2_dynid.sim.truth import true_parameters  # noqa: E402
from sticking import sticking  # noqa: E402

RATE, SECONDS = 200.0, 30.0
EFFORT_NOISE = 0.03
"""Standard deviation of the effort's noise over the effort's own."""
POSITION_NOISE = 1e-5
ROBOTS = ("demo3", "demo6", "puma560")
STICKING = {"sticking": 0.005, "quiet": 0.0005}
"""Noise of the efforts of the simulated robot, over their limits."""
LAWS = (
    "plain",
    *STICKING,
    "load",
    "load_viscous",
    "stribeck",
    "root",
    "cubic",
    "asymmetric",
    "load+stribeck",
    "load+root",
    "load+load_viscous",
    "load+stribeck+cubic",
)


@dataclass(frozen=True)
class Score:
    """Of one run: whether all joints got their law, of how many joints, errors over standard deviations."""

    right: list[bool]
    ratios: list[float]
    wrong: list[str]


def motion(rng: np.random.Generator, robot: Robot, seconds: float) -> tuple[Array, Array, Array, Array]:
    """Return t, q, dq, ddq of a random Fourier series."""
    n = len(robot.active)
    t = np.arange(0.0, seconds, 1.0 / RATE)
    w = 2.0 * np.pi * np.array([0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
    amplitude, phase = rng.uniform(0.1, 0.35, (n, 6)), rng.uniform(0.0, 6.3, (n, 6))
    waves = [np.sin(np.multiply.outer(t, w)[:, None] + phase + k * np.pi / 2) for k in range(3)]
    q, dq, ddq = (np.sum(amplitude * w**k * wave, axis=2) for k, wave in enumerate(waves))
    return t, q, dq, ddq


def drawn_terms(
    rng: np.random.Generator, robot: Robot, law: str, coulomb: Array, top: Array
) -> tuple[FrictionTerm, ...]:
    """Return the law's terms for every joint, with coefficients that gears show."""
    terms = []
    for k, joint in enumerate(robot.active):
        for word in () if law == "plain" else law.split("+"):
            kind = FrictionKind[word]
            size = coulomb[k] * rng.uniform(0.5, 1.0)
            match kind:
                case FrictionKind.LOAD:
                    terms.append(FrictionTerm(joint, kind, rng.uniform(0.05, 0.2)))
                case FrictionKind.LOAD_VISCOUS:
                    terms.append(FrictionTerm(joint, kind, rng.uniform(0.05, 0.2) / top[k]))
                case FrictionKind.STRIBECK:
                    speed = top[k] * np.exp(rng.uniform(np.log(0.05), np.log(0.2)))
                    terms.append(FrictionTerm(joint, kind, coulomb[k] * rng.uniform(0.4, 1.0), speed=speed))
                case FrictionKind.ROOT:
                    terms.append(FrictionTerm(joint, kind, size / np.sqrt(top[k])))
                case FrictionKind.CUBIC:
                    terms.append(FrictionTerm(joint, kind, size / top[k] ** 3))
                case FrictionKind.ASYMMETRIC:
                    terms.append(FrictionTerm(joint, kind, size / top[k] * rng.choice((-1.0, 1.0))))
    return tuple(terms)


def visible(
    robot: Robot, terms: Sequence[FrictionTerm], dq: Array, carried: Array, noise: Array, filters: Filter
) -> list[bool]:
    """Return, for each term, whether what plain friction and the joint's other terms leave of it in the rows exceeds
    their noise: columns are smoothed as the rows are, and slow samples left out."""
    place = {joint: k for k, joint in enumerate(robot.active)}
    width = max(1, round(0.5 * RATE / (filters.row_cutoff or RATE)))

    def smooth(x: Array) -> Array:
        return np.convolve(x, np.ones(width) / width, mode="same")

    seen = []
    for term in terms:
        k = place[term.joint]
        v = dq[:, k]
        slow = smooth((np.abs(v) <= filters.slow * np.abs(v).max()).astype(float))
        columns = {
            other: smooth(term_column(other, v, np.sign(v), carried[:, k]))[slow < 0.2]
            for other in terms
            if other.joint == term.joint
        }
        plain = [smooth(x)[slow < 0.2] for x in (v, np.sign(v), np.ones_like(v))]
        A = np.column_stack((*plain, *(column for other, column in columns.items() if other is not term)))
        left = columns[term] - A @ np.linalg.lstsq(A, columns[term], rcond=None)[0]
        seen.append(bool(abs(term.coefficient) * left.std() > noise[k]))
    return seen


def rubbing(
    name: str, law: str, seed: int, *, noise: float = EFFORT_NOISE, seconds: float = SECONDS
) -> tuple[Robot, Samples, Array, Array, Array]:
    """Return an arm with the law in every joint, its recording, its speeds and carried torques, and the noise."""
    rng = np.random.default_rng([seed, *law.encode()])
    robot = load_robot(name)
    chi = true_parameters(robot, seed)
    t, q, dq, ddq = motion(rng, robot, seconds)
    top = np.abs(dq).max(axis=0)
    carried = inverse_dynamics(*frictionless(robot, chi), q, dq, ddq)
    coulomb = np.maximum(0.1 * carried.std(axis=0), 0.3 * rng.uniform(0.8, 1.2, len(top)))
    for k in range(robot.n):
        chi[14 * k + 11], chi[14 * k + 12] = coulomb[k] / top[k], coulomb[k]
    plant = replace(robot, friction=drawn_terms(rng, robot, law, coulomb, top))
    tau = inverse_dynamics(plant, chi, q, dq, ddq)
    sigma = noise * tau.std(axis=0)
    samples = Samples(
        t,
        robot.active_names,
        q + rng.normal(0.0, POSITION_NOISE, q.shape),
        tau=tau + rng.normal(0.0, 1.0, tau.shape) * sigma,
        source="simulated",
    )
    return plant, samples, dq, carried, sigma


def run(name: str, law: str, seed: int, *, noise: float = EFFORT_NOISE, seconds: float = SECONDS) -> Score:
    """Return what identification makes of one recording."""
    robot = load_robot(name)
    if law in STICKING:
        chi = true_parameters(robot, seed)
        recorded = sticking(replace(robot, friction=()), chi, seed, seconds, torque_noise=STICKING[law])
        return scored(robot, (), (), problem_of(robot, recorded))
    plant, samples, dq, carried, sigma = rubbing(name, law, seed, noise=noise, seconds=seconds)
    problem = problem_of(robot, samples)
    filters = problem.prepared[0].filter
    in_rows = sigma * np.sqrt(min(1.0, 2.0 * (filters.row_cutoff or RATE / 2) / RATE))
    terms = plant.friction
    return scored(plant, terms, visible(robot, terms, dq, carried, in_rows, filters), problem)


def problem_of(robot: Robot, samples: Samples) -> Problem:
    """Return what one recording says, with the friction law that is found in it."""
    return build_problem(replace(robot, friction=()), [samples], IdentifyOptions(), lambda what, done: None)


def scored(plant: Robot, terms: Sequence[FrictionTerm], seen: Sequence[bool], problem: Problem) -> Score:
    """Return the score of what was found beside the true terms."""
    found = build_estimator(IdentifyOptions().method, problem)(None)
    estimated = identified_terms(problem.terms, found)
    right, ratios, wrong = [], [], []
    for joint in plant.active:
        true = {term.kind: term for term in terms if term.joint == joint}
        needed = {term.kind for term, sees in zip(terms, seen, strict=True) if term.joint == joint and sees}
        got = {term.kind for term in problem.terms if term.joint == joint}
        right.append(needed <= got <= set(true))
        if not right[-1]:
            tried = ", ".join(
                f"{'+'.join(term.name for term in trial.terms)} {trial.gain:.2f} +- {trial.scatter:.2f}"
                for trial in problem.tried
                if trial.joint == joint
            )
            wrong.append(f"{joint}: {_words(needed)} of {_words(true)} -> {_words(got)} ({tried})")
        elif got == set(true):
            for term in estimated:
                if term.joint == joint:
                    ratios.append(abs(term.coefficient - true[term.kind].coefficient) / (term.std or np.inf))
                    if term.speed_std is not None:
                        ratios.append(abs(term.speed - true[term.kind].speed) / term.speed_std)
    return Score(right, ratios, wrong)


def _words(kinds: object) -> str:
    return "+".join(sorted(str(kind) for kind in kinds)) or "plain"  # type: ignore[attr-defined]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--laws", default=",".join(LAWS))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of each recording")
    parser.add_argument("--noise", type=float, default=EFFORT_NOISE, help="of the efforts, over their own scatter")
    parser.add_argument("--verbose", action="store_true", help="every joint whose law was missed")
    args = parser.parse_args()
    for name in args.robots.split(","):
        for law in args.laws.split(","):
            began = time.perf_counter()
            scores = []
            for seed in range(args.first, args.first + args.runs):
                with warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)
                    scores.append(run(name, law, seed, noise=args.noise, seconds=args.seconds))
            runs = np.mean([all(score.right) for score in scores])
            joints = np.mean([right for score in scores for right in score.right])
            ratios = np.array([ratio for score in scores for ratio in score.ratios])
            covered = f"{100 * np.mean(ratios <= 3.0):5.1f} % of {len(ratios)}" if len(ratios) else "-"
            seconds = (time.perf_counter() - began) / args.runs
            print(
                f"{name:8s} {law:20s} runs {100 * runs:5.1f} %  joints {100 * joints:5.1f} %  within 3 sigma {covered}"
                f"  ({seconds:.2f} s a run)",
                flush=True,
            )
            if args.verbose:
                for seed, score in enumerate(scores, args.first):
                    for line in score.wrong:
                        print(f"   seed {seed}, joint {line}", flush=True)


if __name__ == "__main__":
    main()
