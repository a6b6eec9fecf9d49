# SPDX-License-Identifier: Apache-2.0

"""excitation_state as a subscriber gets it."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

import rclpy
from ros2_dynid.msg import ExcitationState

from in_process import ros, soon
from ros2_dynid.nodes.common.qos import LATCHED
from ros2_dynid.nodes.excitation.publishers import StatePublisher

pytestmark = [pytest.mark.in_process, pytest.mark.timeout(60)]


@pytest.fixture
def states():
    """Return a publisher, and what gives the state that somebody who comes late would hear."""
    with ros():
        node = rclpy.create_node("excitation")
        made = StatePublisher(node)

        def heard(publish):
            publish()
            listener, messages = rclpy.create_node("listener"), []
            listener.create_subscription(ExcitationState, "excitation_state", messages.append, LATCHED)
            soon(lambda: rclpy.spin_once(listener, timeout_sec=0.05) or messages, "the state", 20.0)
            listener.destroy_node()
            return messages[-1]

        yield made, heard
        node.destroy_node()


def test_a_new_excitation_is_idle(states):
    _, heard = states
    message = heard(lambda: None)
    assert (message.state, message.text, message.reason) == (ExcitationState.IDLE, "idle", "")


def test_a_motion_tells_its_progress_and_a_stop_its_reason(states):
    made, heard = states
    made.expect("exciting", way=2.0, settle=1.0, run=5.0)
    for name, state, progress, duration in (
        ("approach", ExcitationState.APPROACH, 0.0, 2.0),
        ("settle", ExcitationState.SETTLE, 0.25, 1.0),
        ("exciting", ExcitationState.EXCITING, 0.375, 5.0),
    ):
        message = heard(lambda name=name: made.publish(name))
        assert (message.state, message.progress, message.duration) == (state, progress, duration)
    message = heard(lambda: made.publish("aborted", "stop was called"))
    assert (message.state, message.reason) == (ExcitationState.ABORTED, "stop was called")
    assert message.text == "aborted: stop was called" and message.progress == 0.375 and message.duration == 0.0
    message = heard(lambda: made.publish("done"))
    assert (message.state, message.progress) == (ExcitationState.DONE, 1.0)
    assert message.header.stamp.sec > 0
    assert heard(lambda: made.publish("no robot")).state == ExcitationState.NO_ROBOT
