# SPDX-License-Identifier: Apache-2.0

"""One stop for the suite: every node that moves the robot obeys the topic, and nothing starts until it is released."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.srv import PlanExcitation
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from motions import saved_motion
from perfect import perfect_model
from ros2_dynid.control.stop import quintic
from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import LATCHED, SERVICES
from ros2_dynid.nodes.mission.pilot import Pilot
from ros_graph import graph

MOVING = 0.08
"""A joint faster than this moves [rad/s]."""


def refusal(act):
    """Return why something is refused, or nothing ("")."""
    try:
        act()
    except ClientError as error:
        return str(error)
    return ""


@pytest.mark.timeout(120)
def test_the_topic_stops_excitation_and_feedforward_until_it_is_released(tmp_path):
    with graph(tmp_path) as made:
        saved_motion(tmp_path / "trajectories", made.robot)
        perfect_model(made.robot, tmp_path / "model.yaml")
        made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        first = made.start("excitation", start_delay=0.0, settle_seconds=0.0, approach_speed=1.0, collisions="false")
        made.start("feedforward", model=tmp_path / "model.yaml")
        made.ready("sim_robot", "excitation", "feedforward")
        client = made.client
        stop, sent = client.create_publisher(Bool, "stop", LATCHED), []
        client.create_subscription(JointTrajectory, "joint_trajectory", sent.append, 10)
        client.wait(lambda: stop.get_subscription_count() >= 4, 10.0, "who obeys the stop")

        def brakes():
            """Set the stop in mid-motion; the next trajectory ends at rest, and so does the robot."""
            client.wait(lambda: client.speed() > MOVING, 20.0, "the motion")
            count = len(sent)
            stop.publish(Bool(data=True))
            client.wait(lambda: len(sent) > count, 2.0, "the stop")
            assert not np.any(sent[count].points[-1].velocities)
            client.wait_for_rest(0.02, 5.0)
            client.wait(lambda: client.excitation_state.text.startswith(("aborted", "idle", "done")), 5.0, "rest")

        client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        made.run()
        brakes()
        assert client.excitation_state.text == "aborted: the stop is set"
        with pytest.raises(ClientError, match="the stop is set; release it first"):
            client.call(Trigger, "excitation/start")
        made.kill(first)
        made.start("excitation", name="again", start_delay=0.0, collisions="false", approach_speed=1.0)
        made.ready("excitation")
        client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        with pytest.raises(ClientError, match="the stop is set"):
            client.call(Trigger, "excitation/start")  # who is started later obeys as well

        def refer():
            q = client.position()
            client.send(trajectory_message(quintic(made.robot.active_names, q, q + 0.4, 2.0)), feedforward=True)

        count = len(sent)
        refer()
        client.wait(lambda: "the stop is set" in made.log("feedforward"), 5.0, "the refusal")
        assert len(sent) == count
        stop.publish(Bool(data=False))
        time.sleep(0.2)
        refer()
        client.wait(lambda: len(sent) > count, 5.0, "a motion after the release")
        brakes()

        # The demo's operator, who sends trajectories to the controller itself, obeys as well.
        stop.publish(Bool(data=False))
        pilot = Pilot(made.robot, "pilot")
        try:
            beyond = quintic(made.robot.active_names, pilot.position(), pilot.position() + 9.0, 20.0)
            away = quintic(made.robot.active_names, pilot.position() + 0.3, pilot.position() + 0.4, 5.0)
            for points, why in ((beyond, "would pass its limit"), (away, "the reference begins 0.3 from joint")):
                with pytest.raises(InputError, match=why):
                    pilot.follow(points, feedforward=False)
            went = threading.Thread(
                target=lambda: refused.append(refusal(lambda: pilot.go(pilot.position() + 0.4, 0.2)))
            )
            refused = []
            went.start()
            brakes()
            went.join(10.0)
            assert refused == [
                "the stop is set; release it first: publish false on the topic stop, or call guard/release"
            ]
            assert refusal(lambda: pilot.go(pilot.position())) == refused[0]
            stop.publish(Bool(data=False))
            time.sleep(0.3)
            pilot.go(pilot.position() + 0.05)
            there = pilot.position() - 0.2
            pilot.follow(quintic(made.robot.active_names, pilot.position(), there, 1.5), feedforward=True)
            assert np.abs(pilot.position() - there).max() < 0.05, "what it had itself is left to the feedforward"
            stop.publish(Bool(data=True))
            client.wait(lambda: refusal(lambda: pilot.go(pilot.position())) == refused[0], 5.0, "the stop")
        finally:
            pilot.close()

        # Two hundred who ask at once are all answered.
        asking = [client.create_client(Trigger, "excitation/stop", qos_profile=SERVICES) for _ in range(4)]
        client.wait(lambda: all(each.service_is_ready() for each in asking), 10.0, "the service")
        time.sleep(0.2)
        answers = [asking[k % 4].call_async(Trigger.Request()) for k in range(200)]
        client.wait(lambda: all(answer.done() for answer in answers), 10.0, "all answers")
        assert {answer.result().message for answer in answers} == {"nothing was moving"}
