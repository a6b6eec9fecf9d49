# SPDX-License-Identifier: Apache-2.0

"""dynid base ROBOT: the base parameters, by QR, SVD or in closed form."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import add_robot_arguments, robot_from_args
from ros2_dynid.commands.shared.command import items
from ros2_dynid.commands.shared.terminal import Column, print_notes, print_table
from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.base_parameters import BaseParameters
    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.model.robot import Robot

USUAL_OPTIONS = ("--from", "--method", "--only", "--order", "--latex", "--tip-link", "--hold", "--gravity")
"""Options that --help shows; --help-all shows every option."""


@dataclass(frozen=True)
class BaseEntry:
    """A base parameter: standard parameters and coefficients (`terms`), a priori value in `unit`, and as formulas."""

    name: str
    leader: str
    terms: Mapping[str, float]
    value: float
    unit: str
    expression: str
    symbolic: str | None
    latex: str


@dataclass(frozen=True)
class IdentifiabilityEntry:
    """Whether a standard parameter can be identified: alone, in the base parameters named, or not; and why."""

    name: str
    status: str
    base: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class PaperCombination:
    """A minimal linear combination of Lin's Theorem 2 with its a priori value."""

    name: str
    terms: Mapping[str, float]
    value: float


@dataclass(frozen=True)
class BaseOutcome:
    """The base parameters of a robot; cond, S, gap: condition number, scaling and gap at the rank, None if unknown."""

    robot: str
    n_standard: int
    n_base: int
    eliminated: tuple[str, ...]
    regrouped: tuple[str, ...]
    base: tuple[BaseEntry, ...]
    cond: float | None
    S: float | None
    gap: float | None
    from_: str
    method: str
    identifiability: tuple[IdentifiabilityEntry, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float = 0.0
    paper_set: tuple[PaperCombination, ...] | None = None
    latex: str | None = None


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "base",
        help="compute the base parameters: the combinations that torques identify",
        description="Compute the base parameters: which standard parameters affect the model, which only in "
        "combination, and what the combinations are. Each base parameter has a leader with coefficient 1; "
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
        type=items,
        help="parameter groups, some of inertial,rotor,friction,offset (default: all; accel and energy have no "
        "friction and offset)",
    )
    group.add_argument(
        "--order",
        metavar="NAMES",
        type=items,
        help="preferred leaders, separated by commas: parameters (ZZ1), kinds (Ia), groups (rotor), joint numbers (6); "
        "the others follow in the standard order. Example: rotor,6,5,4,3,2,1 prefers rotors, then the last link",
    )
    group.add_argument(
        "--tolerance",
        metavar="X",
        type=float,
        help="relative tolerance below which a pivot is zero (default: rows * eps)",
    )
    group.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the random samples (default 0)")
    group.add_argument(
        "--scale",
        choices=("auto", "always", "never"),
        default="auto",
        help="optimise the sample points so that W's elements have similar sizes (auto: if the rank is unclear)",
    )
    group.add_argument("--tilting-base", action="store_true", help="the base tilts: gravity may have any direction")
    group.add_argument(
        "--paper-set",
        action="store_true",
        help="add Lin's minimal linear combinations of the inertial parameters (not in reduced form)",
    )
    group.add_argument("--latex", action="store_true", help="print the expressions as LaTeX")


def run(args: argparse.Namespace) -> BaseOutcome:
    """Compute the base parameters with coefficients, a priori values, expressions and the table of identifiability."""
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
    outcome = base_outcome(robot, base, order=args.order, tilting_base=args.tilting_base)
    return replace(
        outcome,
        seconds=seconds,
        paper_set=paper_set(robot) if args.paper_set else None,
        latex=align(entry.latex for entry in outcome.base) if args.latex else None,
    )


def base_outcome(
    robot: Robot, base: BaseParameters, *, order: Sequence[str] | None = None, tilting_base: bool = False
) -> BaseOutcome:
    """Return the outcome for these base parameters."""
    from ros2_dynid.base_parameters.expressions import expression
    from ros2_dynid.base_parameters.identifiability import identifiability
    from ros2_dynid.base_parameters.symbols import symbolic_terms
    from ros2_dynid.model.parameters import standard_vector, unit_of

    values = base.values(robot, standard_vector(robot))
    symbolic = symbolic_terms(robot, base, order=order, tilting_base=tilting_base)
    entries = tuple(
        BaseEntry(
            name=base.names[k],
            leader=base.leaders[k],
            terms=base.terms(k),
            value=float(values[k]),
            unit=unit_of(robot, base.leaders[k]),
            expression=expression(base, k),
            symbolic=expression(base, k, symbolic) if symbolic else None,
            latex=expression(base, k, symbolic, latex=True),
        )
        for k in range(len(base))
    )
    return BaseOutcome(
        robot=robot.name,
        n_standard=len(base.standard_names),
        n_base=len(base),
        eliminated=tuple(base.eliminated),
        regrouped=tuple(base.regrouped),
        base=entries,
        cond=base.cond,
        S=base.S,
        gap=base.gap if math.isfinite(base.gap) else None,
        from_=base.source,
        method=base.method,
        identifiability=tuple(
            IdentifiabilityEntry(entry.name, entry.status, tuple(entry.base), entry.reason)
            for entry in identifiability(robot, base, tilting_base=tilting_base)
        ),
        warnings=tuple(base.warnings),
        notes=tuple(robot.notes),
    )


def paper_set(robot: Robot) -> tuple[PaperCombination, ...]:
    """Return the minimal linear combinations of Theorem 2 with their a priori values."""
    from ros2_dynid.base_parameters.minimal_combinations import minimal_combinations

    return tuple(
        PaperCombination(
            combination.name,
            combination.terms,
            sum(c * robot.parameters.get(name, 0.0) for name, c in combination.terms.items()),
        )
        for combination in minimal_combinations(robot)
    )


def show(outcome: BaseOutcome, console: Console) -> None:
    """Print the combinations and the table of identifiability."""
    from ros2_dynid.base_parameters.expressions import combination

    if outcome.latex is not None:
        console.print(outcome.latex, markup=False, soft_wrap=True, end="")
        return
    rows = []
    for entry in outcome.base:
        formula = (entry.symbolic or entry.expression).partition(" = ")[2]
        rows.append((entry.name, "" if formula == entry.name else formula, f"{entry.value:.6g}", entry.unit))
    columns = [Column("base parameter"), Column("combination", wrap=True), Column("a priori", right=True)]
    title = f"{outcome.robot}: base parameters from the {outcome.from_} model"
    print_table(console, [*columns, Column("unit")], rows, title=title)
    if outcome.paper_set is not None:
        formulas = [(entry.name, combination(entry.terms)) for entry in outcome.paper_set]
        columns = [Column("name"), Column("combination", wrap=True)]
        print_table(console, columns, formulas, title="minimal linear combinations as in Lin's Theorem 2")
    leaders = {entry.leader for entry in outcome.base}
    hidden = [
        (entry.name, entry.status, entry.reason)
        for entry in outcome.identifiability
        if entry.status != "alone" and entry.name not in leaders
    ]
    if hidden:
        columns = [Column("parameter"), Column("identifiable"), Column("why", wrap=True)]
        print_table(console, columns, hidden, title="not identifiable alone")
    console.print(
        f"{outcome.n_standard} standard parameters: {len(outcome.eliminated)} without effect, "
        f"{len(outcome.regrouped)} regrouped, {outcome.n_base} base parameters"
    )
    labelled_figures = (("condition number", outcome.cond), ("scaling S", outcome.S), ("gap at the rank", outcome.gap))
    figures = [f"{label} {value:.3g}" for label, value in labelled_figures if value is not None]
    console.print(f"by {outcome.method}" + (f": {', '.join(figures)}" if figures else ""))
    print_notes(console, (*outcome.notes, *outcome.warnings))
