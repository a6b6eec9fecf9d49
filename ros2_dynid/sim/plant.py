# SPDX-License-Identifier: Apache-2.0

"""The simulated robot with its controllers, as a client of real hardware meets it: trajectories or torques in."""

from __future__ import annotations

import numpy as np

from ros2_dynid.control.reference import Reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import AddedByJoint
from ros2_dynid.model.parameters import IA, JOINT, standard_vector
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.sim.controller import TrajectoryController, pd_gains
from ros2_dynid.sim.simulated_robot import Imperfections, Measurement, SimulatedRobot
from ros2_dynid.sim.truth import true_parameters


class Plant:
    """One robot under control: a trajectory, a torque command or standstill."""

    def __init__(
        self,
        robot: Robot,
        *,
        seed: int,
        spread: float,
        period: float,
        imperfections: Imperfections,
        start: Array,
        stiffness: float,
        adds: AddedByJoint | None = None,
    ) -> None:
        """Build the robot of true_parameters(robot, seed, spread) at `start`, shape (n,), held by PD control.

        The gains, for `stiffness` [Hz], come from the a priori parameters, as an engineer would choose them. adds: what
        the robot adds to every torque that is asked for, its controller's included.
        """
        chi = true_parameters(robot, seed, spread)
        self.robot, self.period = robot, period
        self.sim = SimulatedRobot(
            robot, chi, period=period, imperfections=imperfections, start=start, seed=seed, adds=adds
        )
        self.measured = self.sim.measure()
        prior = standard_vector(robot) if robot.parameters else chi
        rotors = np.zeros(len(chi), dtype=bool)
        rotors[IA : JOINT * robot.n : JOINT] = True
        prior = np.where(rotors & (prior == 0.0), chi, prior)  # a drive is tuned with its own rotor
        self.controller = TrajectoryController(*pd_gains(robot, prior, stiffness), self.measured.q)
        self.efforts: Array | None = None

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self.sim.steps * self.period

    def step(self) -> Measurement:
        """Advance by one control period and return what the sensors say."""
        torque = self.efforts
        if torque is None:
            torque = self.controller.torque(self.measured, self.time)
        self.measured = self.sim.step(torque)
        return self.measured

    def follow(self, points: Reference, delay: float = 0.0) -> None:
        """Follow a trajectory whose time 0 is `delay` [s] from now; its part in the past is skipped."""
        if delay:
            points = points.shifted(delay)
        if self.efforts is not None:  # back from torques: start where the robot is
            self.controller.hold(self.measured.q)
        self.controller.follow(points, self.time)
        self.efforts = None

    def push(self, torque: Array) -> None:
        """Apply torques, shape (n,), until something else is asked for: there is no timeout, as with real hardware."""
        n = len(self.robot.active)
        if torque.shape != (n,) or not np.all(np.isfinite(torque)):
            raise InputError(f"torques of shape {torque.shape}", f"give {n} finite ones", self.robot.name)
        self.efforts = torque

    def brake(self, on: bool) -> None:
        """Put the brakes on and drop what was asked for, or take them off and hold the position."""
        self.sim.stopped = on
        self.efforts = None
        self.controller.hold(self.measured.q)
