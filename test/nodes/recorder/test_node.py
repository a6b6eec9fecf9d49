# SPDX-License-Identifier: Apache-2.0

"""The recorder: what is in its bags, what it says of them, and whom it follows."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import StartRecording, StopRecording
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.qos import ANNOUNCED
from ros2_dynid.recording.bag.read_bag import open_bag
from ros2_dynid.recording.read import read_samples
from ros_graph import graph

TAKEN = 0.5
"""Time [s] after which joint states that were sent are with the recorder."""


class Robot:
    """Sends joint states whose positions count them; their stamps are those given [s], else the clock's."""

    def __init__(self, client):
        self._publisher = client.create_publisher(JointState, "joint_states", 100)
        client.wait(lambda: self._publisher.get_subscription_count() > 0, 10.0, "the recorder")
        time.sleep(TAKEN)  # until the recorder has matched the publisher, too

    def send(self, *values, stamps=None, effort=True):
        for k, value in enumerate(values):
            message = JointState(name=["waist", "elbow"], position=[float(value)] * 2, velocity=[0.0] * 2)
            message.effort = [1.0] * 2 if effort else []
            stamp = time.time_ns() if stamps is None else int(stamps[k] * 1e9)
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 10**9)
            self._publisher.publish(message)
        time.sleep(TAKEN)


def positions(path):
    return read_samples(path).q[:, 0].tolist()


@pytest.fixture
def recorder(tmp_path):
    """Return what starts a recorder with these parameters, and gives the graph and its robot."""
    with graph(tmp_path) as made:

        def start(**parameters):
            made.start("recorder", **parameters)
            made.ready("recorder")
            return made, Robot(made.client)

        yield start


@pytest.mark.timeout(90)
def test_a_bag_is_begun_once_ended_once_and_described(recorder, tmp_path):
    made, robot = recorder(lead_seconds=0.0)
    client = made.client

    def begin(*path):
        return client.call(StartRecording, "recorder/start", path=list(path)).path

    def end():
        return client.call(StopRecording, "recorder/stop")

    robot.send(0.0)  # before the start
    path = begin()
    assert Path(path).parent == tmp_path / "recordings" and Path(path).name.startswith("recording_")
    with pytest.raises(ClientError, match="already"):
        begin("two")
    k = np.array([0, 1, 2, 3, 4, 9, 10])
    robot.send(*k, stamps=1000.0 + 0.01 * k)
    found = end()
    assert (found.path, found.samples, found.gaps, list(found.problems)) == (path, 7, 1, [])
    np.testing.assert_allclose((found.duration, found.rate, found.longest_gap), (0.1, 100.0, 0.05), rtol=1e-6)
    assert positions(path) == k.tolist()
    client.wait(lambda: client.recording == path, 5.0, "the announcement")
    with pytest.raises(ClientError, match="nothing is being recorded"):
        end()
    begin("one")
    robot.send(1.0, 2.0, 3.0, stamps=(10.0, 10.01, 13.01), effort=False)
    client.wait(lambda: "no joint states for 3 s: they are missing" in made.log("recorder"), 5.0, "the warning")
    found = end()
    assert list(found.problems) == ["no joint states for 3 s", "3 of 3 joint states have no effort"]
    notes = yaml.safe_load((Path(found.path) / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert notes["custom_data"] == {"problems": "; ".join(found.problems)}
    for wrong, reason in (("one", "exists already"), ("../out", "not inside the folder")):
        with pytest.raises(ClientError, match=reason):
            begin(wrong)

    # a recorder that is deactivated has closed its bag
    last = begin("cut")
    robot.send(3.0)
    client.call(ChangeState, "recorder/change_state", transition=Transition(id=Transition.TRANSITION_DEACTIVATE))
    client.wait(lambda: client.recording == last, 5.0, "the announcement")
    assert positions(last) == [3.0]
    with pytest.raises(ClientError, match="not active"):
        begin("more")


@pytest.mark.timeout(60)
def test_the_last_seconds_are_kept(recorder):
    made, robot = recorder(buffer_seconds=0.5, expected_rate=8.0, lead_seconds=30.0)
    robot.send(*range(10))
    saved = Path(made.client.call(Trigger, "recorder/save_buffer").message)
    assert saved.name.startswith("buffer_") and positions(saved) == [6.0, 7.0, 8.0, 9.0]
    (channel,) = open_bag(saved).channels
    assert channel.topic == "/joint_states"
    made.client.wait(lambda: made.client.recording == str(saved), 5.0, "the announcement")
    path = made.client.call(StartRecording, "recorder/start").path
    robot.send(10.0)
    made.client.call(StopRecording, "recorder/stop")
    assert positions(path) == [6.0, 7.0, 8.0, 9.0, 10.0], "a bag begins with what came within the lead"


@pytest.mark.timeout(90)
def test_it_follows_the_excitation_and_leaves_alone_what_a_service_began(recorder, tmp_path):
    made, robot = recorder(lead_seconds=0.0)
    client, bags = made.client, tmp_path / "recordings"
    states = client.create_publisher(ExcitationState, "excitation_state", ANNOUNCED)

    def excitation(state):
        states.publish(ExcitationState(state=state))
        time.sleep(TAKEN)

    def count():
        return len(list(bags.iterdir())) if bags.exists() else 0

    for state in (ExcitationState.IDLE, ExcitationState.APPROACH, ExcitationState.REHEARSING):
        excitation(state)
    assert count() == 0, "only the exciting run is recorded"
    excitation(ExcitationState.EXCITING)
    robot.send(1.0, 2.0)
    excitation(ExcitationState.BRAKING)
    robot.send(3.0)
    client.wait(lambda: client.recording != "", 5.0, "the bag")
    assert positions(client.recording) == [1.0, 2.0] and count() == 1

    own = client.call(StartRecording, "recorder/start", path=["own"]).path
    excitation(ExcitationState.EXCITING)
    robot.send(4.0)
    excitation(ExcitationState.DONE)
    robot.send(5.0)
    assert count() == 2 and client.call(StopRecording, "recorder/stop").path == own
    assert positions(own) == [4.0, 5.0]

    wanted = [Parameter("follow_excitation", value=False).to_parameter_msg()]
    assert client.call(SetParameters, "recorder/set_parameters", parameters=wanted).results[0].successful
    excitation(ExcitationState.EXCITING)
    assert count() == 2
