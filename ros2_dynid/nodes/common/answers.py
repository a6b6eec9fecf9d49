# SPDX-License-Identifier: Apache-2.0

"""Answers: of services, success or one line that says why not; of another thread, in time or withdrawn."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from ros2_dynid.errors import DynidError, InputError, one_line
from ros2_dynid.nodes.common.rclpy_private import Logger

Value = TypeVar("Value")


class Answer(Protocol):
    """What the responses of all our services and the results of our actions have."""

    success: bool
    message: str


@contextmanager
def answering(response: Answer, logger: Logger) -> Iterator[None]:
    """Set success at the end of the block, or message to why it ended early."""
    try:
        yield
        response.success = True
    except Exception as error:
        response.success, response.message = False, reason(error, logger)


def reason(error: Exception, logger: Logger) -> str:
    """Return an error in one line; the traceback of one that we did not foresee goes to the log."""
    if isinstance(error, (DynidError, OSError)):
        return one_line(str(error))
    logger.error("".join(traceback.format_exception(error)))
    return f"{type(error).__name__}: {one_line(str(error))}; the log has the details"


class Reply(Generic[Value]):
    """What another thread will answer. A request that was not begun in time is withdrawn: it is not done later."""

    def __init__(self) -> None:
        """Nothing has been done yet."""
        self._future: Future[Value] = Future()

    def begin(self) -> bool:
        """Return whether to do what was asked, or it was withdrawn; called by the thread that is asked."""
        return self._future.set_running_or_notify_cancel()

    def give(self, value: Value) -> None:
        """Answer; called by the thread that is asked."""
        self._future.set_result(value)

    def fail(self, error: Exception) -> None:
        """Raise this in the thread that waits; called by the thread that is asked."""
        self._future.set_exception(error)

    def wait(self, timeout: float) -> Value:
        """Return the answer, or refuse: what has not begun within `timeout` [s] will not be done."""
        try:
            return self._future.result(timeout)
        except TimeoutError:
            if self._future.cancel():
                raise InputError(f"it was not done within {timeout:g} s", "ask again") from None
        try:
            return self._future.result(timeout)
        except TimeoutError:
            what = f"it was begun, but has not ended within {2 * timeout:g} s"
            raise InputError(what, "look what it has done before you ask again") from None
