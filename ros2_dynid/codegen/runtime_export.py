# SPDX-License-Identifier: Apache-2.0

"""The model as one flat file for the C++ runtime in include/ros2_dynid: little endian, versioned, with a checksum.

Layout: magic (8 bytes), version, CRC-32 and length of what follows (4 bytes each), then the model: texts as length and
UTF-8, counts and joint numbers as 4 bytes, numbers as doubles, in the order in which `runtime_bytes` writes them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from ros2_dynid.codegen.loop_code import assembled
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import (
    FIND_GAINS,
    IN_AMPERES,
    AddedEffort,
    ErrorBars,
    added_beyond_model,
    added_by_joint,
    in_amperes,
    measures_gravity,
    with_added_effort,
)
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import JOINT, by_joint, force_slice, standard_names
from ros2_dynid.model.robot import Array, Robot

MAGIC, VERSION, WITH_FORCES, WITH_TEMPERATURE, WITH_ADDED_EFFORT = b"DYNIDRT\n", 1, 2, 3, 4
WITH_RECORDED_SPEEDS = 5
WITH_LOOPS = 6
KNOWN, FIXED, GRAVITY_MEASURED = 1, 2, 4


def runtime_bytes(robot: Robot, chi: Array, bars: ErrorBars | None = None) -> bytes:
    """Return the file's bytes for the robot with standard parameters chi, shape (n_standard,)."""
    if chi.shape != (len(standard_names(robot)),) or not np.all(np.isfinite(chi)):
        raise InputError("a standard parameter is missing or not finite", "identify the robot again", robot.name)
    n = len(robot.active)
    if bars is None:
        bars = ErrorBars(np.full(n, np.nan), np.full(n, np.nan))
    out = bytearray()
    _text(out, robot.name)
    _numbers(out, *robot.gravity, *robot.base[:3, :3].ravel(), *robot.base[:3, 3])
    _write_joints(out, robot, chi)
    _write_couplings(out, robot, chi)
    _write_loops(out, robot)
    thermal = [term for term in robot.friction if term.kind.thermal]
    declared = [robot.joints[j - 1].adds is not None for j in robot.active]
    plain = [term for term in robot.friction if not term.kind.thermal]
    version = VERSION
    if robot.loops is not None:
        version = WITH_LOOPS
    elif any(term.recorded_speed for term in plain):
        version = WITH_RECORDED_SPEEDS
    elif any(declared) or _lacks_a_part(robot):
        version = WITH_ADDED_EFFORT
    elif robot.forces or thermal:
        version = WITH_TEMPERATURE if thermal else WITH_FORCES
    _write_terms(out, [(term, term.shape) for term in plain])
    if version >= WITH_FORCES:
        _write_elastic_elements(out, robot, chi)
    if version >= WITH_TEMPERATURE:
        _write_terms(out, [(term, term.reference) for term in thermal])
    _write_tools(out, robot)
    for sigma, std in zip(bars.sigma, bars.torque_std, strict=True):
        _numbers(out, sigma, std)
    if version >= WITH_ADDED_EFFORT:
        _write_added_efforts(out, robot, declared)
    if version >= WITH_RECORDED_SPEEDS:
        _numbers(out, *(term.recorded_speed for term in plain))
    return MAGIC + struct.pack("<III", version, zlib.crc32(out), len(out)) + bytes(out)


def _write_joints(out: bytearray, robot: Robot, chi: Array) -> None:
    _integers(out, robot.n)
    for joint, parameters in zip(robot.joints, by_joint(robot, chi), strict=True):
        limits = joint.limits
        _text(out, joint.name)
        _integers(out, joint.parent, joint.sigma)
        _numbers(out, joint.gamma, joint.b, joint.alpha, joint.d, joint.theta, joint.r)
        _numbers(out, limits.lower, limits.upper, limits.velocity, limits.acceleration, limits.effort)
        _numbers(out, *parameters)


def _write_couplings(out: bytearray, robot: Robot, chi: Array) -> None:
    _integers(out, len(robot.coupling))
    column = JOINT * robot.n
    for coupling in robot.coupling:
        _integers(out, coupling.motor, coupling.independent_inertia)
        Iam = chi[column] if coupling.independent_inertia else 0.0
        column += coupling.independent_inertia
        _numbers(out, Iam, chi[column], chi[column + 1])
        column += 2
        _weights(out, dict(coupling.weights))


def _write_loops(out: bytearray, robot: Robot) -> None:
    _integers(out, len(robot.passive))
    for passive in robot.passive:
        _integers(out, passive.joint)
        _numbers(out, passive.offset)
        _weights(out, dict(passive.terms))
    if robot.loops is None:
        return
    _integers(out, len(robot.loops.pairs))
    for pivot in [pivot for pair in robot.loops.pairs for pivot in pair]:
        _integers(out, pivot.joint)
        _numbers(out, *pivot.point)
    _integers(out, len(robot.loops.passive), *robot.loops.passive)
    _numbers(out, *assembled(robot))


def _write_terms(out: bytearray, terms: Sequence[tuple[FrictionTerm, float]]) -> None:
    """Write friction terms, each with its shape or its reference temperature."""
    _integers(out, len(terms))
    for term, number in terms:
        _integers(out, term.joint, term.kind.code)
        _numbers(out, term.coefficient, number)


def _write_elastic_elements(out: bytearray, robot: Robot, chi: Array) -> None:
    _integers(out, len(robot.forces))
    coefficients = iter(chi[force_slice(robot)].tolist())
    for force in robot.forces:
        _integers(out, bool(force.pivots))
        _numbers(out, force.rest)
        for pivot in force.pivots:
            _integers(out, pivot.joint)
            _numbers(out, *pivot.point)
        if not force.pivots:
            _weights(out, dict(force.weights))
        _integers(out, len(force.powers))
        for power in force.powers:
            _integers(out, power)
            _numbers(out, next(coefficients))


def _write_added_efforts(out: bytearray, robot: Robot, declared: Sequence[bool]) -> None:
    """Write what the robot adds of the model's torque: what is declared, gravity, the payload's, and of friction."""
    silent = [name for name, one in zip(robot.active_names, declared, strict=True) if not one]
    adds = added_beyond_model(with_added_effort(robot, dict.fromkeys(silent, AddedEffort())))
    assert adds is not None
    if np.any(adds.friction < 0.0):
        what = "the efforts lack more friction than the robot is declared to add"
        raise InputError(what, "use the feedforward node: the C++ runtime cannot command that", robot.name)
    measured = [robot.joints[j - 1].measures for j in robot.active]
    whole = None not in measured and measures_gravity(robot)
    flags = _lacks_a_part(robot) * FIXED | whole * GRAVITY_MEASURED
    for known, *gravity, friction in zip(declared, adds.gravity, adds.payload, adds.friction, strict=True):
        _integers(out, flags | known * KNOWN, *(known and bool(one) for one in gravity))
        _numbers(out, friction if known else 0.0)


def _lacks_a_part(robot: Robot) -> bool:
    """Return whether the measured efforts, and so the model, lack a part of what the motors give.

    A model that would let the arm fall, or whose torques are amperes, is refused: controllers would command it.
    """
    if in_amperes(robot):
        raise InputError(IN_AMPERES, FIND_GAINS, robot.name)
    adds = added_by_joint(robot)
    if adds is not None and not measures_gravity(robot) and not adds.gravity.all():
        what = "the model was identified from efforts without gravity, and the robot is declared not to add it"
        raise InputError(what, "declare adds: gravity, or identify from efforts that hold gravity", robot.name)
    return any(not joint.measured.gravity or joint.measured.missing > 0.0 for joint in robot.joints)


def _write_tools(out: bytearray, robot: Robot) -> None:
    tools = [(link, carrier, pose) for link, (carrier, pose) in robot.tools.items() if carrier]
    _integers(out, len(tools))
    for link, carrier, pose in tools:
        _text(out, link)
        _integers(out, carrier)
        _numbers(out, *pose[:3, :3].ravel(), *pose[:3, 3])


def _text(out: bytearray, text: str) -> None:
    data = text.encode()
    out += struct.pack("<I", len(data)) + data


def _integers(out: bytearray, *values: int) -> None:
    out += struct.pack(f"<{len(values)}I", *values)


def _numbers(out: bytearray, *values: float) -> None:
    out += struct.pack(f"<{len(values)}d", *values)


def _weights(out: bytearray, weights: dict[int, float]) -> None:
    _integers(out, len(weights))
    for joint, weight in weights.items():
        _integers(out, joint)
        _numbers(out, weight)
