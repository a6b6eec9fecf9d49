# SPDX-License-Identifier: Apache-2.0

"""Positions that are remembered, and blocks joined by the phase of a motion that repeats."""

from __future__ import annotations

import numpy as np

from ros2_dynid.identification.online.motion_history import MotionHistory
from ros2_dynid.identification.regression.information import Block


def test_positions_are_remembered_twenty_times_a_second_and_anew_after_a_jump():
    history = MotionHistory(2.0)
    rows = np.column_stack((np.arange(3000) / 100.0, np.random.default_rng(0).normal(size=(3000, 3))))
    for first in range(0, 3000, 70):
        history.add(rows[first : first + 70])
    kept = np.array(history.positions)
    assert len(kept) == 161 and kept.shape[1] == 4 and kept[-1, 0] > 29.9
    assert np.all(np.diff(kept[:, 0]) >= 0.05 - 1e-9) and np.all(np.diff(kept[:, 0]) < 0.0601)
    history.add(rows[:70])
    assert len(history.positions) <= 15 and history.positions[0][0] == 0.0


def block_of(k):
    rng = np.random.default_rng(k)
    return Block(tuple(rng.normal(size=(n, n)) for n in (5, 4)), np.array([10, 20]), float(k), k + 1.0)


def test_blocks_of_a_motion_that_repeats_are_put_together_by_phase():
    t = np.arange(0.0, 80.0, 0.05)
    phase = 2 * np.pi * t / 8.0
    q = np.column_stack((np.sin(phase), np.cos(phase) + 0.3 * np.sin(3 * phase), np.sin(2 * phase)))
    blocks, history = tuple(map(block_of, range(80))), MotionHistory(30.0)
    assert history.join_by_phase(blocks, 1.0) == ()
    history.add(np.column_stack((t, q)))
    found = history.join_by_phase(blocks, 1.0)
    assert len(found) == 8 and [(block.start, block.end) for block in found] == [(k, k + 1) for k in range(8)]
    for k, block in enumerate(found):
        assert list(block.rows) == [100, 200]
        np.testing.assert_allclose(block.R[0].T @ block.R[0], sum(b.R[0].T @ b.R[0] for b in blocks[k::8]))
    assert history.join_by_phase(blocks, 1.5) == (), "five blocks of a period tell nothing"
    wandering = MotionHistory(30.0)
    wandering.add(np.column_stack((t, np.random.default_rng(0).normal(size=q.shape).cumsum(axis=0))))
    assert wandering.join_by_phase(blocks, 1.0) == ()
