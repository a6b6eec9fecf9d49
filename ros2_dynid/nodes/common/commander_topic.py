# SPDX-License-Identifier: Apache-2.0

"""One commander of a robot at a time: the lease of control.lease, kept on the topic `commander`."""

from __future__ import annotations

import secrets
import threading
import time
from array import array
from collections.abc import Sequence

from rclpy.node import Node

from ros2_dynid.control.lease import DEFAULT_TIMES, Claim, Lease, LeaseTimes, Role
from ros2_dynid.errors import DynidError
from ros2_dynid.msg import Commander
from ros2_dynid.nodes.common.fast import Stream, unpacked
from ros2_dynid.nodes.common.qos import COMMANDS

TOPIC = "commander"
IDLE_BEATS = 5
"""A guard that watches says so every so many beats: its silence endangers nobody at once."""


class CommanderTopic:
    """The lease of a node; any thread may use it. Whoever commands must call `beat` again and again."""

    def __init__(self, node: Node, role: Role = Role.RELEASED, times: LeaseTimes = DEFAULT_TIMES) -> None:
        """Listen as `node`, and command nothing; role: while it does not."""
        self._idle, self._lock = role, threading.Lock()
        self._lease = Lease(node.get_fully_qualified_name(), secrets.randbits(64), time.monotonic(), times)
        self._lease.role = role
        self._said_at = 0.0
        self._publisher = node.create_publisher(Commander, TOPIC, COMMANDS)
        self._stream = Stream(node, Commander, TOPIC, self._on_word, COMMANDS)

    def close(self) -> None:
        """Say that we are gone, and listen no more."""
        self._idle = Role.RELEASED
        self.release()
        self._stream.close()

    @property
    def held(self) -> bool:
        """Whether the joints are ours."""
        return self._lease.role is Role.HOLDS

    @property
    def silence(self) -> float:
        """Time [s] after which a holder that says nothing is gone."""
        return self._lease.times.silence

    def claim(self, joints: Sequence[str], *, at_rest: bool) -> bool:
        """Claim joints and return whether they are ours by now; refuse in one line that names who commands them."""
        now = time.monotonic()
        with self._lock:
            if self._lease.granted(now):
                return True
            self._lease.claim(joints, now, at_rest=at_rest)
            granted = self._lease.granted(now)
        self.beat()
        return granted

    def wait(self, joints: Sequence[str], *, at_rest: bool) -> None:
        """Claim joints, and wait until they are ours: some hundredths of a second."""
        while not self.claim(joints, at_rest=at_rest):
            time.sleep(self._lease.times.beat / 2)

    def seize(self, joints: Sequence[str]) -> None:
        """Hold joints at once, in the place of one that is gone."""
        with self._lock:
            self._lease.seize(joints)
        self._say((), ())

    def release(self) -> None:
        """Command nothing any more."""
        with self._lock:
            self._lease.release()
            self._lease.role = self._idle
        self._say((), ())

    def beat(self, effort: Sequence[float] = (), holding_effort: Sequence[float] = ()) -> None:
        """Say what we do, if it is time to say it again; efforts: of a node that streams torques."""
        every = self._lease.times.beat * (1 if self._lease.role in (Role.CLAIMS, Role.HOLDS) else IDLE_BEATS)
        if time.monotonic() - self._said_at >= every:
            self._say(effort, holding_effort)

    def conflict(self) -> str:
        """Return who else holds joints that we hold, or nothing ("")."""
        with self._lock:
            return self._lease.conflict(time.monotonic())

    def watched(self) -> bool:
        """Whether a guard is there."""
        with self._lock:
            return self._lease.watched(time.monotonic())

    @property
    def was_watched(self) -> bool:
        """Whether a guard was there, as far as anything was heard of it."""
        with self._lock:
            return self._lease.was_watched

    def holders(self) -> list[Claim]:
        """Return what those say who hold joints."""
        with self._lock:
            return self._lease.holders(time.monotonic())

    def take_gone(self) -> list[Claim]:
        """Return what those said last who held joints and are gone; each is told once."""
        with self._lock:
            return self._lease.take_gone(time.monotonic())

    def _say(self, effort: Sequence[float], holding_effort: Sequence[float]) -> None:
        with self._lock:
            word, self._said_at = self._lease.word(), time.monotonic()
        message = Commander(state=int(word.role), node=word.node, instance=word.instance, joints=list(word.joints))
        message.effort, message.holding_effort = array("d", effort), array("d", holding_effort)
        self._publisher.publish(message)

    def _on_word(self, data: bytes) -> None:
        try:
            message = unpacked(data, Commander)
            role = Role(message.state)
        except (DynidError, ValueError):
            return  # of another version, or damaged: it says nothing
        claim = Claim(
            role,
            message.node,
            message.instance,
            tuple(message.joints),
            tuple(message.effort),
            tuple(message.holding_effort),
        )
        with self._lock:
            self._lease.take(claim, time.monotonic())
