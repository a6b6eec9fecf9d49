"""Can these samples be identified from at all? Enough of them, torques, and joints that moved."""

from __future__ import annotations

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.notes import repaired
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
