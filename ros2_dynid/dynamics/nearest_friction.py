# SPDX-License-Identifier: Apache-2.0

"""Viscous and Coulomb friction nearest to a joint's whole law, for formats that know no other."""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.friction_terms import active_terms, term_column
from ros2_dynid.model.parameters import JOINT, Fc, Fv
from ros2_dynid.model.robot import Array, Robot

SLOWEST = 0.05
"""Slowest speed that is fitted, as a share of the top speed: the sign is not known below."""


def nearest_plain(robot: Robot, chi: Array, speed: Array, load: Array) -> Array:
    """Return chi with the Fv and Fc that come closest to the laws of joints with further terms, both not negative.

    speed, shape (n_active,): the law is fitted, by least squares, at even steps up to this speed in both directions;
    load, shape (n_active,): torque that the gear carries [N.m or N].
    """
    found = chi.copy()
    terms = active_terms(robot, robot.friction)
    for k in sorted({k for k, _ in terms}):
        j = robot.active[k] - 1
        half = np.linspace(SLOWEST, 1.0, 40) * speed[k]
        v = np.concatenate((-half[::-1], half))
        sign, carried = np.sign(v), np.full_like(v, load[k])
        law = chi[JOINT * j + Fv] * v + chi[JOINT * j + Fc] * sign
        for column, term in terms:
            if column == k:
                law = law + term.coefficient * term_column(term, v, sign, carried)
        best: tuple[float, Array] | None = None
        for kept in ((0, 1), (0,), (1,), ()):
            A = np.column_stack((v, sign))[:, kept]
            value = np.zeros(2)
            value[list(kept)] = np.linalg.lstsq(A, law, rcond=None)[0] if kept else 0.0
            error = float(np.linalg.norm(law - value[0] * v - value[1] * sign))
            if np.all(value >= 0.0) and (best is None or error < best[0]):
                best = error, value
        assert best is not None
        found[JOINT * j + Fv], found[JOINT * j + Fc] = best[1]
    return found
