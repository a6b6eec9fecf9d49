# SPDX-License-Identifier: Apache-2.0

"""Efforts measured at rest against gravity: do they contradict what the robot is said to add to a command?

Motors that hold an arm give Q(q) and the offsets, but for what friction holds. An arm that rests with none of it in its
motors holds itself, or is held by brakes: to command gravity there would apply it twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.control.effort_command import EffortCommand
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.model.efforts import FIND_GAINS, IN_AMPERES, measures_gravity
from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class RestCheck:
    """Thresholds of the comparison.

    seconds, samples: of rest whose efforts are averaged, so that noise and the end of a motion are gone [s]; speed,
    distance: a joint that is faster or has gone further moves [rad/s or m/s, rad or m]; share: friction may hold
    this much of gravity, so joints where it could hold more do not count, nor do efforts between it and the rest;
    least: gravity counts above this share of the effort limit, where errors of the model and of the sensors are
    small against it; dry_speed: dry friction is that at this multiple of the speed over which it changes sign.
    """

    seconds: float = 0.1
    samples: int = 10
    speed: float = 0.02
    distance: float = 0.01
    share: float = 0.25
    least: float = 0.05
    dry_speed: float = 3.0


USUAL = RestCheck()


class RestEfforts:
    """Averages efforts while the robot rests."""

    def __init__(self, check: RestCheck = USUAL) -> None:
        """Begin without efforts."""
        self._check = check
        self._begin = 0.0
        self._count = 0
        self._place = self._sum = np.empty(0)

    def forget(self) -> None:
        """Forget what was measured."""
        self._count = 0

    def take(self, q: Array, dq: Array, tau: Array | None, now: float) -> None:
        """Take a joint state, shape (n,) each, at `now` [s]; one in motion or without efforts begins anew."""
        check = self._check
        if tau is None or not np.isfinite(tau).all() or not np.all(np.abs(dq) < check.speed):
            self._count = 0
            return
        if not self._count or len(q) != len(self._place) or np.abs(q - self._place).max() > check.distance:
            self._begin, self._place, self._sum, self._count = now, q, np.zeros(len(q)), 0
        self._sum = self._sum + tau
        self._count += 1

    @property
    def measured(self) -> tuple[Array, Array] | None:
        """Where the robot rests, and its mean efforts there, shape (n,) each; None in motion or if they are all 0.

        A driver that measures no effort may fill in zeros.
        """
        if not self._count or not self._sum.any():
            return None
        return self._place, self._sum / self._count

    def pending(self, now: float) -> bool:
        """Return whether efforts come that have not been averaged for long enough."""
        few = self._count < self._check.samples or now - self._begin < self._check.seconds
        return self.measured is not None and few


def judge_rest(
    model: FeedforwardModel,
    command: EffortCommand,
    smoothing: float,
    measured: tuple[Array, Array],
    check: RestCheck = USUAL,
) -> str:
    """Return what efforts measured at rest, (q, tau), say against what the robot is declared to add; "": nothing.

    Motors without gravity in them do not hold the arm. Efforts that hold gravity are measured by robots of either
    kind, so of one that adds gravity it must be declared that they do.
    """
    q, tau = measured
    Q = model.gravity(q)
    v = np.full(len(q), check.dry_speed * smoothing)
    dry = np.maximum(*(np.abs(model.friction(q, sign * v, smoothing, Q) - model.offset) for sign in (1.0, -1.0)))
    if not measures_gravity(model.robot):
        return _judge_without_gravity(model, tau, dry, command.effort, check)
    held = np.abs(Q + model.offset)
    telling = (held > dry / check.share) & (held > check.least * command.effort)
    empty, full = np.abs(tau) < check.share * held, tau * np.sign(Q + model.offset) > (1 - check.share) * held
    k = int(np.argmax(np.where(telling, held, -1.0)))
    seen = f"{model.robot.active_names[k]!r} rests with an effort of {tau[k]:.3g} where gravity is {Q[k]:.3g}"
    plain, lifted = telling & ~command.adds.gravity, telling & command.adds.gravity
    if plain.any() and empty[plain].all():
        return (
            f"{seen}: the robot seems to hold itself; set robot_adds to gravity, release its brakes, or set "
            "check_rest_efforts to false if its efforts are no torques"
        )
    if lifted.any() and full[lifted].all() and not command.measures_gravity:
        return (
            f"{seen}: if the robot does not add gravity itself, it would fall; set robot_adds to nothing, or declare "
            "that its efforts hold gravity although it adds it: robot_measures motor or link"
        )
    return ""


def _judge_without_gravity(model: FeedforwardModel, tau: Array, dry: Array, effort: Array, check: RestCheck) -> str:
    """Judge efforts that shall hold no gravity: at rest they are offsets, and what friction holds."""
    excess = np.abs(tau - model.offset)
    telling = (excess > dry / check.share) & (excess > check.least * effort)
    if not telling.any():
        return ""
    k = int(np.argmax(np.where(telling, excess, -1.0)))
    return (
        f"{model.robot.active_names[k]!r} rests with an effort of {tau[k]:.3g}, but efforts are declared to hold no "
        "gravity: correct robot_measures or drives: in the robot file, and identify again"
    )


class Declaration:
    """What the robot is declared to add to an effort (`command`, None: not declared), judged by efforts at rest."""

    def __init__(self) -> None:
        """Begin undeclared and without efforts."""
        self.command: EffortCommand | None = None
        self._finding = ""
        self._efforts = RestEfforts()
        self._judged = False

    @property
    def contradiction(self) -> str:
        """What speaks against it: efforts at rest, or a model that knows no gravity; "": nothing."""
        if self.command is not None and self.command.in_amperes:
            return f"the model commands no torque, since {IN_AMPERES}; {FIND_GAINS}"
        if self.command is not None and self.command.unheld:
            return (
                "the model was identified from efforts without gravity, and the robot is declared not to add it: it "
                "would fall; set robot_adds to gravity, or identify from efforts that hold gravity"
            )
        return self._finding

    @property
    def usable(self) -> bool:
        """Whether it is declared, and nothing speaks against it."""
        return self.command is not None and not self.contradiction

    def forget_efforts(self) -> None:
        """Judge anew, by efforts that come from now on."""
        self._efforts.forget()
        self.judge_again()

    def judge_again(self) -> None:
        """Judge anew, with another model."""
        self._judged, self._finding = False, ""

    def take(self, q: Array, dq: Array, tau: Array | None, now: float) -> bool:
        """Take a joint state, shape (n,) each, at `now` [s]; return whether there is enough to judge by."""
        if self._judged:
            return False
        self._efforts.take(q, dq, tau, now)
        return not self._efforts.pending(now)

    @property
    def pending(self) -> bool:
        """Whether efforts at rest come that have not been judged: nothing is sent before."""
        return not self._judged and self._efforts.measured is not None

    def judge(self, model: FeedforwardModel | None, smoothing: float) -> str:
        """Return what the efforts taken say against it, once; smoothing: speed over which friction changes sign."""
        measured, command = self._efforts.measured, self.command
        if self._judged or measured is None or model is None or command is None:
            return ""
        self._judged = True
        self._finding = judge_rest(model, command, smoothing, measured)
        return self._finding
