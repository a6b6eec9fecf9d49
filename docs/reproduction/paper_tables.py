# SPDX-License-Identifier: Apache-2.0

"""What the scripts of this folder share: tables beside the paper's, verdicts, figures, stored searches, and the page.

A script makes its whole page, so that nothing on it is written by hand. Wall-clock times carry a `~`: they are measured
anew in every run, all other figures are deterministic and a test compares each of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.model.robot import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Search = dict[str, Array]
"""What a long search found, by name."""


class Paper:
    """The page of one paper, gathered in order; `check` keeps what does not agree."""

    def __init__(self, script: str, title: str, intro: str, args: argparse.Namespace, command: str = "") -> None:
        """Begin the page with its title, what it is about and how to make it."""
        path = Path(script)
        self.page, self.store = path.with_suffix(".md"), path.with_suffix(".json")
        self.args = args
        self.figures: Path = args.figures or path.parent / "images"
        run = f"./dynid python docs/reproduction/{path.name}{command}"
        self.text: list[str] = [f"# {title}", "", intro, "", "```bash", run, "```", ""]
        self.wrong: list[str] = []
        self.searches: dict[str, Search] = {}

    def heading(self, text: str) -> None:
        """Begin a section."""
        self.text += [f"## {text}", ""]

    def say(self, *sentences: str) -> None:
        """Add a paragraph."""
        self.text += [" ".join(sentences), ""]

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

    def figure(self, figure: Figure, name: str, caption: str) -> None:
        """Draw a figure as SVG into the folder of images and show it on the page."""
        import matplotlib as mpl
        import matplotlib.pyplot as plt

        self.figures.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
            figure.savefig(self.figures / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)
        self.text += [f"![{caption}](images/{name}.svg)", "", f"*{caption}*", ""]

    def searched(self, name: str, search: Callable[[], Search]) -> Search:
        """Return what the search finds; with --stored what it found when the page was made.

        Searches end elsewhere in the last digits on other processors, and take long: so the points that they found are
        kept beside the page, and everything on it follows from them exactly.
        """
        if name in self.searches:
            return self.searches[name]
        stored = json.loads(self.store.read_text()) if self.args.stored and self.store.is_file() else {}
        kept = stored[name] if name in stored else search()
        found = {key: np.array(value) for key, value in kept.items()}
        self.searches[name] = found
        return found

    def finish(self) -> None:
        """Print the page, write it if asked to, and end with 1 if something does not agree."""
        text = "\n".join(self.text).rstrip() + "\n"
        print(text)
        if self.args.write:
            self.page.write_text(text)
            if self.searches:
                kept = {
                    name: {key: np.asarray(value).tolist() for key, value in found.items()}
                    for name, found in self.searches.items()
                }
                self.store.write_text(json.dumps(kept, separators=(",", ":")) + "\n")
        for what in self.wrong:
            print(f"does not agree: {what}", file=sys.stderr)
        sys.exit(1 if self.wrong else 0)


def arguments(description: str) -> argparse.ArgumentParser:
    """Return the parser that every script starts from."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--write", action="store_true", help="also write the page beside the script")
    parser.add_argument("--stored", action="store_true", help="take the stored results of long searches")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="where to draw (default: images beside it)")
    return parser


def verdict(ours: float, paper: float, *, better: str = "lower", equal: float = 0.01) -> str:
    """Return equal, better or worse for a figure of ours beside the paper's; equal: relative difference that counts."""
    if abs(ours - paper) <= equal * abs(paper):
        return "equal"
    return "better" if (ours < paper) == (better == "lower") else "worse"


def like(ours: float, paper: float, factor: float) -> str:
    """Return equal if both agree within a factor that the paper's own scatter explains, else how they differ."""
    ratio = ours / paper
    if 1.0 / factor <= ratio <= factor:
        return "equal"
    return "larger" if ratio > 1 else "smaller"


def ratio(ours: float, paper: float) -> str:
    """Return ours over the paper's for a table."""
    return f"{ours / paper:.2g}"


def measured(value: float, unit: str) -> str:
    """Return a wall-clock time for the page: rounded to one digit, with the mark of what no test compares."""
    return f"~{value:.1g} {unit}"


def axes(rows: int, columns: int, size: tuple[float, float] = (9.0, 3.0)) -> tuple[Figure, Array]:
    """Return a figure and its axes, shape (rows, columns)."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
