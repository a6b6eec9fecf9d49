# SPDX-License-Identifier: Apache-2.0

"""Answers of services: success, or one line that says why not; a callback never ends its node."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ros2_dynid.errors import DynidError, one_line
from ros2_dynid.nodes.common.rclpy_private import Logger


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
