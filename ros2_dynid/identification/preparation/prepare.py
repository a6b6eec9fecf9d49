# SPDX-License-Identifier: Apache-2.0

"""From a recording to smooth motion and torque on an even grid, with cut-offs that the data propose.

Positions are low-passed and differentiated without phase; the torque passes the same filter. What is left, the
regressor and the torque, later pass a second filter alike (`rows`), so that both sides of tau = Y chi are treated the
same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Note, Option, Text, remark, repaired
from ros2_dynid.identification.friction_columns import signs
from ros2_dynid.identification.options import PreparationOptions, VelocitySource
from ros2_dynid.identification.preparation.cutoffs import (
    Cutoffs,
    CutoffThresholds,
    estimate_spectrum,
    first_seconds,
    propose_cutoffs,
)
from ros2_dynid.identification.preparation.even_grid import Grid, GridThresholds, Stretch, even_grid, shift_stretch
from ros2_dynid.identification.preparation.filters import MAX_CUTOFF_SHARE, filter_signal, lowpass_kernel, output_index
from ros2_dynid.identification.preparation.prepared import (
    SIGNALS,
    Filter,
    FilterSetup,
    Prepared,
    consecutive_slices,
    join_signals,
    temperature_range,
)
from ros2_dynid.model.efforts import DRIVE
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Samples, in_order_of, ordered


@dataclass(frozen=True)
class SignalThresholds:
    """Which recordings can be used at all.

    known_share: of its values that a signal needs. least_motion: a joint that moved by less [rad or m] was not excited.
    slowest_rate: samples a second below which no acceleration of an arm can be told. largest_value: of positions and
    efforts, in any unit: no machine has more.
    """

    known_share: float = 0.5
    least_motion: float = 1e-3
    slowest_rate: float = 2.0
    largest_value: float = 1e9


def check_signals(samples: Samples, thresholds: SignalThresholds | None = None, unforced: Collection[str] = ()) -> None:
    """Raise InputError unless there are enough samples, and a torque that changes for each joint that moves.

    unforced: joints whose effort may be constant, as that of a floating base in the air.
    """
    limits = thresholds or SignalThresholds()
    if samples.tau is None:
        raise InputError("the recording has no effort (torque)", "record sensor_msgs/JointState.effort", samples.source)
    if len(samples) < GridThresholds.fewest_samples:
        raise InputError(f"the recording has only {len(samples)} samples", "record for some seconds", samples.source)
    _check_rate(samples, limits.slowest_rate)
    some_moved = False
    for j, name in enumerate(samples.joint_names):
        q, tau = samples.q[:, j], samples.tau[:, j]
        for kind, x in (("position", q), ("effort", tau)):
            bad = np.count_nonzero(~np.isfinite(x))
            if bad == len(x):
                raise InputError(f"joint {name!r} has no {kind}: all of it is NaN", "record it", samples.source)
            if bad > (1.0 - limits.known_share) * len(x):
                what = f"joint {name!r}: {bad} of {len(x)} values of its {kind} are NaN"
                raise InputError(what, "record it anew or cut the recording", samples.source)
            if np.nanmax(np.abs(x)) > limits.largest_value:
                row = int(np.nanargmax(np.abs(x)))
                what = f"joint {name!r}: its {kind} is {x[row]:.3g} at {samples.t[row]:.6g} s, which no robot has"
                raise InputError(what, "correct that sample, or cut the recording before it", samples.source)
        moved = float(np.nanmax(q) - np.nanmin(q)) >= limits.least_motion
        some_moved |= moved
        if moved and name not in unforced and np.nanmax(tau) - np.nanmin(tau) == 0.0:
            what = f"the effort of joint {name!r} is constant ({np.nanmedian(tau):g}) although the joint moves"
            raise InputError(what, "check that its torque or current is recorded", samples.source)
    if unforced and not np.nanmax(np.abs(samples.tau)) > 0.0:
        what = "neither efforts of drives nor forces on the robot are recorded"
        raise InputError(what, "record one of them: positions alone tell no mass", samples.source)
    if not some_moved:
        raise InputError("no joint moved in the recording", "leave it out, or excite the robot", samples.source)


def judge_motion(
    robot: Robot, prepared: Sequence[Prepared], thresholds: SignalThresholds | None = None
) -> tuple[Prepared, ...]:
    """Return recordings of one robot in which a joint may stand still, if it moves in another of them.

    What is slow for a joint is told by its top speed: of one that stands still, by that in the other recordings. Raise
    InputError if a joint never moves.
    """
    least = (thresholds or SignalThresholds()).least_motion
    spans = np.array([np.ptp(part.q, axis=0) for part in prepared])
    for name, span, q in zip(robot.active_names, spans.max(axis=0), prepared[0].q.T, strict=True):
        if span < least and name in robot.drive_names:  # a floating base may stand still
            what = f"joint {name!r} never moved (its positions span {span:.1g} rad or m)"
            held = Option("hold", {name: float(np.median(q))})
            source = prepared[0].source if len(prepared) == 1 else None
            raise InputError(what, Text("excite it, or hold it: ", held), source)
    top = np.max([part.top_speed for part in prepared], axis=0)
    return tuple(
        replace(part, top_speed=np.where(span < least, top, part.top_speed)) if np.any(span < least) else part
        for part, span in zip(prepared, spans, strict=True)
    )


def _check_rate(samples: Samples, slowest: float) -> None:
    """Refuse samples so far apart that their times must be in another unit, or show no motion."""
    steps = np.diff(samples.t[np.isfinite(samples.t)])
    step = float(np.median(steps[steps > 0.0])) if np.any(steps > 0.0) else 0.0
    if step * slowest <= 1.0:
        return
    unit = "ms" if step < 1e3 else "us"
    hint = Text("record faster; or, if its times are in another unit, set ", Option("time_unit", unit))
    raise InputError(f"the recording has {1.0 / step:.3g} samples a second", hint, samples.source)


def drop_unknown(samples: Samples) -> Samples:
    """Return the samples in which position and effort of every joint are finite."""
    if samples.tau is None:  # of a piece: others of the recording have it
        raise InputError("it has no effort (torque)", "record sensor_msgs/JointState.effort", samples.source)
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


def absent_efforts(robot: Robot) -> list[str]:
    """Return the names of the joints whose effort is not measured."""
    return [robot.joints[j - 1].name for j in robot.active if robot.joints[j - 1].measured.absent]


def without_absent_efforts(robot: Robot, samples: Samples) -> Samples:
    """Return the samples with zero for efforts that are declared as not measured, whatever was recorded."""
    absent = np.isin(samples.joint_names, absent_efforts(robot))
    if not absent.any():
        return samples
    return replace(samples, tau=np.where(absent, 0.0, 0.0 if samples.tau is None else samples.tau))


def order_streams(robot: Robot, samples: Samples) -> Samples:
    """Return samples whose tau is the first stream and whose tau_l, if any, is the second; joints in robot's order."""
    if samples.tau_l is None:
        return samples
    at_link = _at_link(robot)
    if samples.tau is None:
        if not at_link.all():
            hint = Text("declare that they are: ", Option("sensor", "link"))
            raise InputError("the recording has torques at the links and no efforts of motors", hint, samples.source)
        return replace(samples, tau=samples.tau_l, tau_l=None)
    there = np.mean(np.isfinite(samples.tau_l), axis=0) >= SignalThresholds.known_share
    use = at_link & there
    second = np.where(use, samples.tau, np.where(there, samples.tau_l, np.nan))
    first = np.where(use, samples.tau_l, samples.tau)
    return replace(samples, tau=first, tau_l=second if there.any() else None)


def find_exchanged_streams(robot: Robot, samples: Samples) -> NDArray[np.bool_]:
    """Return which joints' second stream is the motor's effort, shape (n,), of samples of `order_streams`."""
    if samples.tau_l is None:
        return np.zeros(len(robot.active), dtype=bool)
    return np.asarray(_at_link(robot) & np.isfinite(samples.tau_l).any(axis=0))


def _at_link(robot: Robot) -> NDArray[np.bool_]:
    return np.array([robot.joints[j - 1].measured_drive != DRIVE for j in robot.active])


REFERENCE_BAND = 20.0
"""Commanded positions keep at least this much [Hz], however noisy the measured ones are."""


def prepare(
    robot: Robot,
    samples: Samples,
    options: PreparationOptions | None = None,
    *,
    like: FilterSetup | None = None,
    filters: Filter | None = None,
    cutoff_thresholds: CutoffThresholds | None = None,
) -> Prepared:
    """Return the recording prepared for `robot`: even in time, low-passed, differentiated, checked.

    like: grid and filters of an earlier piece of the same recording, to be used again. filters: of another recording,
    whose cut-offs are used again. cutoff_thresholds: how cut-offs follow from the spectrum.
    """
    options = options or PreparationOptions()
    samples = order_streams(robot, without_absent_efforts(robot, in_order_of(samples, robot.active_names)))
    if like is None:
        check_signals(samples, unforced=[*robot.active_names[: robot.base_number], *absent_efforts(robot)])
    samples = ordered(drop_unknown(samples))
    grid = even_grid(samples, None if like is None else like.spectrum)
    setup, notes = like, (*samples.notes, *grid.notes)
    if setup is None:
        setup, more_notes = _choose_filters(robot, grid, options, filters, cutoff_thresholds, samples.source)
        notes += more_notes
    cutoffs, rate, delay = setup.cutoffs, grid.spectrum.rate, options.delay or 0.0
    step, row_kernel = cutoffs.step, lowpass_kernel(cutoffs.row, rate / cutoffs.step)
    late = round(delay * rate)  # in whole samples; the kernel takes the rest
    kernels = [lowpass_kernel(cutoffs.position, rate, k) for k in range(3)]
    torque_kernel = lowpass_kernel(cutoffs.position, rate, shift=delay - late / rate)
    gains, exchanged = options.gains_of(robot), find_exchanged_streams(robot, samples)
    pieces: list[dict[str, Array | None]] = []
    for part in (shift_stretch(part, late) for part in grid.parts):
        index = output_index(len(part.t), len(kernels[0]), step)
        if len(index) < len(row_kernel):
            continue
        dq, ddq = (differentiate(part, kernels, step, setup.velocity, k) for k in (1, 2))
        reference = commands = None
        if part.q_r is not None:
            reference = filter_signal(part.q_r, kernels[0], step)
            commands = filter_commands(part, index.astype(int), step, rate, cutoffs.position, gains)
        second = None if part.second is None else filter_signal(part.second, kernels[0], step)
        pieces.append(
            {
                "t": part.t[0] + index / rate,
                "q": filter_signal(part.q, kernels[0], step),
                "dq": dq,
                "ddq": ddq,
                "tau": filter_signal(part.tau, torque_kernel, step) * np.where(exchanged, 1.0, gains),
                "sign": filter_signs(robot, part, kernels, step, setup.velocity),
                "bridged": _bridged_share(part, kernels[0], step),
                "reference": reference,
                "commands": commands,
                "temperature": None
                if part.temperature is None
                else part.temperature[np.round(index).astype(int)],  # slow beside the filters
                "second": None if second is None else second * np.where(exchanged, gains, 1.0),
            }
        )
    if not pieces:
        needed = (len(kernels[0]) + step * len(row_kernel)) / rate
        what = f"the recording has no stretch of {needed:.2g} s without a gap, which its filters need"
        raise InputError(what, "record longer, or raise the cut-offs", samples.source)
    signals: dict[str, Any] = {name: join_signals([piece.get(name) for piece in pieces]) for name in SIGNALS}
    temperature = signals["temperature"]
    return Prepared(
        **signals,
        segments=consecutive_slices([len(piece["q"]) for piece in pieces if piece["q"] is not None]),
        kernel=row_kernel,
        slope_kernel=lowpass_kernel(cutoffs.row, rate / step, 1),
        step=cutoffs.row_step,
        top_speed=np.quantile(np.abs(signals["dq"]), TOP_SPEED_QUANTILE, axis=0),
        position_noise=np.sqrt(0.5 * rate * grid.spectrum.floor),
        filter=setup.describe(options.slow, delay),
        source=samples.source,
        notes=notes,
        cutoffs=cutoffs,
        spectrum=grid.spectrum,
        temperatures=None if temperature is None else np.array((temperature.min(axis=0), temperature.max(axis=0))),
    )


def _choose_filters(
    robot: Robot,
    grid: Grid,
    options: PreparationOptions,
    filters: Filter | None,
    thresholds: CutoffThresholds | None,
    source: str,
) -> tuple[FilterSetup, tuple[Note, ...]]:
    """Return the filters of a recording, by the spectrum unless options or those of another one say so, and notes."""
    rate, longest = grid.spectrum.rate, max(grid.parts, key=lambda part: len(part.t))
    if filters is not None:
        options = options.with_filters(filters.position_cutoff, filters.row_cutoff, MAX_CUTOFF_SHARE * rate)
    cutoffs = propose_cutoffs(grid.spectrum, len(longest.t), options, source, thresholds)
    sources, notes = select_velocity_sources(longest, rate, cutoffs, options.velocity, robot.active_names)
    if cutoffs.slow_rate:
        what = f"{rate:.3g} samples a second show motion and friction up to {cutoffs.row:.2g} Hz only"
        notes = (*notes, remark(f"{what}: accelerations are poor; record faster"))
    return FilterSetup(grid.spectrum, cutoffs, sources), notes


def filter_commands(
    part: Stretch, index: NDArray[np.intp], step: int, rate: float, cutoff: float, gains: Array
) -> Array:
    """Return commanded positions and added efforts of the `step` samples from each of `index`, (N, step, 2, n).

    A controller's reference is smooth, and only stamps and steps of its record are not: it is filtered as little as
    removes these. Added efforts may jump, as friction does, and stay as they are.
    """
    assert part.q_r is not None
    kernel = lowpass_kernel(min(max(cutoff, REFERENCE_BAND), MAX_CUTOFF_SHARE * rate), rate)
    K = len(kernel) // 2
    smooth = filter_signal(part.q_r, kernel, 1)
    every = np.minimum(index[:, None] + np.arange(step), len(part.t) - 1 - K)
    added = np.zeros_like(part.q_r) if part.tau_f is None else part.tau_f * gains
    return np.stack((smooth[every - K], added[every]), axis=2)


def _bridged_share(part: Stretch, kernel: Array, step: int) -> Array:
    """Return the share of the position filter that lies in bridged gaps, for each inner sample."""
    share = np.abs(kernel) / np.abs(kernel).sum()
    if not part.bridged.any():
        return np.zeros(len(output_index(len(part.t), len(kernel), step)))
    return filter_signal(part.bridged.astype(float), share, step)


def prepare_pieces(
    robot: Robot,
    pieces: Iterable[Samples],
    options: PreparationOptions | None = None,
    *,
    filters: Filter | None = None,
) -> Prepared:
    """Return a recording that comes in pieces, one after the other in time, prepared: only one piece is held at a time.

    The first piece that can be used proposes the filters, unless those of another recording are to be used (`filters`).
    At the seams the filters' transients are lost, as at a gap.
    A piece alone may stand still or be too short: it is left out with a note, unless none can be used.
    """
    refused: list[Note] = []
    done = list(prepare_each(robot, pieces, options, refused, filters=filters))
    return join_prepared(done, tuple(refused))


def prepare_each(
    robot: Robot,
    pieces: Iterable[Samples],
    options: PreparationOptions | None,
    refused: list[Note],
    *,
    filters: Filter | None = None,
) -> Iterator[Prepared]:
    """Yield the pieces prepared, one at a time; what was left out is appended to `refused`."""
    setup: FilterSetup | None = None
    first_error: InputError | None = None
    for piece in pieces:
        try:
            part = prepare(robot, piece, options, like=setup, filters=filters)
        except InputError as error:
            first_error = first_error or error
            span = f"{piece.t[0]:.6g} to {piece.t[-1]:.6g} s" if len(piece) else "no samples"
            refused.append(remark(f"the piece of {span} was left out: {error.what}"))
            continue
        setup = setup or part.setup
        yield part
    if setup is None:
        assert first_error is not None
        raise first_error


def join_prepared(parts: list[Prepared], notes: tuple[Note, ...] = ()) -> Prepared:
    """Return parts of one recording, one after the other in time, as one; equal notes are given once."""
    every = tuple(dict.fromkeys((*(note for part in parts for note in part.notes), *notes)))
    if len(parts) == 1:
        return replace(parts[0], notes=every)
    starts = np.cumsum([0, *(len(part.t) for part in parts[:-1])])
    signals: dict[str, Any] = {name: join_signals([getattr(part, name) for part in parts]) for name in SIGNALS}
    return replace(
        parts[0],
        **signals,
        segments=tuple(
            slice(segment.start + int(start), segment.stop + int(start))
            for part, start in zip(parts, starts, strict=True)
            for segment in part.segments
        ),
        top_speed=np.max([part.top_speed for part in parts], axis=0),
        temperatures=temperature_range([part.temperatures for part in parts]),
        notes=every,
    )


TOP_SPEED_QUANTILE = 0.99
"""Of a joint's speeds: its top speed, but for a few samples that noise made."""
MEASURED, POSITION = VelocitySource.MEASURED.value, VelocitySource.POSITION.value


def differentiate(stretch: Stretch, kernels: list[Array], step: int, sources: tuple[str, ...], order: int) -> Array:
    """Return derivative number `order`, 1 or 2, of the positions at every `step`-th sample, shape (N, n), smoothed.

    kernels: of derivatives 0 to 2; sources: where the velocity of each joint comes from, "position" or "measured".
    """
    derivative = filter_signal(stretch.q, kernels[order], step)
    measured = [j for j, source in enumerate(sources) if source == MEASURED]
    if measured and stretch.dq is not None:
        derivative[:, measured] = filter_signal(stretch.dq[:, measured], kernels[order - 1], step)
    return derivative


def filter_signs(robot: Robot, stretch: Stretch, kernels: list[Array], step: int, sources: tuple[str, ...]) -> Array:
    """Return the signs of the smoothed speeds at the full rate, through the filter of the torque.

    Where the kernel reaches beyond the speeds, which end earlier than the data, the sign is held.
    """
    K = len(kernels[0]) // 2
    speed = differentiate(stretch, kernels, 1, sources, 1)
    position = filter_signal(stretch.q, kernels[0], 1) if robot.loops else speed
    return filter_signal(np.pad(signs(robot, position, speed), ((K, K), (0, 0)), mode="edge"), kernels[0], step)


@dataclass(frozen=True)
class VelocityThresholds:
    """When a measured velocity is used instead of that of the positions.

    gain, phase, misfit: largest error of its gain, delay [rad at the rows' cut-off] and remaining error over the
    velocity's standard deviation: less than filters and resampling make. quieter: its noise, over that of the
    differentiated positions below their cut-off, at most: else it is no gain. disagreement: remaining error above which
    a note says that it is something else.
    """

    gain: float = 2e-3
    phase: float = 0.02
    misfit: float = 0.01
    quieter: float = 0.25
    disagreement: float = 0.2


def select_velocity_sources(
    stretch: Stretch,
    rate: float,
    cutoffs: Cutoffs,
    wanted: VelocitySource,
    names: tuple[str, ...],
    thresholds: VelocityThresholds | None = None,
) -> tuple[tuple[str, ...], tuple[Note, ...]]:
    """Return for each joint "position" or "measured", and notes on measured velocities that disagree.

    Measured velocity is better where it has no gain or delay against the positions, and less noise at the cut-off.
    """
    limits, n = thresholds or VelocityThresholds(), stretch.q.shape[1]
    if wanted is VelocitySource.POSITION or stretch.dq is None:
        if wanted is VelocitySource.MEASURED:
            raise InputError("the recording has no velocities", Text("use ", Option("velocity", POSITION)))
        return (POSITION,) * n, ()
    if wanted is VelocitySource.MEASURED:
        return (MEASURED,) * n, ()
    kernels = [lowpass_kernel(cutoffs.row, rate, k) for k in range(3)]
    step = CutoffThresholds().inner_step(cutoffs.row, rate)
    dq, ddq = (filter_signal(stretch.q, kernels[k], step) for k in (1, 2))
    measured = filter_signal(stretch.dq, kernels[0], step)
    noise_q, noise_dq = (estimate_spectrum(first_seconds([x], rate), rate).floor for x in (stretch.q, stretch.dq))
    omega = 2.0 * np.pi * cutoffs.position
    sources, notes = [], []
    for j in range(n):
        A = np.column_stack((dq[:, j], -ddq[:, j]))
        (gain, delay), *_ = np.linalg.lstsq(A, measured[:, j], rcond=None)
        misfit = float(np.std(measured[:, j] - dq[:, j])) / max(float(np.std(dq[:, j])), 1e-300)
        if misfit > limits.disagreement:
            late = 1e3 * delay / max(abs(gain), 1e-9)
            what = f"the recorded velocity does not fit the position (gain {gain:.2f}, late by {late:.1f} ms): not used"
            notes.append(remark(f"joint {names[j]!r}: {what}"))
        in_phase = abs(delay) * 2.0 * np.pi * cutoffs.row < limits.phase
        agrees = abs(gain - 1.0) < limits.gain and in_phase and misfit < limits.misfit
        quieter = noise_dq[j] < limits.quieter * omega**2 * noise_q[j] / 3.0
        sources.append(MEASURED if agrees and quieter else POSITION)
    return tuple(sources), tuple(notes)
