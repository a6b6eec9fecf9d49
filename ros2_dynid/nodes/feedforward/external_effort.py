# SPDX-License-Identifier: Apache-2.0

"""What the robot feels: ~/external_effort, ~/external_wrench and ~/contact, while somebody listens.

A thread of its own takes the joint states in small pieces, so that streamed torques do not wait for it.
"""

from __future__ import annotations

import threading
import time
import traceback
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from sensor_msgs.msg import JointState

from ros2_dynid.control.contact import ContactDetector, ContactEvent, ContactOptions
from ros2_dynid.control.external_wrench import external_wrench
from ros2_dynid.control.loaded_model import CarriedModel
from ros2_dynid.control.momentum_observer import MomentumObserver, ObserverOptions
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.robot import Robot
from ros2_dynid.msg import Contact
from ros2_dynid.nodes.common.predicted import PLOTTED
from ros2_dynid.nodes.common.qos import LATCHED
from ros2_dynid.nodes.common.rclpy_private import Logger

PIECE_SECONDS = 0.004
"""Joint states are worked on this often [s]: a piece costs hardly more than one of them."""
MOST = 2000
"""Joint states kept while the computer is busy."""
NO_BARS = "no error bars: set contact_thresholds, or publish base_parameters with covariance and fit"
NO_MOTION = "joint states without position, velocity or effort"


@dataclass(frozen=True)
class Feeling:
    """The observer's bandwidth [rad/s], contact thresholds ([N.m or N], 0: error bars), and the wrench's link."""

    bandwidth: float
    thresholds: tuple[float, ...]
    link: str


@dataclass(eq=False)
class _Senses:
    """Observer and detector of one model."""

    model: CarriedModel
    feeling: Feeling
    observer: MomentumObserver
    contacts: ContactDetector


class ExternalEffort:
    """Observes the joint states that it is given, with the model that the feedforward carries at the time."""

    def __init__(
        self, node: Node, carried: Callable[[], CarriedModel | None], described: Callable[[], Robot | None]
    ) -> None:
        """Advertise the topics of `node`, and start; `described` is the robot with its links, if known."""
        self._carried, self._described = carried, described
        self._logger: Logger = node.get_logger()
        self.efforts = node.create_publisher(JointState, "~/external_effort", PLOTTED)
        self.wrenches = node.create_publisher(WrenchStamped, "~/external_wrench", PLOTTED)
        self.contacts = node.create_publisher(Contact, "~/contact", LATCHED)
        self._feeling = Feeling(ObserverOptions().bandwidth, (0.0,), "")
        self._senses: _Senses | None = None
        self._waiting: deque[State] = deque(maxlen=MOST)
        self._last = 0
        self.status = "nobody listens"
        self._said = ""
        self._running = True
        self._thread = threading.Thread(target=self._run, name="external_effort", daemon=True)
        self._thread.start()

    @property
    def listened(self) -> bool:
        """Whether somebody listens."""
        return any(topic.get_subscription_count() for topic in (self.efforts, self.contacts, self.wrenches))

    def use(self, feeling: Feeling, try_only: bool = False) -> None:
        """Use these parameters from now on; with `try_only` only refuse what does not fit the robot."""
        carried = self._carried()
        if carried is not None:
            n, links = len(carried.robot.active), self._placed(carried.robot).tools
            if len(feeling.thresholds) not in (1, n):
                raise InputError(f"contact_thresholds has {len(feeling.thresholds)} values", f"give {n}, or one")
            if feeling.link and links and feeling.link not in links:
                raise InputError(f"wrench_link: no link {feeling.link!r}", f"choose from {', '.join(links)}")
        if not try_only:
            self._feeling = feeling

    def _placed(self, robot: Robot) -> Robot:
        """Return the robot with its links: base_parameters have none, a description has them."""
        described = self._described()
        return described if not robot.tools and described is not None else robot

    def take(self, state: State) -> None:
        """Take a joint state; any thread may."""
        self._waiting.append(state)

    def close(self) -> None:
        """End the thread."""
        self._running = False
        self._thread.join(1.0)

    def _run(self) -> None:
        while self._running:
            time.sleep(PIECE_SECONDS)
            if not self._waiting:
                self.status = self.status if self.listened else "nobody listens"
                continue
            states = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                self._feel(states)
            except DynidError as error:
                self._say(str(error))
            except Exception:  # the torques must go on
                traceback.print_exc()
                self._say("the observer has failed: see the log")
                self._senses = None

    def _feel(self, states: list[State]) -> None:
        carried = self._carried()
        if carried is None:
            self._senses = None
            return
        senses = self._current(carried)
        names = carried.robot.active_names
        states = [state for state in states if state.joint_names == names]
        if not states:
            return
        stamps = [state.stamp or time.time_ns() for state in states]
        dt = 1e-9 * np.diff([self._last, *stamps])
        self._last = stamps[-1]
        q, dq, tau = (np.array([getattr(state, key) for state in states]) for key in ("q", "dq", "tau"))
        observed = senses.observer.take(q, dq, tau, dt)
        if not observed.used.any():
            if not np.isfinite(np.hstack((q, dq, tau))).all():
                self._say(NO_MOTION)
            return
        for k in np.flatnonzero(observed.used):
            event = senses.contacts.update(observed.external[k], observed.undecided[k], float(dt[k]))
            if event is not ContactEvent.NONE:
                self._tell_contact(senses, stamps[k], observed.external[k])
        self._say("" if senses.contacts.usable else NO_BARS)
        self._publish(senses, states[-1], stamps[-1])

    def _current(self, carried: CarriedModel) -> _Senses:
        """Return observer and detector of this model; another load of the same robot keeps what was found."""
        senses, feeling = self._senses, self._feeling
        if senses is not None and senses.model is carried and senses.feeling == feeling:
            return senses
        if senses is not None and senses.model.cold is carried.cold and senses.feeling == feeling:
            senses.observer.set_model(carried.robot, carried.chi)  # friction of drives that have warmed up
            senses.model = carried
            return senses
        n = len(carried.robot.active)
        bars = carried.bars or ErrorBars(np.full(n, np.nan), np.full(n, np.nan))
        thresholds = feeling.thresholds if len(feeling.thresholds) in (1, n) else (0.0,)
        observer = MomentumObserver(carried.robot, carried.chi, ObserverOptions(bandwidth=feeling.bandwidth))
        contacts = ContactDetector(bars, thresholds, ContactOptions(bandwidth=feeling.bandwidth))
        self._senses = _Senses(carried, feeling, observer, contacts)
        return self._senses

    def _publish(self, senses: _Senses, state: State, stamp: int) -> None:
        external, robot = senses.observer.external, self._placed(senses.model.robot)
        if self.efforts.get_subscription_count():
            message = JointState(name=list(state.joint_names), effort=array("d", external))
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
            self.efforts.publish(message)
        if self.wrenches.get_subscription_count() and robot.tools:
            link = senses.feeling.link or next(iter(robot.tools))
            if link in robot.tools:
                F = external_wrench(robot, state.q[None], external[None], link)[0]
                wrench = WrenchStamped()
                wrench.header.frame_id = link
                wrench.header.stamp.sec, wrench.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
                wrench.wrench.force.x, wrench.wrench.force.y, wrench.wrench.force.z = map(float, F[:3])
                wrench.wrench.torque.x, wrench.wrench.torque.y, wrench.wrench.torque.z = map(float, F[3:])
                self.wrenches.publish(wrench)

    def _tell_contact(self, senses: _Senses, stamp: int, external: np.ndarray) -> None:
        contacts = senses.contacts
        message = Contact(
            contact=contacts.contact,
            joints=list(senses.model.robot.active_names),
            external_effort=array("d", external),
            threshold=array("d", contacts.thresholds),
            beyond=[bool(x) for x in contacts.beyond],
        )
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
        self.contacts.publish(message)

    def _say(self, problem: str) -> None:
        """Note what is wrong, and log it when it changes."""
        self.status = problem or "observed"
        if problem and problem != self._said:
            self._logger.warning(f"external effort: {problem}")
        self._said = problem
