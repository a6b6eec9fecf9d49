# SPDX-License-Identifier: Apache-2.0

"""Positions of a stream for some time back, from which it is seen whether the motion repeats."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from ros2_dynid.identification.preparation.repetition import measure_motion_period
from ros2_dynid.identification.regression.information import BLOCKS, Block, join_blocks, phase_of
from ros2_dynid.model.robot import Array

HISTORY_RATE = 20
"""Positions that are kept of a second."""
HISTORY_MEMORIES = 4.0
"""How many memories of the estimator the history reaches back."""
FEWEST_PHASES = 6
"""Blocks of the period from which on they tell something."""


class MotionHistory:
    """Times and positions [t q] of the last HISTORY_MEMORIES times `memory` [s]."""

    def __init__(self, memory: float) -> None:
        """Start without positions."""
        self.positions: deque[Array] = deque(maxlen=int(HISTORY_RATE * HISTORY_MEMORIES * memory) + 1)

    def add(self, positions: Array) -> None:
        """Keep HISTORY_RATE rows [t q] of a second; a time that steps back begins anew."""
        last = self.positions[-1][0] if self.positions else -np.inf
        if positions[0, 0] < last:
            self.positions.clear()
            last = -np.inf
        for row in positions:
            if row[0] - last >= 1.0 / HISTORY_RATE:
                last = row[0]
                self.positions.append(row)

    def join_by_phase(self, blocks: tuple[Block, ...], length: float) -> tuple[Block, ...]:
        """Return blocks of `length` [s] joined by their phase if the motion repeats: then its own errors come again."""
        if len(self.positions) < HISTORY_RATE:
            return ()
        history = np.array(self.positions)
        grid = np.arange(history[0, 0], history[-1, 0], 1.0 / HISTORY_RATE)
        even = np.column_stack([np.interp(grid, history[:, 0], q) for q in history.T[1:]])
        period = measure_motion_period(even, HISTORY_RATE)
        if period is None or period < FEWEST_PHASES * length:
            return ()
        count = min(BLOCKS, int(period / length))
        places = phase_of(np.array([0.5 * (block.start + block.end) for block in blocks]), period, count)
        joined = {k: join_blocks([blocks[i] for i in np.flatnonzero(places == k)]) for k in np.unique(places)}
        return tuple(replace(block, start=float(k), end=float(k + 1)) for k, block in joined.items())
