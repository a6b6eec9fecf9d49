# SPDX-License-Identifier: Apache-2.0

"""Atomic files: written under another name and renamed, so that a reader sees the old or the new file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from ros2_dynid.errors import InputError, Option, Text

_synced: ContextVar[bool] = ContextVar("synced", default=True)


@contextmanager
def unsynced() -> Iterator[None]:
    """Do not wait for the disk within the block: for files that are checked by their digests before they are used."""
    before = _synced.set(False)
    try:
        yield
    finally:
        _synced.reset(before)


def sync(handle: int) -> None:
    """Wait until what was written to a file is on the disk; not within `unsynced`."""
    if _synced.get():
        os.fsync(handle)


@contextmanager
def replacing(path: str | Path, *, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces path if the block succeeds, and is deleted if it raises.

    The content is on the disk before the name is, so that a crash in between leaves the old file. Without `overwrite`,
    an existing file stays and raises InputError.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{path.suffix}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)  # less the umask
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            sync(file.fileno())
        put_in_place(temporary, path, overwrite=overwrite)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def put_in_place(new: Path, path: Path, *, overwrite: bool) -> None:
    """Rename a finished file in one step; without `overwrite`, refuse if the name exists."""
    if overwrite:
        new.replace(path)
        return
    try:
        try:
            os.link(new, path)
        except OSError:  # taken, or a filesystem without links: take the name, which only one can, then replace that
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            new.replace(path)
        else:
            new.unlink()
    except FileExistsError:
        hint = Text("choose another name, or allow it: ", Option("overwrite", True))
        raise InputError("this exists already", hint, str(path)) from None


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write data in the place of path."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: str | Path, text: str) -> None:
    """Write text as UTF-8 in the place of path."""
    write_bytes(path, text.encode())
