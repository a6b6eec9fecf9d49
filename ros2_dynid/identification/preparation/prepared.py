"""A recording prepared: smooth motion and torque on an even grid, and the filters that made them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction.columns import signs
from ros2_dynid.identification.preparation.cutoffs import Cutoffs
from ros2_dynid.identification.preparation.elsewhere import Elsewhere
from ros2_dynid.identification.preparation.even_grid import FirstPiece
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.notes import Note


@dataclass(frozen=True)
class Filter:
    """The filters used, all frequencies in Hz; dropped: seconds lost at either end of a segment."""

    rate: float
    position_cutoff: float | None
    row_cutoff: float | None
    inner_rate: float
    row_rate: float
    slow: float
    dropped: float
    delay: float = 0.0
    velocity: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Prepared:
    """Smooth motion and torque of one recording at the inner rate: t (N,), q, dq, ddq, tau (N, n), and how they came.

    sign: of the speed of every joint of the tree and then of every coupled motor, shape (N, n + couplings), taken at
    the recording's own rate and filtered like the torque: friction changes between two inner samples.
    bridged: share of each sample's filter that lies in bridged gaps, shape (N,).
    segments: stretches without a longer gap; step: inner samples between rows; kernel, slope_kernel: the second filter,
    and the one that also differentiates, None if there is none;
    top_speed: of each joint, shape (n,) [rad/s or m/s]; position_noise: standard deviation of its recorded positions.
    carried: torque of links and rotors without friction, shape (N, n), which load-dependent friction needs; None: zero.
    reference: commanded positions at the same times, shape (N, n); None where they were not recorded.
    commands: the same and the efforts that the controller adds to its own, at the recording's rate, which a simulated
    loop needs: those from each inner sample up to the next, shape (N, samples, 2, n).
    temperature: of the drives at the same times, shape (N, n) [deg C], NaN for a joint where it is not known; None: not
    recorded. temperatures: the lowest and the highest of each joint, shape (2, n), which an outline keeps.
    second: efforts of a second sensor (effort_streams.py), shape (N, n), NaN for a joint without; None: not recorded.
    elsewhere: where the samples are if this is an outline, whose t has the first and the last time and whose other
    arrays are empty (elsewhere.py); None: they are here.
    """

    t: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    sign: Array
    bridged: Array
    segments: tuple[slice, ...]
    kernel: Array | None
    slope_kernel: Array | None
    step: int
    top_speed: Array
    position_noise: Array
    filter: Filter
    source: str = ""
    notes: tuple[Note, ...] = ()
    cutoffs: Cutoffs | None = None
    known: FirstPiece | None = None
    carried: Array | None = None
    reference: Array | None = None
    commands: Array | None = None
    elsewhere: Elsewhere | None = None
    temperature: Array | None = None
    temperatures: Array | None = None
    second: Array | None = None


def as_prepared(
    robot: Robot,
    q: Array,
    dq: Array,
    ddq: Array,
    tau: Array,
    t: Array | None = None,
    *,
    slow: float = 0.0,
    source: str = "",
) -> Prepared:
    """Return motion and torque, shape (N, n) each, as they are: no filter, every sample a row."""
    q, dq, ddq, tau = (np.asarray(x, dtype=float) for x in (q, dq, ddq, tau))
    if not q.shape == dq.shape == ddq.shape == tau.shape or q.ndim != 2:
        what = f"q, dq, ddq and tau have shapes {q.shape}, {dq.shape}, {ddq.shape}, {tau.shape}"
        raise InputError(what, "give each the shape (samples, joints)", source or None)
    t = np.arange(len(q), dtype=float) if t is None else np.asarray(t, dtype=float)
    for name, x in (("time", t), ("q", q), ("dq", dq), ("ddq", ddq), ("tau", tau)):
        if not np.all(np.isfinite(x)):
            raise InputError(f"{name} holds values that are not finite", "leave those samples out", source or None)
    rate = 1.0 / float(np.median(np.diff(t))) if len(t) > 1 else 1.0
    settings = Filter(rate, None, None, rate, rate, slow, 0.0)
    top = np.max(np.abs(dq), axis=0, initial=0.0)
    return Prepared(
        t,
        q,
        dq,
        ddq,
        tau,
        signs(robot, dq),
        np.zeros(len(t)),
        (slice(0, len(t)),),
        None,
        None,
        1,
        top,
        np.zeros(len(top)),
        settings,
        source,
    )
