"""dynid identify: base parameters with error bars from recordings."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ros2_dynid.commands.shared.reading_arguments import add_reading_arguments, reading_of
from ros2_dynid.commands.shared.robot_arguments import add_robot_arguments, robot_from_args
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method, VelocitySource

if TYPE_CHECKING:
    from rich.console import Console


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("identify", help="identify base parameters with error bars from recordings")
    add_robot_arguments(parser)
    parser.add_argument("recordings", metavar="BAG", nargs="+", help="recordings: rosbags, csv or npz files")
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for model.yaml and the data of the report")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that the folder already has")
    parser.add_argument(
        "--method", choices=[str(method) for method in Method], default="wls", help="estimator (default: wls)"
    )
    check = parser.add_mutually_exclusive_group()
    check.add_argument("--validate", metavar="BAG", action="append", default=[], help="recording to test the model on")
    check.add_argument(
        "--cross-validate", metavar="K", type=int, default=0, help="test on K stretches left out in turn"
    )
    parser.add_argument("--essential", action="store_true", help="drop parameters that the data do not support")
    parser.add_argument("--standard", action="store_true", help="standard parameters closest to the a priori ones")
    parser.add_argument(
        "--consistent", action="store_true", help="standard parameters that physical links can have (needs clarabel)"
    )
    parser.add_argument("--no-checks", action="store_true", help="take efforts that look wrong in sign or unit, too")
    add_preprocess_arguments(parser)
    add_reading_arguments(parser)


def add_preprocess_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of preprocessing; the defaults come from the data."""
    group = parser.add_argument_group("preprocessing (default: proposed from the data)")
    group.add_argument("--position-cutoff", metavar="HZ", type=float, help="low-pass of the positions [Hz]")
    group.add_argument("--row-cutoff", metavar="HZ", type=float, help="low-pass of torque and regressor alike [Hz]")
    group.add_argument("--row-rate", metavar="HZ", type=float, help="rows kept for each joint [Hz]")
    group.add_argument(
        "--slow", metavar="FRACTION", type=float, default=0.02, help="leave out rows below this share of the top speed"
    )
    group.add_argument(
        "--velocity",
        choices=[str(source) for source in VelocitySource],
        default="auto",
        help="velocities: from positions, as measured, or whichever is better for each joint",
    )
    group.add_argument(
        "--gains",
        metavar="JOINT=GAIN",
        action="append",
        default=[],
        help="drive gain: torque [N.m or N] for each unit of the recorded effort; may be repeated",
    )
    group.add_argument(
        "--delay", metavar="S", type=float, help="the recorded effort is this late [s] (default: estimated)"
    )


def preprocess_options(args: argparse.Namespace) -> Any:
    """Return PreparationOptions from the arguments."""
    from ros2_dynid.identification.preparation import PreparationOptions

    return PreparationOptions(
        position_cutoff=args.position_cutoff,
        row_cutoff=args.row_cutoff,
        row_rate=args.row_rate,
        slow=args.slow,
        velocity=VelocitySource(args.velocity),
        gains=parse_gains(args.gains),
        delay=args.delay,
    )


def parse_gains(items: list[str]) -> dict[str, float]:
    """Return {joint: gain} from JOINT=GAIN texts; the last `=` separates."""
    gains: dict[str, float] = {}
    for item in items:
        name, separator, text = item.rpartition("=")
        try:
            gains[name] = float(text)
        except ValueError:
            separator = ""
        if not (separator and name):
            raise InputError(
                f"--gains {item!r} is not a joint and a number", "write --gains elbow=12.5 [N.m for each unit]"
            )
    return gains


@contextlib.contextmanager
def told(args: argparse.Namespace) -> Iterator[Callable[[str, float], None] | None]:
    """Yield a function that shows progress on stderr, or None where nobody looks."""
    if args.json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    )
    with bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda stage, fraction: bar.update(task, description=stage, completed=fraction)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Identify, and return what the JSON holds."""
    from ros2_dynid.pipeline import IdentifyOptions, identify

    options = IdentifyOptions(
        method=Method(args.method),
        preparation=preprocess_options(args),
        reading=reading_of(args),
        cross_validate=args.cross_validate,
        essential=args.essential,
        standard=args.standard,
        consistent=args.consistent,
        checks=not args.no_checks,
    )
    with told(args) as progress:
        found = identify(
            robot_from_args(args),
            args.recordings,
            options=options,
            validate=args.validate,
            output=args.output,
            overwrite=args.overwrite,
            command=shlex.join(["dynid", *sys.argv[1:]]),
            progress=progress,
        )
    return found.summary


def show(result: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    from rich.table import Table

    table = Table("parameter", "value", "std", "relative", "unit", title="base parameters")
    for row in result["base"]:
        std = "not identified" if row["std"] is None else f"{row['std']:.3g}"
        relative = "" if row["relative_std"] is None else f"{100 * row['relative_std']:.1f} %"
        table.add_row(row["name"], f"{row['value']:.5g}", std, relative, row["unit"])
    console.print(table)
    errors = Table("joint", "rms", "relative", "rms (validation)", "relative (validation)", title="torque errors")
    for name, row in result["fit"].items():
        other = result["validation"].get(name)
        more = (f"{other['rms']:.4g}", f"{100 * other['relative']:.2f} %") if other else ("", "")
        errors.add_row(name, f"{row['rms']:.4g}", f"{100 * row['relative']:.2f} %", *more)
    console.print(errors)
    if "consistency" in result:
        counts = Table(
            "parameters", "0 strict", "-0.01", "-0.02", "-0.04", "full", title="consistent links (tolerance)"
        )
        for name in ("a_priori", "base", "essential", "imposed"):
            if name in result["consistency"]:
                row = result["consistency"][name]
                counts.add_row(
                    name.replace("_", " "), *(str(row[key]) for key in ("0", "-0.01", "-0.02", "-0.04", "full"))
                )
        console.print(counts)
    if result["essential"]:
        console.print(f"{len(result['essential'])} essential parameters: {', '.join(result['essential'])}")
    for remark in result["verdict"]:
        console.print(f"[{remark['level']}] {remark['text']}", markup=False)
    if result.get("report"):
        console.print(f"report: {result['report']}", markup=False)
    for note in result["notes"]:
        console.print(f"note: {note}", markup=False)
    settings = result["filter"]
    console.print(
        f"filters: positions {settings['position_cutoff']:.3g} Hz, torque and regressor "
        f"{settings['row_cutoff']:.3g} Hz, "
        f"{settings['row_rate']:.3g} rows a second, rows below {100 * settings['slow']:g} % of the top speed left out"
    )
    console.print(f"{result['rows']} rows, condition number {result['cond']:.3g}, {result['seconds']:.2f} s")
    if result["model"]:
        console.print(f"written: {result['model']}")
