# SPDX-License-Identifier: Apache-2.0

"""Read robot descriptions from disk: limited size, YAML without Python objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ros2_dynid.errors import InputError

MAX_YAML = 5_000_000
"""A robot file larger than this [bytes] is refused."""
MAX_DEPTH = 50
"""Brackets within brackets in a YAML file."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_bytes(path: Path, limit: int) -> bytes:
    """Return a file's bytes; refuse what is not there, not a file, or larger than `limit` bytes."""
    source = str(path)
    try:
        if path.is_dir():
            raise InputError("this is a directory", "give a file", source)
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except FileNotFoundError:
        raise InputError("there is no such file", "check the path", source) from None
    except (OSError, ValueError) as error:
        raise InputError(f"it cannot be read ({error})", "check the path and its permissions", source) from None
    if len(data) > limit:
        raise InputError(f"it has more than {limit / 1e6:g} MB", "give the description of one robot", source)
    return data


def check_depth(data: bytes | str) -> None:
    """Refuse YAML nested so deeply that the C loader, which recurses, would crash [ValueError]."""
    depth = 0
    for event in yaml.parse(data, Loader=_Loader):
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")


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
        check_depth(data)
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
