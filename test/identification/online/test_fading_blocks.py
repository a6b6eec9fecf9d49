# SPDX-License-Identifier: Apache-2.0

"""Blocks that fade: what counts how much, and what is joined."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.identification.online.fading_blocks import FadingBlocks
from ros2_dynid.identification.regression.information import Block


def block_of(start, end, rows=10, seed=0):
    rng = np.random.default_rng(seed)
    return Block(tuple(rng.normal(size=(k, k)) for k in (5, 4, 3)), np.array([rows, 2 * rows, 3 * rows]), start, end)


def normal(block, joint=1):
    return block.R[joint].T @ block.R[joint]


def test_older_blocks_count_less():
    blocks = FadingBlocks(20.0, 1.0)
    block = block_of(3.0, 4.0, 100)
    faded, same = blocks.fade(block, 4.0 + 10.0), blocks.fade(block, 3.5)
    np.testing.assert_allclose(normal(faded), np.exp(-0.5) * normal(block))
    np.testing.assert_allclose(normal(same), normal(block))
    assert list(faded.rows) == [61, 121, 182] and list(same.rows) == [100, 200, 300]


def test_what_is_joined_counts_as_before():
    """Whatever pairs are joined: at the newest end the sum of all R'R is that of the blocks as they came."""
    blocks = FadingBlocks(40.0, 1.0)
    came = [block_of(float(k), k + (0.4 if k % 7 == 3 else 1.0), seed=k) for k in range(100)]
    for block in came:
        blocks.add(block)
    shares = np.exp([-(100.0 - block.end) / 40.0 for block in came])
    wanted = sum(share * normal(block) for share, block in zip(shares, came, strict=True))
    found = blocks.since(-np.inf)
    assert len(found) < 60
    np.testing.assert_allclose(sum(normal(block) for block in found), wanted, rtol=1e-9)
    assert sum(int(block.rows[0]) for block in found) == pytest.approx(10 * shares.sum(), abs=0.5 * len(came))


def test_short_blocks_are_joined_and_many_are_made_longer():
    blocks = FadingBlocks(40.0, 1.0)
    for k in range(60):
        blocks.add(block_of(float(k), k + 1.0))
    assert len(blocks.blocks) == 60
    blocks.add(block_of(60.0, 60.5))
    assert len(blocks.blocks) == 31 and blocks.blocks[0].end == 2.0 and blocks.blocks[-1].start == 60.0
    blocks.add(block_of(60.5, 61.5))  # the last one is still short of what blocks are long now
    assert len(blocks.blocks) == 31 and blocks.blocks[-1].end == 61.5
    blocks.add(block_of(61.5, 63.5))
    assert len(blocks.blocks) == 32 and blocks.blocks[-1].start == 61.5
    for k in range(40):  # blocks of 2 s may become 4 s long, a tenth of the memory, and no longer
        blocks.add(block_of(63.5 + 4 * k, 67.5 + 4 * k))
    ends = [block.end for block in blocks.blocks]
    assert ends == sorted(ends) and len(ends) <= 60
    full = FadingBlocks(15.0, 1.0)  # 2 s would be more than a tenth of it
    for k in range(62):
        full.add(block_of(float(k), k + 1.0))
    assert len(full.blocks) == 60 and full.blocks[0].start == 2.0


def test_blocks_from_before_a_clock_was_set_back_are_the_older_ones():
    blocks = FadingBlocks(20.0, 1.0)
    for start, end in ((100.0, 101.0), (101.0, 102.0), (102.0, 102.3), (0.2, 1.0), (1.0, 2.0), (2.0, 3.0)):
        blocks.add(block_of(start, end, 100))
    times = [(block.start, block.end) for block in blocks.blocks]
    np.testing.assert_allclose(times, [(-2.1, -1.1), (-1.1, -0.1), (-0.1, 1.0), (1.0, 2.0), (2.0, 3.0)], atol=1e-9)
    shares = np.exp(-(3.0 - np.array([-1.1, -0.1])) / 20.0)
    for block, share in zip(blocks.since(-np.inf), shares, strict=False):
        assert list(block.rows) == [round(share * k) for k in (100, 200, 300)]


def test_what_is_asked_for_since_a_time_fades_from_its_own_end():
    blocks = FadingBlocks(20.0, 1.0)
    assert blocks.since(-np.inf) == ()
    for k in range(5):
        blocks.add(block_of(2.0 * k, 2.0 * k + 2.0, 100, seed=k))
    assert blocks.since(8.5) == ()
    found = blocks.since(4.0)
    assert [block.start for block in found] == [4.0, 6.0, 8.0]
    for block, whole in zip(found, blocks.blocks[2:], strict=True):
        np.testing.assert_allclose(normal(block), np.exp(-(10.0 - whole.end) / 20.0) * normal(whole))
