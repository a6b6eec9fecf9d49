# SPDX-License-Identifier: Apache-2.0

"""Progress of long work, and how it is cancelled."""

from __future__ import annotations

from collections.abc import Callable

from ros2_dynid.errors import DynidError

Progress = Callable[[str, float], None]
"""Called with the stage in words and the fraction done, 0 to 1."""


class Cancelled(DynidError):  # noqa: N818  not an error of the user's
    """The caller asked to stop; nothing was written."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("cancelled; nothing was written")


class Reporter:
    """Passes progress on, and raises Cancelled once the caller asks to stop."""

    def __init__(self, progress: Progress | None = None, cancelled: Callable[[], bool] | None = None) -> None:
        """Report to `progress`; `cancelled` says whether to stop."""
        self._progress, self._cancelled = progress, cancelled

    def __call__(self, stage: str, fraction: float) -> None:
        """Report a stage and the fraction done, limited to 0 to 1."""
        if self._cancelled is not None and self._cancelled():
            raise Cancelled
        if self._progress is not None:
            self._progress(stage, min(max(fraction, 0.0), 1.0))
