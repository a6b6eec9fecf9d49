# SPDX-License-Identifier: Apache-2.0

"""Decompression with a size limit: a recording may claim any size, or be a decompression bomb."""

from __future__ import annotations

import bz2
import importlib
from functools import cache
from io import BufferedIOBase
from pathlib import Path
from types import ModuleType

from ros2_dynid.errors import MissingPackageError

MAX_CHUNK = 128 << 20
"""Largest chunk [bytes] that is unpacked; rosbag2 writes chunks of about 1 MB."""
MAX_RATIO = 1000
"""Largest accepted ratio of unpacked to stored size, beyond the first 64 MB."""
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_RATIO = 256  # LZ4 cannot expand a byte to more than 255


class DamagedDataError(Exception):
    """Compressed or framed data that is cut, damaged or dishonest about its size; callers salvage what is around it."""


class Budget:
    """How many bytes a file may still unpack into; the limit stops decompression bombs."""

    def __init__(self, file_size: int) -> None:
        """Set the budget by the size of the file [bytes]."""
        self.remaining = MAX_RATIO * file_size + (64 << 20)

    def spend(self, size: int) -> None:
        """Subtract `size` bytes; raise DamagedDataError if fewer remain."""
        if size > self.remaining:
            raise DamagedDataError(f"the file unpacks into more than {MAX_RATIO} times its size")
        self.remaining -= size


@cache
def _zstd() -> ModuleType:
    """Return the zstd module of this Python: its own (3.14), or the backport that rosbags brings."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingPackageError("backports.zstd", "reading zstd compressed recordings")


@cache
def _lz4() -> ModuleType:
    try:
        return importlib.import_module("lz4.frame")
    except ImportError:
        raise MissingPackageError("lz4", "reading lz4 compressed recordings") from None


def decompress(kind: str, data: bytes | memoryview, limit: int) -> bytes:
    """Return data unpacked ("", "zstd", "lz4" or "bz2"), of at most `limit` bytes [DamagedDataError beyond]."""
    if kind in ("", "none"):
        return bytes(data)
    if limit > MAX_CHUNK:
        raise DamagedDataError(f"a chunk claims {limit} bytes")
    if kind == "lz4" and limit > _LZ4_RATIO * len(data) + 64:
        raise DamagedDataError(f"{len(data)} compressed bytes claim to hold {limit}")
    makers = {
        "zstd": lambda: _zstd().ZstdDecompressor(),
        "lz4": lambda: _lz4().LZ4FrameDecompressor(),
        "bz2": bz2.BZ2Decompressor,
    }
    if kind not in makers:
        raise DamagedDataError(f"unknown compression {kind[:20]!r}")
    parts: list[bytes] = []
    size = 0
    rest = bytes(data)
    while rest:
        decompressor = makers[kind]()
        try:
            part = decompressor.decompress(rest, max_length=limit - size + 1)
        except MissingPackageError:
            raise
        except Exception as error:  # each library has its own error types for damaged data
            raise DamagedDataError(f"{kind} data is damaged ({error})") from None
        parts.append(part)
        size += len(part)
        if size > limit:
            raise DamagedDataError(f"{kind} data holds more than the {limit} bytes it claims")
        if not decompressor.eof:
            raise DamagedDataError(f"{kind} data ends early")
        rest = decompressor.unused_data or b""
    return parts[0] if len(parts) == 1 else b"".join(parts)


def compress_zstd(data: bytes, level: int = 1) -> bytes:
    """Return data as one zstd frame."""
    packed: bytes = _zstd().compress(data, level=level)
    return packed


def open_zstd(path: Path) -> BufferedIOBase:
    """Open a zstd file for reading as a stream of the unpacked bytes."""
    stream: BufferedIOBase = _zstd().ZstdFile(path, "r")
    return stream
