# SPDX-License-Identifier: Apache-2.0

"""CSV and npz logs: headers, units, column maps, and errors that say where."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.errors import InputError, damage
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples, Units, in_si
from ros2_dynid.recording.table.column_map import parse_columns

TX40 = Path("/work/shared/data/tx40/tx40_traj.npz")
ROBOT = Robot("two", (Joint("arm.base", 0), Joint("slide", 1, sigma=PRISMATIC)))


def write(path, text):
    path.write_text(text)
    return path


def test_names_may_contain_dots_and_columns_any_order(tmp_path):
    text = "slide.position,time,arm.base.effort,comment,arm.base.position\n0.5,0.0,7,hello,1\n0.6,0.1,8,world,2\n"
    samples = load_samples(write(tmp_path / "a.csv", text), ROBOT)
    assert samples.joint_names == ("arm.base", "slide")
    assert samples.q.tolist() == [[1, 0.5], [2, 0.6]]
    assert np.array_equal(samples.tau, [[7, np.nan], [8, np.nan]], equal_nan=True)
    assert samples.dq is None and samples.t.tolist() == [0.0, 0.1]
    everything = load_samples(tmp_path / "a.csv")
    assert everything.joint_names == ("slide", "arm.base")


@pytest.mark.parametrize("mark, decimal", [(",", "."), (";", "."), (";", ","), ("\t", "."), (" ", ".")])
def test_delimiters_decimal_commas_and_odd_lines(tmp_path, mark, decimal):
    rows = [["time", "j.position"], ["0.25", "-1.5e-3"], ["0.5", "2"]]
    lines = [mark.join(cell.replace(".", decimal) if k else cell for cell in row) for k, row in enumerate(rows)]
    text = "\ufeff" + "\r\n".join([lines[0], "", *lines[1:], ""])
    samples = load_samples(write(tmp_path / "a.csv", text))
    assert samples.t.tolist() == [0.25, 0.5] and samples.q[:, 0].tolist() == [-1.5e-3, 2.0]


def test_a_commented_header_as_numpy_writes_it(tmp_path):
    np.savetxt(tmp_path / "a.csv", [[0, 1.5], [1, 2.5]], delimiter=",", header="time,j.position")
    assert load_samples(tmp_path / "a.csv").q[:, 0].tolist() == [1.5, 2.5]


def test_empty_cells_are_nan_and_a_cut_last_line_is_left_out(tmp_path):
    text = "time,j.position,j.effort\n0,1,\n1,2,5\n2,3"
    samples = load_samples(write(tmp_path / "a.csv", text))
    assert len(samples) == 2 and np.isnan(samples.tau[0, 0]) and samples.tau[1, 0] == 5
    assert samples.notes == (damage("the last line is cut and was left out"),)


def test_units(tmp_path):
    header = "time,arm.base.position,slide.position,arm.base.velocity,slide.velocity,slide.effort"
    text = f"{header}\n0,0,0,0,0,0\n500,180,250,90,1000,2000\n"
    units = Units(time="ms", angle="deg", length="mm", effort="mN.m")
    samples = load_samples(write(tmp_path / "a.csv", text), ROBOT, units=units)
    assert samples.t[1] == 0.5
    assert np.allclose(samples.q[1], [np.pi, 0.25]) and np.allclose(samples.dq[1], [np.pi / 2, 1.0])
    assert samples.tau[1, 1] == 2.0
    moved = in_si(Samples(np.arange(2.0), ("arm.base", "slide"), *np.full((4, 2, 2), 90.0)), ROBOT, units)
    for values in (moved.q, moved.dq, moved.ddq):
        np.testing.assert_allclose(values, [[np.pi / 2, 0.09]] * 2)
    np.testing.assert_allclose(moved.tau, 0.09)
    np.testing.assert_allclose(moved.t, [0.0, 1e-3])
    with pytest.raises(InputError, match="unknown angle unit 'grad'; choose from rad, deg"):
        Units(angle="grad")


@pytest.mark.parametrize("text", ["time=Stamp,{name}.position=q_{i}", "Stamp=time,{name}.position=q_{i}"])
def test_column_maps(tmp_path, text):
    file = write(tmp_path / "a.csv", "Stamp,q_0,q_1\n0,1,2\n1,3,4\n")
    assert load_samples(file, ROBOT, columns=parse_columns(text)).q.tolist() == [[1, 2], [3, 4]]
    yaml_map = write(tmp_path / "map.yaml", "time: Stamp\narm.base.position: q_0\nslide.position: q_1\n")
    assert load_samples(file, ROBOT, columns=parse_columns(str(yaml_map))).q.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InputError, match="names 'q_9', which is not in the header; the header has Stamp, q_0, q_1"):
        load_samples(file, columns={"time": "Stamp", "a.position": "q_9"})
    with pytest.raises(InputError, match="not a column map; write"):
        parse_columns("time")
    with pytest.raises(InputError, match="give the robot"):
        load_samples(file, columns=parse_columns(text))


@pytest.mark.parametrize(
    "text, message",
    [
        ("0,1\n1,2\n", "no header that names its columns"),
        ("a.position,b\n0,1\n", "no column is called time"),
        ("time,b\n0,1\n", "no column belongs to a joint"),
        ("time,a.position\n", "no samples"),
        ("time,a.position\n0,1\n1,x\n2,3\n", "line 3, column 'a.position': 'x' is not a number"),
        ("time,a.position\n0,1\n1\n2,3\n", "line 3 has 1 columns, its header 2"),
        ("time,a.effort\n0,1\n", "joint 'a' of the robot is not in the recording"),
        ("time,a.position\n0,\0\n", "not a text file"),
    ],
)
def test_bad_tables_say_what_and_where(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        load_samples(write(tmp_path / "a.csv", text))


def test_wall_clock_times_count_from_the_first(tmp_path):
    samples = load_samples(write(tmp_path / "a.csv", "time,a.position\n1700000000.5,1\n1700000001.5,2\n"))
    assert samples.t.tolist() == [0.0, 1.0] and samples.start_ns == 1_700_000_000_500_000_000


def test_cutting_by_the_tables_own_time(tmp_path):
    rows = "\n".join(f"{100 + k},{k}" for k in range(10))
    file = write(tmp_path / "a.csv", f"time,a.position\n{rows}\n")
    assert load_samples(file, start=103, end=105).q[:, 0].tolist() == [3, 4, 5]
    with pytest.raises(InputError, match="no sample lies between 0 s and 5 s; the recording lasts from 100 to 109 s"):
        load_samples(file, start=0, end=5)
    with pytest.raises(InputError, match="give a start before the end"):
        load_samples(file, start=5, end=0)


def test_large_tables_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("ros2_dynid.recording.table.csv_file.READ_BYTES", 1000)
    table = np.random.default_rng(0).normal(size=(500, 3))
    table[:, 0] = np.arange(500)
    with (tmp_path / "a.csv").open("w") as stream:
        stream.write("time,a.position,b.position\n")
        stream.writelines(",".join(map(repr, row)) + "\n" for row in table.tolist())
    assert np.array_equal(load_samples(tmp_path / "a.csv").q, table[:, 1:])


def test_npz_in_the_robots_order_or_by_name(tmp_path):
    t, q, tau = np.arange(4.0), np.arange(8.0).reshape(4, 2), np.ones((4, 2), np.float32)
    np.savez(tmp_path / "a.npz", t=t, q=q, tau=tau, more=np.zeros((3, 3)))
    samples = load_samples(tmp_path / "a.npz", ROBOT)
    assert samples.joint_names == ("arm.base", "slide") and np.array_equal(samples.q, q) and samples.dq is None
    np.savez(tmp_path / "b.npz", t=t, q=q, joint_names=np.array(["slide", "arm.base"]))
    assert np.array_equal(load_samples(tmp_path / "b.npz", ROBOT).q, q[:, ::-1])
    np.savez(tmp_path / "c.npz", stamp=t, pos=q[:, 0])
    assert load_samples(tmp_path / "c.npz", columns={"t": "stamp", "q": "pos"}).q.shape == (4, 1)


@pytest.mark.skipif(not TX40.exists(), reason="the TX-40 recording is not here")
def test_the_tx40_recording():
    samples = load_samples(TX40)
    assert samples.q.shape == samples.tau.shape == (45000, 6) and samples.dq is None


def test_bad_npz_files(tmp_path):
    np.savez(tmp_path / "a.npz", t=np.arange(3.0), q=np.zeros((4, 2)))
    with pytest.raises(InputError, match=r"q has shape \(4, 2\) beside 3 times"):
        load_samples(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", t=np.arange(3.0), q=np.zeros((3, 3)))
    with pytest.raises(InputError, match="q has 3 columns, the robot 2 active joints"):
        load_samples(tmp_path / "a.npz", ROBOT)
    np.savez(tmp_path / "a.npz", t=np.arange(3.0))
    with pytest.raises(InputError, match="there is no array 'q'"):
        load_samples(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", t=np.arange(3.0), q=np.array([object()] * 3))
    with pytest.raises(InputError, match="not an npz file or it is damaged"):
        load_samples(tmp_path / "a.npz")


def test_an_archive_that_unpacks_into_far_more_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ros2_dynid.recording.table.array_samples.ALWAYS_ALLOWED", 1 << 20)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (2**21,)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("t.npy", "w") as out:
        out.write(head.getvalue())
        for _ in range(16):
            out.write(bytes(2**20))
    with pytest.raises(InputError, match="its arrays claim"):
        load_samples(tmp_path / "a.npz")


def test_a_table_without_times_takes_a_rate(tmp_path):
    arrays = {"q": np.arange(12.0).reshape(6, 2), "tau": np.ones((6, 2))}
    np.savez(tmp_path / "a.npz", **arrays)
    (tmp_path / "a.csv").write_text("a.position,a.effort\n1,2\n3,4\n5,6\n")
    for name in ("a.npz", "a.csv"):
        with pytest.raises(InputError, match="rate"):
            load_samples(tmp_path / name)
        samples = load_samples(tmp_path / name, rate=200.0)
        assert np.allclose(np.diff(samples.t), 5e-3) and samples.t[0] == 0.0
    assert np.array_equal(load_samples(tmp_path / "a.npz", rate=200.0).q, arrays["q"])
    with pytest.raises(InputError, match="rate is"):
        load_samples(tmp_path / "a.csv", rate=-1.0)


@pytest.mark.parametrize(("rate", "told"), [(5.0, True), (130.0, False)])
def test_a_rate_that_contradicts_the_stamps_is_told(tmp_path, rate, told):
    np.savez(tmp_path / "a.npz", t=np.arange(6) / 125.0, q=np.zeros((6, 2)))
    samples = load_samples(tmp_path / "a.npz", rate=rate)
    assert np.allclose(np.diff(samples.t), 1.0 / rate)
    assert [str(note) for note in samples.notes if "stamps" in str(note)] == [
        "the stamps tell 125 samples a second, not 5: leave the rate out to use them"
    ] * told
