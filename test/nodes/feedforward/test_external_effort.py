# SPDX-License-Identifier: Apache-2.0

"""What the robot feels, by joint states as they come: external efforts, wrenches and contacts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from builtin_interfaces.msg import Time

from in_process import soon
from publishing_node import OneNode
from ros2_dynid.control.external_wrench import external_wrench
from ros2_dynid.control.loaded_model import CarriedModel
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.joint_state import State
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.nodes.feedforward import external_effort
from ros2_dynid.nodes.feedforward.external_effort import ExternalEffort, Feeling

SIX = load_robot("demo6")
CHI = standard_vector(SIX)
POSE = np.array([0.3, -0.9, 0.5, 0.2, 0.4, -0.1])
PUSH = np.array([1.0, -2.0, 3.0, -0.4, 0.5, -0.6])


@pytest.fixture
def felt():
    """Return an ExternalEffort, what it publishes by topic, and the place of the model and the robot described."""
    node = OneNode()
    place = SimpleNamespace(carried=CarriedModel(SIX, CHI, ErrorBars(np.full(6, 0.1), np.full(6, 0.1)), CHI))
    place.described, place.log = None, node.log.said
    external = ExternalEffort(node, lambda: place.carried, lambda: place.described)
    yield external, node.made, place
    external.close()


def rest(external, push, count, begin=1_000_000_000, period=2_000_000):
    """Let a robot at rest feel a push, shape (n,), for so many joint states."""
    tau = gravity_torque(SIX, CHI, POSE[None])[0] - push
    for k in range(count):
        external.take(State(SIX.active_names, POSE, np.zeros(6), tau, begin + k * period))


def published(topic, stamp):
    """Wait for a message of this stamp [ns]."""
    wanted = Time(sec=stamp // 10**9, nanosec=stamp % 10**9)
    soon(lambda: any(message.header.stamp == wanted for message in list(topic.sent)), "what is published")
    return next(message for message in topic.sent if message.header.stamp == wanted)


def test_a_push_comes_out_by_its_own_time_whatever_the_pieces(felt):
    """After n samples of dt at a bandwidth K, 1 - exp(-K n dt) of it."""
    external, made, _ = felt
    external.use(Feeling(20.0, (0.0,), ""))
    rest(external, PUSH, 31)
    message = published(made["~/external_effort"], 1_060_000_000)
    expected = PUSH * (1 - np.exp(-20.0 * 30 * 0.002))
    np.testing.assert_allclose(message.effort, expected, rtol=1e-6)
    assert list(message.name) == list(SIX.active_names)
    link = next(iter(SIX.tools))
    wrench = published(made["~/external_wrench"], 1_060_000_000)
    force, torque = wrench.wrench.force, wrench.wrench.torque
    np.testing.assert_allclose(
        (force.x, force.y, force.z, torque.x, torque.y, torque.z),
        external_wrench(SIX, POSE[None], expected[None], link)[0],
        rtol=1e-6,
    )
    assert wrench.header.frame_id == link and external.status == "observed"


def test_the_wrench_is_at_the_link_chosen_of_the_robot_described(felt):
    external, made, place = felt
    T = np.eye(4)
    T[:3, 3] = (0.0, 0.1, 0.2)
    place.described = SIX.__class__(**{**SIX.__dict__, "tools": {**SIX.tools, "probe": (SIX.n, T)}})
    bare = SIX.__class__(**{**SIX.__dict__, "tools": {}})
    place.carried = CarriedModel(bare, CHI, None, CHI)
    external.use(Feeling(100.0, (1.0,), "probe"))
    rest(external, PUSH, 500)
    wrench = published(made["~/external_wrench"], 1_998_000_000)
    F = external_wrench(place.described, POSE[None], PUSH[None], "probe")[0]
    assert wrench.header.frame_id == "probe"
    assert (wrench.wrench.force.y, wrench.wrench.torque.z) == pytest.approx((F[1], F[5]), rel=1e-6)


def test_a_contact_is_told_when_it_begins_and_when_it_ends(felt):
    external, made, _ = felt
    external.use(Feeling(100.0, (2.0, 2.1, 2.2, 2.3, 2.4, 2.5), ""))
    push, begin = np.array([0.5, 0.0, -8.0, 0.0, 0.0, 0.0]), 1_800_000_000
    rest(external, np.zeros(6), 400)
    rest(external, push, 100, begin)
    contacts = made["~/contact"].sent
    soon(lambda: contacts, "a contact")
    told = contacts[0]
    assert told.contact and list(told.beyond) == [False, False, True, False, False, False]
    assert list(told.joints) == list(SIX.active_names)
    at = told.header.stamp.sec * 10**9 + told.header.stamp.nanosec
    assert begin < at < begin + 50 * 2_000_000, "with the stamp of the sample that showed it"
    found = np.array(told.external_effort)
    assert -8.0 < found[2] < -told.threshold[2]
    np.testing.assert_allclose(found / found[2], push / push[2], atol=1e-6)
    rest(external, np.zeros(6), 200, begin + 100 * 2_000_000)
    soon(lambda: len(contacts) == 2, "its end")
    assert not contacts[1].contact


def test_friction_that_warms_up_keeps_what_was_found_and_another_load_does_not(felt):
    external, made, place = felt
    external.use(Feeling(20.0, (5.0,), ""))
    rest(external, PUSH, 300)
    before = published(made["~/external_effort"], 1_598_000_000)
    np.testing.assert_allclose(before.effort, PUSH, rtol=1e-3)
    place.carried = CarriedModel(SIX, CHI.copy(), place.carried.bars, place.carried.cold)
    rest(external, PUSH, 3, 1_600_000_000)
    warm = published(made["~/external_effort"], 1_604_000_000)
    np.testing.assert_allclose(warm.effort, PUSH, rtol=1e-3)
    place.carried = CarriedModel(SIX, CHI.copy(), place.carried.bars, CHI.copy())
    rest(external, PUSH, 3, 1_606_000_000)
    anew = published(made["~/external_effort"], 1_610_000_000)
    assert np.all(np.abs(anew.effort) < 0.2 * np.abs(PUSH))


def test_what_cannot_be_observed_is_told_once(felt):
    external, _, place = felt
    for k in range(3):
        external.take(State(SIX.active_names, POSE, np.zeros(6), np.full(6, np.nan), 10**9 + k * 10**6))
    soon(lambda: external.status == external_effort.NO_MOTION, "without torques")
    place.carried = CarriedModel(SIX, CHI, None, CHI.copy())
    rest(external, PUSH, 20, 2_000_000_000)
    soon(lambda: external.status == external_effort.NO_BARS, "without error bars")
    rest(external, PUSH, 20, 2_040_000_000)
    soon(lambda: external.status == external_effort.NO_BARS, "still")
    assert [text.count(external_effort.NO_BARS) for _, text in place.log].count(1) == 1


def test_parameters_that_do_not_fit_the_robot_are_refused_and_change_nothing(felt):
    external, made, place = felt
    link = next(iter(SIX.tools))
    external.use(Feeling(20.0, (5.0,), ""))
    for feeling, words in (
        (Feeling(10.0, (1.0, 2.0), ""), "contact_thresholds has 2 values; give 6, or one"),
        (Feeling(10.0, (1.0,), "nowhere"), f"no link 'nowhere'; choose from {link}"),
    ):
        with pytest.raises(InputError, match=words):
            external.use(feeling)
    external.use(Feeling(10.0, (1.0,) * 6, link), try_only=True)
    rest(external, PUSH, 31)
    message = published(made["~/external_effort"], 1_060_000_000)
    np.testing.assert_allclose(message.effort, PUSH * (1 - np.exp(-20.0 * 30 * 0.002)), rtol=1e-6)
    place.carried = None
    external.use(Feeling(10.0, (1.0, 2.0), "nowhere"))  # nothing is known yet


def test_somebody_listens_to_one_of_the_three(felt):
    external, made, _ = felt
    for topic in ("~/external_effort", "~/external_wrench", "~/contact"):
        for other in made.values():
            other.listeners = 0
        assert not external.listened
        made[topic].listeners = 1
        assert external.listened
