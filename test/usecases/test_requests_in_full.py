"""What a request asks for arrives, all of it, and what is found comes back in the right places."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid import pipeline
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads import Payload
from ros2_dynid.identification.loads.drive_gains import Gains
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.load import find_robot_file, load_robot
from ros2_dynid.usecases.gains import GainsRequest, gains
from ros2_dynid.usecases.payload import HalfWidths, JointMass, PayloadRequest, payload
from ros2_dynid.usecases.robot_source import RobotSource

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

        monkeypatch.setattr(pipeline, name, call)

    spy("identify_payloads", {"": FOUND})
    spy("identify_payload_on_model", FOUND)
    spy("identify_gains", Gains(np.array([1.5, np.nan, -2.5]), np.array([0.1, np.nan, 0.2]), (True, True, False)))
    return calls


def progress(stage, fraction):
    """Say nothing."""


def cancelled():
    return False


def test_a_payload_with_all_its_figures(asked):
    request = PayloadRequest(DEMO, ("empty.mcap",), ("one.mcap", "two.mcap"), "flange", OPTIONS, free=True)
    found = payload(request, progress, cancelled)
    (robot, empty, loaded), options = asked["identify_payloads"]
    assert (robot.active_names, empty, loaded) == (NAMES, ("empty.mcap",), {"": ("one.mcap", "two.mcap")})
    assert options == {
        "link": "flange", "free": True, "options": OPTIONS, "progress": progress, "cancelled": cancelled,
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
    found = payload(
        PayloadRequest(RobotSource("model.yaml"), (), ("one.mcap",), "flange", OPTIONS), progress, cancelled
    )
    args, options = asked["identify_payload_on_model"]
    assert args == (Model, ("one.mcap",)) and "identify_payloads" not in asked
    assert options == {
        "link": "flange", "free": False, "options": OPTIONS, "progress": progress, "cancelled": cancelled,
    }  # fmt: skip
    assert found.mass == 1.0 and set(found.joint_mass) == {NAMES[0], NAMES[2]}
    with pytest.raises(InputError, match="a model and recordings without the load are given"):
        payload(PayloadRequest(RobotSource("model.yaml"), ("empty.mcap",), ("one.mcap",)))
    with pytest.raises(InputError, match="no recording without the load"):
        payload(PayloadRequest(DEMO, (), ("one.mcap",)))


@pytest.mark.parametrize("load", [(), tuple(map(float, range(10)))])
def test_gains_by_name_and_none_where_there_is_none(asked, load):
    found = gains(GainsRequest(DEMO, ("e",), ("l",), 2.5, OPTIONS, load), progress, cancelled)
    (robot, empty, loaded, mass), options = asked["identify_gains"]
    assert (robot.active_names, empty, loaded, mass) == (NAMES, ("e",), ("l",), 2.5)
    given = options.pop("load")
    assert (given is None) if not load else list(given) == list(load)
    assert options == {"options": OPTIONS, "progress": progress, "cancelled": cancelled}
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
