# SPDX-License-Identifier: Apache-2.0

"""A load from a few seconds of motion and the stored model of the robot without it: mass and centre, soon after a pick.

A few seconds do not show all ten parameters. The inertia is therefore drawn towards that of a compact body at the
load's centre: its second moments about the centre are RADIUS^2 times its mass, give or take as much. With more motion
the data outweigh that. The prior starts a square-root information filter (`estimators.sequential`), the rows since the
pick follow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.identification.estimators.sequential import start_filter, update_filter
from ros2_dynid.identification.loads.payload_fit import Payload, add_load_columns, load_map, payload_of, without_base
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.regression.error_bars import Moments, block_moments, jackknife
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import error_levels, own_errors, solve, weighted_triangle
from ros2_dynid.model.parameters import LINK
from ros2_dynid.model.robot import Array

RADIUS = 0.07
"""Radius of gyration [m] of the body that a load is taken for: a cube of 0.17 m. Known within as much."""
LARGEST_DELAY = 0.05
"""Delay of the effort [s] that is thought possible."""
HEAVIEST, FARTHEST = 1e3, 10.0
"""Mass [kg] and distance of the centre [m] that are thought possible: nothing is said about them."""
ROUNDS = 4
"""Rounds in which centre and error level, which the prior depends on, are found."""
FEWEST_BLOCKS = 3
"""Blocks of time before something is said: fewer have no scatter."""


def quick_load(
    model: IdentifiedModel, base: BaseParameters, loaded: Information, *, link: str | None = None
) -> Payload | None:
    """Return the load on a link, or None as long as `loaded`, the rows since the pick, do not tell its mass.

    base: the base parameters that `loaded` is about, with the model's as its values.
    """
    robot = model.robot
    if model.leaders != base.leaders:
        raise InputError("the model has other base parameters", "identify the robot without the load again", robot.name)
    if len(loaded.blocks) < FEWEST_BLOCKS:
        return None
    M_L = load_map(robot, base, link)
    full = add_load_columns(loaded, M_L)
    alone = without_base(full, model.value)
    layout = alone.layout
    weights = 1.0 / own_errors(alone)
    load = np.zeros(len(LINK))
    for _ in range(ROUNDS):
        mean, std = compact_body_prior(load, layout.n_delay)
        value = solve(update_filter(start_filter(mean, std), weighted_triangle(alone, weights).R)).value
        load = value[layout.load]
        weights = 1.0 / error_levels(alone, value, weights)
    P = np.diag(1.0 / std**2)
    moments = block_moments(alone, value, weights)
    B = len(moments.g)
    regularized = Moments(moments.A + P / B, moments.g + P @ (mean - value) / B, moments.recording)
    try:
        covariance, dof = jackknife(regularized)
    except np.linalg.LinAlgError:
        return None
    triangle = weighted_triangle(full, weights)
    X = triangle.W[:, full.layout.n_base :]
    inverse = np.linalg.inv(X.T @ X + P)
    G = inverse @ X.T @ triangle.base
    known = np.isfinite(model.std)
    C = np.where(np.outer(known, known), model.covariance, 0.0)
    covariance = covariance + inverse @ P @ inverse + G @ C @ G.T
    if not np.sqrt(covariance[-1, -1]) < HEAVIEST / 10.0:
        return None
    ones = np.ones(layout.size, dtype=bool)
    sigma = 1.0 / weights
    estimate = Estimate(layout, value, covariance, ones, sigma, 1.0, layout.size, Method.SEQUENTIAL, dof)
    try:
        return payload_of(robot, estimate, model.value, C, loaded, M_L, link=link)
    except DynidError:
        free = payload_of(robot, estimate, model.value, C, loaded, M_L, link=link, free=True)
        return replace(free, significant=False)


def compact_body_prior(load: Array, n_delay: int) -> tuple[Array, Array]:
    """Return mean and standard deviation of delay and load before the data, around the body at the centre of `load`."""
    M = max(float(load[9]), 0.0)
    c = load[6:9] / M if M > 0.0 else np.zeros(3)
    c = np.clip(c, -FARTHEST, FARTHEST)
    own = M * RADIUS**2
    J = M * (c @ c * np.eye(3) - np.outer(c, c)) + own * np.eye(3)
    mean = np.concatenate((np.zeros(n_delay), J[np.triu_indices(3)], np.zeros(4)))
    few = max(own, 1e-3 * RADIUS**2)
    std = np.concatenate((np.full(n_delay, LARGEST_DELAY), np.full(6, few), np.full(3, HEAVIEST), [HEAVIEST]))
    return mean, std
