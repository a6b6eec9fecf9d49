# SPDX-License-Identifier: Apache-2.0

"""One run at a time in a folder: the lock goes with the process that holds it, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ros2_dynid.errors import InputError, Option, Text

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, or refuse if another run has it."""
    if folder.exists() and not folder.is_dir():
        raise InputError("the output is a file", Text("name a folder: ", Option("output")), str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = "another run is writing into this folder"
            raise InputError(
                what, Text("wait for its end, or choose another: ", Option("output")), str(folder)
            ) from None
        yield
    finally:
        os.close(handle)
