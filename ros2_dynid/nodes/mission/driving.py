# SPDX-License-Identifier: Apache-2.0

"""The demo's drives: tracking with and without feedforward, seed 004's open-loop test, and the payload."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.client import Client
from ros2_dynid.srv import IdentifyPayload
from ros2_dynid.usecases.mission import OpenLoop, Tracking, WeighedPayload

TRAVEL = 0.2
"""Share of a joint's range that the open-loop test moves it by."""


def say(text: str) -> None:
    """Tell what is going on."""
    print(json.dumps({"say": text}), flush=True)


def tracking(client: Client, points: Reference) -> Tracking:
    """Follow a trajectory without and with feedforward; return the root mean square errors [rad] and their ratio."""
    errors = {}
    for name, feedforward in (("without", False), ("with", True)):
        say(f"tracking {name} feedforward, at the same gains")
        client.go(points.q[0])
        t, q = client.follow(points, feedforward=feedforward)
        errors[name] = float(np.sqrt(np.mean((q - points.sampled(t)[0]) ** 2)))
    client.go(points.q[0])
    return Tracking(errors["without"], errors["with"], errors["without"] / errors["with"])


def open_loop(client: Client, durations: Mapping[str, float]) -> dict[str, OpenLoop]:
    """Move by torques alone, in the times of `durations` [s]; return the largest errors as shares of the travel.

    With gravity at the reference nothing brings the robot back; on-line gravity, at the measured position, leaves it
    balanced wherever it is.
    """
    table = {}
    lower, upper = _ranges(client.robot)
    middle, travel = (lower + upper) / 2, TRAVEL * (upper - lower)
    for speed, seconds in durations.items():
        for name, measured in (("gravity at the reference", False), ("on-line gravity", True)):
            say(f"open loop, {speed}, {name}")
            client.go(middle - travel / 2)
            points = quintic(client.robot.active_names, middle - travel / 2, middle + travel / 2, seconds)
            # the simulated robot holds its position until the first torque comes
            client.set("feedforward", hold_gravity_on_activate=False, measured_gravity=measured, output="effort")
            t, q = client.follow(points, feedforward=True)
            client.set("feedforward", output="trajectory", measured_gravity=False)
            client.go(client.position())
            error = np.abs(q - points.sampled(t)[0]).max(axis=0) / travel
            table[f"{speed}, {name}"] = OpenLoop(float(error.max()), float(error.mean()))
    return table


def weighed(client: Client, empty: str, loaded: str, mass: float) -> WeighedPayload:
    """Identify the payload of true `mass` [kg] from two recordings; a robot that cannot show it gives the reason."""
    say("identifying the payload")
    bags = {"empty_bags": [empty], "loaded_bags": [loaded]}
    try:
        found = client.call(IdentifyPayload, "identification/identify_payload", timeout=120.0, **bags)
    except ClientError as error:
        say(f"this robot does not show its payload: {error}")
        return WeighedPayload(mass, loaded, error=str(error))
    com = found.payload.com
    return WeighedPayload(
        mass,
        loaded,
        mass=found.payload.m,
        mass_std=found.mass_std,
        com=(com.x, com.y, com.z),
        relative_error=abs(found.payload.m / mass - 1),
    )


def _ranges(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    limits = [robot.joints[j - 1].limits for j in robot.active]
    return np.array([max(x.lower, -1.5) for x in limits]), np.array([min(x.upper, 1.5) for x in limits])
