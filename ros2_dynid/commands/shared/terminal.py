# SPDX-License-Identifier: Apache-2.0

"""Terminal output: consoles, progress bars, tables that fit the width, and the figures of a body."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ros2_dynid.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ros2_dynid.identification.validation.verdict import Remark
    from ros2_dynid.usecases.payload import PayloadOutcome
    from ros2_dynid.usecases.tool import ToolOutcome

_WIDE = 10_000


def console_of(*, no_color: bool, stderr: bool = False) -> Console:
    """Return a console; with `no_color` it writes no escape sequence at all, not even for bold.

    Text that does not go to a terminal is not wrapped: a line of a file or a pipe is a sentence or a row.
    """
    from rich.console import Console

    width = None if (sys.stderr if stderr else sys.stdout).isatty() else _WIDE
    return Console(stderr=stderr, highlight=False, color_system=None if no_color else "auto", width=width)


@contextlib.contextmanager
def progress_bar(*, no_color: bool) -> Iterator[Progress | None]:
    """Yield a function that shows stage and fraction on stderr, or None if stderr is no terminal.

    Without escape sequences there is no bar, but a line for each new stage.
    """
    if not sys.stderr.isatty():
        yield None
        return
    if no_color:
        yield _Stages()
        return
    from rich import progress

    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeElapsedColumn())
    with progress.Progress(*columns, console=console_of(no_color=False, stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def update(stage: str, fraction: float) -> None:
            bar.update(task, description=stage.replace("[", "\\["), completed=fraction)

        yield update


class _Stages:
    """Prints a stage when it begins."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, stage: str, fraction: float) -> None:
        if stage != self._last:
            print(f"{100 * fraction:3.0f} %  {stage}", file=sys.stderr)
            self._last = stage


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, whether it holds numbers (aligned right), and whether its cells may wrap."""

    title: str
    right: bool = False
    wrap: bool = False


def print_table(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | Text]],
    *,
    title: str = "",
    caption: str = "",
    compact: bool = False,
) -> None:
    """Print a table; where the terminal is too narrow for it, each row as lines of `title: cell`."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    if compact:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    else:
        table = Table()
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    smallest = Measurement.get(console, console.options.update(width=_WIDE), table).minimum
    if title:
        console.print(title, markup=False, style="italic")
    if smallest <= console.width:
        console.print(table)
    else:
        for row in rows:
            for column, cell in zip(columns, row, strict=True):
                if str(cell):
                    name = " ".join(column.title.split())
                    console.print(Text.assemble(f"{name}: " if name else "", cell), soft_wrap=False)
            console.print()
    if caption:
        console.print(caption, markup=False, style="dim")


STYLES = {"problem": "bold red", "warning": "yellow", "good": "green", "red": "bold red", "green": "green"}
"""How the levels of a verdict, or of a check, look; others are plain, `yellow` is itself."""


def print_levels(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    """Print levels and sentences; on a terminal, wrapped lines stay beside the level they belong to."""
    from rich.table import Table
    from rich.text import Text

    if console.width >= _WIDE:
        for level, text in rows:
            console.print(f"{level:8s} {text}", markup=False, soft_wrap=True)
        return
    table = Table.grid(padding=(0, 1, 0, 0))
    for level, text in rows:
        table.add_row(Text(level, STYLES.get(level, level if level == "yellow" else "")), Text(text))
    console.print(table)


def print_verdict(console: Console, verdict: Sequence[Remark]) -> None:
    """Print the remarks of a verdict."""
    print_levels(console, [(remark.level.value, remark.text) for remark in verdict])


def print_notes(console: Console, notes: Sequence[str]) -> None:
    """Print notes, a line each."""
    for note in notes:
        console.print(f"note: {note}", style="yellow", markup=False)


def print_body(outcome: PayloadOutcome | ToolOutcome, console: Console) -> None:
    """Print the body of a payload or a tool, +- one standard deviation."""
    std = outcome.std
    console.print(f"  mass     {outcome.mass:.4f} +- {std.mass:.4f} kg")
    for axis, value, error in zip("xyz", outcome.com, std.com, strict=True):
        console.print(f"  com {axis}    {value:.5f} +- {error:.5f} m")
    for i, k in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        name = f"I{'xyz'[i]}{'xyz'[k]}"
        console.print(f"  {name}      {outcome.inertia[i][k]:.6f} +- {std.inertia[i][k]:.6f} kg.m^2")
