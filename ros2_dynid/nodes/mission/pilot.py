# SPDX-License-Identifier: Apache-2.0

"""The demo's hand on the robot: trajectories of its own obey the stop of the suite, and only one node commands."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.motion_gate import check_start, check_trajectory
from ros2_dynid.control.motion_limits import known_limits
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop import braking
from ros2_dynid.control.stop_switch import Reason
from ros2_dynid.errors import DynidError
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.client import LEAD, Client
from ros2_dynid.nodes.common.commander_topic import CommanderTopic
from ros2_dynid.nodes.common.fast import Ticker
from ros2_dynid.nodes.common.messages import reference_of, trajectory_message
from ros2_dynid.nodes.common.stop_topic import StopListener

BEAT_SECONDS = 0.02
"""How often [s] it says that it commands."""
HEARD_SECONDS = 0.1
"""Time [s] in which the others hear that the robot is released."""
PATIENCE = 3.0
"""Time [s] that another node has to end what it does before a motion is refused."""
START_TOLERANCE = 0.2
"""How far [rad or m] the robot may be from the start of a trajectory: an arm without feedforward droops."""
STOP_LEAD = 0.01
"""Expected time [s] from sending a stop to the controller's first step."""


class Pilot(Client):
    """A client that claims the robot for what it sends to the controller itself, and brakes when the stop is set."""

    def __init__(self, robot: Robot, name: str) -> None:
        """Command nothing."""
        super().__init__(robot, name)
        self._commander, self._until = CommanderTopic(self), 0.0
        self._stop_switch = StopListener(self, self._on_stop, "", 0.0)
        self._ticker = Ticker(BEAT_SECONDS, self._beat)

    def close(self) -> None:
        """Listen no more."""
        self._ticker.close()
        self._stop_switch.close()
        self._commander.close()
        super().close()

    def send(self, message: JointTrajectory, *, feedforward: bool) -> None:
        """Send a trajectory as it is, to the controller or to the feedforward, unless the stop is set.

        One for the controller passes the motion gate first; the feedforward has its own.
        """
        self._refuse_stopped()
        if feedforward:
            self._release()
        else:
            points = reference_of(message, self.robot)
            self._check(points)
            self._claim()
            self._until = time.monotonic() + LEAD + points.duration
        super().send(message, feedforward=feedforward)

    def wait(self, done: Callable[[], bool], timeout: float, what: str) -> None:
        """Wait until done() is true, or the stop is set."""

        def ended() -> bool:
            self._refuse_stopped()
            return done()

        super().wait(ended, timeout, what)

    def _check(self, points: Reference) -> None:
        """Refuse a trajectory that passes a limit, does not end at rest, or does not begin where the robot is."""
        limits, measured = known_limits(self.robot), self.position()
        check_trajectory(points, limits, measured)
        unknown = np.full_like(measured, np.nan)  # an arm that drifts is brought to rest by a trajectory, too
        check_start((points.q[0], unknown), (measured, unknown), limits, START_TOLERANCE)

    def _refuse_stopped(self) -> None:
        if self._stop_switch.reason is not None:
            raise ClientError("; ".join(self._stop_switch.reason))

    def _claim(self) -> None:
        """Take command of the robot; the node that had it may need a moment to release it."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._commander.wait(self.robot.active_names, at_rest=True)
                return
            except DynidError as error:
                if time.monotonic() > end:
                    raise ClientError(str(error)) from None
                time.sleep(BEAT_SECONDS)

    def _release(self) -> None:
        """Leave the robot to the feedforward, and give it time to hear of it."""
        if self._commander.held:
            self._commander.release()
            time.sleep(HEARD_SECONDS)

    def _beat(self) -> None:
        if self._commander.held:
            self._commander.beat()
            if time.monotonic() > self._until:
                self._commander.release()

    def _on_stop(self, reason: Reason | None) -> None:
        """Brake what was sent to the controller, if it is under way."""
        if reason is None or not self._commander.held:
            return
        state = self.measured
        limits, still = known_limits(self.robot), np.zeros_like(state.q)
        stop = braking(limits, state.q, np.nan_to_num(state.dq), still, STOP_LEAD, dense=True)
        super().send(trajectory_message(stop.points), feedforward=False)
        self._until = time.monotonic() + stop.expected.duration
