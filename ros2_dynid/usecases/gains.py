# SPDX-License-Identifier: Apache-2.0

"""Gains: recordings without and with a load of known mass give the torque for each unit of the recorded effort."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.identification.loads.from_recordings import identify_gains
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.robot import Array
from ros2_dynid.progress import Progress
from ros2_dynid.usecases.robot_source import RobotSource


@dataclass(frozen=True)
class GainsRequest:
    """Recordings (paths) without and with a load of known mass [kg].

    load: its ten parameters XX XY XZ YY YZ ZZ MX MY MZ M in the last joint's frame, if known; () if not.
    """

    robot: RobotSource
    empty: tuple[str, ...]
    loaded: tuple[str, ...]
    mass: float
    options: IdentifyOptions = field(default_factory=IdentifyOptions)
    load: tuple[float, ...] = ()


@dataclass(frozen=True)
class GainsOutcome:
    """Drive gains [N.m or N for each unit of the recorded effort] by joint, None where not found, with std.

    from_mass: whether a joint's gain comes from the mass itself, or from the load that other joints measured.
    """

    gains: Mapping[str, float | None]
    std: Mapping[str, float | None]
    from_mass: Mapping[str, bool]
    mass: float


def gains(request: GainsRequest, progress: Progress | None = None) -> GainsOutcome:
    """Identify the drive gains of all joints."""
    robot = request.robot.load()
    drive_gains = identify_gains(
        robot,
        request.empty,
        request.loaded,
        request.mass,
        load=np.array(request.load) if request.load else None,
        options=request.options,
        progress=progress,
    )
    names = robot.active_names
    from_mass = dict(zip(names, drive_gains.from_mass, strict=True))
    return GainsOutcome(_by_name(names, drive_gains.value), _by_name(names, drive_gains.std), from_mass, request.mass)


def _by_name(names: tuple[str, ...], values: Array) -> dict[str, float | None]:
    return {name: float(v) if math.isfinite(v) else None for name, v in zip(names, values, strict=True)}
