# SPDX-License-Identifier: Apache-2.0

"""Headers of well-known logs: which of their columns is which signal of joint {i}, counted from 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ros2_dynid.errors import InputError


@dataclass(frozen=True)
class Preset:
    """Columns of a log: for each signal the names that it may have, the preferred one first; its unit of time."""

    time: tuple[str, ...]
    signals: Mapping[str, tuple[str, ...]]
    time_unit: str = "s"


AUTO = "auto"
PRESETS = {
    "rtde": Preset(  # Universal Robots' Real-Time Data Exchange, as its recorders write it
        ("timestamp",),
        {
            "position": ("actual_q_{i}",),
            "velocity": ("actual_qd_{i}",),
            "effort": ("actual_current_as_torque_{i}", "actual_current_{i}"),
            "reference": ("target_q_{i}",),
            "temperature": ("joint_temperatures_{i}",),
        },
    ),
    "franka": Preset(  # libfranka's logToCSV
        ("time", "duration"),
        {
            "position": ("state.q[{i}]", "q[{i}]"),
            "velocity": ("state.dq[{i}]", "dq[{i}]"),
            "effort": ("state.tau_J[{i}]", "tau_J[{i}]"),
            "reference": ("state.q_d[{i}]", "q_d[{i}]"),
        },
        time_unit="ms",
    ),
}


def choose_preset(name: str, header: Sequence[str], source: str) -> Preset | None:
    """Return the preset of that name; for `auto` the one whose position columns the header has, or None."""
    names = set(header)
    if name == AUTO:
        return next((preset for preset in PRESETS.values() if _position(preset, names)), None)
    if name not in PRESETS:
        raise InputError(f"unknown format {name!r}", f"choose from {', '.join((AUTO, *PRESETS))}", source)
    preset = PRESETS[name]
    if not _position(preset, names):
        wanted = preset.signals["position"][-1].format(i=0)
        raise InputError(f"this is no {name} log: it has no column {wanted!r}", "choose another format", source)
    return preset


def _position(preset: Preset, names: set[str]) -> bool:
    return any(name.format(i=0) in names for name in preset.signals["position"])


def preset_columns(preset: Preset, header: Sequence[str], joint_names: Sequence[str] | None) -> dict[str, str]:
    """Return the column map of a preset: for the robot's joints in its order, else for joint1, joint2, ..."""
    names = set(header)
    columns = {"time": next((name for name in preset.time if name in names), "")}
    if joint_names is None:
        count = next(i for i in range(len(names) + 1) if _column(preset.signals["position"], i, names) is None)
        joint_names = [f"joint{i + 1}" for i in range(count)]
    for i, joint in enumerate(joint_names):
        for signal, candidates in preset.signals.items():
            column = _column(candidates, i, names)
            if column is not None:
                columns[f"{joint}.{signal}"] = column
    return {ours: theirs for ours, theirs in columns.items() if theirs}


def _column(candidates: Sequence[str], i: int, names: set[str]) -> str | None:
    return next((name.format(i=i) for name in candidates if name.format(i=i) in names), None)
