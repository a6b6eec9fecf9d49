# SPDX-License-Identifier: Apache-2.0

"""The outcome of an identification as data: what the command line prints, summary.json holds and a job returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ros2_dynid.identification.model_file import BASE, BaseRow, SetErrors, TorqueError
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import Filter
from ros2_dynid.identification.validation.torque_errors import ValidatedBy
from ros2_dynid.identification.validation.verdict import Remark


@dataclass(frozen=True)
class Delay:
    """How late the effort was recorded [s], with standard deviation."""

    value: float
    std: float | None


@dataclass(frozen=True)
class EliminationStep:
    """One elimination tried: the parameter, its relative std, the test's statistic and limit, the outcome.

    growth, allowed: of the squared error on stretches left out, without all dropped so far, as a share.
    """

    parameter: str
    relative_std: float | None
    statistic: float
    limit: float
    dropped: bool
    growth: float = 0.0
    allowed: float = 0.0


@dataclass(frozen=True)
class Elimination:
    """The steps to the essential parameters, and the largest share of a joint's torque that each parameter makes."""

    steps: tuple[EliminationStep, ...]
    torque_share: Mapping[str, float]


@dataclass(frozen=True)
class Consistency:
    """Number of links that can exist, by tolerance [kg.m^2] and in full, for each set of standard parameters.

    fit, loss: torque errors of the imposed set, and growth of the weighted error's norm over that of the best fit;
    smallest_joint_inertia: smallest eigenvalue of M(q) over random positions, of the standard and the imposed set.
    """

    a_priori: Mapping[str, int]
    base: Mapping[str, int] | None = None
    essential: Mapping[str, int] | None = None
    imposed: Mapping[str, int] | None = None
    fit: Mapping[str, TorqueError] | None = None
    loss: float | None = None
    smallest_joint_inertia: float | None = None
    smallest_joint_inertia_imposed: float | None = None


@dataclass(frozen=True)
class FrictionRow:
    """A friction term beyond Fv, Fc and off: coefficient and standard deviation in `unit`.

    speed, speed_std: vs of a Stribeck term with its standard deviation [rad/s or m/s]; exponent, exponent_std: p of a
    power term; reference: temperature T0 at which a term of the temperature is zero [deg C].
    """

    name: str
    joint: str
    term: str
    value: float
    std: float | None
    unit: str
    speed: float | None = None
    speed_std: float | None = None
    exponent: float | None = None
    exponent_std: float | None = None
    reference: float | None = None


@dataclass(frozen=True)
class FrictionTrial:
    """A law tried at a joint, its terms joined by +, the best of its size: gain in squared held-out error over the law
    taken before and its scatter over folds, as shares of the joint's error."""

    name: str
    joint: str
    term: str
    gain: float
    scatter: float
    chosen: bool
    speed: float | None = None


@dataclass(frozen=True)
class SensorRow:
    """Which torque a joint's effort is: motor, link, link+Fc, ... (model/efforts.py).

    used: as what it was identified; found: what the comparison on held-out data says, None where it was declared to be
    at the link; clear: whether that is certain. share: largest share of the joint's torque that viscous friction
    makes, with two standard deviations on top, None if not known.
    """

    used: str
    found: str | None = None
    clear: bool = True
    share: float | None = None


@dataclass(frozen=True)
class SecondSensor:
    """A joint's second effort, fitted beside the first: what it is, its torque errors, its bias [N.m or N] with std.

    drive: Ia, Fv and Fc that the two tell apart, with `drive_std`.
    """

    sensor: str
    fit: TorqueError
    bias: float
    bias_std: float | None
    drive: Mapping[str, float]
    drive_std: Mapping[str, float]


@dataclass(frozen=True)
class PriorUse:
    """A prior that was tried: its source, the weight that served unseen data best, 0 if it was not used.

    gain, scatter: share by which it lowers the held-out error, with its standard error; share: how much of what is
    said about the base parameters is the prior's; parameters: the same for each.
    """

    source: str
    weight: float
    gain: float
    scatter: float
    share: float
    parameters: Mapping[str, float]


@dataclass(frozen=True)
class IdentifyOutcome:
    """What was identified; `model` and `report` are the files written, None if there was no output folder.

    serve: which parameter set is the model, "base" or "consistent". fit, validation: of that set, by joint and for
    "all"; sets: those of every set computed ("base", "essential", "consistent"). rows: of all joints together; seconds:
    that it took. validated_by: what the held-out data of `validation` are; folds: of a cross-validation, 0 if there was
    none. band_coverage: share of the rows of validation recordings inside the 95 % band of the prediction, by
    joint and for "all"; empty without such recordings.
    friction: terms beyond Fv, Fc and off that the joints were found to have; friction_tried: how each was judged.
    sensors: which torque the effort of each joint is; second: other efforts that were fitted beside it, by joint.
    prior: what the estimate was drawn towards, if anything was tried. recommended: the estimator that suits the
    data: another than `method` where encoder noise biases that one.
    """

    base: tuple[BaseRow, ...]
    essential: tuple[str, ...]
    standard: Mapping[str, float]
    consistent: Mapping[str, float]
    fit: Mapping[str, TorqueError]
    validation: Mapping[str, TorqueError]
    cond: float | None
    rows: int
    method: Method
    filter: Filter
    delay: Delay
    verdict: tuple[Remark, ...]
    notes: tuple[str, ...]
    seconds: float
    validated_by: ValidatedBy = ValidatedBy.NOTHING
    folds: int = 0
    elimination: Elimination | None = None
    consistency: Consistency | None = None
    serve: str = BASE
    sets: Mapping[str, SetErrors] = field(default_factory=dict)
    band_coverage: Mapping[str, float] = field(default_factory=dict)
    friction: tuple[FrictionRow, ...] = ()
    friction_tried: tuple[FrictionTrial, ...] = ()
    prior: PriorUse | None = None
    sensors: Mapping[str, SensorRow] = field(default_factory=dict)
    second: Mapping[str, SecondSensor] = field(default_factory=dict)
    recommended: Method | None = None
    model: str | None = None
    report: str | None = None
