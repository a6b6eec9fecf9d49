# SPDX-License-Identifier: Apache-2.0

"""What a request asks for is what the layers below are asked for, and what they give comes back in the right places."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.sensor_wrench import sensor_regressor
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.limits import Caps, bounds_of, known_parameters, use_of
from ros2_dynid.excitation.plan import PlanOptions
from ros2_dynid.excitation.plan import plan as search_plan
from ros2_dynid.excitation.static import approach, ramps, static_poses
from ros2_dynid.excitation.trajectory import load_trajectory, save_trajectory
from ros2_dynid.identification.loads.from_recordings import identify_gains, identify_payload_on_model, identify_payloads
from ros2_dynid.identification.loads.tool_fit import identify_tool
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.model.load import find_robot_file, load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.pipeline import identify as run_stages
from ros2_dynid.recording.checks import RED
from ros2_dynid.recording.samples import Reading, Samples, Units
from ros2_dynid.recording.wrench import Wrenches
from ros2_dynid.report.build import PREVIEW
from ros2_dynid.usecases.check import CheckRequest, check, check_recording
from ros2_dynid.usecases.gains import GainsRequest, gains
from ros2_dynid.usecases.identify import IdentifyRequest, identify
from ros2_dynid.usecases.payload import HalfWidths, JointMass, PayloadRequest, has_names, payload, payloads
from ros2_dynid.usecases.plan import (
    PlanMethod,
    PlanRequest,
    Surroundings,
    describe_plan,
    plan,
    plan_options,
    robot_and_shapes,
    true_clearance,
)
from ros2_dynid.usecases.preview import PreviewRequest, preview, robot_appearance
from ros2_dynid.usecases.report import ReportRequest, report
from ros2_dynid.usecases.robot_source import RobotSource
from ros2_dynid.usecases.tool import ToolRequest, tool

DEMO = RobotSource("demo3")
ROBOT = DEMO.load()
NAMES = ROBOT.active_names
CHI = standard_vector(ROBOT)
OPTIONS = IdentifyOptions(friction="viscous+coulomb", preparation=PreparationOptions(row_cutoff=6.0))
URDF = find_robot_file("demo6").with_suffix(".urdf")


def motion(seed=0, seconds=8.0, rate=200.0, n=3):
    """Return t, q, dq and ddq of three waves a joint."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1.0 / rate)
    w, phase, a = rng.uniform(1.0, 6.0, (3, n)), rng.uniform(0.0, 6.0, (3, n)), rng.uniform(0.1, 0.4, (3, n))
    angle = t[:, None, None] * w + phase
    q, dq = (a * np.sin(angle)).sum(1), (a * w * np.cos(angle)).sum(1)
    return t, q, dq, -(a * w**2 * np.sin(angle)).sum(1)


def samples_of(load=0.0, seed=0, **more):
    """Return a recording, with a load of so many kg at 0.1 m on the last link."""
    t, *x = motion(seed, **more)
    chi = CHI.copy()
    last = 14 * (ROBOT.n - 1)
    chi[last : last + 10] += load * np.array([0.02, 0.0, 0.0, 0.02, 0.0, 0.01, 0.1, 0.0, 0.05, 1.0])
    noise = np.random.default_rng(seed + 1).normal(size=x[0].shape)
    return Samples(t, NAMES, x[0], tau=inverse_dynamics(ROBOT, chi, *x) + 0.05 * noise)


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


@pytest.fixture(scope="module")
def identified(recorded, tmp_path_factory):
    """Return the folder of a model."""
    folder = tmp_path_factory.mktemp("identified") / "out"
    identify(IdentifyRequest(DEMO, (recorded["empty"],), options=OPTIONS, output=str(folder)))
    return folder


def tuples(values):
    return tuple(tuple(map(float, row)) for row in values)


def assert_same_load(told, load):
    """Compare every figure of an outcome with the load it tells."""
    assert (told.mass, told.com, told.inertia) == (load.mass, tuple(load.com), tuples(load.inertia))
    assert told.std == HalfWidths(load.mass_std, tuple(load.com_std), tuples(load.inertia_std))
    mass, com, inertia = load.interval
    assert told.interval95 == HalfWidths(mass, tuple(com), tuples(inertia))
    assert (told.frame, told.significant) == (load.frame, load.significant)


# --- identification and loads


def test_a_payload_with_all_its_figures(recorded):
    request = PayloadRequest(DEMO, (recorded["empty"],), (recorded["one"], recorded["two"]), None, OPTIONS, free=True)
    seen = []
    told = payload(request, lambda stage, share: seen.append(share))
    loaded = {"": request.loaded}
    load = identify_payloads(ROBOT, request.empty, loaded, link=None, free=True, options=OPTIONS)[""]
    assert_same_load(told, load)
    assert told.mass == pytest.approx(2.0, abs=0.05) and seen and told.contradicting == load.contradicting
    figures = zip(NAMES, load.joint_mass, load.joint_mass_std, strict=True)
    assert told.joint_mass == {name: JointMass(m, s) for name, m, s in figures if np.isfinite(m)}
    body = payload(replace(request, free=False))
    assert body != told, "ten free parameters are not those of a body"
    with pytest.raises(InputError, match="nose"):
        payload(replace(request, link="nose"))


def test_loads_by_name(recorded, tmp_path):
    assert has_names(("box=a.mcap",)) and not has_names(("a.mcap",)) and not has_names(())
    odd = tmp_path / "x=y.mcap"
    odd.touch()
    assert not has_names((str(odd),)), "a file that is called so"
    names = (f"box={recorded['one']}", f"can={recorded['heavy']}", f"box={recorded['two']}")
    request = PayloadRequest(DEMO, (recorded["empty"],), names, options=OPTIONS)
    told = payloads(request)
    assert list(told.loads) == ["box", "can"]
    loaded = {"box": (recorded["one"], recorded["two"]), "can": (recorded["heavy"],)}
    for name, load in identify_payloads(ROBOT, request.empty, loaded, options=OPTIONS).items():
        assert_same_load(told.loads[name], load)
    for wrong in ("=a", "box=", "a"):
        with pytest.raises(InputError, match="names no load"):
            payloads(PayloadRequest(DEMO, ("e",), ("can=b", wrong)))
    with pytest.raises(InputError, match="several loads are named"):
        payload(PayloadRequest(DEMO, ("e",), ("box=a",)))


def test_a_model_stands_for_the_recordings_without_the_load(recorded, identified):
    model = str(identified / "model.yaml")
    told = payload(PayloadRequest(RobotSource(model), (), (recorded["heavy"],), options=OPTIONS))
    assert_same_load(told, identify_payload_on_model(load_model(model), (recorded["heavy"],), options=OPTIONS))
    assert told.mass == pytest.approx(5.0, abs=0.1) and set(told.joint_mass) <= set(NAMES)
    with pytest.raises(InputError, match="a model and recordings without the load are given"):
        payload(PayloadRequest(RobotSource(model), (recorded["empty"],), (recorded["one"],)))
    with pytest.raises(InputError, match="no recording without the load"):
        payload(PayloadRequest(DEMO, (), (recorded["one"],)))


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


def test_identify_does_what_the_stages_do_and_keeps_the_preview(recorded, tmp_path):
    page, output = tmp_path / "seen.html", tmp_path / "out"
    page.write_text("a page")
    request = IdentifyRequest(
        DEMO, (recorded["empty"],), (recorded["one"],), OPTIONS, str(output), command="typed", preview=str(page)
    )
    told = identify(request)
    found = run_stages(ROBOT, request.recordings, options=OPTIONS, validate=request.validation).outcome
    assert (told.base, told.fit, told.validation, told.rows) == (found.base, found.fit, found.validation, found.rows)
    assert (output / PREVIEW).read_text() == "a page" and "typed" in (output / "report.html").read_text()
    with pytest.raises(InputError, match="exist"):
        identify(request)
    with pytest.raises(InputError, match="no such file"):
        identify(replace(request, output=str(tmp_path / "other"), preview=str(tmp_path / "none.html")))
    assert not (tmp_path / "other").exists(), "refused before anything is identified"


def test_reports_of_one_folder_and_of_several(identified, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(identified, copy)
    (copy / "report.html").unlink()
    assert report(ReportRequest((str(copy),), figures=False)).report == str(copy / "report.html")
    told = report(ReportRequest((str(identified), str(copy)), str(tmp_path / "mine.html")))
    assert told.report == str(tmp_path / "mine.html") and told.changed == {told.models[1]: ()}
    with pytest.raises(InputError, match="no folder to report on"):
        report(ReportRequest(()))


# --- robots


def test_one_robot_from_a_file_or_a_text_with_gravity_and_limits(tmp_path):
    with pytest.raises(InputError, match="no robot is given"):
        RobotSource()
    with pytest.raises(InputError, match="two robots are given"):
        RobotSource("demo3", "<robot/>")
    with pytest.raises(InputError, match="gravity"):
        RobotSource("demo3", gravity=(0.0, 0.0))
    name = load_robot("demo6").joints[1].name
    (tmp_path / "limits.yaml").write_text(f"joint_limits: {{{name}: {{max_velocity: 0.123}}}}")
    options = {"joint_limits": str(tmp_path / "limits.yaml"), "gravity": (0.0, 9.81, 0.0), "hold": {}}
    for source in (RobotSource(str(URDF), **options), RobotSource(urdf=URDF.read_text(), **options)):
        robot = source.load()
        assert robot.joints[1].limits.velocity == 0.123 and tuple(robot.gravity) == (0.0, 9.81, 0.0)
    held = {load_robot("demo6").joints[5].name: 0.3}
    for source in (RobotSource(str(URDF), hold=held), RobotSource(urdf=URDF.read_text(), hold=held)):
        assert len(source.load().active) == 5
        assert tuple(source.load().gravity) == tuple(load_robot("demo6").gravity)


def test_a_sub_chain_of_a_file_and_of_a_text():
    names = load_robot("demo6").active_names
    for source in ({"path": str(URDF)}, {"urdf": URDF.read_text()}):
        whole, tip, base = (
            RobotSource(**source, **chain).load().active_names
            for chain in ({}, {"tip_link": "forearm"}, {"base_link": "upper_arm"})
        )
        assert (whole, tip, base) == (names, names[:3], names[2:])


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


@pytest.mark.parametrize("text", [False, True])
def test_a_robot_looks_like_its_chain_and_what_is_around(text):
    where = {"urdf": URDF.read_text()} if text else {"path": str(URDF)}
    source = RobotSource(**where, tip_link="forearm", hold={"elbow": 0.5})
    box = (-1.0, 1.0, -2.0, 2.0, 0.0, 3.0)
    robot, look = robot_appearance(source, Surroundings(floor=-0.5, box=box))
    assert robot.active_names == source.load().active_names and look.bodies
    assert max(body.joint for body in look.bodies) <= robot.n and look.floor == -0.5 and tuple(look.box) == box


# --- plans


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


def test_the_closest_pair_of_a_motion_is_told_with_its_time(tmp_path):
    source = RobotSource("demo6")
    save_trajectory(tmp_path / "move.yaml", approach(source.load(), [0.0] * 6, [0.6] * 6), 100.0)
    request = PreviewRequest(str(tmp_path / "move.yaml"), source, save=str(tmp_path / "s.html"))
    told = preview(request)
    assert told.clearance > 0.0 and 0.0 <= told.at <= told.duration and len(set(told.pair)) == 2
    assert told.file == str(tmp_path / "s.html") and told.picture is None and (tmp_path / "s.html").is_file()
    alone = preview(replace(request, save=None, surroundings=Surroundings(collisions=False)))
    assert (alone.clearance, alone.at, alone.pair, alone.file) == (None, None, None, None)


# --- is a recording usable?


def test_a_check_reads_as_asked_and_has_the_evidence_of_identification(tmp_path):
    samples = samples_of()
    np.savez(tmp_path / "run.npz", t=samples.t, q=samples.q, tau=-1e3 * samples.tau * [1.0, -1.0, -1.0])
    reading = Reading(units=Units(effort="mN.m"), start=1.0)
    told = check(CheckRequest(DEMO, (str(tmp_path / "run.npz"),), reading, PreparationOptions(gains={NAMES[0]: -1.0})))
    assert told.duration == pytest.approx(7.0, abs=0.05)
    scales = [row.gravity_scale for row in told.joints[1:]]
    assert np.allclose(scales, 1.0, atol=0.2) and told.joints[0].gravity_scale is None, "the waist is vertical"
    assert not [problem for problem in told.problems if problem.level == RED]
    wrong = check(CheckRequest(DEMO, (str(tmp_path / "run.npz"),), reading))
    signs = [problem for problem in wrong.problems if problem.kind == "effort_sign"]
    assert [(p.joint, p.level) for p in signs] == [(NAMES[0], RED)]


def test_samples_that_came_late_are_checked_as_recorded_and_judged_in_order():
    late = samples_of()
    order = np.arange(len(late.t))
    order[[100, 101]] = 101, 100
    mixed = replace(late, t=late.t[order], q=late.q[order], tau=late.tau[order])
    told, straight = check_recording(mixed, ROBOT), check_recording(late, ROBOT)
    assert {problem.kind for problem in told.problems} > {problem.kind for problem in straight.problems}
    for row, other in zip(told.joints, straight.joints, strict=True):
        assert row.gravity_scale == other.gravity_scale and row.friction_correlation == other.friction_correlation


def test_a_check_ends_where_identification_would():
    short = samples_of(seconds=0.2)
    problems = check_recording(short, ROBOT).problems
    assert any(problem.level == RED for problem in problems)
    turned = replace(samples_of(), q=np.degrees(samples_of().q))
    kinds = [(problem.kind, problem.joint) for problem in check_recording(turned, ROBOT).problems]
    degrees = [pair for pair in kinds if pair[0] == "position_unit"]
    assert degrees == [("position_unit", name) for name in NAMES], "not said twice"
