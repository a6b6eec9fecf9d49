# SPDX-License-Identifier: Apache-2.0

"""The identified model and its file, model.yaml: what every later step reads."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml
from numpy.typing import ArrayLike

from ros2_dynid.atomic import replacing, write_text
from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codec import Plain, decode, encode, finite_or_none
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.servo.model import ServoModel, servo_from_dict, servo_to_dict
from ros2_dynid.model.files import parse_yaml, read_bytes
from ros2_dynid.model.friction_kinds import law_columns
from ros2_dynid.model.load import shipped_models
from ros2_dynid.model.parameters import standard_names, standard_vector, unit_of
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.model.robot_file import MODEL_FORMAT, robot_from_dict, robot_to_dict

FORMAT, VERSION = MODEL_FORMAT, 1
LARGEST = 50_000_000
"""A model file larger than this [bytes] is refused."""
BASE, ESSENTIAL, CONSISTENT = "base", "essential", "consistent"
"""Parameter sets: base parameters, those of them that the data support, those of links that can exist. A model serves
the first or the last."""
T = TypeVar("T")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes every value where it stands, and texts that are more than plain strings, which YAML refuses, as such."""

    def ignore_aliases(self, data: object) -> bool:
        """Return that nothing is written as a reference to what stands before."""
        return True


_Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str(text)))


@dataclass(frozen=True)
class BaseRow:
    """A base parameter: estimated value and its standard deviation in `unit`, std None where the data do not tell it.

    served: the value of the parameter set that the model serves.
    """

    name: str
    value: float
    std: float | None
    relative_std: float | None
    served: float
    unit: str
    leader: str
    expression: str


@dataclass(frozen=True)
class TorqueError:
    """rms [N.m or N], and relative: norm of the error over the norm of the torque."""

    rms: float
    relative: float


@dataclass(frozen=True)
class SetErrors:
    """Torque errors of one parameter set by joint and for "all": on the data used, and on held-out data, if any."""

    fit: Mapping[str, TorqueError]
    validation: Mapping[str, TorqueError]


@dataclass(frozen=True, eq=False)
class IdentifiedModel:
    """An identified robot: tau = Y(q, dq, ddq)[:, leaders] served.

    names, leaders, value, std of the b base parameters, covariance (b, b); terms[k]: standard parameters and
    coefficients that base parameter k stands for. std is infinite where the data did not determine a value.
    essential: names kept, if asked for; standard, consistent: standard parameters by name, if computed. serve: which
    set is the model, "base" (value) or "consistent". fit, validation: torque errors of that set by joint and for "all";
    sets: those of every set that was computed. obtained: method, data, filter, options, versions, verdict.
    friction_covariance: of the f columns of the robot's friction terms (`law_columns`) with the base parameters and
    each other, shape (f, b + f); None where it is not known, as in older files. servo: the drives under position
    servos, of a robot that was identified without efforts.
    """

    robot: Robot
    names: tuple[str, ...]
    leaders: tuple[str, ...]
    terms: tuple[Mapping[str, float], ...]
    value: Array
    std: Array
    covariance: Array
    essential: tuple[str, ...] | None = None
    standard: Mapping[str, float] | None = None
    consistent: Mapping[str, float] | None = None
    fit: Mapping[str, TorqueError] = field(default_factory=dict)
    validation: Mapping[str, TorqueError] = field(default_factory=dict)
    obtained: Mapping[str, Plain] = field(default_factory=dict)
    serve: str = BASE
    sets: Mapping[str, SetErrors] = field(default_factory=dict)
    friction_covariance: Array | None = None
    servo: ServoModel | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together."""
        b = len(self.names)
        if not b or len(self.leaders) != b or len(self.terms) != b or self.covariance.shape != (b, b):
            raise InputError("base parameters and covariance differ in number", "identify the robot again")
        if self.value.shape != (b,) or self.std.shape != (b,) or not np.all(np.isfinite(self.value)):
            raise InputError("a base parameter has no finite value", "identify the robot again")
        f, C = len(law_columns(self.robot.friction)), self.friction_covariance
        if C is not None and (C.shape != (f, b + f) or not np.all(np.isfinite(C))):
            raise InputError("friction terms and their covariance differ in number", "identify the robot again")
        known = set(standard_names(self.robot))
        strange = [name for name in (*self.leaders, *(t for terms in self.terms for t in terms)) if name not in known]
        if strange:
            raise InputError(f"{strange[0]!r} is not a parameter of the robot", "identify the robot again")
        if self.serve not in (BASE, CONSISTENT):
            raise InputError(f"the model serves {self.serve!r}", f"choose from {BASE}, {CONSISTENT}")
        if self.serve == CONSISTENT and self.consistent is None:
            raise InputError("the model has no consistent parameters to serve", "identify with consistent parameters")
        for array in (self.value, self.std, self.covariance, self.served):
            array.setflags(write=False)

    @cached_property
    def served(self) -> Array:
        """Base parameters of the set that is the model, shape (b,): what every consumer uses."""
        if self.serve == BASE:
            return self.value
        chi = standard_vector(self.robot, self.consistent)
        place = {name: k for k, name in enumerate(standard_names(self.robot))}
        return np.array([sum(c * chi[place[name]] for name, c in terms.items()) for terms in self.terms])

    @property
    def chi(self) -> Array:
        """Standard parameters with the torques of what is served, shape (n_standard,); see `chi_of`."""
        return self.chi_of(self.served)

    def chi_of(self, value: Array) -> Array:
        """Return standard parameters with the torques of base values (b,): leaders take them, others are zero."""
        place = {name: k for k, name in enumerate(standard_names(self.robot))}
        chi = np.zeros(len(place))
        chi[[place[name] for name in self.leaders]] = value
        return chi

    @property
    def recorded_speeds(self) -> dict[str, float]:
        """Fastest speed of each joint in the recordings [rad/s or m/s]; empty where an older file does not say."""
        used = self.obtained.get("used")
        rows = used.items() if isinstance(used, Mapping) else ()
        speeds = {name: row.get("speed") for name, row in rows if isinstance(row, Mapping)}
        return {name: float(speed) for name, speed in speeds.items() if isinstance(speed, int | float)}

    @property
    def standard_served(self) -> Mapping[str, float] | None:
        """Standard parameters by name of what is served, if computed: consistent ones, or those closest to a priori."""
        return self.consistent if self.serve == CONSISTENT else self.standard

    @property
    def known_covariance(self) -> Array:
        """Covariance of base parameters and friction columns together, shape (b + f, b + f); f = 0 if not known."""
        C = self.friction_covariance
        if C is None:
            return self.covariance
        b = len(self.names)
        return np.block([[self.covariance, C[:, :b].T], [C[:, :b], C[:, b:]]])

    def torque(self, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike, *, friction: bool = True) -> Array:
        """Return tau, shape (N, n_active) [N.m, N], for q, dq, ddq of that shape; or without friction and offset."""
        robot, chi = (self.robot, self.chi) if friction else frictionless(self.robot, self.chi)
        return inverse_dynamics(robot, chi, q, dq, ddq)

    def expression(self, k: int) -> str:
        """Return base parameter k in standard parameters, such as "ZZ1 + Ia1 - 0.186*M3"."""
        text = ""
        for name, c in self.terms[k].items():
            size = "" if abs(abs(c) - 1.0) < 1e-12 else f"{abs(c):.6g}*"
            sign = (" - " if c < 0 else " + ") if text else ("-" if c < 0 else "")
            text += f"{sign}{size}{name}"
        return text

    def table(self) -> tuple[BaseRow, ...]:
        """Return the base parameters as rows; std None where not identified."""
        return tuple(
            BaseRow(
                name=name,
                value=float(v),
                std=finite_or_none(s),
                relative_std=finite_or_none(s / abs(v)) if v != 0 else None,
                served=float(self.served[k]),
                unit=unit_of(self.robot, leader),
                leader=leader,
                expression=self.expression(k),
            )
            for k, (name, leader, v, s) in enumerate(zip(self.names, self.leaders, self.value, self.std, strict=True))
        )


def model_of(
    robot: Robot, base: BaseParameters, value: Array, std: Array, covariance: Array, **more: Any
) -> IdentifiedModel:
    """Return the model for estimates of `base`; more: further fields of the model."""
    terms = tuple(base.terms(k) for k in range(len(base)))
    return IdentifiedModel(robot, base.names, base.leaders, terms, value, std, covariance, **more)


def save_model(model: IdentifiedModel, path: str | Path) -> None:
    """Write the model, atomically: a reader sees the old file or the new one, never a part."""
    b, triangle = len(model.names), [row[: k + 1].tolist() for k, row in enumerate(model.known_covariance)]
    data: dict[str, Plain] = {
        "format": FORMAT,
        "version": VERSION,
        "serve": model.serve,
        "robot": robot_to_dict(model.robot),
        "base": [
            {
                "name": row.name,
                "leader": row.leader,
                "value": row.value,
                "std": row.std,
                **({} if model.serve == BASE else {"served": row.served}),
                "unit": row.unit,
                "expression": row.expression,
                "terms": {name: float(c) for name, c in model.terms[k].items()},
            }
            for k, row in enumerate(model.table())
        ],
        "covariance": triangle[:b],
        "friction": _friction(model),
        **({} if model.friction_covariance is None else {"friction_covariance": triangle[b:]}),
        **({} if model.servo is None else {"servo": servo_to_dict(model.servo)}),
        "essential": None if model.essential is None else list(model.essential),
        "standard": _floats(model.standard),
        "consistent": _floats(model.consistent),
        "fit": encode(model.fit),
        "validation": encode(model.validation),
        "sets": encode(model.sets),
        "obtained": encode(model.obtained),
    }
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4000, default_flow_style=None)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def load_model(path: str | Path) -> IdentifiedModel:
    """Read a model file, or the shipped model of a name; a damaged or foreign one is refused in one line."""
    path = _model_path(path)
    if path.is_dir() and (path / "model.yaml").is_file():
        path = path / "model.yaml"
    source = str(path)
    data = parse_yaml(read_bytes(path, LARGEST), source)
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise InputError("this is not an identified model", "give the model.yaml that `dynid identify` wrote", source)
    if data.get("version") != VERSION:
        what = f"the model has version {data.get('version')!r}, this program reads {VERSION}"
        raise InputError(what, "identify again, or update ros2_dynid", source)
    try:
        robot = robot_from_dict(data["robot"], source)
        rows, of_terms = data["base"], data.get("friction_covariance")
        b, triangle = len(rows), [*data["covariance"], *(of_terms or ())]
        if len(data["covariance"]) != b or [len(row) for row in triangle] != list(range(1, len(triangle) + 1)):
            raise ValueError("the covariance is not a triangle of the right size")
        covariance = np.zeros((len(triangle), len(triangle)))
        for i, row in enumerate(triangle):
            covariance[i, : i + 1] = covariance[: i + 1, i] = [float(x) for x in row]
        model = IdentifiedModel(
            robot=robot,
            names=tuple(str(row["name"]) for row in rows),
            leaders=tuple(str(row["leader"]) for row in rows),
            terms=tuple({str(name): float(c) for name, c in row["terms"].items()} for row in rows),
            value=np.array([float(row["value"]) for row in rows]),
            std=np.array([np.inf if row["std"] is None else float(row["std"]) for row in rows]),
            covariance=covariance[:b, :b],
            essential=None if data.get("essential") is None else tuple(map(str, data["essential"])),
            standard=_named(data.get("standard")),
            consistent=_named(data.get("consistent")),
            fit=_table_of(TorqueError, data["fit"]),
            validation=_table_of(TorqueError, data["validation"]),
            obtained=_plain_mapping(data["obtained"]),
            serve=str(data.get("serve", BASE)),
            sets=_table_of(SetErrors, data.get("sets")),
            friction_covariance=None if of_terms is None else covariance[b:],
            servo=servo_from_dict(data.get("servo")),
        )
    except InputError as error:
        raise InputError(error.what, error.hint, source) from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        what = f"the model file is damaged ({type(error).__name__}: {error})"
        raise InputError(what, "identify again, or restore the file", source) from None
    return model


def is_model_file(path: str | Path) -> bool:
    """Return whether a file says that it is an identified model; it may still be damaged."""
    path = _model_path(path)
    if path.is_dir():
        path = path / "model.yaml"
    try:
        with path.open("rb") as stream:
            return FORMAT.encode() in stream.read(4096)
    except OSError:
        return False


def _model_path(path: str | Path) -> Path:
    """Return the path, or that of the shipped model of this name where there is no such file."""
    path = Path(path)
    return path if path.exists() else shipped_models().get(str(path), path)


def _friction(model: IdentifiedModel) -> list[dict[str, Plain]]:
    """Return friction and offset of each joint, where they are base parameters or terms of its law."""
    value = dict(zip(model.leaders, model.served.tolist(), strict=True))
    return [
        {
            "joint": joint.name,
            **{kind: value[f"{kind}{j}"] for kind in ("Fv", "Fc", "off") if f"{kind}{j}" in value},
            **{term.kind.symbol: term.coefficient for term in model.robot.friction if term.joint == j},
        }
        for j, joint in enumerate(model.robot.joints, start=1)
    ]


def _floats(values: Mapping[str, float] | None) -> dict[str, float] | None:
    return None if values is None else {name: float(v) for name, v in values.items()}


def _table_of(kind: type[T], data: object) -> dict[str, T]:
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise ValueError("the torque errors are not a table")
    return {str(name): decode(kind, row, str(name)) for name, row in data.items()}


def _named(data: object) -> dict[str, float] | None:
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise ValueError("the parameters are not a table of names and numbers")
    return {str(name): float(v) for name, v in data.items()}


def _plain_mapping(data: object) -> dict[str, Plain]:
    if not isinstance(data, Mapping):
        raise ValueError("the field obtained is not a table")
    return {str(name): value for name, value in data.items()}


PICTURE_ROWS = 4000
"""Rows kept for pictures: they show no more, and a report of an hour stays small."""


@dataclass(frozen=True, eq=False)
class TorqueData:
    """Rows of one data set: t (N,) [s]; q, dq, ddq, tau, predicted, prior, temperature (N, n).

    tau: measured torque, predicted: of the identified model, prior: of the a priori one, all through the same filter;
    NaN where a row was left out because the joint was too slow for its friction. temperature: of the drives [deg C],
    NaN where it is not known.
    """

    t: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    predicted: Array
    prior: Array
    temperature: Array


def save_torque_data(path: Path, sets: Mapping[str, TorqueData]) -> None:
    """Write the data sets ("fit", "validation") as float32, atomically."""
    arrays = {f"{name}_{f.name}": getattr(e, f.name).astype(np.float32) for name, e in sets.items() for f in fields(e)}
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)


def load_torque_data(path: Path) -> dict[str, TorqueData]:
    """Return the data sets that save_torque_data wrote."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            names = [key.removesuffix("_t") for key in stored.files if key.endswith("_t")]
            return {
                name: TorqueData(*(_stored(stored, f"{name}_{f.name}", f"{name}_q") for f in fields(TorqueData)))
                for name in names
            }
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError("the file is damaged or not ours", "identify again", str(path)) from error


def _stored(stored: Mapping[str, Array], name: str, like: str) -> Array:
    """Return an array of the file; older ones have no temperatures, which are not known then."""
    if name.endswith("_temperature") and name not in stored:
        return np.full(stored[like].shape, np.nan)
    return stored[name].astype(float)
