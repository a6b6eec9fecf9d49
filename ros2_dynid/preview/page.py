# SPDX-License-Identifier: Apache-2.0

"""The page of a scene: one HTML file with its data, style and scripts inside, so that it plays from disk.

It is also served on localhost, for browsers that may not read the folder of a file.
"""

from __future__ import annotations

import http.server
import json
import secrets
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ros2_dynid.codec import Plain
from ros2_dynid.preview.packing import packed_scene
from ros2_dynid.preview.scene import Scene
from ros2_dynid.report.page import embedded, escape

HERE = Path(__file__).parent


def preview_page(scene: Scene) -> str:
    """Return the page that plays a scene."""
    title = f"{scene.appearance.name}: {scene.motion.kind} motion of {scene.motion.duration:.4g} s"
    return document(
        title,
        ("page.css", "preview.css"),
        ("viewer.js", "obstacles.js", "charts.js", "preview.js"),
        packed_scene(scene),
    )


def document(
    title: str, styles: Sequence[str], scripts: Sequence[str], data: Mapping[str, Plain], connect: bool = False
) -> str:
    """Return a page whose scripts find `data` in #data; only with `connect` may it talk to the server it came from."""
    style, script = ("\n".join(part(name) for name in names) for names in (styles, scripts))
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    if connect:
        policy += "; connect-src 'self'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<main id="app"></main>
<script type="application/json" id="data">{embedded(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def part(name: str) -> str:
    """Return a file of the page."""
    return (HERE / name).read_text(encoding="utf-8")


def as_json(data: Mapping[str, Plain]) -> str:
    """Return data as JSON, for the panel's stream."""
    return json.dumps(data, allow_nan=False, separators=(",", ":"))


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
