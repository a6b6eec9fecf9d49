# SPDX-License-Identifier: Apache-2.0

"""Messages read by their layout, against reading each of them field by field."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ros2_dynid.recording.bag import decode as by_layout
from ros2_dynid.recording.bag.storage import DamagedDataError
from ros2_dynid.recording.bag.writer import joint_state, joint_states


def plain(message, order="<"):
    """Return stamp, frame, names and the three arrays of a JointState in CDR, read step by step."""
    at = 4

    def number(kind, size):
        nonlocal at
        at += -(at - 4) % size
        (value,) = struct.unpack_from(order + kind, message, at)
        at += size
        return value

    def text():
        nonlocal at
        size = number("I", 4)
        at += size
        return message[at - size : at - 1].decode()

    stamp = number("i", 4) * 10**9 + number("I", 4)
    frame = text()
    names = tuple(text() for _ in range(number("I", 4)))
    arrays = []
    for _ in range(3):
        arrays.append([number("d", 8) for _ in range(number("I", 4))])
    return stamp, frame, names, arrays


def some_messages(rng, count):
    """Return messages of like length whose joints, frames and arrays differ."""
    made = []
    for _ in range(count):
        names = [("a", "b"), ("b", "a"), ("c", "a")][rng.integers(3)]
        frame = ["", "x", "y", "base"][rng.integers(4)]
        which = [(2, 2, 2), (2, 0, 2), (2, 2, 0), (1, 2, 2), (0, 2, 2)][rng.integers(5)]
        arrays = [rng.normal(size=n) if n else None for n in which]
        made.append(joint_state(names, int(rng.integers(-(10**18), 10**18)), arrays, frame))
    return made


def test_every_byte_that_is_no_value_stamp_frame_or_padding_fixes_the_layout():
    message = joint_state(("a", "bcd"), 7 * 10**9, [np.array([1.0, 2.0])] * 3, "x")
    assert len(message) == 108
    free = {2, 3, *range(4, 12), 16, 17}  # options of the encapsulation, stamp, frame
    free |= {18, 19, 30, 31, *range(64, 68), *range(88, 92)}  # padding, which may hold anything
    free |= {*range(44, 60), *range(68, 84), *range(92, 108)}  # values
    changed = [bytes((*message[:k], message[k] ^ 0x41, *message[k + 1 :])) for k in range(108)]
    rows = by_layout.even_rows(np.frombuffer(b"".join(changed), np.uint8), 108 * np.arange(108), 108)
    same = by_layout.agrees(by_layout.parse(message, "cdr"), rows)
    assert set(np.flatnonzero(same)) == free


@pytest.mark.parametrize("seed", range(3))
def test_messages_agree_if_they_are_laid_out_alike(seed):
    rng = np.random.default_rng(seed)
    messages = some_messages(rng, 120)
    for length in {len(m) for m in messages}:
        alike = [m for m in messages if len(m) == length]
        rows = by_layout.even_rows(np.frombuffer(b"".join(alike), np.uint8), np.arange(len(alike)) * length, length)
        for k, message in enumerate(alike):
            layout = by_layout.parse(message, "cdr")
            _, _, names, arrays = plain(message)
            assert layout.names == names and layout.length == length and layout.byte_order == "<"
            assert [n for _, n in layout.arrays] == [len(a) for a in arrays]
            same = by_layout.agrees(layout, rows)
            assert same[k]
            for j in np.flatnonzero(same):
                stamp, _, other, values = plain(alike[j])
                assert other == names and by_layout.stamps(layout, rows)[j] == stamp
                for field in range(3):
                    found = by_layout.array(layout, rows, field)
                    assert (found is None) == (len(values[field]) != len(names))
                    if found is not None:
                        assert found[j].tolist() == values[field]
            for j in np.flatnonzero(~same):
                _, _, other, values = plain(alike[j])
                frames = plain(message)[1] != plain(alike[j])[1]
                assert other != names or [len(v) for v in values] != [len(a) for a in arrays] or frames


def test_rows_at_even_and_uneven_places():
    data = np.arange(200, dtype=np.uint8)
    places = (([0, 20, 40], False), ([5, 25, 45, 65], False), ([0, 20, 41], True), ([9], False), ([0, 5], True))
    for start, copied in places:
        rows = by_layout.even_rows(data, np.array(start), 10)
        assert (rows.count, rows.length) == (len(start), 10) and (rows.buffer is not data) == copied
        column = rows.column(3, 2, "u1")
        assert column.tolist() == [[s + 3, s + 4] for s in start]
        assert rows.column(8, 2, "u1").shape == (len(start), 2) and rows.column(2, 4, "<u2").shape == (len(start), 4)
        for offset, width, kind in ((9, 2, "u1"), (3, 4, "<u2"), (3, 1, "<f8")):
            with pytest.raises(DamagedDataError, match="beyond the end"):
                rows.column(offset, width, kind)


def test_messages_cut_anywhere_are_damaged():
    message = joint_state(("a", "bc"), 5, [[1.0, 2.0], None, [3.0, 4.0]], "base")
    assert by_layout.parse(message, "cdr").names == ("a", "bc")
    for size in range(len(message)):
        with pytest.raises(DamagedDataError):
            by_layout.parse(message[:size], "cdr")
    with pytest.raises(DamagedDataError, match="encapsulation"):
        by_layout.parse(b"\7" + message[1:], "cdr")
    old = struct.pack("<IIII", 9, 3_000_000_000, 5, 0) + struct.pack("<II", 1, 1) + b"a"
    old += struct.pack("<Id", 1, 1.5) + struct.pack("<I", 0) + struct.pack("<Id", 1, 2.5)
    layout = by_layout.parse(old, "ros1")
    rows = by_layout.even_rows(np.frombuffer(old, np.uint8), np.array([0]), len(old))
    assert layout.names == ("a",) and by_layout.stamps(layout, rows).tolist() == [3_000_000_000 * 10**9 + 5]
    assert by_layout.array(layout, rows, 0).tolist() == [[1.5]] and by_layout.array(layout, rows, 1) is None
    assert by_layout.array(layout, rows, 2).tolist() == [[2.5]] and by_layout.agrees(layout, rows).all()


def test_how_many_joints_a_message_may_have():
    assert len(by_layout.parse(joint_state(("a",) * 10_000, 5, [None] * 3), "cdr").names) == 10_000
    with pytest.raises(DamagedDataError, match="the message claims 10001 joints"):
        by_layout.parse(joint_state(("a",) * 10_001, 5, [None] * 3), "cdr")


@pytest.mark.parametrize("names", [(), ("a",), ("a", "bcd")])
def test_many_messages_are_those_made_one_by_one(names):
    rng = np.random.default_rng(0)
    stamps = np.array([0, 5, 10**9 - 1, 10**9, 1_700_000_000_123_456_789, -1])
    arrays = [rng.normal(size=(6, len(names))), None, rng.normal(size=(6, len(names)))]
    rows = joint_states(names, stamps, arrays, head=3)
    for k, row in enumerate(rows):
        values = [None if a is None else a[k] for a in arrays]
        assert row[3:].tobytes() == joint_state(names, int(stamps[k]), values) and not row[:3].any()
    assert joint_states(names, stamps, arrays).shape[1] == rows.shape[1] - 3
