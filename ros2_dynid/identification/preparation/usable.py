# SPDX-License-Identifier: Apache-2.0

"""Can these samples be identified from at all? Enough of them, torques, and joints that moved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Option, Text, repaired
from ros2_dynid.model.efforts import DRIVE
from ros2_dynid.model.robot import Robot
from ros2_dynid.recording.samples import Samples


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
    return np.array([robot.joints[j - 1].felt != DRIVE for j in robot.active])
