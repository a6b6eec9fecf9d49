# SPDX-License-Identifier: Apache-2.0

"""What can happen to the feedforward, where it may lead, and what the feedforward answers.

Events are frozen values with their time `now` [s], which may come from any thread. Those that come a thousand times a
second are named tuples, which are made in a third of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ros2_dynid.control.feedforward import FeedforwardOptions, Filler, TorqueCoefficients
from ros2_dynid.control.held_load import Load
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.stop_switch import HoldBack
from ros2_dynid.control.torque_limiter import LimitedTorque
from ros2_dynid.control.transitions import Table
from ros2_dynid.model.driver_presets import preset_names
from ros2_dynid.model.efforts import CHOICES, ErrorBars, added_effort, parse_sensor
from ros2_dynid.model.robot import Array, Robot


class FeedforwardState(Enum):
    """What the feedforward does, in words for the log and the diagnostics."""

    STOPPED = "stopped"
    NO_MODEL = "no model yet"
    NO_LIMITS = "effort limits are not known"
    UNDECLARED = "what the robot adds to an effort is not declared"
    WAITING = "waiting for a reference"
    FOLLOWING = "following a trajectory"
    STREAMING = "following streamed points"
    FADING = "the reference has stopped: going over to gravity at the measured position"
    HOLDING = "holding against gravity at the measured position"
    ENDING = "ending: going over to gravity"

    __hash__ = object.__hash__  # quick, and right for members, which are compared by identity


SENDING = frozenset(
    {
        FeedforwardState.FOLLOWING,
        FeedforwardState.STREAMING,
        FeedforwardState.FADING,
        FeedforwardState.HOLDING,
        FeedforwardState.ENDING,
    }
)
"""States in which torques leave."""


DEFAULT_OPTIONS = FeedforwardOptions()


@dataclass(frozen=True)
class FeedforwardSettings:
    """What is configured: the law's options, and when torques are sent.

    timeout: a streamed reference older than this has stopped [s]; stale: joint states older than this are not used [s];
    hold: send gravity before the first reference; period: between streamed torques [s]; efforts, rates: limits [N.m or
    N, and a second], one a joint or one, 0 for the robot's own or the derived; command_names: the order of
    effort_commands, empty for the robot's; point_rate: of trajectories passed on [Hz]; temperature_stale: temperatures
    older than this are not used [s]; near: how far a reference may begin from where the robot is [rad or m]; lead:
    expected time from sending a stop to the controller's first step along it [s];
    robot_adds, robot_measures: what the robot adds to a commanded effort, and what a measured one holds, one text a
    joint or one, empty for what the model says; check_rest: compare them with efforts measured at rest before the first
    torque.
    """

    options: FeedforwardOptions = DEFAULT_OPTIONS
    timeout: float = 0.05
    stale: float = 0.1
    hold: bool = True
    period: float = 1e-3
    efforts: tuple[float, ...] = (0.0,)
    rates: tuple[float, ...] = (0.0,)
    command_names: tuple[str, ...] = ()
    point_rate: float = 100.0
    temperature_stale: float = 60.0
    near: float = 0.1
    lead: float = 0.01
    robot_adds: tuple[str, ...] = ()
    robot_measures: tuple[str, ...] = ()
    check_rest: bool = True

    def __post_init__(self) -> None:
        """Refuse a declaration that says nothing."""
        for text in filter(None, self.robot_adds):
            added_effort(text)
        for text in filter(None, self.robot_measures):
            parse_sensor(text)


@dataclass(frozen=True, eq=False)
class FeedforwardEvent:
    """Something that happened at time `now` [s]."""

    now: float


@dataclass(frozen=True, eq=False)
class NewModel(FeedforwardEvent):
    """Use standard parameters chi, shape (n_standard,), of this robot; `source` names them in messages.

    bars: how far its torques may be wrong, if known.
    """

    robot: Robot
    chi: Array
    source: str
    bars: ErrorBars | None = None


@dataclass(frozen=True, eq=False)
class NewPayload(FeedforwardEvent):
    """Carry this load; one of mass 0 takes it off."""

    load: Load


@dataclass(frozen=True, eq=False)
class NewDescription(FeedforwardEvent):
    """The robot is this one: its limits count, and a model must fit it."""

    robot: Robot


@dataclass(frozen=True, eq=False)
class NewReference(FeedforwardEvent):
    """Follow a trajectory whose time 0 is `begin` [s]."""

    points: Reference
    begin: float


class StreamedPoint(NamedTuple):
    """Answer this point at once: q, dq, ddq, shape (n,), of the joints named."""

    now: float
    joint_names: tuple[str, ...]
    q: Array
    dq: Array
    ddq: Array


@dataclass(frozen=True, eq=False)
class UnreadableReference(FeedforwardEvent):
    """A reference came that cannot be read, for this reason: what was followed before it ends."""

    reason: str


@dataclass(frozen=True, eq=False)
class StopFeedforward(FeedforwardEvent):
    """End every motion: brake, or go over to gravity. halt: references are refused until it is activated again.

    was_replaced: a guard has sent the torques against gravity meanwhile, so that they go on from there.
    """

    halt: bool = True
    was_replaced: bool = False


@dataclass(frozen=True, eq=False)
class MeasuredTemperature(FeedforwardEvent):
    """The drives of the joints named are this warm, one each [deg C]; joints of other robots are passed over."""

    joint_names: tuple[str, ...]
    temperature: Array


@dataclass(frozen=True, eq=False)
class FeedforwardTick(FeedforwardEvent):
    """Time has passed: a torque may be due, or a trajectory may begin or end."""


@dataclass(frozen=True, eq=False)
class Background(FeedforwardEvent):
    """Find M, C and Q where the robot is."""


@dataclass(frozen=True, eq=False)
class AskFiller(FeedforwardEvent):
    """Give what fills efforts into trajectories."""


@dataclass(frozen=True, eq=False)
class OptionsChanged(FeedforwardEvent):
    """Use these settings; with `try_only` only say whether they would do."""

    settings: FeedforwardSettings
    try_only: bool = False


@dataclass(frozen=True, eq=False)
class OutputChanged(FeedforwardEvent):
    """Stream torques, or fill them into trajectories."""

    stream: bool


@dataclass(frozen=True, eq=False)
class ActivateFeedforward(FeedforwardEvent):
    """The node becomes active: references are taken, and gravity is held if that is set."""


@dataclass(frozen=True, eq=False)
class DeactivateFeedforward(FeedforwardEvent):
    """End in gravity, and send no more."""


S = FeedforwardState
_WITHOUT_TORQUE = frozenset((S.NO_MODEL, S.NO_LIMITS, S.UNDECLARED, S.WAITING))
_UNREADY = (S.NO_MODEL, S.NO_LIMITS, S.UNDECLARED)
_FOLLOWING = SENDING - {S.ENDING}
_STAY = {state: frozenset((state,)) for state in S}
_JUDGE = {**_STAY, S.WAITING: frozenset((S.WAITING, S.UNDECLARED))}  # efforts at rest may contradict the declaration
_SETTLE = {**_STAY, **dict.fromkeys(_WITHOUT_TORQUE, _WITHOUT_TORQUE)}
_END = {**_STAY, **dict.fromkeys((S.FOLLOWING, S.STREAMING), frozenset((S.FADING,)))}
_TAKE = {state: _JUDGE[state] | _FOLLOWING | {S.WAITING} for state in (S.WAITING, *_FOLLOWING)}

TRANSITIONS: Table[FeedforwardState] = {
    NewModel: _SETTLE,
    NewPayload: {state: leads for state, leads in _JUDGE.items() if state not in _UNREADY},
    NewDescription: {**_SETTLE, **{state: frozenset((state, S.FADING)) for state in _FOLLOWING}},
    NewReference: _TAKE,
    StreamedPoint: _TAKE,
    UnreadableReference: _END,
    StopFeedforward: _END,
    HoldBack: _STAY,
    JointStateArrived: _JUDGE,
    MeasuredTemperature: _STAY,
    FeedforwardTick: {**_STAY, **_TAKE, S.ENDING: frozenset((S.ENDING, S.STOPPED, *_WITHOUT_TORQUE))},
    Background: _STAY,
    AskFiller: {state: leads for state, leads in _JUDGE.items() if state not in _UNREADY},
    OptionsChanged: _SETTLE,
    OutputChanged: {
        **_SETTLE,
        **{state: frozenset((state, S.ENDING)) for state in SENDING},
        S.ENDING: frozenset((S.ENDING, S.FADING)),
    },
    ActivateFeedforward: {
        **{state: leads for state, leads in _STAY.items() if state is not S.ENDING},
        S.STOPPED: _WITHOUT_TORQUE,
    },
    DeactivateFeedforward: {
        S.STOPPED: _STAY[S.STOPPED],
        **dict.fromkeys(_WITHOUT_TORQUE, _STAY[S.STOPPED]),
        **dict.fromkeys(SENDING, _STAY[S.ENDING]),
    },
}
"""Where an event may lead from a state; one that has no row there is refused, for the reason in REFUSALS."""

REFUSALS = {
    S.STOPPED: ("the node is not active", "activate it"),
    S.NO_MODEL: ("there is no model yet", "load one, or publish base_parameters"),
    S.NO_LIMITS: (
        "the effort limits are not known",
        "publish robot_description, or set the parameter robot or effort_limits",
    ),
    S.UNDECLARED: (
        "what the robot itself adds to a commanded effort is not declared",
        f"set robot_adds to {CHOICES}, drives: in the robot file, or robot_driver to {', '.join(preset_names())}",
    ),
    S.ENDING: ("the feedforward is ending", "wait until it has stopped"),
}


class FeedforwardOutcome(NamedTuple):
    """What an event led to: a refusal in one line, or what is to be sent or given; answer: to who stopped it."""

    refused: str = ""
    answer: str = ""
    torque: LimitedTorque | None = None
    trajectory: Reference | None = None
    filler: Filler | None = None
    coefficients: TorqueCoefficients | None = None


@dataclass(frozen=True)
class News:
    """A line for the log."""

    text: str
    warning: bool = False


class NewsLog:
    """Lines for the log that nobody has taken yet; the same is said once in a state."""

    def __init__(self) -> None:
        """Begin without lines."""
        self.waiting: list[News] = []
        self._said: set[str] = set()

    def add(self, text: str, warning: bool = False) -> None:
        """Add a line for the log."""
        self.waiting.append(News(text, warning))

    def add_once(self, text: str, *, warning: bool = False) -> None:
        """Add a line for the log, unless it was added in this state."""
        if text not in self._said:
            self._said.add(text)
            self.add(text, warning)

    def begin_state(self) -> None:
        """Begin another state, in which every line may be added again."""
        self._said.clear()

    def take(self) -> list[News]:
        """Return what was said since the last call."""
        news, self.waiting = self.waiting, []
        return news


@dataclass(frozen=True)
class FeedforwardStatus:
    """What the feedforward says about itself, for others to read at any time."""

    state: FeedforwardState = FeedforwardState.STOPPED
    robot: str = ""
    joint_names: tuple[str, ...] = ()
    sent: int = 0
    held_back: bool = False
    fresh: bool = False
    remark: str = ""
    temperature: str = ""
