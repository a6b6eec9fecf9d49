# SPDX-License-Identifier: Apache-2.0

"""What is done with samples before anything is computed from them: order, cuts, joints, joints by name, spectra."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import welch

from checked_rows import ROBOT, T, good
from ros2_dynid.errors import InputError, Note, NoteKind, remark
from ros2_dynid.identification.preparation.cutoffs import power_spectrum, third_octaves
from ros2_dynid.model.robot import Joint, Limits, Robot
from ros2_dynid.recording.checks import GREEN, RED, YELLOW, check_samples
from ros2_dynid.recording.playback import recorded_messages
from ros2_dynid.recording.read import joined_samples, load_samples, read_samples
from ros2_dynid.recording.samples import (
    Reading,
    Samples,
    Units,
    cut,
    in_order_of,
    longest_stretch,
    missing_joint,
    ordered,
    samples_of,
    shortened,
)
from ros2_dynid.recording.save import save_samples
from ros2_dynid.recording.wrench import read_wrenches

NAMES = ("a", "b", "c")


def numbered(t, fields=("q", "dq", "ddq", "tau", "q_r")):
    """Samples whose values tell their row, joint and field."""
    t = np.asarray(t, dtype=float)
    base = 10.0 * np.arange(len(t))[:, None] + np.arange(3)
    arrays = {field: base + 1000.0 * k for k, field in enumerate(("q", "dq", "ddq", "tau", "q_r")) if field in fields}
    return samples_of(t, NAMES, arrays, "test.csv")


def rows_of(samples):
    """The rows that every signal says it has."""
    found = [((array[:, 0] % 1000) / 10).round().astype(int).tolist() for array in samples.arrays().values()]
    assert all(rows == found[0] for rows in found)
    return found[0]


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("seed", range(6))
def test_order_is_that_of_a_plain_search(seed, size):
    """Late, repeated and unknown times: sorted, the first of each kept, and what that took is said."""
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.choice([0.0, 0.01, 0.02], size)) + rng.choice([0.0, -0.3], size, p=[0.8, 0.2])
    t[rng.random(size) < 0.1] = np.nan
    samples = numbered(t)
    found = ordered(samples)
    wanted, seen = [], set()
    for k in sorted((k for k in range(size) if np.isfinite(t[k])), key=lambda k: (t[k], k)):
        if t[k] not in seen:
            wanted.append(k)
            seen.add(t[k])
    assert rows_of(found) == wanted and list(found.t) == [t[k] for k in wanted]
    kept = [x for x in t if np.isfinite(x)]
    counts = {
        "without a time": size - len(kept),
        "sorted in": int(sum(b < a for a, b in itertools.pairwise(kept))),
        "repeat a stamp": len(kept) - len(wanted),
    }
    for words, count in counts.items():
        told = [note.text for note in found.notes if words in note.text]
        assert (told == []) if not count else (len(told) == 1 and told[0].startswith(f"{count} "))


@pytest.mark.parametrize(("back", "resets"), [(1.09, 0), (1.11, 1), (30.0, 1)])
@pytest.mark.parametrize("first", [40, 60])
def test_of_a_clock_that_was_set_the_longest_stretch_is_used(back, resets, first):
    t = np.arange(100) * 0.1
    t[first:] -= back
    rows, found = longest_stretch(t)
    assert found == resets
    longer = slice(0, 100) if not resets else slice(0, 60) if first == 60 else slice(40, 100)
    assert (rows.start, rows.stop) == (longer.start, longer.stop)
    if resets:
        kept = ordered(numbered(t))
        assert rows_of(kept) == list(range(longer.start, longer.stop))
        assert any("set back 1 times" in note.text and "60 of 100" in note.text for note in kept.notes)


@pytest.mark.parametrize(
    ("start", "end", "rows"),
    [
        (None, None, (0, 9)), (0.2, None, (2, 9)), (None, 0.7, (0, 7)), (0.2, 0.7, (2, 7)), (0.3, 0.3, (3, 3)),
        (-5.0, 0.05, (0, 0)), (0.85, 99.0, (9, 9)),
    ],
)  # fmt: skip
def test_cuts_keep_both_their_ends(start, end, rows):
    samples = numbered(np.arange(10) / 10)
    found = cut(samples, start, end)
    assert rows_of(found) == list(range(rows[0], rows[1] + 1)) and found.source == "test.csv"
    if start is None and end is None:
        assert found is samples


def test_cuts_that_leave_nothing_are_refused():
    samples = numbered(np.arange(10) / 10)
    with pytest.raises(InputError, match=r"the cut from 0.5 s to 0.4 s is empty"):
        cut(samples, 0.5, 0.4)
    with pytest.raises(InputError, match=r"no sample lies between 5 s and 6 s; the recording lasts from 0 to 0\.9 s"):
        cut(samples, 5.0, 6.0)
    with pytest.raises(InputError, match="no sample lies between the start and -1 s"):
        cut(samples, None, -1.0)
    with pytest.raises(InputError, match="it is empty"):
        cut(samples.take(slice(0, 0)), 0.0, 1.0)


def test_joints_by_name():
    samples = numbered(np.arange(4) / 10)
    assert in_order_of(samples, NAMES) is samples
    turned = in_order_of(samples, ("c", "a"))
    assert turned.joint_names == ("c", "a")
    for field, array in samples.arrays().items():
        np.testing.assert_array_equal(turned.arrays()[field], array[:, [2, 0]])
    with pytest.raises(InputError, match="joint 'x' of the robot is not in the recording, which has a, b, c"):
        in_order_of(samples, ("a", "x"))
    assert "which has no joints" in str(missing_joint(["x"], [], ""))
    assert "2 joints of the robot, 'x' first, are not in the recording, which has a" in str(
        missing_joint(["x", "y"], ["a"], "")
    )
    many = [f"j{k}" for k in range(13)]
    assert shortened(many[:12]) == ", ".join(many[:12])
    assert shortened(many) == ", ".join(many[:12]) + ", ... (13 in all)"
    assert shortened(["x" * 70, "y"]) == "x" * 60 + ", y" and shortened(["p", "q", "r"], 2) == "p, q, ... (3 in all)"


def test_arrays_that_do_not_fit_are_refused():
    good = numbered(np.arange(4) / 10)
    for field in ("q", "dq", "ddq", "tau", "q_r"):
        for wrong in (np.zeros((3, 3)), np.zeros((4, 2)), np.zeros(4)):
            with pytest.raises(InputError, match=f"{field} has shape .* beside 4 times and 3 joints"):
                good.with_arrays(good.t, good.arrays() | {field: wrong})
    with pytest.raises(InputError, match="time has shape"):
        Samples(np.zeros((4, 1)), NAMES, np.zeros((4, 3)))


def test_parts_that_know_different_signals():
    one, two = numbered([0.0, 0.1], ("q", "tau")), numbered([0.2], ("q", "dq"))
    both = joined_samples([one, two])
    assert list(both.t) == [0.0, 0.1, 0.2] and set(both.arrays()) == {"q", "dq", "tau"}
    np.testing.assert_array_equal(both.q, np.vstack((one.q, two.q)))
    np.testing.assert_array_equal(both.tau, np.vstack((one.tau, np.full((1, 3), np.nan))))
    np.testing.assert_array_equal(both.dq, np.vstack((np.full((2, 3), np.nan), two.dq)))
    unknown = one.with_arrays(one.t, {"q": one.q * np.nan, "tau": one.tau * np.nan})
    for parts in ([unknown], [unknown, unknown]):
        assert set(joined_samples(parts).arrays()) == {"q"}, "nothing is known of it anywhere"
    assert joined_samples([one]) is one


# --- spectra


@pytest.mark.parametrize(("rate", "count", "length"), [(100.0, 2000, 500), (100.0, 300, 300), (10.0, 400, 64)])
def test_spectra_are_welchs(rate, count, length):
    """Segments of 5 s, of 64 samples at least, of the whole if there is less; against scipy's of the same segments."""
    x = np.random.default_rng(0).normal(size=(count, 2)) * [1.0, 3.0] + [5.0, -2.0]
    f, P = power_spectrum([x], rate)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    wanted_f, wanted = welch(x, rate, window, length, length // 2, detrend="constant", axis=0)
    np.testing.assert_allclose(f, wanted_f[1:])
    np.testing.assert_allclose(P[:-1], wanted[1:-1], rtol=1e-9)
    np.testing.assert_allclose(P[-1], 2 * wanted[-1], rtol=1e-9)  # scipy does not double the last one
    df = f[1] - f[0]
    np.testing.assert_allclose(P.sum(axis=0) * df, [1.0, 9.0], rtol=0.15)


def test_stretches_count_by_their_segments_and_short_ones_not():
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(700, 1)), rng.normal(size=(900, 1)), 50.0 * rng.normal(size=(400, 1))]
    f, P = power_spectrum(parts, 100.0)
    each = [power_spectrum([part[k : k + 500]], 100.0)[1] for part in parts[:2] for k in range(0, len(part) - 499, 250)]
    assert len(each) == 3 and len(f) == 250
    np.testing.assert_allclose(P, np.mean(each, axis=0))


def test_third_octaves():
    f = np.arange(1.0, 65.0)
    P = np.column_stack((f, np.ones(64)))
    edges, mean = third_octaves(f, P)
    begin = 0.0
    for edge, (level, one) in zip(edges, mean, strict=True):
        band = f[(f > begin) & (f <= edge)]
        assert level == pytest.approx(band.mean()) and one == 1.0
        assert band[-1] / band[0] <= 2 ** (1 / 3) + 1e-9, "no wider than a third of an octave"
        begin = edge
    assert edges[-1] == 64.0 and list(edges[:4]) == [1.0, 2.0, 3.0, 4.0]
    centres = 2.0 ** (np.round(3 * np.log2(edges)) / 3)
    assert np.all(edges <= centres * 2 ** (1 / 6) + 1e-9)


# --- wrenches in tables


def wrench_table(path, header, rows):
    path.write_text("\n".join([header, *(",".join(str(x) for x in row) for row in rows)]))
    return path


@pytest.mark.parametrize("form", ["long", "short", "npz"])
def test_wrenches_in_tables_by_every_name(tmp_path, form):
    axes = ["force.x", "force.y", "force.z", "torque.x", "torque.y", "torque.z"]
    short = ["fx", "fy", "fz", "tx", "ty", "tz"]
    t = np.arange(30) / 10
    w = np.arange(180.0).reshape(30, 6)
    if form == "npz":
        path = tmp_path / "w.npz"
        np.savez(path, t=t, wrist=w)
    else:
        names = [f"wrist.{x}" for x in (axes if form == "long" else short)]
        order = [3, 0, 5, 1, 4, 2]
        header = ",".join(["other", *(names[k] for k in order), "time"])
        path = wrench_table(tmp_path / "w.csv", header, [[7, *row[order], s] for row, s in zip(w, t, strict=True)])
    found = read_wrenches(path, "wrist", 0)
    np.testing.assert_allclose(found.t, t)
    np.testing.assert_allclose(found.w, w)
    part = read_wrenches(path, "wrist", 0, Reading(start=0.5, end=2.2))
    assert part.t[0] == 0.5 and part.t[-1] == 2.2 and np.array_equal(part.w, w[5:23])
    with pytest.raises(InputError, match="only 15 wrenches"):
        read_wrenches(path, "wrist", 0, Reading(start=0.0, end=1.4))
    assert len(read_wrenches(path, "wrist", 0, Reading(start=0.0, end=1.5)).t) == 16
    with pytest.raises(InputError):
        read_wrenches(path, "elbow", 0)


def test_wrenches_that_are_none_are_left_out_and_the_first_of_a_time_counts(tmp_path):
    header = "time;s.fx;s.fy;s.fz;s.tx;s.ty;s.tz"
    rows = [[k, *range(k, k + 6)] for k in range(20)]
    rows[3][4] = "nan"
    rows[5][0] = 4
    rows.append([20, 1])
    path = tmp_path / "w.csv"
    path.write_text("\n".join([header, *(";".join(str(x) for x in row) for row in rows)]))
    found = read_wrenches(path, "s", 0)
    assert list(found.t) == [k for k in range(20) if k not in (3, 5)]
    np.testing.assert_array_equal(found.w[:, 0], found.t)
    path.write_text(f"{path.read_text()}\n{';'.join(map(str, range(7)))}")
    with pytest.raises(InputError, match="line 22 has 2 columns, its header 7; complete or remove it"):
        read_wrenches(path, "s", 0)  # a line that is cut off within, not at the end
    missing = wrench_table(tmp_path / "m.csv", "time,s.fx,s.fy,s.fz,s.tx,s.ty", [[0] * 6])
    with pytest.raises(InputError, match="wrench columns are missing"):
        read_wrenches(missing, "s", 0)
    np.savez(tmp_path / "x.npz", t=np.arange(4), s=np.zeros((4, 5)))
    with pytest.raises(InputError, match=r"s has shape \(4, 5\); give it the shape \(4, 6\)"):
        read_wrenches(tmp_path / "x.npz", "s", 0)
    np.savez(tmp_path / "y.npz", s=np.zeros((4, 6)))
    with pytest.raises(InputError, match=r"an array 's' of shape \(N, 6\), and t"):
        read_wrenches(tmp_path / "y.npz", "s", 0)


@pytest.mark.parametrize("form", ["csv", "npz"])
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_wrenches_of_a_table_count_from_where_its_joints_do(tmp_path, form, unit):
    """Dates count from the first; times have the table's unit, and a rate stands for all of them."""
    size = {"s": 1.0, "ms": 1e-3}[unit]
    t, w = 1.7e9 + np.arange(20) / 4, np.arange(120.0).reshape(20, 6)
    for name in ("time", "t", "stamp"):
        path = tmp_path / f"{name}.{form}"
        if form == "npz":
            np.savez(path, **{name: t / size, "q": w[:, :1], "s": w})
        else:
            header = ",".join([name, "joint1.position", *(f"s.{x}" for x in ("fx", "fy", "fz", "tx", "ty", "tz"))])
            rows = [[repr(float(a / size)), 0.0, *b] for a, b in zip(t, w, strict=True)]
            wrench_table(path, header, rows)
        reading = Reading(columns={"time": "stamp"} if name == "stamp" else None, units=Units(time=unit))
        joints = read_samples(path, reading=reading)
        found = read_wrenches(path, "s", joints.start_ns, reading)
        np.testing.assert_allclose(found.t, joints.t, atol=1e-6)
        np.testing.assert_allclose(found.t, np.arange(20) / 4, atol=1e-6)
        np.testing.assert_array_equal(found.w, w)
        even = read_wrenches(path, "s", joints.start_ns, replace(reading, rate=50.0))
        np.testing.assert_allclose(even.t, np.arange(20) / 50.0)


def test_wrenches_of_a_damaged_archive_are_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", t=np.arange(400.0), s=np.random.default_rng(0).normal(size=(400, 6)))
    data = (tmp_path / "a.npz").read_bytes()
    for damaged in (data[:-30], data[:2000] + bytes(200) + data[2200:], b"rubbish", b""):
        (tmp_path / "a.npz").write_bytes(damaged)
        with pytest.raises(InputError, match=r"it cannot be read: .*; give an npz file"):
            read_wrenches(tmp_path / "a.npz", "s", 0)


@pytest.mark.parametrize("form", ["a.csv", "a.npz", "a.mcap"])
def test_long_samples_are_saved_once_each(tmp_path, form):
    """They are written twenty thousand at a time."""
    t = np.arange(40_001) / 1000
    samples = Samples(t, ("a",), t[:, None])
    save_samples(samples, tmp_path / form)
    back = load_samples(tmp_path / form, in_order=False)
    assert np.array_equal(back.t, t) and np.array_equal(back.q[:, 0], t) and back.notes == ()


def test_a_bag_is_saved_with_the_topic_asked_for(tmp_path):
    samples = Samples(np.arange(3.0), ("a",), np.ones((3, 1)))
    for name, options, topic in (("a", {}, "/joint_states"), ("b.mcap", {"topic": "/left/states"}, "/left/states")):
        save_samples(samples, tmp_path / name, **options)
        assert {m.topic for m in recorded_messages(tmp_path / name)} == {topic}


@pytest.mark.parametrize("form", ["a.csv", "a.npz", "bag"])
def test_arrays_in_any_order_of_memory_are_saved_alike(tmp_path, form):
    q = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    samples = Samples(np.arange(8.0)[::2], ("a", "b", "c"), q, q[::-1], None, q[:, ::-1])
    save_samples(samples, tmp_path / form)
    back = load_samples(tmp_path / form)
    for field in ("t", "q", "dq", "tau"):
        np.testing.assert_array_equal(getattr(back, field), getattr(samples, field))


@pytest.mark.parametrize(("slow", "told"), [(0.15, True), (0.05, False)])
def test_a_joint_moves_above_a_tenth_of_its_largest_speed(slow, told):
    """Quick and fine for a while, then slow, with positions that are refreshed at every tenth sample."""
    t = np.arange(6000) / 500.0
    quick = t < 2.0
    q = np.where(quick, np.sin(5 * t), np.sin(10.0) + 5 * slow * 0.1 * np.sin((t - 2.0) / 0.1))
    q[~quick] = np.repeat(q[~quick][::10], 10)
    check = check_samples(Samples(t, ("a",), q[:, None], tau=t[:, None] % 0.37))
    assert any(p.kind == "quantised" and "repeats its value" in p.what for p in check.problems) == told


def test_samples_are_checked_as_they_were_recorded():
    t = np.arange(1000) / 100.0
    t[300], t[301], t[500] = t[301], t[300].copy(), t[499]
    t[700] = np.nan
    q = np.sin(np.arange(1000) / 50.0)[:, None]
    check = check_samples(Samples(t, ("a",), q, dq=q, tau=q))
    assert check.samples == 1000 and {"backward", "repeat", "nan"} <= {p.kind for p in check.problems}


def test_the_longest_stretch_between_settings_of_the_clock():
    t = np.concatenate((np.arange(5) + 100.0, np.arange(9.0), np.arange(4.0)))
    assert longest_stretch(t) == (slice(5, 14), 2) and longest_stretch(np.arange(4.0)) == (slice(0, 4), 0)


def kinds(found):
    return {(p.kind, p.joint, p.level) for p in found.problems}


def test_every_figure_of_a_good_recording():
    samples = good()
    found = check_samples(samples, ROBOT)
    assert found.problems == () and found.verdict == GREEN and found.source == "run"
    assert (found.samples, found.gap_count, found.missing_samples) == (5000, 0, 0)
    assert found.rate == pytest.approx(500.0) and found.duration == pytest.approx(9.998)
    for k, row in enumerate(found.joints):
        q, tau = samples.q[:, k], samples.tau[:, k]
        assert (row.name, row.level) == ("abc"[k], GREEN)
        assert (row.position_min, row.position_max) == (q.min(), q.max())
        assert row.effort_rms == pytest.approx(np.sqrt(np.mean(tau**2)))
        assert row.effort_max == pytest.approx(np.abs(tau).max())
        assert row.speed_max == pytest.approx(np.abs(samples.dq[:, k]).max(), rel=1e-3)
    assert found.joints[0].coverage == pytest.approx(np.ptp(samples.q[:, 0]) / 5.0)
    assert found.joints[1].coverage == pytest.approx(np.ptp(samples.q[:, 1]) / 1.0)
    assert found.joints[2].coverage is None
    assert all(row.coverage is None for row in check_samples(samples).joints)


def test_a_joint_that_may_not_move_has_no_coverage():
    locked = Robot("r", (Joint("a", 0, limits=Limits(1.0, 1.0)), *ROBOT.joints[1:]))
    assert [row.coverage is None for row in check_samples(good(), locked).joints] == [True, False, True]


def test_no_position_at_all_is_said_once():
    found = check_samples(replace(good(), q=np.full((5000, 3), np.nan)), ROBOT)
    assert [p.kind for p in found.problems if p.level == RED] == ["missing_position"]
    assert all(row.position_min is row.position_max is None for row in found.joints)


@pytest.mark.parametrize("field", ["dq", "tau"])
def test_limits_are_those_of_the_signal_and_the_joint(field):
    limit = {"dq": 4.0, "tau": 50.0}[field]
    values = getattr(good(), field).copy()
    values[:, 0] = np.clip(3.0 * limit * np.sin(5 * T), -limit, limit)
    found = check_samples(replace(good(), **{field: values}), ROBOT)
    assert ("saturation", "a", RED) in kinds(found)
    other = getattr(good(), field).copy()
    other[:, 2] = values[:, 0]
    assert ("saturation", "c", RED) not in kinds(check_samples(replace(good(), **{field: other}), ROBOT))


def test_units_are_those_of_the_kind_of_joint():
    samples = good()
    still = samples.q.copy()
    still[:, 0], still[:, 1] = 0.5 + 0.009 * np.sin(T), 0.1 + 0.0009 * np.sin(T)
    found = check_samples(replace(samples, q=still), ROBOT)
    told = {p.joint: p.what for p in found.problems if p.kind == "coverage"}
    assert "rad" in told["a"] and told["b"].endswith(" m") and "c" not in told
    slide = samples.q.copy()
    slide[:, 0], slide[:, 1] = 0.5 + 0.05 * np.sin(T), 0.1 + 0.05 * np.sin(T)
    levels = {
        p.joint: p.level for p in check_samples(replace(samples, q=slide), ROBOT).problems if p.kind == "coverage"
    }
    assert levels == {"a": YELLOW}, "0.1 rad are little, 0.1 m are not"


def test_figures_are_those_of_the_samples_in_order():
    samples, plain = good(), check_samples(good(), ROBOT)
    rows = np.arange(5000)
    rows[1000:1010] = rows[1009:999:-1]
    rows = np.insert(rows, 2000, 1999)
    mixed = check_samples(samples.take(rows), ROBOT)
    assert mixed.joints == plain.joints and {p.kind for p in mixed.problems} == {"backward", "gap", "repeat"}
    assert mixed.samples == 5001 and mixed.duration == plain.duration
    turned = samples.take(np.concatenate((rows[10:20], rows[:10], rows[20:-10], rows[-1:], rows[-10:-1])))
    assert check_samples(turned, ROBOT).duration == plain.duration, "from the first to the last, whichever came when"


def test_notes_of_the_reader_are_problems_too():
    notes = (Note(NoteKind.DAMAGE, "cut short"), Note(NoteKind.STAMPS, "late"), remark("by the way"))
    found = check_samples(replace(good(), notes=notes), ROBOT)
    assert [(p.kind, p.level, p.what) for p in found.problems] == [
        ("damaged", YELLOW, "cut short"),
        ("stamps", YELLOW, "late"),
    ]
    assert found.notes == ("cut short", "late", "by the way") and found.verdict == YELLOW


def test_a_velocity_is_compared_only_where_the_joint_moves():
    samples = good()
    wrong = samples.dq.copy()
    wrong[:, 0] *= -1.0
    assert ("velocity_unit", "a", YELLOW) in kinds(check_samples(replace(samples, dq=wrong), ROBOT))
    q = samples.q.copy()
    q[:, 0] = 0.5 + 0.005 * np.sin(T)
    still = check_samples(replace(samples, dq=wrong, q=q), ROBOT)
    assert not any(p.kind == "velocity_unit" for p in still.problems)
