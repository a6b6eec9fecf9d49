# SPDX-License-Identifier: Apache-2.0

"""Payload: recordings without and with a load give its mass, centre of mass and inertia."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.from_recordings import identify_payload_on_model, identify_payloads
from ros2_dynid.identification.loads.payload_fit import Payload
from ros2_dynid.identification.model_file import is_model_file, load_model
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.robot import Array
from ros2_dynid.progress import Progress
from ros2_dynid.usecases.robot_source import RobotSource

Three = tuple[float, float, float]
Matrix = tuple[Three, Three, Three]


@dataclass(frozen=True)
class PayloadRequest:
    """Recordings (paths) without and with the load, and the link in whose frame it is wanted (None: the last one).

    robot: may name an identified model (model.yaml), which then stands for the recordings without the load. loaded: may
    be NAME=PATH for several loads; paths of one name are of one load. free: ten parameters that fit best, even if no
    body has them.
    """

    robot: RobotSource
    empty: tuple[str, ...]
    loaded: tuple[str, ...]
    link: str | None = None
    options: IdentifyOptions = field(default_factory=IdentifyOptions)
    free: bool = False


@dataclass(frozen=True)
class HalfWidths:
    """Half widths of what is known about mass [kg], centre of mass [m] and inertia [kg.m^2]."""

    mass: float
    com: Three
    inertia: Matrix


@dataclass(frozen=True)
class JointMass:
    """Mass of the load by one joint's rows [kg], with standard deviation."""

    mass: float
    std: float


@dataclass(frozen=True)
class PayloadOutcome:
    """Mass [kg], centre of mass [m] and inertia about it [kg.m^2] in `frame`; significant: whether there is a load.

    std: standard deviations; interval95: half widths of the 95 % confidence intervals. joint_mass: mass [kg] by the
    rows of each joint alone that tells it, with std; contradicting: joints far from the others, which widened all bars.
    """

    mass: float
    com: Three
    inertia: Matrix
    std: HalfWidths
    interval95: HalfWidths
    frame: str
    significant: bool
    joint_mass: Mapping[str, JointMass] = field(default_factory=dict)
    contradicting: tuple[str, ...] = ()


@dataclass(frozen=True)
class PayloadsOutcome:
    """Several loads by name."""

    loads: Mapping[str, PayloadOutcome]


def payloads(request: PayloadRequest, progress: Progress | None = None) -> PayloadsOutcome:
    """Identify several loads on the robot's last link, whose recordings are named NAME=PATH."""
    loads, names = _identify_loads(request, progress)
    return PayloadsOutcome({name: _outcome(one, names) for name, one in loads.items()})


def has_names(loaded: Sequence[str]) -> bool:
    """Return whether recordings are of several loads, NAME=PATH; a path that exists as it is has no name."""
    return any("=" in text and not Path(text).exists() for text in loaded)


def _by_name(loaded: Sequence[str]) -> dict[str, tuple[str, ...]]:
    if not has_names(loaded):
        return {"": tuple(loaded)}
    recordings_by_load: dict[str, tuple[str, ...]] = {}
    for text in loaded:
        name, equals, path = text.partition("=")
        if not (equals and name and path):
            raise InputError(f"{text!r} names no load", "write NAME=RECORDING for all of them, or for none")
        recordings_by_load[name] = (*recordings_by_load.get(name, ()), path)
    return recordings_by_load


def payload(request: PayloadRequest, progress: Progress | None = None) -> PayloadOutcome:
    """Identify the load on the robot's last link."""
    if has_names(request.loaded):
        raise InputError("several loads are named", "identify one at a time")
    loads, names = _identify_loads(request, progress)
    return _outcome(loads[""], names)


def _outcome(load: Payload, names: tuple[str, ...]) -> PayloadOutcome:
    mass, com, inertia = load.interval
    return PayloadOutcome(
        mass=load.mass,
        com=three(load.com),
        inertia=matrix(load.inertia),
        std=HalfWidths(load.mass_std, three(load.com_std), matrix(load.inertia_std)),
        interval95=HalfWidths(mass, three(com), matrix(inertia)),
        frame=load.frame,
        significant=load.significant,
        joint_mass={
            name: JointMass(float(mass), float(std))
            for name, mass, std in zip(names, load.joint_mass, load.joint_mass_std, strict=True)
            if math.isfinite(mass)
        },
        contradicting=load.contradicting,
    )


def _identify_loads(request: PayloadRequest, progress: Progress | None) -> tuple[dict[str, Payload], tuple[str, ...]]:
    """Return the loads by name, "" if there is only one, and the names of the joints."""
    loaded = _by_name(request.loaded)
    if request.robot.path and is_model_file(request.robot.path):
        if request.empty:
            raise InputError("a model and recordings without the load are given", "give one of them")
        model = load_model(request.robot.path)
        alone = {
            name: identify_payload_on_model(
                model,
                recordings,
                link=request.link,
                free=request.free,
                options=request.options,
                progress=progress,
            )
            for name, recordings in loaded.items()
        }
        return alone, model.robot.active_names
    if not request.empty:
        raise InputError("there is no recording without the load", "give one, or the model of the robot without it")
    robot = request.robot.load()
    loads = identify_payloads(
        robot,
        request.empty,
        loaded,
        link=request.link,
        free=request.free,
        options=request.options,
        progress=progress,
    )
    return loads, robot.active_names


def three(values: Array) -> Three:
    """Return a vector (3,) as plain numbers."""
    x, y, z = map(float, values)
    return x, y, z


def matrix(rows: Array) -> Matrix:
    """Return a matrix (3, 3) as plain numbers."""
    first, second, third = (three(row) for row in rows)
    return first, second, third
