# SPDX-License-Identifier: Apache-2.0

"""Shapes of friction terms, such as the speed vs of a Stribeck term, and their change.

A shape is estimated by a column of its own, the change of the term with log vs or with the exponent. That is right for
a small change only, so a fit may ask for one step at a time.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.friction import FrictionTerm

STEP = 0.47
"""Largest change of log vs, or of an exponent, in one round: a step of the grid that shapes are tried on."""


def change_shape(term: FrictionTerm, change: float) -> FrictionTerm:
    """Return the term with its shape, log vs or the exponent, changed by at most STEP and within its range."""
    assert term.kind.shape is not None
    return term.with_shape(term.kind.shape.changed(term.shape, float(np.clip(change, -STEP, STEP))))
