"""Described parameters: default, meaning with unit, range, choices, and when a change is accepted.

What all nodes share is here; a node's own table is `PARAMETERS` in its package. config/*.yaml and docs/nodes.md show
the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor

Value = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]
"""What a parameter may hold."""


class Settable(Enum):
    """When a parameter may be changed; read_only ones only by the command line or a file, at the start."""

    ALWAYS = "at any time"
    INACTIVE = "while the node is not active"
    UNCONFIGURED = "while the node is unconfigured"


@dataclass(frozen=True)
class Described:
    """A parameter: its default, what it means with its unit, and which values it takes, and when.

    lower, upper: range, of each element if it is a list; choices: the only values of a text; settable: a change in
    another state is refused, since it would have no effect there.
    """

    name: str
    default: Value
    text: str
    lower: float | None = None
    upper: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = False
    settable: Settable = Settable.ALWAYS

    def descriptor(self) -> ParameterDescriptor:
        """Return the descriptor that `ros2 param describe` shows."""
        constraints = [f"one of {', '.join(self.choices)}"] if self.choices else []
        if self.settable is not Settable.ALWAYS:
            constraints.append(f"set it {self.settable.value}")
        descriptor = ParameterDescriptor(
            description=self.text, additional_constraints="; ".join(constraints), read_only=self.read_only
        )
        if self.lower is not None and self.upper is not None:
            if isinstance(self.default, int):
                descriptor.integer_range = [IntegerRange(from_value=int(self.lower), to_value=int(self.upper), step=0)]
            elif isinstance(self.default, float):
                descriptor.floating_point_range = [FloatingPointRange(from_value=self.lower, to_value=self.upper)]
        return descriptor

    def problem(self, value: Value, *, configured: bool = False, active: bool = False) -> str:
        """Return why the value is refused in this state of the node, or nothing ("")."""
        if (configured or active) and self.settable is Settable.UNCONFIGURED:
            return f"{self.name} takes effect when the node is configured: clean up first"
        if active and self.settable is Settable.INACTIVE:
            return f"{self.name} takes effect when the node is activated: deactivate first"
        if self.choices and value not in self.choices:
            return f"{self.name} is {value!r}: choose from {', '.join(self.choices)}"
        for number in value if isinstance(value, list) else [value]:
            if not isinstance(number, (int, float)):
                continue
            if not math.isfinite(number):
                return f"{self.name} is not finite: give numbers"
            if (self.lower is not None and number < self.lower) or (self.upper is not None and number > self.upper):
                return f"{self.name} is out of range ({self.lower:g} to {self.upper:g}): {number:g}"
        return ""


COMMON = (
    Described("autostart", True, "configure and activate at start, without a lifecycle manager", read_only=True),
    Described(
        "robot",
        "",
        "URDF or robot file (path, or name of a shipped robot); empty: wait for robot_description",
        settable=Settable.UNCONFIGURED,
    ),
    Described("base_link", "", "link of the URDF that stands still; empty: its root", settable=Settable.UNCONFIGURED),
    Described(
        "tip_link",
        "",
        "keep only the joints between base_link and this link; empty: all",
        settable=Settable.UNCONFIGURED,
    ),
)

EXCITATION = (
    Described("folder", "~/.ros/ros2_dynid/trajectories", "folder for plans; files in requests must lie in it"),
    Described("method", "fourier", "how to plan: points or fourier"),
    Described("duration", 10.0, "of a Fourier plan [s]", 1.0, 600.0),
    Described("planning_seconds", 8.0, "time to plan [s]", 1.0, 3600.0),
    Described("collisions", True, "keep links apart, by the collision shapes of the URDF"),
    Described("collision_margin", 0.02, "distance kept between links and from the walls [m]", 0.0, 1.0),
    Described("workspace", [0.0], "box to stay in, x, X, y, Y, z, Z in the base frame [m]; one number: none"),
    Described("point_rate", 100.0, "points of a trajectory in a second [Hz]", 5.0, 1000.0),
    Described("approach_speed", 0.3, "on the way to the start, as a share of the limits", 0.01, 1.0),
    Described("rehearsal_speed", 0.2, "speed of a rehearsal, as a share", 0.01, 1.0),
    Described("tracking_tolerance", 0.2, "largest tracking error [rad or m]", 1e-4, 10.0),
    Described(
        "limit_overshoot", 0.05, "stop beyond the position limits by this [rad or m], velocity by this share", 0.0, 1.0
    ),
    Described("stale_seconds", 0.1, "longest silence of joint states [s]", 0.002, 10.0),
    Described("control_period", 0.002, "how often joint states, silence and connection are looked at [s]", 0.0005, 0.1),
    Described("stop_deceleration", 5.0, "to stop joints without an acceleration limit with [rad/s2 or m/s2]", 0.1, 1e3),
    Described("settle_seconds", 0.5, "rest at the start before the trajectory [s]", 0.0, 60.0),
    Described(
        "start_delay", 0.0, "stamp trajectories this far ahead [s]; 0: no stamp, they start on arrival", 0.0, 10.0
    ),
    Described("priority", 0, "real-time priority of the node's threads, where the system allows it; 0: none", 0, 98),
    Described("action", "", "FollowJointTrajectory action to use instead of the topic; empty: the topic"),
)
