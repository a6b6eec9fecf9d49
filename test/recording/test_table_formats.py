# SPDX-License-Identifier: Apache-2.0

"""Parts of tables by their definitions: headers, numbers, column maps, archives, and how lines are cut from a file."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError, Note, damage
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot
from ros2_dynid.recording.samples import SI, SUFFIXES, Reading, Samples, Units, in_si
from ros2_dynid.recording.table import csv_file
from ros2_dynid.recording.table.column_map import assign_columns, expand_columns, parse_columns
from ros2_dynid.recording.table.csv_file import iter_csv, read_header, read_lines, read_numbers
from ros2_dynid.recording.table.npz_file import read_npz
from ros2_dynid.recording.table.read_table import WALL_CLOCK, iter_table

ROBOT = Robot("two", (Joint("arm.base", 0), Joint("slide", 1, sigma=PRISMATIC)))


# --- which column is which


def test_every_signal_of_every_joint_has_its_column():
    header = ["extra", "time", *(f"{joint}.{word}" for word in SUFFIXES.values() for joint in ("b", "a.x"))]
    time, signals = assign_columns(header, None, {}, "s")
    assert time == 1 and len(signals) == 2 * len(SUFFIXES)
    for (field, joint), column in signals.items():
        assert header[column] == f"{joint}.{SUFFIXES[field]}"


@pytest.mark.parametrize(
    ("header", "columns", "time", "position"),
    [
        (["time", "t", "a.position"], {}, 0, 2),
        (["t", "a.position"], {}, 0, 1),
        (["Time", "a.position"], {}, 0, 1),
        (["x", "a.position"], {}, None, 1),
        (["time", "stamp", "a.position"], {"time": "stamp"}, 1, 2),
        (["time", "a.position", "q"], {"a.position": "q"}, 0, 2),
        (["time", "a.position", "a.position"], {}, 0, 1),  # of two with one name the first
        (["time", "b.position"], {"a.position": "b.position"}, 0, 1),
    ],
)
def test_time_and_maps(header, columns, time, position):
    assert assign_columns(header, None, columns, "s") == (time, {("q", "a"): position})


def test_maps_for_all_joints_and_one_by_one():
    found = expand_columns({"{name}.position": "q{j}", "time": "stamp", "{name}.effort": "tau[{i}]"}, ("x", "y"))
    assert found == {
        "x.position": "q1", "y.position": "q2", "time": "stamp", "x.effort": "tau[0]", "y.effort": "tau[1]",
    }  # fmt: skip
    assert expand_columns({"a.position": "q"}, None) == {"a.position": "q"}
    for mark in ("{name}", "{j}", "{i}"):
        with pytest.raises(InputError, match="stands for all joints"):
            expand_columns({"a.position": f"q{mark}"}, None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, {}),
        ("", {}),
        ("time=stamp", {"time": "stamp"}),
        ("stamp=time", {"time": "stamp"}),
        ("t=a, a.position = q1 ,q2=b.position", {"t": "a", "a.position": "q1", "b.position": "q2"}),
        ("x=y", {"x": "y"}),
        ("q=pos,time=t", {"q": "pos", "time": "t"}),
        ("a.effort=b.effort", {"a.effort": "b.effort"}),
    ],
)
def test_maps_in_words(text, found):
    assert parse_columns(text) == found


def test_maps_in_files(tmp_path):
    file = tmp_path / "map.yaml"
    file.write_text("stamp: time\na.position: 3\n")
    assert parse_columns(str(file)) == {"time": "stamp", "a.position": "3"}
    for text in ("[1, 2]", "word", "time: [stamp]"):
        file.write_text(text)
        with pytest.raises(InputError, match="this is not a column map"):
            parse_columns(str(file))
    for data in (b"a: [", b"\xff: time", b"[" * 20_000, b"- " * 20_000):
        file.write_bytes(data)
        with pytest.raises(InputError, match="not YAML"):
            parse_columns(str(file))
    with pytest.raises(InputError, match="'time' is not a column map"):
        parse_columns("time")


# --- headers and numbers


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["time,a", "0,1"], (["time", "a"], ",", 1)),
        (["", "time ; a", "0;1"], (["time", "a"], ";", 2)),
        (["time\ta"], (["time", "a"], "\t", 1)),
        (["time  a b"], (["time", "a", "b"], " ", 1)),
        (['time,"a,b",c'], (["time", "a,b", "c"], ",", 1)),
        (["# time,a", "0,1"], (["time", "a"], ",", 1)),
        (["# made by x", "# time a", "0 1"], (["time", "a"], " ", 2)),
        (["# made by", "time,a", "0,1"], (["time", "a"], ",", 2)),
        (["time,,a", "0,1,2"], (["time", "", "a"], ",", 1)),
    ],
)
def test_headers(lines, found):
    assert read_header(lines, "s") == found


@pytest.mark.parametrize("lines", [[], ["", ""], ["0,1", "time,a"], ["# time", "0,1"], ["1"], ["nan,inf"], [","]])
def test_tables_without_a_header(lines):
    with pytest.raises(InputError, match="no header that names its columns"):
        read_header(lines, "s")


def test_a_header_is_looked_for_in_the_first_thousand_lines(monkeypatch):
    assert read_header([""] * 999 + ["time,a"], "s")[2] == 1000
    with pytest.raises(InputError, match="no header"):
        read_header([""] * 1000 + ["time,a"], "s")
    monkeypatch.setattr(csv_file, "MAX_COLUMNS", 3)
    assert len(read_header(["a,b,c"], "s")[0]) == 3
    with pytest.raises(InputError, match="names 4 columns"):
        read_header(["a,b,c,d"], "s")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["0,1", "2"], r"line 12 has 1 columns, its header 2"),
        (["0,x"], r"line 11, column 'b': 'x' is not a number"),
        (["0,1", "2,3", "4,5,,", "y,1"], r"line 14, column 'a': 'y'"),
    ],
)
def test_lines_that_cannot_be_read_are_named(lines, words):
    with pytest.raises(InputError, match=words):
        read_numbers(lines, ",", [0, 1], ["a", "b"], 10, "s")


@pytest.mark.parametrize("read", [1, 2, 3, 5, 7, 64])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_lines_of_a_file_whatever_is_read_at_a_time(tmp_path, monkeypatch, read, end):
    monkeypatch.setattr(csv_file, "READ_BYTES", read)
    lines = ["time,a", "0,1", "", "2,3", "44444,5"]
    newline = end or "\n"
    (tmp_path / "a.csv").write_bytes(("\ufeff" + newline.join(lines) + end).encode())
    found = [line for block in read_lines(tmp_path / "a.csv") for line in block]
    assert [line.lstrip("\ufeff") for line in found if line] == [line for line in lines if line]
    (tmp_path / "b.csv").write_bytes(b"")
    assert list(read_lines(tmp_path / "b.csv")) == []


def test_lines_that_are_too_long_and_what_is_no_text(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "READ_BYTES", 16)
    monkeypatch.setattr(csv_file, "MAX_LINE", 40)
    file = tmp_path / "a.csv"
    for text in (b"x" * 40 + b"\n1\n", b"1\n" + b"x" * 38):
        file.write_bytes(text)
        assert sum(map(len, read_lines(file))) == 2
    for text in (b"x" * 60, b"1\n" + b"x" * 60):
        file.write_bytes(text)
        with pytest.raises(InputError, match="longer than 40 bytes"):
            list(read_lines(file))
    file.write_bytes(b"a\nb\0\n")
    with pytest.raises(InputError, match="not a text file"):
        list(read_lines(file))


@pytest.mark.parametrize("end", [b"", b"\n1,2\n"])
def test_a_line_may_have_four_megabytes(tmp_path, end):
    file = tmp_path / "a.csv"
    file.write_bytes(b"x" * (4 << 20) + end)
    assert len(next(read_lines(file))[0]) == 4 << 20
    file.write_bytes(b"x" * ((4 << 20) + 1) + end)
    with pytest.raises(InputError, match="a line is longer than 4194304 bytes"):
        list(read_lines(file))


@pytest.mark.parametrize(("count", "good"), [(20_000, True), (20_001, False)])
def test_how_many_columns_a_table_may_have(count, good):
    lines = [",".join(f"c{k}" for k in range(count))]
    if good:
        assert len(read_header(lines, "a.csv")[0]) == count
    else:
        with pytest.raises(InputError, match="names 20001 columns; give at most 20000"):
            read_header(lines, "a.csv")


@pytest.mark.parametrize("read", [10, 8 << 20])
def test_a_table_in_pieces(tmp_path, monkeypatch, read):
    monkeypatch.setattr(csv_file, "READ_BYTES", max(read, 40))
    rows = [[0.5 * k, k, 10 * k, -k] for k in range(30)]
    text = "time,b.position,a.position,a.effort\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    file = tmp_path / "a.csv"
    file.write_text(text)
    notes: list[Note] = []
    pieces = list(iter_csv(file, ("a", "b"), {}, notes))
    assert (len(pieces) > 1) == (read == 10) and not notes
    table = np.array(rows)
    np.testing.assert_array_equal(np.concatenate([p.t for p in pieces]), table[:, 0])
    np.testing.assert_array_equal(np.concatenate([p.q for p in pieces]), table[:, [2, 1]])
    tau = np.concatenate([p.tau for p in pieces])
    np.testing.assert_array_equal(tau, np.column_stack((table[:, 3], np.full(30, np.nan))))
    file.write_text(text + "15,1")
    pieces = list(iter_csv(file, None, {}, notes))
    assert notes == [damage("the last line is cut and was left out")] and sum(map(len, pieces)) == 30
    assert pieces[0].joint_names == ("b", "a")
    file.write_text(text + "x,1,2,3\n" + "16,1,2,3\n" * 3)
    with pytest.raises(InputError, match="line 32, column 'time': 'x'"):
        list(iter_csv(file, None, {}, notes))


def test_a_short_line_is_the_last_one_only_at_the_end_of_the_file(tmp_path, monkeypatch):
    """Wherever a piece of the file ends: in its middle nothing is left out without an error."""
    file = tmp_path / "a.csv"
    file.write_text("time,a.position\n" + "0,1\n" * 3 + "5\n" + "6,1\n" * 20)
    for read in range(17, 45):
        monkeypatch.setattr(csv_file, "READ_BYTES", read)
        with pytest.raises(InputError, match="line 5 has 1 columns, its header 2"):
            list(iter_csv(file, None, {}, []))


def test_decimal_commas_only_where_lines_are_cut_at_semicolons(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("time;a.position\n" + "0;1\n" * 4 + "0,5;2,5\n")
    (piece,) = iter_csv(file, None, {}, [])
    np.testing.assert_array_equal(piece.q[-1], [2.5])
    assert piece.t[-1] == 0.5
    file.write_text("time;a.position\n" + "0;1\n" * 5 + "0,5;2,5\n")
    with pytest.raises(InputError, match="line 7"):
        list(iter_csv(file, None, {}, []))


def test_without_times_all_are_zero(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a.position,a.effort\n3,4\n5,6\n")
    (piece,) = iter_csv(file, None, {}, [], timeless=True)
    assert (
        piece.t.tolist() == [0.0, 0.0] and piece.q[:, 0].tolist() == [3.0, 5.0] and piece.tau[:, 0].tolist() == [4, 6]
    )
    with pytest.raises(InputError, match="no column is called time"):
        list(iter_csv(file, None, {}, []))
    file.write_text("time,a.position\n1,3\n2,5\n")
    (piece,) = iter_csv(file, None, {}, [], timeless=True)
    assert piece.t.tolist() == [1.0, 2.0], "times that are there count"


# --- archives


def saved(tmp_path, **arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    return tmp_path / "a.npz"


def test_every_array_of_an_archive(tmp_path):
    rng = np.random.default_rng(0)
    fields = {field: rng.normal(size=(4, 2)) for field in SUFFIXES}
    (found,) = read_npz(saved(tmp_path, t=np.arange(4.0), **fields), None, {})
    assert found.joint_names == ("joint1", "joint2") and found.t.tolist() == [0, 1, 2, 3]
    for field, values in fields.items():
        np.testing.assert_array_equal(getattr(found, field), values)


@pytest.mark.parametrize(
    ("arrays", "columns", "first"),
    [
        ({"t": 1.0}, {}, 1.0),
        ({"time": 2.0}, {}, 2.0),
        ({"t": 1.0, "time": 2.0}, {}, 1.0),
        ({"t": 1.0, "time": 2.0, "x": 3.0}, {"t": "x"}, 3.0),
        ({"t": 1.0, "x": 3.0}, {"time": "x"}, 3.0),
    ],
)
def test_times_of_an_archive(tmp_path, arrays, columns, first):
    file = saved(tmp_path, q=np.zeros((3, 1)), **{name: np.array([[x], [x], [x]]) for name, x in arrays.items()})
    (found,) = read_npz(file, None, columns)
    assert found.t.tolist() == [first] * 3


def test_names_of_an_archive(tmp_path):
    q = np.arange(6.0).reshape(3, 2)
    (found,) = read_npz(saved(tmp_path, t=np.arange(3), q=q, joint_names=np.array(["x", "y"])), ("a", "b"), {})
    assert found.joint_names == ("x", "y")
    for wrong in (np.array(["x"]), np.array([1, 2])):
        (found,) = read_npz(saved(tmp_path, t=np.arange(3), q=q, joint_names=wrong), ("a", "b"), {})
        assert found.joint_names == ("a", "b")
    (found,) = read_npz(saved(tmp_path, t=np.arange(3), q=q[:, 0]), ("a",), {})
    assert found.q.shape == (3, 1)


@pytest.mark.parametrize(
    ("arrays", "timeless", "words"),
    [
        ({"q": np.zeros((3, 1))}, False, "there is no array 't'"),
        ({"t": np.arange(3)}, False, "there is no array 'q'"),
        ({"t": np.arange(3)}, True, "there is no array 'q'"),
        ({"tau": np.arange(3)}, True, "there is no array 't'"),
        ({"t": np.arange(3), "q": np.zeros((3, 1, 1))}, False, "3 dimensions"),
        ({"t": np.arange(3), "q": np.array(1.0)}, False, "q has shape"),
        ({"t": np.arange(3), "q": np.zeros((3, 1)), "tau": np.zeros((2, 1))}, False, "tau has shape"),
        ({"t": np.arange(3), "q": np.zeros((3, 1)), "tau": np.zeros(3, complex)}, False, "array 'tau' has type"),
        ({"t": np.arange(3), "q": np.array(["a", "b", "c"])}, False, "array 'q' has type"),
        ({"t": np.arange(3), "q": np.array([True, False, True])}, False, "array 'q' has type"),
    ],
)
def test_archives_that_are_none(tmp_path, arrays, timeless, words):
    with pytest.raises(InputError, match=words):
        read_npz(saved(tmp_path, **arrays), None, {}, timeless)


def test_an_archive_without_times(tmp_path):
    (found,) = read_npz(saved(tmp_path, q=np.ones((5, 2), np.int16)), None, {}, True)
    assert found.t.tolist() == [0.0] * 5 and found.q.dtype == np.float64


# --- dates and units


@pytest.mark.parametrize(
    ("first", "start"),
    [(0.0, 0.0), (100.0, 0.0), (0.9 * WALL_CLOCK, 0.0), (1.1 * WALL_CLOCK, 1.1 * WALL_CLOCK), (1.7e9, 1.7e9),
     (-2e7, -2e7), (1e10, 0.0)],
)  # fmt: skip
def test_dates_count_from_the_first(tmp_path, first, start):
    t = first + np.array([0.0, 0.5, 2.0])
    (found,) = iter_table(saved(tmp_path, t=t, q=np.zeros((3, 1))), None, Reading(), [])
    np.testing.assert_array_equal(found.t, t - start)
    assert found.start_ns == round(start * 1e9)


def test_only_the_first_piece_says_where_time_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "READ_BYTES", 30)
    file = tmp_path / "a.csv"
    file.write_text("time,a.position\n" + "".join(f"{1.7e9 + k!r},{k}\n" for k in range(9)))
    pieces = list(iter_table(file, None, Reading(), []))
    assert len(pieces) > 2 and {p.start_ns for p in pieces} == {1_700_000_000 * 10**9}
    assert np.concatenate([p.t for p in pieces]).tolist() == list(range(9))
    for text in ("time,a.position\n", "time,a.position\n\n"):
        file.write_text(text)
        with pytest.raises(InputError, match="the table has no samples"):
            list(iter_table(file, None, Reading(), []))


@pytest.mark.parametrize(
    ("units", "time", "angle", "length", "effort"),
    [
        (SI, 1.0, 1.0, 1.0, 1.0),
        (Units(time="ms"), 1e-3, 1.0, 1.0, 1.0),
        (Units(time="us"), 1e-6, 1.0, 1.0, 1.0),
        (Units(time="ns"), 1e-9, 1.0, 1.0, 1.0),
        (Units(angle="deg"), 1.0, np.pi / 180, 1.0, 1.0),
        (Units(length="mm"), 1.0, 1.0, 1e-3, 1.0),
        (Units(effort="mN.m"), 1.0, 1.0, 1.0, 1e-3),
    ],
)
def test_each_unit_of_each_signal(units, time, angle, length, effort):
    values = {field: np.full((2, 2), 2.0 + k) for k, field in enumerate(SUFFIXES)}
    samples = Samples(np.array([1.0, 2.0]), ("slide", "arm.base"), np.zeros((2, 2)))
    samples = samples.with_arrays(samples.t, values)
    found = in_si(samples, ROBOT, units)
    np.testing.assert_allclose(found.t, samples.t * time)
    for field in ("q", "dq", "ddq", "q_r"):
        np.testing.assert_allclose(getattr(found, field), values[field] * [length, angle])
    for field in ("tau", "tau_f", "tau_l"):
        np.testing.assert_allclose(getattr(found, field), values[field] * effort)
    np.testing.assert_array_equal(found.temperature, values["temperature"])
    np.testing.assert_allclose(in_si(samples, None, units).q, values["q"] * angle)
