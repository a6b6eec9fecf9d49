# SPDX-License-Identifier: Apache-2.0

"""What can happen to the feedforward, and what it answers: frozen values, which may come from any thread.

Those that come a thousand times a second are named tuples, which are made in a third of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ros2_dynid.control.feedforward import FeedforwardOptions, Filler, TorqueCoefficients
from ros2_dynid.control.held_load import Load
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.torque_limiter import LimitedTorque
from ros2_dynid.model.efforts import ErrorBars, added_effort
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
    robot_adds: what the robot adds to a commanded effort, one text a joint or one, empty for what the model says;
    check_rest: compare it with efforts measured at rest before the first torque.
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
    check_rest: bool = True

    def __post_init__(self) -> None:
        """Refuse a declaration that says nothing."""
        for text in filter(None, self.robot_adds):
            added_effort(text)


@dataclass(frozen=True, eq=False)
class NewModel:
    """Use standard parameters chi, shape (n_standard,), of this robot; `source` names them in messages.

    bars: how far its torques may be wrong, if known.
    """

    robot: Robot
    chi: Array
    source: str
    bars: ErrorBars | None = None


@dataclass(frozen=True, eq=False)
class NewPayload:
    """Carry this load; one of mass 0 takes it off."""

    load: Load


@dataclass(frozen=True, eq=False)
class NewDescription:
    """The robot is this one: its limits count, and a model must fit it."""

    robot: Robot


@dataclass(frozen=True, eq=False)
class NewReference:
    """Follow a trajectory whose time 0 is `begin` [s]."""

    points: Reference
    begin: float


class StreamedPoint(NamedTuple):
    """Answer this point at once: q, dq, ddq, shape (n,), of the joints named."""

    joint_names: tuple[str, ...]
    q: Array
    dq: Array
    ddq: Array


@dataclass(frozen=True)
class UnreadableReference:
    """A reference came that cannot be read, for this reason: what was followed before it ends."""

    reason: str


@dataclass(frozen=True)
class StopFeedforward:
    """End every motion: brake, or go over to gravity. References are refused until it is activated again."""


class MeasuredState(NamedTuple):
    """The robot is here: q, dq, shape (n,), of the joints named; stamp [ns], 0 where the driver gives none.

    tau: efforts measured, shape (n,), None or NaN where they are not.
    """

    joint_names: tuple[str, ...]
    q: Array
    dq: Array
    stamp: int = 0
    tau: Array | None = None


@dataclass(frozen=True, eq=False)
class MeasuredTemperature:
    """The drives of the joints named are this warm, one each [deg C]; joints of other robots are passed over."""

    joint_names: tuple[str, ...]
    temperature: Array


@dataclass(frozen=True)
class FeedforwardTick:
    """Time has passed."""


@dataclass(frozen=True)
class Background:
    """Find M, C and Q where the robot is."""


@dataclass(frozen=True)
class AskFiller:
    """Give what fills efforts into trajectories."""


@dataclass(frozen=True)
class OptionsChanged:
    """Use these settings; with `try_only` only say whether they would do."""

    settings: FeedforwardSettings
    try_only: bool = False


@dataclass(frozen=True)
class OutputChanged:
    """Stream torques, or fill them into trajectories."""

    stream: bool


@dataclass(frozen=True)
class ActivateFeedforward:
    """Begin."""


@dataclass(frozen=True)
class DeactivateFeedforward:
    """End in gravity, and send no more."""


FeedforwardEvent = (
    NewModel
    | NewPayload
    | NewDescription
    | NewReference
    | StreamedPoint
    | UnreadableReference
    | StopFeedforward
    | MeasuredState
    | MeasuredTemperature
    | FeedforwardTick
    | Background
    | AskFiller
    | OptionsChanged
    | OutputChanged
    | ActivateFeedforward
    | DeactivateFeedforward
)


class FeedforwardOutcome(NamedTuple):
    """What an event led to: a refusal in one line, or what is to be sent or given; answer: to who stopped it."""

    refused: str = ""
    answer: str = ""
    torque: LimitedTorque | None = None
    trajectory: Reference | None = None
    filler: Filler | None = None
    coefficients: TorqueCoefficients | None = None


@dataclass(frozen=True, eq=False)
class CarriedModel:
    """What the robot weighs now, load included: standard parameters chi, shape (n_standard,), and their error bars.

    Friction is that of the drives' temperatures; `cold`: the same object while nothing but these has changed.
    """

    robot: Robot
    chi: Array
    bars: ErrorBars | None
    cold: Array


@dataclass(frozen=True)
class News:
    """A line for the log."""

    text: str
    warning: bool = False


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
