# SPDX-License-Identifier: Apache-2.0

"""Default settings beside a plain baseline on random plants that Pinocchio simulates, and faults that must be found.

    python bench/study_plants.py [--first SEED] [--runs N] [--seconds S] [--results FILE.jsonl] [--faults] [--summary]

Each plant (pinocchio_arms.py) is recorded in a motion of one kind and held out in one of another kind, with its true
torques; errors are compared in a band of 4 Hz. The baseline is Pinocchio's regressor with Coulomb, viscous, rotor and
offset columns, least squares with a zero-phase filter whose cut-off is the best of seven for the data held out. One
line of JSON for each plant: errors held out of the default, of plain friction and of the baseline, that on stretches
left out, what the verdict and the checks say, filters, terms, whether friction pushes anywhere, processor time.

--faults: each recording is spoiled in every way of FAULTS in turn, and `dynid check` has to name it.
--summary: count what FILE holds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy import signal

from pinocchio_arms import (
    KINDS,
    PinocchioArm,
    Recorded,
    Sampling,
    held_out_error,
    motion,
    random_arm,
    record,
    regressor,
)
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.friction_columns import AUTO, PLAIN
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.result import Identification
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples
from ros2_dynid.usecases.check import RecordingCheck, check_recording, check_recordings

Array = NDArray[np.float64]
CUTOFFS = (2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0)
RATE = 100.0
"""Samples a second of the motion held out."""
FINDINGS = ("wrong sign", "efforts are not in", "gravity points", "in degrees", "the efforts hold", "do not hold")
"""Words of the findings about efforts, mounting and units in a verdict."""


def baseline_errors(arm: PinocchioArm, recorded: Recorded, held_out: tuple[Array, ...]) -> dict[str, float]:
    """Return the error held out by cut-off [Hz]: of torques alone, and ("rows") of torques and regressor alike."""
    t, q, dq, ddq = held_out
    true, Y_out = arm.torque(t, q, dq, ddq), regressor(arm, q, dq, ddq)
    rate, errors = 1.0 / float(np.median(np.diff(recorded.t))), {}
    even = np.arange(recorded.t[0], recorded.t[-1], 1.0 / rate)
    positions, efforts = (
        np.column_stack([np.interp(even, recorded.t, x) for x in array.T]) for array in (recorded.q, recorded.tau)
    )
    step = max(1, int(rate / 125.0))
    for cutoff in (one for one in CUTOFFS if one < 0.2 * rate):
        for rows in (False, True):
            sos = signal.butter(4, cutoff, fs=rate, output="sos")
            wide = signal.butter(4, min(5.0 * cutoff, 0.3 * rate), fs=rate, output="sos") if rows else sos
            smooth, tau = signal.sosfiltfilt(wide, positions, axis=0), signal.sosfiltfilt(sos, efforts, axis=0)
            speed = np.gradient(smooth, 1.0 / rate, axis=0)
            motion_of_rows = [x[::step] for x in (smooth, speed, np.gradient(speed, 1.0 / rate, axis=0))]
            Y = regressor(arm, *motion_of_rows)
            if rows:
                Y = signal.sosfiltfilt(signal.butter(4, cutoff, fs=rate / step, output="sos"), Y, axis=0)
            every = max(1, int(rate / step / (4.0 * cutoff)))
            kept = slice(int(rate / step), len(Y) - int(rate / step), every)
            value = _weighted_fit(Y[kept], tau[::step][kept])
            errors[f"{cutoff:g}{' rows' if rows else ''}"] = float(held_out_error(true, Y_out @ value, dq, RATE)[-1])
    return errors


def _weighted_fit(Y: Array, tau: Array) -> Array:
    """Return the least-squares fit whose joints are weighted by their errors, twice."""
    n = Y.shape[1]
    A, b, weights = Y.reshape(-1, Y.shape[2]), tau.reshape(-1), np.ones(n)
    size, value = np.maximum(np.linalg.norm(A, axis=0), 1e-9), np.zeros(Y.shape[2])
    for _ in range(2):
        W = np.tile(weights, len(A) // n)
        value = np.linalg.lstsq(A / size * W[:, None], b * W, rcond=1e-8)[0] / size
        weights = 1.0 / np.maximum(np.std((b - A @ value).reshape(-1, n), axis=0), 1e-9)
    return value


def least_braking(found: Identification) -> float:
    """Return the least F(v) sign(v) from 1e-6 of the speed limit to all of it, at loads up to the largest recorded.

    As a share of the largest friction of the joint; computed from the served torque with and without friction.
    """
    model, robot = found.model, found.model.robot
    least, data = np.inf, found.torques["fit"]
    shares = np.concatenate((np.geomspace(1e-6, 1.0, 60), np.linspace(0.02, 1.0, 50)))
    from ros2_dynid.dynamics.friction import term_column
    from ros2_dynid.model.parameters import JOINT, Fc, Fv

    for k, joint in enumerate(robot.active):
        limit = max(robot.joints[joint - 1].limits.velocity, model.recorded_speeds[robot.active_names[k]])
        own = JOINT * (joint - 1)
        v = np.concatenate((shares, -shares)) * limit
        for load in (0.0, float(np.nanmax(np.abs(data.tau[:, k])))):
            friction = model.chi[own + Fv] * v + model.chi[own + Fc] * np.sign(v)
            for term in robot.friction:
                if term.joint == joint:
                    friction += term.coefficient * term_column(term, v, np.sign(v), np.full_like(v, load))
            braking = friction * np.sign(v)
            least = min(least, float(braking.min() / max(np.abs(friction).max(), 1e-12)))
    return least


def loaded(arm: PinocchioArm, folder: Path) -> Robot:
    """Return the robot as the package reads it."""
    path = folder / "arm.urdf"
    path.write_text(arm.urdf)
    return load_robot(path)


def as_samples(arm: PinocchioArm, recorded: Recorded, source: str) -> Samples:
    """Return the recording as the package's."""
    return Samples(recorded.t, arm.names, recorded.q, dq=recorded.dq, tau=recorded.tau, source=source)


def plant(seed: int, seconds: float) -> tuple[PinocchioArm, Recorded, tuple[Array, ...], str, Sampling]:
    """Return the arm of a seed, its recording, the motion held out, and what both are."""
    arm, rng = random_arm(seed), np.random.default_rng([seed, 13])
    fitted, other = rng.choice(KINDS, 2, replace=False)
    sampling = Sampling.random(rng)
    recorded = record(arm, str(fitted), rng, seconds, sampling)
    return arm, recorded, motion(str(other), rng, arm.top, 20.0, RATE), f"{fitted} -> {other}", sampling


def judge(seed: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Return the line of a plant."""
    arm, recorded, held_out, motions, sampling = plant(seed, seconds)
    t, q, dq, ddq = held_out
    robot, samples, true = loaded(arm, folder), as_samples(arm, recorded, motions), arm.torque(t, q, dq, ddq)
    line: dict[str, Any] = {"seed": seed, "joints": len(arm.names), "motions": motions, "sampling": vars(sampling)}
    line["faster"] = float(np.max(np.abs(dq).max(axis=0) / np.abs(np.gradient(recorded.q, recorded.t, axis=0)).max(0)))
    for law in (AUTO, PLAIN):
        began = time.process_time()
        try:
            found = identify(robot, [samples], options=IdentifyOptions(friction=law))
        except DynidError as error:
            line[f"refused {law}"] = str(error)
            continue
        line[f"seconds {law}"] = time.process_time() - began
        errors = held_out_error(true, np.asarray(found.model.torque(q, dq, ddq)), dq, RATE)
        line[law], line[f"joints {law}"] = float(errors[-1]), errors[:-1].tolist()
        said = found.outcome
        line[f"left out {law}"] = said.validation["all"].relative if said.validation else None
        line[f"verdict {law}"] = [f"[{remark.level}] {remark.text}" for remark in said.verdict]
        line[f"findings {law}"] = [str(r.text) for r in said.verdict if any(word in r.text for word in FINDINGS)]
        line[f"filters {law}"] = [said.filter.position_cutoff, said.filter.row_cutoff]
        line[f"terms {law}"] = [row.name for row in said.friction]
        line[f"braking {law}"] = least_braking(found)
        line[f"serves {law}"] = found.model.serve
        line[f"cond {law}"] = said.cond
    by_cutoff = baseline_errors(arm, recorded, held_out)
    line["baseline"] = min(by_cutoff.values())
    line["by cutoff"] = by_cutoff
    checked = check_recording(samples, robot)
    line["check"] = [f"{p.level} {p.kind} {p.joint or ''}: {p.what}" for p in checked.problems]
    return line


Spoil = Callable[[Recorded, np.random.Generator], tuple[Recorded, int]]


def _reverse(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    k = int(rng.integers(r.q.shape[1]))
    return replace(r, tau=np.where(np.arange(r.q.shape[1]) == k, -1.0, 1.0) * r.tau), k


def _scale(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    k, factor = int(rng.integers(r.q.shape[1])), float(rng.choice([0.01, 0.1, 5.0, 20.0, 100.0]))
    return replace(r, tau=np.where(np.arange(r.q.shape[1]) == k, factor, 1.0) * r.tau), k


def _all_milli(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    return replace(r, tau=1000.0 * r.tau), -1


def _degrees(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    unit = 180.0 / np.pi
    return replace(r, q=r.q * unit, dq=None if r.dq is None else r.dq * unit), -1


def _radians_as_degrees(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    unit = np.pi / 180.0
    return replace(r, q=r.q * unit, dq=None if r.dq is None else r.dq * unit), -1


def _milliseconds(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    return replace(r, t=1000.0 * r.t), -1


def _stall(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    """The clock stands still a quarter of a second, five times, and samples keep their order."""
    t = r.t.copy()
    for at in rng.uniform(0.1, 0.9, 5) * (t[-1] - t[0]) + t[0]:
        t[t > at] -= 0.25 * 0.98
        late = (r.t > at) & (r.t < at + 0.25)
        t[late] = at + 0.02 * (r.t[late] - at)
    return replace(r, t=np.maximum.accumulate(t)), -1


def _repeat(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    index, again = np.arange(len(r.t)), rng.random(len(r.t)) < 0.15
    again[0] = False
    index[again] -= 1
    return Recorded(r.t, r.q[index], None if r.dq is None else r.dq[index], r.tau[index]), -1


def _lose(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    """A tenth is lost without a trace: the stamps are counted up."""
    kept = np.sort(rng.choice(len(r.t), int(0.9 * len(r.t)), replace=False))
    return Recorded(r.t[: len(kept)], r.q[kept], None if r.dq is None else r.dq[kept], r.tau[kept]), -1


def _lose_stamped(r: Recorded, rng: np.random.Generator) -> tuple[Recorded, int]:
    kept = rng.random(len(r.t)) >= 0.1
    return Recorded(r.t[kept], r.q[kept], None if r.dq is None else r.dq[kept], r.tau[kept]), -1


FAULTS: dict[str, tuple[Spoil, tuple[str, ...]]] = {
    "reversed": (_reverse, ("effort_sign",)),
    "scaled": (_scale, ("effort_unit",)),
    "mN.m": (_all_milli, ("effort_unit",)),
    "degrees": (_degrees, ("position_unit",)),
    "radians as degrees": (_radians_as_degrees, ("position_unit",)),
    "milliseconds": (_milliseconds, ("unusable", "rate")),
    "stalls": (_stall, ("jump", "backward", "gap")),
    "repeated": (_repeat, ("repeat",)),
    "lost": (_lose_stamped, ("gap",)),
}
"""How a recording is spoiled, and the kinds of problems that name it."""
OTHERS = ("no gravity", "mixed loads")
"""Faults that need the arm: its controller adds gravity; it carries a load, 5 to 20 % of its mass, in one of two."""


def _without_gravity(arm: PinocchioArm, r: Recorded) -> Recorded:
    data = arm.model.createData()
    gravity = np.array([pin.computeGeneralizedGravity(arm.model, data, q).copy() for q in r.q])
    return replace(r, tau=r.tau - gravity)


def _record_with_load(arm: PinocchioArm, rng: np.random.Generator, seconds: float, sampling: Sampling) -> Recorded:
    model = arm.model.copy()
    mass = float(rng.uniform(0.05, 0.2)) * sum(inertia.mass for inertia in model.inertias)
    reach = float(np.linalg.norm(model.jointPlacements[model.njoints - 1].translation))
    body = pin.Inertia(mass, rng.uniform(-0.3, 0.3, 3) * max(reach, 0.1), 1e-3 * mass * np.eye(3))
    model.appendBodyToJoint(model.njoints - 1, body, pin.SE3.Identity())
    return record(replace(arm, model=model), str(rng.choice(KINDS)), rng, seconds, sampling)


def spoil(seed: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Return what `check` says of the recording of a plant and of each way of spoiling it."""
    arm, recorded, _, motions, sampling = plant(seed, seconds)
    robot, rng = loaded(arm, folder), np.random.default_rng([seed, 14])
    line: dict[str, Any] = {"seed": seed, "joints": len(arm.names), "motions": motions, "sampling": vars(sampling)}
    for name, (change, kinds) in FAULTS.items():
        spoilt, k = change(recorded, rng)
        problems = _problems(check_recording(as_samples(arm, spoilt, motions), robot), kinds)
        wanted = [p for p in problems if k < 0 or arm.names[k] in p or "joints" in p]
        line[name] = {"named": bool(wanted), "joint": arm.names[k] if k >= 0 else None, "problems": problems}
        if k >= 0:
            line[name]["size"] = float(np.std(recorded.tau[:, k]) / np.std(recorded.tau, axis=0).max())
            line[name]["factor"] = float(np.nanmedian(spoilt.tau[:, k] / recorded.tau[:, k]))
    line["described"] = "<inertial" in arm.urdf
    problems = _problems(
        check_recording(as_samples(arm, _without_gravity(arm, recorded), motions), robot), ("gravity",)
    )
    line["no gravity"] = {"named": bool(problems), "problems": problems}
    loaded_too = as_samples(arm, _record_with_load(arm, rng, seconds, sampling), "loaded")
    together = check_recordings([as_samples(arm, recorded, motions), loaded_too], robot).problems
    line["mixed loads"] = {
        "named": any(p.kind == "contradiction" for p in together),
        "problems": [p.what for p in together],
    }
    same = as_samples(arm, record(arm, motions.split()[-1], rng, seconds, sampling), "same")
    line["same load"] = [p.what for p in check_recordings([as_samples(arm, recorded, motions), same], robot).problems]
    intact = check_recording(as_samples(arm, recorded, motions), robot)
    line["intact"] = _problems(
        intact, ("effort_sign", "effort_unit", "position_unit", "gravity", "friction", "mounting")
    )
    return line


def _problems(checked: RecordingCheck, kinds: tuple[str, ...]) -> list[str]:
    return [f"{p.level} {p.kind} {p.joint or ''}: {p.what}" for p in checked.problems if p.kind in kinds]


def summarize(lines: list[dict[str, Any]]) -> str:
    """Return the counts over all plants in words."""
    ran = [one for one in lines if AUTO in one and PLAIN in one]
    over = np.array([(one[AUTO] / one[PLAIN], one[AUTO] / one["baseline"]) for one in ran])
    left_out = np.array([one[f"left out {AUTO}"] / one[AUTO] for one in ran if one[f"left out {AUTO}"]])
    good = [one for one in ran if not any("[warning]" in r or "[problem]" in r for r in one[f"verdict {AUTO}"])]
    unsaid = [one for one in good if one[f"left out {AUTO}"] and one[AUTO] > 1.5 * one[f"left out {AUTO}"]]
    findings = [one for one in ran if one[f"findings {AUTO}"]]
    joints = sum(one["joints"] for one in lines)
    rows = [
        f"{len(lines)} plants, {joints} joints; refused {sum(f'refused {AUTO}' in one for one in lines)} "
        f"(plain {sum(f'refused {PLAIN}' in one for one in lines)})",
        f"over baseline: {np.sum(over[:, 1] > 1.0)}, below 0.9 {np.sum(over[:, 1] < 0.9)}, median "
        f"{np.median(over[:, 1]):.3f}, 95 % {np.quantile(over[:, 1], 0.95):.3f}",
        f"over 1.03 plain: {np.sum(over[:, 0] > 1.03)}, median {np.median(over[:, 0]):.3f}, max {over[:, 0].max():.3f}",
        f"left out over held out: median {np.median(left_out):.2f}, below 1/1.5 {np.sum(left_out < 1 / 1.5)}, "
        f"above 1.5 {np.sum(left_out > 1.5)}; good, and held out more than 1.5 times as large: {len(unsaid)}",
        f"plants with findings in the verdict: {len(findings)}; in check: "
        f"{sum(any(word in p for p in one['check'] for word in FINDINGS) for one in lines)}",
        f"friction that pushes: {sum(one[f'braking {AUTO}'] < -1e-9 for one in ran)}",
        f"mean seconds: {np.mean([one[f'seconds {AUTO}'] for one in ran]):.2f}, plain "
        f"{np.mean([one[f'seconds {PLAIN}'] for one in ran]):.2f}",
    ]
    return "\n".join(rows)


def count_faults(lines: list[dict[str, Any]]) -> str:
    """Return how often each fault was named, and how often one was named that there was not.

    Efforts that are all in another unit show in arms whose masses are described.
    """
    rows = []
    for name in (*FAULTS, *OTHERS):
        asked = [one for one in lines if one["described"] or name != "mN.m"]
        rows.append(f"{name}: {sum(one[name]['named'] for one in asked)} of {len(asked)}")
    joints, alarms = sum(one["joints"] for one in lines), sum(len(one["intact"]) for one in lines)
    rows.append(
        f"false alarms: {alarms} in {len(lines)} plants, {joints} joints; of two recordings of one arm: "
        f"{sum(bool(one['same load']) for one in lines)}"
    )
    return "\n".join(rows)


def main() -> None:
    """Print the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="seed of the first plant")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each recording")
    parser.add_argument("--results", type=Path, help="append the lines to this file as well")
    parser.add_argument("--faults", action="store_true", help="spoil the recordings instead")
    parser.add_argument("--summary", action="store_true", help="count what the file holds, and end")
    args = parser.parse_args()
    lines = []
    if args.summary:
        lines = [json.loads(text) for text in args.results.read_text().splitlines()]
        args.faults = args.faults or "intact" in lines[0]
        args.runs = 0
    for seed in range(args.first, args.first + args.runs):
        with tempfile.TemporaryDirectory() as place:
            lines.append((spoil if args.faults else judge)(seed, args.seconds, Path(place)))
        text = json.dumps(lines[-1])
        print(text, flush=True)
        if args.results:
            with args.results.open("a") as file:
                file.write(text + "\n")
    if args.faults:
        print(count_faults(lines))
    elif lines:
        print(summarize(lines))


if __name__ == "__main__":
    main()
