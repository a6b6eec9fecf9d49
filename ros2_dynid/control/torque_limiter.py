# SPDX-License-Identifier: Apache-2.0

"""The torque limiter: every torque that leaves, streamed or filled into a trajectory, passes it.

It checks the joints, finiteness, the effort limits and the rate of change from the last command. A torque beyond a
limit is brought back to it; one that is not finite does not leave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_order import joint_order
from ros2_dynid.model.robot import Array, Robot

QUICKEST, SLOWEST = 0.01, 0.1
"""Times [s] between which the derived rate goes from one effort limit to the other."""
LONGEST_STEP = 0.02
"""Time [s] between two commands that counts for the rate: in a pause of the computer the robot had no more of it."""
LEAST_RATE = 1.0
"""Least rate that may be configured, in effort limits a second: every ending reaches gravity within 2 s."""


class LimitedTorque(NamedTuple):
    """A torque within the limits: tau, shape (n,) [N.m or N], of the joints named; read-only.

    command: the same in the order of effort_commands, command_names.
    """

    joint_names: tuple[str, ...]
    tau: Array
    command_names: tuple[str, ...]
    command: Array


@dataclass(frozen=True, eq=False)
class EffortLimits:
    """Largest torque [N.m or N] and its largest rate of change [N.m/s or N/s] of the joints named, shape (n,)."""

    joint_names: tuple[str, ...]
    effort: Array
    rate: Array


def known_efforts(names: Sequence[str], given: Sequence[float], robot: Robot | None) -> Array:
    """Return the effort limits of the joints named, shape (n,): those given where they are above 0, else the robot's.

    given: one for each joint, or one for all. Infinite where nobody gives one; joints are matched by their names.
    """
    n = len(names)
    if len(given) not in (1, n):
        raise InputError(f"effort_limits has {len(given)} values for {n} joints", "give one for each joint, or one")
    own = np.full(n, np.inf)
    if robot is not None:
        efforts = {robot.joints[j - 1].name: robot.joints[j - 1].limits.effort for j in robot.active}
        own = np.array([efforts.get(name, np.inf) for name in names])
        own[~(own > 0)] = np.inf
    limit = np.broadcast_to(np.asarray(given, dtype=float), (n,))
    return np.asarray(np.where(limit > 0, limit, own))


def effort_limits(names: Sequence[str], effort: Array, rates: Sequence[float], ramp: float) -> EffortLimits:
    """Return the limits of the joints named with their rates, derived where `rates` are 0.

    A change-over must be able to lead from one limit to the other within `ramp` [s], so the rate is 2 effort / ramp at
    least. A slow ramp must not slow a moving reference down: the rate is 2 effort / 0.1 s at least, which is the order
    of what torque-controlled arms accept themselves (87 N.m at 1000 N.m/s). A ramp of 0 still takes 0.01 s.
    """
    n = len(names)
    if len(rates) not in (1, n):
        raise InputError(f"effort_rates has {len(rates)} values for {n} joints", "give one for each joint, or one")
    rate_setting = np.broadcast_to(np.asarray(rates, dtype=float), (n,))
    slow = (rate_setting > 0) & (rate_setting < LEAST_RATE * effort)
    if slow.any():
        k = int(np.argmax(slow))
        raise InputError(
            f"the effort rate of {names[k]!r} is {rate_setting[k]:g} N.m/s",
            f"give at least {LEAST_RATE * effort[k]:g}: an ending must reach gravity within 2 s",
        )
    rate = np.where(rate_setting > 0, rate_setting, 2 * effort / min(max(ramp, QUICKEST), SLOWEST))
    for values in (effort, rate):
        values.setflags(write=False)
    return EffortLimits(tuple(names), effort, rate)


class TorqueLimiter:
    """Lets torques out one after the other; `last` is what left last, None after `forget`."""

    def __init__(self, limits: EffortLimits, command_names: Sequence[str] = ()) -> None:
        """Let out torques within `limits`; effort_commands are in the order of command_names (empty: the same)."""
        self.limits = limits
        self._command_names = tuple(command_names) or limits.joint_names
        order = joint_order(self._command_names, limits.joint_names, "joint_order")
        self._order = None if order == list(range(len(order))) else np.array(order, dtype=np.intp)
        self._lower, self._upper = -limits.effort, limits.effort
        self.last: LimitedTorque | None = None
        self._wanted = self._before = np.zeros(len(limits.joint_names))  # used once a torque has left
        self._when = 0.0

    def continue_from(self, before: TorqueLimiter | None) -> TorqueLimiter:
        """Go on from what left through another limiter of the same joints."""
        if before is not None and before.last is not None and before.limits.joint_names == self.limits.joint_names:
            self.last, self._when, self._wanted = before.last, before._when, before._wanted
            self._before = np.clip(before.last.tau, self._lower, self._upper)  # limits that have shrunk come first
        return self

    def forget(self) -> None:
        """Take the next torque as the first: what the robot carried before it is not known."""
        self.last = None

    @property
    def held_back(self) -> bool:
        """Whether the last torque was brought back to a limit or a rate."""
        return self.last is not None and bool(np.any(self.last.tau != self._wanted))

    @property
    def lagging(self) -> bool:
        """Whether the last torque was held back by a rate: the next one will be nearer to what is wanted."""
        wanted = np.clip(self._wanted, self._lower, self._upper)
        return self.last is not None and bool(np.any(self.last.tau != wanted))

    def command_of(self, tau: Array) -> Array:
        """Return torques, shape (n,), in the order of effort_commands."""
        return tau if self._order is None else tau[self._order]

    def limit(self, tau: Array, now: float) -> LimitedTorque:
        """Return the torque that may leave at `now` [s]; one that is not finite is refused."""
        if not math.isfinite(tau.sum()):  # before the limits, which would make a number of what is infinite
            raise InputError("the torque is not finite", "send a reference with reasonable numbers")
        lower, upper = self._lower, self._upper
        if self.last is not None:
            step = self.limits.rate * min(max(now - self._when, 0.0), LONGEST_STEP)
            lower, upper = np.maximum(lower, self._before - step), np.minimum(upper, self._before + step)
        out = np.minimum(np.maximum(tau, lower), upper)
        if not math.isfinite(out.dot(out)):
            raise InputError("the torque is not finite", "send a reference with reasonable numbers")
        out.setflags(write=False)
        self.last = LimitedTorque(self.limits.joint_names, out, self._command_names, self.command_of(out))
        self._wanted, self._before, self._when = tau, out, now
        return self.last


def known_limiter(
    names: Sequence[str],
    robot: Robot,
    efforts: Sequence[float],
    rates: Sequence[float],
    ramp: float,
    command_names: Sequence[str],
) -> TorqueLimiter | None:
    """Return the limiter of the joints named by what is rate_setting, else by the robot; None while a limit is unknown.

    efforts, rates, ramp: as for known_efforts and effort_limits; command_names: as for TorqueLimiter.
    """
    if command_names:
        joint_order(names, command_names, "parameter joint_order")
    effort = known_efforts(names, efforts, robot)
    if not np.isfinite(effort).all():
        effort_limits(names, np.zeros(len(names)), rates, ramp)  # rates that do not fit are refused all the same
        return None
    return TorqueLimiter(effort_limits(names, effort, rates, ramp), command_names)


def limit_along(limits: EffortLimits, t: Array, tau: Array) -> Array:
    """Return the torques, shape (K, n), of a trajectory with points at t, shape (K,) [s], as they may leave."""
    if not np.isfinite(tau).all():
        raise InputError("a torque along the trajectory is not finite", "give a trajectory with reasonable numbers")
    out = np.minimum(np.maximum(tau, -limits.effort), limits.effort)
    for k in range(1, len(out)):
        step = limits.rate * (t[k] - t[k - 1])
        out[k] = np.minimum(np.maximum(out[k], out[k - 1] - step), out[k - 1] + step)
    return out
