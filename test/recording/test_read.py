# SPDX-License-Identifier: Apache-2.0

"""A recording read once in pieces is the one that load_samples returns whole."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from bagmaker import joint_state as bag_state
from bagmaker import plain_messages, write_bag
from joint_state_batches import states
from ros2_dynid.confined import Folder
from ros2_dynid.errors import InputError, Note, remark
from ros2_dynid.recording.checks.timing import check_timing
from ros2_dynid.recording.read import ClockSetBackError, Growing, ahead, in_order, iter_samples, outline_of, streamed
from ros2_dynid.recording.samples import Reading, Samples, cut, longest_stretch, ordered


def awkward(seed: int, count: int = 3000) -> Samples:
    """Return samples that come late by up to 0.9 s, repeat stamps, lack times, and a velocity at first."""
    rng = np.random.default_rng(seed)
    t = np.round(np.sort(rng.uniform(0, 60, count)), 2)  # with repeats
    t[rng.integers(0, count, 20)] = np.nan
    for begin in rng.integers(0, count - 100, 8):
        t[begin : begin + 3] = t[begin] - np.array([0.0, 0.5, 0.9])
    q = rng.normal(size=(len(t), 2))
    dq = np.full_like(q, np.nan)
    dq[count * 2 // 3 :] = 1.0
    return Samples(t, ("a", "b"), q, dq, np.full_like(q, np.nan), source="awkward", start_ns=10**18)


def reader(samples: Samples, size: int, count: Counter | None = None):
    """Return a reader that yields so many samples at a time; pieces without a known velocity have none."""

    def read(notes: list[Note]):
        notes.append(remark("read"))
        for begin in range(0, len(samples), size):
            if count is not None:
                count["pieces"] += 1
            piece = samples.take(slice(begin, begin + size))
            known = {f: x for f, x in piece.arrays().items() if f == "q" or not np.isnan(x).all()}
            yield piece.with_arrays(piece.t, known)

    return read


@pytest.mark.parametrize("size", (1, 17, 1000, 10_000))
@pytest.mark.parametrize("cuts", ((None, None), (10.0, 40.0)))
def test_pieces_are_the_whole_and_are_read_once(size, cuts):
    samples = awkward(1) if size > 1 else awkward(2, 1500)
    expected, whole = cut(ordered(samples), *cuts), ordered(samples)
    notes: list[Note] = []
    count: Counter = Counter()
    pieces = list(in_order(reader(samples, size, count), notes, *cuts, size=500))
    assert count["pieces"] == -(-len(samples) // size)
    assert np.array_equal(np.concatenate([piece.t for piece in pieces]), expected.t)
    assert np.array_equal(np.concatenate([piece.q for piece in pieces]), expected.q)
    assert expected.dq is not None
    known = np.concatenate([np.full_like(p.q, np.nan) if p.dq is None else p.dq for p in pieces])
    assert np.array_equal(known, expected.dq, equal_nan=True)
    assert notes == [remark("read"), *whole.notes]
    assert size == 10_000 or len(pieces) > 1


def test_a_clock_that_was_set_back_needs_another_reading():
    samples = awkward(3)
    t = samples.t.copy()
    t[1500:] -= 30.0
    with pytest.raises(ClockSetBackError):
        list(in_order(reader(samples.with_arrays(t, samples.arrays()), 100), [], size=500))


def test_a_step_back_of_a_whole_second_is_still_late():
    for back, late in ((1.0, True), (1.25, False)):
        t = np.array([0.0, 2.0, 2.0 - back, 3.0])
        samples = Samples(t, ("a",), t[:, None])
        assert longest_stretch(t)[1] == (0 if late else 1)
        told = [problem.what for problem in check_timing(t).problems if problem.kind == "backward"]
        assert told == [
            "1 stamps step back, by up to 1e+03 ms" if late else "the clock was set back 1 times, by up to 1.25 s"
        ]
        if late:
            assert [piece.t.tolist() for piece in in_order(reader(samples, 4), [], size=9)] == [[0.0, 1.0, 2.0, 3.0]]
        else:
            with pytest.raises(ClockSetBackError):
                list(in_order(reader(samples, 4), [], size=9))


@pytest.mark.parametrize("size", [1, 4, 40])
@pytest.mark.parametrize(
    ("start", "end", "rows"),
    [(None, None, (0, 39)), (1.0, 3.5, (4, 14)), (None, 0.0, (0, 0)), (9.75, None, (39, 39)), (2.6, 2.75, (11, 11))],
)
def test_cuts_keep_both_their_ends(size, start, end, rows):
    t = np.arange(40) / 4
    samples = Samples(t, ("a",), t[:, None])
    pieces = list(in_order(reader(samples, size), [], start, end, size=5))
    again = list(streamed(reader(samples, size), start, end).pieces)
    for found in (pieces, again):
        assert np.concatenate([piece.t for piece in found]).tolist() == t[rows[0] : rows[1] + 1].tolist()
        assert all(np.array_equal(piece.q[:, 0], piece.t) for piece in found)


def test_a_cut_that_leaves_nothing_is_refused():
    with pytest.raises(InputError, match=r"no sample lies between.*lasts from"):
        list(in_order(reader(awkward(4), 100), [], 1000.0, 2000.0, size=500))


def test_torques_on_a_topic_of_a_bag(tmp_path):
    messages, *_, tau = plain_messages(60)
    more = [
        ("/sensed", when, type(m)(m.header, m.name, m.position, m.velocity, 2 * m.effort)) for _, when, m in messages
    ]
    bag = write_bag(tmp_path / "bag", [*messages, *more])
    (found,) = iter_samples(bag, reading=Reading(topic="/joint_states", torque_topic="/sensed"))
    np.testing.assert_allclose(found.tau_l, 2 * tau)
    np.testing.assert_array_equal(found.tau, tau)


def test_torques_are_timed_as_the_states_are(tmp_path):
    """The sensor's own clock is off by a second, but its messages were recorded beside those of the joints."""
    messages, names, stamps, *_, tau = plain_messages(60)
    sensed = [
        ("/sensed", when, bag_state(int(s) + 10**9, names, effort=3 * tau[k]))
        for k, ((_, when, _), s) in enumerate(zip(messages, stamps, strict=True))
    ]
    bag = write_bag(tmp_path / "bag", [*messages, *sensed])
    reading = Reading(topic="/joint_states", torque_topic="/sensed", stamps="bag")
    (found,) = iter_samples(bag, reading=reading)
    np.testing.assert_allclose(found.tau_l, 3 * tau)
    (found,) = iter_samples(bag, reading=replace(reading, stamps="header"))
    assert np.isnan(found.tau_l).all()


def test_pieces_are_read_one_ahead_in_one_thread():
    threads, closed = set(), []

    def pieces():
        try:
            for k in range(4):
                threads.add(threading.current_thread())
                yield states([k], ("a",), None)
        finally:
            closed.append(threading.current_thread())

    assert [float(s.t[0]) for s in ahead(pieces())] == [0.0, 1.0, 2.0, 3.0]
    assert len(threads) == 1 and threading.current_thread() not in threads
    closed.clear()
    early = ahead(pieces())
    next(early)
    early.close()
    assert len(closed) == 1


def test_the_next_piece_is_read_while_the_caller_works():
    second = threading.Event()

    def pieces():
        yield states([0.0], ("a",), None)
        second.set()
        yield states([1.0], ("a",), None)

    found = ahead(pieces())
    assert next(found).t.tolist() == [0.0] and second.wait(30.0), "though nobody asked for it yet"
    assert [piece.t.tolist() for piece in found] == [[1.0]]


def test_arrays_grow_with_nan_where_rows_are_missing():
    growing = Growing()
    growing.append(np.ones((2, 3)), 1)
    growing.append(np.full((20, 3), 2.0), 5)
    assert len(growing) == 25
    array = growing.array(27)
    expected = np.full((27, 3), np.nan)
    expected[1:3], expected[5:25] = 1.0, 2.0
    np.testing.assert_array_equal(array, expected)


def test_the_outline_of_samples():
    t = np.array([0.5, 1.5, 4.0])
    samples = Samples(t, ("a", "b"), np.zeros((3, 2)), tau=np.ones((3, 2)), source="x", start_ns=7)
    found = outline_of(samples)
    assert (found.first, found.last, found.count, found.fields) == (0.5, 4.0, 3, ("q", "tau"))
    assert (found.joint_names, found.start_ns, found.source, found.notes) == (("a", "b"), 7, "x", ())
    none = outline_of(samples.take(slice(0, 0)))
    assert (none.first, none.last, none.count) == (0.0, 0.0, 0)


def test_paths_stay_in_their_folder(tmp_path):
    folder = Folder(tmp_path / "in")
    (tmp_path / "secret").write_text("x")
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    (tmp_path / "in" / "bag").mkdir()
    assert folder.existing("bag") == tmp_path / "in" / "bag"
    assert folder.existing(str(tmp_path / "in" / "bag")) == tmp_path / "in" / "bag"
    for name in ("../secret", str(tmp_path / "secret"), "link/secret", "", ".", "a\0b"):
        with pytest.raises(InputError):
            folder.existing(name)
    with pytest.raises(InputError, match="exists already"):
        folder.new("bag")
    assert folder.new("bag", unique=True).name == "bag_2"
