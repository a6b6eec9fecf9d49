# SPDX-License-Identifier: Apache-2.0

"""Coefficients in the geometry's own symbols: 0.29 as D3^2 + R3^2.

Lengths that the robot file names are varied about their values, the exact coefficients computed for each variation, and
polynomials up to second degree in the symbols fitted through them. Those that also hold at further variations, which
the fit has not seen, are the coefficients' expressions; the others stay numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np

from ros2_dynid.base_parameters.closed_form import closed_form
from ros2_dynid.base_parameters.result import BaseParameters, preference
from ros2_dynid.model.robot import Array, Robot

LENGTHS = ("b", "d", "r")
TEST_VARIATIONS = 6
"""Variations kept back from the fit to test it."""
MAX_SYMBOLS = 12
COEFFICIENT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Polynomial:
    """A sum of monomials in symbols: {("D3", "D3"): 1.0, (): 2.0} is D3^2 + 2."""

    terms: Mapping[tuple[str, ...], float]


def length_symbols(robot: Robot) -> dict[str, float]:
    """Return the symbols that the robot names for lengths that are not zero, with their values [m].

    A minus sign before a symbol says that the length is the negative of it.
    """
    values: dict[str, float] = {}
    for joint in robot.joints:
        for field in LENGTHS:
            symbol, value = joint.symbols.get(field), getattr(joint, field)
            if symbol and value != 0.0:
                values[symbol.lstrip("-")] = -value if symbol.startswith("-") else value
    return values


def set_lengths(robot: Robot, values: Mapping[str, float]) -> Robot:
    """Return the robot with the named lengths set to values [m]."""
    joints = []
    for joint in robot.joints:
        changes: dict[str, float] = {}
        for field in LENGTHS:
            symbol = joint.symbols.get(field, "")
            if symbol.lstrip("-") in values and getattr(joint, field) != 0.0:
                changes[field] = values[symbol.lstrip("-")] * (-1.0 if symbol.startswith("-") else 1.0)
        joints.append(replace(joint, **changes) if changes else joint)  # type: ignore[arg-type]
    return replace(robot, joints=tuple(joints))


def symbolic_terms(
    robot: Robot, base: BaseParameters, *, order: Sequence[str] | None = None, tilting_base: bool = False, seed: int = 0
) -> dict[tuple[int, int], Polynomial]:
    """Return polynomials for coefficients (row, column) of base.M that depend on the named lengths and fit one.

    Empty for robots without symbols, with loops, or whose leaders change when lengths vary.
    """
    nominal = length_symbols(robot)
    if not nominal or len(nominal) > MAX_SYMBOLS or robot.passive_joints:
        return {}
    symbols = sorted(nominal)
    monomials = [m for degree in range(3) for m in combinations_with_replacement(symbols, degree)]
    columns = preference(base.standard_names, order)
    rng = np.random.default_rng(seed)
    x = np.array([nominal[s] for s in symbols]) * rng.uniform(
        0.6, 1.6, (len(monomials) + TEST_VARIATIONS, len(symbols))
    )
    M = []
    for point in x:
        robot_here = set_lengths(robot, dict(zip(symbols, point, strict=True)))
        here = closed_form(robot_here, base.standard_names, columns, tilting_base=tilting_base)
        if here.leaders != base.leaders:
            return {}
        M.append(here.M)
    design = np.array([[_monomial(m, symbols, point) for m in monomials] for point in x])
    return fit_polynomials(np.array(M), design, monomials)


def _monomial(monomial: tuple[str, ...], symbols: list[str], point: Array) -> float:
    return float(np.prod([point[symbols.index(s)] for s in monomial]))


def fit_polynomials(M: Array, design: Array, monomials: list[tuple[str, ...]]) -> dict[tuple[int, int], Polynomial]:
    """Return the polynomials of the coefficients that vary, M of shape (variations, b, c), and pass the test."""
    varies = np.ptp(M, axis=0) > COEFFICIENT_TOLERANCE
    rows, columns = np.nonzero(varies)
    values = M[:, rows, columns]
    scale = np.max(np.abs(design), axis=0)
    fit = np.linalg.lstsq(design[:-TEST_VARIATIONS] / scale, values[:-TEST_VARIATIONS], rcond=None)[0]
    error = np.max(np.abs((design[-TEST_VARIATIONS:] / scale) @ fit - values[-TEST_VARIATIONS:]), axis=0, initial=0.0)
    polynomials = {}
    for k, (i, j) in enumerate(zip(rows, columns, strict=True)):
        if error[k] < COEFFICIENT_TOLERANCE * max(1.0, float(np.max(np.abs(values[:, k])))):
            shares = fit[:, k]
            terms = {
                m: float(np.round(shares[t] / scale[t], 6))
                for t, m in enumerate(monomials)
                if abs(shares[t]) > 1e-7 * np.max(np.abs(shares))
            }
            polynomials[int(i), int(j)] = Polynomial(terms)
    return polynomials
