# SPDX-License-Identifier: Apache-2.0

"""Results of stages on disk: frozen dataclasses of a known list, arrays in one block, nothing that runs when read.

A file holds a tree in JSON, the numbers that it refers to, and a checksum. Workers pack and unpack, so that whoever
stores and forwards a result only moves bytes. It is written beside its place and renamed; one that is damaged, of
another version or foreign counts as missing, so that it is computed again. Arrays of a file are memory-mapped.
"""

from __future__ import annotations

import json
import math
import secrets
import struct
import zlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.codec import Plain

FORMAT = 5
"""Version of the files; part of every key, so that older ones are left alone."""
ENDING = ".fleet"
MAGIC = b"dynid%3d" % FORMAT
HEADER = struct.Struct("<8sIQQQ")
"""MAGIC, checksum of all that follows the header, bytes of the tree, number of floats and of integers."""
T = TypeVar("T")


class Damaged(Exception):  # noqa: N818  never shown: the result is computed again
    """A stored result that cannot be used."""


class Store:
    """A folder of packed results by key."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, made when it is first written to."""
        self.folder = folder

    def path(self, key: str) -> Path:
        """Return the file of a key."""
        return self.folder / key[:2] / f"{key}{ENDING}"

    def save(self, key: str, data: bytes) -> None:
        """Write a packed result."""
        write_whole(self.path(key), data)

    def load(self, key: str) -> bytes | None:
        """Return a packed result, None if there is none that is whole."""
        return read_whole(self.path(key))


def write_whole(path: Path, data: bytes) -> None:
    """Write packed data into a file, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            # Not synced: after a power cut the checksum tells, and the result is computed again.
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_whole(path: Path) -> bytes | None:
    """Return what write_whole wrote, None for anything else."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if _is_whole(data) else None


def _is_whole(data: bytes | memoryview) -> bool:
    if len(data) < HEADER.size:
        return False
    magic, checksum, *sizes = HEADER.unpack_from(data)
    tree, floats, integers = sizes
    whole = len(data) == HEADER.size + tree + 8 * (floats + integers)
    return bool(magic == MAGIC and whole and zlib.crc32(memoryview(data)[HEADER.size :]) == checksum)


def packed(value: object) -> bytes:
    """Return a value of known dataclasses as bytes."""
    packer = _Packer()
    tree = json.dumps(packer.pack(value)).encode()
    tree += b" " * (-(HEADER.size + len(tree)) % 8)  # numbers begin at a multiple of their size
    floats, integers = (
        np.concatenate([np.empty(0, kind), *parts])
        for kind, parts in (("<f8", packer.floats), ("<i8", packer.integers))
    )
    body = b"".join((tree, floats.tobytes(), integers.tobytes()))
    return HEADER.pack(MAGIC, zlib.crc32(body), len(tree), len(floats), len(integers)) + body


def unpacked(data: bytes | Path, kind: type[T], kinds: tuple[type, ...]) -> T | None:
    """Return what was packed if it is a `kind`, None for anything else; kinds: dataclasses and enums that may occur.

    data: the bytes, or the file that holds them, whose arrays are then mapped into memory.
    """
    try:
        whole = np.memmap(data, np.uint8, "r") if isinstance(data, Path) else np.frombuffer(data, np.uint8)
    except (OSError, ValueError):  # there is none, or it is empty
        return None
    if not _is_whole(whole.data):
        return None
    _, _, length, count, _ = HEADER.unpack_from(whole.data)
    after = HEADER.size + length
    floats = np.frombuffer(whole.data, "<f8", count, after)
    integers = np.frombuffer(whole.data, "<i8", offset=after + 8 * count)
    try:
        tree = json.loads(whole[HEADER.size : after].tobytes())
        value = _Unpacker({one.__name__: one for one in kinds}, floats, integers).unpack(tree)
    except (ValueError, KeyError, TypeError, IndexError, Damaged, RecursionError):
        return None
    return value if isinstance(value, kind) else None


class _Packer:
    def __init__(self) -> None:
        self.floats: list[NDArray[np.float64]] = []
        self.integers: list[NDArray[np.int64]] = []
        self._at = {"f": 0, "i": 0}

    def pack(self, value: object) -> Plain:
        if isinstance(value, Enum):
            return {"enum": type(value).__name__, "value": self.pack(value.value)}
        if value is None or isinstance(value, bool | int | str):
            return value if value is None or isinstance(value, bool | int) else str(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop]}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if is_dataclass(value) and not isinstance(value, type):
            content = {field.name: self.pack(getattr(value, field.name)) for field in fields(value)}
            return {"kind": type(value).__name__, "fields": content}
        if isinstance(value, dict):
            return {"map": [[str(key), self.pack(item)] for key, item in value.items()]}
        if isinstance(value, list | tuple):
            return [self.pack(item) for item in value]
        raise TypeError(f"{type(value).__name__} cannot be stored")

    def _array(self, value: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Plain:
        if value.dtype.kind in "iub":
            flat = value.astype(np.int64).ravel()
            self.integers.append(flat)
            return {
                "array": "b" if value.dtype.kind == "b" else "i",
                "shape": list(value.shape),
                "at": self._next("i", flat.size),
            }
        array = value.astype(np.float64)
        wide = array.ndim == 2 and array.size > 4 and array.shape[0] <= array.shape[1]  # as R factors are
        flat64 = array.ravel()
        upper = wide and not flat64[_below(*array.shape)].any()
        if upper:
            flat64 = flat64[_upper(*array.shape)]
        self.floats.append(flat64)
        return {"array": "u" if upper else "f", "shape": list(array.shape), "at": self._next("f", flat64.size)}

    def _next(self, which: str, size: int) -> int:
        at = self._at[which]
        self._at[which] += size
        return at


class _Unpacker:
    def __init__(self, kinds: dict[str, type], floats: NDArray[np.float64], integers: NDArray[np.int64]) -> None:
        self._kinds, self._floats, self._integers = kinds, floats, integers

    def unpack(self, tree: object) -> object:
        if isinstance(tree, list):
            return tuple(map(self.unpack, tree))
        if not isinstance(tree, dict):
            return tree
        if "array" in tree:  # most of a tree
            return self._array(tree["array"], tuple(tree["shape"]), tree["at"])
        if "kind" in tree:
            build: Callable[..., object] = self._kinds[tree["kind"]]
            return build(**{name: self.unpack(item) for name, item in tree["fields"].items()})
        if "enum" in tree:
            member: Callable[[object], object] = self._kinds[tree["enum"]]
            return member(tree["value"])
        if "slice" in tree:
            start, stop = tree["slice"]
            return slice(int(start), int(stop))
        return {str(key): self.unpack(item) for key, item in tree["map"]}

    def _array(self, code: str, shape: tuple[int, ...], at: int) -> object:
        size = math.prod(shape)
        if at < 0 or size < 0:  # other wrong shapes fit nothing
            raise Damaged
        if code == "u":
            places = _upper(*shape)
            out = np.zeros(size)
            out[places] = self._floats[at : at + len(places)]
            return out.reshape(shape)
        if code == "f":
            return self._floats[at : at + size].reshape(shape)
        whole = self._integers[at : at + size].reshape(shape)
        return whole.astype(bool) if code == "b" else whole


@lru_cache(maxsize=64)
def _upper(rows: int, columns: int) -> NDArray[np.intp]:
    """Return the places, row after row, of an upper trapezoid: a recording has many of a few shapes."""
    return np.ravel_multi_index(np.triu_indices(rows, 0, columns), (rows, columns))


@lru_cache(maxsize=64)
def _below(rows: int, columns: int) -> NDArray[np.intp]:
    """Return the places below the diagonal."""
    return np.ravel_multi_index(np.tril_indices(rows, -1, columns), (rows, columns))


def sweep(folder: Path) -> None:
    """Remove what a run that was killed had begun to write."""
    for leftover in folder.rglob(f".*{ENDING}.*"):
        if leftover.is_file():
            leftover.unlink(missing_ok=True)
