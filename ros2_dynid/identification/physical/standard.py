# SPDX-License-Identifier: Apache-2.0

"""Standard parameters closest to a priori (CAD) values, with the identified torques (Gautier 2013, section IV).

Of all chi with M chi = base, the one with the smallest change from chi_ref is chi_ref + M^+ (base - M chi_ref): the
same as eq. 30, whose V1 spans the rows of M. The change is measured in each link's own units of mass and length, so
that a wrist of 200 g does not pay for an arm of 4 kg; or in SI units, as eq. 30 is printed. With essential parameters
(eq. 31 to 33) the torque that the reference leaves open is fitted by the essential columns alone, and base parameters
that the data do not support stay at their a priori values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.identification.options import DISTANCES
from ros2_dynid.identification.physical.consistency import scales
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import solve, weighted_triangle
from ros2_dynid.model.parameters import group_of, standard_names
from ros2_dynid.model.robot import Array, Robot


def closest(robot: Robot, base: BaseParameters, value: Array, reference: Array, distance: str = DISTANCES[0]) -> Array:
    """Return chi, shape (n_standard,), with M chi = value and the smallest change from `reference` (eq. 30).

    distance: the change is measured in each link's own units ("scaled") or in SI units ("euclidean").
    """
    M = base.full_map(robot)
    S = scales(robot, reference) if distance == "scaled" else np.ones(len(reference))
    rows = np.linalg.norm(M * S, axis=1)
    change = np.linalg.lstsq(M * S / rows[:, None], (value - M @ reference) / rows, rcond=None)[0]
    return np.asarray(reference + S * change)


def essential_change(
    robot: Robot,
    base: BaseParameters,
    information: Information,
    weights: Array,
    essential: Sequence[int],
    reference: Array,
    others: Array,
) -> Array:
    """Return the base parameters, shape (b,), that fit best when only the essential ones leave those of `reference`.

    What the reference predicts is subtracted from the torque; the rest is fitted with the essential columns (eq. 32).
    others: a value for each column of W, of which those beside the base parameters count.
    """
    value = base.full_map(robot) @ reference
    T = weighted_triangle(information, weights)
    unexplained = T.tau_of_base(others) - T.base @ value
    value[list(essential)] += solve(np.column_stack((T.base[:, list(essential)], unexplained))).value
    return np.asarray(value)


def on_leaders(robot: Robot, base: BaseParameters, change: Array, reference: Array) -> Array:
    """Return the reference with the change of each base parameter, shape (b,), given to its leader (eq. 32).

    As printed, diag(chi_e) is zero outside the essential parameters, so that nothing but their leaders changes.
    """
    chi = reference.copy()
    place = {name: k for k, name in enumerate(standard_names(robot))}
    chi[[place[leader] for leader in base.leaders]] += change
    return chi


def with_drives(robot: Robot, chi: Array, reference: Array) -> Array:
    """Return the reference with the rotors, friction and offsets of chi, unknown to CAD (Gautier 2013, V.B)."""
    inertial = np.array([group_of(name) == "inertial" for name in standard_names(robot)])
    return np.where(inertial, reference, chi)
