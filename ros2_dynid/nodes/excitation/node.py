# SPDX-License-Identifier: Apache-2.0

"""Node excitation: plans an exciting trajectory, moves to its start, runs it, stops the robot if anything goes wrong.

Services: ~/plan, ~/set_obstacles, ~/rehearse, ~/start, ~/pause, ~/resume, ~/jog and ~/stop. Subscribes to
robot_description, joint_states, stop, commander, and to MoveIt's planning scene where moveit_msgs is installed.
Publishes joint_trajectory (or sends it to an action), excitation_state, commander, ~/planned and ~/obstacles.

What moves is control.excitation_machine, owned by one thread (owner.py). Services, parameters, descriptions and joint
states send it events; what it sends to the controller has passed the gate and the controller's own checks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from ros2_dynid.control.along_path import resumed_motion
from ros2_dynid.control.checked_motion import checked_motion, jog_motion
from ros2_dynid.control.excitation_events import (
    ActivateExcitation,
    Announce,
    DeactivateExcitation,
    GoalRefused,
    Jog,
    JogHeld,
    JogReleased,
    ParametersChanged,
    Pause,
    Phase,
    Resume,
    RobotChanged,
    Start,
    Stop,
)
from ros2_dynid.control.excitation_machine import ExcitationMachine
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.motion_gate import MotionGate
from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.control.reference import Reference
from ros2_dynid.control.steady_time import SteadyTime
from ros2_dynid.control.stop_switch import HoldBack, Reason
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.excitation.trajectory import Trajectory, rehearsal
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.background import THREADS
from ros2_dynid.nodes.common.commander_topic import CommanderTopic
from ros2_dynid.nodes.common.fast import Stream
from ros2_dynid.nodes.common.lifecycle_node import ERROR, OK, WARN, ManagedNode, NodeStatus
from ros2_dynid.nodes.common.parameters import Value
from ros2_dynid.nodes.common.qos import JOINT_STATES
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.common.stop_topic import StopListener
from ros2_dynid.nodes.excitation.controllers import Controllers
from ros2_dynid.nodes.excitation.owner import ExcitationOwner, MakeEvent, OwnerContext
from ros2_dynid.nodes.excitation.parameters import PARAMETERS, SETTINGS, motion_settings
from ros2_dynid.nodes.excitation.planning import Planner, SafePlan
from ros2_dynid.nodes.excitation.publishers import StatePublisher
from ros2_dynid.nodes.excitation.rehearsal import NAME as REHEARSING
from ros2_dynid.nodes.excitation.rehearsal import Rehearsals
from ros2_dynid.nodes.excitation.sender import ActionSender, Sender, TopicSender
from ros2_dynid.recording.live import LiveStates, StampClock
from ros2_dynid.srv import Jog as JogService

REST_SECONDS = 15.0
"""Time [s] that a deactivation waits for the robot to be at rest."""
FRESH_SECONDS = 3.0
"""Time [s] after an activation in which a start waits until the robot is seen at rest and its controller is found: who
starts at once after activating is not to be refused for what is about to come."""
END_SECONDS = 0.6
"""The same at the end of the process: who ends it waits about a second. The stop itself is with the controller."""


class Excitation(ManagedNode):
    """Services plan, rehearse, start, pause, resume, jog and stop."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("excitation", PARAMETERS)
        self._one_jog = threading.Lock()
        self._sender: Sender | None = None
        self._stream: Stream | None = None
        self._activated_at = 0.0
        self._states, self._stamps = LiveStates(()), StampClock()
        self._simulated, self._steady = bool(self.value("use_sim_time")), SteadyTime()
        self._machine = ExcitationMachine(self._settings(), MotionGate(self._send))
        self._commander = CommanderTopic(self)
        around = OwnerContext(
            self._now,
            self._connection,
            self._announce,
            self._keep_command,
            self._commander.release,
            lambda: bool(self._commander.holders()),
        )
        self._owner = ExcitationOwner(self._machine, around)
        self._stop_switch = StopListener(
            self, self._on_stop_switch, self.value("enabling_topic"), self.value("enabling_timeout")
        )
        self.autostart()

    # --- lifecycle

    def configure(self) -> None:
        """Make topics and services."""
        self._state_out = StatePublisher(self)
        self._rehearsals = Rehearsals(self._state_out.rehearsed)
        self._planner = Planner(
            self,
            self.value,
            self._robot,
            self.robot_source,
            self._rehearsals.plan_changed,
            self._check_still,
            lambda: self.base_link,
        )
        action = self.value("action")
        self._controllers = Controllers(self, self.value("controller_manager"))
        self._sender = ActionSender(self, action, self._refused) if action else TopicSender(self, "joint_trajectory")
        starting, pausing, stopping = (MutuallyExclusiveCallbackGroup() for _ in range(3))
        for name, act, group in (
            ("start", self._start, starting),
            ("rehearse", self._rehearse, starting),
            ("resume", self._resume, starting),
            ("pause", lambda: self._send_event(Pause), pausing),
            ("stop", lambda: self._send_event(Stop), stopping),  # waits for nobody
        ):
            self.create_service(Trigger, f"~/{name}", self._service(act), callback_group=group)
        self.create_service(JogService, "~/jog", self._on_jog, callback_group=ReentrantCallbackGroup())

    def on_robot(self, robot: Robot) -> None:
        """Move this robot from now on, or once the one that moves has stopped."""
        self._planner.plan = None
        self._rehearsals.plan_changed()
        self._send_event(lambda now: RobotChanged(now, robot))

    def activate(self) -> None:
        """Listen to joint states and watch."""
        self._simulated = bool(self.value("use_sim_time"))
        self._stamps = StampClock(same=self._simulated)
        period = self._owner.period = self.value("control_period")
        self._stream = Stream(self, JointState, "joint_states", self._on_state, JOINT_STATES, rest=period)
        self._send_event(ActivateExcitation)
        self._activated_at = time.monotonic()

    def deactivate(self) -> None:
        """Stop the robot, wait until it is at rest, and listen no more."""
        self._end(REST_SECONDS)

    def close(self) -> None:
        """Stop the robot; the process ends."""
        if self.active:
            self._end(END_SECONDS)

    def _end(self, patience: float) -> None:
        self._owner.post(DeactivateExcitation)
        self._planner.close()
        if not self._owner.wait_inactive(patience):
            self.get_logger().error("the robot has not been seen at rest")
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def status(self) -> NodeStatus:
        """Tell the phase, and what a start needs: a known position, rest, a controller."""
        phase = self._machine.phase
        level = ERROR if phase is Phase.ABORTED else WARN if phase is Phase.NO_ROBOT else OK
        planned = self._planner.plan is not None if hasattr(self, "_planner") else False
        values = {
            "planned": planned,
            "commands": self._machine.commands,
            "position": self._machine.unknown(self._now()) or "known",
            "at_rest": self._machine.at_rest,
            "controller": self._connection() or "connected",
            "stop": (self._stop_switch.reason or ("released",))[0],
        }
        return level, phase.value, values

    # --- parameters

    def check_parameters(self, changes: Mapping[str, Value]) -> None:
        """Let new settings take effect, or refuse them: before they are set."""
        if SETTINGS.keys() & changes.keys():
            settings = self._settings(changes)
            self._send_event(lambda now: ParametersChanged(now, settings))

    def _settings(self, changes: Mapping[str, Value] | None = None) -> MotionSettings:
        new = changes or {}
        return motion_settings(lambda name: new.get(name, self.value(name)))

    def parameters_changed(self, changes: Mapping[str, Value]) -> None:
        """Use another file of obstacles in place of those that were set."""
        if "obstacles" in changes and hasattr(self, "_planner"):
            self._planner.obstacles.use_file()

    # --- services

    def _check_still(self) -> None:
        """Refuse other surroundings while a motion is under way; one that is being prepared for these is void."""
        if self._machine.moving:
            raise InputError(f"a motion is under way ({self._machine.phase.value})", "wait for its end or stop it")
        self._send_event(JogReleased)

    def _service(self, act: Callable[[], str]) -> Callable[[Trigger.Request, Trigger.Response], Trigger.Response]:
        def answer(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            with answering(response, self.get_logger()):
                response.message = act()
            return response

        return answer

    def _start(self) -> str:
        plan = self._plan_of_now()
        if plan is not None and self.value("require_rehearsal"):
            self._rehearsals.check(plan)
        return self._run(plan, "exciting", lambda trajectory: trajectory)

    def _rehearse(self) -> str:
        plan, speed = self._plan_of_now(), self.value("rehearsal_speed")
        if plan is not None:
            self._rehearsals.expect(plan, speed, self._machine.settings.tracking)
        try:
            return self._run(plan, REHEARSING, lambda trajectory: rehearsal(trajectory, speed))
        except DynidError:
            self._rehearsals.cancel()
            raise

    def _on_stop_switch(self, reason: Reason | None) -> None:
        """Brake, and start nothing while the stop of the suite is set."""
        self._owner.post(lambda now: HoldBack(now, reason))
        if reason is not None:
            self._owner.post(lambda now: Stop(now, reason[0]))

    def _plan_of_now(self) -> SafePlan | None:
        """Return the plan there is, checked for the obstacles of now, None if there is none."""
        self._planner.obstacles.catch_up()
        return self._planner.plan

    def _run(self, plan: SafePlan | None, name: str, chosen: Callable[[Trajectory], Trajectory]) -> str:
        """Prepare the motion in this thread, which may take its time, and let it start."""
        machine, stops = self._machine, self._machine.stops
        robot = self._robot_that_may_move()
        if plan is None:
            raise InputError("there is no plan", "call ~/plan")
        if plan is not self._planner.plan:
            raise InputError("plan or obstacles have changed while the start was prepared", "start again")
        if plan.robot is not robot:
            raise InputError("the robot has changed since the trajectory was planned", "plan again")
        sender = self._connected_sender(stops)
        points = plan.points(chosen(plan.trajectory), self.value("point_rate"))
        q, limits = machine.where(self._now()), machine.limits
        assert limits is not None
        motion = checked_motion(name, robot, points, q, machine.settings, limits, stops, plan.check_way)
        for part in (motion.way, motion.run):
            sender.prepare(part.points)
        way, run = motion.way.points.duration, motion.run.points.duration
        self._state_out.expect(name, way, machine.settings.settle, run)
        return self._begin(robot, lambda now: Start(now, motion))

    def _robot_that_may_move(self) -> Robot:
        """Return the robot, or refuse to move it: it moves, or it must not."""
        robot, machine = self._robot(), self._machine
        if not self.active:
            raise InputError("the node is inactive", "activate it")
        if self._stop_switch.reason is not None:
            raise InputError(*self._stop_switch.reason)
        if machine.moving:
            raise InputError(f"a motion is under way ({machine.phase.value})", "wait for its end or stop it")
        self._planner.obstacles.catch_up()
        return robot

    def _connected_sender(self, stops: int) -> Sender:
        """Return the way to the controller, or refuse what needs it."""
        sender = self._sender
        assert sender is not None, "made by configure, as services are"
        self._wait_if_fresh(sender, stops)
        if problem := sender.problem():
            raise InputError(problem, "start the controller, or remap its topic")
        self.get_logger().info(self._controllers.check(sender.name))
        if advice := self._controllers.advice(sender.name):
            self.get_logger().warning(advice)
        return sender

    def _begin(self, robot: Robot, make: MakeEvent) -> str:
        """Let a motion that is ready begin, once nobody else commands the robot."""
        self._commander.wait(robot.active_names, at_rest=self._machine.at_rest)
        if not self._commander.watched():
            self.get_logger().warning("no guard is running: if this node is killed, the motion is finished unwatched")
        try:
            return self._send_event(make)
        except DynidError:
            self._commander.release()
            raise

    def _resume(self) -> str:
        """Prepare the rest of a paused motion in this thread, which may take its time, and let it go on."""
        machine, stops, sender = self._machine, self._machine.stops, self._sender
        if self._stop_switch.reason is not None:
            raise InputError(*self._stop_switch.reason)
        paused, limits = machine.paused, machine.limits
        if paused is None or limits is None or sender is None:
            raise InputError("no motion is paused", "pause one")
        motion = resumed_motion(paused, limits, machine.settings, stops)
        sender.prepare(motion.run.points)
        self._state_out.expect_rest(paused.rest_at / paused.points.duration, motion.run.points.duration)
        return self._send_event(lambda now: Resume(now, motion))

    def _on_jog(self, request: JogService.Request, response: JogService.Response) -> JogService.Response:
        with answering(response, self.get_logger()):
            response.message = self._jog(request.joint, request.direction)
        return response

    def _jog(self, joint: str, direction: int) -> str:
        """Begin to move a joint, say that it is still held, or let it go (direction 0)."""
        machine = self._machine
        if not direction:
            return self._send_event(JogReleased)
        if machine.phase is Phase.JOGGING:
            return self._send_event(lambda now: JogHeld(now, joint, direction))
        if not self._one_jog.acquire(blocking=False):
            raise InputError("a jog is being prepared", "hold on")
        try:
            stops, robot = machine.stops, self._robot_that_may_move()
            sender = self._connected_sender(stops)
            q, limits = machine.where(self._now()), machine.limits
            assert limits is not None
            free = self._planner.free_way(robot)
            motion = jog_motion(robot, joint, direction, q, machine.settings, limits, stops, free)
            sender.prepare(motion.way.points)
            self._state_out.expect("jogging", 0.0, 0.0, motion.way.points.duration)
            return self._begin(robot, lambda now: Jog(now, motion))
        finally:
            self._one_jog.release()

    def _wait_if_fresh(self, sender: Sender, stops: int) -> None:
        """Right after an activation, wait for what a start needs; a stop ends the wait."""
        machine = self._machine
        while (
            time.monotonic() < self._activated_at + FRESH_SECONDS
            and machine.stops == stops
            and machine.limits is not None
            and (sender.problem() or machine.unknown(self._now()) or not machine.at_rest)
        ):
            time.sleep(0.01)

    def _send_event(self, make: MakeEvent) -> str:
        """Return the machine's answer to an event, or raise its refusal."""
        outcome = self._owner.ask(make)
        if not outcome.accepted:
            raise DynidError(outcome.answer)
        return outcome.answer

    def _robot(self) -> Robot:
        self.known_robot()
        robot = self._machine.robot
        if robot is None:
            raise InputError("the robot is not known yet", "publish robot_description or set the parameter robot")
        return robot

    # --- what the machine's thread uses

    def _now(self) -> float:
        """Return the time [s] that joint states and trajectories live in: simulated, or the machine's own."""
        real = time.monotonic()
        return self._steady.at(1e-9 * self.now_ns(), real) if self._simulated else real

    def _send(self, points: Reference, delay: float, number: int) -> float:
        assert self._sender is not None
        now = self._now()
        self._sender.send(points, delay, number)
        return now

    def _keep_command(self) -> str:
        """Say that we command the robot, and return who else does, or nothing ("")."""
        if not self._commander.held:  # a robot that goes on though it was stopped is stopped again
            self._commander.seize(self._machine.joint_names)
        self._commander.beat()
        return self._commander.conflict()

    def _connection(self) -> str:
        sender = self._sender
        if sender is None:
            return "no trajectory controller configured"
        return sender.problem() or self._controllers.problem(sender.name)

    def _refused(self, number: int, text: str) -> None:
        self._owner.post(lambda now: GoalRefused(now, number, text))

    def _announce(self, what: Announce) -> None:
        if what.phase is Phase.INACTIVE:  # the last phase stays readable
            return
        self._rehearsals.follow(what, self._machine.worst_error)
        self._state_out.publish(what.name, what.reason)
        if what.reason and what.phase is Phase.BRAKING:
            self.get_logger().error(f"stopping: {what.reason}")

    def _on_state(self, message: bytes) -> None:
        """Pass a joint state on, of the robot that the machine moves: another one waits until that has stopped."""
        if self._states.names != self._machine.joint_names:
            self._states = LiveStates(self._machine.joint_names)
        if (state := self._states.take(message)) is not None:
            if self._simulated:
                self._steady.heard(1e-9 * state.stamp)
            now = self._now()
            stamp = self._steady.ns_of(state.stamp) if self._simulated else state.stamp
            event = JointStateArrived(now, state, self._stamps.time_of(stamp, now))
            self._rehearsals.take(event)
            self._owner.state(event)


def main() -> int:
    """Run the node."""
    return run(Excitation, THREADS)
