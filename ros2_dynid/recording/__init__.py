# SPDX-License-Identifier: Apache-2.0

"""Recordings: bags and tables become `Samples`, in the robot's joint order and SI units, and are written again.

`read` reads and `save` writes. `bag` holds storage formats and message codecs, `table` CSV and npz, `checks` what
`dynid check` looks at. `in_order` and `streamed` sort and cut recordings larger than memory, `playback` replays
messages at their times, `session` records a live stream, `live` and `live_points` decode single live messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ros2_dynid.exports import lazy_exports

if TYPE_CHECKING:
    from ros2_dynid.recording.checks import check_samples
    from ros2_dynid.recording.read import iter_samples, load_samples, read_samples
    from ros2_dynid.recording.samples import Reading, Samples, Units
    from ros2_dynid.recording.save import save_samples

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
__getattr__ = lazy_exports(
    __name__,
    {
        "Reading": "samples",
        "Samples": "samples",
        "Units": "samples",
        "check_samples": "checks",
        "iter_samples": "read",
        "load_samples": "read",
        "read_samples": "read",
        "save_samples": "save",
    },
)
