# SPDX-License-Identifier: Apache-2.0

"""The command line's spelling of a request's option: `gains: {elbow: -1}` is `--gains elbow=-1` here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from ros2_dynid.errors import Option, Text, scalar_text

FLAGS = {"groups": "only", "source": "from"}
"""Fields of the requests whose flag has another name."""

T = TypeVar("T")


def as_flag(option: Option) -> str:
    """Return an option as it is typed."""
    flag = "--" + FLAGS.get(option.key, option.key).replace("_", "-")
    value = option.value
    if value is None or value is True:
        return flag
    if value is False:
        return f"no {flag}"
    if isinstance(value, Mapping):
        return f"{flag} {','.join(f'{name}={scalar_text(item)}' for name, item in value.items())}"
    if isinstance(value, str | float | int):
        return f"{flag} {scalar_text(value)}"
    return f"{_join_flag(flag, ','.join(scalar_text(item) for item in value))}"


def _join_flag(flag: str, value: str) -> str:
    """Return flag and value; a value that begins with a minus needs the equals sign."""
    return f"{flag}={value}" if value.startswith("-") else f"{flag} {value}"


def with_flags(outcome: T) -> T:
    """Return an outcome whose texts name options as they are typed here."""
    rendered: T = _render_value(outcome)  # type: ignore[assignment]
    return rendered


def _render_value(value: object) -> object:
    if isinstance(value, Text):
        return value.render(as_flag)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _render_value(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, Mapping):
        return {key: _render_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_render_value, value))
    return value
