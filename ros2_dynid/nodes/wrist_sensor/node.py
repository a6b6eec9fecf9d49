# SPDX-License-Identifier: Apache-2.0

"""Node wrist_sensor: the wrench that a wrist force-torque sensor feels beyond weight and inertia of its tool.

Subscribes to wrench, joint_states and robot_description. Publishes ~/wrench (in the sensor's frame and with its sign),
~/wrench_std (its standard deviations), ~/external_wrench (what the surroundings exert on the tool, at and in a chosen
frame) and ~/external_effort (the joint torques that makes, to compare with what the feedforward observes). Services:
~/set_tool, ~/zero. It moves nothing; without a fresh motion it publishes nothing.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from ros2_dynid.control.held_load import Load
from ros2_dynid.control.prediction import FittedMotion, MotionWindow
from ros2_dynid.control.tool_wrench import (
    ZERO_SAMPLES,
    SensorTool,
    effort_of_wrench,
    feel_wrench,
    moved_wrench,
    read_tool,
    with_load,
    zeroed,
)
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.fast import Stream
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN, ManagedNode, NodeStatus
from ros2_dynid.nodes.common.messages import inertia_of
from ros2_dynid.nodes.common.parameters import Value
from ros2_dynid.nodes.common.qos import COMMANDS, JOINT_STATES
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.wrist_sensor.parameters import PARAMETERS
from ros2_dynid.recording.live import LiveStates
from ros2_dynid.srv import SetPayload

MOST = 1000
"""Wrenches that wait for their motion."""


class WristSensor(ManagedNode):
    """Takes joint states and wrenches as they come; one lock for tool and motion."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("wrist_sensor", PARAMETERS)
        self._lock = threading.Lock()
        self._tool: SensorTool | None = None
        self._states = LiveStates(())
        self._window = MotionWindow()
        self._waiting: deque[tuple[int, Array]] = deque(maxlen=MOST)
        self._left: deque[Array] = deque(maxlen=ZERO_SAMPLES)
        self._count = 0
        self._stream: Stream | None = None
        self.autostart()

    def configure(self) -> None:
        """Read the tool, make topics and services."""
        if not self.value("tool"):
            raise InputError("the parameter tool is empty", "name the file that dynid tool --json printed")
        self._tool = read_tool(Path(self.value("tool")))
        self._wrenches, self._stds, self._externals = (
            self.create_publisher(WrenchStamped, name, COMMANDS)
            for name in ("~/wrench", "~/wrench_std", "~/external_wrench")
        )
        self._efforts = self.create_publisher(JointState, "~/external_effort", COMMANDS)
        self.create_subscription(WrenchStamped, "wrench", self._on_wrench, JOINT_STATES)
        self.create_service(SetPayload, "~/set_tool", self._on_tool)
        self.create_service(Trigger, "~/zero", self._on_zero)

    def on_robot(self, robot: Robot) -> None:
        """Refuse a robot without the sensor's link."""
        tool = self._tool
        if tool is not None and not robot.tools.get(tool.link, (0,))[0]:
            moving = ", ".join(name for name, (joint, _) in robot.tools.items() if joint)
            raise InputError(f"no moving link {tool.link!r} carries the sensor", f"the robot has {moving}", robot.name)
        with self._lock:
            self._states = LiveStates(robot.active_names)
            self._forget()

    def activate(self) -> None:
        """Listen to joint states."""
        with self._lock:
            self._window = MotionWindow(self.value("window") or 0.06)
            self._forget()
        self._stream = Stream(self, JointState, "joint_states", self._on_state, JOINT_STATES, rest=0.002)

    def deactivate(self) -> None:
        """Listen to nothing."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def status(self) -> NodeStatus:
        """Tell the tool, and how many wrenches have left."""
        tool = self._tool
        values = {"tool": "none" if tool is None else f"{tool.mass:.4g} kg", "wrenches": self._count}
        return (OK, "publishing", values) if self._count else (WARN, "no wrench with a motion yet", values)

    def check_parameters(self, changes: Mapping[str, Value]) -> None:
        """Refuse a frame that the robot does not have."""
        frame = changes.get("frame")
        if frame and self.robot is not None and frame not in self.robot.tools:
            raise InputError(f"frame: no link {frame!r}", f"choose from {', '.join(self.robot.tools)}")

    def _forget(self) -> None:
        self._waiting.clear()
        self._left.clear()

    # --- what comes

    def _on_wrench(self, message: WrenchStamped) -> None:
        force, torque, stamp = message.wrench.force, message.wrench.torque, message.header.stamp
        w = np.array((force.x, force.y, force.z, torque.x, torque.y, torque.z))
        at = stamp.sec * 1_000_000_000 + stamp.nanosec or self.now_ns()
        if not self.active or not np.isfinite(w).all():
            return
        with self._lock:
            self._waiting.append((at, w))
            state = self._states.state
            if not self.value("window") and np.isfinite(state.q).all():
                dq = np.where(np.isfinite(state.dq), state.dq, 0.0)
                self._publish_until(FittedMotion(state.stamp, state.q, dq, np.zeros_like(dq)), at)

    def _on_state(self, data: bytes) -> None:
        with self._lock:
            state = self._states.take(data)
            if state is None or not self.value("window"):
                return
            self._window.take(state.stamp or self.now_ns(), state.q)
            motion = self._window.middle()
            if motion is not None:
                self._publish_until(motion, motion.stamp)

    def _publish_until(self, motion: FittedMotion, until: int) -> None:
        """Publish the last wrench that is not newer than the motion, if the motion is fresh for it."""
        newest: tuple[int, Array] | None = None
        while self._waiting and self._waiting[0][0] <= until:
            newest = self._waiting.popleft()
        if newest is not None and abs(newest[0] - motion.stamp) <= 1e9 * self.value("stale_seconds"):
            self._publish(motion, *newest)

    def _publish(self, motion: FittedMotion, stamp: int, wrench: Array) -> None:
        robot, tool = self.robot, self._tool
        if robot is None or tool is None:
            return
        felt = feel_wrench(robot, tool, motion.q, motion.dq, motion.ddq, wrench)
        self._left.append(felt.wrench)
        self._count += 1
        frame = self.value("frame")
        self._wrenches.publish(wrench_message(felt.wrench, tool.link, stamp))
        self._stds.publish(wrench_message(felt.std, tool.link, stamp))
        moved = moved_wrench(robot, motion.q, felt.external, tool.link, frame)
        self._externals.publish(wrench_message(moved, frame or self.base_link, stamp))
        effort = effort_of_wrench(robot, motion.q, felt.external, tool.link)
        message = JointState(name=list(robot.active_names), effort=array("d", effort))
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
        self._efforts.publish(message)

    # --- what is asked

    def _on_tool(self, request: SetPayload.Request, response: SetPayload.Response) -> SetPayload.Response:
        with answering(response, self.get_logger()), self._lock:
            robot, tool = self.known_robot(), self._tool
            assert tool is not None
            link = request.link or tool.link
            self._tool = with_load(tool, Load(*inertia_of(request.payload, robot, link)), robot)
            self._left.clear()
        return response

    def _on_zero(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with answering(response, self.get_logger()), self._lock:
            assert self._tool is not None
            before = self._tool.bias
            self._tool = zeroed(self._tool, np.array(self._left).reshape(-1, 6))
            self._left.clear()
            change = ", ".join(f"{x:.3g}" for x in self._tool.bias - before)
            response.message = f"bias changed by ({change}) N and N.m"
        return response


def wrench_message(wrench: Array, frame: str, stamp: int) -> WrenchStamped:
    """Return the message of a wrench (6,), force first, at `stamp` [ns]."""
    message = WrenchStamped()
    message.header.frame_id = frame
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
    force, torque = message.wrench.force, message.wrench.torque
    force.x, force.y, force.z, torque.x, torque.y, torque.z = map(float, wrench)
    return message


def main() -> int:
    """Run the node."""
    return run(WristSensor)
