"""Convert samples to SI units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.units import Units

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Robot


def in_si(samples: Samples, robot: Robot | None, units: Units) -> Samples:
    """Return the samples in SI units; the robot tells which joints are prismatic."""
    time, angle, length, effort = (
        table[getattr(units, name)]
        for name, table in zip(("time", "angle", "length", "effort"), Units.tables(), strict=True)
    )
    if (time, angle, length, effort) == (1.0, 1.0, 1.0, 1.0):
        return samples
    prismatic = {joint.name for joint in robot.joints if joint.sigma == 1} if robot else set()
    motion = np.array([length if name in prismatic else angle for name in samples.joint_names])
    scales = {"q": motion, "dq": motion, "ddq": motion, "q_r": motion, "temperature": np.array(1.0)}
    scales |= {"tau": np.array(effort), "tau_f": np.array(effort), "tau_l": np.array(effort)}
    scaled = {field: values * scales[field] for field, values in samples.arrays().items()}
    return samples.with_arrays(samples.t * time, scaled)
