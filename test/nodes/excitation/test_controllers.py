# SPDX-License-Identifier: Apache-2.0

"""What is known of the controller that trajectories go to."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from rcl_interfaces.msg import ParameterType, ParameterValue
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup

from in_process import Future
from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.qos import LATCHED
from ros2_dynid.nodes.excitation.controllers import Controllers, controller_of

WAY = "/cell/arm_controller/joint_trajectory"
OTHER = "/cell/other/joint_trajectory"
MANAGER = "/cell/controller_manager"


class Service:
    """A client of a service that answers `value`; None: not at all."""

    def __init__(self, value, ready=True):
        self.value, self.ready, self.asked, self.removed = value, ready, [], []

    def service_is_ready(self):
        return self.ready

    def wait_for_service(self, timeout):
        return self.ready

    def call_async(self, request):
        self.asked.append(request)
        return Future(self.value)

    def remove_pending_request(self, future):
        self.removed.append(future)


class Around:
    """A node with the clients of these services, as far as it is asked for them, and what it listens to."""

    def __init__(self, monkeypatch, manager=None, parameters=None, *, tells=True, installed=True):
        self.clients, self.heard = [], []
        self._services = {f"{MANAGER}/list_controllers": manager}
        self._parameters = parameters
        srv = SimpleNamespace(ListControllers=SimpleNamespace(Request=lambda: "list"))
        msg = SimpleNamespace(ControllerManagerActivity="activity")
        for name, module in (
            ("", SimpleNamespace()),
            (".srv", srv if installed else None),
            (".msg", msg if tells else None),
        ):
            monkeypatch.setitem(sys.modules, f"controller_manager_msgs{name}", module)

    def resolve_service_name(self, name):
        return f"/{name.strip('/')}"

    def create_client(self, kind, name, callback_group):
        self.clients.append((name, callback_group))
        return self._services.get(name, self._parameters)

    def create_subscription(self, kind, topic, callback, qos, callback_group):
        self.heard.append((kind, topic, callback, qos, callback_group))


def listed(**states):
    return SimpleNamespace(controller=[SimpleNamespace(name=name, state=state) for name, state in states.items()])


def test_which_controller_of_a_manager_is_behind_a_topic():
    root = "/controller_manager"
    assert controller_of(WAY, MANAGER) == "arm_controller"
    assert controller_of("/arm_controller/joint_trajectory", root) == "arm_controller"
    assert controller_of("/joint_trajectory", root) == controller_of("/cell/joint_trajectory", MANAGER) == ""
    assert controller_of("/left/arm_controller/joint_trajectory", MANAGER) == "", "of another namespace"
    assert controller_of("/cell/left/arm_controller/joint_trajectory", MANAGER) == "left/arm_controller"
    assert controller_of(WAY, root) == "cell/arm_controller", "not the arm_controller of the namespace above"


def test_a_controller_that_is_not_active_is_refused_and_what_is_not_known_is_said(monkeypatch):
    manager = Service(listed(arm_controller="active", other="inactive"))
    found = Controllers(Around(monkeypatch, manager), MANAGER)
    assert found.check(WAY) == "the controller arm_controller is active"
    with pytest.raises(InputError, match="the controller other is inactive; activate it: ros2 control"):
        found.check(OTHER)
    assert "has no controller 'third'" in found.check("/cell/third/joint_trajectory")
    assert "is not installed" in Controllers(Around(monkeypatch, installed=False), MANAGER).check(WAY)
    away = Around(monkeypatch, Service(None, ready=False))
    assert f"there is no {MANAGER}" in Controllers(away, MANAGER).check(WAY)
    silent = Service(None)
    assert "does not answer" in Controllers(Around(monkeypatch, silent), MANAGER).check(WAY)
    assert len(silent.removed) == 1


@pytest.mark.parametrize("manager", [MANAGER, ""])
@pytest.mark.parametrize("tells", [True, False])
def test_a_controller_manager_is_asked_and_heard_where_its_messages_are(monkeypatch, manager, tells):
    around = Around(monkeypatch, Service(None), tells=tells)
    Controllers(around, manager)
    assert [name for name, _ in around.clients] == ([f"{MANAGER}/list_controllers"] if manager else [])
    assert all(isinstance(group, ReentrantCallbackGroup) for _, group in around.clients), "it is waited for"
    if not (manager and tells):
        assert not around.heard, "older controller managers do not tell"
        return
    ((kind, topic, _, qos, group),) = around.heard
    assert (kind, topic) == ("activity", f"{MANAGER}/activity")
    assert qos is LATCHED, "what was switched before we came is known too"
    assert isinstance(group, MutuallyExclusiveCallbackGroup), "the last one holds"


def test_a_controller_that_is_switched_off_is_known_at_once(monkeypatch):
    around = Around(monkeypatch, Service(None))
    found = Controllers(around, MANAGER)
    assert found.problem(WAY) == ""
    ((_, _, hear, _, _),) = around.heard
    off = SimpleNamespace(name="arm_controller", state=SimpleNamespace(label="inactive"))
    on = SimpleNamespace(name="other", state=SimpleNamespace(label="active"))
    hear(SimpleNamespace(controllers=[off, on]))
    assert found.problem(WAY) == "the controller arm_controller is inactive"
    assert found.problem(OTHER) == ""
    off.state.label = "active"
    hear(SimpleNamespace(controllers=[off]))
    assert found.problem(WAY) == "" and found.problem("/cell/third/joint_trajectory") == ""
    assert found.problem(OTHER) == "the controller other is unloaded"
    hear(SimpleNamespace(controllers=[]))
    assert found.problem(WAY) == "the controller arm_controller is unloaded"
    listing = Controllers(Around(monkeypatch, Service(listed(arm_controller="active"))), MANAGER)
    listing.check(WAY)
    assert listing.problem(WAY) == "", "nothing was told of it"


def test_a_controller_that_begins_at_the_measured_state_is_advised(monkeypatch):
    def advice(parameters, way=WAY, **more):
        around = Around(monkeypatch, Service(None), parameters, **more)
        return Controllers(around, MANAGER).advice(way), around

    def value(kind, flag):
        return Service(SimpleNamespace(values=[ParameterValue(type=kind, bool_value=flag)]))

    boolean = ParameterType.PARAMETER_BOOL
    service = value(boolean, False)
    said, around = advice(service)
    assert "set its parameter interpolate_from_desired_state to true" in said
    assert around.clients[-1][0] == "/cell/arm_controller/get_parameters"
    assert service.asked[0].names == ["interpolate_from_desired_state"]
    for other in (value(boolean, True), value(ParameterType.PARAMETER_NOT_SET, False), Service(None, ready=False)):
        assert advice(other)[0] == ""
    assert advice(service, installed=False)[0] == "", "nobody to ask"
    assert advice(service, "/joint_trajectory")[0] == ""
