# SPDX-License-Identifier: Apache-2.0

"""Loads and drive gains from recordings: the same stages as an identification, up to the problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ros2_dynid.blas import small_matrices
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.loads.drive_gains import Gains
from ros2_dynid.identification.loads.loaded_friction import (
    drive_gains_with_law,
    identify_load_on_model_with_law,
    identify_loads_with_law,
    law_of,
)
from ros2_dynid.identification.loads.payload_fit import Payload, identify_load_on_model, load_link
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.options import SENSORS, IdentifyOptions
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.recordings import Recording
from ros2_dynid.model.efforts import declared_sensors
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.progress import Progress, ignore_progress


@small_matrices
def identify_payload(
    robot: Robot,
    empty: Sequence[Recording],
    loaded: Sequence[Recording],
    *,
    link: str | None = None,
    free: bool = False,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
) -> Payload:
    """Identify a load on one of the robot's links from recordings without and with it.

    link: carries the load, which is given in its frame (default: the first that the robot's only end carries, or the
    frame of that joint); the ten parameters are those of a body that exists unless `free`.
    """
    loads = identify_payloads(robot, empty, {"": loaded}, link=link, free=free, options=options, progress=progress)
    return loads[""]


@small_matrices
def identify_payloads(
    robot: Robot,
    empty: Sequence[Recording],
    loaded: Mapping[str, Sequence[Recording]],
    *,
    link: str | None = None,
    free: bool = False,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
) -> dict[str, Payload]:
    """Identify several loads by name, each from recordings of its own, in one fit; else as identify_payload."""
    options, report = options or IdentifyOptions(), progress or ignore_progress
    robot, link = _declare_sensors(robot, options), load_link(robot, link)
    without = build_problem(robot, empty, options, report)
    plain = replace(options, friction=PLAIN)
    with_load = [build_problem(robot, recordings, plain, report) for recordings in loaded.values()]
    report("estimating", 0.9)
    loads = identify_loads_with_law(without, with_load, law_of(without), link=link, free=free)
    return dict(zip(loaded, loads, strict=True))


@small_matrices
def identify_payload_on_model(
    model: IdentifiedModel,
    loaded: Sequence[Recording],
    *,
    link: str | None = None,
    free: bool = False,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
) -> Payload:
    """Identify a load from recordings with it and the model of the robot without it; else as identify_payload."""
    options, report = options or IdentifyOptions(), progress or ignore_progress
    if options.sensor not in SENSORS:
        raise InputError("sensors are declared beside a model", "the model has its own: leave them out")
    link = load_link(model.robot, link)
    problem = build_problem(model.robot, loaded, replace(options, friction=PLAIN), report)
    report("estimating", 0.9)
    if model.robot.friction:
        return identify_load_on_model_with_law(model, problem, link=link, free=free)
    return identify_load_on_model(model, problem.base, problem.information, link=link, free=free)


@small_matrices
def identify_gains(
    robot: Robot,
    empty: Sequence[Recording],
    loaded: Sequence[Recording],
    mass: float,
    *,
    load: Array | None = None,
    options: IdentifyOptions | None = None,
    progress: Progress | None = None,
) -> Gains:
    """Identify the drive gains from recordings without and with a load of known mass [kg].

    load: its ten parameters in the last joint's frame, shape (10,), if known: then all joints are fitted at once.
    """
    options, report = options or IdentifyOptions(), progress or ignore_progress
    plain, robot = replace(options, friction=PLAIN), _declare_sensors(robot, options)
    without, with_load = (build_problem(robot, part, plain, report) for part in (empty, loaded))
    report("estimating", 0.9)
    return drive_gains_with_law(without, with_load, options.friction, options.method, mass, load)


def _declare_sensors(robot: Robot, options: IdentifyOptions) -> Robot:
    """Return the robot with the sensors declared; beside a load they are not looked for."""
    if options.sensor == "found":
        hint = "declare them, or identify the robot without the load first and give its model"
        raise InputError("torque sensors are not looked for beside a load", hint)
    return robot if options.sensor in SENSORS else declared_sensors(robot, options.sensor)
