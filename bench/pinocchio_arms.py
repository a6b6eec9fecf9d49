# SPDX-License-Identifier: Apache-2.0

"""Random arms and recordings that Pinocchio simulates: nothing here is computed by the package.

An arm has three to seven joints of random axes and lengths and is known by its URDF alone. Its links and rotors truly
differ from what that says, which may say nothing. Friction is Coulomb's and viscous, and of some joints Stribeck's,
dependent on the load, different between the directions, slower than the speed, and it changes as the gear warms up.
Efforts have white and coloured noise, come in steps and pass a filter; positions are those of encoders; stamps jitter,
samples are lost or published twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy import signal

Array = NDArray[np.float64]
KINDS = ("series", "slow", "moves", "wander", "sweep")
"""Motions: a Fourier series, a slow one, moves from point to point with rests, a random smooth one, growing speeds."""
GEOMETRIES = 40
"""Different arms: code is generated once for each."""


@dataclass(frozen=True, eq=False)
class PinocchioArm:
    """A URDF, the true model, rotor inertias and friction of its joints, arrays (n,); top: speeds of its motions."""

    urdf: str
    model: pin.Model
    rotor: Array
    coulomb: Array
    viscous: Array
    power: Array
    stribeck: Array
    stribeck_speed: Array
    load: Array
    asymmetry: Array
    offset: Array
    warming: float
    top: Array

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the joints."""
        return tuple(self.model.names[1:])

    def rigid_torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the torque of links and rotors, shape (N, n)."""
        data = self.model.createData()
        links = [pin.rnea(self.model, data, *row).copy() for row in zip(q, dq, ddq, strict=True)]
        return np.array(links) + self.rotor * ddq

    def torque(self, t: Array, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the true torque of the drives, shape (N, n) [N.m or N]."""
        rigid = self.rigid_torque(q, dq, ddq)
        v, sign = np.abs(dq) / self.top, np.tanh(dq / (0.003 * self.top))
        dry = self.coulomb + self.stribeck * np.exp(-((v / self.stribeck_speed) ** 2)) + self.load * np.abs(rigid)
        braking = dry * (1.0 + self.asymmetry * sign) + self.viscous * v**self.power
        warm = 1.0 - self.warming * (1.0 - np.exp(-t / 60.0))[:, None]
        return np.asarray(rigid + warm * sign * braking + self.offset)


def random_arm(seed: int) -> PinocchioArm:
    """Return the arm of a seed."""
    shape = np.random.default_rng([seed % GEOMETRIES, 11])
    rng = np.random.default_rng([seed, 12])
    n, scale = int(shape.integers(3, 8)), float(shape.choice([0.4, 1.0, 2.0]))
    links, described = [], bool(rng.random() < 0.75)
    spread = float(rng.uniform(0.05, 0.3))
    urdf, truth = (_urdf_head(),) * 2
    for j in range(n):
        prismatic = n < 6 and shape.random() < 0.15
        turn = np.pi / 2 * shape.integers(-1, 3, 3)
        reach = scale * (0.5 * 0.8**j)
        xyz = reach * shape.uniform(-0.3, 0.7, 3)
        mass = 20.0 * scale**2 * 0.6**j * rng.uniform(0.7, 1.4)
        com = 0.4 * reach * rng.uniform(-1.0, 1.0, 3)
        axes = 0.4 * reach * rng.uniform(0.3, 1.0, 3)
        limit = float(scale if prismatic else rng.uniform(1.5, 4.0))
        kind = "prismatic" if prismatic else "revolute"
        truth += _urdf_link(j, kind, xyz, turn, limit, mass, com, axes)
        told = (mass * (1 + spread * rng.normal()), com * (1 + spread * rng.normal(size=3)), axes)
        urdf += _urdf_link(j, kind, xyz, turn, limit, *(told if described else (None, None, None)))
        links.append(limit)
    model = pin.buildModelFromXML(truth + "</robot>")
    top = np.array(links) * rng.uniform(0.35, 0.9)
    _, q, dq, ddq = motion("series", rng, top, 10.0, 20.0)
    arm = PinocchioArm(urdf + "</robot>", model, *(np.zeros(n) for _ in range(9)), 0.0, top)
    heavy = np.sqrt(np.mean(arm.rigid_torque(q, dq, ddq) ** 2, axis=0))
    heavy = np.maximum(heavy, 0.05 * heavy.max() * rng.uniform(0.3, 1.0, n))
    inertia = np.mean([np.diag(pin.crba(model, model.createData(), row)) for row in q[::20]], axis=0)
    some = rng.random((4, n)) < np.array([0.4, 0.4, 0.3, 0.4])[:, None]
    coulomb = heavy * rng.uniform(0.05, 0.4, n)
    return PinocchioArm(
        arm.urdf,
        model,
        rotor=inertia * rng.uniform(0.05, 1.0, n),
        coulomb=coulomb,
        viscous=heavy * rng.uniform(0.05, 0.5, n),
        power=np.where(some[3], rng.uniform(0.4, 1.0, n), 1.0),
        stribeck=np.where(some[0], coulomb * rng.uniform(0.2, 0.8, n), 0.0),
        stribeck_speed=rng.uniform(0.03, 0.2, n),
        load=np.where(some[1], rng.uniform(0.02, 0.12, n), 0.0),
        asymmetry=np.where(some[2], rng.normal(0.0, 0.05, n), 0.0),
        offset=heavy * rng.normal(0.0, 0.02, n),
        warming=float(rng.choice([0.0, rng.uniform(0.0, 0.15)])),
        top=top,
    )


def _urdf_head() -> str:
    return '<robot name="arm"><link name="base"/>'


def _urdf_link(
    j: int,
    kind: str,
    xyz: Array,
    rpy: Array,
    limit: float,
    mass: float | None,
    com: Array | None,
    axes: Array | None,
) -> str:
    def text(x: Array) -> str:
        return " ".join(f"{value:.9g}" for value in x)

    inertial = ""
    if mass is not None and com is not None and axes is not None:
        moments = mass / 5.0 * np.array([axes[1] ** 2 + axes[2] ** 2, axes[0] ** 2 + axes[2] ** 2, axes[:2] @ axes[:2]])
        values = " ".join(f'{k}="{x:.9g}"' for k, x in zip(("ixx", "iyy", "izz"), moments, strict=True))
        inertial = (
            f'<inertial><origin xyz="{text(com)}"/><mass value="{mass:.9g}"/>'
            f'<inertia {values} ixy="0" ixz="0" iyz="0"/></inertial>'
        )
    parent = "base" if j == 0 else f"link{j}"
    return (
        f'<link name="link{j + 1}">{inertial}</link><joint name="joint{j + 1}" type="{kind}"><parent link="{parent}"/>'
        f'<child link="link{j + 1}"/><origin xyz="{text(xyz)}" rpy="{text(rpy)}"/><axis xyz="0 0 1"/>'
        f'<limit lower="-20" upper="20" velocity="{limit:.9g}" effort="1e6"/></joint>'
    )


def motion(kind: str, rng: np.random.Generator, top: Array, seconds: float, rate: float) -> tuple[Array, ...]:
    """Return t, q, dq, ddq of a motion at half to all of the top speeds; a slow one at a third of that."""
    n, t = len(top), np.arange(0.0, seconds, 1.0 / rate)
    if kind == "moves":
        q = _moves(rng, n, seconds, t)
    elif kind == "wander":
        knots = np.arange(-2.0, seconds + 3.0, rng.uniform(0.4, 0.9))
        from scipy.interpolate import make_interp_spline

        q = make_interp_spline(knots, rng.uniform(-1.0, 1.0, (len(knots), n)), k=5)(t)
    elif kind == "sweep":
        w, phase = 2.0 * np.pi * rng.uniform(0.12, 0.4, n), rng.uniform(0.0, 6.3, n)
        q = (0.2 + t / seconds)[:, None] * np.sin(np.outer(t, w) + phase)
    else:
        base = {"series": 0.1, "slow": 0.06}[kind] * rng.uniform(0.8, 1.3)
        w = 2.0 * np.pi * base * (np.arange(1, 6) + rng.choice([0.0, 0.2]) * rng.uniform(-1.0, 1.0, 5))
        a, b = rng.normal(size=(2, 5, n)) / np.arange(1, 6)[:, None] ** 0.7
        q = np.sin(np.outer(t, w)) @ a + np.cos(np.outer(t, w)) @ b
    fastest = np.abs(np.gradient(q, t, axis=0)).max(axis=0)
    q = q * top * rng.uniform(0.5, 1.0) * (0.35 if kind == "slow" else 1.0) / fastest
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
    """How a driver samples: rate [Hz]; noise of the efforts, white and coloured with a time constant [s], and their
    steps, as shares of their size; corner of their filter [Hz], 0 without; steps of the encoders [rad or m]; jitter of
    the stamps in periods; shares of samples lost and repeated; whether velocities are recorded."""

    rate: float
    white: float
    coloured: float
    memory: float
    effort_step: float
    corner: float
    step: float
    jitter: float
    lost: float
    repeated: float
    velocity: bool

    @classmethod
    def random(cls, rng: np.random.Generator) -> Sampling:
        """Return what drivers do, some of them badly."""
        bad = rng.random(5) < 0.25
        return cls(
            rate=float(rng.choice([50.0, 100.0, 125.0, 250.0, 500.0])),
            white=float(rng.uniform(0.005, 0.06)),
            coloured=float(rng.uniform(0.0, 0.04)),
            memory=float(np.exp(rng.uniform(np.log(0.005), np.log(0.1)))),
            effort_step=float(rng.uniform(0.0, 0.1)) if bad[3] else 0.0,
            corner=float(rng.uniform(4.0, 20.0)) if bad[4] else 0.0,
            step=float(np.exp(rng.uniform(np.log(2e-6), np.log(2e-4)))),
            jitter=float(rng.uniform(0.05, 0.4)) if bad[0] else 0.0,
            lost=float(rng.uniform(0.002, 0.05)) if bad[1] else 0.0,
            repeated=float(rng.uniform(0.01, 0.15)) if bad[2] else 0.0,
            velocity=bool(rng.random() < 0.3),
        )


@dataclass(frozen=True, eq=False)
class Recorded:
    """What a driver recorded: times (N,) [s], positions, velocities (None: not recorded) and efforts (N, n)."""

    t: Array
    q: Array
    dq: Array | None
    tau: Array


def record(arm: PinocchioArm, kind: str, rng: np.random.Generator, seconds: float, sampling: Sampling) -> Recorded:
    """Return a recording of a motion of this kind."""
    rate, fine = sampling.rate, 500.0
    t, q, dq, ddq = motion(kind, rng, arm.top, seconds, fine)
    tau = arm.torque(t, q, dq, ddq)
    if sampling.corner:
        tau = signal.sosfilt(signal.butter(1, sampling.corner, fs=fine, output="sos"), tau - tau[0], axis=0) + tau[0]
    stamps = np.arange(0.0, seconds - 0.01, 1.0 / rate)
    true = np.clip(stamps + rng.uniform(-0.5, 0.5, len(stamps)) * sampling.jitter / rate, 0.0, t[-1])
    q, dq, tau = (np.column_stack([np.interp(true, t, x) for x in array.T]) for array in (q, dq, tau))
    size, keep = np.std(tau, axis=0), np.exp(-1.0 / (rate * sampling.memory))
    coloured = signal.lfilter([np.sqrt(1.0 - keep**2)], [1.0, -keep], rng.normal(size=tau.shape), axis=0)
    tau = tau + size * (sampling.white * rng.normal(size=tau.shape) + sampling.coloured * coloured)
    if sampling.effort_step:
        tau = np.round(tau / (sampling.effort_step * size)) * sampling.effort_step * size
    q = np.round(q / sampling.step) * sampling.step
    speed_step = sampling.step * 10.0
    dq = np.round((dq + rng.normal(size=dq.shape) * speed_step) / speed_step) * speed_step
    index, again = np.arange(len(stamps)), rng.random(len(stamps)) < sampling.repeated
    again[0] = False
    index[again] -= 1
    kept = rng.random(len(index)) >= sampling.lost
    return Recorded(stamps[kept], q[index][kept], dq[index][kept] if sampling.velocity else None, tau[index][kept])


def regressor(arm: PinocchioArm, q: Array, dq: Array, ddq: Array) -> Array:
    """Return Pinocchio's regressor with Coulomb, viscous, rotor and offset columns of each joint, shape (N, n, p)."""
    data, n = arm.model.createData(), arm.model.nv
    links = np.array(
        [pin.computeJointTorqueRegressor(arm.model, data, *row).copy() for row in zip(q, dq, ddq, strict=True)]
    )
    own = np.zeros((len(q), n, 4 * n))
    for j in range(n):
        own[:, j, 4 * j : 4 * j + 4] = np.column_stack((np.sign(dq[:, j]), dq[:, j], ddq[:, j], np.ones(len(q))))
    return np.concatenate((links, own), axis=2)


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
