# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node panel."""

from __future__ import annotations

from ros2_dynid.nodes.common.parameters import Described, Settable

PARAMETERS = (
    Described(
        "host", "127.0.0.1", "address to listen at; 0.0.0.0: reachable by everybody", settable=Settable.UNCONFIGURED
    ),
    Described("port", 8765, "to listen at; 0: one that is free", 0, 65535, settable=Settable.UNCONFIGURED),
    Described(
        "token_file",
        "",
        "file of the token that is needed to command; made if there is none; empty: a new token, on the terminal",
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "allowed_hosts",
        [""],
        "further names of this computer that browsers may use, such as robot.lan or robot.lan:443",
        settable=Settable.UNCONFIGURED,
    ),
    Described("certificate", "", "PEM file: serve by TLS; empty: in the clear", settable=Settable.UNCONFIGURED),
    Described("key", "", "PEM file of the certificate's key; empty: in it", settable=Settable.UNCONFIGURED),
    Described("obstacles", "", "YAML file of obstacles to draw until the excitation node tells its own; empty: none"),
    Described("rate", 20.0, "of what the browsers get [Hz]", 1.0, 60.0, settable=Settable.INACTIVE),
    Described("stop_on_disconnect", False, "stop the motion when the browser that commands is gone"),
)
