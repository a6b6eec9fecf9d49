# SPDX-License-Identifier: Apache-2.0

"""What a request asks for arrives, all of it, and what is found comes back in the right places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid.cli import main
from ros2_dynid.errors import InputError, remark
from ros2_dynid.excitation.limits import Caps
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.static import approach
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.loads.drive_gains import Gains
from ros2_dynid.identification.loads.payload_fit import Payload
from ros2_dynid.identification.loads.tool_fit import Tool
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.validation.diagnosis import Diagnosis, Finding
from ros2_dynid.identification.validation.effort_scale import EffortEvidence
from ros2_dynid.model.load import find_robot_file, load_robot
from ros2_dynid.recording.checks import RED, YELLOW, RecordingProblem
from ros2_dynid.recording.samples import Reading, Samples
from ros2_dynid.report.build import PREVIEW
from ros2_dynid.usecases.check import CheckRequest, check, check_recording
from ros2_dynid.usecases.fleet import FleetRequest, fleet
from ros2_dynid.usecases.gains import GainsRequest, gains
from ros2_dynid.usecases.identify import IdentifyRequest, identify
from ros2_dynid.usecases.payload import HalfWidths, JointMass, PayloadRequest, has_names, payload, payloads
from ros2_dynid.usecases.plan import (
    PlanMethod,
    PlanRequest,
    PredictedRow,
    Surroundings,
    describe_plan,
    describe_trajectory,
    plan,
    plan_slow_motion,
    robot_and_shapes,
    search_plan,
    true_clearance,
)
from ros2_dynid.usecases.preview import PreviewRequest, describe_preview, preview, scene_of
from ros2_dynid.usecases.report import ReportOutcome, ReportRequest, report
from ros2_dynid.usecases.robot_source import RobotSource
from ros2_dynid.usecases.tool import ToolRequest, tool

DEMO = RobotSource("demo3")
NAMES = load_robot("demo3").active_names
OPTIONS = IdentifyOptions(friction="viscous+coulomb")


def matrix(first):
    return first + np.arange(9.0).reshape(3, 3)


FOUND = Payload(
    mass=1.0, com=np.array([2.0, 3.0, 4.0]), inertia=matrix(10.0), mass_std=5.0, com_std=np.array([6.0, 7.0, 8.0]),
    inertia_std=matrix(20.0), interval=(9.0, np.array([10.0, 11.0, 12.0]), matrix(30.0)), frame="tool", joint=3,
    parameters=np.zeros(10), covariance=np.zeros((10, 10)), significant=True,
    joint_mass=np.array([1.1, np.nan, 1.3]), joint_mass_std=np.array([0.1, np.nan, 0.3]), contradicting=("elbow",),
)  # fmt: skip


def tuples(values):
    return tuple(tuple(map(float, row)) for row in values)


@pytest.fixture
def asked(monkeypatch):
    """Whatever the pipeline is asked for, by the name of its function."""
    calls = {}

    def spy(name, answer):
        def call(*args, **options):
            calls[name] = (args, options)
            return answer

        module = "gains" if name == "identify_gains" else "payload"
        monkeypatch.setattr(f"ros2_dynid.usecases.{module}.{name}", call)

    spy("identify_payloads", {"": FOUND})
    spy("identify_payload_on_model", FOUND)
    spy("identify_gains", Gains(np.array([1.5, np.nan, -2.5]), np.array([0.1, np.nan, 0.2]), (True, True, False)))
    return calls


def progress(stage, fraction):
    """Say nothing."""


def test_a_payload_with_all_its_figures(asked):
    request = PayloadRequest(DEMO, ("empty.mcap",), ("one.mcap", "two.mcap"), "flange", OPTIONS, free=True)
    found = payload(request, progress)
    (robot, empty, loaded), options = asked["identify_payloads"]
    assert (robot.active_names, empty, loaded) == (NAMES, ("empty.mcap",), {"": ("one.mcap", "two.mcap")})
    assert options == {
        "link": "flange", "free": True, "options": OPTIONS, "progress": progress,
    }  # fmt: skip
    assert (found.mass, found.com, found.inertia) == (1.0, (2.0, 3.0, 4.0), tuples(matrix(10.0)))
    assert found.std == HalfWidths(5.0, (6.0, 7.0, 8.0), tuples(matrix(20.0)))
    assert found.interval95 == HalfWidths(9.0, (10.0, 11.0, 12.0), tuples(matrix(30.0)))
    assert (found.frame, found.significant, found.contradicting) == ("tool", True, ("elbow",))
    assert found.joint_mass == {NAMES[0]: JointMass(1.1, 0.1), NAMES[2]: JointMass(1.3, 0.3)}


def test_a_model_stands_for_the_recordings_without_the_load(asked, monkeypatch):
    class Model:
        robot = load_robot("demo3")

    monkeypatch.setattr("ros2_dynid.usecases.payload.is_model_file", lambda path: path == "model.yaml")
    monkeypatch.setattr("ros2_dynid.usecases.payload.load_model", lambda path: Model)
    found = payload(PayloadRequest(RobotSource("model.yaml"), (), ("one.mcap",), "flange", OPTIONS), progress)
    args, options = asked["identify_payload_on_model"]
    assert args == (Model, ("one.mcap",)) and "identify_payloads" not in asked
    assert options == {
        "link": "flange", "free": False, "options": OPTIONS, "progress": progress,
    }  # fmt: skip
    assert found.mass == 1.0
    assert found.joint_mass == {NAMES[0]: JointMass(1.1, 0.1), NAMES[2]: JointMass(1.3, 0.3)}
    with pytest.raises(InputError, match="a model and recordings without the load are given"):
        payload(PayloadRequest(RobotSource("model.yaml"), ("empty.mcap",), ("one.mcap",)))
    with pytest.raises(InputError, match="no recording without the load"):
        payload(PayloadRequest(DEMO, (), ("one.mcap",)))


@pytest.mark.parametrize("load", [(), tuple(map(float, range(10)))])
def test_gains_by_name_and_none_where_there_is_none(asked, load):
    found = gains(GainsRequest(DEMO, ("e",), ("l",), 2.5, OPTIONS, load), progress)
    (robot, empty, loaded, mass), options = asked["identify_gains"]
    assert (robot.active_names, empty, loaded, mass) == (NAMES, ("e",), ("l",), 2.5)
    given = options.pop("load")
    assert (given is None) if not load else list(given) == list(load)
    assert options == {"options": OPTIONS, "progress": progress}
    assert found.gains == {NAMES[0]: 1.5, NAMES[1]: None, NAMES[2]: -2.5} and found.mass == 2.5
    assert found.std == {NAMES[0]: 0.1, NAMES[1]: None, NAMES[2]: 0.2}
    assert found.from_mass == {NAMES[0]: True, NAMES[1]: True, NAMES[2]: False}


def test_one_robot_from_a_file_or_a_text_with_gravity_and_limits(tmp_path):
    with pytest.raises(InputError, match="no robot is given"):
        RobotSource()
    with pytest.raises(InputError, match="two robots are given"):
        RobotSource("demo3", "<robot/>")
    with pytest.raises(InputError, match="gravity"):
        RobotSource("demo3", gravity=(0.0, 0.0))
    file = find_robot_file("demo6").with_suffix(".urdf")
    name = load_robot("demo6").joints[1].name
    (tmp_path / "limits.yaml").write_text(f"joint_limits: {{{name}: {{max_velocity: 0.123}}}}")
    options = {"joint_limits": str(tmp_path / "limits.yaml"), "gravity": (0.0, 9.81, 0.0), "hold": {}}
    for source in (RobotSource(str(file), **options), RobotSource(urdf=file.read_text(), **options)):
        robot = source.load()
        assert robot.joints[1].limits.velocity == 0.123 and tuple(robot.gravity) == (0.0, 9.81, 0.0)
    held = {load_robot("demo6").joints[5].name: 0.3}
    for source in (RobotSource(str(file), hold=held), RobotSource(urdf=file.read_text(), hold=held)):
        assert len(source.load().active) == 5
        assert tuple(source.load().gravity) == tuple(load_robot("demo6").gravity)


# --- a request's every word, in the place where it is used


def spied(monkeypatch, place, answer):
    """Replace a function, by its full name, and return what it is called with."""
    calls = []

    def call(*args, **options):
        calls.append((args, options))
        return answer

    monkeypatch.setattr(place, call)
    return calls


def test_identify_passes_all_on_and_keeps_the_preview(monkeypatch, tmp_path):
    outcome = object()
    calls = spied(monkeypatch, "ros2_dynid.pipeline.identify", SimpleNamespace(outcome=outcome))
    reports = spied(monkeypatch, "ros2_dynid.usecases.identify.write_report", None)
    page, output = tmp_path / "seen.html", tmp_path / "out"
    page.write_text("a page")
    output.mkdir()
    request = IdentifyRequest(DEMO, ("a", "b"), ("c",), OPTIONS, str(output), True, "typed", str(page))
    assert identify(request, progress) is outcome
    ((robot, recordings), options) = calls[0]
    assert robot.active_names == NAMES and recordings == ("a", "b")
    assert options == {
        "options": OPTIONS, "validate": ("c",), "output": str(output), "overwrite": True, "command": "typed",
        "progress": progress,
    }  # fmt: skip
    assert (output / PREVIEW).read_text() == "a page" and reports == [((output,), {"figures": False})]
    identify(replace(request, preview=None))
    identify(replace(request, output=None))
    assert len(reports) == 1 and len(calls) == 3
    with pytest.raises(InputError, match="no such file"):
        identify(replace(request, preview=str(tmp_path / "none.html")))
    assert len(calls) == 3, "refused before anything is identified"
    monkeypatch.setattr("ros2_dynid.usecases.identify.MAX_PREVIEW_BYTES", 5)
    with pytest.raises(InputError, match="it has more than"):
        identify(request)
    assert len(calls) == 3


def test_a_request_that_says_no_more_than_it_must_asks_for_nothing_more(asked, monkeypatch):
    calls = spied(monkeypatch, "ros2_dynid.pipeline.identify", SimpleNamespace(outcome=None))
    identify(IdentifyRequest(DEMO, ("a",)))
    assert calls[0][1] == {
        "options": IdentifyOptions(), "validate": (), "output": None, "overwrite": False, "command": "",
        "progress": None,
    }  # fmt: skip
    plain = {"link": None, "options": IdentifyOptions(), "progress": None}
    payload(PayloadRequest(DEMO, ("e",), ("l",)))
    assert asked["identify_payloads"][1] == {**plain, "free": False}
    gains(GainsRequest(DEMO, ("e",), ("l",), 2.5))
    assert asked["identify_gains"][1] == {
        "load": None, "options": IdentifyOptions(), "progress": None,
    }  # fmt: skip
    monkeypatch.setattr("ros2_dynid.usecases.payload.is_model_file", lambda path: True)
    monkeypatch.setattr("ros2_dynid.usecases.payload.load_model", lambda path: SimpleNamespace(robot=DEMO.load()))
    for free in (False, True):
        payload(PayloadRequest(RobotSource("model.yaml"), (), ("l",), free=free))
        assert asked["identify_payload_on_model"][1] == {**plain, "free": free}


def test_a_tool_with_all_its_figures(monkeypatch):
    six = np.arange(6.0)
    found = Tool(FOUND, six + 1, six + 11, six + 21, six + 31, six + 41, 0.007, -1, 99)
    pose = np.eye(4)
    robot = replace(load_robot("demo3"), tools={"flange": (3, pose), "elbow": (2, pose)})
    monkeypatch.setattr(RobotSource, "load", lambda self: robot)
    samples = Samples(np.arange(3.0), NAMES, np.ones((3, 3)), tau=None, start_ns=17, notes=(remark("read"),))
    read = spied(monkeypatch, "ros2_dynid.usecases.tool.read_samples", samples)
    wrenches = spied(monkeypatch, "ros2_dynid.usecases.tool.read_wrenches", SimpleNamespace(frame="wrist"))
    prepared = spied(monkeypatch, "ros2_dynid.usecases.tool.prepare", "prepared")
    fitted = spied(monkeypatch, "ros2_dynid.usecases.tool.identify_tool", found)
    seen = []
    request = ToolRequest(DEMO, "run", "/wrench", "elbow", OPTIONS, free=True)
    told = tool(request, lambda stage, fraction: seen.append((stage, fraction)))
    assert read == [(("run", robot, OPTIONS.reading), {})]
    assert wrenches == [(("run", "/wrench", 17, OPTIONS.reading), {})]
    ((given, stand_in, preparation), _) = prepared[0]
    assert given is robot and np.array_equal(stand_in.tau, samples.q) and preparation is OPTIONS.preparation
    assert fitted == [((robot, "prepared", SimpleNamespace(frame="wrist"), "elbow"), {"free": True})]
    assert (told.mass, told.com, told.inertia) == (1.0, (2.0, 3.0, 4.0), tuples(matrix(10.0)))
    assert told.std == HalfWidths(5.0, (6.0, 7.0, 8.0), tuples(matrix(20.0)))
    assert told.interval95 == HalfWidths(9.0, (10.0, 11.0, 12.0), tuples(matrix(30.0)))
    assert (told.bias, told.drift) == (tuple(six + 1), tuple(six + 21))
    assert (told.sensor_std.bias, told.sensor_std.drift) == (tuple(six + 11), tuple(six + 31))
    assert (told.residual, told.delay, told.sign, told.rows) == (tuple(six + 41), 0.007, -1, 99)
    assert [fraction for _, fraction in seen] == [0.0, 0.4, 0.8, 1.0]
    assert told.notes[0] == "read" and "'wrist'" in told.notes[1] and "opposite sign" in told.notes[2]
    spied(monkeypatch, "ros2_dynid.usecases.tool.identify_tool", replace(found, sign=1))
    spied(monkeypatch, "ros2_dynid.usecases.tool.read_wrenches", SimpleNamespace(frame="flange"))
    assert tool(replace(request, link=None)).notes == ("read",)
    spied(monkeypatch, "ros2_dynid.usecases.tool.read_wrenches", SimpleNamespace(frame=""))
    assert tool(request).notes == ("read",)


@pytest.mark.parametrize("method", [PlanMethod.FOURIER, PlanMethod.VALIDATION, PlanMethod.POINTS])
def test_a_search_gets_every_wish(monkeypatch, method):
    mine = spied(monkeypatch, "ros2_dynid.usecases.plan.planned", "plan")
    other = spied(monkeypatch, "ros2_dynid.usecases.plan.validation_plan", "other")
    request = PlanRequest(
        DEMO, "x.yaml", method, groups=("inertial",), seed=3, rows=17, duration=7.0, harmonics=4, periods=2,
        criterion="cond", weights=(1.0, 2.0), equilibrium=0.5, optimiser="powell", measure="frobenius",
        time_budget=9.0, margin=0.2, max_position=1.0, max_velocity=2.0, max_acceleration=3.0, max_effort=4.0,
        start=(0.1, 0.2, 0.3), rate=50.0,
    )  # fmt: skip
    robot = load_robot("demo3")
    assert search_plan(request, robot, "shapes", 0.25, progress) == (
        "other" if method is PlanMethod.VALIDATION else "plan"
    )
    ((given, wish), _) = (other if method is PlanMethod.VALIDATION else mine)[0]
    assert given is robot and len(mine) + len(other) == 1
    assert wish.method == ("points" if method is PlanMethod.POINTS else "fourier")
    assert (wish.groups, wish.seed, wish.rows, wish.duration_s) == (("inertial",), 3, 17, 7.0)
    assert (wish.harmonics, wish.periods, wish.margin, wish.start) == (4, 2, 0.2, (0.1, 0.2, 0.3))
    assert (wish.time_budget_s, wish.spent_s, wish.rate_hz) == (9.0, 0.25, 50.0)
    assert (wish.criterion, wish.weights, wish.equilibrium_weight) == ("cond", (1.0, 2.0), 0.5)
    assert (wish.optimiser, wish.measure, wish.shapes, wish.progress) == ("powell", "frobenius", "shapes", progress)
    assert wish.caps == request.caps


def test_what_surrounds_a_robot_and_where_its_shapes_are(monkeypatch, tmp_path):
    planning = spied(monkeypatch, "ros2_dynid.usecases.plan.surroundings", ("r", None))
    known = spied(monkeypatch, "ros2_dynid.usecases.plan.known_shapes", ("k", None))
    around = Surroundings(margin=0.07, floor=-0.1, box=(-1.0, 1.0, -2.0, 2.0, 0.0, 3.0))
    source = RobotSource("demo6")
    assert robot_and_shapes(source, around, start=(0.0,) * 6) == ("r", None)
    ((robot, file), options) = planning[-1]
    assert len(robot.active) == 6 and file.name == "demo6.urdf"
    assert (options["margin"], options["floor"], options["box"]) == (0.07, -0.1, around.box)
    assert options["start"] == (0.0,) * 6
    robot_and_shapes(source, around, start=(0.0,) * 5)
    assert planning[-1][1]["start"] is None, "a pose of another robot says nothing"
    assert robot_and_shapes(source, around, planning=False) == ("k", None)
    assert known[-1][1]["floor"] == -0.1 and "start" not in known[-1][1]
    robot_and_shapes(source, replace(around, file="own.yaml"))
    assert planning[-1][0][1] == Path("own.yaml")
    robot_and_shapes(source, replace(around, file="own.yaml", collisions=False))
    assert planning[-1][0][1] is None
    text = find_robot_file("demo6").with_suffix(".urdf").read_text()
    robot_and_shapes(RobotSource(urdf=text), around)
    assert planning[-1][0][1].name == "robot.urdf" and not planning[-1][0][1].exists(), "it is gone afterwards"
    robot_and_shapes(RobotSource(urdf=text), replace(around, collisions=False))
    assert planning[-1][0][1] is None


def test_a_fleet_is_asked_for_and_told_in_full(monkeypatch):
    summary = SimpleNamespace(robots={"a": 1}, outliers=(2,), failed=(3,), kinds=(4,))
    work = SimpleNamespace(recordings=5, mapped=6, reduced=7)
    found = SimpleNamespace(fleet=summary, work=work, page=Path("p.html"), result=Path("f.json"))
    calls = spied(monkeypatch, "ros2_dynid.usecases.fleet.run_fleet", found)
    told = fleet(FleetRequest("fleet.yaml", "out", "tcp://x:1", 3, "typed"), progress, print)
    assert calls == [
        (
            (Path("fleet.yaml"), Path("out")),
            {
                "scheduler": "tcp://x:1",
                "count": 3,
                "command": "typed",
                "progress": progress,
                "say": print,
            },
        )
    ]
    assert (told.robots, told.outliers, told.failed, told.kinds) == ({"a": 1}, (2,), (3,), (4,))
    assert (told.page, told.result, told.recordings, told.mapped, told.reduced) == ("p.html", "f.json", 5, 6, 7)


def test_reports_of_one_folder_and_of_several(monkeypatch):
    one = spied(monkeypatch, "ros2_dynid.usecases.report.write_report", Path("a/report.html"))
    answer = SimpleNamespace(report="c.html", models=("a", "b"), changed={"b": ("x",)})
    several = spied(monkeypatch, "ros2_dynid.usecases.report.write_comparison", answer)
    assert report(ReportRequest(("a",), figures=False)) == ReportOutcome("a/report.html")
    assert one == [((Path("a"),), {"figures": False})] and not several
    assert report(ReportRequest(("a", "b"))) == ReportOutcome("c.html", ("a", "b"), {"b": ("x",)})
    report(ReportRequest(("a", "b"), "mine.html"))
    assert [args for args, _ in several] == [
        ([Path("a"), Path("b")], Path("comparison.html")),
        ([Path("a"), Path("b")], Path("mine.html")),
    ]
    with pytest.raises(InputError, match="no folder to report on"):
        report(ReportRequest(()))


def test_a_sub_chain_of_a_file_and_of_a_text():
    file = find_robot_file("demo6").with_suffix(".urdf")
    names = load_robot("demo6").active_names
    for source in ({"path": str(file)}, {"urdf": file.read_text()}):
        whole, tip, base = (
            RobotSource(**source, **chain).load().active_names
            for chain in ({}, {"tip_link": "forearm"}, {"base_link": "upper_arm"})
        )
        assert (whole, tip, base) == (names, names[:3], names[2:])


def test_what_a_robot_looks_like_is_asked_for_with_its_chain_and_what_is_around(monkeypatch):
    drawn = spied(monkeypatch, "ros2_dynid.usecases.preview.urdf_bodies", (["body"], ("no mesh",)))
    shown = spied(monkeypatch, "ros2_dynid.usecases.preview.appearance", "look")
    around = spied(monkeypatch, "ros2_dynid.usecases.preview.robot_and_shapes", ("robot", "shapes"))
    made = spied(monkeypatch, "ros2_dynid.usecases.preview.scene", "scene")
    place = Surroundings(floor=-0.5, box=(-1.0, 1.0, -2.0, 2.0, 0.0, 3.0))
    file = find_robot_file("demo6").with_suffix(".urdf")
    caps = Caps(1.0, 2.0, 3.0, 4.0)
    chain = {"base_link": "base_link", "tip_link": "forearm", "hold": {"elbow": 0.5}}
    source = RobotSource(str(file), **chain)
    assert scene_of("trajectory", source, place, caps) == "scene"
    assert made == [(("robot", "trajectory", "look", caps), {})]
    assert around == [((source, place), {"planning": False})]
    assert drawn == [(("robot", file), chain)]
    options = {"floor": -0.5, "box": place.box, "notes": ("no mesh",)}
    assert shown == [(("robot", ["body"], "shapes"), options)]
    scene_of("trajectory", RobotSource(urdf="<robot/>", **chain), place)
    ((_, written), given) = drawn[1]
    assert written.name == "robot.urdf" and not written.exists() and given == chain and made[1][0][3] is None
    scene_of("trajectory", DEMO, place)
    assert len(drawn) == 2 and shown[-1][0][1] == [], "a robot without a URDF has no shapes"


# --- what a plan is worth


def test_a_plan_with_all_its_figures(monkeypatch, tmp_path):
    robot = replace(load_robot("demo3"), notes=("robot",))
    move = approach(robot, [0.1, 0, 0], [0.5, 0, 0])

    class Base:
        names = ("a", "b")

        def __len__(self):
            return 2

    found = SimpleNamespace(
        trajectory=move, rows=77, use={"velocity": 0.5}, cond=12.0, S=3.0, cond_normalised=4.0, base=Base(),
        seconds=1.5, clearance_m=0.25, notes=("found",),
    )  # fmt: skip
    predicted = spied(monkeypatch, "ros2_dynid.usecases.plan.predicted_std", ([0.1, np.inf], [np.nan, 20.0]))
    drawn = spied(monkeypatch, "ros2_dynid.usecases.plan.save_figures", [Path("p.png"), Path("q.png")])
    request = PlanRequest(DEMO, "x.yaml", noise=0.7)
    told = describe_plan(request, robot, found)
    assert predicted == [((robot, found, 0.7), {})] and not drawn and told.pictures == ()
    assert (told.cond, told.S, told.cond_normalised, told.n_base, told.rows) == (12.0, 3.0, 4.0, 2, 77)
    assert (told.search_seconds, told.clearance, told.noise, told.use) == (1.5, 0.25, 0.7, {"velocity": 0.5})
    assert told.parameters == (PredictedRow("a", 0.1, None), PredictedRow("b", None, 20.0))
    assert told.notes == ("robot", "found") and told.start == (0.1, 0.0, 0.0) and told.duration == move.duration
    assert (told.robot, told.method, told.file, told.joints) == ("demo3", PlanMethod.FOURIER, "x.yaml", NAMES)
    told = describe_plan(replace(request, figures=str(tmp_path / "f")), robot, found)
    assert drawn == [((str(tmp_path / "f"), robot, found, 0.7), {})] and told.pictures == ("p.png", "q.png")
    assert describe_trajectory(request, robot, move).rows == 3 * len(move.t)


@pytest.mark.parametrize(
    ("method", "maker"),
    [(PlanMethod.STATIC, "static_poses"), (PlanMethod.RAMPS, "ramps"), (PlanMethod.FRICTION, "friction_sweeps")],
)
def test_slow_trajectories_get_every_wish_and_are_checked_with_the_same(monkeypatch, tmp_path, method, maker):
    robot = load_robot("demo3")
    move = approach(robot, [0, 0, 0], [0.5, 0, 0])
    made = {name: spied(monkeypatch, f"ros2_dynid.usecases.plan.{name}", move) for name in (
        "static_poses", "ramps", "friction_sweeps",
    )}  # fmt: skip
    checked = spied(monkeypatch, "ros2_dynid.usecases.plan.check_trajectory", [])
    used = spied(monkeypatch, "ros2_dynid.usecases.plan.use_of", {"effort": 0.3})
    bounds = spied(monkeypatch, "ros2_dynid.usecases.plan.bounds_of", SimpleNamespace(notes=("bound",)))
    spied(monkeypatch, "ros2_dynid.usecases.plan.robot_and_shapes", (robot, None))
    request = PlanRequest(
        DEMO, str(tmp_path / "p.yaml"), method, poses=7, hold_time=0.5, margin=0.25, start=(0.0, 0.0, 0.0), seed=4,
        max_velocity=0.9,
    )  # fmt: skip
    found = plan(request)
    ((args, options),) = made.pop(maker)
    assert not any(made.values()) and args == (robot,)
    wishes = {"margin": 0.25, "caps": request.caps, "start": request.start, "shapes": None, "seed": 4}
    assert options == (wishes | {"poses": 7, "hold_s": 0.5} if method is PlanMethod.STATIC else wishes)
    assert checked == [((robot, move), {"margin": 0.25, "caps": request.caps})]
    assert bounds == [((robot, 0.0, request.caps), {})], "use is a share of the limits themselves"
    assert used[0][0][:2] == (robot, move.curve) and found.use == {"effort": 0.3} and "bound" in found.notes
    assert found.exact_clearance is None and found.cond is None and found.method is method


# --- is a recording usable?


def test_a_check_reads_as_asked_in_the_order_of_the_recording(monkeypatch):
    read = spied(monkeypatch, "ros2_dynid.usecases.check.read_samples", "samples")
    looked = spied(monkeypatch, "ros2_dynid.usecases.check.check_recording", "found")
    reading, preparation = Reading(start=1.0), PreparationOptions(row_cutoff=4.0)
    assert check(CheckRequest(DEMO, "run", reading, preparation)) == "found"
    (((recording, robot, how), options),) = read
    assert (recording, how, options) == ("run", reading, {"in_order": False}) and robot.active_names == NAMES
    assert looked == [(("samples", robot, preparation), {})]


def recorded():
    t = np.arange(400) / 100.0
    q = np.column_stack([np.sin(w * t) for w in (1.0, 1.7, 2.3)])
    return Samples(t, NAMES, q, tau=np.column_stack([np.cos(w * t) for w in (1.0, 1.7, 2.3)]), source="run")


def checked(monkeypatch, problems=(), findings=(), refusal=None, preparation=None):
    rows = tuple(SimpleRow(name) for name in NAMES)
    found = Checked(rows, tuple(problems))
    seen = spied(monkeypatch, "ros2_dynid.usecases.check.check_samples", found)
    monkeypatch.setattr(
        "ros2_dynid.usecases.check.with_problems", lambda found, more: replace(found, problems=(*found.problems, *more))
    )
    asked = []

    def read(robot, recordings, options, report):
        asked.append((recordings, options))
        if refusal is not None:
            raise refusal
        return "problem"

    monkeypatch.setattr("ros2_dynid.usecases.check.build_problem", read)
    evidence = tuple(EffortEvidence(0.1 * k, 1.0 * k, np.nan if k == 1 else 0.3 * k) for k in range(3))

    def diagnose(problem, friction):
        assert problem == "problem" and friction == PLAIN
        return Diagnosis(tuple(findings), evidence)

    monkeypatch.setattr("ros2_dynid.usecases.check.diagnose", diagnose)
    return check_recording(recorded(), load_robot("demo3"), preparation), seen, asked


@dataclass(frozen=True)
class SimpleRow:
    """A joint's row of a check."""

    name: str
    gravity_scale: float | None = None
    gravity_correlation: float | None = None
    friction_correlation: float | None = None


@dataclass(frozen=True)
class Checked:
    """A check of samples alone."""

    joints: tuple[SimpleRow, ...]
    problems: tuple[RecordingProblem, ...]


def test_a_check_has_the_evidence_of_identification(monkeypatch):
    options = PreparationOptions(gains={NAMES[1]: -2.0}, row_cutoff=4.0)
    sure, likely = Finding("effort_sign", (NAMES[1],), "a", "b"), Finding("gravity", (), "c", "d", certain=False)
    two = Finding("effort_unit", (NAMES[0], NAMES[2]), "e", "f")
    found, seen, asked = checked(monkeypatch, findings=(sure, likely, two), preparation=options)
    ((samples, _), _) = seen[0]
    np.testing.assert_array_equal(samples.tau, recorded().tau * [1.0, -2.0, 1.0])
    ((recordings, given),) = asked
    assert given.preparation == replace(options, gains={}) and given.friction == "viscous+coulomb"
    np.testing.assert_array_equal(recordings[0].tau, samples.tau)
    assert [row.gravity_scale for row in found.joints] == [0.0, 1.0, 2.0]
    assert [row.gravity_correlation for row in found.joints] == pytest.approx([0.0, 0.1, 0.2])
    assert [row.friction_correlation for row in found.joints] == [0.0, None, 0.6]
    assert [(p.kind, p.level, p.what, p.do, p.joint) for p in found.problems] == [
        ("effort_sign", RED, "a", "b", NAMES[1]),
        ("gravity", YELLOW, "c", "d", None),
        ("effort_unit", RED, "e", "f", None),
    ]


def test_samples_that_came_late_are_checked_as_recorded_and_judged_in_order(monkeypatch):
    late = recorded()
    order = np.arange(len(late.t))
    order[[100, 101]] = 101, 100
    mixed = replace(late, t=late.t[order], q=late.q[order], tau=late.tau[order])
    monkeypatch.setitem(checked.__globals__, "recorded", lambda: mixed)
    _, seen, asked = checked(monkeypatch)
    np.testing.assert_array_equal(seen[0][0][0].t, mixed.t)
    np.testing.assert_array_equal(asked[0][0][0].t, late.t)
    np.testing.assert_array_equal(asked[0][0][0].tau, late.tau)


def test_a_check_ends_where_identification_would(monkeypatch):
    red = RecordingProblem("gap", RED, "a", "b")
    found, _, asked = checked(monkeypatch, problems=[red])
    assert found.problems == (red,) and not asked
    yellow = RecordingProblem("gap", YELLOW, "a", "b")
    assert len(checked(monkeypatch, problems=[yellow])[2]) == 1
    degrees = RecordingProblem("position_unit", RED, "a", "b", NAMES[0])
    again = Finding("position_unit", (NAMES[0],), "c", "d")
    found, _, asked = checked(monkeypatch, problems=[degrees], findings=(again,))
    assert found.problems == (degrees,) and len(asked) == 1, "what is known already is not said twice"
    found, _, _ = checked(monkeypatch, refusal=InputError("too short", "record longer"))
    (problem,) = found.problems
    assert (problem.kind, problem.level, problem.what, problem.do) == ("unusable", RED, "too short", "record longer")


def test_loads_by_name(asked, monkeypatch, tmp_path):
    assert has_names(("box=a.mcap",)) and not has_names(("a.mcap",)) and not has_names(())
    odd = tmp_path / "x=y.mcap"
    odd.touch()
    assert not has_names((str(odd),)), "a file that is called so"
    spied(monkeypatch, "ros2_dynid.usecases.payload.identify_payloads", {"box": FOUND, "can": replace(FOUND, mass=7.0)})
    found = payloads(PayloadRequest(DEMO, ("e",), ("box=a", "can=b", "box=c")))
    assert {name: one.mass for name, one in found.loads.items()} == {"box": 1.0, "can": 7.0}
    calls = spied(monkeypatch, "ros2_dynid.usecases.payload.identify_payloads", {})
    payloads(PayloadRequest(DEMO, ("e",), ("box=a", "can=b", "box=c")))
    assert calls[0][0][2] == {"box": ("a", "c"), "can": ("b",)}
    for wrong in ("=a", "box=", "a"):
        with pytest.raises(InputError, match="names no load"):
            payloads(PayloadRequest(DEMO, ("e",), ("can=b", wrong)))
    with pytest.raises(InputError, match="several loads are named"):
        payload(PayloadRequest(DEMO, ("e",), ("box=a",)))


def test_a_picture_is_taken_at_the_time_asked_for_or_where_it_is_closest(monkeypatch, tmp_path):
    robot = load_robot("demo3")
    move = approach(robot, [0.0, -0.5, 0.0], [0.6, 0.3, -0.4])
    save_trajectory(tmp_path / "move.yaml", move, 100.0)
    taken = spied(monkeypatch, "ros2_dynid.usecases.preview.screenshot", None)
    request = PreviewRequest(
        str(tmp_path / "move.yaml"), DEMO, screenshot=str(tmp_path / "p.png"), at=0.25, width=300, height=200
    )
    found = preview(request)
    ((page, file), options) = taken[0]
    assert "<html" in page and file == tmp_path / "p.png" and found.picture == str(file) and found.file is None
    assert options == {"size": (300, 200), "fragment": "t=0.25"}
    middle = preview(replace(request, at=None))
    assert taken[1][1]["fragment"] == f"t={middle.duration / 2:.6g}" and middle.at is None
    monkeypatch.setattr("ros2_dynid.usecases.preview.moment_of_least", lambda motion: (0.07, 0.4))
    closest = preview(replace(request, at=None))
    assert taken[2][1]["fragment"] == "t=0.4" and (closest.clearance, closest.at) == (0.07, 0.4)
    preview(replace(request, screenshot=None))
    assert len(taken) == 3


def test_close_links_are_measured_where_the_library_is_there(monkeypatch):
    robot = load_robot("demo3")
    move = approach(robot, [0, 0, 0], [0.5, 0, 0])
    measured = spied(monkeypatch, "ros2_dynid.usecases.plan.exact_clearance", (0.03, "a", "b"))
    shapes = SimpleNamespace(solids=("s",), close=("c",), notes=("shape",))
    monkeypatch.setattr("ros2_dynid.usecases.plan.available", lambda: True)
    assert true_clearance(robot, shapes, move) == 0.03
    ((given, solids, q), options) = measured[0]
    assert given is robot and solids == ("s",) and options == {"only": ("c",)}
    assert abs(len(q) - 20.0 * move.duration) <= 2, "20 poses a second"
    long = Trajectory(NAMES, through_points(np.array([0.0, 3600.0]), np.eye(3)[:2], np.zeros((2, 3))))
    true_clearance(robot, shapes, long)
    assert 400 <= len(measured[1][0][2]) <= 402, "of a long motion no more poses"
    assert true_clearance(robot, SimpleNamespace(solids=(), close=()), move) is None
    monkeypatch.setattr("ros2_dynid.usecases.plan.available", lambda: False)
    assert true_clearance(robot, shapes, move) is None and len(measured) == 2


@pytest.mark.parametrize("around", [None, SimpleNamespace(notes=("shape",))])
def test_notes_and_distances_of_a_slow_trajectory(monkeypatch, around):
    robot = replace(load_robot("demo3"), notes=("robot",))
    move = approach(robot, [0, 0, 0], [0.5, 0, 0])
    swept = spied(monkeypatch, "ros2_dynid.usecases.plan.ramps", move)
    spied(monkeypatch, "ros2_dynid.usecases.plan.gripper_notes", ("gripper",))
    measured = spied(monkeypatch, "ros2_dynid.usecases.plan.clearance", (0.2, "x"))
    request = PlanRequest(DEMO, "x", PlanMethod.RAMPS, margin=0.1, start=(0.0, 0.0, 0.0), seed=4)
    trajectory, outcome = plan_slow_motion(request, robot, around)
    assert trajectory is move and swept[0][0] == (robot,)
    assert swept[0][1] == {"margin": 0.1, "caps": request.caps, "start": request.start, "shapes": around, "seed": 4}
    told = [note for note in outcome.notes if note in ("robot", "gripper", "shape")]
    assert told == (["robot", "gripper"] if around is None else ["robot", "gripper", "shape"])
    assert outcome.clearance == (None if around is None else 0.2)
    for (where, shapes, q), _ in measured:
        assert where is robot and shapes is around
        np.testing.assert_array_equal(q, move.sample(100.0).q)
    assert len(measured) == (around is not None), "looked at every centisecond"
    spied(monkeypatch, "ros2_dynid.usecases.plan.check_trajectory", ["too fast"])
    with pytest.raises(InputError, match="too fast; choose another start pose"):
        plan_slow_motion(request, robot, around)


# --- the command line without options asks for what a request has by itself


def asked_by(monkeypatch, place, words):
    """Return the request that a command makes."""

    class AskedError(Exception):
        pass

    found = []

    def stop(request, *args, **options):
        found.append(request)
        raise AskedError

    monkeypatch.setattr(place, stop)
    with pytest.raises(AskedError):
        main(words)
    request = found[0]
    if hasattr(request, "options"):  # no columns and an empty table of columns are the same
        options = request.options
        reading = replace(options.reading, columns=options.reading.columns or None)
        return replace(request, options=replace(options, reading=reading))
    if hasattr(request, "reading"):
        return replace(request, reading=replace(request.reading, columns=request.reading.columns or None))
    return request


def test_defaults_of_commands_are_those_of_requests(monkeypatch, tmp_path):
    found = asked_by(monkeypatch, "ros2_dynid.usecases.plan.plan", ["excite", "demo3", "-o", "x.yaml"])
    assert found == PlanRequest(DEMO, "x.yaml")
    shown = asked_by(monkeypatch, "ros2_dynid.usecases.preview.previewed", ["preview", "move.yaml", "demo3"])
    assert shown == PreviewRequest("move.yaml", DEMO)
    asked = asked_by(monkeypatch, "ros2_dynid.usecases.identify.identify", ["identify", "demo3", "a.mcap"])
    assert replace(asked, command="") == IdentifyRequest(DEMO, ("a.mcap",))
    weighed = ["gains", "demo3", "--empty", "e", "--loaded", "l", "--mass", "2.5"]
    assert asked_by(monkeypatch, "ros2_dynid.usecases.gains.gains", weighed) == GainsRequest(DEMO, ("e",), ("l",), 2.5)
    load = ["payload", "demo3", "--empty", "e", "--loaded", "l"]
    assert asked_by(monkeypatch, "ros2_dynid.usecases.payload.payload", load) == PayloadRequest(DEMO, ("e",), ("l",))
    beyond = asked_by(monkeypatch, "ros2_dynid.usecases.tool.tool", ["tool", "demo3", "run", "--wrench", "/w"])
    assert beyond == ToolRequest(DEMO, "run", "/w")
    many = asked_by(monkeypatch, "ros2_dynid.usecases.fleet.fleet", ["fleet", "f.yaml", "-o", "out"])
    assert replace(many, command="") == FleetRequest("f.yaml", "out")
    page = asked_by(monkeypatch, "ros2_dynid.usecases.report.report", ["report", "folder"])
    assert page == ReportRequest(("folder",))
    usable = asked_by(monkeypatch, "ros2_dynid.usecases.check.check", ["check", "run", "demo3"])
    assert usable == CheckRequest(DEMO, "run")


def test_the_closest_pair_of_a_motion_is_named(monkeypatch):
    nearest = SimpleNamespace(distance=np.array([0.5, 0.2, 0.9]), first=np.array([0, 1, 2]), second=np.array([3, 4, 5]))
    motion = SimpleNamespace(nearest=nearest, kind="fourier", duration=3.0, use={"velocity": np.array([0.1, 0.7, 0.3])})
    shapes = SimpleNamespace()
    found = SimpleNamespace(motion=motion, appearance=SimpleNamespace(shapes=shapes, name="arm"), notes=("n",))
    monkeypatch.setattr("ros2_dynid.usecases.preview.moment_of_least", lambda motion: (0.2, 1.5))
    monkeypatch.setattr("ros2_dynid.usecases.preview.names_of", lambda shapes, a, b: (f"l{a}", f"l{b}"))
    told = describe_preview(found, PreviewRequest("t", DEMO, save="s.html", screenshot="p.png"))
    assert (told.pair, told.clearance, told.at) == (("l1", "l4"), 0.2, 1.5) and told.use == {"velocity": 0.7}
    assert (told.robot, told.kind, told.duration, told.notes) == ("arm", "fourier", 3.0, ("n",))
    assert (told.file, told.picture) == ("s.html", "p.png")
    found.appearance.shapes = None
    assert describe_preview(found, PreviewRequest("t", DEMO)).pair is None


def test_what_a_plan_writes_and_how_long_it_took(monkeypatch, tmp_path):
    robot = load_robot("demo3")
    move = Trajectory(NAMES, approach(robot, [0, 0, 0], [0.5, 0, 0]).curve)
    spied(monkeypatch, "ros2_dynid.usecases.plan.robot_and_shapes", (robot, None))
    searched = spied(monkeypatch, "ros2_dynid.usecases.plan.search_plan", SimpleNamespace(trajectory=move))
    request = PlanRequest(
        DEMO,
        str(tmp_path / "p.yaml"),
        time_budget=0.5,
        rate=40.0,
        csv=str(tmp_path / "q.txt"),
        rehearsal=str(tmp_path / "r.yaml"),
        rehearsal_speed=0.5,
    )
    spied(monkeypatch, "ros2_dynid.usecases.plan.describe_plan", describe_trajectory(request, robot, move))
    written = spied(monkeypatch, "ros2_dynid.usecases.plan.save_trajectory", None)
    measured = spied(monkeypatch, "ros2_dynid.usecases.plan.true_clearance", 0.042)
    found = plan(request)
    assert found.exact_clearance == 0.042 and measured == [((robot, None, move), {})]
    files = [(str(args[0]), args[2]) for args, _ in written]
    assert files == [(request.output, 40.0), (str(tmp_path / "q.csv"), 40.0), (request.rehearsal, 20.0)]
    assert written[2][0][1].duration == pytest.approx(2.0 * move.duration)
    assert 0.0 <= found.seconds < 60.0 and 0.0 <= searched[0][0][3] <= found.seconds
    plan(replace(request, csv=None, rehearsal=None))
    assert len(written) == 4
