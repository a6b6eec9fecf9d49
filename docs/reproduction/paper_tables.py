# SPDX-License-Identifier: Apache-2.0

"""What the scripts of this folder share: tables beside the paper's, verdicts, figures, stored searches, and the page.

A script makes its whole page, so that nothing on it is written by hand. Wall-clock times carry a `~`: they are measured
anew in every run, all other figures are deterministic and a test compares each of them.

Every verdict is made here, from two figures and how well each is known: no script writes one down.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binomtest

from ros2_dynid.model.robot import Array
from ros2_dynid.version import __version__

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
        self.text: list[str] = [f"# {title}", "", intro, "", "```bash", run, "```", "", self._made(), ""]
        self.wrong: list[str] = []
        self.searches: dict[str, Search] = {}

    def _made(self) -> str:
        """Return when and with which code the figures were made: of the page that is there, unless it is written."""
        if not self.args.write and self.page.is_file():
            known = re.search(r"^Made .*$", self.page.read_text(), re.MULTILINE)
            if known:
                return known[0]
        git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=8", "--exclude=*"]
        done = subprocess.run(git, capture_output=True, text=True, check=False)
        commit = f", sources of commit {done.stdout.strip()} or the one after it" if done.returncode == 0 else ""
        return f"Made on {date.today()} with ros2_dynid {__version__}{commit}."

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


CALCULATION, SIMULATION, ROBOT = "a calculation", "a simulation", "the authors' robot"
"""What a figure is of. Figures of different things are not comparable, whoever would look better."""


class Better(Enum):
    """Which way a figure is better."""

    LOWER = -1
    NEITHER = 0
    HIGHER = 1


@dataclass(frozen=True)
class Known:
    """A figure, the interval that it is known within, and what it is of; infinite: what was tried and not found."""

    value: float
    low: float
    high: float
    of: str = CALCULATION


def exactly(value: float, of: str = CALCULATION) -> Known:
    """Return a figure without uncertainty: a count, or what follows from given points."""
    return Known(float(value), float(value), float(value), of)


def printed(digits: str, of: str = CALCULATION) -> Known:
    """Return a figure as a paper prints it: known within half a unit of its last digit."""
    mantissa, _, exponent = digits.lower().partition("e")
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    value = float(digits)
    return Known(value, value - half, value + half, of)


def about(value: float, of: str = CALCULATION) -> Known:
    """Return a figure that a paper calls "about": known within a factor of 2."""
    return Known(value, value / 2, 2 * value, of)


def below(value: float, of: str = CALCULATION) -> Known:
    """Return a figure of which a paper says that it is no larger."""
    return Known(value, -math.inf, value, of)


def scattered(draws: Sequence[float] | Array, of: str = CALCULATION) -> Known:
    """Return the median of draws, known within their 5 % and 95 % quantiles, as one draw of the paper's is."""
    low, middle, high = (float(x) for x in np.quantile(np.asarray(draws, dtype=float), (0.05, 0.5, 0.95)))
    return Known(middle, low, high, of)


def estimated(value: float, std: float, of: str = CALCULATION) -> Known:
    """Return a figure with its standard deviation: known within two of them."""
    return Known(float(value), float(value - 2 * std), float(value + 2 * std), of)


def verdict(ours: Known | None, paper: Known | None, better: Better = Better.LOWER) -> str:
    """Return equal, better, worse, differs or not comparable: the same rule for both sides and for every table.

    Not comparable: of different things, or not tried (None). Equal: the intervals meet. Differs: they do not, and
    neither side is better.
    """
    if ours is None or paper is None or ours.of != paper.of:
        return "not comparable"
    if ours.low <= paper.high and paper.low <= ours.high:
        return "equal"
    if better is Better.NEITHER:
        return "differs"
    return "better" if (ours.value > paper.value) == (better is Better.HIGHER) else "worse"


def statement(cases: Iterable[bool]) -> str:
    """Return whether a statement that a paper makes without exception is confirmed: it holds in every case."""
    held = [bool(case) for case in cases]
    if all(held):
        return "confirmed"
    return "contradicted" if not any(held) else f"contradicted in {held.count(False)} of {len(held)} cases"


def tendency(draws: Iterable[bool]) -> str:
    """Return whether a statement that a paper makes from one draw is confirmed by many: in more than half of all draws.

    Undecided where the 95 % interval of the share has a half in it.
    """
    held = [bool(draw) for draw in draws]
    share = binomtest(sum(held), len(held)).proportion_ci(0.95)
    word = "confirmed" if share.low > 0.5 else "contradicted" if share.high < 0.5 else "undecided"
    return f"{word}: in {100 * sum(held) / len(held):.0f} % of {len(held)} sets"


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
