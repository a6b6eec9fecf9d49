# SPDX-License-Identifier: Apache-2.0

"""The panel's web server: one page, a stream of states to every browser, and commands from the one that commands.

On aiohttp: states go out as server-sent events, commands come in as POST requests with the token in a header of its
own, which no other site can set. Whoever has no token can use up only what is set apart for those: some streams, and
connections of which the oldest is closed when there are too many.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from aiohttp import web

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
"""A wrong token is answered after this time [s]: nobody else waits."""
CLOSING_S = 5.0
"""Longest time [s] that closing takes."""
MAX_NAME_LENGTH = 64
"""Longest name that a tab may give itself."""

ACCESS_ACTIONS = {"take_over": "you command now", "alive": ""}
"""Actions that only change who commands, with their answers."""

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Act = Callable[[str, Mapping[str, object]], str]
"""Carries out an action and returns one line for the user, or raises DynidError."""


@dataclass(frozen=True)
class PanelCallbacks:
    """The node: robot(), plan() and obstacles() as JSON, "" if unknown; act(); commander_left(client); warn(line)."""

    robot: Callable[[], str]
    plan: Callable[[], str]
    act: Act
    commander_left: Callable[[str], None]
    warn: Callable[[str], object] = lambda _: None
    obstacles: Callable[[], str] = lambda: ""


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
    """Serves until closed; `publish` sends a state to every browser.

    One thread answers all connections and waits for none of them. Every action has a thread of its own, so that a stop
    never waits for another action.
    """

    def __init__(
        self, address: Address, access: PanelAccess, callbacks: PanelCallbacks, delay: float = WRONG_TOKEN_S
    ) -> None:
        """Listen at an address; wrong tokens are answered after `delay` [s]."""
        self.access, self.callbacks, self._delay = access, callbacks, delay
        self._names, self._tls = address.allowed(), address.tls()
        self._lock = threading.Lock()
        self._tabs: dict[str, int] = {}
        self._strangers: dict[object, socket.socket] = {}
        self._number, self._state = 0, b"{}"
        self._open = True
        self._page = document(
            "ros2_dynid panel",
            ("page.css", "panel.css"),
            ("viewer.js", "obstacles.js", "charts.js", "panel.js"),
            {},
            connect=True,
        )
        self._listener = socket.create_server((address.host, address.port), backlog=2 * MAX_CONNECTIONS)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self.url = f"{address.scheme}://{address.shown}:{self.port}/"
        self._news, self._end, ready = asyncio.Event(), asyncio.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), name="panel", daemon=True)
        self._thread.start()
        ready.wait()

    def close(self) -> None:
        """Stop serving."""
        self._open = False
        with suppress(RuntimeError):  # the loop has ended: closed already
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(CLOSING_S)

    @property
    def watched(self) -> int:
        """Number of open browser tabs."""
        with self._lock:
            return sum(self._tabs.values())

    def publish(self, state: Mapping[str, Plain]) -> None:
        """Send a state to every browser; a slow one skips to the newest."""
        data = json.dumps(state, allow_nan=False, separators=(",", ":")).encode()

        def tell() -> None:
            self._number, self._state = self._number + 1, data
            self._news.set()
            self._news = asyncio.Event()

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell)

    # --- connections

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        app = web.Application(middlewares=[self._refuse_foreign])
        app.add_routes([web.get("/", self._send_page), web.get("/robot", self._send_text)])
        app.add_routes([web.get("/plan", self._send_text), web.get("/obstacles", self._send_text)])
        app.add_routes([web.get("/events", self._send_events)])
        app.add_routes([web.post("/do", self._do)])
        app.on_response_prepare.append(_forbid_frames)
        quiet = logging.Logger("panel")  # of requests that are damaged
        quiet.addHandler(logging.NullHandler())
        runner = web.AppRunner(
            app, access_log=None, logger=quiet, keepalive_timeout=PATIENCE_S, lingering_time=0.0, shutdown_timeout=0.1
        )
        await runner.setup()
        accepting = asyncio.create_task(self._accept(runner))
        ready.set()
        await self._end.wait()
        accepting.cancel()
        self._listener.close()
        self._news.set()
        await runner.cleanup()

    async def _accept(self, runner: web.AppRunner) -> None:
        """Take every connection; close the oldest without the token if too many are open."""
        loop, handshakes = asyncio.get_running_loop(), set()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(0.1)  # no file descriptor is free
                continue
            self._strangers = {key: one for key, one in self._strangers.items() if one.fileno() >= 0}
            if len(self._strangers) >= MAX_CONNECTIONS:
                oldest = self._strangers.pop(next(iter(self._strangers)))
                with suppress(OSError):
                    socket.socket.shutdown(oldest, socket.SHUT_RDWR)
            self._strangers[peer] = connection
            task = asyncio.create_task(self._connect(runner, connection))
            handshakes.add(task)
            task.add_done_callback(handshakes.discard)

    async def _connect(self, runner: web.AppRunner, connection: socket.socket) -> None:
        """Serve a connection; a handshake of TLS may take long."""
        patience = None if self._tls is None else PATIENCE_S
        assert runner.server is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                runner.server, connection, ssl=self._tls, ssl_handshake_timeout=patience
            )
        except OSError:
            connection.close()

    def _trust(self, request: web.Request) -> None:
        """Never close this connection for others: the right token came on it."""
        if request.transport is not None:
            self._strangers.pop(request.transport.get_extra_info("peername"), None)

    # --- requests

    @web.middleware
    async def _refuse_foreign(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a request whose Host or Origin is not ours (DNS rebinding, foreign pages)."""
        host, origin = request.headers.get("Host", "").lower(), request.headers.get("Origin")
        name = host.rpartition(":")[0] if ":" in host else host
        here = () if request.transport is None else request.transport.get_extra_info("sockname")[:1]
        if not {host, name} & {*self._names, *here} or (origin and origin.lower().partition("://")[2] != host):
            return _closing(403, "this page is served under another name (parameter allowed_hosts)")
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return web.Response(status=404, text="there is no such page")

    async def _send_page(self, request: web.Request) -> web.Response:
        return web.Response(text=self._page, content_type="text/html")

    async def _send_text(self, request: web.Request) -> web.Response:
        callbacks = self.callbacks
        texts = {"/robot": callbacks.robot, "/plan": callbacks.plan, "/obstacles": callbacks.obstacles}
        text = texts[request.path]()
        return web.Response(status=200 if text else 404, text=text or "{}", content_type="application/json")

    async def _send_events(self, request: web.Request) -> web.StreamResponse:
        client = (request.query.get("client") or secrets.token_hex(8))[:MAX_NAME_LENGTH]
        token = request.headers.get("X-Dynid-Token")
        if token:
            try:
                self.access.check_token(token)
            except WrongTokenError as error:
                return await self._refuse_token(request, error)
            self._trust(request)
        else:
            client = ""
        if not self.join(client):
            return web.Response(status=503, text="too many browser tabs are open")
        try:
            stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            stream.force_close()
            await stream.prepare(request)
            await self._send_states(stream)
        except (OSError, asyncio.TimeoutError):
            pass  # the browser has gone
        finally:
            await _in_thread(lambda: self.part(client))
        return stream

    async def _send_states(self, stream: web.StreamResponse) -> None:
        """Send the newest state again and again, and each second without news that the panel is still there."""
        sent = 0
        while self._open:
            if self._number == sent:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._news.wait(), 1.0)
            line = b": still here\n\n" if self._number == sent else b"data: " + self._state + b"\n\n"
            sent = self._number
            await asyncio.wait_for(stream.write(line), PATIENCE_S)

    def join(self, client: str) -> bool:
        """Register a tab, "" one without the token; return False if too many of its kind are open."""
        with self._lock:
            viewers = self._tabs.get("", 0)
            count, most = (sum(self._tabs.values()) - viewers, MAX_BROWSER_TABS) if client else (viewers, MAX_VIEWERS)
            if count >= most:
                return False
            self._tabs[client] = self._tabs.get(client, 0) + 1
            return True

    def part(self, client: str) -> None:
        """Unregister a tab; tell the node if it commanded."""
        with self._lock:
            self._tabs[client] -= 1
            gone = not self._tabs[client]
            if gone:
                del self._tabs[client]
        if gone and self._open and self.access.leave(client):
            self.callbacks.commander_left(client)

    async def _do(self, request: web.Request) -> web.Response:
        if request.content_length is None or request.content_length > MAX_REQUEST_BYTES:
            return _closing(413, "the request is too long")
        try:
            body = await asyncio.wait_for(request.read(), PATIENCE_S)
        except asyncio.TimeoutError:
            return _closing(408, "the request has not come whole")
        token, client = (
            request.headers.get("X-Dynid-Token"),
            request.headers.get("X-Dynid-Client", "")[:MAX_NAME_LENGTH],
        )
        if token is None:
            return _answer(403, "the header X-Dynid-Token is missing")
        asked = _read_request(body)
        if asked is None:
            return _answer(400, "give JSON with an action")
        action = str(asked["action"])
        try:
            self.access.check(action, client, token)
        except WrongTokenError as error:
            return await self._refuse_token(request, error)
        except DynidError as error:
            return _answer(403, str(error))
        if action != "stop":
            self._trust(request)
        if action in ACCESS_ACTIONS:
            return _answer(200, ACCESS_ACTIONS[action])
        try:
            return _answer(200, await _in_thread(lambda: self.callbacks.act(action, asked)))
        except (DynidError, OSError) as error:
            return _answer(409, str(error))

    async def _refuse_token(self, request: web.Request, error: WrongTokenError) -> web.Response:
        """Answer a wrong token late, and warn of it, once in a while; nobody else waits."""
        if line := self.access.count_wrong_token(str(request.remote)):
            await _in_thread(lambda: self.callbacks.warn(line))
        await asyncio.sleep(self._delay)
        return _answer(403, str(error))


async def _in_thread(work: Callable[[], T]) -> T:
    """Return what work() returns in a thread of its own, which nothing waits for when the process ends."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        if not result.done():
            settled()

    def run() -> None:
        try:
            value = work()
            settled = partial(result.set_result, value)
        except Exception as error:
            settled = partial(result.set_exception, error)
        with suppress(RuntimeError):  # the server was closed meanwhile
            loop.call_soon_threadsafe(settle, settled)

    threading.Thread(target=run, name="panel_action", daemon=True).start()
    return await result


def _answer(status: int, line: str) -> web.Response:
    return web.json_response({"ok": status == 200, "line": one_line(line)}, status=status)


def _closing(status: int, line: str) -> web.Response:
    """Return an answer after which the connection is closed: what follows is no request."""
    response = _answer(status, line)
    response.force_close()
    return response


async def _forbid_frames(request: web.Request, response: web.StreamResponse) -> None:
    """Keep every answer out of caches and other pages."""
    response.headers.update(
        {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}
    )


def _read_request(body: bytes) -> Mapping[str, object] | None:
    """Return a request, None if it is no JSON object with an action."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) and isinstance(request.get("action"), str) else None
