# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node payload_bridge."""

from __future__ import annotations

from ros2_dynid.nodes.common.parameters import Described, Settable

PARAMETERS = (
    Described(
        "driver",
        "",
        "driver of config/drivers that takes a payload, such as ur or franka, or an entry of bridges_file",
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "bridges_file", "", "file with bridges: of other drivers; empty: config/drivers", settable=Settable.UNCONFIGURED
    ),
    Described("driver_service", "", "name of the driver's service; empty: the entry's", settable=Settable.UNCONFIGURED),
    Described("driver_link", "", "the driver's frame for the payload; empty: the entry's"),
    Described("largest_mass_std", 0.05, "largest standard deviation of the mass, as a share of it", 1e-4, 1.0),
    Described("largest_com_std", 0.01, "largest standard deviation of the centre [m]", 1e-5, 1.0),
    Described("timeout", 5.0, "for the driver's answer [s]", 0.1, 60.0),
)
