# SPDX-License-Identifier: Apache-2.0

"""Small parts of identification that large tests only use: each against brute force or a formula written apart."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import TorqueData, load_torque_data, save_torque_data


def test_torques_for_pictures_come_back_as_they_were_written(tmp_path):
    rng = np.random.default_rng(0)
    sets = {
        name: TorqueData(rng.normal(size=count), *rng.normal(size=(7, count, 3)))
        for name, count in (("fit", 5), ("validation", 4))
    }
    save_torque_data(tmp_path / "data.npz", sets)
    found = load_torque_data(tmp_path / "data.npz")
    assert list(found) == ["fit", "validation"]
    for name, one in sets.items():
        for field in fields(one):
            again = getattr(found[name], field.name)
            assert again.dtype == float
            np.testing.assert_allclose(again, getattr(one, field.name), rtol=1e-6)
    with np.load(tmp_path / "data.npz") as stored:
        arrays = {key: stored[key] for key in stored.files}
    assert all(array.dtype == np.float32 for array in arrays.values())
    np.savez(tmp_path / "old.npz", **{key: value for key, value in arrays.items() if "temperature" not in key})
    old = load_torque_data(tmp_path / "old.npz")["validation"]
    assert old.temperature.shape == (4, 3) and np.all(np.isnan(old.temperature))
    np.savez(tmp_path / "less.npz", **{key: value for key, value in arrays.items() if key != "fit_predicted"})
    (tmp_path / "broken.npz").write_bytes((tmp_path / "data.npz").read_bytes()[:300])
    for bad in ("less.npz", "broken.npz"):
        with pytest.raises(InputError, match="identify again"):
            load_torque_data(tmp_path / bad)
