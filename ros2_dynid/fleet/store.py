"""Outcomes on disk: frozen dataclasses of a known list, arrays in one block, nothing that runs when it is read.

A file holds a tree in JSON and the numbers that it refers to. It is written beside its place and renamed; one that is
damaged, of another version or foreign counts as missing, so that its outcome is computed again.
"""

from __future__ import annotations

import json
import secrets
import zipfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.codec import Plain

FORMAT = 2
"""Version of the files; part of every key, so that older ones are left alone."""
T = TypeVar("T")


class Damaged(Exception):  # noqa: N818  never shown: the outcome is computed again
    """A stored outcome that cannot be used."""


class Store:
    """A folder of outcomes by key. kinds: the dataclasses and enums that may occur in them."""

    def __init__(self, folder: Path, kinds: tuple[type, ...]) -> None:
        """Use `folder`, made when it is first written to."""
        self.folder = folder
        self._kinds = {kind.__name__: kind for kind in kinds}

    def path(self, key: str) -> Path:
        """Return the file of a key."""
        return self.folder / key[:2] / f"{key}.npz"

    def save(self, key: str, value: object) -> None:
        """Write an outcome."""
        write_packed(self.path(key), value)

    def load(self, key: str, kind: type[T]) -> T | None:
        """Return an outcome, None if there is none that can be used."""
        return read_packed(self.path(key), kind, self._kinds)


def write_packed(path: Path, value: object) -> None:
    """Write a value of known dataclasses into a file, in one step."""
    packer = _Packer()
    tree = json.dumps({"format": FORMAT, "value": packer.pack(value)}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            # Not synced: after a power cut the file's own checksums tell, and the outcome is computed again.
            np.savez(
                file,
                tree=np.frombuffer(tree, np.uint8),
                floats=np.concatenate([np.empty(0), *packer.floats]),
                integers=np.concatenate([np.empty(0, np.int64), *packer.integers]),
            )
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_packed(path: Path, kind: type[T], kinds: dict[str, type]) -> T | None:
    """Return what write_packed wrote if it is a `kind`, None for anything else."""
    try:
        with np.load(path, allow_pickle=False) as data:
            tree = json.loads(data["tree"].tobytes())
            unpacker = _Unpacker(kinds, data["floats"], data["integers"])
        if not isinstance(tree, dict) or tree.get("format") != FORMAT:
            return None
        value = unpacker.unpack(tree["value"])
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        EOFError,
        zipfile.BadZipFile,
        Damaged,
        RecursionError,
    ):
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
        upper = array.ndim == 2 and array.size > 4 and not np.any(np.tril(array, -1))
        flat64 = array[_upper(*array.shape)] if upper else array.ravel()
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
            return tuple(self.unpack(item) for item in tree)
        if not isinstance(tree, dict):
            return tree
        if "kind" in tree:
            build: Callable[..., object] = self._kinds[tree["kind"]]
            return build(**{str(name): self.unpack(item) for name, item in tree["fields"].items()})
        if "enum" in tree:
            member: Callable[[object], object] = self._kinds[tree["enum"]]
            return member(tree["value"])
        if "slice" in tree:
            start, stop = tree["slice"]
            return slice(int(start), int(stop))
        if "map" in tree:
            return {str(key): self.unpack(item) for key, item in tree["map"]}
        return self._array(str(tree["array"]), tuple(int(k) for k in tree["shape"]), int(tree["at"]))

    def _array(self, code: str, shape: tuple[int, ...], at: int) -> object:
        if min(shape, default=0) < 0 or at < 0:
            raise Damaged
        if code == "u":
            places = _upper(*shape)
            out = np.zeros(shape)
            out[places] = self._floats[at : at + len(places[0])]
            return out
        size = int(np.prod(shape))
        if code == "f":
            return self._floats[at : at + size].reshape(shape)
        whole = self._integers[at : at + size].reshape(shape)
        return whole.astype(bool) if code == "b" else whole


@lru_cache(maxsize=64)
def _upper(rows: int, columns: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of an upper trapezoid: a recording has many of a few shapes."""
    return np.triu_indices(rows, 0, columns)


def sweep(folder: Path) -> None:
    """Remove what a run that was killed had begun to write."""
    for left in folder.rglob(".*.npz.*"):
        if left.is_file():
            left.unlink(missing_ok=True)
