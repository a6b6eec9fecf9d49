# SPDX-License-Identifier: Apache-2.0

"""What can happen to the excitation, where it may lead, and what the excitation answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ros2_dynid.control.along_path import ResumedMotion
from ros2_dynid.control.checked_motion import CheckedMotion, JogMotion
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.control.stop_switch import HoldBack
from ros2_dynid.control.transitions import Table
from ros2_dynid.model.robot import Robot


class Phase(Enum):
    """What the machine does."""

    INACTIVE = "inactive"
    NO_ROBOT = "no robot"
    IDLE = "idle"
    APPROACH = "approach"
    SETTLE = "settle"
    RUNNING = "running"
    SLOWING = "slowing"
    PAUSED = "paused"
    JOGGING = "jogging"
    BRAKING = "braking"
    DONE = "done"
    ABORTED = "aborted"


PAUSABLE = frozenset((Phase.APPROACH, Phase.SETTLE, Phase.RUNNING))
"""Parts of a motion that can be paused, and are gone on with."""
MOVING = PAUSABLE | {Phase.SLOWING, Phase.PAUSED, Phase.JOGGING}
"""Phases in which the robot is watched on what was sent: a pause is a rest that somebody must not disturb."""
RESTING = frozenset((Phase.IDLE, Phase.DONE, Phase.ABORTED))


@dataclass(frozen=True, eq=False)
class ExcitationEvent:
    """Something that happened at time `now` [s]."""

    now: float


@dataclass(frozen=True, eq=False)
class ActivateExcitation(ExcitationEvent):
    """The node becomes active."""


@dataclass(frozen=True, eq=False)
class DeactivateExcitation(ExcitationEvent):
    """The node becomes inactive, once the robot is at rest."""


@dataclass(frozen=True, eq=False)
class RobotChanged(ExcitationEvent):
    """There is a robot, or another one."""

    robot: Robot


@dataclass(frozen=True, eq=False)
class ParametersChanged(ExcitationEvent):
    """The settings of the motion have changed; while the robot moves that is refused."""

    settings: MotionSettings


@dataclass(frozen=True, eq=False)
class Start(ExcitationEvent):
    """Go to the start of this motion, rest there, and run it."""

    motion: CheckedMotion


@dataclass(frozen=True, eq=False)
class Stop(ExcitationEvent):
    """Brake, for this reason."""

    reason: str = "stop was called"


@dataclass(frozen=True, eq=False)
class Pause(ExcitationEvent):
    """Slow down to rest on the trajectory, and wait there."""


@dataclass(frozen=True, eq=False)
class Resume(ExcitationEvent):
    """Go on from rest along what is left of the trajectory."""

    motion: ResumedMotion


@dataclass(frozen=True, eq=False)
class Jog(ExcitationEvent):
    """Move one joint slowly while it is held."""

    motion: JogMotion


@dataclass(frozen=True, eq=False)
class JogHeld(ExcitationEvent):
    """Somebody still holds the joint in this direction, 1 or -1."""

    joint: str
    direction: int


@dataclass(frozen=True, eq=False)
class JogReleased(ExcitationEvent):
    """Nobody holds a joint any more: slow down to rest."""


@dataclass(frozen=True, eq=False)
class ExcitationTick(ExcitationEvent):
    """Time has passed: a part of the motion may have ended, or joint states may be missing."""


@dataclass(frozen=True, eq=False)
class ConnectionProblem(ExcitationEvent):
    """The way to the controller is broken."""

    text: str


@dataclass(frozen=True, eq=False)
class OthersCommand(ExcitationEvent):
    """Another node commands the robot: what moves now is not what was stopped."""


@dataclass(frozen=True, eq=False)
class GoalRefused(ExcitationEvent):
    """The controller refused a command, or gave it up; `number` is the gate's."""

    number: int
    text: str


_STAY = {phase: frozenset((phase,)) for phase in Phase}
_BRAKE = {phase: frozenset((Phase.BRAKING,)) for phase in MOVING}
TRANSITIONS: Table[Phase] = {
    ActivateExcitation: {Phase.INACTIVE: frozenset((Phase.NO_ROBOT, Phase.IDLE))},
    DeactivateExcitation: {
        **{phase: frozenset((Phase.INACTIVE,)) for phase in (*RESTING, Phase.NO_ROBOT, Phase.INACTIVE)},
        **_BRAKE,
        Phase.BRAKING: _STAY[Phase.BRAKING],
    },
    RobotChanged: {
        Phase.INACTIVE: _STAY[Phase.INACTIVE],
        **{phase: frozenset((Phase.IDLE,)) for phase in (*RESTING, Phase.NO_ROBOT)},
        **_BRAKE,
        Phase.BRAKING: _STAY[Phase.BRAKING],
    },
    ParametersChanged: _STAY,
    Start: {phase: frozenset((phase, Phase.APPROACH)) for phase in RESTING},
    Stop: {**_STAY, **_BRAKE},
    Pause: {phase: frozenset((Phase.SLOWING, Phase.BRAKING)) for phase in PAUSABLE},
    Resume: {Phase.PAUSED: frozenset((Phase.PAUSED, Phase.APPROACH, Phase.RUNNING))},
    Jog: {phase: frozenset((phase, Phase.JOGGING)) for phase in RESTING},
    JogHeld: {Phase.JOGGING: frozenset((Phase.JOGGING, Phase.SLOWING, Phase.BRAKING))},
    JogReleased: {**_STAY, Phase.JOGGING: frozenset((Phase.SLOWING, Phase.BRAKING))},
    HoldBack: _STAY,
    OthersCommand: _STAY,
    JointStateArrived: {
        **_STAY,
        **{phase: frozenset((phase, Phase.BRAKING)) for phase in MOVING},
        Phase.BRAKING: frozenset((Phase.BRAKING, Phase.ABORTED, Phase.INACTIVE)),
        Phase.ABORTED: frozenset((Phase.ABORTED, Phase.BRAKING)),
    },
    ExcitationTick: {
        **_STAY,
        Phase.APPROACH: frozenset((Phase.APPROACH, Phase.SETTLE, Phase.BRAKING)),
        Phase.SETTLE: frozenset((Phase.SETTLE, Phase.RUNNING, Phase.BRAKING)),
        Phase.RUNNING: frozenset((Phase.RUNNING, Phase.DONE, Phase.BRAKING)),
        Phase.JOGGING: frozenset((Phase.JOGGING, Phase.SLOWING, Phase.IDLE, Phase.BRAKING)),
        Phase.SLOWING: frozenset((Phase.SLOWING, Phase.PAUSED, Phase.IDLE, Phase.BRAKING)),
        Phase.PAUSED: frozenset((Phase.PAUSED, Phase.BRAKING)),
        Phase.BRAKING: frozenset((Phase.BRAKING, Phase.ABORTED, Phase.INACTIVE)),
    },
    ConnectionProblem: {**_STAY, **_BRAKE},
    GoalRefused: {**_STAY, **{phase: frozenset((phase, Phase.BRAKING)) for phase in MOVING}},
}
"""Where an event may lead from a phase; one that has no row there is refused, for the reason below."""
WHY_REFUSED = {
    Phase.INACTIVE: ("the node is inactive", "activate it"),
    Phase.IDLE: ("the node is active already", "nothing is to be done"),
    Phase.DONE: ("the node is active already", "nothing is to be done"),
    Phase.ABORTED: ("the node is active already", "nothing is to be done"),
    Phase.NO_ROBOT: ("the robot is not known yet", "publish robot_description or set the parameter robot"),
    Phase.BRAKING: ("the robot is being stopped", "wait until it is at rest"),
    Phase.PAUSED: ("a motion is paused", "resume or stop it"),
}
"""Why an event is refused in a phase, and what to do."""
WHY_EVENT_REFUSED: Mapping[type[ExcitationEvent], tuple[str, str]] = {
    Pause: ("no motion is under way that could be paused", "start one"),
    Resume: ("no motion is paused", "pause one"),
    JogHeld: ("no joint is being jogged", "wait until the robot is at rest"),
}
"""The same of events that are legal in few phases, whatever the others are."""


@dataclass(frozen=True)
class Announce:
    """The phase for everybody: the trajectory's name while it runs; why it was stopped."""

    phase: Phase
    name: str
    reason: str = ""


@dataclass(frozen=True)
class ExcitationOutcome:
    """What an event led to: the answer to who sent it, and what is to be announced."""

    accepted: bool
    answer: str
    announced: tuple[Announce, ...] = ()
