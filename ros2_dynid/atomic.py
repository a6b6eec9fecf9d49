# SPDX-License-Identifier: Apache-2.0

"""Atomic files: written under another name and renamed, so that a reader sees the old or the new file.

The files of a result are written together: into a new folder first, then into place, never over an input. A folder
appears whole, by one rename, or takes the place of the old one by one exchange: whoever is killed leaves the old result
or the new one. Where a folder cannot be exchanged (one that is mounted, or the current one) the files are renamed one
by one, the one with the digests (`last`) at the end, so that a reader can detect a result that was cut short.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.output_files import check_file, errors_name, exists_already, refuse_special_file

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
    an existing file stays and raises InputError; what is no regular file always stays.
    """
    path = Path(path)
    check_file(path, overwrite=overwrite)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{path.suffix}")
    with errors_name(path, temporary):
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
    refuse_special_file(path)
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
        raise exists_already(path) from None


def write_bytes(path: str | Path, data: bytes, *, overwrite: bool = True) -> None:
    """Write data in the place of path, as `replacing` does."""
    with replacing(path, overwrite=overwrite) as file:
        file.write(data)


def write_text(path: str | Path, text: str, *, overwrite: bool = True) -> None:
    """Write text as UTF-8 in the place of path, as `replacing` does."""
    write_bytes(path, text.encode(), overwrite=overwrite)


PREFIX = ".dynid-new-"
AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Of Linux: paths as they are, and that both names stay."""


@contextmanager
def committed(folder: Path, *, last: str) -> Iterator[Path]:
    """Yield an empty folder to write into; its files are in `folder` after the block, or nowhere if that raises."""
    existed = folder.exists()
    place = folder.resolve() if existed else folder
    place.parent.mkdir(parents=True, exist_ok=True)
    for around in (place.parent, place):
        _sweep(around)
    new, lock = _new_folder(place.parent) if os.access(place.parent, os.W_OK) else _new_folder(place)
    try:
        with errors_name(folder, new):
            yield new
            if not (_exchanged(new, place) if existed else _renamed(new, place)):
                _move(new, place, last)
        for written in (place.parent, place):
            _sync(written)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        os.close(lock)


def _renamed(new: Path, folder: Path) -> bool:
    """Give `new` the name `folder`; return whether nobody has taken that meanwhile."""
    try:
        new.rename(folder)
    except OSError:
        return False
    return True


def _exchanged(new: Path, folder: Path) -> bool:
    """Exchange `new` and what else is in `folder` with it in one step; return whether the system can do that.

    It cannot where the folder is mounted, or without hard links. The folder that somebody works in stays the same one.
    """
    if new.parent != folder.parent or Path.cwd().is_relative_to(folder):
        return False
    try:
        _link_missing(folder, new)
        new.chmod(stat.S_IMODE(folder.stat().st_mode))
        _exchange(new, folder)
        _link_missing(new, folder)  # what somebody has put there meanwhile
    except OSError:
        return False
    return True


def _link_missing(source: Path, target: Path) -> None:
    """Link the files of one folder into another that it does not have."""
    for path in source.rglob("*"):
        there = target / path.relative_to(source)
        if path.is_dir() and not path.is_symlink():
            there.mkdir(exist_ok=True)
        elif not os.path.lexists(there) and PREFIX not in str(path.relative_to(source)):
            os.link(path, there, follow_symlinks=False)


def _exchange(one: Path, other: Path) -> None:
    """Let two folders change their names in one step."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None or call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "two folders cannot be exchanged here")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_digests(folder: Path, digests: Mapping[str, str], source: str) -> None:
    """Refuse a folder whose files are not those that were written with `source`; missing files are allowed."""
    for name, expected in digests.items():
        path = folder / name
        if path.is_file() and digest(path) != expected:
            raise InputError(
                f"{name} does not belong to {source}",
                Text("a result was cut short, or changed: identify again with ", Option("overwrite", True)),
                str(folder),
            )


def _new_folder(around: Path) -> tuple[Path, int]:
    """Make an empty folder and lock it; while the lock is held, `_sweep` leaves the folder alone."""
    while True:
        new = around / f"{PREFIX}{secrets.token_hex(6)}"
        new.mkdir()
        lock = os.open(new, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if new.exists():  # else it was swept away before it was locked
            return new, lock
        os.close(lock)


def _move(new: Path, folder: Path, last: str) -> None:
    files = [path for path in new.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.relative_to(new).as_posix() == last):
        target = folder / path.relative_to(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)


def _sweep(around: Path) -> None:
    """Remove the folders of killed runs."""
    for leftover in around.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(leftover, ignore_errors=True)
            finally:
                os.close(lock)


def _sync(folder: Path) -> None:
    with suppress(OSError):  # some filesystems cannot sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            sync(handle)
        finally:
            os.close(handle)
