# SPDX-License-Identifier: Apache-2.0

"""The model that torques come from, with the load that the robot carries, and whose limits count.

A value: what cannot be true is refused and leaves the one before as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ros2_dynid.control.feedforward import FeedforwardModel, TorqueCoefficients
from ros2_dynid.control.held_load import Load, check_holdable, checked_load, load_parameters, reachable_poses
from ros2_dynid.control.motion_limits import MotionLimits, known_limits
from ros2_dynid.control.torque_limiter import known_efforts
from ros2_dynid.dynamics.friction_law import at_temperature
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import ErrorBars, effort_gains
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.model.same_robot import check_same_robot


@dataclass(frozen=True, eq=False)
class CarriedModel:
    """What the robot weighs now, load included: standard parameters chi, shape (n_standard,), and their error bars.

    Friction is that of the drives' temperatures; `cold`: the same object while nothing but these has changed.
    """

    robot: Robot
    chi: Array
    bars: ErrorBars | None
    cold: Array


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A robot as described, the robot of the model, and its dynamics with the load; None where not known.

    limited: the last robot known that gives effort limits; chi: standard parameters without the load, shape
    (n_standard,); motion: limits of the motion; retired: why the model only holds gravity, if it is one of another
    robot; coefficients: M, C and Q of this model, and when [s] they were found.
    """

    described: Robot | None = None
    limited: Robot | None = None
    robot: Robot | None = None
    chi: Array | None = None
    load: Load | None = None
    dynamics: FeedforwardModel | None = None
    carried: CarriedModel | None = None
    motion: MotionLimits | None = None
    retired: str = ""
    coefficients: tuple[float, TorqueCoefficients] | None = None

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of the model's robot, else of the one described; none while neither is known."""
        robot = self.robot or self.described
        return () if robot is None else robot.active_names

    @cached_property
    def effort_gains(self) -> tuple[float, ...]:
        """The torque in one unit of the joints' measured efforts, by the model's robot, else by the one described."""
        robot = self.robot or self.described
        return () if robot is None else tuple(effort_gains(robot).tolist())

    def limits_of(self, robot: Robot) -> Robot:
        """Return who gives the effort limits: base_parameters have none, a description or a model file may."""
        source = self.limited
        return source if source is not None and source.active_names == robot.active_names else robot

    def check_robot(self, robot: Robot, source: str, *, replaceable: bool) -> None:
        """Refuse the model of another robot than the one described, or than the model's unless that is replaceable."""
        if self.described is not None:
            check_same_robot(self.described, robot, source)
        elif self.robot is not None and not replaceable:
            check_same_robot(self.robot, robot, source)

    def with_model(
        self,
        robot: Robot,
        chi: Array,
        bars: ErrorBars | None,
        source: str,
        efforts: Sequence[float],
        q: Array | None,
    ) -> LoadedModel:
        """Return these standard parameters with the load there is, or refuse what the robot could not hold.

        efforts: limits as configured, 0 for the robot's own; q: where the robot is, shape (n,), if known.
        """
        if not np.isfinite(chi).all():
            raise InputError("the model holds a parameter that is not finite", "identify again", source)
        if self.robot is not None and self.robot.active_names != robot.active_names:
            return self.without_model().with_model(robot, chi, bars, source, efforts, q)
        gives = self.limits_of(robot) is robot and _gives_efforts(robot)  # no description has given any
        model = replace(self, limited=robot if gives else self.limited, robot=robot, chi=chi, retired="")
        load = None if self.retired else self.load
        model = model._carrying(load, bars, efforts, q, "the model", "load this robot's model", source)
        return replace(model, motion=model._known_motion(robot))

    def with_load(self, load: Load, efforts: Sequence[float], q: Array | None) -> LoadedModel:
        """Return the model with this load, mass 0: without any; refuse one that cannot be, or cannot be held."""
        assert self.robot is not None and self.carried is not None
        load = checked_load(load)
        if not 1 <= load.joint <= self.robot.n:
            raise InputError(f"there is no joint {load.joint}", "give the load at a link of the robot", self.robot.name)
        hint = "give its true mass [kg] and centre [m]"
        return self._carrying(load if load.mass else None, self.carried.bars, efforts, q, "the payload", hint)

    def with_description(self, robot: Robot) -> LoadedModel:
        """Return the same model of a robot that is described so; refuse a description of another robot."""
        if self.robot is not None:
            check_same_robot(robot, self.robot, "robot_description")
        model = replace(self, described=robot, limited=robot if _gives_efforts(robot) else self.limited, retired="")
        return replace(model, motion=model._known_motion(self.robot or robot))

    def with_other_robot(self, robot: Robot, retired: str) -> LoadedModel:
        """Return a description of another robot; the model is kept to hold gravity if `retired` says why, or not."""
        model = replace(self, described=robot, limited=robot if _gives_efforts(robot) else self.limited)
        return replace(model, retired=retired) if retired else model.without_model()

    def without_model(self) -> LoadedModel:
        """Return what is left without the model and its load: who is described, and whose limits are known."""
        described = self.described
        return LoadedModel(described, self.limited, motion=None if described is None else known_limits(described))

    def at_temperature(self, temperature: Array) -> LoadedModel:
        """Return the model with the friction of drives at these temperatures, shape (n,) [deg C]; NaN: at T0."""
        dynamics, carried = self.dynamics, self.carried
        assert self.robot is not None and dynamics is not None and carried is not None
        warm = CarriedModel(*at_temperature(self.robot, carried.cold, temperature), carried.bars, carried.cold)
        return replace(self, dynamics=dynamics.at_temperature(temperature), carried=warm)

    def with_coefficients(self, coefficients: TorqueCoefficients, now: float) -> LoadedModel:
        """Return the model with M, C and Q that were found with it at `now` [s]."""
        return replace(self, coefficients=(now, coefficients))

    def check_holdable(self, efforts: Sequence[float], q: Array | None) -> None:
        """Refuse the model there is, by limits that have become known."""
        assert self.carried is not None
        self._carrying(self.load, self.carried.bars, efforts, q, "the model", "load this robot's model")

    def _known_motion(self, robot: Robot) -> MotionLimits:
        """Return the limits of the motion: of the description, of the model, or of who gives the effort limits."""
        return known_limits(self.described or robot, robot, self.limits_of(robot))

    def _carrying(
        self,
        load: Load | None,
        bars: ErrorBars | None,
        efforts: Sequence[float],
        q: Array | None,
        what: str,
        hint: str,
        source: str = "",
    ) -> LoadedModel:
        """Return the robot and parameters there are with the load, or refuse `what` the robot could not hold."""
        robot, chi = self.robot, self.chi
        assert robot is not None and chi is not None
        bare = FeedforwardModel(robot, chi)
        loaded = chi if load is None else chi + load_parameters(robot, load, len(chi))
        dynamics = bare if load is None else FeedforwardModel(robot, loaded, bare)
        names = robot.active_names
        own, given = known_efforts(names, (0.0,), self.limits_of(robot)), known_efforts(names, efforts, None)
        effort = np.where(np.isfinite(own) & np.isfinite(given), np.maximum(own, given), np.minimum(own, given))
        poses = reachable_poses(self.described or robot)
        try:
            check_holdable(dynamics, None if load is None else bare, effort, q, poses, what, hint)
        except InputError as error:
            raise InputError(error.what, error.hint, source or None) from None
        carried = CarriedModel(robot, loaded, bars, loaded)
        return replace(self, load=load, dynamics=dynamics, carried=carried, coefficients=None)


def _gives_efforts(robot: Robot) -> bool:
    return bool(np.isfinite(known_efforts(robot.active_names, (0.0,), robot)).all())
