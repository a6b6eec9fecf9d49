# SPDX-License-Identifier: Apache-2.0

"""Described parameters: default, meaning with unit, range, choices, and when a change is accepted.

What all nodes share is here; a node's own table is `PARAMETERS` in its package. config/*.yaml and docs/parameters.md
are written from these tables (test/support/parameter_tables.py).
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
    Described(
        "robot_driver",
        "",
        "preset of config/drivers (ur, franka, ...) for what the description does not say of efforts; empty: none",
        settable=Settable.UNCONFIGURED,
    ),
)
