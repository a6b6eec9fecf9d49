"""Shapes of friction terms, the speed vs of a Stribeck term and the exponent of a power term, and their change.

A shape is estimated by a column of its own, the change of the term with log vs or with the exponent. That is right for
a small change only, so a fit may ask for one step at a time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.model.friction_kinds import EXPONENTS, FrictionKind, FrictionTerm

STEP = 0.47
"""Largest change of log vs, or of an exponent, in one round: a step of the grid that shapes are tried on."""
LINEAR = 0.1
"""An exponent nearer to 1 cannot be told from viscous friction, which every joint has."""


def change_shape(term: FrictionTerm, change: float) -> FrictionTerm:
    """Return the term with log vs, or its exponent, changed by at most STEP; an exponent stays on its side of 1."""
    step = float(np.clip(change, -STEP, STEP))
    if term.kind is FrictionKind.POWER:
        least, most = (EXPONENTS[0], 1.0 - LINEAR) if term.exponent < 1.0 else (1.0 + LINEAR, EXPONENTS[1])
        return replace(term, exponent=float(np.clip(term.exponent + step, least, most)))
    return replace(term, speed=term.speed * float(np.exp(step)))
