# SPDX-License-Identifier: Apache-2.0

"""What the panel asks of other nodes, and what it makes of their answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from lifecycle_msgs.msg import Transition
from ros2_dynid.action import Identify
from ros2_dynid.msg import ExcitationState

from in_process import Future
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.nodes.panel.clients import LIFECYCLE, Services

pytestmark = pytest.mark.in_process


def excitation(text):
    """Return the state of the excitation whose text this is."""
    return ExcitationState(state=getattr(ExcitationState, text.partition(":")[0].upper()), text=text)


class Client:
    def __init__(self, answer):
        self.answer, self.asked, self.there = answer, [], True

    def service_is_ready(self):
        return self.there

    def call_async(self, request):
        self.asked.append(request)
        return Future(self.answer(request) if callable(self.answer) else self.answer)


@pytest.fixture
def services(monkeypatch):
    """Return the services of other nodes, each a client that a test makes answer."""
    made = {}

    def create_client(kind, name, callback_group):
        made[name] = Client(SimpleNamespace(success=True, message="fine"))
        return made[name]

    action = SimpleNamespace(there=True, sent=[], handle=None)
    action.server_is_ready = lambda: action.there

    def send_goal(goal, feedback):
        action.sent.append(goal)
        feedback(SimpleNamespace(feedback=Identify.Feedback(stage="rows", progress=0.25)))
        return Future(action.handle)

    action.send_goal_async = send_goal
    monkeypatch.setattr("ros2_dynid.nodes.panel.clients.ActionClient", lambda *args, **more: action)
    return Services(SimpleNamespace(create_client=create_client)), made, action


def test_a_service_that_is_not_there_refuses_or_is_silent_is_an_error(services):
    asks, made, _ = services
    assert asks.call("excitation/plan", seed=3).message == "fine"
    assert made["excitation/plan"].asked[0].seed == 3
    made["excitation/stop"].there = False
    with pytest.raises(InputError, match="the node excitation does not answer"):
        asks.call("excitation/stop")
    assert asks.nodes() == {"excitation", "recorder", "identification", "feedforward"}
    for name in made:
        made[name].there = name.startswith("recorder/")
    assert asks.nodes() == {"recorder"}
    for answer, words in (
        (SimpleNamespace(success=False, message="disk full"), "disk full"),
        (SimpleNamespace(success=False, message=""), "refused"),
    ):
        made["recorder/start"].answer = answer
        with pytest.raises(DynidError, match=words):
            asks.call("recorder/start")
    made["recorder/start"].answer = None
    with pytest.raises(DynidError, match=r"recorder/start has not answered for 0\.01 s"):
        asks.call("recorder/start", 0.01)


@pytest.mark.parametrize("failing", ["", "set", "configure", "deactivate"])
def test_a_model_is_loaded_by_the_lifecycle_and_a_wrong_one_leaves_the_node_active(services, failing):
    asks, made, _ = services
    done, names = [], {number: name for name, number in LIFECYCLE.items()}

    def change(request):
        name = names[request.transition.id]
        wrong = name == failing and name not in done
        done.append(name)
        return SimpleNamespace(success=not wrong)

    def put(request):
        (parameter,) = request.parameters
        value = parameter.value.string_value
        done.append(f"{parameter.name}={value}")
        wrong = failing == "set" and value != ""
        return SimpleNamespace(results=[SimpleNamespace(successful=not wrong, reason="no such file")])

    made["identification/change_state"].answer, made["identification/set_parameters"].answer = change, put
    back = ["model=", "configure", "activate"]
    expected = {
        "": ["deactivate", "cleanup", "model=/m.yaml", "configure", "activate"],
        "set": ["deactivate", "cleanup", "model=/m.yaml", *back],
        "configure": ["deactivate", "cleanup", "model=/m.yaml", "configure", *back],
        "deactivate": ["deactivate"],
    }
    if failing:
        with pytest.raises(DynidError, match=r"no such file|refused to"):
            asks.load_model("/m.yaml")
    else:
        asks.load_model("/m.yaml")
    assert done == expected[failing]


def test_transitions_have_the_numbers_of_the_lifecycle():
    numbers = {name: getattr(Transition, f"TRANSITION_{name.upper()}") for name in LIFECYCLE}
    assert numbers == LIFECYCLE and {"configure", "cleanup", "activate", "deactivate"} == set(LIFECYCLE)


def test_an_identification_is_followed_and_can_be_cancelled(services):
    asks, _, action = services
    with pytest.raises(InputError, match="no identification is under way"):
        asks.cancel()
    told, cancelled = [], []

    def result():
        asks.cancel()
        return Future(SimpleNamespace(result=Identify.Result(success=outcome[0], message="too short", model_path="m")))

    def cancel():
        cancelled.append(True)
        return Future(SimpleNamespace(goals_canceling=[1] if len(cancelled) < 3 else []))

    action.handle = SimpleNamespace(accepted=True, get_result_async=result, cancel_goal_async=cancel)
    outcome = [True]
    assert asks.identify(lambda stage, share: told.append((stage, share))).model_path == "m"
    assert told == [("rows", 0.25)] and cancelled == [True] and action.sent[0] == Identify.Goal()
    outcome[0] = False
    with pytest.raises(DynidError, match="too short"):
        asks.identify(lambda *_: None)
    with pytest.raises(DynidError, match="could not be cancelled any more"):
        asks.identify(lambda *_: None)
    with pytest.raises(InputError, match="no identification is under way"):
        asks.cancel()
    action.handle.accepted = False
    with pytest.raises(DynidError, match="refused the goal"):
        asks.identify(lambda *_: None)
    action.there = False
    with pytest.raises(InputError, match="does not answer"):
        asks.identify(lambda *_: None)
