"""Two efforts of one joint: at the motor (NAME.effort, tau) and of a torque sensor at the link (NAME.torque, tau_l).

The first stream is that whose torque the model is to give: the sensor's for joints that are declared to be measured at
the link, else the motor's. The other one is the second stream, which is fitted beside it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.robot import DRIVE, Robot
from ros2_dynid.recording.samples import Samples

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
