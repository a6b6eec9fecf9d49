"""From a recording to smooth motion and torque on an even grid, with cut-offs that the data propose.

Positions are low-passed and differentiated without phase; the torque passes the same filter. What is left, the
regressor and the torque, later pass a second filter alike (`rows`), so that both sides of tau = Y chi are treated the
same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from ros2_dynid.dynamics.motion import constraint
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import VelocitySource
from ros2_dynid.identification.signals import (
    HIGHEST,
    LOBES,
    filtered,
    half_kernel,
    lowpass_kernel,
    output_index,
    spectrum,
)
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.notes import Note, remark, repaired
from ros2_dynid.recording.samples import Samples, in_order_of, ordered

MOTION_TO_ROWS = 4.0
"""The second low-pass keeps this many times the frequency that holds 99 % of the velocity's power."""
ROWS_TO_POSITION = 5.0
"""The positions are low-passed this far above the second filter, so that its pass band is not touched."""
RATE_OVER_CUTOFF = 8.0
"""Rate at which the regressor is computed, over the positions' cut-off."""
ROW_RATE_OVER_CUTOFF = 5.0
"""Rate of the rows kept, over the cut-off of the second filter: its transition ends below half of this."""
SLOWEST_CUTOFF = 4.0
"""The second low-pass never goes below this [Hz]: friction changes faster than the motion ..."""
SHARE_OF_ENDS = 0.05
"""... nor so low that its transient takes more than this share of the recording at either end."""
JITTER = 0.02
"""Stamps off an even grid by less than this fraction of a period count as even."""
GAP = 3.5
"""A pause between stamps longer than this many periods splits a recording."""


@dataclass(frozen=True)
class PreparationOptions:
    """How to prepare a recording; None: proposed from the data.

    position_cutoff, row_cutoff: low-pass of the positions, and of torque and regressor alike [Hz]; row_rate: rows kept
    a second for each joint [Hz]; slow: rows of a joint slower than this fraction of its top speed are left out, since
    Coulomb friction is not defined there; velocity: where it comes from; gains: drive
    gains by joint name, tau = gain times the recorded effort; delay: the recorded effort is this late [s] (None: it is
    estimated beside the parameters).
    """

    position_cutoff: float | None = None
    row_cutoff: float | None = None
    row_rate: float | None = None
    slow: float = 0.02
    velocity: VelocitySource = VelocitySource.AUTO
    gains: Mapping[str, float] = field(default_factory=dict)
    delay: float | None = None

    def __post_init__(self) -> None:
        """Refuse settings without meaning."""
        for name in ("position_cutoff", "row_cutoff", "row_rate"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InputError(f"{name} is {value} Hz", "give a positive frequency [Hz]")
        if not 0.0 <= self.slow < 1.0:
            raise InputError(f"slow is {self.slow}", "give a fraction of the top speed between 0 and 1")
        if not isinstance(self.velocity, VelocitySource):
            raise InputError(f"velocity is {self.velocity!r}", f"choose from {', '.join(map(str, VelocitySource))}")
        if self.delay is not None and not np.isfinite(self.delay):
            raise InputError(f"the delay is {self.delay} s", "give a finite number of seconds")


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
    segments: stretches without a gap; step: inner samples between rows; kernel, slope_kernel: the second filter, and
    the one that also differentiates, None if there is none;
    top_speed: of each joint, shape (n,) [rad/s or m/s]; position_noise: standard deviation of its recorded positions.
    """

    t: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    sign: Array
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


def prepare_pieces(
    robot: Robot, pieces: Iterable[Samples], options: PreparationOptions | None = None, *, half: int | None = None
) -> Prepared:
    """Return a recording that comes in pieces, one after the other in time, prepared: only one piece is held at a time.

    The first piece proposes the filters. At the seams the filters' transients are lost, as at a gap.
    """
    done: list[Prepared] = []
    waiting: InputError | None = None
    for piece in pieces:
        try:
            done.append(prepare(robot, piece, options, half=half, like=done[0] if done else None))
        except InputError as error:  # a piece alone may stand still or be too short; the whole must not
            waiting = error
    if not done:
        assert waiting is not None
        raise waiting
    if len(done) == 1:
        return done[0]
    first, at = done[0], np.cumsum([0, *(len(p.t) for p in done)])
    segments = [
        slice(s.start + int(start), s.stop + int(start)) for p, start in zip(done, at, strict=False) for s in p.segments
    ]
    joined = {name: np.concatenate([getattr(p, name) for p in done]) for name in ("t", "q", "dq", "ddq", "tau", "sign")}
    notes = tuple(dict.fromkeys(note for p in done for note in p.notes))
    top = np.max([p.top_speed for p in done], axis=0)
    changes: dict[str, Any] = {**joined, "segments": tuple(segments), "top_speed": top, "notes": notes}
    return replace(first, **changes)


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
        (slice(0, len(t)),),
        None,
        None,
        1,
        top,
        np.zeros(len(top)),
        settings,
        source,
    )


def prepare(
    robot: Robot,
    samples: Samples,
    options: PreparationOptions | None = None,
    *,
    half: int | None = None,
    like: Prepared | None = None,
) -> Prepared:
    """Return the recording prepared for `robot`: even in time, low-passed, differentiated, checked.

    half: 0 or 1 takes the motion from every second position sample only, two independent views of the same motion.
    like: an earlier piece of the same recording, whose filters are used again.
    """
    options = options or PreparationOptions()
    samples = in_order_of(samples, robot.active_names)
    if like is None:
        check_signals(samples)
    samples = ordered(_finite(samples))
    pieces, rate, notes = _even(samples)
    longest = max(pieces, key=lambda piece: len(piece["t"]))
    cutoffs = propose(longest["q"], rate, options, samples.source) if like is None else like.cutoffs
    assert cutoffs is not None
    sources, velocity_notes = _velocity_sources(longest, rate, cutoffs, options, robot.active_names)
    gains, step = _gains(robot, options), cutoffs.step
    kernels = full = [lowpass_kernel(cutoffs.position, rate, k) for k in range(3)]
    proposed = cutoffs
    if half is not None:
        step, cutoffs = _halved(cutoffs, rate, samples.source)
        kernels = [half_kernel(cutoffs.position, rate, k, half) for k in range(3)]
    torque_kernel = lowpass_kernel(cutoffs.position, rate, shift=options.delay or 0.0)
    row_kernel = lowpass_kernel(cutoffs.row, rate / step)
    out: dict[str, list[Array]] = {name: [] for name in ("t", "q", "dq", "ddq", "tau", "sign")}
    segments, at = [], 0
    for piece in pieces:
        index = output_index(len(piece["t"]), len(kernels[0]), step)
        if len(index) < len(row_kernel):
            continue
        out["t"].append(piece["t"][0] + index / rate)
        for name, array in _differentiated(piece, kernels, step, sources).items():
            out[name].append(array)
        out["sign"].append(_filtered_sign(robot, piece, full, step, sources))
        out["tau"].append(filtered(piece["tau"], torque_kernel, step) * gains)
        segments.append(slice(at, at + len(index)))
        at += len(index)
    if not segments:
        needed = (len(kernels[0]) + step * len(row_kernel)) / rate
        what = f"the recording has no stretch of {needed:.2g} s without a gap, which its filters need"
        raise InputError(what, "record longer, or raise the cut-offs", samples.source)
    joined = {name: np.concatenate(arrays) for name, arrays in out.items()}
    dropped = (len(kernels[0]) // 2 + step * (len(row_kernel) // 2)) / rate
    return Prepared(
        **joined,
        segments=tuple(segments),
        kernel=row_kernel,
        slope_kernel=lowpass_kernel(cutoffs.row, rate / step, 1),
        step=cutoffs.row_step,
        top_speed=np.quantile(np.abs(joined["dq"]), 0.99, axis=0),
        position_noise=np.sqrt(0.5 * rate * spectrum(longest["q"][: int(120 * rate)], rate).floor),
        filter=Filter(
            rate=rate,
            position_cutoff=cutoffs.position,
            row_cutoff=cutoffs.row,
            inner_rate=rate / step,
            row_rate=rate / step / cutoffs.row_step,
            slow=options.slow,
            dropped=dropped,
            delay=options.delay or 0.0,
            velocity=sources,
        ),
        source=samples.source,
        notes=(*samples.notes, *notes, *velocity_notes),
        cutoffs=proposed,
    )


@dataclass(frozen=True)
class Cutoffs:
    """Cut-offs proposed or asked for [Hz]; step: samples between inner ones; row_step: inner samples between rows."""

    position: float
    row: float
    step: int
    row_step: int


def propose(q: Array, rate: float, options: PreparationOptions, source: str = "") -> Cutoffs:
    """Return the filters for positions q, shape (N, n), at `rate` [Hz]: from their spectrum, unless asked for."""
    highest = HIGHEST * rate
    found = spectrum(q[: int(120 * rate)], rate)
    motion = float(np.median(found.motion))
    lowest = max(SLOWEST_CUTOFF, LOBES * rate / (SHARE_OF_ENDS * len(q)))
    row = options.row_cutoff or min(max(MOTION_TO_ROWS * motion, lowest), highest / 2.2)
    visible = float(np.median(found.visible))
    position = options.position_cutoff or min(max(min(ROWS_TO_POSITION * row, visible), 2.2 * row), highest)
    for name, value in (("position", position), ("row", row)):
        if value > highest * 1.0001:
            what = f"the {name} cut-off of {value:g} Hz is too high for data at {rate:.4g} Hz"
            raise InputError(what, f"choose at most {highest:.4g} Hz", source)
    step = max(1, int(rate / (RATE_OVER_CUTOFF * position)))
    wanted = options.row_rate or ROW_RATE_OVER_CUTOFF * row
    return Cutoffs(position, row, step, max(1, int(rate / step / wanted + 0.5)))


def _halved(cutoffs: Cutoffs, rate: float, source: str) -> tuple[int, Cutoffs]:
    """Return an even step, so that all outputs use the same half of the samples, and the cut-offs with it."""
    if cutoffs.position > 0.5 * HIGHEST * rate:
        what = f"half of the samples at {rate:.4g} Hz cannot carry a position cut-off of {cutoffs.position:.3g} Hz"
        raise InputError(
            what, f"lower --position-cutoff to {0.5 * HIGHEST * rate:.3g} Hz, or use another method", source
        )
    step = max(2, 2 * (cutoffs.step // 2))
    row_step = max(1, int(cutoffs.step * cutoffs.row_step / step + 0.5))
    return step, Cutoffs(cutoffs.position, cutoffs.row, step, row_step)


def check_signals(samples: Samples) -> None:
    """Raise InputError unless there are enough samples, a torque, and joints that moved and whose torque changes."""
    if samples.tau is None:
        raise InputError("the recording has no effort (torque)", "record sensor_msgs/JointState.effort", samples.source)
    if len(samples) < 16:
        raise InputError(f"the recording has only {len(samples)} samples", "record for some seconds", samples.source)
    for j, name in enumerate(samples.joint_names):
        q, tau = samples.q[:, j], samples.tau[:, j]
        for kind, x in (("position", q), ("effort", tau)):
            bad = np.count_nonzero(~np.isfinite(x))
            if bad == len(x):
                raise InputError(f"joint {name!r} has no {kind}: all of it is NaN", "record it", samples.source)
            if bad > 0.5 * len(x):
                what = f"joint {name!r}: {bad} of {len(x)} values of its {kind} are NaN"
                raise InputError(what, "record it anew or cut the recording", samples.source)
        moved = float(np.nanmax(q) - np.nanmin(q))
        if moved < 1e-3:
            what = f"joint {name!r} never moved (its positions span {moved:.1g} rad or m)"
            raise InputError(what, f"excite it, or hold it: --hold {name}={np.nanmedian(q):.4g}", samples.source)
        if np.nanmax(tau) - np.nanmin(tau) == 0.0:
            what = f"the effort of joint {name!r} is constant ({np.nanmedian(tau):g}) although the joint moves"
            raise InputError(what, "check that its torque or current is recorded", samples.source)


def _finite(samples: Samples) -> Samples:
    """Return the samples in which position and effort of every joint are finite."""
    assert samples.tau is not None
    good = np.isfinite(samples.t) & np.isfinite(samples.q).all(axis=1) & np.isfinite(samples.tau).all(axis=1)
    if good.all():
        return samples
    bad = int(np.count_nonzero(~good))
    first = next(
        name
        for j, name in enumerate(samples.joint_names)
        if not (np.isfinite(samples.q[:, j]).all() and np.isfinite(samples.tau[:, j]).all())
    )
    text = f"{bad} samples with values that are not finite were dropped (joint {first!r} first)"
    return samples.take(good).noted(repaired(text))


def _even(samples: Samples) -> tuple[list[dict[str, Array]], float, tuple[Note, ...]]:
    """Return stretches on an even grid, their rate [Hz] and notes. Samples must be in order and finite."""
    t = samples.t
    if len(t) < 16:
        raise InputError(f"only {len(t)} usable samples are left", "record longer", samples.source)
    period = float(np.median(np.diff(t)))
    if not period > 0:
        raise InputError("the time stamps do not advance", "record with a running clock", samples.source)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(t) > GAP * period) + 1, [len(t)]))
    notes = [remark(f"{len(edges) - 2} gaps split the recording")] if len(edges) > 2 else []
    assert samples.tau is not None
    pieces, jittered = [], 0
    # The median of rounded stamps is coarse: the longest stretch's mean period is the better clock.
    longest = int(np.argmax(np.diff(edges)))
    span = t[edges[longest] : edges[longest + 1]]
    mean = float((span[-1] - span[0]) / (len(span) - 1))
    period = mean if abs(mean - period) < 0.1 * period else period
    for start, stop in itertools.pairwise(edges):
        part = slice(int(start), int(stop))
        if stop - start < 16:
            continue
        ti = t[part]
        even = ti[0] + period * np.arange(int(np.floor((ti[-1] - ti[0]) / period + 1e-6)) + 1)
        piece = {"t": even, "q": samples.q[part], "tau": samples.tau[part]}
        dq = samples.dq
        if dq is not None and np.isfinite(dq[part]).all():
            piece["dq"] = dq[part]
        if len(even) != len(ti) or np.max(np.abs(even - ti)) > JITTER * period:
            jittered += 1
            for name in piece.keys() - {"t"}:
                piece[name] = _resampled(ti, piece[name], even)
        pieces.append(piece)
    if not pieces:
        raise InputError("gaps cut the recording into shreds", "record without losing samples", samples.source)
    if jittered:
        notes.append(repaired(f"uneven stamps: resampled to {1.0 / period:.5g} Hz"))
    return pieces, 1.0 / period, tuple(notes)


def _resampled(t: Array, x: Array, even: Array) -> Array:
    """Return x, shape (N, n), at the times `even`, by cubic splines."""
    return np.asarray(CubicSpline(t, x, axis=0)(even))


def _gains(robot: Robot, options: PreparationOptions) -> Array:
    unknown = set(options.gains) - set(robot.active_names)
    if unknown:
        cure = f"the robot has {', '.join(robot.active_names)}"
        raise InputError(f"a drive gain is given for {min(unknown)!r}", cure)
    gains = np.array([options.gains.get(name, 1.0) for name in robot.active_names])
    if not np.all(np.isfinite(gains)) or np.any(gains == 0):
        raise InputError("a drive gain is zero or not finite", "give N.m (or N) for each unit of the recorded effort")
    return gains


def _differentiated(
    piece: dict[str, Array], kernels: list[Array], step: int, sources: tuple[str, ...]
) -> dict[str, Array]:
    """Return q, dq, ddq of one stretch at the inner rate, the velocity of each joint from the source named."""
    q, dq, ddq = (filtered(piece["q"], kernel, step) for kernel in kernels)
    measured = [j for j, source in enumerate(sources) if source == "measured"]
    if measured and "dq" in piece:
        dq[:, measured] = filtered(piece["dq"][:, measured], kernels[0], step)
        ddq[:, measured] = filtered(piece["dq"][:, measured], kernels[1], step)
    return {"q": q, "dq": dq, "ddq": ddq}


def signs(robot: Robot, dq: Array) -> Array:
    """Return the sign of the speeds of all joints of the tree and of the coupled motors, shape (N, n + couplings)."""
    G, _ = constraint(robot)
    every = dq @ G.T
    motors = [sum(c * every[:, j - 1] for j, c in coupling.weights.items()) for coupling in robot.coupling]
    return np.asarray(np.sign(np.column_stack([every, *motors])))


def _filtered_sign(
    robot: Robot, piece: dict[str, Array], kernels: list[Array], step: int, sources: tuple[str, ...]
) -> Array:
    """Return the signs of the smoothed speeds at the full rate, through the filter of the torque.

    Where the kernel reaches beyond the speeds, which end earlier than the data, the sign is held.
    """
    K = len(kernels[0]) // 2
    speed = filtered(piece["q"], kernels[1], 1)
    measured = [j for j, source in enumerate(sources) if source == "measured"]
    if measured and "dq" in piece:
        speed[:, measured] = filtered(piece["dq"][:, measured], kernels[0], 1)
    held = np.pad(signs(robot, speed), ((K, K), (0, 0)), mode="edge")
    return filtered(held, kernels[0], step)


def _velocity_sources(
    piece: dict[str, Array], rate: float, cutoffs: Cutoffs, options: PreparationOptions, names: tuple[str, ...]
) -> tuple[tuple[str, ...], list[Note]]:
    """Return for each joint "position" or "measured", and notes on measured velocities that disagree.

    Measured velocity is better where it has no gain or delay against the positions, and less noise at the cut-off.
    """
    n = piece["q"].shape[1]
    if options.velocity is VelocitySource.POSITION or "dq" not in piece:
        if options.velocity is VelocitySource.MEASURED:
            raise InputError("the recording has no velocities", "use --velocity position")
        return ("position",) * n, []
    if options.velocity is VelocitySource.MEASURED:
        return ("measured",) * n, []
    kernels = [lowpass_kernel(cutoffs.row, rate, k) for k in range(3)]
    step = max(1, int(rate / (4.0 * cutoffs.row)))
    dq, ddq = (filtered(piece["q"], kernels[k], step) for k in (1, 2))
    measured = filtered(piece["dq"], kernels[0], step)
    noise_q, noise_dq = spectrum(piece["q"], rate).floor, spectrum(piece["dq"], rate).floor
    omega = 2.0 * np.pi * cutoffs.position
    sources, notes = [], []
    for j in range(n):
        A = np.column_stack((dq[:, j], -ddq[:, j]))
        (gain, delay), *_ = np.linalg.lstsq(A, measured[:, j], rcond=None)
        off = float(np.std(measured[:, j] - dq[:, j])) / max(float(np.std(dq[:, j])), 1e-300)
        if off > 0.2:
            notes.append(
                remark(
                    f"joint {names[j]!r}: the recorded velocity does not fit the position (gain {gain:.2f}, late by "
                    f"{1e3 * delay / max(abs(gain), 1e-9):.1f} ms): not used"
                )
            )
        agrees = abs(gain - 1.0) < 2e-3 and abs(delay) * 2.0 * np.pi * cutoffs.row < 0.02 and off < 0.01
        quieter = noise_dq[j] < 0.25 * omega**2 * noise_q[j] / 3.0
        sources.append("measured" if agrees and quieter else "position")
    return tuple(sources), notes
