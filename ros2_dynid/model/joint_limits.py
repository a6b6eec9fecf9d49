# SPDX-License-Identifier: Apache-2.0

"""MoveIt's joint_limits.yaml: velocity, acceleration and position limits beside those of the URDF."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ros2_dynid.errors import InputError
from ros2_dynid.model.files import read_yaml
from ros2_dynid.model.robot import Limits, Robot


def with_joint_limits(robot: Robot, path: str | Path) -> Robot:
    """Return the robot with the limits of a joint_limits.yaml; joints it does not list keep theirs."""
    source = str(path)
    table = _find_table(read_yaml(Path(path)), source)
    names = {joint.name for joint in robot.joints}
    if not names & set(table):
        raise InputError(
            f"none of its joints ({', '.join(map(str, list(table)[:6]))}) belongs to robot {robot.name!r}",
            f"name joints such as {robot.joints[0].name!r}",
            source,
        )
    joints = tuple(
        replace(joint, limits=_merge(joint.limits, table[joint.name], joint.name, source))
        if joint.name in table
        else joint
        for joint in robot.joints
    )
    return replace(robot, joints=joints)


def _find_table(data: object, source: str) -> Mapping[object, object]:
    """Return the mapping under joint_limits, which ROS parameter files wrap in a few levels more."""
    for _ in range(8):
        if not isinstance(data, Mapping) or not data:
            break
        if isinstance(data.get("joint_limits"), Mapping):
            return dict(data["joint_limits"])
        wrapped = [value for value in data.values() if isinstance(value, Mapping)]
        data = wrapped[0] if len(wrapped) == 1 else None
    raise InputError("there is no mapping joint_limits", "give a joint_limits.yaml as MoveIt writes it", source)


def _merge(limits: Limits, entry: object, name: str, source: str) -> Limits:
    if not isinstance(entry, Mapping):
        raise InputError(f"joint_limits of {name!r} is not a mapping", "give max_acceleration: NUMBER", source)
    changes: dict[str, float] = {}
    for flag, key, target in (
        ("has_acceleration_limits", "max_acceleration", "acceleration"),
        ("has_velocity_limits", "max_velocity", "velocity"),
        ("has_effort_limits", "max_effort", "effort"),
        ("has_position_limits", "min_position", "lower"),
        ("has_position_limits", "max_position", "upper"),
    ):
        if not entry.get(flag, key in entry) or key not in entry:
            continue
        value = entry[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"joint_limits of {name!r}: {key} is {value!r}", "give a finite number", source)
        if target in ("acceleration", "velocity", "effort") and value <= 0:
            raise InputError(f"joint_limits of {name!r}: {key} is {value:g}", "give a positive number", source)
        changes[target] = float(value)
    merged = replace(limits, **changes)
    if merged.lower > merged.upper:
        raise InputError(f"joint_limits of {name!r}: min_position > max_position", "exchange them", source)
    return merged
