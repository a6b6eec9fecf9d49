# SPDX-License-Identifier: Apache-2.0

"""Checked values of a YAML file: each error names the file, the element and what to do."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping

import numpy as np

from ros2_dynid.errors import InputError, suggest
from ros2_dynid.model.robot import Array


def as_mapping(value: object, where: str, source: str) -> Mapping[object, object]:
    """Return the value if it is a mapping; `where` names it in the error."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where} is not a mapping", "write KEY: VALUE", source)
    return value


def check_keys(values: Mapping[object, object], choices: tuple[str, ...], where: str, source: str) -> None:
    """Refuse an unknown key and suggest the nearest known one."""
    for key in values:
        if key not in choices:
            raise InputError(f"{where} has the unknown key {key!r}", suggest(key, choices), source)


def as_number(value: object, where: str, source: str, *, infinite: bool = False) -> float:
    """Return a finite number; infinity passes only where it means "no limit"."""
    if isinstance(value, str):  # YAML 1.1 reads 1e-3 as text
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where} is {value!r}", "give a number", source)
    try:
        result = float(value)
    except OverflowError:  # an integer of more than 308 digits
        result = math.inf
    if math.isnan(result) or (math.isinf(result) and not infinite):
        raise InputError(f"{where} is {value!r}", "give a finite number", source)
    return result


def as_vector(value: object, where: str, source: str) -> Array:
    """Return three numbers, shape (3,)."""
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise InputError(f"{where} is {value!r}", "give 3 numbers, such as [0, 0, -9.81]", source)
    return np.array([as_number(item, where, source) for item in value])


def as_pose(value: object, where: str, source: str) -> Array:
    """Return a rigid transform (4, 4) from four rows."""
    rows = value if isinstance(value, list) else []
    if len(rows) != 4 or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        raise InputError(f"{where} is not a 4x4 transform", "give 4 rows of 4 numbers", source)
    matrix = np.array([[as_number(item, where, source) for item in row] for row in rows])
    rigid = np.abs(matrix[:3, :3] @ matrix[:3, :3].T - np.eye(3)).max() < 1e-9 and np.linalg.det(matrix[:3, :3]) > 0
    if not rigid or not np.array_equal(matrix[3], [0, 0, 0, 1]):
        raise InputError(f"{where} is not a rigid transform", "give a rotation, a position and the row 0 0 0 1", source)
    return matrix
