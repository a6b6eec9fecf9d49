"""The command line: parse the arguments, run the command, print tables or one JSON object.

Exit codes: 0 success; 1 the command ran and failed (a demo or a test); 2 bad input; 130 interrupted.
"""

from __future__ import annotations

import signal

if __name__ == "__main__":  # an interrupt while the modules load ends us, without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import importlib
import json
import os
import pkgutil
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ros2_dynid import commands
from ros2_dynid.blas import one_blas_thread
from ros2_dynid.commands.shared.flags import as_flag, with_flags
from ros2_dynid.commands.shared.terminal import console_of
from ros2_dynid.errors import DynidError
from ros2_dynid.version import __version__

ORDER = ("demo", "mdh", "base", "excite", "preview", "check", "convert", "identify", "payload", "gains")
"""Commands as a reader meets them along the pipeline; the others follow by name."""


class _UsageError(Exception):
    """The arguments are wrong: the line to print."""


class _Parser(argparse.ArgumentParser):
    """An argument parser with errors of one line, which takes -9.81,0,0 for a value."""

    def __init__(self, **options: Any) -> None:
        """Take lists of numbers for values, as argparse does with single numbers."""
        super().__init__(**options)
        self._negative_number_matcher = re.compile(r"-\.?\d|-inf\b")

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise _UsageError(f"{self.prog}: {' '.join(message.split())}; see {self.prog} --help")


def command_names() -> list[str]:
    """Return the names of the command files there are, in the order of the help page."""
    names = [m.name for m in pkgutil.iter_modules(commands.__path__) if m.name != "shared"]
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


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
    group.add_argument("--json", action="store_true", help="print one JSON object on stdout, also for an error")
    group.add_argument("--no-color", action="store_true", help="plain text without colours or other escape sequences")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    one_blas_thread()
    try:
        return _main(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("dynid: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _main(argv: Sequence[str]) -> int:
    try:
        args = build_parser().parse_args(argv)
    except _UsageError as error:
        return _refused(str(error), as_json="--json" in argv)
    try:
        outcome = with_flags(args.module.run(args))
    except DynidError as error:
        return _refused(f"dynid {args.command}: {error.render(as_flag)}", as_json=args.json)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        what = f"{where}{error.strerror or error}; check the path, its permissions and the free space"
        return _refused(f"dynid {args.command}: {what}", as_json=args.json)
    if args.json:
        from ros2_dynid.codec import encode

        print(json.dumps(encode(outcome), allow_nan=False))
    else:
        args.module.show(outcome, console_of(no_color=args.no_color))
    sys.stdout.flush()
    if hasattr(args.module, "finish"):
        args.module.finish(args)
    return int(getattr(outcome, "exit_code", 0))


def _refused(line: str, *, as_json: bool) -> int:
    """Print an error, with --json on stdout too, and return the exit code of bad input."""
    print(line, file=sys.stderr)
    if as_json:
        print(json.dumps({"error": line}), flush=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
