"""Efforts that were recorded late: the torque of a prepared recording is taken at later times."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.elsewhere import changed_now
from ros2_dynid.identification.preparation.prepared import Prepared


def effort_later(prepared: Prepared, delay: float) -> Prepared:
    """Return the recording with tau(t + delay) in place of tau(t), delay [s] rounded to whole inner samples.

    What is left of the delay is a fraction of a sample, which the delay's column of W takes to first order.
    """
    n = round(delay * prepared.filter.inner_rate)
    if n == 0:
        return prepared
    if prepared.elsewhere is not None:
        return changed_now(partial(effort_later, delay=delay), [prepared])[0]
    shortest = 1 if prepared.kernel is None else len(prepared.kernel)
    motion, effort, segments, at = [], [], [], 0
    for segment in prepared.segments:
        index = np.arange(segment.start, segment.stop)
        length = len(index) - abs(n)
        if length < shortest:
            continue
        motion.append(index[max(-n, 0) :][:length])
        effort.append(index[max(n, 0) :][:length])
        segments.append(slice(at, at + length))
        at += length
    if not segments:
        what = f"no stretch of the recording is longer than the effort's delay of {delay:.3g} s and the filters"
        raise InputError(what, "record longer", prepared.source)
    rows, later = np.concatenate(motion), np.concatenate(effort)
    return replace(
        prepared,
        t=prepared.t[rows],
        q=prepared.q[rows],
        dq=prepared.dq[rows],
        ddq=prepared.ddq[rows],
        tau=prepared.tau[later],
        sign=prepared.sign[rows],
        bridged=np.maximum(prepared.bridged[rows], prepared.bridged[later]),
        reference=None if prepared.reference is None else prepared.reference[rows],
        temperature=None if prepared.temperature is None else prepared.temperature[rows],
        commands=None if prepared.commands is None else prepared.commands[rows],
        second=None if prepared.second is None else prepared.second[rows],
        segments=tuple(segments),
        filter=replace(prepared.filter, delay=prepared.filter.delay + n / prepared.filter.inner_rate),
    )
