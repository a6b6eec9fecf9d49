# SPDX-License-Identifier: Apache-2.0

"""Drives in closed loop along held commands, many stretches of time at once, with derivatives by their parameters.

A step of length h is the trapezoidal rule in position and speed; friction opposes the speed at the step's end. With
r the force without friction, A the step's inertia and F the friction, the new speed is

    v+ = sign(r) max(|r| - F, 0) / A,

so that a joint sticks where |r| <= F, exactly and whatever the step. The other joints act through the rigid-body
torque of an earlier motion (`RigidTerms`), which is repeated until both motions agree (waveform relaxation).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.codegen.compiled import FLAGS, cache_folder, compile_shared, compiler, is_private_file
from ros2_dynid.dynamics.friction import column_slopes
from ros2_dynid.identification.servo.drive import Drives, Term
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array


@dataclass(frozen=True, eq=False)
class Commands:
    """Commanded positions of one recording: t (N,) [s], position (N, n), each held until the next one."""

    t: Array
    position: Array


@dataclass(frozen=True, eq=False)
class RigidTerms:
    """The rigid body along a motion q, (steps, B, n) each: own inertia M_jj, torque of all else, d torque / d q_j."""

    q: Array
    inertia: Array
    torque: Array
    stiffness: Array


@dataclass(frozen=True, eq=False)
class Stretches:
    """B stretches of time of `steps` steps of `step` [s], (B,): their begin (B,), position y and speed there, (B, n).

    recording: which each is of, (B,). slot, stretch, at, share: the samples: which sample of which stretch, in which
    step, and how far in it (0 to 1); sorted by stretch and time. measured: positions (slots, B, n), NaN where there is
    no sample or it does not count.
    """

    step: Array
    steps: int
    begin: Array
    y: Array
    v: Array
    recording: NDArray[np.intp]
    slot: NDArray[np.intp]
    stretch: NDArray[np.intp]
    at: NDArray[np.intp]
    share: Array
    measured: Array


@dataclass(frozen=True, eq=False)
class Simulated:
    """Positions y at the samples, shape (C, B, n, slots), and their derivatives by the ratios, (C, B, n, slots, K)."""

    y: Array
    slopes: Array


@dataclass(frozen=True, eq=False)
class Motion:
    """The motion at the edges of all steps: q, v (steps + 1, B, n); in them force: tau / kp (steps, B, n)."""

    q: Array
    v: Array
    force: Array


TABLE_POINTS = 2048
"""Points of the table of a friction term's column, evenly in the root of the speed: dense where friction changes."""


def simulate_motion(
    drives: Drives, commands: Sequence[Commands], rigid: RigidTerms, stretches: Stretches, top_speed: float
) -> Motion:
    """Return the motion along the commands of drives with ratios (K, n).

    top_speed: where friction terms end to change [rad/s or m/s].
    """
    steps, B, n = rigid.q.shape
    q, v, force = np.empty((B, n, steps + 1)), np.empty((B, n, steps + 1)), np.empty((B, n, steps))
    outputs = {"out_q": q, "out_v": v, "out_force": force}
    _run(Drives(drives.ratios[:, None], drives.terms), commands, rigid, stretches, top_speed, outputs)
    return Motion(*(np.moveaxis(x, 2, 0) for x in (q, v, force)))


def simulate_samples(
    drives: Drives,
    commands: Sequence[Commands],
    rigid: RigidTerms,
    stretches: Stretches,
    top_speed: float,
    active: NDArray[np.bool_] | None = None,
) -> Simulated:
    """Return what the encoders read at the samples, with derivatives, of C variants of drives with ratios (K, C, n).

    active: which joints of which variants are simulated, (C, n); the others are NaN. By default all.
    """
    K, C, n = drives.ratios.shape
    slots, B, _ = stretches.measured.shape
    y, slopes = np.full((C, B, n, slots), np.nan), np.zeros((C, B, n, slots, K))
    _run(drives, commands, rigid, stretches, top_speed, {"out_y": y, "out_slope": slopes}, active)
    return Simulated(y, slopes)


_DOUBLE, _SIZE = ctypes.POINTER(ctypes.c_double), ctypes.c_ssize_t
_INDEX = ctypes.POINTER(_SIZE)


class _Job(ctypes.Structure):
    """The struct Job of kernel.c."""

    _fields_ = (
        *((name, _SIZE) for name in ("variants", "stretches", "joints", "ratios", "steps", "slots", "terms", "points")),
        ("active", _INDEX),
        *((name, _DOUBLE) for name in ("ratio", "step", "begin", "y", "v", "rigid_q", "mass", "torque", "stiff")),
        *((name, _DOUBLE) for name in ("time", "command")),
        *((name, _INDEX) for name in ("first", "last")),
        ("samples", _SIZE),
        *((name, _DOUBLE) for name in ("column", "slope")),
        ("loaded", _INDEX),
        ("top_speed", ctypes.c_double),
        *((name, _INDEX) for name in ("sample_first", "at", "slot")),
        *((name, _DOUBLE) for name in ("share", "out_y", "out_slope", "out_q", "out_v", "out_force")),
    )


def _run(
    drives: Drives,
    commands: Sequence[Commands],
    rigid: RigidTerms,
    stretches: Stretches,
    top_speed: float,
    outputs: dict[str, Array],
    active: NDArray[np.bool_] | None = None,
) -> None:
    """Run the kernel; outputs: its output arrays by name; active: see simulate_samples."""
    K, C, n = drives.ratios.shape
    steps, B, _ = rigid.q.shape
    ends = np.cumsum([len(c.t) for c in commands])
    begins = ends - [len(c.t) for c in commands]
    column, slope = _tables(drives.terms, top_speed)
    by_joint = {
        name: np.moveaxis(x, 0, 2)
        for name, x in (
            ("rigid_q", rigid.q),
            ("mass", rigid.inertia),
            ("torque", rigid.torque),
            ("stiff", rigid.stiffness),
        )
    }
    doubles = {
        "ratio": drives.ratios,
        "step": stretches.step,
        "begin": stretches.begin,
        "y": stretches.y,
        "v": stretches.v,
        **by_joint,
        "time": np.concatenate([c.t for c in commands]),
        "command": np.concatenate([c.position for c in commands]).T,
        "column": column,
        "slope": slope,
        "share": stretches.share,
    }
    indices = {
        "active": np.ones((C, n)) if active is None else active,
        "first": begins[stretches.recording],
        "last": ends[stretches.recording] - 1,
        "loaded": np.array([int(term.kind.loaded) for term in drives.terms] or [0]),
        "sample_first": np.searchsorted(stretches.stretch, np.arange(B + 1)),
        "at": stretches.at,
        "slot": stretches.slot,
    }
    arrays = {name: np.ascontiguousarray(x, dtype=float) for name, x in doubles.items()}
    whole = {name: np.ascontiguousarray(x, dtype=np.intp) for name, x in indices.items()}
    job = _Job(
        variants=C,
        stretches=B,
        joints=n,
        ratios=K,
        steps=steps,
        slots=len(stretches.measured),
        terms=len(drives.terms),
        points=TABLE_POINTS,
        samples=int(ends[-1]),
        top_speed=top_speed,
        **{name: x.ctypes.data_as(_DOUBLE) for name, x in (*arrays.items(), *outputs.items())},
        **{name: x.ctypes.data_as(_INDEX) for name, x in whole.items()},
    )
    _kernel().simulate(ctypes.byref(job))


def _tables(terms: Sequence[Term], top_speed: float) -> tuple[Array, Array]:
    """Return the columns of the terms and their derivatives by the speed, at a load of 1, (terms, TABLE_POINTS)."""
    speed = top_speed * np.linspace(0.0, 1.0, TABLE_POINTS) ** 2
    one, zero = np.ones_like(speed), np.zeros_like(speed)
    rows = [column_slopes(friction_term(term), speed, one, zero, one)[:2] for term in terms]
    columns, slopes = zip(*rows, strict=True) if rows else ((zero,), (zero,))
    return np.array(columns), np.array(slopes)


@functools.cache
def _kernel() -> ctypes.CDLL:
    """Return the compiled kernel, built once for a compiler; BuildError without one."""
    source = Path(__file__).with_name("kernel.c")
    text = "\0".join((source.read_text(), *compiler(), *FLAGS))
    path = cache_folder() / f"servo-{hashlib.sha256(text.encode()).hexdigest()[:40]}.so"
    if not is_private_file(path):
        with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as folder:
            compile_shared(source, Path(folder) / "kernel.so")
            (Path(folder) / "kernel.so").chmod(0o700)
            (Path(folder) / "kernel.so").replace(path)
    return ctypes.CDLL(str(path))


def friction_term(term: Term, joint: int = 1, coefficient: float = 0.0) -> FrictionTerm:
    """Return a term as the friction of a joint."""
    field = None if term.kind.shape is None else term.kind.shape.field
    speed, exponent = (term.shape if field == name else 0.0 for name in ("speed", "exponent"))
    return FrictionTerm(joint, term.kind, coefficient, speed=speed, exponent=exponent)
