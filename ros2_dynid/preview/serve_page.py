# SPDX-License-Identifier: Apache-2.0

"""Serve one page on localhost: for browsers that may not read the folder of a file."""

from __future__ import annotations

import http.server
import secrets
import webbrowser
from collections.abc import Callable


def serve_page(page: str, ready: Callable[[str], None], *, browser: bool = True) -> None:
    """Serve the page on 127.0.0.1 under an unguessable address, call ready(address), until interrupted."""
    data, path = page.encode(), f"/{secrets.token_urlsafe(12)}"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != path:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}{path}"
        ready(address)
        if browser:
            webbrowser.open(address)
        try:
            server.serve_forever(0.1)
        except KeyboardInterrupt:
            return
