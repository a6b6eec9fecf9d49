# SPDX-License-Identifier: Apache-2.0

"""Where a command may write: a new file, or with `overwrite` a regular one, and never an input.

Symbolic links, FIFOs, sockets, devices and folders are refused as files, also with `overwrite`. A result folder has a
lock: of two runs that write into it at once, the second is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ros2_dynid.errors import InputError, Option, Text

KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
"""What is no regular file."""


def check_outputs(
    paths: Sequence[str | Path | None], *, inputs: Sequence[str | Path | None] = (), overwrite: bool
) -> None:
    """Refuse files that a command may not write, before it computes anything; None among the paths is nothing.

    Inputs may be folders: what they hold already is an input too.
    """
    sources = existing(inputs)
    places: set[Path] = set()
    for path in (Path(path) for path in paths if path is not None):
        place = path.parent.resolve() / path.name
        if place in places:
            raise InputError("two outputs have this name", "give each file a name of its own", str(path))
        places.add(place)
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent}", "create it first", str(path))
        check_file(path, sources, overwrite=overwrite)


def existing(inputs: Sequence[str | Path | None]) -> list[Path]:
    """Return the inputs that are files or folders: others are names, or missing."""
    return [Path(source) for source in inputs if source is not None and Path(source).exists()]


def check_file(path: Path, inputs: Sequence[Path] = (), *, overwrite: bool, folder: bool = False) -> None:
    """Refuse a path that is an input, no regular file (a folder, if that is to be written), or exists already."""
    refuse_special_file(path, folder=folder)
    if not path.exists():
        return
    if any(is_part_of(path, source) for source in inputs):
        raise InputError("this is an input of the command", "choose another name for the output", str(path))
    if not overwrite:
        raise exists_already(path)


def is_part_of(path: Path, source: Path) -> bool:
    """Return whether a path is `source`, whatever it is called there, or one of the two lies in the other."""
    if path.samefile(source):
        return True
    one, other = path.resolve(), source.resolve()
    return one.is_relative_to(other) or other.is_relative_to(one)


def refuse_special_file(path: Path, *, folder: bool = False) -> None:
    """Refuse a path that is neither new nor a regular file, or neither new nor a folder."""
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if folder and stat.S_ISDIR(mode):
            return
        for is_kind, kind in KINDS:
            if is_kind(mode):
                raise InputError(f"the output is {kind}", "name a regular file or a new one", str(path))


def exists_already(path: Path) -> InputError:
    """Return the error that says so."""
    hint = Text("choose another name, or allow it: ", Option("overwrite", True))
    return InputError("this exists already", hint, str(path))


def refuse_file(folder: Path) -> None:
    """Refuse a path that is neither new nor a folder."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise InputError("the output is a file", Text("name a folder: ", Option("output")), str(folder))


def check_folder(
    folder: Path, names: Sequence[str], *, inputs: Sequence[str | Path | None] = (), overwrite: bool
) -> None:
    """Refuse to write these files into a folder, which may be new, as check_outputs does for files."""
    refuse_file(folder)
    sources = existing(inputs)
    for name in names:
        check_file(folder / name, sources, overwrite=overwrite)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a result folder within the block; the folder is made, and removed if it stays empty."""
    refuse_file(folder)
    missing = [place for place in (folder, *folder.absolute().parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = "another run is writing into this folder"
            raise InputError(what, "wait until it ends, or choose another folder", str(folder)) from None
        yield
    finally:
        for place in missing:
            with suppress(OSError):  # it has files
                place.rmdir()
        os.close(lock)


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What writing to a disk without space raises, without saying where."""


@contextmanager
def errors_name(path: Path, temporary: Path) -> Iterator[None]:
    """Let errors within the block name the file that is written, not the temporary one."""
    try:
        yield
    except InputError as error:
        if error.source is None or not Path(error.source).is_relative_to(temporary):
            raise
        raise InputError(error.what, error.hint, str(path)) from None
    except OSError as error:
        if error.filename is None and error.errno in FULL:
            raise OSError(error.errno, error.strerror, str(path)) from error
        place = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
        if place is not None and place.is_relative_to(temporary):
            raise OSError(error.errno, error.strerror, str(path / place.relative_to(temporary))) from error
        raise
