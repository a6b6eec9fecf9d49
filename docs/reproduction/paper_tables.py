"""What the scripts of this folder share: Markdown tables, a verdict, and writing them into the script's page."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

BEGIN, END = "<!-- begin: printed by the script -->", "<!-- end -->"


class Paper:
    """The tables of one paper, gathered in order; `check` keeps what does not agree."""

    def __init__(self, script: str) -> None:
        """Name the script, whose page is beside it."""
        self.page = Path(script).with_suffix(".md")
        self.text: list[str] = []
        self.wrong: list[str] = []

    def heading(self, text: str) -> None:
        """Begin a section."""
        self.text += [f"### {text}", ""]

    def say(self, text: str) -> None:
        """Add a paragraph."""
        self.text += [text, ""]

    def table(self, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Add a table; numbers as they are given."""
        self.text.append("| " + " | ".join(head) + " |")
        self.text.append("|" + " --- |" * len(head))
        self.text += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
        self.text.append("")

    def check(self, agrees: bool, what: str) -> str:
        """Return a mark for the table, and remember what does not agree."""
        if not agrees:
            self.wrong.append(what)
        return "yes" if agrees else "**no**"

    def finish(self, args: argparse.Namespace) -> None:
        """Print the tables, put them into the page if asked to, and end with 1 if something does not agree."""
        text = "\n".join(self.text).rstrip() + "\n"
        print(text)
        if args.write:
            page = self.page.read_text()
            inside = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
            self.page.write_text(inside.sub(lambda _: f"{BEGIN}\n\n{text}\n{END}", page))
        for what in self.wrong:
            print(f"does not agree: {what}", file=sys.stderr)
        sys.exit(1 if self.wrong else 0)


def arguments(description: str) -> argparse.ArgumentParser:
    """Return the parser that every script starts from."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--write", action="store_true", help="also put the tables into the page beside the script")
    return parser
