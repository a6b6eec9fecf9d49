# SPDX-License-Identifier: Apache-2.0

"""Progress of long work. A caller stops the work by raising an error from its callback."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Called with the stage in words and the fraction done, 0 to 1."""


def ignore_progress(stage: str, fraction: float) -> None:
    """Report to nobody."""
