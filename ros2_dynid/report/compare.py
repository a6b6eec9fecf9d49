# SPDX-License-Identifier: Apache-2.0

"""What changed between identifications of the same robot, or of robots of one type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.model.parameters import unit_of

SIGNIFICANCE = 0.01
"""Probability of a false alarm over all parameters of one comparison."""


@dataclass(frozen=True)
class Change:
    """A base parameter in all models: values and std, shape (models,); z: change against the first over its std."""

    name: str
    unit: str
    value: tuple[float | None, ...]
    std: tuple[float | None, ...]
    z: tuple[float | None, ...]
    significant: tuple[bool, ...]


def compare(models: Mapping[str, IdentifiedModel], significance: float = SIGNIFICANCE) -> list[Change]:
    """Return every base parameter side by side, with z = (v_k - v_0) / sqrt(std_k^2 + std_0^2) against the first.

    A change is significant where |z| exceeds the normal quantile of significance / number of parameters (Bonferroni),
    so that a table of sixty parameters gives no false alarms.
    """
    if len(models) < 2:
        raise InputError("there is only one model", "name at least two folders to compare")
    first = next(iter(models.values()))
    for label, model in models.items():
        if model.robot.active_names != first.robot.active_names:
            raise InputError("its joints are not those of the first", "compare models of one type of robot", label)
    names = list(dict.fromkeys(name for model in models.values() for name in model.names))
    bound = float(-ndtri(significance / (2 * len(names))))
    return [_change(name, list(models.values()), bound) for name in names]


def _change(name: str, models: Sequence[IdentifiedModel], bound: float) -> Change:
    value: list[float | None] = []
    std: list[float | None] = []
    unit = ""
    for model in models:
        if name not in model.names:
            value.append(None)
            std.append(None)
            continue
        k = model.names.index(name)
        unit = unit or unit_of(model.robot, model.leaders[k])
        value.append(float(model.value[k]))
        std.append(float(model.std[k]) if np.isfinite(model.std[k]) else None)
    z: list[float | None] = [None]
    for v, s in zip(value[1:], std[1:], strict=True):
        if v is None or s is None or value[0] is None or std[0] is None or s == std[0] == 0.0:
            z.append(None)
        else:
            z.append((v - value[0]) / float(np.hypot(s, std[0])))
    significant = tuple(one is not None and abs(one) > bound for one in z)
    return Change(name, unit, tuple(value), tuple(std), tuple(z), significant)
