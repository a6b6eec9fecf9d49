# SPDX-License-Identifier: Apache-2.0

"""Calling services and actions of other nodes, one after the other, with errors instead of silence."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import rclpy
from rcl_interfaces.srv import SetParameters
from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.parameter import Parameter

from ros2_dynid.errors import DynidError

MATCHING = 0.05
"""Time [s] for a server to find a new client too: a response before that is lost."""


class ClientError(DynidError):
    """A node said no, or nothing."""


class Caller(Node):
    """A node that somebody else spins; its methods block the caller. patience: for a server to appear [s]."""

    patience = 20.0

    def __init__(self, name: str) -> None:
        """Know no server yet."""
        super().__init__(name)
        self._servers: dict[tuple[Any, str], Any] = {}

    def _server(self, kind: Any, name: str) -> Any:
        """Return the client of a service, made once: until the server has found a new one, its responses are lost."""
        client = self._servers.get((kind, name))
        if client is None:
            client = self._servers[kind, name] = self.create_client(kind, name)
        if not client.wait_for_service(self.patience):
            raise ClientError(f"service {name} does not answer; is its node running?")
        time.sleep(MATCHING)  # the node may have been started anew
        return client

    def call(self, kind: Any, name: str, /, timeout: float = 60.0, **fields: Any) -> Any:
        """Call a service and return its response; a response without success raises."""
        client = self._server(kind, name)
        future = client.call_async(kind.Request(**fields))
        try:
            response = _result(future, timeout, name)
        except ClientError:
            client.remove_pending_request(future)
            raise
        if not getattr(response, "success", True):
            raise ClientError(f"{name}: {getattr(response, 'message', '') or 'refused'}")
        return response

    def act(self, kind: Any, name: str, goal: Any, feedback: Any = None, timeout: float = 300.0) -> Any:
        """Send a goal and return its result; one without success raises."""
        client: Any = ActionClient(self, kind, name)
        if not client.wait_for_server(self.patience):
            raise ClientError(f"action {name} does not answer; is its node running?")
        handle = _result(client.send_goal_async(goal, feedback), timeout, name)
        if not handle.accepted:
            raise ClientError(f"{name} rejected the goal; the log of its node says why")
        result = _result(handle.get_result_async(), timeout, name).result
        if not result.success:
            raise ClientError(f"{name}: {result.message}")
        return result

    def set(self, node: str, **values: Any) -> None:
        """Set parameters of a node."""
        wanted = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        response = self.call(SetParameters, f"{node}/set_parameters", parameters=wanted)
        for result in response.results:
            if not result.successful:
                raise ClientError(f"{node}: {result.reason}")

    def wait(self, done: Any, timeout: float, what: str) -> None:
        """Wait until done() is true."""
        until = time.monotonic() + timeout
        while not done():
            if time.monotonic() > until:
                raise ClientError(f"{what} took longer than {timeout:g} s")
            time.sleep(0.02)


def _result(future: Any, timeout: float, name: str) -> Any:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    if not done.wait(timeout):
        raise ClientError(f"{name} has not answered for {timeout:g} s")
    return future.result()


def start_ros() -> None:
    """Initialise rclpy for a client that handles signals itself."""
    rclpy.init(signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)


def end_ros() -> None:
    """Leave the graph, once nobody holds a node any more: otherwise files of the middleware stay in shared memory."""
    rclpy.try_shutdown()
    gc.collect()
    rclpy.get_default_context().destroy()
