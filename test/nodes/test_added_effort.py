# SPDX-License-Identifier: Apache-2.0

"""Robots that add gravity themselves, with real nodes: held and fed forward without a jerk, or refused at rest."""

import time

import numpy as np
import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from perfect import perfect_model
from ros2_dynid.control.stop import quintic
from ros2_dynid.model.load import find_robot_file
from ros2_dynid.nodes.common.messages import reference_of, trajectory_message
from ros2_dynid.nodes.common.qos import COMMANDS
from ros_graph import graph

START = np.array([0.0, -1.0, 0.3])


def begin(tmp_path, made, adds, declared, **parameters):
    """Start the robot that adds `adds`, and the feedforward with `declared`; return what is commanded from now on."""
    perfect_model(made.robot, tmp_path / "model.yaml")
    made.start("sim_robot", start=START.tolist(), robot_adds=[adds])
    made.ready("sim_robot")
    commands = []
    take = lambda message: commands.append(np.array(message.data))  # noqa: E731
    made.client.create_subscription(Float64MultiArray, "effort_commands", take, 1000)
    made.client.position()
    made.start("feedforward", model=tmp_path / "model.yaml", robot_adds=[declared], **parameters)
    made.ready("feedforward")
    return commands


@pytest.mark.timeout(120)
@pytest.mark.parametrize("adds", ["gravity+friction:0.5", "nothing"])
def test_the_arm_is_held_and_fed_forward_without_a_jerk(tmp_path, adds):
    with graph(tmp_path) as made:
        client = made.client
        commands = begin(tmp_path, made, adds, adds, output="effort")
        client.wait(lambda: len(commands) > 50, 20.0, "the first torques")
        seen, until = [], time.monotonic() + 1.5
        while time.monotonic() < until:
            seen.append((client.measured.q, client.measured.dq))
            time.sleep(0.002)
        q, dq = (np.array([row[k] for row in seen]) for k in (0, 1))
        assert np.abs(q - START).max() < 0.05 and np.abs(dq).max() < 0.2, "it stays where it is"
        held = np.abs(np.mean(commands[-50:], axis=0))
        assert held.max() < 1.0 if adds != "nothing" else held.max() > 10.0
        # in trajectories, too: the robot's own controller tracks them as well as it does without gravity
        client.set("feedforward", output="trajectory")
        time.sleep(1.0)  # the last torques have come: one that a busy robot takes later would end the trajectory
        passed = []
        client.create_subscription(JointTrajectory, "joint_trajectory", passed.append, COMMANDS)
        here = client.position()
        client.wait(lambda: client.count_subscribers("joint_trajectory") >= 2, 10.0, "the connection")
        client.send(trajectory_message(quintic(made.robot.active_names, here, here + 0.4, 1.5)), feedforward=True)
        client.wait(lambda: bool(passed), 10.0, "the trajectory")
        efforts = reference_of(passed[0], made.robot).tau
        assert np.abs(efforts[:3]).max() < 3.0 if adds != "nothing" else np.abs(efforts[:3]).max() > 10.0
        client.wait(lambda: bool(np.all(np.abs(client.measured.q - here - 0.4) < 0.05)), 10.0, f"the goal {here + 0.4}")
        client.call(ChangeState, "feedforward/change_state", transition=Transition(id=Transition.TRANSITION_DEACTIVATE))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("adds", "declared", "words"),
    [("gravity", "nothing", "the robot seems to hold itself"), ("nothing", "gravity", "it would fall")],
)
def test_a_wrong_declaration_is_refused_at_rest_and_none_as_well(tmp_path, adds, declared, words):
    with graph(tmp_path) as made:
        commands = begin(tmp_path, made, adds, declared, output="effort")
        made.client.wait(lambda: words in made.log("feedforward"), 20.0, "the refusal")
        names, here = made.robot.active_names, made.client.position()
        made.client.send(trajectory_message(quintic(names, here, here + 0.2, 1.0)), feedforward=True)
        made.client.wait(lambda: "reference refused" in made.log("feedforward"), 20.0, "the refusal")
        time.sleep(0.5)
        assert not commands and np.allclose(made.client.position(), START, atol=0.05)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("output", ["effort", "trajectory"])
def test_nothing_leaves_undeclared(tmp_path, output):
    text = find_robot_file("demo3").read_text()
    (tmp_path / "silent.yaml").write_text("\n".join(x for x in text.splitlines() if not x.startswith("drives")))
    with graph(tmp_path, str(tmp_path / "silent.yaml")) as made:
        commands = begin(tmp_path, made, "nothing", "", output=output)
        words = "set robot_adds to nothing, gravity, arm-gravity"
        made.client.wait(lambda: words in made.log("feedforward"), 20.0, "the line that names the parameter")
        passed = []
        made.client.create_subscription(JointTrajectory, "joint_trajectory", passed.append, COMMANDS)
        here = made.client.position()
        made.client.send(trajectory_message(quintic(made.robot.active_names, here, here + 0.2, 1.0)), feedforward=True)
        made.client.wait(lambda: "reference refused" in made.log("feedforward"), 20.0, "the refusal")
        assert not commands and not passed
