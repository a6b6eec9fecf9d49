"""Files written beside their place and renamed: a reader sees the old file or the new one, never a part."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ros2_dynid.errors import InputError, Option, Text


@contextmanager
def replacing(path: str | Path, *, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """Yield a binary file that takes the place of path when the block ends well, and vanishes when it does not.

    The content is on the disk before the name is, so that a crash in between leaves the old file. Not `overwrite`:
    a file that has taken the name meanwhile is left alone, which is an InputError.
    """
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp's files are private; ours are as open as any other
        place(temporary, path, overwrite=overwrite)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def place(new: Path, path: Path, *, overwrite: bool) -> None:
    """Give a finished file its name in one step; not `overwrite`: unless something has that name."""
    if overwrite:
        new.replace(path)
        return
    try:
        os.link(new, path)
    except FileExistsError:
        raise InputError(
            "this exists already", Text("choose another name, or allow it: ", Option("overwrite", True)), str(path)
        ) from None
    except OSError:  # a filesystem without links
        new.rename(path)
    else:
        new.unlink()


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write data in the place of path."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: str | Path, text: str) -> None:
    """Write text as UTF-8 in the place of path."""
    write_bytes(path, text.encode())
