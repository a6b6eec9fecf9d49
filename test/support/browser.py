# SPDX-License-Identifier: Apache-2.0

"""A real browser for tests of pages: Chromium, driven by Playwright; tests are skipped where one is missing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ros2_dynid.preview.chromium import find_chromium, sandbox


def need_browser() -> None:
    """Skip the test where no browser can be driven, and say what is missing."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (pip install playwright)")
    if find_chromium() is None:
        pytest.skip("Chromium is not installed (Debian: apt install chromium)")


@contextmanager
def browser() -> Iterator[Any]:
    """Yield a browser that draws WebGL in software; nodes that run beside it come first."""
    need_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        polite = Path(folder) / "chromium"
        polite.write_text(f'#!/bin/sh\nexec nice -n 5 "{find_chromium()}" "$@"\n')
        polite.chmod(0o755)
        started = playwright.chromium.launch(
            executable_path=polite,
            args=["--use-angle=swiftshader", "--enable-unsafe-swiftshader", *sandbox()],
        )
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(started: Any, address: str, allowed: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yield the page at an address; errors of its scripts and of its console fail the test, but for those `allowed`."""
    page = started.new_page(viewport={"width": 1280, "height": 800})
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    try:
        page.goto(address)
        yield page
        known = ("GPU stall", *allowed)  # reading pixels back is our own doing
        assert not [text for text in wrong if not any(part in text for part in known)]
    finally:
        page.close()


def sideways(page: Any) -> float:
    """Return how far the page sticks out sideways [pixels]."""
    return float(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def until(page: Any, script: str, seconds: float = 30.0) -> Any:
    """Return the first value of a script that is true; the page's own policy forbids Playwright's way of waiting."""
    end = time.monotonic() + seconds
    while not (value := page.evaluate(script)):
        assert time.monotonic() < end, f"{script} has not come true in {seconds:g} s"
        page.wait_for_timeout(30)
    return value
