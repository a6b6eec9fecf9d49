# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node guard."""

from __future__ import annotations

from ros2_dynid.control.lease import DEFAULT_TIMES
from ros2_dynid.nodes.common.parameters import Described, Settable

PARAMETERS = (
    Described(
        "silence_seconds",
        DEFAULT_TIMES.silence,
        "a node that commands and says nothing for longer is gone [s]",
        0.1,
        5.0,
        read_only=True,
    ),
    Described(
        "action",
        "",
        "FollowJointTrajectory action to brake by, instead of the topic; empty: the topic",
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "tracking_tolerance",
        0.1,
        "how far the robot may be off its reference when it is braked [rad or m]",
        1e-4,
        10.0,
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "stop_deceleration",
        5.0,
        "to stop joints without an acceleration limit with [rad/s2 or m/s2]",
        0.1,
        1e3,
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "stop_lead",
        0.01,
        "expected time from sending a stop to the controller's first step [s]",
        0.0,
        0.2,
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "stale_seconds",
        0.1,
        "joint states older than this are not used [s]",
        0.002,
        10.0,
        settable=Settable.UNCONFIGURED,
    ),
    Described("priority", 0, "real-time priority of the node's threads, where the system allows it; 0: none", 0, 98),
)
