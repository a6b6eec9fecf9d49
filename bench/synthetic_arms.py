# SPDX-License-Identifier: Apache-2.0

"""Robots and recordings that no file holds: random arms with imperfect gears, sampled as drivers sample them.

An arm has the kinematics of a 6- or 7-axis arm, a gantry or a SCARA, of 0.4 to 2.2 m, or those of a URDF that is named.
Its links are ellipsoids; what it weighs truly differs from what its description says, which may say nothing. Friction
has terms that our laws have (load, Stribeck, power) and forces that they lack: gears that ripple, oil that warms up.
Efforts have white and coloured noise, positions are those of encoders, stamps jitter, samples are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import signal

from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import JOINT, standard_names
from ros2_dynid.model.robot import PRISMATIC, REVOLUTE, Array, Joint, Limits, Robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

_PI2 = np.pi / 2
TABLES: dict[str, tuple[tuple[int, float, float, float, float], ...]] = {
    # sigma, alpha, d, theta, r; lengths for an arm of 1 m
    "arm6": (
        (REVOLUTE, 0.0, 0.0, 0.0, 0.2),
        (REVOLUTE, -_PI2, 0.05, -_PI2, 0.0),
        (REVOLUTE, 0.0, 0.45, 0.0, 0.0),
        (REVOLUTE, -_PI2, 0.03, 0.0, 0.4),
        (REVOLUTE, _PI2, 0.0, 0.0, 0.0),
        (REVOLUTE, -_PI2, 0.0, 0.0, 0.1),
    ),
    "cobot6": (
        (REVOLUTE, 0.0, 0.0, 0.0, 0.15),
        (REVOLUTE, _PI2, 0.0, 0.0, 0.13),
        (REVOLUTE, 0.0, 0.45, 0.0, -0.1),
        (REVOLUTE, 0.0, 0.4, 0.0, 0.1),
        (REVOLUTE, _PI2, 0.0, 0.0, 0.1),
        (REVOLUTE, -_PI2, 0.0, 0.0, 0.09),
    ),
    "arm7": (
        (REVOLUTE, 0.0, 0.0, 0.0, 0.3),
        (REVOLUTE, -_PI2, 0.0, 0.0, 0.0),
        (REVOLUTE, _PI2, 0.0, 0.0, 0.35),
        (REVOLUTE, _PI2, 0.06, 0.0, 0.0),
        (REVOLUTE, -_PI2, -0.06, 0.0, 0.35),
        (REVOLUTE, _PI2, 0.0, 0.0, 0.0),
        (REVOLUTE, _PI2, 0.08, 0.0, 0.1),
    ),
    "gantry": (
        (PRISMATIC, 0.0, 0.0, 0.0, 0.5),
        (PRISMATIC, -_PI2, 0.0, -_PI2, 0.3),
        (PRISMATIC, -_PI2, 0.0, 0.0, 0.3),
        (REVOLUTE, 0.0, 0.0, 0.0, 0.1),
        (REVOLUTE, _PI2, 0.05, 0.0, 0.1),
    ),
    "scara": (
        (REVOLUTE, 0.0, 0.0, 0.0, 0.3),
        (REVOLUTE, 0.0, 0.4, 0.0, 0.0),
        (REVOLUTE, 0.0, 0.35, 0.0, 0.0),
        (PRISMATIC, np.pi, 0.0, 0.0, 0.1),
    ),
}
KINDS = ("series", "fast", "moves", "slow")
"""Motions: a Fourier series at usual, high and low speed, and moves from point to point with rests."""


@dataclass(frozen=True, eq=False)
class Gears:
    """Friction of the joints, arrays (n,): as the module says. ripple: over a turn or 0.1 m, as a share of Fc."""

    coulomb: Array
    viscous: Array
    power: Array
    stribeck: Array
    stribeck_speed: Array
    load: Array
    asymmetry: Array
    ripple: Array
    ripple_phase: Array
    warming: float
    top: Array

    def torque(self, t: Array, q: Array, dq: Array, load: Array) -> Array:
        """Return the friction [N.m or N], shape (N, n)."""
        v, sign = np.abs(dq) / self.top, np.tanh(dq / (0.002 * self.top))
        dry = self.coulomb + self.stribeck * np.exp(-((v / self.stribeck_speed) ** 2)) + self.load * np.abs(load)
        dry = dry * (1.0 + self.asymmetry * sign) + self.coulomb * self.ripple * np.sin(12.0 * q + self.ripple_phase)
        warm = 1.0 - self.warming * (1.0 - np.exp(-t / 60.0))[:, None]
        return np.asarray(warm * sign * (dry + self.viscous * v**self.power))


@dataclass(frozen=True, eq=False)
class Arm:
    """The robot as it is described, and what is true of it: chi without friction, gears, top speeds used (n,)."""

    robot: Robot
    chi: Array
    gears: Gears
    top: Array

    def torque(self, t: Array, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the true torques of the drives."""
        load = inverse_dynamics(replace(self.robot, friction=()), self.chi, q, dq, ddq)
        return np.asarray(load + self.gears.torque(t, q, dq, load))


def random_arm(seed: int, urdfs: Sequence[Path] = ()) -> Arm:
    """Return an arm of a table, or of one of the URDFs."""
    rng = np.random.default_rng([seed, 1])
    choices = [*TABLES, *urdfs]
    choice = choices[int(rng.integers(len(choices)))]
    robot = _of_table(choice, rng) if isinstance(choice, str) else replace(load_robot(choice), friction=())
    chi = true_parameters(robot, seed, spread=float(rng.uniform(0.05, 0.3)))
    if rng.random() < 0.25:
        robot = replace(robot, parameters={})  # a description without masses
    top = np.array([robot.joints[j - 1].limits.velocity for j in robot.active]) * rng.uniform(0.3, 0.9)
    n = len(robot.active)
    _, chi = frictionless(robot, chi)
    _, q, dq, ddq = motion("series", rng, top, 10.0, 50.0)
    weight = np.sqrt(np.mean(inverse_dynamics(robot, chi, q, dq, ddq) ** 2, axis=0))
    weight = np.maximum(weight, 0.05 * weight.max() * rng.uniform(0.2, 1.0, n))
    some = rng.random((4, n)) < np.array([0.4, 0.4, 0.3, 0.5])[:, None]
    coulomb = weight * rng.uniform(0.05, 0.4, n)
    gears = Gears(
        coulomb=coulomb,
        viscous=weight * rng.uniform(0.05, 0.5, n),
        power=np.where(some[3], rng.uniform(0.5, 1.0, n), 1.0),
        stribeck=np.where(some[0], coulomb * rng.uniform(0.2, 0.8, n), 0.0),
        stribeck_speed=rng.uniform(0.03, 0.2, n),
        load=np.where(some[1], rng.uniform(0.02, 0.12, n), 0.0),
        asymmetry=np.where(some[2], rng.normal(0.0, 0.05, n), 0.0),
        ripple=rng.uniform(0.0, 0.15, n),
        ripple_phase=rng.uniform(0.0, 6.3, n),
        warming=float(rng.uniform(0.0, 0.15)),
        top=top,
    )
    return Arm(robot, chi, gears, top)


def _of_table(name: str, rng: np.random.Generator) -> Robot:
    scale = float(rng.choice([0.4, 1.0, 2.2]))  # few geometries, since the code of each is generated once
    joints, parameters = [], np.zeros((len(TABLES[name]), JOINT))
    for j, (sigma, alpha, d, theta, r) in enumerate(TABLES[name]):
        speed = float((rng.uniform(1.5, 4.0) if sigma == REVOLUTE else scale) / scale**0.3)
        limits = Limits(velocity=speed)
        joint = Joint(f"joint{j + 1}", j, sigma, 0.0, 0.0, alpha, d * scale, theta, r * scale, limits)
        joints.append(joint)
        reach = scale * max(0.1, 0.4 * 0.75**j)
        M = 25.0 * scale**2 * 0.6**j * rng.uniform(0.7, 1.3)
        c = 0.3 * reach * rng.uniform(-1.0, 1.0, 3)
        axes = 0.5 * reach * rng.uniform(0.3, 1.0, 3)
        square = M * (np.diag(axes**2) / 5.0 + np.outer(c, c))
        I = np.trace(square) * np.eye(3) - square
        parameters[j, :10] = (*I[0], *I[1, 1:], I[2, 2], *(M * c), M)
    robot = Robot(f"{name} of {scale:g} m", tuple(joints))
    return replace(robot, parameters=dict(zip(standard_names(robot), parameters.ravel().tolist(), strict=True)))


def motion(kind: str, rng: np.random.Generator, top: Array, seconds: float, rate: float) -> tuple[Array, ...]:
    """Return t, q, dq, ddq of a motion with these top speeds."""
    n, t = len(top), np.arange(0.0, seconds, 1.0 / rate)
    if kind == "moves":
        q = _moves(rng, n, seconds, t)
    else:
        base = {"series": 0.1, "fast": 0.25, "slow": 0.06}[kind] * rng.uniform(0.8, 1.2)
        w = 2.0 * np.pi * base * (np.arange(1, 6) + rng.choice([0.0, 0.2]) * rng.uniform(-1.0, 1.0, 5))
        a, b = rng.normal(size=(2, 5, n)) / np.arange(1, 6)[:, None] ** 0.7
        q = np.sin(np.outer(t, w)) @ a + np.cos(np.outer(t, w)) @ b
    fine = np.gradient(q, t, axis=0)
    q = q * top * (0.35 if kind == "slow" else 1.0) / np.abs(fine).max(axis=0)
    q = q * np.minimum(1.0, 2.5 / np.maximum(np.ptp(q, axis=0), 1e-9))
    dq = np.gradient(q, t, axis=0)
    return t, q, dq, np.gradient(dq, t, axis=0)


def _moves(rng: np.random.Generator, n: int, seconds: float, t: Array) -> Array:
    q, begin, place = np.zeros((len(t), n)), 0.0, np.zeros(n)
    while begin < seconds:
        duration, rest, goal = rng.uniform(0.8, 3.0), rng.uniform(0.0, 0.4), rng.uniform(-1.0, 1.0, n)
        s = np.clip((t - begin) / duration, 0.0, 1.0)[:, None]
        q[t >= begin] = (place + (goal - place) * s**3 * (10.0 - 15.0 * s + 6.0 * s**2))[t >= begin]
        begin, place = begin + duration + rest, goal
    return q


@dataclass(frozen=True)
class Sampling:
    """How a driver samples: rate [Hz]; noise of the efforts, white and coloured with a time constant [s], as shares of
    their size; steps of the encoders [rad or m]; jitter of the stamps in periods; shares of samples lost and repeated;
    whether velocities are recorded."""

    rate: float
    white: float
    coloured: float
    memory: float
    step: float
    jitter: float
    lost: float
    repeated: float
    velocity: bool

    @classmethod
    def random(cls, rng: np.random.Generator) -> Sampling:
        """Return what drivers do, some of them badly."""
        bad = rng.random(3) < 0.25
        return cls(
            rate=float(rng.choice([100.0, 125.0, 250.0, 500.0])),
            white=float(rng.uniform(0.005, 0.06)),
            coloured=float(rng.uniform(0.0, 0.04)),
            memory=float(np.exp(rng.uniform(np.log(0.005), np.log(0.05)))),
            step=float(np.exp(rng.uniform(np.log(2e-6), np.log(1e-4)))),
            jitter=float(rng.uniform(0.05, 0.4)) if bad[0] else 0.0,
            lost=float(rng.uniform(0.002, 0.05)) if bad[1] else 0.0,
            repeated=float(rng.uniform(0.01, 0.15)) if bad[2] else 0.0,
            velocity=bool(rng.random() < 0.3),
        )


def record(arm: Arm, kind: str, rng: np.random.Generator, seconds: float, sampling: Sampling) -> Samples:
    """Return a recording of a motion of this kind."""
    rate = sampling.rate
    t, q, dq, ddq = motion(kind, rng, arm.top, seconds, 1000.0)
    sampled = np.arange(0.0, seconds - 0.01, 1.0 / rate)
    true = sampled + rng.uniform(-0.5, 0.5, len(sampled)) * sampling.jitter / rate
    true = np.clip(true, 0.0, t[-1])
    q, dq, ddq = (np.column_stack([np.interp(true, t, x) for x in array.T]) for array in (q, dq, ddq))
    tau = arm.torque(true, q, dq, ddq)
    size = np.std(tau, axis=0)
    keep = np.exp(-1.0 / (rate * sampling.memory))
    coloured = signal.lfilter([np.sqrt(1.0 - keep**2)], [1.0, -keep], rng.normal(size=tau.shape), axis=0)
    tau = tau + size * (sampling.white * rng.normal(size=tau.shape) + sampling.coloured * coloured)
    q = np.round(q / sampling.step) * sampling.step
    speed_step = sampling.step * 10.0
    dq = np.round((dq + rng.normal(size=dq.shape) * speed_step) / speed_step) * speed_step
    index = np.arange(len(sampled))
    again = rng.random(len(index)) < sampling.repeated
    again[0] = False
    index[again] -= 1
    kept = rng.random(len(index)) >= sampling.lost
    velocity = dq[index][kept] if sampling.velocity else None
    return Samples(
        sampled[kept], arm.robot.active_names, q[index][kept], dq=velocity, tau=tau[index][kept], source=kind
    )


def held_out_error(torque: Array, predicted: Array, dq: Array, rate: float, band: float = 4.0) -> Array:
    """Return the relative torque error of each joint and, last, of all, where the joint moves, in a band [Hz]."""
    sos = signal.butter(4, band, fs=rate, output="sos")
    slow = (np.abs(dq) <= 0.02 * np.abs(dq).max(axis=0)).astype(float)
    width = max(1, round(rate / band))
    moving = np.column_stack([np.convolve(x, np.ones(width) / width, mode="same") for x in slow.T]) < 0.2
    moving[: int(0.5 * rate)] = moving[-int(0.5 * rate) :] = False
    torque, predicted = (signal.sosfiltfilt(sos, x, axis=0) for x in (torque, predicted))
    error, size = (np.linalg.norm(x * moving, axis=0) for x in (torque - predicted, torque))
    return np.append(error / np.maximum(size, 1e-300), np.linalg.norm(error) / np.linalg.norm(size))
