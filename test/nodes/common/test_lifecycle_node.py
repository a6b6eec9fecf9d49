# SPDX-License-Identifier: Apache-2.0

"""The life of a managed node, and its parameters."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from rclpy.parameter import Parameter
from std_msgs.msg import String
from std_srvs.srv import Trigger

from in_process import node_of
from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.lifecycle_node import ManagedNode
from ros2_dynid.nodes.common.parameters import Described, Settable
from ros2_dynid.nodes.feedforward.node import FeedforwardNode

pytestmark = pytest.mark.in_process


class Plain(ManagedNode):
    """A node that keeps what happens to it."""

    def __init__(self):
        self.events, self.fails, self.bad = [], None, False
        own = (
            Described("speed", 0.5, "a share", 0.0, 1.0),
            Described("law", "a", "which", settable=Settable.UNCONFIGURED),
            Described("count", 3, "how many", 1, 9, settable=Settable.INACTIVE),
        )
        super().__init__("plain", own)
        self.autostart()

    def configure(self):
        self.events.append("configure")
        if self.fails:
            raise self.fails
        self.create_publisher(String, "out", 1)
        self.create_service(Trigger, "~/go", lambda request, response: response)
        self.create_timer(100.0, lambda: None)
        self.create_subscription(String, "in", lambda message: None, 1)

    def activate(self):
        assert self.active
        self.events.append("activate")

    def deactivate(self):
        self.events.append("deactivate")

    def on_robot(self, robot):
        self.events.append(robot.name)

    def check_parameters(self, changes):
        if self.bad:
            raise InputError("no", "leave it")
        self.events.append(("try", dict(changes)))

    def parameters_changed(self, changes):
        self.events.append(("set", dict(changes)))


def test_an_active_node_that_is_closed_is_deactivated_first():
    with node_of(Plain, robot="demo3") as node:
        assert node.events == ["configure", "demo3", "activate"], "it starts by itself"
        node.close()
        assert node.events[-1] == "deactivate"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("output", "both", "choose from trajectory, effort"),
        ("effort_limits", "[5.0, -1.0, 5.0]", "out of range (0 to 1e+06): -1"),
        ("contact_thresholds", "[.nan]", "not finite"),
        ("timeout", "50.0", "timeout"),
        ("rate", "fast", "rate"),
    ],
)
def test_a_node_does_not_start_with_a_parameter_that_cannot_be(name, value, words):
    with pytest.raises(InputError, match="parameter") as refused, node_of(FeedforwardNode, **{name: value}):
        pass
    assert words in str(refused.value)


def test_parameters_are_tried_then_set_and_only_in_their_state():
    with node_of(Plain, robot="demo3") as node:
        node.events.clear()

        def put(**values):
            (answer,) = node.set_parameters([Parameter(name, value=value) for name, value in values.items()])
            return answer.successful, answer.reason

        assert put(speed=0.75) == (True, "")
        assert node.events == [("try", {"speed": 0.75}), ("set", {"speed": 0.75})] and node.value("speed") == 0.75
        node.events.clear()
        for name, value, words in (
            ("speed", 1.5, "range"),
            ("law", "b", "clean up first"),
            ("count", 4, "deactivate first"),
        ):
            good, reason = put(**{name: value})
            assert not good and words in reason
        node.bad = True
        assert put(speed=0.1) == (False, "no; leave it") and node.value("speed") == 0.75
        assert not node.events
        node.bad = False
        node.trigger_deactivate()
        assert put(count=4)[0] and not put(law="b")[0]
        node.trigger_cleanup()
        assert put(law="b")[0]
