# SPDX-License-Identifier: Apache-2.0

"""The torque that is commanded: of the model with its load, at the drives' temperatures, minus what the robot adds.

tau = target + (1 - s) (last - target then), s rising from 0 to 1 over a ramp: whatever changes, a model, a load, an
option, the torque goes over from what was sent last, within the effort limits and their rates.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.control.drive_temperatures import FrictionTemperatures
from ros2_dynid.control.effort_command import EffortCommand, declared_command
from ros2_dynid.control.feedforward import Filler, TorqueCoefficients, complete_torque, split_torque
from ros2_dynid.control.feedforward_events import (
    REFUSALS,
    FeedforwardSettings,
    FeedforwardState,
    MeasuredTemperature,
    NewModel,
    NewPayload,
    NewsLog,
)
from ros2_dynid.control.loaded_model import LoadedModel
from ros2_dynid.control.rest_efforts import Declaration
from ros2_dynid.control.torque_limiter import LimitedTorque, TorqueLimiter, known_limiter
from ros2_dynid.control.torque_ramp import ENDING_RAMP, TorqueRamp
from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.robot import Array, Robot


class FeedforwardLaw:
    """Settings, the model and its load, temperatures, what the robot is declared to add, and the output of torques.

    `sending`, in what follows, says that torques are being sent: what would make them jump, or stop, is refused then.
    """

    def __init__(self, settings: FeedforwardSettings, news: NewsLog) -> None:
        """Know no model; tell `news` what changes."""
        self.settings = settings
        self.model = LoadedModel()
        self.temperatures = FrictionTemperatures()
        self.declaration = Declaration()
        self.output = TorqueRamp()
        self._news = news

    # --- what is there

    def readiness(self) -> FeedforwardState:
        """Return the first that is missing before torques can be sent, or WAITING: for a reference."""
        if self.model.dynamics is None:
            return FeedforwardState.NO_MODEL
        if self.output.limiter is None:
            return FeedforwardState.NO_LIMITS
        return FeedforwardState.WAITING if self.declaration.usable else FeedforwardState.UNDECLARED

    def refusal(self, state: FeedforwardState) -> str:
        """Return why nothing is sent in this state, in one line."""
        missing = self.readiness()
        if missing is FeedforwardState.UNDECLARED and self.declaration.contradiction:
            return self.declaration.contradiction
        stopped = state is FeedforwardState.STOPPED and missing is not FeedforwardState.WAITING
        return "; ".join(REFUSALS[missing if stopped else state])

    def filler(self) -> Filler:
        """Return what fills efforts into trajectories as things are."""
        model, command, limits = self.model, self.declaration.command, self.output.limits
        assert model.dynamics is not None and model.motion is not None and limits is not None and command is not None
        return Filler(model.dynamics, self.settings.options, limits, model.motion, command)

    def predicted(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the torque, shape (n,), that the model and the load expect of a motion, whatever the options."""
        model = self.model.dynamics
        if model is None:
            raise InputError(*REFUSALS[FeedforwardState.NO_MODEL])
        rigid = model.rigid(q, dq, ddq)
        return rigid + model.friction(q, dq, self.settings.options.smoothing, rigid)

    # --- what changes

    def take_model(self, event: NewModel, seen: State | None, *, sending: bool, replaceable: bool) -> None:
        """Use another model, or refuse it; seen: the robot's joint state, if known.

        replaceable: it may be of another robot than the model before, if no robot is described.
        """
        robot, before = event.robot, self.model.robot
        self.model.check_robot(robot, event.source, replaceable=replaceable)
        if sending and before is not None and before.active_names != robot.active_names:
            raise InputError("torques of a robot with other joints are being sent", "deactivate first")
        model = self.model.with_model(
            robot, event.chi, event.bars, event.source, self.settings.efforts, _place_of(robot, seen)
        )
        limiter = self._new_limiter(model, self.settings)
        if sending and limiter is not None:
            self._check_declaration(model, limiter)
        if before is not None and before.active_names != robot.active_names:
            self.temperatures.drop()
        self.model = model
        self.declaration.judge_again()
        self._take_limiter(limiter, sending)
        self._carry(event.now, f"model of {robot.name} from {event.source}")

    def take_load(self, event: NewPayload, seen: State | None) -> None:
        """Carry another load, or refuse it; seen: the robot's joint state, if known."""
        assert self.model.robot is not None
        self.model = self.model.with_load(event.load, self.settings.efforts, _place_of(self.model.robot, seen))
        mass = event.load.mass
        self._carry(event.now, f"payload of {mass:g} kg" if mass else "payload taken off")

    def describe(self, robot: Robot, seen: State | None, *, sending: bool, stopped: bool) -> None:
        """Take a description; one of another robot is refused while stopped, else the model only holds gravity.

        A model that the limits of the description show to be impossible is dropped, and the refusal says why.
        """
        try:
            self.model = self.model.with_description(robot)
        except InputError as error:
            if stopped:
                raise
            self._news.add_once(str(error), warning=True)
            if not sending:
                self.drop_model()
            self.model = self.model.with_other_robot(robot, retired=str(error) if sending else "")
            return
        if self.model.robot is None:
            return
        limiter = self._new_limiter(self.model, self.settings)
        if limiter is not None and self.output.limiter is None:  # the limits come after the model: can it be true?
            try:
                self.model.check_holdable(self.settings.efforts, _place_of(self.model.robot, seen))
            except InputError:
                self.drop_model()
                raise
        self._take_limiter(limiter, sending)

    def drop_model(self) -> None:
        """Use no model any more."""
        self.model = self.model.without_model()
        self.declaration.command = None
        self.declaration.judge_again()
        self.output.use(None)
        self.temperatures.drop()

    def take_settings(self, settings: FeedforwardSettings, *, sending: bool, stopped: bool, try_only: bool) -> None:
        """Use other settings, or refuse them; with `try_only` only say whether they would do."""
        limiter = None if self.model.robot is None else self._new_limiter(self.model, settings)
        if limiter is None and self.output.limiter is not None and not stopped:
            raise InputError("without effort limits nothing can be sent", "give effort_limits above 0")
        if try_only:
            return
        if settings.options != self.settings.options:
            self.output.change_over()
        self.settings = settings
        self._take_limiter(limiter, sending)

    def _carry(self, now: float, text: str) -> None:
        """Go over to the model and load that there are now."""
        assert self.model.robot is not None
        self.temperatures.use(self.model.robot)
        self.warm_up(now)
        self.output.change_over()
        self._news.add(text)

    def _new_limiter(self, model: LoadedModel, settings: FeedforwardSettings) -> TorqueLimiter | None:
        """Return the limiter for torques of a model, or None while effort limits are not known."""
        assert model.robot is not None
        given, names = (settings.efforts, settings.rates, settings.options.ramp), settings.command_names
        return known_limiter(model.joint_names, model.limits_of(model.robot), *given, names)

    def _take_limiter(self, limiter: TorqueLimiter | None, sending: bool) -> None:
        """Use another limiter; while torques are sent the one there is stays, if the new limits are not known.

        What the robot is declared to add stays as well while torques are sent; `declare` takes another at their end.
        """
        if limiter is None and sending:
            return
        self.output.use(limiter)
        command = self.declaration.command
        if sending and limiter is not None and command is not None:
            self.declaration.command = replace(command, effort=limiter.limits.effort)
        else:
            self.declare()

    def declare(self) -> None:
        """Take what the robot is declared to add from the settings, the model and the description that there are."""
        limiter = self.output.limiter
        self.declaration.command = None if limiter is None else self._new_command(self.model, limiter)

    def _new_command(self, model: LoadedModel, limiter: TorqueLimiter) -> EffortCommand | None:
        assert model.robot is not None
        return declared_command(model.robot, model.described, self.settings, limiter.limits)

    def _check_declaration(self, model: LoadedModel, limiter: TorqueLimiter) -> None:
        """Refuse a model that declares something else than the commands that are being sent hold."""
        new, command = self._new_command(model, limiter), self.declaration.command
        if new is None:
            raise InputError(*REFUSALS[FeedforwardState.UNDECLARED])
        if command is not None and not new.adds.same_as(command.adds):
            raise InputError("the model declares that the robot adds something else to an effort", "deactivate first")

    def judge_rest(self) -> None:
        """Compare what is declared with efforts measured at rest, once, before the first torque."""
        if self.settings.check_rest:
            finding = self.declaration.judge(self.model.dynamics, self.settings.options.smoothing)
            if finding:
                self._news.add(finding, warning=True)

    # --- temperatures

    def take_temperatures(self, event: MeasuredTemperature) -> None:
        """Take temperatures of drives."""
        if event.temperature.shape != (len(event.joint_names),):
            what = f"{event.temperature.size} temperatures for {len(event.joint_names)} joints"
            raise InputError(what, "give one for each joint")
        for wrong in self.temperatures.take(event.joint_names, event.temperature, event.now):
            self._news.add_once(wrong, warning=True)
        self.warm_up(event.now)

    def warm_up(self, now: float) -> None:
        """Bring friction to the temperatures of the drives, if it depends on them and they have changed."""
        if self.model.robot is None or not self.temperatures.matter:
            return
        changed = self.temperatures.changed(self.model.robot, now, self.settings.temperature_stale)
        if changed is not None:
            T, much = changed
            self.model = self.model.at_temperature(T)
            if much:
                self.output.change_over()

    def tell_missing(self) -> None:
        """Say which temperatures are missing, once, now that torques need them."""
        for text in self.temperatures.untold(self.model.joint_names):
            self._news.add(text, warning=True)

    # --- torques

    def find_coefficients(self, q: Array, dq: Array, now: float) -> TorqueCoefficients | None:
        """Return M, C and Q at q, dq, shape (n,), and use them for a while; a velocity that is NaN is 0."""
        if self.model.dynamics is None:
            return None
        coefficients = self.model.dynamics.coefficients(q, np.where(np.isfinite(dq), dq, 0.0))
        self.model = self.model.with_coefficients(coefficients, now)
        return coefficients

    def send_torque(self, q: Array, dq: Array, ddq: Array, measured: Array | None, now: float) -> LimitedTorque:
        """Return what leaves at `now` [s] for a point of the reference, shape (n,) each; measured: where the robot is.

        A torque that is not finite is refused.
        """
        settings, model, command = self.settings, self.model.dynamics, self.declaration.command
        options, recent = settings.options, self.model.coefficients
        assert model is not None
        if self.temperatures.matter:
            self.tell_missing()
        if options.split and not options.gravity_only and recent is not None and now - recent[0] <= settings.stale:
            tau = split_torque(model, options, recent[1], dq, ddq, measured, command)
        else:
            tau = complete_torque(model, options, q, dq, ddq, measured, command)
        return self.output.send(tau, now, options.ramp)

    def sent_and_holding(self, place: Array | None) -> tuple[Array, Array] | None:
        """Return the torques sent last and those against gravity at a place, shape (n,), as effort_commands have them.

        None while no torque has left, or gravity there is not known.
        """
        model, command, limiter = self.model.dynamics, self.declaration.command, self.output.limiter
        if place is None or model is None or command is None or limiter is None or limiter.last is None:
            return None
        bound = limiter.limits.effort
        holding = np.clip(command.of(model, model.gravity(place), place), -bound, bound)
        return limiter.last.command, limiter.command_of(holding)

    def send_gravity(self, place: Array | None, now: float, *, ending: bool) -> LimitedTorque | None:
        """Return what leaves at `now` [s] against gravity at a place, shape (n,), None if that was never known."""
        model, command, ramp = self.model.dynamics, self.declaration.command, self.settings.options.ramp
        if place is None or model is None or command is None:
            return None
        tau = command.of(model, model.gravity(place), place)
        return self.output.send(tau, now, min(ramp, ENDING_RAMP) if ending else ramp)


def _place_of(robot: Robot, seen: State | None) -> Array | None:
    """Return where this robot is seen, shape (n,), if it is."""
    return seen.q if seen is not None and seen.joint_names == robot.active_names else None
