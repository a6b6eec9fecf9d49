# SPDX-License-Identifier: Apache-2.0

"""The trajectory: a curve of all active joints, sampled exactly at any rate, and its file.

The file is YAML with the fields of trajectory_msgs/msg/JointTrajectory and nothing else, so `ros2 topic pub` takes it;
the exact curve is stored in a comment, so that reading the file back loses nothing. A file without that comment is read
as a controller would: by quintics through its points.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from ros2_dynid.atomic import write_text
from ros2_dynid.codec import Plain
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.fourier import FourierSeries
from ros2_dynid.excitation.quintic import PiecewiseQuintic, accelerations_of, through_points
from ros2_dynid.model.files import parse_yaml, read_bytes
from ros2_dynid.model.joint_order import joint_order
from ros2_dynid.model.robot import Array

Curve = FourierSeries | PiecewiseQuintic
MARK = "# ros2_dynid trajectory: "
AT_REST = 1e-9
"""Velocity [rad/s or m/s] below which a trajectory's ends are at rest."""
DEFAULT_RATE_HZ = 50.0
EDITED = 1e-5
"""Points further than this [rad, m, /s] from the curve in the file's comment were edited by hand."""
DIGITS = 12
"""Decimals in the file's points: far below any encoder, and limits hold to 1e-9."""
MAX_FILE_BYTES = 200_000_000


@dataclass(frozen=True, eq=False)
class TrajectorySamples:
    """Samples of a trajectory: t, shape (N,) [s]; q, dq, ddq, shape (N, n) [rad or m, and per s, s^2]."""

    t: Array
    q: Array
    dq: Array
    ddq: Array


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A motion of the active joints, given by its curve. t, q, dq, ddq are its exact samples at `rate_hz`."""

    joint_names: tuple[str, ...]
    curve: Curve
    kind: str = "points"
    """fourier, points, static, ramps, friction, servo, validation, rehearsal, approach, or file."""
    rate_hz: float = DEFAULT_RATE_HZ
    prismatic: tuple[str, ...] = ()
    """Joints that slide: their positions are metres."""

    def __post_init__(self) -> None:
        """Refuse names that do not fit the curve, and a rate that gives no samples."""
        if len(self.joint_names) != self.curve.n or len(set(self.joint_names)) != len(self.joint_names):
            raise InputError(f"{len(self.joint_names)} names for {self.curve.n} joints", "name every joint once")
        if not (np.isfinite(self.rate_hz) and self.rate_hz > 0):
            raise InputError(f"rate of {self.rate_hz} Hz", "give a positive rate [Hz]")

    @property
    def duration(self) -> float:
        """Length of the trajectory [s]."""
        return self.curve.duration

    def ordered(self, names: Sequence[str]) -> Trajectory:
        """Return the same motion with its joints in the order of `names`, which must be the same joints."""
        if tuple(names) == self.joint_names:
            return self
        order = joint_order(names, self.joint_names)
        curve = self.curve.mapped(np.eye(len(order))[order], np.zeros(len(order)))
        return replace(self, joint_names=tuple(names), curve=curve)

    def at(self, t: Array) -> TrajectorySamples:
        """Return the exact state at times t [s]."""
        t = np.atleast_1d(np.asarray(t, dtype=float))
        return TrajectorySamples(t, *self.curve.evaluate(t))

    def sample(self, rate_hz: float) -> TrajectorySamples:
        """Return exact samples at 0, 1/rate, ... and at the end."""
        if not (np.isfinite(rate_hz) and rate_hz > 0):
            raise InputError(f"rate of {rate_hz} Hz", "give a positive rate [Hz]")
        if self.duration * rate_hz > 1e8:
            raise InputError(f"{self.duration:.3g} s at {rate_hz:.3g} Hz are too many samples", "lower the rate")
        count = int(np.floor(self.duration * rate_hz * (1.0 + 1e-12)))
        t = np.arange(count + 1) / rate_hz
        if self.duration - t[-1] > 1e-9 * self.duration:
            t = np.append(t, self.duration)
        t[-1] = self.duration
        samples = self.at(t)
        for end in (samples.dq[0], samples.dq[-1]):  # controllers refuse what ends with a velocity, if only of rounding
            end[np.abs(end) < AT_REST] = 0.0
        return samples

    @cached_property
    def samples(self) -> TrajectorySamples:
        """The samples at the trajectory's own rate."""
        return self.sample(self.rate_hz)

    @property
    def t(self) -> Array:
        """Times of the samples, shape (N,) [s]."""
        return self.samples.t

    @property
    def q(self) -> Array:
        """Positions, shape (N, n) [rad or m]."""
        return self.samples.q

    @property
    def dq(self) -> Array:
        """Velocities, shape (N, n)."""
        return self.samples.dq

    @property
    def ddq(self) -> Array:
        """Accelerations, shape (N, n)."""
        return self.samples.ddq

    @property
    def start(self) -> Array:
        """Position at the start, shape (n,) [rad or m]."""
        return np.asarray(self.curve.evaluate(np.zeros(1))[0][0])


def rehearsal(trajectory: Trajectory, speed: float = 0.2) -> Trajectory:
    """Return the same path at a fraction of the speed, for a first run on hardware."""
    if not 0.0 < speed <= 1.0:
        raise InputError(f"speed {speed} of a rehearsal", "give a fraction of the full speed, above 0 and at most 1")
    return replace(trajectory, curve=trajectory.curve.slowed(speed), kind="rehearsal")


class PointMessage(TypedDict):
    """The fields of trajectory_msgs/msg/JointTrajectoryPoint; time_from_start: sec and nanosec."""

    positions: list[float]
    velocities: list[float]
    accelerations: list[float]
    time_from_start: dict[str, int]


class TrajectoryMessage(TypedDict):
    """The fields of trajectory_msgs/msg/JointTrajectory."""

    joint_names: list[str]
    points: list[PointMessage]


def to_message(trajectory: Trajectory, rate_hz: float | None = None) -> TrajectoryMessage:
    """Return the fields of trajectory_msgs/msg/JointTrajectory, points at rate_hz (default: the trajectory's own)."""
    s = trajectory.samples if rate_hz is None else trajectory.sample(rate_hz)
    nanoseconds = np.rint(s.t * 1e9).astype(np.int64)
    q, dq, ddq = (np.round(x, DIGITS) + 0.0 for x in (s.q, s.dq, s.ddq))
    return {
        "joint_names": list(trajectory.joint_names),
        "points": [
            {
                "positions": q[k].tolist(),
                "velocities": dq[k].tolist(),
                "accelerations": ddq[k].tolist(),
                "time_from_start": {"sec": int(ns // 10**9), "nanosec": int(ns % 10**9)},
            }
            for k, ns in enumerate(nanoseconds)
        ],
    }


def save_trajectory(
    path: str | Path, trajectory: Trajectory, rate_hz: float | None = None, *, overwrite: bool = True
) -> None:
    """Write the trajectory atomically: by the end of its name CSV, or actions of LeRobot (.jsonl), else YAML.

    The YAML is what `ros2 topic pub` takes. An action of LeRobot is a line of JSON, {"NAME.pos": x}, in degrees or m.
    """
    path = Path(path)
    writers = {".csv": _csv_text, ".jsonl": _action_text}
    text = writers.get(path.suffix.lower(), _yaml_text)(trajectory, rate_hz)
    write_text(path, text, overwrite=overwrite)


def _yaml_text(trajectory: Trajectory, rate_hz: float | None) -> str:
    """Return the file's text; JSON inside, one line a point, is YAML that reads fast."""
    message = to_message(trajectory, rate_hz)
    head = json.dumps({"kind": trajectory.kind, "rate_hz": rate_hz or trajectory.rate_hz, **_curve(trajectory.curve)})
    points = "\n".join(f"- {json.dumps(point)}" for point in message["points"])
    return f"{MARK}{head}\njoint_names: {json.dumps(message['joint_names'])}\npoints:\n{points}\n"


def _csv_text(trajectory: Trajectory, rate_hz: float | None) -> str:
    s = trajectory.samples if rate_hz is None else trajectory.sample(rate_hz)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    kinds = ("position", "velocity", "acceleration")
    writer.writerow(["time", *(f"{name}.{kind}" for name in trajectory.joint_names for kind in kinds)])
    states = np.stack((s.q, s.dq, s.ddq), axis=2).reshape(len(s.t), -1)
    writer.writerows([repr(float(x)) for x in row] for row in np.column_stack((s.t, states)))
    return out.getvalue()


def _action_text(trajectory: Trajectory, rate_hz: float | None) -> str:
    s = trajectory.samples if rate_hz is None else trajectory.sample(rate_hz)
    scale = [1.0 if name in trajectory.prismatic else 180.0 / np.pi for name in trajectory.joint_names]
    keys = [f"{name}.pos" for name in trajectory.joint_names]
    rows = (np.round(s.q * scale, DIGITS) + 0.0).tolist()
    return "".join(f"{json.dumps(dict(zip(keys, row, strict=True)))}\n" for row in rows)


def _curve(curve: Curve) -> dict[str, Plain]:
    if isinstance(curve, FourierSeries):
        arrays = {"c": curve.c.tolist(), "A": curve.A.tolist(), "B": curve.B.tolist()}
        return {"curve": "fourier", "period": curve.period, "periods": curve.periods, **arrays}
    return {"curve": "quintic", "knots": curve.knots.tolist(), "a": curve.a.tolist()}


def load_trajectory(path: str | Path) -> Trajectory:
    """Read a trajectory file: ours, or any JointTrajectory in YAML or JSON with positions and velocities."""
    source = str(path)
    text = read_bytes(Path(path), MAX_FILE_BYTES, "sample it at a lower rate").decode("utf-8", errors="replace")
    lines = _our_lines(text)
    names, t, q, dq, ddq = _points(parse_yaml(text, source) if lines is None else lines, source)
    if text.startswith(MARK):
        try:
            trajectory = _from_head(names, json.loads(text[len(MARK) : text.index("\n")]))
        except (ValueError, KeyError, TypeError, RecursionError, InputError) as error:
            raise InputError("the line that describes the curve is damaged", "delete that line", source) from error
        # The points are what a controller follows: a file edited by hand means what its points say.
        here = trajectory.at(t)
        if q.shape == here.q.shape and _same(q, here.q) and _same(dq, here.dq):
            return trajectory
    rate_hz = (len(t) - 1) / t[-1]
    accelerations = accelerations_of(t, q, dq) if ddq is None else ddq
    return Trajectory(names, through_points(t, q, dq, accelerations), "file", rate_hz)


def _same(points: Array, exact: Array) -> bool:
    """Return whether values differ by no more than their times do, which the file has in whole nanoseconds."""
    return bool(np.allclose(points, exact, rtol=0.0, atol=EDITED))


def _our_lines(text: str) -> dict[str, object] | None:
    """Return the fields of a file as save_trajectory writes it, one JSON a line: many times faster than YAML."""
    lines = text.split("\n")
    if not (
        text.startswith(MARK) and len(lines) > 3 and lines[1].startswith("joint_names: ") and lines[2] == "points:"
    ):
        return None
    try:
        points = [json.loads(line[2:]) for line in lines[3:] if line]
        return {"joint_names": json.loads(lines[1].removeprefix("joint_names: ")), "points": points}
    except (ValueError, RecursionError):
        return None


def _from_head(names: tuple[str, ...], head: dict[str, Any]) -> Trajectory:
    curve: Curve
    if head["curve"] == "fourier":
        c, A, B = (np.array(head[key], dtype=float) for key in ("c", "A", "B"))
        curve = FourierSeries(float(head["period"]), c, A, B, int(head["periods"]))
    else:
        curve = PiecewiseQuintic(np.array(head["knots"], dtype=float), np.array(head["a"], dtype=float))
    return Trajectory(names, curve, str(head["kind"]), float(head["rate_hz"]))


def _points(message: object, source: str) -> tuple[tuple[str, ...], Array, Array, Array, Array | None]:
    """Return names, t, q, dq, ddq of a JointTrajectory's fields, or refuse them."""

    def refuse(what: str) -> InputError:
        return InputError(what, "give a JointTrajectory with positions and velocities", source)

    if not isinstance(message, dict) or not isinstance(message.get("points"), list):
        raise refuse("there are no trajectory points in the file")
    names = message.get("joint_names")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise refuse("there are no joint names in the file")
    points = message["points"]
    if len(points) < 2:
        raise refuse(f"{len(points)} points are not a trajectory")
    try:
        t = np.array(
            [p["time_from_start"]["sec"] + 1e-9 * p["time_from_start"]["nanosec"] for p in points], dtype=float
        )
        q = np.array([p["positions"] for p in points], dtype=float)
        dq = np.array([p["velocities"] for p in points], dtype=float)
        has_ddq = all(p.get("accelerations") for p in points)
        ddq = np.array([p["accelerations"] for p in points], dtype=float) if has_ddq else None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise refuse("a trajectory point lacks a field or has one of the wrong length") from error
    shape = (len(points), len(names))
    arrays = (q, dq) if ddq is None else (q, dq, ddq)
    if any(x.shape != shape or not np.all(np.isfinite(x)) for x in arrays):
        raise refuse("a trajectory point has a number too few or one that is not finite")
    if not np.all(np.isfinite(t)) or abs(t[0]) > 1e-12 or not np.all(np.diff(t) > 0):
        raise refuse("times do not start at 0 and increase")
    return tuple(names), t, q, dq, ddq
