# SPDX-License-Identifier: Apache-2.0

"""A motion of a real robot's nodes that is paused and gone on with, recorded in one bag, and a joint that is held."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import Jog, PlanExcitation
from std_srvs.srv import Trigger

from motions import saved_motion
from ros2_dynid.nodes.common.caller import ClientError
from ros_graph import graph


@pytest.mark.timeout(120)
def test_a_motion_is_paused_and_gone_on_with_and_a_joint_moves_while_it_is_held(tmp_path):
    with graph(tmp_path) as made:
        saved_motion(tmp_path / "trajectories", made.robot, seconds=4.0)
        made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        made.start("recorder")
        made.start("excitation", approach_speed=0.6, settle_seconds=0.1)
        made.ready("sim_robot", "recorder", "excitation")
        a_motion_is_paused_in_one_bag(made)
        a_joint_moves_while_it_is_held(made)


def a_motion_is_paused_in_one_bag(made):
    client = made.client
    client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
    made.run()
    client.wait_for_excitation(ExcitationState.EXCITING, timeout=40.0)
    client.wait(lambda: client.speed() > 0.1, 20.0, "the motion")
    client.call(Trigger, "excitation/pause")
    client.wait_for_excitation(ExcitationState.PAUSED, timeout=10.0)
    begin = client.position()
    time.sleep(0.5)
    assert np.allclose(client.position(), begin, atol=2e-3), "it rests"
    with pytest.raises(ClientError, match="paused"):
        client.call(Trigger, "excitation/start")
    client.call(Trigger, "excitation/resume")
    client.wait_for_excitation(ExcitationState.DONE, timeout=20.0)
    client.wait(lambda: client.recording != "", 10.0, "the bag")
    assert len(list((made.folder / "recordings").iterdir())) == 1, "one bag of one motion"


def a_joint_moves_while_it_is_held(made):
    client = made.client
    begin = client.position()
    for _ in range(20):
        client.call(Jog, "excitation/jog", joint="elbow", direction=1)
        time.sleep(0.05)
    assert client.excitation_state.state == ExcitationState.JOGGING
    client.wait_for_excitation(ExcitationState.IDLE, timeout=2.0)
    moved = client.position() - begin
    assert moved[2] > 0.02 and np.all(np.abs(moved[:2]) < 0.01)
    assert client.call(Jog, "excitation/jog", joint="", direction=0).message == "no joint is being jogged"
    with pytest.raises(ClientError, match="there is no joint 'nose'"):
        client.call(Jog, "excitation/jog", joint="nose", direction=1)


@pytest.mark.timeout(120)
def test_the_fast_motion_is_locked_until_a_slow_one_has_shown_the_friction_of_each_joint(tmp_path):
    with graph(tmp_path) as made:
        saved_motion(tmp_path / "trajectories", made.robot, seconds=4.0)
        made.start("sim_robot", start="[0.0, -1.0, 0.0]")
        made.start("excitation", approach_speed=0.6, settle_seconds=0.1, rehearsal_speed=0.4, require_rehearsal="true")
        made.ready("sim_robot", "excitation")
        client = made.client
        client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        with pytest.raises(ClientError, match="has not been rehearsed"):
            client.call(Trigger, "excitation/start")
        made.run("rehearse")
        client.wait_for_excitation(ExcitationState.REHEARSING, timeout=40.0)
        client.call(Trigger, "excitation/stop")
        client.wait(lambda: client.excitation_state.rehearsal == "failed: stop was called", 10.0, "the verdict")
        with pytest.raises(ClientError, match="not passed: stop was called"):
            client.call(Trigger, "excitation/start")
        made.run("rehearse")
        client.wait_for_excitation(ExcitationState.DONE, timeout=60.0)
        client.wait(lambda: client.excitation_state.rehearsal != "", 20.0, "the verdict")
        assert client.excitation_state.rehearsal.startswith("passed: largest tracking error")
        assert "elbow" in client.excitation_state.rehearsal
        made.run()
        client.wait_for_excitation(ExcitationState.EXCITING, timeout=40.0)
        client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        client.wait(lambda: client.excitation_state.rehearsal == "", 10.0, "no verdict on another plan")
