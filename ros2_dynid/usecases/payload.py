"""Payload: recordings without and with a load give its mass, centre of mass and inertia."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ros2_dynid import pipeline
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.progress import Progress
from ros2_dynid.usecases.robot_source import RobotSource

Three = tuple[float, float, float]
Matrix = tuple[Three, Three, Three]


@dataclass(frozen=True)
class PayloadRequest:
    """Recordings (paths) without and with the load, and the link in whose frame it is wanted (None: the last one)."""

    robot: RobotSource
    empty: tuple[str, ...]
    loaded: tuple[str, ...]
    link: str | None = None
    options: IdentifyOptions = field(default_factory=IdentifyOptions)


@dataclass(frozen=True)
class Spread:
    """Half widths of what is known about mass [kg], centre of mass [m] and inertia [kg.m^2]."""

    mass: float
    com: Three
    inertia: Matrix


@dataclass(frozen=True)
class PayloadOutcome:
    """Mass [kg], centre of mass [m] and inertia about it [kg.m^2] in `frame`; significant: whether there is a load.

    std: standard deviations; interval95: half widths of the 95 % confidence intervals.
    """

    mass: float
    com: Three
    inertia: Matrix
    std: Spread
    interval95: Spread
    frame: str
    significant: bool


def payload(
    request: PayloadRequest, progress: Progress | None = None, cancelled: Callable[[], bool] | None = None
) -> PayloadOutcome:
    """Identify the load on the robot's last link."""
    found = pipeline.identify_payload(
        request.robot.load(),
        request.empty,
        request.loaded,
        link=request.link,
        options=request.options,
        progress=progress,
        cancelled=cancelled,
    )
    mass, com, inertia = found.interval
    return PayloadOutcome(
        mass=found.mass,
        com=_three(found.com.tolist()),
        inertia=_matrix(found.inertia.tolist()),
        std=Spread(found.mass_std, _three(found.com_std.tolist()), _matrix(found.inertia_std.tolist())),
        interval95=Spread(mass, _three(com.tolist()), _matrix(inertia.tolist())),
        frame=found.frame,
        significant=found.significant,
    )


def _three(values: list[float]) -> Three:
    x, y, z = values
    return x, y, z


def _matrix(rows: list[list[float]]) -> Matrix:
    first, second, third = (_three(row) for row in rows)
    return first, second, third
