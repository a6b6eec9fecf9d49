"""A joint state as a value: it carries its joints, and nobody writes to it again."""

from __future__ import annotations

from dataclasses import dataclass

from ros2_dynid.model.robot import Array

DISORDER = 0.1
"""Stamps that go back by no more than this [s] jitter, or their messages overtook each other: no clock was set."""


@dataclass(frozen=True, eq=False)
class State:
    """A joint state of the joints named: q, dq, tau, shape (n,), read-only, NaN where nothing is known; stamp [ns]."""

    joint_names: tuple[str, ...]
    q: Array
    dq: Array
    tau: Array
    stamp: int = 0

    def __post_init__(self) -> None:
        """Let nobody write to it any more: it may pass from thread to thread."""
        for values in (self.q, self.dq, self.tau):
            values.setflags(write=False)
