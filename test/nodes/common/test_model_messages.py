# SPDX-License-Identifier: Apache-2.0

"""A model through the BaseParameters message: every friction term, springs, cylinders and cables survive."""

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from dataclasses import replace
from types import SimpleNamespace

from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message, serialize_message
from ros2_dynid.msg import BaseParameters

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import TorqueError, model_of
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.nodes.common.model_messages import model_id, model_message, model_of_message
from runtime_robots import with_forces, with_terms

ROBOT = load_robot("demo3")


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


def model_with(robot=ROBOT, **fields):
    base = base_parameters(robot)
    b = len(base)
    value = base.values(robot, standard_vector(robot))
    std = 0.01 * np.arange(1, b + 1)
    return replace(model_of(robot, base, value, std, np.diag(std**2)), **fields)


def coupled():
    from ros2_dynid.model.robot import Coupling, Passive

    four = load_robot("demo6")
    return replace(
        four,
        coupling=(Coupling(5, {5: 1.0, 6: -0.5}, True),),
        passive=(Passive(4, {2: 1.0, 3: -1.0}, 0.25),),
    )


def changed(robot, number, **fields):
    joints = list(robot.joints)
    joints[number] = replace(joints[number], **fields)
    return replace(robot, joints=tuple(joints))


def test_a_message_tells_values_deviations_and_errors_in_their_own_fields():
    model = model_with(
        fit={"elbow": TorqueError(0.1, 0.2), "all": TorqueError(0.3, 0.4)},
        validation={"all": TorqueError(0.5, 0.6)},
        obtained={"method": "irls", "rows": 77, "cond": 8.5},
    )
    message = model_message(model, Time(sec=5), "pedestal")
    assert message.header.frame_id == "pedestal" and message.header.stamp.sec == 5
    assert [p.std for p in message.parameters] == pytest.approx(model.std.tolist())
    assert [p.value for p in message.parameters] == pytest.approx(model.served.tolist())
    assert [p.name for p in message.parameters] == list(model.names)
    assert [p.leader for p in message.parameters] == list(model.leaders)
    np.testing.assert_allclose(np.reshape(message.covariance, model.covariance.shape), model.covariance)
    assert (message.method, message.rows, message.cond) == ("irls", 77, 8.5)
    assert [(e.joint, e.rms, e.relative) for e in message.fit] == [("elbow", 0.1, 0.2), ("all", 0.3, 0.4)]
    assert [(e.joint, e.rms, e.relative) for e in message.validation] == [("all", 0.5, 0.6)]
    gravity = message.gravity
    np.testing.assert_allclose((gravity.x, gravity.y, gravity.z), ROBOT.gravity)
    assert [(j.name, j.parent, j.sigma) for j in message.joints] == [(j.name, j.parent, j.sigma) for j in ROBOT.joints]
    bare = model_message(replace(model, std=np.full(len(model.std), np.inf), obtained={}), Time(), "")
    assert all(np.isnan(p.std) for p in bare.parameters) and np.isnan(bare.cond) and bare.rows == 0
    unknown = np.full_like(model.covariance, np.nan)
    assert not model_message(replace(model, covariance=unknown), Time(), "").covariance


def test_the_mark_of_a_model_differs_with_whatever_its_parameters_mean():
    robot = coupled()
    joint = robot.joints[1]
    (coupling,), (passive,) = robot.coupling, robot.passive
    turned = robot.base.copy()
    turned[0, 3] += 0.1
    spring = Force("spring", ForceKind.SPRING, (0, 1), {2: 1.0}, rest=0.1)
    springs = [spring, replace(spring, powers=(1,)), replace(spring, weights={3: 1.0}), replace(spring, rest=0.2)]
    springs.append(replace(spring, weights={2: -1.0}))
    ends = Pivot(1, (0.1, 0.2, 0.3)), Pivot(2, (0.4, 0.5, 0.6)), Pivot(2, (0.4, 0.5, 0.7)), Pivot(3, (0.4, 0.5, 0.6))
    cylinders = [Force("cylinder", ForceKind.CYLINDER, (1,), pivots=(ends[0], end)) for end in ends[1:]]
    others = [
        robot,
        changed(robot, 1, alpha=joint.alpha + 0.1),
        changed(robot, 1, r=joint.r + 0.1),
        changed(robot, 1, name="other"),
        replace(robot, gravity=robot.gravity * np.array([1.0, 1.0, -1.0])),
        replace(robot, base=turned),
        replace(robot, coupling=(replace(coupling, weights={5: 1.0, 6: 0.5}),)),
        replace(robot, coupling=(replace(coupling, motor=6),)),
        replace(robot, passive=(replace(passive, offset=0.5),)),
        replace(robot, passive=(replace(passive, terms={2: 1.0, 3: 1.0}),)),
        replace(robot, passive=(replace(passive, joint=6),)),
        *(replace(robot, forces=(force,)) for force in (*springs, *cylinders)),
    ]
    marks = [model_id(SimpleNamespace(robot=other, leaders=("a", "b"))) for other in others]
    marks.append(model_id(SimpleNamespace(robot=robot, leaders=("a", "c"))))
    assert len(set(marks)) == len(marks)
    assert model_id(SimpleNamespace(robot=coupled(), leaders=("a", "b"))) == marks[0], "and with nothing else"


def test_couplings_and_passive_joints_survive():
    robot = coupled()
    message = model_message(model_with(robot), Time(), "base_link")
    found, chi = model_of_message(message)
    assert found.coupling == robot.coupling and found.passive == robot.passive
    np.testing.assert_allclose(found.gravity, robot.gravity)
    np.testing.assert_allclose(found.base, robot.base, atol=1e-12)
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-1, 1, (3, 5, len(robot.active)))
    expected = inverse_dynamics(robot, standard_vector(robot), q, dq, ddq)
    np.testing.assert_allclose(inverse_dynamics(found, chi, q, dq, ddq), expected, atol=1e-9)
