"""dynid base ROBOT: the base parameters, by QR, SVD or in closed form."""

from __future__ import annotations

import argparse
import math
import time
from typing import TYPE_CHECKING, Any

from ros2_dynid.commands.shared.robot_arguments import add_robot_arguments, robot_from_args
from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.base_parameters import BaseParameters
    from ros2_dynid.model.robot import Robot


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "base",
        help="which combinations of parameters the robot's torques can tell",
        description="Compute the base parameters: what of the standard parameters affects the model, what only in "
        "combination, and how the combinations read. Each base parameter has a leader with coefficient 1; "
        "W chi = W[:, leaders] base for every motion.",
    )
    add_robot_arguments(parser)
    group = parser.add_argument_group("base parameters")
    group.add_argument(
        "--from",
        dest="source",
        choices=("torque", "accel", "energy"),
        default="torque",
        help="model: joint torques (d), torques at zero velocity (d0) or energy (h); default torque",
    )
    group.add_argument(
        "--method",
        choices=("qr", "svd", "closed-form"),
        default="qr",
        help="QR or SVD of random samples, or exact rules without sampling; default qr",
    )
    group.add_argument(
        "--only",
        metavar="GROUPS",
        type=_items,
        help="parameters that take part, of inertial,rotor,friction,offset (default all; accel and energy do not "
        "show friction and offset)",
    )
    group.add_argument(
        "--order",
        metavar="NAMES",
        type=_items,
        help="who leads first, separated by commas: parameters (ZZ1), kinds (Ia), groups (rotor), joint numbers (6); "
        "the rest follows in the standard order. rotor,6,5,4,3,2,1 keeps rotors, then the last link's parameters",
    )
    group.add_argument(
        "--tolerance", metavar="X", type=float, help="relative limit below which a pivot is zero (default rows * eps)"
    )
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of the random samples (default 0)")
    group.add_argument(
        "--scale",
        choices=("auto", "always", "never"),
        default="auto",
        help="optimise the sample points so that W's elements are of like size (default where the rank is unclear)",
    )
    group.add_argument(
        "--tilting-base", action="store_true", help="gravity may come from any direction: the base also tilts"
    )
    group.add_argument(
        "--paper-set",
        action="store_true",
        help="add Lin's minimal linear combinations of the inertial parameters as they are (not in reduced form)",
    )
    group.add_argument("--latex", action="store_true", help="print the expressions as LaTeX")


def _items(text: str) -> list[str]:
    """Return the items of a comma-separated list."""
    return [item.strip() for item in text.split(",") if item.strip()]


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Return the base parameters with coefficients, a priori values, expressions and the table of identifiability."""
    from ros2_dynid.base_parameters import base_parameters
    from ros2_dynid.base_parameters.expressions import align

    if args.seed < 0:
        raise InputError(f"--seed {args.seed} is negative", "give a whole number from 0")
    if args.only is not None and not args.only:
        raise InputError("--only names no group", "choose from inertial,rotor,friction,offset")
    robot = robot_from_args(args)
    start = time.perf_counter()
    base = base_parameters(
        robot,
        source=args.source,
        method=args.method,
        groups=args.only,
        order=args.order,
        tolerance=args.tolerance,
        seed=args.seed,
        scale={"auto": None, "always": True, "never": False}[args.scale],
        tilting_base=args.tilting_base,
    )
    seconds = time.perf_counter() - start
    result = report(robot, base, order=args.order, tilting_base=args.tilting_base) | {"seconds": seconds}
    if args.paper_set:
        result["paper_set"] = paper_set(robot)
    if args.latex:
        result["latex"] = align(entry["latex"] for entry in result["base"])
    return result


def report(
    robot: Robot, base: BaseParameters, *, order: list[str] | None = None, tilting_base: bool = False
) -> dict[str, Any]:
    """Return the base parameters as the command's JSON."""
    from ros2_dynid.base_parameters.expressions import expression
    from ros2_dynid.base_parameters.identifiability import identifiability
    from ros2_dynid.base_parameters.symbols import symbolic_terms
    from ros2_dynid.model.parameters import standard_vector, unit_of

    values = base.values(robot, standard_vector(robot))
    symbolic = symbolic_terms(robot, base, order=order, tilting_base=tilting_base)
    entries = [
        {
            "name": base.names[k],
            "leader": base.leaders[k],
            "terms": base.terms(k),
            "value": float(values[k]),
            "unit": unit_of(robot, base.leaders[k]),
            "expression": expression(base, k),
            "symbolic": expression(base, k, symbolic) if symbolic else None,
            "latex": expression(base, k, symbolic, latex=True),
        }
        for k in range(len(base))
    ]
    return {
        "robot": robot.name,
        "n_standard": len(base.standard_names),
        "n_base": len(base),
        "eliminated": list(base.eliminated),
        "regrouped": list(base.regrouped),
        "base": entries,
        "cond": base.cond,
        "S": base.S,
        "gap": base.gap if math.isfinite(base.gap) else None,
        "from": base.source,
        "method": base.method,
        "identifiability": [
            {"name": entry.name, "status": entry.status, "base": list(entry.base), "reason": entry.reason}
            for entry in identifiability(robot, base, tilting_base=tilting_base)
        ],
        "warnings": list(base.warnings),
        "notes": list(robot.notes),
    }


def paper_set(robot: Robot) -> list[dict[str, Any]]:
    """Return the minimal linear combinations of Theorem 2 with their a priori values."""
    from ros2_dynid.base_parameters.minimal_combinations import minimal_combinations

    return [
        {
            "name": combination.name,
            "terms": combination.terms,
            "value": sum(c * robot.parameters.get(name, 0.0) for name, c in combination.terms.items()),
        }
        for combination in minimal_combinations(robot)
    ]


def show(result: dict[str, Any], console: Console) -> None:
    """Print the combinations and the table of identifiability for people."""
    from rich.markup import escape
    from rich.table import Table

    from ros2_dynid.base_parameters.expressions import combination

    if "latex" in result:
        console.print(result["latex"], markup=False, soft_wrap=True, end="")
        return
    table = Table(title=escape(f"{result['robot']}: base parameters from the {result['from']} model"))
    table.add_column("base parameter", no_wrap=True)
    table.add_column("combination", overflow="fold")
    table.add_column("a priori", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for entry in result["base"]:
        formula = (entry["symbolic"] or entry["expression"]).partition(" = ")[2]
        table.add_row(
            entry["name"], "" if formula == entry["name"] else formula, f"{entry['value']:.6g}", entry["unit"]
        )
    console.print(table)
    if result.get("paper_set") is not None:
        paper = Table(title="minimal linear combinations as in Lin's Theorem 2")
        paper.add_column("name", no_wrap=True)
        paper.add_column("combination", overflow="fold")
        for entry in result["paper_set"]:
            paper.add_row(entry["name"], combination(entry["terms"]))
        console.print(paper)
    hidden = Table(title="not identifiable alone")
    hidden.add_column("parameter", no_wrap=True)
    hidden.add_column("identifiable", no_wrap=True)
    hidden.add_column("why", overflow="fold")
    for entry in result["identifiability"]:
        if entry["status"] != "alone" and entry["name"] not in {item["leader"] for item in result["base"]}:
            hidden.add_row(entry["name"], entry["status"], entry["reason"])
    if hidden.row_count:
        console.print(hidden)
    console.print(
        f"{result['n_standard']} standard parameters: {len(result['eliminated'])} without effect, "
        f"{len(result['regrouped'])} regrouped, {result['n_base']} base parameters"
    )
    figures = [
        f"{label} {result[key]:.3g}"
        for key, label in (("cond", "condition number"), ("S", "scaling S"), ("gap", "gap at the rank"))
        if result[key] is not None
    ]
    console.print(f"by {result['method']}" + (f": {', '.join(figures)}" if figures else ""))
    for line in (*result["notes"], *result["warnings"]):
        console.print(f"note: {line}", style="yellow", markup=False)
