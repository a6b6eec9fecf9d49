# SPDX-License-Identifier: Apache-2.0

"""Every node killed with -9 and started again while the others run: nothing hangs, nothing recorded is lost."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import FillEfforts, GetBaseParameters, IdentifyRecording, PlanExcitation, StartRecording
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from motions import saved_motion
from perfect import perfect_model
from ros2_dynid.control.stop import quintic
from ros2_dynid.nodes.common.fast import Stream
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import JOINT_STATES
from ros2_dynid.recording.live import stamp_ns
from ros2_dynid.recording.read import load_samples
from ros_graph import graph, jobs_of


def passed(client, seconds):
    """Wait until joint states of some more seconds have come."""
    begin = client.measured.stamp
    client.wait(lambda: client.measured.stamp > begin + 1e9 * seconds, seconds + 20.0, f"{seconds} s of joint states")


def missed(samples, seen):
    """Return how many of the joint states that we saw while the bag was written are not in it."""
    first, last = (samples.start_ns + round(1e9 * t) for t in samples.t[[0, -1]])
    kept = {round(stamp / 1e5) for stamp in samples.start_ns + 1e9 * samples.t}
    return sum(round(stamp / 1e5) not in kept for stamp in seen if first <= stamp <= last)


def at_rest(live, q):
    """Return whether the robot stands at q."""
    return np.allclose(live.q, q, atol=0.05) and np.all(np.abs(live.dq) < 0.05)


@pytest.mark.timeout(180)
def test_each_node_killed_and_started_again(tmp_path):
    with graph(tmp_path) as made:
        client, robot = made.client, made.robot
        saved_motion(tmp_path / "trajectories", robot)
        perfect_model(robot, tmp_path / "model.yaml")
        model = {"model": tmp_path / "model.yaml"}
        sim = made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        excitation, recorder = made.start("excitation"), made.start("recorder")
        identification, feedforward = made.start("identification", **model), made.start("feedforward")
        made.ready("sim_robot", "excitation", "recorder", "identification", "feedforward")
        client.position()
        seen = []
        stream = Stream(client, JointState, "joint_states", lambda data: seen.append(stamp_ns(data)), JOINT_STATES)

        # The recorder: its bag is there, but for the last half second.
        path = client.call(StartRecording, "recorder/start", path=["first"]).path
        passed(client, 2.5)
        made.kill(recorder)
        samples = load_samples(path, robot)
        assert samples.t[-1] - samples.t[0] > 1.5 and not missed(samples, seen)
        made.start("recorder", name="recorder_again")
        made.ready("recorder")

        # The excitation: the bag is closed soon, long before the middleware misses it, and the controller ends the
        # motion at rest.
        client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        made.run()
        client.wait(
            lambda: client.excitation_state.state in (ExcitationState.EXCITING, ExcitationState.ABORTED),
            40.0,
            "the start",
        )
        passed(client, 1.5)
        assert client.excitation_state.state == ExcitationState.EXCITING, client.excitation_state.text
        before = client.recording
        made.kill(excitation)
        killed = client.measured.stamp
        client.wait(lambda: client.recording != before, 30.0, "the bag that the excitation had begun")
        samples = load_samples(client.recording, robot)
        stream.close()
        assert samples.t[-1] - samples.t[0] > 1.5 and not missed(samples, seen) and len(seen) > 1000
        beyond = samples.t[-1] - 1e-9 * (killed - samples.start_ns)
        print(f"closed {beyond:.1f} s after the excitation was killed")
        assert beyond < 12.0, "the middleware misses it after 20 s"
        client.wait(lambda: at_rest(client.measured, [0.0, -1.0, 0.0]), 30.0, "the end of the motion")
        passed(client, 0.5)
        assert at_rest(client.measured, [0.0, -1.0, 0.0]), "and it stays there"
        made.start("excitation", name="excitation_again")
        made.ready("sim_robot", "excitation")

        # The identification, in the middle of its work: the job ends with it.
        service = client.create_client(IdentifyRecording, "identification/identify_recording")
        assert service.wait_for_service(10.0)
        service.call_async(IdentifyRecording.Request())
        client.wait(lambda: bool(jobs_of(identification.pid)), 10.0, "the job")
        jobs = jobs_of(identification.pid)
        made.kill(identification)
        client.wait(lambda: not any(alive(job) for job in jobs), 5.0, "the job's end")
        made.start("identification", name="identification_again", **model)

        # The feedforward: it takes the model again from whoever serves it.
        made.kill(feedforward)
        made.start("feedforward", name="feedforward_again")
        made.ready("identification", "feedforward")
        assert client.call(GetBaseParameters, "identification/get_base_parameters").parameters.robot == robot.name
        client.wait(lambda: "from base_parameters" in made.log("feedforward_again"), 20.0, "the model")
        q = client.position()
        wanted = trajectory_message(quintic(robot.active_names, q, q + 0.1, 1.0))
        assert client.call(FillEfforts, "feedforward/fill_efforts", trajectory=wanted).trajectory.points[5].effort

        # The robot: everybody waits for it and goes on.
        made.kill(sim)
        made.start("sim_robot", name="sim_again", start="[0.0, -1.0, 0.0]")
        made.ready("sim_robot", "excitation")
        passed(client, 0.5)
        client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        made.run()
        client.wait(
            lambda: client.excitation_state.state in (ExcitationState.EXCITING, ExcitationState.ABORTED),
            40.0,
            "the motion",
        )
        assert client.excitation_state.state == ExcitationState.EXCITING
        client.call(Trigger, "excitation/stop")


def alive(pid):
    """Return whether a process runs; a zombie does not."""
    found = subprocess.run(["ps", "-p", pid, "-o", "stat="], capture_output=True, text=True, check=False)
    return bool(found.stdout.strip()) and "Z" not in found.stdout
