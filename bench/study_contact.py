# SPDX-License-Identifier: Apache-2.0

"""What the momentum observer finds: pushes on a simulated arm, and false contacts in free motion with a real noise.

python bench/study_contact.py [--minutes 10] [--pushes 60] [--robot demo6] [--seed 0]

The arm is MuJoCo's with parameters that the identification does not know. Its torques carry the noise of a real
recording (../shared/data/tx40: level and spectrum above 20 Hz while it moves, as a share of each joint's largest
torque), its encoders have that robot's resolution, its velocities are filtered differences. The model and its error
bars come from `identify` on 20 s of such data.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.signal import butter, sosfiltfilt, welch

from ros2_dynid import pipeline
from ros2_dynid.control.contact import ContactDetector, ContactEvent
from ros2_dynid.control.momentum_observer import MomentumObserver
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.dynamics.kinematics import frames, jacobian
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.torque_std import error_bars
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import Imperfections

DATA = Path(os.environ.get("DYNID_DATA", Path(__file__).parents[2] / "shared" / "data"))
PERIOD = 1e-3
ABOVE = 20.0
"""Noise is what lies above this [Hz]: the motion of the recording does not reach there."""
NOISE_SAMPLES = 600_000
POINTS = 0.01


def real_noise(folder: Path = DATA) -> tuple[Array, float]:
    """Return torque noise as the TX-40 has it in motion, shape (N, 6), 1 kHz, as a share of the largest torque.

    And the resolution of its encoders [rad]. Ten minutes with the recording's spectrum and random phases: the recording
    itself is short, and has the steps of its own friction where its own joints turn.
    """
    with np.load(folder / "tx40" / "tx40_traj.npz") as data:
        t, tau, q = data["t"], data["tau"], data["q"]
    sos = butter(4, ABOVE, fs=5000.0, output="sos")
    noise = (tau - sosfiltfilt(sos, tau, axis=0))[(t > 0.5) & (t < 7.0)] / np.abs(tau).max(axis=0)
    steps = np.abs(np.diff(q, axis=0))
    f, density = welch(noise[::5], fs=1 / PERIOD, nperseg=2048, axis=0)
    bins = np.fft.rfftfreq(NOISE_SAMPLES, PERIOD)
    amplitude = np.array([np.interp(bins, f, column) for column in density.T])
    rng = np.random.default_rng(0)
    white = rng.standard_normal((len(amplitude), len(bins), 2)) @ np.array((1.0, 1.0j)) / np.sqrt(2)
    made = np.fft.irfft(white * np.sqrt(amplitude * NOISE_SAMPLES / (2 * PERIOD)), NOISE_SAMPLES, axis=1)
    return made.T, float(np.median([column[column > 1e-9].min() for column in steps.T]))


def free_motion(robot: Robot, rng: np.random.Generator, seconds: float) -> Reference:
    """Return a motion at the limits of speed and acceleration that ends at rest: sums of sines, faded out."""
    t = np.arange(0.0, seconds + POINTS / 2, POINTS)
    columns = []
    for joint in robot.joints:
        limits = joint.limits
        w, phase, a = 2 * np.pi * rng.uniform(0.15, 0.7, 3), rng.uniform(0.0, 2 * np.pi, 3), rng.uniform(0.3, 1.0, 3)
        reach = 0.85 * (limits.upper - limits.lower) / 2 / a.sum()
        scale = min(reach, 0.9 * limits.velocity / (a @ w), 0.9 * limits.acceleration / (a @ w**2))
        x, middle = scale * np.sin(t[:, None] * w + phase) @ a, (limits.lower + limits.upper) / 2
        columns.append(middle + x)
    q = np.array(columns).T
    fade = np.clip((seconds - t) / 2.0, 0.0, 1.0)[:, None]
    q = q.mean(axis=0) + (q - q.mean(axis=0)) * fade**3 * (10 - 15 * fade + 6 * fade**2)
    dq = np.gradient(q, POINTS, axis=0)
    dq[-1] = 0.0
    return reference(robot.active_names, t, q, dq)


@dataclass
class Noisy:
    """A plant whose torques carry the noise of a recording, from a random place on, joints in any order."""

    plant: Plant
    noise: Array
    rng: np.random.Generator

    def __post_init__(self) -> None:
        """Choose the noise."""
        n = self.plant.robot.n
        self._scale = np.array([joint.limits.effort for joint in self.plant.robot.joints])
        self._column = self.rng.permutation(self.noise.shape[1])[np.arange(n) % self.noise.shape[1]]
        self._at = self.rng.integers(0, len(self.noise), n)

    def run(self, steps: int) -> tuple[Array, Array, Array]:
        """Advance; return q, dq, tau, shape (steps, n) each."""
        out = np.empty((3, steps, self.plant.robot.n))
        for k in range(steps):
            m = self.plant.step()
            self._at = (self._at + 1) % len(self.noise)
            out[:, k] = m.q, m.dq, m.tau + self._scale * self.noise[self._at, self._column]
        return out[0], out[1], out[2]


def plant_of(robot: Robot, seed: int, start: Array, resolution: float) -> Plant:
    """Return the arm that nobody knows."""
    imperfect = Imperfections(resolution=resolution, torque_noise=0.0)
    return Plant(robot, seed=seed, spread=0.15, period=PERIOD, imperfections=imperfect, start=start, stiffness=6.0)


def identified(robot: Robot, seed: int, noise: Array, resolution: float, seconds: float = 20.0) -> IdentifiedModel:
    """Return the model that `identify` finds in a recording of the arm with this noise."""
    rng = np.random.default_rng(seed)
    points = free_motion(robot, rng, seconds)
    noisy = Noisy(plant_of(robot, seed, points.q[0], resolution), noise, rng)
    noisy.plant.follow(points)
    steps = round(seconds / PERIOD)
    q, dq, tau = noisy.run(steps)
    samples = Samples(PERIOD * np.arange(steps), robot.active_names, q, dq, tau=tau, source="simulated")
    return pipeline.identify(robot, [samples]).model


def contacts(detector: ContactDetector, observer: MomentumObserver, motion: tuple[Array, Array, Array]) -> list[int]:
    """Return the samples in which contacts begin."""
    found = observer.take(*motion, np.full(len(motion[0]), PERIOD))
    begin = []
    for k in np.flatnonzero(found.used):
        if detector.update(found.external[k], found.undecided[k], PERIOD) is ContactEvent.BEGINS:
            begin.append(int(k))
    return begin


def free_run(robot: Robot, model: IdentifiedModel, seed: int, noise: Array, resolution: float, seconds: float) -> int:
    """Return the false contacts in free motion of this length [s]."""
    rng = np.random.default_rng(seed + 1000)
    observer, detector = MomentumObserver(model.robot, model.chi), ContactDetector(error_bars(model))
    count, done, noisy = 0, 0.0, None
    while done < seconds:
        length = min(30.0, seconds - done)
        points = free_motion(robot, rng, length)
        if noisy is None:
            noisy = Noisy(plant_of(robot, seed, points.q[0], resolution), noise, rng)
        else:
            way = reference(robot.active_names, np.array((2.0,)), points.q[:1], np.zeros_like(points.q[:1]))
            noisy.plant.follow(way)
            count += len(contacts(detector, observer, noisy.run(2500)))
        noisy.plant.follow(points)
        count += len(contacts(detector, observer, noisy.run(round(length / PERIOD))))
        done += length
    return count


@dataclass(frozen=True)
class Push:
    """A push: largest torque over its joint's threshold, delay of the contact [s] (infinite: none), relative error."""

    size: float
    delay: float
    error: float


def push(
    robot: Robot, model: IdentifiedModel, seed: int, k: int, noise: Array, resolution: float, newton: float
) -> Push:
    """Return what becomes of a push of `newton` [N] at the last link in the middle of a fast motion."""
    rng = np.random.default_rng([seed, k])
    points = free_motion(robot, rng, 6.0)
    noisy = Noisy(plant_of(robot, seed, points.q[0], resolution), noise, rng)
    observer, detector = MomentumObserver(model.robot, model.chi), ContactDetector(error_bars(model))
    noisy.plant.follow(points)
    before = int(rng.integers(1000, 3000))
    early = contacts(detector, observer, noisy.run(before))
    direction = rng.standard_normal(3)
    force, at = newton * direction / np.linalg.norm(direction), rng.uniform(-0.05, 0.05, 3)
    noisy.plant.sim.press(force, at)
    motion = noisy.run(150)
    found = observer.take(*motion, np.full(150, PERIOD))
    delay = np.inf
    for i in range(150):
        if detector.update(found.external[i], found.undecided[i], PERIOD) is ContactEvent.BEGINS and np.isinf(delay):
            delay = (i + 1) * PERIOD
    true = felt(robot, motion[0], force, at)
    late = slice(50, 150)  # five time constants after the push
    error = np.linalg.norm((found.external - true)[late].mean(axis=0)) / np.linalg.norm(true[late].mean(axis=0))
    if early:
        delay = -1.0
    return Push(float(np.max(np.abs(true[0]) / detector.thresholds)), delay, float(error))


def felt(robot: Robot, q: Array, force: Array, at: Array) -> Array:
    """Return the torques that a force of the base frame causes at a point of the last link, shape (N, n)."""
    pose = np.eye(4)
    pose[:3, 3] = at
    J = jacobian(replace(robot, tools={"point": (robot.n, pose)}), q, "point")
    local = np.einsum("tji,j->ti", frames(robot, q)[:, -1, :3, :3], force)
    return np.einsum("tij,ti->tj", J[:, :3], local)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pushes", type=int, default=60)
    parser.add_argument("--newton", type=float, default=60.0)
    parser.add_argument("--robot", default="demo6")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    robot, (noise, resolution) = load_robot(args.robot), real_noise()
    began = time.perf_counter()
    model = identified(robot, args.seed, noise, resolution)
    bars = error_bars(model)
    print(f"identified: fit {100 * model.fit['all'].relative:.1f} % in {time.perf_counter() - began:.0f} s")
    print(f"noise, share of the effort limit: {np.round(noise.std(axis=0), 3)}; resolution {resolution:.2g} rad")
    print(f"error bars: sigma {np.round(bars.sigma, 3)}, torque std {np.round(bars.torque_std, 3)} N.m")
    found = [push(robot, model, args.seed, k, noise, resolution, args.newton) for k in range(args.pushes)]
    strong = [p for p in found if p.size >= 2.0]
    delays, errors = np.array([p.delay for p in strong]), np.array([p.error for p in strong])
    print(f"{args.pushes} pushes of {args.newton:g} N, {len(strong)} of them twice a threshold or more:")
    if strong:
        within = np.mean((delays > 0) & (delays <= 0.01))
        print(f"  within 10 ms: {within:.0%}; median {1e3 * np.median(delays):.0f} ms, most {1e3 * delays.max():.0f}")
        print(f"  error of the torque: median {np.median(errors):.1%}, below 10 %: {np.mean(errors < 0.1):.0%}")
    count = free_run(robot, model, args.seed, noise, resolution, 60 * args.minutes)
    print(f"false contacts in {args.minutes:g} min of free motion: {count}; {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
