# SPDX-License-Identifier: Apache-2.0

"""Random position servos that MuJoCo simulates: do identified values lie within their stated errors?

    ./dynid python bench/servo_plants.py [--plants N] [--seed S] [--seconds T] [--soft]

A six-joint arm moves along commands that are held between samples. Gains, armature, damping, friction and its law,
delay, bias, limit and the encoder's resolution are drawn for each plant; positions are quantised and noisy. Only the
links' masses are known to the identification. Armature and commands are those with which MuJoCo's steps give the motion
of continuous time (ros2_dynid/codegen/mjcf_patch.py says why). --soft: MuJoCo's default friction, which creeps.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples

ARM = """<mujoco model="six_joint_arm">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{step}" gravity="0 0 -9.81"/>
  <worldbody>
    <body name="base" pos="0 0 0.06">
      <inertial pos="0 0 0" mass="0.2" diaginertia="2e-4 2e-4 2e-4"/>
      <body name="turret" pos="0 0 0.04">
        <inertial pos="0.01 0 0.02" mass="0.15" diaginertia="1e-4 1e-4 1e-4"/>
        <joint name="pan" axis="0 0 1" range="-2 2"/>
        <body name="upper" pos="0.02 0 0.05">
          <inertial pos="0.01 0 0.09" mass="0.2" diaginertia="4e-4 4e-4 6e-5"/>
          <joint name="lift" axis="0 1 0" range="-2 2"/>
          <body name="fore" pos="0.02 0 0.16">
            <inertial pos="0.08 0 0" mass="0.16" diaginertia="5e-5 3e-4 3e-4"/>
            <joint name="elbow" axis="0 1 0" range="-2 2"/>
            <body name="wrist" pos="0.15 0 0">
              <inertial pos="0.03 0 0" mass="0.1" diaginertia="3e-5 5e-5 5e-5"/>
              <joint name="flex" axis="0 1 0" range="-2 2"/>
              <body name="hand" pos="0.06 0 0">
                <inertial pos="0.03 0.008 0" mass="0.09" diaginertia="3e-5 4e-5 4e-5"/>
                <joint name="roll" axis="1 0 0" range="-3 3"/>
                <body name="jaw" pos="0.03 0.02 0">
                  <inertial pos="0.03 0.01 0" mass="0.03" diaginertia="8e-6 1e-5 1e-5"/>
                  <joint name="jaw" axis="0 0 1" range="-1 2"/>
                </body>
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
HOME = np.array([0.0, -0.3, 0.6, 0.2, 0.0, 0.3])
STEP = 5e-4
LAWS = ("", "load", "stribeck")
"""Laws that are drawn: plain Coulomb friction, and that with one further term."""


@dataclass(frozen=True, eq=False)
class Plant:
    """Values of six drives, (6,) each [N.m, rad, s]: see docs/position_servos.md. law: beside Coulomb friction."""

    kp: np.ndarray
    damping: np.ndarray
    armature: np.ndarray
    coulomb: np.ndarray
    law: tuple[str, ...]
    coefficient: np.ndarray
    stribeck_speed: np.ndarray
    delay: float
    bias: np.ndarray
    limit: np.ndarray
    counts: int
    period: float


def draw_plant(seed: int) -> Plant:
    """Return a random plant: servos of 3 to 8 Hz, somewhat under- to overdamped, of small and middle-sized arms."""
    rng = np.random.default_rng(seed)
    size = np.array([1.0, 1.5, 1.0, 0.6, 0.4, 0.3])
    kp = 12.0 * size * np.exp(rng.uniform(-0.7, 0.7, 6))
    frequency, ratio = rng.uniform(20.0, 50.0, 6), rng.uniform(0.5, 1.3, 6)
    inertia = kp / frequency**2
    coulomb = kp * rng.uniform(0.004, 0.02, 6)
    law = tuple(LAWS[k] for k in rng.integers(len(LAWS), size=6))
    coefficient = np.array([0.0 if not name else rng.uniform(0.1, 0.3) if name == "load" else 0.0 for name in law])
    stribeck = np.array([name == "stribeck" for name in law])
    coefficient[stribeck] = (coulomb * rng.uniform(0.5, 1.5, 6))[stribeck]
    limited = rng.random(6) < 0.2
    limit = np.where(limited, kp * rng.uniform(0.15, 0.25, 6), np.inf)
    return Plant(
        kp=kp,
        damping=2.0 * ratio * kp / frequency,
        armature=inertia,
        coulomb=coulomb,
        law=law,
        coefficient=coefficient,
        stribeck_speed=rng.uniform(0.1, 0.4, 6),
        delay=rng.uniform(0.003, 0.04),
        bias=rng.normal(0.0, 0.008, 6),
        limit=limit,
        counts=int(rng.choice([4096, 16384])),
        period=float(rng.choice([0.005, 0.01, 0.02])),
    )


def draw_commands(t: np.ndarray, seed: int) -> np.ndarray:
    """Return commands (N, 6) [rad]: sines of several amplitudes, then steps and slow reversals, around HOME."""
    rng = np.random.default_rng(seed)
    frequency, phase = rng.uniform(0.05, 1.5, (8, 6)), rng.uniform(0.0, 2 * np.pi, (8, 6))
    sines = np.sin(2 * np.pi * frequency * t[:, None, None] + phase).sum(axis=1) * rng.uniform(0.08, 0.2, 6)
    levels = rng.uniform(-0.5, 0.5, (int(t[-1]) + 2, 6))
    hold = np.floor(t / 1.5).astype(int)
    slow = 0.4 * np.arcsin(np.sin(2 * np.pi * 0.1 * t))[:, None]
    kind = (np.floor(t / 10.0).astype(int) % 4)[:, None]
    offset = np.where(kind < 2, sines, np.where(kind == 2, levels[hold], slow))
    return np.asarray(HOME + offset)


def simulate(plant: Plant, seconds: float, seed: int, *, soft: bool) -> Samples:
    """Return what the encoders of a plant record."""
    rng = np.random.default_rng(seed)
    model = mujoco.MjModel.from_xml_string(ARM.format(step=STEP))
    model.dof_armature[:] = plant.armature - 0.5 * STEP * plant.damping
    model.dof_damping[:] = plant.damping
    model.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    if not soft:
        model.dof_solref[:, 0], model.dof_solimp[:, :2] = 2.0 * STEP, 0.9999
    data = mujoco.MjData(model)
    t = plant.period * np.arange(round(seconds / plant.period))
    u = draw_commands(t, seed)
    data.qpos[:] = u[0]
    loaded, stribeck = (np.array([name == kind for name in plant.law]) for kind in ("load", "stribeck"))
    by_load, by_speed = plant.coefficient * loaded, plant.coefficient * stribeck
    place = np.maximum((STEP * (np.arange(round(seconds / STEP)) + 0.5) - plant.delay) / plant.period, 0.0)
    row = np.floor(place).astype(int)
    share = np.minimum((place - row) * plant.period / STEP, 1.0)  # of a step, after its command has changed
    every = round(plant.period / STEP)
    q = np.empty_like(u)
    for k in range(len(row)):
        if k % every == 0:
            q[k // every] = data.qpos
        command = share[k] * u[row[k]] + (1.0 - share[k]) * u[max(row[k] - 1, 0)]
        data.qfrc_applied[:] = np.clip(plant.kp * (command - data.qpos), -plant.limit, plant.limit)
        load = np.abs(data.qfrc_applied + data.qfrc_passive + data.qfrc_constraint)
        model.dof_frictionloss[:] = (
            plant.coulomb + by_load * load + by_speed * np.exp(-((data.qvel / plant.stribeck_speed) ** 2))
        )
        mujoco.mj_step(model, data)
    resolution = 2.0 * np.pi / plant.counts
    y = np.round((q + plant.bias + 0.3 * resolution * rng.standard_normal(q.shape)) / resolution) * resolution
    return Samples(t, ("pan", "lift", "elbow", "flex", "roll", "jaw"), y, q_r=u, source=f"plant {seed}")


def judge(
    robot: Robot, plant: Plant, samples: Samples
) -> tuple[list[tuple[str, str, float, float, float]], Counter[str]]:
    """Return (value, joint, truth, identified, error bars) of all that has some, and how the laws came out."""
    outcome = identify(robot, [samples]).outcome
    rows, laws = [], Counter[str]()
    for j, row in enumerate(outcome.servos):
        truth = {
            "kp": plant.kp[j],
            "armature": plant.armature[j],
            "damping": plant.damping[j],
            "delay": plant.delay,
            "bias": plant.bias[j],
            "limit": plant.limit[j],
        }
        name = "".join(row.terms).split("(")[0]
        laws[f"{plant.law[j] or 'plain'} -> {name or 'plain'}"] += 1
        if name == plant.law[j]:
            truth["coulomb"] = plant.coulomb[j]
        for key, value in truth.items():
            drive = getattr(row, key)
            if drive is not None and drive.std is not None and np.isfinite(value):
                rows.append((key, row.joint, float(value), drive.value, drive.std))
    return rows, laws


def main() -> None:
    """Print the share of the true values within three error bars, of the laws that are right, and of the delays."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plants", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--soft", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arm.xml"
        file.write_text(ARM.format(step=STEP))
        robot = load_robot(file)
    scores: dict[str, list[float]] = {}
    relative: dict[str, list[float]] = {}
    laws = Counter[str]()
    for seed in range(args.seed, args.seed + args.plants):
        plant = draw_plant(seed)
        samples = simulate(plant, args.seconds, seed, soft=args.soft)
        began = time.perf_counter()
        rows, found = judge(robot, plant, samples)
        laws += found
        seconds = time.perf_counter() - began
        wide = [f"{key} {joint} {value:.4g} +- {std:.2g} ({truth:.4g})"
                for key, joint, truth, value, std in rows if abs(value - truth) > 3.0 * std]  # fmt: skip
        for key, _, truth, value, std in rows:
            scores.setdefault(key, []).append((value - truth) / std)
            relative.setdefault(key, []).append(value - truth if key in ("delay", "bias") else value / truth - 1.0)
        print(f"plant {seed}: {seconds:.1f} s, beyond three error bars: {'; '.join(wide) or 'none'}", flush=True)
    for key, z in scores.items():
        share, size = np.mean(np.abs(z) < 3.0), np.median(np.abs(relative[key]))
        unit = "" if key in ("delay", "bias") else " relative"
        print(f"{key}: {100 * share:.0f} % of {len(z)} within 3 sigma; rms of z {np.sqrt(np.mean(np.square(z))):.2f}; "
              f"median error {size:.2g}{unit}")  # fmt: skip
    all_z = np.concatenate([*map(np.array, scores.values())])
    print(f"all: {100 * np.mean(np.abs(all_z) < 3.0):.1f} % of {len(all_z)} within 3 sigma")
    late = np.abs(relative["delay"])
    print(f"delay within 1 ms: {np.sum(late < 1e-3)} of {len(late)}")
    right = sum(n for pair, n in laws.items() if len(set(pair.split(" -> "))) == 1)
    print(f"law right: {right} of {laws.total()}: {dict(sorted(laws.items()))}")


if __name__ == "__main__":
    main()
