"""dynid excite ROBOT: an exciting trajectory, safe on hardware, as a file that ros2 topic pub takes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ros2_dynid.commands.shared.robot_arguments import add_robot_arguments, parse_hold, robot_from_args
from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.excitation.collision import Shapes
    from ros2_dynid.excitation.plan import Plan
    from ros2_dynid.excitation.trajectory import Trajectory
    from ros2_dynid.model.robot import Robot

EXACT_RATE_HZ = 20.0
EXACT_POSES = 400
"""Rate and number of poses at which the true shapes are looked at."""


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "excite",
        help="an exciting trajectory for identification, inside all limits",
        description="Find a trajectory that makes the base parameters easy to tell apart: a Fourier series optimised "
        "on the torque regressor, or optimum points of the energy model joined by quintics. It starts and ends at rest "
        "and keeps every limit, less a margin, at its exact extrema. The file is a trajectory_msgs/JointTrajectory.",
    )
    add_robot_arguments(parser)
    group = parser.add_argument_group("trajectory")
    group.add_argument(
        "--method",
        choices=("fourier", "points", "static", "ramps", "validation"),
        default="fourier",
        help="fourier (default); points: optimum points and quintics; static: poses held for gravity; ramps: constant "
        "velocities for friction; validation: another Fourier series than the one to identify with",
    )
    group.add_argument(
        "--only", metavar="GROUPS", type=_items, help="parameters to excite, of inertial,rotor,friction,offset"
    )
    group.add_argument("--rows", metavar="R", type=int, help="rows of W for points (default twice the base parameters)")
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of the random starts (default 0)")
    group.add_argument("--duration", metavar="S", type=float, default=10.0, help="Fourier period [s] (default 10)")
    group.add_argument("--harmonics", metavar="N", type=int, default=6, help="of the Fourier series (default 6)")
    group.add_argument("--periods", metavar="N", type=int, default=1, help="repetitions of the period (default 1)")
    group.add_argument(
        "--criterion",
        choices=("cond", "normalised", "logdet"),
        help="of the torque regressor: condition number, the same with columns of norm 1, or log-determinant (default "
        "cond with --only inertial, else normalised)",
    )
    group.add_argument("--weights", metavar="LIST", type=_numbers, help="factor on the torque of each joint, by commas")
    group.add_argument(
        "--equilibrium",
        metavar="X",
        type=float,
        default=0.06,
        help="weight of S beside cond, for points (default 0.06)",
    )
    group.add_argument(
        "--optimiser",
        choices=("gradient", "nelder-mead", "quasi-newton", "powell"),
        default="gradient",
        help="for points: exact gradients over points and times (default), or one of seed 001's over points alone",
    )
    group.add_argument(
        "--measure",
        choices=("svd", "qr", "frobenius"),
        default="svd",
        help="for points with an optimiser of seed 001: which condition number it minimises (default svd)",
    )
    group.add_argument("--poses", metavar="N", type=int, default=20, help="static: how many (default 20)")
    group.add_argument("--hold-time", metavar="S", type=float, default=2.0, help="static: time at each pose [s]")
    group.add_argument(
        "--time-budget",
        metavar="S",
        type=float,
        help="seconds for reading and searching (default 45, with --only inertial 8, points 12)",
    )
    safety = parser.add_argument_group("safety")
    safety.add_argument(
        "--margin", metavar="X", type=float, default=0.05, help="fraction kept from every limit (default 0.05)"
    )
    for kind, unit in (("position", "rad or m, to both sides of 0"), ("velocity", "rad/s or m/s")):
        safety.add_argument(f"--max-{kind}", metavar="X", type=float, help=f"limit beside the robot's own [{unit}]")
    for kind, unit in (("acceleration", "rad/s^2 or m/s^2"), ("effort", "N.m or N")):
        safety.add_argument(f"--max-{kind}", metavar="X", type=float, help=f"limit beside the robot's own [{unit}]")
    safety.add_argument("--start", metavar="LIST", type=_numbers, help="pose at start and end [rad or m], by commas")
    safety.add_argument("--floor", metavar="Z", type=float, help="height of a floor in the base frame [m]")
    safety.add_argument(
        "--box",
        metavar="LIST",
        type=_numbers,
        help="workspace: x,X,y,Y,z,Z lowest and highest in the base frame [m]; write inf for none",
    )
    safety.add_argument(
        "--collision", metavar="FILE", help="URDF whose collision shapes count, or YAML with spheres and capsules"
    )
    safety.add_argument("--no-collision", action="store_true", help="do not look at the URDF's collision shapes")
    safety.add_argument(
        "--collision-margin", metavar="M", type=float, default=0.02, help="distance kept [m] (default 0.02)"
    )
    output = parser.add_argument_group("files")
    output.add_argument("-o", "--output", metavar="FILE", required=True, help="trajectory: .yaml, or .csv")
    output.add_argument("--rate", metavar="HZ", type=float, default=50.0, help="points a second (default 50)")
    output.add_argument("--csv", metavar="FILE", help="write it as CSV too")
    output.add_argument("--rehearsal", metavar="FILE", help="write the same path at a fraction of the speed too")
    output.add_argument("--rehearsal-speed", metavar="X", type=float, default=0.2, help="that fraction (default 0.2)")
    output.add_argument(
        "--figures", metavar="FILE", help="write pictures whose names begin like this, such as plan.png"
    )
    output.add_argument(
        "--noise", metavar="X", type=float, default=1.0, help="torque noise for predicted deviations [N.m] (default 1)"
    )


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _numbers(text: str) -> list[float]:
    try:
        return [float(item) for item in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers separated by commas") from None


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Plan, write the files, and return the figures of the trajectory."""
    import time

    from ros2_dynid.excitation.trajectory import rehearsal, save_trajectory

    started = time.perf_counter()
    if args.seed < 0:
        raise InputError(f"--seed {args.seed} is negative", "give a whole number from 0")
    if not 0.0 < args.rate < float("inf"):
        raise InputError(f"--rate {args.rate}", "give a positive rate [Hz]")
    for path in (args.output, args.csv, args.rehearsal, args.figures):
        if path and not Path(path).resolve().parent.is_dir():
            raise InputError(f"there is no folder for {path}", "create it first")
    robot = robot_from_args(args)
    robot, shapes = _surroundings(args, robot)
    if args.method in ("static", "ramps"):
        trajectory, result = _slow(args, robot, shapes)
    else:
        plan = _plan(args, robot, shapes, time.perf_counter() - started)
        trajectory, result = plan.trajectory, _figures_of(args, robot, plan)
    result["exact_clearance"] = _exact(robot, shapes, trajectory)
    save_trajectory(args.output, trajectory, args.rate)
    if args.csv:
        save_trajectory(Path(args.csv).with_suffix(".csv"), trajectory, args.rate)
    if args.rehearsal:
        slow = rehearsal(trajectory, args.rehearsal_speed)
        save_trajectory(args.rehearsal, slow, args.rate * args.rehearsal_speed)
    result |= {
        "robot": robot.name,
        "method": args.method,
        "duration": trajectory.duration,
        "joints": list(trajectory.joint_names),
        "start": trajectory.start,
        "file": str(args.output),
        "seconds": time.perf_counter() - started,
    }
    return result


def _caps(args: argparse.Namespace) -> Any:
    from ros2_dynid.excitation.limits import Caps

    kinds = ("position", "velocity", "acceleration", "effort")
    return Caps(**{kind: value for kind in kinds if (value := getattr(args, f"max_{kind}")) is not None})


def _surroundings(args: argparse.Namespace, robot: Robot) -> tuple[Robot, Shapes | None]:
    """Return the robot to plan for and what must not collide: shapes of --collision, or of the robot's URDF."""
    from ros2_dynid.excitation.surroundings import surroundings
    from ros2_dynid.model.load import urdf_of

    source, chain = urdf_of(args.robot, base_link=args.base_link, tip_link=args.tip_link, hold=parse_hold(args.hold))
    if args.collision is not None or args.no_collision:
        source = args.collision and Path(args.collision)
    return surroundings(
        robot,
        source,
        floor=args.floor,
        box=args.box,
        margin=args.collision_margin,
        start=args.start if args.start is not None and len(args.start) == len(robot.active) else None,
        **chain,
    )


def _exact(robot: Robot, shapes: Shapes | None, trajectory: Trajectory) -> float | None:
    """Return the smallest distance [m] of links too close for capsules, in their true shapes, if coal is there."""
    from ros2_dynid.excitation.exact import available, exact_clearance

    if shapes is None or not shapes.solids or not available():
        return None
    rate = min(EXACT_RATE_HZ, EXACT_POSES / trajectory.duration)
    return exact_clearance(robot, shapes.solids, trajectory.sample(rate).q, only=shapes.close)[0]


def _plan(args: argparse.Namespace, robot: Robot, shapes: Shapes | None, spent_s: float) -> Plan:
    """Plan in what is left of the time budget after reading the robot."""
    from ros2_dynid.excitation.plan import Wishes, plan, validation_plan

    if args.time_budget is not None and not args.time_budget > 0:
        raise InputError(f"time budget of {args.time_budget} s", "give a positive time [s]")
    make = validation_plan if args.method == "validation" else plan
    with _Bar(args.method) as progress:
        wishes = Wishes(
            method="fourier" if args.method == "validation" else args.method,
            groups=args.only,
            seed=args.seed,
            time_budget_s=args.time_budget,
            spent_s=spent_s,
            rows=args.rows,
            duration_s=args.duration,
            harmonics=args.harmonics,
            periods=args.periods,
            margin=args.margin,
            caps=_caps(args),
            start=args.start,
            criterion=args.criterion,
            weights=args.weights,
            equilibrium_weight=args.equilibrium,
            optimiser=args.optimiser,
            measure=args.measure,
            shapes=shapes,
            rate_hz=args.rate,
            progress=progress,
        )
        return make(robot, wishes)


def _figures_of(args: argparse.Namespace, robot: Robot, plan: Plan) -> dict[str, Any]:
    """Return the figures of a plan as JSON, and draw the pictures asked for."""
    from ros2_dynid.excitation.figures import predicted_std, save_figures

    std, percent = predicted_std(robot, plan, args.noise)
    pictures = save_figures(args.figures, robot, plan, args.noise) if args.figures else []
    return {
        "cond": plan.cond,
        "cond_normalised": plan.cond_normalised,
        "S": plan.S,
        "rows": plan.rows,
        "n_base": len(plan.base),
        "use": plan.use,
        "search_seconds": plan.seconds,
        "clearance": plan.clearance_m,
        "parameters": [
            {"name": name, "std": float(s), "relative_std": float(p)}
            for name, s, p in zip(plan.base.names, std, percent, strict=True)
        ],
        "noise": args.noise,
        "pictures": [str(path) for path in pictures],
        "notes": [*robot.notes, *plan.notes],
    }


def _slow(args: argparse.Namespace, robot: Robot, shapes: Shapes | None) -> tuple[Trajectory, dict[str, Any]]:
    """Return a trajectory of static poses or of ramps, and its use of the limits."""
    from ros2_dynid.excitation.collision import clearance
    from ros2_dynid.excitation.limits import bounds_of, check_trajectory, known_parameters, use_of
    from ros2_dynid.excitation.static import ramps, static_poses

    options = {"margin": args.margin, "caps": _caps(args), "start": args.start, "shapes": shapes, "seed": args.seed}
    if args.method == "static":
        trajectory = static_poses(robot, poses=args.poses, hold_s=args.hold_time, **options)
    else:
        trajectory = ramps(robot, **options)
    problems = check_trajectory(robot, trajectory, margin=args.margin, caps=_caps(args))
    if problems:
        raise InputError(str(problems[0]), "choose another start pose (--start) or wider limits", robot.name)
    bounds = bounds_of(robot, 0.0, _caps(args))
    return trajectory, {
        "cond": None,
        "S": None,
        "rows": len(trajectory.t) * len(trajectory.joint_names),
        "use": use_of(robot, trajectory.curve, bounds, known_parameters(robot)),
        "clearance": None if shapes is None else clearance(robot, shapes, trajectory.sample(100.0).q)[0],
        "notes": [*robot.notes, *bounds.notes, *(shapes.notes if shapes else ())],
    }


class _Bar:
    """A progress bar on stderr that follows the time budget."""

    def __init__(self, title: str) -> None:
        """Name the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}"),
        )
        self._progress = Progress(*columns, console=Console(file=sys.stderr, markup=False), transient=True)
        self._title = title

    def __enter__(self) -> Any:
        """Show the bar and return the function that moves it."""
        self._progress.start()
        task = self._progress.add_task(self._title, total=1.0, text="")
        return lambda fraction, text: self._progress.update(task, completed=fraction, text=text)

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""
        self._progress.stop()


def _percent(value: float) -> str:
    """Return a percentage in few digits: of a value that is nearly zero it says nothing more."""
    return f"{value:.0f} %" if value < 1000.0 else "over 1000 %"


def show(result: dict[str, Any], console: Console) -> None:
    """Print what the trajectory is worth for people."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(f"{result['robot']}: {result['method']} trajectory"))
    table.add_column("")
    table.add_column("value", justify="right")
    for key, text, unit in (
        ("cond", "condition number of W", ""),
        ("cond_normalised", "the same, columns of norm 1", ""),
        ("S", "equilibrium S", ""),
        ("rows", "rows of W", ""),
        ("duration", "duration", " s"),
        ("clearance", "smallest distance of capsules", " m"),
        ("exact_clearance", "smallest distance of close links", " m"),
        ("seconds", "found in", " s"),
    ):
        value = result.get(key)
        if value is not None and value < float("inf"):  # a series starts at rest: zeros in W, and S has no bound
            table.add_row(text, f"{value:.4g}{unit}")
    for kind, fraction in result["use"].items():
        table.add_row(f"{kind} limit used", f"{100 * fraction:.1f} %")
    console.print(table)
    worst = sorted(result.get("parameters", []), key=lambda entry: -entry["relative_std"])
    weak = [entry for entry in worst if 30.0 < entry["relative_std"] < float("inf")]
    if weak:
        names = ", ".join(f"{entry['name']} {_percent(entry['relative_std'])}" for entry in weak[:8])
        console.print(
            f"{len(weak)} of {len(worst)} base parameters will have a standard deviation above 30 % of their a priori "
            f"value if the noise is {result['noise']:g} N.m (--noise), the worst: {names}",
            markup=False,
        )
    for file in (result["file"], *result.get("pictures", [])):
        console.print(f"written: {file}", markup=False, soft_wrap=True)
    for line in result["notes"]:
        console.print(f"note: {line}", style="yellow", markup=False)
