# SPDX-License-Identifier: Apache-2.0

"""A small fleet that several files of tests look at."""

import pytest

from fleet_site import record, write_fleet
from ros2_dynid.fleet.run import run_fleet


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Make two arms with two recordings each, one of them with one to validate on, and a run over them."""
    folder = tmp_path_factory.mktemp("site")
    for robot in (1, 2):
        for number in range(2):
            record(folder / f"bags/cell{robot}/night{number}.mcap", robot, number)
    record(folder / "bags/cell1/validate/check.mcap", 1, 9)
    file = write_fleet(folder, "defaults: {robot: demo3}\nfolders: bags\n")
    return file, run_fleet(file, folder / "out", count=0)
