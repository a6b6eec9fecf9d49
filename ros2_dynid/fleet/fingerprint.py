# SPDX-License-Identifier: Apache-2.0

"""The hash of a value by its content: the same in every process and every run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

import numpy as np


def fingerprint(*values: object) -> str:
    """Return the SHA-256 of plain data, arrays and dataclasses, field by field; names of fields and types count."""
    digest = hashlib.sha256()
    for value in values:
        _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, value: object) -> None:
    if isinstance(value, Enum):
        _feed(digest, value.value)
    elif value is None or isinstance(value, bool | int | str):
        text = repr(value).encode()
        digest.update(b"%s %d:" % (type(value).__name__.encode(), len(text)) + text)
    elif isinstance(value, float):
        digest.update(b"float " + float(value).hex().encode())
    elif isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype.str} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        digest.update(f"{type(value).__name__} {{".encode())
        for field in fields(value):
            _feed(digest, field.name)
            _feed(digest, getattr(value, field.name))
        digest.update(b"}")
    elif isinstance(value, Mapping):
        digest.update(b"map %d" % len(value))
        for key in sorted(value, key=repr):
            _feed(digest, key)
            _feed(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(b"list %d" % len(value))
        for item in value:
            _feed(digest, item)
    else:
        raise TypeError(f"{type(value).__name__} has no fingerprint")
