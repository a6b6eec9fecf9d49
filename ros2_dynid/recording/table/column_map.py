# SPDX-License-Identifier: Apache-2.0

"""Which column of a table is which signal: by its header, or by a map that the user gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.files import read_yaml
from ros2_dynid.recording.samples import FIELDS, SUFFIXES, shortened


def assign_columns(
    header: list[str], joint_names: Sequence[str] | None, columns: Mapping[str, str], source: str
) -> tuple[int | None, dict[tuple[str, str], int]]:
    """Return the column of time, None if there is none, and of each (field, joint)."""
    suffixes = {suffix: field for field, suffix in SUFFIXES.items()}
    mapped = expand_columns(columns, joint_names)
    places: dict[str, int] = {}
    for column, name in enumerate(header):
        places.setdefault(name, column)
    for theirs in mapped.values():
        if theirs not in places:
            what = f"the column map names {theirs!r}, which is not in the header"
            raise InputError(what, f"the header has {shortened(header)}", source)
    mapped_columns = set(mapped.values())
    assigned = {name: column for name, column in places.items() if name not in mapped_columns}
    assigned |= {ours: places[theirs] for ours, theirs in mapped.items()}
    time = next((assigned[name] for name in ("time", "t", "Time") if name in assigned), None)
    signals: dict[tuple[str, str], int] = {}
    for name, column in assigned.items():
        joint, _, suffix = name.rpartition(".")
        if joint and suffix in suffixes:
            signals[suffixes[suffix], joint] = column
    if not signals:
        hint = Text(
            "call columns NAME.position or map them (", Option("columns"), f"); the header has {shortened(header)}"
        )
        raise InputError("no column belongs to a joint", hint, source)
    return time, signals


def expand_columns(columns: Mapping[str, str], joint_names: Sequence[str] | None) -> dict[str, str]:
    """Return a column map with {name}, {j} (from 1) and {i} (from 0) filled in for each joint of the robot."""
    expanded: dict[str, str] = {}
    for ours, theirs in columns.items():
        if not any(mark in ours + theirs for mark in ("{name}", "{j}", "{i}")):
            expanded[ours] = theirs
            continue
        if joint_names is None:
            raise InputError(f"the column map {ours}={theirs} stands for all joints", "give the robot that has them")
        for i, name in enumerate(joint_names):
            names = [
                text.replace("{name}", name).replace("{j}", str(i + 1)).replace("{i}", str(i))
                for text in (ours, theirs)
            ]
            expanded[names[0]] = names[1]
    return expanded


def parse_columns(text: str | None) -> dict[str, str]:
    """Return the column map of the command line: OURS=THEIRS,... or a YAML file with such a mapping.

    OURS is `time` or `NAME.position` and the like, THEIRS the header of the file; either may come first. A list without
    = names the columns in their order, of a table without a header; - stands for one that is not used.
    """
    if not text:
        return {}
    pairs: list[tuple[str, str]] = []
    if "=" not in text and Path(text).is_file():
        content = read_yaml(Path(text))
        if not isinstance(content, dict) or not all(isinstance(x, str | int) for x in content.values()):
            raise InputError("this is not a column map", "write lines such as  time: stamp", text)
        pairs = [(str(ours), str(theirs)) for ours, theirs in content.items()]
    elif "=" not in text and "," in text:
        names = [name.strip() for name in text.split(",")]
        return {name: f"#{number}" for number, name in enumerate(names, start=1) if name not in ("", "-")}
    else:
        for item in text.split(","):
            ours, separator, theirs = item.partition("=")
            if not separator:
                raise InputError(f"{item!r} is not a column map", "write time=stamp,joint1.position=q1")
            pairs.append((ours.strip(), theirs.strip()))
    return {b: a for a, b in pairs if not _is_ours(a) and _is_ours(b)} | {
        a: b for a, b in pairs if _is_ours(a) or not _is_ours(b)
    }


def _is_ours(name: str) -> bool:
    return name in ("time", "t", *FIELDS) or name.rpartition(".")[2] in SUFFIXES.values()
