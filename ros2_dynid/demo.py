# SPDX-License-Identifier: Apache-2.0

"""The whole loop over real nodes in their own processes: start them, follow the mission, check the goals.

Nothing here uses ROS. Only this module knows the true parameters of the simulated robot.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codec import decode, encode
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.model_file import IdentifiedModel, load_model
from ros2_dynid.identification.physical.consistency import smallest_joint_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.processes import Processes, own_domain, short_interrupts
from ros2_dynid.sim.truth import true_parameters
from ros2_dynid.usecases.mission import MissionOutcome, MissionRequest, TrueLoad

NODES = ("sim_robot", "excitation", "recorder", "identification", "feedforward")
OPEN_LOOP_SECONDS = {"slow": 3.0, "fast": 1.0}
"""Durations of the open-loop test [s]."""
PANEL_PATIENCE_S = 60.0
"""With the start of the panel: on a busy computer a node takes its time."""
ROOM = 0.15
"""Share of a joint's range kept from its limits at the start: without feedforward the robot sags."""


POSES = 10_000
"""Random positions at which the inertia matrix of what is served is tested."""


@dataclass(frozen=True)
class Goals:
    """What the demo must reach; relative errors are norms of the error over norms of the torque."""

    each_joint: float = 0.05
    all_joints: float = 0.03
    torque: float = 0.03
    tracking_ratio: float = 5.0
    payload: float = 0.02


@dataclass(frozen=True)
class TrueParameter:
    """A base parameter: the simulated robot's, and the identified one with its standard deviation (None: unknown)."""

    true: float
    value: float
    std: float | None


@dataclass(frozen=True)
class Truth:
    """The model beside the simulated robot: base parameters by name, relative torque error on random motions.

    serve: which parameters the model serves; smallest_joint_inertia: smallest eigenvalue of their M(q) over POSES
    random positions [kg.m^2, kg]: positive if every motion has a positive kinetic energy.
    """

    base: Mapping[str, TrueParameter]
    torque: float
    serve: str
    smallest_joint_inertia: float


@dataclass(frozen=True)
class DemoOutcome(MissionOutcome):
    """The mission's results, the true parameters, and each goal with whether it was reached.

    report: page of the report. seconds: the whole demo took. folder: all that it wrote.
    """

    report: str
    truth: Truth
    seconds: float
    folder: str
    goals: Mapping[str, bool]

    @property
    def exit_code(self) -> int:
        """0 if all goals were reached."""
        return 0 if all(self.goals.values()) else 1


SILENCE_S = 5.0
"""Longest silence of the simulated robot's joint states [s]: it cannot come to harm, and its computer may be busy."""
BUSY = 1.5
"""Processes that want to run, for each core, from which a computer is busy."""


class DemoError(DynidError):
    """The demo failed."""


def demo(
    robot_path: str,
    folder: Path,
    *,
    seed: int = 1,
    duration: float = 8.0,
    payload: float = 1.5,
    panel: bool = False,
    say: Callable[[str], None] = print,
) -> DemoOutcome:
    """Run the demo and return its findings; everything it writes goes into `folder`, which must be new.

    panel: whether a page for the browser shows what happens, with a button that stops the robot.
    """
    begin = time.monotonic()
    robot = load_robot(robot_path)
    request = MissionRequest(robot_path, seed, duration, TrueLoad(payload), open_loop_seconds=OPEN_LOOP_SECONDS)
    folder.mkdir(parents=True)
    logs = folder / "logs"
    logs.mkdir()
    parameters: dict[str, dict[str, object]] = {
        "recorder": {"folder": folder / "recordings"},
        "excitation": {
            "folder": folder / "trajectories",
            "rehearsal_speed": request.rehearsal_speed,
            "planning_seconds": 5.0,
            "stale_seconds": SILENCE_S,
            "start_delay": 1.0,
            "point_rate": 50.0,
        },
        "feedforward": {"priority": 0, "robot_adds": ["nothing"]},  # the simulated robot runs on this computer too
        "identification": {"recordings_folder": folder / "recordings", "models_folder": folder / "models"},
        "sim_robot": {"seed": seed, "start": start_pose(robot)},
        "panel": {"port": 0, "token_file": folder / "panel_token"},
    }
    nodes = (*NODES, "panel") if panel else NODES
    with own_domain() as environment, Processes(logs, environment) as processes:
        say(f"starting {', '.join(nodes)} in their own processes, ROS domain {environment['ROS_DOMAIN_ID']}")
        if busy := busy_text():
            say(f"{busy}: the demo takes longer")
        for name in nodes:
            options: dict[str, object] = {"robot": robot_path, **parameters.get(name, {})}
            arguments = [text for key, value in options.items() for text in ("-p", f"{key}:={value}")]
            processes.start(name, [f"ros2_dynid.nodes.{name}", "--ros-args", *arguments])
        if panel:
            say(panel_address(processes, logs / "panel.log", folder / "panel_token"))
        mission = watched_mission(processes, request, logs, say)
    truth = compared(robot, load_model(mission.model), true_parameters(robot, seed))
    return DemoOutcome(
        **{field.name: getattr(mission, field.name) for field in fields(mission)},
        report=_report(Path(mission.model).parent, trials_of(mission), say),
        truth=truth,
        seconds=time.monotonic() - begin,
        folder=str(folder),
        goals=check_goals(mission, truth, Goals()),
    )


def busy_text() -> str:
    """Return that this computer is busy, with its load, or nothing ("")."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"this computer is busy (load {load:.0f} on {cores} cores)" if load > BUSY * cores else ""


def watched_mission(
    processes: Processes, request: MissionRequest, logs: Path, say: Callable[[str], None]
) -> MissionOutcome:
    """Run the mission; an error says what was reached, where the logs are, and whether the computer is busy."""
    reached = ["starting the nodes"]

    def remember(text: str) -> None:
        reached.append(text)
        say(text)

    try:
        return run_mission(processes, request, remember)
    except DynidError as error:
        busy = busy_text()
        hint = f"; {busy}: try again when it is idle" if busy else ""
        raise DemoError(f"{error}; reached: {reached[-1]}; logs: {logs}{hint}") from error


def panel_address(processes: Processes, log: Path, token: Path) -> str:
    """Return where the panel is, with the token of its file."""
    end = time.monotonic() + PANEL_PATIENCE_S
    while time.monotonic() < end:
        processes.check()
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        if match := re.search(r"panel: http\S+", text):
            return f"{match[0]}#token={token.read_text().strip()}"
        time.sleep(0.1)
    raise DemoError(f"the panel has not started in {PANEL_PATIENCE_S:g} s; look at {log}")


def start_pose(robot: Robot) -> list[float]:
    """Return where the simulated robot stands at first: at zero, or as near to it as leaves room to sag."""
    pose = []
    for j in robot.active:
        limits = robot.joints[j - 1].limits
        room = ROOM * (limits.upper - limits.lower)
        inside = min(max(0.0, limits.lower + room), limits.upper - room) if math.isfinite(room) else 0.0
        pose.append(round(inside, 3))
    return pose


def trials_of(mission: MissionOutcome) -> dict[str, list[tuple[str, str]]]:
    """Return the tests of the model for the report."""
    tracking, payload = mission.tracking, mission.payload
    payload_text = (
        payload.error or f"{payload.mass:.4f} +- {payload.mass_std:.4f} kg, true mass {payload.true_mass:g} kg"
    )
    return {
        "Feedforward": [
            ("tracking without feedforward", f"{1e3 * tracking.without:.2f} mrad root mean square"),
            ("tracking with feedforward", f"{1e3 * tracking.with_:.2f} mrad, at the same gains"),
            ("ratio", f"{tracking.ratio:.1f}"),
        ],
        "Feedforward alone, without position control": [
            (name, f"{row.worst:.1%} of the travel at worst, {row.mean:.1%} on average")
            for name, row in mission.open_loop.items()
        ],
        "Payload": [("identified", payload_text)],
    }


def _report(folder: Path, trials: dict[str, list[tuple[str, str]]], say: Callable[[str], None]) -> str:
    """Write the report of the identification and of the trials, and return its page."""
    say("writing the report")
    with short_interrupts("dynid"):
        from ros2_dynid.report.build import write_report
    return str(write_report(folder, figures=False, trials=trials))


def run_mission(processes: Processes, request: MissionRequest, say: Callable[[str], None]) -> MissionOutcome:
    """Run the mission and report its progress until it ends."""
    mission = processes.start("mission", ["ros2_dynid.nodes.mission"], talk=True)
    assert mission.stdin is not None and mission.stdout is not None
    mission.stdin.write(json.dumps(encode(request)))
    mission.stdin.close()
    for line in mission.stdout:
        message = json.loads(line)
        if "say" in message:
            say(message["say"])
            processes.check()
        elif "error" in message:
            processes.check()
            raise DemoError(message["error"])
        else:
            return decode(MissionOutcome, message["result"])
    mission.wait()
    processes.check()
    raise DemoError("the mission ended without a result")


def compared(robot: Robot, model: IdentifiedModel, chi: Array) -> Truth:
    """Compare a model with the truth chi: base parameters in standard deviations, torques on random motions."""
    base = base_parameters(robot, method="closed-form")
    true = dict(zip(base.names, base.values(robot, chi), strict=True))
    table = {
        name: TrueParameter(float(true[name]), float(value), float(std) if math.isfinite(std) else None)
        for name, value, std in zip(model.names, model.value, model.std, strict=True)
        if name in true
    }
    rng = np.random.default_rng(0)
    n = len(robot.active)
    q, dq, ddq = rng.uniform(-1, 1, (400, n)), rng.uniform(-1, 1, (400, n)), rng.uniform(-3, 3, (400, n))
    truth = inverse_dynamics(robot, chi, q, dq, ddq)
    error = model.torque(q, dq, ddq) - truth
    smallest = smallest_joint_inertia(robot, model.chi, count=POSES)
    return Truth(table, float(np.linalg.norm(error) / np.linalg.norm(truth)), model.serve, smallest)


def check_goals(mission: MissionOutcome, truth: Truth, goals: Goals) -> dict[str, bool]:
    """Return each goal and whether it was reached."""
    validation = {name: error.relative for name, error in mission.validation.items()}
    table = {
        f"validation under {goals.each_joint:.0%} on every joint": max(validation.values()) < goals.each_joint,
        f"validation under {goals.all_joints:.0%} over all": validation["all"] < goals.all_joints,
        f"torques of random motions within {goals.torque:.0%} of the truth": truth.torque < goals.torque,
        f"M(q) of the {truth.serve} parameters served positive definite at {POSES:,} random poses": (
            truth.smallest_joint_inertia > 0.0
        ),
        f"tracking at least {goals.tracking_ratio:g} times better": mission.tracking.ratio >= goals.tracking_ratio,
    }
    if mission.payload.relative_error is not None:  # an arm of parallel axes cannot show a whole load
        table[f"payload within {goals.payload:.0%}"] = mission.payload.relative_error <= goals.payload
    return table
