# SPDX-License-Identifier: Apache-2.0

"""Node payload_bridge: gives an identified payload to the robot's driver, whatever its service looks like.

Subscribes to robot_description. Service: ~/forward, which calls the service of the driver that is chosen by a
parameter and described in config/drivers. Limits and error bars are checked first, nothing that is refused
reaches the driver; its answer, and what it tells when it is asked back, are passed on.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup

from ros2_dynid.control.held_load import Load
from ros2_dynid.control.payload_bridge import (
    Bars,
    Driver,
    DriverLoad,
    Figure,
    checked_for,
    chosen_driver,
    differing,
    filled,
    read_drivers,
    shipped_drivers,
)
from ros2_dynid.errors import DynidError, InputError, suggest
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.background import THREADS
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN, ManagedNode, NodeStatus
from ros2_dynid.nodes.common.messages import inertia_of
from ros2_dynid.nodes.common.parameters import Value
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.payload_bridge.parameters import PARAMETERS
from ros2_dynid.srv import ForwardPayload


class PayloadBridge(ManagedNode):
    """Answers ~/forward; one payload is under way at a time."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("payload_bridge", PARAMETERS)
        self._driver: Driver | None = None
        self._client: Any = None
        self._asking: Any = None
        self._sending = threading.Lock()
        self._told = "nothing sent yet"
        self.autostart()

    def configure(self) -> None:
        """Read the driver's entry, find its types, and offer the service."""
        path, name = self.value("bridges_file"), self.value("driver")
        drivers = read_drivers(Path(path)) if path else shipped_drivers()
        if not name:
            raise InputError("the parameter driver is empty", f"set it to one of {', '.join(drivers)}", path)
        driver = chosen_driver(drivers, name, path or "config/drivers")
        if self.value("driver_service"):
            driver = replace(driver, service=self.value("driver_service"))
        kind = service_type(driver.type)
        driver = replace(driver, fields=fitting_fields(kind.Request, driver))
        for field in (driver.success, driver.message):
            if field:
                check_path(kind.Response, field)
        group = ReentrantCallbackGroup()
        if driver.ask is not None:
            asked = service_type(driver.ask.type)
            for field, figure in driver.ask.fields.items():
                check_path(asked.Response, field, figure)
            self._asking = (asked, self.create_client(asked, driver.ask.service, callback_group=group))
        self._driver, self._client = driver, (kind, self.create_client(kind, driver.service, callback_group=group))
        self.create_service(ForwardPayload, "~/forward", self._on_send, callback_group=group)

    def status(self) -> NodeStatus:
        """Tell the driver, and what was sent last."""
        ready = self._client is not None and self._client[1].service_is_ready()
        values = {"driver": self.value("driver"), "last": self._told}
        return OK if ready else WARN, "ready" if ready else "the driver's service is not there", values

    def check_parameters(self, changes: Mapping[str, Value]) -> None:
        """Refuse a link that the robot does not have."""
        link = changes.get("driver_link")
        if link and self.robot is not None and link not in self.robot.tools:
            raise InputError(f"driver_link: no link {link!r}", f"choose from {', '.join(self.robot.tools)}")

    def _on_send(self, request: ForwardPayload.Request, response: ForwardPayload.Response) -> ForwardPayload.Response:
        with answering(response, self.get_logger()):
            if not self.active:
                raise InputError("the node is not active", "activate it")
            if not self._sending.acquire(blocking=False):
                raise InputError("another payload is being sent", "wait for it")
            try:
                response.message = self._told = self._send(request)
            finally:
                self._sending.release()
        if not response.success:
            self.get_logger().warning(f"payload not sent: {response.message}")
        return response

    def _send(self, request: ForwardPayload.Request) -> str:
        assert self._driver is not None
        robot, link = self.known_robot(), self.value("driver_link")
        driver = replace(self._driver, link=link) if link else self._driver
        load = Load(*inertia_of(request.payload, robot, request.link))
        std = np.array((request.com_std.x, request.com_std.y, request.com_std.z))
        bars = Bars(self.value("largest_mass_std"), self.value("largest_com_std"))
        driver_load = checked_for(driver, robot, load, request.mass_std, std, bars)
        kind, client = self._client
        message = kind.Request()
        for field, value in filled(driver, driver_load).items():
            set_path(message, field, value)
        answer = self._called(client, message, driver.service)
        if driver.success and not get_path(answer, driver.success):
            reason = get_path(answer, driver.message) if driver.message else ""
            raise DynidError(f"the driver refuses the payload: {reason or 'it gives no reason'}")
        where = ", ".join(f"{1e3 * x:.1f}" for x in driver_load.com)
        summary = f"{driver_load.mass:.4g} kg with its centre at ({where}) mm of {driver_load.link or 'the last joint'}"
        return f"{summary} sent to {driver.service}{self._asked_back(driver, driver_load)}"

    def _asked_back(self, driver: Driver, sent: DriverLoad) -> str:
        """Return what the driver tells when it is asked, in words; a driver with other figures is an error."""
        if driver.ask is None or self._asking is None:
            return "; the driver cannot be asked back"
        kind, client = self._asking
        answer = self._called(client, kind.Request(), driver.ask.service)
        wrong = differing(sent, {figure: get_path(answer, field) for field, figure in driver.ask.fields.items()})
        if wrong:
            raise DynidError(f"the driver took the payload, but tells another {', '.join(wrong)}: check it there")
        return "; the driver confirms it"

    def _called(self, client: Any, message: Any, name: str) -> Any:
        """Return a service's answer; the executor has other threads to take it."""
        patience = self.value("timeout")
        if not client.wait_for_service(patience):
            raise InputError(f"the driver's service {name} is not there", "start the driver, or set driver_service")
        future, done = client.call_async(message), threading.Event()
        future.add_done_callback(lambda _: done.set())
        if not done.wait(patience):
            client.remove_pending_request(future)
            raise DynidError(
                f"{name} has not answered for {patience:g} s: the payload may or may not be set; ask again"
            )
        return future.result()


def main() -> int:
    """Run the node."""
    return run(PayloadBridge, THREADS)


NAME = re.compile(r"([a-z][a-z0-9_]*)/srv/([A-Z][A-Za-z0-9]*)")
NUMBERS = ("double", "float", "float64", "float32")


def service_type(name: str) -> Any:
    """Return the type of a service by its name, such as ur_msgs/srv/SetPayload."""
    parts = NAME.fullmatch(name)
    if parts is None:
        raise InputError(f"{name!r} is no service type", "write PACKAGE/srv/NAME")
    try:
        module = importlib.import_module(f"{parts[1]}.srv")
    except ModuleNotFoundError:
        raise InputError(
            f"the package {parts[1]} is not installed", f"install it, or source its workspace: {name}"
        ) from None
    kind = getattr(module, parts[2], None)
    if kind is None or not hasattr(kind, "Request"):
        raise InputError(f"the package {parts[1]} has no service {parts[2]}", "check the file of bridges")
    return kind


def fitting_fields(kind: Any, driver: Driver) -> Mapping[str, str]:
    """Return the map of fields that the installed request has; an error is that of the first."""
    first: InputError | None = None
    for fields in (driver.fields, *driver.others):
        try:
            for field, figure in fields.items():
                check_path(kind, field, figure)
        except InputError as error:
            first = first or error
        else:
            return fields
    assert first is not None
    raise first


def check_path(kind: Any, path: str, figure: str | None = None) -> None:
    """Refuse a path that the message type does not have, or whose field cannot hold the figure."""
    *outer, last = path.split(".")
    message = kind()
    for part in outer:
        _check_name(message, part, path)
        message = getattr(message, part)
        if not hasattr(message, "get_fields_and_field_types"):
            raise InputError(f"{path}: {part} has no fields of its own", "check the file of bridges")
    _check_name(message, last, path)
    if figure is None:
        return
    field = message.get_fields_and_field_types()[last]
    count = {"com": 3, "inertia": 9}.get(figure)
    if figure == "link":
        fits = field == "string"
    elif count is None:
        fits = field in NUMBERS
    else:
        fits = field in [form for name in NUMBERS for form in (f"{name}[{count}]", f"sequence<{name}>")]
    if not fits:
        raise InputError(f"{path} is a {field}, which cannot hold {figure}", "check the file of bridges")


def set_path(message: Any, path: str, value: Figure) -> None:
    """Set a field by its path."""
    *outer, last = path.split(".")
    for part in outer:
        message = getattr(message, part)
    setattr(message, last, list(value) if isinstance(value, tuple) else value)


def get_path(message: Any, path: str) -> Any:
    """Return a field by its path, numbers of an array as a tuple."""
    for part in path.split("."):
        message = getattr(message, part)
    if isinstance(message, str | int | float | bool):
        return message
    return tuple(float(x) for x in message)


def _check_name(message: Any, name: str, path: str) -> None:
    known = list(message.get_fields_and_field_types())
    if name not in known:
        raise InputError(f"the field {path!r} does not exist", suggest(name, known))
