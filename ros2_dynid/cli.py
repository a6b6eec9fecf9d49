# SPDX-License-Identifier: Apache-2.0

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
import shlex
import sys
import warnings
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from ros2_dynid import commands
from ros2_dynid.blas import one_blas_thread
from ros2_dynid.commands.shared.arguments import as_flag, with_flags
from ros2_dynid.commands.shared.terminal import console_of
from ros2_dynid.errors import DynidError, suggest
from ros2_dynid.version import __version__

ORDER = ("demo", "mdh", "base", "excite", "preview", "check", "convert", "identify", "payload", "gains")
"""Commands as a reader meets them along the pipeline; the others follow by name."""


class _UsageError(Exception):
    """The arguments are wrong: the line to print."""


class _Parser(argparse.ArgumentParser):
    """An argument parser with errors of one line, help in two levels, and suggestions for mistyped names.

    A list of numbers that begins with a minus, such as -9.81,0,0, is a value.
    """

    def __init__(self, **options: Any) -> None:
        """Show every option in the help until `show_only` chooses some."""
        super().__init__(**options)
        self._negative_number_matcher = re.compile(r"-\.?\d|-inf\b")
        self._hidden: list[argparse.Action] = []

    def show_only(self, flags: Collection[str]) -> None:
        """Let --help show these options and --help-all show every option."""
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show every option and exit")
        always = {"-h", "--help-all", "--json", *flags}
        self._hidden = [
            action
            for action in self._actions
            if action.option_strings and not action.required and not always & set(action.option_strings)
        ]

    def format_help(self) -> str:
        """Return the help with the usual options."""
        if not self._hidden:
            return super().format_help()
        texts = [(action, action.help) for action in self._hidden]
        try:
            for action in self._hidden:
                action.help = argparse.SUPPRESS
            short = super().format_help()
        finally:
            for action, text in texts:
                action.help = text
        return f"{short}\n{len(self._hidden)} more options: {self.prog} --help-all\n"

    def format_full_help(self) -> str:
        """Return the help with every option."""
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; refuse an unknown option and suggest the nearest."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        for argument in sys.argv[1:] if args is None else args:
            name = argument.partition("=")[0]
            if name == "--" or (self._subparsers is not None and not name.startswith("-")):
                break  # what follows are values, or the options of a command
            if name.startswith("--") and not any(flag.startswith(name) for flag in flags):
                close = suggest(name, flags)
                self.error(f"unknown option {name}" + (f"; {close}" if close.startswith("did you mean") else ""))
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is no choice, and suggest the nearest."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"{value!r} is unknown; {suggest(value, action.choices)}")

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        text = " ".join(message.split())
        raise _UsageError(
            f"{self.prog}: {text}" if text.endswith("?") else f"{self.prog}: {text}; see {self.prog} --help"
        )


class _HelpAll(argparse.Action):
    """The option --help-all."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the help with every option and exit."""
        assert isinstance(parser, _Parser)
        print(parser.format_full_help(), end="")
        parser.exit()


def command_names() -> list[str]:
    """Return the names of the command files there are, in the order of the help page."""
    names = [m.name for m in pkgutil.iter_modules(commands.__path__) if m.name != "shared"]
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def build_parser(names: Sequence[str] | None = None) -> _Parser:
    """Return the parser of the whole command line, or of these commands alone."""
    parser = _Parser(
        prog="dynid",
        description="Identify the dynamic model of a robot: URDF in, base parameters with error bars out.",
    )
    parser.add_argument("--version", action="version", version=f"dynid {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser, required=True)
    for name in command_names() if names is None else names:
        module = importlib.import_module(f"ros2_dynid.commands.{name}")
        before = set(subparsers.choices)
        module.add_parser(subparsers)
        for added in set(subparsers.choices) - before:
            _add_common_options(subparsers.choices[added])
            subparsers.choices[added].set_defaults(module=module)
            if hasattr(module, "USUAL_OPTIONS"):
                subparsers.choices[added].show_only(module.USUAL_OPTIONS)
    return parser


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON object on stdout, also for an error")
    group.add_argument("--no-color", action="store_true", help="plain text without colours or other escape sequences")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.formatwarning = lambda message, *_, **__: f"dynid: warning: {message}\n"  # without a line of our code
    one_blas_thread()
    try:
        return _main(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("dynid: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command, its module, and the line as it can be typed again."""
    command = argv[0] if argv and argv[0] in command_names() else None
    args = build_parser(None if command is None else [command]).parse_args(argv)
    args.line = shlex.join(["dynid", *argv])
    return args


def _main(argv: Sequence[str]) -> int:
    try:
        args = parse_arguments(argv)
    except _UsageError as error:
        return _report_error(str(error), as_json="--json" in argv)
    try:
        outcome = with_flags(args.module.run(args))
    except DynidError as error:
        return _report_error(f"dynid {args.command}: {error.render(as_flag)}", as_json=args.json)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        what = f"{where}{error.strerror or error}; check the path, its permissions and the free space"
        return _report_error(f"dynid {args.command}: {what}", as_json=args.json)
    except MemoryError as error:
        what = f"the memory of this machine does not suffice ({error})"
        return _report_error(f"dynid {args.command}: {what}; ask for less", as_json=args.json)
    if args.json:
        from ros2_dynid.codec import encode

        print(json.dumps(encode(outcome), allow_nan=False))
    else:
        options = {name: getattr(args, name) for name in getattr(args.module, "SHOW_OPTIONS", ())}
        args.module.show(outcome, console_of(no_color=args.no_color), **options)
    sys.stdout.flush()
    if hasattr(args.module, "finish"):
        args.module.finish(args)
    if hasattr(args.module, "exit_code"):
        return int(args.module.exit_code(args, outcome))
    return int(getattr(outcome, "exit_code", 0))


def _report_error(line: str, *, as_json: bool) -> int:
    """Print an error, with --json on stdout too, and return the exit code of bad input."""
    print(line, file=sys.stderr)
    if as_json:
        print(json.dumps({"error": line}), flush=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
