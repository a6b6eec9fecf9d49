# SPDX-License-Identifier: Apache-2.0

"""The store of a fleet: fingerprints of values, packed values, files that are whole or missing."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.fleet.store import HEADER, Store, fingerprint, packed, read_whole, sweep, unpacked, write_whole


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, eq=False)
class Box:
    name: str
    content: object


@dataclass(frozen=True, eq=False)
class Crate:
    name: str
    content: object


def test_a_fingerprint_tells_values_and_kinds_apart_and_is_the_same_in_every_process():
    values = [
        1, 1.0, True, None, "1", "", [], [1], [[1]], [1, 2], [2, 1], {"a": 1}, {"a": 2}, {"b": 1}, {}, Colour.BLUE,
        Box("a", 1), Box("a", 2), Box("b", 1), Crate("a", 1), np.zeros(2), np.zeros(3), np.zeros((1, 2)),
        np.zeros(2, dtype=np.int64), np.array([0.0, 1.0]), 0.1, -0.0, 0.0,
    ]  # fmt: skip
    prints = [fingerprint(value) for value in values]
    assert len(set(prints)) == len(values)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint((1, 2)) == fingerprint([1, 2]) != fingerprint(1, 2)
    assert fingerprint(Colour.RED) != fingerprint("red")
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    wide = np.arange(6.0).reshape(2, 3)
    assert fingerprint(np.asfortranarray(wide)) == fingerprint(wide)
    assert fingerprint(7) == hashlib.sha256(b"[7]").hexdigest()
    with pytest.raises(TypeError, match="cannot be stored"):
        fingerprint(object())


def test_values_are_the_same_after_packing_and_only_known_kinds_are_built():
    content = {
        "array": np.arange(6.0).reshape(2, 3), "upper": np.triu(np.arange(1.0, 17.0).reshape(4, 4)),
        "tall": np.triu(np.arange(1.0, 16.0).reshape(5, 3)), "wide": np.triu(np.arange(1.0, 16.0).reshape(3, 5)),
        "small": np.array([[1.0, 2.0], [0.0, 3.0]]), "none": np.empty((0, 4)), "numbers": np.array([3, -4]),
        "marks": np.array([[True], [False]]), "nan": np.array([np.nan, np.inf]), "slice": slice(2, 9),
        "flag": True, "off": False, "null": None, "int": -5, "float": 0.1, "text": "a\n", "list": (1, (2.5, "x")),
        "colour": Colour.BLUE, "box": Box("inner", ()),
    }  # fmt: skip
    data = packed(Box("outer", content))
    back = unpacked(data, Box, (Box, Colour))
    assert back is not None and back.name == "outer" and set(back.content) == set(content)
    for name, value in content.items():
        found = back.content[name]
        if isinstance(value, np.ndarray):
            assert np.array_equal(found, value, equal_nan=found.dtype.kind == "f") and found.shape == value.shape, name
            assert found.dtype == value.dtype
        elif name == "box":
            assert isinstance(found, Box) and found.name == "inner" and found.content == ()
        else:
            assert found == value and type(found) is type(value), name
    assert unpacked(data, Crate, (Box, Crate, Colour)) is None, "of another kind"
    assert unpacked(data, Box, (Box,)) is None, "with a kind that is not known"
    with pytest.raises(TypeError, match="set cannot be stored"):
        packed({1, 2})
    with pytest.raises(TypeError, match="type cannot be stored"):
        packed(Box)


@pytest.mark.parametrize(
    "tree",
    [
        {"kind": "Box", "fields": {"name": "a"}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [5], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [-1, -2], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [-1, 2], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [0, -1], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "u", "shape": [-3, -3], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [1], "at": -1}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "u", "shape": [3, 3], "at": 0}}},
        {"kind": "Box", "fields": {"name": "a", "content": {"array": "i", "shape": [4], "at": 0}}},
        {"enum": "Colour", "value": "green"},
        {"kind": "os", "fields": {}},
        {"something": 1},
        {"map": [["a", 1]]},
        [1, 2],
    ],
)
def test_a_tree_that_nobody_packed_counts_as_missing(tree):
    text = json.dumps(tree).encode()
    body = text + np.arange(2.0).tobytes() + np.arange(1).tobytes()
    magic = HEADER.unpack_from(packed(1))[0]
    data = HEADER.pack(magic, zlib.crc32(body), len(text), 24) + body
    assert unpacked(data, Box, (Box, Colour)) is None
    right = json.dumps({"kind": "Box", "fields": {"name": "a", "content": {"array": "f", "shape": [2], "at": 0}}})
    body = right.encode() + body[len(text) :]
    whole = HEADER.pack(magic, zlib.crc32(body), len(right), 24) + body
    assert unpacked(whole, Box, (Box, Colour)) is not None, "the test's own header is right"


def test_a_file_is_whole_or_counts_as_missing(tmp_path):
    store = Store(tmp_path / "outcomes")
    assert store.load("abcd") is None
    data = packed(Box("a", np.arange(5.0)))
    store.save("abcd", data)
    assert store.path("abcd") == tmp_path / "outcomes/ab/abcd.fleet" and store.load("abcd") == data
    assert [path.name for path in store.path("abcd").parent.iterdir()] == ["abcd.fleet"]
    file = tmp_path / "x"
    changed = bytearray(data)
    changed[-1] ^= 1
    other = bytearray(data)
    other[7] ^= 1
    for bad in (b"", data[:10], data[:-1], data + b" ", bytes(changed), bytes(other), b"\0" * len(data)):
        file.write_bytes(bad)
        assert read_whole(file) is None and unpacked(bad, Box, (Box,)) is None
    file.write_bytes(data)
    assert read_whole(file) == data


def test_what_a_killed_run_began_to_write_is_swept_away(tmp_path, monkeypatch):
    write_whole(tmp_path / "ab/abcd.fleet", packed(1))
    begun = tmp_path / "ab/.abcd.fleet.0123456789ab"
    begun.write_bytes(b"begun")
    (tmp_path / "ab/.folder.fleet.x").mkdir()
    (tmp_path / ".other").write_text("not ours")
    sweep(tmp_path)
    assert not begun.exists() and (tmp_path / "ab/abcd.fleet").exists() and (tmp_path / ".other").exists()

    def refused(path, target):
        raise OSError("no rename here")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match="no rename"):
        write_whole(tmp_path / "ab/new.fleet", b"x")
    assert sorted(p.name for p in (tmp_path / "ab").iterdir()) == [".folder.fleet.x", "abcd.fleet"]
