# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node panel."""

from __future__ import annotations

from ros2_dynid.nodes.common.parameters import Described, Settable

PARAMETERS = (
    Described(
        "host", "127.0.0.1", "address to listen at; 0.0.0.0: reachable by everybody", settable=Settable.UNCONFIGURED
    ),
    Described("port", 8765, "to listen at; 0: one that is free", 0, 65535, settable=Settable.UNCONFIGURED),
    Described("token", "", "needed to command; empty: a new one, printed at the start", settable=Settable.UNCONFIGURED),
    Described("rate", 20.0, "of what the browsers get [Hz]", 1.0, 60.0, settable=Settable.INACTIVE),
    Described("stop_on_disconnect", False, "stop the motion when the browser that commands is gone"),
)
