# SPDX-License-Identifier: Apache-2.0

"""What the panel asks of other nodes, and what it makes of their answers."""

from __future__ import annotations

import threading
import time

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from ros2_dynid.action import Identify
from ros2_dynid.srv import PlanExcitation, StartRecording
from std_srvs.srv import Trigger

from in_process import ros, soon, spun
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.nodes.panel.clients import LIFECYCLE, Services

pytestmark = [pytest.mark.in_process, pytest.mark.timeout(60)]


@pytest.fixture
def domain():
    with ros():
        yield


def test_a_service_that_is_not_there_refuses_or_is_silent_is_an_error(domain):
    panel, other, dumb = Node("panel"), Node("other"), Node("dumb")
    asked, answer = [], StartRecording.Response(success=True)
    plan = lambda request, _: asked.append(request) or PlanExcitation.Response(success=True, message="fine")  # noqa: E731
    other.create_service(PlanExcitation, "excitation/plan", plan)
    other.create_service(StartRecording, "recorder/start", lambda request, _: answer)
    dumb.create_service(Trigger, "excitation/rehearse", lambda request, response: response)  # nobody spins it
    asks = Services(panel)
    with spun(panel, other):
        soon(lambda: asks.nodes() == {"excitation", "recorder"}, "the two nodes that answer")
        assert asks.call("excitation/plan", seed=3).message == "fine" and asked[0].seed == 3
        with pytest.raises(InputError, match="the node excitation does not answer"):
            asks.call("excitation/stop")
        for message, words in (("disk full", "disk full"), ("", "refused")):
            answer.success, answer.message = False, message
            with pytest.raises(DynidError, match=words):
                asks.call("recorder/start")
        with pytest.raises(DynidError, match=r"excitation/rehearse has not answered for 0\.1 s"):
            asks.call("excitation/rehearse", 0.1)
    dumb.destroy_node()


def test_a_stop_reaches_every_node_that_moves_the_robot_while_one_hangs(domain):
    panel, feedforward, hung = Node("panel"), Node("feedforward"), Node("excitation")
    stops = []

    def brake(_, response):
        stops.append(time.monotonic())
        response.message = "braking the motion that it filled"
        return response

    asks = Services(panel)
    with spun(panel, feedforward):
        with pytest.raises(InputError, match="neither excitation nor feedforward answers"):
            asks.stop()
        feedforward.create_service(Trigger, "~/stop", brake)
        hung.create_service(Trigger, "~/stop", lambda request, response: response)  # nobody spins it
        soon(lambda: asks.nodes() == {"excitation", "feedforward"}, "the two nodes")
        began = time.monotonic()
        answer = asks.stop()
        assert stops and stops[0] < began + 1.0, "it did not wait for the one that hangs"
    assert "feedforward: braking the motion" in answer and "excitation: excitation/stop has not answered" in answer
    hung.destroy_node()


class Identification(Node):
    """Takes transitions and the parameter `model`, and refuses the one named `failing` once."""

    def __init__(self, failing):
        super().__init__("identification")
        self._failing, self.done = failing, []
        self._names = {number: name for name, number in LIFECYCLE.items()}
        self.create_service(ChangeState, "~/change_state", self._on_change)
        self.declare_parameter("model", "")
        self.add_on_set_parameters_callback(self._on_set)

    def _on_change(self, request, response):
        name = self._names[request.transition.id]
        response.success = not (name == self._failing and name not in self.done)
        self.done.append(name)
        return response

    def _on_set(self, changes):
        self.done += [f"{change.name}={change.value}" for change in changes]
        wrong = self._failing == "set" and any(change.value != "" for change in changes)
        return SetParametersResult(successful=not wrong, reason="no such file" if wrong else "")


BACK = ["model=", "configure", "activate"]


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        ("", ["deactivate", "cleanup", "model=/m.yaml", "configure", "activate"]),
        ("set", ["deactivate", "cleanup", "model=/m.yaml", *BACK]),
        ("configure", ["deactivate", "cleanup", "model=/m.yaml", "configure", *BACK]),
        ("deactivate", ["deactivate"]),
    ],
)
def test_a_model_is_loaded_by_the_lifecycle_and_a_wrong_one_leaves_the_node_active(domain, failing, expected):
    panel, identification = Node("panel"), Identification(failing)
    asks = Services(panel)
    with spun(panel, identification):
        for kind, name in ((ChangeState, "change_state"), (SetParameters, "set_parameters")):
            found = panel.create_client(kind, f"identification/{name}")
            assert found.wait_for_service(20.0), f"no {name} within 20 s"
        soon(lambda: "identification" in asks.nodes(), "the identification")
        if failing:
            with pytest.raises(DynidError, match=r"no such file|refused to"):
                asks.load_model("/m.yaml")
        else:
            asks.load_model("/m.yaml")
    assert identification.done == expected


def test_transitions_have_the_numbers_of_the_lifecycle():
    numbers = {name: getattr(Transition, f"TRANSITION_{name.upper()}") for name in LIFECYCLE}
    assert numbers == LIFECYCLE and {"configure", "cleanup", "activate", "deactivate"} == set(LIFECYCLE)


class Identifying(Node):
    """Identifies until it is told to end, as `result` says; `accepts` goals and `lets_cancel` or not."""

    def __init__(self):
        super().__init__("identification")
        self.accepts = self.lets_cancel = True
        self.goals, self.cancelled, self.end = [], threading.Event(), threading.Event()
        self.result = Identify.Result(success=True, model_path="m")
        group = ReentrantCallbackGroup()
        self.server = ActionServer(
            self,
            Identify,
            "identification/identify",
            self._execute,
            goal_callback=lambda goal: GoalResponse.ACCEPT if self.accepts else GoalResponse.REJECT,
            cancel_callback=self._on_cancel,
            callback_group=group,
        )

    def _execute(self, handle):
        self.goals.append(handle.request)
        handle.publish_feedback(Identify.Feedback(stage="rows", progress=0.25))
        assert self.end.wait(20.0), "nobody ended the identification within 20 s"
        handle.succeed()
        return self.result

    def _on_cancel(self, _):
        self.cancelled.set()
        return CancelResponse.ACCEPT if self.lets_cancel else CancelResponse.REJECT


def test_an_identification_is_followed_and_can_be_cancelled(domain):
    panel = Node("panel")
    asks, told, refusals = Services(panel), [], []
    with pytest.raises(InputError, match="the node identification does not answer"):
        asks.identify(lambda *_: None)
    with pytest.raises(InputError, match="no identification is under way"):
        asks.cancel()
    other = Identifying()
    with spun(panel, other, threads=4):

        def cancel(stage, share):
            """Cancel once the work has begun; let it end then."""
            told.append((stage, share))
            threading.Thread(target=cancel_and_end, daemon=True).start()

        def cancel_and_end():
            soon(cancelled, "the identification that is under way")
            other.end.set()

        def cancelled():
            try:
                asks.cancel()
            except InputError:  # its acceptance has not come yet
                return False
            except DynidError as error:
                refusals.append(str(error))
            return True

        found = identified(asks, cancel)
        assert found.model_path == "m" and told == [("rows", 0.25)] and other.goals == [Identify.Goal()]
        assert other.cancelled.is_set() and not refusals
        other.lets_cancel = False
        other.end.clear()
        other.result = Identify.Result(success=False, message="too short")
        with pytest.raises(DynidError, match="too short"):
            asks.identify(cancel)
        assert refusals == ["the identification could not be cancelled any more"]
        with pytest.raises(InputError, match="no identification is under way"):
            asks.cancel()
        other.accepts = False
        with pytest.raises(DynidError, match="refused the goal"):
            asks.identify(cancel)


def identified(asks, feedback):
    """Identify as soon as the action is found."""
    end = time.monotonic() + 20.0
    while True:
        try:
            return asks.identify(feedback)
        except InputError as error:
            assert time.monotonic() < end, f"the action has not come within 20 s: {error}"
            time.sleep(0.01)
