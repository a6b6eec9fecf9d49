# SPDX-License-Identifier: Apache-2.0

"""Between identified models and the BaseParameters message."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point

from ros2_dynid.errors import InputError
from ros2_dynid.identification import model_file
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.torque_std import TorqueScatter, bars_of
from ros2_dynid.model import efforts, forces, friction_kinds
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.forces import SYMBOLS
from ros2_dynid.model.parameters import standard_names, unit_of
from ros2_dynid.model.robot import NO_LOOPS, Coupling, Joint, Loops, Passive, Robot
from ros2_dynid.model.same_robot import GEOMETRY
from ros2_dynid.msg import (
    AddedEffort,
    BaseParameter,
    BaseParameters,
    ClosedLoops,
    ElasticElement,
    FrictionTerm,
    JointCoupling,
    MdhJoint,
    PassiveJoint,
    TorqueError,
)
from ros2_dynid.nodes.common.messages import matrix_of, transform_message


def mdh_messages(robot: Robot) -> list[MdhJoint]:
    """Return the modified DH table."""
    return [
        MdhJoint(
            name=joint.name, parent=joint.parent, sigma=joint.sigma, **{k: float(getattr(joint, k)) for k in GEOMETRY}
        )
        for joint in robot.joints
    ]


def model_id(model: IdentifiedModel) -> str:
    """Return a mark that differs whenever joints, gravity or the choice of base parameters differ."""
    robot = model.robot
    parts = [*robot.base.ravel(), *robot.gravity]
    parts += [value for j in robot.joints for value in (j.parent, j.sigma, *(getattr(j, key) for key in GEOMETRY))]
    parts += [value for c in robot.coupling for pair in c.weights.items() for value in (c.motor, *pair)]
    parts += [value for p in robot.passive for pair in p.terms.items() for value in (p.joint, p.offset, *pair)]
    for force in robot.forces:
        parts += [*force.powers, *(value for pair in force.weights.items() for value in pair), force.rest]
        parts += [value for pivot in force.pivots for value in (pivot.joint, *pivot.point)]
    loops = robot.loops or NO_LOOPS
    parts += [*loops.passive, *(value for pair in loops.assembly.items() for value in pair)]
    parts += [value for pair in loops.pairs for pivot in pair for value in (pivot.joint, *pivot.point)]
    text = ";".join([*(j.name for j in robot.joints), *model.leaders, *(f"{part:.9g}" for part in parts)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def model_message(model: IdentifiedModel, stamp: Time, base_link: str) -> BaseParameters:
    """Return the message of a model whose gravity and base are given in the frame `base_link`."""
    robot = model.robot
    message = BaseParameters(robot=robot.name, model_id=model_id(model), joints=mdh_messages(robot))
    message.header.stamp, message.header.frame_id = stamp, base_link
    message.couplings, message.passive = _coupling_messages(robot), _passive_messages(robot)
    message.loops = _loops_message(robot)
    message.base = transform_message(robot.base)
    message.gravity.x, message.gravity.y, message.gravity.z = map(float, robot.gravity)
    message.parameters = [
        BaseParameter(
            name=name,
            leader=leader,
            expression=model.expression(k),
            unit=unit_of(robot, leader),
            value=float(model.served[k]),
            std=float(model.std[k]) if math.isfinite(model.std[k]) else math.nan,
        )
        for k, (name, leader) in enumerate(zip(model.names, model.leaders, strict=True))
    ]
    message.friction, message.elastic_elements = _friction_messages(robot), _elastic_messages(robot)
    message.added_efforts = [
        AddedEffort(joint=j.name, gravity=j.adds.gravity, payload=j.adds.payload, friction=float(j.adds.friction))
        for j in robot.joints
        if j.adds is not None
    ]
    if any(robot.joints[j - 1].measures is not None for j in robot.active):
        message.measured_efforts = [str(robot.joints[j - 1].measured) for j in robot.active]
        message.effort_gains = efforts.effort_gains(robot).tolist()
    if np.all(np.isfinite(model.covariance)):
        message.covariance = model.covariance.ravel().tolist()
    message.method = str(model.obtained.get("method", ""))
    rows, cond = model.obtained.get("rows"), model.obtained.get("cond")
    message.rows = rows if isinstance(rows, int) else 0
    message.cond = float(cond) if isinstance(cond, float | int) else math.nan
    message.fit, message.validation = _errors(model.fit), _errors(model.validation)
    return message


def model_of_message(message: BaseParameters) -> tuple[Robot, np.ndarray]:
    """Return the robot and standard parameters chi with the same torques: the leaders take the values."""
    joints = tuple(
        Joint(j.name, j.parent, j.sigma, **{key: getattr(j, key) for key in GEOMETRY}) for j in message.joints
    )
    gravity = np.array((message.gravity.x, message.gravity.y, message.gravity.z))
    coupling = tuple(
        Coupling(c.motor, dict(zip(c.joints, c.weights, strict=False)), c.independent_inertia)
        for c in message.couplings
    )
    passive = tuple(
        Passive(p.joint, dict(zip(p.joints, p.coefficients, strict=False)), p.offset) for p in message.passive
    )
    robot = Robot(
        message.robot or "robot",
        joints,
        gravity=gravity,
        base=matrix_of(message.base),
        coupling=coupling,
        passive=passive,
        loops=_loops_of(message.loops),
        friction=_friction_of(message),
        forces=_forces_of(message),
    )
    adds = {one.joint: efforts.AddedEffort(one.gravity, one.payload, one.friction) for one in message.added_efforts}
    robot = _with_measured_efforts(efforts.with_added_effort(robot, adds), message)
    place = {name: k for k, name in enumerate(standard_names(robot))}
    chi = np.zeros(len(place))
    if not robot.forces and any(parameter.leader.startswith(SYMBOLS) for parameter in message.parameters):
        hint = "load its model.yaml: the message does not carry their geometry"
        raise InputError("the model has springs, cylinders or cables", hint)
    for parameter in message.parameters:
        if parameter.leader not in place or not math.isfinite(parameter.value):
            raise InputError(f"base parameter {parameter.name!r} is unknown or not finite", "publish a whole model")
        chi[place[parameter.leader]] = parameter.value
    return robot, chi


def _with_measured_efforts(robot: Robot, message: BaseParameters) -> Robot:
    """Return the robot with what the message says of its measured efforts."""
    texts, gains, names = message.measured_efforts, message.effort_gains, robot.active_names
    if not texts:
        return robot
    if len(texts) != len(names) or len(gains) not in (0, len(names)):
        raise InputError(f"{len(texts)} measured efforts for {len(names)} joints", "publish a whole model")
    measures = [
        replace(efforts.parse_sensor(text), gain=float(gain))
        for text, gain in zip(texts, gains or [1.0] * len(names), strict=True)
    ]
    return efforts.with_sensors(robot, dict(zip(names, measures, strict=True)))


def bars_of_message(message: BaseParameters, robot: Robot) -> ErrorBars | None:
    """Return how far the model's torques may be wrong; None if the message does not tell its covariance and fit."""
    b, rms = len(message.parameters), {row.joint: row.rms for row in message.fit}
    sigma = np.array([rms.get(name, math.nan) for name in robot.active_names])
    if len(message.covariance) != b * b or not np.any(np.isfinite(sigma)):
        return None
    std = np.array([parameter.std for parameter in message.parameters])
    spread = TorqueScatter(np.array(message.covariance).reshape(b, b), np.isfinite(std), sigma)
    return bars_of(robot, [parameter.leader for parameter in message.parameters], spread)


def _friction_messages(robot: Robot) -> list[FrictionTerm]:
    return [
        FrictionTerm(
            joint=term.joint,
            term=str(term.kind),
            coefficient=float(term.coefficient),
            std=math.nan if term.std is None else float(term.std),
            speed=float(term.speed),
            speed_std=math.nan if term.speed_std is None else float(term.speed_std),
            exponent=float(term.exponent),
            exponent_std=math.nan if term.exponent_std is None else float(term.exponent_std),
            reference=float(term.reference),
            recorded_speed=float(term.recorded_speed),
        )
        for term in robot.friction
    ]


def _friction_of(message: BaseParameters) -> tuple[friction_kinds.FrictionTerm, ...]:
    kinds = {str(kind): kind for kind in friction_kinds.FrictionKind}
    unknown = [term.term for term in message.friction if term.term not in kinds]
    if unknown:
        raise InputError(f"unknown friction term {unknown[0]!r}", f"choose from {', '.join(kinds)}")
    return tuple(
        friction_kinds.FrictionTerm(
            term.joint,
            kinds[term.term],
            term.coefficient,
            _known(term.std),
            term.speed,
            _known(term.speed_std) if term.speed else None,
            exponent=term.exponent,
            exponent_std=_known(term.exponent_std) if term.exponent else None,
            reference=term.reference,
            recorded_speed=term.recorded_speed,
        )
        for term in message.friction
    )


def _known(std: float) -> float | None:
    return std if math.isfinite(std) else None


def _elastic_messages(robot: Robot) -> list[ElasticElement]:
    return [
        ElasticElement(
            name=force.name,
            type=str(force.kind),
            powers=list(force.powers),
            rest=float(force.rest),
            joints=list(force.weights),
            weights=[float(weight) for weight in force.weights.values()],
            pivot_joints=[pivot.joint for pivot in force.pivots],
            pivots=[Point(**dict(zip("xyz", map(float, pivot.point), strict=True))) for pivot in force.pivots],
        )
        for force in robot.forces
    ]


def _forces_of(message: BaseParameters) -> tuple[forces.Force, ...]:
    kinds = {str(kind): kind for kind in forces.ForceKind}
    elements = []
    for one in message.elastic_elements:
        if one.type not in kinds:
            raise InputError(
                f"elastic element {one.name!r} is of the unknown type {one.type!r}", f"choose from {', '.join(kinds)}"
            )
        if len(one.joints) != len(one.weights) or len(one.pivot_joints) != len(one.pivots):
            raise InputError(f"elastic element {one.name!r} needs one value per joint", "publish a whole model")
        pivots = tuple(
            forces.Pivot(int(joint), (point.x, point.y, point.z))
            for joint, point in zip(one.pivot_joints, one.pivots, strict=True)
        )
        weights = {int(joint): float(weight) for joint, weight in zip(one.joints, one.weights, strict=True)}
        powers = tuple(int(power) for power in one.powers)
        elements.append(forces.Force(one.name, kinds[one.type], powers, weights, pivots, one.rest))
    return tuple(elements)


def _coupling_messages(robot: Robot) -> list[JointCoupling]:
    return [
        JointCoupling(
            motor=c.motor,
            joints=list(c.weights),
            weights=[float(weight) for weight in c.weights.values()],
            independent_inertia=c.independent_inertia,
        )
        for c in robot.coupling
    ]


def _loops_message(robot: Robot) -> ClosedLoops:
    loops = robot.loops or NO_LOOPS
    pivots = [pivot for pair in loops.pairs for pivot in pair]
    return ClosedLoops(
        pivot_joints=[pivot.joint for pivot in pivots],
        pivots=[Point(**dict(zip("xyz", map(float, pivot.point), strict=True))) for pivot in pivots],
        passive=list(loops.passive),
        assembly=[float(loops.assembly.get(j, 0.0)) for j in range(1, robot.n + 1)] if pivots else [],
    )


def _loops_of(message: ClosedLoops) -> Loops | None:
    if not message.passive and not message.pivots:
        return None
    if len(message.pivots) != len(message.pivot_joints) or len(message.pivots) % 2:
        raise InputError("the points of the closed loops are not pairs", "publish a whole model")
    pivots = [
        forces.Pivot(int(joint), (point.x, point.y, point.z))
        for joint, point in zip(message.pivot_joints, message.pivots, strict=True)
    ]
    assembly = {j: float(position) for j, position in enumerate(message.assembly, start=1)}
    return Loops(tuple(zip(pivots[::2], pivots[1::2], strict=True)), tuple(map(int, message.passive)), assembly)


def _passive_messages(robot: Robot) -> list[PassiveJoint]:
    return [
        PassiveJoint(
            joint=p.joint,
            joints=list(p.terms),
            coefficients=[float(coefficient) for coefficient in p.terms.values()],
            offset=float(p.offset),
        )
        for p in robot.passive
    ]


def _errors(table: Mapping[str, model_file.TorqueError]) -> list[TorqueError]:
    return [TorqueError(joint=joint, rms=row.rms, relative=row.relative) for joint, row in table.items()]
