"""A model through the BaseParameters message: every friction term, springs, cylinders and cables survive."""

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from dataclasses import replace

from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message, serialize_message
from ros2_dynid.msg import BaseParameters

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import model_of
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.nodes.common.model_messages import model_message, model_of_message
from runtime_robots import with_forces, with_terms


def sent(robot, change=lambda message: None):
    """Return a model of the robot, and its message as a subscriber gets it."""
    rng = np.random.default_rng(2)
    base = base_parameters(robot)
    value = base.values(robot, rng.uniform(0.5, 1.5, len(standard_names(robot))))
    model = model_of(robot, base, value, np.full(len(base), 0.01), 1e-4 * np.eye(len(base)))
    message = model_message(model, Time(), "base_link")
    change(message)
    return model, deserialize_message(serialize_message(message), BaseParameters)


def sprung():
    robot = with_forces(with_terms(load_robot("demo6"), np.random.default_rng(1)))
    warm = FrictionTerm(4, FrictionKind.TEMPERATURE, -0.1, 0.01, reference=31.5)
    stribeck = FrictionTerm(6, FrictionKind.STRIBECK, 0.4, 0.1, speed=0.2, speed_std=0.03)
    kept = [term for term in robot.friction if term.name != stribeck.name]
    return replace(robot, friction=(*kept, warm, stribeck))


def test_springs_cylinders_cables_and_all_friction_terms_survive():
    robot = sprung()
    model, message = sent(robot)
    found, chi = model_of_message(message)
    assert found.forces == robot.forces
    assert found.friction == robot.friction
    rng = np.random.default_rng(3)
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 20, 6))
    T = rng.uniform(20.0, 50.0, (20, 6))
    expected = inverse_dynamics(model.robot, model.chi, q, dq, ddq, T)
    assert np.allclose(inverse_dynamics(found, chi, q, dq, ddq, T), expected, rtol=1e-12, atol=1e-12)
    # the springs are felt: without them the torque is another
    K = [name.startswith("K") for name in standard_names(found)]
    assert not np.allclose(inverse_dynamics(found, np.where(K, 0.0, chi), q, dq, ddq, T), expected, rtol=1e-3)


def spoil(**fields):
    def change(message):
        for name, value in fields.items():
            setattr(message.elastic_elements[0], name, value)

    return change


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (spoil(type="glue"), "unknown type 'glue'"),
        (spoil(weights=[1.0]), "needs one value per joint"),
        (spoil(joints=[1, 9]), "names joint 9"),
        (spoil(powers=[4]), "no coefficients"),
        (lambda message: message.elastic_elements.clear(), "does not carry their geometry"),
    ],
)
def test_a_message_that_cannot_be_is_refused(change, what):
    _, message = sent(sprung(), change)
    with pytest.raises(InputError, match=what):
        model_of_message(message)
