# SPDX-License-Identifier: Apache-2.0

"""The motion that makes instruments: that of the robot without the noise of its encoders.

Where the commanded positions were recorded, it is theirs. Else it is the motion within its own band: white noise of
the encoders makes accelerations of high frequencies, while the motion that was commanded is slow. What the regressor
takes from the torque (delay, load-dependent friction) is kept to the same band. A robot that tracks its reference well
moves like that, so these are the instruments of IDIM-IV (`idim_iv`) without a simulation, and neither controller nor
gains need be known.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.friction_columns import signs
from ros2_dynid.identification.preparation.filters import filter_signal, half_length, lowpass_kernel
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.model.robot import Array, Robot

PASSED = 0.45
"""Share of a kernel's cut-off up to which it passes everything."""
IN_BAND = 5e-3
"""Noise over motion, as power of the accelerations, above which instruments share too much noise with the regressor:
estimates would be off by about this share."""
NOISY = 1e-4
"""The same of the rows' own band, below which the regressor has no noise worth speaking of."""


def instrument_motion(robot: Robot, prepared: Prepared) -> Prepared:
    """Return the recording as the instruments see it: commanded motion, or motion in its own band, and slow torques."""
    cutoff, segments = motion_band(prepared), prepared.segments
    rate = prepared.filter.inner_rate
    source = prepared.q if prepared.reference is None else prepared.reference
    band = cutoff if prepared.reference is None else prepared.filter.row_cutoff or cutoff
    parts = [_smooth(source[segment], band, rate) for segment in segments]
    q, dq, ddq = (np.concatenate(column) for column in zip(*parts, strict=True))
    tau = np.concatenate([_smooth(prepared.tau[segment], cutoff, rate)[0] for segment in segments])
    gear_torque = prepared.gear_torque
    if gear_torque is not None:
        gear_torque = np.concatenate([_smooth(gear_torque[segment], cutoff, rate)[0] for segment in segments])
    return replace(prepared, q=q, dq=dq, ddq=ddq, tau=tau, sign=signs(robot, dq), gear_torque=gear_torque)


def motion_band(prepared: Prepared) -> float:
    """Return the cut-off [Hz] that passes the motion of all joints and as little else as possible."""
    if prepared.spectrum is None or prepared.filter.row_cutoff is None:
        raise InputError("instrumental variables need positions as recorded", "give a recording, not filtered arrays")
    band = float(np.max(prepared.spectrum.motion)) / PASSED
    return min(band, prepared.filter.row_cutoff)


def noise_share(prepared: Prepared, cutoff: float) -> Array:
    """Return the power of the encoders' noise over that of the motion, in the accelerations below `cutoff` [Hz], (n,).

    White noise of the positions with power floor [rad^2/Hz] has the power floor (2 pi)^4 cutoff^5 / 5 in them.
    """
    assert prepared.spectrum is not None
    noise = prepared.spectrum.floor * (2.0 * np.pi) ** 4 * cutoff**5 / 5.0
    parts = [_smooth(prepared.q[s], cutoff, prepared.filter.inner_rate)[2] for s in prepared.segments]
    power = np.mean(np.concatenate(parts) ** 2, axis=0)
    return np.asarray(noise / np.maximum(power - noise, 1e-3 * power + 1e-300))


def refuse_shared_noise(prepared: Prepared, names: tuple[str, ...]) -> None:
    """Raise InputError if the encoders' noise is within the band of the motion: then no instrument is without it."""
    if prepared.reference is not None:
        return
    share = noise_share(prepared, motion_band(prepared))
    worst = int(np.argmax(share))
    if share[worst] > IN_BAND:
        what = (
            f"joint {names[worst]!r}: the encoder's noise lies within the band of its motion "
            f"({100 * share[worst]:.2g} % of the acceleration), so that no instrument is without it"
        )
        hint = Text(
            "record the commanded positions too (NAME.reference), move faster, or use ", Option("method", "wls")
        )
        raise InputError(what, hint, prepared.source)


def in_band(q: Array, cutoff: float, rate: float) -> Array:
    """Return signals (N, n) at `rate` [Hz] low-passed at `cutoff` [Hz], all samples of them."""
    return _smooth(q, cutoff, rate)[0]


def _smooth(q: Array, cutoff: float, rate: float) -> tuple[Array, Array, Array]:
    """Return q, dq, ddq of positions (N, n) low-passed at `cutoff` [Hz]; beyond the ends the motion is mirrored."""
    K = half_length(cutoff, rate)
    padded = np.concatenate((_mirrored(q, K), q, _mirrored(q[::-1], K)[::-1]))
    smooth = [filter_signal(padded, lowpass_kernel(cutoff, rate, k), 1) for k in range(3)]
    return smooth[0], smooth[1], smooth[2]


def _mirrored(q: Array, count: int) -> Array:
    """Return `count` samples before q, shape (N, n): q turned about its first sample, repeatedly if it is short."""
    before: Array = q[:0]
    head = q
    while len(before) < count:
        turned = 2.0 * head[0] - head[1:][::-1]
        before = np.concatenate((turned, before))
        head = turned
    return before[-count:]
