# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node excitation, and the settings that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.excitation.collision import DEFAULT_MARGIN_M
from ros2_dynid.nodes.common.parameters import Described, Settable
from ros2_dynid.nodes.common.stop_topic import PARAMETERS as STOP_PARAMETERS

PARAMETERS = (
    Described(
        "folder",
        "~/.ros/ros2_dynid/trajectories",
        "folder for plans; files in requests must lie in it",
        read_only=True,
    ),
    Described("method", "fourier", "how to plan: points or fourier", choices=("points", "fourier")),
    Described("duration", 10.0, "of a Fourier plan [s]", 1.0, 600.0),
    Described("planning_seconds", 0.0, "time to plan [s]; 0: what the method needs, 45 s at most", 0.0, 3600.0),
    Described("collisions", True, "keep links apart, by the collision shapes of the URDF"),
    Described("collision_margin", DEFAULT_MARGIN_M, "distance kept between links and from the walls [m]", 0.0, 1.0),
    Described("workspace", [0.0], "box to stay in, x, X, y, Y, z, Z in the base frame [m]; one number: none"),
    Described("obstacles", "", "YAML file of obstacles in the base frame (dynid excite --obstacles); empty: none"),
    Described(
        "planning_scene",
        "monitored_planning_scene",
        "topic of MoveIt's planning scene, heard where moveit_msgs is installed; empty: none",
        settable=Settable.UNCONFIGURED,
    ),
    Described("point_rate", 100.0, "points of a trajectory in a second, at most [Hz]", 5.0, 1000.0),
    Described("approach_speed", 0.3, "on the way to the start, as a share of the limits", 0.01, 1.0),
    Described("require_rehearsal", False, "start no plan whose rehearsal was not passed"),
    Described("rehearsal_speed", 0.2, "speed of a rehearsal, as a share", 0.01, 1.0),
    Described("tracking_tolerance", 0.2, "largest tracking error [rad or m]", 1e-4, 10.0),
    Described(
        "limit_overshoot", 0.05, "stop beyond the position limits by this [rad or m], velocity by this share", 0.0, 1.0
    ),
    Described("stale_seconds", 0.1, "longest silence of joint states [s]", 0.002, 10.0),
    Described(
        "control_period",
        0.002,
        "how often joint states, silence and connection are looked at [s]",
        0.0005,
        0.1,
        settable=Settable.INACTIVE,
    ),
    Described("stop_deceleration", 5.0, "to stop joints without an acceleration limit with [rad/s2 or m/s2]", 0.1, 1e3),
    Described("stop_lead", 0.01, "expected time from sending a stop to the controller's first step [s]", 0.0, 0.2),
    Described("settle_seconds", 0.5, "rest at the start before the trajectory [s]", 0.0, 60.0),
    Described(
        "start_delay", 0.0, "stamp trajectories this far ahead [s]; 0: no stamp, they start on arrival", 0.0, 10.0
    ),
    Described("priority", 0, "real-time priority of the node's threads, where the system allows it; 0: none", 0, 98),
    Described(
        "action",
        "",
        "FollowJointTrajectory action to use instead of the topic; empty: the topic",
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "controller_manager",
        "controller_manager",
        "node asked whether the controller is active, where controller_manager_msgs is installed; empty: nobody",
        settable=Settable.UNCONFIGURED,
    ),
    *STOP_PARAMETERS,
)

SETTINGS = {
    "tracking_tolerance": "tracking",
    "stale_seconds": "stale",
    "limit_overshoot": "overshoot",
    "approach_speed": "approach_speed",
    "settle_seconds": "settle",
    "stop_deceleration": "deceleration",
    "stop_lead": "lead",
    "start_delay": "delay",
}
"""Parameters that are settings of the machine."""


def motion_settings(value: Callable[[str], Any]) -> MotionSettings:
    """Return the machine's settings; value(name) is a parameter's value."""
    return MotionSettings(**{field: float(value(name)) for name, field in SETTINGS.items()})
