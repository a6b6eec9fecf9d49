# SPDX-License-Identifier: Apache-2.0

"""Between the robot and the suite: passes on joint states and commands, and spoils them while a fault is on.

The robot's own topics are truth_states, robot_trajectory and robot_efforts, which nothing spoils.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import math
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.nodes.common.fast import Stream, unpacked
from ros2_dynid.nodes.common.qos import COMMANDS, STREAMED

Spoiler = Callable[[JointState, "Fault"], list[JointState]]


class Fault:
    """One fault of the joint states while it lasts: its joint, its size and what it has seen."""

    def __init__(self, name: str, rng: random.Random, joints: int) -> None:
        self.name, self.rng = name, rng
        self.joint = rng.randrange(joints)
        self.size = rng.choice((-1, 1)) * rng.uniform(0.5, 3.0)
        self.delay = rng.uniform(0.02, 0.4)
        self.first: JointState | None = None
        self.held: list[JointState] = []
        self.count = 0

    def spoiled(self, message: JointState) -> list[JointState]:
        """Return what goes out instead of a message."""
        self.count += 1
        if self.first is None:
            self.first = copy.deepcopy(message)
        return STATE_FAULTS[self.name](message, self)


def _frozen_values(message: JointState, fault: Fault) -> list[JointState]:
    message.position, message.velocity, message.effort = (
        fault.first.position,
        fault.first.velocity,
        fault.first.effort,
    )
    return [message]


def _with(field: str, value: float) -> Spoiler:
    def spoil(message: JointState, fault: Fault) -> list[JointState]:
        getattr(message, field)[fault.joint] = value
        return [message]

    return spoil


def _all_nan(message: JointState, fault: Fault) -> list[JointState]:
    for field in ("position", "velocity", "effort"):
        setattr(message, field, [math.nan] * len(message.name))
    return [message]


def _jump(message: JointState, fault: Fault) -> list[JointState]:
    message.position[fault.joint] += fault.size
    return [message]


def _spikes(message: JointState, fault: Fault) -> list[JointState]:
    return _jump(message, fault) if fault.count % 20 == 1 else [message]


def _fast(message: JointState, fault: Fault) -> list[JointState]:
    message.velocity[fault.joint] += 10 * fault.size
    return [message]


def _chosen(message: JointState, order: list[int]) -> JointState:
    chosen = JointState(header=message.header, name=[message.name[k] for k in order])
    for field in ("position", "velocity", "effort"):
        values = getattr(message, field)
        setattr(chosen, field, [values[k] for k in order])
    return chosen


def _permuted(message: JointState, fault: Fault) -> list[JointState]:
    n = len(message.name)
    return [_chosen(message, fault.rng.sample(range(n), n))]


def _partial(message: JointState, fault: Fault) -> list[JointState]:
    return [_chosen(message, [k]) for k in range(len(message.name))]


def _missing(message: JointState, fault: Fault) -> list[JointState]:
    return [_chosen(message, [k for k in range(len(message.name)) if k != fault.joint])]


def _extra(message: JointState, fault: Fault) -> list[JointState]:
    message.name = ["gripper", *message.name]
    for field in ("position", "velocity", "effort"):
        setattr(message, field, [7.0, *getattr(message, field)])
    return [message]


def _renamed(message: JointState, fault: Fault) -> list[JointState]:
    message.name = [f"other_{name}" for name in message.name]
    return [message]


def _without(field: str) -> Spoiler:
    def spoil(message: JointState, fault: Fault) -> list[JointState]:
        setattr(message, field, [])
        return [message]

    return spoil


def _cut(message: JointState, fault: Fault) -> list[JointState]:
    message.position = message.position[:-1]
    return [message]


def _stamped(seconds: float) -> Spoiler:
    def spoil(message: JointState, fault: Fault) -> list[JointState]:
        message.header.stamp.sec = max(0, message.header.stamp.sec + int(seconds))
        return [message]

    return spoil


def _stamp_zero(message: JointState, fault: Fault) -> list[JointState]:
    message.header.stamp.sec = message.header.stamp.nanosec = 0
    return [message]


def _stamps_jitter(message: JointState, fault: Fault) -> list[JointState]:
    ns = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
    ns += int(fault.rng.uniform(-0.05, 0.05) * 1e9)
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(ns, 1_000_000_000)
    return [message]


def _swapped(message: JointState, fault: Fault) -> list[JointState]:
    fault.held.append(copy.deepcopy(message))
    if len(fault.held) < 3:
        return []
    held, fault.held = fault.held, []
    return held[::-1]


def _second_driver(message: JointState, fault: Fault) -> list[JointState]:
    """A second driver of the same robot, which rests where the robot was."""
    other = copy.deepcopy(message)
    other.position, other.velocity = fault.first.position, [0.0] * len(message.name)
    return [message, other]


STATE_FAULTS: dict[str, Spoiler] = {
    "silence": lambda message, fault: [],
    "frozen": lambda message, fault: [fault.first],
    "frozen values": _frozen_values,
    "NaN position": _with("position", math.nan),
    "NaN velocity": _with("velocity", math.nan),
    "NaN effort": _with("effort", math.nan),
    "infinite position": _with("position", math.inf),
    "all NaN": _all_nan,
    "jump": _jump,
    "spikes": _spikes,
    "too fast": _fast,
    "permuted": _permuted,
    "one joint a message": _partial,
    "a joint missing": _missing,
    "one joint more": _extra,
    "other names": _renamed,
    "no names": lambda message, fault: [JointState(header=message.header)],
    "no velocities": _without("velocity"),
    "no efforts": _without("effort"),
    "no positions": _without("position"),
    "positions cut": _cut,
    "stamps back": _stamped(-100),
    "stamps ahead": _stamped(1000),
    "stamp zero": _stamp_zero,
    "stamps jitter": _stamps_jitter,
    "twice": lambda message, fault: [message, message],
    "swapped": _swapped,
    "late": lambda message, fault: [message],
    "a second driver": _second_driver,
}
"""Faults of joint states, by name."""
BLIND = frozenset(
    {"silence", "frozen", "frozen values", "NaN position", "infinite position", "all NaN", "jump", "a joint missing",
     "other names", "no names", "no positions", "positions cut"}
)  # fmt: skip
"""Faults under which the suite does not know where the robot is: a motion must not go on."""
TIMEOUT = 0.06
"""Torques that cease for longer than this [s] bring the brakes on."""
COMMAND_FAULTS = ("commands lost", "commands late", "commands twice")


class Later:
    """Does things after a delay, in the order of their times, from one thread."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def do(self, delay: float, act: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay, next(self._numbers), act))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > time.monotonic():
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                act = heapq.heappop(self._due)[2]
            act()


class Proxy:
    """Passes on what the robot and the suite say; `states` and `commands` are the faults that are on.

    saw_state, saw_trajectory, saw_efforts: called with what really left the robot and the suite, before any fault.
    ceased: called when torques have ceased.
    published: the joint states that went out, as (monotonic time [s], serialized), while it is a list.
    """

    def __init__(
        self,
        node: Any,
        saw_state: Callable[[bytes], None],
        saw_trajectory: Callable[[JointTrajectory], None],
        saw_efforts: Callable[[Float64MultiArray], None],
    ) -> None:
        self.states: Fault | None = None
        self.commands, self.command_delay = "", 0.1
        self.efforts_pass = True
        self.ceased: Callable[[], None] = lambda: None
        self._pushed = 0.0
        self._watching = threading.Event()
        self.published: list[tuple[float, bytes]] = []
        self.saw_state, self.saw_trajectory, self.saw_efforts = saw_state, saw_trajectory, saw_efforts
        self._later = Later()
        self._states_out = node.create_publisher(JointState, "joint_states", STREAMED)
        self._trajectory_out = node.create_publisher(JointTrajectory, "robot_trajectory", COMMANDS)
        self._efforts_out = node.create_publisher(Float64MultiArray, "robot_efforts", COMMANDS)
        self._streams = [
            Stream(node, JointState, "truth_states", self._on_state, STREAMED),
            Stream(node, JointTrajectory, "joint_trajectory", self._on_trajectory, COMMANDS),
            Stream(node, Float64MultiArray, "effort_commands", self._on_efforts, STREAMED),
        ]
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        self._watching.set()
        for stream in self._streams:
            stream.close()

    def _watch(self) -> None:
        """Put the brakes on when torques cease, as a drive with a timeout does."""
        while not self._watching.wait(0.01):
            pushed = self._pushed
            if pushed and time.monotonic() - pushed > TIMEOUT:
                self._pushed = 0.0
                self.ceased()

    def hold_efforts_back(self) -> None:
        """Let no torque through any more: that none comes is not their sender's fault then."""
        self.efforts_pass, self._pushed = False, 0.0

    def to_robot(self, message: JointTrajectory) -> None:
        """Send the robot a trajectory that is not the suite's."""
        self._pushed = 0.0
        self._trajectory_out.publish(message)

    def _on_state(self, data: bytes) -> None:
        self.saw_state(data)
        fault = self.states
        if fault is None:
            self._publish(data)
            return
        for message in fault.spoiled(unpacked(data, JointState)):
            spoiled = serialize_message(message)
            if fault.name == "late":
                self._later.do(fault.delay, lambda spoiled=spoiled: self._publish(spoiled))
            else:
                self._publish(spoiled)

    def _publish(self, data: bytes) -> None:
        self.published.append((time.monotonic(), data))
        self._states_out.publish(data)

    def _on_trajectory(self, data: bytes) -> None:
        self.saw_trajectory(unpacked(data, JointTrajectory))
        self._pass_on(data, self._trajectory_out)

    def _on_efforts(self, data: bytes) -> None:
        self.saw_efforts(unpacked(data, Float64MultiArray))
        self._pass_on(data, self._efforts_out)

    def _pass_on(self, data: bytes, out: Any) -> None:
        if self.commands == "commands late":
            self._later.do(self.command_delay, lambda: self._to_robot(data, out))
        elif self.commands != "commands lost":
            for _ in range(2 if self.commands == "commands twice" else 1):
                self._to_robot(data, out)

    def _to_robot(self, data: bytes, out: Any) -> None:
        if out is self._efforts_out:
            if not self.efforts_pass:
                return
            self._pushed = time.monotonic()
        out.publish(data)
