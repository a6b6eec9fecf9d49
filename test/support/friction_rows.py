# SPDX-License-Identifier: Apache-2.0

"""Rows of two joints with the columns of friction terms, of a motion drawn at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm

CUBIC, ROOT, ASYMMETRIC, STRIBECK, LOAD = (
    FrictionKind[name] for name in ("CUBIC", "ROOT", "ASYMMETRIC", "STRIBECK", "LOAD")
)
SLOW, FAST = (FrictionTerm(2, STRIBECK, speed=v) for v in (0.15, 0.3))
TERMS = (
    FrictionTerm(1, ASYMMETRIC),
    FrictionTerm(1, CUBIC),
    FrictionTerm(1, ROOT),
    FrictionTerm(2, LOAD),
    SLOW,
    replace(SLOW, of_shape=True),
    FAST,
    replace(FAST, of_shape=True),
)
LAYOUT = ColumnLayout(5, 1, 0, len(TERMS) + 2)
"""Base columns: v, sign and a shared one of joint 1; the shared one, v and sign of joint 2. Then the candidates, what
either joint lacks near standstill, and the delay."""
FEELS = (np.array([0, 1, 2, 5, 6, 7, 13, 15]), np.array([2, 3, 4, 8, 9, 10, 11, 12, 14, 15]))
BLOCKS, ROWS = 20, 15
COUNTS = np.array([ROWS, 2 * ROWS])
"""Rows that the factors of a block stand for."""


def rows_of(seed):
    """Return W (size, n, samples) of a motion drawn at random."""
    rng = np.random.default_rng(seed)
    count = BLOCKS * ROWS
    v, s = rng.uniform(-1.5, 1.5, (2, count)), None
    s = np.sign(v)
    W = np.zeros((LAYOUT.size, 2, count))
    W[0, 0], W[1, 0], W[2] = v[0], s[0], rng.normal(size=(2, count))
    W[3, 1], W[4, 1] = v[1], s[1]
    W[5, 0], W[6, 0], W[7, 0] = np.abs(v[0]), v[0] ** 3, s[0] * np.sqrt(np.abs(v[0]))
    W[8, 1] = s[1] * np.abs(rng.normal(size=count))
    for k, vs in ((9, 0.15), (11, 0.3)):
        W[k, 1] = s[1] * np.exp(-((v[1] / vs) ** 2))
        W[k + 1, 1] = W[k, 1] * 2.0 * (v[1] / vs) ** 2
    for j in range(2):
        W[13 + j, j] = s[j] * np.exp(-((v[j] / 0.02) ** 2))
    W[15] = rng.normal(size=(2, count))
    W[2] += 0.5 * (W[6] + W[8] + W[9])  # what the joints share gives way to the terms of both
    return W


TRUTH = np.array([1.0, 2.0, 0.5, -1.5, 0.7, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.5, -0.2, 0.01])
"""Values of the columns, without terms."""
