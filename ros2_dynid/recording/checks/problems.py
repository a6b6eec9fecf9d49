# SPDX-License-Identifier: Apache-2.0

"""A problem of a recording: how bad it is, what is wrong and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GREEN, YELLOW, RED = "green", "yellow", "red"
_ORDER = (GREEN, YELLOW, RED)


@dataclass(frozen=True)
class RecordingProblem:
    """Kind (a word to match on), level, joint (None: the whole recording), what is wrong, what to do."""

    kind: str
    level: str
    what: str
    do: str
    joint: str | None = None


def worst(levels: Iterable[str]) -> str:
    """Return the worst of some levels; green if there is none."""
    return max(levels, key=_ORDER.index, default=GREEN)
