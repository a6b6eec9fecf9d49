# SPDX-License-Identifier: Apache-2.0

"""A recording streamed in pieces is the one that load_samples returns whole."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.cli import main
from ros2_dynid.errors import InputError, Note, remark
from ros2_dynid.recording.read import iter_samples, largest_delay, load_samples, outline_of, streamed
from ros2_dynid.recording.samples import Samples, cut, ordered
from ros2_dynid.recording.save import save_pieces


def awkward(seed: int, count: int = 3000) -> Samples:
    """Return samples that are late by up to 3 s in small steps, repeat stamps, lack times and a field, and a reset."""
    rng = np.random.default_rng(seed)
    t = np.round(np.sort(rng.uniform(0, 60, count)), 2)  # with repeats
    t[rng.integers(0, count, 20)] = np.nan
    for begin in rng.integers(0, count - 100, 8):
        t[begin : begin + 4] = t[begin] - np.array([0.0, 0.9, 1.8, 2.7])
    t = np.concatenate((t, rng.permutation(np.arange(300)) * 1e-3))  # the clock is set back
    q = rng.normal(size=(len(t), 2))
    dq = np.full_like(q, np.nan)
    dq[count * 2 // 3 :] = 1.0
    return Samples(t, ("a", "b"), q, dq, np.full_like(q, np.nan), source="awkward", start_ns=10**18)


def in_pieces(samples: Samples, size: int):
    """Return a reader that yields so many samples at a time; pieces without a known velocity have none."""

    def read(notes: list[Note]):
        notes.append(remark("read"))
        for begin in range(0, len(samples), size):
            piece = samples.take(slice(begin, begin + size))
            arrays = piece.arrays()
            known = {field: values for field, values in arrays.items() if field == "q" or not np.isnan(values).all()}
            yield piece.with_arrays(piece.t, known)

    return read


@pytest.mark.parametrize("size", (1, 17, 1000, 10_000))
@pytest.mark.parametrize("cuts", ((None, None), (10.0, 40.0)))
def test_pieces_are_the_whole(size, cuts):
    samples = awkward(1) if size > 1 else awkward(2, 800)
    expected = cut(ordered(samples), *cuts)
    found = streamed(in_pieces(samples, size), *cuts)
    pieces = list(found.pieces)
    assert np.array_equal(np.concatenate([piece.t for piece in pieces]), expected.t)
    for field in ("q", "dq"):
        joined = np.concatenate([piece.arrays()[field] for piece in pieces])
        assert np.array_equal(joined, expected.arrays()[field], equal_nan=True)
    assert found.outline.fields == ("q", "dq") and found.outline.count == len(expected)
    assert found.outline.notes == (remark("read"), *expected.notes) and found.outline.start_ns == 10**18
    assert (found.outline.first, found.outline.last) == (expected.t[0], expected.t[-1])


@pytest.mark.parametrize("size", (1, 7, 100, 500))
@pytest.mark.parametrize("place", (0, 1, 2))
def test_the_longest_stretch_wherever_it_is(size, place):
    """Three stretches between settings of the clock, each with times of its own."""
    lengths = [40, 40, 40]
    lengths[place] = 90
    t = np.concatenate([100.0 * (3 - k) + np.arange(n) * 0.01 for k, n in enumerate(lengths)])
    t[[3, 50, 130]] = np.nan
    samples = Samples(t, ("a", "b"), np.column_stack((t, np.arange(len(t)))))
    found = streamed(in_pieces(samples, size))
    pieces = list(found.pieces)
    expected = ordered(samples)
    assert len(expected) in (89, 88) and found.outline.count == len(expected)
    np.testing.assert_array_equal(np.concatenate([piece.t for piece in pieces]), expected.t)
    np.testing.assert_array_equal(np.concatenate([piece.q for piece in pieces]), expected.q)


def test_a_cut_that_leaves_nothing_is_refused():
    with pytest.raises(InputError, match="no sample lies between"):
        streamed(in_pieces(awkward(3), 100), 1000.0, 2000.0)


def test_a_recording_that_grows_while_it_is_converted_leaves_nothing_behind(tmp_path):
    samples = ordered(awkward(4))
    for name in ("a.csv", "a.npz", "a.mcap", "bag"):
        with pytest.raises(InputError, match="read again"):
            save_pieces(outline_of(samples), [samples, samples.take(slice(0, 5))], tmp_path / name, overwrite=False)
        with pytest.raises(InputError, match="read again"):
            save_pieces(outline_of(samples), [samples.take(slice(1, None))], tmp_path / name, overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_a_large_table_is_read_and_converted_in_parts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ros2_dynid.recording.table.csv_file.READ_BYTES", 1 << 20)
    rows = 21_000
    q = np.random.default_rng(0).normal(size=(rows, 2))
    samples = Samples(np.arange(rows) * 1e-3, ("j0", "j1"), q, q + 1, None, q + 2)
    save_pieces(outline_of(samples), [samples], tmp_path / "in.csv", overwrite=False)
    assert sum(1 for _ in iter_samples(tmp_path / "in.csv")) > 1
    for target in ("out.npz", "out.mcap"):
        assert main(["convert", str(tmp_path / "in.csv"), str(tmp_path / target)]) == 0
        read = load_samples(tmp_path / target)
        assert np.array_equal(read.q, q) and np.array_equal(read.dq, q + 1) and np.array_equal(read.tau, q + 2)
    capsys.readouterr()


@pytest.mark.parametrize("size", (3, 50))
def test_samples_that_are_late_are_put_where_they_belong(size):
    """One in ten comes up to 0.05 s late; times are even."""
    rng = np.random.default_rng(0)
    t = 5.0 + np.arange(400) * 0.01
    order = np.argsort(t + np.where(np.arange(400) % 10 == 3, 0.05 * rng.uniform(size=400), 0.0), kind="stable")
    q = np.column_stack((t, -t))[order]
    samples = Samples(t[order], ("a", "b"), q, source="late")
    assert np.count_nonzero(np.diff(samples.t) < 0) > 10
    found = streamed(in_pieces(samples, size))
    pieces = list(found.pieces)
    np.testing.assert_array_equal(np.concatenate([piece.t for piece in pieces]), t)
    np.testing.assert_array_equal(np.concatenate([piece.q for piece in pieces])[:, 1], -t)
    late = max(samples.t[:k].max() - samples.t[k] for k in range(1, 400))
    assert largest_delay(samples.t) == pytest.approx(late) and late > 0.01
    assert largest_delay(t) == 0.0 and largest_delay(np.empty(0)) == 0.0
    assert sum(len(piece) > 0 for piece in pieces) > 400 / size / 20, "it does not wait for the end"


@pytest.mark.parametrize("first", (True, False))
def test_a_clock_set_back_by_hours_does_not_make_all_samples_wait(first):
    """A recording larger than memory must not be held because its clock was set: only what is late waits."""
    short, long = 7200.0 + np.arange(100) * 0.01, np.arange(5000) * 0.01
    long[10::50] -= 0.045  # late by as much
    t = np.concatenate((short, long) if first else (long + 14400.0, short))
    samples = Samples(t, ("a",), np.arange(len(t), dtype=float)[:, None])
    pieces = list(streamed(in_pieces(samples, 200)).pieces)
    assert np.array_equal(np.concatenate([piece.q for piece in pieces]), ordered(samples).q)
    assert max(len(piece) for piece in pieces) <= 300 and sum(map(len, pieces)) == 5000
