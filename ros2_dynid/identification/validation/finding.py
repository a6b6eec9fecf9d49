# SPDX-License-Identifier: Apache-2.0

"""A finding: something that is wrong with a recording, in words, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass


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
