"""The command line: parses, calls the command, prints a table for people or one JSON object for machines.

Exit codes: 0 done; 1 the command ran and says no (a demo or a test that failed); 2 bad input; 130 interrupted.
"""

from __future__ import annotations

import signal

if __name__ == "__main__":  # an interrupt while the modules load ends us, without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import importlib
import json
import math
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import Any

from ros2_dynid import commands
from ros2_dynid.commands.shared.flags import as_flag
from ros2_dynid.errors import DynidError, Text
from ros2_dynid.version import __version__

ORDER = ("demo", "mdh", "base", "excite", "check", "convert", "identify", "payload", "gains")
"""Commands as a reader meets them along the pipeline; the others follow by name."""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that says what to do."""

    def error(self, message: str) -> Any:
        """End with exit code 2 and a single line."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; see {self.prog} --help\n")


def command_names() -> list[str]:
    """Return the names of the command files there are, in the order of the help page."""
    found = [m.name for m in pkgutil.iter_modules(commands.__path__) if m.name != "shared"]
    return sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="dynid",
        description="Identify the dynamic model of a robot: URDF in, base parameters with error bars out.",
    )
    parser.add_argument("--version", action="version", version=f"dynid {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser, required=True)
    for name in command_names():
        module = importlib.import_module(f"ros2_dynid.commands.{name}")
        before = set(subparsers.choices)
        module.add_parser(subparsers)
        for added in set(subparsers.choices) - before:
            _add_common_options(subparsers.choices[added])
            subparsers.choices[added].set_defaults(module=module)
    return parser


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON object on stdout and nothing else there")
    group.add_argument("--no-color", action="store_true", help="plain text, also on a terminal")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _main(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("dynid: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _main(argv: Sequence[str]) -> int:
    args = build_parser().parse_args(argv)
    try:
        result = _flagged(args.module.run(args))
    except DynidError as error:
        print(f"dynid {args.command}: {error.render(as_flag)}", file=sys.stderr)
        return 2
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reason = error.strerror or error
        print(
            f"dynid {args.command}: {where}{reason}; check the path, its permissions and the free space",
            file=sys.stderr,
        )
        return 2
    if args.json:
        print(json.dumps(_plain(result), allow_nan=False))
    else:
        from rich.console import Console

        args.module.show(result, Console(no_color=args.no_color or None, highlight=False))
    sys.stdout.flush()
    return int(result.get("exit_code", 0))


def _flagged(value: Any) -> Any:
    """Return a result whose texts name the options as they are typed here."""
    if isinstance(value, dict):
        return {key: _flagged(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_flagged(item) for item in value)
    return value.render(as_flag) if isinstance(value, Text) else value


def _plain(value: Any) -> Any:
    """Return value made of JSON's own types: arrays become lists, and numbers that JSON lacks become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


if __name__ == "__main__":
    sys.exit(main())
