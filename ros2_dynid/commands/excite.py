# SPDX-License-Identifier: Apache-2.0

"""dynid excite ROBOT: an exciting trajectory, safe on hardware, as a file that ros2 topic pub takes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import (
    add_robot_arguments,
    add_surroundings_arguments,
    robot_source,
    surroundings_of,
)
from ros2_dynid.commands.shared.command import items, numbers
from ros2_dynid.commands.shared.terminal import Column, print_notes, print_table, progress_bar
from ros2_dynid.output_files import check_outputs

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.usecases.plan import PlanOutcome, PlanRequest

WEAK_PERCENT = 30.0
"""Predicted standard deviation [%] above which a parameter is listed as weak."""

GOOD_CONDITION = 30.0
"""Condition number of W with columns of norm 1 up to which parameters are told apart well."""

USUAL_OPTIONS = (
    "-o",
    "--overwrite",
    "--method",
    "--only",
    "--duration",
    "--seed",
    "--time-budget",
    "--margin",
    "--max-velocity",
    "--max-acceleration",
    "--floor",
    "--rehearsal",
    "--preview",
    "--tip-link",
)
"""Options that --help shows; --help-all shows every option."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "excite",
        help="plan an exciting trajectory within all limits",
        description="Plan a trajectory that excites the base parameters well: a Fourier series optimised on the torque "
        "regressor, or optimum points of the energy model joined by quintics. It starts and ends at rest. The "
        "exact extrema are checked against every limit, less a margin. The file is a trajectory_msgs/JointTrajectory.",
    )
    add_robot_arguments(parser)
    group = parser.add_argument_group("trajectory")
    group.add_argument(
        "--method",
        choices=("fourier", "points", "static", "ramps", "friction", "servo", "validation"),
        default="fourier",
        help="fourier (default); points: optimum points and quintics; static: static poses, for gravity; ramps: "
        "constant velocities, for friction; friction: ramps at several gravity loads; servo: reversals, steps and "
        "holds, for position servos without torque; validation: a different Fourier series, for validation",
    )
    group.add_argument(
        "--only",
        metavar="GROUPS",
        type=items,
        help="parameter groups to excite, some of inertial,rotor,friction,offset",
    )
    group.add_argument("--rows", metavar="R", type=int, help="points: rows of W (default: twice the base parameters)")
    group.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the random starts (default 0)")
    group.add_argument("--duration", metavar="S", type=float, default=10.0, help="Fourier period [s] (default 10)")
    group.add_argument(
        "--harmonics", metavar="N", type=int, default=6, help="harmonics of the Fourier series (default 6)"
    )
    group.add_argument("--periods", metavar="N", type=int, default=1, help="repetitions of the period (default 1)")
    group.add_argument(
        "--criterion",
        choices=("cond", "normalised", "logdet"),
        help="criterion on the torque regressor: condition number, the same with columns of norm 1, or log-determinant "
        "(default: cond with --only inertial, else normalised)",
    )
    group.add_argument(
        "--weights", metavar="LIST", type=numbers, help="weight of each joint's torque, a list separated by commas"
    )
    group.add_argument(
        "--equilibrium",
        metavar="X",
        type=float,
        default=0.06,
        help="points: weight of the equilibrium S relative to cond (default 0.06)",
    )
    group.add_argument(
        "--optimiser",
        choices=("gradient", "nelder-mead", "quasi-newton", "powell"),
        default="gradient",
        help="points: gradient optimises points and times (default), the paper's optimisers the points only",
    )
    group.add_argument(
        "--measure",
        choices=("svd", "qr", "frobenius"),
        default="svd",
        help="points with one of the paper's optimisers: condition number to minimise (default svd)",
    )
    group.add_argument("--poses", metavar="N", type=int, default=20, help="static: number of poses (default 20)")
    group.add_argument("--hold-time", metavar="S", type=float, default=2.0, help="static: time at each pose [s]")
    group.add_argument(
        "--time-budget",
        metavar="S",
        type=float,
        help="computing time, with reading the robot [s] (default: 45; 8 with --only inertial, 12 for points)",
    )
    safety = parser.add_argument_group("safety")
    safety.add_argument(
        "--margin",
        metavar="X",
        type=float,
        default=0.05,
        help="safety margin: fraction of every limit left unused (default 0.05)",
    )
    for kind, unit in (("position", "rad or m, to both sides of 0"), ("velocity", "rad/s or m/s")):
        safety.add_argument(
            f"--max-{kind}",
            metavar="X",
            type=float,
            help=f"{kind} limit of all joints, besides the robot's own [{unit}]",
        )
    for kind, unit in (("acceleration", "rad/s^2 or m/s^2"), ("effort", "N.m or N")):
        safety.add_argument(
            f"--max-{kind}",
            metavar="X",
            type=float,
            help=f"{kind} limit of all joints, besides the robot's own [{unit}]",
        )
    safety.add_argument(
        "--start", metavar="LIST", type=numbers, help="pose at start and end [rad or m], separated by commas"
    )
    add_surroundings_arguments(safety)
    output = parser.add_argument_group("files")
    output.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="trajectory: .yaml, .csv or .jsonl (LeRobot)"
    )
    output.add_argument("--overwrite", action="store_true", help="replace files that exist")
    output.add_argument("--rate", metavar="HZ", type=float, default=50.0, help="points per second (default 50)")
    output.add_argument("--csv", metavar="FILE", help="also write the trajectory as CSV")
    output.add_argument("--rehearsal", metavar="FILE", help="also write the same path at low speed")
    output.add_argument(
        "--rehearsal-speed",
        metavar="X",
        type=float,
        default=0.2,
        help="speed of the rehearsal, as a fraction (default 0.2)",
    )
    output.add_argument(
        "--figures", metavar="FILE", help="write figures; their names start like FILE, such as plan.png"
    )
    output.add_argument(
        "--noise",
        metavar="X",
        type=float,
        default=1.0,
        help="torque noise for the predicted standard deviations [N.m] (default 1)",
    )
    output.add_argument("--preview", action="store_true", help="open the trajectory in the browser")
    output.add_argument("--save-preview", metavar="FILE.html", help="save the preview page as a single file")


def request_of(args: argparse.Namespace) -> PlanRequest:
    """Return what the arguments ask for."""
    from ros2_dynid.usecases.plan import PlanMethod, PlanRequest

    return PlanRequest(
        robot=robot_source(args),
        output=args.output,
        method=PlanMethod(args.method),
        groups=args.only,
        seed=args.seed,
        rows=args.rows,
        duration=args.duration,
        harmonics=args.harmonics,
        periods=args.periods,
        criterion=args.criterion,
        weights=args.weights,
        equilibrium=args.equilibrium,
        optimiser=args.optimiser,
        measure=args.measure,
        poses=args.poses,
        hold_time=args.hold_time,
        time_budget=args.time_budget,
        margin=args.margin,
        max_position=args.max_position,
        max_velocity=args.max_velocity,
        max_acceleration=args.max_acceleration,
        max_effort=args.max_effort,
        start=args.start,
        surroundings=surroundings_of(args),
        rate=args.rate,
        csv=args.csv,
        rehearsal=args.rehearsal,
        rehearsal_speed=args.rehearsal_speed,
        figures=args.figures,
        noise=args.noise,
        overwrite=args.overwrite,
    )


def run(args: argparse.Namespace) -> PlanOutcome:
    """Plan and write the files."""
    from ros2_dynid.usecases.plan import plan

    request = request_of(args)
    if args.save_preview:
        check_outputs([args.save_preview], inputs=[args.robot, args.output], overwrite=args.overwrite)
    with progress_bar(no_color=args.no_color) as progress:
        outcome = plan(request, progress)
    args.page = _page(args, request) if args.preview or args.save_preview else None
    return outcome


def _page(args: argparse.Namespace, request: PlanRequest) -> str:
    """Return the preview page of the trajectory, and save it if requested."""
    from ros2_dynid.usecases.preview import PreviewRequest, previewed

    preview_request = PreviewRequest(
        request.output,
        request.robot,
        request.surroundings,
        save=args.save_preview,
        caps=request.caps,
        overwrite=request.overwrite,
    )
    return previewed(preview_request)[1]


def finish(args: argparse.Namespace) -> None:
    """Open the page if requested."""
    if args.preview:
        from ros2_dynid.commands.preview import show_page

        show_page(args.page)


def show(outcome: PlanOutcome, console: Console) -> None:
    """Print the quality of the trajectory."""
    rows = []
    for value, text, unit in (
        (outcome.cond, "condition number of W", ""),
        (outcome.cond_normalised, "condition number, columns of norm 1", ""),
        (outcome.S, "equilibrium S", ""),
        (outcome.rows, "rows of W", ""),
        (outcome.duration, "duration", " s"),
        (outcome.clearance, "smallest distance between capsules", " m"),
        (outcome.exact_clearance, "smallest distance between close links", " m"),
        (outcome.seconds, "found in", " s"),
    ):
        if value is not None and value < float("inf"):  # a series starts at rest: zeros in W, and S has no bound
            rows.append((text, f"{value:.4g}{unit}"))
    rows += [(f"{kind} limit used", f"{100 * fraction:.1f} %") for kind, fraction in outcome.use.items()]
    columns = [Column("", wrap=True), Column("value", right=True)]
    print_table(console, columns, rows, title=f"{outcome.robot}: {outcome.method} trajectory")
    if outcome.cond_normalised is not None and outcome.cond_normalised > GOOD_CONDITION:
        size = f"the condition number {outcome.cond_normalised:.0f} (columns of norm 1) is large"
        hint = "search longer (--time-budget), move longer (--duration), or widen the limits"
        console.print(f"{size}, below {GOOD_CONDITION:.0f} is good: {hint}", style="yellow")
    predicted = [(row.relative_std, row.name) for row in outcome.parameters if row.relative_std is not None]
    weak = sorted((entry for entry in predicted if entry[0] > WEAK_PERCENT), reverse=True)
    if weak:
        names = ", ".join(f"{name} {_percent(relative)}" for relative, name in weak[:8])
        console.print(
            f"{len(weak)} of {len(outcome.parameters)} base parameters will have a standard deviation above "
            f"{WEAK_PERCENT:.0f} % of their a priori value if the noise is {outcome.noise:g} N.m (--noise), "
            f"the worst: {names}",
            markup=False,
        )
    for file in (outcome.file, *outcome.pictures):
        console.print(f"written: {file}", markup=False, soft_wrap=True)
    print_notes(console, outcome.notes)


def _percent(value: float) -> str:
    """Return a percentage with few digits."""
    return f"{value:.0f} %" if value < 1000.0 else "over 1000 %"
