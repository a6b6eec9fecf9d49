# SPDX-License-Identifier: Apache-2.0

"""Presets of drivers, config/drivers/NAME.yaml: what a robot's driver publishes, takes and adds, as data.

Every fact has a source: a key of `sources`, which names a page or a document. A preset fills in what a robot's
description does not say of its efforts; what a robot file declares stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ros2_dynid.errors import InputError, suggest
from ros2_dynid.model.efforts import added_effort, parse_sensor, with_added_effort, with_gain, with_sensors
from ros2_dynid.model.files import as_mapping, as_number, check_keys, parse_yaml, read_bytes
from ros2_dynid.model.load import shipped_file
from ros2_dynid.model.robot import Robot

MAX_BYTES = 1_000_000
FACTS: Mapping[str, tuple[str, ...]] = {
    "launch": (),
    "joints": (),
    "joint_states": (),
    "effort": (),
    "measures": ("joints",),
    "gains": (),
    "adds": ("joints",),
    "effort_limits": (),
    "effort_commands": ("controller",),
    "trajectory": ("takes_effort",),
    "wrench": (),
    "friction": ("type",),
}
"""Facts of a preset with a value and a source, and further keys that each may have."""
EVERY = "every"
"""Key for all joints, of numbers by joint."""


@dataclass(frozen=True)
class DriverPreset:
    """A driver's preset.

    joints: names of its joints, without a prefix, empty for any; measures, adds: texts (efforts.py), by joint and ""
    for the others; gains: torque in one unit of an effort; effort_limits [N.m or N]; payload: its service, None if it
    has none (control/payload_bridge.py); facts: all values by key, sources: pages of each key.
    """

    name: str
    title: str
    joints: tuple[str, ...] = ()
    measures: Mapping[str, str] = field(default_factory=dict)
    adds: Mapping[str, str] = field(default_factory=dict)
    gains: Mapping[str, float] = field(default_factory=dict)
    effort_limits: Mapping[str, float] = field(default_factory=dict)
    payload: Mapping[object, object] | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cannot: tuple[str, ...] = ()

    def joint_of(self, name: str) -> str | None:
        """Return which of its joints a robot's joint is, whose name may have a prefix; None: none of them."""
        if not self.joints:
            return name
        return next((own for own in self.joints if name == own or name.endswith(("_" + own, "/" + own))), None)


def preset_names() -> tuple[str, ...]:
    """Return the presets that come with the package."""
    try:
        return tuple(sorted(path.stem for path in shipped_file("drivers/ur.yaml").parent.glob("*.yaml")))
    except InputError:
        return ()


def load_preset(name: str) -> DriverPreset:
    """Return a preset by its name, or from a file."""
    if name.endswith((".yaml", ".yml")):
        return read_preset(Path(name))
    names = preset_names()
    if name not in names:
        raise InputError(f"there is no driver {name!r}", suggest(name, names))
    return read_preset(shipped_file(f"drivers/{name}.yaml"))


def read_preset(path: Path) -> DriverPreset:
    """Return the preset of a file, or refuse one with unknown keys or a fact without a source."""
    source = str(path)
    top = as_mapping(parse_yaml(read_bytes(path, MAX_BYTES), source), "the driver's file", source)
    check_keys(top, ("title", "sources", "payload", "cannot", *FACTS), "the driver's file", source)
    pages = {str(k): str(v) for k, v in as_mapping(top.get("sources"), "sources", source).items()}
    entries = {key: as_mapping(top[key], key, source) for key in (*FACTS, "payload") if key in top}
    sources = {key: _pages(entry, key, pages, source) for key, entry in entries.items()}
    for key, entry in entries.items():
        if key != "payload":
            check_keys(entry, ("value", "source", *FACTS[key]), key, source)
    missing = top.get("cannot", [])
    if not isinstance(missing, list):
        raise InputError("cannot is not a list", "write - {value: TEXT, source: KEY}", source)
    for entry in missing:
        check_keys(as_mapping(entry, "cannot", source), ("value", "source"), "cannot", source)
        _pages(entry, "cannot", pages, source)
    facts = {key: entry.get("value") for key, entry in entries.items() if key != "payload"}
    joints = facts.get("joints") or []
    if not isinstance(joints, list):
        raise InputError("joints is not a list", "write [NAME, NAME]", source)
    return DriverPreset(
        path.stem,
        str(top.get("title", path.stem)),
        tuple(map(str, joints)),
        _texts(entries.get("measures"), parse_sensor, source),
        _texts(entries.get("adds"), added_effort, source),
        _numbers(facts.get("gains"), "gains", source),
        _numbers(facts.get("effort_limits"), "effort_limits", source),
        {k: v for k, v in entries["payload"].items() if k != "source"} if "payload" in entries else None,
        facts,
        sources,
        tuple(str(entry["value"]) for entry in missing),
    )


def with_driver(robot: Robot, preset: DriverPreset) -> Robot:
    """Return the robot with what the preset says of its joints' efforts, where its description does not."""
    mine = {name: own for name in robot.active_names if (own := preset.joint_of(name)) is not None}
    if not mine:
        what = f"none of the joints {', '.join(robot.active_names)} is one of the driver {preset.name!r}"
        raise InputError(what, f"it has {', '.join(preset.joints)}: choose another, or declare drives: in a robot file")
    joints, measures, adds = [], {}, {}
    for joint in robot.joints:
        own, limits = mine.get(joint.name), joint.limits
        if own is not None:
            effort = preset.effort_limits.get(own, preset.effort_limits.get(EVERY, np.inf))
            limits = replace(limits, effort=min(limits.effort, effort)) if np.isinf(limits.effort) else limits
            text = preset.measures.get(own, preset.measures.get("", ""))
            gain = preset.gains.get(own, preset.gains.get(EVERY))
            if joint.measures is None and text:
                measures[joint.name] = parse_sensor(text) if gain is None else with_gain(parse_sensor(text), gain)
            text = preset.adds.get(own, preset.adds.get("", ""))
            if joint.adds is None and text:
                adds[joint.name] = added_effort(text)
        joints.append(replace(joint, limits=limits))
    return with_added_effort(with_sensors(replace(robot, joints=tuple(joints)), measures), adds)


def _pages(entry: Mapping[object, object], key: str, pages: Mapping[str, str], source: str) -> tuple[str, ...]:
    named = entry.get("source")
    keys = named if isinstance(named, list) else [named]
    unknown = [one for one in keys if one not in pages]
    if not keys or unknown:
        raise InputError(f"{key} has the source {unknown or named!r}", f"name one of {', '.join(pages)}", source)
    return tuple(pages[str(one)] for one in keys)


def _texts(entry: Mapping[object, object] | None, parse: Callable[[str], object], source: str) -> dict[str, str]:
    """Return texts by joint, "" for all others, each of which parses."""
    if entry is None:
        return {}
    by_joint = as_mapping(entry.get("joints", {}), "joints", source)
    texts = {"": str(entry.get("value"))} | {str(joint): str(text) for joint, text in by_joint.items()}
    for text in texts.values():
        try:
            parse(text)
        except InputError as error:
            raise InputError(error.what, error.hint, source) from None
    return texts


def _numbers(value: object, key: str, source: str) -> dict[str, float]:
    numbers = as_mapping(value or {}, key, source)
    return {str(joint): as_number(number, f"{key} of {joint}", source) for joint, number in numbers.items()}
