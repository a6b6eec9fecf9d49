# SPDX-License-Identifier: Apache-2.0

"""The recorder beside an announcement that pauses, and what it says on /diagnostics about joint states with NaN."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.duration import Duration, Infinite
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import StartRecording, StopRecording
from sensor_msgs.msg import JointState

from ros2_dynid.nodes.recorder.node import Following
from ros2_dynid.recording.read import read_samples
from ros_graph import graph

ANNOUNCER = """
import rclpy
from ros2_dynid.msg import ExcitationState
from ros2_dynid.nodes.common.qos import ANNOUNCED
rclpy.init()
node = rclpy.create_node("announcer")
publisher = node.create_publisher(ExcitationState, "excitation_state", ANNOUNCED)
publisher.publish(ExcitationState(state=ExcitationState.EXCITING))
rclpy.spin(node)
"""


class Robot:
    """Joint states at 100 Hz whose first position counts them; the efforts of the joints named are NaN."""

    def __init__(self, client, names, nan=()):
        self._publisher = client.create_publisher(JointState, "joint_states", 100)
        self._efforts = [float("nan") if name in nan else 1.0 for name in names]
        self._names, self._ended = list(names), threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        count = 0
        while not self._ended.wait(0.01):
            message = JointState(name=self._names, effort=self._efforts)
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 10**9)
            message.position = [float(count)] * len(self._names)
            message.velocity = [0.0] * len(self._names)
            self._publisher.publish(message)
            count += 1

    def close(self):
        self._ended.set()


@pytest.mark.timeout(90)
def test_what_an_announcer_that_pauses_announced_is_recorded_whole(tmp_path):
    with graph(tmp_path) as made:
        client, bags = made.client, tmp_path / "recordings"
        made.start("recorder")
        made.ready("recorder")
        robot = Robot(client, made.robot.active_names)
        announcer = subprocess.Popen([sys.executable, "-c", ANNOUNCER])
        try:
            client.wait(lambda: made.log("recorder").count("recording into") == 1, 30.0, "the first bag")
            time.sleep(1.0)
            os.kill(announcer.pid, signal.SIGSTOP)
            client.wait(lambda: client.recording != "", 30.0, "its end")
            first = client.recording
            time.sleep(1.0)
            os.kill(announcer.pid, signal.SIGCONT)
            client.wait(lambda: made.log("recorder").count("recording into") == 2, 30.0, "the second bag")
            time.sleep(0.5)
            client.call(StopRecording, "recorder/stop")
            client.wait(lambda: client.recording != first, 10.0, "its end")
        finally:
            announcer.kill()
            announcer.wait(10.0)
            robot.close()
        counts = [read_samples(path).q[:, 0] for path in (first, client.recording)]
        assert np.array_equal(np.unique(np.concatenate(counts)), np.arange(counts[0][0], counts[1][-1] + 1))
        assert len(list(bags.iterdir())) == 2


@pytest.mark.timeout(60)
def test_diagnostics_name_the_joints_without_effort(tmp_path):
    with graph(tmp_path) as made:
        client, heard = made.client, {}
        client.create_subscription(
            DiagnosticArray, "/diagnostics", lambda m: heard.update({s.name: s for s in m.status}), 10
        )
        made.start("recorder", remap=("__ns:=/left", "joint_states:=/joint_states"))
        client.wait(lambda: "left/recorder: state" in heard, 30.0, "the diagnostics")
        client.wait(lambda: heard["left/recorder: state"].message == "listening", 10.0, "an active recorder")
        assert heard["left/recorder: state"].level == DiagnosticStatus.OK
        robot = Robot(client, ("shoulder", "elbow"), nan=("elbow",))
        try:
            client.call(StartRecording, "/left/recorder/start", path=["nan"])
            client.wait(lambda: heard["left/recorder: state"].level == DiagnosticStatus.WARN, 20.0, "the warning")
        finally:
            robot.close()
        message = heard["left/recorder: state"].message
        assert "effort of elbow is NaN" in message and "no effort state interface" in message


class Air:
    """A node for Following: subscriptions by quality, and publishers with leases."""

    def __init__(self):
        self.made, self.destroyed, self.leases, self.said = [], [], [], []

    def create_subscription(self, kind, topic, callback, qos, event_callbacks=None):
        assert kind is ExcitationState and topic == "excitation_state"
        self.made.append(SimpleNamespace(callback=callback, qos=qos, events=event_callbacks))
        return self.made[-1]

    def destroy_subscription(self, subscription):
        self.destroyed.append(subscription)

    def get_logger(self):
        return SimpleNamespace(warning=self.said.append)

    def get_publishers_info_by_topic(self, topic):
        assert topic == "excitation_state"
        return [SimpleNamespace(qos_profile=SimpleNamespace(liveliness_lease_duration=lease)) for lease in self.leases]


LEASE = Duration(seconds=1.5)


def followed(*leases):
    air, heard = Air(), []
    air.leases = list(leases)
    return air, heard, Following(air, heard.append)


def alive(air, count):
    """Let the middleware tell how many announcers are alive."""
    air.made[-1].events.liveliness(SimpleNamespace(alive_count=count))


def test_an_announcer_without_a_lease_is_missed_when_it_is_gone():
    air, heard, following = followed(Infinite)
    following.poll()
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    following.poll()
    assert heard == [True] and len(air.made) == 1, "no lease is asked of one that offers none"
    air.leases = []
    for _ in range(3):
        following.poll()
    assert heard == [True, False] and len(air.said) == 1, "told once"
    air.made[0].callback(ExcitationState(state=ExcitationState.DONE))
    assert heard == [True, False, False]
    following.poll()
    assert len(heard) == 3, "nothing is announced, nobody is missed"
    for _ in range(2):  # also one that dies and begins anew without ever ending an announcement
        air.leases = [Infinite]
        air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
        following.poll()
        air.leases = []
        following.poll()
    assert heard[3:] == [True, False, True, False] and len(air.said) == 3, "each one is missed"


def test_an_announcer_with_a_lease_is_missed_at_once_and_followed_again():
    air, heard, following = followed(LEASE)
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    assert len(air.made) == 2, "its lease is watched as soon as it announces"
    alive(air, 1)
    following.poll()
    assert heard == [True]
    alive(air, 0)
    alive(air, 0)
    assert heard == [True, False] and not following.returned
    following.poll()
    assert heard == [True, False]
    alive(air, 1)
    following.poll()
    following.poll()
    assert heard == [True, False, True] and following.returned
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    assert not following.returned, "a new announcement is no return"
    watched = air.made[1]
    air.made[0].callback(ExcitationState(state=ExcitationState.DONE))
    assert heard[-1] is False and air.destroyed == [watched]
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    assert len(air.made) == 3, "watched anew"


def test_no_lease_is_watched_where_one_announcer_offers_none():
    air, _, following = followed(LEASE, Infinite)
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    following.poll()
    assert len(air.made) == 1
