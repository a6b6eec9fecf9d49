# SPDX-License-Identifier: Apache-2.0

"""Plan: a robot and what surrounds it give an exciting trajectory, checked and written to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.excitation.limits import Caps, bounds_of, known_parameters, use_of
from ros2_dynid.excitation.plan import PlanOptions
from ros2_dynid.excitation.plan import plan as search_plan
from ros2_dynid.excitation.static import approach, ramps, static_poses
from ros2_dynid.excitation.trajectory import load_trajectory
from ros2_dynid.model.load import find_robot_file, load_robot
from ros2_dynid.usecases.plan import (
    PlanMethod,
    PlanRequest,
    Surroundings,
    describe_plan,
    finite_or_none,
    plan,
    plan_options,
    robot_and_shapes,
    true_clearance,
)
from ros2_dynid.usecases.robot_source import RobotSource
from usecase_recordings import DEMO, NAMES, ROBOT

URDF = find_robot_file("demo6").with_suffix(".urdf")


@pytest.mark.parametrize("source", [RobotSource("demo6"), RobotSource(urdf=URDF.read_text())])
def test_what_surrounds_a_robot(source, tmp_path):
    around = Surroundings(margin=0.07, floor=-0.1, box=(-1.0, 1.0, -2.0, 2.0, 0.0, 3.0))
    robot, shapes = robot_and_shapes(source, around, start=(0.0,) * 6)
    assert len(robot.active) == 6 and shapes.margin == 0.07 and len(shapes.planes) == 7
    _, known = robot_and_shapes(source, replace(around, floor=None), planning=False)
    assert len(known.planes) == 6 and known.links == shapes.links
    joint = robot.joints[2].name
    (tmp_path / "own.yaml").write_text(f"shapes: [{{joint: {joint}, at: [0.1, 0, 0], radius: 0.2}}]")
    _, own = robot_and_shapes(source, replace(around, file=str(tmp_path / "own.yaml")))
    assert own.links == (joint,)
    free = Surroundings(collisions=False, file=str(tmp_path / "own.yaml"))
    assert robot_and_shapes(source, free)[1] is None


@pytest.mark.parametrize("method", [PlanMethod.FOURIER, PlanMethod.VALIDATION, PlanMethod.POINTS])
def test_a_search_gets_every_wish(method):
    request = PlanRequest(
        DEMO, "x.yaml", method, groups=("inertial",), seed=3, rows=17, duration=7.0, harmonics=4, periods=2,
        criterion="cond", weights=(1.0, 2.0), equilibrium=0.5, optimiser="powell", measure="frobenius",
        time_budget=9.0, margin=0.2, max_position=1.0, max_velocity=2.0, max_acceleration=3.0, max_effort=4.0,
        start=(0.1, 0.2, 0.3), rate=50.0,
    )  # fmt: skip
    wish = plan_options(request, None, 0.25, print)
    expected = PlanOptions(
        method="points" if method is PlanMethod.POINTS else "fourier", groups=("inertial",), seed=3, rows=17,
        duration_s=7.0, harmonics=4, periods=2, criterion="cond", weights=(1.0, 2.0), equilibrium_weight=0.5,
        optimiser="powell", measure="frobenius", time_budget_s=9.0, spent_s=0.25, margin=0.2,
        caps=Caps(1.0, 2.0, 3.0, 4.0), start=(0.1, 0.2, 0.3), rate_hz=50.0, progress=print,
    )  # fmt: skip
    assert vars(wish) == vars(expected)


def test_a_plan_with_all_its_figures(tmp_path):
    wish = PlanOptions(groups=("inertial",), harmonics=3, duration_s=4.0, time_budget_s=0.5)
    found = search_plan(ROBOT, wish)
    request = PlanRequest(DEMO, "x.yaml", noise=0.7)
    told = describe_plan(request, replace(ROBOT, notes=("robot",)), found)
    assert (told.cond, told.S, told.cond_normalised) == (found.cond, found.S, found.cond_normalised)
    assert (told.n_base, told.rows, told.use) == (len(found.base), found.rows, found.use)
    assert (told.search_seconds, told.clearance, told.noise) == (found.seconds, None, 0.7)
    assert [row.name for row in told.parameters] == list(found.base.names)
    std = 0.7 * np.sqrt(np.diag(np.linalg.inv(found.W.T @ found.W)))
    assert [row.std for row in told.parameters] == pytest.approx(list(std), rel=1e-6)
    assert told.notes == ("robot", *found.notes) and told.start == tuple(found.trajectory.start)
    assert (told.robot, told.method, told.file, told.joints) == ("demo3", PlanMethod.FOURIER, "x.yaml", NAMES)
    for name, suffix in (("f", ".png"), ("a.b.svg", ".svg")):
        wanted = [f"{name.removesuffix(suffix)}_{what}{suffix}" for what in ("motion", "singular_values", "parameters")]
        pictures = describe_plan(replace(request, figures=str(tmp_path / name)), ROBOT, found).pictures
        assert list(pictures) == [str(tmp_path / one) for one in wanted] and all(map(Path.is_file, map(Path, pictures)))


@pytest.mark.parametrize("method", [PlanMethod.STATIC, PlanMethod.RAMPS])
def test_slow_trajectories_get_every_wish(tmp_path, method):
    request = PlanRequest(
        DEMO, str(tmp_path / "p.yaml"), method, poses=4, hold_time=0.5, margin=0.25, start=(0.1, 0.0, 0.2), seed=4,
        max_velocity=0.9, rate=4.0, csv=str(tmp_path / "q.txt"), rehearsal=str(tmp_path / "r.yaml"),
        rehearsal_speed=0.5,
    )  # fmt: skip
    told = plan(request)
    wish = {"margin": 0.25, "caps": request.caps, "start": request.start, "seed": 4}
    own = static_poses(ROBOT, poses=4, hold_s=0.5, **wish) if method is PlanMethod.STATIC else ramps(ROBOT, **wish)
    np.testing.assert_allclose(load_trajectory(request.output).curve.a, own.curve.a, atol=1e-12)
    assert told.use == use_of(ROBOT, own.curve, bounds_of(ROBOT, 0.0, request.caps), known_parameters(ROBOT))
    assert told.start == pytest.approx(request.start) and told.joints == NAMES and told.file == request.output
    assert told.rows > 0 and told.rows % 3 == 0 and told.duration == own.duration
    assert told.method is method and told.exact_clearance is None and told.cond is None
    assert load_trajectory(request.output).rate_hz == 4.0 and load_trajectory(request.rehearsal).rate_hz == 2.0
    assert load_trajectory(request.rehearsal).duration == pytest.approx(2.0 * own.duration)
    assert (tmp_path / "q.csv").is_file() and 0.0 < told.seconds < 60.0


def test_close_links_are_measured_in_their_true_shapes():
    pytest.importorskip("coal")
    source = RobotSource("demo6")
    robot, shapes = robot_and_shapes(source, Surroundings())
    move = approach(robot, [0.0] * 6, [0.3] * 6)
    if shapes.solids:
        assert true_clearance(robot, shapes, move) > 0.0
    assert true_clearance(robot, replace(shapes, solids=()), move) is None
    assert true_clearance(robot, None, move) is None


DEMO3 = load_robot("demo3")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"rate": 0.0}, "rate is 0.0 Hz"),
        ({"rate": -5.0}, "the rate is -5.0 Hz"),
        ({"rate": np.inf}, "the rate is inf Hz"),
        ({"rate": np.nan}, "the rate is nan Hz"),
        ({"time_budget": 0.0}, "time budget is 0.0 s"),
        ({"time_budget": -1.0}, "the time budget is -1.0 s"),
        ({"output": "no/such/folder/p.yaml"}, "no folder"),
        ({"csv": "no/such/folder/p.csv"}, "no folder"),
        ({"rehearsal": "no/such/folder/p.csv"}, "no folder"),
        ({"figures": "no/such/folder/f"}, "no folder"),
    ],
)
def test_requests_without_meaning_are_refused_first(tmp_path, wrong, words):
    good = PlanRequest(RobotSource("demo3"), str(tmp_path / "plan.yaml"))
    with pytest.raises(InputError, match=words):
        plan(replace(good, **wrong))


def test_limits_of_a_request_hold_beside_the_robots():
    request = PlanRequest(
        RobotSource("demo3"), "x", max_position=1.0, max_velocity=0.2, max_acceleration=0.3, max_effort=0.4
    )
    caps = request.caps
    assert (caps.position, caps.velocity, caps.acceleration, caps.effort) == (1.0, 0.2, 0.3, 0.4)
    assert PlanRequest(RobotSource("demo3"), "x").caps.velocity == np.inf
    assert finite_or_none(2.0) == 2.0 and finite_or_none(np.inf) is None and finite_or_none(np.nan) is None
    assert true_clearance(DEMO3, None, approach(DEMO3, [0, 0, 0], [0.1, 0, 0])) is None
