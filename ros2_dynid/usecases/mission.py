# SPDX-License-Identifier: Apache-2.0

"""The demo's mission as data: what its operator is asked to do, and what was found, as codec carries both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.usecases.payload import Matrix, Three


@dataclass(frozen=True)
class TrueLoad:
    """The simulated robot's payload, in the last link's frame: mass [kg], centre [m], inertia about it [kg.m^2]."""

    mass: float
    com: Three = (0.02, -0.01, 0.06)
    inertia: Matrix = ((0.004, 0.0, 0.0), (0.0, 0.004, 0.0), (0.0, 0.0, 0.003))


@dataclass(frozen=True)
class MissionRequest:
    """Robot (file or shipped name), seed of the plans, duration of a trajectory [s], payload.

    rehearsal_speed: of the plan's. open_loop_seconds: durations [s] of the open-loop test, by name.
    """

    robot: str
    seed: int
    duration: float
    payload: TrueLoad
    rehearsal_speed: float = 0.5
    open_loop_seconds: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Tracking:
    """Root mean square tracking errors [rad] without and with feedforward, at the same gains, and their ratio."""

    without: float
    with_: float
    ratio: float


@dataclass(frozen=True)
class OpenLoop:
    """Largest errors of a motion by torque alone, as shares of the travel: of the worst joint, and their mean."""

    worst: float
    mean: float


@dataclass(frozen=True)
class WeighedPayload:
    """Payload as it was identified [kg, m], beside the truth; error: why this robot cannot show it, the rest empty."""

    true_mass: float
    bag: str
    mass: float | None = None
    mass_std: float | None = None
    com: Three | None = None
    relative_error: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class MissionOutcome:
    """What the mission found: recordings, model file, torque errors by joint and over all, and how the model did."""

    bags: tuple[str, ...]
    validation_bags: tuple[str, ...]
    model: str
    stages: tuple[str, ...]
    fit: Mapping[str, TorqueError]
    validation: Mapping[str, TorqueError]
    tracking: Tracking
    payload: WeighedPayload
    open_loop: Mapping[str, OpenLoop]
