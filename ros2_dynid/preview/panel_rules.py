# SPDX-License-Identifier: Apache-2.0

"""The panel's rules: which browser may command, and which buttons are disabled and why.

The robot's safety does not depend on them: every node checks each request itself.
"""

from __future__ import annotations

import hmac
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ros2_dynid.errors import InputError

SILENT_S = 2.0
"""The commanding browser counts as disconnected after this long without a sign of life [s]; it sends two a second."""
PASSED = "passed"
"""How the verdict on a rehearsal begins that unlocks the fast motion."""
WARN_EVERY_S = 10.0
"""Wrong tokens are told of at most this often [s]."""


class WrongTokenError(InputError):
    """The token is not the panel's."""


@dataclass(frozen=True)
class Situation:
    """What the panel knows: nodes that answer, and what is running.

    moving: whether the excitation moves the robot; pausable, paused, jogging: what kind of motion it is; plan: number
    of the plan on display, 0 for none; rehearsal: the excitation's verdict on its rehearsal, "" without one; stop_set:
    the stop of the suite is set.
    """

    nodes: frozenset[str] = frozenset()
    moving: bool = False
    plan: int = 0
    rehearsal: str = ""
    planning: bool = False
    recording: bool = False
    recorded: str = ""
    identifying: bool = False
    loading: bool = False
    stop_set: bool = False
    pausable: bool = False
    paused: bool = False
    jogging: bool = False


def refusals(now: Situation) -> Mapping[str, str]:
    """Return why each button is disabled, "" where it is enabled."""

    def first(*reasons: tuple[bool, str]) -> str:
        return next((text for applies, text in reasons if applies), "")

    def unavailable(node: str) -> tuple[bool, str]:
        return node not in now.nodes, f"the node {node} does not answer"

    moving, planning = (now.moving, "the robot moves"), (now.planning, "a plan is being made")
    no_plan = (not now.plan, "there is no plan yet")
    held = (now.stop_set, "the stop is set: release it")
    busy = (now.identifying or now.loading, "an identification is under way")
    return {
        "plan": first(unavailable("excitation"), moving, planning),
        "set_obstacles": first(unavailable("excitation"), moving, planning),
        "rehearse": first(unavailable("excitation"), held, no_plan, moving, planning),
        "start": first(unavailable("excitation"), held, no_plan, moving, planning),
        "pause": first(unavailable("excitation"), (not now.pausable, "no motion is under way that could be paused")),
        "resume": first(unavailable("excitation"), held, (not now.paused, "no motion is paused")),
        "jog": first(unavailable("excitation"), held, (now.moving and not now.jogging, "the robot moves")),
        "let_go": "",
        "stop": "",
        "release": first((not now.stop_set, "the stop is not set")),
        "record": first(unavailable("recorder"), (now.recording, "a recording is under way")),
        "end_recording": first(unavailable("recorder"), (not now.recording, "nothing is being recorded")),
        "identify": first(unavailable("identification"), busy, (not now.recorded, "there is no recording yet")),
        "cancel": first((not now.identifying, "no identification is under way")),
        "load_model": first(unavailable("identification"), busy, moving),
        "payload": first(unavailable("feedforward")),
    }


@dataclass
class PanelAccess:
    """The token, and the one browser tab that commands; each tab names itself."""

    token: str
    commander: str = ""
    _heard: float = 0.0
    _wrong_tokens: int = 0
    _warned: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, action: str, client: str, token: str) -> None:
        """Refuse an action of a tab that has the wrong token, or that does not command.

        Anybody may stop, without a token and without taking over. Of "alive" signs only the commander's count.
        """
        if action == "stop":
            return
        self.check_token(token)
        with self._lock:
            if action == "alive":
                if self.commander == client:
                    self._heard = time.monotonic()
                return
            if action == "take_over" or not self.commander:
                self.commander = client
            if self.commander == client:
                self._heard = time.monotonic()
            else:
                raise InputError("another browser commands", "take over first")

    def check_token(self, token: str) -> None:
        """Refuse a wrong token."""
        if not hmac.compare_digest(token.encode(errors="surrogateescape"), self.token.encode()):
            raise WrongTokenError("wrong token", "enter the token that the panel node printed when it started")

    def count_wrong_token(self, sender: str) -> str:
        """Count a wrong token that came from an address; return a line to warn with, "" if the last is not long ago."""
        with self._lock:
            self._wrong_tokens += 1
            now = time.monotonic()
            if now - self._warned < WARN_EVERY_S:
                return ""
            count, self._wrong_tokens, self._warned = self._wrong_tokens, 0, now
        tokens = "a wrong token was" if count == 1 else f"{count} wrong tokens were"
        return f"{tokens} given to the panel, the last from {sender}"

    def silent(self) -> str:
        """Return the tab that commands if it has given no sign of life for SILENT_S, else ""."""
        with self._lock:
            return self.commander if time.monotonic() - self._heard > SILENT_S else ""

    def leave(self, client: str) -> bool:
        """Remove a closed tab; return whether it commanded."""
        with self._lock:
            if not client or client != self.commander:
                return False
            self.commander = ""
            return True


def check_rehearsed(now: Situation, anyway: bool) -> None:
    """Refuse to start a plan whose rehearsal was not passed, unless `anyway`."""
    if not now.rehearsal.startswith(PASSED) and not anyway:
        what = f"the rehearsal was not passed: {now.rehearsal}" if now.rehearsal else "this plan has not been rehearsed"
        raise InputError(what, "rehearse it first, or start it anyway")
