"""Recordings: bags and tables become `Samples`, in the robot's joint order and SI units, and go out again.

`read` and `save` are the two doors. `bag` holds storage formats and message codecs, `table` CSV and npz, `checks` what
`dynid check` looks at; `streamed` reads recordings larger than memory, `playback` gives their messages back in time,
`session` writes a recording as it comes and `live` reads single messages of a running robot.

Public: load_samples, read_samples, iter_samples, save_samples, check_samples, Samples, Reading, Units.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ros2_dynid.recording.checks import check_samples
    from ros2_dynid.recording.read import iter_samples, load_samples, read_samples
    from ros2_dynid.recording.reading import Reading
    from ros2_dynid.recording.samples import Samples
    from ros2_dynid.recording.save import save_samples
    from ros2_dynid.recording.units import Units

__all__ = [
    "Reading",
    "Samples",
    "Units",
    "check_samples",
    "iter_samples",
    "load_samples",
    "read_samples",
    "save_samples",
]
_HOME = {
    "Reading": "reading",
    "Samples": "samples",
    "Units": "units",
    "check_samples": "checks",
    "iter_samples": "read",
    "load_samples": "read",
    "read_samples": "read",
    "save_samples": "save",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: the command line's help must not wait for NumPy."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
