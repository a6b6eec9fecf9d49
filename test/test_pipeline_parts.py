"""The doors of the pipeline: what is refused, what is read with which robot and options, and what is handed on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid import pipeline
from ros2_dynid.errors import InputError, MissingPackageError, ProgrammeError
from ros2_dynid.identification.friction import PLAIN
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.effort_sensors import declared_sensors
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.recording.samples import Samples

FILES = ("model.yaml", "data.npz", "summary.json", "report.html")
SOME = Samples(np.zeros(1), ("a",), np.zeros((1, 1)))


@pytest.fixture(scope="module")
def robot():
    return load_robot("demo6")


# --- where a result goes


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_a_result_replaces_a_recording_or_what_is_to_stay(tmp_path, robot, name):
    (tmp_path / name).write_text("a recording")
    for given in ({"recordings": [tmp_path / name]}, {"recordings": ["a"], "validate": [str(tmp_path / name)]}):
        with pytest.raises(InputError, match="would replace a recording"):
            pipeline.identify(robot, **given, output=tmp_path, overwrite=True)
    with pytest.raises(InputError, match="this exists already"):
        pipeline.identify(robot, ["a"], output=tmp_path)
    assert pipeline.check_output(tmp_path, ["a", SOME], overwrite=True) == tmp_path / "model.yaml"
    assert (tmp_path / name).read_text() == "a recording"


def test_a_result_may_go_nowhere_but_it_needs_a_recording(tmp_path, robot):
    assert pipeline.check_output(None, [SOME], overwrite=False) is None
    assert pipeline.check_output(str(tmp_path / "new"), [SOME], overwrite=False) == tmp_path / "new" / "model.yaml"
    with pytest.raises(InputError, match="there is no recording"):
        pipeline.identify(robot, [], output=tmp_path / "new")
    assert not (tmp_path / "new").exists()


# --- robots


def test_a_robot_has_the_gravity_and_the_chain_asked_for(robot):
    same, chi = pipeline.robot_or_model("demo6")
    assert np.array_equal(chi, standard_vector(robot)) and np.array_equal(same.gravity, robot.gravity)
    turned, chi = pipeline.robot_or_model("demo6", gravity=(9.81, 0.0, 0.0))
    assert not np.array_equal(turned.gravity, robot.gravity) and np.array_equal(chi, standard_vector(turned))
    urdf, hold = Path(__file__).parents[1] / "config/robots/demo6.urdf", {robot.active_names[-1]: 0.5}
    held, chi = pipeline.robot_or_model(urdf, hold=hold)
    expected = load_robot(urdf, hold=hold)
    assert held.active_names == robot.active_names[:-1] and np.array_equal(chi, standard_vector(expected))


def test_a_load_is_given_in_the_frame_of_a_link_that_the_last_joint_carries(robot):
    pose = np.eye(4)
    tools = {"base": (0, pose), "elbow_link": (robot.n - 1, pose), "flange": (robot.n, pose), "hand": (robot.n, pose)}
    carrying = replace(robot, tools=tools)
    assert pipeline._load_link(carrying, None) == "flange"
    assert pipeline._load_link(carrying, "elbow_link") == "elbow_link"
    assert pipeline._load_link(replace(robot, tools={"elbow_link": (robot.n - 1, pose)}), None) is None


@pytest.mark.parametrize("sensor", ["auto", "motor", "link", "link+Fc"])
def test_sensors_are_those_declared(robot, sensor):
    found = pipeline.sensing(robot, IdentifyOptions(sensor=sensor))
    expected = robot if sensor == "auto" else declared_sensors(robot, sensor)
    assert [joint.felt for joint in found.joints] == [joint.felt for joint in expected.joints]
    assert [joint.felt for joint in pipeline._declared(robot, IdentifyOptions(sensor=sensor)).joints] == [
        joint.felt for joint in expected.joints
    ]


@pytest.mark.parametrize("sensor", ["auto", "link"])
def test_recordings_are_read_as_efforts_of_the_sensors_declared(monkeypatch, robot, sensor):
    class AskedError(Exception):
        pass

    def read_problem(robot, recordings, options, report):
        asked.append(([joint.felt for joint in robot.joints], recordings, options))
        raise AskedError

    asked, options = [], IdentifyOptions(sensor=sensor)
    monkeypatch.setattr(pipeline, "read_problem", read_problem)
    with pytest.raises(AskedError):
        pipeline.identify(robot, ["a", SOME], options=options)
    expected = pipeline.sensing(robot, options)
    assert asked == [([joint.felt for joint in expected.joints], ["a", SOME], options)]


# --- loads


@pytest.fixture
def read(monkeypatch):
    """Return what is read (robot, recordings, friction law) and what the estimators get, none of which is done."""
    seen = SimpleNamespace(read=[], estimated=[], law=())

    def read_problem(robot, recordings, options, report):
        seen.read.append((tuple(joint.felt for joint in robot.joints), tuple(recordings), options.friction))
        return SimpleNamespace(base="base", information=f"rows of {recordings[0]}", recordings=recordings)

    def estimator(name, answer):
        def found(*args, **options):
            seen.estimated.append((name, args, options))
            return answer

        return found

    monkeypatch.setattr(pipeline, "read_problem", read_problem)
    monkeypatch.setattr(pipeline, "law_of", lambda problem: seen.law)
    for name, answer in (
        ("identify_loads", ["one", "two"]), ("identify_loads_with_law", ["one", "two"]),
        ("identify_load_on_model", "load"), ("identify_load_on_model_with_law", "load"), ("drive_gains_with_law", "g"),
    ):  # fmt: skip
        monkeypatch.setattr(pipeline, name, estimator(name, answer))
    return seen


@pytest.mark.parametrize("law", [(), ("term",)])
def test_loads_are_fitted_beside_the_robot_without_them(robot, read, law):
    read.law = law
    options, told = IdentifyOptions(friction="load", sensor="link"), []
    loads = {"a": ["a1", "a2"], "b": ["b1"]}
    found = pipeline.identify_payloads(
        robot, ["e1"], loads, free=True, link="hand", options=options, progress=lambda *one: told.append(one)
    )
    assert found == {"a": "one", "b": "two"} and told == [("estimating", 0.9)]
    felt = tuple(joint.felt for joint in declared_sensors(robot, "link").joints)
    assert read.read == [(felt, ("e1",), "load"), (felt, ("a1", "a2"), PLAIN), (felt, ("b1",), PLAIN)]
    ((name, args, more),) = read.estimated
    assert more == {"link": "hand", "free": True}
    if law:
        assert name == "identify_loads_with_law" and args[0].recordings == ["e1"] and args[2] == law
        assert [part.recordings for part in args[1]] == [["a1", "a2"], ["b1"]]
    else:
        assert name == "identify_loads" and args[1:] == ("base", "rows of e1", ["rows of a1", "rows of b1"])


def test_one_load_is_the_one_without_a_name(monkeypatch, robot):
    asked = []
    monkeypatch.setattr(
        pipeline, "identify_payloads", lambda *args, **more: asked.append((args, more)) or {"": "it", "x": "other"}
    )
    more = {"link": "hand", "free": True, "options": IdentifyOptions(), "progress": print, "cancelled": bool}
    assert pipeline.identify_payload(robot, ["e"], ["l"], **more) == "it"
    assert asked == [((robot, ["e"], {"": ["l"]}), more)]


@pytest.mark.parametrize("law", [(), ("term",)])
def test_a_load_on_a_model_is_read_with_the_models_robot(robot, read, law):
    model = SimpleNamespace(robot=SimpleNamespace(joints=robot.joints, friction=law, tools=robot.tools, n=robot.n))
    options = IdentifyOptions(friction="load")
    assert pipeline.identify_payload_on_model(model, ["l"], free=True, options=options) == "load"
    assert read.read == [(tuple(joint.felt for joint in robot.joints), ("l",), PLAIN)]
    ((name, args, more),) = read.estimated
    assert more == {"link": pipeline._load_link(robot, None), "free": True} and args[0] is model
    assert (name, len(args)) == (("identify_load_on_model_with_law", 2) if law else ("identify_load_on_model", 3))
    with pytest.raises(InputError, match="the model has its own"):
        pipeline.identify_payload_on_model(model, ["l"], options=IdentifyOptions(sensor="link"))


def test_gains_are_of_recordings_without_and_with_the_mass(robot, read):
    options, load = IdentifyOptions(friction="load", sensor="link"), np.arange(10.0)
    assert pipeline.identify_gains(robot, ["e"], ["l"], 2.5, load=load, options=options) == "g"
    assert [(recordings, law) for _, recordings, law in read.read] == [(("e",), PLAIN), (("l",), PLAIN)]
    ((_, args, _),) = read.estimated
    assert [part.recordings for part in args[:2]] == [["e"], ["l"]]
    assert args[2:5] == ("load", options.method, 2.5) and args[5] is load


def test_sensors_are_not_looked_for_beside_a_load(robot, read):
    options = IdentifyOptions(sensor="found")
    for call in (pipeline.identify_payload, lambda *args, **more: pipeline.identify_gains(*args, 1.0, **more)):
        with pytest.raises(InputError, match="not looked for beside a load"):
            call(robot, ["e"], ["l"], options=options)
    assert not read.read


# --- priors and bodies


def test_two_sensors_are_fitted_without_a_prior_and_with_all_parameters():
    two = SimpleNamespace(second=object())
    for wrong in (IdentifyOptions(essential=True), IdentifyOptions(prior="urdf")):
        with pytest.raises(InputError, match="fitted together"):
            pipeline._draws(two, wrong)
    one = SimpleNamespace(second=None)
    for problem, options in (
        (two, IdentifyOptions()), (two, IdentifyOptions(prior="none")), (one, IdentifyOptions(prior="none")),
        (one, IdentifyOptions(essential=True)),
    ):  # fmt: skip
        assert pipeline._draws(problem, options) is None


def test_a_prior_is_forced_where_it_is_asked_for_and_bodies_are_served_where_wanted(monkeypatch):
    drawn, guesses = [], []
    monkeypatch.setattr(pipeline, "drawn_fit", lambda *args, **more: drawn.append((args, more)))
    monkeypatch.setattr(pipeline, "described_prior", lambda problem, *, guess: guesses.append(guess) or "described")
    monkeypatch.setattr(pipeline, "bodies_served", lambda problem: "serve")
    monkeypatch.setattr(pipeline, "load_model", lambda path: f"model {path}")
    monkeypatch.setattr(pipeline, "model_prior", lambda problem, model, source: (model, source))
    problem = SimpleNamespace(second=None, information="rows")
    for prior in ("auto", "urdf", "sister.yaml"):
        draws = pipeline._draws(problem, IdentifyOptions(prior=prior))
        draws("fit", True)
        draws("fit", False)
    assert drawn == [
        (("rows", "fit", "described"), {"force": False, "serve": "serve"}),
        (("rows", "fit", "described"), {"force": False, "serve": None}),
        (("rows", "fit", "described"), {"force": True, "serve": "serve"}),
        (("rows", "fit", "described"), {"force": True, "serve": None}),
        *[(("rows", "fit", ("model sister.yaml", "sister.yaml")), {"force": True})] * 2,
    ]
    assert guesses == [True, False], "only where nobody asked for it may it be guessed"


@pytest.mark.parametrize("error", [None, MissingPackageError("clarabel", "bodies"), ProgrammeError("none")])
@pytest.mark.parametrize("as_found", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_bodies_are_sought_unasked_where_the_estimate_is_of_none(monkeypatch, error, as_found, asked):
    tried = []

    def physical_parameters(problem, found, selection, options, drawn):
        tried.append(options.consistent)
        if options.consistent and error is not None:
            raise error
        return options.consistent

    monkeypatch.setattr(pipeline, "physical_parameters", physical_parameters)
    options = IdentifyOptions(consistent=asked)
    if asked and error is not None:
        with pytest.raises(type(error)):
            pipeline._physical(None, None, None, options, None, as_found=as_found)
        return
    found = pipeline._physical(None, None, None, options, None, as_found=as_found)
    sought = asked or not as_found
    assert tried == ([True, False] if sought and error is not None else [sought])
    assert found is (sought and error is None)


def test_what_is_served_is_the_estimate_if_it_is_of_a_robot_and_bodies_else(monkeypatch):
    def imposed(problem, part, found, drawn):
        if part == "no solution":
            raise ProgrammeError("none")
        return SimpleNamespace(value=f"bodies of {part}")

    monkeypatch.setattr(pipeline, "imposed_on", imposed)
    monkeypatch.setattr(pipeline, "possible", lambda robot, base, value: value == "possible")
    problem = SimpleNamespace(robot="robot", base="base")

    def estimate(base):
        return SimpleNamespace(base=base, value="own", with_base=lambda value: SimpleNamespace(value=value))

    monkeypatch.setattr(pipeline.importlib.util, "find_spec", lambda name: object())
    serve = pipeline.bodies_served(problem)
    assert serve("rows", estimate("possible"), None) == "own"
    assert serve("rows", estimate("none"), None) == "bodies of rows"
    assert serve("rows", estimate("possible"), "drawn") == "bodies of rows"
    assert serve("no solution", estimate("none"), None) == "own"
    monkeypatch.setattr(pipeline.importlib.util, "find_spec", lambda name: None if name == "clarabel" else object())
    assert pipeline.bodies_served(problem) is None
