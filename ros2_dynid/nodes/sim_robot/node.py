# SPDX-License-Identifier: Apache-2.0

"""Node sim_robot: a robot on MuJoCo behind the topics of real hardware, with parameters that nobody else knows.

Subscribes to robot_description unless the parameter robot names it, and follows joint_trajectory (PD and the points'
effort, as a joint trajectory controller) or effort_commands (torques straight through, as a forward command
controller). Publishes joint_states, joint_temperatures, robot_description and, if asked, /clock. Services:
~/set_payload and ~/emergency_stop, which puts the brakes on.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable

import numpy as np
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState, Temperature
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.pace import Pace
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.efforts import added_by_joint, declare_added_effort
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.nodes.common.answers import Reply, answering
from ros2_dynid.nodes.common.fast import Ticker
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN, ManagedNode, NodeStatus
from ros2_dynid.nodes.common.messages import ahead, inertia_of, reference_of
from ros2_dynid.nodes.common.qos import COMMANDS, LATCHED
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.sim_robot.parameters import PARAMETERS
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import Imperfections
from ros2_dynid.srv import SetPayload

TEMPERATURES_SECONDS = 1.0
"""Temperatures of the drives are published this often [s]."""


class Inbox:
    """What one thread asks another to do between its steps: no lock, so that a busy thread cannot starve the other."""

    def __init__(self) -> None:
        """Nothing asked yet."""
        self._waiting: deque[tuple[Callable[[], None], Reply[None]]] = deque()

    def do(self, act: Callable[[], None], timeout: float = 5.0) -> None:
        """Wait until the other thread has done `act`, and raise what that raises."""
        reply: Reply[None] = Reply()
        self._waiting.append((act, reply))
        reply.wait(timeout)

    def empty(self) -> None:
        """Do what was asked for; called by the thread that is asked."""
        while self._waiting:
            act, reply = self._waiting.popleft()
            if not reply.begin():
                continue
            try:
                act()
            except Exception as error:
                reply.fail(error)
            else:
                reply.give(None)


class SimRobot(ManagedNode):
    """The simulated robot, its controllers and its sensors."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("sim_robot", PARAMETERS)
        self._plant: Plant | None = None
        self._pace: Pace | None = None
        self._inbox = Inbox()
        self.autostart()

    def configure(self) -> None:
        """Make topics and services."""
        self._states = self.create_publisher(JointState, "joint_states", 100)
        self._temperatures = self.create_publisher(Temperature, "joint_temperatures", 100)
        self._clock_out = self.create_publisher(Clock, "/clock", 10) if self.value("publish_clock") else None
        self._description_out = self.create_publisher(String, "robot_description", LATCHED)
        self.create_subscription(JointTrajectory, "joint_trajectory", self._on_trajectory, COMMANDS)
        self.create_subscription(Float64MultiArray, "effort_commands", self._on_efforts, COMMANDS)
        self.create_timer(TEMPERATURES_SECONDS, self._tell_temperatures)
        self.create_service(SetPayload, "~/set_payload", self._on_payload)
        self.create_service(SetBool, "~/emergency_stop", self._on_emergency_stop)

    def on_robot(self, robot: Robot) -> None:
        """Build the simulation; the description goes to everybody else."""
        self._plant = Plant(
            robot,
            seed=self.value("seed"),
            spread=self.value("spread"),
            period=1 / self.value("rate"),
            imperfections=Imperfections(
                self.value("resolution"),
                self.value("torque_noise"),
                self.value("latency"),
                cold=self.value("cold"),
                warm=self.value("warm"),
                warming_time=self.value("warming_seconds"),
            ),
            start=self._start_of(robot),
            stiffness=self.value("stiffness"),
            adds=added_by_joint(declare_added_effort(robot, self.value("robot_adds"))),
        )
        self._message = JointState(name=list(robot.active_names))
        if self.description_text:
            self._description_out.publish(String(data=self.description_text))

    def _start_of(self, robot: Robot) -> Array:
        start, n = np.array(self.value("start"), dtype=float), len(robot.active)
        if len(start) not in (1, n):
            raise InputError(f"start has {len(start)} positions", f"give one, or {n}", robot.name)
        if robot.loops is not None and not start.any():
            return np.array([robot.loops.assembly.get(j, 0.0) for j in robot.active])
        return np.broadcast_to(start, n)

    def activate(self) -> None:
        """Let time run."""
        period = 1 / self.value("rate")
        self._pace = Pace(round(period * 1e9), time.monotonic_ns(), time.time_ns(), most=100)
        self._ticker = Ticker(period, self._tick)

    def deactivate(self) -> None:
        """Stop time."""
        self._ticker.close()

    def status(self) -> NodeStatus:
        """Tell whether the simulation keeps up."""
        if self._plant is None or self._pace is None:
            return WARN, "no robot yet", {}
        stopped, dropped = self._plant.sim.stopped, self._pace.dropped
        message = "emergency stop" if stopped else "behind real time" if dropped else "running"
        return WARN if stopped or dropped else OK, message, {"steps": self._pace.steps, "dropped": dropped}

    def _tick(self) -> None:
        plant, pace = self._plant, self._pace
        if plant is None or pace is None:  # its description has not come yet
            return
        for _ in range(pace.due(time.monotonic_ns())):
            self._inbox.empty()
            measured, message = plant.step(), self._message
            stamp = message.header.stamp
            stamp.sec, stamp.nanosec = divmod(pace.count(), 1_000_000_000)
            message.position = array("d", measured.q)
            message.velocity = array("d", measured.dq)
            message.effort = array("d", measured.tau)
            self._states.publish(message)
            if self._clock_out is not None:
                self._clock_out.publish(Clock(clock=stamp))

    def _tell_temperatures(self) -> None:
        """Tell how warm the drives are, one message for each."""
        plant, pace = self._plant, self._pace
        if not self.active or plant is None or pace is None:
            return
        message = Temperature()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(pace.stamp, 1_000_000_000)
        for name, value in zip(plant.robot.active_names, plant.measured.temperature.tolist(), strict=True):
            message.header.frame_id, message.temperature = name, value
            self._temperatures.publish(message)

    def _on_trajectory(self, message: JointTrajectory) -> None:
        try:
            points = reference_of(message, self.known_robot())
            if self._pace is not None:
                self._pace.most = 10_000  # from now on a pause is made up for: time must not be lost on the way
            self._ask(lambda plant, pace: plant.follow(points, ahead(message.header.stamp, pace.stamp)))
        except DynidError as error:
            self.get_logger().error(f"joint_trajectory refused: {error}")

    def _on_efforts(self, message: Float64MultiArray) -> None:
        try:
            self._ask(lambda plant, _: plant.push(np.array(message.data)))
        except DynidError as error:
            self.get_logger().error(f"effort_commands refused: {error}")

    def _on_payload(self, request: SetPayload.Request, response: SetPayload.Response) -> SetPayload.Response:
        with answering(response, self.get_logger()):
            load = inertia_of(request.payload, self.known_robot(), request.link)
            self._ask(lambda plant, _: plant.sim.attach(*load))
        return response

    def _on_emergency_stop(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        with answering(response, self.get_logger()):
            self._ask(lambda plant, _: plant.brake(request.data))
            response.message = "brakes on" if request.data else "brakes off, holding"
        return response

    def _ask(self, act: Callable[[Plant, Pace], None]) -> None:
        """Let the thread that steps do it between two steps, or refuse what comes while there is none."""
        self.known_robot()
        plant, pace = self._plant, self._pace
        if not self.active or plant is None or pace is None:
            raise InputError("the robot is not active", "activate sim_robot")
        self._inbox.do(lambda: act(plant, pace))


def main() -> int:
    """Run the node."""
    return run(SimRobot)
