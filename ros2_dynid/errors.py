# SPDX-License-Identifier: Apache-2.0

"""The package's errors: one line each that says what is wrong and what to do, with the data as attributes.

A text that suggests an option holds the request's field and a value (`Option`); the caller chooses the spelling: the
command line renders a flag, a node `gains: {elbow: -1}`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

Scalar: TypeAlias = str | float | bool
OptionValue: TypeAlias = Scalar | Sequence[Scalar] | Mapping[str, Scalar]


@dataclass(frozen=True)
class Option:
    """A field of a request, and the value that it should have (None: the text only names the field)."""

    key: str
    value: OptionValue | None = None


Style: TypeAlias = Callable[[Option], str]
"""How a caller writes an option."""


def as_field(option: Option) -> str:
    """Return `key: value` as a request writes it, in YAML: gains: {elbow: -1}."""
    return option.key if option.value is None else f"{option.key}: {_plain(option.value)}"


def _plain(value: OptionValue) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {scalar_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, str | float | int):
        return scalar_text(value)
    return "[" + ", ".join(scalar_text(item) for item in value) + "]"


def scalar_text(value: Scalar) -> str:
    """Return a single value as a person writes it: true, 0.5, rad."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.4g}"


class Text(str):
    """A line of text that names options. As a plain string it names fields; `render` lets the caller's style decide."""

    parts: tuple[str | Option, ...]

    def __new__(cls, *parts: str | Option) -> Text:
        """Join texts (which may name options themselves) and options."""
        flat: list[str | Option] = []
        for part in parts:
            flat += part.parts if isinstance(part, Text) else [one_line(part) if isinstance(part, str) else part]
        text = super().__new__(cls, "".join(one_line(as_field(p)) if isinstance(p, Option) else p for p in flat))
        text.parts = tuple(flat)
        return text

    def render(self, style: Style) -> str:
        """Return the line with each option in a style."""
        return "".join(one_line(style(part)) if isinstance(part, Option) else part for part in self.parts)


class DynidError(Exception):
    """An error that one line explains to the user."""

    def __init__(self, text: str = "") -> None:
        """Keep the line."""
        self.text = Text(text)
        super().__init__(str(self.text))

    def render(self, style: Style) -> str:
        """Return the line with each option in a style."""
        return self.text.render(style)


class InputError(DynidError):
    """Bad input: a file, an option or an array. The command line ends with exit code 2."""

    def __init__(self, what: str, hint: str, source: str | None = None) -> None:
        """Say `what` is wrong, the `hint`, and the file or element (`source`) it was found in."""
        self.what, self.hint, self.source = Text(what), Text(hint), source
        super().__init__(Text(f"{source}: " if source else "", self.what, "; ", self.hint))


class RankError(DynidError):
    """A matrix does not have the rank that the computation needs."""

    def __init__(self, what: str, hint: str, *, rank: int, expected: int, tolerance: float) -> None:
        """Keep the numerical `rank` found with the absolute `tolerance`, and the rank `expected`."""
        self.rank, self.expected, self.tolerance = rank, expected, tolerance
        super().__init__(Text(what, f" (rank {rank} of {expected} at tolerance {tolerance:.1e}); ", hint))


class ProgrammeError(DynidError):
    """A semidefinite programme ended without a solution."""


class MissingPackageError(DynidError):
    """An optional package is not installed."""

    def __init__(self, package: str, purpose: str) -> None:
        """Name the `package` and what it is needed for (`purpose`)."""
        self.package = package
        super().__init__(f"{purpose} needs the Python package {package}; install it: pip install {package}")


def one_line(text: str) -> str:
    """Return text without control characters or line breaks: names come from untrusted files."""
    return "".join(c if c.isprintable() else " " for c in text)


def suggest(name: object, choices: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest choice, or all of them."""
    names = [str(choice) for choice in choices]
    close = difflib.get_close_matches(str(name), names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"use {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}" if names else "there are none"


class NoteKind(str, Enum):
    """What a note is about."""

    DAMAGE = "damage"
    """Part of the recording is lost: cut off, damaged or undecodable."""
    STAMPS = "stamps"
    """The stamps are not the sampling times."""
    REPAIRED = "repaired"
    """Samples were dropped, sorted, resampled or interpolated."""
    REMARK = "remark"
    """Nothing is wrong, but the reader should know."""


@dataclass(frozen=True)
class Note:
    """One note: its kind and a sentence."""

    kind: NoteKind
    text: str

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text


def damage(text: str) -> Note:
    """Return a note on lost data."""
    return Note(NoteKind.DAMAGE, text)


def repaired(text: str) -> Note:
    """Return a note on repaired data."""
    return Note(NoteKind.REPAIRED, text)


def remark(text: str) -> Note:
    """Return a note on what the reader should know."""
    return Note(NoteKind.REMARK, text)
