# SPDX-License-Identifier: Apache-2.0

"""One commander of the robot at a time, and a guard that ends what one leaves behind that is killed or stands still."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from ros2_dynid.srv import PlanExcitation
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from motions import saved_motion
from perfect import perfect_model
from ros2_dynid.control.stop import quintic
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.messages import trajectory_message
from ros_graph import graph

MOVING = 0.08
"""A joint faster than this moves [rad/s]."""


@pytest.mark.timeout(170)
def test_the_second_commander_is_refused_and_one_that_is_gone_is_replaced(tmp_path):
    with graph(tmp_path) as made:
        client, sent, torques = made.client, [], []
        saved_motion(tmp_path / "trajectories", made.robot)
        perfect_model(made.robot, tmp_path / "model.yaml")
        made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        options = {"start_delay": 0.0, "settle_seconds": 0.0, "approach_speed": 1.0, "collisions": "false"}
        excitation = made.start("excitation", **options)
        feedforward = made.start("feedforward", model=tmp_path / "model.yaml")
        made.start("guard")
        made.ready("sim_robot", "excitation", "feedforward", "guard")
        client.create_subscription(JointTrajectory, "joint_trajectory", sent.append, 10)
        client.create_subscription(Float64MultiArray, "effort_commands", lambda m: torques.append(m.data), 100)

        def plan():
            client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])

        def move():
            made.run()
            client.wait(lambda: client.excitation_state.text.startswith("exciting"), 20.0, "the trajectory")
            client.wait(lambda: client.speed() > MOVING, 20.0, "the motion")

        def refer(seconds=2.5, by=0.4):
            q = client.position()
            client.send(trajectory_message(quintic(made.robot.active_names, q, q + by, seconds)), feedforward=True)

        # A reference in mid-excitation is refused with the name of who commands, and disturbs nothing.
        plan()
        move()
        count = len(sent)
        refer()
        client.wait(lambda: "/excitation commands the robot" in made.log("feedforward"), 5.0, "the refusal")
        assert len(sent) == count
        answer = client.call(Trigger, "guard/stop").message
        assert "/excitation commanded the robot; joint" in answer and "rad/s; at rest after" in answer
        with pytest.raises(ClientError, match="the stop is set"):
            client.call(Trigger, "excitation/start")
        at_rest = "commanded the robot; the robot is at rest"
        client.wait(lambda: client.call(Trigger, "guard/stop").message.endswith(at_rest), 5.0, "rest")
        client.call(Trigger, "guard/release")

        # The same the other way round.
        refer()
        client.wait(lambda: client.speed() > MOVING, 5.0, "the reference")
        with pytest.raises(ClientError, match="/feedforward commands the robot"):
            client.call(Trigger, "excitation/start")
        client.wait_for_rest(0.02, 10.0)

        # One that stands still, and one that is killed, are replaced by a stop.
        for end in (signal.SIGSTOP, signal.SIGKILL):
            move()
            count, began = len(sent), time.monotonic()
            os.kill(excitation.pid, end)
            client.wait(lambda count=count: len(sent) > count, 5.0, "the guard's stop")
            client.wait_for_rest(0.02, 5.0)
            assert time.monotonic() - began < 3.0 and not np.any(sent[-1].points[-1].velocities)
            assert "/excitation is gone: braking" in made.log("guard")
            if end is signal.SIGSTOP:
                time.sleep(4.0)  # the motion would be at its end by now: it was not done all the same
                os.kill(excitation.pid, signal.SIGCONT)
                client.wait(lambda: "this node stood still for" in client.excitation_state.text, 10.0, "the end")
                client.wait(lambda: client.excitation_state.text.startswith("aborted"), 10.0, "rest")
        client.wait(lambda: made.log("guard").count("the robot is at rest") >= 2, 5.0, "the guard's end")

        # Streamed torques that stand still are replaced by those that hold the robot.
        client.set("feedforward", output="effort")
        client.wait(lambda: torques, 10.0, "torques")
        refer(seconds=2.5)
        client.wait(lambda: client.speed() > MOVING, 5.0, "the reference")
        os.kill(feedforward.pid, signal.SIGSTOP)
        client.wait(lambda: "/feedforward is gone: going over to the torques" in made.log("guard"), 5.0, "the guard")
        time.sleep(0.6)
        held = np.array(torques[-1])
        count = len(torques)
        time.sleep(0.3)
        assert len(torques) == count, "it leaves the robot with them"
        os.kill(feedforward.pid, signal.SIGCONT)
        client.wait(lambda: len(torques) > count + 101, 5.0, "torques of the feedforward again")
        back = np.array(torques[count + 1 : count + 101])  # the first may have been on its way when it was stopped
        assert np.abs(back - held).max() < 0.15 * np.abs(held).max() + 1.0, "gravity again, and no kick"
        client.call(ChangeState, "feedforward/change_state", transition=Transition(id=Transition.TRANSITION_DEACTIVATE))
