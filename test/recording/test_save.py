# SPDX-License-Identifier: Apache-2.0

"""Write samples as CSV, npz or a rosbag2 MCAP bag, atomically, and never over another file."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.recording import save
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples


def test_what_a_joint_state_cannot_hold_is_said(tmp_path):
    t = np.arange(5) / 10
    one = np.ones((5, 1))
    plain = Samples(t, ("a",), one)
    assert save_samples(plain, tmp_path / "plain") == []
    for field, words in (
        ("ddq", "accelerations"), ("q_r", "commanded positions"), ("temperature", "temperatures"),
        ("tau_f", "feedforward efforts"), ("tau_l", "torques at the links"),
    ):  # fmt: skip
        samples = plain.with_arrays(t, {"q": one, field: 2 * one})
        (note,) = save_samples(samples, tmp_path / field)
        assert words in note
        for form in ("csv", "npz"):
            assert save_samples(samples, tmp_path / f"{field}.{form}") == []
            again = load_samples(tmp_path / f"{field}.{form}")
            np.testing.assert_array_equal(getattr(again, field), 2 * one)


def plain(t, start_ns=0):
    t = np.asarray(t, float)
    return Samples(t, ("a",), t[:, None], start_ns=start_ns)


def test_times_that_a_bag_can_hold(tmp_path):
    for k, (t, words) in enumerate((
        ([0.0, 1.0], None), ([-1.0, 1.0], "before 1970"), ([0.0, 9.1e9], "not a number of seconds"),
        ([0.0, -9.1e9], "not a number of seconds"), ([0.0, np.inf], "not a number of seconds"),
        ([0.0, 8.9e9], "1901 to 2038"),
    )):  # fmt: skip
        if words is None:
            assert save_samples(plain(t), tmp_path / str(k)) == []
            continue
        with pytest.raises(InputError, match=words):
            save_samples(plain(t), tmp_path / str(k))
        assert not (tmp_path / str(k)).exists()
    assert save_samples(plain([-1.0, 1.0], start_ns=2 * 10**9), tmp_path / "later") == []


def test_an_old_bag_stays_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    save_samples(plain([0.0, 1.0]), tmp_path / "bag")
    before = {path.name: path.read_bytes() for path in (tmp_path / "bag").iterdir()}
    rename = save.Path.rename
    for name in ("bag", "new"):

        def busy(path, target, place=tmp_path / name):
            if target == place and path.name == "bag" and path.parent != tmp_path:
                raise OSError("busy")
            return rename(path, target)

        monkeypatch.setattr(save.Path, "rename", busy)
        with pytest.raises(OSError, match="busy"):
            save_samples(plain([5.0]), tmp_path / name, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["bag"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "bag").iterdir()} == before
