# SPDX-License-Identifier: Apache-2.0

"""Results of stages on disk: frozen dataclasses of a known list, arrays in one block, nothing that runs when read.

A file holds a tree in JSON, the numbers that it refers to, and a checksum. Workers pack and unpack, so that whoever
stores and forwards a result only moves bytes. It is written beside its place and renamed; one that is damaged, of
another version or foreign counts as missing, so that it is computed again. Arrays of a file are memory-mapped. Keys are
made by `fingerprint`, the hash of a value by its content: the same in every process and every run.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.codec import Plain

FORMAT = 7
"""Version of the files; part of every key, so that older ones are left alone."""
ENDING = ".fleet"
MAGIC = b"dynid%3d" % FORMAT
HEADER = struct.Struct("<8sIQQ")
"""MAGIC, checksum of all that follows the header, bytes of the tree and of the numbers."""
NUMBERS = {code: np.dtype(name) for code, name in (("f", "<f8"), ("i", "<i8"), ("b", "|b1"))}
"""How arrays of floats, integers and marks are stored."""
T = TypeVar("T")


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
    magic, checksum, tree, numbers = HEADER.unpack_from(data)
    whole = len(data) == HEADER.size + tree + numbers
    return bool(magic == MAGIC and whole and zlib.crc32(memoryview(data)[HEADER.size :]) == checksum)


def packed(value: object) -> bytes:
    """Return a value of known dataclasses as bytes."""
    arrays: list[bytes] = []
    tree = json.dumps(_pack(value, arrays)).encode()
    tree += b" " * (-(HEADER.size + len(tree)) % 8)  # numbers begin at a multiple of their size
    body = b"".join((tree, *arrays))
    return HEADER.pack(MAGIC, zlib.crc32(body), len(tree), len(body) - len(tree)) + body


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
    after = HEADER.size + HEADER.unpack_from(whole.data)[2]
    try:
        tree = json.loads(whole[HEADER.size : after].tobytes())
        value = _unpack(tree, {one.__name__: one for one in kinds}, np.asarray(whole[after:]))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


def _pack(value: object, arrays: list[bytes]) -> Plain:
    """Return a value as a tree; the numbers of its arrays are appended to `arrays`."""
    if isinstance(value, Enum):
        return {"enum": type(value).__name__, "value": _pack(value.value, arrays)}
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop]}
    if isinstance(value, np.ndarray):
        code = {"u": "i"}.get(value.dtype.kind, value.dtype.kind)
        numbers, at = value.astype(NUMBERS[code]).tobytes(), sum(map(len, arrays))
        arrays.append(numbers + b"\0" * (-len(numbers) % 8))
        return {"array": code, "shape": list(value.shape), "at": at}
    if is_dataclass(value) and not isinstance(value, type):
        content = {field.name: _pack(getattr(value, field.name), arrays) for field in fields(value)}
        return {"kind": type(value).__name__, "fields": content}
    if isinstance(value, Mapping):
        return {"map": {str(key): _pack(value[key], arrays) for key in value}}
    if isinstance(value, list | tuple):
        return [_pack(item, arrays) for item in value]
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _unpack(tree: object, kinds: dict[str, type], numbers: NDArray[np.uint8]) -> object:
    """Return the value of a tree; numbers: of all its arrays."""
    if isinstance(tree, list):
        return tuple(_unpack(item, kinds, numbers) for item in tree)
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        kind, shape, at = NUMBERS[tree["array"]], tree["shape"], tree["at"]
        if min((at, *shape)) < 0:
            raise ValueError("the shape of an array is negative")
        return numbers[at : at + math.prod(shape) * kind.itemsize].view(kind).reshape(shape)
    if "kind" in tree:
        build: Callable[..., object] = kinds[tree["kind"]]
        return build(**{name: _unpack(item, kinds, numbers) for name, item in tree["fields"].items()})
    if "enum" in tree:
        member: Callable[[object], object] = kinds[tree["enum"]]
        return member(tree["value"])
    if "slice" in tree:
        return slice(*map(int, tree["slice"]))
    return {key: _unpack(item, kinds, numbers) for key, item in tree["map"].items()}


def sweep(folder: Path) -> None:
    """Remove what a run that was killed had begun to write."""
    for leftover in folder.rglob(f".*{ENDING}.*"):
        if leftover.is_file():
            leftover.unlink(missing_ok=True)


def fingerprint(*values: object) -> str:
    """Return the SHA-256 of plain data, arrays and dataclasses, field by field; names of fields and types count."""
    arrays: list[bytes] = []
    tree = json.dumps(_pack(values, arrays), sort_keys=True)
    return hashlib.sha256(b"".join((tree.encode(), *arrays))).hexdigest()
