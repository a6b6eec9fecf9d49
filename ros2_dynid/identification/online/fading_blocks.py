# SPDX-License-Identifier: Apache-2.0

"""R factors of a stream in blocks of time that count less the older they are; their number is bounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.identification.regression.information import Block, join_blocks

MAX_BLOCKS = 60
"""Blocks kept: then pairs are joined, or the oldest forgotten."""
LONGEST_BLOCK_SHARE = 0.1
"""Longest block, as a share of the memory: within a block nothing is forgotten."""
SHORT_BLOCK_SHARE = 0.6
"""A block shorter than this share of the usual length is joined with the next one."""


class FadingBlocks:
    """Blocks of rows of which those that ended `memory` [s] ago count 1/e; `length` [s] of a block, at first."""

    def __init__(self, memory: float, length: float) -> None:
        """Start without blocks."""
        self.memory, self.length = memory, length
        self.blocks: list[Block] = []

    def add(self, block: Block) -> None:
        """Add the newest block; join short ones, and pairs when there are too many."""
        if self.blocks and block.start < self.blocks[-1].start:  # the clock was set back: what is old stays old
            back = self.blocks[-1].end - block.start
            self.blocks = [replace(one, start=one.start - back, end=one.end - back) for one in self.blocks]
        if self.blocks and self.blocks[-1].end - self.blocks[-1].start < SHORT_BLOCK_SHARE * self.length:
            self.blocks[-1] = self.join(self.blocks[-1], block)
        else:
            self.blocks.append(block)
        if len(self.blocks) <= MAX_BLOCKS:
            return
        if 2.0 * self.length <= LONGEST_BLOCK_SHARE * self.memory:
            self.length *= 2.0
            pairs = [self.blocks[k : k + 2] for k in range(0, len(self.blocks), 2)]
            self.blocks = [pair[0] if len(pair) == 1 else self.join(*pair) for pair in pairs]
        else:
            del self.blocks[0]

    def since(self, time: float) -> tuple[Block, ...]:
        """Return the blocks that began at `time` [s] or later as they count at the end of the newest."""
        chosen = [block for block in self.blocks if block.start >= time]
        return tuple(self.fade(block, chosen[-1].end) for block in chosen)

    def join(self, older: Block, newer: Block) -> Block:
        """Return two neighbouring blocks as one, as old as the newer of them."""
        return join_blocks([self.fade(older, newer.end), newer])

    def fade(self, block: Block, now: float) -> Block:
        """Return a block as it counts at time `now` [s]: R'R times exp(-age / memory)."""
        share = np.exp(-max(now - block.end, 0.0) / self.memory)
        R = tuple(np.sqrt(share) * triangle for triangle in block.R)
        return Block(R, np.rint(share * block.rows).astype(np.int64), block.start, block.end)
