# SPDX-License-Identifier: Apache-2.0

"""A finding: something that is wrong with a recording, in words, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ros2_dynid.errors import InputError, Text


@dataclass(frozen=True)
class Finding:
    """Something wrong: kind (a word to match on), joints it is about (none: all), what, hint, whether it is certain.

    A model identified from such data is wrong: `identify` refuses what is certain and remarks on the rest.
    """

    kind: str
    joints: tuple[str, ...]
    what: str
    hint: str
    certain: bool = True


def refuse_certain(findings: Sequence[Finding], source: str) -> None:
    """Raise InputError with all that is certain, in one line."""
    certain = [finding for finding in findings if finding.certain]
    if certain:
        first, *more = dict.fromkeys(finding.hint for finding in certain)
        hint = Text(first, *(part for hint in more for part in (", and ", hint)))
        raise InputError("; ".join(finding.what for finding in certain), hint, source)
