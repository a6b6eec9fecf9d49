# SPDX-License-Identifier: Apache-2.0

"""Default settings on recordings of real robots, beside the best cut-off found by hand (docs/real_robots.md).

    python bench/real_robots.py --data ../shared/data [--write] [NAME ...]

Each set is split into a part to fit and a part held out. The held-out error is computed outside the identification: the
positions are low-passed and differentiated by SciPy, `dynid torque` evaluates the model, and measured and predicted
torque pass the same 4 Hz low-pass, whatever filters the fit used. All of it is done with the default friction, chosen
from the data, and with plain friction, Fv and Fc. A synthetic Panda with bad stamps is one of the sets.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import signal

from ros2_dynid import cli
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction_columns import AUTO, PLAIN
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.result import Identification
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Coupling, Robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples

BAND = 4.0
"""Band that the errors are compared in [Hz]."""
BY_HAND = (2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0)
"""Cut-offs of the rows that are tried by hand [Hz]; that of the positions is five times as high."""
LAWS = (AUTO, PLAIN)


@dataclass(frozen=True)
class Set:
    """A recording of a robot, split into what is fitted and what is held out."""

    name: str
    robot: Robot
    fitted: list[Samples]
    held_out: Samples
    about: str


def sets(data: Path) -> Iterator[Set]:
    """Yield the sets that are there."""
    for name, about in (("ur10", "Universal Robots UR10, 125 Hz"), ("panda30", "Franka Panda, 30 Hz")):
        if (data / name).is_dir():
            robot = load_robot(data / name / "robot.urdf")
            samples = load_samples(data / name / "run.db3", robot)
            split = 2 * len(samples) // 3
            parts = samples.take(slice(0, split)), samples.take(slice(split, None))
            yield Set(name, robot, [parts[0]], parts[1], about)
    if (data / "kr300").is_dir():
        robot = load_robot(data / "kr300" / "robot.yaml")
        a, b, c = (load_samples(data / "kr300" / f"{part}.npz", robot) for part in "abc")
        yield Set("kr300", robot, [a, b], c, "KUKA KR300, 250 Hz")
    if (data / "tx40").is_dir():
        robot = replace(load_robot(data / "tx40" / "tx40.urdf"), coupling=(Coupling(6, {5: 1.0, 6: 1.0}),))
        samples = load_samples(data / "tx40" / "tx40_traj.npz", robot)
        begin = samples.t - samples.t[0] < 5.0
        yield Set("tx40", robot, [samples.take(begin)], samples.take(~begin), "Staubli TX-40, 5 kHz")
    if (data / "panda30").is_dir():
        robot = load_robot(data / "panda30" / "robot.urdf")
        fitted = synthetic_panda(robot, seed=0)
        yield Set("synthetic", robot, [fitted], synthetic_panda(robot, seed=1, clean=True), "Panda, 1 kHz, bad stamps")


def synthetic_panda(robot: Robot, seed: int, *, seconds: float = 40.0, clean: bool = False) -> Samples:
    """Return a Panda at 1 kHz with torques of its a priori parameters, friction and noise.

    Unless `clean`, its stamps are off, in part slowly, 6 % of its samples repeat the one before, 9 ms are lost twice.
    """
    rng, n, rate = np.random.default_rng(seed), len(robot.active), 1000.0
    t = np.arange(0.0, seconds, 1.0 / rate)
    a, b = rng.normal(0.0, 0.3, (2, 5, n))
    w = 2.0 * np.pi * 0.1 * np.arange(1, 6)
    k = np.arange(1, 6)
    late = rng.normal(0.0, 1.0, (2, len(t)))
    smooth = np.exp(-0.5 * (np.arange(-150, 151) / 50.0) ** 2)
    late[0] = np.convolve(late[0], smooth / np.sqrt(np.sum(smooth**2)), mode="same")
    taken = t if clean else t + 1e-3 * (late[0] + 0.3 * late[1])  # sampled off the times that the stamps tell
    phase = w * taken[:, None]
    q = (np.sin(phase) / k) @ a + (np.cos(phase) / k) @ b
    dq = (np.cos(phase) * w / k) @ a - (np.sin(phase) * w / k) @ b
    ddq = -(np.sin(phase) * w**2 / k) @ a - (np.cos(phase) * w**2 / k) @ b
    tau = inverse_dynamics(robot, standard_vector(robot), q, dq, ddq)
    tau = tau + 0.5 * dq + 0.3 * np.tanh(dq / 0.01) + rng.normal(0.0, 0.05, q.shape)
    q = q + rng.normal(0.0, 1e-6, q.shape)
    if clean:
        return Samples(t, robot.active_names, q, tau=tau, source="synthetic Panda")
    index = np.arange(len(t))
    repeat = rng.random(len(t)) < 0.06
    index[repeat] -= 1
    index = np.maximum(index, 0)
    kept = ~(((t > 12.0) & (t < 12.009)) | ((t > 27.0) & (t < 27.009)))
    stamps = t + 1e-4 * rng.uniform(-1.0, 1.0, len(t))
    return Samples(stamps[kept], robot.active_names, q[index][kept], tau=tau[index][kept], source="synthetic Panda")


@dataclass(frozen=True)
class HeldOut:
    """Torques in the common band, shape (N, n), NaN where a joint is slow; errors of each joint and of all."""

    t: Array
    measured: Array
    predicted: Array
    joints: Array
    all: float


def held_out_errors(folder: Path, robot: Robot, samples: Samples) -> HeldOut:
    """Return the torques held out and predicted, by `dynid torque`, and the relative errors."""
    rate = 1.0 / float(np.mean(np.diff(samples.t)))
    t = samples.t[0] + np.arange(len(samples)) / rate
    assert samples.tau is not None
    q, tau = (np.column_stack([np.interp(t, samples.t, x) for x in array.T]) for array in (samples.q, samples.tau))
    smooth = signal.butter(4, min(5.0 * BAND, 0.3 * rate), fs=rate, output="sos")
    q = signal.sosfiltfilt(smooth, q, axis=0)
    dq = np.gradient(q, 1.0 / rate, axis=0)
    ddq = np.gradient(dq, 1.0 / rate, axis=0)
    with tempfile.TemporaryDirectory() as place:
        motion, out = Path(place) / "motion.npz", Path(place) / "torque.csv"
        np.savez(motion, t=t, q=q, dq=dq, ddq=ddq)
        with contextlib.redirect_stdout(io.StringIO()):
            code = cli.main(["torque", str(folder / "model.yaml"), str(motion), str(out), "--json"])
        if code:
            raise SystemExit(code)
        predicted = _efforts(out, robot)
    band = signal.butter(4, BAND, fs=rate, output="sos")
    # A joint that stands still has any friction between the two signs of Coulomb's.
    slow = (np.abs(dq) <= 0.02 * np.max(np.abs(dq), axis=0)).astype(float)
    width = max(1, round(rate / BAND))
    counted = np.column_stack([np.convolve(x, np.ones(width) / width, mode="same") for x in slow.T]) < 0.2
    counted &= ((t > t[0] + 0.5) & (t < t[-1] - 0.5))[:, None]
    measured, predicted = (signal.sosfiltfilt(band, x, axis=0) for x in (tau, predicted))
    errors = np.linalg.norm((measured - predicted) * counted, axis=0)
    sizes = np.linalg.norm(measured * counted, axis=0)
    total = float(np.linalg.norm(errors) / np.linalg.norm(sizes))
    hidden = np.where(counted, 1.0, np.nan)
    return HeldOut(t, measured * hidden, predicted * hidden, errors / sizes, total)


def _efforts(path: Path, robot: Robot) -> Array:
    table = np.genfromtxt(path, delimiter=",", names=True, deletechars="", replace_space="")
    return np.column_stack([table[f"{name}.effort"] for name in robot.active_names])


def tried(
    one: Set, folder: Path, friction: str, preparation: PreparationOptions | None = None
) -> tuple[Identification, HeldOut]:
    """Identify from the fitted part and return the outcome with the held-out errors."""
    chosen = preparation or PreparationOptions()
    options = IdentifyOptions(preparation=chosen, friction=friction, checks=preparation is None)
    found = identify(one.robot, one.fitted, options=options, output=folder, overwrite=True)
    return found, held_out_errors(folder, one.robot, one.held_out)


LIMITS = {
    "ur10": "friction that depends on load and temperature; efforts from motor currents",
    "panda30": "30 samples a second; little torque on the first joint and on the wrist",
    "kr300": "hydraulic counterbalance of axis 2, which no link explains; 20 s to fit",
    "tx40": "friction of coupled wrist axes; 5 s to fit",
    "synthetic": "stamps off by up to a few milliseconds",
}
PAGE = """# Real robots

Default settings on recordings that others published, and on a synthetic one with bad stamps. Each is split into a part
to fit and a part held out. The held-out error is the norm of the torque error over the norm of the torque, computed
outside the identification: `dynid torque` evaluates the model, and measured and predicted torque pass the same 4 Hz
low-pass, whatever filters the fit used; rows in which a joint stands still do not count for it. *By hand* is the best
of seven cut-offs from 2 to 20 Hz, with the same friction. By default the friction law is chosen from the data
([friction](identification.md)); *plain* friction is Fv and Fc alone (`--friction viscous+coulomb`).

| robot | cut-offs: positions, rows [Hz] | fit | held out | by hand | plain: held out | by hand | what limits it |
| --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

What was noticed in the recordings:

{notes}

`bench/real_robots.py --data FOLDER --write` makes this page.

{pictures}
"""


def picture(one: Set, held_out: HeldOut, path: Path) -> None:
    """Draw measured and predicted torques of the part held out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = one.robot.active_names
    figure, axes = plt.subplots(len(names), 1, figsize=(8, 1.3 * len(names)), sharex=True)
    for j, axis in enumerate(axes):
        axis.plot(held_out.t, held_out.measured[:, j], color="0.6", linewidth=2.0, label="measured")
        axis.plot(held_out.t, held_out.predicted[:, j], color="C0", linewidth=0.9, label="predicted")
        axis.set_ylabel(f"{names[j]}\n[N.m]", fontsize=7)
        axis.tick_params(labelsize=7)
    axes[0].legend(fontsize=7, ncols=2, loc="upper right")
    axes[-1].set_xlabel("time [s]", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=70)
    plt.close(figure)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One friction law: the identification at default cut-offs, its held-out errors, and the best cut-off by hand."""

    found: Identification
    held_out: HeldOut
    by_hand: dict[float, float]

    @property
    def best(self) -> float:
        """Cut-off of the rows that was best by hand [Hz], NaN if none was tried."""
        return min(self.by_hand, key=lambda row: self.by_hand[row]) if self.by_hand else np.nan

    @property
    def error_by_hand(self) -> float:
        """Held-out error at the best cut-off, relative."""
        return self.by_hand.get(self.best, np.nan)


def outcome(one: Set, friction: str, place: Path, scan: Sequence[float]) -> Outcome:
    """Identify with default cut-offs and with those of `scan` [Hz]."""
    found, held_out = tried(one, place / "default", friction)
    rate = found.outcome.filter.rate
    by_hand: dict[float, float] = {}
    for row in scan:
        chosen = PreparationOptions(row_cutoff=min(row, 0.14 * rate), position_cutoff=min(5 * row, 0.31 * rate))
        with contextlib.suppress(InputError):
            by_hand[row] = tried(one, place / f"{row:g}", friction, chosen)[1].all
    return Outcome(found, held_out, by_hand)


def described(law: str, made: Outcome) -> str:
    """Return the figures of one friction law in lines for the terminal."""
    filters, error = made.found.outcome.filter, made.held_out.all
    lines = [
        f"   {law}: rows {filters.row_cutoff:.3g} Hz, positions {filters.position_cutoff:.3g} Hz: fit "
        f"{100 * made.found.outcome.fit['all'].relative:.2f} %, held out {100 * error:.2f} %, best by hand "
        f"{100 * made.error_by_hand:.2f} % at {made.best:g} Hz, ratio {error / made.error_by_hand:.3f}",
        "      joints " + " ".join(f"{100 * e:.1f}" for e in made.held_out.joints),
    ]
    if made.by_hand:
        lines.append("      by hand " + " ".join(f"{row:g}: {100 * e:.2f}" for row, e in made.by_hand.items()))
    terms = " ".join(row.name for row in made.found.outcome.friction)
    return "\n".join([*lines, f"      terms {terms}"] if terms else lines)


def main() -> None:
    """Print the table, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="sets to try (default: all)")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--write", action="store_true", help="write docs/real_robots.md and its pictures")
    parser.add_argument("--no-scan", action="store_true", help="default cut-offs only")
    args = parser.parse_args()
    docs = Path(__file__).parents[1] / "docs"
    rows, notes, pictures = [], [], []
    for one in sets(args.data):
        if args.names and one.name not in args.names:
            continue
        print(one.name)
        made: dict[str, Outcome] = {}
        for law in LAWS:
            with tempfile.TemporaryDirectory() as place:
                made[law] = outcome(one, law, Path(place), () if args.no_scan else BY_HAND)
            print(described(law, made[law]), flush=True)
        default = made[AUTO]
        said = default.found.outcome
        print("\n".join(f"   note: {note}" for note in said.notes), flush=True)
        print("\n".join(f"   [{remark.level}] {remark.text}" for remark in said.verdict), flush=True)
        figures = " | ".join(
            f"{100 * law.held_out.all:.2g} % | {100 * law.error_by_hand:.2g} % at {law.best:g} Hz"
            for law in made.values()
        )
        filters = said.filter
        rows.append(
            f"| {one.about} | {filters.position_cutoff:.3g}, {filters.row_cutoff:.3g} "
            f"| {100 * said.fit['all'].relative:.2g} % | {figures} | {LIMITS[one.name]} |"
        )
        notes += [f"- {one.about}: {note}" for note in said.notes]
        if args.write:
            picture(one, default.held_out, docs / "images" / f"real_{one.name}.png")
            pictures.append(f"![{one.about}: torques held out](images/real_{one.name}.png)\n\n*{one.about}*\n")
    if args.write:
        text = PAGE.format(rows="\n".join(rows), notes="\n".join(notes), pictures="\n".join(pictures))
        (docs / "real_robots.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    main()
