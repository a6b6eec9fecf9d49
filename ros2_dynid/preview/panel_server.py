# SPDX-License-Identifier: Apache-2.0

"""The panel's web server: one page, a stream of states to every browser, and commands from the one that commands.

Only Python's own HTTP server: states go out as server-sent events, commands come in as POST requests with the
token in a header of its own, which no other site can set. Whoever has no token can use up only what is set apart for
those: some streams, and connections of which the oldest is closed when there are too many.
"""

from __future__ import annotations

import http.server
import json
import secrets
import socket
import ssl
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ros2_dynid.codec import Plain
from ros2_dynid.errors import DynidError, InputError, one_line
from ros2_dynid.preview.page import document
from ros2_dynid.preview.panel_rules import PanelAccess, WrongTokenError

MAX_REQUEST_BYTES = 20_000
"""Longest command [bytes]."""
MAX_BROWSER_TABS = 16
"""Browser tabs with the token that are served at once."""
MAX_VIEWERS = 4
"""Browser tabs without the token that are served at once."""
MAX_CONNECTIONS = 64
"""Connections at once on which no right token has come; one more closes the oldest of them."""
PATIENCE_S = 20.0
"""A connection that is silent for this long [s] is closed."""
WRONG_TOKEN_S = 1.0
"""A wrong token is answered after this time [s], on a thread of its own: nobody else waits."""
MAX_NAME_LENGTH = 64
"""Longest name that a tab may give itself."""

ACCESS_ACTIONS = {"take_over": "you command now", "alive": ""}
"""Actions that only change who commands, with their answers."""

Act = Callable[[str, Mapping[str, object]], str]
"""Carries out an action and returns one line for the user, or raises DynidError."""


@dataclass(frozen=True)
class PanelCallbacks:
    """The node's side: robot() and plan() as JSON ("" if unknown), act(), commander_left(client), warn(line)."""

    robot: Callable[[], str]
    plan: Callable[[], str]
    act: Act
    commander_left: Callable[[str], None]
    warn: Callable[[str], object] = lambda _: None


@dataclass(frozen=True)
class Address:
    """Where the panel listens: host, port (0: any that is free), further names of this computer, files of TLS.

    names: Host headers that are allowed beside localhost, `host` and the address that a connection came to; one
    without a port is allowed with every port.
    """

    host: str
    port: int = 0
    names: Collection[str] = ()
    certificate: str = ""
    key: str = ""

    def allowed(self) -> frozenset[str]:
        """Return the names that requests may be addressed to."""
        return frozenset(name.lower() for name in (self.shown, "localhost", self.host, *self.names) if name)

    @property
    def shown(self) -> str:
        """The name that a browser is to open."""
        return socket.gethostname() if self.host in ("0.0.0.0", "") else self.host

    @property
    def scheme(self) -> str:
        """http or https."""
        return "https" if self.certificate else "http"

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of TLS, None without a certificate."""
        if not self.certificate and not self.key:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(
                Path(self.certificate).expanduser(), Path(self.key or self.certificate).expanduser()
            )
        except OSError as error:
            what = f"certificate {self.certificate or '(none)'} and key {self.key or '(none)'} cannot be used ({error})"
            raise InputError(what, "give a PEM file of each") from None
        return context


class PanelServer:
    """Serves until closed; `publish` sends a state to every browser."""

    def __init__(
        self, address: Address, access: PanelAccess, callbacks: PanelCallbacks, delay: float = WRONG_TOKEN_S
    ) -> None:
        """Listen at an address; wrong tokens are answered after `delay` [s]."""
        self.access, self.callbacks, self._delay = access, callbacks, delay
        self.names = address.allowed()
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

        self._server = _Server((address.host, address.port), Handler, address.tls())
        self.port = self._server.server_port
        self.url = f"{address.scheme}://{address.shown}:{self.port}/"
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
        """Register a tab, "" one without the token; return False if too many of its kind are open."""
        with self._news:
            viewers = self._streams.get("", 0)
            count, most = (self.watched - viewers, MAX_BROWSER_TABS) if client else (viewers, MAX_VIEWERS)
            if count >= most:
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

    def trust(self, connection: tuple[str, int]) -> None:
        """Never close this connection for others: the right token came on it."""
        self._server.trust(connection)

    def delay_wrong_token(self, connection: tuple[str, int]) -> None:
        """Wait before a wrong token is answered; warn of it, once in a while."""
        if line := self.access.count_wrong_token(connection[0]):
            self.callbacks.warn(line)
        with self._news:
            self._news.wait_for(lambda: not self._open, self._delay)

    def next_state(self, number: int, patience: float) -> tuple[int, bytes] | None:
        """Return the newest state after `number`, b"" if none comes in `patience` [s]; None when the server closes."""
        with self._news:
            self._news.wait_for(lambda: self._number > number or not self._open, patience)
            if not self._open:
                return None
            return (self._number, self._state) if self._number > number else (number, b"")


class _Server(http.server.ThreadingHTTPServer):
    """Its threads end with the process; a browser that disconnects is no error."""

    daemon_threads = True
    request_queue_size = 2 * MAX_CONNECTIONS  # with fewer, one that comes among many waits seconds for its next try

    def __init__(self, address: tuple[str, int], handler: type[_Handler], tls: ssl.SSLContext | None) -> None:
        super().__init__(address, handler)
        self._tls = tls
        self._lock = threading.Lock()
        self._strangers: dict[tuple[str, int], socket.socket] = {}

    def trust(self, connection: tuple[str, int]) -> None:
        """Count a connection no longer among those without the token."""
        with self._lock:
            self._strangers.pop(connection, None)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread of its own; close the oldest if too many are open."""
        with self._lock:
            if len(self._strangers) >= MAX_CONNECTIONS:
                oldest = self._strangers.pop(next(iter(self._strangers)))
                with suppress(OSError):
                    socket.socket.shutdown(oldest, socket.SHUT_RDWR)
            self._strangers[client_address] = request
        super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end; TLS begins here, on its own thread: a handshake may take long."""
        try:
            if self._tls is None:
                super().finish_request(request, client_address)
                return
            request.settimeout(PATIENCE_S)
            with self._tls.wrap_socket(request, server_side=True) as secure:
                with self._lock:
                    if client_address in self._strangers:
                        self._strangers[client_address] = secure
                super().finish_request(secure, client_address)
        finally:
            self.trust(client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not log broken connections."""
        if not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc()


class _Handler(http.server.BaseHTTPRequestHandler):
    owner: PanelServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        if self._foreign():
            return
        path, _, query = self.path.partition("?")
        if path == "/":
            self._send(200, "text/html; charset=utf-8", self.owner.page)
        elif path in ("/robot", "/plan"):
            text = (self.owner.callbacks.robot if path == "/robot" else self.owner.callbacks.plan)()
            self._send(200 if text else 404, "application/json", text.encode() or b"{}")
        elif path == "/events":
            self._serve_events((parse_qs(query).get("client") or [""])[0][:MAX_NAME_LENGTH] or secrets.token_hex(8))
        else:
            self._send(404, "text/plain", b"there is no such page")

    def do_POST(self) -> None:
        if self._foreign():
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()) or len(length) > 9 or int(length) > MAX_REQUEST_BYTES:
            self.close_connection = True
            self._answer(413, "the request is too long")
            return
        body = self.rfile.read(int(length))
        token, client = self.headers.get("X-Dynid-Token"), (self.headers.get("X-Dynid-Client") or "")[:MAX_NAME_LENGTH]
        if token is None or self.path != "/do":
            self._answer(403, "the header X-Dynid-Token is missing")
            return
        request = _read_request(body)
        if request is None:
            self._answer(400, "give JSON with an action")
            return
        action = str(request["action"])
        try:
            self.owner.access.check(action, client, token)
            if action != "stop":
                self.owner.trust(self.client_address)
            if action in ACCESS_ACTIONS:
                self._answer(200, ACCESS_ACTIONS[action])
                return
        except WrongTokenError as error:
            self._refuse_token(error)
            return
        except DynidError as error:
            self._answer(403, str(error))
            return
        try:
            self._answer(200, self.owner.callbacks.act(action, request))
        except (DynidError, OSError) as error:
            self._answer(409, str(error))

    def _serve_events(self, client: str) -> None:
        token = self.headers.get("X-Dynid-Token") or ""
        if token:
            try:
                self.owner.access.check_token(token)
            except WrongTokenError as error:
                self._refuse_token(error)
                return
            self.owner.trust(self.client_address)
        else:
            client = ""
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

    def _refuse_token(self, error: WrongTokenError) -> None:
        self.owner.delay_wrong_token(self.client_address)
        self._answer(403, str(error))

    def _foreign(self) -> bool:
        """Refuse a request whose Host or Origin is not ours (DNS rebinding, foreign pages)."""
        host, origin = (self.headers.get("Host") or "").lower(), self.headers.get("Origin")
        name = host.rpartition(":")[0] if ":" in host else host
        ours = {host, name} & (self.owner.names | {self.connection.getsockname()[0]})
        foreign = not ours or (origin is not None and origin.lower().partition("://")[2] != host)
        if foreign:
            self.close_connection = True
            self._send(403, "text/plain", b"this page is served under another name (parameter allowed_hosts)")
        return foreign

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


def _read_request(body: bytes) -> Mapping[str, object] | None:
    """Return a request, None if it is no JSON object with an action."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) and isinstance(request.get("action"), str) else None
