"""From a recording to smooth motion and torque on an even grid, with cut-offs that the data propose.

Positions are low-passed and differentiated without phase; the torque passes the same filter. What is left, the
regressor and the torque, later pass a second filter alike (`rows`), so that both sides of tau = Y chi are treated the
same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.cutoffs import propose
from ros2_dynid.identification.preparation.derivatives import differentiated, filtered_sign, velocity_sources
from ros2_dynid.identification.preparation.effort_streams import effort_streams, swapped
from ros2_dynid.identification.preparation.even_grid import Stretch, even_grid, later_effort
from ros2_dynid.identification.preparation.filters import HIGHEST, filtered, lowpass_kernel, output_index
from ros2_dynid.identification.preparation.preparation_options import PreparationOptions
from ros2_dynid.identification.preparation.prepared import Filter, Prepared
from ros2_dynid.identification.preparation.usable import check_signals, finite
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.notes import Note, remark
from ros2_dynid.recording.samples import Samples, in_order_of, ordered

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
