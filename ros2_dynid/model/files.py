# SPDX-License-Identifier: Apache-2.0

"""Read descriptions from disk: limited size, YAML without Python objects, each value checked."""

from __future__ import annotations

import contextlib
import math
import os
import reprlib
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ros2_dynid.errors import InputError, suggest
from ros2_dynid.model.robot import Array

MAX_YAML = 5_000_000
"""A robot file larger than this [bytes] is refused."""
MAX_DEPTH = 50
"""Brackets within brackets in a YAML file."""
MAX_EXPANDED = 100_000
"""Values of a YAML file with its aliases written out: a few hundred bytes could stand for billions."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def missing(path: str | Path) -> InputError:
    """Return the error of a path that leads to nothing."""
    if os.path.islink(path):  # noqa: PTH114
        return InputError("this symbolic link leads to nothing", "correct the link", str(path))
    return InputError("there is no such file or folder", "check the path", str(path))


def read_bytes(path: Path, limit: int, hint: str = "give the description of one robot") -> bytes:
    """Return a file's bytes; refuse what is not there, not a file, or, with a hint, larger than `limit` bytes."""
    source = str(path)
    try:
        if path.is_dir():
            raise InputError("this is a folder", "give a file", source)
        if path.is_symlink() and not path.exists():
            raise missing(path)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:  # noqa: PTH123
            if stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):
                os.set_blocking(stream.fileno(), True)  # waits for who writes; others that have nothing are refused
            data = stream.read(limit + 1)
        if data is None:
            raise InputError("it has nothing to read", "give a file", source)
    except FileNotFoundError:
        raise InputError("there is no such file", "check the path", source) from None
    except (OSError, ValueError) as error:
        raise InputError(f"it cannot be read ({error})", "check the path and its permissions", source) from None
    if len(data) > limit:
        raise InputError(f"it has more than {limit / 1e6:g} MB", hint, source)
    return data


def check_structure(data: bytes | str) -> None:
    """Refuse YAML [ValueError] nested so deeply that the C loader would crash, or that aliases make far larger."""
    open_sizes, anchors = [1], dict[str, int]()  # values of each collection that is open, and of what has a name
    names: list[str | None] = []
    for event in yaml.parse(data, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise ValueError(f"*{event.anchor} stands for what is not known before it, or for itself")
            open_sizes[-1] += anchors[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            open_sizes.append(1)
            names.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            size, name = open_sizes.pop(), names.pop()
            open_sizes[-1] += size
            anchors |= {name: size} if name else {}
        elif isinstance(event, yaml.ScalarEvent):
            open_sizes[-1] += 1
            anchors |= {event.anchor: 1} if event.anchor else {}
        if len(open_sizes) + 1 > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if anchors and open_sizes[-1] > MAX_EXPANDED:
            raise ValueError(f"aliases make more than {MAX_EXPANDED} values of it")


class _UniqueLoader(_Loader):  # type: ignore[misc]
    """A safe loader that refuses a key given twice; YAML would silently keep the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Build a mapping whose keys differ."""
        keys = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str | int | float) and key in keys:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} occurs twice", key_node.start_mark)
            keys.add(key if isinstance(key, str | int | float) else id(key_node))
        return super().construct_mapping(node, deep)


def parse_yaml(data: bytes | str, source: str) -> object:
    """Return the data of a YAML text; `source` names the file in errors."""
    try:
        check_structure(data)
        return yaml.load(data, Loader=_UniqueLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise InputError(f"not YAML ({where}{error.problem or error.context})", "correct that line", source) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"not YAML ({str(error)[:100]})", "give a text file", source) from None


def read_yaml(path: Path) -> object:
    """Return the data of a YAML file."""
    return parse_yaml(read_bytes(path, MAX_YAML), str(path))


def as_mapping(value: object, where: str, source: str) -> Mapping[object, object]:
    """Return the value if it is a mapping; `where` names it in the error."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where} is not a mapping", "write KEY: VALUE", source)
    return value


def check_keys(values: Mapping[object, object], choices: tuple[str, ...], where: str, source: str) -> None:
    """Refuse an unknown key and suggest the nearest known one."""
    for key in values:
        if key not in choices:
            raise InputError(f"{where} has the unknown key {key!r}", suggest(key, choices), source)


def as_number(value: object, where: str, source: str, *, infinite: bool = False) -> float:
    """Return a finite number; infinity passes only where it means "no limit"."""
    if isinstance(value, str):  # YAML 1.1 reads 1e-3 as text
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where} is {reprlib.repr(value)}", "give a number", source)
    try:
        result = float(value)
    except OverflowError:  # an integer of more than 308 digits
        result = math.inf
    if math.isnan(result) or (math.isinf(result) and not infinite):
        raise InputError(f"{where} is {reprlib.repr(value)}", "give a finite number", source)
    return result


def as_vector(value: object, where: str, source: str) -> Array:
    """Return three numbers, shape (3,)."""
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise InputError(f"{where} is {reprlib.repr(value)}", "give 3 numbers, such as [0, 0, -9.81]", source)
    return np.array([as_number(item, where, source) for item in value])


def as_pose(value: object, where: str, source: str) -> Array:
    """Return a rigid transform (4, 4) from four rows."""
    rows = value if isinstance(value, list) else []
    if len(rows) != 4 or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        raise InputError(f"{where} is not a 4x4 transform", "give 4 rows of 4 numbers", source)
    matrix = np.array([[as_number(item, where, source) for item in row] for row in rows])
    rigid = np.abs(matrix[:3, :3] @ matrix[:3, :3].T - np.eye(3)).max() < 1e-9 and np.linalg.det(matrix[:3, :3]) > 0
    if not rigid or not np.array_equal(matrix[3], [0, 0, 0, 1]):
        raise InputError(f"{where} is not a rigid transform", "give a rotation, a position and the row 0 0 0 1", source)
    return matrix
