# SPDX-License-Identifier: Apache-2.0

"""Preview: a trajectory and its robot become a page that plays it in 3D."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.excitation.limits import bounds_of, known_parameters, use_of
from ros2_dynid.excitation.static import approach
from ros2_dynid.excitation.trajectory import save_trajectory
from ros2_dynid.model.load import load_robot
from ros2_dynid.usecases.plan import (
    Surroundings,
)
from ros2_dynid.usecases.preview import PreviewRequest, preview
from ros2_dynid.usecases.robot_source import RobotSource


def test_the_closest_pair_of_a_motion_is_told_with_its_time(tmp_path):
    source = RobotSource("demo6")
    save_trajectory(tmp_path / "move.yaml", approach(source.load(), [0.0] * 6, [0.6] * 6), 100.0)
    request = PreviewRequest(str(tmp_path / "move.yaml"), source, save=str(tmp_path / "s.html"))
    told = preview(request)
    assert told.clearance > 0.0 and 0.0 <= told.at <= told.duration and len(set(told.pair)) == 2
    assert told.file == str(tmp_path / "s.html") and told.picture is None and (tmp_path / "s.html").is_file()
    alone = preview(replace(request, save=None, surroundings=Surroundings(collisions=False)))
    assert (alone.clearance, alone.at, alone.pair, alone.file) == (None, None, None, None)


DEMO3 = load_robot("demo3")


def test_a_preview_tells_the_figures_of_the_motion(tmp_path):
    move = approach(DEMO3, [0.0, -0.5, 0.0], [0.6, 0.3, -0.4])
    save_trajectory(tmp_path / "move.yaml", move, 100.0)
    request = PreviewRequest(str(tmp_path / "move.yaml"), RobotSource("demo3"), save=str(tmp_path / "page.html"))
    outcome = preview(request)
    assert outcome.robot == "demo3" and outcome.duration == pytest.approx(move.duration, abs=0.02)
    use = use_of(DEMO3, move.curve, bounds_of(DEMO3, 0.0), known_parameters(DEMO3))
    assert all(outcome.use[kind] == pytest.approx(value, rel=0.05) for kind, value in use.items())
    assert (tmp_path / "page.html").exists() and outcome.file == str(tmp_path / "page.html")
    assert outcome.clearance is None and outcome.at is None and outcome.pair is None
    for key in ("save", "screenshot"):
        with pytest.raises(InputError, match="no folder"):
            preview(replace(request, **{"overwrite": True, key: str(tmp_path / "no" / "x")}))
    with pytest.raises(InputError, match="needs collision shapes"):
        preview(replace(request, overwrite=True, surroundings=Surroundings(floor=-0.3)))
