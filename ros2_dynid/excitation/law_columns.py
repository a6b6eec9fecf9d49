# SPDX-License-Identifier: Apache-2.0

"""Columns of the friction laws that a robot file declares, beside those of the base parameters, with exact gradients.

A motion that identifies a law must excite its coefficients too: slow passages separate Coulomb from Stribeck friction,
different loads separate it from load-dependent friction. The gear torque comes from the a priori parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ros2_dynid.dynamics.friction import active_terms, column_slopes, without_friction
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot

LawBack = Callable[[Array], tuple[Array, Array]]
WITHIN = 0.3
"""Softness of the sign at a joint with a Stribeck term, as a share of the term's speed vs."""
TINY = 1e-9
"""Speed [rad/s or m/s] below which the square-root term's slope counts as zero."""


def exciting_terms(robot: Robot, groups: Sequence[str] | None = None) -> tuple[FrictionTerm, ...]:
    """Return the robot's friction terms that a motion can excite; none if the groups to identify have no friction.

    Terms of the temperature need a drive that warms up, and those of the load need to know the load: without a priori
    masses they are left out.
    """
    if groups is not None and "friction" not in groups:
        return ()
    has_parameters = bool(np.any(rigid_parameters(robot)))
    return tuple(t for t in robot.friction if not t.kind.thermal and (has_parameters or not t.kind.loaded))


def rigid_parameters(robot: Robot) -> Array:
    """Return the a priori standard parameters without friction and offsets: the gear torque is Y times them."""
    return without_friction(robot, standard_vector(robot))


def softened(softness: Array, terms: Sequence[FrictionTerm]) -> Array:
    """Return the softness of the joints' signs, shape (n,) [rad/s or m/s], small enough to separate Stribeck terms."""
    widths = softness.copy()
    for term in terms:
        if term.speed > 0.0:
            widths[term.joint - 1] = min(widths[term.joint - 1], WITHIN * term.speed)
    return widths


def law_columns(
    robot: Robot, terms: Sequence[FrictionTerm], Y: Array, dq: Array, softness: Array | None = None
) -> tuple[Array, LawBack]:
    """Return the terms' columns, shape (N, n_active, f), and a function from weights C of that shape to gradients.

    It gives d<C, columns>/dY, shape (N, n_active, n_standard), since the gear torque is Y chi, and the derivative by dq
    at a fixed load, (N, n_active). Y: regressor; softness: of the tree's joints, shape (n,): sign(v) is tanh(v /
    softness) then, as in regressor_with_gradient.
    """
    chi = rigid_parameters(robot)
    load_torque = Y @ chi
    terms_by_joint = active_terms(robot, terms)
    columns = np.zeros((*dq.shape, len(terms)))
    slopes = []
    for i, (k, term) in enumerate(terms_by_joint):
        v = dq[:, k]
        soft = None if softness is None else float(softness[term.joint - 1])
        sign = np.sign(v) if soft is None else np.tanh(v / soft)
        turn = np.zeros_like(v) if soft is None else (1.0 - sign**2) / soft
        columns[:, k, i], by_speed, by_load = column_slopes(term, v, sign, turn, load_torque[:, k])
        slopes.append((k, by_speed, by_load))

    def back(C: Array) -> tuple[Array, Array]:
        by_carried, gdq = np.zeros(dq.shape), np.zeros(dq.shape)
        for i, (k, by_speed, by_load) in enumerate(slopes):
            gdq[:, k] += C[:, k, i] * by_speed
            by_carried[:, k] += C[:, k, i] * by_load
        return by_carried[:, :, None] * chi, gdq

    return columns, back
