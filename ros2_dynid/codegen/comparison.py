# SPDX-License-Identifier: Apache-2.0

"""Generated code against the NumPy recursions on random motions: code that differs must not be used.

The generator rearranges the recursions in many ways to save operations; a mistake in one of them would show for a few
robots only. So every library is compared when it is built, and every exported program when it is generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ros2_dynid.codegen.compiled import BLOCK, Library
from ros2_dynid.codegen.emit_c import Program
from ros2_dynid.codegen.graph import evaluate
from ros2_dynid.codegen.loop_code import assembled
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.kinematics import motion_of, random_positions
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot

TOLERANCE = 1e-9
"""Largest difference that is rounding, relative to the largest value.

Rounding gives 1e-15 for each of some hundred operations, and up to 1e3 times as much where constants were exchanged
(representation.LARGEST). A term that is wrong or missing gives more than 1e-4.
"""
SAMPLES = BLOCK + 1
"""Random motions of a library: one more than a block, so that the last block overlaps the one before."""
SINGLE_CALLS = 4
"""Motions of which the torque of a single call is compared as well."""


def library_error(library: Library, kind: str, robot: Robot) -> float:
    """Return the largest difference of a library's results from NumPy's, relative to the largest result.

    kind: "torque", "regressor" or "energy". Friction terms beyond Fv, Fc and off are no part of a library.
    """
    robot = replace(robot, friction=())
    rng = np.random.default_rng(0)
    q = random_positions(robot, rng, SAMPLES, np.pi)
    dq, ddq = (rng.uniform(-np.pi, np.pi, q.shape) for _ in range(2))
    if kind == "torque":
        chi = rng.normal(size=len(standard_names(robot)))
        torque = library.Torque(chi)
        joints = q if robot.loops is None else motion_of(robot, q).q.T.copy()
        single = [torque.torque(*motion) for motion in zip(joints[:SINGLE_CALLS], dq, ddq, strict=False)]
        tau = inverse_dynamics(robot, chi, q, dq, ddq)
        error = relative_error(
            np.vstack((torque.torques(joints, dq, ddq), single)), np.vstack((tau, tau[:SINGLE_CALLS]))
        )
        return error if robot.loops is None else float(np.maximum(error, _closing_error(library, robot, q, joints)))
    expected = regressor(robot, q, dq, ddq) if kind == "regressor" else energy_regressor(robot, q, dq)
    results = np.zeros(expected.T.shape)  # samples last
    library.fill(*((q, dq, ddq) if kind == "regressor" else (q, dq)), results)
    return relative_error(results.T, expected)


def _closing_error(library: Library, robot: Robot, q: Array, joints: Array) -> float:
    """Return how far closed positions, from the pose of assembly to the samples nearest to it, are off those of NumPy.

    Positions that the library refuses do no harm; NaN if it refuses all. Angles count as points of the unit circle.
    """
    start = assembled(robot)
    active = [j - 1 for j in robot.active]
    nearest = np.argsort(np.abs(q - start[active]).max(axis=1))[:SINGLE_CALLS]
    errors = []
    for sample in nearest:
        pose = start.copy()
        if library.close(q[sample], pose):
            errors.append(float(np.abs(np.exp(1j * pose) - np.exp(1j * joints[sample])).max()))
    return max(errors, default=np.nan)


def program_error(program: Program) -> float:
    """Return the largest difference of a program's functions from its reference samples, relative to the largest."""
    pairs = [pair for test in program.tests for pair in _outputs(program, test)]
    if not pairs:  # the synchronous task alone
        return 0.0
    return relative_error(*(np.concatenate(values) for values in zip(*pairs, strict=True)))


def _outputs(program: Program, test: Mapping[str, Array]) -> Iterator[tuple[Array, Array]]:
    """Yield for each function what its graph gives for a reference sample, and what it should give."""
    expected = {
        "torque": test["tau"],
        "inertia_gravity": np.concatenate((test["M"].ravel(), test["Q"])),
        "velocity_torques": test["C"],
        "friction": test["F"],
    }
    parameters = np.concatenate((program.values, test["load"]))
    for name, function in program.functions.items():
        if name in expected:  # the synchronous task is a product of matrix and vector
            constants = dict(zip(function.constants, function.rows @ parameters, strict=True))
            variables = {array: values.ravel().tolist() for array, values in test.items()}
            outputs = evaluate(function.graph, function.outputs, variables, constants)
            yield np.array(outputs, dtype=float), expected[name]


def relative_error(results: Array, expected: Array) -> float:
    """Return the largest |results - expected| over the largest |expected|; NaN where a result is none."""
    return float(np.abs(results - expected).max() / max(np.abs(expected).max(), np.finfo(float).tiny))
