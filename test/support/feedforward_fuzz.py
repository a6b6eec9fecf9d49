# SPDX-License-Identifier: Apache-2.0

"""Random events for the feedforward's state machine, and what must hold whatever comes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.control.feedforward import FeedforwardOptions
from ros2_dynid.control.feedforward_events import (
    SENDING,
    ActivateFeedforward,
    AskFiller,
    Background,
    DeactivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardTick,
    MeasuredTemperature,
    NewDescription,
    NewModel,
    NewPayload,
    NewReference,
    OptionsChanged,
    OutputChanged,
    StopFeedforward,
    StreamedPoint,
    UnreadableReference,
)
from ros2_dynid.control.feedforward_machine import GUARDS, FeedforwardMachine
from ros2_dynid.control.held_load import Load
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.control.stop_switch import STOP_SET, HoldBack
from ros2_dynid.control.torque_limiter import LONGEST_STEP
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Limits

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
CHI = standard_vector(ROBOT)
OTHER = load_robot("demo6")
BARE = replace(ROBOT, joints=tuple(replace(joint, limits=Limits()) for joint in ROBOT.joints))
"""The same robot without limits, as it comes with base_parameters."""
WARM = replace(BARE, friction=(FrictionTerm(2, FrictionKind.TEMPERATURE, -0.2, reference=35.0),))
"""The same with friction that changes with the temperature."""
LONGER = replace(ROBOT, joints=(*ROBOT.joints[:2], replace(ROBOT.joints[2], d=ROBOT.joints[2].d + 0.1)))
"""Another robot with the same joint names."""
SILENT = replace(ROBOT, joints=tuple(replace(joint, adds=None) for joint in ROBOT.joints))
"""The same robot, which does not declare what it adds to an effort."""


def later(kind, *values, **named):
    """Return what makes an event of its time [s]."""
    return lambda now: kind(now, *values, **named)


def arrived(names, q, dq, stamp=0, tau=None):
    """Return what makes the event of a joint state, measured when it comes."""
    tau = np.full(len(q), np.nan) if tau is None else tau
    return lambda now: JointStateArrived(now, State(names, q.copy(), dq.copy(), tau.copy(), stamp), now)


class Fuzz:
    """One machine under random events; `step` fires one and checks."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.adds = (("nothing",), ("gravity+friction:0.5",), (), ())[seed % 4]
        self.machine = FeedforwardMachine(FeedforwardSettings(robot_adds=self.adds), stream=True)
        self.now = 100.0
        self.last: np.ndarray | None = None
        self.last_time = 0.0
        self.limits = None
        self.steps = self.torques = 0
        self.seen: set[tuple[FeedforwardState, type]] = set()
        self.pose = np.array([0.1, -0.8, 0.3])
        self.stamp = 1
        self.positions: list[np.ndarray] = []
        """Where gravity may be taken: the last states that were finite, and where references last had a torque."""
        self.ways = []
        self.places: list[np.ndarray] = []
        self.endings = 0
        self.halted = self.held_back = False
        self.described = seed % 4 != 3

    def point(self):
        wild = 10.0 if self.rng.random() < 0.02 else 1.0  # beyond a limit, or a jump
        q = self.pose + wild * self.rng.normal(0, 0.02, 3)
        dq, ddq = wild * self.rng.normal(0, 0.1, 3), wild * self.rng.normal(0, 1.5, 3)
        if self.rng.random() < 0.01:
            dq = dq * float(self.rng.choice([1e200, np.nan, np.inf]))
        if self.rng.random() < 0.05:
            return StreamedPoint(self.now, tuple(reversed(NAMES)), q, dq, ddq)
        return StreamedPoint(self.now, NAMES, q, dq, ddq)

    def state(self):
        self.pose = np.clip(self.pose + self.rng.normal(0, 0.01, 3), -1.5, 1.5)
        q, dq = self.pose.copy(), self.rng.normal(0, 0.1, 3)
        kind = self.rng.random()
        if kind < 0.1:
            q[self.rng.integers(3)] = self.rng.choice([np.nan, np.inf])
        elif kind < 0.2:
            dq[self.rng.integers(3)] = np.nan
        if kind < 0.9:
            self.stamp += 1_000_000
        stamp = 0 if self.rng.random() < 0.05 else self.stamp
        foreign = self.rng.random()
        if foreign < 0.02:
            q, dq = np.tile(q, 2), np.tile(dq, 2)
        names = OTHER.active_names if foreign < 0.03 else NAMES
        return JointStateArrived(self.now, State(names, q, dq, np.full(len(q), np.nan), stamp), self.now)

    def trajectory(self):
        if self.rng.random() < 0.1:
            bad = reference(("x", "y", "z"), np.array([0.0, 1.0]), np.zeros((2, 3)))
            return NewReference(self.now, bad, self.now)
        goal = np.clip(self.pose + self.rng.normal(0, 0.3, 3), -1.5, 1.5)
        way = quintic(NAMES, self.pose, goal, float(self.rng.uniform(0.05, 1.5)))
        if self.rng.random() < 0.3:
            way = way.ordered((NAMES[1], NAMES[2], NAMES[0]))
        return NewReference(self.now, way, self.now + float(self.rng.choice([0.0, 0.0, 0.05, -0.1, -5.0])))

    def model(self):
        kind = self.rng.random()
        if kind < 0.1:
            return NewModel(self.now, OTHER, standard_vector(OTHER), "another robot")
        if kind < 0.15:
            return NewModel(self.now, BARE, np.where(np.arange(len(CHI)) == 3, np.nan, CHI), "broken")
        if kind < 0.2:
            return NewModel(self.now, LONGER, CHI, "longer")
        if kind < 0.25:
            return NewModel(self.now, BARE, 1e4 * CHI, "absurd")
        if kind < 0.3:
            return NewModel(self.now, SILENT, CHI, "silent")
        return NewModel(
            self.now,
            BARE if kind < 0.4 else WARM if kind < 0.6 else ROBOT,
            CHI * self.rng.uniform(0.5, 1.3),
            "base_parameters",
        )

    def payload(self):
        mass = float(self.rng.choice([0.0, 1.0, 3.0, 1e9, -1.0, np.nan]))
        inertia = float(mass > 0) * np.diag([0.01, 0.01, float(self.rng.choice([0.015, 0.5]))])
        return NewPayload(self.now, Load(mass, self.rng.normal(0, 0.1, 3), inertia, int(self.rng.choice([1, 3, 3, 9]))))

    def temperature(self):
        T = self.rng.normal(40.0, 10.0, 3)
        if self.rng.random() < 0.2:
            T[self.rng.integers(3)] = self.rng.choice([np.nan, np.inf, -273.15, 400.0])
        return MeasuredTemperature(self.now, NAMES, T if self.rng.random() < 0.9 else T[:2])

    def options(self):
        rng = self.rng
        options = FeedforwardOptions(
            *(bool(x) for x in rng.integers(0, 2, 2)), 0.02, bool(rng.integers(2)), bool(rng.integers(2))
        )
        settings = FeedforwardSettings(
            replace(options, ramp=float(rng.choice([0.0, 0.02, 0.3]))),
            hold=bool(rng.integers(2)),
            timeout=float(rng.choice([0.01, 0.05])),
            stale=float(rng.choice([0.005, 0.1])),
            efforts=tuple(rng.choice([0.0, 60.0, 100.0], 3)) if rng.random() < 0.8 else (1.0, 2.0),
            rates=(0.0,) if rng.random() < 0.7 else tuple(rng.choice([1.0, 300.0, 2000.0], 3)),
            command_names=() if rng.random() < 0.5 else (NAMES[2], NAMES[0], NAMES[1]),
            robot_adds=self.adds,
        )
        if rng.random() < 0.5:  # what guards a motion stays: only then another ramp or law is taken while it moves
            now = self.machine.law.settings
            settings = replace(settings, **{name: getattr(now, name) for name in GUARDS})
        return OptionsChanged(self.now, settings, try_only=bool(rng.random() < 0.3))

    def event(self):
        kind = self.rng.random()
        # most of the time it runs, as a robot does
        for share, make in (
            (0.25, lambda: FeedforwardTick(self.now)),
            (
                0.50,
                self.point
                if self.machine.state is FeedforwardState.STREAMING or self.rng.random() < 0.1
                else lambda: FeedforwardTick(self.now),
            ),
            (0.80, self.state),
            (0.85, self.trajectory),
            (0.88, lambda: Background(self.now)),
            (0.91, self.model),
            (0.935, self.payload),
            (0.95, self.options),
            (0.957, lambda: OutputChanged(self.now, bool(self.rng.random() < 0.7))),
            (
                0.96,
                lambda: NewDescription(
                    self.now, [ROBOT, SILENT, ROBOT, SILENT, BARE, OTHER, LONGER][self.rng.integers(7)]
                ),
            ),
            (0.965, lambda: DeactivateFeedforward(self.now)),
            (0.9654, lambda: HoldBack(self.now, STOP_SET)),
            (0.9674, lambda: HoldBack(self.now, None)),
            (0.975, lambda: AskFiller(self.now)),
            (0.98, self.temperature),
            (0.982, lambda: StopFeedforward(self.now)),
            (0.984, lambda: UnreadableReference(self.now, "it holds NaN; send numbers")),
        ):
            if kind < share:
                return make()
        return ActivateFeedforward(self.now)

    def step(self) -> None:
        """Fire an event after a random time, and check all that must hold."""
        machine, rng = self.machine, self.rng
        pause = float(rng.exponential(1e-3)) if rng.random() < 0.995 else float(rng.uniform(0.05, 1.0))
        self.now += min(pause, max(machine.due - self.now, 0.0)) if rng.random() < 0.8 else pause
        event, before = self.event(), machine.state
        self.seen.add((before, type(event)))
        sending = before in SENDING
        limits, dynamics = machine.limits, machine.law.model.dynamics
        outcome = machine.handle(event)
        self.steps += 1
        if isinstance(event, JointStateArrived) and not outcome.refused and np.isfinite(event.state.q).all():
            self.positions = [event.state.q, *self.positions[:1]]
        if isinstance(event, ActivateFeedforward) and not outcome.refused and before is FeedforwardState.STOPPED:
            self.last = None
        limits = machine.limits or limits  # a model of another robot goes with its last torque
        if isinstance(event, NewReference) and not outcome.refused:
            self.ways = [(event.points.ordered(NAMES), event.begin), *self.ways[:1]]
        if outcome.torque is not None:
            self._check_torque(outcome.torque, limits)
            if isinstance(event, StreamedPoint):
                self.places = [event.q]
            elif machine.state is FeedforwardState.FOLLOWING:
                self.places = [way.at(self.now - begin)[0] for way, begin in self.ways]
        if outcome.trajectory is not None:
            self._check_trajectory(event, outcome.trajectory, limits)
        self._check_halted(event, before, outcome)
        if isinstance(event, HoldBack):
            self.held_back = event.reason is not None
        assert sending or machine.state not in SENDING or not self.held_back, "nothing begins while the stop is set"
        if machine.state in SENDING:
            assert machine.limits is not None, "nothing is sent without limits"
            assert machine.law.declaration.command is not None, "nothing is sent while it is not declared"
        ended = sending and machine.state not in SENDING
        if ended:
            self._check_ending(event, limits, dynamics)
        if before in (
            FeedforwardState.STOPPED,
            FeedforwardState.NO_MODEL,
            FeedforwardState.NO_LIMITS,
            FeedforwardState.UNDECLARED,
        ) and not isinstance(event, ActivateFeedforward):
            assert outcome.torque is None
        machine.news()

    def _check_trajectory(self, event, made, limits) -> None:
        """Check that what is passed on has efforts within the limits, and keeps those of the robot's motion."""
        stop = isinstance(event, StopFeedforward)  # without efforts once nothing is declared any more
        assert (stop and made.tau is None) or np.all(np.abs(made.tau) <= limits.effort + 1e-9)
        assert made.joint_names == limits.joint_names and not made.dq[-1].any()
        if made.joint_names == NAMES and not isinstance(event, StopFeedforward) and self.described:
            q, dq, ddq = made.within(np.linspace(0.0, 1.0, 7))
            own = [joint.limits for joint in ROBOT.joints]
            assert np.all((q >= [x.lower - 1e-5 for x in own]) & (q <= [x.upper + 1e-5 for x in own]))
            assert np.all(np.abs(dq) <= [1.021 * x.velocity for x in own])
            assert np.all(np.abs(ddq) <= [1.03 * x.acceleration for x in own])

    def _check_halted(self, event, before, outcome) -> None:
        """Check that after a stop nothing is followed until the machine is activated again."""
        if isinstance(event, StopFeedforward):
            assert outcome.answer and not outcome.refused
            self.halted = before is not FeedforwardState.STOPPED
        elif isinstance(event, ActivateFeedforward) and before is FeedforwardState.STOPPED:
            self.halted = False
        if self.halted:
            assert self.machine.state not in (FeedforwardState.FOLLOWING, FeedforwardState.STREAMING)
            assert outcome.trajectory is None or isinstance(event, StopFeedforward)

    def _check_torque(self, torque, limits) -> None:
        self.torques += 1
        tau = torque.tau
        assert torque.joint_names == limits.joint_names and np.isfinite(tau).all() and len(tau) == len(limits.effort)
        assert np.all(np.abs(tau) <= limits.effort)
        places = [torque.joint_names.index(name) for name in torque.command_names]
        assert np.array_equal(torque.command, tau[places])
        if self.last is not None:
            step = limits.rate * min(self.now - self.last_time, LONGEST_STEP)
            shrunk = np.clip(self.last, -limits.effort, limits.effort)
            assert np.all(np.abs(tau - shrunk) <= step + 1e-9), (self.machine.state, tau - self.last, step)
        self.last, self.last_time = tau, self.now

    def _check_ending(self, event, limits, model) -> None:
        """Check that what is left behind is gravity, of the model and load in use, where the robot was last known.

        A robot that adds gravity itself is left with what the motors' limits take away from it, mostly nothing.
        """
        if isinstance(event, StreamedPoint | NewReference):  # its very first torque was not finite: nothing was sent
            return
        self.endings += 1
        places = [q for q in (*self.positions, *self.places) if len(q) == len(limits.effort)]
        found = [np.clip(model.gravity(q), -limits.effort, limits.effort) for q in places]
        if self.adds == ("gravity+friction:0.5",):
            found = [tau - model.gravity(q) for tau, q in zip(found, places, strict=True)]
        assert any(np.allclose(tau, self.last, atol=1e-6) for tau in found), (found, self.last, event)
        self.last = None


def begin(made: Fuzz) -> None:
    """Give the machine a model and activate it; of every fourth the limits are not known yet."""
    robot, model = (SILENT, SILENT) if made.seed % 4 == 2 else (ROBOT, BARE)
    described = (NewDescription(made.now, robot),) if made.described else ()
    for event in (*described, NewModel(made.now, model, CHI, "base_parameters"), ActivateFeedforward(made.now)):
        assert not made.machine.handle(event).refused


def fuzz(seed: int, steps: int) -> Fuzz:
    """Fire `steps` random events at a machine with a model, active."""
    made = Fuzz(seed)
    begin(made)
    for _ in range(steps):
        made.step()
    return made
