# SPDX-License-Identifier: Apache-2.0

"""What the feedforward node is asked by services, and the model that it hears of."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Inertia, Vector3
from ros2_dynid.msg import BaseParameters
from ros2_dynid.srv import FillEfforts, SetPayload

from publishing_node import OneNode
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.control.feedforward_events import AskFiller, FeedforwardOutcome, NewModel, NewPayload
from ros2_dynid.control.reference import reference
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import DynidError
from ros2_dynid.identification.model_file import TorqueError, model_of
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.model_messages import model_message
from ros2_dynid.nodes.feedforward.services import FeedforwardServices

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
HERE = np.array([0.3, -0.9, 0.5])


def services(ask, described=lambda: None):
    """Return a node with the services, whose events `ask` gets."""
    node = OneNode()
    FeedforwardServices(node, lambda make: ask(make(1.0)), described)
    return node


def test_a_payload_is_turned_by_the_links_of_the_description():
    T = np.eye(4)
    T[:3, 3] = (0.1, 0.2, 0.3)
    described = SimpleNamespace(tools={"hand": (2, T)}, n=3, name="described")
    filler = SimpleNamespace(model=SimpleNamespace(robot=SimpleNamespace(tools={}, n=3, name="model")))
    asked = []

    def ask(event):
        asked.append(event)
        return FeedforwardOutcome(filler=filler)

    payload = Inertia(m=2.0, com=Vector3(x=1.0), ixx=0.1, iyy=0.2, izz=0.3)
    for robot, link, joint, com in (
        (described, "hand", 2, (1.1, 0.2, 0.3)),
        (described, "", 2, (1.1, 0.2, 0.3)),
        (None, "", 3, (1.0, 0.0, 0.0)),
    ):
        node = services(ask, lambda robot=robot: robot)
        answer = node.made["~/set_payload"](SetPayload.Request(payload=payload, link=link), SetPayload.Response())
        assert answer.success
        load = asked[-1].load
        assert isinstance(asked[-1], NewPayload) and (load.mass, load.joint) == (2.0, joint)
        np.testing.assert_allclose(load.com, com)
        np.testing.assert_allclose(load.inertia, np.diag((0.1, 0.2, 0.3)))
    answer = node.made["~/set_payload"](SetPayload.Request(payload=payload, link="foot"), SetPayload.Response())
    assert not answer.success and "no last link 'foot'" in answer.message


def test_efforts_are_filled_in_the_robots_order_and_keep_their_stamp():
    def filled(points):
        assert points.joint_names == NAMES
        return reference(NAMES, points.t, points.q, tau=10 * points.q)

    def ask(event):
        assert isinstance(event, AskFiller)
        return FeedforwardOutcome(filler=SimpleNamespace(model=SimpleNamespace(robot=ROBOT), filled=filled))

    node = services(ask)
    way = reference(NAMES, np.array([1.0, 2.0]), np.arange(6.0).reshape(2, 3)).ordered(("elbow", "waist", "shoulder"))
    request = FillEfforts.Request(trajectory=trajectory_message(way, Time(sec=3, nanosec=4)))
    answer = node.made["~/fill_efforts"](request, FillEfforts.Response())
    assert answer.success and answer.trajectory.header.stamp == Time(sec=3, nanosec=4)
    np.testing.assert_array_equal(
        [point.effort for point in answer.trajectory.points], 10 * np.arange(6.0).reshape(2, 3)
    )
    request.trajectory.joint_names[0] = "knee"
    answer = node.made["~/fill_efforts"](request, FillEfforts.Response())
    assert not answer.success and "knee" in answer.message

    def refuses(event):
        raise DynidError("there is no model yet")

    answer = services(refuses).made["~/fill_efforts"](request, FillEfforts.Response())
    assert not answer.success and answer.message == "there is no model yet"


def identified(sigma=True):
    base, chi = base_parameters(ROBOT), standard_vector(ROBOT)
    fit = {name: TorqueError(0.1 * (k + 1), 0.01) for k, name in enumerate(NAMES)} if sigma else {}
    b = len(base)
    return model_of(ROBOT, base, base.values(ROBOT, chi), np.full(b, 0.01), 1e-4 * np.eye(b), fit=fit)


def test_base_parameters_become_a_model_with_its_error_bars():
    asked = []
    node = services(asked.append)
    node.made["base_parameters"](model_message(identified(), Time(), "base_link"))
    (event,) = asked
    assert isinstance(event, NewModel) and event.source == "base_parameters" and event.robot.active_names == NAMES
    np.testing.assert_allclose(event.bars.sigma, (0.1, 0.2, 0.3))
    assert np.all(event.bars.torque_std > 0)
    Q = gravity_torque(ROBOT, standard_vector(ROBOT), HERE[None])
    np.testing.assert_allclose(gravity_torque(event.robot, event.chi, HERE[None]), Q, atol=1e-9)
    node.made["base_parameters"](model_message(identified(sigma=False), Time(), "base_link"))
    assert asked[-1].bars is None, "without a fit nothing is known of its errors"
    message = model_message(identified(), Time(), "base_link")
    message.covariance = []
    node.made["base_parameters"](message)
    assert isinstance(asked.pop(), NewModel) and asked[-1].bars is None, "nor without a covariance"
    message.parameters[0].value = float("nan")
    node.made["base_parameters"](message)
    assert len(asked) == 2 and "base_parameters refused" in node.log.said[-1][1]
    node.made["base_parameters"](BaseParameters())
    assert len(asked) == 2
