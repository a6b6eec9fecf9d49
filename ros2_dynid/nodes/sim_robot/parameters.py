# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node sim_robot."""

from __future__ import annotations

from ros2_dynid.model.efforts import CHOICES
from ros2_dynid.nodes.common.parameters import Described, Settable

PARAMETERS = (
    Described("rate", 1000.0, "control rate [Hz]", 50.0, 4000.0, settable=Settable.UNCONFIGURED),
    Described("seed", 1, "chooses the true parameters and the noise", 0, 2**31 - 1, settable=Settable.UNCONFIGURED),
    Described(
        "spread",
        0.15,
        "how far the true parameters are from the file's, as a share",
        0.0,
        0.5,
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "start", [0.0], "positions at the start [rad or m]; one number: for all joints", settable=Settable.UNCONFIGURED
    ),
    Described("stiffness", 8.0, "frequency of the position control [Hz]", 0.5, 20.0, settable=Settable.UNCONFIGURED),
    Described("resolution", 2.4e-5, "of the encoders [rad or m]", 1e-9, 0.01, settable=Settable.UNCONFIGURED),
    Described(
        "torque_noise",
        0.005,
        "standard deviation, as a share of the effort limit",
        0.0,
        0.2,
        settable=Settable.UNCONFIGURED,
    ),
    Described("latency", 1, "control periods between command and torque", 0, 50, settable=Settable.UNCONFIGURED),
    Described(
        "robot_adds",
        ["nothing"],
        f"what the robot adds to commanded efforts, one a joint or one: {CHOICES}; efforts are measured without it",
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "cold", 25.0, "temperature of the drives at the start [deg C]", -60.0, 200.0, settable=Settable.UNCONFIGURED
    ),
    Described(
        "warm", 25.0, "temperature that the drives approach [deg C]", -60.0, 200.0, settable=Settable.UNCONFIGURED
    ),
    Described(
        "warming_seconds",
        600.0,
        "time constant of the drives' temperature [s]",
        0.1,
        1e6,
        settable=Settable.UNCONFIGURED,
    ),
    Described("publish_clock", False, "publish /clock, for nodes with use_sim_time", settable=Settable.UNCONFIGURED),
)
