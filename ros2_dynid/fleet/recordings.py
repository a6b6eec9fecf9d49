# SPDX-License-Identifier: Apache-2.0

"""The recordings of a fleet: globs, folders and URLs become files with the identity of their content.

A local file is known by the SHA-256 of its bytes, a remote one by what its storage says of it (fsspec: etag, size,
time), since hashing would read all of it. A remote .mcap is read in ranges; everything else that is remote is copied to
a temporary file first.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.fleet.fleet_file import Member
from ros2_dynid.fleet.store import fingerprint
from ros2_dynid.model.files import missing
from ros2_dynid.recording.bag.read_bag import METADATA
from ros2_dynid.recording.remote_file import RemoteFile

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

ENDINGS = (".mcap", ".db3", ".bag", ".csv", ".npz", ".mcap.zstd", ".db3.zstd", ".mcap.zst", ".db3.zst")
CHECKS = "validate"
"""In the folder convention, recordings in a folder of this name are held out."""
BLOCK = 1 << 20


@dataclass(frozen=True)
class Found:
    """Recordings of one robot by place (a path or a URL), those held out, and what could not be found, with reasons."""

    recordings: tuple[str, ...]
    validate: tuple[str, ...]
    missing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Identity:
    """What a recording is: hash of its content, size [bytes], and a stamp that changes when the file does."""

    content: str
    size: int
    stamp: str


def is_url(place: str) -> bool:
    """Return whether a place is a URL; file:// is one, a path is none."""
    return "://" in place


def find(member: Member, home: Path) -> Found:
    """Return the recordings of a robot, each once, in the order of their names; paths are relative to `home`."""
    missing: list[tuple[str, str]] = []
    fitted, held_out = (_expanded(patterns, home, missing) for patterns in (member.recordings, member.validate))
    if member.folder is not None:
        for place in _below(member.folder):
            inside = Path(place).relative_to(member.folder).parts[:-1]
            (held_out if CHECKS in inside else fitted).append(place)
        if not fitted:
            missing.append((str(member.folder), "the folder has no recording; add recordings, or remove it"))
    validation = set(held_out)
    return Found(tuple(sorted(set(fitted) - validation)), tuple(sorted(validation)), tuple(missing))


def _expanded(patterns: tuple[str, ...], home: Path, missing: list[tuple[str, str]]) -> list[str]:
    places: list[str] = []
    for pattern in patterns:
        try:
            matches = _remote(pattern) if is_url(pattern) else _local(pattern, home)
        except InputError as error:
            missing.append((pattern, plain_reason(error)))
            continue
        if not matches:
            missing.append((pattern, "no file matches; check the path"))
        places += matches
    return places


def plain_reason(error: InputError) -> str:
    """Return an error's line without the file it is about."""
    return f"{error.what}; {error.hint}"


def _local(pattern: str, home: Path) -> list[str]:
    whole = str(home / Path(pattern).expanduser())
    return sorted(glob.glob(whole, recursive=True)) if glob.has_magic(pattern) else [whole]  # noqa: PTH207  of absolute ones, too


def _remote(pattern: str) -> list[str]:
    system, path = _system(pattern)
    protocol = pattern.partition("://")[0]
    try:
        names = system.glob(path) if glob.has_magic(path) else [path] if system.exists(path) else []
    except Exception as error:  # each kind of storage has its own
        raise InputError(f"it cannot be listed ({str(error)[:200]})", "check the URL and the access to it") from None
    return sorted(f"{protocol}://{str(name).removeprefix('/') if protocol != 'file' else name}" for name in names)


def _below(folder: Path) -> list[str]:
    """Return the bags below a folder: rosbag2 folders, and single files that are in none."""
    places: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if METADATA in files and Path(place) != folder:
            folders[:] = []
            places.append(place)
            continue
        places += [str(Path(place, name)) for name in sorted(files) if name.lower().endswith(ENDINGS)]
    return places


def stamp_of(place: str) -> tuple[int, str]:
    """Return the size of a recording [bytes] and a stamp that changes when it does; nothing of it is read."""
    if is_url(place):
        system, path = _system(place)
        try:
            size = sum(int(system.size(name) or 0) for name in list_files(system, path))
            return size, fingerprint([str(system.ukey(name)) for name in list_files(system, path)])
        except FileNotFoundError:
            raise InputError("there is no such file", "check the URL", place) from None
        except Exception as error:
            raise InputError(f"it cannot be reached ({str(error)[:200]})", "check the connection", place) from None
    files = [(str(file.relative_to(place)), file.stat()) for file in _own_files(Path(place))]
    stamps = [(name, status.st_size, status.st_mtime_ns, status.st_ino) for name, status in files]
    return sum(status.st_size for _, status in files), fingerprint(stamps)


def identity(place: str) -> Identity:
    """Return what a recording is; a local one is read for it."""
    size, stamp = stamp_of(place)
    if is_url(place):
        return Identity(stamp, size, stamp)
    digest = hashlib.sha256()
    whole = Path(place)
    for file in _own_files(whole):
        digest.update(f"{file.relative_to(whole) if file != whole else file.suffix} {file.stat().st_size}\n".encode())
        with file.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    if stamp_of(place) != (size, stamp):
        raise InputError("it changes while it is read", "wait until it is recorded, and run it again", place)
    return Identity(digest.hexdigest(), size, stamp)


def _own_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise missing(place)
    return sorted(path for path in place.iterdir() if path.is_file())


@contextmanager
def readable(place: str) -> Iterator[Path | RemoteFile]:
    """Yield what the readers of recordings take; a copy is removed at the end."""
    if not is_url(place):
        yield Path(place)
        return
    system, path = _system(place)
    if path.lower().endswith(".mcap"):
        remote = RemoteFile(place, int(system.size(path) or 0), lambda at, count: system.cat_file(path, at, at + count))
        try:
            yield remote
        finally:
            remote.check()
        return
    folder = Path(tempfile.mkdtemp(prefix="dynid-"))
    try:
        target = folder / path.rstrip("/").rpartition("/")[2]
        try:
            system.get(path, str(target), recursive=bool(system.isdir(path)))
        except Exception as error:  # each kind of storage has its own
            what = f"it cannot be copied ({str(error)[:200]})"
            raise InputError(what, "check the connection and the free space", place) from None
        yield target
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def list_files(system: AbstractFileSystem, path: str) -> list[str]:
    """Return the files below a folder in order, or the file itself."""
    return sorted(system.find(path)) if system.isdir(path) else [path]


def _system(url: str) -> tuple[AbstractFileSystem, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingPackageError("fsspec", "a recording at a URL") from None
    try:
        system, path = url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(
            f"this URL cannot be opened ({str(error)[:200]})", "install the package of its storage", url
        ) from None
    return system, str(path)
