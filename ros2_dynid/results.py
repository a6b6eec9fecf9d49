# SPDX-License-Identifier: Apache-2.0

"""Write the files of a result together: into a new folder first, then into place, never over an input.

A folder that is new appears whole, by one rename. In an existing folder the files are renamed one by one, the one with
the digests (`last`) at the end: so a reader can detect a result that a power cut or kill -9 left incomplete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ros2_dynid.atomic import sync
from ros2_dynid.errors import InputError, Option, Text

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
