# SPDX-License-Identifier: Apache-2.0

"""Tool: wrenches of a wrist force-torque sensor and joint states give the tool beyond it, and the sensor's bias."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.tool_fit import Tool, identify_tool
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.model.robot import Robot
from ros2_dynid.progress import Progress, ignore_progress
from ros2_dynid.recording.read import read_samples
from ros2_dynid.recording.wrench import read_wrenches
from ros2_dynid.usecases.payload import HalfWidths, Matrix, Three, matrix, three
from ros2_dynid.usecases.robot_source import RobotSource

Six = tuple[float, ...]


@dataclass(frozen=True)
class ToolRequest:
    """A recording (path) with joint states and wrenches, the topic or columns of these, and the sensor's link.

    link: the link whose frame the sensor's wrenches are given in (None: the robot's last). free: ten parameters that
    fit best, even if no body has them.
    """

    robot: RobotSource
    recording: str
    wrench: str
    link: str | None = None
    options: IdentifyOptions = field(default_factory=IdentifyOptions)
    free: bool = False


@dataclass(frozen=True)
class SensorError:
    """Standard deviations of a sensor's mean bias [N, N.m] and of its drift in a second, six each, force first."""

    bias: Six
    drift: Six


@dataclass(frozen=True)
class ToolOutcome:
    """Mass [kg], centre of mass [m] and inertia about it [kg.m^2] of the tool in `frame`; significant: there is one.

    std: standard deviations; interval95: half widths of the 95 % confidence intervals. bias, drift: of the sensor, six
    each, force first [N, N.m and those a second]. sensor_std: their standard deviations. residual: level of each axis.
    delay: how late wrenches come against joint states [s]. sign: -1 if the sensor shows what the tool exerts on it.
    """

    mass: float
    com: Three
    inertia: Matrix
    std: HalfWidths
    interval95: HalfWidths
    frame: str
    significant: bool
    bias: Six
    drift: Six
    sensor_std: SensorError
    residual: Six
    delay: float
    sign: int
    rows: int
    notes: tuple[str, ...] = ()


def tool(request: ToolRequest, progress: Progress | None = None) -> ToolOutcome:
    """Identify the tool beyond the sensor."""
    report = progress or ignore_progress
    robot, options = request.robot.load(), request.options
    link = find_sensor_link(robot, request.link)
    report("reading", 0.0)
    samples = read_samples(request.recording, robot, options.reading)
    wrenches = read_wrenches(request.recording, request.wrench, samples.start_ns, options.reading)
    report("preparing", 0.4)
    # the joints' own efforts play no part: positions stand in for them, so that a recording without any will do
    prepared = prepare(robot, replace(samples, tau=samples.q), options.preparation)
    report("estimating", 0.8)
    estimate = identify_tool(robot, prepared, wrenches, link, free=request.free)
    notes = [note.text for note in samples.notes]
    if wrenches.frame and wrenches.frame != link:
        notes.append(f"the wrenches are in frame {wrenches.frame!r}, which is taken as that of link {link!r}")
    if estimate.sign < 0:
        notes.append("the sensor reports the wrench with the opposite sign: it was reversed")
    report("done", 1.0)
    return _outcome(estimate, tuple(notes))


def _outcome(estimate: Tool, notes: tuple[str, ...]) -> ToolOutcome:
    load = estimate.load
    mass, com, inertia = load.interval
    return ToolOutcome(
        mass=load.mass,
        com=three(load.com),
        inertia=matrix(load.inertia),
        std=HalfWidths(load.mass_std, three(load.com_std), matrix(load.inertia_std)),
        interval95=HalfWidths(mass, three(com), matrix(inertia)),
        frame=load.frame,
        significant=load.significant,
        bias=tuple(estimate.bias.tolist()),
        drift=tuple(estimate.drift.tolist()),
        sensor_std=SensorError(tuple(estimate.bias_std.tolist()), tuple(estimate.drift_std.tolist())),
        residual=tuple(estimate.sigma.tolist()),
        delay=estimate.delay,
        sign=estimate.sign,
        rows=estimate.rows,
        notes=notes,
    )


def find_sensor_link(robot: Robot, link: str | None) -> str:
    """Return the link that carries the sensor: the one named, else the last that moves."""
    moving = [name for name, (joint, _) in robot.tools.items() if joint]
    if link is None:
        last = [name for name in moving if robot.tools[name][0] == robot.n] or moving
        if not last:
            raise InputError("the robot has no link beyond its last joint", "name the tip link", robot.name)
        return last[0]
    if link not in moving:
        raise InputError(f"the robot has no moving link {link!r}", f"choose from {', '.join(moving)}", robot.name)
    return link
