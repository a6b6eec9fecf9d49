# SPDX-License-Identifier: Apache-2.0

"""Export: a robot with its parameters becomes a URDF or a MuJoCo model, with notes on what neither can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ros2_dynid.atomic import write_bytes
from ros2_dynid.codegen.left_out import left_out
from ros2_dynid.codegen.urdf_export import updated_urdf
from ros2_dynid.dynamics.friction_law import nearest_plain
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.model.files import read_bytes
from ros2_dynid.model.from_urdf import ChainOptions
from ros2_dynid.model.parameters import GROUPS, split_name, standard_names, standard_vector
from ros2_dynid.model.robot import Robot
from ros2_dynid.model.urdf import MAX_BYTES
from ros2_dynid.output_files import check_folder
from ros2_dynid.usecases.mjcf import mjcf_files

WHOLE: ChainOptions = {"base_link": None, "tip_link": None, "hold": {}}
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
    written = write_files(Path(output), export.files, [urdf], overwrite=overwrite)
    return UrdfOutcome(written, (*export.notes, *friction_notes), parameters)


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
