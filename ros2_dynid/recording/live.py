# SPDX-License-Identifier: Apache-2.0

"""Decode live joint states straight from the serialized message, and keep statistics of the stream."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.model.joint_state import DISORDER, State
from ros2_dynid.recording.bag.decode import MessageLayout, parse
from ros2_dynid.recording.bag.storage import DamagedDataError

GAP_PERIODS = 1.5
"""A gap is an interval longer than this many median ones."""
PAUSE_S = 0.5
"""A gap of the stamps longer than this [s] is told while it is recorded: motion is lost in it."""
MIN_MESSAGE_BYTES = 12
"""Bytes of a message up to the end of its header's stamp; a shorter message is no joint state."""
_STAMP = {"<": struct.Struct("<iI"), ">": struct.Struct(">iI")}
_MAX_LAYOUTS = 16
MAX_NAN_VALUES = 300
"""Values (a field of a joint) whose NaN are counted: joint names may change with every message."""


@dataclass(frozen=True)
class _StatePlaces:
    """A layout and the joints' indices: joint mine[k] of ours is joint theirs[k] of the message."""

    layout: MessageLayout
    mine: NDArray[np.intp]
    theirs: NDArray[np.intp]
    fixed: tuple[tuple[int, int, bytes], ...]


def stamp_ns(message: bytes) -> int:
    """Return the header stamp [ns] of a serialized message with a header (CDR), of at least MIN_MESSAGE_BYTES."""
    seconds, nanoseconds = _STAMP["<" if message[1] else ">"].unpack_from(message, 4)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


class LiveStates:
    """Reads the named joints from messages that may be permuted, partial or carry other joints.

    A joint's value is NaN until a message carries it. `state` is the last complete one, a new object each time.
    """

    def __init__(self, names: Sequence[str], gains: NDArray[np.float64] | None = None) -> None:
        """Read the joints named; gains: torque in one unit of their efforts, shape (n,), None for 1."""
        self.names = tuple(names)
        self._gains = None if gains is None or np.all(gains == 1.0) else gains
        self._values = np.full((3, len(self.names)), np.nan)
        self._received = np.zeros(len(self.names), dtype=bool)
        self._shapes: list[_StatePlaces] = []
        self.state = State(self.names, *self._values.copy())

    def take(self, message: bytes) -> State | None:
        """Decode a JointState; return the state once all joints have arrived since the last one, else None."""
        shape = self._shape_of(message)
        if shape is None or not len(shape.mine):
            return None
        layout = shape.layout
        for row, (offset, count) in zip(self._values, layout.arrays, strict=True):
            if count == len(layout.names):
                row[shape.mine] = np.frombuffer(message, layout.byte_order + "f8", count, offset)[shape.theirs]
            else:
                row[shape.mine] = np.nan
        if len(shape.mine) < len(self.names):
            self._received[shape.mine] = True
            if not self._received.all():
                return None
        self._received[:] = False
        q, dq, tau = self._values.copy()
        if self._gains is not None:
            tau *= self._gains
        self.state = State(self.names, q, dq, tau, stamp_ns(message))
        return self.state

    @property
    def q(self) -> NDArray[np.float64]:
        """Positions of the last complete state, shape (n,) [rad or m]."""
        return self.state.q

    @property
    def dq(self) -> NDArray[np.float64]:
        """Velocities of the last complete state, shape (n,)."""
        return self.state.dq

    @property
    def tau(self) -> NDArray[np.float64]:
        """Efforts of the last complete state, shape (n,) [N.m or N]."""
        return self.state.tau

    @property
    def stamp(self) -> int:
        """Stamp of the last complete state [ns]."""
        return self.state.stamp

    def _shape_of(self, message: bytes) -> _StatePlaces | None:
        for shape in self._shapes:
            if len(message) == shape.layout.length and all(message[a:b] == text for a, b, text in shape.fixed):
                return shape
        try:
            layout = parse(message, "cdr")
        except DamagedDataError:
            return None
        places = [(k, layout.names.index(name)) for k, name in enumerate(self.names) if name in layout.names]
        mine, theirs = (np.array([pair[side] for pair in places], dtype=np.intp) for side in (0, 1))
        fixed = tuple((offset, offset + len(text), text.tobytes()) for offset, text in layout.fixed)
        if len(self._shapes) >= _MAX_LAYOUTS:
            self._shapes.clear()
        self._shapes.append(_StatePlaces(layout, mine, theirs, fixed))
        return self._shapes[-1]


MAX_CLOCK_DRIFT = 5e-4
"""Fastest that a sender's clock drifts from ours, as a share: a clock that is disciplined is slewed by no more."""


MAX_CLOCK_OFFSET_S = 1.0
"""Stamps further than this [s] from our clock come from another one: no joint state travels that long."""


class StampClock:
    """Turns the stamps of messages into times of our own clock, though the sender's clock may differ from ours.

    The quickest message so far counts as undelayed, less what the clocks may have drifted since; when the sender's
    clock is set, the estimate restarts. With a stamp of zero the time of arrival counts.
    """

    def __init__(self, *, same: bool = False) -> None:
        """`same`: stamps come from our own clock, as simulated time does, unless they are further away than
        MAX_CLOCK_OFFSET_S.
        """
        self._same = same
        self._offset, self._since = np.inf, 0.0
        self._last = 0

    def time_of(self, stamp_ns: int, now: float) -> float:
        """Return when [s] a message stamped `stamp_ns` was made, if it came at `now` [s]."""
        if stamp_ns == 0:
            return now
        offset = now - 1e-9 * stamp_ns
        if self._same and abs(offset) < MAX_CLOCK_OFFSET_S:
            return 1e-9 * stamp_ns
        drifted = self._offset + MAX_CLOCK_DRIFT * (now - self._since)
        back = stamp_ns < self._last - 1e9 * DISORDER
        reset = back or (self._same and abs(offset - drifted) > MAX_CLOCK_OFFSET_S)  # simulated time is set at will
        self._offset = offset if reset else min(offset, drifted)
        self._since, self._last = now, stamp_ns if reset else max(stamp_ns, self._last)
        return 1e-9 * stamp_ns + self._offset


class LiveStatistics:
    """Rate, gaps, clock jumps and NaN of a stream of joint states while it comes."""

    def __init__(self) -> None:
        """Start without messages."""
        self.count = 0
        self.jumps_back = 0
        self.pauses = 0
        self.longest_pause = 0.0
        self.with_nan = 0
        self.without_effort = 0
        self.too_short = 0
        self._nan: dict[tuple[str, str], int] = {}
        self.first_ns = self.last_ns = 0
        self._intervals = np.zeros(4096)
        self._states = LiveStates(())

    def take(self, message: bytes) -> None:
        """Count a serialized JointState, or a message that is too short to be one."""
        if len(message) < MIN_MESSAGE_BYTES:  # anybody on the network can send it
            self.too_short += 1
            return
        stamp = stamp_ns(message)
        if self.count:
            interval = 1e-9 * (stamp - self.last_ns)
            self._intervals[self.count % len(self._intervals)] = interval
            self.jumps_back += interval < 0
            if interval > PAUSE_S:
                self.pauses, self.longest_pause = self.pauses + 1, max(self.longest_pause, interval)
        else:
            self.first_ns = stamp
        self.last_ns = stamp
        self.count += 1
        shape = self._states._shape_of(message)
        if shape is None:
            return
        if not shape.layout.arrays[2][1]:
            self.without_effort += 1
        kind = shape.layout.byte_order + "f8"
        arrays = (np.frombuffer(message, kind, count, offset) for offset, count in shape.layout.arrays)
        if any(np.isnan(values).any() for values in arrays):
            self.with_nan += 1
            self._count_nan(message, shape.layout)

    def _count_nan(self, message: bytes, layout: MessageLayout) -> None:
        for field, (offset, count) in zip(("position", "velocity", "effort"), layout.arrays, strict=True):
            if count == len(layout.names):
                values = np.frombuffer(message, layout.byte_order + "f8", count, offset)
                for k in np.flatnonzero(np.isnan(values)):
                    key = field, layout.names[k]
                    if key in self._nan or len(self._nan) < MAX_NAN_VALUES:
                        self._nan[key] = self._nan.get(key, 0) + 1

    @property
    def period(self) -> float:
        """Median interval [s] of the last few thousand messages; NaN if there are none."""
        intervals = self._intervals[1 : self.count] if self.count <= len(self._intervals) else self._intervals
        intervals = intervals[intervals > 0]
        return float(np.median(intervals)) if len(intervals) else float("nan")

    def gaps(self, stamps: Sequence[int]) -> tuple[int, float]:
        """Return the number of intervals longer than 1.5 median ones among all stamps [ns], and the longest [s]."""
        steps = 1e-9 * np.diff(np.asarray(stamps, dtype=np.int64))
        forward = steps[steps > 0]
        if not len(forward):
            return 0, 0.0
        return int(np.sum(forward > GAP_PERIODS * np.median(forward))), float(forward.max())

    def problems(self) -> list[str]:
        """Return what is wrong with the stream, one line each."""
        texts = []
        if self.jumps_back:
            texts.append(f"the clock jumped back {self.jumps_back} times")
        if self.pauses:
            often = "" if self.pauses == 1 else f", the longest of {self.pauses} such gaps"
            texts.append(f"no joint states for {self.longest_pause:.3g} s{often}")
        texts += self._nan_problems()
        if self.without_effort:
            texts.append(f"{self.without_effort} of {self.count} joint states have no effort")
        if self.too_short:
            texts.append(f"{self.too_short} messages were too short for joint states and left out")
        return texts

    def _nan_problems(self) -> list[str]:
        """Return which values of which joints are NaN, and in how many messages: joints alike in one line."""
        alike: dict[tuple[str, int], list[str]] = {}
        for (field, joint), count in self._nan.items():
            alike.setdefault((field, count), []).append(joint)
        problems = []
        for (field, count), joints in alike.items():
            line = f"{field} of {', '.join(joints)} is NaN in {count} of {self.count} joint states"
            if count == self.count:
                line += f": the hardware has no {field} state interface for it, or the broadcaster does not claim it"
            problems.append(line)
        return problems
