# SPDX-License-Identifier: Apache-2.0

"""Robot files: a robot by its modified DH table, or additions to a URDF. Unknown keys are errors.

`angle_unit` is the unit of gamma, alpha and theta; everything else in a robot file is in SI units.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ros2_dynid.codec import Plain
from ros2_dynid.errors import InputError, suggest
from ros2_dynid.model.efforts import (
    CHOICES,
    AddedEffort,
    MeasuredEffort,
    added_effort,
    parse_sensor,
    with_added_effort,
    with_gain,
    with_sensors,
)
from ros2_dynid.model.files import as_mapping, as_number, as_pose, as_vector, check_keys
from ros2_dynid.model.forces import COEFFICIENTS, SYMBOLS, Force, ForceKind, Pivot
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.from_urdf import ChainOptions
from ros2_dynid.model.mdh import NOTE_ANGLE, snap_angle
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import (
    PRISMATIC,
    REVOLUTE,
    STANDARD_GRAVITY,
    Array,
    Coupling,
    Joint,
    Limits,
    Loops,
    Passive,
    Robot,
    Servo,
)

MODEL_FORMAT = "ros2_dynid/model"
"""What a model.yaml says that it is."""
ANGLES = ("gamma", "alpha", "theta")
LENGTHS = ("b", "d", "r")
TYPES = {"revolute": REVOLUTE, "continuous": REVOLUTE, "prismatic": PRISMATIC}
LIMITS = ("lower", "upper", "velocity", "acceleration", "effort")
ROBOT_KEYS = (
    *("name", "urdf", "base_link", "tip_link", "hold", "floating_base", "joint_limits", "angle_unit", "gravity"),
    *("base", "tools", "joints", "drives", "coupling", "passive", "loops", "forces", "parameters", "friction", "notes"),
)
TERM_NUMBERS = ("coefficient", "std", "speed", "speed_std", "exponent", "exponent_std", "reference", "recorded_speed")
URDF_KEYS = ("base_link", "tip_link", "hold", "floating_base", "joint_limits")
JOINT_KEYS = ("name", "parent", "type", "sigma", *ANGLES, *LENGTHS, "limits", "symbols", "sensor", "servo")

UrdfReader = Callable[[str, ChainOptions], Robot]
"""Reads the URDF that a robot file names, given the path and the sub-chain to read."""


def robot_from_dict(
    data: object, source: str, *, read_urdf: UrdfReader | None = None, snap: bool = False, name: str = "robot"
) -> Robot:
    """Return the robot of a robot file's data.

    `source` names the file in errors, `read_urdf` reads the URDF it may refine, `name` is for a file without one;
    with `snap`, angles within 1e-5 rad of a multiple of pi/2 are taken as exact, with a note.
    """
    top = as_mapping(data, "the robot file", source)
    check_keys(top, ROBOT_KEYS, "the robot file", source)
    if top.get("urdf") is not None:
        robot = _refine(_read_urdf(top, read_urdf, source), top, source)
    else:
        for key in URDF_KEYS:
            if key in top and key != "joint_limits":
                raise InputError(f"{key} without urdf", "name a URDF, or remove it", source)
        robot = _table(top, source, name, snap)
    robot = _with_loops(_with_names(robot, top, source), top, source)
    robot = _with_drives(robot, top, source)
    robot, coefficients = _with_forces(robot, top, source)
    parameters = dict(robot.parameters) | coefficients | _parameters(robot, top, source)
    try:
        robot = replace(robot, parameters=parameters, friction=_friction(robot, top, source))
        measures = {joint.name: joint.measures for joint in robot.joints if joint.measures is not None}
        return with_sensors(robot, measures) if measures else robot
    except InputError as error:
        raise InputError(error.what, error.hint, source) from None


def robot_from_model(data: Mapping[object, object], source: str) -> Robot:
    """Return the robot of a model.yaml with the identified parameters as its a priori ones.

    They are those of links where the model has them, else the base parameters at their leaders, with the same torques.
    A model of position servos has none: its robot is the one described.
    """
    robot = as_mapping(data.get("robot"), "robot", source)
    if data.get("servo") is not None:
        return robot_from_dict(robot, source)
    values = data.get("consistent") if data.get("serve") == "consistent" else data.get("standard")
    if values is None:
        rows = data.get("base")
        rows = [as_mapping(row, "base", source) for row in rows] if isinstance(rows, list) else []
        values = {row.get("leader"): row.get("value") for row in rows}
    return robot_from_dict({**robot, "parameters": values}, source)


def _read_urdf(top: Mapping[object, object], read_urdf: UrdfReader | None, source: str) -> Robot:
    path = top["urdf"]
    if not isinstance(path, str) or read_urdf is None:
        raise InputError(f"urdf: {path!r}", "give the path of a URDF, from a robot file on disk", source)
    hold = as_mapping(top.get("hold") or {}, "hold", source)
    base_link, tip_link = (None if top.get(key) is None else str(top[key]) for key in ("base_link", "tip_link"))
    positions = {str(joint): as_number(value, f"hold of {joint}", source) for joint, value in hold.items()}
    floating = top.get("floating_base", False)
    if not isinstance(floating, bool):
        raise InputError(f"floating_base: {floating!r}", "use true or false", source)
    options = ChainOptions(base_link=base_link, tip_link=tip_link, hold=positions, floating_base=floating)
    return read_urdf(path, options)


def _table(top: Mapping[object, object], source: str, name: str, snap: bool) -> Robot:
    """Return the robot of the table under joints."""
    entries = top.get("joints")
    if not isinstance(entries, list) or not entries:
        raise InputError("there are no joints", "list them under joints:, or name a URDF under urdf:", source)
    unit = top.get("angle_unit", "rad")
    if unit not in ("rad", "deg"):
        raise InputError(f"angle_unit {unit!r}", "use rad or deg", source)
    rounded_angles: list[str] = []
    joints: list[Joint] = []
    for entry in entries:
        joints.append(_joint(entry, joints, unit, rounded_angles if snap else None, source))
    notes = (
        [f"rounded angles taken as exact multiples of 90 deg: joint {', '.join(rounded_angles)}"]
        if rounded_angles
        else []
    )
    gravity = as_vector(top.get("gravity", STANDARD_GRAVITY), "gravity", source)
    base = as_pose(top["base"], "base", source) if "base" in top else np.eye(4)
    tools = _tools(top, joints, source)
    notes += _notes(top, source)
    try:
        return Robot(
            name=str(top.get("name", name)),
            joints=tuple(joints),
            gravity=gravity,
            base=base,
            tools=tools,
            notes=tuple(notes),
        )
    except InputError as error:
        raise InputError(error.what, error.hint, source) from None


def _refine(robot: Robot, top: Mapping[object, object], source: str) -> Robot:
    """Return the URDF's robot with the limits, symbols, gravity and name that the robot file gives."""
    for key in ("base", "tools", "angle_unit"):
        if key in top:
            raise InputError(f"{key} beside urdf", "remove it: the URDF gives the geometry", source)
    joints = list(robot.joints)
    entries = top.get("joints", [])
    if not isinstance(entries, list):
        raise InputError("joints is not a list", "write - {name: NAME, limits: {...}}", source)
    for entry in entries:
        entry = as_mapping(entry, "an entry of joints", source)
        number = _joint_number(entry.get("name"), joints, "joints", source)
        check_keys(
            entry, ("name", "limits", "symbols", "sensor", "servo"), f"joint {entry['name']!r} beside urdf", source
        )
        joint = joints[number - 1]
        limits = _limits(entry.get("limits", {}), joint.limits, joint.name, source)
        symbols, measures = _symbols(entry, joint.name, source), _sensor(entry, joint.name, source)
        servo = _servo(entry, joint.name, source) or joint.servo
        joints[number - 1] = replace(joint, limits=limits, symbols=symbols, measures=measures, servo=servo)
    gravity = as_vector(top["gravity"], "gravity", source) if "gravity" in top else robot.gravity
    name = str(top.get("name", robot.name))
    return replace(robot, name=name, joints=tuple(joints), gravity=gravity, notes=(*robot.notes, *_notes(top, source)))


def _with_names(robot: Robot, top: Mapping[object, object], source: str) -> Robot:
    """Return the robot with the coupling and the passive joints of the file."""
    coupling = []
    entries = top.get("coupling", [])
    if not isinstance(entries, list):
        raise InputError("coupling is not a list", "write - {motor: 6, joints: {5: 1, 6: 1}}", source)
    for entry in entries:
        entry = as_mapping(entry, "an entry of coupling", source)
        check_keys(entry, ("motor", "joints", "independent_inertia"), "coupling", source)
        motor = _joint_number(entry.get("motor"), robot.joints, "coupling, motor", source)
        weights = {
            _joint_number(joint, robot.joints, "coupling, joints", source): as_number(value, "coupling", source)
            for joint, value in as_mapping(entry.get("joints"), "joints of coupling", source).items()
        }
        independent = entry.get("independent_inertia", False)
        if not isinstance(independent, bool):
            raise InputError(f"independent_inertia {independent!r}", "use true or false", source)
        coupling.append(Coupling(motor, weights, independent))
    passive = {constraint.joint: constraint for constraint in robot.passive}
    for joint, terms in as_mapping(top.get("passive", {}), "passive", source).items():
        number = _joint_number(joint, robot.joints, "passive", source)
        values = {
            key: as_number(value, f"passive {joint}", source)
            for key, value in as_mapping(terms, f"passive {joint}", source).items()
        }
        offset = values.pop("offset", 0.0)
        factors = {_joint_number(key, robot.joints, f"passive {joint}", source): v for key, v in values.items()}
        passive[number] = Passive(number, factors, offset)
    try:
        return replace(robot, coupling=tuple(coupling), passive=tuple(passive[number] for number in sorted(passive)))
    except InputError as error:
        raise InputError(error.what, error.hint, source) from None


def _with_loops(robot: Robot, top: Mapping[object, object], source: str) -> Robot:
    """Return the robot with its closed loops.

    loops: {passive: [j2, j3], assembly: {j1: 0.5, j2: -1.0, j3: 2.0}, cuts: [{from: {joint: j2, point: [x, y, z]},
    to: {joint: j3, point: [x, y, z]}}]}; of a hinge, both ends have an axis as well: [0, 0, 1].
    """
    if top.get("loops") is None:
        return robot
    entry = as_mapping(top["loops"], "loops", source)
    check_keys(entry, ("passive", "assembly", "cuts"), "loops", source)
    passive, cuts = entry.get("passive"), entry.get("cuts")
    if not isinstance(passive, list) or not isinstance(cuts, list):
        hint = "write passive: [NAME, NAME], cuts: [{from: {joint: NAME, point: [x, y, z]}, to: {...}}]"
        raise InputError("loops lack passive joints or cuts", hint, source)
    pairs = []
    for i, cut in enumerate(cuts, start=1):
        where = f"loops, cut {i}"
        cut = as_mapping(cut, where, source)
        check_keys(cut, ("from", "to"), where, source)
        ends = [_pivots(robot, cut.get(key), f"{where}, {key}", source) for key in ("from", "to")]
        if len(ends[0]) != len(ends[1]):
            raise InputError(
                f"{where} has an axis at one end only", "give it at both, or at none: a ball joint", source
            )
        pairs += list(zip(*ends, strict=True))
    assembly = {
        _joint_number(joint, robot.joints, "loops, assembly", source): as_number(value, "loops, assembly", source)
        for joint, value in as_mapping(entry.get("assembly", {}), "loops, assembly", source).items()
    }
    numbers = tuple(_joint_number(joint, robot.joints, "loops, passive", source) for joint in passive)
    try:
        return replace(robot, loops=Loops(tuple(pairs), tuple(sorted(numbers)), assembly))
    except InputError as error:
        raise InputError(error.what, error.hint, source) from None


def _pivots(robot: Robot, entry: object, where: str, source: str) -> list[Pivot]:
    """Return the point of one end of a cut, and for a hinge a second one on its axis, a meter from the first."""
    entry = dict(as_mapping(entry, where, source))
    axis = entry.pop("axis", None)
    pivots = [_pivot(robot, entry, where, source)]
    if axis is not None:
        direction = as_vector(axis, f"{where}, axis", source)
        if not np.linalg.norm(direction) > 0.0:
            raise InputError(f"{where}: the axis is zero", "give its direction", source)
        point = as_vector(entry.get("point"), f"{where}, point", source) + direction / np.linalg.norm(direction)
        pivots.append(_pivot(robot, entry | {"point": point.tolist()}, where, source))
    return pivots


DRIVE_KEYS = ("adds", "measures", "gain")


def _with_drives(robot: Robot, top: Mapping[object, object], source: str) -> Robot:
    """Return the robot with what its efforts mean: {adds: nothing, measures: motor, gain: 1, joints: {NAME: {...}}}."""
    drives = as_mapping(top.get("drives", {}), "drives", source)
    check_keys(drives, (*DRIVE_KEYS, "joints"), "drives", source)
    entries = {name: {key: drives[key] for key in DRIVE_KEYS if key in drives} for name in robot.drive_names}
    for joint, entry in as_mapping(drives.get("joints", {}), "drives, joints", source).items():
        where = f"drives, joint {joint!r}"
        name = robot.joints[_joint_number(joint, robot.joints, "drives", source) - 1].name
        if name not in entries and name in robot.active_names:
            entries[name] = {}
        if name not in robot.active_names:
            raise InputError(f"{where} is passive: it has no drive", "leave it out", source)
        entry = as_mapping(entry, where, source)
        check_keys(entry, DRIVE_KEYS, where, source)
        if not entry:
            raise InputError(f"{where} says nothing", f"for adds choose {CHOICES}, or leave it out", source)
        entries[name] |= {str(key): value for key, value in entry.items()}
    adds = {name: _adds(entry["adds"], "drives", source) for name, entry in entries.items() if "adds" in entry}
    joints = tuple(
        replace(joint, measures=_measures(entries.get(joint.name, {}), joint, source)) for joint in robot.joints
    )
    try:
        return with_added_effort(replace(robot, joints=joints), adds)
    except InputError as error:
        raise InputError(error.what, error.hint, source) from None


def _measures(entry: Mapping[str, object], joint: Joint, source: str) -> MeasuredEffort | None:
    """Return what a joint's measured effort holds: {measures: motor-gravity, gain: 12.5}, or as its sensor says."""
    if not {"measures", "gain"} & set(entry):
        return joint.measures
    where = f"drives, joint {joint.name!r}"
    try:
        measures = parse_sensor(str(entry["measures"])) if "measures" in entry else joint.measured
        return with_gain(measures, as_number(entry["gain"], f"{where}, gain", source)) if "gain" in entry else measures
    except InputError as error:
        raise InputError(error.what if error.source else f"{where}: {error.what}", error.hint, source) from None


def _adds(entry: object, where: str, source: str) -> AddedEffort:
    """Return what a joint's drive adds: a text, or {gravity: true, payload: true, friction: 0.8}."""
    try:
        if isinstance(entry, str):
            return added_effort(entry)
        if not isinstance(entry, Mapping):
            raise InputError(f"the effort that the robot adds is {reprlib.repr(entry)}", f"choose {CHOICES}")
        check_keys(entry, ("gravity", "payload", "friction"), f"{where}, adds", source)
        gravity = entry.get("gravity", False)
        payload = entry.get("payload", gravity)
        if not isinstance(gravity, bool) or not isinstance(payload, bool):
            raise InputError("gravity or payload is neither true nor false", "write true or false")
        return AddedEffort(gravity, payload, as_number(entry.get("friction", 0.0), f"{where}, friction", source))
    except InputError as error:
        raise InputError(error.what if error.source else f"{where}: {error.what}", error.hint, source) from None


def _parameters(robot: Robot, top: Mapping[object, object], source: str) -> dict[str, float]:
    names = standard_names(robot)
    valid_names = set(names)
    values = {}
    for name, value in as_mapping(top.get("parameters", {}), "parameters", source).items():
        if name not in valid_names:
            raise InputError(f"unknown parameter {name!r}", suggest(name, names), source)
        values[name] = as_number(value, f"parameter {name}", source)
    return values


def _friction(robot: Robot, top: Mapping[object, object], source: str) -> tuple[FrictionTerm, ...]:
    """Return the terms under friction: - {joint: NAME, term: stribeck, coefficient: 2.0, speed: 0.1}."""
    entries = top.get("friction", [])
    if not isinstance(entries, list):
        raise InputError("friction is not a list", "write - {joint: NAME, term: load, coefficient: 0.1}", source)
    kinds = {str(kind): kind for kind in FrictionKind}
    terms = []
    for entry in entries:
        entry = as_mapping(entry, "an entry of friction", source)
        check_keys(entry, ("joint", "term", *TERM_NUMBERS), "friction", source)
        number = _joint_number(entry.get("joint"), robot.joints, "friction, joint", source)
        kind = kinds.get(str(entry.get("term")))
        if kind is None:
            raise InputError(f"unknown friction term {entry.get('term')!r}", f"choose from {', '.join(kinds)}", source)
        numbers: dict[str, Any] = {
            key: as_number(entry[key], f"friction, {key}", source) for key in TERM_NUMBERS if entry.get(key) is not None
        }
        if kind.thermal and "reference" not in numbers:
            what = f"friction term {kind} of joint {robot.joints[number - 1].name!r} has no reference"
            raise InputError(what, "give the temperature T0 at which it is zero [deg C]", source)
        terms.append(FrictionTerm(number, kind, **numbers))
    return tuple(terms)


def _with_forces(robot: Robot, top: Mapping[object, object], source: str) -> tuple[Robot, dict[str, float]]:
    """Return the robot with the springs, cylinders and cables of the file, and their coefficients by name.

    forces: - {name: balancer, type: cylinder, from: {joint: 0, point: [x, y, z]}, to: {joint: j2, point: [x, y, z]},
    rest: 1.2, coefficients: {preload: 9000, stiffness: 4000}}, or - {name: s, type: spring, joints: {j2: 1, j3: -1}}.
    """
    entries = top.get("forces", [])
    if not isinstance(entries, list):
        raise InputError("forces is not a list", "write - {name: NAME, type: spring, joints: {NAME: 1}}", source)
    kinds = {str(kind): kind for kind in ForceKind}
    forces: list[Force] = []
    values: dict[str, float] = {}
    for i, entry in enumerate(entries, start=1):
        entry = as_mapping(entry, "an entry of forces", source)
        name = str(entry.get("name", f"force {i}"))
        where = f"force {name!r}"
        check_keys(entry, ("name", "type", "joints", "from", "to", "rest", "coefficients"), where, source)
        kind = kinds.get(str(entry.get("type")))
        if kind is None:
            raise InputError(f"{where} has type {entry.get('type')!r}", f"use {', '.join(kinds)}", source)
        coefficients_entry = entry.get("coefficients")
        if isinstance(coefficients_entry, list):
            coefficients_entry = dict.fromkeys(coefficients_entry, 0.0)
        coefficients = as_mapping(coefficients_entry or {}, f"coefficients of {where}", source)
        check_keys(coefficients, COEFFICIENTS, f"coefficients of {where}", source)
        powers = tuple(p for p, key in enumerate(COEFFICIENTS) if key in coefficients) or kind.usual
        for power in powers:
            value = as_number(coefficients.get(COEFFICIENTS[power], 0.0), f"{where}, {COEFFICIENTS[power]}", source)
            if value < 0.0 and power == 1 and kind is not ForceKind.CYLINDER:
                raise InputError(f"{where} has stiffness {value:g}", "give one that is not negative", source)
            values[f"{SYMBOLS[power]}{i}"] = value
        weights = {
            _joint_number(joint, robot.joints, where, source): as_number(value, where, source)
            for joint, value in as_mapping(entry.get("joints", {}), f"joints of {where}", source).items()
        }
        pivots = tuple(_pivot(robot, entry[key], f"{where}, {key}", source) for key in ("from", "to") if key in entry)
        rest = as_number(entry.get("rest", 0.0), f"{where}, rest", source)
        try:
            forces.append(Force(name, kind, powers, weights, pivots, rest))
        except InputError as error:
            raise InputError(error.what, error.hint, source) from None
    return replace(robot, forces=tuple(forces)), values


def _pivot(robot: Robot, entry: object, where: str, source: str) -> Pivot:
    """Return the point of a cylinder: {joint: NAME, point: [x, y, z]}, joint 0: the base link, or {link: NAME, ...}."""
    entry = as_mapping(entry, where, source)
    check_keys(entry, ("joint", "link", "point"), where, source)
    point = as_vector(entry.get("point"), f"{where}, point", source)
    if "link" in entry:
        link = str(entry["link"])
        if link not in robot.tools:
            raise InputError(f"{where}: unknown link {link!r}", suggest(link, list(robot.tools)), source)
        number, pose = robot.tools[link]
        if number == 0:  # links of the base are placed in the base link's frame
            pose = np.linalg.inv(robot.base) @ pose
        point = pose[:3, :3] @ point + pose[:3, 3]
    elif entry.get("joint") == 0:
        number = 0
        point = robot.base[:3, :3].T @ (point - robot.base[:3, 3])
    else:
        number = _joint_number(entry.get("joint"), robot.joints, where, source)
    x, y, z = (float(value) for value in point)
    return Pivot(number, (x, y, z))


def _joint(entry: object, before: list[Joint], unit: str, rounded_angles: list[str] | None, source: str) -> Joint:
    number = len(before) + 1
    entry = as_mapping(entry, f"joint number {number}", source)
    name = str(entry.get("name", f"joint{number}"))
    where = f"joint {name!r}"
    check_keys(entry, JOINT_KEYS, where, source)
    kind = entry.get("type")
    sigma = entry.get("sigma", REVOLUTE) if kind is None else TYPES.get(kind) if isinstance(kind, str) else None
    if sigma not in (REVOLUTE, PRISMATIC) or isinstance(sigma, bool):
        raise InputError(f"{where} has type {kind or sigma!r}", f"use {', '.join(TYPES)}", source)
    if "sigma" in entry and entry["sigma"] != sigma:
        raise InputError(f"{where} has type {kind!r} and sigma {entry['sigma']!r}", "keep one of them", source)
    parent = entry.get("parent", number - 1)
    if parent != 0 or isinstance(parent, bool):
        parent = _joint_number(parent, before, f"{where}, parent", source)
    geometry = {key: as_number(entry.get(key, 0.0), f"{where}, {key}", source) for key in (*ANGLES, *LENGTHS)}
    for key in ANGLES:
        angle = math.radians(geometry[key]) if unit == "deg" else geometry[key]
        if rounded_angles is not None:
            snapped = snap_angle(angle)
            if abs(snapped - angle) > NOTE_ANGLE:
                rounded_angles.append(f"{name} {key}")
            angle = snapped
        geometry[key] = angle
    limits = _limits(entry.get("limits", {}), Limits(), name, source)
    symbols, measures = _symbols(entry, name, source), _sensor(entry, name, source)
    servo = _servo(entry, name, source)
    return Joint(
        name, parent, int(sigma), limits=limits, symbols=symbols, measures=measures, adds=None, servo=servo, **geometry
    )


def _servo(entry: Mapping[object, object], name: str, source: str) -> Servo | None:
    """Return a joint's position servo: {kp: 50, kd: 2}."""
    if entry.get("servo") is None:
        return None
    where = f"servo of joint {name!r}"
    gains = as_mapping(entry["servo"], where, source)
    check_keys(gains, ("kp", "kd"), where, source)
    servo = Servo(*(as_number(gains.get(key, 0.0), f"{where}, {key}", source) for key in ("kp", "kd")))
    if servo.kp <= 0.0 or servo.kd < 0.0:
        raise InputError(f"{where} has kp {servo.kp:g} and kd {servo.kd:g}", "give kp > 0 and kd >= 0", source)
    return servo


def _sensor(entry: Mapping[object, object], name: str, source: str) -> MeasuredEffort | None:
    """Return what a joint's effort holds by its key sensor, which drives: {measures: ...} says as well."""
    try:
        return parse_sensor(str(entry["sensor"])) if "sensor" in entry else None
    except InputError as error:
        raise InputError(f"joint {name!r}: {error.what}", error.hint, source) from None


def _limits(entry: object, present: Limits, name: str, source: str) -> Limits:
    where = f"limits of joint {name!r}"
    values = as_mapping(entry, where, source)
    check_keys(values, LIMITS, where, source)
    numbers = {str(key): as_number(value, f"{where}, {key}", source, infinite=True) for key, value in values.items()}
    limits = replace(present, **numbers)
    if limits.lower > limits.upper or min(limits.velocity, limits.acceleration, limits.effort) < 0:
        raise InputError(f"{where} are impossible", "lower <= upper, the others >= 0", source)
    return limits


def _symbols(entry: Mapping[object, object], name: str, source: str) -> dict[str, str]:
    symbols = as_mapping(entry.get("symbols", {}), f"symbols of joint {name!r}", source)
    check_keys(symbols, (*ANGLES, *LENGTHS), f"symbols of joint {name!r}", source)
    result: dict[str, str] = {}
    for key, symbol in symbols.items():
        if not isinstance(symbol, str) or not symbol.isidentifier():
            raise InputError(f"symbol {symbol!r} of joint {name!r}", "use letters and digits, such as D3", source)
        result[str(key)] = symbol
    return result


def _tools(top: Mapping[object, object], joints: list[Joint], source: str) -> dict[str, tuple[int, Array]]:
    """Return the tools: LINK: 4x4 rows (on the last joint), or LINK: {joint: NAME, transform: 4x4 rows}."""
    tools = {}
    for link, entry in as_mapping(top.get("tools", {}), "tools", source).items():
        joint: object = len(joints)
        if isinstance(entry, Mapping):
            check_keys(entry, ("joint", "transform"), f"tool {link!r}", source)
            joint, entry = entry.get("joint", joint), entry.get("transform")
        number = 0 if joint == 0 else _joint_number(joint, joints, f"tool {link!r}", source)
        tools[str(link)] = (number, as_pose(entry, f"tool {link!r}", source))
    return tools


def _notes(top: Mapping[object, object], source: str) -> tuple[str, ...]:
    notes = top.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise InputError("notes is not a list of texts", "write - TEXT", source)
    return tuple(notes)


def _joint_number(key: object, joints: Iterable[Joint], where: str, source: str) -> int:
    """Return the number of a joint given by name or by number from 1."""
    names = [joint.name for joint in joints]
    if key in names:
        return names.index(key) + 1
    if isinstance(key, int) and not isinstance(key, bool) and 1 <= key <= len(names):
        return key
    raise InputError(f"{where}: unknown joint {key!r}", suggest(key, names), source)


def robot_to_dict(robot: Robot) -> dict[str, Plain]:
    """Return the robot as the data of a robot file, in radians; robot_from_dict gives the same robot back, exactly."""
    data: dict[str, Plain] = {
        "name": robot.name,
        "gravity": robot.gravity.tolist(),
        "base": robot.base.tolist(),
        "joints": [_joint_to_dict(joint) for joint in robot.joints],
    }
    if robot.tools:
        data["tools"] = {
            link: {"joint": number, "transform": pose.tolist()} for link, (number, pose) in robot.tools.items()
        }
    if any(joint.adds is not None or joint.measures is not None for joint in robot.joints):
        data["drives"] = _drives_to_dict(robot)
    if robot.coupling:
        data["coupling"] = [
            {
                "motor": robot.joints[c.motor - 1].name,
                "joints": {robot.joints[j - 1].name: weight for j, weight in c.weights.items()},
                "independent_inertia": c.independent_inertia,
            }
            for c in robot.coupling
        ]
    if robot.passive:
        data["passive"] = {
            robot.joints[p.joint - 1].name: {robot.joints[j - 1].name: factor for j, factor in p.terms.items()}
            | {"offset": p.offset}
            for p in robot.passive
        }
    if robot.loops is not None:
        data["loops"] = _loops_to_dict(robot, robot.loops)
    if robot.forces:
        data["forces"] = [_force_to_dict(robot, i, force) for i, force in enumerate(robot.forces, start=1)]
    if robot.friction:
        data["friction"] = [_term_to_dict(robot, term) for term in robot.friction]
    data["parameters"] = {name: float(value) for name, value in robot.parameters.items()}
    if robot.notes:
        data["notes"] = list(robot.notes)
    return data


def _drives_to_dict(robot: Robot) -> dict[str, Plain]:
    """Return what efforts mean: once if it is the same at all active joints."""
    data = {joint.name: _drive_to_dict(joint) for joint in robot.joints}
    declared = {name: one for name, one in data.items() if one}
    first = next(iter(declared.values()), {})
    if set(declared) == set(robot.active_names) and all(one == first for one in declared.values()):
        return first
    return {"joints": dict(declared)}


def _drive_to_dict(joint: Joint) -> dict[str, Plain]:
    data: dict[str, Plain] = {}
    if joint.adds is not None:
        adds = joint.adds
        data["adds"] = {"gravity": adds.gravity, "payload": adds.payload, "friction": float(adds.friction)}
    if joint.measures is not None:
        data["measures"] = str(joint.measures)
        if joint.measures.gain != 1.0:
            data["gain"] = float(joint.measures.gain)
    return data


def _term_to_dict(robot: Robot, term: FrictionTerm) -> dict[str, Plain]:
    data: dict[str, Plain] = {
        "joint": robot.joints[term.joint - 1].name,
        "term": str(term.kind),
        "coefficient": float(term.coefficient),
    }
    if term.std is not None:
        data["std"] = float(term.std)
    if term.speed:
        data["speed"] = float(term.speed)
    if term.speed_std is not None:
        data["speed_std"] = float(term.speed_std)
    if term.exponent:
        data["exponent"] = float(term.exponent)
    if term.exponent_std is not None:
        data["exponent_std"] = float(term.exponent_std)
    if term.kind.thermal:
        data["reference"] = float(term.reference)
    if term.recorded_speed:
        data["recorded_speed"] = float(term.recorded_speed)
    return data


def _force_to_dict(robot: Robot, number: int, force: Force) -> dict[str, Plain]:
    coefficients = {
        COEFFICIENTS[power]: float(robot.parameters.get(f"{SYMBOLS[power]}{number}", 0.0)) for power in force.powers
    }
    data: dict[str, Plain] = {"name": force.name, "type": str(force.kind), "rest": float(force.rest)}
    if force.weights:
        data["joints"] = {robot.joints[j - 1].name: float(weight) for j, weight in force.weights.items()}
    for key, pivot in zip(("from", "to"), force.pivots, strict=False):
        data[key] = _pivot_to_dict(robot, pivot)
    return data | {"coefficients": dict(coefficients)}


def _pivot_to_dict(robot: Robot, pivot: Pivot) -> dict[str, Plain]:
    """Return a point in the frame of its joint; of the base, in the base link's frame, as it is read."""
    point = np.array(pivot.point) if pivot.joint else robot.base[:3, :3] @ pivot.point + robot.base[:3, 3]
    return {"joint": robot.joints[pivot.joint - 1].name if pivot.joint else 0, "point": point.tolist()}


def _loops_to_dict(robot: Robot, loops: Loops) -> dict[str, Plain]:
    """Return the loops with one cut for each pair of points: a hinge is written as two."""
    cuts: list[Plain] = [
        {key: _pivot_to_dict(robot, pivot) for key, pivot in zip(("from", "to"), pair, strict=True)}
        for pair in loops.pairs
    ]
    return {
        "passive": [robot.joints[j - 1].name for j in loops.passive],
        "assembly": {robot.joints[j - 1].name: float(value) for j, value in loops.assembly.items()},
        "cuts": cuts,
    }


def _joint_to_dict(joint: Joint) -> dict[str, Plain]:
    limits = {key: float(getattr(joint.limits, key)) for key in LIMITS}
    data: dict[str, Plain] = {
        "name": joint.name,
        "parent": joint.parent,
        "type": "prismatic" if joint.sigma == PRISMATIC else "revolute",
        **{key: float(getattr(joint, key)) for key in ("gamma", "b", "alpha", "d", "theta", "r")},
        "limits": {key: value for key, value in limits.items() if math.isfinite(value)},
    }
    if joint.symbols:
        data["symbols"] = dict(joint.symbols)
    if joint.servo is not None:
        data["servo"] = {"kp": float(joint.servo.kp), "kd": float(joint.servo.kd)}
    return data
