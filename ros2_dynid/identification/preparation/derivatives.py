"""Velocities and accelerations: differentiated positions, or measured velocities where these are better."""

from __future__ import annotations

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.choices import VelocitySource
from ros2_dynid.identification.friction.columns import signs
from ros2_dynid.identification.preparation.cutoffs import Cutoffs, looked_at, spectrum
from ros2_dynid.identification.preparation.even_grid import Stretch
from ros2_dynid.identification.preparation.filters import filtered, lowpass_kernel
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.notes import Note, remark

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
