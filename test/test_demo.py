# SPDX-License-Identifier: Apache-2.0

"""The demo: what it starts and with which settings, what it hears from the mission, and how it judges all that."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid import demo
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codec import decode, encode
from ros2_dynid.demo import DemoError, DemoOutcome, Goals, Truth
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.identification.physical.consistency import smallest_joint_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.processes import ProcessError
from ros2_dynid.sim.truth import true_parameters
from ros2_dynid.usecases.mission import MissionOutcome, MissionRequest, OpenLoop, Tracking, TrueLoad, WeighedPayload

FOUND = MissionOutcome(
    bags=("a", "b"),
    validation_bags=("c",),
    model="models/m1/model.yaml",
    stages=("plan", "run"),
    fit={"j1": TorqueError(0.1, 0.01), "all": TorqueError(0.2, 0.02)},
    validation={"j1": TorqueError(0.1, 0.03), "j2": TorqueError(0.3, 0.04), "all": TorqueError(0.2, 0.02)},
    tracking=Tracking(0.0123, 0.00146, 8.42),
    payload=WeighedPayload(1.5, "d", 1.4987, 0.0021, (0.02, -0.01, 0.06), 0.0009),
    open_loop={"slow": OpenLoop(0.123, 0.045), "fast": OpenLoop(0.3, 0.2)},
)
TRUTH = Truth({}, 0.02, "consistent", 0.001)


# --- where the robot stands


@pytest.mark.parametrize(
    ("lower", "upper", "pose"),
    [
        (-1.0, 3.0, 0.0), (0.5, 1.5, 0.65), (-3.0, -1.0, -1.3), (0.0, 2.0, 0.3), (-2.0, 0.0, -0.3), (-0.1, 2.0, 0.215),
        (-np.inf, np.inf, 0.0), (0.0, 1.0 / 9.0, 0.017),
    ],
)  # fmt: skip
def test_the_robot_stands_at_zero_or_as_near_as_leaves_room(lower, upper, pose):
    limits = [SimpleNamespace(lower=9.0, upper=10.0), SimpleNamespace(lower=lower, upper=upper)]
    robot = SimpleNamespace(active=(2,), joints=[SimpleNamespace(limits=one) for one in limits])
    assert demo.start_pose(robot) == [pytest.approx(pose, abs=1e-12)], "joint 1 is not active"
    robot.active = (1, 2)
    assert demo.start_pose(robot) == [pytest.approx(9.15), pytest.approx(pose, abs=1e-12)]


# --- how it judges


def outcome(goals: dict[str, bool]) -> DemoOutcome:
    return DemoOutcome(**vars(FOUND), report="report.html", truth=TRUTH, seconds=1.0, folder="f", goals=goals)


def test_the_code_is_zero_only_if_every_goal_was_reached():
    for goals, code in (((True, True), 0), ((True, False), 1), ((False, False), 1)):
        assert outcome({str(k): goal for k, goal in enumerate(goals)}).exit_code == code


def judged(found: MissionOutcome = FOUND, truth: Truth = TRUTH) -> list[bool]:
    """Return whether each goal was reached: every joint, all joints, torques, M(q), tracking and the payload."""
    return list(demo.check_goals(found, truth, Goals()).values())


def test_each_goal_is_judged_by_its_own_figure_and_bound():
    assert judged() == [True] * 6

    def tested(name: str, x: float) -> tuple[MissionOutcome, Truth]:
        return replace(FOUND, validation={**FOUND.validation, name: TorqueError(0.3, x)}), TRUTH

    bounds = [
        (0, lambda x: tested("j2", x), 0.0499, 0.05),
        (1, lambda x: tested("all", x), 0.0299, 0.03),
        (2, lambda x: (FOUND, replace(TRUTH, torque=x)), 0.0299, 0.03),
        (3, lambda x: (FOUND, replace(TRUTH, smallest_joint_inertia=x)), 1e-9, 0.0),
        (4, lambda x: (replace(FOUND, tracking=Tracking(1.0, 0.2, x)), TRUTH), 5.0, 4.99),
        (5, lambda x: (replace(FOUND, payload=replace(FOUND.payload, relative_error=x)), TRUTH), 0.02, 0.0201),
    ]
    for k, case, good, bad in bounds:
        assert judged(*case(good)) == [True] * 6
        assert judged(*case(bad)) == [place != k for place in range(6)]


def test_a_goal_says_what_it_asks_for_and_a_load_that_cannot_be_seen_is_none():
    names = list(demo.check_goals(FOUND, TRUTH, Goals()))
    assert names == [
        "validation under 5% on every joint",
        "validation under 3% over all",
        "torques of random motions within 3% of the truth",
        "M(q) of the consistent parameters served positive definite at 10,000 random poses",
        "tracking at least 5 times better",
        "payload within 2%",
    ]
    unseen = replace(FOUND, payload=WeighedPayload(1.5, "d", error="all axes are parallel"))
    assert list(demo.check_goals(unseen, TRUTH, Goals())) == names[:-1]


def test_trials_are_told_in_the_units_of_people():
    assert demo.trials_of(FOUND) == {
        "Feedforward": [
            ("tracking without feedforward", "12.30 mrad root mean square"),
            ("tracking with feedforward", "1.46 mrad, at the same gains"),
            ("ratio", "8.4"),
        ],
        "Feedforward alone, without position control": [
            ("slow", "12.3% of the travel at worst, 4.5% on average"),
            ("fast", "30.0% of the travel at worst, 20.0% on average"),
        ],
        "Payload": [("identified", "1.4987 +- 0.0021 kg, true mass 1.5 kg")],
    }
    unseen = replace(FOUND, payload=WeighedPayload(1.5, "d", error="all axes are parallel"))
    assert demo.trials_of(unseen)["Payload"] == [("identified", "all axes are parallel")]


def test_a_model_is_compared_with_the_truth_by_name_and_on_motions(monkeypatch):
    monkeypatch.setattr(demo, "POSES", 20)
    robot = load_robot("demo3")
    chi, other = true_parameters(robot, 3), true_parameters(robot, 4)
    base = base_parameters(robot, method="closed-form")
    true = dict(zip(base.names, base.values(robot, chi), strict=True))
    names = [*reversed(base.names), "of another robot"]
    std = np.arange(1.0, len(names) + 1.0)
    std[1] = np.inf
    model = SimpleNamespace(
        names=names,
        value=np.arange(len(names)) / 8,
        std=std,
        chi=other,
        serve="base",
        torque=lambda q, dq, ddq: 1.25 * inverse_dynamics(robot, chi, q, dq, ddq),
    )
    found = demo.compared(robot, model, chi)
    assert found.base == {
        name: demo.TrueParameter(true[name], k / 8, None if k == 1 else k + 1.0) for k, name in enumerate(names[:-1])
    }
    assert found.torque == pytest.approx(0.25) and found.serve == "base"
    assert found.smallest_joint_inertia == smallest_joint_inertia(robot, other, count=20)
    model.torque = lambda q, dq, ddq: 0.0 * q
    assert demo.compared(robot, model, chi).torque == pytest.approx(1.0)


# --- what it hears


class Mission:
    """Stands for the processes: the mission says these lines; `ended` is what `check` raises from then on."""

    def __init__(self, *messages: object) -> None:
        self.stdin, self.asked = io.StringIO(), ""
        self.stdin.close = lambda: setattr(self, "asked", self.stdin.getvalue())  # type: ignore[method-assign]
        self.stdout = iter(json.dumps(message) + "\n" for message in messages)
        self.started, self.checks, self.waited, self.ended = [], 0, False, None

    def start(self, *args: object, **options: object) -> Mission:
        self.started.append((args, options))
        return self

    def check(self) -> None:
        self.checks += 1
        if self.ended is not None:
            raise self.ended

    def wait(self) -> None:
        self.waited = True


REQUEST = MissionRequest("demo3", 4, 5.0, TrueLoad(2.5), open_loop_seconds={"slow": 3.0})


def test_the_mission_is_asked_and_heard_until_its_result():
    said, mission = [], Mission({"say": "planning"}, {"say": "running"}, {"result": encode(FOUND)}, {"say": "late"})
    assert demo.run_mission(mission, REQUEST, said.append) == FOUND
    assert mission.started == [(("mission", ["ros2_dynid.nodes.mission"]), {"talk": True})]
    assert decode(MissionRequest, json.loads(mission.asked)) == REQUEST
    assert said == ["planning", "running"] and mission.checks == 2, "a node that ended is noticed at every step"


def test_a_mission_that_fails_is_told_and_a_node_that_ended_before_it():
    for messages, words in (
        ([{"error": "the robot does not move"}], "the robot does not move"),
        ([{"say": "planning"}], "the mission ended without a result"),
        ([], "the mission ended without a result"),
    ):
        with pytest.raises(DemoError, match=words):
            demo.run_mission(Mission(*messages), REQUEST, lambda text: None)
        mission = Mission(*messages)
        mission.ended = ProcessError("recorder ended: no space")
        with pytest.raises(ProcessError, match="recorder ended: no space"):
            demo.run_mission(mission, REQUEST, lambda text: None)
    mission = Mission()
    with pytest.raises(DemoError):
        demo.run_mission(mission, REQUEST, lambda text: None)
    assert mission.waited, "its code is known then"


def test_an_error_says_what_was_reached_where_the_logs_are_and_whether_the_computer_is_busy(monkeypatch, tmp_path):
    for load, words in ((0.1, ""), (1e3, f"; this computer is busy (load 1000 on {os.cpu_count()} cores): try again")):
        monkeypatch.setattr(demo.os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        said, mission = [], Mission({"say": "planning"}, {"error": "the joint states come late"})
        with pytest.raises(DemoError) as caught:
            demo.watched_mission(mission, REQUEST, tmp_path, said.append)
        text = f"the joint states come late; reached: planning; logs: {tmp_path}{words}"
        assert str(caught.value).startswith(text) and said == ["planning"]
        assert ("busy" in str(caught.value)) == bool(words)


def test_the_address_of_the_panel_is_waited_for(monkeypatch, tmp_path):
    now, mission, log, token = [0.0], Mission(), tmp_path / "panel.log", tmp_path / "token"
    token.write_text("secret\n")

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] > 1.0:
            log.write_bytes(b"\xff begins\npanel: http://localhost:8123/ (its token\n" if now[0] > 2.0 else b"begins\n")

    monkeypatch.setattr(demo.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(demo.time, "sleep", sleep)
    assert demo.panel_address(mission, log, token) == "panel: http://localhost:8123/#token=secret"
    assert 2.0 < now[0] < 2.5 and mission.checks > 10
    with pytest.raises(DemoError, match=r"the panel has not started in 60 s; look at .*other\.log"):
        demo.panel_address(mission, tmp_path / "other.log", token)
    assert 62.0 < now[0] < 63.0
    mission.ended = ProcessError("panel ended: no port")
    with pytest.raises(ProcessError, match="no port"):
        demo.panel_address(mission, log, token)


# --- the whole


@pytest.fixture
def staged(monkeypatch):
    """Return what the demo starts, asks and writes, none of which is done."""
    seen = SimpleNamespace(processes=[], asked=[], compared=[], reports=[], open=[])

    class Nodes:
        def __init__(self, logs: Path, environment: dict[str, str]) -> None:
            assert logs.is_dir()
            seen.processes.append((logs, environment))

        def __enter__(self) -> Nodes:
            seen.open.append(self)
            return self

        def __exit__(self, *_: object) -> None:
            seen.open.remove(self)

        def start(self, name: str, arguments: list[str]) -> None:
            options = dict(text.split(":=") for text in arguments[3::2])
            assert arguments[:2] == [f"ros2_dynid.nodes.{name}", "--ros-args"] and set(arguments[2::2]) == {"-p"}
            seen.processes.append((name, options))

    def run(processes: Nodes, request: MissionRequest, say: object) -> MissionOutcome:
        assert seen.open == [processes]
        seen.asked.append(request)
        return FOUND

    def compared(*args: object) -> Truth:
        assert not seen.open, "the processes are gone by then"
        seen.compared.append(args)
        return TRUTH

    monkeypatch.setattr(demo, "own_domain", lambda: contextlib.nullcontext({"ROS_DOMAIN_ID": "42"}))
    monkeypatch.setattr(demo, "Processes", Nodes)
    monkeypatch.setattr(demo, "run_mission", run)
    monkeypatch.setattr(demo, "panel_address", lambda processes, log, token: f"panel: {log.name}, {token.name}")
    monkeypatch.setattr(demo, "load_model", lambda path: f"model {path}")
    monkeypatch.setattr(demo, "compared", compared)
    monkeypatch.setattr(
        "ros2_dynid.report.build.write_report",
        lambda folder, **more: seen.reports.append((folder, more)) or folder / "report.html",
    )
    return seen


@pytest.mark.parametrize("panel", [False, True])
def test_the_demo_starts_its_nodes_in_its_folder_and_tells_all_it_found(staged, tmp_path, panel):
    said, folder, robot = [], tmp_path / "deep" / "new", load_robot("demo3")
    found = demo.demo("demo3", folder, seed=4, duration=5.0, payload=2.5, panel=panel, say=said.append)
    ((logs, environment), *started) = staged.processes
    assert logs == folder / "logs" and environment == {"ROS_DOMAIN_ID": "42"}
    nodes = ["sim_robot", "excitation", "recorder", "identification", "feedforward", *(["panel"] if panel else [])]
    assert [name for name, _ in started] == nodes
    settings = dict(started)
    assert all(options.pop("robot") == "demo3" for options in settings.values())
    assert settings["sim_robot"] == {"seed": "4", "start": str(demo.start_pose(robot))}
    assert settings["recorder"] == {"folder": str(folder / "recordings")}
    assert settings["identification"] == {
        "recordings_folder": str(folder / "recordings"), "models_folder": str(folder / "models"),
    }  # fmt: skip
    assert settings["feedforward"] == {"priority": "0", "robot_adds": "['nothing']"}
    served = {"port": "0", "token_file": str(folder / "panel_token")}
    assert settings.get("panel", served) == served
    (request,) = staged.asked
    assert request == MissionRequest(
        "demo3", 4, 5.0, TrueLoad(2.5), open_loop_seconds={"slow": 3.0, "fast": 1.0}
    ) and settings["excitation"]["rehearsal_speed"] == str(request.rehearsal_speed)
    assert settings["excitation"]["folder"] == str(folder / "trajectories")
    ((_, model, chi),) = staged.compared
    assert model == "model models/m1/model.yaml" and np.array_equal(chi, true_parameters(robot, 4))
    assert staged.reports == [(Path("models/m1"), {"figures": False, "trials": demo.trials_of(FOUND)})]
    assert {key: getattr(found, key) for key in vars(FOUND)} == vars(FOUND) and found.truth == TRUTH
    assert (found.report, found.folder) == ("models/m1/report.html", str(folder)) and found.seconds >= 0.0
    assert found.goals == demo.check_goals(FOUND, TRUTH, Goals()) and found.exit_code == 0
    assert "ROS domain 42" in said[0] and ("panel: panel.log, panel_token" in said) is panel


def test_a_folder_that_exists_is_left_alone(staged, tmp_path):
    with pytest.raises(FileExistsError):
        demo.demo("demo3", tmp_path, say=lambda text: None)
    assert not staged.processes and not list(tmp_path.iterdir())
