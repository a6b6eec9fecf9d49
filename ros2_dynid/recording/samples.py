# SPDX-License-Identifier: Apache-2.0

"""Samples of a recording as arrays in the robot's joint order; cutting and sorting them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Note, repaired
from ros2_dynid.model.robot import Array, Robot

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
ANGLE_UNITS = {"rad": 1.0, "deg": math.pi / 180}
LENGTH_UNITS = {"m": 1.0, "mm": 1e-3}
EFFORT_UNITS = {"N.m": 1.0, "mN.m": 1e-3}


@dataclass(frozen=True)
class Units:
    """Units of a table: time, angles of revolute joints (also in rates), lengths of prismatic ones, efforts."""

    time: str = "s"
    angle: str = "rad"
    length: str = "m"
    effort: str = "N.m"

    def __post_init__(self) -> None:
        """Refuse unknown units."""
        for name, units in zip(("time", "angle", "length", "effort"), self.tables(), strict=True):
            if getattr(self, name) not in units:
                raise InputError(f"unknown {name} unit {getattr(self, name)!r}", f"choose from {', '.join(units)}")

    @staticmethod
    def tables() -> tuple[Mapping[str, float], ...]:
        """Return the units known for time, angle, length and effort, with their size in SI."""
        return TIME_UNITS, ANGLE_UNITS, LENGTH_UNITS, EFFORT_UNITS


SI = Units()


@dataclass(frozen=True)
class Reading:
    """How a recording is read: see load_samples.

    rate: the samples are evenly spaced at this rate [Hz], whatever stamps or time column say; for recordings without.
    torque_topic: of a bag, joint states whose efforts are torques at the links, beside those of `topic`.
    format: whose log a CSV file is (table/presets.py). episode: of a LeRobot data set; None takes all.
    base: topic, or prefix of the columns, of a floating base's pose or IMU; contacts: links that touch something, with
    the topic or the prefix of the columns of the force on them (floating_base.py). None: those that are there.
    """

    topic: str | Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    units: Units = SI
    stamps: str = "auto"
    start: float | None = None
    end: float | None = None
    rate: float | None = None
    torque_topic: str | None = None
    format: str = "auto"
    episode: int | None = None
    base: str | None = None
    contacts: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse a rate that is not positive."""
        if self.rate is not None and not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"the rate is {self.rate} Hz", "give the samples a second, such as 1000 [Hz]")


def parse_contacts(items: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the links of LINK or LINK=TOPIC with the topic, or the prefix of the columns, of the force on them."""
    parts = [item.partition("=") for item in items]
    return tuple((link, topic or link) for link, _, topic in parts)


FIELDS = ("q", "dq", "ddq", "tau", "q_r", "temperature", "tau_f", "tau_l", "q_m")
"""The signals of a joint: position [rad or m], its two derivatives, effort [N.m or N], commanded position, temperature
of its drive [deg C], feedforward effort of the controller, torque of a sensor at its link, position of its motor on
the joint's side of the gear.
"""
SUFFIXES = {
    "q": "position",
    "dq": "velocity",
    "ddq": "acceleration",
    "tau": "effort",
    "q_r": "reference",
    "temperature": "temperature",
    "tau_f": "feedforward",
    "tau_l": "torque",
    "q_m": "motor_position",
}
"""What the signals are called in column names: NAME.position, NAME.velocity, ..."""
CLOCK_RESET = 1.0
"""A stamp that steps back by more than this [s] is a clock that was set, not a message that came late."""


@dataclass(frozen=True, eq=False)
class Samples:
    """N samples of n joints: t (N,) [s]; the other signals (N, n) in SI units, radians and deg C.

    q_r: the positions that were commanded; tau_f: feedforward effort of the controller; tau_l: link-side torque
    sensors, where the recording has motor efforts too; q_m: positions of the motors, on the joints' side of the gear.
    All but q are None if not recorded; single unknown values are NaN. `start_ns` is the stamp [ns] that belongs to
    t = 0. `notes` says in one line each what the reader did or doubts.
    """

    t: Array
    joint_names: tuple[str, ...]
    q: Array
    dq: Array | None = None
    ddq: Array | None = None
    tau: Array | None = None
    source: str = ""
    notes: tuple[Note, ...] = ()
    start_ns: int = 0
    q_r: Array | None = None
    temperature: Array | None = None
    tau_f: Array | None = None
    tau_l: Array | None = None
    q_m: Array | None = None

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together."""
        if self.t.ndim != 1:
            raise InputError(f"time has shape {self.t.shape}", "give one time [s] per sample", self.source)
        shape = (len(self.t), len(self.joint_names))
        for field, array in self.arrays().items():
            if array.shape != shape:
                what = f"{field} has shape {array.shape} beside {shape[0]} times and {shape[1]} joints"
                raise InputError(what, f"give it the shape {shape}", self.source)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.t)

    def arrays(self) -> dict[str, Array]:
        """Return the recorded signals by field."""
        signals = {field: getattr(self, field) for field in FIELDS}
        return {field: array for field, array in signals.items() if array is not None}

    def with_arrays(self, t: Array, arrays: Mapping[str, Array], joint_names: Sequence[str] | None = None) -> Samples:
        """Return samples of the same source with other times and signals."""
        names = self.joint_names if joint_names is None else tuple(joint_names)
        dq, ddq, tau, q_r, temperature, tau_f, tau_l, q_m = (arrays.get(field) for field in FIELDS[1:])
        return replace(
            self,
            t=t,
            joint_names=names,
            q=arrays["q"],
            dq=dq,
            ddq=ddq,
            tau=tau,
            q_r=q_r,
            temperature=temperature,
            tau_f=tau_f,
            tau_l=tau_l,
            q_m=q_m,
        )

    def take(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> Samples:
        """Return the samples of the rows given."""
        return self.with_arrays(self.t[rows], {field: array[rows] for field, array in self.arrays().items()})

    def noted(self, *notes: Note) -> Samples:
        """Return the samples with further notes."""
        return replace(self, notes=(*self.notes, *notes)) if notes else self


def cut(samples: Samples, start: float | None = None, end: float | None = None) -> Samples:
    """Return the samples with start <= t <= end [s]; the time axis stays as it is."""
    if start is None and end is None:
        return samples
    lower, upper = -np.inf if start is None else start, np.inf if end is None else end
    if not lower <= upper:
        raise InputError(f"the cut from {start} s to {end} s is empty", "give a start before the end", samples.source)
    keep = (samples.t >= lower) & (samples.t <= upper)
    if not keep.any():
        ends = ("the start" if start is None else f"{start:g} s", "the end" if end is None else f"{end:g} s")
        what = f"no sample lies between {ends[0]} and {ends[1]}"
        hint = (
            f"the recording lasts from {samples.t.min():g} to {samples.t.max():g} s" if len(samples) else "it is empty"
        )
        raise InputError(what, hint, samples.source)
    return samples.take(keep)


def ordered(samples: Samples) -> Samples:
    """Return the samples with strictly increasing times; notes tell what was dropped or moved.

    Samples without a time are dropped; late ones are sorted in; of several with one stamp the first is kept. Where
    the clock was set back, only the longest stretch between such steps is kept, since sorting would interleave them.
    """
    finite = np.isfinite(samples.t)
    if not finite.all():
        samples = samples.take(finite).noted(
            repaired(f"{np.count_nonzero(~finite)} samples without a time were dropped")
        )
    if len(samples) < 2 or np.all(np.diff(samples.t) > 0):
        return samples
    rows, resets = longest_stretch(samples.t)
    if resets:
        note = repaired(
            f"the clock was set back {resets} times: only the longest stretch is used, "
            f"{rows.stop - rows.start} of {len(samples)} samples"
        )
        samples = samples.take(rows).noted(note)
    late = int(np.count_nonzero(np.diff(samples.t) < 0))
    if late:
        samples = samples.take(np.argsort(samples.t, kind="stable")).noted(
            repaired(f"{late} late samples were sorted in")
        )
    first = np.concatenate(([True], np.diff(samples.t) > 0))
    if not first.all():
        note = repaired(f"{np.count_nonzero(~first)} samples that repeat a stamp were dropped")
        samples = samples.take(first).noted(note)
    return samples


def samples_of(t: Array, names: Sequence[str], arrays: Mapping[str, Array], source: str) -> Samples:
    """Return samples from arrays by field; q is required."""
    dq, ddq, tau, q_r, warmth, tau_f, tau_l, q_m = (arrays.get(field) for field in FIELDS[1:])
    more = Samples(t, tuple(names), arrays["q"], dq, ddq, tau, source, q_r=q_r, temperature=warmth, tau_f=tau_f)
    return replace(more, tau_l=tau_l, q_m=q_m)


def longest_stretch(t: Array) -> tuple[slice, int]:
    """Return the rows of the longest stretch of times between settings of the clock, and how often it was set back."""
    resets = np.flatnonzero(np.diff(t) < -CLOCK_RESET) + 1
    edges = np.concatenate(([0], resets, [len(t)]))
    longest = int(np.argmax(np.diff(edges)))
    return slice(int(edges[longest]), int(edges[longest + 1])), int(resets.size)


def in_order_of(samples: Samples, names: Sequence[str]) -> Samples:
    """Return the samples of the named joints, in that order."""
    if tuple(names) == samples.joint_names:
        return samples
    columns = [column_of(name, samples.joint_names, samples.source) for name in names]
    return samples.with_arrays(samples.t, {f: array[:, columns] for f, array in samples.arrays().items()}, names)


def column_of(name: str, names: Sequence[str], source: str) -> int:
    """Return the column of a joint, or raise InputError that lists the joints."""
    try:
        return list(names).index(name)
    except ValueError:
        raise missing_joint([name], names, source) from None


def missing_joint(missing: Sequence[str], names: Sequence[str], source: str) -> InputError:
    """Return the error for joints of the robot that the recording lacks."""
    available = shortened(names)
    what = f"joint {missing[0]!r} of the robot is not in the recording, which has {available or 'no joints'}"
    if len(missing) > 1:
        what = (
            f"{len(missing)} joints of the robot, {missing[0]!r} first, are not in the recording, which has {available}"
        )
    return InputError(what, "use the robot that was recorded, choose another topic, or hold the joint", source)


def shortened(names: Sequence[str], max_names: int = 12) -> str:
    """Return at most `max_names` names in one line."""
    text = ", ".join(str(name)[:60] for name in names[:max_names])
    return text + (f", ... ({len(names)} in all)" if len(names) > max_names else "")


def in_si(samples: Samples, robot: Robot | None, units: Units) -> Samples:
    """Return the samples in SI units; the robot tells which joints are prismatic."""
    time, angle, length, effort = (
        table[getattr(units, name)]
        for name, table in zip(("time", "angle", "length", "effort"), Units.tables(), strict=True)
    )
    if (time, angle, length, effort) == (1.0, 1.0, 1.0, 1.0):
        return samples
    prismatic = {joint.name for joint in robot.joints if joint.sigma == 1} if robot else set()
    motion = np.array([length if name in prismatic else angle for name in samples.joint_names])
    scales = {"q": motion, "dq": motion, "ddq": motion, "q_r": motion, "q_m": motion, "temperature": np.array(1.0)}
    scales |= {"tau": np.array(effort), "tau_f": np.array(effort), "tau_l": np.array(effort)}
    arrays_in_si = {field: values * scales[field] for field, values in samples.arrays().items()}
    return samples.with_arrays(samples.t * time, arrays_in_si)
