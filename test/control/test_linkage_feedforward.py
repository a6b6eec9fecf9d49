# SPDX-License-Identifier: Apache-2.0

"""The feedforward of an arm on a cylinder: its torques within reach, and none where the loops do not close."""

from dataclasses import replace

import numpy as np
import pytest

from feedforward_fuzz import arrived, later
from linkages import cylinder_arm
from ros2_dynid.control.feedforward import FeedforwardModel, FeedforwardOptions, complete_torque
from ros2_dynid.control.feedforward_events import (
    ActivateFeedforward,
    FeedforwardSettings,
    FeedforwardState,
    FeedforwardTick,
    NewDescription,
    NewModel,
    StreamedPoint,
)
from ros2_dynid.control.feedforward_machine import FeedforwardMachine
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.newton_euler import gravity_torque, inverse_dynamics
from ros2_dynid.model.efforts import declare_added_effort
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import Limits

STILL = np.zeros(3)
DRIVES = {"yaw": Limits(-2, 2, 2, 8, 4e3), "rod": Limits(0.3, 1.4, 0.5, 3, 2e4), "wrist": Limits(-2, 2, 3, 10, 4e3)}
"""The rod is longer than the boom lets it be: from some 1.05 m on the loops do not close."""


def arm():
    """Return the arm with bodies of 10 kg, drives with friction, and passive joints that rub."""
    joints = tuple(replace(joint, limits=DRIVES.get(joint.name, joint.limits)) for joint in cylinder_arm().joints)
    kinds = {"M": 10.0, "MX": 3.0, "XX": 0.2, "YY": 1.5, "ZZ": 1.5, "Ia": 0.5, "Fv": 2.0, "Fc": 3.0}
    values = {f"{kind}{j}": value for j in range(1, 6) for kind, value in kinds.items()}
    robot = replace(cylinder_arm(), joints=joints, parameters=values)
    return declare_added_effort(robot, ["nothing"])


ROBOT = arm()
CHI = standard_vector(ROBOT)
HERE = np.array([0.1, 0.72, 0.2])


@pytest.mark.parametrize("backend", ["compiled", "numpy"])
def test_torques_follow_the_pose_with_friction_of_passive_joints(monkeypatch, backend):
    monkeypatch.setenv("DYNID_BACKEND", backend)
    rng = np.random.default_rng(1)
    q = random_positions(ROBOT, rng, 8, 0.2)
    dq, ddq = rng.uniform(-0.5, 0.5, (2, *q.shape))
    model, options = FeedforwardModel(ROBOT, CHI), FeedforwardOptions(smoothing=1e-9)  # as good as sign(v)
    tau = [complete_torque(model, options, *row) for row in zip(q, dq, ddq, strict=True)]
    np.testing.assert_allclose(tau, inverse_dynamics(ROBOT, CHI, q, dq, ddq), rtol=1e-9, atol=1e-7)
    found = model.coefficients(q[0], dq[0])
    np.testing.assert_allclose(found.Q, gravity_torque(ROBOT, CHI, q[:1])[0], rtol=1e-9, atol=1e-9)
    assert len(CHI) == len(standard_names(ROBOT))


def test_where_the_loops_open_nothing_is_sent_and_gravity_comes_back_within_reach():
    machine, now, stamp = FeedforwardMachine(FeedforwardSettings(check_rest=False), True), 1.0, 0

    def see(q, dq=STILL):
        nonlocal stamp
        stamp += 1
        machine.handle(arrived(ROBOT.active_names, q, dq, stamp)(now))

    for event in (later(NewDescription, ROBOT), later(NewModel, ROBOT, CHI, "model.yaml"), ActivateFeedforward):
        assert not machine.handle(event(now)).refused
    see(HERE)
    sent = []
    for step in range(1500):  # at 0.4 m/s to the end of its reach, and beyond
        now += 1e-3
        goal = HERE + np.array([0.0, 0.4e-3 * step, 0.0])
        speed = np.array([0.0, 0.4, 0.0])
        see(goal, speed)
        outcome = machine.handle(StreamedPoint(now, ROBOT.active_names, goal, speed, STILL))
        if outcome.refused:
            break
        sent.append(outcome.torque.tau)
    assert "the loops do not close" in outcome.refused and 1.0 < goal[1] < 1.1
    assert machine.state is FeedforwardState.FADING
    tick = machine.handle(FeedforwardTick(now))  # nor is gravity known there: nothing is sent, the last torque stays
    assert tick.torque is None and "the loops do not close" in tick.refused
    before, back = len(sent), goal[1] - HERE[1]
    for step in range(2000):  # the arm sinks back
        now += 1e-3
        see(HERE + np.array([0.0, max(back - 0.4e-3 * step, 0.0), 0.0]), -0.5 * speed)
        outcome = machine.handle(FeedforwardTick(now))
        sent += [] if outcome.torque is None else [outcome.torque.tau]
    assert len(sent) > before + 1900
    assert machine.state is FeedforwardState.HOLDING
    np.testing.assert_allclose(sent[-1], gravity_torque(ROBOT, CHI, HERE[None])[0], rtol=1e-6, atol=1e-6)
    assert np.isfinite(sent).all()
