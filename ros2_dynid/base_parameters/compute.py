"""The use case: a robot's base parameters by any method, from any of the three models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.base_parameters.closed_form import CLEAR, closed_form, doubts
from ros2_dynid.base_parameters.elastic_columns import with_elastic
from ros2_dynid.base_parameters.numeric import (
    Dependence,
    by_qr,
    by_svd,
    condition,
    equilibrium,
    in_column_order,
    without_effect,
)
from ros2_dynid.base_parameters.reduced_form import build, noise_level, tidy
from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.base_parameters.sampling import (
    SOURCES,
    comparable,
    model_rows,
    natural_units,
    points_needed,
    random_points,
    row_units,
)
from ros2_dynid.base_parameters.scaling import scaled_points
from ros2_dynid.base_parameters.selection import chosen_names, preference
from ros2_dynid.base_parameters.transfer import units
from ros2_dynid.errors import InputError, Option, Text
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
    if method == "closed-form" and robot.passive:
        notes.append("closed rules do not cover loops: computed numerically, by QR")
        method = "qr"
    elastic = [name for name in names if group_of(name) == "force"]
    if method == "closed-form" and elastic and order is not None:
        notes.append("closed rules do not cover springs that lead before links: computed numerically, by QR")
        method = "qr"
    if method == "closed-form" and elastic:
        rest = tuple(name for name in names if name not in elastic)
        bare = replace(robot, forces=())
        found = closed_form(bare, rest, range(len(rest)), tilting_base=tilting_base, tolerance=tolerance)
        found = with_elastic(robot, found, names, source=source, seed=seed, tilting_base=tilting_base)
    elif method == "closed-form":
        found = closed_form(robot, names, columns, source=source, tilting_base=tilting_base, tolerance=tolerance)
    else:
        found = _sampled(robot, names, columns, source, method, tolerance, seed, scale, tilting_base)
    return replace(found, warnings=(*notes, *found.warnings))


def _check(source: str, method: str, tolerance: float | None) -> None:
    if source not in SOURCES:
        raise InputError(f"unknown model {source!r}", f"choose from {', '.join(SOURCES)}")
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}", f"choose from {', '.join(METHODS)}")
    if tolerance is not None and not 0.0 < tolerance < 1.0:
        raise InputError(f"tolerance {tolerance} is not between 0 and 1", "give a relative one, such as 1e-12")


def _sampled(
    robot: Robot,
    names: tuple[str, ...],
    order: list[int],
    source: str,
    method: str,
    tolerance: float | None,
    seed: int,
    scale: bool | None,
    tilting_base: bool,
) -> BaseParameters:
    """Return the base parameters from random samples; samples are scaled if asked for, or if the gap is poor."""
    found, cond, S = _factorised(robot, names, order, source, method, tolerance, seed, bool(scale), tilting_base)
    if scale is None and found.gap < CLEAR:
        again, *figures = _factorised(robot, names, order, source, method, tolerance, seed, True, tilting_base)
        if again.gap > found.gap:
            found, (cond, S) = again, figures
    size = units(robot, names, *natural_units(robot))
    beta = found.beta / size[None, :] * size[found.leaders, None]
    warnings = doubts(found.kept, found.dropped)
    if found.doubt:
        warnings.append(Text(f"{found.doubt}; set ", Option("tolerance")))
    return build(
        names,
        found.leaders,
        tidy(beta, size, found.leaders, noise_level(found.kept)),
        source=source,
        method=method,
        gap=found.gap,
        cond=cond,
        S=S,
        warnings=warnings,
    )


def _factorised(
    robot: Robot,
    names: tuple[str, ...],
    order: list[int],
    source: str,
    method: str,
    tolerance: float | None,
    seed: int,
    scale: bool,
    tilting_base: bool,
) -> tuple[Dependence, float, float]:
    """Return the factorisation of W in natural units, and cond and S of its leading columns in SI units."""
    place = {name: k for k, name in enumerate(standard_names(robot))}
    columns = [place[name] for name in names]
    rng = np.random.default_rng(seed)
    count = points_needed(robot, source, len(columns))
    points = random_points(robot, count, rng, tilting_base=tilting_base)
    if scale:
        points = scaled_points(robot, source, points, columns)
    rows = model_rows(robot, source, points, columns)
    W = comparable(rows, source, points)
    natural = W / row_units(robot, source, len(points.q))[:, None] * units(robot, names, *natural_units(robot))
    natural[:, without_effect(natural)] = 0.0
    factorise = by_svd if method == "svd" else by_qr
    found = in_column_order(factorise(natural[:, order], tolerance), order)
    return found, condition(W[:, found.leaders]), equilibrium(rows[..., found.leaders].reshape(len(W), -1))
