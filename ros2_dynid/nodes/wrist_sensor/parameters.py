# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node wrist_sensor."""

from __future__ import annotations

from ros2_dynid.nodes.common.parameters import Described, Settable

PARAMETERS = (
    Described(
        "tool", "", "file that dynid tool --json printed: the tool and the sensor", settable=Settable.UNCONFIGURED
    ),
    Described("frame", "", "link whose frame external_wrench is given in; empty: the base link"),
    Described(
        "window",
        0.06,
        "joint states that velocity and acceleration are fitted to [s]; the wrench comes half of it late; 0: at once, "
        "with measured velocities and no acceleration",
        0.0,
        0.5,
        settable=Settable.INACTIVE,
    ),
    Described("stale_seconds", 0.1, "joint states older than this are not used [s]", 0.002, 10.0),
)
