"""The whole loop over real nodes in their own processes: this one starts them, listens to the mission and judges.

Nothing here speaks ROS. The truth of the simulated robot is known here only, to judge what the nodes have found.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.model_file import IdentifiedModel, load_model
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Robot
from ros2_dynid.processes import Processes, own_domain, short_interrupts
from ros2_dynid.sim.truth import true_parameters

NODES = ("sim_robot", "excitation", "recorder", "identification", "feedforward")
PAYLOAD = {"com": [0.02, -0.01, 0.06], "inertia": [[0.004, 0.0, 0.0], [0.0, 0.004, 0.0], [0.0, 0.0, 0.003]]}
"""Centre [m] and inertia about it [kg.m^2] of the demo's payload, in the frame of the last link."""

ROOM = 0.15
"""Share of a joint's range kept from its limits at the start: without feedforward the robot sags."""


@dataclass(frozen=True)
class Demand:
    """What the demo must reach; relative errors are norms of the error over norms of the torque."""

    each_joint: float = 0.05
    all_joints: float = 0.03
    torque: float = 0.03
    tracking_ratio: float = 5.0
    payload: float = 0.02


class DemoError(DynidError):
    """The demo could not be carried out."""


def demo(
    robot_path: str,
    folder: Path,
    *,
    seed: int = 1,
    duration: float = 8.0,
    payload: float = 1.5,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run the demo and return its findings; everything it writes goes into `folder`, which must be new."""
    begin = time.monotonic()
    robot = load_robot(robot_path)
    wanted = {
        "robot": robot_path,
        "seed": seed,
        "duration": duration,
        "rehearsal_speed": 0.5,
        "payload": {"mass": payload, **PAYLOAD},
        "speeds": {"slow": 3.0, "fast": 1.0},
    }
    folder.mkdir(parents=True)
    logs = folder / "logs"
    logs.mkdir()
    parameters: dict[str, dict[str, object]] = {
        "recorder": {"folder": folder / "recordings"},
        "excitation": {
            "folder": folder / "trajectories",
            "rehearsal_speed": 0.5,
            "planning_seconds": 5.0,
            "stale_seconds": 1.0,
            "start_delay": 1.0,
            "point_rate": 50.0,
        },
        "feedforward": {"priority": 0},  # the simulated robot runs on this computer too
        "identification": {"recordings_folder": folder / "recordings", "models_folder": folder / "models"},
        "sim_robot": {"seed": seed, "start": start_pose(robot)},
    }
    with own_domain() as environment, Processes(logs, environment) as processes:
        say(f"starting {', '.join(NODES)} in their own processes, ROS domain {environment['ROS_DOMAIN_ID']}")
        for name in NODES:
            options: dict[str, object] = {"robot": robot_path, **parameters.get(name, {})}
            arguments = [text for key, value in options.items() for text in ("-p", f"{key}:={value}")]
            processes.start(name, [f"ros2_dynid.nodes.{name}", "--ros-args", *arguments])
        found = _converse(processes, wanted, say)
    found["report"] = _report(Path(found["model"]).parent, trials_of(found), say)
    model = load_model(found["model"])
    found["truth"] = compared(robot, model, true_parameters(robot, seed))
    found["seconds"] = time.monotonic() - begin
    found["folder"] = str(folder)
    found["demands"] = judged(found, Demand())
    found["exit_code"] = 0 if all(found["demands"].values()) else 1
    return found


def start_pose(robot: Robot) -> list[float]:
    """Return where the simulated robot stands at first: at zero, or as near to it as leaves room to sag."""
    pose = []
    for j in robot.active:
        limits = robot.joints[j - 1].limits
        room = ROOM * (limits.upper - limits.lower)
        inside = min(max(0.0, limits.lower + room), limits.upper - room) if math.isfinite(room) else 0.0
        pose.append(round(inside, 3))
    return pose


def trials_of(found: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return what the model was tried on, as the report shows it."""
    tracking, payload = found["tracking"], found["payload"]
    weighed = payload.get("error") or (
        f"{payload['mass']:.4f} +- {payload['mass_std']:.4f} kg, really {payload['true_mass']:g} kg"
    )
    return {
        "Feedforward": [
            ("tracking without feedforward", f"{1e3 * tracking['without']:.2f} mrad root mean square"),
            ("tracking with feedforward", f"{1e3 * tracking['with']:.2f} mrad, at the same gains"),
            ("ratio", f"{tracking['ratio']:.1f}"),
        ],
        "Feedforward alone, without position control": [
            (name, f"{row['worst']:.1%} of the travel at worst, {row['mean']:.1%} on average")
            for name, row in found["open_loop"].items()
        ],
        "Payload": [("identified", weighed)],
    }


def _report(folder: Path, trials: dict[str, list[tuple[str, str]]], say: Callable[[str], None]) -> str:
    """Write the report of the identification and of the trials, and return its page."""
    say("writing the report")
    with short_interrupts("dynid"):
        from ros2_dynid.report.build import write_report
    return str(write_report(folder, figures=False, trials=trials))


def _converse(processes: Processes, wanted: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    """Start the mission and pass on what it says until it ends."""
    mission = processes.start("mission", ["ros2_dynid.nodes.mission"], talk=True)
    assert mission.stdin is not None and mission.stdout is not None
    mission.stdin.write(json.dumps(wanted))
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
            return dict(message["result"])
    mission.wait()
    processes.check()
    raise DemoError("the mission ended without a result")


def compared(robot: Robot, model: IdentifiedModel, chi: np.ndarray) -> dict[str, Any]:
    """Compare a model with the truth chi: base parameters in standard deviations, torques on random motions."""
    base = base_parameters(robot, method="closed-form")
    true = dict(zip(base.names, base.values(robot, chi), strict=True))
    table = {
        name: {"true": float(true[name]), "value": float(value), "std": float(std) if math.isfinite(std) else None}
        for name, value, std in zip(model.names, model.value, model.std, strict=True)
        if name in true
    }
    rng = np.random.default_rng(0)
    n = len(robot.active)
    q, dq, ddq = rng.uniform(-1, 1, (400, n)), rng.uniform(-1, 1, (400, n)), rng.uniform(-3, 3, (400, n))
    truth = inverse_dynamics(robot, chi, q, dq, ddq)
    error = model.torque(q, dq, ddq) - truth
    return {"base": table, "torque": float(np.linalg.norm(error) / np.linalg.norm(truth))}


def judged(found: dict[str, Any], demand: Demand) -> dict[str, bool]:
    """Return each demand and whether it is met."""
    validation = {name: row["relative"] for name, row in found["validation"].items()}
    demands = {
        f"validation under {demand.each_joint:.0%} on every joint": max(validation.values()) < demand.each_joint,
        f"validation under {demand.all_joints:.0%} over all": validation["all"] < demand.all_joints,
        f"torques of random motions within {demand.torque:.0%} of the truth": found["truth"]["torque"] < demand.torque,
        f"tracking at least {demand.tracking_ratio:g} times better": found["tracking"]["ratio"]
        >= demand.tracking_ratio,
    }
    if "error" not in found["payload"]:  # an arm of parallel axes cannot show a whole load
        demands[f"payload within {demand.payload:.0%}"] = found["payload"]["relative_error"] <= demand.payload
    return demands
