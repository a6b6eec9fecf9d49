# SPDX-License-Identifier: Apache-2.0

"""Notes: one line each on what a step did to the data, with a kind for programs to match on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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
