# SPDX-License-Identifier: Apache-2.0

"""Optional fields of requests: lists of at most one value (T[<=1]); an empty list means that nothing was given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ros2_dynid.codec import Plain

T = TypeVar("T")


def optional(field: Sequence[T]) -> T | None:
    """Return the value of an optional field, or None if it was not given."""
    return field[0] if len(field) else None


def given_fields(message: Any, names: Iterable[str]) -> dict[str, Plain]:
    """Return by name the values of those optional fields of a message that were given, as the codec takes them."""
    return {name: getattr(message, name)[0] for name in names if len(getattr(message, name))}
