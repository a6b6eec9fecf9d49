# SPDX-License-Identifier: Apache-2.0

"""What others record: HDF5, MATLAB and LeRobot files by their own libraries, logs of RTDE and libfranka, bare CSV."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pyarrow as pa
import pytest
import scipy.io
from pyarrow import parquet

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Joint, Robot
from ros2_dynid.recording.read import load_samples, read_samples
from ros2_dynid.recording.samples import Reading
from ros2_dynid.recording.table.column_map import parse_columns

ROBOT = Robot("two", (Joint("pan", 0), Joint("lift", 1)))
T = np.arange(40) / 50.0
Q = np.stack([np.sin(T), np.cos(3 * T)], axis=1)
TAU = np.stack([T**2, -T], axis=1)


def assert_read(samples, **expected):
    np.testing.assert_allclose(samples.t, T, atol=1e-9)
    for field, values in ({"q": Q} | expected).items():
        np.testing.assert_allclose(getattr(samples, field), values, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("names", "transposed"), [(("time", "qpos", "effort"), False), (("t", "q", "tau"), True)])
def test_hdf5(tmp_path, names, transposed):
    with h5py.File(tmp_path / "run.h5", "w") as file:
        group = file.create_group("observations")
        for name, values in zip(names, (T, Q, TAU), strict=True):
            group.create_dataset(name, data=values.T if transposed else values, compression="gzip")
        file["observations/images"] = np.zeros((40, 2, 2, 3), np.uint8)
        file["text"] = "none"
    assert_read(load_samples(tmp_path / "run.h5", ROBOT), tau=TAU)
    chosen = {"t": f"observations/{names[0]}", "q": names[1]}
    assert_read(load_samples(tmp_path / "run.h5", ROBOT, columns=chosen))


def test_hdf5_that_claims_too_much_is_damaged_or_points_elsewhere(tmp_path):
    path = tmp_path / "run.h5"
    with h5py.File(path, "w") as file:
        file["t"] = T
        file.create_dataset("q", shape=(10**9, 10), chunks=(1000, 10), dtype="f8")
    with pytest.raises(InputError, match="arrays claim 80 GB"):
        load_samples(path, ROBOT)
    with h5py.File(path, "w") as file:
        file["t"] = T
        file["q"] = h5py.ExternalLink("other.h5", "q")
    with pytest.raises(InputError, match="no array 'q'"):
        load_samples(path, ROBOT)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(InputError, match="not an HDF5 file or it is damaged"):
        load_samples(path, ROBOT)


@pytest.mark.parametrize("compressed", [False, True])
def test_matlab(tmp_path, compressed):
    path = tmp_path / "run.mat"
    scipy.io.savemat(path, {"t": T, "q": Q.T, "torque": TAU, "who": "me"}, do_compression=compressed)
    assert_read(load_samples(path, ROBOT), tau=TAU)
    scipy.io.savemat(path, {"log": {"time": T, "q": Q, "tau": TAU}}, do_compression=compressed)
    assert_read(load_samples(path, ROBOT), tau=TAU)
    for damaged in (path.read_bytes()[:300], b"MATLAB 5.0" + bytes(200)):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"MATLAB file or it is damaged|no array"):
            load_samples(path, ROBOT)


def write_lerobot(folder, version, names, *, columns=None):
    """Write two episodes as LeRobot's own writer lays them out: in a file each (v2), or in one (v3)."""
    features = {key: {"dtype": "float32", "shape": [2], "names": names} for key in ("observation.state", "action")}
    features["observation.images.top"] = {
        "dtype": "video",
        "shape": [2, 2, 3],
        "names": ["height", "width", "channels"],
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "data" / "chunk-000").mkdir(parents=True)
    info = {"codebase_version": version, "fps": 50, "features": features, "total_episodes": 2}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    vector = pa.list_(pa.float32(), 2) if version.startswith("v3") else pa.list_(pa.float32())
    tables = [
        pa.table(
            {
                "observation.state": pa.array((Q + episode).tolist(), vector),
                "action": pa.array((Q + episode + 0.1).tolist(), vector),
                "timestamp": pa.array(T, pa.float32()),
                "frame_index": np.arange(len(T)),
                "episode_index": np.full(len(T), episode),
            }
            | (columns or {})
        )
        for episode in (0, 1)
    ]
    if version.startswith("v3"):
        parquet.write_table(pa.concat_tables(tables), folder / "data" / "chunk-000" / "file-000.parquet")
    else:
        for episode, table in enumerate(tables):
            parquet.write_table(table, folder / "data" / "chunk-000" / f"episode_{episode:06d}.parquet")


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("v2.0", ["main_pan", "main_lift"]),
        ("v2.1", {"motors": ["pan", "lift"]}),
        ("v3.0", ["pan.pos", "lift.pos"]),
        ("v3.0", None),
    ],
)
def test_lerobot_data_sets(tmp_path, version, names):
    write_lerobot(tmp_path / "set", version, names)
    assert_read(read_samples(tmp_path / "set", ROBOT, Reading(episode=1)), q=Q + 1, q_r=Q + 1.1)
    both = read_samples(tmp_path / "set", ROBOT)
    assert len(both) == 80 and both.t[40] - both.t[39] == pytest.approx(10.0)
    assert any("2 episodes" in str(note) for note in both.notes)
    with pytest.raises(InputError, match="no episode 7"):
        read_samples(tmp_path / "set", ROBOT, Reading(episode=7))


def test_a_lerobot_data_set_of_a_few_bytes_claims_no_gigabytes(tmp_path):
    write_lerobot(tmp_path / "set", "v3.0", ["base"])
    file, count = tmp_path / "set" / "data" / "chunk-000" / "file-000.parquet", 20_000_000
    row = pa.ListArray.from_arrays(pa.array([0, count], type=pa.int32()), pa.array(np.zeros(count, np.float32)))
    columns = {"observation.state": row, "episode_index": pa.array([0]), "frame_index": pa.array([0])}
    parquet.write_table(pa.table(columns), file, compression="zstd", data_page_size=1 << 30, write_statistics=False)
    assert file.stat().st_size < 3000
    with pytest.raises(InputError, match=r"its arrays claim 0\.16 GB"):
        load_samples(tmp_path / "set")


def test_lerobot_data_sets_that_are_none(tmp_path):
    write_lerobot(tmp_path / "set", "v3.0", ["base", "lift"])
    with pytest.raises(InputError, match="'pan' of the robot is not in the recording, which has base, lift"):
        read_samples(tmp_path / "set", ROBOT)
    data = tmp_path / "set" / "data" / "chunk-000" / "file-000.parquet"
    data.write_bytes(data.read_bytes()[:-20])
    with pytest.raises(InputError, match="not the parquet file of a LeRobot data set"):
        read_samples(tmp_path / "set")
    for info in ("[", "{}", '{"codebase_version": "v1.6", "fps": 1, "features": {}}', "[" * 100_000):
        (tmp_path / "set" / "meta" / "info.json").write_text(info)
        with pytest.raises(InputError, match=r"not that of a LeRobot data set|version 'v1.6'"):
            read_samples(tmp_path / "set")


def write_log(path, header, columns, delimiter=","):
    rows = [delimiter.join(map(repr, row)) for row in np.column_stack(columns).tolist()]
    path.write_text("\n".join([header, *rows]) + "\n")


def test_logs_are_known_by_their_header(tmp_path):
    path = tmp_path / "log.csv"
    names = [f"{kind}_{i}" for kind in ("actual_q", "target_q", "actual_current") for i in range(2)]
    write_log(path, " ".join(["timestamp", *names]), [T + 100, Q, Q + 0.1, TAU], " ")
    samples = load_samples(path, ROBOT)
    np.testing.assert_allclose(samples.t, T + 100)
    np.testing.assert_allclose(np.hstack([samples.q, samples.q_r, samples.tau]), np.hstack([Q, Q + 0.1, TAU]))
    assert load_samples(path).joint_names == ("joint1", "joint2")
    franka = [f"{kind}[{i}]" for kind in ("q", "q_d", "dq", "tau_J") for i in range(2)]
    header = ",".join(["duration, success rate", *franka, "sent commands", "q_d[0]", "q_d[1]"])
    write_log(path, header, [1000 * T, T, Q, Q + 0.1, Q, TAU, Q])
    assert_read(read_samples(path, ROBOT, Reading(format="franka")), dq=Q, tau=TAU, q_r=Q + 0.1)
    with pytest.raises(InputError, match="no rtde log: it has no column 'actual_q_0'"):
        read_samples(path, ROBOT, Reading(format="rtde"))


def test_a_list_of_columns_stands_for_a_header(tmp_path):
    path = tmp_path / "log.csv"
    write_log(path, "", [T, Q, T, TAU])
    columns = parse_columns("time, pan.position, lift.position, -, pan.effort, lift.effort")
    assert_read(load_samples(path, ROBOT, columns=columns), tau=TAU)
    with pytest.raises(InputError, match="list its columns"):
        load_samples(path, ROBOT)
    with pytest.raises(InputError, match="'#9', which is not in the header"):
        load_samples(path, ROBOT, columns=columns | {"lift.effort": "#9"})
