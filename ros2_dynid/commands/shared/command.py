# SPDX-License-Identifier: Apache-2.0

"""What a command is: a module with add_parser, run and show.

`add_parser(subparsers)` describes the arguments, `run(args)` returns a typed outcome, and `show(outcome, console)`
prints it for people; with `--json` the fields of the outcome are printed instead. A module may have `SHOW_OPTIONS`, the
options that its `show` takes, `exit_code(args, outcome)`, and `finish(args)` for what stays after the outcome is
printed, such as a page that is open.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    Subparsers: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]
    """What ArgumentParser.add_subparsers returns; argparse has no public name for it."""


def items(text: str) -> tuple[str, ...]:
    """Return the items of a list separated by commas."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def numbers(text: str) -> tuple[float, ...]:
    """Return the numbers of a list separated by commas."""
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers separated by commas") from None
