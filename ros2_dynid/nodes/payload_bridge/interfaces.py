# SPDX-License-Identifier: Apache-2.0

"""Services known by name alone: their types are imported, their fields found by introspection, set and read by path."""

from __future__ import annotations

import importlib
import re
from typing import Any

from ros2_dynid.control.payload_bridge import Figure
from ros2_dynid.errors import InputError, suggest

NAME = re.compile(r"([a-z][a-z0-9_]*)/srv/([A-Z][A-Za-z0-9]*)")
NUMBERS = ("double", "float", "float64", "float32")


def service_type(name: str) -> Any:
    """Return the type of a service by its name, such as ur_msgs/srv/SetPayload."""
    found = NAME.fullmatch(name)
    if found is None:
        raise InputError(f"{name!r} is no service type", "write PACKAGE/srv/NAME")
    try:
        module = importlib.import_module(f"{found[1]}.srv")
    except ModuleNotFoundError:
        raise InputError(
            f"the package {found[1]} is not installed", f"install it, or source its workspace: {name}"
        ) from None
    kind = getattr(module, found[2], None)
    if kind is None or not hasattr(kind, "Request"):
        raise InputError(f"the package {found[1]} has no service {found[2]}", "check the file of bridges")
    return kind


def check_path(kind: Any, path: str, figure: str | None = None) -> None:
    """Refuse a path that the message type does not have, or whose field cannot hold the figure."""
    *outer, last = path.split(".")
    message = kind()
    for part in outer:
        _check_name(message, part, path)
        message = getattr(message, part)
        if not hasattr(message, "get_fields_and_field_types"):
            raise InputError(f"{path}: {part} has no fields of its own", "check the file of bridges")
    _check_name(message, last, path)
    if figure is None:
        return
    field = message.get_fields_and_field_types()[last]
    count = {"com": 3, "inertia": 9}.get(figure)
    if figure == "link":
        fits = field == "string"
    elif count is None:
        fits = field in NUMBERS
    else:
        fits = field in [form for name in NUMBERS for form in (f"{name}[{count}]", f"sequence<{name}>")]
    if not fits:
        raise InputError(f"{path} is a {field}, which cannot hold {figure}", "check the file of bridges")


def set_path(message: Any, path: str, value: Figure) -> None:
    """Set a field by its path."""
    *outer, last = path.split(".")
    for part in outer:
        message = getattr(message, part)
    setattr(message, last, list(value) if isinstance(value, tuple) else value)


def get_path(message: Any, path: str) -> Any:
    """Return a field by its path, numbers of an array as a tuple."""
    for part in path.split("."):
        message = getattr(message, part)
    if isinstance(message, str | int | float | bool):
        return message
    return tuple(float(x) for x in message)


def _check_name(message: Any, name: str, path: str) -> None:
    known = list(message.get_fields_and_field_types())
    if name not in known:
        raise InputError(f"the field {path!r} does not exist", suggest(name, known))
