"""Files written beside their place and renamed: a reader sees the old file or the new one, never a part."""

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
    """Yield a binary file that takes the place of path when the block ends well, and vanishes when it does not.

    The content is on the disk before the name is, so that a crash in between leaves the old file. Not `overwrite`:
    a file that has taken the name meanwhile is left alone, which is an InputError.
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
    """Give a finished file its name in one step; not `overwrite`: unless something has that name."""
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
