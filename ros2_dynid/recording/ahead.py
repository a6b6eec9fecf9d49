# SPDX-License-Identifier: Apache-2.0

"""A recording read ahead: the next piece is decoded in a thread while the caller works on the one before."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

from ros2_dynid.recording.samples import Samples


def ahead(pieces: Generator[Samples]) -> Iterator[Samples]:
    """Yield the pieces in order, decoding one ahead; one thread reads everything, as SQLite requires."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, pieces, None)
        try:
            while (piece := following.result()) is not None:
                following = pool.submit(next, pieces, None)
                yield piece
        finally:
            pool.submit(pieces.close)
