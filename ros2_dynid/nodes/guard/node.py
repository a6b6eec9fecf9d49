# SPDX-License-Identifier: Apache-2.0

"""Node guard: stops the suite and says what moved; brakes the robot when the node that commands it is gone.

Services: ~/stop sets the stop of the suite and answers with what is measured, ~/release releases it. Subscribes to
robot_description, joint_states, joint_trajectory and commander. Publishes stop and commander and, in the place of a
node that is gone, joint_trajectory (or sends it to an action) or effort_commands.

It runs in a process of its own: a node that was killed or stands still brakes nothing.
"""

from __future__ import annotations

import threading
import time

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.control.guard import Guard, GuardAction
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.lease import LeaseTimes, Role
from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.errors import DynidError
from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.commander_topic import CommanderTopic
from ros2_dynid.nodes.common.fast import Stream, Ticker
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN, ManagedNode, NodeStatus
from ros2_dynid.nodes.common.messages import ahead, reference_of
from ros2_dynid.nodes.common.qos import COMMANDS, JOINT_STATES, LATCHED
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.common.stop_topic import TOPIC as STOP
from ros2_dynid.nodes.excitation.sender import ActionSender, Sender, TopicSender
from ros2_dynid.nodes.guard.parameters import PARAMETERS
from ros2_dynid.recording.live import LiveStates

PERIOD = 0.01
"""How often [s] it is looked at who is gone, and torques of a ramp are sent."""
PAUSE = 0.1
"""A guard that has not looked for longer than this [s] gives the others time to be heard before it calls them gone."""
STOP_SECONDS = 3.0
"""Time [s] that a stop has to bring the robot to rest before the answer says that it did not."""
THREADS = 2
"""Of the executor: a release is answered while a stop waits for rest."""


class GuardNode(ManagedNode):
    """Watches while it is active."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("guard", PARAMETERS)
        self._lock = threading.Lock()
        self._guard = Guard(MotionSettings())
        self._states = LiveStates(())
        self._number = 0
        self._ticked_at = self._judges_from = 0.0
        times = LeaseTimes(silence=self.value("silence_seconds"))
        self._commander = CommanderTopic(self, Role.WATCHES, times)
        self.autostart()

    def configure(self) -> None:
        """Make topics and services."""
        settings = MotionSettings(
            tracking=self.value("tracking_tolerance"),
            stale=self.value("stale_seconds"),
            deceleration=self.value("stop_deceleration"),
            lead=self.value("stop_lead"),
        )
        self._guard = Guard(settings)
        action = self.value("action")
        self._sender: Sender = (
            ActionSender(self, action, self._refused) if action else TopicSender(self, "joint_trajectory")
        )
        self.create_subscription(JointTrajectory, "joint_trajectory", self._on_trajectory, COMMANDS)
        self._efforts = self.create_publisher(Float64MultiArray, "effort_commands", COMMANDS)
        self._stop = self.create_publisher(Bool, STOP, LATCHED)
        group = MutuallyExclusiveCallbackGroup()
        self.create_service(Trigger, "~/stop", self._on_stop, callback_group=group)
        self.create_service(Trigger, "~/release", self._on_release, callback_group=MutuallyExclusiveCallbackGroup())

    def on_robot(self, robot: Robot) -> None:
        """Watch this robot."""
        with self._lock:
            self._states = LiveStates(robot.active_names)
            self._guard.use(robot)

    def activate(self) -> None:
        """Watch."""
        self._stream = Stream(self, JointState, "joint_states", self._on_state, JOINT_STATES, rest=0.004)
        self._ticker = Ticker(PERIOD, self._tick)

    def deactivate(self) -> None:
        """Watch no more."""
        self._ticker.close()
        self._stream.close()

    def close(self) -> None:
        """Say that nobody watches any more; the process ends."""
        super().close()
        self._commander.close()

    def status(self) -> NodeStatus:
        """Tell who commands, and whether the robot could be braked."""
        holders = ", ".join(claim.node for claim in self._commander.holders()) or "nobody"
        problem = self._guard.no_limits or (self._sender.problem() if self.active else "")
        text = "in the place of a node that is gone" if self._guard.busy else problem or "watching"
        return WARN if self._guard.busy or problem else OK, text, {"commander": holders}

    def _on_trajectory(self, message: JointTrajectory) -> None:
        """Take what the controller is sent: a stop begins on it where joint states are missing."""
        robot = self._guard.robot
        if robot is None:
            return
        try:
            points = reference_of(message, robot)
        except DynidError:
            return  # the controller refuses it as well
        with self._lock:
            if not self._guard.busy:  # else it is our own
                self._guard.follow(points, time.monotonic() + ahead(message.header.stamp, self.now_ns()))

    def _on_state(self, data: bytes) -> None:
        with self._lock:
            state = self._states.take(data)
            if state is not None:
                now = time.monotonic()
                self._guard.take(JointStateArrived(now, state, now))

    def _tick(self) -> None:
        """Look who is gone, and go on with what is to be done in its place."""
        now = time.monotonic()
        with self._lock:
            if self._guard.busy and self._commander.conflict():
                self._guard.yield_to_commander()
                self._do(GuardAction(say="the commander is back", ended=True))
            self._do(self._guard.tick(now))
            if now - self._ticked_at > PAUSE:  # we stood ourselves: what others said meanwhile has not been taken yet
                self._judges_from = now + self._commander.silence
            self._ticked_at = now
            for gone in self._commander.take_gone() if now >= self._judges_from else ():
                self._commander.seize(gone.joints)
                self._do(self._guard.replace(gone, now))
        self._commander.beat()

    def _do(self, action: GuardAction) -> None:
        """Send what is to be sent first; then say it."""
        if action.stop is not None:
            self._number += 1
            self._sender.send(action.stop, 0.0, self._number)
        if action.efforts:
            self._efforts.publish(Float64MultiArray(data=action.efforts))
        if action.say:
            self.get_logger().error(action.say)
        if action.ended:
            self._commander.release()

    def _refused(self, number: int, text: str) -> None:
        self.get_logger().error(f"the stop was refused: {text}; use the robot's emergency stop")

    def _on_stop(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with answering(response, self.get_logger()):
            response.message = self._stopped()
        return response

    def _stopped(self) -> str:
        """Set the stop, and return what moved and when it came to rest; refuse to call it stopped if it is not."""
        begin = time.monotonic()
        with self._lock:
            holders = ", ".join(claim.node for claim in self._commander.holders()) or "nobody of the suite"
            moved, how = self._guard.motion(begin)
        self._stop.publish(Bool(data=True))
        moves: bool | None = moved
        while moves is not False and time.monotonic() < begin + STOP_SECONDS:
            time.sleep(PERIOD)
            with self._lock:
                moves, now_text = self._guard.motion(time.monotonic())
        before = f"the stop is set; {holders} commanded the robot; {how}"
        if moved is False:
            return before
        if moves is False:
            return f"{before}; at rest after {time.monotonic() - begin:.2f} s"
        raise DynidError(f"{before}; after {STOP_SECONDS:g} s {now_text}: use the emergency stop")

    def _on_release(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._stop.publish(Bool(data=False))
        response.success, response.message = True, "the stop is released"
        return response


def main() -> int:
    """Run the node."""
    return run(GuardNode, THREADS)
