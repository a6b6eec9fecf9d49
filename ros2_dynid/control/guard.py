# SPDX-License-Identifier: Apache-2.0

"""What a guard does when the commander of a robot is gone: it brakes the robot, or leaves it with what holds it.

The guard runs in another process than those that command. A commander that sends trajectories is replaced by a stop
from what is measured; one that streams torques by the torques against gravity that it said itself, over a ramp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.lease import Claim
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings, fastest_joint, motion_limits
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop import braking
from ros2_dynid.control.supervisor import StopStart, Supervisor
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Robot


@dataclass(frozen=True)
class GuardTimes:
    """Times [s]: ramp of torques to those that hold the robot, as the feedforward's own.

    again: after the end of a stop until a robot that still moves gets another one. patience: until it is said that the
    robot does not come to rest.
    """

    ramp: float = 0.3
    again: float = 0.3
    patience: float = 10.0


DEFAULT_TIMES = GuardTimes()


@dataclass(frozen=True)
class GuardAction:
    """What is to be sent now, a stop or torques, and what is to be said; ended: the robot is left to itself again."""

    stop: Reference | None = None
    efforts: tuple[float, ...] = ()
    say: str = ""
    ended: bool = False


NOTHING = GuardAction()


class Guard:
    """Watches a robot; `replace` begins when a commander is gone, `tick` goes on until the robot rests."""

    def __init__(self, settings: MotionSettings, times: GuardTimes = DEFAULT_TIMES) -> None:
        """Know no robot; settings: how far off its reference it may be, how it stops, how old joint states may be."""
        self._settings, self._times = settings, times
        self.robot: Robot | None = None
        self._limits: MotionLimits | None = None
        self._watch: Supervisor | None = None
        self.no_limits = "the robot is not known"
        self._gone: Claim | None = None
        self._since = self._until = 0.0
        self._blind = self._braked = False

    @property
    def busy(self) -> bool:
        """Whether it is in the place of a commander that is gone."""
        return self._gone is not None

    def use(self, robot: Robot) -> None:
        """Watch this robot; one without limits cannot be braked."""
        self.robot, self._limits, self._watch, self.no_limits = robot, None, None, ""
        try:
            self._limits = motion_limits(robot, self._settings)
            self._watch = Supervisor(self._limits, self._settings)
        except InputError as error:
            self.no_limits = str(error)

    def take(self, event: JointStateArrived) -> None:
        """Take a joint state."""
        if self._watch is not None:
            self._watch.take(event)

    def follow(self, points: Reference, begin: float) -> None:
        """Take a trajectory that somebody sent to the controller, which begins at a time [s]."""
        if self._watch is not None and points.joint_names == self._watch.limits.joint_names:
            self._watch.jumped = False
            self._watch.follow(points, begin)

    def motion(self, now: float) -> tuple[bool | None, str]:
        """Return whether the robot moves, None if that is not known, and in words how."""
        watch, robot = self._watch, self.robot
        if watch is None or robot is None:
            return None, f"whether the robot moves is not known: {self.no_limits}"
        if unknown := watch.unknown(now):
            return None, f"whether the robot moves is not known: {unknown}"
        if watch.at_rest():
            return False, "the robot is at rest"
        return True, fastest_joint(robot, watch.velocity_seen())

    def replace(self, gone: Claim, now: float) -> GuardAction:
        """Take the place of a commander that is gone at `now` [s]."""
        self._gone, self._since, self._blind, self._braked = gone, now, False, False
        if gone.holding_effort:
            return self._ramp(f"{gone.node} is gone: going over to the torques that hold the robot", now)
        return self._brake(f"{gone.node} is gone: braking", now)

    def yield_to_commander(self) -> None:
        """Leave the robot to a commander that is back."""
        self._gone = None

    def tick(self, now: float) -> GuardAction:
        """Return what is to be done at `now` [s] while it is busy."""
        gone, watch = self._gone, self._watch
        if gone is None:
            return NOTHING
        if gone.holding_effort:
            return self._ramp("", now)
        known = watch is not None and watch.known(now)
        if now - self._since > self._times.patience:
            self._gone = None
            return GuardAction(say="the robot is not seen at rest: use its emergency stop", ended=True)
        if self._blind:
            return self._brake("joint states are back: braking", now) if known else NOTHING
        if known and now > self._until:
            assert watch is not None
            if watch.at_rest():
                self._gone = None
                return GuardAction(say="the robot is at rest", ended=True)
            if now > self._until + self._times.again:
                return self._brake("the robot still moves: braking again", now)
        return NOTHING

    def _ramp(self, say: str, now: float) -> GuardAction:
        """Return the torques between those sent last and those that hold the robot."""
        gone = self._gone
        assert gone is not None
        share = min((now - self._since) / self._times.ramp, 1.0)
        tau = (1 - share) * np.array(gone.effort) + share * np.array(gone.holding_effort)
        if share == 1.0:
            self._gone = None
        return GuardAction(efforts=tuple(tau.tolist()), say=say, ended=share == 1.0)

    def _brake(self, say: str, now: float) -> GuardAction:
        """Return a stop from what is measured or, where the trajectory was seen, from that.

        Without both nobody knows where to stop.
        """
        watch, limits = self._watch, self._limits
        if watch is None or limits is None:
            self._blind = True
            return GuardAction(say=f"{say}, but that is not possible: {self.no_limits}; use the emergency stop")
        if watch.follows_something and not self._is_elsewhere(watch, now):
            start = watch.stop_start(now, moved=not self._braked)
        elif watch.known(now) and watch.confirmed and watch.moves_steadily():
            q, still = watch.last.state.q, np.zeros_like(watch.last.state.q)
            doubt, dense = still + self._settings.tracking, bool(np.isnan(watch.last.state.dq).all())
            start = StopStart(q, watch.velocity_to_brake(), still, still, doubt, dense, follows=False)
        else:
            said, self._blind = self._blind, True
            why = watch.unknown(now) or watch.doubt or "its joint states contradict each other"
            return (
                NOTHING if said else GuardAction(say=f"{say}, but that is not possible: {why}; use the emergency stop")
            )
        self._blind, self._braked = False, True
        stop = braking(
            limits, start.q, start.dq, start.error, self._settings.lead, speed_error=start.speed_error,
            doubt=start.doubt, dense=start.dense,
        )  # fmt: skip
        watch.follow(stop.expected, now, stop=True)
        self._until = now + stop.expected.duration
        return GuardAction(stop=stop.points, say=say)

    def _is_elsewhere(self, watch: Supervisor, now: float) -> bool:
        """Whether the robot was last seen off the trajectory, in no steady motion: a stop along that would throw it.

        A clock that stood, or a robot that was started anew, is not where its trajectory would be by now.
        """
        off = bool(np.any(watch.error(now) > self._settings.tracking))
        return off and not watch.jumped and not (watch.known(now) and watch.confirmed and watch.moves_steadily())
