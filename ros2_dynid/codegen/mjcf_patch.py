# SPDX-License-Identifier: Apache-2.0

"""Writes identified drives into a user's MJCF: only attributes of their joints and actuators change.

MuJoCo's position actuator gives kp (ctrl - q) - kv dq, clipped, of a ctrl that came `delay` earlier; its joint adds
armature, damping and frictionloss. The friction constraint is made as hard as MuJoCo allows (`solreffriction`,
`solimpfriction`): with its defaults a joint that sticks creeps. The text is edited where the numbers stand.

MuJoCo's step of length h is that of leapfrog: a force acts around the beginning of its step, half a step before the
middle of the time that its ctrl is held, and damping at the end of it, as damping h / 2 more inertia would in the
middle. `discrete_drive` takes both out, so that the positions are those of continuous time to second order in h.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from xml.parsers import expat

from ros2_dynid.codegen.xml_edit import (
    Edit,
    Tag,
    edit_attributes,
    edited,
    indent_of,
    insert_inside,
    tag_end,
    with_attributes,
    without_attributes,
)
from ros2_dynid.errors import InputError
from ros2_dynid.model.mjcf_compiler import CompiledMjcf

HARDEST = 0.9999
"""MuJoCo's largest impedance of a constraint: what it leaves of a joint's creep is a ten thousandth."""
KEPT = ("name", "class", "joint", "group")
"""Attributes that an actuator of another kind keeps when it becomes a position actuator."""
RELATIVE = 1e-6
"""How far a compiled value may be from the one written: MuJoCo keeps doubles, and text all their digits."""


@dataclass(frozen=True)
class DriveSettings:
    """A joint's drive in N.m, rad and s, or N, m and s; friction: Coulomb friction; limit: infinite for none.

    tau = clip(kp (u(t - delay) - q) - kd dq, +-limit) - damping dq - friction sign(dq)
    """

    joint: str
    kp: float
    kd: float
    armature: float
    damping: float
    friction: float
    limit: float
    delay: float


def discrete_drive(drive: DriveSettings, step: float) -> DriveSettings:
    """Return the drive whose motion in MuJoCo's steps [s] is that of the drive given in continuous time."""
    armature = max(drive.armature - 0.5 * step * (drive.damping + drive.kd), 0.0)
    return replace(drive, armature=armature, delay=drive.delay + 0.5 * step)


@dataclass
class _Element:
    """An element of the file: its tag's name, its start tag, and whether the tag is closed in itself."""

    name: str
    tag: Tag
    empty: bool


@dataclass
class _Places:
    """Where joints stand, by name, actuators, by joint, and the last section of actuators; end: of the whole model."""

    joints: dict[str, Tag] = field(default_factory=dict)
    actuators: dict[str, list[_Element]] = field(default_factory=dict)
    section: Tag | None = None
    section_end: int = 0
    end: int = 0


def patched_mjcf(
    text: bytes, drives: Sequence[DriveSettings], compiled: CompiledMjcf, source: str = "MJCF"
) -> tuple[bytes, list[str]]:
    """Return the MJCF with the drives in it, and notes for the user; compiled: the model of that file."""
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("the MJCF is not in UTF-8", "convert it first", source)
    places, notes = _places(text), []
    edits: list[Edit] = []
    new: list[str] = []
    converted: list[str] = []
    for drive in drives:
        if drive.joint not in places.joints:
            hint = "give the file that defines it, not one that includes it"
            raise InputError(f"joint {drive.joint!r} is not in this file", hint, source)
        edits.append(edit_attributes(text, places.joints[drive.joint], _joint_attributes(drive, compiled)))
        actuators = places.actuators.get(drive.joint, [])
        if len(actuators) > 1:
            raise InputError(f"joint {drive.joint!r} has {len(actuators)} actuators", "leave one of them", source)
        values = _actuator_attributes(drive, compiled)
        if not actuators:
            attributes = " ".join(f'{name}="{value}"' for name, value in values.items())
            new.append(f'<position name="{drive.joint}" joint="{drive.joint}" {attributes}/>')
            continue
        if actuators[0].name != "position":
            converted.append(f"the <{actuators[0].name}> of {drive.joint}")
        edits.append(_actuator_edit(text, actuators[0], values, source))
    if converted:
        notes.append(f"position actuators now, whose ctrl is a position: {', '.join(converted)}")
    if new:
        edits.append(_new_actuators(text, places, new))
    return edited(text, edits), notes


def _joint_attributes(drive: DriveSettings, compiled: CompiledMjcf) -> dict[str, str]:
    return {
        "armature": _number(drive.armature),
        "damping": _number(drive.damping),
        "frictionloss": _number(drive.friction),
        "solreffriction": f"{_number(2.0 * compiled['timestep'])} 1",
        "solimpfriction": f"{HARDEST} {HARDEST} 0.001 0.5 2",
    }


def _actuator_attributes(drive: DriveSettings, compiled: CompiledMjcf) -> dict[str, str]:
    """Return the attributes of the joint's position actuator, those that undo what its class says included."""
    values = {"kp": _number(drive.kp), "kv": _number(drive.kd)}
    i = _actuator_of(drive.joint, compiled)
    if math.isfinite(drive.limit):
        values["forcerange"] = f"{_number(-drive.limit)} {_number(drive.limit)}"
    elif i is not None and compiled["actuator_forcelimited"][i]:
        values["forcelimited"] = "false"
    if drive.delay > 0.0:
        values["delay"] = _number(drive.delay)
        values["nsample"] = str(math.ceil(drive.delay / compiled["timestep"] - 1e-9) + 2)
        values["interp"] = "linear"
    if i is None:
        return values
    neutral = (
        ("gear", compiled["actuator_gear"][i][0] != 1.0, "1"),
        ("timeconst", compiled["actuator_dyntype"][i], "0"),
    )
    values |= {name: value for name, differs, value in neutral if differs}
    for name in ("armature", "damping"):
        if compiled.get(f"actuator_{name}", {i: 0.0})[i] != 0.0:
            values[name] = "0"
    if compiled["actuator_ctrllimited"][i] and compiled["actuator_biastype"][i] == 0:  # limits of a torque
        values["ctrllimited"] = "false"
    return values


def _actuator_of(joint: str, compiled: CompiledMjcf) -> int | None:
    """Return the number of the actuator at a joint."""
    j = compiled["names"]["jnt"].index(joint)
    for i, (kind, target) in enumerate(zip(compiled["actuator_trntype"], compiled["actuator_trnid"], strict=True)):
        if kind <= 1 and target[0] == j:  # 0, 1: at a joint
            return i
    return None


def _actuator_edit(text: bytes, actuator: _Element, values: Mapping[str, str], source: str) -> Edit:
    start, end = actuator.tag.start, tag_end(text, actuator.tag.start)
    tag = text[start:end]
    if actuator.name == "position":
        tag = without_attributes(tag, {"dampratio", "timeconst", "forcelimited", "forcerange", "interp"} - set(values))
    else:
        if not actuator.empty:
            what = f"the <{actuator.name}> actuator of joint {actuator.tag.attributes['joint']!r} has elements inside"
            raise InputError(what, "replace it by <position joint=.../>", source)
        tag = without_attributes(tag, set(actuator.tag.attributes) - {*KEPT, *values})
        tag = re.sub(rb"^<[^\s/>]+", b"<position", tag)
    return start, end, with_attributes(tag, values)


def _new_actuators(text: bytes, places: _Places, lines: Sequence[str]) -> Edit:
    """Return the edit that adds actuators, in the section there is or in a new one."""
    if places.section is not None:  # after those there are, so that the order of ctrl stays
        indent = indent_of(text, places.section.start)
        if text[: tag_end(text, places.section.start)].endswith(b"/>"):
            block = b"".join(b"\n" + indent + b"  " + line.encode() for line in lines)
            return insert_inside(text, places.section, block, indent, b"actuator")
        block = b"".join(b"  " + line.encode() + b"\n" + indent for line in lines)
        return places.section_end, places.section_end, block
    section = "".join(f"    {line}\n" for line in lines)
    return places.end, places.end, f"  <actuator>\n{section}  </actuator>\n".encode()


def _places(text: bytes) -> _Places:
    places = _Places()
    path: list[str] = []
    parser = expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        path.append(name)
        tag = Tag(parser.CurrentByteIndex, attributes)
        if path[1:2] == ["worldbody"] and name == "joint" and "name" in attributes:
            places.joints.setdefault(attributes["name"], tag)
        elif path[1:] == ["actuator"]:
            places.section = tag
        elif path[1:2] == ["actuator"] and len(path) == 3 and "joint" in attributes:
            empty = text[tag.start : tag_end(text, tag.start)].endswith(b"/>")
            places.actuators.setdefault(attributes["joint"], []).append(_Element(name, tag, empty))

    def end(_: str) -> None:
        if path[1:] == ["actuator"]:
            places.section_end = parser.CurrentByteIndex
        path.pop()
        if not path:
            places.end = parser.CurrentByteIndex

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.Parse(text, True)
    return places


def refuse_other_drives(drives: Sequence[DriveSettings], compiled: CompiledMjcf, source: str = "MJCF") -> None:
    """Refuse a compiled model that does not move by these drives: defaults of a class that the text does not show."""
    for drive in drives:
        j, i = compiled["names"]["jnt"].index(drive.joint), _actuator_of(drive.joint, compiled)
        dof = compiled["jnt_dofadr"][j]
        assert i is not None
        limited = compiled["actuator_forcelimited"][i]
        pairs = {
            "armature": (drive.armature, compiled["dof_armature"][dof]),
            "damping": (drive.damping, compiled["dof_damping"][dof]),
            "frictionloss": (drive.friction, compiled["dof_frictionloss"][dof]),
            "kp": (drive.kp, compiled["actuator_gainprm"][i][0]),
            "kp of its bias": (-drive.kp, compiled["actuator_biasprm"][i][1]),
            "kv": (-drive.kd, compiled["actuator_biasprm"][i][2]),
            "forcerange": (drive.limit, compiled["actuator_forcerange"][i][1] if limited else math.inf),
            "gear": (1.0, compiled["actuator_gear"][i][0]),
            "dyntype": (0, compiled["actuator_dyntype"][i]),
            "delay": (drive.delay, compiled.get("actuator_delay", {i: 0.0})[i]),
            **{
                f"actuator's {name}": (0.0, compiled.get(f"actuator_{name}", {i: 0.0})[i])
                for name in ("armature", "damping")
            },
        }
        for name, (wanted, value) in pairs.items():
            if not (wanted == value or abs(wanted - value) <= RELATIVE * abs(wanted)):
                what = f"MuJoCo gives joint {drive.joint!r} the {name} {value:g} instead of {wanted:g}"
                raise InputError(what, f"take {name} out of the defaults of its class", source)


def _number(x: float) -> str:
    return repr(float(x) + 0.0)
