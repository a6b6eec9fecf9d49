# SPDX-License-Identifier: Apache-2.0

"""A model under its controller along a reference: tau = Kp (q_r - q) + Kd (dq_r - dq_f) + tau_f, simulated.

Such a loop forgets where it started within its time constants. So the time is cut into stretches that are simulated all
at once, each from so long before that its start no longer matters. The integrator is ROS2 (Verwer, Spee, Blom and
Hundsdorfer, 1999), of second order with any approximate Jacobian: here that of controller and friction, the stiff part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array
from ros2_dynid.sim.forward_dynamics import Accelerations, ForwardDynamics

GAMMA = 1.0 - np.sqrt(0.5)
"""Makes ROS2 L-stable."""
SETTLING_TIME_CONSTANTS = 14.0
"""Time constants after which a start is forgotten: exp(-14) is 1e-6."""
MAX_STRETCHES = 512
"""Stretches simulated at once, at most: more do not make a step of all of them cheaper."""
POLE_STATES = 64
"""States along the reference at which the loop's poles are computed."""
MAX_DEVIATION = 0.5
"""Distance from the reference, over the reference's own span, at which the robot no longer follows."""


@dataclass(frozen=True, eq=False)
class JointController:
    """Gains Kp [N.m/rad], Kd [N.m.s/rad] of the active joints, shape (n,).

    speed_filter: corner [rad/s] of the first-order low-pass of its speeds dq_f, infinite if there is none.
    """

    Kp: Array
    Kd: Array
    speed_filter: float = np.inf


@dataclass(frozen=True, eq=False)
class Command:
    """What the loop is to follow, evenly in time at `rate` [Hz]: q, dq (N, n), and tau_f (N, n), added to the torque.

    segments: stretches without a gap; each starts on its own.
    """

    rate: float
    q: Array
    dq: Array
    tau_f: Array
    segments: tuple[slice, ...]


@dataclass(frozen=True, eq=False)
class TrackedMotion:
    """Motion and motor torque of the simulated robot at the command's times: q, dq, ddq, tau, gear_torque (N, n).

    sign: of all speeds, smooth at zero, (N, n_speeds); time_constant: of the loop [s]: a segment starts nearly in its
    steady motion, and so long it takes until a third of the error of that is left.
    """

    q: Array
    dq: Array
    ddq: Array
    tau: Array
    gear_torque: Array
    sign: Array
    time_constant: float


def simulate_tracking(model: ForwardDynamics, controller: JointController, command: Command) -> TrackedMotion:
    """Return how the model moves under the controller along the command; InputError if the loop is not stable."""
    time_constant = 1.0 / slowest_pole(model, controller, command)
    ahead = int(np.ceil(SETTLING_TIME_CONSTANTS * time_constant * command.rate))
    total = sum(s.stop - s.start for s in command.segments)
    length = max(ahead, -(-total // MAX_STRETCHES), 1)
    starts = np.concatenate([np.arange(s.start, s.stop, length) for s in command.segments])
    first = np.concatenate([np.full(-(-(s.stop - s.start) // length), s.start) for s in command.segments])
    last = np.concatenate([np.full(-(-(s.stop - s.start) // length), s.stop - 1) for s in command.segments])
    at = np.maximum(starts - ahead, first)  # where each stretch's simulation begins
    loop = ClosedLoop(model, controller, command)
    state = loop.start(at)
    N, n = command.q.shape
    q, dq, torque, gear_torque = (np.full((N, n), np.nan) for _ in range(4))
    sign: Array | None = None
    ends = np.minimum(starts + length - 1, last)
    for _ in range(int(np.max(ends - at)) + 1):
        active = np.flatnonzero(at <= ends)
        now = at[active]
        dynamics, tau = loop.evaluate(state[:, active], now)
        keep = now >= starts[active]
        if sign is None:
            sign = np.full((N, dynamics.sign.shape[1]), np.nan)
        here = now[keep]
        values = (state[0, active], state[1, active], tau, dynamics.gear_torque, dynamics.sign)
        for memory, value in zip((q, dq, torque, gear_torque, sign), values, strict=True):
            memory[here] = value[keep]
        state[:, active] = loop.step(state[:, active], now, np.minimum(now + 1, last[active]), dynamics)
        at[active] += 1
    assert sign is not None
    refuse_lost_control(model, command, q)
    # M^-1 (tau - ...) has the error of stiff states; speeds have not, and their differences keep every jump's integral
    ddq = np.concatenate([np.gradient(dq[s], 1.0 / command.rate, axis=0) for s in command.segments])
    return TrackedMotion(q, dq, ddq, torque, gear_torque, sign, time_constant)


def simulate_from(
    model: ForwardDynamics,
    controller: JointController,
    command: Command,
    q: Array,
    dq: Array,
    at: NDArray[Any],
    steps: int,
) -> Array:
    """Return positions (steps + 1, B, n) from B states q, dq, (B, n), at samples `at` (B,) of the command on."""
    loop = ClosedLoop(model, controller, command)
    state, positions = np.array((q, dq, dq)), [q]
    for _ in range(steps):
        dynamics, _ = loop.evaluate(state, at)
        state = loop.step(state, at, at + 1, dynamics)
        at = at + 1
        positions.append(state[0])
    return np.array(positions)


def slowest_pole(model: ForwardDynamics, controller: JointController, command: Command) -> float:
    """Return the decay rate [1/s] of the loop's slowest motion, along the reference; InputError if it is not stable."""
    states = np.linspace(0, len(command.q) - 1, POLE_STATES).astype(int)
    M = model.inertia(command.q[states])
    if np.linalg.eigvalsh(0.5 * (M + M.transpose(0, 2, 1))).min() <= 0.0:
        what = "the closed loop cannot be simulated: the estimate's inertia matrix is not positive along the motion"
        raise InputError(what, "excite the robot more, or choose a method that simulates nothing", model.robot.name)
    n, w = model.n, controller.speed_filter
    filtered = np.isfinite(w)
    A = np.zeros((len(states), (3 if filtered else 2) * n, (3 if filtered else 2) * n))
    A[:, :n, n : 2 * n] = np.eye(n)
    A[:, n : 2 * n, :n] = -np.linalg.solve(M, np.broadcast_to(np.diag(controller.Kp), M.shape))
    damping = model.viscous if filtered else model.viscous + np.diag(controller.Kd)
    A[:, n : 2 * n, n : 2 * n] = -np.linalg.solve(M, np.broadcast_to(damping, M.shape))
    if filtered:
        A[:, n : 2 * n, 2 * n :] = -np.linalg.solve(M, np.broadcast_to(np.diag(controller.Kd), M.shape))
        A[:, 2 * n :, n : 2 * n], A[:, 2 * n :, 2 * n :] = w * np.eye(n), -w * np.eye(n)
    slowest = float(-np.linalg.eigvals(A).real.max())
    if not slowest > 0.0:
        what = "the simulated closed loop is not stable with these gains"
        raise InputError(what, "give the gains of the robot's own controller", model.robot.name)
    settling_time = SETTLING_TIME_CONSTANTS / slowest
    if settling_time * command.rate > 0.5 * max(s.stop - s.start for s in command.segments):
        what = f"the simulated closed loop settles within {settling_time:.2g} s, too slow for this recording"
        raise InputError(what, "record longer, or check the gains of the controller", model.robot.name)
    return slowest


class ClosedLoop:
    """The closed loop's equations; a state is (q, dq, dq_f), shape (3, B, n)."""

    def __init__(self, model: ForwardDynamics, controller: JointController, command: Command) -> None:
        self._model, self._controller, self._command = model, controller, command
        self._filtered = bool(np.isfinite(controller.speed_filter))
        self._Kp, self._Kd = np.diag(controller.Kp), np.diag(controller.Kd)
        self._wanted = controller.Kp * command.q + controller.Kd * command.dq + command.tau_f

    def start(self, at: Array) -> Array:
        """Return the states in which the robot goes along with the reference, as far from it as its torque needs."""
        command = self._command
        q, dq, ahead = command.q[at], command.dq[at], np.minimum(at + 1, len(command.q) - 1)
        dynamics = self._model.accelerations(q, dq, command.tau_f[at])
        missing_acceleration = (command.dq[ahead] - dq) * command.rate - dynamics.ddq
        offset = np.einsum("bij,bj->bi", dynamics.M, missing_acceleration) / self._controller.Kp
        return np.array((q - offset, dq, dq))

    def torque(self, state: Array, at: Array) -> Array:
        q, dq, filtered = state
        command, speed = self._command, filtered if self._filtered else dq
        errors = command.q[at] - q, command.dq[at] - speed
        return np.asarray(self._controller.Kp * errors[0] + self._controller.Kd * errors[1] + command.tau_f[at])

    def evaluate(self, state: Array, at: Array) -> tuple[Accelerations, Array]:
        tau = self.torque(state, at)
        return self._model.accelerations(state[0], state[1], tau), tau

    def step(self, state: Array, at: Array, after: Array, dynamics: Accelerations) -> Array:
        """Return the states one sample later, from what was found at `at`."""
        h = 1.0 / self._command.rate
        g = GAMMA * h
        lag = g * self._controller.speed_filter if self._filtered else 0.0
        share = lag / (1.0 + lag) if self._filtered else 1.0
        D = self._model.damping(state[1]) + share * self._Kd + g * self._Kp
        matrix = dynamics.M + g * D

        def solve(right: Array, impulse: Array) -> Array:
            """Return (1 - g A)^-1 (right + M^-1 pushed), A = [[0, 1, 0], [-M^-1 Kp, -M^-1 D, -M^-1 Kd], [0, w, -w]]."""
            r_q, r_v, r_w = right
            force = np.einsum("bij,bj->bi", dynamics.M, r_v) - g * (self._controller.Kp * r_q) + impulse
            if self._filtered:
                force -= g * self._controller.Kd * r_w / (1.0 + lag)
            k_v = np.linalg.solve(matrix, force[..., None])[..., 0]
            k_w = (r_w + lag * k_v) / (1.0 + lag) if self._filtered else k_v
            return np.array((r_q + g * k_v, k_v, k_w))

        change = GAMMA * (self._wanted[after] - self._wanted[at])  # g times the command's slope: time is a state too
        k1 = solve(self._slope(state, dynamics.ddq), change)
        second = state + h * k1
        k2 = solve(self._slope(second, self.evaluate(second, after)[0].ddq) - 2.0 * k1, -change)
        return np.asarray(state + 1.5 * h * k1 + 0.5 * h * k2)

    def _slope(self, state: Array, ddq: Array) -> Array:
        _, dq, filtered = state
        filter_slope = self._controller.speed_filter * (dq - filtered) if self._filtered else ddq
        return np.array((dq, ddq, filter_slope))


def refuse_lost_control(model: ForwardDynamics, command: Command, q: Array) -> None:
    """Raise InputError where the simulated robot does not follow its reference."""
    inside = np.concatenate([np.arange(s.start, s.stop) for s in command.segments])
    with np.errstate(invalid="ignore"):
        deviation = np.max(np.abs(q[inside] - command.q[inside]), axis=0)
    too_far = ~(deviation <= MAX_DEVIATION * np.maximum(np.ptp(command.q[inside], axis=0), 1e-12))
    if too_far.any():
        name = model.robot.active_names[int(np.argmax(too_far))]
        what = f"joint {name!r}: the simulated robot does not follow its reference"
        raise InputError(what, "check the gains of the controller, or excite the robot more", model.robot.name)
