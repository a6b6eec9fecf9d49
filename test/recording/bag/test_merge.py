# SPDX-License-Identifier: Apache-2.0

"""Merge partial joint states into complete samples: each publisher is a track, and tracks complete each other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ros2_dynid.recording.bag.decode import Decoded
from ros2_dynid.recording.bag.merge import EPOCH_LIKE, Merger, find_uncovered


def test_nothing_is_interpolated_beyond_the_ends_nor_across_a_gap():
    """A gap is longer than ten periods, and than 50 ms."""
    ms = 1_000_000
    for period, pause, gap in ((1, 45, False), (1, 55, True), (10, 95, False), (10, 105, True)):
        first = np.arange(20) * period * ms
        stamp = np.concatenate((first, first[-1] + pause * ms + first))
        at = np.array(
            [
                -1,
                0,
                first[-1],
                first[-1] + 1,
                first[-1] + pause * ms - 1,
                first[-1] + pause * ms,
                stamp[-1],
                stamp[-1] + 1,
            ]
        )
        wanted = [True, False, False, gap, gap, False, False, True]
        assert find_uncovered(at, stamp, period * ms).tolist() == wanted
    assert find_uncovered(np.array([4, 5, 6]), np.array([5]), 0.0).tolist() == [True, False, True]
    gaps = np.array([0, 500, 1000]) * ms
    at = np.array([0, 1, 500, 999, 1000]) * ms
    assert find_uncovered(at, gaps, 5.0 * ms).tolist() == [False, True, False, True, False], "what is known is no gap"


@pytest.fixture(autouse=True)
def chunks_end_where_they_are_told(monkeypatch):
    monkeypatch.setattr("ros2_dynid.recording.bag.writer.CHUNK_SECONDS", 1e9)


def decoded(rows, stamp, names, **arrays):
    return Decoded(np.asarray(rows), np.asarray(stamp, np.int64), tuple(names), arrays)


def feed(merger, topic, stamp, names, logged=None, **arrays):
    """Give the messages of one publisher, in a block of their own, logged 5 ns later unless said otherwise."""
    if len(stamp):
        logged = np.asarray(stamp) + 5 if logged is None else np.asarray(logged)
        merger.add(topic, [decoded(np.arange(len(stamp)), stamp, names, **arrays)], logged)


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_what_one_publisher_lacks_is_interpolated_from_another_in_any_pieces(parts):
    rng = np.random.default_rng(parts)
    start = 10**18
    a = start + np.sort(rng.choice(2_000_000_000, 400, replace=False)).astype(np.int64)
    b = start + 300_000_000 + 7_500_000 * np.arange(200) + rng.integers(0, 5_000_000, 200)
    qa, qb = rng.normal(size=(400, 2)), rng.normal(size=(200, 1))
    tau = rng.normal(size=(200, 1))
    merger = Merger(("z", "x", "y"))
    windows = []
    edges = np.linspace(start, start + 2_000_000_000, parts + 1)
    for low, high in pairwise(edges):
        for topic, t, names, arrays in (
            ("/a", a, ("y", "x"), {"q": qa}), ("/b", b, ("z",), {"q": qb, "tau": tau})
        ):  # fmt: skip
            inside = (t >= low) & (t < high)
            feed(merger, topic, t[inside], names, **{f: v[inside] for f, v in arrays.items()})
        windows.append(merger.window())
    windows.append(merger.window(final=True))
    windows = [w for w in windows if w is not None]
    stamp = np.concatenate([w.stamp for w in windows])
    known = (a >= b[0]) & (a <= b[-1])
    expected = a[known]
    np.testing.assert_array_equal(stamp, expected)
    q = np.concatenate([w.arrays["q"] for w in windows])
    at, of = (expected - start).astype(float), (b - start).astype(float)
    np.testing.assert_allclose(q[:, 0], np.interp(at, of, qb[:, 0]), atol=1e-9)
    np.testing.assert_array_equal(q[:, 1:], qa[known][:, ::-1])
    both = np.concatenate([w.arrays["tau"] for w in windows])
    np.testing.assert_allclose(both[:, 0], np.interp(at, of, tau[:, 0]), atol=1e-9)
    assert np.isnan(both[:, 1:]).all() and merger.interpolated == {"z"}
    assert merger.dropped == np.count_nonzero(~known) and merger.waiting == 0 and merger.unstamped == 0
    assert list(merger.seen_names) == ["y", "x", "z"] and merger.stamps == "header"


def test_which_stamps_count():
    for header, wanted, used in (
        ([0, 0, 0], "auto", "bag"), ([0, 0, 7], "auto", "header"), ([1, 2, 3], "bag", "bag"),
        ([0, 0, 0], "header", "header"),
    ):  # fmt: skip
        merger = Merger(None, wanted)
        feed(merger, "/a", header, ("x",), [11, 12, 13], q=np.ones((3, 1)))
        window = merger.window(final=True)
        assert merger.stamps == used and window.stamp.tolist() == ([11, 12, 13] if used == "bag" else header)
    dates = [EPOCH_LIKE + k for k in range(1, 5)]
    merger = Merger(None)
    feed(merger, "/a", [dates[0], 0, *dates[1:]], ("x",), q=np.arange(5.0)[:, None])
    window = merger.window(final=True)
    assert (
        window.stamp.tolist() == dates and window.arrays["q"][:, 0].tolist() == [0, 2, 3, 4] and merger.unstamped == 1
    )
    merger = Merger(None)
    feed(merger, "/a", [0, 1, 2], ("x",), q=np.ones((3, 1)))  # simulated time begins at zero
    assert merger.window(final=True).stamp.tolist() == [0, 1, 2] and merger.unstamped == 0


def test_joints_that_never_come_together():
    merger = Merger(("x", "y"))
    feed(merger, "/a", [1, 2, 3], ("x",), q=np.ones((3, 1)))
    assert merger.window(final=True) is None and merger.dropped == 3 and Merger(None).window() is None
    feed(merger, "/a", [1, 2], ("q",), q=np.ones((2, 1)))
    assert merger.window(final=True) is None and merger.dropped == 3 and list(merger.seen_names) == ["x", "q"]
    merger = Merger(("x", "y"))
    feed(merger, "/a", [1, 2, 3], ("x",), q=np.ones((3, 1)))
    feed(merger, "/b", [7, 8, 9], ("y",), q=np.ones((3, 1)))
    assert merger.window(final=True) is None and merger.dropped == 3, "one before the other"


def test_a_publisher_that_adds_a_field_or_a_joint_stays_one():
    merger = Merger(("x",))
    feed(merger, "/a", [1, 2], ("x",), q=np.array([[1.0], [2.0]]))
    feed(merger, "/a", [3], ("x",), q=np.array([[3.0]]), tau=np.array([[30.0]]))
    feed(merger, "/a", [4], ("foreign", "x"), q=np.array([[9.0, 4.0]]), tau=np.array([[9.0, 40.0]]))
    window = merger.window(final=True)
    assert window.stamp.tolist() == [1, 2, 3, 4] and window.arrays["q"][:, 0].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(window.arrays["tau"][:, 0], [np.nan, np.nan, 30.0, 40.0])
    assert merger.dropped == 0 and not merger.interpolated
