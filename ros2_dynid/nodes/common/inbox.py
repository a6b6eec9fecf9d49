# SPDX-License-Identifier: Apache-2.0

"""What one thread asks another to do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import Empty, Queue

from ros2_dynid.errors import InputError


class Inbox:
    """What one thread asks another to do between its steps: no lock, so that a busy thread cannot starve the other."""

    def __init__(self) -> None:
        """Nothing asked yet."""
        self._waiting: deque[Callable[[], None]] = deque()

    def do(self, act: Callable[[], None], timeout: float = 5.0) -> None:
        """Wait until the other thread has done `act`, and raise what that raises."""
        done: Queue[Exception | None] = Queue()

        def answered() -> None:
            try:
                act()
            except Exception as error:
                done.put(error)
            else:
                done.put(None)

        self._waiting.append(answered)
        try:
            failure = done.get(timeout=timeout)
        except Empty:
            raise InputError(f"it was not done within {timeout:g} s", "ask again") from None
        if failure is not None:
            raise failure

    def empty(self) -> None:
        """Do what was asked for; called by the thread that is asked."""
        while self._waiting:
            self._waiting.popleft()()
