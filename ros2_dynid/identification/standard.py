"""Standard parameters closest to a priori (CAD) values, with the torques of the identified ones (seed 002, section IV).

Of all chi with M chi = base, the one with the smallest change from chi_ref is chi_ref + M^+ (base - M chi_ref): the same as
eq. 30, whose V1 spans the rows of M. With essential parameters (eq. 31 to 33) only the leaders of these may change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.identification.information import Information
from ros2_dynid.identification.least_squares import solve, weighted_triangle
from ros2_dynid.model.parameters import group_of, standard_names
from ros2_dynid.model.robot import Array, Robot

FREE = 1e3
"""Scale of what CAD does not know (rotors, friction and offsets without a value) beside the links' parameters."""


def scales(robot: Robot, reference: Array) -> Array:
    """Return how freely each standard parameter may change, shape (n_standard,): 1 for links, FREE for unknown drives."""
    names = standard_names(robot)
    return np.array(
        [FREE if group_of(name) != "inertial" and v == 0.0 else 1.0 for name, v in zip(names, reference, strict=True)]
    )


def closest(robot: Robot, base: BaseParameters, value: Array, reference: Array) -> Array:
    """Return chi, shape (n_standard,), with M chi = value and the smallest scaled change from `reference` (eq. 30)."""
    M = full_map(robot, base)
    S = scales(robot, reference)
    change = np.linalg.lstsq(M * S, value - M @ reference, rcond=None)[0]
    return np.asarray(reference + S * change)


def closest_essential(
    robot: Robot,
    base: BaseParameters,
    information: Information,
    weights: Array,
    essential: Sequence[int],
    reference: Array,
    delay: float,
) -> Array:
    """Return chi that fits the torque best when only the leaders of essential parameters leave `reference` (eq. 32).

    What the reference predicts is subtracted from the torque; the rest is fitted with the essential columns.
    """
    known = np.append(full_map(robot, base) @ reference, delay)
    R = weighted_triangle(information, weights)
    left = R[:, -1] - R[:, :-1] @ known
    found = solve(np.column_stack((R[:, list(essential)], left)))
    chi = reference.copy()
    columns = base.columns(robot)
    chi[[columns[k] for k in essential]] += found.value
    return chi


def full_map(robot: Robot, base: BaseParameters) -> Array:
    """Return M, shape (b, n_standard), over all standard parameters of the robot."""
    place = {name: k for k, name in enumerate(standard_names(robot))}
    M = np.zeros((len(base), len(place)))
    M[:, [place[name] for name in base.standard_names]] = base.M
    return M
