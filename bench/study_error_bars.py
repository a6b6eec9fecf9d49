# SPDX-License-Identifier: Apache-2.0

"""Do the error bars cover the errors? Simulated recordings: python bench/study_error_bars.py [RUNS [ROBOT [METHODS]]]

MuJoCo moves a robot of known parameters with rotor inertia; viscous and Coulomb friction act as torques; encoders
round, torques are noisy. Printed for each estimator: the share of true base parameters within three stated standard
deviations, and stated over empirical standard deviation (median, smallest and largest over the parameters).

METHODS: estimators, separated by commas, and `essential` (parameters that stay), `consistent`, `online` (30 s as they
come) and `hour` (an hour at 100 Hz along sines that do not repeat, torques from the equations of motion, with a torque
error that lasts seconds beside the white one). Default: all estimators.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import lfilter

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from ros2_dynid.base_parameters import base_parameters  # noqa: E402
from ros2_dynid.dynamics.newton_euler import inverse_dynamics  # noqa: E402
from ros2_dynid.identification.candidates import ESSENTIAL, impose_consistency  # noqa: E402
from ros2_dynid.identification.estimators.estimator import build_estimator  # noqa: E402
from ros2_dynid.identification.model_file import CONSISTENT  # noqa: E402
from ros2_dynid.identification.online.estimator import OnlineEstimator  # noqa: E402
from ros2_dynid.identification.options import Method  # noqa: E402
from ros2_dynid.identification.physical.consistency import make_consistent  # noqa: E402
from ros2_dynid.identification.physical.essential import essential  # noqa: E402
from ros2_dynid.identification.preparation.prepare import prepare  # noqa: E402
from ros2_dynid.identification.problem import Problem  # noqa: E402
from ros2_dynid.identification.regression.build_information import build_information  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.recording.samples import Samples  # noqa: E402
from ros2_dynid.sim.controller import pd_gains  # noqa: E402
from ros2_dynid.sim.mjcf import mjcf  # noqa: E402
from ros2_dynid.sim.truth import true_parameters  # noqa: E402

PERIOD, SUBSTEPS, SECONDS = 1e-3, 2, 12.0
RESOLUTION = 2 * np.pi / 2**17
NOISE = 0.01
"""Standard deviation of the torque noise over the torque's root mean square."""
LASTS = 5.0
"""Time constant of the slow torque error of an hour [s]."""
ONLINE, HOUR = "online", "hour"


def fourier(rng: np.random.Generator, n: int, seconds: float, speed: float = 2.0) -> tuple[np.ndarray, ...]:
    """Return t, q, dq, ddq of a random Fourier series of five harmonics of 0.1 Hz."""
    t = np.arange(0.0, seconds, PERIOD)
    q, dq, ddq = (np.zeros((len(t), n)) for _ in range(3))
    for j in range(n):
        for h, (a, b) in enumerate(rng.normal(size=(5, 2)), start=1):
            w = 0.2 * np.pi * h
            q[:, j] += a / w * np.sin(w * t) - b / w * np.cos(w * t)
            dq[:, j] += a * np.cos(w * t) + b * np.sin(w * t)
            ddq[:, j] += w * (b * np.cos(w * t) - a * np.sin(w * t))
        scale = min(speed / np.abs(dq[:, j]).max(), 1.5 / np.abs(q[:, j] - q[:, j].mean()).max())
        for x in (q, dq, ddq):
            x[:, j] *= scale
    return t, q, dq, ddq


def simulate(
    robot: Any, chi: np.ndarray, seed: int, seconds: float = SECONDS, *, known: float = 0.9, growth: float = 0.0
) -> tuple[np.ndarray, ...]:
    """Return t, q, tau of the robot following a random trajectory in closed loop.

    known: share of its parameters that its feedforward has; growth: of friction with the torque that the gears carry.
    """
    import mujoco

    rng = np.random.default_rng(seed)
    n = robot.n
    t, q_r, dq_r, ddq_r = fourier(rng, n, seconds)
    model = mujoco.MjModel.from_xml_string(mjcf(robot, chi, PERIOD / SUBSTEPS))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q_r[0], dq_r[0]
    Fv, Fc, off = (chi[k : 14 * n : 14] for k in (11, 12, 13))
    feed = inverse_dynamics(robot, known * chi, q_r, dq_r, ddq_r)
    Kp, Kd = pd_gains(robot, chi, 8.0)
    q, tau = np.empty_like(q_r), np.empty_like(q_r)
    for k in range(len(t)):
        q[k] = data.qpos
        tau[k] = feed[k] + Kp * (q_r[k] - data.qpos) + Kd * (dq_r[k] - data.qvel)
        for _ in range(SUBSTEPS):
            sign = np.sign(data.qvel)
            left = tau[k] - Fv * data.qvel - Fc * sign - off
            # tau_r + growth |tau_r| sign = left
            data.qfrc_applied[:] = left / (1.0 + growth * sign * np.sign(left))
            mujoco.mj_step(model, data)
    return t, q, tau


def recorded(clean: tuple[np.ndarray, ...], rng: np.random.Generator, names: tuple[str, ...]) -> Samples:
    """Return the recording with rounded positions and noisy torques."""
    t, q, tau = clean
    offset = rng.uniform(0.0, RESOLUTION, q.shape[1])
    rounded = np.round((q + offset) / RESOLUTION) * RESOLUTION - offset
    size = np.sqrt(np.mean(tau**2, axis=0))
    return Samples(t, names, rounded, tau=tau + NOISE * size * rng.standard_normal(tau.shape))


def hour(robot: Any, chi: np.ndarray, seed: int, seconds: float = 3600.0, rate: float = 100.0) -> Samples:
    """Return an hour of a robot: rounded positions, torques with a white error and one that lasts LASTS seconds."""
    rng, n = np.random.default_rng(seed), robot.n
    t = np.arange(0.0, seconds, 1.0 / rate)
    w = rng.uniform(0.4, 3.0, (5, n))
    a = 0.5 * rng.uniform(0.5, 1.0, (5, n)) / w
    phase = t[:, None, None] * w + rng.uniform(0.0, 2.0 * np.pi, (5, n))
    q, dq, ddq = ((a * f).sum(axis=1) for f in (np.sin(phase), w * np.cos(phase), -(w**2) * np.sin(phase)))
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    stays = np.exp(-1.0 / (rate * LASTS))
    slow = lfilter([np.sqrt(1.0 - stays**2)], [1.0, -stays], rng.standard_normal(q.shape), axis=0)
    size = NOISE * np.sqrt(np.mean(tau**2, axis=0))
    noisy = recorded((t, q, tau), rng, robot.active_names)
    assert noisy.tau is not None
    return replace(noisy, tau=noisy.tau + size * slow)


def online(robot: Any, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Return values and standard deviations of the estimator that takes the samples as they come."""
    estimator = OnlineEstimator(robot, 1.0 / PERIOD)
    assert samples.tau is not None
    for k, (t, q, tau) in enumerate(zip(samples.t, samples.q, samples.tau, strict=True)):
        estimator.take(q, tau, float(t))
        if k % 500 == 499:
            estimator.work()
    model = estimator.estimate()
    assert model is not None
    return model.value, model.std


def estimate(name: str, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return values and standard deviations of one of METHODS; NaN for parameters that are not essential."""
    if name not in (ESSENTIAL, CONSISTENT):
        found = build_estimator(Method(name), problem)(None)
        return found.base, found.base_std
    found = build_estimator(Method.WLS, problem)(None)
    if name == CONSISTENT:
        return impose_consistency(problem, problem.information, found).value, found.base_std
    chosen = essential(problem.information, found)
    left_out = np.setdiff1d(np.arange(len(problem.base)), chosen.kept)
    value = chosen.estimate.base.copy()
    value[left_out] = np.nan
    return value, chosen.estimate.base_std


def study(
    runs: int = 200, name: str = "demo6", motions: int = 10, methods: tuple[str, ...] = tuple(Method)
) -> dict[str, Any]:
    """Return errors and stated standard deviations, (runs, b) each, by estimator."""
    robot = load_robot(name)
    chi = make_consistent(robot, true_parameters(robot, 1))  # some published inertias are of no body
    chi[13 : 14 * robot.n : 14] = 0.3
    base = base_parameters(robot, method="closed-form")
    truth = base.values(robot, chi)
    found: dict[str, Any] = {method: ([], []) for method in methods}

    def add(method: str, value: np.ndarray, std: np.ndarray) -> None:
        found[method][0].append(value - truth)
        found[method][1].append(std)

    for motion in range(min(motions, runs)):
        usual = [method for method in methods if method not in (ONLINE, HOUR)]
        clean = simulate(robot, chi, 100 + motion) if usual else None
        half_a_minute = simulate(robot, chi, 100 + motion, 30.0) if ONLINE in methods else None
        for run in range(runs // min(motions, runs)):
            if clean is not None:
                samples = recorded(clean, np.random.default_rng([motion, run]), robot.active_names)
                problem = problem_of(robot, base, samples)
                for method in usual:
                    add(method, *estimate(method, problem))
            if half_a_minute is not None:
                rng = np.random.default_rng([motion, run])
                add(ONLINE, *online(robot, recorded(half_a_minute, rng, robot.active_names)))
            if HOUR in methods:
                long = problem_of(robot, base, hour(robot, chi, 1000 * motion + run))
                add(HOUR, *estimate(Method.WLS, long))
    return {method: tuple(map(np.array, pair)) for method, pair in found.items()}


def problem_of(robot: Any, base: Any, samples: Samples) -> Problem:
    """Return what a recording says, with plain friction."""
    prepared = prepare(robot, samples)
    return Problem(robot, base, (prepared,), build_information(robot, base, [prepared]), np.zeros(len(base) + 1))


def main() -> None:
    """Print the table."""
    given = [*sys.argv[1:], *("200", "demo6", ",".join(Method))[len(sys.argv) - 1 :]]
    for method, (error, std) in study(int(given[0]), given[1], methods=tuple(given[2].split(","))).items():
        known = np.isfinite(error)
        stays = known.any(axis=0)
        stated, empirical = (np.sqrt(np.nanmean(np.where(known, x**2, np.nan)[:, stays], axis=0)) for x in (std, error))
        ratio, covered = stated / empirical, 100.0 * np.mean(np.abs(error[known]) < 3.0 * std[known])
        print(
            f"{method:10s} {len(error)} runs: {covered:.2f} % within 3 sigma, "
            f"stated / empirical {np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
