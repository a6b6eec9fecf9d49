# SPDX-License-Identifier: Apache-2.0

"""The pages of the documentation, taken apart: code blocks, commands, inline code, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS = ("dynid ", "./dynid ", "cmake ")
"""What a line of a block that is not marked as bash starts with if it is a command."""


OUTPUT = "<!-- output -->"


@dataclass(frozen=True)
class Block:
    """A code block: its language ("indented" without a fence), its text and the line it starts at.

    quoted: it is what the commands above it print; the page says so by OUTPUT in the line before it.
    """

    language: str
    text: str
    line: int
    quoted: bool = False


def pages() -> list[Path]:
    """Return every Markdown page of the repository that users read."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """Return the code blocks of a page in order, fenced and indented ones."""
    found: list[Block] = []
    lines = text.splitlines()
    k = 0
    while k < len(lines):
        fence = re.match(r"^```(\w*)\s*$", lines[k])
        if fence:
            end = next((j for j in range(k + 1, len(lines)) if lines[j].startswith("```")), None)
            assert end is not None, f"the block of line {k + 1} has no end"
            quoted = k > 0 and lines[k - 1] == OUTPUT
            found.append(Block(fence[1], "\n".join(lines[k + 1 : end]), k + 2, quoted))
            k = end + 1
        elif lines[k].startswith("    ") and (k == 0 or not lines[k - 1].strip()):
            end = k
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            found.append(Block("indented", "\n".join(line[4:] for line in lines[k:end]).rstrip(), k + 1))
            k = end
        else:
            k += 1
    return found


def prose(text: str) -> str:
    """Return the page without its code blocks."""
    text = re.sub(r"^```.*?^```\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?:^|(?<=\n))\n(?:    .*\n?)+", "\n", text)


def logical_lines(text: str) -> Iterator[str]:
    """Yield the commands of a block: continued lines joined, blank ones and comments left out."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        line = line.strip().removeprefix("$ ")
        if line and not line.startswith("#"):
            yield line


def inline_code(text: str) -> list[str]:
    """Return what stands between backticks in the prose."""
    return re.findall(r"`([^`\n]+)`", prose(text))


def links(text: str) -> list[str]:
    """Return the targets of links and pictures in the prose."""
    text = re.sub(r"`[^`\n]*`", "", prose(text))
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"<img[^>]*\ssrc=\"([^\"]+)\"", text)


def anchors(text: str) -> set[str]:
    """Return the anchors that a page's headings have where Markdown is shown."""
    titles = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
