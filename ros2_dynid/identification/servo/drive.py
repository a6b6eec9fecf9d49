# SPDX-License-Identifier: Apache-2.0

"""The drive of a joint under a position servo, its parameters as ratios to the servo's stiffness kp.

    tau = clip(kp (u(t - delay) - q), +-limit),  y = q + bias
    tau = (M(q) ddq + h(q, dq))_j + Ia ddq + D dq + (Fc + further terms) sign(dq)

A servo without a torque scale tells ratios only. Divided by kp the equation is

    clip(u - q, +-reach) = compliance (M ddq + h)_j + inertia ddq + damping dq + (coulomb + ...) sign(dq)

in radians (metres): compliance 1/kp, inertia Ia/kp, damping D/kp, coulomb Fc/kp, reach limit/kp. The links' masses in
M and h fix the scale, as far as the data tell the compliance. D holds the servo's own kd and viscous friction: only
their sum is visible. The delay is that of command and measurement together, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.model.friction_kinds import FrictionKind
from ros2_dynid.model.robot import Array

COMPLIANCE, INERTIA, DAMPING, COULOMB, BIAS, DELAY, REACH = range(7)
"""Rows of the ratios; one for each further friction term follows."""
OWN = 7
SYMBOLS = ("1/kp", "Ia/kp", "D/kp", "Fc/kp", "bias", "delay", "limit/kp")


@dataclass(frozen=True)
class Term:
    """A further friction term that any joint may have: its kind, and the speed or exponent of kinds with a shape."""

    kind: FrictionKind
    shape: float = 0.0


@dataclass(frozen=True, eq=False)
class Drives:
    """Ratios of n drives, shape (OWN + number of terms, ..., n); reach is infinite where no limit shows."""

    ratios: Array
    terms: tuple[Term, ...] = ()

    def with_terms(self, terms: Sequence[Term]) -> Drives:
        """Return the drives with further terms, whose coefficients are zero."""
        more = np.zeros((len(terms), *self.ratios.shape[1:]))
        return replace(self, ratios=np.concatenate((self.ratios, more)), terms=(*self.terms, *terms))


def nonnegative(terms: Sequence[Term]) -> NDArray[np.bool_]:
    """Return which ratios cannot be negative, shape (OWN + number of terms,)."""
    own = [True] * OWN
    own[BIAS] = False
    return np.array([*own, *(term.kind.positive for term in terms)])
