"""What the recorder does with a start, a stop, an announcement and a disk that is full: callback by callback."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from rclpy.duration import Duration, Infinite
from rclpy.parameter import Parameter
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import StartRecording, StopRecording
from std_srvs.srv import Trigger

from in_process import Kept, joint_state, node_of
from ros2_dynid.nodes.common.lifecycle_node import ERROR, OK, WARN
from ros2_dynid.nodes.recorder.following import Following
from ros2_dynid.nodes.recorder.node import Recorder
from ros2_dynid.recording.bag.folder import open_bag
from ros2_dynid.recording.bag.writer import WriteError
from ros2_dynid.recording.read import read_samples

pytestmark = pytest.mark.in_process

NAMES = ("waist", "elbow")
SECOND = 10**9


@pytest.fixture
def recorder_of(tmp_path):
    """Return what makes a recorder in a folder of its own, with what it announces kept in `_finished.sent`."""
    made = []

    def make(**parameters):
        around = node_of(Recorder, folder=tmp_path / "bags", **parameters)
        node = around.__enter__()
        made.append(around)
        node._finished = Kept()
        return node

    yield make
    for around in made:
        around.__exit__(None, None, None)


def take(node, value, received=None, stamp=None):
    """Let a joint state come whose positions are `value`."""
    received = time.time_ns() if received is None else received
    node._session.take(joint_state(NAMES, [value] * 2, [0.0] * 2, [1.0] * 2, stamp or received), received)


def start(node, path=""):
    return node._on_start(StartRecording.Request(path=[path] if path else []), StartRecording.Response())


def stop(node):
    return node._on_stop(StopRecording.Request(), StopRecording.Response())


def announced(node):
    return [message.data for message in node._finished.sent]


def positions(path):
    return read_samples(path).q[:, 0].tolist()


@pytest.mark.parametrize(("lead", "expected"), [(0.0, [4.0]), (20.0, [2.0, 3.0, 4.0])])
def test_a_bag_begins_with_what_came_within_the_lead(recorder_of, lead, expected):
    node, now = recorder_of(lead_seconds=lead), time.time_ns()
    for value, age in ((1.0, 40), (2.0, 15), (3.0, 5)):
        take(node, value, now - age * SECOND)
    assert start(node, "first").success
    take(node, 4.0)
    answer = stop(node)
    assert answer.success and answer.samples == len(expected)
    assert positions(answer.path) == expected
    assert announced(node) == [answer.path] and Path(answer.path).name == "first"


def test_joint_states_are_received_at_the_time_of_the_machines_clock(recorder_of):
    node, taken = recorder_of(), []
    node.trigger_deactivate()
    node._session.take = lambda data, received: taken.append((data, received))
    node.trigger_activate()
    before = time.time_ns()
    node._stream._callback(b"data")
    ((data, received),) = taken
    assert data == b"data" and abs(received - before) < 60 * SECOND, "as the lead of a bag is counted"


def test_the_buffer_holds_so_many_seconds_at_the_expected_rate(recorder_of):
    node, now = recorder_of(buffer_seconds=0.5, expected_rate=8.0), time.time_ns()
    for k in range(10):
        take(node, float(k), now + k)
    assert node._session.buffered == 4
    answer = node._on_save_buffer(Trigger.Request(), Trigger.Response())
    assert answer.success and Path(answer.message).name.startswith("buffer_")
    assert positions(answer.message) == [6.0, 7.0, 8.0, 9.0]
    assert announced(node) == [answer.message]
    (channel,) = open_bag(Path(answer.message)).channels
    assert channel.topic == "/joint_states"


def test_a_stop_tells_what_is_in_the_bag(recorder_of):
    node, begin = recorder_of(), 1_000 * SECOND
    path = start(node).path
    assert Path(path).name.startswith("recording_")
    for k in (0, 1, 2, 3, 4, 9, 10):
        take(node, float(k), stamp=begin + k * 10_000_000)
    answer = stop(node)
    assert (answer.path, answer.samples, answer.gaps) == (path, 7, 1)
    np.testing.assert_allclose((answer.duration, answer.rate, answer.longest_gap), (0.1, 100.0, 0.05), rtol=1e-6)
    assert list(answer.problems) == []
    again = start(node)
    assert again.success and again.path != path, "a name of its own"
    node._session.take(joint_state(NAMES, [1.0, 2.0], [0.0, 0.0], (), begin), 1)
    answer = stop(node)
    assert answer.success and answer.samples == 1 and len(answer.problems) == 1
    assert "have no effort" in answer.problems[0]
    refused = stop(node)
    assert not refused.success and "nothing is being recorded" in refused.message


def test_names_are_taken_once_and_nothing_is_recorded_twice_at_a_time(recorder_of):
    node = recorder_of()
    assert start(node, "one").success
    assert not start(node, "two").success, "one is being written"
    take(node, 1.0)
    assert stop(node).success
    refused = start(node, "one")
    assert not refused.success and "exists already" in refused.message
    empty = start(node, "empty")
    answer = stop(node)
    assert not answer.success and "no joint state came" in answer.message and answer.path == empty.path
    assert [Path(path).name for path in announced(node)] == ["one"], "what is empty is not announced"


def test_an_inactive_recorder_has_closed_its_bag_and_begins_none(recorder_of):
    node = recorder_of()
    path = start(node, "cut").path
    take(node, 1.0)
    node.trigger_deactivate()
    assert announced(node) == [path] and positions(path) == [1.0]
    assert node._stream is None
    refused = start(node, "more")
    assert not refused.success and "not active" in refused.message
    node._on_exciting(True)
    assert node._session.path is None and len(announced(node)) == 1
    node.trigger_activate()
    assert start(node, "more").success


def test_it_follows_the_excitation_and_leaves_alone_what_a_service_began(recorder_of):
    node = recorder_of()
    node._on_exciting(False)
    assert node._session.path is None
    node._on_exciting(True)
    followed = node._session.path
    node._on_exciting(True)
    assert followed is not None and node._session.path == followed
    take(node, 1.0)
    node._on_exciting(False)
    assert node._session.path is None and announced(node) == [str(followed)]

    path = start(node, "mine").path
    node._on_exciting(True)
    node._on_exciting(False)
    assert str(node._session.path) == path, "begun by a service, ended by a service"
    take(node, 2.0)
    assert stop(node).success

    node._on_exciting(True)  # ended by a service: the end of the excitation is not the end of the next bag
    take(node, 3.0)
    assert stop(node).success
    assert start(node, "next").success
    node._on_exciting(False)
    assert node._session.path is not None
    take(node, 4.0)
    assert stop(node).success

    node.set_parameters([Parameter("follow_excitation", value=False)])
    node._on_exciting(True)
    assert node._session.path is None


def test_who_comes_back_from_a_silence_misses_nothing(recorder_of):
    node = recorder_of()
    node._on_exciting(True)
    take(node, 1.0)
    node._on_exciting(False)
    take(node, 2.0)
    node._excitation.returned = True
    node._on_exciting(True)
    take(node, 3.0)
    node._on_exciting(False)
    assert [positions(path) for path in announced(node)] == [[1.0], [2.0, 3.0]]
    node._excitation.returned = False
    take(node, 4.0)
    node._on_exciting(True)
    take(node, 5.0)
    node._on_exciting(False)
    assert positions(announced(node)[-1]) == [5.0], "another excitation has nothing of before"


def test_a_disk_that_is_full_is_told_and_what_was_kept_is_announced(recorder_of, tmp_path):
    node = recorder_of()
    full = WriteError(tmp_path / "bags" / "full", "No space left on device", 7)

    def fails():
        raise full

    node._session.end = fails
    answer = stop(node)
    assert not answer.success and "No space left" in answer.message
    assert announced(node) == [str(full.path)]
    node._session.poll = lambda: full
    node._poll()
    assert announced(node) == [str(full.path)] * 2, "also while nobody asks"
    full.kept = 0
    node._poll()
    assert len(announced(node)) == 2, "a bag with nothing in it is none"
    node._session.failure = full
    level, message, _ = node.status()
    assert level == ERROR and "No space left" in message


def test_what_diagnostics_say(recorder_of):
    node = recorder_of()
    level, message, values = node.status()
    assert (level, message, values["path"], values["count"], values["buffered"]) == (OK, "listening", "", 0, 0)
    path = start(node, "said").path
    for k in range(3):
        take(node, 1.0, stamp=SECOND + k * 20_000_000)
    level, message, values = node.status()
    assert (level, message, str(values["path"])) == (OK, "recording", path)
    assert (values["count"], values["buffered"], values["rate"]) == (3, 3, "50.0")
    take(node, np.nan, stamp=2 * SECOND)
    level, message, _ = node.status()
    assert level == WARN and "position of waist" in message


# --- following


class Air:
    """A node for Following: subscriptions by quality, and publishers with leases."""

    def __init__(self):
        self.made, self.destroyed, self.leases, self.said = [], [], [], []

    def create_subscription(self, kind, topic, callback, qos, event_callbacks=None):
        assert kind is ExcitationState and topic == "excitation_state"
        self.made.append(SimpleNamespace(callback=callback, qos=qos, events=event_callbacks))
        return self.made[-1]

    def destroy_subscription(self, subscription):
        self.destroyed.append(subscription)

    def get_logger(self):
        return SimpleNamespace(warning=self.said.append)

    def get_publishers_info_by_topic(self, topic):
        assert topic == "excitation_state"
        return [SimpleNamespace(qos_profile=SimpleNamespace(liveliness_lease_duration=lease)) for lease in self.leases]


LEASE = Duration(seconds=1.5)


def followed(*leases):
    air, heard = Air(), []
    air.leases = list(leases)
    return air, heard, Following(air, heard.append)


def alive(air, count):
    """Let the middleware tell how many announcers are alive."""
    air.made[-1].events.liveliness(SimpleNamespace(alive_count=count))


def test_an_announcer_without_a_lease_is_missed_when_it_is_gone():
    air, heard, following = followed(Infinite)
    following.poll()
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    following.poll()
    assert heard == [True] and len(air.made) == 1, "no lease is asked of one that offers none"
    air.leases = []
    for _ in range(3):
        following.poll()
    assert heard == [True, False] and len(air.said) == 1, "told once"
    air.made[0].callback(ExcitationState(state=ExcitationState.DONE))
    assert heard == [True, False, False]
    following.poll()
    assert len(heard) == 3, "nothing is announced, nobody is missed"
    for _ in range(2):  # also one that dies and begins anew without ever ending an announcement
        air.leases = [Infinite]
        air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
        following.poll()
        air.leases = []
        following.poll()
    assert heard[3:] == [True, False, True, False] and len(air.said) == 3, "each one is missed"


def test_an_announcer_with_a_lease_is_missed_at_once_and_followed_again():
    air, heard, following = followed(LEASE)
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    assert len(air.made) == 2, "its lease is watched as soon as it announces"
    alive(air, 1)
    following.poll()
    assert heard == [True]
    alive(air, 0)
    alive(air, 0)
    assert heard == [True, False] and not following.returned
    following.poll()
    assert heard == [True, False]
    alive(air, 1)
    following.poll()
    following.poll()
    assert heard == [True, False, True] and following.returned
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    assert not following.returned, "a new announcement is no return"
    watched = air.made[1]
    air.made[0].callback(ExcitationState(state=ExcitationState.DONE))
    assert heard[-1] is False and air.destroyed == [watched]
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    assert len(air.made) == 3, "watched anew"


def test_no_lease_is_watched_where_one_announcer_offers_none():
    air, _, following = followed(LEASE, Infinite)
    air.made[0].callback(ExcitationState(state=ExcitationState.EXCITING))
    following.poll()
    assert len(air.made) == 1
