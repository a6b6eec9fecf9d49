# SPDX-License-Identifier: Apache-2.0

"""Requests that cannot be met are answered with the reason, by nodes that go on: also when libraries print."""

from __future__ import annotations

import os
import resource
import signal
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from lifecycle_msgs.srv import ChangeState
from ros2_dynid.action import Identify
from ros2_dynid.msg import BaseParameters, IdentifyOptions
from ros2_dynid.srv import (
    GetBaseParameters,
    IdentifyPayload,
    IdentifyRecording,
    PlanExcitation,
    StartRecording,
    StopRecording,
)
from std_srvs.srv import Trigger

from motions import recorded_motion
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.qos import LATCHED
from ros_graph import graph, jobs_of

NOISY = """
import os, sys
if "ros2_dynid.job_process" in sys.orig_argv:
    print("a library says hello", flush=True)
    os.write(1, b"and so does its C part, without the end of a line: {")
"""


def change(client, node, *transitions):
    for transition in transitions:
        request = ChangeState.Request()
        request.transition.id = transition
        assert client.call(ChangeState, f"{node}/change_state", transition=request.transition).success


@pytest.mark.timeout(120)
def test_jobs_that_print_fail_or_die_are_answered(tmp_path, monkeypatch):
    (tmp_path / "noisy").mkdir()
    (tmp_path / "noisy" / "sitecustomize.py").write_text(NOISY)
    paths = [str(tmp_path / "noisy"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    with graph(tmp_path) as made:
        excitation = made.start("excitation", planning_seconds=1.0)
        identification = made.start("identification")
        made.ready("excitation", "identification")
        client = made.client

        # fields are refused by name, before a process is started
        for wanted, reason in (
            ({"seed": -1}, "seed is -1"),
            ({"duration": [1e9]}, r"duration is 1e\+09 s; give 1 to 600 s"),
            ({"duration": [float("nan")]}, "duration is nan"),
            ({"method": ["nonsense"]}, "nonsense"),
        ):
            with pytest.raises(ClientError, match=reason):
                client.call(PlanExcitation, "excitation/plan", **wanted)
        with pytest.raises(ClientError, match="empty_bags is empty"):
            client.call(IdentifyPayload, "identification/identify_payload")
        with pytest.raises(ClientError, match="no recording yet"):
            client.act(Identify, "identification/identify", Identify.Goal())

        # what a library prints goes to the log and harms nobody
        assert client.call(PlanExcitation, "excitation/plan", seed=1).success
        assert "a library says hello" in made.log("excitation")
        bag = recorded_motion(tmp_path / "recordings", made.robot)
        found = client.act(Identify, "identification/identify", Identify.Goal(bags=[bag]))
        model = found.model_path
        assert found.parameters.validation, "an empty goal validates, as the command line does"
        with pytest.raises(ClientError, match="choose from"):
            client.act(Identify, "identification/identify", Identify.Goal(bags=[bag], method=["nonsense"]))

        # what the command line can ask for, the action can: units, drive gains, filters
        with np.load(tmp_path / "recordings" / bag) as plain:
            odd = {key: plain[key] * (180 / np.pi if key in ("q", "dq", "ddq") else 1.0) for key in plain}
        odd["tau"] *= (1.0, 1.0, -2.0)
        np.savez(tmp_path / "recordings" / "odd.npz", **odd)
        options = IdentifyOptions(
            angle_unit=["deg"], gain_joints=["elbow"], gains=[-0.5], row_cutoff=[12.0], end=[7.0], delay=[0.0]
        )
        options.sensor = ["elbow=motor"]
        goal = Identify.Goal(bags=["odd.npz"], options=options, essential=True)
        found = load_model(client.act(Identify, "identification/identify", goal).model_path)
        assert found.fit["all"].relative < 0.02 and found.essential is not None
        obtained = found.obtained["options"]
        assert obtained["preparation"]["gains"] == {"elbow": -0.5} and obtained["preparation"]["delay"] == 0.0
        assert obtained["reading"]["units"]["angle"] == "deg" and obtained["reading"]["end"] == 7.0
        assert obtained["sensor"] == "elbow=motor"
        for wrong, reason in (
            ({"row_cutoff": [-1.0]}, "row_cutoff is -1"),
            ({"angle_unit": ["turns"]}, "unknown angle unit 'turns'"),
            ({"gain_joints": ["elbow"]}, "options.gains differ in number"),
            ({"gain_joints": ["knee"], "gains": [1.0]}, "knee"),
            ({"columns": ["/etc/passwd"]}, "options.columns holds"),
            ({"friction": ["butter"]}, "friction 'butter'"),
            ({"sensor": ["elbow=moon"]}, "the sensor is 'moon'"),
            ({"torque_sensor": ["motor"]}, "torque sensor is at the motor"),
        ):
            goal = Identify.Goal(bags=[bag], options=IdentifyOptions(**wrong))
            with pytest.raises(ClientError, match=reason):
                client.act(Identify, "identification/identify", goal)

        # a job that is killed
        service = client.create_client(PlanExcitation, "excitation/plan")
        assert service.wait_for_service(10.0)
        answers = []
        service.call_async(PlanExcitation.Request(seed=2)).add_done_callback(lambda f: answers.append(f.result()))
        client.wait(lambda: bool(jobs_of(excitation.pid)), 10.0, "the job")
        time.sleep(0.2)
        for job in jobs_of(excitation.pid):
            os.kill(int(job), signal.SIGKILL)
        client.wait(lambda: bool(answers), 20.0, "the answer")
        assert not answers[0].success and "SIGKILL" in answers[0].message

        # the model is served again after cleanup and configure
        change(client, "identification", 4, 2)
        heard = []
        client.create_subscription(BaseParameters, "base_parameters", heard.append, LATCHED)
        change(client, "identification", 1)
        client.wait(lambda: bool(heard), 10.0, "the latched model")
        served = client.call(GetBaseParameters, "identification/get_base_parameters").parameters
        assert served.model_id == heard[0].model_id and model
        assert served.header.frame_id == heard[0].header.frame_id == "base_link"
        with pytest.raises(ClientError, match="not active"):
            client.call(IdentifyRecording, "identification/identify_recording", bags=[bag])
        assert excitation.poll() is None and identification.poll() is None


@pytest.mark.timeout(60)
def test_a_recorder_without_anything_to_save_says_so(tmp_path):
    with graph(tmp_path) as made:
        recorder = made.start("recorder")
        made.ready("recorder")
        client = made.client
        with pytest.raises(ClientError, match="nothing is buffered"):
            client.call(Trigger, "recorder/save_buffer")
        client.call(StartRecording, "recorder/start", path=["empty"])
        with pytest.raises(ClientError, match="no joint state came"):
            client.call(StopRecording, "recorder/stop")
        resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))  # 1 MB is left
        with pytest.raises(ClientError, match="free 2 MB"):
            client.call(StartRecording, "recorder/start", path=["full"])
        assert not (tmp_path / "recordings" / "full").exists()
        assert client.recording == "", "nothing was announced"
