# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node recorder."""

from __future__ import annotations

from ros2_dynid.nodes.common.parameters import Described, Settable

PARAMETERS = (
    Described(
        "folder",
        "~/.ros/ros2_dynid/recordings",
        "folder for the bags; nothing is written outside of it",
        read_only=True,
    ),
    Described("follow_excitation", True, "start and stop with the excitation's announcement on exciting"),
    Described("buffer_seconds", 60.0, "length of the ring buffer [s]", 0.0, 3600.0, settable=Settable.UNCONFIGURED),
    Described(
        "lead_seconds", 0.0, "what the buffer held this long before a start goes into the bag too [s]", 0.0, 60.0
    ),
    Described(
        "expected_rate",
        1000.0,
        "of joint states, sizes the ring buffer [Hz]",
        1.0,
        20000.0,
        settable=Settable.UNCONFIGURED,
    ),
)
