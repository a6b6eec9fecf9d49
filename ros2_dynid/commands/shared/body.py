# SPDX-License-Identifier: Apache-2.0

"""Mass, centre of mass and inertia of a body, printed with their standard deviations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ros2_dynid.usecases.payload import PayloadOutcome
    from ros2_dynid.usecases.tool import ToolOutcome


def print_body(outcome: PayloadOutcome | ToolOutcome, console: Console) -> None:
    """Print the body of a payload or a tool, +- one standard deviation."""
    std = outcome.std
    console.print(f"  mass     {outcome.mass:.4f} +- {std.mass:.4f} kg")
    for axis, value, error in zip("xyz", outcome.com, std.com, strict=True):
        console.print(f"  com {axis}    {value:.5f} +- {error:.5f} m")
    for i, k in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        name = f"I{'xyz'[i]}{'xyz'[k]}"
        console.print(f"  {name}      {outcome.inertia[i][k]:.6f} +- {std.inertia[i][k]:.6f} kg.m^2")
