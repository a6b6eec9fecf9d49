# SPDX-License-Identifier: Apache-2.0

"""Export: a robot with its parameters becomes a URDF or a MuJoCo model, with notes on what neither can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ros2_dynid.atomic import write_bytes
from ros2_dynid.codegen.actuator_files import SIMULATORS, actuator_file
from ros2_dynid.codegen.left_out import left_out
from ros2_dynid.codegen.mjcf_patch import DriveSettings, discrete_drive, patched_mjcf, refuse_other_drives
from ros2_dynid.codegen.urdf_export import updated_urdf
from ros2_dynid.dynamics.friction_law import nearest_plain
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.servo.identify import with_drives
from ros2_dynid.identification.servo.model import ServoModel
from ros2_dynid.identification.servo.randomisation import draw_drives
from ros2_dynid.model.files import read_bytes
from ros2_dynid.model.from_urdf import ChainOptions
from ros2_dynid.model.mjcf_compiler import compile_mjcf
from ros2_dynid.model.parameters import GROUPS, split_name, standard_names, standard_vector
from ros2_dynid.model.robot import Robot
from ros2_dynid.model.urdf import MAX_BYTES
from ros2_dynid.output_files import check_folder
from ros2_dynid.usecases.mjcf import mjcf_files

WHOLE: ChainOptions = {"base_link": None, "tip_link": None, "hold": {}, "floating_base": False}
"""The whole URDF, no joint held."""


@dataclass(frozen=True)
class UrdfOutcome:
    """A URDF or MJCF that was written: files, notes on what is not in it or cannot exist, the parameters in it."""

    files: tuple[str, ...]
    notes: tuple[str, ...]
    parameters: Mapping[str, float]


def export_urdf(
    model: IdentifiedModel | Robot,
    urdf: str | Path,
    output: str | Path,
    *,
    chain: ChainOptions = WHOLE,
    overwrite: bool = False,
) -> UrdfOutcome:
    """Write the URDF with the standard parameters of a model, or of a robot, into the folder `output`.

    urdf: the file that the robot was read from, which is not changed; chain: the sub-chain it was read with; overwrite:
    replace a file that is there. Only the numbers of <inertial> and <dynamics> differ. A model needs standard or
    consistent parameters.
    """
    path = Path(urdf)
    if path.suffix.lower() not in (".urdf", ".xml"):
        raise InputError("only a URDF can be updated", "give a .urdf file (run xacro first)", str(urdf))
    robot, parameters, friction_notes = _with_plain_friction(model, "URDF")
    text, notes = updated_urdf(read_bytes(path, MAX_BYTES), robot, parameters, source=str(urdf), **chain)
    notes += left_out(robot, standard_vector(robot, parameters), "URDF", rotors=False)
    written = write_files(Path(output), {path.name: text}, [path], overwrite=overwrite)
    return UrdfOutcome(written, (*notes, *friction_notes), parameters)


def export_mjcf(
    model: IdentifiedModel | Robot,
    output: str | Path,
    *,
    urdf: str | Path | None = None,
    name: str = "",
    chain: ChainOptions = WHOLE,
    overwrite: bool = False,
) -> UrdfOutcome:
    """Write a MuJoCo model with the standard parameters of a model, or of a robot, into the folder `output`.

    urdf: where the shapes come from, if any; chain: the sub-chain it was read with; name: of the file, by default the
    robot's. A model needs standard or consistent parameters.
    """
    robot, parameters, friction_notes = _with_plain_friction(model, "MJCF")
    chi = standard_vector(robot, parameters)
    export = mjcf_files(robot, chi, name=name, urdf=None if urdf is None else Path(urdf), chain=chain)
    files, notes = dict(export.files), [*export.notes, *friction_notes]
    servo = None if isinstance(model, Robot) else model.servo
    if servo is not None:
        file = next(iter(files))
        files[file], _ = _mjcf_with_drives(Path(file), files[file], drive_settings(robot, servo, parameters))
        notes += [*servo_notes(servo), *MUJOCO_NOTES]
    written = write_files(Path(output), files, [urdf], overwrite=overwrite)
    return UrdfOutcome(written, tuple(notes), parameters)


def export_patched_mjcf(
    model: IdentifiedModel, mjcf: str | Path, output: str | Path, *, overwrite: bool = False
) -> UrdfOutcome:
    """Write a user's MJCF with the drives of a model of position servos in it, the rest as it was, into `output`."""
    if model.servo is None:
        what = "only drives of position servos are written into an MJCF"
        raise InputError(what, Text("leave ", Option("mjcf"), " out: a model from torques becomes an MJCF of its own"))
    path = Path(mjcf)
    robot, parameters, friction_notes = _with_plain_friction(model, "MJCF")
    drives = drive_settings(robot, model.servo, parameters)
    patched, notes = _mjcf_with_drives(path, read_bytes(path, MAX_BYTES), drives)
    written = write_files(Path(output), {path.name: patched}, [path], overwrite=overwrite)
    return UrdfOutcome(written, (*notes, *friction_notes, *servo_notes(model.servo), *MUJOCO_NOTES), parameters)


def export_actuators(
    model: IdentifiedModel, simulator: str, output: str | Path, *, overwrite: bool = False
) -> UrdfOutcome:
    """Write the drives of a model of position servos as actuators of a simulator, of SIMULATORS, into `output`."""
    title, *_ = SIMULATORS[simulator]
    if model.servo is None:
        what = f"actuators of {title} are of position servos"
        raise InputError(what, "identify from commands and positions (docs/position_servos.md)")
    robot, parameters, friction_notes = _with_plain_friction(model, title)
    notes = (*friction_notes, *servo_notes(model.servo), *ACTUATOR_NOTES)
    text = actuator_file(simulator, robot.name, drive_settings(robot, model.servo, parameters), notes)
    written = write_files(Path(output), {f"{simulator}_actuators.py": text.encode()}, overwrite=overwrite)
    return UrdfOutcome(written, notes, parameters)


def _mjcf_with_drives(path: Path, text: bytes, drives: Sequence[DriveSettings]) -> tuple[bytes, list[str]]:
    """Return the text of an MJCF with drives as its timestep needs them, compiled to see them, and notes."""
    compiled = compile_mjcf(path, text)
    discrete = [discrete_drive(drive, compiled["timestep"]) for drive in drives]
    patched, notes = patched_mjcf(text, discrete, compiled, str(path))
    refuse_other_drives(discrete, compile_mjcf(path, patched), str(path))
    light = [drive.joint for drive in drives if 0.5 * compiled["timestep"] * drive.damping > drive.armature]
    if light:
        notes.append(f"the armature of {', '.join(light)} is too small for the timestep: take a smaller one")
    return patched, notes


def export_random_drives(
    model: IdentifiedModel, count: int, seed: int, output: str | Path, *, overwrite: bool = False
) -> UrdfOutcome:
    """Write a table of drives drawn within the error bars of a model of position servos, and ranges, into `output`."""
    if model.servo is None:
        what = "drives for domain randomisation are those of position servos"
        raise InputError(what, "identify from commands and positions (docs/position_servos.md)")
    drawn = draw_drives(model.servo, count, seed)
    names, columns = list(drawn.values), np.column_stack(list(drawn.values.values()))
    table = "\n".join([",".join(names), *(",".join(map(repr, map(float, row))) for row in columns)]) + "\n"
    ranges = "".join(f"{json.dumps(name)}: [{low!r}, {high!r}]\n" for name, (low, high) in drawn.ranges.items())
    files = {"drives.csv": table.encode(), "ranges.yaml": ranges.encode()}
    notes = [f"the stiffness of {', '.join(drawn.fixed)} is not drawn: the recording does not tell it"]
    written = write_files(Path(output), files, overwrite=overwrite)
    return UrdfOutcome(written, tuple(notes if drawn.fixed else ()), {})


MUJOCO_NOTES = (
    "armature and delay are those that the file's timestep needs: with another one export again",
    "MuJoCo has delays since version 3.5; before a delay has passed ctrl is 0 there: fill its history with the first "
    "command by mj_initCtrlHistory",
)
ACTUATOR_NOTES = (
    "a delay is a whole number of physics steps",
    "damping is within the limit of the effort there, beyond it in the model",
)


def drive_settings(robot: Robot, servo: ServoModel, parameters: Mapping[str, float]) -> tuple[DriveSettings, ...]:
    """Return the drives in units, with the plain friction of standard parameters by name."""
    return tuple(
        DriveSettings(
            joint=row.joint,
            kp=row.kp.value,
            kd=0.0,
            armature=row.armature.value,
            damping=parameters[f"Fv{number}"],
            friction=parameters[f"Fc{number}"],
            limit=np.inf if row.limit is None else row.limit.value,
            delay=row.delay.value,
        )
        for number, row in zip(robot.active, servo.rows(), strict=True)
    )


def servo_notes(servo: ServoModel) -> list[str]:
    """Return what no simulator's joint can hold of identified drives."""
    rows = servo.rows()
    biases = ", ".join(f"{row.joint} {1e3 * row.bias.value:.3g}" for row in rows)
    notes = [f"encoders read positions plus a bias, which is not in the file (mrad or mm): {biases}"]
    untold = [row.joint for row in rows if not row.scale_told]
    if untold:
        notes.append(f"the torques of {', '.join(untold)} have no scale of their own: only their ratios are identified")
    return notes


def _with_plain_friction(model: IdentifiedModel | Robot, form: str) -> tuple[Robot, dict[str, float], list[str]]:
    """Return the robot without friction terms, and parameters with the nearest Fv and Fc, and a note that says so.

    Nearest over the speeds and at the mean load of the recordings; without a model all stays as it is.
    """
    if isinstance(model, Robot):
        return model, dict(model.parameters), []
    robot, parameters, used = model.robot, _standard_parameters(model), model.obtained.get("used")
    if not robot.friction or not isinstance(used, dict) or set(used) != set(robot.active_names):
        return robot, parameters, []
    speed, load = (np.array([float(used[name][key]) for name in robot.active_names]) for key in ("speed", "load"))
    chi = nearest_plain(robot, standard_vector(robot, parameters), speed, load)
    terms = ", ".join(term.name for term in robot.friction)
    note = f"{form} supports Fv and Fc only: they are fitted to the law with {terms} over the recorded speeds"
    nearest = dict(zip(standard_names(robot), chi.tolist(), strict=True))
    friction_names = {f"{kind}{term.joint}" for term in robot.friction for kind in ("Fv", "Fc")}
    return replace(robot, friction=()), parameters | {name: nearest[name] for name in friction_names}, [note]


def _standard_parameters(model: IdentifiedModel) -> dict[str, float]:
    """Return the standard parameters by name, those of the drives that only the base parameters tell included."""
    if model.servo is not None:
        return dict(zip(standard_names(model.robot), with_drives(model.robot, model.servo).tolist(), strict=True))
    standard = model.standard_served or model.consistent
    if not standard:
        hint = Text("identify with ", Option("standard", True), " or ", Option("consistent", True))
        raise InputError("the model has no standard parameters", hint)
    drives = {*GROUPS["friction"], *GROUPS["rotor"], *GROUPS["offset"]}
    described = {
        name: float(v) for name, v in zip(model.leaders, model.served, strict=True) if split_name(name)[0] in drives
    }
    return {**described, **standard}


def write_files(
    folder: Path, files: Mapping[str, bytes], inputs: Sequence[str | Path | None] = (), *, overwrite: bool
) -> tuple[str, ...]:
    """Write the files and return their paths; inputs, which they are made from, are never replaced."""
    check_folder(folder, tuple(files), inputs=inputs, overwrite=overwrite)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / name, data, overwrite=overwrite)
    return tuple(str(folder / name) for name in files)
