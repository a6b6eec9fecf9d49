# SPDX-License-Identifier: Apache-2.0

"""Edits of XML text in place: attributes change where they stand, so that comments, order and layout stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np


@dataclass
class Tag:
    """A start tag in the file: where it begins, its attributes."""

    start: int
    attributes: dict[str, str]


def tag_end(text: bytes, start: int) -> int:
    """Return the place after the tag that begins at `start`; quoted text may hold a >."""
    quote = b""
    for k in range(start, len(text)):
        c = text[k : k + 1]
        if quote:
            quote = b"" if c == quote else quote
        elif c in (b'"', b"'"):
            quote = c
        elif c == b">":
            return k + 1
    return len(text)


def with_attributes(tag: bytes, values: Mapping[str, str]) -> bytes:
    """Return a start tag with attributes set, in their places where they exist."""
    for name, value in values.items():
        pattern = re.compile(rb"(\s" + name.encode() + rb"\s*=\s*)(\"[^\"]*\"|'[^']*')")
        present = pattern.search(tag)
        if present and _same(present[2].strip(b"\"'").decode(), value):
            continue
        replaced, count = pattern.subn(lambda m, v=value: m[1] + b'"' + v.encode() + b'"', tag, count=1)  # type: ignore[misc]
        if not count:
            end = re.search(rb"\s*/?>$", tag)
            assert end is not None
            replaced = tag[: end.start()] + f' {name}="{value}"'.encode() + tag[end.start() :]
        tag = replaced
    return tag


def without_attributes(tag: bytes, names: Iterable[str]) -> bytes:
    """Return a start tag without some attributes."""
    for name in names:
        tag = re.sub(rb"\s+" + name.encode() + rb"\s*=\s*(\"[^\"]*\"|'[^']*')", b"", tag)
    return tag


def _same(old: str, new: str) -> bool:
    """Whether both texts hold the same numbers but for rounding: then the old text stays."""
    try:
        a, b = (np.array([float(x) for x in text.split()]) for text in (old, new))
    except ValueError:
        return False
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= 1e-12 * np.abs(a).max(initial=0.0) + 1e-17))


Edit: TypeAlias = tuple[int, int, bytes]
"""What stands between two places of a text from then on."""


def edited(text: bytes, edits: Sequence[Edit]) -> bytes:
    """Return the text with edits made, whose places are those of the text given."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def edit_attributes(text: bytes, tag: Tag, values: Mapping[str, str]) -> Edit:
    """Return the edit that sets attributes of a tag."""
    end = tag_end(text, tag.start)
    return tag.start, end, with_attributes(text[tag.start : end], values)


def insert_inside(text: bytes, tag: Tag, block: bytes, indent: bytes, name: bytes) -> Edit:
    """Return the edit that puts a block right after a start tag, opening the tag if it is closed in itself."""
    end = tag_end(text, tag.start)
    start_tag = text[tag.start : end]
    if start_tag.endswith(b"/>"):
        open_tag = start_tag[:-2].rstrip() + b">"
        return tag.start, end, open_tag + block + b"\n" + indent + b"</" + name + b">"
    return end, end, block


def indent_of(text: bytes, start: int) -> bytes:
    """Return the white space that a tag alone on its line begins after."""
    line = text.rfind(b"\n", 0, start) + 1
    before = text[line:start]
    return before if not before.strip() else b""
