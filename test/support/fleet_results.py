# SPDX-License-Identifier: Apache-2.0

"""Results of robots of a fleet without a run, and workers that are never asked to do anything."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from ros2_dynid.fleet.reduce_robot import RecordingRow, RobotResult
from ros2_dynid.fleet.trends import FrictionPoint
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")
OPTIONS = IdentifyOptions()


def reduced(robot: str, value: float = 1.0, **changes: object) -> RobotResult:
    """Return the result of a robot with two recordings and two parameters, the first of this value."""
    rows = tuple(
        RecordingRow(f"{robot}/{k}.mcap", 0.01 * (k + 1), 0.02, 60.0, 1.7e9 + 86400.0 * k,
                     FrictionPoint(np.array([2.0]), np.array([0.1])))
        for k in range(2)
    )  # fmt: skip
    found = RobotResult(
        robot, ("elbow",), ("Fv1", "Fc1"), ("N.m.s/rad", "N.m"), np.array([value, 3.0]), 1e-4 * np.eye(2),
        np.ones(2, dtype=bool), rows, "good", ("good: fine",),
        {}, {},
    )  # fmt: skip
    return replace(found, **changes)


def page_data(page: str) -> dict:
    """Return what a fleet's page shows."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def hands(count: int, *, share_files: bool = False) -> SimpleNamespace:
    """Return so many workers."""
    return SimpleNamespace(count=count, dashboard="", share_files=share_files)
