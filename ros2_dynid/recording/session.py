# SPDX-License-Identifier: Apache-2.0

"""Recording a stream of serialized joint states: a ring buffer always, a bag between begin and end, statistics."""

from __future__ import annotations

import threading
from array import array
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag.writer import BagWriter, WriteError
from ros2_dynid.recording.live import MIN_MESSAGE_BYTES, LiveStatistics, stamp_ns


@dataclass(frozen=True)
class Summary:
    """What a bag holds: times in s, rate in Hz; problems in words."""

    path: Path
    samples: int
    duration: float
    rate: float
    gaps: int
    longest_gap: float
    problems: tuple[str, ...]


class Session:
    """One topic's messages; `take` from one thread, the rest from any."""

    def __init__(self, topic: str, buffered: int) -> None:
        """Record `topic`; the ring buffer holds the last `buffered` messages."""
        self._topic = topic
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=buffered)
        self.writer: BagWriter | None = None
        self._channel = 0
        self._stamps = array("q")  # 8 bytes a message: a recording may take hours
        self._lock = threading.Lock()
        self.statistics = LiveStatistics()
        self.failure: WriteError | None = None
        self._failure_reported = True

    @property
    def path(self) -> Path | None:
        """Where the bag being written is."""
        writer = self.writer
        return None if writer is None else writer.path

    @property
    def buffered(self) -> int:
        """Messages in the ring buffer."""
        return len(self._buffer)

    def take(self, message: bytes, received_ns: int) -> None:
        """Add a message; a full disk ends the bag, keeps its messages, and sets `failure`."""
        with self._lock:
            if len(message) < MIN_MESSAGE_BYTES:
                self.statistics.take(message)
                return
            self._buffer.append((received_ns, message))
            if self.writer is None:
                return
            try:
                self._write(self.writer, message, received_ns)
            except WriteError as error:
                self._fail(error)

    def begin(self, path: Path, since_ns: int) -> None:
        """Start a bag with the buffered messages since `since_ns`; they are on disk on return."""
        with self._lock:
            if self.writer is not None:
                raise InputError(f"already recording into {self.writer.path}", "stop that first")
            writer = BagWriter(path)
            self._channel = writer.add_topic(self._topic)
            self.statistics, self._stamps, self.failure = LiveStatistics(), array("q"), None
            for received, message in [item for item in self._buffer if item[0] >= since_ns]:
                self._write(writer, message, received)
            writer.flush()
            self.writer = writer

    def end(self) -> Summary:
        """Close the bag and return its summary."""
        with self._lock:
            writer, self.writer = self.writer, None
        if writer is None:
            raise self.failure or InputError("nothing is being recorded", "start a recording")
        statistics = self.statistics
        problems = tuple(statistics.problems())
        if problems:
            writer.note("problems", "; ".join(problems))
        writer.close()
        gaps, longest = statistics.gaps(self._stamps)
        return Summary(
            writer.path,
            writer.count,
            1e-9 * (statistics.last_ns - statistics.first_ns),
            1 / statistics.period,
            gaps,
            longest,
            problems,
        )

    def save(self, path: Path) -> int:
        """Write the ring buffer into a bag of its own and return the number of messages."""
        with self._lock:
            buffered = list(self._buffer)
        if not buffered:
            raise InputError("nothing is buffered", "check the topic joint_states and the parameter buffer_seconds")
        with BagWriter(path) as writer:
            channel = writer.add_topic(self._topic)
            for received, message in buffered:
                writer.write(channel, message, received)
        return len(buffered)

    def poll(self) -> WriteError | None:
        """Flush to disk; call it regularly, for when messages stop coming.

        Return the writing error since the last call, once.
        """
        with self._lock:
            if self.writer is not None:
                try:
                    self.writer.poll()
                except WriteError as error:
                    self._fail(error)
            news, self._failure_reported = None if self._failure_reported else self.failure, True
        return news

    def _fail(self, error: WriteError) -> None:
        self.failure, self.writer, self._failure_reported = error, None, False

    def _write(self, writer: BagWriter, message: bytes, received_ns: int) -> None:
        writer.write(self._channel, message, received_ns)
        self.statistics.take(message)
        self._stamps.append(stamp_ns(message))
