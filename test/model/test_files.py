# SPDX-License-Identifier: Apache-2.0

"""Read descriptions from disk: limited size, YAML without Python objects, each value checked."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError, suggest
from ros2_dynid.model import files
from ros2_dynid.model.files import as_number, as_pose, as_vector, check_keys, check_structure, parse_yaml, read_bytes


def test_a_file_may_be_as_large_as_its_limit(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    with pytest.raises(InputError, match="more than 4e-06 MB"):
        read_bytes(tmp_path / "a", 4)
    with pytest.raises(InputError, match="this is a folder"):
        read_bytes(tmp_path, 5)
    with pytest.raises(InputError, match="no such file"):
        read_bytes(tmp_path / "b", 5)
    assert (files.MAX_YAML, files.MAX_DEPTH) == (5_000_000, 50)


def test_yaml_may_be_nested_fifty_deep():
    for kind in ("[]", "{}"):
        inner = 48  # the stream and the document are two more
        text = "[" * (inner - 1) + kind + "]" * (inner - 1)
        check_structure(text)
        with pytest.raises(ValueError, match="too deeply"):
            check_structure(f"[{text}]")
    check_structure("[" + ", ".join(["[[]]"] * 100) + "]")


def laughing(levels, merge):
    """Return YAML of a few hundred bytes whose aliases, or merge keys, stand for 9^levels values."""
    lines = ["a0: &a0 {" + ", ".join(f"k{k}: 1" for k in range(9)) + "}"]
    for level in range(1, levels):
        parts = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} " + (f"{{<<: [{parts}]}}" if merge else f"[{parts}]"))
    return "\n".join(lines)


@pytest.mark.parametrize("merge", [False, True])
def test_aliases_do_not_make_a_small_file_large(merge):
    assert parse_yaml(laughing(3, merge), "robot.yaml")
    with pytest.raises(InputError, match="aliases make more than 100000 values"):
        parse_yaml(laughing(12, merge), "robot.yaml")
    with pytest.raises(InputError, match="not known before it, or for itself"):
        parse_yaml("a: &a [*a]", "robot.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: 1\nb: 2\na: 3", r"line 3: key 'a' occurs twice"), ("a: [1", r"not YAML \(line"), ("a:\n\t- 1", "not YAML")],
)
def test_yaml_that_is_none(text, words):
    with pytest.raises(InputError, match=words):
        parse_yaml(text, "f")


def test_yaml_with_keys_of_every_kind():
    assert parse_yaml("{a: 1, 1: 2, 2.5: 3}", "f") == {"a": 1, 1: 2, 2.5: 3}
    merged_keys = parse_yaml("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: {<<: *x}", "f")
    assert merged_keys["y"] == {"a": 1, "b": 3} and merged_keys["z"] == {"a": 1, "b": 2}


def test_numbers():
    for value, wanted in ((3, 3.0), (2.5, 2.5), ("1e-3", 1e-3)):
        assert as_number(value, "x", "f") == wanted
    for value in (True, "two", None, [1.0]):
        with pytest.raises(InputError, match="give a number"):
            as_number(value, "x", "f")
    for value in (float("nan"), float("inf"), "inf", 10**400):
        with pytest.raises(InputError, match="give a finite number"):
            as_number(value, "x", "f")
    assert (
        as_number("inf", "x", "f", infinite=True) == np.inf and as_number(-(10**400), "x", "f", infinite=True) == np.inf
    )
    with pytest.raises(InputError, match="finite"):
        as_number(float("nan"), "x", "f", infinite=True)
    assert list(as_vector([1, "2", 3.5], "x", "f")) == [1.0, 2.0, 3.5]
    for value in ([1, 2], [1, 2, 3, 4], "123", 5):
        with pytest.raises(InputError, match="give 3 numbers"):
            as_vector(value, "x", "f")


def test_names():
    check_keys({"mass": 1}, ("mass", "com"), "it", "f")
    with pytest.raises(InputError, match="it has the unknown key 'mas'; did you mean 'mass'"):
        check_keys({"com": 0, "mas": 1}, ("mass", "com"), "it", "f")
    assert suggest("zzz", ["a", "b"]) == "use a, b" and suggest("zzz", []) == "there are none"
    many = [f"k{k:02}" for k in range(13)]
    assert suggest("zzz", many) == f"use {', '.join(many[:12])}, ..." and suggest("zzz", many[:12]).endswith("k11")


def test_transforms_are_rigid():
    c, s = np.cos(0.3), np.sin(0.3)
    good = [[c, -s, 0, 1], [s, c, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]
    np.testing.assert_allclose(as_pose(good, "x", "f"), good)
    np.testing.assert_allclose(
        as_pose((np.array(good) + 1e-10 * np.eye(4) * [1, 1, 1, 0]).tolist(), "x", "f"), good, atol=1e-9
    )
    for bad in (good[:3], [row[:3] for row in good], 5, [*good, [0, 0, 0, 1]], [tuple(row) for row in good]):
        with pytest.raises(InputError, match="is not a 4x4 transform"):
            as_pose(bad, "x", "f")
    mirrored = [[-x if k == 0 else x for k, x in enumerate(row)] for row in good[:3]] + [good[3]]
    for bad in (
        mirrored, [*good[:3], [0, 0, 0, 2]], [*good[:3], [0, 0, 1e-3, 1]], (1.001 * np.array(good)).tolist(),
        (np.array(good) + 2e-9 * np.eye(4) * [1, 1, 1, 0]).tolist(),
    ):  # fmt: skip
        with pytest.raises(InputError, match="not a rigid transform"):
            as_pose(bad, "x", "f")
