# SPDX-License-Identifier: Apache-2.0

"""Frozen dataclasses to plain data and back: what JSON, YAML and a job's pipe carry.

The fields and type hints of a dataclass are its schema. Decoding refuses unknown, missing and wrongly typed fields and
names the field by its path: `options.preparation.row_cutoff`.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TypeAlias, TypeVar, Union

import numpy as np

from ros2_dynid.errors import InputError

Plain: TypeAlias = "bool | int | float | str | Sequence[Plain] | Mapping[str, Plain] | None"
"""What JSON and YAML share."""
T = TypeVar("T")
WORDS = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", Path: "a path"}
UNIONS = (Union, types.UnionType)


class NamedChoice(str, Enum):
    """A choice by name: its text is its value, which callers, files and messages use."""

    def __str__(self) -> str:
        """Return the name."""
        return str(self.value)


def encode(value: object) -> Plain:
    """Return plain data: dataclasses as mappings, enums by value, arrays as lists, and null for what is not finite."""
    if isinstance(value, Enum):
        return encode(value.value)
    if value is None or isinstance(
        value, bool | int | str
    ):  # a Text stays one, so that a caller can render its options
        return value
    if isinstance(value, float):
        return finite_or_none(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {_key(field): encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(encode(key)): encode(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return encode(value.tolist())
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        if kinds <= {float}:  # most data are long rows of numbers
            return list(value) if all(map(math.isfinite, value)) else [finite_or_none(item) for item in value]
        if kinds <= {float, type(None)}:
            return [finite_or_none(item) for item in value]
        return [encode(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no plain form")


def finite_or_none(value: float | None) -> float | None:
    """Return a number, None where it is none that is finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def decode(kind: type[T], data: object, path: str = "") -> T:
    """Return the dataclass `kind` from plain data; `path` names the data in errors."""
    if not isinstance(data, Mapping):
        raise _wrong(data, "a mapping of fields", path)
    fields_by_key = {_key(field): field for field in fields(kind)}  # type: ignore[arg-type]
    for name in data:
        if name not in fields_by_key:
            raise InputError(f"unknown field {_inside(path, str(name))!r}", f"choose from {', '.join(fields_by_key)}")
    hints: Mapping[str, object] = typing.get_type_hints(kind)
    values: dict[str, object] = {}
    for name, field in fields_by_key.items():
        where = _inside(path, name)
        if name in data:
            values[field.name] = _value(hints[field.name], data[name], where)
        elif _required(field):
            raise InputError(f"the field {where!r} is missing", "give it")
    build: Callable[..., T] = kind
    return build(**values)


def _key(field: Field[object]) -> str:
    """Return the name of a field in plain data: without the underscore that keeps it apart from a keyword of Python."""
    return field.name.removesuffix("_")


def _required(field: Field[object]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _value(hint: object, data: object, path: str) -> object:
    """Return data converted to the type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        return _one_of(arguments, data, path)
    if origin is np.ndarray:
        return _array(data, path)
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        items = _items(data, path)
        if len(items) != len(arguments):
            raise _wrong(data, f"a list of {len(arguments)}", path)
        return tuple(
            _value(part, item, f"{path}[{k}]") for k, (part, item) in enumerate(zip(arguments, items, strict=True))
        )
    if origin in (tuple, list, Sequence):
        return tuple(_value(arguments[0], item, f"{path}[{k}]") for k, item in enumerate(_items(data, path)))
    if origin in (dict, Mapping):
        if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
            raise _wrong(data, "a mapping of names", path)
        return {key: _value(arguments[1], item, _inside(path, key)) for key, item in data.items()}
    if isinstance(hint, type):
        return _single(hint, data, path)
    raise TypeError(f"{path}: {hint} has no plain form")


def _single(kind: type, data: object, path: str) -> object:
    if is_dataclass(kind):
        return decode(kind, data, path)
    if issubclass(kind, Enum):
        for member in kind:
            if data == member.value:
                return member
        choices = ", ".join(str(member.value) for member in kind)
        raise InputError(f"{path} is {_shorten(data)}", f"choose from {choices}")
    if kind is type(None) and data is None:
        return None
    if kind is float and isinstance(data, int | float) and not isinstance(data, bool) and math.isfinite(data):
        return float(data)
    if kind is Path and isinstance(data, str):
        return Path(data)
    if kind in (str, bool, int) and type(data) is kind:
        return data
    raise _wrong(data, WORDS.get(kind, kind.__name__), path)


def _one_of(choices: tuple[object, ...], data: object, path: str) -> object:
    """Return data as the first member of a union that takes it; null only where the union has it."""
    if data is None and type(None) in choices:
        return None
    members = [choice for choice in choices if choice is not type(None)]
    for member in members[:-1]:
        try:
            return _value(member, data, path)
        except InputError:
            continue
    return _value(members[-1], data, path)


def _items(data: object, path: str) -> Sequence[object]:
    if isinstance(data, str | bytes) or not isinstance(data, Sequence):
        raise _wrong(data, "a list", path)
    return data


def _array(data: object, path: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    try:
        return np.asarray(_items(data, path), dtype=float)
    except (TypeError, ValueError):
        raise _wrong(data, "a list of numbers", path) from None


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _wrong(data: object, expected: str, path: str) -> InputError:
    return InputError(f"{path or 'the request'} is {_shorten(data)}", f"give {expected}")


def _shorten(data: object, max_length: int = 60) -> str:
    text = repr(data)
    return text if len(text) <= max_length else f"{text[:max_length]}..."
