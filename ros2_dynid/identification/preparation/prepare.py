# SPDX-License-Identifier: Apache-2.0

"""From a recording to smooth motion and torque on an even grid, with cut-offs that the data propose.

Positions are low-passed and differentiated without phase; the torque passes the same filter. What is left, the
regressor and the torque, later pass a second filter alike (`rows`), so that both sides of tau = Y chi are treated the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Note, Option, Text, remark, repaired
from ros2_dynid.identification.friction import signs
from ros2_dynid.identification.options import PreparationOptions, VelocitySource
from ros2_dynid.identification.preparation.even_grid import Stretch, even_grid, later_effort
from ros2_dynid.identification.preparation.filters import (
    HIGHEST,
    Cutoffs,
    filtered,
    looked_at,
    lowpass_kernel,
    output_index,
    propose,
    spectrum,
)
from ros2_dynid.identification.preparation.prepared import Filter, Prepared, temperature_range
from ros2_dynid.model.efforts import DRIVE
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Samples, in_order_of, ordered


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
            held = Option("hold", {name: float(np.nanmedian(q))})
            raise InputError(what, Text("excite it, or hold it: ", held), samples.source)
        if np.nanmax(tau) - np.nanmin(tau) == 0.0:
            what = f"the effort of joint {name!r} is constant ({np.nanmedian(tau):g}) although the joint moves"
            raise InputError(what, "check that its torque or current is recorded", samples.source)


def finite(samples: Samples) -> Samples:
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


KNOWN = 0.5
"""Share of values that must be known for a sensor to count."""


def effort_streams(robot: Robot, samples: Samples) -> Samples:
    """Return samples whose tau is the first stream and whose tau_l, if any, is the second; joints in robot's order."""
    if samples.tau_l is None:
        return samples
    at_link = _at_link(robot)
    if samples.tau is None:
        if not at_link.all():
            hint = Text("declare that they are: ", Option("sensor", "link"))
            raise InputError("the recording has torques at the links and no efforts of motors", hint, samples.source)
        return replace(samples, tau=samples.tau_l, tau_l=None)
    there = np.mean(np.isfinite(samples.tau_l), axis=0) >= KNOWN
    use = at_link & there
    second = np.where(use, samples.tau, np.where(there, samples.tau_l, np.nan))
    first = np.where(use, samples.tau_l, samples.tau)
    return replace(samples, tau=first, tau_l=second if there.any() else None)


def swapped(robot: Robot, samples: Samples) -> NDArray[np.bool_]:
    """Return which joints' second stream is the motor's effort, shape (n,), of samples that effort_streams gave."""
    if samples.tau_l is None:
        return np.zeros(len(robot.active), dtype=bool)
    return np.asarray(_at_link(robot) & np.isfinite(samples.tau_l).any(axis=0))


def _at_link(robot: Robot) -> NDArray[np.bool_]:
    return np.array([robot.joints[j - 1].measured_drive != DRIVE for j in robot.active])


REFERENCE = 20.0
"""Commanded positions keep at least this much [Hz], however noisy the measured ones are."""


def prepare(
    robot: Robot,
    samples: Samples,
    options: PreparationOptions | None = None,
    *,
    like: Prepared | None = None,
    filters: Filter | None = None,
) -> Prepared:
    """Return the recording prepared for `robot`: even in time, low-passed, differentiated, checked.

    like: an earlier piece of the same recording, whose grid and filters are used again. filters: of another recording,
    whose cut-offs are used again.
    """
    options = options or PreparationOptions()
    samples = effort_streams(robot, in_order_of(samples, robot.active_names))
    if like is None:
        check_signals(samples)
    samples = ordered(finite(samples))
    grid = even_grid(samples, None if like is None else like.known)
    parts, rate = grid.parts, grid.known.rate
    longest = max(parts, key=lambda part: len(part.t))
    more_notes: tuple[Note, ...] = ()
    if like is not None and like.cutoffs is not None:
        cutoffs, sources = like.cutoffs, like.filter.velocity
    else:
        if filters is not None:
            options = options.with_filters(filters.position_cutoff, filters.row_cutoff, HIGHEST * rate)
        cutoffs = propose(grid.known.spectrum, len(longest.t), rate, options, samples.source)
        sources, more_notes = velocity_sources(longest, rate, cutoffs, options.velocity, robot.active_names)
        if cutoffs.slow_rate:
            what = f"{rate:.3g} samples a second show motion and friction up to {cutoffs.row:.2g} Hz only"
            more_notes = (*more_notes, remark(f"{what}: accelerations are poor; record faster"))
    gains, step = options.gains_of(robot), cutoffs.step
    kernels = [lowpass_kernel(cutoffs.position, rate, k) for k in range(3)]
    late = round((options.delay or 0.0) * rate)  # in whole samples; the kernel takes the rest
    torque_kernel = lowpass_kernel(cutoffs.position, rate, shift=(options.delay or 0.0) - late / rate)
    row_kernel = lowpass_kernel(cutoffs.row, rate / step)
    columns: list[tuple[Array, ...]] = []
    references: list[Array] = []
    temperatures: list[Array] = []
    commands: list[Array] = []
    seconds: list[Array] = []
    exchanged = swapped(robot, samples)
    segments, at = [], 0
    for part in (later_effort(part, late) for part in parts):
        index = output_index(len(part.t), len(kernels[0]), step)
        if len(index) < len(row_kernel):
            continue
        tau = filtered(part.tau, torque_kernel, step) * np.where(exchanged, 1.0, gains)
        sign = filtered_sign(robot, part, kernels, step, sources)
        motion = differentiated(part, kernels, step, sources)
        columns.append((part.t[0] + index / rate, *motion, tau, sign, _bridged(part, kernels[0], step)))
        if part.q_r is not None:
            references.append(filtered(part.q_r, kernels[0], step))
            commands.append(_commands(part, index.astype(int), step, rate, cutoffs.position, gains))
        if part.temperature is not None:
            temperatures.append(part.temperature[np.round(index).astype(int)])  # slow beside the filters
        if part.second is not None:
            seconds.append(filtered(part.second, kernels[0], step) * np.where(exchanged, gains, 1.0))
        segments.append(slice(at, at + len(index)))
        at += len(index)
    if not segments:
        needed = (len(kernels[0]) + step * len(row_kernel)) / rate
        what = f"the recording has no stretch of {needed:.2g} s without a gap, which its filters need"
        raise InputError(what, "record longer, or raise the cut-offs", samples.source)
    t, q, dq, ddq, tau, sign, bridged = (np.concatenate(arrays) for arrays in zip(*columns, strict=True))
    temperature = np.concatenate(temperatures) if temperatures else None
    dropped = (len(kernels[0]) // 2 + step * (len(row_kernel) // 2)) / rate
    return Prepared(
        t,
        q,
        dq,
        ddq,
        tau,
        sign,
        bridged,
        segments=tuple(segments),
        kernel=row_kernel,
        slope_kernel=lowpass_kernel(cutoffs.row, rate / step, 1),
        step=cutoffs.row_step,
        top_speed=np.quantile(np.abs(dq), 0.99, axis=0),
        position_noise=np.sqrt(0.5 * rate * grid.known.spectrum.floor),
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
        notes=(*samples.notes, *grid.notes, *more_notes),
        cutoffs=cutoffs,
        known=grid.known,
        reference=np.concatenate(references) if len(references) == len(segments) else None,
        temperature=temperature,
        second=np.concatenate(seconds) if seconds else None,
        temperatures=None if temperature is None else np.array((temperature.min(axis=0), temperature.max(axis=0))),
        commands=np.concatenate(commands) if len(commands) == len(segments) else None,
    )


def _commands(part: Stretch, index: NDArray[np.intp], step: int, rate: float, cutoff: float, gains: Array) -> Array:
    """Return commanded positions and added efforts of the `step` samples from each of `index`, (N, step, 2, n).

    A controller's reference is smooth, and only stamps and steps of its record are not: it is filtered as little as
    removes these. Added efforts may jump, as friction does, and stay as they are.
    """
    assert part.q_r is not None
    kernel = lowpass_kernel(min(max(cutoff, REFERENCE), HIGHEST * rate), rate)
    K = len(kernel) // 2
    smooth = filtered(part.q_r, kernel, 1)
    every = np.minimum(index[:, None] + np.arange(step), len(part.t) - 1 - K)
    added = np.zeros_like(part.q_r) if part.tau_f is None else part.tau_f * gains
    return np.stack((smooth[every - K], added[every]), axis=2)


def _bridged(part: Stretch, kernel: Array, step: int) -> Array:
    """Return the share of the position filter that lies in bridged gaps, for each inner sample."""
    share = np.abs(kernel) / np.abs(kernel).sum()
    if not part.bridged.any():
        return np.zeros(len(output_index(len(part.t), len(kernel), step)))
    return filtered(part.bridged.astype(float), share, step)


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
    return joined_prepared(done, tuple(refused))


def prepare_each(
    robot: Robot,
    pieces: Iterable[Samples],
    options: PreparationOptions | None,
    refused: list[Note],
    *,
    filters: Filter | None = None,
) -> Iterator[Prepared]:
    """Yield the pieces prepared, one at a time; what was left out is appended to `refused`."""
    like: Prepared | None = None
    first_error: InputError | None = None
    for piece in pieces:
        try:
            part = prepare(robot, piece, options, like=like, filters=filters)
        except InputError as error:
            first_error = first_error or error
            span = f"{piece.t[0]:.6g} to {piece.t[-1]:.6g} s" if len(piece) else "no samples"
            refused.append(remark(f"the piece of {span} was left out: {error.what}"))
            continue
        like = like or _without_samples(part)
        yield part
    if like is None:
        assert first_error is not None
        raise first_error


def joined_prepared(parts: list[Prepared], notes: tuple[Note, ...] = ()) -> Prepared:
    """Return parts of one recording, one after the other in time, as one; equal notes are given once."""
    every = tuple(dict.fromkeys((*(note for part in parts for note in part.notes), *notes)))
    first = parts[0]
    if len(parts) == 1:
        return replace(first, notes=every)
    starts = np.cumsum([0, *(len(part.t) for part in parts[:-1])])
    return replace(
        first,
        t=np.concatenate([part.t for part in parts]),
        q=np.concatenate([part.q for part in parts]),
        dq=np.concatenate([part.dq for part in parts]),
        ddq=np.concatenate([part.ddq for part in parts]),
        tau=np.concatenate([part.tau for part in parts]),
        sign=np.concatenate([part.sign for part in parts]),
        bridged=np.concatenate([part.bridged for part in parts]),
        reference=_joined([part.reference for part in parts]),
        temperature=_joined([part.temperature for part in parts]),
        commands=_joined([part.commands for part in parts]),
        second=_joined([part.second for part in parts]),
        segments=tuple(
            slice(segment.start + int(start), segment.stop + int(start))
            for part, start in zip(parts, starts, strict=True)
            for segment in part.segments
        ),
        top_speed=np.max([part.top_speed for part in parts], axis=0),
        temperatures=temperature_range([part.temperatures for part in parts]),
        notes=every,
    )


def _without_samples(part: Prepared) -> Prepared:
    """Return all of a part of a recording but its samples: what later parts are prepared like."""
    none = np.empty((0, part.q.shape[1]))
    return replace(
        part,
        t=part.t[[0, -1]],
        q=none,
        dq=none,
        ddq=none,
        tau=none,
        sign=np.empty((0, part.sign.shape[1])),
        bridged=np.empty(0),
        gear_torque=None,
        reference=None,
        temperature=None,
        commands=None,
        second=None,
    )


def _joined(signals: list[Array | None]) -> Array | None:
    """Return the signal of all parts, or None if one has none."""
    known = [signal for signal in signals if signal is not None]
    return np.concatenate(known) if len(known) == len(signals) else None


MEASURED, POSITION = VelocitySource.MEASURED.value, VelocitySource.POSITION.value


def differentiated(
    stretch: Stretch, kernels: list[Array], step: int, sources: tuple[str, ...]
) -> tuple[Array, Array, Array]:
    """Return q, dq, ddq of one stretch at every `step`-th sample, the velocity of each joint from the source named."""
    q, dq, ddq = (filtered(stretch.q, kernel, step) for kernel in kernels)
    measured = [j for j, source in enumerate(sources) if source == MEASURED]
    if measured and stretch.dq is not None:
        dq[:, measured] = filtered(stretch.dq[:, measured], kernels[0], step)
        ddq[:, measured] = filtered(stretch.dq[:, measured], kernels[1], step)
    return q, dq, ddq


def filtered_sign(robot: Robot, stretch: Stretch, kernels: list[Array], step: int, sources: tuple[str, ...]) -> Array:
    """Return the signs of the smoothed speeds at the full rate, through the filter of the torque.

    Where the kernel reaches beyond the speeds, which end earlier than the data, the sign is held.
    """
    K = len(kernels[0]) // 2
    speed = filtered(stretch.q, kernels[1], 1)
    measured = [j for j, source in enumerate(sources) if source == MEASURED]
    if measured and stretch.dq is not None:
        speed[:, measured] = filtered(stretch.dq[:, measured], kernels[0], 1)
    held = np.pad(signs(robot, speed), ((K, K), (0, 0)), mode="edge")
    return filtered(held, kernels[0], step)


def velocity_sources(
    stretch: Stretch, rate: float, cutoffs: Cutoffs, wanted: VelocitySource, names: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[Note, ...]]:
    """Return for each joint "position" or "measured", and notes on measured velocities that disagree.

    Measured velocity is better where it has no gain or delay against the positions, and less noise at the cut-off.
    """
    n = stretch.q.shape[1]
    if wanted is VelocitySource.POSITION or stretch.dq is None:
        if wanted is VelocitySource.MEASURED:
            raise InputError("the recording has no velocities", Text("use ", Option("velocity", POSITION)))
        return (POSITION,) * n, ()
    if wanted is VelocitySource.MEASURED:
        return (MEASURED,) * n, ()
    kernels = [lowpass_kernel(cutoffs.row, rate, k) for k in range(3)]
    step = max(1, int(rate / (4.0 * cutoffs.row)))
    dq, ddq = (filtered(stretch.q, kernels[k], step) for k in (1, 2))
    measured = filtered(stretch.dq, kernels[0], step)
    noise_q, noise_dq = (spectrum(looked_at([x], rate), rate).floor for x in (stretch.q, stretch.dq))
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
        sources.append(MEASURED if agrees and quieter else POSITION)
    return tuple(sources), tuple(notes)
