# SPDX-License-Identifier: Apache-2.0

"""All that we use of rclpy beyond its public interface, in one place, with the versions that it was written for.

A later rclpy may move these parts: then a node ends at its start with one line, instead of in the middle of its work.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rclpy.context import Context
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.impl.rcutils_logger import RcutilsLogger as Logger
from rclpy.lifecycle import LifecycleNode

from ros2_dynid.errors import DynidError

__all__ = ["Logger", "RclpyError", "Waiter", "check_rclpy", "state_label", "taken", "taken_with_time"]
WRITTEN_FOR = (7, 9)
"""First and last major version: that of Jazzy and that of Kilted."""


class RclpyError(DynidError):
    """This rclpy lacks a part that we need."""


def rclpy_version() -> str:
    """Return the version of rclpy that is installed; nothing ("") if it does not say."""
    for name in ("rclpy", "ros-rclpy"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""


def check_rclpy(version: str | None = None) -> str:
    """Return a warning about a version (that installed) which is not known ("": none); raise if it lacks a part."""
    version = rclpy_version() if version is None else version
    parts = {
        "WaitSet": hasattr(_rclpy, "WaitSet"),
        "GuardCondition": hasattr(_rclpy, "GuardCondition"),
        "Subscription.take_message": hasattr(getattr(_rclpy, "Subscription", None), "take_message"),
    }
    for name, there in parts.items():
        if not there:
            raise RclpyError(f"rclpy {version} has no {name}; use ROS 2 Jazzy or Kilted, or a newer ros2_dynid")
    major = version.split(".")[0]
    if major.isdigit() and not WRITTEN_FOR[0] <= int(major) <= WRITTEN_FOR[1]:
        return f"rclpy {version} is not one of those that this was written for, {WRITTEN_FOR[0]} to {WRITTEN_FOR[1]}"
    return ""


def state_label(node: LifecycleNode) -> str:
    """Return the label of a managed node's state: unconfigured, inactive, active or finalized."""
    return str(node._state_machine.current_state[1])


class Waiter:
    """Lets one thread wait for the messages of a subscription, and be woken by others.

    An executor rebuilds its list of everything the node has for every message; this waits for one thing.
    """

    def __init__(self, context: Context) -> None:
        """Wait in a context."""
        assert context.handle is not None
        self._guard = _rclpy.GuardCondition(context.handle)
        self._waiting = _rclpy.WaitSet(1, 1, 0, 0, 0, 0, context.handle)

    def wait(self, subscription: Any, seconds: float) -> None:
        """Return when a message has come (subscription None: of nobody), after wake(), or after some time [s]."""
        self._waiting.clear_entities()
        self._waiting.add_guard_condition(self._guard)
        if subscription is not None:
            self._waiting.add_subscription(subscription.handle)
        self._waiting.wait(max(0, int(1e9 * seconds)))

    def wake(self) -> None:
        """Wake the thread that waits; from any thread."""
        self._guard.trigger_guard_condition()


def taken(subscription: Any) -> bytes | None:
    """Return the next serialized message that a raw subscription holds, or None."""
    message = taken_with_time(subscription)
    return None if message is None else message[0]


def taken_with_time(subscription: Any) -> tuple[bytes, float] | None:
    """Return the next serialized message that a raw subscription holds and when [s] it was sent, or None."""
    message = subscription.handle.take_message(subscription.msg_type, True)
    return None if message is None else (message[0], 1e-9 * message[1]["source_timestamp"])
