# SPDX-License-Identifier: Apache-2.0

"""A load from recordings with it and the stored model of the robot without it.

The torque of the model is taken off the rows, what is left is fitted by the load's ten parameters phi and the delay of
the effort. The error bars hold those of the model as well: phi moves by G d for an error d of its base parameters and
friction terms, which adds G C G^T with C the covariance of them all: what one of them takes from another cancels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.payload_fit import Payload, add_load_columns, load_map, payload_of
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Information, each_triangle
from ros2_dynid.identification.regression.least_squares import weighted_triangle, wls
from ros2_dynid.model.friction_kinds import law_columns
from ros2_dynid.model.robot import Array


def identify_load_on_model(
    model: IdentifiedModel,
    base: BaseParameters,
    loaded: Information,
    *,
    link: str | None = None,
    free: bool = False,
) -> Payload:
    """Return the load on the robot's last link; `base` are the base parameters that `loaded` is about.

    Columns of friction terms in `loaded` are those of `law_columns`: the model's law, at the load that its gears carry.
    """
    robot, layout = model.robot, loaded.layout
    if model.leaders != base.leaders:
        raise InputError("the model has other base parameters", "identify the robot without the load again", robot.name)
    M_L, value, covariance = load_map(robot, base), model.value, model.covariance
    if layout.n_friction:  # known from the model like the base parameters, whatever the load
        columns = law_columns(robot.friction)
        covariance = model.known_covariance
        value = np.append(value, [0.0 if column.of_shape else column.coefficient for column in columns])
        M_L = np.vstack((M_L, np.zeros((len(columns), M_L.shape[1]))))
        loaded = replace(loaded, layout=replace(layout, n_base=len(value), n_friction=0))
    full = add_load_columns(loaded, M_L)
    _refuse_open(model, full)
    estimate = wls(without_base(full, value))
    triangle = weighted_triangle(full, 1.0 / estimate.sigma)
    X = triangle.W[:, full.layout.n_base :]
    G = np.linalg.lstsq(X, triangle.base, rcond=None)[0]
    estimate = replace(estimate, covariance=estimate.covariance + G @ covariance @ G.T)
    return payload_of(robot, estimate, value, covariance, loaded, M_L, link=link, free=free)


def _refuse_open(model: IdentifiedModel, loaded: Information) -> None:
    """Refuse a model whose recording did not excite what this motion needs: its error is not known."""
    norms = np.zeros(loaded.size)
    for j, columns in enumerate(loaded.columns):
        norms[columns] += np.linalg.norm(loaded.triangle(j)[:, :-1], axis=0)
    excited = norms[: len(model.std)] > 1e-9 * norms.max(initial=0.0)
    unknown = [
        name
        for name, std, needed in zip(model.names, model.std, excited, strict=True)
        if needed and not np.isfinite(std)
    ]
    if unknown:
        what = f"the model does not know {', '.join(unknown[:5])}"
        raise InputError(what, "identify the robot without the load from a motion of all joints", model.robot.name)


def without_base(information: Information, value: Array) -> Information:
    """Return the information about delay and load alone: the torque of the base parameters is taken off."""
    old = information.layout
    layout = ColumnLayout(0, old.n_delay, old.n_load)
    others = tuple(columns[columns >= old.n_base] - old.n_base for columns in information.columns)

    def change(triangle: Array, columns: NDArray[np.intp]) -> Array:
        mask = columns >= old.n_base
        tau = triangle[:, -1] - triangle[:, :-1][:, ~mask] @ value[columns[~mask]]
        return np.column_stack((triangle[:, :-1][:, mask], tau))

    return each_triangle(information, change, others, layout)
