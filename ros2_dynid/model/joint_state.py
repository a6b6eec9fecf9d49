# SPDX-License-Identifier: Apache-2.0

"""A joint state as an immutable value with its joint names."""

from __future__ import annotations

from dataclasses import dataclass

from ros2_dynid.model.robot import Array

DISORDER = 0.1
"""Stamps that step back by no more than this [s] are jitter or reordered messages, not a clock reset."""


@dataclass(frozen=True, eq=False)
class State:
    """A joint state of the joints named: q, dq, tau, shape (n,), read-only, NaN where nothing is known; stamp [ns]."""

    joint_names: tuple[str, ...]
    q: Array
    dq: Array
    tau: Array
    stamp: int = 0

    def __post_init__(self) -> None:
        """Make the arrays read-only: a state may pass from thread to thread."""
        for values in (self.q, self.dq, self.tau):
            values.setflags(write=False)
