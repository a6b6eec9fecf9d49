# SPDX-License-Identifier: Apache-2.0

"""Tool: wrenches of a wrist force-torque sensor and joint states give the tool beyond it, and the sensor's bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.dynamics.sensor_wrench import sensor_regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.tool_fit import identify_tool
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.wrench import Wrenches
from ros2_dynid.usecases.robot_source import RobotSource
from ros2_dynid.usecases.tool import ToolRequest, find_sensor_link, tool
from usecase_recordings import assert_same_load, motion

OPTIONS = IdentifyOptions(friction="viscous+coulomb", preparation=PreparationOptions(row_cutoff=6.0))


def test_a_tool_with_all_its_figures(tmp_path):
    source = RobotSource("demo6")
    robot = source.load()
    t, q, dq, ddq = motion(seconds=15.0, n=6)
    phi = np.array([0.02, 0.0, 0.0, 0.02, 0.0, 0.01, 0.1, 0.0, 0.05, 1.5])
    noise = 0.01 * np.random.default_rng(0).normal(size=(len(t), 6))
    wrenches = Wrenches(t, noise - sensor_regressor(robot, "flange", q, dq, ddq) @ phi)
    np.savez(tmp_path / "run.npz", t=t, q=q, wrench=wrenches.w)
    seen = []
    request = ToolRequest(source, str(tmp_path / "run.npz"), "wrench", "flange", OPTIONS, free=True)
    told = tool(request, lambda stage, share: seen.append(share))
    prepared = prepare(robot, Samples(t, robot.active_names, q, tau=q), OPTIONS.preparation)
    found = identify_tool(robot, prepared, wrenches, "flange", free=True)
    assert_same_load(told, found.load)
    assert (told.bias, told.drift, told.residual) == (tuple(found.bias), tuple(found.drift), tuple(found.sigma))
    assert (told.sensor_std.bias, told.sensor_std.drift) == (tuple(found.bias_std), tuple(found.drift_std))
    assert (told.delay, told.sign, told.rows) == (found.delay, -1, found.rows) and seen == [0.0, 0.4, 0.8, 1.0]
    assert any("opposite sign" in note for note in told.notes)


DEMO3 = load_robot("demo3")


def test_the_link_of_a_sensor():
    pose = np.eye(4)
    robot = replace(DEMO3, tools={"base": (0, pose), "elbow": (2, pose), "flange": (3, pose), "tool0": (3, pose)})
    assert find_sensor_link(robot, None) == "flange" and find_sensor_link(robot, "elbow") == "elbow"
    assert find_sensor_link(replace(robot, tools={"base": (0, pose), "elbow": (2, pose)}), None) == "elbow"
    for link in ("base", "head"):
        with pytest.raises(InputError, match=f"no moving link '{link}'; choose from elbow, flange, tool0"):
            find_sensor_link(robot, link)
    with pytest.raises(InputError, match="no link beyond its last joint"):
        find_sensor_link(replace(robot, tools={"base": (0, pose)}), None)
