# SPDX-License-Identifier: Apache-2.0

"""dynid export MODEL|ROBOT: generated C or NumPy code, a file for the C++ runtime, URDF or MJCF with the parameters."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import add_robot_arguments, robot_from_args, robot_source
from ros2_dynid.commands.shared.command import items
from ros2_dynid.commands.shared.terminal import Column, print_table
from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.identification.model_file import IdentifiedModel
    from ros2_dynid.model.from_urdf import ChainOptions
    from ros2_dynid.model.robot import Array, Robot
    from ros2_dynid.usecases.export import UrdfOutcome

TARGETS = ("c", "numpy", "urdf", "mjcf", "runtime", "isaaclab", "mjlab", "newton", "samples")

USUAL_OPTIONS = ("--to", "-o", "--overwrite", "--only", "--name", "--urdf", "--mjcf", "--load", "--tool", "--tip-link")
"""Options that --help shows; --help-all shows every option."""


@dataclass(frozen=True)
class OperationCount:
    """Operations of a generated function."""

    multiplications: int
    additions: int


@dataclass(frozen=True)
class CodeOutcome:
    """Code that was written: operations of the torque and of every function, parameters that appear, files."""

    multiplications: int
    additions: int
    functions: Mapping[str, OperationCount]
    parameters: Mapping[str, float]
    files: tuple[str, ...]


@dataclass(frozen=True)
class RuntimeOutcome:
    """A file for the C++ runtime that was written, and whether it holds error bars."""

    files: tuple[str, ...]
    error_bars: bool


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "export",
        help="write C or NumPy code, a file for the C++ runtime, or a URDF or MJCF with the identified parameters",
        description="Write a model for use elsewhere. c and numpy: the inverse dynamics as code without dependencies, "
        "as one function and split into a background and a synchronous task; C code comes with CMakeLists.txt and a "
        "self-test. urdf: the URDF with the identified parameters, its formatting kept. mjcf: a MuJoCo model with "
        "bodies, armature, damping, frictionloss, motors and meshes. runtime: one file for the C++ runtime and the "
        "ros2_control controllers. isaaclab, mjlab, newton: the drives of position servos as their actuators. samples: "
        "drives within their error bars, for domain randomisation.",
    )
    text = "model.yaml of an identification, or a URDF or robot file with its a priori parameters"
    add_robot_arguments(parser, help_text=text)
    group = parser.add_argument_group("export")
    group.add_argument("--to", choices=TARGETS, default="c", help="output format (default c)")
    group.add_argument("-o", "--output", metavar="DIR", required=True, help="output folder (created if missing)")
    group.add_argument("--overwrite", action="store_true", help="replace files that exist")
    group.add_argument(
        "--only",
        metavar="LIST",
        type=items,
        help="parameters in the code, separated by commas: groups (inertial,rotor,friction,offset), reduced to base "
        "parameters, or standard parameters by name (M6,MZ6), all others being zero. Default for a model: its "
        "essential or base parameters, or all if it uses consistent ones; for a robot: inertial,rotor, and "
        "friction and offset if it has any",
    )
    group.add_argument("--name", metavar="NAME", help="prefix of files and functions (default: the robot's name)")
    group.add_argument(
        "--parameters-at-run-time",
        action="store_true",
        help="pass the parameters at run time instead of compiling them in",
    )
    group.add_argument("--load", action="store_true", help="add a load at the tool; its ten parameters are an input")
    group.add_argument("--wrench", action="store_true", help="add an external wrench at the tool as an input [N, N.m]")
    group.add_argument(
        "--tool", metavar="LINK", help="link that load and wrench refer to (default: the last joint's frame)"
    )
    group.add_argument("--float", action="store_true", help="single instead of double precision (C only)")
    group.add_argument(
        "--effort", metavar="N", type=int, help="candidate forms in the search for the fewest operations (default 60)"
    )
    group.add_argument(
        "--urdf", metavar="FILE", help="with a model: the URDF to update (urdf) or to take meshes from (mjcf)"
    )
    group.add_argument("--samples", metavar="N", type=int, default=200, help="samples: their number (default 200)")
    group.add_argument(
        "--seed", metavar="N", type=int, default=0, help="samples: seed of the random numbers (default 0)"
    )
    group.add_argument(
        "--mjcf", metavar="FILE", help="with a model of position servos: your MJCF, to write the drives into (mjcf)"
    )


def run(args: argparse.Namespace) -> CodeOutcome | UrdfOutcome | RuntimeOutcome:
    """Write the files."""
    robot, model = _read(args)
    if args.to == "runtime":
        return _runtime(args, robot, model)
    if args.to == "urdf":
        return _urdf(args, robot, model)
    if args.to == "mjcf":
        return _mjcf(args, robot, model)
    if args.to == "samples":
        from ros2_dynid.usecases.export import export_random_drives

        servos = _model_needed(model)
        return export_random_drives(servos, args.samples, args.seed, args.output, overwrite=args.overwrite)
    if args.to in ("isaaclab", "mjlab", "newton"):
        return _actuators(args, model)
    if args.float and args.to != "c":
        raise InputError("--float is for C only", "use --to c")
    if args.effort is not None and args.effort < 1:
        raise InputError(f"--effort {args.effort} is less than 1", "give a number of candidate forms, such as 60")
    from ros2_dynid.codegen.emit_c import emit_c
    from ros2_dynid.codegen.emit_numpy import emit_numpy
    from ros2_dynid.codegen.operation_search import EFFORT
    from ros2_dynid.codegen.program import ProgramOptions, program_of
    from ros2_dynid.codegen.text import identifier
    from ros2_dynid.usecases.export import write_files

    if args.only and "friction" not in args.only:
        robot = replace(robot, friction=())
    parameters, values, about = _parameters(args, robot, model)
    about += [f"Friction term {t.name}: {t.kind}, {t.coefficient:g}." for t in robot.friction]
    options = ProgramOptions(
        runtime=args.parameters_at_run_time,
        load=args.load,
        wrench=args.wrench,
        real="float" if args.float else "double",
        tool=args.tool,
        effort=args.effort or EFFORT,
    )
    name = identifier(args.name or robot.name)
    program = program_of(robot, parameters, values, options, about=about, name=name)
    files = emit_c(program) if args.to == "c" else emit_numpy(program)
    data = {file: text.encode() for file, text in files.items()}
    paths = write_files(Path(args.output), data, [args.robot], overwrite=args.overwrite)
    functions = {
        name: OperationCount(g.count.multiplications, g.count.additions) for name, g in program.functions.items()
    }
    torque = functions["torque"]
    value_by_name = dict(zip(parameters, (float(v) for v in values), strict=True))
    return CodeOutcome(torque.multiplications, torque.additions, functions, value_by_name, paths)


def _read(args: argparse.Namespace) -> tuple[Robot, IdentifiedModel | None]:
    from ros2_dynid.identification.model_file import is_model_file, load_model
    from ros2_dynid.usecases.robot_source import refuse_other_robot

    if is_model_file(args.robot):
        model = load_model(args.robot)
        refuse_other_robot(robot_source(args), model.robot, chain=not args.urdf)
        return model.robot, model
    return robot_from_args(args), None


def _parameters(
    args: argparse.Namespace, robot: Robot, model: IdentifiedModel | None
) -> tuple[tuple[str, ...], Array, list[str]]:
    """Return names and values of the parameters that appear, and lines for the header."""
    from ros2_dynid.codegen.program import chosen_parameters
    from ros2_dynid.identification.model_file import BASE
    from ros2_dynid.model.parameters import GROUPS, group_of

    if model is None:
        parameters, values = chosen_parameters(robot, args.only)
        return parameters, values, ["Parameters: a priori, from the description of the robot."]
    selected_names = model.names if model.essential is None or model.serve != BASE else model.essential
    rows = [k for k, name in enumerate(model.names) if name in set(selected_names)]
    if args.only:
        unknown = [x for x in args.only if x not in GROUPS and x not in model.names and x not in model.leaders]
        if unknown:
            choices = ", ".join((*GROUPS, *model.names))
            raise InputError(
                f"--only {unknown[0]!r} is not a group or parameter of the model", f"choose from {choices}"
            )
        rows = [k for k in rows if {group_of(model.leaders[k]), model.names[k], model.leaders[k]} & set(args.only)]
    if not rows:
        raise InputError("--only leaves no parameter", f"choose from {', '.join(GROUPS)}")
    obtained = model.obtained
    when = obtained.get("created", "unknown date")
    about = [f"Parameters: identified ({model.serve} set), {when}, method {obtained.get('method', 'unknown')}."]
    about += [f"Fit: {100 * model.fit['all'].relative:.2f} % of the torque."] if "all" in model.fit else []
    return tuple(model.leaders[k] for k in rows), model.served[rows], about


def _runtime(args: argparse.Namespace, robot: Robot, model: IdentifiedModel | None) -> RuntimeOutcome:
    from ros2_dynid.codegen.runtime_export import runtime_bytes
    from ros2_dynid.codegen.text import identifier
    from ros2_dynid.identification.torque_std import error_bars
    from ros2_dynid.model.parameters import standard_vector
    from ros2_dynid.usecases.export import write_files

    chi = standard_vector(robot) if model is None else model.chi
    data = runtime_bytes(robot, chi, None if model is None else error_bars(model))
    name = f"{identifier(args.name or robot.name)}.dynid"
    paths = write_files(Path(args.output), {name: data}, [args.robot], overwrite=args.overwrite)
    return RuntimeOutcome(paths, model is not None)


def _urdf(args: argparse.Namespace, robot: Robot, model: IdentifiedModel | None) -> UrdfOutcome:
    from ros2_dynid.usecases.export import export_urdf

    path = args.urdf or (args.robot if model is None else None)
    if path is None:
        raise InputError("a model file does not contain the URDF", "give it: --urdf FILE")
    return export_urdf(model or robot, path, args.output, chain=_chain(args), overwrite=args.overwrite)


def _mjcf(args: argparse.Namespace, robot: Robot, model: IdentifiedModel | None) -> UrdfOutcome:
    from ros2_dynid.usecases.export import export_mjcf

    if args.mjcf is not None:
        from ros2_dynid.usecases.export import export_patched_mjcf

        return export_patched_mjcf(_model_needed(model), args.mjcf, args.output, overwrite=args.overwrite)
    path = args.urdf or (args.robot if model is None and Path(args.robot).suffix.lower() == ".urdf" else None)
    return export_mjcf(
        model or robot, args.output, urdf=path, name=args.name or "", chain=_chain(args), overwrite=args.overwrite
    )


def _actuators(args: argparse.Namespace, model: IdentifiedModel | None) -> UrdfOutcome:
    from ros2_dynid.usecases.export import export_actuators

    return export_actuators(_model_needed(model), args.to, args.output, overwrite=args.overwrite)


def _model_needed(model: IdentifiedModel | None) -> IdentifiedModel:
    if model is None:
        raise InputError(
            "a description of a robot has no identified drives", "give the model.yaml of an identification"
        )
    return model


def _chain(args: argparse.Namespace) -> ChainOptions:
    return robot_source(args).chain


def show(outcome: CodeOutcome | UrdfOutcome | RuntimeOutcome, console: Console) -> None:
    """Print what was written."""
    if isinstance(outcome, CodeOutcome):
        rows = [(name, str(count.multiplications), str(count.additions)) for name, count in outcome.functions.items()]
        columns = [Column("function"), Column("multiplications", right=True), Column("additions", right=True)]
        print_table(console, columns, rows)
    elif not isinstance(outcome, RuntimeOutcome):
        for note in outcome.notes:
            console.print(note, markup=False)
    for file in outcome.files:
        console.print(file, markup=False, soft_wrap=True)
