# SPDX-License-Identifier: Apache-2.0

"""The demo's operator: plans, rehearses, excites, identifies, feeds forward, weighs a payload, as a person would.

A client of the other nodes (common.client), without parameters and services of its own. Reads what to do as JSON from
standard input, and writes lines of JSON: {"say"} as it goes, then {"result"} or {"error"}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from std_srvs.srv import Trigger

from ros2_dynid.action import Identify
from ros2_dynid.codec import Plain, decode, encode
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Robot
from ros2_dynid.msg import BaseParameters, ExcitationState
from ros2_dynid.msg import TorqueError as TorqueErrorMessage
from ros2_dynid.nodes.common.caller import ClientError, end_ros, start_ros
from ros2_dynid.nodes.common.client import Client
from ros2_dynid.nodes.common.messages import inertia_message, reference_of
from ros2_dynid.nodes.mission.pilot import Pilot
from ros2_dynid.srv import IdentifyPayload, PlanExcitation, SetPayload
from ros2_dynid.usecases.mission import MissionOutcome, MissionRequest, OpenLoop, Tracking, WeighedPayload

REST_SECONDS = 20.0
"""Time [s] that the robot has to come to rest before a motion."""
NOT_YET = ("at rest", "the position of the robot is not known", "commands the robot")
"""Refusals of a start that pass by themselves: a robot that still moves, or that another node still commands, or joint
states that a busy machine delays."""


class Mission:
    """The steps, each on real topics, services and actions."""

    def __init__(self, request: MissionRequest) -> None:
        """Connect."""
        self._request = request
        self.robot = load_robot(request.robot)
        self._client = Pilot(self.robot, "mission")

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def run(self) -> MissionOutcome:
        """Go through all steps and return what was found."""
        self._client.position()
        seed = self._request.seed
        exciting, training = self._excite("exciting trajectory", seed=seed)
        _, validation = self._excite("validation trajectory", seed=seed + 1, rehearse=False)
        model, stages, parameters = self._identify([training], [validation])
        return MissionOutcome(
            bags=(training,),
            validation_bags=(validation,),
            model=model,
            stages=stages,
            fit=_errors(parameters.fit),
            validation=_errors(parameters.validation),
            tracking=tracking(self._client, exciting),
            payload=self._payload(training),
            open_loop=open_loop(self._client, self._request.open_loop_seconds or {}),
        )

    def _excite(self, what: str, seed: int, rehearse: bool = True) -> tuple[Reference, str]:
        client = self._client
        plan = client.call(
            PlanExcitation, "excitation/plan", seed=seed, duration=[self._request.duration], timeout=120.0
        )
        say(f"{what}: {plan.duration:.1f} s, condition number {plan.cond:.0f}")
        if rehearse:
            self._run("rehearse", f"rehearsing it at {100 * self._request.rehearsal_speed:.0f} % speed")
        return reference_of(plan.trajectory, self.robot), self._recorded(f"running the {what}, recording")

    def _recorded(self, text: str) -> str:
        before = self._client.recording
        self._run("start", text)
        self._client.wait(lambda: self._client.recording != before, 20.0, "closing the bag")
        return self._client.recording

    def _run(self, service: str, text: str) -> None:
        client = self._client
        say(text)
        client.excitation_state = ExcitationState()
        self._accepted(service)
        end = client.wait_for_excitation(ExcitationState.DONE, ExcitationState.ABORTED, timeout=300.0)
        if end.state != ExcitationState.DONE:
            raise ClientError(f"the excitation stopped: {end.text}")

    def _accepted(self, service: str) -> None:
        """Call a service of the excitation, again while the robot comes to rest, as an operator would."""
        until = time.monotonic() + REST_SECONDS
        while True:
            try:
                self._client.call(Trigger, f"excitation/{service}")
                return
            except ClientError as error:
                if not any(word in str(error) for word in NOT_YET) or time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def _identify(self, bags: list[str], validation: list[str]) -> tuple[str, tuple[str, ...], BaseParameters]:
        """Return the model file, the stages that were reported, and the parameters."""
        stages: list[str] = []

        def feedback(message: Any) -> None:
            if message.feedback.stage not in stages:
                stages.append(message.feedback.stage)

        say("identifying the base parameters")
        goal = Identify.Goal(bags=bags, validation_bags=validation, consistent=True)
        found = self._client.act(Identify, "identification/identify", goal, feedback)
        return found.model_path, tuple(stages), found.parameters

    def _payload(self, empty: str) -> WeighedPayload:
        load = self._request.payload
        say(f"attaching a payload of {load.mass} kg, which only the robot knows")
        message = inertia_message(load.mass, load.com, load.inertia)
        self._client.call(SetPayload, "sim_robot/set_payload", payload=message)
        loaded = self._recorded("running the trajectory with the payload, recording")
        payload = weighed(self._client, empty, loaded, load.mass)
        self._client.call(SetPayload, "sim_robot/set_payload", payload=inertia_message(0.0, [0.0] * 3, [[0.0] * 3] * 3))
        return payload


def _errors(rows: Sequence[TorqueErrorMessage]) -> dict[str, TorqueError]:
    return {row.joint: TorqueError(row.rms, row.relative) for row in rows}


def _outcome(data: object) -> dict[str, Plain]:
    start_ros()
    mission = Mission(decode(MissionRequest, data))
    try:
        return {"result": encode(mission.run())}
    except DynidError as error:
        return {"error": str(error)}
    finally:
        mission.close()


def main() -> int:
    """Run the mission on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(json.dumps(_outcome(json.load(sys.stdin))), flush=True)
    ending = threading.Thread(target=end_ros, daemon=True)
    ending.start()
    ending.join(1.0)
    os._exit(0)  # the middleware's threads may take seconds to end


TRIES = 3
"""How often a motion is begun that is braked on the way: the feedforward brakes where a busy computer lets it stand."""
BRAKED = 0.1
"""Distance from a motion's end [rad or m] that says so: tracking errors are some hundredths."""
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
        for _ in range(TRIES):
            client.go(points.q[0])
            t, q = client.follow(points, feedforward=feedforward)
            if np.abs(q[-1] - points.sampled(t)[0][-1]).max() < BRAKED:
                break
            say("the motion was braked, as when this computer stands still: once more")
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
        answer = client.call(IdentifyPayload, "identification/identify_payload", timeout=120.0, **bags)
    except ClientError as error:
        say(f"this robot does not show its payload: {error}")
        return WeighedPayload(mass, loaded, error=str(error))
    com = answer.payload.com
    return WeighedPayload(
        mass,
        loaded,
        mass=answer.payload.m,
        mass_std=answer.mass_std,
        com=(com.x, com.y, com.z),
        relative_error=abs(answer.payload.m / mass - 1),
    )


def _ranges(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    limits = [robot.joints[j - 1].limits for j in robot.active]
    return np.array([max(x.lower, -1.5) for x in limits]), np.array([min(x.upper, 1.5) for x in limits])
