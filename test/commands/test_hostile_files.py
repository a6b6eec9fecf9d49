# SPDX-License-Identifier: Apache-2.0

"""No file of less than 1 kB makes a command take more than 10 s or 500 MB, or end with a traceback."""

from __future__ import annotations

import pytest

from hostile_files import hostile, tried

STRONGEST = (
    "merge.yaml", "columns.yaml", "driver.yaml", "plan_merge.yaml", "plan_deep.yaml", "device.yaml", "long.xacro",
    "fan.mcap", "arrays.mcap", "zeros.bag", "generated.db3", "bytes.npz", "cells.mat", "replicas.xml", "close.csv",
)  # fmt: skip
"""Files that one bound each stops, which took minutes or gigabytes; the others: test/support/hostile_files.py."""


@pytest.mark.timeout(300)
def test_a_small_file_takes_neither_memory_nor_time(tmp_path):
    files = hostile(STRONGEST)
    assert len(files) == len(STRONGEST)
    trials = [next(iter(tried(name, data, tmp_path))) for name, data in files.items()]
    assert not [(trial.name, trial.command, trial.problem, trial.words) for trial in trials if trial.problem]
    assert {trial.code for trial in trials} <= {0, 2}
