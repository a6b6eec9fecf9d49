# SPDX-License-Identifier: Apache-2.0

"""The recorder beside an announcement that pauses, and what it says on /diagnostics about joint states with NaN."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import StartRecording, StopRecording
from sensor_msgs.msg import JointState

from ros2_dynid.nodes.common.qos import LATCHED
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


CYCLING = """
import sys, rclpy
from ros2_dynid.msg import ExcitationState
from ros2_dynid.nodes.common.qos import ANNOUNCED, LATCHED
rclpy.init()
node = rclpy.create_node("announcer")
publisher = node.create_publisher(ExcitationState, "excitation_state", ANNOUNCED if sys.argv[1] == "lease" else LATCHED)
for line in sys.stdin:
    publisher.publish(ExcitationState(state=int(line)))
"""


class Announcer:
    """A process that announces what it is told; its publisher offers a `lease` of liveliness or not."""

    def __init__(self, lease):
        self.process = subprocess.Popen(
            [sys.executable, "-c", CYCLING, "lease" if lease else "none"], stdin=subprocess.PIPE, text=True
        )

    def say(self, state):
        self.process.stdin.write(f"{state}\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait(10.0)


@pytest.mark.timeout(120)
def test_a_killed_announcer_is_missed_within_two_seconds_whatever_came_before(tmp_path):
    with graph(tmp_path) as made:
        made.start("recorder")
        made.ready("recorder")
        announcer, begun = Announcer(lease=True), 0

        def follow():
            nonlocal begun
            announcer.say(ExcitationState.EXCITING)
            begun += 1
            made.client.wait(lambda: made.log("recorder").count("recording into") == begun, 30.0, "a bag")

        def change(transition):
            made.client.call(ChangeState, "recorder/change_state", transition=Transition(id=transition))

        try:
            for _ in range(2):  # earlier motions
                follow()
                announcer.say(ExcitationState.DONE)
                made.client.wait(lambda: made.log("recorder").count(" joint states in ") == begun, 10.0, "its end")
            for transition in (  # another life of the recorder
                Transition.TRANSITION_DEACTIVATE,
                Transition.TRANSITION_CLEANUP,
                Transition.TRANSITION_CONFIGURE,
                Transition.TRANSITION_ACTIVATE,
            ):
                change(transition)
            for gone in (1, 2):
                follow()
                announcer.kill()
                killed = time.time()
                made.client.wait(lambda gone=gone: made.log("recorder").count("is gone") == gone, 30.0, "its end")
                assert time.time() - killed < 2.0
                announcer = Announcer(lease=True)
        finally:
            announcer.kill()


@pytest.mark.timeout(60)
def test_an_announcer_without_a_lease_is_missed_when_it_has_left(tmp_path):
    with graph(tmp_path) as made:
        made.start("recorder")
        made.ready("recorder")
        publisher = made.client.create_publisher(ExcitationState, "excitation_state", LATCHED)
        publisher.publish(ExcitationState(state=ExcitationState.EXCITING))
        made.client.wait(lambda: "recording into" in made.log("recorder"), 20.0, "the bag")
        assert "is gone" not in made.log("recorder")
        made.client.destroy_publisher(publisher)
        made.client.wait(lambda: "the excitation is gone" in made.log("recorder"), 10.0, "its end")
