# SPDX-License-Identifier: Apache-2.0

"""A remote file, read in ranges through any object that returns bytes from an offset on."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from ros2_dynid.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

RANGE = 4 << 20
"""Bytes asked for at a time."""


class RemoteFile:
    """A remote file by name and size [bytes]; read(offset, count) returns its bytes, or raises OSError."""

    def __init__(self, name: str, size: int, read: Callable[[int, int], bytes]) -> None:
        """Keep the reading function; nothing is read yet."""
        self.name, self.size, self._read = name, size, read
        self.received = 0
        self.failed: OSError | None = None

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def open(self) -> io.BufferedReader:
        """Return a stream at the file's beginning."""
        return io.BufferedReader(_Ranges(self), RANGE)

    def range(self, offset: int, count: int) -> bytes:
        """Return bytes; keep an error for `check`, since bag readers take it for the end of a damaged file."""
        try:
            data = self._read(offset, count)
        except OSError as error:
            self.failed = error
            raise
        except Exception as error:  # each kind of storage has its own
            self.failed = OSError(str(error))
            raise self.failed from error
        self.received += len(data)
        return data

    def check(self) -> None:
        """Raise if part of the file could not be read."""
        if self.failed is not None:
            what = f"it could not be read to its end ({str(self.failed)[:200]})"
            raise InputError(what, "check the connection and run it again", self.name)


class _Ranges(io.RawIOBase):
    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        count = min(len(view), self._file.size - self._at)
        if count <= 0:
            return 0
        data = self._file.range(self._at, count)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
