# SPDX-License-Identifier: Apache-2.0

"""Identified drives as a part of the model: their values in units, in model.yaml, and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.codec import Plain
from ros2_dynid.errors import InputError
from ros2_dynid.identification.servo.drive import (
    BIAS,
    COMPLIANCE,
    COULOMB,
    DAMPING,
    DELAY,
    INERTIA,
    OWN,
    REACH,
    SYMBOLS,
    Drives,
    Term,
)
from ros2_dynid.model.friction_kinds import FrictionKind
from ros2_dynid.model.robot import Array

VERSION = 1


@dataclass(frozen=True)
class DriveValue:
    """A value of a drive with its standard deviation, None where the recording does not tell it."""

    value: float
    std: float | None


@dataclass(frozen=True)
class DriveRow:
    """One joint's drive. kp [N.m/rad], armature [kg.m^2], damping [N.m.s/rad], coulomb [N.m], limit [N.m] (None: not
    reached), bias [rad], delay [s]; for prismatic joints in N and m. terms: further friction, by kind.

    scale_told: whether the links' masses tell kp; if not, only the ratios of kp, armature, damping, friction and limit
    are the recording's. ratios: those over kp. fit_rms: error of the positions [rad or m].
    """

    joint: str
    kp: DriveValue
    armature: DriveValue
    damping: DriveValue
    coulomb: DriveValue
    bias: DriveValue
    delay: DriveValue
    limit: DriveValue | None
    terms: Mapping[str, DriveValue]
    ratios: Mapping[str, DriveValue]
    scale_told: bool
    fit_rms: float


@dataclass(frozen=True, eq=False)
class ServoModel:
    """Drives with ratios (K, n), their covariance (n, K, K), and how far the positions that they give are right.

    error: of positions at rest [rad or m] and for each unit of speed [s], shape (2, n). rms: of the fit (n,).
    errors: root mean square errors of rollouts by horizon and joint [rad or m], of what `held_out` says.
    """

    joints: tuple[str, ...]
    drives: Drives
    covariance: Array
    scale_told: tuple[bool, ...]
    error: Array
    rms: Array
    top_speed: float
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    held_out: bool = False

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together."""
        K, n = OWN + len(self.drives.terms), len(self.joints)
        shapes = (self.drives.ratios.shape, self.covariance.shape, self.error.shape, self.rms.shape)
        if shapes != ((K, n), (n, K, K), (2, n), (n,)) or len(self.scale_told) != n:
            raise InputError("the drives and their covariance differ in number", "identify the robot again")
        finite = np.isfinite(np.delete(self.drives.ratios, REACH, axis=0)).all() and self.top_speed > 0.0
        if not finite or np.any(self.drives.ratios[[COMPLIANCE, DELAY]] < 0.0):
            raise InputError("a drive has a ratio that is not possible", "identify the robot again")

    def rows(self) -> tuple[DriveRow, ...]:
        """Return the drives in units."""
        return tuple(self._row(j) for j in range(len(self.joints)))

    def _row(self, j: int) -> DriveRow:
        x, C = self.drives.ratios[:, j], self.covariance[j]

        def ratio(k: int) -> DriveValue:
            variance = C[k, k]
            return DriveValue(float(x[k]), float(np.sqrt(variance)) if np.isfinite(variance) else None)

        def value(k: int) -> DriveValue:
            """Return x_k / compliance with the error of both."""
            slope = np.zeros(len(x))
            slope[k], slope[COMPLIANCE] = 1.0 / x[COMPLIANCE], -x[k] / x[COMPLIANCE] ** 2
            used = np.isfinite(np.diag(C))
            variance = slope[used] @ C[np.ix_(used, used)] @ slope[used]
            told = self.scale_told[j] and used[k]
            return DriveValue(float(x[k] / x[COMPLIANCE]), float(np.sqrt(max(variance, 0.0))) if told else None)

        compliance_std = np.sqrt(C[COMPLIANCE, COMPLIANCE])
        kp_std = float(compliance_std / x[COMPLIANCE] ** 2) if self.scale_told[j] else None
        names = term_names(self.drives.terms)
        used = [k for k in range(len(names)) if x[OWN + k] != 0.0]
        loaded = [term.kind.loaded for term in self.drives.terms]
        symbols = (*SYMBOLS, *(f"{name}/kp" for name in names))
        return DriveRow(
            joint=self.joints[j],
            kp=DriveValue(float(1.0 / x[COMPLIANCE]), kp_std),
            armature=value(INERTIA),
            damping=value(DAMPING),
            coulomb=value(COULOMB),
            bias=ratio(BIAS),
            delay=ratio(DELAY),
            limit=value(REACH) if np.isfinite(x[REACH]) else None,
            terms={names[k]: (ratio if loaded[k] else value)(OWN + k) for k in used},
            ratios={symbols[k]: ratio(k) for k in range(len(symbols)) if np.isfinite(x[k]) and k not in (BIAS, DELAY)},
            scale_told=self.scale_told[j],
            fit_rms=float(self.rms[j]),
        )


def term_names(terms: Sequence[Term]) -> list[str]:
    """Return the names of terms: load, or stribeck(0.12) with its shape."""
    return [str(term.kind) if term.kind.shape is None else f"{term.kind}({term.shape:.3g})" for term in terms]


def servo_to_dict(model: ServoModel) -> dict[str, Plain]:
    """Return the drives as plain data."""
    K = len(model.drives.ratios)
    return {
        "version": VERSION,
        "joints": list(model.joints),
        "terms": [{"kind": str(t.kind), "shape": t.shape} for t in model.drives.terms],
        "ratios": [[None if np.isinf(x) else float(x) for x in row] for row in model.drives.ratios],
        "covariance": [
            [[None if np.isinf(C[i, k]) else float(C[i, k]) for k in range(i + 1)] for i in range(K)]
            for C in model.covariance
        ],
        "scale_told": list(model.scale_told),
        "error": model.error.tolist(),
        "rms": model.rms.tolist(),
        "top_speed": model.top_speed,
        "errors": {horizon: dict(row) for horizon, row in model.errors.items()},
        "held_out": model.held_out,
    }


def servo_from_dict(data: Mapping[str, object] | None) -> ServoModel | None:
    """Return what servo_to_dict wrote; ValueError and its kin for damaged data."""
    if data is None:
        return None
    values: dict[str, object] = dict(data)
    if values["version"] != VERSION:
        raise ValueError(f"its drives have version {values['version']!r}, this program reads {VERSION}")
    decoded: dict[str, list] = {key: value for key, value in values.items() if isinstance(value, list)}  # type: ignore[type-arg]
    terms = tuple(Term(FrictionKind[str(t["kind"])], float(t["shape"])) for t in decoded["terms"])
    K = OWN + len(terms)
    ratios = np.array([[np.inf if x is None else float(x) for x in row] for row in decoded["ratios"]])
    covariance = np.zeros((len(decoded["covariance"]), K, K))
    for C, triangle in zip(covariance, decoded["covariance"], strict=True):
        for i, row in enumerate(triangle):
            C[i, : i + 1] = C[: i + 1, i] = [np.inf if x is None else float(x) for x in row]
    errors = values["errors"]
    if not isinstance(errors, Mapping):
        raise ValueError("the errors of its rollouts are not a table")
    return ServoModel(
        tuple(map(str, decoded["joints"])),
        Drives(ratios, terms),
        covariance,
        tuple(map(bool, decoded["scale_told"])),
        np.array(decoded["error"], dtype=float),
        np.array(decoded["rms"], dtype=float),
        float(str(values["top_speed"])),
        {str(h): {str(name): float(x) for name, x in row.items()} for h, row in errors.items()},
        bool(values["held_out"]),
    )


def drive_text(row: DriveRow) -> str:
    """Return a drive in words and numbers."""

    def text(name: str, value: DriveValue, unit: str, factor: float = 1.0) -> str:
        error = "" if value.std is None else f" +- {factor * value.std:.2g}"
        return f"{name} {factor * value.value:.4g}{error} {unit}"

    parts = [
        text("kp", row.kp, "N.m/rad"),
        text("armature", row.armature, "kg.m^2"),
        text("damping", row.damping, "N.m.s/rad"),
        text("Coulomb friction", row.coulomb, "N.m"),
        *(text(name, value, FrictionKind[name.partition("(")[0]].units[0]) for name, value in row.terms.items()),
        text("bias", row.bias, "mrad", 1e3),
        text("delay", row.delay, "ms", 1e3),
    ]
    if row.limit is not None:
        parts.append(text("limit", row.limit, "N.m"))
    told = "" if row.scale_told else "; the recording tells only the ratios of these to kp"
    return ", ".join(parts) + told


def rollout_rows(model: ServoModel) -> list[tuple[str, str]]:
    """Return the errors of rollouts in words, by horizon."""
    return [
        (
            "whole motion" if horizon == "whole" else f"after {horizon} s",
            ", ".join(f"{name} {1e3 * error:.3g}" for name, error in row.items()) + " mrad (or mm) rms",
        )
        for horizon, row in model.errors.items()
    ]
