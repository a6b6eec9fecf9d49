# SPDX-License-Identifier: Apache-2.0

"""Dynamics by the compiled library where there is one, and by NumPy, with one warning, where there is none.

Same arguments, same results (to rounding) and same refusals as in `ros2_dynid.dynamics`. $DYNID_BACKEND chooses: "auto"
(default: compiled if built already or if the batch is large enough to build for), "compiled" (build always) or "numpy".
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.codegen.compiled import BLOCK, BuildError, Library, is_ready, library
from ros2_dynid.codegen.loop_code import assembled
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.friction import frictionless, terms_torque
from ros2_dynid.dynamics.kinematics import Motion, check_samples, motion_of, velocity_ratios
from ros2_dynid.dynamics.newton_euler import checked_standard, inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot, open_tree

MIN_BUILD_SAMPLES = 2000
"""From this number of samples on a library is built for a batch, which takes seconds, once."""
BACKENDS = ("auto", "compiled", "numpy")
_warned = False


class InverseDynamics(Protocol):
    """Inverse dynamics of one robot with one set of parameters."""

    def torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of one sample, shape (n_active,) [N.m, N]."""

    def torques(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of many samples, shape (N, n_active) [N.m, N]; compiled: at least BLOCK samples."""


class NumpyTorque:
    """The same by the NumPy recursion."""

    def __init__(self, robot: Robot, chi: Array) -> None:
        """Keep robot and standard parameters."""
        self._robot, self._chi = robot, chi

    def torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of one sample, shape (n_active,)."""
        rows = [np.asarray(x, dtype=float)[None] for x in (q, dq, ddq)]
        return np.asarray(inverse_dynamics(self._robot, self._chi, *rows)[0])

    def torques(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of many samples, shape (N, n_active)."""
        return inverse_dynamics(self._robot, self._chi, q, dq, ddq)


class LoopTorque:
    """The torque of a robot with closed loops by NumPy; the loops are followed from one sample to the next."""

    def __init__(self, robot: Robot, chi: Array) -> None:
        """Prepare the tree's torque."""
        self._robot = robot
        self._tree = torque_function(open_tree(robot), chi)
        self._near: Array | None = None

    def torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of one sample, shape (n_active,), or refuse positions where the loops do not close."""
        rows = [np.asarray(x, dtype=float)[None] for x in (q, dq, ddq)]
        motion = motion_of(self._robot, *rows, near=self._near)
        self._near = motion.q[:, 0].copy()
        tau = self._tree.torque(self._near, motion.dq[:, 0].copy(), motion.ddq[:, 0].copy())
        return motion.to_active(tau[:, None])[:, 0]

    def ratios(self, q: Array) -> Array:
        """Return dq/dq_active of all joints, shape (n, n_active), or refuse positions where the loops do not close."""
        return np.asarray(velocity_ratios(self._robot, np.asarray(q, dtype=float)[None], near=self._near)[0])

    def torques(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of many samples, shape (N, n_active)."""
        motion = motion_of(self._robot, q, dq, ddq)
        return motion.to_active(self._tree.torques(*_tree_motion(motion)).T).T


class CompiledLoopTorque:
    """The same by generated code, which closes the loops in bounded time, or refuses."""

    def __init__(self, robot: Robot, chi: Array, kernel: Library) -> None:
        """Begin at the pose of assembly."""
        self._robot, self._kernel = robot, kernel
        self._generated = kernel.Torque(chi)
        self._assembly = assembled(robot)
        self._joints = self._assembly.copy()

    def torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of one sample, shape (n_active,), or refuse positions where the loops do not close."""
        return np.asarray(self._generated.torque(self._close(q), dq, ddq))

    def ratios(self, q: Array) -> Array:
        """Return dq/dq_active of all joints, shape (n, n_active), or refuse positions where the loops do not close."""
        return np.asarray(self._kernel.ratios(self._close(q)))

    def _close(self, q: Array) -> Array:
        """Return closed positions of all joints, from those of the last call or the assembly; threads may share it."""
        for start in (self._joints, self._assembly):
            joints = start.copy()
            if self._kernel.close(q, joints):
                self._joints = joints
                return joints
        raise InputError(
            f"the loops do not close at {', '.join(f'{x:.6g}' for x in q)}, or the pose is nearly singular",
            "give positions that the linkage reaches, and limits of the joints within",
            self._robot.name,
        )

    def torques(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of many samples, shape (N, n_active); at least BLOCK."""
        joints = np.ascontiguousarray(motion_of(self._robot, q).q.T)
        return np.asarray(self._generated.torques(joints, dq, ddq))


def _tree_motion(motion: Motion) -> tuple[Array, Array, Array]:
    """Return q, dq, ddq of all joints with samples first, shape (N, n)."""
    q, dq, ddq = (np.ascontiguousarray(x.T) for x in (motion.q, motion.dq, motion.ddq))
    return q, dq, ddq


class TermsTorque:
    """The torque of a robot with friction terms: generated code for the rest, and the terms added to it."""

    def __init__(self, robot: Robot, chi: Array) -> None:
        """Prepare the torque with plain friction, and the one without, which the gears carry."""
        self._robot = robot
        self._plain = torque_function(replace(robot, friction=()), chi)
        self._rigid = torque_function(*frictionless(robot, chi))

    def torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of one sample, shape (n_active,)."""
        dq = np.asarray(dq, dtype=float)
        return self._plain.torque(q, dq, ddq) + terms_torque(
            self._robot, dq, np.sign(dq), self._rigid.torque(q, dq, ddq)
        )

    def torques(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of many samples, shape (N, n_active)."""
        return self._plain.torques(q, dq, ddq) + terms_torque(
            self._robot, dq, np.sign(dq), self._rigid.torques(q, dq, ddq)
        )


def torque_function(robot: Robot, chi: ArrayLike) -> InverseDynamics:
    """Return an object whose `torque(q, dq, ddq)` is the fastest way from Python to the torque of one sample.

    chi: standard parameters, shape (n_standard,). Its arrays are not checked for numbers that are not finite.
    """
    chi = checked_standard(robot, chi)
    if robot.friction:
        return TermsTorque(robot, chi)
    kernel = _library(robot, "torque", MIN_BUILD_SAMPLES)
    if robot.loops is not None:
        return LoopTorque(robot, chi) if kernel is None else CompiledLoopTorque(robot, chi, kernel)
    return NumpyTorque(robot, chi) if kernel is None else kernel.Torque(chi)


def fast_inverse_dynamics(
    robot: Robot, chi: ArrayLike, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike, temperature: Array | None = None
) -> Array:
    """Return tau = Y chi, shape (N, n_active) [N.m, N]; see dynamics.newton_euler.inverse_dynamics."""
    chi = checked_standard(robot, chi)
    arrays = _check_motion(robot, q=q, dq=dq, ddq=ddq)
    N = len(arrays[0])
    if robot.friction:
        gear_torque = fast_inverse_dynamics(*frictionless(robot, chi), *arrays)
        plain = fast_inverse_dynamics(replace(robot, friction=()), chi, *arrays)
        return plain + terms_torque(robot, arrays[1], np.sign(arrays[1]), gear_torque, temperature)
    if robot.loops is not None:
        motion = motion_of(robot, *arrays)
        return motion.to_active(fast_inverse_dynamics(open_tree(robot), chi, *_tree_motion(motion)).T).T
    kernel = _library(robot, "torque", N) if N else None
    if kernel is None:
        return inverse_dynamics(robot, chi, *arrays)
    return np.asarray(kernel.Torque(chi).torques(*pad_to_block(arrays)))[:N]


def fast_regressor(robot: Robot, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike, *, out: Array | None = None) -> Array:
    """Return Y, shape (N, n_active, n_standard), such that tau = Y chi; see dynamics.regressor.regressor.

    The memory behind it is one column after the other, joint by joint, as there. out: an array that this function
    returned for the same robot and number of samples, to be filled again instead of new memory.
    """
    arrays = _check_motion(robot, q=q, dq=dq, ddq=ddq)
    N = len(arrays[0])
    shape = (len(standard_names(robot)), len(robot.active), N)
    if out is not None and (out.transpose().shape != shape or not out.transpose().flags.c_contiguous):
        raise InputError("out does not fit", "give the array that an equal call returned", robot.name)
    kernel = _library(robot, "regressor", N) if N and robot.loops is None else None
    if kernel is None:
        Y = regressor(robot, *arrays) if robot.loops is None else _closed_regressor(robot, arrays)
        if out is not None:
            out[...] = Y
            return out
        return Y
    if N < BLOCK:
        memory = np.zeros((*shape[:2], BLOCK))
        kernel.fill(*pad_to_block(arrays), memory)
        Y = np.ascontiguousarray(memory[..., :N]).transpose()
        if out is not None:
            out[...] = Y
            return out
        return Y
    memory = np.zeros(shape) if out is None else out.transpose()
    kernel.fill(*arrays, memory)
    return memory.transpose()


def _closed_regressor(robot: Robot, arrays: list[Array]) -> Array:
    """Return the regressor of a robot with closed loops: that of the open tree, felt at the active joints."""
    motion = motion_of(robot, *arrays)
    Y = fast_regressor(open_tree(robot), *_tree_motion(motion))
    return motion.to_active(Y.transpose(2, 1, 0)).transpose(2, 1, 0)


def regressor_function(robot: Robot, samples: int) -> Callable[[Array, Array, Array], Array]:
    """Return a function of q, dq, ddq, shape (N, n_active), to the memory of Y, shape (n_standard, n_active, N).

    For batch after batch, `samples` in all: the library is looked up once, and the function's memory is used again, so
    what it returned changes with the next call. Its arrays are not checked for numbers that are not finite.
    """
    kernel = _library(robot, "regressor", samples) if robot.loops is None else None
    shape = (len(standard_names(robot)), len(robot.active))
    memory: dict[int, Array] = {}

    def fill(q: Array, dq: Array, ddq: Array) -> Array:
        N = len(q)
        if kernel is None or N < BLOCK:
            Y = regressor(robot, q, dq, ddq) if robot.loops is None else fast_regressor(robot, q, dq, ddq)
            return Y.transpose(2, 1, 0)
        if N not in memory:
            memory.clear()
            memory[N] = np.zeros((*shape, N))
        kernel.fill(*(np.ascontiguousarray(x, dtype=float) for x in (q, dq, ddq)), memory[N])
        return memory[N]

    return fill


def fast_energy_regressor(robot: Robot, q: ArrayLike, dq: ArrayLike) -> Array:
    """Return h, shape (N, n_standard), such that H = h chi [J]; see dynamics.energy.energy_regressor."""
    arrays = _check_motion(robot, q=q, dq=dq)
    N = len(arrays[0])
    if robot.loops is not None:
        q_tree, dq_tree, _ = _tree_motion(motion_of(robot, *arrays))
        return fast_energy_regressor(open_tree(robot), q_tree, dq_tree)
    kernel = _library(robot, "energy", N) if N else None
    if kernel is None:
        return energy_regressor(robot, *arrays)
    memory = np.zeros((len(standard_names(robot)), max(N, BLOCK)))
    kernel.fill(*pad_to_block(arrays), memory)
    return memory[:, :N].transpose()


def _library(robot: Robot, kind: str, samples: int) -> Library | None:
    """Return the compiled library, or None where NumPy is to serve."""
    global _warned
    choice = os.environ.get("DYNID_BACKEND", "auto")
    if choice not in BACKENDS:
        raise InputError(f"DYNID_BACKEND is {choice!r}", f"choose from {', '.join(BACKENDS)}")
    if choice == "numpy" or (choice == "auto" and samples < MIN_BUILD_SAMPLES and not is_ready(robot, kind)):
        return None
    try:
        return library(robot, kind)
    except (BuildError, ImportError, OSError) as error:
        if choice == "compiled":
            raise
        if not _warned:
            _warned = True
            warnings.warn(f"the slower NumPy backend is used: {error}", RuntimeWarning, stacklevel=3)
        return None


def _check_motion(robot: Robot, **arrays: ArrayLike) -> list[Array]:
    """Return the arrays as (N, n_active) of finite doubles, C order, all of one shape, or refuse them."""
    result: list[Array] = []
    for name, values in arrays.items():
        result.append(check_samples(robot, values, name))
        if len(result[-1]) != len(result[0]):
            what, n = f"{name} has shape {result[-1].shape}", len(robot.active)
            raise InputError(what, f"give samples by joints, (N, {n})", robot.name)
    return result


def pad_to_block(arrays: list[Array]) -> list[Array]:
    """Return arrays of at least BLOCK samples, the last one repeated."""
    missing = BLOCK - len(arrays[0])
    return arrays if missing <= 0 else [np.concatenate((a, np.repeat(a[-1:], missing, axis=0))) for a in arrays]
