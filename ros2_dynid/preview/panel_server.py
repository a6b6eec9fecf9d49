# SPDX-License-Identifier: Apache-2.0

"""The panel's web server: one page, a stream of states to every browser, and commands from the one that commands.

Only Python's own HTTP server: states go out as server-sent events, commands come in as POST requests with the
token in a header of its own, which no other site can set.
"""

from __future__ import annotations

import http.server
import json
import secrets
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from ros2_dynid.codec import Plain
from ros2_dynid.errors import DynidError, one_line
from ros2_dynid.preview.page import document
from ros2_dynid.preview.panel_rules import PanelAccess

MAX_REQUEST_BYTES = 20_000
"""Longest command [bytes]."""
MAX_BROWSER_TABS = 16
"""Browser tabs served at once."""
MAX_NAME_LENGTH = 64
"""Longest name that a tab may give itself."""

ACCESS_ACTIONS = {"take_over": "you command now", "alive": ""}
"""Actions that only change who commands, with their answers."""

Act = Callable[[str, Mapping[str, object]], str]
"""Carries out an action and returns one line for the user, or raises DynidError."""


@dataclass(frozen=True)
class PanelCallbacks:
    """The node's side: robot() and plan() as JSON ("" if unknown), act(), and commander_left(client)."""

    robot: Callable[[], str]
    plan: Callable[[], str]
    act: Act
    commander_left: Callable[[str], None]


class PanelServer:
    """Serves until closed; `publish` sends a state to every browser."""

    def __init__(self, host: str, port: int, access: PanelAccess, callbacks: PanelCallbacks) -> None:
        """Listen at host and port (0: any that is free)."""
        self.access, self.callbacks = access, callbacks
        self._news = threading.Condition()
        self._number, self._state = 0, b"{}"
        self._streams: dict[str, int] = {}
        self._open = True
        page = document(
            "ros2_dynid panel", ("page.css", "panel.css"), ("viewer.js", "charts.js", "panel.js"), {}, connect=True
        )
        self.page = page.encode()
        panel = self

        class Handler(_Handler):
            owner = panel

        self._server = _Server((host, port), Handler)
        self.port = self._server.server_port
        self.hosts = _names(host, self.port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="panel", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        with self._news:
            self._open = False
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()

    @property
    def watched(self) -> int:
        """Number of open browser tabs."""
        return sum(self._streams.values())

    def publish(self, state: Mapping[str, Plain]) -> None:
        """Send a state to every browser; a slow one skips to the newest."""
        data = json.dumps(state, allow_nan=False, separators=(",", ":")).encode()
        with self._news:
            self._number, self._state = self._number + 1, data
            self._news.notify_all()

    # --- used by the handlers

    def join(self, client: str) -> bool:
        """Register a tab; return False if too many are open."""
        with self._news:
            if sum(self._streams.values()) >= MAX_BROWSER_TABS:
                return False
            self._streams[client] = self._streams.get(client, 0) + 1
            return True

    def part(self, client: str) -> None:
        """Unregister a tab; tell the node if it commanded."""
        with self._news:
            remaining = self._streams.get(client, 1) - 1
            self._streams[client] = remaining
            if remaining <= 0:
                del self._streams[client]
            open_still = self._open
        if remaining <= 0 and open_still and self.access.leave(client):
            self.callbacks.commander_left(client)

    def next_state(self, number: int, patience: float) -> tuple[int, bytes] | None:
        """Return the newest state after `number`, b"" if none comes in `patience` [s]; None when the server closes."""
        with self._news:
            self._news.wait_for(lambda: self._number > number or not self._open, patience)
            if not self._open:
                return None
            return (self._number, self._state) if self._number > number else (number, b"")


def _names(host: str, port: int) -> frozenset[str] | None:
    """Return the allowed Host headers, against DNS rebinding; None when listening on every address."""
    if host in ("0.0.0.0", "::", ""):
        return None
    return frozenset({f"{name}:{port}" for name in (host, "localhost", "127.0.0.1")})


class _Server(http.server.ThreadingHTTPServer):
    """Its threads end with the process; a browser that disconnects is no error."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not log broken connections."""
        if not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc()


class _Handler(http.server.BaseHTTPRequestHandler):
    owner: PanelServer
    protocol_version = "HTTP/1.1"
    timeout = 20.0

    def do_GET(self) -> None:
        if not self._welcome():
            return
        where = urlsplit(self.path)
        if where.path == "/":
            self._send(200, "text/html; charset=utf-8", self.owner.page)
        elif where.path in ("/robot", "/plan"):
            text = (self.owner.callbacks.robot if where.path == "/robot" else self.owner.callbacks.plan)()
            self._send(200 if text else 404, "application/json", text.encode() or b"{}")
        elif where.path == "/events":
            self._events((parse_qs(where.query).get("client") or [""])[0][:MAX_NAME_LENGTH] or secrets.token_hex(8))
        else:
            self._send(404, "text/plain", b"there is no such page")

    def do_POST(self) -> None:
        if not self._welcome():
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_REQUEST_BYTES:
            self.close_connection = True
            self._answer(413, "the request is too long")
            return
        body = self.rfile.read(int(length))
        token, client = self.headers.get("X-Dynid-Token"), (self.headers.get("X-Dynid-Client") or "")[:MAX_NAME_LENGTH]
        if token is None or urlsplit(self.path).path != "/do":
            self._answer(403, "the header X-Dynid-Token is missing")
            return
        try:
            request = json.loads(body)
            action = request["action"]
            if not isinstance(request, dict) or not isinstance(action, str):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            self._answer(400, "give JSON with an action")
            return
        try:
            self.owner.access.check(action, client, token)
        except DynidError as error:
            self._answer(403, str(error))
            return
        if action in ACCESS_ACTIONS:
            self._answer(200, ACCESS_ACTIONS[action])
            return
        try:
            self._answer(200, self.owner.callbacks.act(action, request))
        except (DynidError, OSError) as error:
            self._answer(409, str(error))

    def _events(self, client: str) -> None:
        if not self.owner.join(client):
            self._send(503, "text/plain", b"too many browser tabs are open")
            return
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            number = 0
            while (news := self.owner.next_state(number, 1.0)) is not None:
                number, state = news
                self.wfile.write(b"data: " + state + b"\n\n" if state else b": still here\n\n")
                self.wfile.flush()
        except (OSError, ValueError):
            pass  # the browser has gone
        finally:
            self.close_connection = True
            self.owner.part(client)

    def _welcome(self) -> bool:
        """Refuse a request whose Host or Origin is not ours (DNS rebinding, foreign pages)."""
        hosts, host = self.owner.hosts, (self.headers.get("Host") or "").lower()
        origin = self.headers.get("Origin")
        foreign = (hosts is not None and host not in hosts) or (origin is not None and urlsplit(origin).netloc != host)
        if foreign:
            self.close_connection = True
            self._send(403, "text/plain", b"this page is served under another name")
        return not foreign

    def _answer(self, status: int, line: str) -> None:
        self._send(status, "application/json", json.dumps({"ok": status == 200, "line": one_line(line)}).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keep requests out of the node's log."""
