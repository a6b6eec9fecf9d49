# SPDX-License-Identifier: Apache-2.0

"""dynid torque: torques of an identified model, or of a robot with its a priori parameters, for motions in a table."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ros2_dynid.commands.shared.arguments import add_robot_arguments, robot_source
from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.commands.shared.command import Subparsers
    from ros2_dynid.model.robot import Array, Robot
    from ros2_dynid.recording.samples import Samples


@dataclass(frozen=True)
class EffortSize:
    """Root mean square and largest magnitude of a joint's effort [N.m or N]."""

    rms: float
    max: float


@dataclass(frozen=True)
class TorqueOutcome:
    """The table written, and the size of the efforts by joint.

    reference: temperature [deg C] that friction was taken at, by joint, where it depends on one that is not known.
    extrapolated: rows, by joint, that are faster than any recording the model is of.
    """

    rows: int
    output: str
    effort: Mapping[str, EffortSize]
    reference: Mapping[str, float]
    extrapolated: Mapping[str, int]


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "torque",
        help="compute the torques of a model for the motion in a CSV or npz file",
        description="Evaluate an identified model, or the a priori parameters of a robot, for every row of a table.",
    )
    add_robot_arguments(
        parser, help_text="identified model (model.yaml or its folder), or a robot with a priori values"
    )
    parser.add_argument(
        "input",
        metavar="IN.csv",
        help="motions: time, NAME.position, .velocity, .acceleration, and .temperature if known",
    )
    parser.add_argument("output", metavar="OUT.csv", help="table to write: time and NAME.effort [N.m or N]")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT.csv if it exists")
    parser.add_argument("--no-friction", action="store_true", help="without friction and offsets")
    parser.add_argument("--static", action="store_true", help="take missing velocities and accelerations as zero")
    parser.add_argument(
        "--std",
        action="store_true",
        help="add NAME.effort_std: standard deviation of each torque from the error bars of the parameters [N.m or N]",
    )
    parser.add_argument(
        "--use",
        choices=("served", "base", "standard", "consistent"),
        default="served",
        help="parameter set of a model (default: the one that identify chose)",
    )


def run(args: argparse.Namespace) -> TorqueOutcome:
    """Evaluate the model and write the table."""
    from pathlib import Path

    import numpy as np

    from ros2_dynid.atomic import write_text
    from ros2_dynid.codegen.backend import fast_inverse_dynamics
    from ros2_dynid.dynamics.friction import frictionless
    from ros2_dynid.output_files import check_outputs
    from ros2_dynid.recording.read import load_samples
    from ros2_dynid.usecases.robot_source import load_robot_or_model

    out = Path(args.output)
    if out.suffix.lower() == ".npz":
        raise InputError("the output is an npz file", "name a csv file", args.output)
    check_outputs([out], inputs=[args.robot, args.input, args.joint_limits], overwrite=args.overwrite)
    robot, chi = load_robot_or_model(robot_source(args), args.use)
    samples = load_samples(args.input, robot, in_order=False)
    if args.no_friction:
        robot, chi = frictionless(robot, chi)
    motion = []
    for field, what in (("q", "position"), ("dq", "velocity"), ("ddq", "acceleration")):
        array = getattr(samples, field)
        if array is None:
            if not args.static:
                hint = f"add the columns NAME.{what}, or take them as zero: --static"
                raise InputError(f"the table has no {what}", hint, args.input)
            array = np.zeros_like(samples.q)
        if not np.all(np.isfinite(array)):
            row, j = np.argwhere(~np.isfinite(array))[0]
            where = f"{robot.active_names[j]}.{what} is missing or not finite in row {row + 1}"
            raise InputError(where, "give a number", args.input)
        motion.append(array)
    q, dq, ddq = motion
    _refuse_temperatures(robot, samples, args.input)
    tau = fast_inverse_dynamics(robot, chi, q, dq, ddq, samples.temperature)
    std = _std(args, motion) if args.std else np.empty((len(tau), 0))
    titles = [f"{name}.{kind}" for kind in ("effort", "effort_std")[: 1 + args.std] for name in robot.active_names]
    header = ",".join(["time", *titles])
    lines = [header, *(",".join(map(repr, map(float, row))) for row in np.column_stack((samples.t, tau, std)))]
    write_text(out, "\n".join(lines) + "\n", overwrite=args.overwrite)
    size = {
        name: EffortSize(float(np.sqrt(np.mean(tau[:, j] ** 2))), float(np.max(np.abs(tau[:, j]))))
        for j, name in enumerate(robot.active_names)
    }
    return TorqueOutcome(len(tau), str(out), size, _reference(robot, samples), _extrapolated(args.robot, robot, dq))


def _refuse_temperatures(robot: Robot, samples: Samples, source: str) -> None:
    """Refuse temperatures that no drive has; one that is missing is not known."""
    import numpy as np

    from ros2_dynid.control.drive_temperatures import COLDEST, HOTTEST

    if samples.temperature is None or not robot.friction:
        return
    T = samples.temperature
    wrong = np.argwhere(~np.isnan(T) & ~((T >= COLDEST) & (T <= HOTTEST)))
    if len(wrong):
        row, j = wrong[0]
        what = f"{robot.active_names[j]}.temperature is {T[row, j]:g} deg C in row {row + 1}"
        raise InputError(what, f"give degrees Celsius from {COLDEST:g} to {HOTTEST:g}, or leave it empty", source)


def _reference(robot: Robot, samples: Samples) -> dict[str, float]:
    """Return T0 of the joints whose friction depends on a temperature that the table does not have in every row."""
    import numpy as np

    from ros2_dynid.dynamics.friction_law import references

    warmth = np.full_like(samples.q, np.nan) if samples.temperature is None else samples.temperature
    return {
        robot.active_names[place]: T0
        for place, T0 in references(robot).items()
        if not np.isfinite(warmth[:, place]).all()
    }


def _extrapolated(path: str, robot: Robot, dq: Array) -> dict[str, int]:
    """Return, by joint, how many rows of dq (N, n) are faster than the model's recordings, where some are."""
    import numpy as np

    from ros2_dynid.identification.model_file import is_model_file, load_model

    recorded = load_model(path).recorded_speeds if is_model_file(path) else {}
    fastest = np.array([recorded.get(name, np.inf) for name in robot.active_names])
    counts = np.count_nonzero(np.abs(dq) > fastest, axis=0)
    return {name: int(count) for name, count in zip(robot.active_names, counts, strict=True) if count}


def _std(args: argparse.Namespace, motion: list[Array]) -> Array:
    from ros2_dynid.identification.model_file import is_model_file, load_model
    from ros2_dynid.identification.torque_std import torque_std

    if not is_model_file(args.robot):
        raise InputError("a priori parameters have no error bars", "name an identified model, or leave out --std")
    return torque_std(load_model(args.robot), *motion, friction=not args.no_friction)


def show(outcome: TorqueOutcome, console: Console) -> None:
    """Print what was written."""
    console.print(f"{outcome.rows} rows written to {outcome.output}", markup=False)
    for name, reference in outcome.reference.items():
        text = f"the temperature of {name} is not known in every row: its friction is that at {reference:g} deg C there"
        console.print(text, markup=False)
    for name, count in outcome.extrapolated.items():
        text = f"{name} is faster than in the recordings in {count} rows: its friction is extrapolated there"
        console.print(text, markup=False)
    for name, size in outcome.effort.items():
        console.print(f"  {name}: rms {size.rms:.4g}, largest {size.max:.4g} [N.m or N]", markup=False)
