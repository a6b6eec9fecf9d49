# SPDX-License-Identifier: Apache-2.0

"""Gains: recordings without and with a load of known mass give the torque for each unit of the recorded effort."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.identification.loads.from_recordings import identify_gains
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.usecases.gains import GainsRequest, gains
from usecase_recordings import DEMO, NAMES, ROBOT, samples_of

OPTIONS = IdentifyOptions(friction="viscous+coulomb", preparation=PreparationOptions(row_cutoff=6.0))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return files of recordings: one empty, two with the load, one with another load."""
    folder = tmp_path_factory.mktemp("recorded")
    files = {}
    for name, load, seed in (("empty", 0.0, 0), ("one", 2.0, 1), ("two", 2.0, 2), ("heavy", 5.0, 3)):
        samples = samples_of(load, seed)
        files[name] = str(folder / f"{name}.npz")
        np.savez(files[name], t=samples.t, q=samples.q, tau=samples.tau)
    return files


@pytest.mark.parametrize("load", [(), (0.1, 0.0, 0.0, 0.1, 0.0, 0.05, 0.5, 0.0, 0.25, 5.0)])
def test_gains_by_name_and_none_where_there_is_none(recorded, load):
    told = gains(GainsRequest(DEMO, (recorded["empty"],), (recorded["heavy"],), 5.0, OPTIONS, load))
    given = np.array(load) if load else None
    found = identify_gains(ROBOT, (recorded["empty"],), (recorded["heavy"],), 5.0, load=given, options=OPTIONS)
    for figures, values in ((told.gains, found.value), (told.std, found.std)):
        wanted = [float(x) if np.isfinite(x) else None for x in values]
        assert figures == dict(zip(NAMES, wanted, strict=True))
    assert told.from_mass == dict(zip(NAMES, found.from_mass, strict=True)) and told.mass == 5.0
    known = [gain for gain in told.gains.values() if gain is not None]
    assert known and np.allclose(known, 1.0, atol=0.05)
