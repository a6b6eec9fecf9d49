"""How a recording is to be read: topic or columns, units, stamps and the stretch of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ros2_dynid.recording.units import SI, Units


@dataclass(frozen=True)
class Reading:
    """How a recording is read: see load_samples."""

    topic: str | Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    units: Units = SI
    stamps: str = "auto"
    start: float | None = None
    end: float | None = None
