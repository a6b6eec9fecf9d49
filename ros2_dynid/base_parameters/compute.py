# SPDX-License-Identifier: Apache-2.0

"""A robot's base parameters by any method, from any of the three models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.base_parameters.closed_form import CLEAR_GAP, closed_form, rank_warnings, units
from ros2_dynid.base_parameters.elastic_columns import add_elastic_coefficients
from ros2_dynid.base_parameters.numeric import (
    SOURCES,
    Dependence,
    by_qr,
    by_svd,
    comparable,
    condition,
    equilibrium,
    in_column_order,
    model_rows,
    natural_units,
    points_needed,
    random_points,
    row_units,
    without_effect,
)
from ros2_dynid.base_parameters.result import BaseParameters, build, chosen_names, preference, si_coefficients
from ros2_dynid.base_parameters.scaling import scaled_points
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import group_of, standard_names
from ros2_dynid.model.robot import Robot

METHODS = ("qr", "svd", "closed-form")


def base_parameters(
    robot: Robot,
    *,
    source: str = "torque",
    method: str = "qr",
    groups: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    tolerance: float | None = None,
    seed: int = 0,
    scale: bool | None = None,
    tilting_base: bool = False,
) -> BaseParameters:
    """Return the robot's base parameters in reduced form; every method and model gives the same.

    source: model d ("torque"), d0 ("accel") or h ("energy").
    method: "qr" or "svd", both from random samples drawn with `seed`, or "closed-form".
    groups: of inertial, rotor, friction, offset, force (all that the model shows if None).
    order: names, kinds, groups or joint numbers that lead before others.
    tolerance: relative limit below which a diagonal element counts as zero (default: number of rows times eps).
    scale: optimise the sample points always, never, or (None) where the gap is poor.
    tilting_base: gravity may come from any direction.
    """
    _check(source, method, tolerance)
    names, note = chosen_names(robot, source, groups)
    columns = preference(names, order)
    notes = [note] if note else []
    if method == "closed-form" and robot.passive_joints:
        notes.append("the closed form does not cover closed loops: QR was used")
        method = "qr"
    elastic = [name for name in names if group_of(name) == "force"]
    if method == "closed-form" and elastic and order is not None:
        notes.append("the closed form does not cover springs as leaders: QR was used")
        method = "qr"
    if method == "closed-form" and elastic:
        rigid_names = tuple(name for name in names if name not in elastic)
        rigid_robot = replace(robot, forces=())
        base = closed_form(
            rigid_robot, rigid_names, range(len(rigid_names)), tilting_base=tilting_base, tolerance=tolerance
        )
        base = add_elastic_coefficients(robot, base, names, source=source, seed=seed, tilting_base=tilting_base)
    elif method == "closed-form":
        base = closed_form(robot, names, columns, source=source, tilting_base=tilting_base, tolerance=tolerance)
    else:
        options = _Factorisation(source, method, tolerance, seed, tilting_base)
        base = _base_from_samples(robot, names, columns, options, scale)
    return replace(base, warnings=(*notes, *base.warnings))


def _check(source: str, method: str, tolerance: float | None) -> None:
    if source not in SOURCES:
        raise InputError(f"unknown model {source!r}", f"choose from {', '.join(SOURCES)}")
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}", f"choose from {', '.join(METHODS)}")
    if tolerance is not None and not 0.0 < tolerance < 1.0:
        raise InputError(f"tolerance {tolerance} is not between 0 and 1", "give a relative one, such as 1e-12")


@dataclass(frozen=True)
class _Factorisation:
    """How W is sampled and factorised; the fields are the arguments of `base_parameters`."""

    source: str
    method: str
    tolerance: float | None
    seed: int
    tilting_base: bool


def _base_from_samples(
    robot: Robot, names: tuple[str, ...], order: list[int], options: _Factorisation, scale: bool | None
) -> BaseParameters:
    """Return the base parameters from random samples; samples are scaled if asked for, or if the gap is poor."""
    dependence, cond, S = _factorise_samples(robot, names, order, options, bool(scale))
    if scale is None and dependence.gap < CLEAR_GAP and robot.loops is None:
        rescaled, *figures = _factorise_samples(robot, names, order, options, True)
        if rescaled.gap > dependence.gap:
            dependence, (cond, S) = rescaled, figures
    size = units(robot, names, *natural_units(robot))
    return build(
        names,
        dependence.leaders,
        si_coefficients(dependence, size, dependence.kept),
        source=options.source,
        method=options.method,
        gap=dependence.gap,
        cond=cond,
        S=S,
        warnings=rank_warnings(dependence.kept, dependence.dropped, dependence.doubt),
    )


def _factorise_samples(
    robot: Robot, names: tuple[str, ...], order: list[int], options: _Factorisation, scale: bool
) -> tuple[Dependence, float, float]:
    """Return the factorisation of W in natural units, and cond and S of its leading columns in SI units."""
    source, place = options.source, {name: k for k, name in enumerate(standard_names(robot))}
    columns = [place[name] for name in names]
    rng = np.random.default_rng(options.seed)
    count = points_needed(robot, source, len(columns))
    points = random_points(robot, count, rng, tilting_base=options.tilting_base)
    if scale:
        points = scaled_points(robot, source, points, columns)
    rows = model_rows(robot, source, points, columns)
    W = comparable(rows, source, points)
    natural = W / row_units(robot, source, len(points.q))[:, None] * units(robot, names, *natural_units(robot))
    natural[:, without_effect(natural)] = 0.0
    factorise = by_svd if options.method == "svd" else by_qr
    dependence = in_column_order(factorise(natural[:, order], options.tolerance), order)
    leaders = dependence.leaders
    return dependence, condition(W[:, leaders]), equilibrium(rows[..., leaders].reshape(len(W), -1))
