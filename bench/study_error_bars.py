"""Do the error bars cover the errors? Simulated recordings: python bench/study_error_bars.py [RUNS [ROBOT [METHODS]]]

MuJoCo moves a robot of known parameters with rotor inertia; viscous and Coulomb friction act as torques; encoders
round, torques are noisy. Printed for each estimator: the share of true base parameters within three stated standard
deviations, and stated over empirical standard deviation (median, smallest and largest over the parameters).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from ros2_dynid.base_parameters import base_parameters  # noqa: E402
from ros2_dynid.dynamics.newton_euler import inverse_dynamics  # noqa: E402
from ros2_dynid.identification.choices import Method  # noqa: E402
from ros2_dynid.identification.estimators.fit import Problem, fitter, inform  # noqa: E402
from ros2_dynid.identification.preparation.prepare import prepare  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.recording.samples import Samples  # noqa: E402
from ros2_dynid.sim.controller import pd_gains  # noqa: E402
from ros2_dynid.sim.mjcf import mjcf  # noqa: E402
from ros2_dynid.sim.truth import true_parameters  # noqa: E402

PERIOD, SUBSTEPS, SECONDS = 1e-3, 2, 12.0
RESOLUTION = 2 * np.pi / 2**17
NOISE = 0.01
"""Standard deviation of the torque noise over the torque's root mean square."""


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


def study(
    runs: int = 200, name: str = "demo6", motions: int = 10, methods: tuple[Method, ...] = tuple(Method)
) -> dict[str, Any]:
    """Return errors and stated standard deviations, (runs, b) each, by estimator."""
    robot = load_robot(name)
    chi = true_parameters(robot, 1)
    chi[13 : 14 * robot.n : 14] = 0.3
    base = base_parameters(robot, method="closed-form")
    truth = base.values(robot, chi)
    found: dict[str, Any] = {method: ([], []) for method in methods}
    for motion in range(motions):
        clean = simulate(robot, chi, 100 + motion)
        for run in range(runs // motions):
            samples = recorded(clean, np.random.default_rng([motion, run]), robot.active_names)
            prepared = prepare(robot, samples)
            problem = Problem(
                robot,
                base,
                (prepared,),
                inform(robot, base, [prepared]),
                np.zeros(len(base) + 1),
            )
            for method in methods:
                estimate = fitter(method, problem)(None)
                found[method][0].append(estimate.base - truth)
                found[method][1].append(estimate.base_std)
    return {method: tuple(map(np.array, pair)) for method, pair in found.items()}


if __name__ == "__main__":
    chosen = tuple(map(Method, sys.argv[3].split(","))) if len(sys.argv) > 3 else tuple(Method)
    results = study(*(kind(x) for kind, x in zip((int, str), sys.argv[1:3], strict=False)), methods=chosen)
    for method, (error, std) in results.items():
        empirical, stated = np.sqrt(np.mean(error**2, axis=0)), np.sqrt(np.mean(std**2, axis=0))
        ratio = stated / empirical
        print(
            f"{method:10s} {len(error)} runs: {100 * np.mean(np.abs(error) < 3 * std):.2f} % within 3 sigma, "
            f"stated / empirical {np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})",
            flush=True,
        )
