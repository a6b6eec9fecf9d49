# SPDX-License-Identifier: Apache-2.0

"""dynid identify: base parameters with error bars from recordings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import (
    add_preparation_arguments,
    add_reading_arguments,
    add_robot_arguments,
    add_sensor_argument,
    preparation_of,
    reading_of,
    robot_source,
    sort_robot,
)
from ros2_dynid.commands.shared.terminal import Column, print_table, print_verdict, progress_bar
from ros2_dynid.identification.friction_columns import AUTO
from ros2_dynid.identification.options import SIGNIFICANT_SHARE, Method, parse_feet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.identification.candidates import Consistency
    from ros2_dynid.identification.result import IdentifyOutcome, SecondSensor
    from ros2_dynid.usecases.identify import IdentifyRequest

TOLERANCES = ("0", "-0.01", "-0.02", "-0.04", "full")

SHOW_OPTIONS = ("verbose", "explain")
"""Options that `show` takes."""

USUAL_OPTIONS = (
    "-o",
    "-v",
    "--explain",
    "--validate",
    "--cross-validate",
    "--method",
    "--friction",
    "--prior",
    "--sensor",
    "--gains",
    "--topic",
    "--columns",
    "--start",
    "--end",
    "--tip-link",
)
"""Options that --help shows; --help-all shows every option."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "identify",
        help="identify base parameters with error bars from recordings",
        description="Identify the base parameters and the friction of a robot from recordings of joint states and "
        "efforts, with error bars, and validate the model on data that were not fitted. With -o, write the model and "
        "a report.",
    )
    add_robot_arguments(parser)
    parser.add_argument(
        "recordings",
        metavar="BAG",
        nargs="+",
        help="recordings: rosbags, CSV, npz, HDF5 or MATLAB files, LeRobot data sets",
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for model.yaml and the report")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing model in the folder")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the tables of the parameters too")
    parser.add_argument("--explain", action="store_true", help="print what the names of the parameters mean")
    parser.add_argument(
        "--method", choices=[str(method) for method in Method], default="wls", help="estimator (default: wls)"
    )
    check = parser.add_mutually_exclusive_group()
    check.add_argument(
        "--validate", metavar="BAG", action="append", default=[], help="recording to validate the model on"
    )
    check.add_argument(
        "--cross-validate",
        metavar="K",
        type=int,
        help="K-fold cross-validation over parts of the recordings; 0: none (default: 5 without --validate)",
    )
    parser.add_argument("--essential", action="store_true", help="drop parameters that the data do not support")
    parser.add_argument(
        "--essential-std", metavar="X", type=float, default=0.1,
        help="relative standard deviation above which --essential may drop a parameter (default: 0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--significant", metavar="SHARE", type=float, nargs="?", const=SIGNIFICANT_SHARE,
        help="drop parameters that make less than SHARE of the largest torque of every joint (default: 0.01), and fit "
        "the others again",
    )  # fmt: skip
    parser.add_argument(
        "--distance", choices=("scaled", "euclidean"), default="scaled",
        help="distance of --standard to the a priori values: scaled by the size of each link, or euclidean in SI units",
    )  # fmt: skip
    parser.add_argument(
        "--standard", action="store_true", help="also give the standard parameters closest to the a priori values"
    )
    parser.add_argument(
        "--consistent",
        action="store_true",
        help="use physically consistent parameters even where base parameters suffice",
    )
    parser.add_argument(
        "--friction",
        metavar="LAW",
        default=AUTO,
        help="friction law: auto (default), the terms that held-out data support; viscous+coulomb; or terms joined by "
        "+ (load, load_viscous, stribeck, root, cubic, asymmetric, power, temperature, temperature_viscous), for all "
        "joints or as JOINT=LAW,JOINT=LAW",
    )
    parser.add_argument(
        "--prior",
        metavar="PRIOR",
        default="auto",
        help="prior of the estimate, weighted by held-out data: auto (default), the robot description where it helps; "
        "none; urdf, always the description; or the model.yaml of a similar robot",
    )
    add_sensor_argument(parser)
    parser.add_argument(
        "--standing",
        metavar="FOOT[=sole],...",
        default="",
        help="feet of a robot with a floating base that stand in all recordings and whose forces are not measured: the "
        "drives of their legs tell them; FOOT=sole takes moments too",
    )
    parser.add_argument(
        "--controller",
        metavar="FILE.yaml",
        help="controller gains as in ros2_control (gains: {JOINT: {p: 400, d: 30}}); didim needs them, idim-iv uses "
        "them",
    )
    parser.add_argument(
        "--torque-sensor",
        metavar="SENSOR",
        default="link",
        help="what the link-side torque sensor includes, if recorded in addition to motor efforts (columns "
        "NAME.torque, or --torque-topic): link (default), link+Fc, ...; both signals are fitted together",
    )
    parser.add_argument(
        "--preview",
        metavar="FILE.html",
        help="preview page of the trajectory (dynid preview --save), linked in the report",
    )
    parser.add_argument("--no-checks", action="store_true", help="accept recordings that the checks refuse")
    add_preparation_arguments(parser)
    add_reading_arguments(parser)


def request_of(args: argparse.Namespace) -> IdentifyRequest:
    """Return what the arguments ask for."""
    from ros2_dynid.identification.options import IdentifyOptions
    from ros2_dynid.usecases.identify import IdentifyRequest

    sort_robot(args)
    options = IdentifyOptions(
        method=Method(args.method),
        preparation=preparation_of(args),
        reading=reading_of(args),
        cross_validate=args.cross_validate,
        essential=args.essential,
        standard=args.standard,
        consistent=args.consistent,
        checks=not args.no_checks,
        friction=args.friction,
        prior=args.prior,
        distance=args.distance,
        essential_std=args.essential_std,
        significant=args.significant,
        sensor=args.sensor,
        controller=args.controller,
        torque_sensor=args.torque_sensor,
        standing=parse_feet(filter(None, args.standing.split(","))),
    )
    return IdentifyRequest(
        robot_source(args),
        tuple(args.recordings),
        tuple(args.validate),
        options,
        args.output,
        args.overwrite,
        args.line,
        args.preview,
    )


def run(args: argparse.Namespace) -> IdentifyOutcome:
    """Identify the robot."""
    from ros2_dynid.usecases.identify import identify

    request = request_of(args)
    with progress_bar(no_color=args.no_color) as progress:
        return identify(request, progress)


def show(outcome: IdentifyOutcome, console: Console, *, verbose: bool = False, explain: bool = False) -> None:
    """Print the verdict, the errors of the joints and the files; `verbose`: all tables; `explain`: what names mean."""
    if outcome.servos:
        _show_servos(outcome, console)
        return
    print_verdict(console, outcome.verdict)
    console.print()
    _show_errors(outcome, console)
    if verbose:
        _show_parameters(outcome, console)
        _show_details(outcome, console)
    if explain:
        _show_meanings(outcome, console)
    for note in outcome.notes:
        console.print(f"note: {note}", markup=False)
    if not verbose:
        count = f"{len(outcome.base) + len(outcome.friction)} parameters with error bars"
        more = ", or open the report" if outcome.report else ""
        console.print(f"{count}: -v lists them, --explain says what their names mean{more}")
    cond = "" if outcome.cond is None else f", condition number {outcome.cond:.3g}"
    console.print(f"{outcome.rows} rows{cond}, computed in {outcome.seconds:.2f} s")
    for name, file in (("report", outcome.report), ("model", outcome.model)):
        if file:
            console.print(f"{name}: {file}", markup=False, soft_wrap=True)


def _show_errors(outcome: IdentifyOutcome, console: Console) -> None:
    """Print the torque errors by joint, the largest first."""
    errors = []
    for name, fit in outcome.fit.items():
        unit, other = outcome.units.get(name, ""), outcome.validation.get(name)
        more = (f"{other.rms:.4g} {unit}", f"{100 * other.relative:.2f} %") if other else ("", "")
        errors.append((name, f"{fit.rms:.4g} {unit}", f"{100 * fit.relative:.2f} %", *more))
    how = "held out" if not outcome.folds else "left out in turn"
    titles = ["rms", "relative", *((f"rms\n({how})", f"relative\n({how})") if outcome.validation else ())]
    columns = [Column("joint"), *(Column(title, right=True) for title in titles)]
    print_table(console, columns, [row[: len(columns)] for row in errors], title="torque errors")


def _show_parameters(outcome: IdentifyOutcome, console: Console) -> None:
    rows = []
    for row in outcome.base:
        std = "not identified" if row.std is None else f"{row.std:.3g}"
        relative = "" if row.relative_std is None else _percent(100 * row.relative_std)
        rows.append((row.name, f"{row.value:.5g}", std, relative, row.unit))
    titles = [Column("parameter"), *(Column(title, right=True) for title in ("value", "std", "relative"))]
    caption = "relative: std over value. --explain says what the names mean"
    print_table(console, [*titles, Column("unit")], rows, title="base parameters", caption=caption)
    if outcome.friction:
        terms = [
            (row.name, row.term, f"{row.value:.4g}", "" if row.std is None else f"{row.std:.2g}", row.unit)
            for row in outcome.friction
        ]
        heads = [Column("friction"), Column("term"), Column("value", right=True), Column("std", right=True)]
        print_table(console, [*heads, Column("unit")], terms, title="friction beyond Fv, Fc and off")
    if outcome.essential:
        console.print(f"{len(outcome.essential)} essential parameters: {', '.join(outcome.essential)}")


def _percent(value: float) -> str:
    """Return a percentage; of a parameter that is not told from zero the digits mean nothing."""
    return f"{value:.1f} %" if value < 100.0 else "over 100 %"


def _show_sensors(sensors: Mapping[str, str], console: Console) -> None:
    """Say which efforts come from torque sensors, and which lack a part, such as motor-gravity."""
    for side, text in (
        ("link", "efforts come from torque sensors ({}); the model predicts the torques at these sensors"),
        ("motor-", "efforts lack a part of the motors' torque ({}), and so does the model"),
    ):
        named = {name: sensor for name, sensor in sensors.items() if sensor.startswith(side)}
        if named:
            alike = len(named) == len(sensors) and len(set(named.values())) == 1
            which = next(iter(named.values())) if alike else ", ".join(f"{k} {v}" for k, v in named.items())
            console.print(text.format(which), markup=False)


def _show_details(outcome: IdentifyOutcome, console: Console) -> None:
    if len(outcome.sets) > 1:
        _show_sets(outcome, console)
    if outcome.band_coverage:
        share = 100 * outcome.band_coverage["all"]
        console.print(f"{share:.1f} % of the validation rows lie in the 95 % band of the predicted torque")
    if outcome.consistency is not None:
        _show_consistency(outcome.consistency, console)
    _show_sensors({name: row.used for name, row in outcome.sensors.items()}, console)
    if outcome.second:
        _show_second(outcome, console)
    filters = outcome.filter
    console.print(
        f"filters: positions {_cutoff(filters.position_cutoff)}, torque and regressor {_cutoff(filters.row_cutoff)}, "
        f"{filters.row_rate:.3g} rows per second, rows below {100 * filters.slow:g} % of the top speed dropped"
    )


def _show_second(outcome: IdentifyOutcome, console: Console) -> None:
    """Print the fit of a second effort of the joints."""
    seconds = [
        (name, row.sensor, f"{row.fit.rms:.4g}", f"{100 * row.fit.relative:.2f} %", f"{row.bias:.3g}", _drive(row))
        for name, row in outcome.second.items()
    ]
    heads = [Column("joint"), Column("sensor")]
    heads += [Column(x, right=True) for x in ("rms\n[N.m, N]", "relative", "bias\n[N.m, N]")]
    title = "link-side torques, fitted together with the motor efforts"
    print_table(console, [*heads, Column("drive")], seconds, title=title)


def _show_meanings(outcome: IdentifyOutcome, console: Console) -> None:
    """Print what the names of the base parameters mean."""
    from ros2_dynid.model.parameters import explain_parameter

    rows = [(row.name, explain_parameter(row.name, row.leader), row.expression) for row in outcome.base]
    columns = [Column("parameter"), Column("meaning", wrap=True), Column("in standard parameters", wrap=True)]
    print_table(console, columns, rows, title="what the names mean")


def _show_servos(outcome: IdentifyOutcome, console: Console) -> None:
    """Print what was identified from commands and positions."""
    from ros2_dynid.identification.servo.model import drive_text

    print_verdict(console, outcome.verdict)
    console.print()
    console.print("drives, from commands and positions (for prismatic joints in N and m):")
    for row in outcome.servos:
        text = f"  {row.joint}: {drive_text(row)}; fitted to {1e3 * row.fit_rms:.3g} mrad rms"
        console.print(text, markup=False, soft_wrap=True)
    errors = [
        (name, *(f"{1e3 * row[name]:.3g}" for row in outcome.rollout.values()))
        for name in next(iter(outcome.rollout.values()))
    ]
    heads = [Column("joint"), *(Column(h if h == "whole" else f"{h} s", right=True) for h in outcome.rollout)]
    print_table(console, heads, errors, title="rollout errors, rms [mrad or mm]")
    for note in outcome.notes:
        console.print(f"note: {note}", markup=False)
    for what, path in (("report", outcome.report), ("written", outcome.model)):
        if path:
            console.print(f"{what}: {path}", markup=False, soft_wrap=True)
    console.print(f"{outcome.seconds:.2f} s")


def _drive(row: SecondSensor) -> str:
    return ", ".join(f"{part} {value:.3g} +- {row.drive_std[part]:.1g}" for part, value in row.drive.items())


def _cutoff(frequency: float | None) -> str:
    return "as recorded" if frequency is None else f"{frequency:.3g} Hz"


def _show_sets(outcome: IdentifyOutcome, console: Console) -> None:
    rows = []
    for name, errors in outcome.sets.items():
        validation_error = errors.validation.get("all")
        validation = "" if validation_error is None else f"{100 * validation_error.relative:.2f} %"
        model = "yes" if name == list(outcome.sets)[-1] else ""
        rows.append((name, f"{100 * errors.fit['all'].relative:.2f} %", validation, model))
    titles = ("relative", "relative\n(held out)", "used")
    columns = [Column("parameters"), *(Column(title, right=True) for title in titles)]
    print_table(console, columns, rows, title="torque errors of each parameter set")


def _show_consistency(consistency: Consistency, console: Console) -> None:
    sets = {
        "imposed": consistency.imposed,
        "base": consistency.base,
        "essential": consistency.essential,
        "a priori": consistency.a_priori,
    }
    rows = [(name, *(str(row[key]) for key in TOLERANCES)) for name, row in sets.items() if row is not None]
    columns = [Column("parameters"), Column("0 strict"), *(Column(title) for title in TOLERANCES[1:])]
    print_table(console, columns, rows, title="consistent links (tolerance)")
