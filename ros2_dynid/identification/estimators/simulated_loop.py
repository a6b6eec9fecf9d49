# SPDX-License-Identifier: Apache-2.0

"""The recording once more without its noise: the model of an estimate, simulated in closed loop along the reference.

The reference is the commanded motion where that was recorded, else the motion within its own band. The simulated rows
belong to the same times as the recorded ones: they pass the same filter, at a rate that the integrator needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.backend import fast_inverse_dynamics
from ros2_dynid.errors import InputError, Option, RankError, Text
from ros2_dynid.identification.estimators.instrumental import build_fit as build_instrumental_fit
from ros2_dynid.identification.estimators.instrumental import instrument_motion
from ros2_dynid.identification.options import Method, PreparationOptions
from ros2_dynid.identification.preparation.filters import finer_kernel
from ros2_dynid.identification.preparation.prepared import Prepared, consecutive_slices
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.estimate import Estimate, identified_terms
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import IA, JOINT, group_of, split_name, standard_names
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.sim.forward_dynamics import ForwardDynamics
from ros2_dynid.sim.tracking_loop import Command, JointController, TrackedMotion, simulate_tracking

RATE = 500.0
"""The loop is simulated at least this often [Hz]: a loop of 10 Hz moves by 2 ms / 16 ms of its time constant a step."""
STIFF = 10.0
"""Natural frequency [Hz] of the loop that is simulated where the robot's controller is not known: a close follower."""
SMOOTH = 0.1
"""v0 of the smooth sign, over the speed below which rows are left out."""
STARTED = 5.0
"""Time constants of the loop after which its start no longer shows: less than a hundredth of the distance is left."""
MOVABLE, LIFTED = 0.005, 0.05
"""Least eigenvalue of a model's inertia matrix, over the joints' own inertias, that is simulated, since arms that exist
have more but for wrists in line; and what one with less is given."""
ROUNDS = 10
SETTLED = 0.1
"""Standard deviations by which no parameter moves any more once the estimates have settled."""
T = TypeVar("T")


def model_of_estimate(
    robot: Robot, base: BaseParameters, terms: tuple[FrictionTerm, ...], estimate: Estimate
) -> tuple[Robot, Array]:
    """Return the robot with the estimated friction terms, and standard parameters, shape (n_standard,).

    Friction that came out negative is left out: it would drive the joints.
    """
    names = standard_names(robot)
    chi = np.zeros(len(names))
    chi[base.columns(robot)] = estimate.base
    braking = [group_of(name) == "friction" and not split_name(name)[0].endswith("m") for name in names]
    chi = np.where(np.array(braking) & (chi < 0.0), 0.0, chi)
    return replace(robot, friction=identified_terms(terms, estimate)), chi


def simulated(robot: Robot, chi: Array, prepared: Prepared, controller: JointController | None) -> Prepared:
    """Return the recording as the model moves in closed loop: positions to torques simulated, the rows' times the same.

    chi: standard parameters, shape (n_standard,); controller: the robot's own. Where it is not known, or the commanded
    motion is not, the loop is one that follows closely.
    """
    if prepared.filter.row_cutoff is None or prepared.spectrum is None or prepared.kernel is None:
        raise InputError("a simulated closed loop needs positions as recorded", "give a recording, not filtered arrays")
    m = max(1, int(np.ceil(RATE / prepared.filter.inner_rate)))
    command, ddq = _command(robot, prepared, m)
    slow = (prepared.filter.slow or PreparationOptions.slow) * prepared.top_speed  # also where all rows are kept
    model = _movable(ForwardDynamics(robot, chi, np.maximum(SMOOTH * slow, 1e-9)), command)
    if controller is None or prepared.reference is None:
        controller = _following(model, command)
        command = replace(command, tau_f=fast_inverse_dynamics(robot, model.chi, command.q, command.dq, ddq))
    motion = simulate_tracking(model, controller, command)
    cutoff, rate = prepared.filter.row_cutoff, prepared.filter.inner_rate
    return replace(
        prepared,
        t=np.concatenate([_finer(prepared.t[s, None], m)[:, 0] for s in prepared.segments]),
        q=motion.q,
        dq=motion.dq,
        ddq=motion.ddq,
        tau=motion.tau,
        sign=motion.sign,
        gear_torque=motion.gear_torque,
        bridged=_unusable(prepared, command, motion, m),
        temperature=None
        if prepared.temperature is None
        else np.concatenate([_finer(prepared.temperature[s], m) for s in prepared.segments]),
        segments=command.segments,
        kernel=finer_kernel(cutoff, rate, m),
        slope_kernel=finer_kernel(cutoff, rate, m, 1),
        step=m * prepared.step,
        filter=replace(prepared.filter, inner_rate=m * rate),
        reference=None,
        commands=None,
        second=None,
    )


def simulated_instruments(robot: Robot, prepared: Prepared, motion: Prepared) -> Prepared:
    """Return the recording as instruments see it, from its `simulated` motion: within the band of the motion.

    Accelerations have noise that grows with frequency. Jumps of friction that the simulation shows have no more to say
    about the parameters, and would let that noise in.
    """
    m = motion.step // prepared.step
    coarse = np.concatenate([np.arange(s.start, s.stop, m) for s in motion.segments])
    parts = consecutive_slices([s.stop - s.start for s in prepared.segments])
    assert motion.gear_torque is not None
    same = replace(
        prepared,
        t=motion.t[coarse],
        q=motion.q[coarse],
        tau=motion.tau[coarse],
        gear_torque=motion.gear_torque[coarse],
        bridged=np.concatenate([prepared.bridged[s] for s in prepared.segments]),  # however the loop started
        temperature=None
        if prepared.temperature is None
        else np.concatenate([prepared.temperature[s] for s in prepared.segments]),
        segments=parts,
        reference=None,
    )
    return instrument_motion(robot, same)


def _command(robot: Robot, prepared: Prepared, m: int) -> tuple[Command, Array]:
    """Return the reference at m times the inner rate, and its accelerations (N, n)."""
    from scipy.interpolate import CubicSpline

    rate, commands = prepared.filter.inner_rate, prepared.commands
    if commands is None:
        smooth = instrument_motion(robot, prepared).q
        commands = np.stack((smooth, np.zeros_like(smooth)), axis=1)[:, None]
    parts: list[tuple[Array, ...]] = []
    for segment in prepared.segments:
        every = commands[segment].reshape(-1, *commands.shape[2:])
        N, step = segment.stop - segment.start, commands.shape[1]
        every = every[: (N - 1) * step + 1]
        t, at = np.arange(len(every)) / (step * rate), np.arange(m * (N - 1) + 1) / (m * rate)
        curve = CubicSpline(t, every[:, 0])
        added = np.column_stack([np.interp(at, t, column) for column in every[:, 1].T])
        parts.append((curve(at), curve(at, 1), curve(at, 2), added))
    q, dq, ddq, tau_f = (np.concatenate(column) for column in zip(*parts, strict=True))
    segments = consecutive_slices([len(part[0]) for part in parts])
    return Command(m * rate, q, dq, tau_f, segments), ddq


def _finer(x: Array, m: int) -> Array:
    """Return x, shape (N, n), at m times the rate, linear between samples."""
    at, every = np.arange(m * (len(x) - 1) + 1) / m, np.arange(len(x))
    return np.column_stack([np.interp(at, every, column) for column in x.T])


def _movable(model: ForwardDynamics, command: Command) -> ForwardDynamics:
    """Return the model with heavier rotors, where its inertia matrix is not positive along the motion.

    Errors of a first or poor estimate can make it so. The loop follows its reference whatever the model is, and the
    estimate that follows is compared with the recorded torques by its own values, not by these.
    """
    M = model.inertia(command.q[:: max(1, len(command.q) // 1000)])
    size = np.sqrt(np.maximum(np.abs(np.einsum("tjj->tj", M)).mean(axis=0), 1e-12))
    scaled = 0.5 * (M + M.transpose(0, 2, 1)) / np.outer(size, size)
    least = float(np.linalg.eigvalsh(scaled).min())
    if least >= MOVABLE:
        return model
    robot, chi = model.robot, model.chi.copy()
    chi[[JOINT * (joint - 1) + IA for joint in robot.active]] += (LIFTED - least) * size**2
    return replace(model, chi=chi)


def _following(model: ForwardDynamics, command: Command) -> JointController:
    """Return the controller that follows closely: critically damped at each joint's own mean inertia."""
    M = model.inertia(command.q[:: max(1, len(command.q) // 64)])
    inertia = np.maximum(np.einsum("tjj->tj", M).mean(axis=0), 1e-12)
    w = 2.0 * np.pi * STIFF
    return JointController(inertia * w**2, 2.0 * inertia * w)


def _unusable(prepared: Prepared, command: Command, motion: TrackedMotion, m: int) -> Array:
    """Return the share of each sample that is in bridged gaps, 1 where the loop still remembers its start."""
    parts = []
    for coarse, fine in zip(prepared.segments, command.segments, strict=True):
        bridged = np.repeat(prepared.bridged[coarse], m)[: fine.stop - fine.start].copy()
        bridged[: int(np.ceil(STARTED * motion.time_constant * command.rate))] = 1.0
        parts.append(bridged)
    return np.concatenate(parts)


def first_estimate(problem: Problem) -> Estimate:
    """Return the first model to simulate: the one of plain instruments, which noise does not bias, if they suffice."""
    try:
        return build_instrumental_fit(problem)(None)
    except RankError:
        return wls(problem.information, problem.prior)


def iterate_estimates(first: Estimate, estimate_again: Callable[[Estimate], tuple[Estimate, T]]) -> tuple[Estimate, T]:
    """Return the first estimate that `estimate_again` hardly moves, and what it was made from; refuse if none is."""
    estimate = first
    for _ in range(ROUNDS):
        before, (estimate, source) = estimate, estimate_again(estimate)
        if measure_change(before, estimate) < SETTLED:
            return estimate, source
    what = f"the estimates of {estimate.method} still move after {ROUNDS} simulations of the closed loop"
    raise InputError(what, Text("excite the robot more, or use ", Option("method", Method.IV.value)))


def measure_change(before: Estimate, after: Estimate) -> float:
    """Return the farthest way of a parameter from one estimate to the next, in standard deviations of the latter."""
    std, change = after.std, after.value - before.value
    known = np.isfinite(std) & (std > 0.0)
    exact = np.linalg.norm(after.value) * 1e-12
    return float(np.max(np.abs(change[known]) / np.maximum(std[known], exact), initial=0.0))


class SimulatedRecordings:
    """The recordings as the model of an estimate moves in closed loop, and their rows.

    Which rows are too slow is settled by the first simulation: else rows that come and go would keep estimates moving.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.motions: list[Prepared] = []
        self._keep: dict[int, list[NDArray[np.bool_]]] = {}

    def run(self, estimate: Estimate) -> None:
        """Simulate all recordings with the model of an estimate."""
        problem = self._problem
        robot, chi = model_of_estimate(problem.robot, problem.base, problem.terms, estimate)
        self.motions = [simulated(robot, chi, prepared, problem.controller) for prepared in problem.prepared]

    def instruments(self, number: int) -> Iterator[Rows]:
        """Yield the rows of the simulated motion of recording number `number`, as instruments."""
        problem = self._problem
        motion = simulated_instruments(problem.robot, problem.prepared[number], self.motions[number])
        return self._kept(number, motion)

    def rows(self, number: int) -> Iterator[Rows]:
        """Yield the rows of its simulated motion."""
        return self._kept(number, self.motions[number])

    def _kept(self, number: int, motion: Prepared) -> Iterator[Rows]:
        rows = self._problem.rows_of(motion)
        if number not in self._keep:
            chunks = list(rows)
            self._keep[number] = [chunk.keep for chunk in chunks]
            yield from chunks
        else:
            for chunk, keep in zip(rows, self._keep[number], strict=True):
                yield replace(chunk, keep=keep)
