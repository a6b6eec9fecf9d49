# SPDX-License-Identifier: Apache-2.0

"""Atomic files: written under another name and renamed, so that a reader sees the old or the new file.

The files of a result are written together: into a new folder first, then into place, never over an input. A folder that
is new appears whole, by one rename. In an existing folder the files are renamed one by one, the one with the digests
(`last`) at the end: so a reader can detect a result that a power cut or kill -9 left incomplete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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


PREFIX = ".dynid-new-"


def check_place(folder: Path, names: Sequence[str], *, inputs: Sequence[str | Path], overwrite: bool) -> None:
    """Refuse to write these files into `folder` if one is an input, or exists and `overwrite` is not set."""
    if folder.exists() and not folder.is_dir():
        raise InputError("the output is a file", Text("name a folder: ", Option("output")), str(folder))
    for path in (folder / name for name in names):
        if not path.exists():
            continue
        if any(Path(source).exists() and path.samefile(source) for source in inputs):
            raise InputError(
                "the result would replace a recording that it is made from",
                Text("choose another folder: ", Option("output")),
                str(path),
            )
        if not overwrite:
            raise InputError(
                "this exists already",
                Text("choose another folder, or allow it: ", Option("overwrite", True)),
                str(path),
            )


@contextmanager
def committed(folder: Path, *, last: str) -> Iterator[Path]:
    """Yield an empty folder to write into; its files are in `folder` after the block, or nowhere if that raises."""
    whole = not folder.exists()
    around = folder.parent if whole else folder
    around.mkdir(parents=True, exist_ok=True)
    _sweep(around)
    new, lock = _new_folder(around)
    try:
        yield new
        if whole:
            try:
                new.rename(folder)
            except OSError:  # somebody has made it meanwhile
                _move(new, folder, last)
            _sync(around)
        else:
            _move(new, folder, last)
        _sync(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        os.close(lock)


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
