# SPDX-License-Identifier: Apache-2.0

"""Gains of the robot's own controller, from the parameter file that ros2_control reads.

    joint_trajectory_controller:
      ros__parameters:
        gains:
          elbow: {p: 400.0, d: 30.0}
        speed_filter: 60.0   # corner [Hz] of the low-pass of the speeds that it sees, if there is one

`gains` may stand anywhere in the file; of several controllers the one that moves all of the robot's joints counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.files import as_mapping, as_number, read_yaml
from ros2_dynid.sim.tracking_loop import JointController

NOT_SIMULATED = {"i": "an integral gain", "ff_velocity_scale": "a feedforward of the velocity"}
"""What a controller may have that the simulated one has not."""


def load_controller(path: str | Path, joint_names: Sequence[str]) -> JointController:
    """Return the controller of these joints: tau = p (q_r - q) + d (dq_r - dq) [N.m, rad]."""
    source = str(path)
    sections = [
        section
        for section in _sections(as_mapping(read_yaml(Path(path)), "the file", source))
        if set(joint_names) <= set(as_mapping(section["gains"], "gains", source))
    ]
    if not sections:
        hint = f"give gains: {{{joint_names[0]}: {{p: ..., d: ...}}, ...}}, as ros2_control has them"
        raise InputError("no controller has gains of all joints", hint, source)
    if len(sections) > 1:
        raise InputError(f"{len(sections)} controllers move all joints", "leave the one that was active", source)
    gains = as_mapping(sections[0]["gains"], "gains", source)
    Kp, Kd = np.array([_pd(gains[name], name, source) for name in joint_names]).T
    corner = sections[0].get("speed_filter")
    if corner is None:
        return JointController(Kp, Kd)
    frequency = as_number(corner, "speed_filter", source)
    if frequency <= 0.0:
        raise InputError(f"speed_filter is {frequency} Hz", "give a positive frequency [Hz]", source)
    return JointController(Kp, Kd, 2.0 * np.pi * frequency)


def _sections(values: Mapping[object, object]) -> Iterator[Mapping[object, object]]:
    """Yield the mappings that have gains, wherever they stand."""
    if isinstance(values.get("gains"), Mapping):
        yield values
    for value in values.values():
        if isinstance(value, Mapping) and value is not values.get("gains"):
            yield from _sections(value)


def _pd(value: object, name: str, source: str) -> tuple[float, float]:
    gains = as_mapping(value, f"gains of {name}", source)
    for key, what in NOT_SIMULATED.items():
        if key in gains and as_number(gains[key], f"{key} of {name}", source) != 0.0:
            raise InputError(
                f"joint {name!r} has {what} ({key}), which is not simulated", "record with p and d", source
            )
    p, d = (as_number(gains.get(key, 0.0), f"{key} of {name}", source) for key in ("p", "d"))
    if not (p > 0.0 and d > 0.0):
        raise InputError(f"joint {name!r} has the gains p {p:g} and d {d:g}", "give two positive ones", source)
    return p, d
